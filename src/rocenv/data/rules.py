"""Rows about failures: how a log shows them, why they happen, and what cures them.

Patterns are Python's regular expressions and ignore case; literals are as printed. Texts are in the languages
that rocenv speaks; `{gfx}` in them is filled with a fact, or `{gfx|your GPU}` with those words.

A condition (`when`) maps facts to what must hold of them: "" = not known, "*" = known, a version range, or
else a pattern that one of its values matches as a whole.
"""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal

import msgspec

from rocenv.core.model import Value
from rocenv.data.known import Known, literal_faults, pattern_faults, range_faults

if TYPE_CHECKING:
    from rocenv.data.rows import Matrix


FARTHEST = 60  # lines that `near` can look at
OPERATORS = ("<", ">", "=", "!", "~")
# What rocenv fills in besides what a log says; `env` only if the log is of one.
DERIVED = ("create", "rocm_minor", "platform", "gfx", "gpu", "driver", "amdgpu", "kernel", "env")
_ONLY_SOMETIMES = "env"
_PLACE = re.compile(r"\{(\w+)(\|[^{}]*)?\}")


class Text(Value, frozen=True, kw_only=True):
    """The same in each language."""

    en: str
    zh: str

    def faults(self) -> Iterator[str]:
        """Yield a complaint unless both languages have the same places."""
        if set(_places(self.en)) != set(_places(self.zh)):
            yield f"the languages have different places: `{self.en}`"


class Sign(Value, frozen=True, kw_only=True):
    """What a line of a log looks like that shows a cause."""

    text: tuple[str, ...]  # one of these stands in it
    pattern: str = ""  # what it matches; named groups become facts
    near: tuple[str, ...] = ()  # patterns that are each found in the lines around
    not_near: tuple[str, ...] = ()  # patterns of which none is
    within: int = 30  # lines before and after that count as around
    when: dict[str, str] = msgspec.field(default_factory=dict)
    weight: float  # 0 to 1: how sure it is, from this sign alone

    def faults(self, facts: set[str]) -> Iterator[str]:
        """Yield patterns, literals and conditions that can never hold."""
        for pattern in (self.pattern, *self.near, *self.not_near):
            yield from pattern_faults("sign", pattern)
        yield from literal_faults("text", self.text or ("",))
        if not 0 < self.weight <= 1:
            yield f"`weight` is {self.weight}; it must be above 0 and at most 1"
        if not 0 <= self.within <= FARTHEST:
            yield f"`within` is {self.within}; it must be 0 to {FARTHEST}"
        yield from condition_faults(self.when)
        yield from (f"`when` of a sign: no clue finds `{name}`" for name in self.when if name not in facts)


class Why(Value, frozen=True, kw_only=True):
    """Why it happened, under a condition."""

    text: Text
    when: dict[str, str] = msgspec.field(default_factory=dict)


class Remedy(Value, frozen=True, kw_only=True):
    """What to do about it, under a condition."""

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
    why: tuple[Why, ...]  # the first that holds is shown
    remedy: tuple[Remedy, ...]  # all that hold are shown, the best first
    explains: tuple[str, ...] = ()  # causes that are only a consequence of this one
    links: tuple[str, ...] = ()
    more: Text | None = None  # for whoever wants to know it all

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Yield references to nothing, signs that never show, and texts that could not be filled."""
        for code in self.explains:
            if code not in matrix.names("rule", "code"):
                yield f"`explains`: there is no rule `{code}`"
        if not self.why or self.why[-1].when:
            yield "the last `why` must have no condition"
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
        yield from (f"`when`: nothing in a log is `{name}`" for name in asked if name not in known)
        for text, always in self._texts():
            for name, words in _PLACE.findall(text):
                if name not in known:
                    yield f"nothing fills `{{{name}}}`: `{text}`"
                elif not words and (always or name == _ONLY_SOMETIMES):
                    yield f"`{{{name}}}` needs words for when it is not known: `{text}`"
        for each in (self.title, *(why.text for why in self.why), *(remedy.text for remedy in self.remedy)):
            yield from each.faults()

    def _texts(self) -> Iterator[tuple[str, bool]]:
        """Yield each text, and whether it is shown whatever is known."""
        pairs = [(self.title, True), *((why.text, why is self.why[-1]) for why in self.why)]
        pairs += [(remedy.text, False) for remedy in self.remedy]
        pairs += [(self.more, True)] if self.more else []
        for pair, always in pairs:
            yield from ((pair.en, always), (pair.zh, always))
        yield from ((command, False) for remedy in self.remedy for command in remedy.commands)


class Clue(Known, frozen=True, kw_only=True):
    """Where a log says something about the machine or the programs."""

    IDENTITY = ("fact", "value", "text", "pattern")
    PATTERNS = ("pattern",)

    fact: str
    text: tuple[str, ...]  # literals, one of which stands in the line
    pattern: str  # its group that is named like the fact is the value; without such a group, `value` is
    value: str = "yes"

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Yield literals that cannot be searched for."""
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
    runs_in: tuple[Literal["doctor", "launch", "verify"], ...] = ("doctor",)  # the commands that check it

    @property
    def found_by(self) -> tuple[str, ...]:
        """The names of the checks that find it."""
        return self.checks or (self.name,)

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Yield conditions that cannot be evaluated."""
        for each in self.remedy:
            yield from condition_faults(each.when)


class Gauge(Known, frozen=True, kw_only=True):
    """What a check measures by."""

    IDENTITY = ("key",)

    key: str
    values: tuple[str, ...]  # a number, a version, or names
    text: str = ""  # what they are


class FirstKernel(Known, frozen=True, kw_only=True):
    """The first Linux whose own driver computes on a target."""

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
