"""Rows about how apps are started so that they use an env instead of what they would install themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from rocenv.matrix.known import Known
from rocenv.model import EnvChange  # noqa: TC001 - the reader needs the type at run time


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Something an app prints when it does not work as it should, whatever it exits with."""

    text: str  # as printed, a part of a line
    means: str  # one sentence
    remedy: str = ""  # `{name}` is the env; "" = what the set says


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher(Known):
    """How `rocenv launch` starts an app. Table `launcher`.

    In commands and values `{python}` is the env's Python, `{batch_python}` the same for a batch file that
    puts no quotes around it, `{prefix}` the env, `{columns}` the width of the terminal. Files are relative to
    the app's folder, with `/`. What is in `INHERITED` and left out is as in the row `generic`.
    """

    key: str  # as in `--app`
    title: str
    signs: tuple[str, ...] = ()  # files that are all there in its folder; () = it is never recognised
    unlike: tuple[str, ...] = ()  # files that are not: they are a relative's
    command: tuple[str, ...] = ()  # what is started where none is given; () = one must be given
    entries: tuple[str, ...] = ()  # programs that take its arguments
    zluda_arguments: tuple[str, ...] = ()  # added where the env has ZLUDA and they are not there
    arguments_variable: str = ""  # holds more arguments; "" = there is none
    environment: tuple[EnvChange, ...] = ()
    piped: tuple[EnvChange, ...] = ()  # where its output goes through a pipe
    coloured: tuple[EnvChange, ...] = ()  # where that pipe stands for a terminal
    own_zluda: tuple[str, ...] = ()  # where it looks for a ZLUDA of its own
    zluda_variable: str = ""  # what makes it take another one; "" = its own would win
    own_python: tuple[str, ...] = ()  # folders of a Python of its own
    bypasses: tuple[str, ...] = ()  # programs that start its own Python and ZLUDA whatever is set
    settings: tuple[str, ...] = ()  # programs that take their arguments from themselves and nowhere else
    deletes_zluda: tuple[str, ...] = ()  # arguments, or files in the ZLUDA folder, that make it delete that
    deletes_zluda_if_set: tuple[str, ...] = ()  # variables that do the same, whatever they hold
    shims: Literal["any", "private", "torch"] = "any"  # how ZLUDA has to be put in front for it
    logs: tuple[str, ...] = ()  # of its own
    failures: tuple[Failure, ...] = ()
    compiling: str = ""  # what is printed when kernels are being compiled
    first_run: str = ""  # what to know about that
    silence_s: int = 60  # of no output, before that is told


# What most apps have in common: how a pipe is made up for, and how compilation looks.
INHERITED = ("piped", "coloured", "compiling", "first_run")


def inherited(row: Launcher, generic: Launcher) -> Launcher:
    """Return a row with what it leaves to the one of any program."""
    return replace(row, **{name: getattr(row, name) or getattr(generic, name) for name in INHERITED})


TABLES: dict[str, type[Known]] = {"launcher": Launcher}
