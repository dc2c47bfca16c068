"""Capturing a program's output, which must not change the program's behavior or lose output."""

from __future__ import annotations

import datetime
import os
import re
import signal
import stat
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from rocenv.core.model import EnvChange
from rocenv.launch.capture import _as_utf8

if TYPE_CHECKING:
    from tests.launch.lab import Lab

RAW = (
    b"\x1b[31mred\x1b[0m\r 10%\r 20%\r\nna\xc3\xafve \xe6\xbc\xa2\xe5\xad\x97 \xf0\x9f\x8e\xa8\xff\xfe\x00end"
)
PRINT_RAW = f"import sys; sys.stdout.buffer.write({RAW!r})"


def said(lab: Lab, code: str, **more: object) -> tuple[int, bytes, str]:
    """Launch a line of Python and return its exit code, stdout and stderr."""
    done = lab.run("launch", "sd", "--", sys.executable, "-c", code, **more)  # type: ignore[arg-type]
    return done.returncode, done.stdout, done.stderr.decode()


class TestWithoutATerminal:
    def test_output_bytes_are_passed_on_unchanged(self, lab: Lab) -> None:
        lab.make()
        code, out, _ = said(lab, PRINT_RAW)
        assert (code, out) == (0, RAW)
        assert RAW in lab.log()

    def test_stdout_and_stderr_stay_separate(self, lab: Lab) -> None:
        lab.make()
        code, out, err = said(lab, "import sys; print('to out'); print('to err', file=sys.stderr)")
        assert (code, out) == (0, b"to out\n")
        assert "to err\n" in err
        assert b"to out\n" in lab.log()
        assert b"to err\n" in lab.log()

    def test_the_order_of_output_is_kept_if_both_streams_go_to_one_file(self, lab: Lab) -> None:
        lab.make()
        lines = "import os\nfor n in range(200): os.write(1 + n % 2, b'line %d\\n' % n)"
        path = lab.root / "out.txt"
        with path.open("wb") as file:
            command = ("launch", "sd", "--", sys.executable, "-c", lines)
            lab.run(*command, capture_output=False, stdout=file, stderr=file)
        numbers = [int(line.split()[1]) for line in path.read_text().splitlines() if line.startswith("line ")]
        assert numbers == list(range(200))

    def test_large_output_is_captured_completely(self, lab: Lab) -> None:
        lab.make()
        code, out, _ = said(lab, "for n in range(400_000): print('%060d' % n)")
        assert code == 0
        assert out == b"".join(b"%060d\n" % number for number in range(400_000))
        assert out in lab.log()

    def test_the_app_can_read_stdin(self, lab: Lab) -> None:
        lab.make()
        done = lab.run("launch", "sd", "--", "cat", stdin=None, input=RAW)
        assert done.stdout == RAW

    @pytest.mark.parametrize("code", [0, 3, 126, 255])
    def test_the_apps_exit_code_is_passed_on(self, lab: Lab, code: int) -> None:
        lab.make()
        assert said(lab, f"raise SystemExit({code})")[0] == code

    def test_the_app_keeps_running_after_the_reader_of_its_output_exits(self, lab: Lab) -> None:
        """In `rocenv launch sd -- app | head`, the app and its log continue after `head` exits."""
        lab.make()
        command = [sys.executable, "-m", "rocenv", "launch", "sd", "--"]
        script = "import time\nfor n in range(50): print('line', n, flush=True); time.sleep(0.01)"
        child = subprocess.Popen(
            [*command, sys.executable, "-c", script],
            env=lab.env,
            cwd=lab.app,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert child.stdout is not None
        child.stdout.readline()
        child.stdout.close()
        _, err = child.communicate(timeout=30)
        assert b"line 49\n" in lab.log(), err
        assert b"Traceback" not in err

    def test_a_script_without_an_interpreter_line_runs(self, lab: Lab) -> None:
        lab.make()
        script = lab.app / "start"
        script.write_text("echo started with $1\n")
        script.chmod(0o755)
        assert lab.run("launch", "sd", "--", "./start", "this").stdout == b"started with this\n"

    def test_sigterm_reaches_the_app(self, lab: Lab) -> None:
        lab.make()
        script = (
            "import signal, time\nsignal.signal(15, lambda *_: exit(9))\n"
            "print('up', flush=True)\ntime.sleep(30)"
        )
        child = subprocess.Popen(
            [sys.executable, "-m", "rocenv", "launch", "sd", "--", sys.executable, "-c", script],
            env=lab.env,
            cwd=lab.app,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        child.terminate()
        assert child.wait(30) == 9
        child.stdout.close()

    def test_signals_that_the_caller_ignores_stay_ignored(self, lab: Lab) -> None:
        """With `nohup`, for example, the app keeps running after its terminal closes."""
        lab.make()
        script = "import time\nprint('up', flush=True)\ntime.sleep(2)\nprint('still there')"
        child = subprocess.Popen(
            [
                *("/bin/sh", "-c", "trap '' HUP INT; exec \"$@\"", "sh"),
                *(sys.executable, "-m", "rocenv", "launch", "sd", "--", sys.executable, "-c", script),
            ],
            env=lab.env,
            cwd=lab.app,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        for number in (signal.SIGHUP, signal.SIGINT):
            child.send_signal(number)
        out, _ = child.communicate(timeout=30)
        assert (child.returncode, out) == (0, b"still there\n")
        assert b"after Ctrl-C" not in lab.log()

    def test_cleanup_errors_do_not_change_the_exit_code(self, lab: Lab) -> None:
        """In the first run, the trace file cannot be deleted; in the second, stderr is closed."""
        lab.make_zluda()
        code = "import os; path = os.environ['ROCENV_TRACE']; os.mkdir(path); os._exit(7)"
        done, out, err = said(lab, code)
        assert (done, out) == (7, b""), err
        launch = [sys.executable, "-m", "rocenv", "launch", "sd", "--"]
        child = subprocess.Popen(
            [*launch, sys.executable, "-c", "print('up', flush=True); input(); exit(7)"],
            env=lab.env,
            cwd=lab.app,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline() == b"up\n"
        child.stderr.close()
        child.stdin.write(b"\n")
        child.stdin.close()
        assert child.wait(30) == 7
        child.stdout.close()

    def test_launch_waits_for_programs_that_the_app_leaves_running(self, lab: Lab) -> None:
        """Some apps restart themselves, and `launch` must still capture their output."""
        lab.make()
        code, out, err = said(
            lab, "import os; os.system(\"(sleep 7; echo from the second) & \"); print('from the first')"
        )
        assert (code, out) == (0, b"from the first\nfrom the second\n")
        assert "press Ctrl-C" in err
        assert b"from the second\n" in lab.log()

    def test_launch_does_not_wait_for_programs_that_a_crashed_app_leaves_running(self, lab: Lab) -> None:
        lab.make()
        began = time.monotonic()
        code, _, _ = said(lab, "import os; os.system('sleep 20 &'); os._exit(5)")
        assert code == 5
        assert time.monotonic() - began < 15


class TestOnATerminal:
    def test_the_app_gets_a_terminal_of_the_same_size(self, lab: Lab) -> None:
        lab.make()
        sizes = "*map(os.get_terminal_size, (1, 2))"
        script = f"import os; print([os.isatty(n) for n in range(3)], {sizes})"
        terminal = lab.terminal("launch", "sd", "--", sys.executable, "-c", script, rows=41, columns=133)
        assert terminal.end() == 0
        assert b"[True, True, True]" in terminal.shown
        assert terminal.shown.count(b"columns=133, lines=41") == 2
        assert b"columns=133, lines=41" in lab.log()

    def test_output_bytes_are_passed_on_unchanged(self, lab: Lab) -> None:
        lab.make()
        terminal = lab.terminal("launch", "sd", "--", sys.executable, "-c", PRINT_RAW)
        assert terminal.end() == 0
        # The terminal converts line endings, as it does without `launch`.
        assert RAW.replace(b"\n", b"\r\n") in terminal.shown
        assert RAW in lab.log()

    def test_only_the_app_reacts_to_ctrl_c(self, lab: Lab) -> None:
        lab.make()
        script = (
            "import time\n"
            "try:\n print('up', flush=True); time.sleep(30)\n"
            "except KeyboardInterrupt:\n print('saved'); exit(7)"
        )
        terminal = lab.terminal("launch", "sd", "--", sys.executable, "-c", script)
        terminal.wait_for(b"up")
        terminal.type(b"\x03")
        assert terminal.end() == 7
        assert b"saved" in terminal.shown
        assert b"why:" not in terminal.shown
        assert b"do:" not in terminal.shown
        assert b"after Ctrl-C" in lab.log()

    def test_an_app_can_ignore_ctrl_c(self, lab: Lab) -> None:
        lab.make()
        script = (
            "import os, signal, sys\nsignal.signal(2, lambda *_: os.write(1, b'not yet'))\n"
            "os.write(1, b'up')\nsys.stdin.readline()\nprint('bye')"
        )
        terminal = lab.terminal("launch", "sd", "--", sys.executable, "-c", script)
        terminal.wait_for(b"up")
        for _ in range(2):
            terminal.type(b"\x03")
            terminal.wait_for(b"not yet")
            terminal.shown = b""
        terminal.type(b"go\n")
        assert terminal.end() == 0
        assert b"bye" in terminal.shown

    def test_ctrl_c_without_a_handler_exits_with_130(self, lab: Lab) -> None:
        lab.make()
        terminal = lab.terminal("launch", "sd", "--", "sleep", "30")
        terminal.wait_for(b"log:")
        time.sleep(1)
        terminal.type(b"\x03")
        assert terminal.end() == 130

    def test_the_apps_terminal_follows_the_window_size(self, lab: Lab) -> None:
        lab.make()
        script = (
            "import os, signal, sys\nsignal.signal(signal.SIGWINCH, lambda *_: None)\n"
            "print('up', flush=True)\nsys.stdin.readline()\nprint(os.get_terminal_size(1))"
        )
        terminal = lab.terminal("launch", "sd", "--", sys.executable, "-c", script)
        terminal.wait_for(b"up")
        terminal.resize(30, 99)
        time.sleep(0.5)
        terminal.type(b"\n")
        assert terminal.end() == 0
        assert b"columns=99, lines=30" in terminal.shown

    def test_ctrl_z_stops_both_programs_and_fg_continues_them(self, lab: Lab) -> None:
        lab.make()
        script = "import sys\nprint('up', flush=True)\nsys.stdin.readline()\nprint('bye')"
        terminal = lab.terminal("launch", "sd", "--", sys.executable, "-c", script)
        terminal.wait_for(b"up")
        os.killpg(terminal.pid, signal.SIGSTOP)
        os.killpg(terminal.pid, signal.SIGCONT)
        terminal.type(b"\n")
        assert terminal.end() == 0
        assert b"bye" in terminal.shown


def log_and_output(lab: Lab, done: subprocess.CompletedProcess[bytes]) -> str:
    logs = b"".join(path.read_bytes() for path in lab.logs())
    return (logs + done.stdout + done.stderr).decode()


class TestLog:
    def test_the_log_header_describes_the_set_without_secrets(self, lab: Lab) -> None:
        lab.make_zluda()
        command = (
            "launch",
            "sd",
            "--",
            "true",
            "--gradio-auth",
            "me:hunter2",
            "--api-key=hunter3",
            "--ngrok",
            "-hunter5",
            "--share-credentials",
            "--hf-token",
            "hunter6",
            "API_TOKEN=hunter7",
            "--proxy=http://me:hunter8@host/x",
            "--port",
            "1",
        )
        lab.run(*command, environ={"HF_TOKEN": "hunter4", "HIP_PATH": "/opt/rocm"})
        (head,) = lab.logs()
        text = head.read_text()
        assert "rocm 6.1.2 from hip-sdk" in text
        assert "zluda 3.8.3 from lshqqytiger (ZLUDA-windows-rocm6-amd64.zip)" in text
        assert "torch 2.3.0+cu118 from cu118, Python 3.10.11" in text
        assert "set for gfx1031 on windows" in text
        assert "AMD Radeon RX 6750 XT" in text
        assert f"ZLUDA={lab.prefix().path}/zluda" in text
        assert "--port 1" in text
        assert "exit code 0" in text
        assert re.findall("hunter[0-9]", text) == []
        assert "http://***@host/x" in text

    def test_options_that_a_profile_marks_secret_are_masked(self, lab: Lab) -> None:
        """Secrets are also masked in the env's variables and in errors that repeat the command."""
        lab.make(changes=(EnvChange(action="set", name="HF_TOKEN", value="hunter1"),))
        done = lab.run(
            "launch", "sd", "--", "true", "-p", "hunter2", "-p=hunter3", "-phunter6", "--port", "1"
        )
        (log,) = lab.logs()
        text = log.read_text() + done.stdout.decode() + done.stderr.decode()
        assert "true -p *** -p=*** -p*** --port 1" in text
        assert "HF_TOKEN=***" in text
        for app, words in (
            ("llama.cpp", ("-hft", "hunter4", "-p", "hunter5")),
            ("sdnext", ("--auth", "hunter6")),
        ):
            done = lab.run("launch", "sd", "--app", app, "--", "true", *words)
            text += log_and_output(lab, done)
        done = lab.run("launch", "sd", "--", "--password", "hunter7")
        assert done.returncode == 2
        text += log_and_output(lab, done)
        assert re.findall("hunter[0-9]", text) == []

    @pytest.mark.parametrize("umask", [0o000, 0o022])
    def test_the_log_is_readable_only_by_the_user(self, lab: Lab, umask: int) -> None:
        prefix = lab.make()
        before = os.umask(umask)
        try:
            done = subprocess.run(
                [sys.executable, "-m", "rocenv", "launch", "sd", "--", "sh", "-c", "umask"],
                env=lab.env,
                cwd=lab.app,
                capture_output=True,
                check=True,
            )
        finally:
            os.umask(before)
        assert int(done.stdout, 8) == umask, "the app keeps the user's umask"
        (log,) = lab.logs()
        assert stat.S_IMODE(log.stat().st_mode) == 0o600
        assert stat.S_IMODE((prefix.path / "logs").stat().st_mode) == 0o700

    def test_a_symlink_at_the_logs_path_is_not_followed(self, lab: Lab) -> None:
        prefix = lab.make()
        precious = lab.root / "precious"
        precious.write_text("precious")
        folder = prefix.path / "logs"
        folder.mkdir()
        now = datetime.datetime.now().astimezone()
        for second in range(60):
            when = (now + datetime.timedelta(seconds=second)).strftime("%Y-%m-%dT%H%M%S")
            (folder / f"{when}-generic.log").symlink_to(precious)
        assert lab.run("launch", "sd", "--", "true").returncode == 0
        assert precious.read_text() == "precious"

    def test_only_the_newest_twenty_logs_are_kept(self, lab: Lab) -> None:
        prefix = lab.make()
        folder = prefix.path / "logs"
        folder.mkdir()
        for number in range(30):
            path = folder / f"2026-01-01T0000{number:02}-generic.log"
            path.write_text("old")
            os.utime(path, (number, number))
        (folder / "notes.txt").write_text("somebody's own")
        lab.run("launch", "sd", "--", "true")
        logs = lab.logs()
        assert len(logs) == 20
        assert logs[0].name == "2026-01-01T000011-generic.log"
        assert b"exit code 0" in logs[-1].read_bytes()
        assert (folder / "notes.txt").exists()

    def test_two_launches_in_one_second_get_separate_logs(self, lab: Lab) -> None:
        lab.make()
        started = [
            subprocess.Popen(
                [sys.executable, "-m", "rocenv", "launch", "sd", "--", "echo", str(number)],
                env=lab.env,
                cwd=lab.app,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for number in range(4)
        ]
        assert [child.wait(60) for child in started] == [0] * 4
        assert len(lab.logs()) == 4

    def test_the_app_starts_even_if_no_log_can_be_created(self, lab: Lab) -> None:
        prefix = lab.make()
        file = prefix.path / "logs"
        file.write_text("a file where the folder should be")
        done = lab.run("launch", "sd", "--", "echo", "runs", environ={"XDG_STATE_HOME": str(file)})
        assert (done.returncode, done.stdout) == (0, b"runs\n")
        assert b"could not create a log in" in done.stderr


def test_a_line_in_a_different_encoding_does_not_affect_other_lines() -> None:
    """On a Windows console, the output of legacy programs may appear between the app's lines."""
    lines = "漢字\n".encode(), "für x\n".encode("cp850"), "é\n".encode()
    assert b"".join(_as_utf8(line, "cp850") for line in lines) == "漢字\nfür x\né\n".encode()
