"""Row classes for failures: symptoms in logs, causes and remedies.

Regular expressions use Python's syntax and ignore case; literals must match exactly. Messages are in English
and Chinese; `{gfx}` is replaced with a fact's value, `{gfx|your GPU}` with the fallback if the fact is
unknown.

A condition (`when`) maps facts to required values: "" (unknown), "*" (any known value), a version range, or
a regular expression that must fully match one of the values.
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


FARTHEST = 60  # maximum value of `within`, in lines
OPERATORS = ("<", ">", "=", "!", "~")
# Facts that rocenv provides; `env` exists only for an env's log.
DERIVED = (
    *(
        "create",
        "native",
        "rocm_minor",
        "torch_index",
        "platform",
        "gfx",
        "gpu",
        "driver",
        "amdgpu",
        "kernel",
    ),
    *("env", "another"),
)
_ONLY_SOMETIMES = "env"


class Text(Value, frozen=True, kw_only=True):
    """A message in each language."""

    en: str
    zh: str

    def faults(self) -> Iterator[str]:
        """Report empty messages, and placeholders that only one language uses."""
        if not self.en or not self.zh:
            yield f"`en` or `zh` is empty: `{self.en or self.zh}`"
        if places(self.en).keys() != places(self.zh).keys():
            yield f"`en` and `zh` have different placeholders: `{self.en}`"


class Pattern(Value, frozen=True, kw_only=True):
    """A log line that indicates a cause."""

    text: tuple[str, ...]  # literals, one of which the line contains
    regex: str = ""  # matches the line; its named groups are facts
    near: tuple[str, ...] = ()  # regular expressions that must all match nearby lines
    not_near: tuple[str, ...] = ()  # regular expressions that must not match nearby lines
    within: int = 30  # how far away nearby lines can be
    when: dict[str, str] = msgspec.field(default_factory=dict)
    weight: float  # confidence from this line alone, 0 to 1

    def faults(self, facts: set[str]) -> Iterator[str]:
        """Report invalid expressions, literals and conditions."""
        for regex in (self.regex, *self.near, *self.not_near):
            yield from pattern_faults("pattern", regex)
        yield from literal_faults("text", self.text or ("",))
        if not 0 < self.weight <= 1:
            yield f"`weight` is {self.weight}; it must be above 0 and at most 1"
        if not 0 <= self.within <= FARTHEST:
            yield f"`within` is {self.within}; it must be between 0 and {FARTHEST}"
        yield from condition_faults(self.when)
        yield from (
            f"`when` in a pattern: no extractor provides `{name}`" for name in self.when if name not in facts
        )


class Why(Value, frozen=True, kw_only=True):
    """An explanation that applies under a condition."""

    text: Text
    when: dict[str, str] = msgspec.field(default_factory=dict)


class Remedy(Value, frozen=True, kw_only=True):
    """A remedy that applies under a condition."""

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
    why: tuple[Why, ...]  # the first one whose condition is true is shown
    remedy: tuple[Remedy, ...]  # those whose conditions are true are shown, best first
    explains: tuple[str, ...] = ()  # rules for problems that this cause leads to
    links: tuple[str, ...] = ()
    more: Text | None = None  # background

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Report unknown codes, invalid patterns, and messages with unknown placeholders."""
        for code in self.explains:
            if code not in matrix.names("rule", "code"):
                yield f"`explains`: unknown rule `{code}`"
        if not self.why or self.why[-1].when:
            yield "the last `why` must not have a condition"
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
        yield from (
            f"`when`: no extractor or pattern provides `{name}`" for name in asked if name not in known
        )
        for text, always in self._texts():
            for name, has_fallback in places(text).items():
                if name not in known:
                    yield f"unknown placeholder `{{{name}}}`: `{text}`"
                elif not has_fallback and (always or name == _ONLY_SOMETIMES):
                    yield f"`{{{name}}}` needs a fallback for when it is unknown: `{text}`"
        for each in (self.title, *(why.text for why in self.why), *(remedy.text for remedy in self.remedy)):
            yield from each.faults()

    def _texts(self) -> Iterator[tuple[str, bool]]:
        """Yield each message, and whether it is shown even if all facts are unknown."""
        pairs = [(self.title, True), *((why.text, why is self.why[-1]) for why in self.why)]
        pairs += [(remedy.text, False) for remedy in self.remedy]
        pairs += [(self.more, True)] if self.more else []
        for pair, always in pairs:
            yield from ((pair.en, always), (pair.zh, always))
        yield from ((command, False) for remedy in self.remedy for command in remedy.commands)


class Extractor(Known, frozen=True, kw_only=True):
    """Extracts a fact about the machine or its programs from a log line."""

    IDENTITY = ("fact", "value", "text", "pattern")
    PATTERNS = ("pattern",)

    fact: str
    text: tuple[str, ...]  # literals, one of which the line contains
    pattern: str  # captures the value in a group named after the fact; without one, `value` is used
    value: str = "yes"

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Report unsearchable literals."""
        yield from literal_faults("text", self.text or ("",))


class Advice(Known, frozen=True, kw_only=True):
    """The messages for a check's finding."""

    IDENTITY = ("name",)

    name: str
    code: str  # code of the rule for the same cause, or the check's own
    severity: Literal["error", "warning", "info"]
    title: Text
    detail: Text
    about: Text | None = None  # line in `doctor --list`; None for the title without placeholders
    remedy: tuple[Remedy, ...] = ()
    links: tuple[str, ...] = ()
    fix: str = ""  # fix that `doctor --fix` applies; "" if none
    checks: tuple[str, ...] = ()  # checks that report this; () for the check with the same name
    runs_in: tuple[Literal["doctor", "launch"], ...] = ("doctor",)  # commands that run these checks

    @property
    def found_by(self) -> tuple[str, ...]:
        """The names of the checks that report it."""
        return self.checks or (self.name,)

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Report invalid conditions."""
        for each in self.remedy:
            yield from condition_faults(each.when)


class Messages(Known, frozen=True, kw_only=True):
    """Messages that a command prints in addition to findings."""

    IDENTITY = ("topic",)

    topic: str
    texts: dict[str, Text]

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Report placeholders that only one language uses."""
        for text in self.texts.values():
            yield from text.faults()


class Threshold(Known, frozen=True, kw_only=True):
    """A threshold or list that a check uses."""

    IDENTITY = ("key",)

    key: str
    values: tuple[str, ...]  # a number, a version, or names
    text: str = ""  # what the values mean


class FirstKernel(Known, frozen=True, kw_only=True):
    """The first Linux kernel whose amdgpu driver supports compute on a target."""

    IDENTITY = ("target",)
    VERSIONS = ("linux",)

    target: str
    linux: str


def condition_faults(when: Mapping[str, str]) -> Iterator[str]:
    """Report invalid conditions."""
    for value in when.values():
        check = range_faults if value.startswith(OPERATORS) else pattern_faults
        yield from check("when", "" if value == "*" else value)
