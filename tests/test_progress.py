from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import textwrap
import time
from typing import TYPE_CHECKING

import pytest

from rocenv.core import progress
from rocenv.core.progress import Progress, Stage, size_text
from rocenv.system import WINDOWS
from tests.mini import LIBRARIES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mini import Mini

MB = 1_000_000


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Plain:
    """A progress display without a terminal, and its output."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.stream = io.StringIO()
        self.progress = Progress(stream=self.stream, environ={}, clock=self.clock)

    @property
    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()

    def spend(self, stage: Stage, seconds: float, size_bytes: int, step_s: float = 0.5) -> None:
        for _ in range(round(seconds / step_s)):
            self.clock.now += step_s
            stage.advance(round(size_bytes * step_s / seconds))


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (228 * MB, "228.0 MB"), (2.5e9, "2.5 GB")],
)
def test_sizes_are_human_readable(size: float, text: str) -> None:
    assert size_text(size) == text


def test_a_short_stage_prints_nothing() -> None:
    plain = Plain()
    with plain.progress.stage("Fetching", 10 * MB) as stage:
        plain.spend(stage, 0.5, 10 * MB)
    assert plain.lines == []


def test_a_longer_stage_ends_with_one_line() -> None:
    plain = Plain()
    with plain.progress.stage("Fetching", 10 * MB) as stage:
        plain.spend(stage, 2, 10 * MB)
    assert plain.lines == ["Fetching: 10.0 MB in 2.0 s (5.0 MB/s)"]


def test_lines_show_the_rate_and_time_left_at_most_every_five_seconds() -> None:
    plain = Plain()
    with plain.progress.stage("Fetching", 100 * MB) as stage:
        plain.spend(stage, 20, 80 * MB)
        assert plain.lines[0] == "Fetching: 20.0 MB of 100.0 MB, 4.0 MB/s, 0:20 left"
        assert len(plain.lines) == 4


def test_a_slow_stage_prints_a_line_every_ten_percent_or_every_minute() -> None:
    plain = Plain()
    with plain.progress.stage("Fetching", 100 * MB) as stage:
        plain.spend(stage, 100, 20 * MB)
        assert [line.partition(",")[0] for line in plain.lines] == [
            "Fetching: 10.0 MB of 100.0 MB",
            "Fetching: 20.0 MB of 100.0 MB",
        ]
        plain.spend(stage, 120, 1 * MB)
        assert len(plain.lines) == 4


def test_lines_show_size_and_rate_if_the_total_is_unknown() -> None:
    plain = Plain()
    with plain.progress.stage("Reading") as stage:
        plain.spend(stage, 6, 6 * MB)
        assert plain.lines == ["Reading: 5.0 MB, 1.0 MB/s"]


def test_cached_bytes_do_not_affect_the_rate() -> None:
    plain = Plain()
    with plain.progress.stage("Fetching", 100 * MB) as stage:
        stage.skip(60 * MB)
        plain.spend(stage, 5, 20 * MB)
        assert plain.lines == ["Fetching: 80.0 MB of 100.0 MB, 4.0 MB/s, 0:05 left"]
        stage.skip(-80 * MB)
        plain.spend(stage, 5, 20 * MB)
        assert plain.lines[1] == "Fetching: 20.0 MB of 100.0 MB, 4.0 MB/s, 0:20 left"


def test_the_rate_covers_the_time_since_the_last_line() -> None:
    plain = Plain()
    with plain.progress.stage("Fetching", 1000 * MB) as stage:
        plain.spend(stage, 60, 600 * MB)
        plain.spend(stage, 60, 60 * MB)
        assert ", 10.0 MB/s, " in plain.lines[-2]
        assert ", 1.0 MB/s, " in plain.lines[-1]


def test_a_failed_stage_prints_no_closing_line() -> None:
    plain = Plain()
    with pytest.raises(KeyboardInterrupt), plain.progress.stage("Fetching", 10 * MB) as stage:
        plain.spend(stage, 3, 5 * MB)
        raise KeyboardInterrupt
    assert plain.lines == []


def test_notes_are_printed_immediately() -> None:
    plain = Plain()
    with plain.progress.stage("Fetching", 10 * MB) as stage:
        stage.note("mirror [down]; trying another")
        plain.spend(stage, 30, 10 * MB)
    assert plain.lines[0] == "mirror [down]; trying another"


def test_lines_are_ascii() -> None:
    plain = Plain()
    with plain.progress.stage("Fetching", 10 * MB) as stage:
        plain.spend(stage, 30, 10 * MB)
    assert len(plain.lines) > 3
    assert plain.stream.getvalue().isascii()


# ---------------------------------------------------------------- a real terminal

PROGRAM = """
    import sys, time
    from rocenv.core.progress import Progress
    seconds, fails = float(sys.argv[1]), sys.argv[2:] == ["fail"]
    progress = Progress()
    with progress.stage("Fetching", 1000_000) as stage, progress.stage("Unpacking") as other:
        for _ in range(20):
            time.sleep(seconds / 20)
            stage.advance(45_000)
            other.advance(100)
        stage.note("a [note] of its own")
        print("early")
        if fails:
            raise KeyboardInterrupt
    print("data")
