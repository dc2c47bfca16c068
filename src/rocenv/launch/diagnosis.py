"""Why an app ended as it did: exit code, last DLL loaded, output, and the matrix."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.launch.stack import last_stack
from rocenv.resolve.known import known_broken
from rocenv.system.command_lines import as_typed
from rocenv.system.exit_codes import describe_exit, is_crash, meaning_of_exit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from rocenv.host.faults import Fault
    from rocenv.launch.capture import Ended
    from rocenv.launch.trace import Trace
    from rocenv.launch.view import View
    from rocenv.launch.watch import Watch
    from rocenv.matrix.knowledge import Verdict

_SHOWN = 3  # lines of output


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What is known once an app has ended."""

    view: View
    ended: Ended
    watch: Watch
    trace: Trace
    fault: Fault | None = None
    log: Path | None = None
    causes: tuple[str, ...] = ()  # what its output is known to come from, in words

    @property
    def died_inside(self) -> bool:
        """A program that a script started crashed: batch files often end well after that, with `pause`."""
        if not self.view.start.is_script:
            return False
        stack = last_stack(self.watch.tail)
        return self.trace.inside or (stack is not None and stack.is_end)

    @property
    def crashed(self) -> bool:
        """It, or a program that it stands for, was ended by a fault."""
        return is_crash(self.ended.code) or self.died_inside

    @property
    def may_have_crashed(self) -> bool:
        """It can be that Windows has noted a crash."""
        return self.crashed or (self.view.start.is_script and self.ended.code != 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A bad end in words."""

    happened: tuple[str, ...]
    why: tuple[str, ...]
    todo: tuple[str, ...]  # commands, or what to do

    def lines(self) -> list[str]:
        """Return it as lines for people."""
        told = [("", self.happened), ("why: ", self.why), ("do:  ", self.todo)]
        return [f"{label}{text}" for label, texts in told for text in texts]


def explain(outcome: Outcome) -> Explanation | None:
    """Return why an app ended badly, or what went wrong in it all the same; None where all is well.

    An end by Ctrl-C is no bad end.
    """
    code, failures = outcome.ended.code, outcome.watch.failures
    if outcome.ended.interrupted and not _is_fault(code):
        return None
    if code == 0 and not _concerns_set(outcome):
        return None
    happened = list(_happened(outcome))
    known = known_broken(outcome.view.start.record.lock, outcome.view.matrix, outcome.view.machine.driver)
    why = [f"{failure.means} (it printed `{failure.text}`)" for failure in failures]
    if not _concerns_set(outcome):
        known = ()
    why += [_why(row) for row in known[:1]]
    why += outcome.causes
    todo = list(_todo(outcome, known))
    return Explanation(happened=tuple(happened), why=tuple(why), todo=tuple(todo))


def _is_fault(code: int) -> bool:
    return is_crash(code) and code not in (-signal.SIGINT, -getattr(signal, "SIGQUIT", 0))


def _concerns_set(outcome: Outcome) -> bool:
    """Tell whether an end is one that a set can be blamed for, and not an error of the app's own."""
    return outcome.crashed or outcome.trace.is_bad or bool(outcome.watch.failures)


def _happened(outcome: Outcome) -> Iterator[str]:
    code = outcome.ended.code
    title = outcome.view.start.title
    if outcome.crashed and not is_crash(code):
        yield f"{title} ended with {describe_exit(code)}, but a program that it started crashed"
    elif code == 0:
        yield f"{title} ended with exit code 0, but not all of it worked"
    else:
        meaning = meaning_of_exit(code)
        yield f"{title} ended with {describe_exit(code)}" + (f": {meaning}" if meaning else "")
    yield from _where(outcome)
    if code and not outcome.crashed:
        for line in [line for line in outcome.watch.tail if line.strip()][-_SHOWN:]:
            yield f"  | {line}"


def _where(outcome: Outcome) -> Iterator[str]:
    trace = outcome.trace
    if trace.inside:
        yield f"  while `{trace.last}` was being loaded"
    elif trace.failed:
        yield f"  what could not be loaded: {trace.failed}"
    elif trace.last and outcome.crashed:
        yield f"  after {'torch was imported' if trace.torch else 'ZLUDA was loaded'}"
    stack = last_stack(outcome.watch.tail)
    if outcome.fault is not None:
        fault = outcome.fault
        yield f"  Windows names the module: {fault.path or fault.module}, exception {fault.exception}"
    elif stack is not None and stack.frame and outcome.crashed:
        yield f"  Python was in {stack.frame}"


def _why(row: Verdict) -> str:
    told = f"this set is known to fail: {row.what} ({row.source.partition(';')[0].strip()})"
    return f"{told}; `rocenv explain {row.code}` tells more" if row.code else told


def _todo(outcome: Outcome, known: Sequence[Verdict]) -> Iterator[str]:
    view = outcome.view
    todo: list[str] = []
    if known:
        todo += [view.another() or known[0].remedy]
    todo += [failure.remedy.replace("{name}", view.env) for failure in outcome.watch.failures]
    if not any(todo) and _concerns_set(outcome):
        todo.append(f"rocenv verify {view.env}")
    yield from dict.fromkeys(filter(None, todo))
    own = [view.start.folder / name for name in view.start.launcher.logs]
    logs = [str(path) for path in (outcome.log, *own) if path is not None and os.path.exists(path)]
    if outcome.causes and logs:
        yield f"rocenv diagnose {as_typed(logs[0])}"
    if logs:
        yield f"read the log: {', '.join(f'`{path}`' for path in logs)}"
