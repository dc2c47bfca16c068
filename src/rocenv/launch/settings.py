"""What a shell's file sets, as far as that can be told without running it."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_BYTES = 1 << 20
_LINES_OF_A_VALUE = 50
_ASSIGNED = re.compile(r"(?:export\s+)?[A-Za-z_]\w*=")
_NAME = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_OPENS, _CLOSES = ("if", "for", "while", "until", "case", "select"), ("fi", "done", "esac")


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
    """Return what a file sets; nothing where there is none, or it cannot be read."""
    try:
        if not path.is_file():  # to open a pipe is to wait for somebody
            return Settings()
        with path.open("rb") as file:
            text = file.read(_BYTES).decode("utf-8", "replace")
    except OSError:
        return Settings()
    found: list[Assigned] = []
    is_more, depth = False, 0
    for line, words in _statements(text.splitlines()):
        depth += (words[0] in _OPENS) - sum(word in _CLOSES for word in words)
        told = None if depth or not _ASSIGNED.match(line) else _assigned(line, words)
        if told is None:
            is_more = True
        else:
            found += told
    return Settings(assigned=tuple(found), is_more=is_more)


def _statements(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield lines with their words, those drawn together between which a quote is open."""
    at = 0
    while at < len(lines):
        for end in range(at + 1, min(at + _LINES_OF_A_VALUE, len(lines)) + 1):
            line = "\n".join(lines[at:end]).strip()
            try:
                words = _words(line)
            except ValueError:  # a quote that ends in another line
                continue
            break
        else:
            line, words, end = lines[at].strip(), ["?"], at + 1
        if words:
            yield line, words
        at = end


def _words(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    return list(lexer)


def _assigned(line: str, words: list[str]) -> list[Assigned] | None:
    """Return what a line sets; None where it does anything else."""
    pairs = [_NAME.fullmatch(word) for word in words[words[0] == "export" :]]
    is_expanded = any(mark in line for mark in "$`")
    if not all(pairs) or (is_expanded and len(pairs) > 1):
        return None
    raw = line.partition("=")[2] if is_expanded else ""
    return [Assigned(name=each[1], value=each[2], raw=raw) for each in pairs if each]
