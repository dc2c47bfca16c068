"""What a shell's file sets, as far as that can be told without running it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_BYTES = 1 << 16  # what people write by hand is far less
_DOUBLE = r'"[^"\\]*(?:\\.[^"\\]*)*"'
# A part of a word. The third line is what the shell puts something else in the place of.
_PIECE = rf"""'[^']*'|{_DOUBLE}|\\.
    |`[^`]*`|\$\{{[^{{}}]*\}}|\$'(?:[^'\\]|\\.)*'|[$~]
    |[^ \t\n'"`\\$~;&|()<>]+"""
_PIECES = re.compile(_PIECE, re.DOTALL | re.VERBOSE)
_TOKENS = re.compile(
    rf"""(?P<gap>(?:[ \t]|\\\n)+|\#[^\n]*) | (?P<end>\n) | (?P<operator>[;&|()<>]+)
    |(?P<word>(?:{_PIECE})+) | (?P<unclosed>.)""",
    re.DOTALL | re.VERBOSE,
)
_PAIR = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL | re.ASCII)
_ESCAPED = re.compile(r'\\([$`"\\\n])')  # between double quotes
_OPENS, _CLOSES = ("if", "for", "while", "until", "case", "select", "{"), ("fi", "done", "esac", "}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """A variable that is set, whatever else the file does."""

    name: str
    value: str
    raw: str = ""  # as it stands there, where the shell makes something else of it; "" = it does not


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a file sets."""

    assigned: tuple[Assigned, ...] = ()
    is_more: bool = False  # it does more than that


def read_settings(path: Path) -> Settings:
    """Return what a file sets in the end; nothing where there is none, or it cannot be read."""
    try:
        if not path.is_file():  # to open a pipe is to wait for somebody
            return Settings()
        with path.open("rb") as file:
            data = file.read(_BYTES + 1)
    except OSError:
        return Settings()
    if len(data) > _BYTES:
        return Settings(is_more=True)
    found: list[Assigned] = []
    is_more, depth = False, 0
    for words in _statements(data.decode("utf-8-sig", "replace").replace("\r\n", "\n")):
        depth = max(0, depth + sum(each in _OPENS for each in words) - sum(each in _CLOSES for each in words))
        told = None if depth else _assigned(words)
        is_more = is_more or told is None
        for new in told or ():
            if new.name not in new.raw:  # or it adds to what was set before
                found = [each for each in found if each.name != new.name]
            found.append(new)
    return Settings(assigned=tuple(found), is_more=is_more)


def _statements(text: str) -> Iterator[list[str]]:
    """Yield the words of each line as they stand there, up to a quote that is not closed."""
    words: list[str] = []
    for token in _TOKENS.finditer(text):
        if token.lastgroup == "unclosed":
            yield [token[0]]
            return
        if token.lastgroup in ("word", "operator"):
            words.append(token[0])
        elif token.lastgroup == "end" and words:
            yield words
            words = []
    if words:
        yield words


def _assigned(words: list[str]) -> list[Assigned] | None:
    """Return what a line sets; None where it does anything else."""
    pairs = [_PAIR.fullmatch(word) for word in words[words[0] == "export" :]]
    return [_one(each[1], each[2]) for each in pairs if each] if all(pairs) else None


def _one(name: str, text: str) -> Assigned:
    pieces = _PIECES.findall(text)
    raw = text if any(map(_is_expanded, pieces)) else ""
    return Assigned(name=name, value="".join(map(_meant, pieces)), raw=raw)


def _is_expanded(piece: str) -> bool:
    if piece.startswith('"'):
        return bool(re.search(r"[$`]", re.sub(r"\\.", "", piece, flags=re.DOTALL)))
    return piece[0] in "$`~"


def _meant(piece: str) -> str:
    """Return a part of a word without its quotes, and without a line break that only splits it."""
    if piece.startswith('"'):
        return _ESCAPED.sub(lambda found: found[1].strip("\n"), piece[1:-1])
    if piece.startswith("'"):
        return piece[1:-1]
    return piece[1:].strip("\n") if piece.startswith("\\") else piece
