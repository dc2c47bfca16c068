"""One start of an app, from the log's first line to the explanation of how it ended."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.host.faults import fault_of
from rocenv.launch.capture import run_captured
from rocenv.launch.diagnosis import TRACE, Explanation, Outcome, explain, read_trace, since
from rocenv.launch.log import head, open_log
from rocenv.launch.start import GENERIC
from rocenv.launch.watch import Watch
from rocenv.system.processes import describe_exit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rocenv.launch.capture import Ended
    from rocenv.launch.log import Log
    from rocenv.launch.view import Concern, View
    from rocenv.matrix.apps import Launcher

_CLOCKS_DIFFER_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """An app that has ended."""

    code: int  # as `Ended` has it
    explanation: Explanation | None
    log: Path | None


def run(view: View, concerns: tuple[Concern, ...], level: str, tell: Callable[[str], None]) -> Run:
    """Run an app to its end and say what came of it.

    Args:
        view: The app, the machine and what is known.
        concerns: What was told before the start, for the log.
        level: How far the env was verified, for the log.
        tell: Called with lines for the user, while it runs too.

    Raises:
        CommandNotFound: Its program is not there.
        CommandNotExecutable: Its program is none.
        OSError: It cannot be started.
    """
    start = view.start
    argv = start.argv()
    log = open_log(start, tell)
    if log is not None:
        tell(f"log: {log.path}")
        log.say([*head(start, view.host, level), *(f"{each.severity}: {each.text}" for each in concerns)])
        log.write(b"\n")

    def say(text: str) -> None:
        tell(text)
        if log is not None:
            log.say([text])

    watch = Watch(_launchers(view), say)

    def keep(data: bytes) -> None:
        watch.see(data)
        if log is not None:
            log.write(data)

    environ = start.environ
    trace = log.path.with_suffix(".trace") if log is not None and start.zluda is not None else None
    if trace is not None:
        environ[TRACE] = str(trace)
    began = time.monotonic()
    try:
        ended = run_captured(argv, environ, keep=keep, tick=watch.tick, tell=say)
        took_s = time.monotonic() - began
        outcome = _outcome(view, ended, watch, trace, took_s, log)
        explanation = explain(outcome)
        _close(log, outcome, took_s, explanation)
    finally:
        if log is not None:
            log.close()
        if trace is not None:
            trace.unlink(missing_ok=True)
    return Run(code=ended.code, explanation=explanation, log=log.path if log else None)


def _launchers(view: View) -> tuple[Launcher, ...]:
    """Return the app's profile, and the one of what is true of all apps."""
    own = view.start.launcher
    return (own, *(each for each in view.matrix.launcher if each.key == GENERIC and each != own))


def _outcome(
    view: View, ended: Ended, watch: Watch, trace: Path | None, took_s: float, log: Log | None
) -> Outcome:
    programs = frozenset({"python.exe", "pythonw.exe", *view.start.programs()})
    fault = fault_of(ended.pid, programs, since(took_s + _CLOCKS_DIFFER_S)) if ended.code else None
    return Outcome(
        view=view,
        ended=ended,
        watch=watch,
        trace=read_trace(trace) if trace is not None else "",
        fault=fault,
        log=log.path if log is not None else None,
    )


def _close(log: Log | None, outcome: Outcome, took_s: float, explanation: Explanation | None) -> None:
    if log is None:
        return
    log.write(b"\n")
    log.say([*_ending(outcome, took_s), *(explanation.lines() if explanation else ())])


def _ending(outcome: Outcome, took_s: float) -> Iterator[str]:
    by = ", after Ctrl-C" if outcome.ended.interrupted else ""
    yield f"ended with {describe_exit(outcome.ended.code)} after {took_s:.0f} s{by}"
    for line in outcome.trace.splitlines():
        yield f"  trace: {line}"
