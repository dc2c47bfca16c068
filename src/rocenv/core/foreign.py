"""Read what somebody else may have written: regular files only, up to a size, and JSON up to a depth."""

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

MOST_BYTES = 64 << 20
_DEEPEST = 64
_BRACKET = re.compile(r'"(?:[^"\\]+|\\.)*(?:"|\\?\Z)|([\[{])|[\]}]', re.DOTALL)  # or a string, to its end


def open_regular(path: Path | str) -> BufferedReader:
    """Open a regular file, or a link to one, for reading; raise OSError for anything else.

    A pipe or a device is not opened: that could wait for ever, or be noticed at the other end.
    """
    if stat.S_ISREG(os.stat(path).st_mode):
        stream = open(path, "rb", opener=_without_waiting)  # noqa: SIM115 -- it is returned
        if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            return stream
        stream.close()  # it was replaced in between
    raise OSError(errno.EINVAL, "not a regular file", str(path))


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_file(path: Path | str, most_bytes: int = MOST_BYTES) -> bytes:
    """Read a regular file; raise OSError where that fails, or where it has more than `most_bytes`."""
    with open_regular(path) as stream:
        content = stream.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EOVERFLOW, f"it has more than {most_bytes:,} bytes", str(path))
    return content


def load_json(path: Path, most_bytes: int = MOST_BYTES) -> Any:
    """Parse a JSON file; raise DataError as `parse_json` does, and OSError as `read_file` does."""
    return parse_json(read_file(path, most_bytes), str(path))


def parse_json(text: str | bytes, where: str) -> Any:
    """Parse JSON.

    Raises:
        DataError: It is not valid JSON, or nested more than 64 deep; names `where`.
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
    # Before parsing: a parser at the limit of recursion can be interrupted by the garbage collector there.
    depth = 0
    for found in _BRACKET.finditer(text):
        if found[1]:
            depth += 1
            if depth > _DEEPEST:
                raise ValueError("its values are nested too deeply")
        elif found[0] in "]}":
            depth -= 1