"""


def on_terminal(seconds: float, *more: str, **environ: str) -> tuple[str, str]:
    """Run the program with stderr on a terminal of 80 columns; return stdout and the terminal output."""
    import fcntl
    import pty
    import struct
    import termios

    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    # Inherited size variables would override the terminal's size.
    not_ours = ("CI", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")
    base = {name: value for name, value in os.environ.items() if name not in not_ours}
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(seconds), *more],
        env={**base, "TERM": "xterm-256color", **environ},
        stdout=subprocess.PIPE,
        stderr=slave,
    )
    os.close(slave)
    received = bytearray()
    try:
        while block := os.read(master, 65536):
            received += block
    except OSError:
        pass  # Linux returns EIO once the other end is closed
    out, _ = child.communicate(timeout=20)
    os.close(master)
    return out.decode(), received.decode()


@pytest.mark.skipif(WINDOWS, reason="needs a pseudo-terminal")
class TestTerminal:
    def test_a_long_stage_shows_title_rate_and_time_left_and_is_then_cleared(self) -> None:
        out, shown = on_terminal(1.2)
        assert out == "early\ndata\n"
        assert re.search(r"Fetching .*\d+\.\d kB of 1\.0 MB, \d+\.\d kB/s, 0:0\d left", shown)
        assert re.search(r"Unpacking .*\d B, \d+ B/s|Unpacking .*kB", shown)
        assert "a [note] of its own\r\n" in shown
        assert "\x1b[2K" in shown  # the display is cleared
        assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1  # the cursor is restored
        assert re.search(r"Fetching: 900\.0 kB in \d+\.\d s", shown.rpartition("\x1b[")[2])

    def test_a_short_stage_shows_only_the_note(self) -> None:
        out, shown = on_terminal(0)
        assert (out, shown) == ("early\ndata\n", "a [note] of its own\r\n")

    def test_an_interrupted_stage_restores_the_cursor(self) -> None:
        out, shown = on_terminal(0.8, "fail")
        assert out == "early\n"
        assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1

    def test_no_color_removes_only_colors(self) -> None:
        _, colourful = on_terminal(0.8)
        _, plain = on_terminal(0.8, NO_COLOR="1")
        colours = re.compile(r"\x1b\[(?:3[0-9]|38;[0-9;]+)m")
        assert colours.search(colourful)
        assert not colours.search(plain)
        assert "Fetching" in plain

    @pytest.mark.parametrize("environ", [{"CI": "true"}, {"TERM": "dumb"}])
    def test_a_dumb_terminal_gets_plain_lines(self, environ: dict[str, str]) -> None:
        _, shown = on_terminal(1.2, **environ)
        assert "\x1b" not in shown
        assert "Fetching: 900.0 kB in" in shown


def test_plain_lines_do_not_import_rich() -> None:
    program = "import sys, time; sys.argv = ['x', '0.5']\n" + textwrap.dedent(PROGRAM)
    program += "assert 'rich' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=20)
    assert done.stdout == b"early\ndata\n"
    assert done.stderr.startswith(b"a [note] of its own\n")


# ---------------------------------------------------------------- commands


SHOW_TITLES = """\
import contextlib, sys
from rocenv.core import progress
shown = progress.Progress._shown
@contextlib.contextmanager
def show(self, stage, **options):
    sys.stderr.write(f"[{stage.title}]\\n")
    with shown(self, stage, **options) as found:
        yield found
progress.Progress._shown = show
"""


def test_commands_that_may_take_long_show_what_they_do(mini: Mini, tmp_path: Path) -> None:
    """With gigabytes of data, each of these commands would take seconds without any output."""
    (tmp_path / "sitecustomize.py").write_text(SHOW_TITLES)

    def titles(*argv: str) -> list[str]:
        done = mini.run(*argv, PYTHONPATH=str(tmp_path))
        return re.findall(r"(?m)^\[(.*)\]$", done.stderr)

    assert "Linking files" in titles("create", "demo", "--rocm", "5.7", "--no-verify")
    assert titles("repair", "demo") == ["Checking files"]
    (mini.prefix("demo") / "rocm" / LIBRARIES / "libamdhip64.so.5.7.1").unlink()
    assert titles("repair", "demo")[-2:] == ["Restoring files", "Checking files"]
    assert titles("verify", "demo")[:2] == ["Checking files", "Running the `load` rung"]
    assert titles("remove", "-y", "demo") == ["Removing env `demo`"]
    assert titles("gc", "-y") == ["Looking for unused packages", "Removing unused packages"]
    assert titles("cache") == ["Adding up file sizes"]
    assert titles("cache", "clear") == ["Emptying the cache"]


def test_a_long_wait_prints_its_title_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the title, `create` in a pipe would be silent for a minute if there is no network."""
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.05)
    stream = io.StringIO()
    deadline = time.monotonic() + 20
    with Progress(stream=stream, environ={}).wait("Reading package lists"):
        while not stream.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert stream.getvalue() == "Reading package lists: 0:00\n"


def test_the_closing_line_of_a_wait_can_be_left_to_the_caller() -> None:
    plain = Plain()
    with plain.progress.wait("Removing env `demo`", closing=False):
        plain.clock.now += 5
    assert plain.lines == []
