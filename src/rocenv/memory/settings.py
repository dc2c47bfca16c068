"""Select a program's memory settings for a GPU, avoiding conflicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from rocenv.host.gpu import printable
from rocenv.memory.amounts import GIB

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocenv.data.settings import NeverTogether, Setting

# `taken`: suits the GPU. `instead`: an alternative to a `taken` one. `if`: depends on something that rocenv
# does not know. `kept-out`: conflicts with the user's environment.
State = Literal["taken", "instead", "if", "kept-out"]
_STATES: tuple[State, ...] = ("taken", "kept-out", "instead", "if")
_PLACES = ("argument", "setting", "variable", "note")


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """The properties that settings depend on; None or "" if unknown."""

    platform: str
    total_bytes: int | None = None
    integrated: bool | None = None
    target: str = ""
    torch: str = ""

    @property
    def gib(self) -> int | None:
        """The nominal memory size, including what the firmware reserves."""
        return None if self.total_bytes is None else round(self.total_bytes / GIB)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advised:
    """A setting and whether it suits the GPU and the environment."""

    row: Setting
    state: State
    condition: str = ""  # for `if`, the condition that rocenv cannot evaluate


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """All settings of a program that could suit a GPU."""

    settings: tuple[Advised, ...]
    variables: Mapping[str, str]  # from the `taken` settings
    arguments: tuple[str, ...]  # from the `taken` settings
    conflicts: tuple[str, ...]  # messages about conflicts with the environment
    unset: tuple[str, ...]  # variables to unset


def advise(
    program: str,
    card: Card,
    rows: Sequence[Setting],
    rules: Sequence[NeverTogether],
    environ: Mapping[str, str],
) -> Advice:
    """Select a program's settings.

    Args:
        program: The program's name in the rows.
        card: The GPU and its software.
        rows: The settings of all programs.
        rules: The conflicting combinations.
        environ: The environment that the program will start in.
    """
    own = [row for row in rows if row.program == program and card.platform in row.platforms]
    settings: list[Advised] = []
    conflicts, unset = [], []
    for rule in rules:
        words, names = _present(rule, environ)
        if len(words) == len(rule.words):
            both = " and ".join(rule.words)
            conflicts.append(f"your environment has {both} in {', '.join(names)}: {rule.text}")
            unset += names
    chosen: set[str] = set()
    for row in sorted(own, key=lambda row: (row.rank, row.key)):
        condition = _open_condition(row, card)
        if condition is None:
            continue
        state: State = "if" if condition else "instead" if row.choice in chosen else "taken"
        if state == "taken" and (collision := _collision(row, rules, environ)):
            state = "kept-out"
            conflicts.append(collision)
        if state in ("taken", "kept-out") and row.choice:
            chosen.add(row.choice)
        settings.append(Advised(row=row, state=state, condition=condition))
    settings.sort(key=_place)
    taken = [each.row for each in settings if each.state == "taken"]
    return Advice(
        settings=tuple(settings),
        variables={name: row.value for row in taken for name in row.variables},
        arguments=tuple(word for row in taken for word in row.arguments),
        conflicts=tuple(dict.fromkeys(conflicts)),
        unset=tuple(unset),
    )


def _place(each: Advised) -> tuple[bool, int, str, int, int, str]:
    """Sort key for display: arguments and settings first, notes last, alternatives together."""
    row = each.row
    group = row.choice or row.key
    return row.rank > 0, _PLACES.index(row.where), group, _STATES.index(each.state), row.rank, row.key


def _open_condition(row: Setting, card: Card) -> str | None:
    """Return the conditions that cannot be evaluated, "" if all are met, or None if one is not."""
    gib = card.gib
    conditions: list[tuple[bool | None, str]] = []
    if row.from_gib:
        conditions.append(
            (None if gib is None else gib >= row.from_gib, f"with {row.from_gib:g} GiB or more")
        )
    if row.to_gib:
        conditions.append((None if gib is None else gib <= row.to_gib, f"with at most {row.to_gib:g} GiB"))
    if row.integrated is not None:
        same = None if card.integrated is None else card.integrated is row.integrated
        conditions.append((same, "on an APU" if row.integrated else "on a discrete GPU"))
    if row.targets:
        named = card.target in row.targets if card.target else None
        conditions.append((named, f"on {', '.join(row.targets)}"))
    if row.torch:
        conditions.append((_has_torch(card.torch, row.torch), f"with torch {row.torch}"))
    if any(holds is False for holds, _ in conditions):
        return None
    return " and ".join(text for holds, text in conditions if holds is None)


def _has_torch(version: str, wanted: str) -> bool | None:
    try:
        # A local part such as "+rocm6.4" identifies the build, not the release.
        return Version(Version(version).public) in SpecifierSet(wanted, prereleases=True)
    except InvalidVersion:
        return None


def _present(rule: NeverTogether, environ: Mapping[str, str]) -> tuple[set[str], list[str]]:
    """Return the rule's words that occur in the environment, and the variables that contain them."""
    words = {name: rule.contained(environ.get(name, "")) for name in rule.variables}
    return {word for found in words.values() for word in found}, [name for name in words if words[name]]


def _collision(row: Setting, rules: Sequence[NeverTogether], environ: Mapping[str, str]) -> str:
    """Explain why a setting conflicts with the environment; return "" if it does not."""
    for rule in rules:
        words, names = _present(rule, environ)
        together = words.union(rule.contained(row.value))
        if words and len(together) == len(rule.words) and row.sets(rule.variables):
            return (
                f"`{row.value}` is omitted because {', '.join(names)} in your environment contains"
                f" {' and '.join(sorted(words))}: {rule.text}"
            )
    own = {name: environ[name] for name in row.variables if environ.get(name, row.value) != row.value}
    values = ", ".join(f"{name}={printable(value)}" for name, value in own.items())
    return f"`{row.value}` is omitted because your environment already sets {values}" if own else ""
