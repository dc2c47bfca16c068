"""What is worth knowing of an app's output while it runs: known failures, the last lines, long silence."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rocenv.data.apps import Failure, Launcher

_CONTROL = re.compile(rb"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_TAIL_BYTES = 16 << 10
_OVERLAP_BYTES = 1 << 10  # of what was printed before, for a text that comes in two pieces


class Watch:
    """Sees everything that an app prints; colours and line breaks make no difference to it."""

    def __init__(
        self,
        launchers: Sequence[Launcher],
        tell: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._launcher = launchers[0]
        failures = [failure for launcher in launchers for failure in launcher.failures]
        self._texts = [(_plain(failure.text.encode()), failure) for failure in failures]
        self._compiling = _plain(self._launcher.compiling.encode())
        self._found: list[Failure] = []
        self._of_gpu = [_plain(text.encode()) for text in self._launcher.gpu_used]
        self._on_gpu = False
        self._of_work = [_plain(text.encode()) for text in self._launcher.gpu_work_shown]
        self._works = False
        self._tail = b""
        self._tell: Callable[[str], None] | None = tell
        self._clock = clock
        self._last = clock()
        self._compiles = False

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The known failures that were printed, in that order."""
        return tuple(self._found)

    @property
    def on_gpu(self) -> bool:
        """Something was printed that an app prints once it works on the GPU."""
        return self._on_gpu

    @property
    def works(self) -> bool:
        """Something was printed that an app prints when it begins work that the GPU is for."""
        return self._works

    @property
    def tail(self) -> tuple[str, ...]:
        """The last lines, without colours; of a line that was written over only what was left of it."""
        text = _CONTROL.sub(b"", self._tail).decode("utf-8", "replace").replace("\r\n", "\n")
        return tuple(line.rpartition("\r")[2] for line in text.split("\n"))

    @property
    def silent_s(self) -> float:
        """How long nothing was printed."""
        return self._clock() - self._last

    def see(self, data: bytes) -> None:
        """Take the next piece of output."""
        seen = _plain(self._tail[-_OVERLAP_BYTES:] + data)
        for text, failure in self._texts:
            if text in seen and failure not in self._found:
                self._found.append(failure)
        self._on_gpu = self._on_gpu or any(text in seen for text in self._of_gpu)
        self._works = self._works or any(text in seen for text in self._of_work)
        self._tail = (self._tail + data)[-_TAIL_BYTES:]
        if self._compiling and self._compiling in seen:
            # It is said again and again while it goes on, which is no progress.
            self._compiles = True
            if self._compiling in _plain(data):
                return
        else:
            self._compiles = False
        self._last = self._clock()

    def tick(self) -> None:
        """Explain a silence in which kernels are being compiled, once."""
        if self._tell is not None and self._compiles and self.silent_s >= self._launcher.silence_s:
            self._tell(self._launcher.first_run)
            self._tell = None


def _plain(data: bytes) -> bytes:
    if b"\x1b" in data:
        data = _CONTROL.sub(b"", data)
    return b" ".join(data.split())
