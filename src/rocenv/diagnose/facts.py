"""Facts about the machine and its programs from a log."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocenv.data.remedies import compiled
from rocenv.diagnose.reading import decoded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rocenv.data.rows import Matrix
    from rocenv.data.rules import Extractor
    from rocenv.diagnose.scanner import Sightings

Facts = dict[str, tuple[str, ...]]
_PRESENT = "yes"
# People write `rx9070xt`; the data has `RX 9070 XT`.
_MODEL = re.compile(r"\b(RX) ?(?=[0-9])", re.IGNORECASE)
_SUFFIX = re.compile(r"([0-9]) ?(XTX?|GRE)\b", re.IGNORECASE)
_ANY = "."  # any line with the literal matches
_SOME, _MANY = 200, 1000  # sightings
_LIST = 4  # a line with more values lists possible values, not facts
_MAX_VALUES = 40  # of a fact
_MAX_LENGTH = 80  # of a value, in characters


def extracted(extractors: Iterable[Extractor], sightings: Sightings, page: str) -> Facts:
    """Extract facts from the lines of a log; each fact's values are in log order."""
    found: dict[str, dict[str, int]] = {}
    for extractor in extractors:
        for sighting in sightings.of(extractor.text):
            for value in _values(extractor, decoded(sighting.line, page)):
                values = found.setdefault(extractor.fact, {})
                values[value] = min(values.get(value, sighting.number), sighting.number)
    return {name: _in_order(values) for name, values in found.items()}


def sightings_needed(extractor: Extractor) -> int:
    """Return the maximum number of sightings that an extractor needs."""
    if extractor.fact in compiled(extractor.pattern).groupindex:
        return _MANY
    return 1 if extractor.pattern == _ANY else _SOME


def _values(extractor: Extractor, line: str) -> tuple[str, ...]:
    fact, pattern = extractor.fact, compiled(extractor.pattern)
    if fact not in pattern.groupindex:
        return (extractor.value,) if pattern.search(line) else ()
    found = (match[fact].strip()[:_MAX_LENGTH] for match in pattern.finditer(line) if match[fact])
    values = tuple(dict.fromkeys(found))
    return values if len(values) <= _LIST else ()


def _in_order(values: Mapping[str, int]) -> tuple[str, ...]:
    """Sort values by line; drop `yes` if there are other values."""
    known = [value for value in values if value != _PRESENT] or [_PRESENT]
    return tuple(sorted(known, key=lambda each: values[each]))[:_MAX_VALUES]


def settled(facts: Facts, matrix: Matrix) -> Facts:
    """Keep one platform, and add the targets of GPUs that the log mentions by product name."""
    if "wsl" in facts:
        facts = {**facts, "platform": ("linux",)}
    elif len(facts.get("platform", ())) > 1:
        facts = {**facts, "platform": facts["platform"][:1]}
    if facts.get("gfx") or not facts.get("gpu"):
        return facts
    from rocenv.host.windows import target_by_name

    names = [_MODEL.sub(r"\1 ", _SUFFIX.sub(r"\1 \2", name)) for name in facts["gpu"]]
    targets = tuple(dict.fromkeys(filter(None, (target_by_name(name, matrix) for name in names))))
    return {**facts, "gfx": targets} if targets else facts


def joined(*facts: Facts) -> Facts:
    """Merge facts; values from earlier arguments come first."""
    found: dict[str, dict[str, None]] = {}
    for each in facts:
        for name, values in each.items():
            found.setdefault(name, {}).update(dict.fromkeys(values))
    return {name: tuple(values)[:_MAX_VALUES] for name, values in found.items()}
