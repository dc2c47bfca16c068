"""Words of a machine as they may stand in commands that people paste into a shell."""

from __future__ import annotations

import re
import shlex
from functools import partial
from typing import TYPE_CHECKING

from rocenv.diagnose.texts import plain_word

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST = 199  # what is longer may have been cut
# What `"` of cmd and of PowerShell alike keeps together, and neither takes for anything else.
_QUOTABLE = re.compile(r"[\w .:+,/\\@=()~-]+")
_OWN = re.compile(r"rocenv create( [\w.:+,/\\@=-]+)+")


def typing(platform: str, *, strange: bool) -> Callable[[str], str]:
    """Return what writes a value as a word of the platform's shells, "" where it may not stand there.

    Args:
        platform: `linux` or `windows`.
        strange: The values are what somebody else has sent: only plain words, and blanks between them.
    """
    return partial(_typed, platform=platform, strange=strange)


def _typed(value: str, *, platform: str, strange: bool) -> str:
    if word := plain_word(value):
        return word
    if not 0 < len(value) <= _LONGEST or value[0] in " -" or "?" in value:
        return ""
    is_quotable = _QUOTABLE.fullmatch(value) is not None
    if platform == "windows":
        # A backslash before the last quote would take that for a part of the word.
        doubled = "\\" * (len(value) - len(value.rstrip("\\")))
        return f'"{value}{doubled}"' if is_quotable else ""
    if strange and not is_quotable:
        return ""
    # In quotes it would be no home folder any more.
    return f"~/{shlex.quote(value[2:])}" if value.startswith("~/") else shlex.quote(value)


def is_own_command(text: str) -> bool:
    """Tell whether a text is a command of rocenv that consists of plain words."""
    return _OWN.fullmatch(text) is not None
