"""One start of an app, from the log's first line to the explanation of how it ended."""

from __future__ import annotations

import contextlib
import datetime
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rocenv.activate.loader import CommandNotExecutable
from rocenv.host.event_log import fault_of
from rocenv.launch.capture import NotStarted, run_captured
from rocenv.launch.causes import causes_of
from rocenv.launch.diagnosis import Explanation, Outcome, explain
from rocenv.launch.log import head, open_log
from rocenv.launch.start import GENERIC
from rocenv.launch.trace import VARIABLE, read_trace
from rocenv.launch.watch import Watch
from rocenv.system.exit_codes import describe_exit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from rocenv.data.apps import Launcher
    from rocenv.findings import Finding
    from rocenv.host.event_log import Fault
    from rocenv.launch.context import LaunchContext
    from rocenv.launch.log import Log

_CLOCKS_DIFFER_S = 5.0
_RECENT_S = 30.0  # a crash of that age is taken for the app's, by its program's name


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """An app that has ended."""

    code: int  # as `Ended` has it
    explanation: Explanation | None
    log: Path | None


def run(view: LaunchContext, findings: Sequence[Finding], level: str, tell: Callable[[str], None]) -> Run:
    """Run an app to its end and say what came of it.

    Args:
        view: The app, the machine and what is known.
        findings: What was found before the start, for the log.
        level: How far the env was verified, for the log.
        tell: Called with lines for the user, while it runs too.

    Raises:
        CommandNotFound: Its program is not there.
        CommandNotExecutable: Its program is none, or the system does not start it.
    """
    start = view.start
    argv = start.argv()
    log = open_log(start, tell)
    if log is not None:
        tell(f"log: {log.path}")
        log.say([*head(start, view.host, level), *(f"{each.severity}: {each.title}" for each in findings)])
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
        environ[VARIABLE] = str(trace)
    began = time.monotonic()
    try:
        ended = run_captured(argv, environ, keep=keep, tick=watch.tick, tell=say)
        took_s = time.monotonic() - began
        outcome = Outcome(
            view=view, ended=ended, watch=watch, trace=read_trace(trace), log=log.path if log else None
        )
        outcome = replace(outcome, fault=_fault(outcome, took_s))
        explanation = _explained(outcome)
        _close(log, outcome, took_s, explanation)
    except NotStarted as error:
        raise CommandNotExecutable(f"`{start.words[0]}` cannot be started: {error}") from error
    finally:
        if log is not None:
            log.close()
        if trace is not None:
            with contextlib.suppress(OSError):  # a program that was left behind has it open
                trace.unlink()
    return Run(code=ended.code, explanation=explanation, log=log.path if log else None)


def _explained(outcome: Outcome) -> Explanation | None:
    """Return why an app ended badly, its output looked through only where it did."""
    explanation = explain(outcome)
    if explanation is None:
        return None
    return explain(replace(outcome, found=causes_of(outcome.view, outcome.log, outcome.watch.tail)))


def _launchers(view: LaunchContext) -> tuple[Launcher, ...]:
    """Return the app's profile, and the one of what is true of all apps."""
    own = view.start.launcher
    return (own, *(each for each in view.matrix.launcher if each.key == GENERIC != own.key))


def _fault(outcome: Outcome, took_s: float) -> Fault | None:
    """Return the crash that Windows has noted, where the app can have crashed."""
    if not outcome.may_have_crashed:
        return None
    now = datetime.datetime.now(datetime.timezone.utc)
    # A batch file may have waited for a key after it; the app's last words are of then.
    recent_s = _RECENT_S + (outcome.watch.silent_s if outcome.died_inside else 0)
    return fault_of(
        outcome.ended.pid,
        frozenset({"python.exe", "pythonw.exe", *outcome.view.start.programs()}),
        since=now - datetime.timedelta(seconds=took_s + _CLOCKS_DIFFER_S),
        recent=now - datetime.timedelta(seconds=min(recent_s, took_s + _CLOCKS_DIFFER_S)),
        code=outcome.ended.code,
    )


def _close(log: Log | None, outcome: Outcome, took_s: float, explanation: Explanation | None) -> None:
    if log is None:
        return
    log.write(b"\n")
    log.say([*_ending(outcome, took_s), *(explanation.lines() if explanation else ())])


def _ending(outcome: Outcome, took_s: float) -> Iterator[str]:
    by = ", after Ctrl-C" if outcome.ended.interrupted else ""
    yield f"ended with {describe_exit(outcome.ended.code)} after {took_s:.0f} s{by}"
    for line in outcome.trace.lines:
        yield f"  trace: {line}"
