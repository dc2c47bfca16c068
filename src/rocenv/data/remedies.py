"""Choose a row's applicable remedies, and fill in its messages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from rocenv.core.template import fill_all, without_values
from rocenv.data.rules import OPERATORS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rocenv.core.language import Language
    from rocenv.data.rows import Matrix
    from rocenv.data.rules import Remedy, Text

# Text from an untrusted log that is safe to insert in a command.
_WORD = re.compile(r"(?:~(?=/))?[\w.:+,/\\@=-]{1,80}")
MAX_STEPS = 4
# Punctuation between parts of a message, including the space after it.
_CHINESE_MARKS = {":": "：", ",": "、", ";": "；", ".": "。"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step for the user."""

    text: str
    commands: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Texts:
    """A topic's messages, in the user's language."""

    matrix: Matrix
    topic: str
    language: Language

    def __call__(self, name: str, /, **values: str) -> str:
        """Fill in a message; "" if a value is unknown."""
        row = next(row for row in self.matrix.messages if row.topic == self.topic)
        return filled(row.texts[name], values, self.language) or ""

    def mark(self, mark: str) -> str:
        """The language's form of a punctuation mark, including the space after it."""
        return _CHINESE_MARKS[mark] if self.language == "zh" else f"{mark} "


def filled(text: Text, values: Mapping[str, str], language: Language) -> str | None:
    """Fill in a message, or return None if a value is unknown and has no fallback."""
    return fill_all(getattr(text, language), values)


def unfilled(text: Text, language: Language) -> str:
    """Render text without values, using its fallbacks or an ellipsis."""
    gpu, gap = ("这块 GPU", "……") if language == "zh" else ("this GPU", "...")
    return without_values(getattr(text, language), lambda name: gpu if name == "gfx" else gap)


def plain_word(text: str) -> str:
    """Return the text if it is a single unquoted word in every shell, otherwise ""."""
    return text if _WORD.fullmatch(text) else ""


def steps(
    rows: Sequence[Remedy],
    facts: Mapping[str, tuple[str, ...]],
    values: Mapping[str, str],
    language: Language,
    *,
    commands: Mapping[str, str] | None = None,
    quote: Callable[[str], str] = plain_word,
) -> tuple[Step, ...]:
    """Choose and fill in the remedies that apply, best first, without repeating a command.

    Args:
        rows: The remedies.
        facts: Facts for their conditions.
        values: Values for placeholders in text and commands.
        language: The text's language.
        commands: Complete commands from rocenv, inserted without quoting.
        quote: Quotes a value for a command; returns "" for a value that is not allowed there.
    """
    found: list[Step] = []
    seen: set[str] = set()
    values = {**values, **(commands or {})}
    words = {name: quote(value) for name, value in values.items()} | dict(commands or {})
    for row in rows:
        if len(found) == MAX_STEPS:
            break
        if not hold(row.when, facts) or (text := filled(row.text, values, language)) is None:
            continue
        complete = [each for each in (fill_all(command, words) for command in row.commands) if each]
        found.append(Step(text=text, commands=tuple(each for each in complete if each not in seen)))
        seen.update(complete)
    return tuple(found)


def hold(when: Mapping[str, str], facts: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether all conditions are true; an unknown fact satisfies only the condition ""."""
    return all(_holds(condition, facts.get(name, ())) for name, condition in when.items())


def _holds(condition: str, values: tuple[str, ...]) -> bool:
    if condition in ("", "*"):
        return bool(values) == bool(condition)
    if condition.startswith(OPERATORS):
        return any(_allows(condition, value) for value in values)
    return any(compiled(condition).fullmatch(value) for value in values)


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a row's regular expression."""
    return re.compile(pattern, re.IGNORECASE)


def _allows(condition: str, value: str) -> bool:
    number = re.match(r"[0-9]+(?:\.[0-9]+)*", value)
    try:
        return number is not None and SpecifierSet(condition).contains(Version(number[0]), prereleases=True)
    except InvalidVersion:
        return False
