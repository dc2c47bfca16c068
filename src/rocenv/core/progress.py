"""Show the progress of long work on stderr: a live display on a terminal, plain lines elsewhere.

On a terminal, the display appears once a stage has lasted 0.3 s and disappears after the last stage.
Elsewhere (a pipe, `CI`, `TERM=dumb`) it prints a line every 10% or every minute, but at most one every 5 s;
the first line of a wait appears after 5 s.
In both cases, a successful stage that took 1 s or more prints a closing line, unless its caller prints one.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from typing import TYPE_CHECKING

from rocenv.core.logins import mask_logins

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import TextIO

    from rich.progress import Progress as Display
    from rich.progress import TaskID

SHOWN_AFTER_S = 0.3
CLOSING_LINE_AFTER_S = 1.0
LINE_EVERY_S = 5.0
LINE_EVERY_SHARE = 0.1
LINE_AT_LEAST_EVERY_S = 60.0  # CI services kill jobs that are silent for minutes
RATE_OVER_S = 10.0
REFRESHES_PER_S = 8
_BAR = 20  # columns, so that a line fits in 80


def size_text(size_bytes: float) -> str:
    """Format a size in decimal units: `228.0 MB`."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.1f} {unit}"
    return f"{size_bytes:.0f} B"


def sanitized(text: str) -> str:
    """Replace characters that a terminal would interpret, and mask passwords in URLs.

    The text can quote a log or a server's response.
    """
    return "".join(char if char.isprintable() or char in "\n\t" else "?" for char in mask_logins(text))


class Progress:
    """A command's progress display, shared by all its stages and threads."""

    def __init__(
        self,
        *,
        stream: TextIO | None = None,
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._clock = clock
        environ = os.environ if environ is None else environ
        dumb = bool(environ.get("CI")) or environ.get("TERM") == "dumb"
        self._terminal = not dumb and self._out.isatty()
        self._stages: list[Stage] = []
        self._lock = threading.Lock()
        self._display: Display | None = None

    @contextlib.contextmanager
    def stage(self, title: str, total_bytes: int = 0) -> Iterator[Stage]:
        """Show a task's progress while the block runs; `total_bytes=0` means that the size is unknown."""
        with self._shown(Stage(self, title, total_bytes, self._clock)) as stage:
            yield stage

    @contextlib.contextmanager
    def wait(self, title: str, usual_s: float = 0.0, *, closing: bool = True) -> Iterator[Wait]:
        """Show the elapsed time while the block runs; `usual_s` is how long it took last time.

        Without `closing`, no closing line is printed.
        """
        wait = Wait(self, title, usual_s, self._clock)
        with self._shown(wait, closing=closing):
            yield wait

    def note(self, text: str) -> None:
        """Print a permanent line, above the display if there is one."""
        text = sanitized(text)
        with self._lock:
            if self._display is not None:
                self._display.console.print(text, markup=False, highlight=False, soft_wrap=True)
            else:
                self._out.write(text + "\n")
                self._out.flush()

    def update(self, stage: Stage, moved_bytes: int = 0) -> None:
        """Redraw a stage. Only `moved_bytes` affects its rate."""
        if self._terminal:
            display, task = self._display, stage.task
            if display is not None and task is not None:
                if moved_bytes:
                    display.advance(task, moved_bytes)
                else:
                    display.reset(task, completed=stage.done_bytes)
        elif line := stage.due_line():
            self.note(line)

    @contextlib.contextmanager
    def _shown(self, stage: Stage, *, closing: bool = True) -> Iterator[Stage]:
        timer = (
            threading.Timer(SHOWN_AFTER_S, self._show, (stage,))
            if self._terminal
            else threading.Timer(LINE_EVERY_S, stage.tick)
        )
        timer.daemon = True
        with self._lock:
            self._stages.append(stage)
        timer.start()
        try:
            yield stage
        finally:
            timer.cancel()
            self._end(stage)
        line = stage.closing_line()
        if line and closing:
            self.note(line)

    @property
    def _out(self) -> TextIO:
        return sys.stderr if self._stream is None else self._stream

    def _show(self, stage: Stage) -> None:
        with self._lock:
            if stage not in self._stages:
                return
            if self._display is None:
                self._display = self._new_display()
                self._display.start()
            total = stage.total_bytes or None
            stage.task = self._display.add_task(
                stage.title, total=total, completed=stage.done_bytes, figures=stage.figures
            )

    def _new_display(self) -> Display:
        from rich import progress  # imported late because most commands do not show progress
        from rich.console import Console
        from rich.table import Column
        from rich.text import Text

        class Figures(progress.ProgressColumn):
            def render(self, task: progress.Task) -> Text:
                return Text(task.fields["figures"](task.speed))

        return progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(bar_width=_BAR),
            Figures(table_column=Column(no_wrap=True)),
            console=Console(file=self._stream, stderr=self._stream is None),
            refresh_per_second=REFRESHES_PER_S,
            speed_estimate_period=RATE_OVER_S,
            transient=True,
            redirect_stdout=False,
        )

    def _end(self, stage: Stage) -> None:
        with self._lock:
            self._stages.remove(stage)
            if self._display is None:
                return
            if stage.task is not None:
                self._display.update(stage.task, visible=False)
                stage.task = None  # an abandoned thread can still report progress
            if not self._stages:
                self._display.stop()
                self._display = None


