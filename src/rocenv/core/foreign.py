"""Read untrusted files: regular files only, with limits on size and JSON nesting."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from typing import TYPE_CHECKING, Any

from rocenv.core.errors import DataError

if TYPE_CHECKING:
    from io import BufferedReader
    from pathlib import Path

MAX_BYTES = 64 << 20
_DEEPEST = 64
# Also matches whole strings, so that brackets in them are ignored.
_BRACKET = re.compile(r'"(?:[^"\\]+|\\.)*(?:"|\\?\Z)|([\[{])|[\]}]', re.DOTALL)


def open_regular(path: Path | str) -> BufferedReader:
    """Open a regular file, or a link to one, for reading; raise OSError for anything else.

    Pipes and devices are never opened, because that can block or wake the process at the other end.
    """
    if stat.S_ISREG(os.stat(path).st_mode):
        stream = open(path, "rb", opener=_without_waiting)  # noqa: SIM115 -- the caller closes it
        if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            return stream
        stream.close()  # the file was replaced after the check
    raise OSError(errno.EINVAL, "not a regular file", str(path))


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_file(path: Path | str, max_bytes: int = MAX_BYTES) -> bytes:
    """Read a regular file; raise OSError if that fails or the file exceeds `max_bytes`."""
    with open_regular(path) as stream:
        content = stream.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(errno.EOVERFLOW, f"larger than {max_bytes:,} bytes", str(path))
    return content


def load_json(path: Path, max_bytes: int = MAX_BYTES) -> Any:
    """Parse a JSON file; raise OSError like `read_file`, and DataError like `parse_json`."""
    return parse_json(read_file(path, max_bytes), str(path))


def parse_json(text: str | bytes, where: str) -> Any:
    """Parse JSON.

    Raises:
        DataError: The text is invalid JSON or more than 64 levels deep; the message includes `where`.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode(json.detect_encoding(text))
        if text.count("[") + text.count("{") > _DEEPEST:
            _require_shallow(text)
        return json.loads(text)
    except ValueError as error:
        raise DataError(f"`{where}` is not valid JSON: {error}") from error


def _require_shallow(text: str) -> None:
    # Check before parsing, because the garbage collector can interrupt a parser near the recursion limit.
    depth = 0
    for found in _BRACKET.finditer(text):
        if found[1]:
            depth += 1
            if depth > _DEEPEST:
                raise ValueError("it is nested too deeply")
        elif found[0] in "]}":
            depth -= 1
