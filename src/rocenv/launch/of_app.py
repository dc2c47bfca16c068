"""Checks of an app: would it take the env's Python and ZLUDA, and leave them whole."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from rocenv.launch.log import is_secret, without_secrets
from rocenv.launch.programs import env_for
from rocenv.launch.recognition import LOOKED_AT, is_there, name_of, program_at
from rocenv.launch.settings import read_settings
from rocenv.launch.view import Concern
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocenv.launch.settings import Assigned
    from rocenv.launch.start import Start
    from rocenv.launch.view import View

_APART = re.compile(r"[\s;&|()'\"]+")  # what stands between the words of a shell's text
_OPTION = re.compile(r"--?[A-Za-z]")


def app_there(view: View) -> Iterator[Concern]:
    """The app's file that is started."""
    start = view.start
    usual = start.launcher.command
    if len(usual) > 1 and usual[1] in start.words and not Path(usual[1]).exists():
        yield Concern(
            code="app-missing",
            severity="error",
            text=f"`{usual[1]}` of {start.launcher.title} is not in `{Path.cwd()}`",
            remedy=f"cd to the folder of {start.launcher.title}, and launch it there",
        )


def own_zluda(view: View) -> Iterator[Concern]:
    """A ZLUDA that the app has put into its own folder."""
    start, launcher = view.start, view.start.launcher
    if start.zluda is None:
        return
    for name in launcher.own_zluda:
        if not (start.folder / name).is_dir():
            continue
        variable = launcher.zluda_variable
        if variable and _same(start.environ.get(variable, ""), start.zluda):
            yield Concern(
                code="own-zluda",
                severity="note",
                text=f"`{start.folder / name}`, the app's own, is not used: {variable} names the env's",
            )
            continue
        yield Concern(
            code="own-zluda",
            severity="error",
            text=f"{launcher.title} would take the ZLUDA in `{start.folder / name}` instead of the env's",
            remedy=f"rename that folder, for example to `{name}.old`",
        )


def deleted_zluda(view: View) -> Iterator[Concern]:
    """What makes an app delete the folder that its variable names, which is the env's."""
    start, launcher = view.start, view.start.launcher
    if start.zluda is None or not _same(start.environ.get(launcher.zluda_variable, ""), start.zluda):
        return
    if not start.is_app:
        return
    past = "if it is another program that you start, add `--app generic`"
    given = start.given()
    wished = [name for name in launcher.deletes_zluda if name.startswith("-") and name in given]
    wished += [name for name in launcher.deletes_zluda_if_set if start.environ.get(name)]
    for name in wished:
        does = f"leave `{name}` out" if name.startswith("-") else f"take `{name}` out of the environment"
        yield Concern(
            code="deletes-zluda",
            severity="error",
            text=f"with `{name}` {launcher.title} deletes the env's ZLUDA and fetches another",
            remedy=f"{does}; `rocenv repair {view.env}` puts the env's own files back; {past}",
        )
    for name in launcher.deletes_zluda:
        if not name.startswith("-") and (start.zluda / name).exists():
            yield Concern(
                code="deletes-zluda",
                severity="error",
                text=f"{launcher.title} deletes a ZLUDA with `{name}`, as an old one, and fetches another",
                remedy=f"{view.another(_build_without(name, view)) or 'another version of the app'}; {past}",
            )


def _build_without(file: str, view: View) -> str:
    """Return the build that apps take today, if a file is not in it."""
    return next((row.version for row in view.matrix.zluda if row.preferred and file not in row.files), "")


def own_python(view: View) -> Iterator[Concern]:
    """Programs that start the app's own Python instead of the env's."""
    start, launcher = view.start, view.start.launcher
    inner = [start.folder / name for name in launcher.own_python]
    for word in _named(start):
        path = Path(os.path.abspath(word))
        if any(folder in path.parents for folder in inner) and not path.is_dir():
            yield Concern(
                code="own-python",
                severity="error",
                text=f"`{word}` is the app's own Python, with its own torch, and not the env's",
                remedy=f"{_plainly(view)}; if nothing of it is run, add `--app generic`",
            )
            break
    for name in sorted({*start.programs()} & {*launcher.bypasses}):
        yield Concern(
            code="own-python",
            severity="error",
            text=f"`{name}` starts the Python and the ZLUDA in the app's own folder, whatever is set outside",
            remedy=_plainly(view),
        )


def wrapper_within(view: View) -> Iterator[Concern]:
    """A script of the app's that undoes the env, started in a way in which nothing else is started for it."""
    start, launcher = view.start, view.start.launcher
    if start.record.lock.platform != "linux" or not is_there(launcher, start.folder):
        return
    typed = [name_of(word) for word in _named(start)]
    for name in launcher.wrapper.names:
        if name in typed:
            yield Concern(
                code="wrapper-within",
                severity="error",
                text=f"`{start.program}` would run `{name}`, which undoes the env: {launcher.wrapper.does}",
                remedy=f"{_plainly(view)}; if it does not run it, add `--app generic`",
            )


def own_settings(view: View) -> Iterator[Concern]:
    """Programs that set the app's arguments themselves."""
    start, launcher = view.start, view.start.launcher
    for name in set(start.programs()) & {each.lower() for each in launcher.settings}:
        path = start.folder / name
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        for argument in launcher.zluda_arguments if start.zluda else ():
            if argument not in text.replace('"', " ").replace("=", " ").split():
                yield Concern(
                    code="argument-missing",
                    severity="warning",
                    text=f"`{name}` passes no arguments on, and `{argument}` is not among those that it sets",
                    remedy=f"add it to {launcher.arguments_variable or 'its arguments'} there, "
                    f"or start without that file: {_plainly(view)}",
                )


