"""What an app's program holds about how it was built: read from its bytes, without starting it."""

from __future__ import annotations

import mmap
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocenv.kernels.installation import Installation

_PIECE = 8  # bytes that an instruction carries
_NEAR = 96  # between the pieces of one text


class Program:
    """The bytes of a program.

    Args:
        path: None, or a file that cannot be read, holds nothing that is known.
    """

    def __init__(self, path: Path | None) -> None:
        self._bytes: mmap.mmap | bytes = b""
        if path is not None:
            try:
                with path.open("rb") as file:
                    self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except (OSError, ValueError):  # ValueError: it is empty
                pass

    @property
    def known(self) -> bool:
        """There are bytes to look at: what they do not hold, the program has not."""
        return len(self._bytes) > 0

    def holds(self, text: str) -> bool:
        """Tell whether it has a text, also one that its compiler made into pieces of instructions."""
        wanted = text.encode()
        if self._bytes.find(wanted) >= 0:
            return True
        if len(wanted) < _PIECE:
            return False
        first, last = wanted[:_PIECE], wanted[-_PIECE:]
        at = self._bytes.find(first)
        while at >= 0:
            if last in self._bytes[at : at + _NEAR]:
                return True
            at = self._bytes.find(first, at + 1)
        return False

    def text(self, pattern: str) -> str | None:
        """Return the whole text, from zero byte to zero byte, that a pattern matches."""
        found = re.search(rb"\x00(" + pattern.encode() + rb")\x00", self._bytes)
        return found[1].decode("ascii", "replace") if found else None


def program_of(installation: Installation) -> Program:
    """Return the bytes of an app's program; where a script starts it, of the one behind that."""
    path = installation.program
    if path is not None and _is_script(path):
        name = path.name
        found = (installation.root / each for each in installation.row.programs if Path(each).name == name)
        path = next((each for each in found if each.is_file() and not _is_script(each)), None)
    return Program(path)


def _is_script(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False
