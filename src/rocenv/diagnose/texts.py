"""The texts of rules and advice, filled with what is known."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.diagnose.facts import hold

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rocenv.core.language import Language
    from rocenv.data.rules import Remedy, Text

_PLACE = re.compile(r"\{(\w+)(?:\|([^{}]*))?\}")
# What may stand in a command: it comes from anybody's log.
_WORD = re.compile(r"(?:~(?=/))?[\w.:+,/\\@=-]{1,80}")
_CREATE = "create"  # whole commands, made by rocenv
MOST_STEPS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing to do."""

    text: str
    commands: tuple[str, ...]


def filled(text: Text, values: Mapping[str, str], language: Language) -> str | None:
    """Return a text with values in its places; None where one is not known and has no words instead."""
    return _filled(getattr(text, language), values)


def unfilled(text: str, language: Language = "en") -> str:
    """Fill a text without any values: each place becomes its default words, or an ellipsis."""
    gpu, gap = ("这块 GPU", "……") if language == "zh" else ("this GPU", "...")
    return _PLACE.sub(lambda place: place[2] or (gpu if place[1] == "gfx" else gap), text)


def with_metavars(command: str) -> str:
    """Fill a command without any values: each place becomes its default words, or its name in capitals."""
    return _PLACE.sub(lambda place: place[2] or place[1].upper(), command)


def plain_word(text: str) -> str:
    """Return a text that any shell takes for one word and nothing else; "" where it is none."""
    return text if _WORD.fullmatch(text) else ""


def steps(
    rows: Sequence[Remedy],
    facts: Mapping[str, tuple[str, ...]],
    values: Mapping[str, str],
    language: Language,
    typed: Callable[[str], str] = plain_word,
) -> tuple[Step, ...]:
    """Return what to do, the best first, with the commands for it; no command twice.

    Args:
        rows: What may be told.
        facts: Decide which of them hold.
        values: Fill the places of texts and commands.
        language: Of the texts.
        typed: Returns a value as it may stand in a command, "" where it may not.
    """
    found: list[Step] = []
    told: set[str] = set()
    plain = {name: value if name == _CREATE else typed(value) for name, value in values.items()}
    for row in rows:
        if len(found) == MOST_STEPS:
            break
        if not hold(row.when, facts) or (text := filled(row.text, values, language)) is None:
            continue
        commands = [each for each in (_filled(command, plain) for command in row.commands) if each]
        found.append(Step(text=text, commands=tuple(each for each in commands if each not in told)))
        told.update(commands)
    return tuple(found)


def _filled(text: str, values: Mapping[str, str]) -> str | None:
    missing = False

    def value(place: re.Match[str]) -> str:
        nonlocal missing
        known = values.get(place[1]) or place[2]
        missing = missing or known is None
        return known or ""

    told = _PLACE.sub(value, text)
    return None if missing else told
