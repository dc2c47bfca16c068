"""Rows about failures: how a log shows them, why they happen, and what to do.

Regular expressions are Python's and ignore case; literals are matched as printed. Texts are in English and
Chinese; `{gfx}` becomes the value of a fact, `{gfx|your GPU}` those words if the fact is unknown.

A condition (`when`) maps facts to what must hold: "" = unknown, "*" = known, a version range, or a regular
expression that one of the values matches as a whole.
"""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal

import msgspec

from rocenv.core.model import Value
from rocenv.core.template import places
from rocenv.data.known import Known, literal_faults, pattern_faults, range_faults

if TYPE_CHECKING:
    from rocenv.data.rows import Matrix


FARTHEST = 60  # lines that `near` can reach
OPERATORS = ("<", ">", "=", "!", "~")
# Values from rocenv instead of the log; `env` only for the log of an env.
DERIVED = ("create", "rocm_minor", "platform", "gfx", "gpu", "driver", "amdgpu", "kernel", "env")
_ONLY_SOMETIMES = "env"


class Text(Value, frozen=True, kw_only=True):
    """A text in each language."""

    en: str
    zh: str

    def faults(self) -> Iterator[str]:
        """Report placeholders that only one language has."""
        if places(self.en).keys() != places(self.zh).keys():
            yield f"the languages have different placeholders: `{self.en}`"


class Pattern(Value, frozen=True, kw_only=True):
    """A line of a log that shows a cause."""

    text: tuple[str, ...]  # literals; the line contains one of them
    regex: str = ""  # the line matches it; named groups become facts
    near: tuple[str, ...] = ()  # regular expressions that all match in nearby lines
    not_near: tuple[str, ...] = ()  # regular expressions that do not
    within: int = 30  # lines before and after that are nearby
    when: dict[str, str] = msgspec.field(default_factory=dict)
    weight: float  # 0 to 1: confidence from this line alone

    def faults(self, facts: set[str]) -> Iterator[str]:
        """Report expressions, literals and conditions that can never hold."""
        for regex in (self.regex, *self.near, *self.not_near):
            yield from pattern_faults("pattern", regex)
        yield from literal_faults("text", self.text or ("",))
        if not 0 < self.weight <= 1:
            yield f"`weight` is {self.weight}; it must be above 0 and at most 1"
        if not 0 <= self.within <= FARTHEST:
            yield f"`within` is {self.within}; it must be 0 to {FARTHEST}"
        yield from condition_faults(self.when)
        yield from (
            f"`when` of a pattern: no extractor finds `{name}`" for name in self.when if name not in facts
        )


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
    NOT_EMPTY = ("pattern",)

    code: str
    title: Text
    pattern: tuple[Pattern, ...]
    why: tuple[Why, ...]  # the first that holds is shown
    remedy: tuple[Remedy, ...]  # all that hold are shown, best first
    explains: tuple[str, ...] = ()  # causes that are consequences of this one
    links: tuple[str, ...] = ()
    more: Text | None = None  # background

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Report unknown codes, patterns that never match, and texts that cannot be filled."""
        for code in self.explains:
            if code not in matrix.names("rule", "code"):
                yield f"`explains`: unknown rule `{code}`"
        if not self.why or self.why[-1].when:
            yield "the last `why` must have no condition"
        facts = {*DERIVED, *matrix.names("extractor", "fact")}
        faults = [fault for pattern in self.pattern for fault in pattern.faults(facts)]
        yield from faults
        for when in self._conditions():
            yield from condition_faults(when)
        if not faults:
            groups = (re.compile(pattern.regex).groupindex for pattern in self.pattern)
            yield from self._place_faults(facts.union(*groups))

    def _conditions(self) -> Iterator[dict[str, str]]:
        yield from (each.when for each in self.why)
        yield from (each.when for each in self.remedy)

    def _place_faults(self, known: set[str]) -> Iterator[str]:
        asked = dict.fromkeys(name for when in self._conditions() for name in when)
        yield from (f"`when`: no clue provides `{name}`" for name in asked if name not in known)
        for text, always in self._texts():
            for name, has_fallback in places(text).items():
                if name not in known:
                    yield f"unknown placeholder `{{{name}}}`: `{text}`"
                elif not has_fallback and (always or name == _ONLY_SOMETIMES):
                    yield f"`{{{name}}}` needs a fallback for when it is unknown: `{text}`"
        for each in (self.title, *(why.text for why in self.why), *(remedy.text for remedy in self.remedy)):
            yield from each.faults()

    def _texts(self) -> Iterator[tuple[str, bool]]:
        """Yield each text, and whether it is shown even if nothing is known."""
        pairs = [(self.title, True), *((why.text, why is self.why[-1]) for why in self.why)]
        pairs += [(remedy.text, False) for remedy in self.remedy]
        pairs += [(self.more, True)] if self.more else []
        for pair, always in pairs:
            yield from ((pair.en, always), (pair.zh, always))
        yield from ((command, False) for remedy in self.remedy for command in remedy.commands)


class Extractor(Known, frozen=True, kw_only=True):
    """How to read a fact about the machine or its programs from a line of a log."""

    IDENTITY = ("fact", "value", "text", "pattern")
    PATTERNS = ("pattern",)

    fact: str
    text: tuple[str, ...]  # literals; the line contains one of them
    pattern: str  # the group named like the fact is the value; without such a group, `value` is
    value: str = "yes"

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Report literals that cannot be searched for."""
        yield from literal_faults("text", self.text or ("",))


class Advice(Known, frozen=True, kw_only=True):
    """The texts of something that a check finds."""

    IDENTITY = ("name",)

    name: str
    code: str  # that of the rule with the same cause, or its own
    severity: Literal["error", "warning", "info"]
    title: Text
    detail: Text
    about: Text | None = None  # its line in `doctor --list`; None = the title, which then has no placeholder
    remedy: tuple[Remedy, ...] = ()
    links: tuple[str, ...] = ()
    fix: str = ""  # the fix of `doctor --fix` for it; "" = none
    checks: tuple[str, ...] = ()  # the checks that find it; () = the one of its name
    runs_in: tuple[Literal["doctor", "launch"], ...] = ("doctor",)  # the commands that check it

    @property
    def found_by(self) -> tuple[str, ...]:
        """The names of the checks that find it."""
        return self.checks or (self.name,)

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Yield conditions that cannot be evaluated."""
        for each in self.remedy:
            yield from condition_faults(each.when)


class Threshold(Known, frozen=True, kw_only=True):
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
