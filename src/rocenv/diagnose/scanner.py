"""Find the lines of a log that contain a literal from a rule or an extractor, and their context.

One automaton searches for all literals at once, so the cost depends on the length of the log, not on the
number of rules. To limit memory usage, the scanner counts similar lines but keeps only a few of them, from
throughout the log. The search for an extractor's literals ends after enough sightings, because some logs
contain them on every other line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ahocorasick_rs import BytesAhoCorasick

    from rocenv.diagnose.reading import Block

_KINDS = 200  # kinds of lines per literal
_SPREAD = 3  # number of leading lines of a kind to keep; then the 4th, 8th, 16th, … and the last are kept
_CODES = 40  # kept lines that differ in short numbers, which may be error codes
_KEPT_BYTES = 12 << 20  # limit for all kept lines with their context
_FEW = 3  # kinds per literal whose first line is kept even if that limit is reached
_AROUND_BYTES = 8_000  # kept before and after a line
HALF_LINE_BYTES = 1_000  # kept of a line before and after its literal
_NUMBERS = re.compile(rb"0x[0-9a-fA-F]+|[0-9]+")
_CODE = re.compile(rb"(?<![0-9.:,x])[0-9]{1,4}(?![0-9.:,])")
_BREAK = re.compile(rb"[\r\n]")


@dataclass(slots=True, kw_only=True, eq=False)
class Sighting:
    """A line that contains a literal."""

    number: int  # line number, from 1
    line: bytes  # the part around its literal
    place: int  # offset of the literal in `line`
    before: bytes  # the text before the line
    after: bytes  # the text after the line
    count: int = 1  # number of similar lines in the log; correct only for the first of them

    def around(self, within: int) -> bytes:
        """Return the line with its neighbors, `within` lines on each side."""
        before = self.before.split(b"\n")[-within - 1 :] if within else []
        after = self.after.split(b"\n")[: within + 1] if within else []
        return b"\n".join(before) + self.line + b"\n".join(after)

    def wrapped(self) -> bytes:
        """Rejoin a line that a narrow console wrapped onto indented lines."""
        line, more = self.line, self.after.lstrip(b"\r\n").split(b"\n")[:2]
        for each in more:
            if not each.startswith((b"   ", b"\t")):
                break
            line += b" " + each.strip()[:HALF_LINE_BYTES]
        return line


@dataclass(slots=True, kw_only=True)
class Sightings:
    """The sightings of literals in a log."""

    by_literal: dict[str, list[Sighting]]
    lines: int  # number of lines in the log
    is_empty: bool  # nothing could be read

    def of(self, literals: Iterable[str]) -> Iterator[Sighting]:
        """Yield the sightings of some literals, by literal and then in log order."""
        for literal in literals:
            yield from self.by_literal.get(literal, ())


def scan(
    blocks: Iterable[Block], literals: Sequence[str], enough: Mapping[str, int] | None = None
) -> Sightings:
    """Find the lines of a log that contain one of the literals.

    Args:
        blocks: The blocks of one log.
        literals: The literals, without duplicates.
        enough: For some literals, the number of sightings after which the search for them ends.
    """
    scanner = _Scanner(literals, enough or {})
    is_empty = True
    for block, before, after in _with_neighbors(blocks):
        is_empty = is_empty and not block.data.strip()
        scanner.take(block, before, after)
    return Sightings(by_literal=scanner.kept(), lines=scanner.lines, is_empty=is_empty)


@dataclass(slots=True)
class _Similar:
    """Lines that differ only in numbers."""

    count: int = 0
    kept: list[Sighting] = field(default_factory=list)
    last: Sighting | None = None
    codes: set[tuple[bytes, ...]] = field(default_factory=set)

    def wants(self, line: bytes) -> bool:
        """Count a line, and decide whether to keep it."""
        self.count += 1
        is_new = False
        if len(self.codes) < _CODES:
            code = tuple(_CODE.findall(line))
            is_new = code not in self.codes
            self.codes.add(code)
        return is_new or self.count <= _SPREAD or self.count & (self.count - 1) == 0


@lru_cache(maxsize=2)  # each takes megabytes
def _automaton(literals: tuple[str, ...]) -> BytesAhoCorasick:
    import ahocorasick_rs

    return ahocorasick_rs.BytesAhoCorasick(
        [literal.encode() for literal in literals], implementation=ahocorasick_rs.Implementation.DFA
    )


class _Scanner:
    def __init__(self, literals: Sequence[str], enough: Mapping[str, int]) -> None:
        self.lines = 0
        self._literals = tuple(literals)
        self._enough = enough
        self._seen: dict[str, int] = {}
        self._kinds: dict[str, dict[bytes, _Similar]] = {}
        self._kept_bytes = 0

    def take(self, block: Block, before: bytes, after: bytes) -> None:
        """Scan a block, given the text before and after it."""
        text = b"".join((before, block.data, after))
        cut = _Cut(text)
        number, counted = block.first_line, len(before)
        ends: dict[int, int] = {}  # by literal: the end of the line where it was last seen
        latest: dict[int, tuple[_Similar, int, int]] = {}  # the last of each group of similar lines
        for index, found, _end in _automaton(self._literals).find_matches_as_indexes(
            block.data, overlapping=True
        ):
            at = len(before) + found
            if at < ends.get(index, 0):
                continue
            ends[index] = cut.end_of_line(at)
            line = cut.line(at)
            group = self._similar(self._literals[index], line)
            if group is None:
                continue
            if group.wants(line) and self._has_room(self._literals[index], group):
                number += text.count(b"\n", counted, at)
                counted = at
                group.kept.append(self._sighting(index, cut, at, number))
            else:
                latest[id(group)] = (group, index, at)
        number, counted = block.first_line, len(before)
        for group, index, at in sorted(latest.values(), key=lambda each: each[2]):
            if self._kept_bytes < _KEPT_BYTES:
                number += text.count(b"\n", counted, at)
                counted = at
                group.last = self._sighting(index, cut, at, number)
        self.lines += block.data.count(b"\n")
        self._drop_finished_literals()

    def _sighting(self, index: int, cut: _Cut, at: int, number: int) -> Sighting:
        # Extractors use only the line itself.
        sighting = cut.sighting(at, number, alone=self._literals[index] in self._enough)
        self._kept_bytes += cut.new_bytes
        return sighting

    def _has_room(self, literal: str, group: _Similar) -> bool:
        return self._kept_bytes < _KEPT_BYTES or (group.count == 1 and len(self._kinds[literal]) <= _FEW)

    def _similar(self, literal: str, line: bytes) -> _Similar | None:
        """The group of a line, or None if there are too many groups."""
        self._seen[literal] = self._seen.get(literal, 0) + 1
        kinds = self._kinds.setdefault(literal, {})
        kind = _NUMBERS.sub(b"#", line)
        known = kinds.get(kind)
        if known is None and len(kinds) < _KINDS:
            known = kinds[kind] = _Similar()
        return known

    def _drop_finished_literals(self) -> None:
        known = {each for each, most in self._enough.items() if self._seen.get(each, 0) >= most}
        if known:
            left = tuple(each for each in self._literals if each not in known)
            self._literals = left if len(left) < len(self._literals) else self._literals

    def kept(self) -> dict[str, list[Sighting]]:
        """The kept sightings, in log order."""
        found: dict[str, list[Sighting]] = {}
        for literal, kinds in self._kinds.items():
            for group in kinds.values():
                each = [*group.kept, *([group.last] if group.last else [])]
                if each:
                    each[0].count = group.count
                    found.setdefault(literal, []).extend(each)
        for sightings in found.values():
            sightings.sort(key=lambda sighting: sighting.number)
        return found


class _Cut:
    """Extracts lines and their context from a block; extracts the context of each line only once."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.new_bytes = 0  # memory used by the last sighting
        self._around: dict[tuple[int, int], tuple[bytes, bytes, bytes]] = {}

    def end_of_line(self, at: int) -> int:
        """Find the end of a line, which may be a carriage return from a progress bar."""
        found = _BREAK.search(self.text, at)
        return found.start() if found else len(self.text)

    def bounds(self, at: int) -> tuple[int, int]:
        """Find the part of a line around a position."""
        first = max(0, at - HALF_LINE_BYTES)
        begin = max(self.text.rfind(b"\n", first, at) + 1, first)
        begin = max(begin, self.text.rfind(b"\r", begin, at) + 1)
        found = _BREAK.search(self.text, at, at + HALF_LINE_BYTES)
        return begin, found.start() if found else min(len(self.text), at + HALF_LINE_BYTES)

    def line(self, at: int) -> bytes:
        """Extract the part of a line around a position."""
        begin, end = self.bounds(at)
        return self.text[begin:end]

    def sighting(self, at: int, number: int, *, alone: bool) -> Sighting:
        """Extract a line, alone or with its context."""
        begin, end = self.bounds(at)
        if alone:
            self.new_bytes = end - begin
            line = self.text[begin:end]
            return Sighting(number=number, line=line, place=at - begin, before=b"", after=b"")
        around = self._around.get((begin, end))
        self.new_bytes = 0
        if around is None:
            text = self.text
            around = (
                text[begin:end],
                text[max(0, begin - _AROUND_BYTES) : begin],
                text[end : end + _AROUND_BYTES],
            )
            self._around[begin, end] = around
            self.new_bytes = sum(map(len, around))
        line, before, after = around
        return Sighting(number=number, line=line, place=at - begin, before=before, after=after)


def _with_neighbors(blocks: Iterable[Block]) -> Iterator[tuple[Block, bytes, bytes]]:
    """Yield each block with the text before and after it."""
    previous: Block | None = None
    before = b""
    for block in blocks:
        if previous is not None:
            yield previous, before, block.data[:_AROUND_BYTES]
            before = (before + previous.data)[-_AROUND_BYTES:]
        previous = block
    if previous is not None:
        yield previous, before, b""
