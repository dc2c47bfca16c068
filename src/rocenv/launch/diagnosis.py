"""Why an app ended as it did: exit code, last DLL loaded, output, and the matrix."""

from __future__ import annotations

import datetime
import re
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.resolve.known import known_broken
from rocenv.system.processes import describe_exit, is_crash

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from rocenv.host.faults import Fault
    from rocenv.launch.capture import Ended
    from rocenv.launch.view import View
    from rocenv.launch.watch import Watch
    from rocenv.matrix.knowledge import Verdict

TRACE = "ROCENV_TRACE"  # names the file that the env's Python notes in what it loads
_TRACE_BYTES = 1 << 20
_SHOWN = 3  # lines of output
# What an end means that is not in its name. Source: ntstatus.h; signal(7)
_MEANINGS = {
    0xC0000005: "it read or wrote memory that is not its own",
    0xC0000135: "a DLL that it needs is not there",
    0xC0000139: "a DLL lacks something that is called in it: DLLs of two versions are mixed",
    0xC0000142: "a DLL could not set itself up",
    0xC0000409: "it gave up by itself, as rocBLAS does where it has no kernels for a GPU",
    0xC000001D: "it met an instruction that this CPU does not have",
    0xC00000FD: "its stack ran over",
    0xC0000374: "its memory was damaged",
}
_BY_SIGNAL = {
    "SIGSEGV": "it read or wrote memory that is not its own",
    "SIGABRT": "it gave up by itself, as rocBLAS does where it has no kernels for a GPU",
    "SIGILL": "it met an instruction that this CPU does not have",
    "SIGBUS": "a file that it had in memory is gone or too short",
    "SIGKILL": "it was killed, as the kernel does when memory runs out",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What is known once an app has ended."""

    view: View
    ended: Ended
    watch: Watch
    trace: str  # content of the trace file; "" = there was none
    fault: Fault | None = None
    log: Path | None = None


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
    if code == 0 and not failures:
        return None
    happened = list(_happened(outcome))
    known = known_broken(outcome.view.start.record.lock, outcome.view.matrix, outcome.view.machine.driver)
    why = [f"{failure.means} (it printed `{failure.text}`)" for failure in failures]
    if not _concerns_set(outcome):
        known = ()
    why += [_why(row) for row in known[:1]]
    todo = list(_todo(outcome, known))
    return Explanation(happened=tuple(happened), why=tuple(why), todo=tuple(todo))


def last_load(trace: str) -> tuple[str, bool]:
    """Return the DLL that a trace names last, and whether its loading ended; "" where it names none."""
    path, ended = "", True
    for line in trace.splitlines():
        word, _, rest = line.partition(" ")
        if word == "load":
            path, ended = rest.strip(), False
        elif word == "loaded" and rest.strip() == path:
            ended = True
    return path, ended


def last_step(trace: str) -> str:
    """Return the last word of a trace that is no loading: `torch`, `first-use`; "" = none."""
    steps = [
        line.strip() for line in trace.splitlines() if line.partition(" ")[0] not in ("load", "loaded", "")
    ]
    return steps[-1] if steps else ""


def read_trace(path: Path) -> str:
    """Return the end of a trace; "" where there is none."""
    try:
        with path.open("rb") as stream:
            stream.seek(0, 2)
            stream.seek(max(0, stream.tell() - _TRACE_BYTES))
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""


def since(seconds: float) -> datetime.datetime:
    """Return the time so many seconds ago."""
    return datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=seconds)


def _is_fault(code: int) -> bool:
    return is_crash(code) and code not in (-signal.SIGINT, -getattr(signal, "SIGQUIT", 0))


def _concerns_set(outcome: Outcome) -> bool:
    """Tell whether an end is one that a set can be blamed for, and not an error of the app's own."""
    return is_crash(outcome.ended.code) or bool(outcome.watch.failures) or not last_load(outcome.trace)[1]


def _happened(outcome: Outcome) -> Iterator[str]:
    code = outcome.ended.code
    title = outcome.view.start.title
    if code == 0:
        yield f"{title} ended with exit code 0, but not all of it worked"
        return
    told = describe_exit(code)
    meaning = _MEANINGS.get(code) or _BY_SIGNAL.get(told.partition(" ")[0])
    yield f"{title} ended with {told}" + (f": {meaning}" if meaning else "")
    yield from _where(outcome)
    if not is_crash(code):
        for line in [line for line in outcome.watch.tail if line.strip()][-_SHOWN:]:
            yield f"  | {line}"


def _where(outcome: Outcome) -> Iterator[str]:
    path, ended = last_load(outcome.trace)
    if path and not ended:
        yield f"  while `{path}` was being loaded"
    elif path and is_crash(outcome.ended.code):
        after = {"torch": "torch was imported", "": "ZLUDA was loaded"}
        step = last_step(outcome.trace)
        word = step.partition(" ")[0]
        yield f"  after {after.get(word, 'the GPU was first used' if word == 'first-use' else step)}"
    if outcome.fault is not None:
        fault = outcome.fault
        yield f"  Windows names the module: {fault.path or fault.module}, exception {fault.exception}"
    elif stack := _python_stack(outcome.watch.tail):
        yield f"  Python was in {stack}"


_FRAME = re.compile(r'File "(.+)", line ([0-9]+) in (\S+)')  # of faulthandler


def _python_stack(tail: Sequence[str]) -> str:
    """Return the innermost frame of the stack that Python prints when it crashes; "" where there is none."""
    for number, line in enumerate(tail):
        if line.startswith(("Fatal Python error:", "Windows fatal exception:")):
            frame = next((found for each in tail[number:] if (found := _FRAME.search(each))), None)
            return f"{frame[3]}, `{frame[1]}` line {frame[2]}" if frame else ""
    return ""


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
    logs = [str(path) for path in (outcome.log, *own) if path is not None and path.exists()]
    if logs:
        yield f"read the log: {', '.join(f'`{path}`' for path in logs)}"
