"""The speed of rule patterns on hostile lines.

Anyone can write a log, and a pattern that backtracks can take minutes for one line. The tested lines repeat
the beginnings of matches, derived from the parsed pattern, so that a match starts everywhere but never
completes.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from rocenv.data.load import load
from rocenv.data.remedies import compiled

if sys.version_info >= (3, 11):
    from re import _constants as codes
    from re import _parser as parser
else:
    import sre_constants as codes
    import sre_parse as parser

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

pytestmark = pytest.mark.slow

MATRIX = load()
LONGEST_S = 0.25
LINE, AROUND = 2_000, 16_000  # maximum text length for a pattern, and for `near`
TRIES = 3  # because another program may slow down a single try
UNITS = 24  # repetitions per pattern
_CLASSES = {
    codes.CATEGORY_DIGIT: "1",
    codes.CATEGORY_SPACE: " ",
    codes.CATEGORY_WORD: "a",
    codes.CATEGORY_NOT_DIGIT: "a",
    codes.CATEGORY_NOT_SPACE: "a",
    codes.CATEGORY_NOT_WORD: " ",
}


def patterns() -> Iterator[tuple[str, int]]:
    """Yield each pattern once, with the maximum length of the text that it is applied to."""
    lines = {pattern.regex for rule in MATRIX.rule for pattern in rule.pattern if pattern.regex}
    lines |= {row.pattern for row in MATRIX.extractor}
    around = {
        near
        for rule in MATRIX.rule
        for pattern in rule.pattern
        for near in (*pattern.near, *pattern.not_near)
    }
    yield from ((pattern, LINE) for pattern in sorted(lines))
    yield from ((pattern, AROUND) for pattern in sorted(around))


def units(pattern: str) -> list[str]:
    """Build strings that begin like a match, for each alternative in a pattern."""
    found = dict.fromkeys(text for text in _beginnings(parser.parse(pattern)) if text)
    kept = list(found)
    step = max(1, len(kept) // UNITS)
    return [*kept[::step][:UNITS], kept[-1] if kept else "a", "a", "a ", "1.", "/a", "a\n"]


def _beginnings(parsed: Any) -> Iterator[str]:
    begun = ""
    for code, value in parsed:
        for inner in _inside(code, value):
            yield from (begun + text for text in _beginnings(inner))
        begun += _sample(code, value)
        yield begun


def _inside(code: Any, value: Any) -> Iterator[Any]:
    if code is codes.BRANCH:
        yield from value[1]
    elif code is codes.SUBPATTERN:
        yield value[3]
    elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
        yield value[2]


def _sample(code: Any, value: Any) -> str:
    """Build text that matches part of a pattern."""
    if code is codes.LITERAL:
        return chr(value)
    if code is codes.NOT_LITERAL:
        return "a" if value != ord("a") else "b"
    if code is codes.ANY:
        return "x"
    if code is codes.IN:
        return _of_class(value)
    if code is codes.BRANCH:
        return _all(value[1][0])
    if code is codes.SUBPATTERN:
        return _all(value[3])
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
        times: int = max(1, value[0])
        return _all(value[2]) * times
    return ""


def _of_class(items: Iterable[tuple[Any, Any]]) -> str:
    code, value = next(iter(items))
    if code is codes.NEGATE:
        return "a"
    if code is codes.RANGE:
        return chr(value[0])
    known: str = _CLASSES.get(value, " ") if code is codes.CATEGORY else chr(value)
    return known


def _all(parsed: Iterable[tuple[Any, Any]]) -> str:
    return "".join(_sample(code, value) for code, value in parsed)


def seconds(pattern: str, text: str, tries: int = TRIES) -> float:
    """Time several searches, and return the fastest time."""
    taken = []
    for _ in range(tries):
        start = time.thread_time()
        compiled(pattern).search(text)
        taken.append(time.thread_time() - start)
        if taken[-1] < LONGEST_S:
            break
    return min(taken)


def slow() -> Iterator[tuple[float, str, str]]:
    for pattern, length in patterns():
        for unit in units(pattern):
            text = (unit * (length // len(unit) + 1))[:length]
            if not is_quick(pattern, unit, text) and (taken := seconds(pattern, text)) >= LONGEST_S:
                yield taken, pattern, unit


def is_quick(pattern: str, unit: str, text: str) -> bool:
    """Search a quarter of the text first; the full text would take at most 4**4 times as long."""
    start = text[: len(text) // 4]
    return len(unit) < len(start) // 4 and seconds(pattern, start, 1) < LONGEST_S / 4**4


def test_no_pattern_is_slow_on_a_hostile_line() -> None:
    assert list(slow()) == []


@pytest.mark.parametrize("pattern", [r"(?:rock\w*|amd\w*)\S* failed", r"\S*lib\S*\.so: gone"])
def test_a_slow_pattern_is_detected(pattern: str) -> None:
    lines = ((unit, (unit * LINE)[:LINE]) for unit in units(pattern))
    unit, line = next(each for each in lines if seconds(pattern, each[1], 1) >= LONGEST_S)
    assert not is_quick(pattern, unit, line)