class Stage:
    """A displayed task, created by `Progress.stage`."""

    def __init__(self, progress: Progress, title: str, total_bytes: int, clock: Callable[[], float]) -> None:
        self.title = title
        self.total_bytes = total_bytes
        self.done_bytes = 0
        self.task: TaskID | None = None  # set while displayed
        self._moved_bytes = 0  # excludes skipped bytes
        self._progress = progress
        self._clock = clock
        self._lock = threading.Lock()
        self._begin = self._last_line = clock()
        self._last_done_bytes = self._last_moved_bytes = 0  # values when the last line was printed

    def advance(self, size_bytes: int) -> None:
        """Count bytes that were just processed."""
        with self._lock:
            self.done_bytes += size_bytes
            self._moved_bytes += size_bytes
        self._progress.update(self, size_bytes)

    def skip(self, size_bytes: int) -> None:
        """Count bytes that did not need processing; a negative number means bytes to reprocess."""
        with self._lock:
            self.done_bytes += size_bytes
        if size_bytes:
            self._progress.update(self)

    def tick(self) -> None:
        """Report that the work is still running."""
        self._progress.update(self)

    def note(self, text: str) -> None:
        """Print a permanent line."""
        self._progress.note(text)

    def figures(self, rate: float | None) -> str:
        """Format the amount, rate and remaining time: `120.4 MB of 228.0 MB, 11.2 MB/s, 0:09 left`."""
        text = size_text(self.done_bytes)
        if self.total_bytes:
            text += f" of {size_text(self.total_bytes)}"
        if rate:
            text += f", {size_text(rate)}/s"
            if self.total_bytes > self.done_bytes:
                text += f", {_clock_text((self.total_bytes - self.done_bytes) / rate)} left"
        return text

    def due_line(self) -> str:
        """Return the plain line that is due and record it as printed, or return "" if none is due."""
        with self._lock:
            now = self._clock()
            waited = now - self._last_line
            gained = abs(self.done_bytes - self._last_done_bytes)
            far_enough = not self.total_bytes or gained >= self.total_bytes * LINE_EVERY_SHARE
            if waited < LINE_EVERY_S or not (far_enough or waited >= LINE_AT_LEAST_EVERY_S):
                return ""
            rate = (self._moved_bytes - self._last_moved_bytes) / waited
            self._last_line = now
            self._last_done_bytes, self._last_moved_bytes = self.done_bytes, self._moved_bytes
            return f"{self.title}: {self.figures(rate)}"

    def closing_line(self) -> str:
        """Return the closing line, or "" for a short stage."""
        took_s = self._elapsed_s()
        if took_s < CLOSING_LINE_AFTER_S:
            return ""
        rate = f" ({size_text(self._moved_bytes / took_s)}/s)" if self._moved_bytes else ""
        return f"{self.title}: {size_text(self.done_bytes)} in {took_s:.1f} s{rate}"

    def _elapsed_s(self) -> float:
        return self._clock() - self._begin


class Wait(Stage):
    """A wait for another program, created by `Progress.wait`; shows only the time."""

    def __init__(self, progress: Progress, title: str, usual_s: float, clock: Callable[[], float]) -> None:
        super().__init__(progress, title, round(usual_s), clock)

    def tick(self) -> None:
        """Report that the work is still running; call this about once a second."""
        # A full bar would suggest that the work is done.
        self.done_bytes = min(round(self._elapsed_s()), round(self.total_bytes * 0.99))
        self._progress.update(self)

    def figures(self, rate: float | None) -> str:
        """Format the elapsed time: `0:12, took 0:40 last time`."""
        text = _clock_text(self._elapsed_s())
        return f"{text}, took {_clock_text(self.total_bytes)} last time" if self.total_bytes else text

    def closing_line(self) -> str:
        """Return the closing line, or "" for a short wait."""
        took_s = self._elapsed_s()
        return f"{self.title}: {took_s:.1f} s" if took_s >= CLOSING_LINE_AFTER_S else ""


def _clock_text(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
