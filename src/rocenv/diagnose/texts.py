"""Fill the texts of rules and checks with what is known."""

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
# What a command may contain from a log, which anyone can have written.
_WORD = re.compile(r"(?:~(?=/))?[\w.:+,/\\@=-]{1,80}")
_CREATE = "create"  # a whole command that rocenv built
MOST_STEPS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing to do."""

    text: str
    commands: tuple[str, ...]


def filled(text: Text, values: Mapping[str, str], language: Language) -> str | None:
    """Fill a text; None if a value is unknown and the text has no words for that case."""
    return _filled(getattr(text, language), values)


def unfilled(text: str, language: Language = "en") -> str:
    """Render a text without any values: its words for unknown ones, else an ellipsis."""
    gpu, gap = ("这块 GPU", "……") if language == "zh" else ("this GPU", "...")
    return _PLACE.sub(lambda place: place[2] or (gpu if place[1] == "gfx" else gap), text)


def with_metavars(command: str) -> str:
    """Render a command without any values: unknown ones become names in capitals."""
    return _PLACE.sub(lambda place: place[2] or place[1].upper(), command)


def plain_word(text: str) -> str:
    """Return the text if every shell reads it as one plain word, else ""."""
    return text if _WORD.fullmatch(text) else ""


def steps(
    rows: Sequence[Remedy],
    facts: Mapping[str, tuple[str, ...]],
    values: Mapping[str, str],
    language: Language,
    quote: Callable[[str], str] = plain_word,
) -> tuple[Step, ...]:
    """Choose and fill the remedies that apply, best first; no command appears twice.

    Args:
        rows: The remedies.
        facts: Decide which of them apply.
        values: Fill the placeholders of texts and commands.
        language: Of the texts.
        quote: Quotes a value for a command; "" if it must not stand in one.
    """
    found: list[Step] = []
    seen: set[str] = set()
    safe = {name: value if name == _CREATE else quote(value) for name, value in values.items()}
    for row in rows:
        if len(found) == MOST_STEPS:
            break
        if not hold(row.when, facts) or (text := filled(row.text, values, language)) is None:
            continue
        commands = [each for each in (_filled(command, safe) for command in row.commands) if each]
        found.append(Step(text=text, commands=tuple(each for each in commands if each not in seen)))
        seen.update(commands)
    return tuple(found)


def _filled(text: str, values: Mapping[str, str]) -> str | None:
    missing = False

    def value(place: re.Match[str]) -> str:
        nonlocal missing
        known = values.get(place[1]) or place[2]
        missing = missing or known is None
        return known or ""

    result = _PLACE.sub(value, text)
    return None if missing else result
