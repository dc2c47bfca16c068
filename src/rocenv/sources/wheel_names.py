"""What the file name of a wheel says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocenv.sources.interpreter import Interpreter


def wheel_file_name(url: str) -> str:
    """Return the file name of the wheel at `url`, a plain one even where the address hides slashes in it."""
    return re.split(r"[/\\:]", unquote(url.partition("#")[0]))[-1]


def ranks(python: Interpreter) -> Callable[[str], int]:
    """Return what tells, of a wheel's file name, how specific it is to this machine; lower is better."""
    from packaging.tags import compatible_tags, cpython_tags, platform_tags
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    platforms = list(platform_tags())
    major, minor = map(int, python.series.split("."))
    interpreter = f"cp{major}{minor}"
    abi = interpreter + ("t" if python.free_threaded else "")
    tags = [
        *cpython_tags((major, minor), abis=[abi], platforms=platforms),
        *compatible_tags((major, minor), interpreter, platforms),
    ]
    order = {tag: position for position, tag in enumerate(tags)}

    def rank(file_name: str) -> int:
        try:
            return min(order.get(tag, len(order)) for tag in parse_wheel_filename(file_name)[3])
        except InvalidWheelFilename:
            return len(order)

    return rank