def torch_there(view: View) -> Iterator[Concern]:
    """The torch of the env, for an app that is kept from installing one, or cannot."""
    start, launcher = view.start, view.start.launcher
    lock = start.record.lock
    if not launcher.needs.torch or not start.is_app or start.zluda is not None:
        return
    if lock.part("torch") is not None:
        return
    yield Concern(
        code="torch-missing",
        severity="error",
        text=f"{launcher.title} needs torch, and the env has none",
        remedy=env_for(launcher.key, lock, start.prefix.free_name()),
    )


def wrapper_settings(view: View) -> Iterator[Concern]:
    """What the user has set in a file that only a script of the app's reads, which is not run."""
    start, wrapper = view.start, view.start.launcher.wrapper
    if not start.wrapper or not wrapper.settings:
        return
    path = start.folder / wrapper.settings
    found = read_settings(path)
    for each in found.assigned:
        if each.name not in wrapper.ignored and (remedy := _instead(view, each)):
            yield Concern(
                code="settings-not-read",
                severity="warning",
                text=f"`{path}` sets {each.name}, and is not read without `{start.wrapper}`",
                remedy=remedy,
            )
    if found.is_more:
        yield Concern(
            code="settings-not-read",
            severity="warning",
            text=f"`{path}` does more than rocenv can read, and is not run without `{start.wrapper}`",
            remedy="look at it, and set what you need of it yourself",
        )


def _instead(view: View, assigned: Assigned) -> str:
    """Return what to type for an assignment in a shell's file; "" where nothing is lost."""
    start, name, value = view.start, assigned.name, assigned.value
    # Where the shell puts something in it, a user who has done as told has that, and not the text.
    filled = Template(os.path.expanduser(value)).safe_substitute(start.outside) if assigned.raw else value
    if not value or start.environ.get(name) in (value, filled):
        return ""
    is_shown = value.translate({9: " ", 10: " "}).isprintable() and "\ufffd" not in value
    if is_shown and not assigned.raw and name == start.launcher.arguments_variable:
        try:
            return _with_arguments(view, shlex.split(value))
        except ValueError:
            return "look at it: a quote in its value is not closed"
    if not is_shown or is_secret(name) or _is_private(view, [*_APART.split(value), "", value]):
        return f"export {name}=…, as it stands there"
    return f"export {name}={assigned.raw or shell_join(value)}"


def _with_arguments(view: View, words: list[str]) -> str:
    """Return how to give the app arguments that the user has not given; "" where there are none.

    Where there is something that nobody is to see it is no command, which with `***` in it would set that.
    """
    start = view.start
    given = {word.partition("=")[0] for word in start.given()}
    lost = [option for option in _options(view, words) if option[0].partition("=")[0] not in given]
    if not lost:
        return ""
    at = program_at(start.words, start.launcher.starters)
    users = [word for word in start.words[at + len(start.launcher.command) :] if word not in start.added]
    told = [shell_join(*option) for option in lost if not _is_private(view, option)]
    hidden = [
        f"{_shown(view, option)[0].partition('=')[0]} …" for option in lost if _is_private(view, option)
    ]
    if hidden:
        return f"to what you type add {' '.join([*told, *hidden])}, as it stands there"
    if _is_private(view, [*start.words[:at], *users]):
        return f"to what you type add {' '.join(told)}"
    # By its whole path: rocenv has gone to the app's folder, and the user has not.
    command = shell_join(*start.words[:at], str(start.folder / start.wrapper))
    return " ".join([f"rocenv launch {view.env} --", command, *told, *map(shell_join, users)])


def _options(view: View, words: list[str]) -> list[list[str]]:
    """Return arguments by options, each with what follows it."""
    options: list[list[str]] = []
    for word, shown in zip(words, _shown(view, words), strict=True):
        is_new = _OPTION.match(word) and shown != "***"  # a password may look like an option
        if is_new or not options:
            options.append([])
        options[-1].append(word)
    return options


def _shown(view: View, words: Sequence[str]) -> list[str]:
    return without_secrets(words, view.start.launcher.secret_options)


def _is_private(view: View, words: Sequence[str]) -> bool:
    return _shown(view, words) != list(words)


def _named(start: Start) -> list[str]:
    """Return what a command may begin with: its words, and those of a text that a shell is to run."""
    first = start.words[: program_at(start.words, start.launcher.starters) + 2 * LOOKED_AT]
    return [part for word in first for part in (*_APART.split(word), word)]  # a path may have blanks in it


def right_way_of_shims(view: View) -> Iterator[Concern]:
    """Shims before torch, or in the place of its files, as the app needs them."""
    start = view.start
    wanted, in_torch = start.launcher.shims, start.record.shims_in_torch
    if start.zluda is None or wanted == "any" or in_torch == (wanted == "torch"):
        return
    title = start.launcher.title
    away = f"{title} loads CUDA from torch's folder, and in this env ZLUDA does not lie there"
    there = f"{title} loads ZLUDA itself, and in this env it lies in the place of torch's own files too"
    yield Concern(code="shims-elsewhere", severity="warning", text=there if in_torch else away)


def _plainly(view: View) -> str:
    launcher = view.start.launcher
    return f"rocenv launch {view.env} --app {launcher.key}" if launcher.command else "the env's own Python"


def _same(text: str, path: Path) -> bool:
    return bool(text) and os.path.normcase(os.path.abspath(text)) == os.path.normcase(os.path.abspath(path))
