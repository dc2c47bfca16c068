"""Which arguments are added to an app's so that it uses the env's GPU: none that this very version lacks.

The app's profile says what there is to add and when; the program's own help says which of it exists; what the
user has given is left as it is. An addition that was meant and cannot be made is told, never passed over.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rocenv.core.template import fill, places
from rocenv.data.apps import CONDITIONS
from rocenv.launch.ask import ask, program_words
from rocenv.launch.options import Given, Options, read_help
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rocenv.data.apps import Flag, Launcher
    from rocenv.launch.start import Start

HELP_S = 60.0  # a program of gigabytes may have to unpack itself first
SEVERAL = "\0"  # between the items of a list, in what stands for a place
_NOT = "not-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """Arguments that nobody gave."""

    flag: Flag
    words: tuple[str, ...]
    why: str

    @property
    def told(self) -> str:
        """The addition as a sentence."""
        words = shell_join(*self.words)
        return f"added `{words}`: {self.why}" if self.why else f"added `{words}`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What is to be added to a start."""

    added: tuple[Added, ...] = ()
    lacking: tuple[Flag, ...] = ()  # that were meant to be, and that this version does not know
    unfilled: tuple[Flag, ...] = ()  # that were meant to be, and what they have to name is not known
    unknown: tuple[
        tuple[str, str], ...
    ] = ()  # arguments of the user that it does not know, what is there instead


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What additions depend on."""

    given: Given
    conditions: Mapping[str, bool]  # those of CONDITIONS that are known
    places: Mapping[str, str] = field(default_factory=dict)  # "device" -> what stands for it


def options_of(start: Start, timeout_s: float = HELP_S) -> Options:
    """Return the arguments that the program of a start has, from its own help.

    Raises:
        CommandNotFound: There is no such program.
        CommandNotExecutable: It is no program.
    """
    launcher = start.launcher
    modes = tuple(word for word in start.words if word in launcher.modes)
    answer = ask(start, (*modes, *launcher.help), timeout_s)
    if not answer.ok:
        return Options(problem=answer.end)
    return read_help(answer.text)


def choose_flags(launcher: Launcher, situation: Situation) -> Choice:
    """Return what is added to a user's arguments. Pure."""
    given, options = situation.given, situation.given.options
    added, lacking, unfilled = [], [], []
    for flag in launcher.flags:
        if not _holds(flag.when, situation.conditions) or _is_given(flag, given):
            continue
        if not all(map(given.has, flag.given)) or not _is_of_version(flag, options):
            continue
        name = _spelling(flag, options)
        if not name and not flag.always_known:
            lacking += [] if options.problem else [flag]
            continue
        words = _filled((name or flag.words[0], *flag.words[1:]), situation.places, options)
        if words is None:
            unfilled.append(flag)
        else:
            why = fill(flag.why, situation.places)
            added.append(Added(flag=flag, words=words, why=why))
    return Choice(
        added=tuple(added),
        lacking=tuple(lacking),
        unfilled=tuple(unfilled),
        unknown=tuple(_unknown(launcher, given, options)),
    )


def takes_them(launcher: Launcher, options: Options) -> bool:
    """Tell whether a program of another name takes an app's arguments, by its own help."""
    needed = [flag for flag in launcher.flags if flag.required]
    return any(_spelling(flag, options) for flag in launcher.flags) and all(
        _spelling(flag, options) for flag in needed
    )


def with_added(start: Start, added: Sequence[Added]) -> Start:
    """Return a start with arguments added."""
    program = program_words(start)
    users = start.words[len(program) :]
    first = [word for each in added if each.flag.place == "first" for word in each.words]
    last = [word for each in added if each.flag.place == "last" for word in each.words]
    return replace(start, words=(*program, *first, *users, *last), added=(*start.added, *first, *last))


def _holds(conditions: Sequence[str], known: Mapping[str, bool]) -> bool:
    """Tell whether conditions hold; one that is not known holds neither as it is nor turned round."""
    for condition in conditions:
        name = condition.removeprefix(_NOT)
        assert name in CONDITIONS, name
        if known.get(name) is not (not condition.startswith(_NOT)):
            return False
    return True


def _is_given(flag: Flag, given: Given) -> bool:
    own = () if flag.repeats else (flag.words[0], *flag.spellings)
    return any(given.has(name) for name in (*own, *flag.unless))


def _is_of_version(flag: Flag, options: Options) -> bool:
    """Tell whether a flag is meant for such a version at all."""
    return all(name in options for name in flag.knows) and not any(name in options for name in flag.lacks)


def _spelling(flag: Flag, options: Options) -> str:
    """Return how this version calls a flag; "" where it does not know it."""
    return next((name for name in (flag.words[0], *flag.spellings) if name in options), "")


def _filled(words: tuple[str, ...], values: Mapping[str, str], options: Options) -> tuple[str, ...] | None:
    """Return words with what they name; None where that is not known."""
    option = options.by_name.get(words[0])
    # Lists are separated by commas, but where a comma already separates runs.
    separator = "/" if option and "/" in option.value and "," not in option.value else ","
    if any(name not in values for word in words for name in places(word)):
        return None
    return tuple(fill(word, values).replace(SEVERAL, separator) for word in words)


def _unknown(launcher: Launcher, given: Given, options: Options) -> Iterator[tuple[str, str]]:
    """Yield what a user gave that this version does not have, with what does the same there."""
    if options.problem:
        return
    for each in launcher.renamed:
        if each.new[0] in options:
            gone = (old for old in each.old if old not in options and given.has(old))
            yield from ((old, " ".join(each.new)) for old in gone)
    for flag in launcher.flags:
        if not flag.always_known:
            names = (flag.words[0], *flag.spellings)
            other = _spelling(flag, options)
            yield from ((name, other) for name in names if name not in options and given.has(name))
