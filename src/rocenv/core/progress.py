"""How far long work has come: one display on a terminal, plain lines elsewhere, always on stderr.

On a terminal the display appears once a stage has lasted 0.3 s and vanishes with the last stage. Elsewhere
(a pipe, `CI`, `TERM=dumb`) a line is printed at most every 5 s, for each 10 % or each minute. In both cases
a stage of a second or more leaves one closing line; a shorter one, or one that failed, leaves nothing.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import TextIO

SHOWN_AFTER_S = 0.3
CLOSING_LINE_AFTER_S = 1.0
LINE_EVERY_S = 5.0
LINE_EVERY_SHARE = 0.1
LINE_AT_LEAST_EVERY_S = 60.0  # build machines end what has been silent for minutes
RATE_OVER_S = 10.0
SAMPLE_EVERY_S = 0.25
REFRESHES_PER_S = 8


def size_text(size_bytes: float) -> str:
    """Return a size as people read it, in decimal units: `228.0 MB`."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.1f} {unit}"
    return f"{size_bytes:.0f} B"


def sanitized(text: str) -> str:
    """Replace characters that a terminal would interpret; a line may quote a log or a server's answer."""
    return "".join(char if char.isprintable() or char in "\n\t" else "?" for char in text)


class Progress:
    """The display that all stages of one command share; may be used from several threads.

    Args:
        quiet: Print nothing at all, notes included.
        stream: Instead of stderr.
        environ: Instead of the process's environment.
        clock: Seconds from any origin.
    """

    def __init__(
        self,
        *,
        quiet: bool = False,
        stream: TextIO | None = None,
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._quiet = quiet
        self._clock = clock
        environ = os.environ if environ is None else environ
        dumb = bool(environ.get("CI")) or environ.get("TERM") == "dumb"
        self._terminal = not quiet and not dumb and self._out.isatty()
        self._stages: list[Stage] = []
        self._lock = threading.Lock()
        self._live: Any = None  # rich.live.Live

    @contextlib.contextmanager
    def stage(self, title: str, total_bytes: int = 0) -> Iterator[Stage]:
        """Show a piece of work while the block runs; `total_bytes` 0 means that the end is not known."""
        with self._shown(Stage(self, title, total_bytes, self._clock)) as stage:
            yield stage

    @contextlib.contextmanager
    def wait(self, title: str, usual_s: float = 0.0) -> Iterator[Wait]:
        """Show a piece of work of which only the time can be told; `usual_s` is what it took last time."""
        wait = Wait(self, title, usual_s, self._clock)
        with self._shown(wait):
            yield wait

    @contextlib.contextmanager
    def _shown(self, stage: Stage) -> Iterator[Stage]:
        timer = threading.Timer(SHOWN_AFTER_S, self._show)
        timer.daemon = True
        with self._lock:
            self._stages.append(stage)
        if self._terminal:
            timer.start()
        try:
            yield stage
        finally:
            timer.cancel()
            self._end(stage)
        closing = stage.closing_line()
        if closing:
            self.note(closing)

    def note(self, text: str) -> None:
        """Print one line that stays, above the display if there is one."""
        if self._quiet:
            return
        text = sanitized(text)
        with self._lock:
            if self._live is not None:
                self._live.console.print(text, markup=False, highlight=False, soft_wrap=True)
            else:
                self._out.write(text + "\n")
                self._out.flush()

    def report(self, stage: Stage) -> None:
        """Print the line that a stage owes where there is no terminal."""
        if self._terminal or self._quiet:
            return
        line = stage.due_line()
        if line:
            self.note(line)

    @property
    def _out(self) -> TextIO:
        return sys.stderr if self._stream is None else self._stream

    def _show(self) -> None:
        from rich.console import Console
        from rich.live import Live

        with self._lock:
            if self._live is not None or not self._stages:
                return
            self._live = Live(
                console=Console(file=self._stream, stderr=self._stream is None),
                get_renderable=self._rows,
                refresh_per_second=REFRESHES_PER_S,
                transient=True,
                redirect_stdout=False,
            )
            self._live.start()

    def _end(self, stage: Stage) -> None:
        with self._lock:
            self._stages.remove(stage)
            if self._live is not None and not self._stages:
                self._live.stop()
                self._live = None

    def _rows(self) -> Any:
        """Return what rich draws; called by its thread while `_lock` may be held, so without it."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        rows = Table.grid(padding=(0, 1))
        for stage in tuple(self._stages):
            total = stage.total_bytes or None
            bar = ProgressBar(total=total, completed=stage.done_bytes, width=30, pulse=total is None)
            rows.add_row(stage.title, bar, stage.figures())
        return rows


class Stage:
    """One piece of work on display: made by `Progress.stage`, moved on by whoever does the work."""

    def __init__(self, progress: Progress, title: str, total_bytes: int, clock: Callable[[], float]) -> None:
        self.title = title
        self.total_bytes = total_bytes
        self.done_bytes = 0
        self._moved_bytes = 0
        self._progress = progress
        self._clock = clock
        self._lock = threading.Lock()
        self._begin = self._last_line = clock()
        self._last_line_bytes = 0
        self._samples = deque([(self._begin, 0)])

    def advance(self, size_bytes: int) -> None:
        """Count bytes that were worked through just now."""
        with self._lock:
            self.done_bytes += size_bytes
            self._moved_bytes += size_bytes
            now = self._clock()
            if now - self._samples[-1][0] >= SAMPLE_EVERY_S:
                self._samples.append((now, self._moved_bytes))
                while now - self._samples[0][0] > RATE_OVER_S and len(self._samples) > 2:
                    self._samples.popleft()
        self._progress.report(self)

    def skip(self, size_bytes: int) -> None:
        """Count bytes that needed no work, or, negative, take back what has to be done again."""
        with self._lock:
            self.done_bytes += size_bytes

    def note(self, text: str) -> None:
        """Print one line that stays."""
        self._progress.note(text)

    def figures(self) -> str:
        """Return `120.4 MB of 228.0 MB, 11.2 MB/s, 0:09 left`, as much of it as is known."""
        with self._lock:
            return self._figures()

    def due_line(self) -> str:
        """Return the plain line that is due now and count it as printed; empty if none is."""
        with self._lock:
            now = self._clock()
            waited = now - self._last_line
            gained = self.done_bytes - self._last_line_bytes
            far_enough = not self.total_bytes or gained >= self.total_bytes * LINE_EVERY_SHARE
            if waited < LINE_EVERY_S or not (far_enough or waited >= LINE_AT_LEAST_EVERY_S):
                return ""
            self._last_line, self._last_line_bytes = now, self.done_bytes
            return f"{self.title}: {self._figures()}"

    def closing_line(self) -> str:
        """Return what remains to be said at the end; empty if the stage was short."""
        with self._lock:
            took_s = self._clock() - self._begin
            if took_s < CLOSING_LINE_AFTER_S:
                return ""
            rate = f" ({size_text(self._moved_bytes / took_s)}/s)" if self._moved_bytes else ""
            return f"{self.title}: {size_text(self.done_bytes)} in {took_s:.1f} s{rate}"

    def _figures(self) -> str:
        text = size_text(self.done_bytes)
        if self.total_bytes:
            text += f" of {size_text(self.total_bytes)}"
        (then, moved), now = self._samples[0], self._clock()
        if now - then < SAMPLE_EVERY_S or self._moved_bytes == moved:
            return text
        rate = (self._moved_bytes - moved) / (now - then)
        text += f", {size_text(rate)}/s"
        if self.total_bytes > self.done_bytes:
            minutes, seconds = divmod(round((self.total_bytes - self.done_bytes) / rate), 60)
            text += f", {minutes}:{seconds:02d} left"
        return text


class Wait(Stage):
    """Work that somebody else does and says nothing about: made by `Progress.wait`, a clock and no more."""

    def __init__(self, progress: Progress, title: str, usual_s: float, clock: Callable[[], float]) -> None:
        super().__init__(progress, title, round(usual_s), clock)

    def tick(self) -> None:
        """Say that it still goes on; to be called about each second."""
        with self._lock:
            # A bar that is full says that it is done, which it is not.
            self.done_bytes = min(round(self._elapsed_s()), round(self.total_bytes * 0.99))
        self._progress.report(self)

    def closing_line(self) -> str:
        """Return what remains to be said at the end; empty if it was short."""
        took_s = self._elapsed_s()
        return f"{self.title}: {took_s:.1f} s" if took_s >= CLOSING_LINE_AFTER_S else ""

    def _elapsed_s(self) -> float:
        return self._clock() - self._begin

    def _figures(self) -> str:
        text = _clock_text(self._elapsed_s())
        return f"{text}, took {_clock_text(self.total_bytes)} before" if self.total_bytes else text


def _clock_text(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
