"""Recognize known messages in an app's output, and read the trace that its Python writes."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from rocenv.data.apps import Failure, Launcher

TRACE_VARIABLE = "ROCENV_TRACE"  # the path of the trace that the env's Python writes
_TRACE_BYTES = 1 << 20
_CONTROL = re.compile(rb"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_TAIL_BYTES = 16 << 10
_OVERLAP_BYTES = 1 << 10  # to find strings that are split across chunks
_SILENCE_S = 60.0  # how long an app may be silent before rocenv explains why

# Source: faulthandler in Python 3.8 to 3.14
_STACK_HEADER = ("Fatal Python error:", "Windows fatal exception:")
_STACK_FRAME = re.compile(r'File "(?P<file>.+)", line (?P<line>[0-9]+) in (?P<function>\S+)')
_STACK_LINE = re.compile(
    r'  File "|  <|  \.\.\.|  Binary file "|Current thread|Thread 0x|Stack \(|Extension modules:|<'
)
_MAX_AFTER_STACK = 5  # lines from a batch file, such as "Press any key to continue . . ."


class Watch:
    """Searches an app's output for known strings, ignoring colors and line breaks."""

    def __init__(
        self,
        launchers: Sequence[Launcher],
        explain_silence: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._launcher = launchers[0]
        failures = [failure for launcher in launchers for failure in launcher.failures]
        self._texts = [(_plain(failure.text.encode()), failure) for failure in failures]
        self._compiling = _plain(self._launcher.compiling.encode())
        self._gpu_texts = [_plain(text.encode()) for text in self._launcher.gpu_used]
        self._work_texts = [_plain(text.encode()) for text in self._launcher.gpu_work_shown]
        self._found: list[Failure] = []
        self._tail = b""
        self._explain_silence: Callable[[], None] | None = explain_silence
        self._clock = clock
        self._last = clock()
        self._compiles = False
        self.on_gpu = False  # the app reported that it uses the GPU
        self.works = False  # the app reported that it is starting GPU work

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The known failures, in the order in which they were printed."""
        return tuple(self._found)

    @property
    def tail(self) -> tuple[str, ...]:
        """The last lines, without control sequences; overwritten lines appear in their final state."""
        text = _CONTROL.sub(b"", self._tail).decode("utf-8", "replace").replace("\r\n", "\n")
        return tuple(line.rpartition("\r")[2] for line in text.split("\n"))

    @property
    def silent_s(self) -> float:
        """Seconds since the last output."""
        return self._clock() - self._last

    def see(self, data: bytes) -> None:
        """Process the next chunk of output."""
        recent = _plain(self._tail[-_OVERLAP_BYTES:] + data)
        for text, failure in self._texts:
            if text in recent and failure not in self._found:
                self._found.append(failure)
        self.on_gpu = self.on_gpu or any(text in recent for text in self._gpu_texts)
        self.works = self.works or any(text in recent for text in self._work_texts)
        self._tail = (self._tail + data)[-_TAIL_BYTES:]
        self._compiles = bool(self._compiling) and self._compiling in recent
        # A repeated "compiling" message is not progress.
        if not (self._compiles and self._compiling in _plain(data)):
            self._last = self._clock()

    def tick(self) -> None:
        """Explain once that the app is compiling kernels, if it has been silent for a long time."""
        if self._explain_silence is not None and self._compiles and self.silent_s >= _SILENCE_S:
            self._explain_silence()
            self._explain_silence = None


def _plain(data: bytes) -> bytes:
    if b"\x1b" in data:
        data = _CONTROL.sub(b"", data)
    return b" ".join(data.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The end of an app's Python trace.

    `rocenv.install.venv_start` writes the trace: `load PATH`, then `loaded PATH` or `failed PATH: why`, and
    `torch` once torch is imported. All Python processes of the app write to the same file.
    """

    last: str = ""  # the last library that the app started to load
    inside: bool = False  # still loading
    failed: str = ""  # "PATH: reason" if loading failed
    torch: bool = False  # torch was imported afterward
    lines: tuple[str, ...] = ()

    @property
    def is_bad(self) -> bool:
        """Whether the last library failed to load."""
        return self.inside or bool(self.failed)


def parse_trace(text: str) -> Trace:
    """Parse a trace, ignoring malformed lines."""
    last, inside, failed, torch = "", False, "", False
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word == "load":
            last, inside, failed, torch = rest.strip(), True, "", False
        elif word == "loaded" and rest.strip() == last:
            inside = False
        elif word == "failed":
            inside, failed = False, rest.strip()
        elif word == "torch":
            torch = True
    return Trace(last=last, inside=inside, failed=failed, torch=torch, lines=tuple(text.splitlines()))


def read_trace(path: Path | None) -> Trace:
    """Read the end of a trace; the result is empty if there is no trace."""
    if path is None:
        return Trace()
    try:
        with path.open("rb") as stream:
            stream.seek(0, 2)
            stream.seek(max(0, stream.tell() - _TRACE_BYTES))
            return parse_trace(stream.read().decode("utf-8", "replace"))
    except OSError:
        return Trace()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """The last stack trace that Python's faulthandler printed."""

    frame: Mapping[str, str]  # `function`, `file` and `line` of the innermost frame, or {}
    is_end: bool  # almost no output follows the trace, so the program ended there


def last_stack(lines: Sequence[str]) -> Stack | None:
    """Find the last stack trace in some output, or return None.

    Python also prints stack traces for faults that it survives, such as access violations that ctypes turns
    into exceptions.
    """
    headers = [number for number, line in enumerate(lines) if line.startswith(_STACK_HEADER)]
    if not headers:
        return None
    below = [line for line in lines[headers[-1] + 1 :] if line.strip()]
    frame = next((found for line in below if (found := _STACK_FRAME.search(line))), None)
    return Stack(
        frame=frame.groupdict() if frame else {},
        is_end=sum(not _STACK_LINE.match(line) for line in below) <= _MAX_AFTER_STACK,
    )
