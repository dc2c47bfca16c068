"""Explain how an app ended, based on its exit code, its output, and the last DLL that it loaded."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.core.errors import RocenvError
from rocenv.core.model import VENV
from rocenv.launch.output import last_stack
from rocenv.presence import damaged
from rocenv.resolve.verdicts import known_broken
from rocenv.system.exit_codes import describe_exit, is_crash, meaning_of_exit
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from rocenv.apps.context import LaunchContext
    from rocenv.apps.start import Start
    from rocenv.data.apps import Failure
    from rocenv.data.knowledge import Verdict
    from rocenv.host.event_log import Fault
    from rocenv.launch.capture import Ended
    from rocenv.launch.output import Trace, Watch

_SHOWN = 3  # lines of output


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A known cause, found in an app's output."""

    code: str
    title: str
    lines: tuple[str, ...] = ()  # the evidence

    def covers(self, failure: Failure) -> bool:
        """Whether this is the cause of a known failure."""
        text = " ".join(failure.text.split())
        return self.code == failure.code or any(text in " ".join(line.split()) for line in self.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What is known about an app that has ended."""

    context: LaunchContext
    ended: Ended
    watch: Watch
    trace: Trace
    fault: Fault | None = None  # from the Windows event log
    log: Path | None = None

    @property
    def died_inside(self) -> bool:
        """Whether a program run by a script crashed. Batch files with `pause` exit with 0 even then."""
        if not self.context.start.is_script:
            return False
        stack = last_stack(self.watch.tail)
        return self.trace.inside or (stack is not None and stack.is_end)

    @property
    def crashed(self) -> bool:
        """Whether the app or a program that it started crashed."""
        return is_crash(self.ended.code) or self.died_inside

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The known failures in the app's output, except a fallback to the CPU that the user requested."""
        is_asked = self.context.start.wants_cpu
        return tuple(each for each in self.watch.failures if not (each.cpu and is_asked))

    @property
    def on_cpu(self) -> bool:
        """Whether the app reported running on the CPU even though the user did not ask for that."""
        return any(failure.cpu for failure in self.failures)

    @property
    def is_unproved(self) -> bool:
        """Whether the app should have used the GPU, but did not print that it did."""
        start, ended = self.context.start, self.ended
        # If it failed before doing any work, its own error message is more useful.
        is_error = ended.code != 0 and not ended.interrupted and not self.crashed and not self.failures
        is_work = start.is_gpu_work or (self.watch.works and not start.wants_cpu)
        return bool(start.launcher.gpu_used) and not self.watch.on_gpu and is_work and not is_error

    @property
    def may_have_crashed(self) -> bool:
        """Whether the Windows event log may have recorded a crash."""
        return self.crashed or (self.context.start.is_script and self.ended.code != 0)

    @property
    def concerns_set(self) -> bool:
        """Whether the set may be the cause, rather than an error in the app itself."""
        return self.crashed or self.trace.is_bad or bool(self.failures)

    @property
    def is_bad(self) -> bool:
        """Whether the way the app ended needs an explanation.

        Ctrl-C is a normal way to stop an app, and the only one for servers, so only failures printed before
        it matter.
        """
        if self.ended.interrupted and not self.is_fault and not self.failures:
            return False
        return self.ended.code != 0 or self.concerns_set or self.is_unproved

    @property
    def is_fault(self) -> bool:
        """Whether a fault or a signal other than Ctrl-C ended the app."""
        code = self.ended.code
        return is_crash(code) and code not in (-signal.SIGINT, -getattr(signal, "SIGQUIT", 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """An explanation of a failure, in the user's language."""

    happened: tuple[str, ...]
    why: tuple[str, ...]
    todo: tuple[str, ...]
    damaged_files: int = 0  # number of the env's files that are missing or changed

    @property
    def lines(self) -> tuple[str, ...]:
        """All lines, in order."""
        return (*self.happened, *self.why, *self.todo)


def explain(outcome: Outcome) -> Explanation | None:
    """Explain a failure, or a run that succeeded without using the GPU; return None if all is well."""
    if not outcome.is_bad:
        return None
    context, start = outcome.context, outcome.context.start
    causes = _causes_of(outcome)
    known: Sequence[Verdict] = ()
    if outcome.concerns_set:
        known = known_broken(start.record.lock, context.matrix, context.machine.driver)
    why, todo = list(_why(outcome, causes, known)), list(_todo(outcome, causes, known))
    lost = _damaged_files(start)
    if lost:
        path = next(iter(lost))
        why.insert(0, context.message("files_damaged", count=str(len(lost)), path=path))
        todo.insert(0, f"rocenv repair {context.env}")
    return Explanation(
        happened=tuple(_happened(outcome)),
        why=tuple(context.message("why", text=text) for text in why),
        todo=tuple(context.message("todo", text=text) for text in todo),
        damaged_files=len(lost),
    )


def _damaged_files(start: Start) -> dict[str, str]:
    """Find missing or changed files without reading them; skip the venv, which apps may change."""
    try:
        files = start.prefix.files(start.record)
        outside = {path: entry for path, entry in files.items() if not path.startswith(f"{VENV}/")}
        return damaged(start.prefix.path, outside)
    except RocenvError:  # `doctor` reports a damaged file list
        return {}


def _causes_of(outcome: Outcome) -> tuple[Cause, ...]:
    """Diagnose the app's log or, without a log, the last lines of its output."""
    from rocenv.diagnose import diagnose, diagnose_bytes
    from rocenv.diagnose.reading import read_path
    from rocenv.diagnose.report import facts_of, report

    context = outcome.context
    try:
        if outcome.log is None:
            raise FileNotFoundError
        diagnosis = diagnose(read_path(outcome.log), context.matrix)
    except (RocenvError, FileNotFoundError):  # there is no log, or it was deleted
        diagnosis = diagnose_bytes("\n".join(outcome.watch.tail).encode(), context.matrix)
    machine = facts_of(context.host, diagnosis.facts)
    causes = [
        Cause(
            code=each.code,
            title=report(each, context.matrix, context.language, machine).title,
            lines=tuple(evidence.text for evidence in each.evidence),
        )
        for each in diagnosis.findings
    ]
    # A missing GPU is not the cause if the user requested the CPU.
    start = context.start
    asked = [each for each in start.launcher.failures if each.cpu and start.wants_cpu]
    return tuple(cause for cause in causes if not any(map(cause.covers, asked)))


def _happened(outcome: Outcome) -> Iterator[str]:
    code, message = outcome.ended.code, outcome.context.message
    end = {
        "app": outcome.context.start.title,
        "end": describe_exit(code, outcome.context.language),
        "meaning": meaning_of_exit(code, outcome.context.language),
    }
    if outcome.crashed and not is_crash(code):
        yield message("child_crashed", **end)
    elif code == 0 or (outcome.ended.interrupted and not outcome.is_fault):
        yield message("stopped_but" if code else "ended_but", shortfall=message(_shortfall(outcome)), **end)
    else:
        yield message("ended_because" if end["meaning"] else "ended", **end)
    if code and outcome.is_unproved and not outcome.on_cpu and not outcome.ended.interrupted:
        yield f"  {message('gpu_not_shown')}"
    yield from (f"  {line}" for line in _where(outcome))
    if code and not outcome.crashed:
        for line in [line for line in outcome.watch.tail if line.strip()][-_SHOWN:]:
            yield f"  | {line}"


def _shortfall(outcome: Outcome) -> str:
    """The name of the message that describes the problem with a run that exited normally."""
    if outcome.on_cpu:
        start = outcome.context.start
        is_no_work = start.is_app and not start.is_gpu_work  # for example, the app only listed its GPUs
        return "no_gpu" if is_no_work else "used_cpu"
    return "had_errors" if outcome.concerns_set else "gpu_not_shown"


def _where(outcome: Outcome) -> Iterator[str]:
    trace, fault, stack = outcome.trace, outcome.fault, last_stack(outcome.watch.tail)
    message = outcome.context.message
    if trace.inside:
        yield message("while_loading", library=trace.last)
    elif trace.failed:
        yield message("not_loaded", failed=trace.failed)
    elif trace.last and outcome.crashed:
        yield message("after_torch" if trace.torch else "after_zluda")
    if fault is not None:
        yield message("windows_exception", exception=fault.exception, module=fault.path or fault.module)
    elif stack is not None and stack.frame and outcome.crashed:
        yield message("python_frame", **stack.frame)


def _why(outcome: Outcome, causes: Sequence[Cause], known: Sequence[Verdict]) -> Iterator[str]:
    """Yield the causes of printed failures, then known problems with the set, then other causes.

    Causes from `diagnose`, which reads the whole output, take precedence over rules for single strings.
    """
    context, message = outcome.context, outcome.context.message
    named: set[str] = set()
    for failure in outcome.failures:
        covering = next((each for each in causes if each.covers(failure)), None)
        cause, text = covering or _rule_of(failure, context), context.text(failure.means)
        if cause and cause.code not in named:
            name = "cause_means" if text else "cause"
            text = message(name, title=cause.title, code=cause.code, means=text)
            named.add(cause.code)
        if text:
            yield message("printed", text=text, printed=failure.text)
    for row in known[:1]:
        name = "known_to_fail_details" if row.code else "known_to_fail"
        yield message(name, what=row.what, source=row.source.partition(";")[0].strip(), code=row.code)
    for each in causes:
        if each.code not in named:
            yield message("cause", title=each.title, code=each.code)


def _rule_of(failure: Failure, context: LaunchContext) -> Cause | None:
    from rocenv.data.remedies import unfilled

    rule = next((row for row in context.matrix.rule if row.code == failure.code), None)
    return Cause(code=rule.code, title=unfilled(rule.title, context.language)) if rule else None


def _todo(outcome: Outcome, causes: Sequence[Cause], known: Sequence[Verdict]) -> Iterator[str]:
    context, failures = outcome.context, outcome.failures
    codes = {each.code for each in causes} | {each.code for each in failures if each.code}
    todo = list(context.fallbacks(codes))
    if known:
        todo.append(context.another() or known[0].remedy)
    remedies = [context.command(failure.remedy) for failure in failures]
    todo += [remedy for remedy in remedies if not any(each.endswith(remedy) for each in todo)]
    if not any(todo) and (outcome.concerns_set or outcome.is_unproved):
        todo.append(f"rocenv verify {context.env}")
    yield from dict.fromkeys(filter(None, todo))
    own = [context.start.folder / name for name in context.start.launcher.logs]
    logs = [str(path) for path in (outcome.log, *own) if path is not None and os.path.exists(path)]
    if causes and logs:
        yield f"rocenv diagnose {shell_join(logs[0])}"
    if logs:
        comma = "、" if context.language == "zh" else ", "
        yield context.message("read_log", paths=comma.join(f"`{path}`" for path in logs))
