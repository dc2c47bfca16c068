"""The lines of a log that hold a literal of a rule or a clue, with what stands around them.

All literals are looked for at once, by one automaton, so what it costs depends on the length of the log and
not on how many rules there are. What is kept is bounded: of lines that only differ in their numbers the first
few and the last one are, and how often they came. Literals that only tell what a log is about are looked for
until they have been seen often enough: they stand in every other line of some logs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rocenv.diagnose.reading import Block

_ALIKE = 3  # sightings that are kept of lines that only differ in their numbers, besides the last one
_KINDS = 200  # kinds of lines that are kept for a literal
_KEPT = 4000  # sightings in all
_AROUND_BYTES = 8_000  # that are kept before a line, and behind it
_LINE_BYTES = 4_000
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


def sift(
    blocks: Iterable[Block], literals: Sequence[str], enough: Mapping[str, int] | None = None
) -> Sightings:
    """Return the lines of a log in which one of the literals stands.

    Args:
        blocks: Of the log.
        literals: What is looked for, each once.
        enough: Of some of them, how often they have to be seen.
    """
    sieve = _Sieve(literals, enough or {})
    for block, before, after in _with_neighbours(blocks):
        sieve.see(block, before, after)
    return Sightings(by_literal=sieve.kept(), lines=sieve.lines)


@dataclass(slots=True)
class _Alike:
    """The lines of a literal that only differ in their numbers."""

    count: int = 0
    kept: list[Sighting] = field(default_factory=list)
    last: Sighting | None = None


class _Sieve:
    def __init__(self, literals: Sequence[str], enough: Mapping[str, int]) -> None:
        self.lines = 0
        self._enough = enough
        self._seen: dict[str, int] = dict.fromkeys(literals, 0)
        self._kinds: dict[str, dict[tuple[str, bytes], _Alike]] = {literal: {} for literal in literals}
        self._total = 0
        self._look_for(list(literals))

    def _look_for(self, literals: list[str]) -> None:
        import ahocorasick_rs

        self._literals = literals
        self._automaton = ahocorasick_rs.BytesAhoCorasick(
            [literal.encode() for literal in literals], implementation=ahocorasick_rs.Implementation.DFA
        )

    def see(self, block: Block, before: bytes, after: bytes) -> None:
        """Take a block, with what stands before and behind it."""
        text = b"".join((before, block.data, after))
        start, number, counted = len(before), block.first_line, len(before)
        latest: dict[int, tuple[_Alike, str, int, int]] = {}  # of lines that are alike: where the last one is
        for index, found, _end in self._automaton.find_matches_as_indexes(block.data, overlapping=True):
            literal, at = self._literals[index], start + found
            self._seen[literal] += 1
            number += text.count(b"\n", counted, at)
            counted = at
            alike = self._alike(literal, text, at, block.file)
            if alike is None:
                continue
            alike.count += 1
            if alike.count <= _ALIKE and self._total < _KEPT:
                self._total += 1
                alike.kept.append(_sighting(literal, text, at, number, block.file))
            else:
                latest[id(alike)] = (alike, literal, at, number)
        for alike, literal, at, number in latest.values():
            alike.last = _sighting(literal, text, at, number, block.file)
        self.lines += block.data.count(b"\n")
        self._drop_what_is_known()

    def _alike(self, literal: str, text: bytes, at: int, file: str) -> _Alike | None:
        """Return where lines of this kind are kept, None where no more are."""
        kinds = self._kinds[literal]
        begin, end = _bounds(text, at)
        kind = (file, _NUMBERS.sub(b"#", text[begin:end]))
        known = kinds.get(kind)
        if known is None and len(kinds) < _KINDS:
            known = kinds[kind] = _Alike()
        return known

    def _drop_what_is_known(self) -> None:
        left = [
            each for each in self._literals if self._seen[each] < self._enough.get(each, self._seen[each] + 1)
        ]
        if len(left) < len(self._literals):
            self._look_for(left)

    def kept(self) -> dict[str, list[Sighting]]:
        """Return what was kept, in the order of the log."""
        found: dict[str, list[Sighting]] = {}
        for literal, kinds in self._kinds.items():
            for alike in kinds.values():
                each = [*alike.kept, *([alike.last] if alike.last else [])]
                if each:
                    each[0].count = alike.count
                    found.setdefault(literal, []).extend(each)
        for sightings in found.values():
            sightings.sort(key=lambda sighting: (sighting.file, sighting.number))
        return found


def _bounds(text: bytes, at: int) -> tuple[int, int]:
    """Return where the line around a place begins and ends; a progress bar draws several in one."""
    begin = max(text.rfind(b"\n", max(0, at - _LINE_BYTES), at) + 1, at - _LINE_BYTES, 0)
    begin = max(begin, text.rfind(b"\r", begin, at) + 1)
    found = _BREAK.search(text, at, at + _LINE_BYTES)
    return begin, found.start() if found else min(len(text), at + _LINE_BYTES)


def _sighting(literal: str, text: bytes, at: int, number: int, file: str) -> Sighting:
    begin, end = _bounds(text, at)
    return Sighting(
        literal=literal,
        number=number,
        line=text[begin:end],
        before=text[max(0, begin - _AROUND_BYTES) : begin],
        after=text[end : end + _AROUND_BYTES],
        file=file,
    )


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
