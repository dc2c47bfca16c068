"""Arguments that make an app use the env's GPU.

The app's profile and adapter propose arguments. rocenv adds one only if this version's help lists it and the
user has not given it. If a required argument cannot be added, rocenv reports it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rocenv.apps.adapters import ADAPTERS
from rocenv.apps.context import Adaptation, Tuning
from rocenv.apps.devices import list_devices
from rocenv.apps.options import Given, Options
from rocenv.apps.query import ask_help, is_program, program_words
from rocenv.apps.recognition import plain_name
from rocenv.core.template import fill, places
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rocenv.apps.context import LaunchContext
    from rocenv.apps.devices import Device, Named
    from rocenv.apps.start import Start
    from rocenv.data.apps import Flag, Launcher

_ITEMS = "\0"  # placeholder for the separator in a device list
_SEPARATORS = re.compile("[,/]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """An argument that rocenv adds."""

    flag: Flag
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The arguments to add, and those that cannot be added."""

    added: tuple[Added, ...] = ()
    lacking: tuple[Flag, ...] = ()  # proposed, but this version does not have them
    unfilled: tuple[Flag, ...] = ()  # proposed, but their value is unknown
    # The user's arguments that this version does not have, with their replacements ("" if none).
    unknown: tuple[tuple[str, str], ...] = ()


def adapt_arguments(context: LaunchContext) -> LaunchContext:
    """Add the arguments that make an app use only the env's GPU.

    This runs the program to read its help and list its GPUs, and can take seconds.

    Raises:
        CommandNotFound: The program does not exist.
        CommandNotExecutable: The file cannot be executed.
    """
    start, launcher = context.start, context.start.launcher
    if not (launcher.help or launcher.devices) or plain_name(start.program) in launcher.helpers:
        return context
    program = program_words(start)
    if not program:
        return replace(context, adaptation=Adaptation(is_unknown=True)) if launcher.help else context
    python = start.prefix.path / start.record.lock.python
    if str(python) in program and not python.exists():
        return context  # the `env_python_missing` check reports it
    options = ask_help(start) if launcher.help else Options(problem="it has no `--help`")
    given = Given(
        words=start.words[len(program) :],
        environ=start.environ,
        options=options,
        behind=launcher.behind_dashes,
    )
    if any(given.has(name) for name in launcher.only_tells):
        return context
    if not is_program(program[-1], launcher):
        if not takes_arguments(launcher, options):
            return replace(context, adaptation=Adaptation(is_unknown=True, options=options))
        context = replace(context, start=replace(start, is_taken=True))
    for phrases, message in ((launcher.cpu, "asks_for_cpu"), (launcher.not_hip, "asks_for_other_interface")):
        if phrase := next((each for each in phrases if given.says(each)), ""):
            return context.noting(context.message(message, argument=phrase))
    context, used = _select_devices(context, given)
    return context if used is None else _add_arguments(context, given, used)


def _select_devices(context: LaunchContext, given: Given) -> tuple[LaunchContext, tuple[Device, ...] | None]:
    """List the program's GPUs and select those to use; None means no GPU arguments."""
    start, row = context.start, context.start.launcher.devices
    adaptation = Adaptation(options=given.options)
    context = replace(context, adaptation=adaptation)
    if row is None or (not given.options.problem and row.arguments[0] not in given.options):
        return context, ()  # this version cannot list them
    devices = list_devices(start, context.host, context.matrix)
    asked = replace(adaptation, devices=devices)
    context = replace(context, adaptation=asked)
    if devices.problem and not devices.found:
        return context, ()
    if names := _named(start.launcher, given):
        return _select_named(context, asked, devices.named(names))
    if devices.found:
        used = devices.for_lock(start.record.lock)
        if used or used is None:  # None: it is unclear which GPU to use, as `Choice.unfilled` reports
            return context, used or ()
        context = replace(context, adaptation=replace(asked, is_for_others=True))
    return context, None if context.needs_gpu else ()


def _select_named(
    context: LaunchContext, asked: Adaptation, named: Named
) -> tuple[LaunchContext, tuple[Device, ...] | None]:
    if named.others:
        context = context.noting(context.message("no_hip_gpu", devices=", ".join(named.others)))
        if not named.used and not named.unlisted:
            return replace(context, adaptation=replace(asked, devices=None)), None
    return replace(context, adaptation=replace(asked, named=named)), named.used or None


def _named(launcher: Launcher, given: Given) -> tuple[str, ...]:
    """The devices that the user specified."""
    flag = next((flag for flag in launcher.flags if "{device}" in flag.words), None)
    name = next((name for name in flag.names if given.has(name)), "") if flag else ""
    return tuple(filter(None, map(str.strip, _SEPARATORS.split(given.value(name) or "")))) if name else ()


