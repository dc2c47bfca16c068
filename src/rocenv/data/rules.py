"""Rows about what goes wrong: how a log shows it, why it happens, and what cures it.

Patterns are Python's regular expressions and ignore case; literals are as printed. Texts are in the languages
that rocenv speaks; `{gfx}` in them is filled with a fact, `{gfx|your GPU}` with those words where it is not
known.

A condition (`when`) maps facts to what must hold of them: "" = not known, "*" = known, a version range, or
else a pattern that one of its values matches as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from rocenv.data.known import Known


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """The same in each language."""

    en: str
    zh: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """What a line of a log looks like that shows a cause."""

    text: tuple[str, ...]  # one of these stands in it
    pattern: str = ""  # what it matches; named groups become facts
    near: tuple[str, ...] = ()  # patterns that are each found in the lines around
    not_near: tuple[str, ...] = ()  # patterns of which none is
    within: int = 30  # lines before and after that count as around
    when: dict[str, str] = field(default_factory=dict)
    weight: float  # 0 to 1: how sure it is, from this sign alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """Why it happened, under a condition."""

    text: Text
    when: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """What to do about it, under a condition."""

    text: Text
    commands: tuple[str, ...] = ()
    when: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Known):
    """A cause of failures. Table `rule`."""

    code: str
    title: Text
    sign: tuple[Sign, ...]
    why: tuple[Why, ...]  # the first that holds is told
    remedy: tuple[Remedy, ...]  # all that hold are told, the best first
    explains: tuple[str, ...] = ()  # causes that are only a consequence of this one
    links: tuple[str, ...] = ()
    more: Text | None = None  # for whoever wants to know it all


@dataclass(frozen=True, slots=True, kw_only=True)
class Clue(Known):
    """Where a log says something about the machine or the programs. Table `clue`."""

    fact: str
    text: tuple[str, ...]  # literals, one of which stands in the line
    pattern: str  # its group that is named like the fact is the value; without such a group, `value` is
    value: str = "yes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice(Known):
    """What a check of the machine tells when it finds something. Table `advice`."""

    name: str
    code: str  # the cause, as rules have it, or one of its own
    severity: Literal["error", "warning", "info"]
    title: Text
    detail: Text
    remedy: tuple[Remedy, ...] = ()
    links: tuple[str, ...] = ()
    fix: str = ""  # what `doctor --fix` may do about it; "" = nothing that is safe
    checks: tuple[str, ...] = ()  # that tell it; () = the one of its name

    @property
    def told_by(self) -> tuple[str, ...]:
        """The names of the checks that tell it: what a pack says of others is not believed."""
        return self.checks or (self.name,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge(Known):
    """What a check measures by. Table `gauge`."""

    key: str
    values: tuple[str, ...]  # a number, a version, or names
    text: str = ""  # what they are


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstKernel(Known):
    """The first Linux whose own driver computes on a target. Table `first_kernel`."""

    target: str
    linux: str


TABLES: dict[str, type[Known]] = {
    "rule": Rule,
    "clue": Clue,
    "advice": Advice,
    "gauge": Gauge,
    "first_kernel": FirstKernel,
}
