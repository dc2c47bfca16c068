"""The page model for `explain` and `matrix`, and its renderer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rocenv.core.wrap import wrapped
from rocenv.data.known import STATUS_RANK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rocenv.core.language import Language
    from rocenv.data.known import Known, Status

SCREEN = 24  # lines of a shortened page
_SOURCES_SHOWN = 2  # sources per line; `--json` lists all of them
# The last line of a shortened page that omits statements, and of one that omits only sources.
_MORE: Mapping[Language, tuple[str, str]] = {
    "en": ("{count} more: `{command}`", "Sources: `{command}`"),
    "zh": ("另有 {count} 条：`{command}`", "来源：`{command}`"),
}
_LABEL = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """A source and its reliability."""

    source: str
    status: Status
    checked: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One statement."""

    text: str
    label: str = ""
    rows: tuple[Known, ...] = ()  # the rows that support it, most relevant first
    commands: tuple[str, ...] = ()  # commands for what the text describes
    platform: str = ""  # the only platform that it applies to; "" for all

    @property
    def basis(self) -> tuple[Basis, ...]:
        """The distinct sources of its rows."""
        found = [Basis(source=row.source, status=row.status, checked=row.checked) for row in self.rows]
        return tuple(dict.fromkeys(found))

    @property
    def status(self) -> Status | None:
        """The status of the weakest row, or None if there are no rows."""
        return max((row.status for row in self.rows), key=lambda status: STATUS_RANK[status], default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Statements under a heading."""

    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A command and what it does."""

    command: str
    gives: str = ""
    label: str = ""
    vulkan_on: str = ""  # the platform, if the step sets up Vulkan instead of ROCm


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A page about one subject: a short answer, commands, then rows."""

    thing: str  # the subject's canonical name
    kind: str  # "target", "release" …; "choice" for an ambiguous subject, "rows" for `matrix`
    title: str
    answer: tuple[Line, ...] = ()
    sections: tuple[Section, ...] = ()
    steps: tuple[Step, ...] = ()
    steps_title: str = "Commands"

    @property
    def lines(self) -> tuple[Line, ...]:
        """All lines in reading order."""
        return (*self.answer, *(line for section in self.sections for line in section.lines))


def sections(*pairs: tuple[str, Iterable[Line]]) -> tuple[Section, ...]:
    """Build sections, omitting empty ones."""
    built = (Section(title=title, lines=tuple(lines)) for title, lines in pairs)
    return tuple(section for section in built if section.lines)


def rendered(page: Explanation, *, width: int) -> list[str]:
    """Render a page: lines of at most `width` characters, then their numbered sources.

    Sources and commands are never wrapped, so that users can paste them.
    """
    shown = (basis for line in page.lines for basis in line.basis[:_SOURCES_SHOWN])
    numbers = {basis: number for number, basis in enumerate(dict.fromkeys(shown), 1)}
    lines = [*_page(page, numbers, width), *(["Sources"] if numbers else [])]
    for basis, number in numbers.items():
        lines += wrapped(f"{basis.status}: {basis.source}", width, f"  [{number}] ", "       ")
    return lines


def shortened(page: Explanation, *, width: int, command: str, language: Language = "en") -> list[str]:
    """Render as much of a page as fits on one screen, without sources.

    The last line gives the command that shows the rest. The answer and its commands are always complete.
    """
    room = SCREEN - 1 - len(_page(replace(page, sections=()), {}, width))
    shown: list[Section] = []
    for section in page.sections:
        # Keep as many lines of the section as fit, but never the heading alone.
        parts = (replace(section, lines=section.lines[:count]) for count in range(len(section.lines), 0, -1))
        part = next((each for each in parts if len([*_section(each, {}, width)]) <= room), None)
        if part is None:
            break
        shown.append(part)
        room -= len([*_section(part, {}, width)])
        if part != section:
            break
    brief = replace(page, sections=tuple(shown))
    count = len(page.lines) - len(brief.lines)
    last = _MORE[language][count == 0].format(count=count, command=command)
    return [*_page(brief, {}, width), last]


def _page(page: Explanation, numbers: Mapping[Basis, int], width: int) -> list[str]:
    lines = [
        *(wrapped(page.title, width, "", "  ") if page.title else ()),
        *_block(page.answer, numbers, width, indent=""),
    ]
    steps = [page.steps_title, *_steps(page.steps, width)] if page.steps else []
    rows = [line for section in page.sections for line in _section(section, numbers, width)]
    return [*lines, *steps, *rows]


def _section(section: Section, numbers: Mapping[Basis, int], width: int) -> Iterator[str]:
    yield section.title
    yield from _block(section.lines, numbers, width, indent="  ")


def _block(lines: Iterable[Line], numbers: Mapping[Basis, int], width: int, *, indent: str) -> Iterator[str]:
    rows = list(lines)
    room = min(_LABEL, max((len(line.label) for line in rows), default=0))
    last = ""
    for line in rows:
        marks = "".join(f"[{numbers[basis]}]" for basis in line.basis[:_SOURCES_SHOWN] if basis in numbers)
        label = line.label if line.label != last else ""
        last = line.label
        first = f"{indent}{label.ljust(room)}  " if room else indent
        then = " " * (len(indent) + room + 2)
        if len(label) > room:
            yield from wrapped(label, width, indent, indent)
            first = then
        yield from wrapped(f"{line.text} {marks}".rstrip(), width, first, then)
        yield from (f"{then}  {command}" for command in line.commands)


def _steps(steps: Iterable[Step], width: int) -> Iterator[str]:
    for step in steps:
        text = ": ".join(part for part in (step.label, step.gives) if part)
        yield from wrapped(text, width, "  ", "    ")
        yield f"    {step.command}"
