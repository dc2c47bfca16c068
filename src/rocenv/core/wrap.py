"""Wrap text to a terminal width, including Chinese text without spaces between words."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Chinese punctuation: a line must not start with the first group or end with the second.
_NOT_FIRST = (
    "\uff0c\u3002\uff1b\uff1a\u3001\uff1f\uff01\uff09\u300b\u300d\u300f\u3011\u2026\u201d\u2019%,.;:?!)]}"
)
_NOT_LAST = "\uff08\u300a\u300c\u300e\u3010\u201c\u2018([{"
_QUOTED = re.compile("`[^`]*`")
_COLOUR = re.compile("\x1b\\[[0-9;]*m")
_NO_BREAK = "\0"  # stands for a space at which a line must not break


def wrapped(text: str, width: int, first: str = "", then: str = "") -> list[str]:
    """Wrap one paragraph to `width` columns; put `first` before the first line, `then` before the others.

    Anything that a user might paste, such as a URL or a command in backticks, is never broken, even if it
    overflows. Color codes have no width.
    """
    text = _QUOTED.sub(lambda quoted: quoted[0].replace(" ", _NO_BREAK), text)
    if not (first + text).isascii() or "\x1b" in first + text:
        lines = list(_wrapped(text, width, first, then))
    else:
        import textwrap

        lines = textwrap.wrap(
            text,
            width,
            initial_indent=first,
            subsequent_indent=then,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return [line.replace(_NO_BREAK, " ") for line in lines]


def columns_of(text: str) -> int:
    """Count a string's terminal columns; Chinese characters count as two, and color codes as zero."""
    return sum(2 if _is_wide(char) else 1 for char in _COLOUR.sub("", text))


def _is_wide(char: str) -> bool:
    return unicodedata.east_asian_width(char) in "WF"


def _wrapped(text: str, width: int, first: str, then: str) -> Iterator[str]:
    line, indent = first, first
    for piece in _pieces(text):
        if line != indent and columns_of(line) + columns_of(piece.rstrip()) > width:
            yield line.rstrip()
            line = indent = then
        if line != indent or piece.strip():
            line += piece
    if line != indent:
        yield line.rstrip()


def _pieces(text: str) -> Iterator[str]:
    """Split text where a line can break: after a word and its space, or after a Chinese character."""
    piece = ""
    text = re.sub(r"\s*\n\s*", " ", text.strip())
    quoted = False
    for char, following in zip(text, [*text[1:], " "], strict=True):
        piece += char
        quoted ^= char == "`"
        between = not quoted and (_is_wide(char) or _is_wide(following))
        if char == " " or (between and char not in _NOT_LAST and following not in f"{_NOT_FIRST} "):
            yield piece
            piece = ""
    if piece:
        yield piece
