"""The process runner: what it captures, kills and reports."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rocenv.system import WINDOWS, process

PYTHON = [sys.executable, "-c"]
needs_groups = pytest.mark.skipif(WINDOWS, reason="needs POSIX process groups and signals")


def test_both_streams_are_captured_and_stdin_is_passed() -> None:
    code = "import sys; print(sys.stdin.read()); print('warning', file=sys.stderr); sys.exit(3)"
    done = process.run([*PYTHON, code], stdin=b"hello")
    assert (done.lines, done.error_text.strip(), done.code) == (["hello"], "warning", 3)
    assert done.end == "it ended with exit code 3"


def test_merged_output_is_plain_text() -> None:
    done = process.run(
        [*PYTHON, r"print('\x1b[1mbold\x1b[0m N\bNa')"], stderr=process.MERGE, environ=dict(os.environ)
    )
    assert done.ok and done.text == "bold Na\n"


def test_a_missing_program_is_reported_without_an_exception(tmp_path: Path) -> None:
    done = process.run([str(tmp_path / "none")])
    assert (
        done.code is None
        and not done.ok
        and done.end == f"`{tmp_path / 'none'}` cannot be started: No such file or directory"
    )


@needs_groups
def test_a_script_without_a_shebang_runs_in_sh(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("echo from sh\n")
    script.chmod(0o755)
    assert process.run([str(script)], plain_scripts=True).lines == ["from sh"]


@needs_groups
@pytest.mark.parametrize("how", ["hangs", "ends"])
def test_descendants_of_the_child_process_are_killed(tmp_path: Path, how: str) -> None:
    child = f"sleep 60 & echo $! > {tmp_path}/pid; " + ("wait" if how == "hangs" else "exit 0")
    started = time.monotonic()
    done = process.run(["/bin/sh", "-c", child], timeout_s=1)
    assert time.monotonic() - started < 5
    assert done.timed_out is (how == "hangs") and done.ok is (how == "ends")
    pid = int((tmp_path / "pid").read_text())
    for _ in range(100):
        if not alive(pid):
            return
        time.sleep(0.05)
    pytest.fail("the grandchild survived")


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@needs_groups
def test_verification_works_without_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.TemporaryFile", lambda: pytest.fail("only stdin needs a temporary file"))
    assert process.run(["/bin/sh", "-c", "echo here"]).lines == ["here"]


def test_endless_output_kills_the_child() -> None:
    done = process.run([*PYTHON, "while True: print('x' * 1000)"], limit_bytes=5000, timeout_s=30)
    assert (done.code, done.problem, len(done.stdout)) == (None, "it printed too much", 5000)
    assert not done.timed_out


def test_lines_of_stderr_arrive_while_the_program_runs() -> None:
    code = "import sys, time; print('first', file=sys.stderr, flush=True); time.sleep(1); sys.exit('last')"
    arrived: dict[str, float] = {}
    started = time.monotonic()
    process.run([*PYTHON, code], on_line=lambda line: arrived.update({line: time.monotonic() - started}))
    assert list(arrived) == ["first", "last"]
    assert arrived["last"] - arrived["first"] > 0.5


@needs_groups
def test_an_exception_in_a_callback_kills_the_child(tmp_path: Path) -> None:
    def stop() -> None:
        if (tmp_path / "pid").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        process.run(
            ["/bin/sh", "-c", f"echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; sleep 60"],
            on_wait=stop,
        )
    assert not alive(int((tmp_path / "pid").read_text()))


@needs_groups
@pytest.mark.parametrize("how", ["timeout", "interrupt"])
def test_a_child_can_be_given_time_to_clean_up(tmp_path: Path, how: str) -> None:
    def stop() -> None:
        if how == "interrupt" and (tmp_path / "ready").exists():
            raise KeyboardInterrupt

    trap = f"trap 'touch {tmp_path}/clean; exit 0' TERM; touch {tmp_path}/ready; "
    with contextlib.ExitStack() as stack:
        if how == "interrupt":
            stack.enter_context(pytest.raises(KeyboardInterrupt))
        command = trap + "while :; do sleep 0.05; done"
        process.run(["/bin/sh", "-c", command], timeout_s=1, stop_s=10, on_wait=stop)
    assert (tmp_path / "clean").exists()


@needs_groups
def test_sigterm_to_the_parent_also_kills_the_child(tmp_path: Path) -> None:
    code = (
        "import sys; from rocenv.system import process\n"
        "process.run(['/bin/sh', '-c', 'echo $$; sleep 60'], stdout=sys.stdout.buffer)"
    )
    with subprocess.Popen([*PYTHON, code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.send_signal(signal.SIGTERM)
        assert parent.wait(10) == 128 + signal.SIGTERM
    assert not alive(pid)
