"""The lines of a log that hold a literal of a rule or a clue, with what stands around them.

All literals are looked for at once, by one automaton, so what it costs depends on the length of the log and
not on how many rules there are. What is kept is bounded: of lines that are alike a few are, spread over the
log, and how many there were. Literals that only tell what a log is about are looked for until they have been
seen often enough: they stand in every other line of some logs.
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

_KINDS = 200  # kinds of lines that are told apart for a literal
_SPREAD = 3  # of the lines of a kind the first ones are kept, then the 4th, the 8th, the 16th …, and the last
_CODES = 40  # of them that differ in short numbers, which may be codes of errors
_KEPT_BYTES = 12 << 20  # of lines and what stands around them
_FEW = 3  # kinds of lines of a literal whose first one is kept whatever was kept before
_AROUND_BYTES = 8_000  # that are kept before a line, and behind it
HALF_LINE_BYTES = 1_000  # of a line, before its literal and behind it
_NUMBERS = re.compile(rb"0x[0-9a-fA-F]+|[0-9]+")
_CODE = re.compile(rb"(?<![0-9.:,x])[0-9]{1,4}(?![0-9.:,])")
_BREAK = re.compile(rb"[\r\n]")


@dataclass(slots=True, kw_only=True, eq=False)
class Sighting:
    """A line that holds a literal."""

    number: int  # of the line, from 1
    line: bytes  # as much as matters of it
    place: int  # of the literal in it
    before: bytes  # what stands before the line, up to its beginning
    after: bytes  # what stands behind it, from its end
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
            line += b" " + each.strip()[:HALF_LINE_BYTES]
        return line


@dataclass(slots=True, kw_only=True)
class Sightings:
    """What was seen of the literals in a log."""

    by_literal: dict[str, list[Sighting]]
    lines: int  # of the log
    is_empty: bool  # there was nothing to read

    def of(self, literals: Iterable[str]) -> Iterator[Sighting]:
        """Yield the sightings of some literals, in the order of the literals and of the log."""
        for literal in literals:
            yield from self.by_literal.get(literal, ())


def sift(
    blocks: Iterable[Block], literals: Sequence[str], enough: Mapping[str, int] | None = None
) -> Sightings:
    """Return the lines of a log in which one of the literals stands.

    Args:
        blocks: Of one log.
        literals: What is looked for, each once.
        enough: Of some of them, how often they have to be seen.
    """
    sieve = _Sieve(literals, enough or {})
    is_empty = True
    for block, before, after in _with_neighbours(blocks):
        is_empty = is_empty and not block.data.strip()
        sieve.see(block, before, after)
    return Sightings(by_literal=sieve.kept(), lines=sieve.lines, is_empty=is_empty)


@dataclass(slots=True)
class _Alike:
    """The lines of a literal that are alike."""

    count: int = 0
    kept: list[Sighting] = field(default_factory=list)
    last: Sighting | None = None
    codes: set[tuple[bytes, ...]] = field(default_factory=set)

    def wants(self, line: bytes) -> bool:
        """Count a line, and tell whether it is one to keep."""
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


class _Sieve:
    def __init__(self, literals: Sequence[str], enough: Mapping[str, int]) -> None:
        self.lines = 0
        self._literals = tuple(literals)
        self._enough = enough
        self._seen: dict[str, int] = {}
        self._kinds: dict[str, dict[bytes, _Alike]] = {}
        self._kept_bytes = 0

    def see(self, block: Block, before: bytes, after: bytes) -> None:
        """Take a block, with what stands before and behind it."""
        text = b"".join((before, block.data, after))
        cut = _Cut(text)
        number, counted = block.first_line, len(before)
        ends: dict[int, int] = {}  # of a literal: where the line ends that it was seen in last
        latest: dict[int, tuple[_Alike, int, int]] = {}  # where the last of lines that are alike stands
        for index, found, _end in _automaton(self._literals).find_matches_as_indexes(
            block.data, overlapping=True
        ):
            at = len(before) + found
            if at < ends.get(index, 0):
                continue
            ends[index] = cut.end_of_line(at)
            line = cut.line(at)
            alike = self._alike(self._literals[index], line)
            if alike is None:
                continue
            if alike.wants(line) and self._has_room(self._literals[index], alike):
                number += text.count(b"\n", counted, at)
                counted = at
                alike.kept.append(self._sighting(index, cut, at, number))
            else:
                latest[id(alike)] = (alike, index, at)
        number, counted = block.first_line, len(before)
        for alike, index, at in sorted(latest.values(), key=lambda each: each[2]):
            if self._kept_bytes < _KEPT_BYTES:
                number += text.count(b"\n", counted, at)
                counted = at
                alike.last = self._sighting(index, cut, at, number)
        self.lines += block.data.count(b"\n")
        self._drop_what_is_known()

    def _sighting(self, index: int, cut: _Cut, at: int, number: int) -> Sighting:
        # What only tells what a log is about is told by the line alone.
        sighting = cut.sighting(at, number, alone=self._literals[index] in self._enough)
        self._kept_bytes += cut.new_bytes
        return sighting

    def _has_room(self, literal: str, alike: _Alike) -> bool:
        return self._kept_bytes < _KEPT_BYTES or (alike.count == 1 and len(self._kinds[literal]) <= _FEW)

    def _alike(self, literal: str, line: bytes) -> _Alike | None:
        """Return where lines of this kind are kept, None where no more are."""
        self._seen[literal] = self._seen.get(literal, 0) + 1
        kinds = self._kinds.setdefault(literal, {})
        kind = _NUMBERS.sub(b"#", line)
        known = kinds.get(kind)
        if known is None and len(kinds) < _KINDS:
            known = kinds[kind] = _Alike()
        return known

    def _drop_what_is_known(self) -> None:
        known = {each for each, most in self._enough.items() if self._seen.get(each, 0) >= most}
        if known:
            left = tuple(each for each in self._literals if each not in known)
            self._literals = left if len(left) < len(self._literals) else self._literals

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
            sightings.sort(key=lambda sighting: sighting.number)
        return found


class _Cut:
    """A block with its neighbours, of which lines are cut out; what stands around a line is cut once."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.new_bytes = 0  # that the last sighting took
        self._around: dict[tuple[int, int], tuple[bytes, bytes, bytes]] = {}

    def end_of_line(self, at: int) -> int:
        """Return where the line ends; a progress bar draws several in one."""
        found = _BREAK.search(self.text, at)
        return found.start() if found else len(self.text)

    def bounds(self, at: int) -> tuple[int, int]:
        """Return where what matters of a line begins and ends."""
        first = max(0, at - HALF_LINE_BYTES)
        begin = max(self.text.rfind(b"\n", first, at) + 1, first)
        begin = max(begin, self.text.rfind(b"\r", begin, at) + 1)
        found = _BREAK.search(self.text, at, at + HALF_LINE_BYTES)
        return begin, found.start() if found else min(len(self.text), at + HALF_LINE_BYTES)

    def line(self, at: int) -> bytes:
        """Return what matters of a line."""
        begin, end = self.bounds(at)
        return self.text[begin:end]

    def sighting(self, at: int, number: int, *, alone: bool) -> Sighting:
        """Return a line as it was seen, alone or with what stands around it."""
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


def _with_neighbours(blocks: Iterable[Block]) -> Iterator[tuple[Block, bytes, bytes]]:
    """Yield each block with what stands before and behind it."""
    previous: Block | None = None
    before = b""
    for block in blocks:
        if previous is not None:
            yield previous, before, block.data[:_AROUND_BYTES]
            before = (before + previous.data)[-_AROUND_BYTES:]
        previous = block
    if previous is not None:
        yield previous, before, b""
