"""Which settings of a program fit a card: chosen from the rows about it, never two that must not meet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from rocenv.host.gpu import printable
from rocenv.memory.amounts import GIB

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocenv.data.knobs import Knob, NeverTogether

# `taken`: it fits. `instead`: it fits too, in the place of the one that is taken. `if`: it depends on
# something that is not known. `kept-out`: it would meet, or replace, what the environment has already.
State = Literal["taken", "instead", "if", "kept-out"]
_ORDER: tuple[State, ...] = ("taken", "kept-out", "instead", "if")


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What settings depend on; None and "" = not known."""

    platform: str
    total_bytes: int | None = None
    integrated: bool | None = None
    target: str = ""
    torch: str = ""

    @property
    def gib(self) -> int | None:
        """Its memory as cards are sold: 12 GiB less what the firmware keeps are 12."""
        return None if self.total_bytes is None else round(self.total_bytes / GIB)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A row, and what is made of it."""

    knob: Knob
    state: State
    condition: str = ""  # that is not known to hold


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """All that is said about a program and a card."""

    settings: tuple[Setting, ...]
    variables: Mapping[str, str]  # to be set
    arguments: tuple[str, ...]  # to be given
    conflicts: tuple[str, ...]  # with what the environment has already; sentences
    unset: tuple[str, ...]  # variables that hold what must never meet


def advise(
    program: str,
    card: Card,
    knobs: Sequence[Knob],
    never: Sequence[NeverTogether],
    environ: Mapping[str, str],
) -> Advice:
    """Return the settings of a program for a card.

    Args:
        program: As the rows have it.
        card: The GPU, and what computes on it.
        knobs: The rows of all programs.
        never: What must not meet.
        environ: What the program will find in its environment already.
    """
    own = [knob for knob in knobs if knob.program == program and card.platform in knob.platforms]
    settings: list[Setting] = []
    conflicts, unset = _own_conflicts(never, environ)
    chosen: set[str] = set()
    for knob in sorted(own, key=lambda knob: (knob.rank, knob.key)):
        condition = _unknown(knob, card)
        if condition is None:
            continue
        state: State = "if" if condition else "instead" if knob.choice in chosen else "taken"
        if state == "taken" and (met := _meets(knob, never, environ)):
            state = "kept-out"
            conflicts.append(met)
        if state in ("taken", "kept-out") and knob.choice:
            chosen.add(knob.choice)
        settings.append(Setting(knob=knob, state=state, condition=condition))
    order = {knob.key: place for place, knob in enumerate(_by_choice(own))}
    settings.sort(key=lambda each: (order[each.knob.key], _ORDER.index(each.state)))
    taken = [each.knob for each in settings if each.state == "taken"]
    return Advice(
        settings=tuple(settings),
        variables={name: knob.value for knob in taken for name in knob.variables},
        arguments=tuple(word for knob in taken for word in knob.arguments),
        conflicts=tuple(dict.fromkeys(conflicts)),
        unset=tuple(unset),
    )


def _by_choice(knobs: Sequence[Knob]) -> list[Knob]:
    """Return the rows in an order for people: what is set inside first, notes last, alternatives together."""
    wheres = ("argument", "setting", "variable", "note")
    first: dict[str, tuple[int, str]] = {}
    for knob in sorted(knobs, key=lambda knob: (knob.rank, knob.key)):
        place = wheres.index(knob.where) if knob.rank else -1
        first.setdefault(knob.choice or knob.key, (place, knob.key))
    return sorted(knobs, key=lambda knob: (*first[knob.choice or knob.key], knob.rank, knob.key))


def _unknown(knob: Knob, card: Card) -> str | None:
    """Return the condition of a row that is not known to hold, "" where all hold, None where one does not."""
    open_ones = []
    for holds, text in _conditions(knob, card):
        if holds is False:
            return None
        if holds is None:
            open_ones.append(text)
    return " and ".join(open_ones)


def _conditions(knob: Knob, card: Card) -> list[tuple[bool | None, str]]:
    found: list[tuple[bool | None, str]] = []
    gib = card.gib
    if knob.from_gib:
        found.append((None if gib is None else gib >= knob.from_gib, f"from {knob.from_gib:g} GiB on"))
    if knob.to_gib:
        found.append((None if gib is None else gib <= knob.to_gib, f"up to {knob.to_gib:g} GiB"))
    if knob.integrated is not None:
        same = None if card.integrated is None else card.integrated is knob.integrated
        found.append((same, "on an APU" if knob.integrated else "on a card"))
    if knob.targets:
        found.append((card.target in knob.targets if card.target else None, f"on {', '.join(knob.targets)}"))
    if knob.torch:
        found.append((_has_torch(card.torch, knob.torch), f"with torch {knob.torch}"))
    return found


def _has_torch(version: str, wanted: str) -> bool | None:
    try:
        # A local part, "+rocm6.4", says what it is built for and not which release it is.
        return Version(Version(version).public) in SpecifierSet(wanted, prereleases=True)
    except InvalidVersion:
        return None


def _held(rule: NeverTogether, environ: Mapping[str, str]) -> dict[str, list[str]]:
    """Return which of the words stand in which variables; names for the same variable count as one."""
    found: dict[str, list[str]] = {}
    for name in rule.variables:
        for word in rule.held(environ.get(name, "")):
            found.setdefault(word, []).append(name)
    return found


def _own_conflicts(never: Sequence[NeverTogether], environ: Mapping[str, str]) -> tuple[list[str], list[str]]:
    conflicts, unset = [], []
    for rule in never:
        held = _held(rule, environ)
        if len(held) < len(rule.words):
            continue
        names = list(dict.fromkeys(name for word in held.values() for name in word))
        conflicts.append(
            f"your environment has {' and '.join(rule.words)} in {', '.join(names)}: {rule.text}"
        )
        unset += names
    return conflicts, unset


def _meets(knob: Knob, never: Sequence[NeverTogether], environ: Mapping[str, str]) -> str:
    """Return why a row is not brought together with what the environment has, "" = there is no reason."""
    for rule in never:
        if not set(knob.variables) & set(rule.variables):
            continue
        held = _held(rule, environ)
        together = {*rule.held(knob.value), *held}
        if held and len(together) == len(rule.words):
            names = list(dict.fromkeys(name for word in held.values() for name in word))
            return (
                f"{', '.join(names)} of your environment has {' and '.join(held)}, so `{knob.value}` is not"
                f" added: {rule.text}"
            )
    own = {name: environ[name] for name in knob.variables if environ.get(name, knob.value) != knob.value}
    if not own:
        return ""
    values = ", ".join(f"{name}={printable(value)}" for name, value in own.items())
    return f"your environment has {values}, so that is left as you have set it: `{knob.value}` is not added"
