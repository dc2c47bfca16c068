"""Run an app, write its log, and explain how it ended."""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.activate.loader import CommandNotExecutable
from rocenv.apps.query import program_behind, program_path, program_words
from rocenv.apps.recognition import GENERIC, choose
from rocenv.apps.start import plan_start
from rocenv.core.errors import RocenvError
from rocenv.host.event_log import fault_of
from rocenv.kernels import APP
from rocenv.launch.capture import NotStarted, is_piped, run_captured, terminal_columns
from rocenv.launch.log import head, open_log
from rocenv.launch.outcome import Outcome, explain
from rocenv.launch.output import TRACE_VARIABLE, Watch, read_trace
from rocenv.prefix import prefix_of
from rocenv.system.exit_codes import describe_exit
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rocenv.apps.context import LaunchContext
    from rocenv.apps.start import Start
    from rocenv.context import Context
    from rocenv.data.apps import Launcher
    from rocenv.home import Home
    from rocenv.host.event_log import Fault
    from rocenv.kernels.placed import Starting
    from rocenv.launch.log import Log
    from rocenv.launch.outcome import Explanation


_CLOCKS_DIFFER_S = 5.0
_RECENT_S = 30.0  # a crash this recent can be matched by program name alone


def run(
    context: LaunchContext,
    findings: Sequence[str],
    level: str,
    report: Callable[[str], None],
) -> tuple[int, Explanation | None]:
    """Run an app until it ends; return its exit code as in `Ended`, and an explanation if it failed.

    Args:
        context: The app, the machine and the data.
        findings: Findings from the pre-launch checks, one line each, for the log.
        level: The last rung that the env passed, for the log.
        report: Prints a line for the user, even while the app runs.

    Raises:
        CommandNotFound: The program does not exist.
        CommandNotExecutable: The file is not executable.
    """
    start = context.start
    argv = start.argv()
    log = open_log(context, report)
    if log is not None:
        report(context.message("log", path=str(log.path)))
        log.annotate([*head(start, context.host, level), *findings])
        log.write(b"\n")

    def report_and_log(text: str) -> None:
        report(text)
        if log is not None:
            log.annotate([text])

    watch = Watch(_launchers(context), lambda: report_and_log(context.text(start.launcher.first_run)))

    def keep(data: bytes) -> None:
        watch.see(data)
        if log is not None:
            log.write(data)

    environ = start.environ
    trace = _trace_path(log, start)
    if trace is not None:
        environ[TRACE_VARIABLE] = str(trace)
    began = time.monotonic()
    try:
        ended = run_captured(
            argv,
            environ,
            keep=keep,
            tick=watch.tick,
            still_printing=lambda: report_and_log(context.message("still_printing")),
        )
        took_s = time.monotonic() - began
        path = log.path if log else None
        outcome = Outcome(context=context, ended=ended, watch=watch, trace=read_trace(trace), log=path)
        outcome = replace(outcome, fault=_fault(outcome, took_s))
        explanation = explain(outcome)
        _close(log, outcome, took_s, explanation)
    except NotStarted as error:
        raise CommandNotExecutable(f"cannot start `{start.words[0]}`: {error}") from error
    finally:
        if log is not None:
            log.close()
        if trace is not None:
            with contextlib.suppress(OSError):  # a running program may have it open
                trace.unlink()
    return ended.code, explanation


def _launchers(context: LaunchContext) -> tuple[Launcher, ...]:
    """The app's profile, and the generic one that applies to all apps."""
    own = context.start.launcher
    return (own, *(each for each in context.matrix.launcher if each.key == GENERIC != own.key))


def _trace_path(log: Log | None, start: Start) -> Path | None:
    """The file to which the env's Python writes its trace, or None without a log or ZLUDA."""
    return log.path.with_suffix(".trace") if log is not None and start.zluda is not None else None


def _fault(outcome: Outcome, took_s: float) -> Fault | None:
    """Find the crash in the Windows event log."""
    if not outcome.may_have_crashed:
        return None
    now = datetime.datetime.now(datetime.timezone.utc)
    # After the crash, a batch file may have waited for a keypress, so count from the app's last output.
    recent_s = _RECENT_S + (outcome.watch.silent_s if outcome.died_inside else 0)
    return fault_of(
        outcome.ended.pid,
        frozenset({"python.exe", "pythonw.exe", *outcome.context.start.programs()}),
        since=now - datetime.timedelta(seconds=took_s + _CLOCKS_DIFFER_S),
        recent=now - datetime.timedelta(seconds=min(recent_s, took_s + _CLOCKS_DIFFER_S)),
        code=outcome.ended.code,
    )


