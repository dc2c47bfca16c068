"""Parse the arguments that a program's help lists, and the user's arguments."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_NAME = re.compile(r"--?[A-Za-z][\w.-]*")
_START = re.compile(r"[ \t]*(?=--?[A-Za-z])")
_VALUE = re.compile(r"(?:[ =]|(?=\[))([<\[{(]\S.*?[>\]})](?=[\s,]|$)|(?!or -)[A-Za-z][\w,./|:-]*(?=[\s,]|$))")
# In a definition, the names and the value are followed by the end of the line, or by a gap and an
# explanation; in a sentence, they are followed by another word.
_CAPITALS = r"(?=[^a-z\s]*[A-Z])[^a-z\s]+"
_END = re.compile(
    r"\s*$|[ ]{2}|\t|[ ]?[<\[{(]|[=,;]\S*(?:\s*$|[ ]{2}|\t)|[ ]\S+=\S*\s*$"
    rf"|[ =]{_CAPITALS}(?:[ ]{_CAPITALS})*(?:\s*$|[ ]{{2}}|\t|[ ]\()"
)
# Some programs separate names with only a space or a word.
_NEXT = re.compile(r"[ ]*[,|/][ ]*(?=-)|[ ](?:or[ ])?(?=-)")
_VARIABLE = re.compile(r"\(env: ([A-Z][A-Z0-9_]*)\)")
_DEFAULT = re.compile(r"\b[Dd]efault(?: is|:)? '?([\w.+-]{1,40})")
# Some programs still list removed arguments.
_GONE = re.compile(r"\bhas been removed\b|\bno longer (?:supported|available)\b|\[removed\]", re.IGNORECASE)
_TAB = 8
# Lines indented further than the leftmost definitions are examples and wrapped prose, but some programs
# indent names without a short form by four more columns.
_SLACK = 4
_MAX_LINES = 20_000
_MAX_COLUMNS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An argument and its names."""

    names: tuple[str, ...]
    value: str = ""  # as the help shows it: "N", "<dev1,dev2,..>"; "" if none
    variable: str = ""  # the environment variable that has the same effect; "" if none
    default: str = ""  # "" if unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The arguments that one version of a program accepts."""

    by_name: Mapping[str, Option] = field(default_factory=dict)
    problem: str = ""  # why they are unknown; "" if they are known

    def __contains__(self, name: object) -> bool:
        return name in self.by_name

    def names(self, name: str) -> tuple[str, ...]:
        """All of an argument's names."""
        option = self.by_name.get(name)
        return option.names if option else (name,)


def read_help(text: str) -> Options:
    """Find the arguments that help output defines, and ignore those that it only mentions.

    A definition starts a line. It consists of comma-separated names with or without values, then at least two
    spaces and an explanation.
    """
    lines = [line[:_MAX_COLUMNS] for line in text.splitlines()[:_MAX_LINES]]
    starts = [
        (found.end(), len(found[0].expandtabs(_TAB)), number)
        for number, line in enumerate(lines)
        if (found := _START.match(line))
    ]
    if not starts:
        return Options(problem="its help does not list any arguments")
    rightmost = min(column for _, column, _ in starts) + _SLACK
    rows = [(offset, number) for offset, column, number in starts if column <= rightmost]
    ends = [number for _, number in rows[1:]] + [len(lines)]
    by_name: dict[str, Option] = {}
    for (offset, number), end in zip(rows, ends, strict=True):
        about = [lines[number][offset:], *lines[number + 1 : end]]
        for option in _defined(about):
            by_name.update((name, option) for name in option.names if name not in by_name)
    return Options(by_name=by_name)


def _defined(about: Sequence[str]) -> Iterator[Option]:
    names, value, rest = _names(about[0])
    text = " ".join([rest, *(line.strip() for line in about[1:])])
    if names and not _GONE.search(text):
        variable, default = _VARIABLE.search(text), _DEFAULT.search(text)
        yield Option(
            names=names,
            value=value,
            variable=variable[1] if variable else "",
            default=default[1] if default else "",
        )


def _names(line: str) -> tuple[tuple[str, ...], str, str]:
    """Split a line into the names that it defines, their value, and the explanation."""
    names, value, at = [], "", 0
    while found := _NAME.match(line, at):
        names.append(found[0])
        at = found.end()
        if shown := _VALUE.match(line, at):
            value, at = shown[1], shown.end()
        separator = _NEXT.match(line, at)
        if separator is None:
            break
        at = separator.end()
    return tuple(names) if _END.match(line, at) else (), value, line[at:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The user's arguments and environment variables for a program."""

    words: tuple[str, ...]
    environ: Mapping[str, str]
    options: Options
    behind: tuple[str, ...] = ()  # arguments that are valid only after `--`; () if `--` has no meaning

    def has(self, name: str) -> bool:
        """Whether an argument is given, under any of its names."""
        return self._place(name) is not None or self._variable(name) is not None

    def value(self, name: str) -> str | None:
        """An argument's value, or None if it is not given."""
        place = self._place(name)
        if place is None:
            return self._variable(name)
        word = self.words[place]
        if "=" in word and word not in self.options.names(name):
            return word.partition("=")[2]
        return self.words[place + 1] if place + 1 < len(self.words) else ""

    def says(self, phrase: str) -> bool:
        """Whether an argument such as `-ngl 0` is given, under any name."""
        name, _, wanted = phrase.partition(" ")
        value = self.value(name)
        return value is not None and (not wanted or value.lower() == wanted.lower())

    def _place(self, name: str) -> int | None:
        """The index of an argument's last occurrence, which takes precedence."""
        names, is_behind = self.options.names(name), name in self.behind
        places = (
            place
            for place, word, is_past in self._arguments()
            if is_past == is_behind
            and (word in names or (word.startswith("--") and word.partition("=")[0] in names))
        )
        return max(places, default=None)

    def _arguments(self) -> Iterator[tuple[int, str, bool]]:
        """Yield each word that is not a value: its index, the word, and whether it comes after `--`."""
        is_value = is_past = False
        for place, word in enumerate(self.words):
            # Words after `--` are for a different program, so rocenv cannot tell which of them are values.
            option = None if is_value or is_past else self.options.by_name.get(word)
            if not is_value:
                is_past = is_past or (bool(self.behind) and word == "--")
                yield place, word, is_past
            # Brackets mark an optional value.
            is_value = option is not None and bool(option.value) and not option.value.startswith("[")

    def _variable(self, name: str) -> str | None:
        option = self.options.by_name.get(name)
        return self.environ.get(option.variable) or None if option and option.variable else None
