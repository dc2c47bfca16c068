"""Why an app ended as it did: exit code, last DLL loaded, output, and the matrix."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.launch.causes import codes_of, fallbacks, why
from rocenv.launch.stack import last_stack
from rocenv.resolve.verdicts import known_broken
from rocenv.system.exit_codes import describe_exit, is_crash, meaning_of_exit
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from rocenv.data.apps import Failure
    from rocenv.data.knowledge import Verdict
    from rocenv.host.event_log import Fault
    from rocenv.launch.capture import Ended
    from rocenv.launch.causes import Cause
    from rocenv.launch.context import LaunchContext
    from rocenv.launch.trace import Trace
    from rocenv.launch.watch import Watch

_SHOWN = 3  # lines of output
UNPROVED = "nothing shows that it used the GPU"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What is known once an app has ended."""

    view: LaunchContext
    ended: Ended
    watch: Watch
    trace: Trace
    fault: Fault | None = None
    log: Path | None = None
    found: tuple[Cause, ...] = ()  # what its output is known to come from

    @property
    def causes(self) -> tuple[Cause, ...]:
        """What its output comes from: that there is no GPU is none where somebody has asked for the CPU."""
        start = self.view.start
        of_cpu = [each for each in start.launcher.failures if each.cpu and start.wants_cpu]
        return tuple(cause for cause in self.found if not any(map(cause.shows, of_cpu)))

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
    def failures(self) -> tuple[Failure, ...]:
        """What it printed that means trouble: the CPU is none where somebody has asked for it."""
        is_asked = self.view.start.wants_cpu
        return tuple(each for each in self.watch.failures if not (each.cpu and is_asked))

    @property
    def on_cpu(self) -> bool:
        """It has said that the CPU does the work, and nobody had asked for that."""
        return any(failure.cpu for failure in self.failures)

    @property
    def is_unproved(self) -> bool:
        """It had work for the GPU, and printed nothing of what it prints once it works on one."""
        start = self.view.start
        # An error of its own, before it had done anything, says more.
        is_error = (
            self.ended.code != 0 and not self.ended.interrupted and not self.crashed and not self.failures
        )
        is_work = start.is_gpu_work or (self.watch.works and not start.wants_cpu)
        return bool(start.launcher.gpu_used) and not self.watch.on_gpu and is_work and not is_error

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

    An end by Ctrl-C is no bad end; servers have no other, so what they printed before it counts.
    """
    code, failures = outcome.ended.code, outcome.failures
    if outcome.ended.interrupted and not _is_fault(code) and not failures:
        return None
    if code == 0 and not _concerns_set(outcome) and not outcome.is_unproved:
        return None
    lock, matrix = outcome.view.start.record.lock, outcome.view.matrix
    known: Sequence[Verdict] = ()
    if _concerns_set(outcome):
        known = known_broken(lock, matrix, outcome.view.machine.driver)
    printed, others = why(failures, outcome.causes, matrix)
    return Explanation(
        happened=tuple(_happened(outcome)),
        why=(*printed, *(_why(row) for row in known[:1]), *others),
        todo=tuple(_todo(outcome, known)),
    )


def _is_fault(code: int) -> bool:
    return is_crash(code) and code not in (-signal.SIGINT, -getattr(signal, "SIGQUIT", 0))


def _concerns_set(outcome: Outcome) -> bool:
    """Tell whether an end is one that a set can be blamed for, and not an error of the app's own."""
    return outcome.crashed or outcome.trace.is_bad or bool(outcome.failures)


def _happened(outcome: Outcome) -> Iterator[str]:
    code = outcome.ended.code
    title = outcome.view.start.title
    if outcome.crashed and not is_crash(code):
        yield f"{title} ended with {describe_exit(code)}, but a program that it started crashed"
    elif code == 0 or (outcome.ended.interrupted and not _is_fault(code)):
        by = "ended with exit code 0" if code == 0 else "was ended by Ctrl-C"
        yield f"{title} {by}, but {_in_vain(outcome)}"
    else:
        meaning = meaning_of_exit(code)
        yield f"{title} ended with {describe_exit(code)}" + (f": {meaning}" if meaning else "")
    if code and outcome.is_unproved and not outcome.on_cpu and not outcome.ended.interrupted:
        yield f"  {UNPROVED}"
    yield from _where(outcome)
    if code and not outcome.crashed:
        for line in [line for line in outcome.watch.tail if line.strip()][-_SHOWN:]:
            yield f"  | {line}"


def _in_vain(outcome: Outcome) -> str:
    if outcome.on_cpu:
        start = outcome.view.start
        is_no_work = start.is_app and not start.is_gpu_work  # as where it was asked to list GPUs
        return "there is no GPU here that it can use" if is_no_work else "it worked on the CPU"
    return "not all of it worked" if _concerns_set(outcome) else UNPROVED


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
    failures = outcome.failures
    todo = list(fallbacks(view, codes_of(failures, outcome.causes)))
    if known:
        todo += [view.another() or known[0].remedy]
    remedies = [view.filled(failure.remedy) for failure in failures]
    todo += [remedy for remedy in remedies if not any(each.endswith(remedy) for each in todo)]
    if not any(todo) and (_concerns_set(outcome) or outcome.is_unproved):
        todo.append(f"rocenv verify {view.env}")
    yield from dict.fromkeys(filter(None, todo))
    own = [view.start.folder / name for name in view.start.launcher.logs]
    logs = [str(path) for path in (outcome.log, *own) if path is not None and os.path.exists(path)]
    if outcome.causes and logs:
        yield f"rocenv diagnose {shell_join(logs[0])}"
    if logs:
        yield f"read the log: {', '.join(f'`{path}`' for path in logs)}"
