"""The lines of a log that hold a literal of a rule or a clue, with what stands around them.

All literals are looked for at once, by one automaton, so what it costs depends on the length of the log and
not on how many rules there are. What is kept is bounded: of lines that only differ in their numbers the first
few and the last one are, and how often they came.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rocenv.diagnose.reading import Block

_ALIKE = 3  # sightings that are kept of lines that only differ in their numbers, besides the last one
_KINDS = 80  # kinds of lines that are kept for a literal
_AROUND_BYTES = 16_000  # that are kept before a line, and behind it
_LINE_BYTES = 4_000
_WEARY = 50_000  # sightings of a literal after which the rest of them are only counted in samples
_NUMBERS = re.compile(rb"0x[0-9a-fA-F]+|[0-9]+")
_BREAK = re.compile(rb"[\r\n]")


@dataclass(slots=True, kw_only=True, eq=False)
class Sighting:
    """A line that holds a literal."""

    literal: str
    number: int  # of the line, from 1
    line: bytes
    before: bytes  # what stands before the line, up to its beginning
    after: bytes  # what stands behind it, from its end
    file: str
    count: int = 1  # how many such lines there are in all; right for the first of them

    def around(self, within: int) -> bytes:
        """Return the line with so many lines before and behind it."""
        before = self.before.split(b"\n")[-within - 1 :] if within else []
        after = self.after.split(b"\n")[: within + 1] if within else []
        return b"\n".join(before) + self.line + b"\n".join(after)

    def wrapped(self) -> bytes:
        """Return the line with the indented ones behind it, which a narrow console parts from it."""
        line, more = self.line, self.after.lstrip(b"\r\n").split(b"\n")[:2]
        for each in more:
            if not each.startswith((b"   ", b"\t")):
                break
            line += b" " + each.strip()
        return line


@dataclass(slots=True, kw_only=True)
class Sightings:
    """What was seen of the literals in a log."""

    by_literal: dict[str, list[Sighting]]
    lines: int  # of the log

    def of(self, literals: Iterable[str]) -> Iterator[Sighting]:
        """Yield the sightings of some literals, in the order of the literals and of the log."""
        for literal in literals:
            yield from self.by_literal.get(literal, ())


class _Keeper:
    """Keeps sightings, but not all of those that are alike."""

    def __init__(self) -> None:
        self.by_literal: dict[str, list[Sighting]] = {}
        self._kinds: dict[str, dict[tuple[str, bytes], list[Sighting]]] = {}
        self._seen: dict[str, int] = {}

    def wants(self, literal: str) -> bool:
        seen = self._seen[literal] = self._seen.get(literal, 0) + 1
        return seen <= _WEARY or seen % 64 == 0

    def room(self, literal: str, line: bytes, file: str) -> list[Sighting] | None:
        """Return where a line of this kind is kept, None where it need not be."""
        kinds = self._kinds.setdefault(literal, {})
        kind = (file, _NUMBERS.sub(b"#", line))
        known = kinds.get(kind)
        if known is None:
            return kinds.setdefault(kind, []) if len(kinds) < _KINDS else None
        known[0].count += 1
        return known

    def result(self) -> dict[str, list[Sighting]]:
        return {
            literal: sorted((each for kept in kinds.values() for each in kept), key=lambda each: each.number)
            for literal, kinds in self._kinds.items()
        }


def sift(blocks: Iterable[Block], literals: Sequence[str]) -> Sightings:
    """Return the lines of a log in which one of the literals stands."""
    import ahocorasick_rs

    automaton = ahocorasick_rs.BytesAhoCorasick(
        [literal.encode() for literal in literals], implementation=ahocorasick_rs.Implementation.DFA
    )
    keeper = _Keeper()
    lines = 0
    for block, before, after in _with_neighbours(blocks):
        lines += block.data.count(b"\n")
        text = b"".join((before, block.data, after))
        start, line, counted = len(before), block.first_line, len(before)
        for index, found, _end in automaton.find_matches_as_indexes(block.data, overlapping=True):
            if not keeper.wants(literals[index]):
                continue
            line += text.count(b"\n", counted, start + found)
            counted = start + found
            _keep(keeper, literals[index], text, start + found, line, block.file)
    return Sightings(by_literal=keeper.result(), lines=lines)


def _keep(keeper: _Keeper, literal: str, text: bytes, at: int, number: int, file: str) -> None:
    begin = max(text.rfind(b"\n", 0, at), text.rfind(b"\r", 0, at)) + 1
    found = _BREAK.search(text, at)
    end = found.start() if found else len(text)
    line = text[max(begin, at - _LINE_BYTES // 2) : min(end, at + _LINE_BYTES // 2)]
    kept = keeper.room(literal, line, file)
    if kept is None:
        return
    sighting = Sighting(
        literal=literal,
        number=number,
        line=line,
        before=text[max(0, begin - _AROUND_BYTES) : begin],
        after=text[end : end + _AROUND_BYTES],
        file=file,
    )
    if len(kept) > _ALIKE:
        kept[-1] = sighting
    else:
        kept.append(sighting)


def _with_neighbours(blocks: Iterable[Block]) -> Iterator[tuple[Block, bytes, bytes]]:
    """Yield each block with what stands before and behind it in the same file."""
    previous: Block | None = None
    before = b""
    for block in blocks:
        if previous is not None:
            same = block.file == previous.file and block.first_line > previous.first_line
            yield previous, before, block.data[:_AROUND_BYTES] if same else b""
            before = (before + previous.data)[-_AROUND_BYTES:] if same else b""
        previous = block
    if previous is not None:
        yield previous, before, b""