def _add_arguments(context: LaunchContext, given: Given, used: tuple[Device, ...]) -> LaunchContext:
    launcher = context.start.launcher
    adapter = ADAPTERS.get(launcher.key)
    tuning = adapter(context, given, used) if adapter and not given.options.problem else Tuning()
    values = {"target": context.start.record.lock.target}
    if used:
        values["device"] = _ITEMS.join(each.name for each in used)
    choice = choose_flags(launcher, given, values, tuning.flags)
    start = context.start
    notes = [_note(context, each, tuning.reasons, values) for each in choice.added]
    if tuning.own_arguments and choice.added:
        own = tuning.own_arguments
        start = replace(start, words=(*start.words, *own))
        notes.insert(0, context.message("repeated_arguments", arguments=shell_join(*own)))
    adaptation = replace(context.adaptation, choice=choice, tuning=tuning)
    context = replace(context, start=with_added(start, choice.added), adaptation=adaptation)
    return context.noting(*notes)


def _note(context: LaunchContext, added: Added, reasons: Mapping[str, str], values: Mapping[str, str]) -> str:
    arguments = shell_join(*added.words)
    if why := reasons.get(added.flag.words[0]) or context.text(added.flag.why, target=values["target"]):
        return context.message("added_because", arguments=arguments, why=why)
    return context.message("added", arguments=arguments)


def choose_flags(
    launcher: Launcher, given: Given, values: Mapping[str, str], proposed: Sequence[Flag] = ()
) -> Choice:
    """Choose what to add to the user's arguments.

    Args:
        launcher: The app's profile.
        given: The user's arguments, and those that this version accepts.
        values: Values for `{target}` and `{device}` in flags.
        proposed: More flags, from the app's adapter.
    """
    options = given.options
    added, lacking, unfilled = [], [], []
    flags = (*launcher.flags, *proposed)
    for flag in flags:
        own = () if flag.repeats else flag.names
        if any(given.has(name) for name in (*own, *flag.unless)):
            continue
        name = _spelling(flag, options) or (flag.words[0] if flag.always_known else "")
        words = _filled((name, *flag.words[1:]), values, options)
        if not name:
            lacking += [] if options.problem else [flag]
        elif words is None:
            unfilled.append(flag)
        else:
            added.append(Added(flag=flag, words=words))
    unknown = () if options.problem else tuple(_unknown(launcher, flags, given))
    return Choice(added=tuple(added), lacking=tuple(lacking), unfilled=tuple(unfilled), unknown=unknown)


def takes_arguments(launcher: Launcher, options: Options) -> bool:
    """Whether a program with a different name accepts the app's arguments, according to its help."""
    required = [flag for flag in launcher.flags if flag.required]
    if required:
        return all(_spelling(flag, options) for flag in required)
    return any(name in options for name in telltale_arguments(launcher))


def telltale_arguments(launcher: Launcher) -> tuple[str, ...]:
    """Arguments that identify an app if its help lists them."""
    required = tuple(flag.words[0] for flag in launcher.flags if flag.required)
    listing = launcher.devices.arguments if launcher.devices else ()
    return required or tuple(word for word in listing if word.startswith("--"))


def with_added(start: Start, added: Sequence[Added]) -> Start:
    """Insert the added arguments into the command."""
    program = program_words(start)
    users = start.words[len(program) :]
    first = [word for each in added if each.flag.place == "first" for word in each.words]
    last = [word for each in added if each.flag.place == "last" for word in each.words]
    return replace(start, words=(*program, *first, *users, *last), added=(*start.added, *first, *last))


def _spelling(flag: Flag, options: Options) -> str:
    """A flag's name in this version, or "" if this version does not have the flag."""
    return next((name for name in flag.names if name in options), "")


def _filled(words: tuple[str, ...], values: Mapping[str, str], options: Options) -> tuple[str, ...] | None:
    """Fill in placeholders; return None if a value is unknown."""
    option = options.by_name.get(words[0])
    # Commas separate the devices in a list, unless the help shows that they separate runs.
    separator = "/" if option and "/" in option.value and "," not in option.value else ","
    if any(name not in values for word in words for name in places(word)):
        return None
    return tuple(fill(word, values).replace(_ITEMS, separator) for word in words)


def _unknown(launcher: Launcher, flags: Sequence[Flag], given: Given) -> Iterator[tuple[str, str]]:
    """Yield the user's arguments that this version does not have, with their replacements."""
    options = given.options
    for each in launcher.renamed:
        if not each.new or each.new[0] in options:
            gone = (old for old in each.old if old not in options and given.has(old))
            yield from ((old, " ".join(each.new)) for old in gone)
    for flag in flags:
        if not flag.always_known:
            gone = (name for name in flag.names if name not in options and given.has(name))
            yield from ((name, _spelling(flag, options)) for name in gone)
