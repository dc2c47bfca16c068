"""Run an app, write its log, and explain how it ended."""

from __future__ import annotations

import contextlib
import datetime
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from rocenv.activate.loader import CommandNotExecutable
from rocenv.apps.recognition import GENERIC
from rocenv.host.event_log import fault_of
from rocenv.launch.capture import NotStarted, run_captured
from rocenv.launch.log import head, open_log
from rocenv.launch.outcome import Outcome, explain
from rocenv.launch.output import TRACE_VARIABLE, Watch, read_trace
from rocenv.system.exit_codes import describe_exit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from rocenv.apps.context import LaunchContext
    from rocenv.apps.start import Start
    from rocenv.data.apps import Launcher
    from rocenv.host.event_log import Fault
    from rocenv.launch.log import Log
    from rocenv.launch.outcome import Explanation

_CLOCKS_DIFFER_S = 5.0
_RECENT_S = 30.0  # crashes this recent are matched by the program's name


def run(
    context: LaunchContext,
    findings: Sequence[str],
    level: str,
    report: Callable[[str], None],
) -> tuple[int, Explanation | None]:
    """Run an app to its end; return its exit code as in `Ended`, and an explanation if it ended badly.

    Args:
        context: The app, the machine and the data.
        findings: The findings of the pre-launch checks, one line each, for the log.
        level: The last rung that the env passed, for the log.
        report: Prints a line for the user; also called while the app runs.

    Raises:
        CommandNotFound: The program does not exist.
        CommandNotExecutable: The file cannot be executed.
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
            with contextlib.suppress(OSError):  # a program that is still running may have it open
                trace.unlink()
    return ended.code, explanation


def _launchers(context: LaunchContext) -> tuple[Launcher, ...]:
    """The app's profile, and the generic one that applies to all apps."""
    own = context.start.launcher
    return (own, *(each for each in context.matrix.launcher if each.key == GENERIC != own.key))


def _trace_path(log: Log | None, start: Start) -> Path | None:
    """Return the file to which the env's Python writes its trace; None without a log or ZLUDA."""
    return log.path.with_suffix(".trace") if log is not None and start.zluda is not None else None


def _fault(outcome: Outcome, took_s: float) -> Fault | None:
    """Find the crash in the Windows event log."""
    if not outcome.may_have_crashed:
        return None
    now = datetime.datetime.now(datetime.timezone.utc)
    # After the crash, a batch file may have waited for a key, so count from the app's last output.
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
        log.annotate([*_ending(outcome, took_s), *(explanation.lines if explanation else ())])


def _ending(outcome: Outcome, took_s: float) -> Iterator[str]:
    context, ended = outcome.context, outcome.ended
    name = "end_logged_ctrl_c" if ended.interrupted else "end_logged"
    yield context.message(name, end=describe_exit(ended.code, context.language), seconds=f"{took_s:.0f}")
    for line in outcome.trace.lines:
        yield f"  trace: {line}"