def _close(log: Log | None, outcome: Outcome, took_s: float, explanation: Explanation | None) -> None:
    if log is not None:
        log.write(b"\n")
        log.annotate(list(_ending(outcome, took_s)))
        if explanation is not None:
            # `diagnose` recognizes this line, which does not depend on the user's language.
            count = explanation.damaged_files
            damaged = [f"damaged files: {count} in env {outcome.context.env}"] if count else []
            log.annotate([*damaged, *explanation.lines])


def _ending(outcome: Outcome, took_s: float) -> Iterator[str]:
    context, ended = outcome.context, outcome.ended
    name = "end_logged_ctrl_c" if ended.interrupted else "end_logged"
    yield context.message(name, end=describe_exit(ended.code, context.language), seconds=f"{took_s:.0f}")
    for line in outcome.trace.lines:
        yield f"  trace: {line}"


def prepare(context: Context, name: str, app: str, words: Sequence[str]) -> Start:
    """Determine the program to start in an env.

    Args:
        context: Provides the envs and the data.
        name: The env.
        app: The app that the user specified, or "" to detect it.
        words: The command, arguments for the app's default command, or nothing.

    Raises:
        RocenvError: The env or the app does not exist, or there is no command to start.
    """
    prefix = prefix_of(context.home, name)
    record = prefix.record()
    launchers = tuple(context.matrix.launcher)
    chosen = choose(
        launchers, app, words, Path.cwd(), platform=record.lock.platform, own=record.lock.request.app
    )
    return plan_start(
        prefix,
        record,
        chosen,
        words,
        os.environ,
        is_piped=is_piped(),
        columns=terminal_columns(),
        is_named=bool(app),
    )


def with_changes_noted(launch: LaunchContext) -> LaunchContext:
    """Add notes on how the command differs from the one that the user typed, and why."""
    start, does = launch.start, launch.text(launch.start.launcher.wrapper.does)
    if start.wrapper:
        name = "replaced_wrapper_because" if does else "replaced_wrapper"
        before = replace(start, words=start.words[: len(start.words) - len(start.added)])
        command = shell_join(*before.shown_words)
        launch = launch.noting(launch.message(name, command=command, wrapper=start.wrapper, does=does))
    if start.added:
        name = "added_for_torch" if start.zluda is None else "added_for_zluda"
        launch = launch.noting(launch.message(name, arguments=" ".join(start.added)))
    return launch


def with_kernels(launch: LaunchContext, home: Home) -> LaunchContext:
    """Use the kernels that `rocenv kernels build` compiled for the app, if any."""
    start = launch.start
    if not start.is_app or start.launcher.key != APP:
        return launch
    from rocenv.kernels.placed import starting

    program, words = program_path(start), program_words(start)
    if program is None or not words:
        return launch
    target = start.record.lock.code_target
    # The kernels may be for the program that one of the env's launch scripts starts.
    candidates = dict.fromkeys((program, program_behind(start) or program))
    tried = [starting(home, each, targets=(target,)) for each in candidates]
    found = next((each for each in tried if each.kernels or each.outdated or each.gone), tried[0])
    has_kernels = bool(found.kernels) or _has_shipped_kernels(home, program, target)
    start = replace(start, has_kernels=has_kernels)
    if found.program is not None:
        rest = start.words[len(words) :]
        start = replace(start, words=(*words[:-1], str(found.program), *rest), made_for=program)
    return replace(launch, start=start).noting(*_about_kernels(launch, found))


def _has_shipped_kernels(home: Home, program: Path, target: str) -> bool | None:
    """Whether Blender comes with kernels for a target, or None if their folder is unknown."""
    from rocenv.kernels.installation import find

    try:
        folder = find(str(program), home).precompiled
        names = os.listdir(folder) if folder.is_dir() else []
    except (RocenvError, OSError):
        return None
    return any(target in re.split(r"[^a-z0-9]+", name) for name in names)


def _about_kernels(launch: LaunchContext, found: Starting) -> Iterator[str]:
    for name, kernels in (
        ("using_kernels", found.kernels),
        ("kernels_gone", found.gone),
        ("kernels_outdated", [each for each in found.outdated if each.place != "in-place"]),
        ("replaced_kernels_outdated", [each for each in found.outdated if each.place == "in-place"]),
    ):
        for each in kernels:
            yield launch.message(
                name,
                app=launch.start.title,
                kind=each.kind,
                target=each.target,
                place=each.place,
                file=str(each.file),
                build=shell_join(*each.build_words()),
                undo=shell_join(*each.undo_words()),
            )
