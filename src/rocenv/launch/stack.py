"""The stack that Python prints when a fault meets it, in what an app printed last.

It also prints one for faults that are then dealt with, as ctypes does with an access violation while a
library is loaded. So only the last one says where a program ended, and only one at the very end that it did.

Source: faulthandler of Python 3.8 to 3.14
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEADER = ("Fatal Python error:", "Windows fatal exception:")
_FRAME = re.compile(r'File "(.+)", line ([0-9]+) in (\S+)')
_OTHER = re.compile(
    r'  File "|  <|  \.\.\.|  Binary file "|Current thread|Thread 0x|Stack \(|Extension modules:|<'
)
_LAST_WORDS = 5  # lines that a batch file may print after it: "Press any key to continue . . ."


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """The last stack of a fault."""

    frame: str  # the innermost, in words; "" = there is none
    is_end: bool  # next to nothing follows it


def last_stack(lines: Sequence[str]) -> Stack | None:
    """Return the last stack of a fault in some output, None where it holds none."""
    headers = [number for number, line in enumerate(lines) if line.startswith(_HEADER)]
    if not headers:
        return None
    below = [line for line in lines[headers[-1] + 1 :] if line.strip()]
    frame = next((found for line in below if (found := _FRAME.search(line))), None)
    return Stack(
        frame=f"{frame[3]}, `{frame[1]}` line {frame[2]}" if frame else "",
        is_end=sum(not _OTHER.match(line) for line in below) <= _LAST_WORDS,
    )
