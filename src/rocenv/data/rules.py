"""Rows about failures: how they look in a log, why they happen, and how to fix them.

Patterns are Python regular expressions and ignore case; literals match as printed. Texts exist in each of
rocenv's languages; `{gfx}` is replaced by a fact, and `{gfx|your GPU}` falls back to those words.

A condition (`when`) maps facts to requirements: "" = unknown, "*" = known, a version range, or a pattern that
must match a whole value.
"""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal

import msgspec

from rocenv.core.model import Value
from rocenv.data.known import Known, literal_faults, pattern_faults, range_faults

if TYPE_CHECKING:
    from rocenv.data.rows import Matrix


FARTHEST = 60  # lines that `near` can reach
OPERATORS = ("<", ">", "=", "!", "~")
# Facts that rocenv adds to those from the log; `env` only for the log of an env.
DERIVED = ("create", "rocm_minor", "platform", "gfx", "gpu", "driver", "amdgpu", "kernel", "env")
_ONLY_SOMETIMES = "env"
_PLACE = re.compile(r"\{(\w+)(\|[^{}]*)?\}")


class Text(Value, frozen=True, kw_only=True):
    """A text in each language."""

    en: str
    zh: str

    def faults(self) -> Iterator[str]:
        """Yield an error unless both languages have the same placeholders."""
        if set(_places(self.en)) != set(_places(self.zh)):
            yield f"the languages have different placeholders: `{self.en}`"


class Sign(Value, frozen=True, kw_only=True):
    """A pattern for log lines that points to a cause."""

    text: tuple[str, ...]  # a line must contain one of these
    pattern: str = ""  # the line must match this; named groups become facts
    near: tuple[str, ...] = ()  # patterns that must each match a nearby line
    not_near: tuple[str, ...] = ()  # patterns that must not match a nearby line
    within: int = 30  # how many lines before and after count as nearby
    when: dict[str, str] = msgspec.field(default_factory=dict)
    weight: float  # 0 to 1: confidence from this sign alone

    def faults(self, facts: set[str]) -> Iterator[str]:
        """Yield patterns, literals and conditions that can never match."""
        for pattern in (self.pattern, *self.near, *self.not_near):
            yield from pattern_faults("sign", pattern)
        yield from literal_faults("text", self.text or ("",))
        if not 0 < self.weight <= 1:
            yield f"`weight` is {self.weight}; it must be above 0 and at most 1"
        if not 0 <= self.within <= FARTHEST:
            yield f"`within` is {self.within}; it must be 0 to {FARTHEST}"
        yield from condition_faults(self.when)
        yield from (f"`when` of a sign: no clue provides `{name}`" for name in self.when if name not in facts)


class Why(Value, frozen=True, kw_only=True):
    """Why it happened, under a condition."""

    text: Text
    when: dict[str, str] = msgspec.field(default_factory=dict)


class Remedy(Value, frozen=True, kw_only=True):
    """How to fix it, under a condition."""

    text: Text
    commands: tuple[str, ...] = ()
    when: dict[str, str] = msgspec.field(default_factory=dict)


class Rule(Known, frozen=True, kw_only=True):
    """A cause of failures."""

    IDENTITY = ("code",)
    NOT_EMPTY = ("sign",)

    code: str
    title: Text
    sign: tuple[Sign, ...]
    why: tuple[Why, ...]  # only the first match is shown
    remedy: tuple[Remedy, ...]  # all matches are shown, best first
    explains: tuple[str, ...] = ()  # causes that are merely consequences of this one
    links: tuple[str, ...] = ()
    more: Text | None = None  # further details

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Yield broken references, signs that can never match, and texts with unknown placeholders."""
        for code in self.explains:
            if code not in matrix.names("rule", "code"):
                yield f"`explains`: unknown rule `{code}`"
        if not self.why or self.why[-1].when:
            yield "the last `why` must be unconditional"
        facts = {*DERIVED, *matrix.names("clue", "fact")}
        signs = [fault for sign in self.sign for fault in sign.faults(facts)]
        yield from signs
        for when in self._conditions():
            yield from condition_faults(when)
        if not signs:
            groups = (re.compile(sign.pattern).groupindex for sign in self.sign)
            yield from self._place_faults(facts.union(*groups))

    def _conditions(self) -> Iterator[dict[str, str]]:
        yield from (each.when for each in self.why)
        yield from (each.when for each in self.remedy)

    def _place_faults(self, known: set[str]) -> Iterator[str]:
        asked = dict.fromkeys(name for when in self._conditions() for name in when)
        yield from (f"`when`: no clue provides `{name}`" for name in asked if name not in known)
        for text, always in self._texts():
            for name, words in _PLACE.findall(text):
                if name not in known:
                    yield f"unknown placeholder `{{{name}}}`: `{text}`"
                elif not words and (always or name == _ONLY_SOMETIMES):
                    yield f"`{{{name}}}` needs a fallback for when it is unknown: `{text}`"
        for each in (self.title, *(why.text for why in self.why), *(remedy.text for remedy in self.remedy)):
            yield from each.faults()

    def _texts(self) -> Iterator[tuple[str, bool]]:
        """Yield each text, and whether it is always shown."""
        pairs = [(self.title, True), *((why.text, why is self.why[-1]) for why in self.why)]
        pairs += [(remedy.text, False) for remedy in self.remedy]
        pairs += [(self.more, True)] if self.more else []
        for pair, always in pairs:
            yield from ((pair.en, always), (pair.zh, always))
        yield from ((command, False) for remedy in self.remedy for command in remedy.commands)


class Clue(Known, frozen=True, kw_only=True):
    """Where a log reveals a fact about the machine or its programs."""

    IDENTITY = ("fact", "value", "text", "pattern")
    PATTERNS = ("pattern",)

    fact: str
    text: tuple[str, ...]  # literals, one of which the line must contain
    pattern: str  # a group named after the fact is its value; without such a group, `value` is
    value: str = "yes"

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Yield literals that cannot be searched for."""
        yield from literal_faults("text", self.text or ("",))


class Advice(Known, frozen=True, kw_only=True):
    """The text of a finding of `doctor`."""

    IDENTITY = ("name",)

    name: str
    code: str  # the cause: the code of a rule, or its own
    severity: Literal["error", "warning", "info"]
    title: Text
    detail: Text
    remedy: tuple[Remedy, ...] = ()
    links: tuple[str, ...] = ()
    fix: str = ""  # what `doctor --fix` may do about it; "" = no safe fix
    checks: tuple[str, ...] = ()  # checks that report it; () = the check of the same name

    @property
    def told_by(self) -> tuple[str, ...]:
        """Names of the checks that report it; a support bundle cannot claim other checks."""
        return self.checks or (self.name,)

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Yield conditions that cannot be evaluated."""
        for each in self.remedy:
            yield from condition_faults(each.when)


class Gauge(Known, frozen=True, kw_only=True):
    """A threshold or list that a check uses."""

    IDENTITY = ("key",)

    key: str
    values: tuple[str, ...]  # a number, a version, or names
    text: str = ""  # what they mean


class FirstKernel(Known, frozen=True, kw_only=True):
    """The first Linux kernel whose own driver can compute on a target."""

    IDENTITY = ("target",)
    VERSIONS = ("linux",)

    target: str
    linux: str


def condition_faults(when: Mapping[str, str]) -> Iterator[str]:
    """Yield conditions that cannot be evaluated."""
    for value in when.values():
        check = range_faults if value.startswith(OPERATORS) else pattern_faults
        yield from check("when", "" if value == "*" else value)


def _places(text: str) -> Iterator[str]:
    return (name for name, _words in _PLACE.findall(text))
