"""Exit codes of the programs that rocenv starts, and interrupts that it passes to them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from rocenv.core.errors import RocenvError
from rocenv.system import quoting as command_lines
from rocenv.system.exit_codes import describe_exit, is_crash, meaning_of_exit, through_shell
from rocenv.system.quoting import command_line, find_windows_program, shell_join

if TYPE_CHECKING:
    from pathlib import Path

CODES = [
    (0xC0000005, "0xC0000005 (access violation)", True),
    (3221225477, "0xC0000005 (access violation)", True),
    (-1073741819, "0xC0000005 (access violation)", True),
    (0xC0000135, "0xC0000135 (a DLL was not found)", True),
    (0xC0000409, "0xC0000409 (stack buffer overrun, or abort)", True),
    (0xC000001D, "0xC000001D (illegal instruction)", True),
    (0xC000013A, "0xC000013A (ended by Ctrl-C)", False),
    (0xC0DE0001, "0xC0DE0001", True),
    (0x40010004, "0x40010004 (ended by a debugger or at log-off)", False),
    (0xFFFFFFFF, "exit code -1", False),
    (-signal.SIGSEGV, "SIGSEGV", True),
    (-200, "signal 200", True),
    (3, "exit code 3", False),
    (0, "exit code 0", False),
]


@pytest.mark.parametrize(("code", "name", "crash"), CODES)
def test_exit_codes_are_shown_with_their_names(code: int, name: str, crash: bool) -> None:
    assert (describe_exit(code), is_crash(code)) == (name, crash)


SHELLS_SAY = {139: -11, 134: -6, 130: -2, 143: -15, 137: -9}
OWN = (-11, 0, 128, 138, 140, 145, 160, 255)  # 138, 140 and 145 stand for signals that are not faults


@pytest.mark.parametrize(("code", "told"), [*SHELLS_SAY.items(), *((code, code) for code in OWN)])
def test_a_signal_becomes_the_exit_code_that_shells_use(code: int, told: int) -> None:
    assert through_shell(code) == told


def test_exit_codes_are_explained() -> None:
    same = "it accessed memory that does not belong to it"
    assert [meaning_of_exit(code) for code in (0xC0000005, -1073741819, -11)] == [same] * 3
    assert [meaning_of_exit(code) for code in (0, 3, 139, -200, 0xC000013A)] == [""] * 5


def test_commands_are_quoted_for_the_platforms_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shell_join("rocenv", "verify", "second one") == "rocenv verify 'second one'"
    monkeypatch.setattr(command_lines, "WINDOWS", True)
    assert shell_join("rocenv", "verify", "second one") == 'rocenv verify "second one"'
    assert shell_join("sd", "a&b", "C:\\a\\x.lock", "a b\\", "c&\\", "") == (
        'sd "a&b" C:\\a\\x.lock "a b\\\\" "c&\\\\" ""'
    )


PARENT = """
import os, sys
from rocenv.system.process import run_child
child = "import signal, sys, time;"
if sys.argv[1] == "caught":
    child += "signal.signal(2, lambda *_: sys.exit(7));"
child += "print('ready', flush=True); time.sleep(20)"
code = run_child([sys.executable, "-c", child], os.environ)
print("ended", code, flush=True)
os.kill(os.getpid(), 2)
"""


@pytest.mark.parametrize(("kind", "code"), [("caught", 7), ("default", -signal.SIGINT)])
def test_an_interrupt_reaches_the_child_and_its_exit_code_is_returned(kind: str, code: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, kind],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        time.sleep(0.2)
        os.killpg(parent.pid, signal.SIGINT)
        assert parent.stdout.readline() == f"ended {code}\n"
        assert parent.wait(10) == -signal.SIGINT  # the process can be interrupted again


def test_the_child_ignores_interrupts_if_the_caller_does() -> None:
    """A shell that starts a command with `&` makes it ignore interrupts."""
    script = "trap '' INT; \"$@\""
    with subprocess.Popen(
        ["/bin/sh", "-c", script, "sh", sys.executable, "-c", PARENT.replace("20)", "1)"), "default"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        os.killpg(parent.pid, signal.SIGINT)
        assert parent.stdout.readline() == "ended 0\n"
        assert parent.wait(10) == 0


def test_programs_are_found_through_path_and_pathext(tmp_path: Path) -> None:
    for name in ("a/tool.cmd", "a/tool.exe", "b/tool.com", "b/plain", "b/dotted.name.exe", "b/x.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    environ = {"Path": f'"{a}";;{b};', "PathExt": ".com;.exe;.cmd"}
    assert find_windows_program("tool", environ) == f"{a}/tool.exe"
    assert find_windows_program("tool.cmd", environ) == f"{a}/tool.cmd"
    assert find_windows_program("dotted.name", environ) == f"{b}/dotted.name.exe"
    assert find_windows_program(f"{b}/tool", environ) == f"{b}/tool.com"
    assert find_windows_program("plain", environ) is None
    assert find_windows_program("x.py", environ) is None


def test_a_batch_file_never_runs_its_arguments() -> None:
    environ = {"ComSpec": r"C:\Windows\System32\cmd.exe"}
    line = command_line([r"C:\a & b\x.BAT", "plain", "a&b", 'q"&calc', "%PATH%", "", "end\\"], environ)
    assert line == (
        r"C:\Windows\System32\cmd.exe /e:on /v:off /d /s /c "
        r'""C:\a & b\x.BAT" plain "a&b" "q""&calc" "%%cd:~,%PATH%%cd:~,%" "" "end\\""'
    )
    assert command_line([r"C:\x.exe", "%PATH%"], environ) == r"C:\x.exe %PATH%"
    for broken in ("a\nb", "a\rb", "a\0b"):
        with pytest.raises(RocenvError):
            command_line(["x.cmd", broken], environ)
