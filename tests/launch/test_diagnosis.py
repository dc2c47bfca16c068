"""Explanations of failed launches: what happened, why, and what to do."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from rocenv.launch.output import last_stack, parse_trace
from tests.launch.lab import BUILD_FILES, component, zluda_parts
from tests.launch.test_faults import event

if TYPE_CHECKING:
    from tests.launch.lab import Lab

TRACED = """
import os, signal
with open(os.environ["ROCENV_TRACE"], "a") as trace:
    sdk = "C:\\\\sd\\\\rocm\\\\6.1\\\\bin\\\\"
    print(f"load {sdk}amdhip64_6.dll", f"loaded {sdk}amdhip64_6.dll", sep="\\n", file=trace)
    print(f"load {sdk}rocblas.dll", file=trace)
os.kill(os.getpid(), signal.SIGSEGV)
"""


def launch(lab: Lab, code: str, *argv: str) -> tuple[int, str]:
    """Launch a line of Python and return its exit code and stderr."""
    done = lab.run("launch", "sd", *argv, "--", sys.executable, "-c", code)
    return done.returncode, done.stderr.decode()


class TestIncident:
    """HIP SDK 6.1 with ZLUDA 3.8.3 on gfx1031, where SD.Next's Python crashes while loading rocblas.dll."""

    def test_the_crash_is_explained_with_cause_and_remedy(self, lab: Lab) -> None:
        lab.make_zluda()
        for name in ("launch.py", "installer.py"):
            (lab.app / name).write_text(TRACED)
        machine = lab.root / "machine/windows/application_errors.xml"
        machine.write_text(event(1, when="2999-01-01T00:00:00Z"))
        done = lab.run("launch", "sd")
        said = done.stderr.decode()
        before, _, after = said.partition("log: ")
        assert done.returncode == 128 + signal.SIGSEGV
        assert "The set in env `sd` is known to fail." in before
        assert "  the SD.Next version from 2024-08-31" in before
        assert "SD.Next ended with SIGSEGV: it accessed memory that does not belong to it" in after
        assert "while loading `C:\\sd\\rocm\\6.1\\bin\\rocblas.dll`" in after
        assert "Windows reports exception 0xc0000005 in C:\\sd\\rocm\\6.1\\bin\\rocblas.dll" in after
        assert "https://github.com/vladmandic/sdnext/issues/3414" in after
        assert "rocenv explain sdnext-3414" in after
        assert "do:  rocenv create sd2 --rocm 5.7 --zluda --target gfx1031" in after
        log = lab.log().decode()
        assert "# do:  rocenv create sd2 --rocm 5.7 --zluda --target gfx1031" in log
        assert "trace: load C:\\sd\\rocm\\6.1\\bin\\rocblas.dll" in log
        assert list((lab.prefix().path / "logs").glob("*.trace")) == []

    def test_the_proposed_command_resolves(self, lab: Lab) -> None:
        lab.make_zluda()
        _, said = launch(lab, "import os; os.abort()")
        (command,) = {
            line.partition("do:  ")[2] for line in said.splitlines() if "do:  rocenv create" in line
        }
        words = command.split()
        assert words[:3] == ["rocenv", "create", "sd2"]
        done = lab.run("resolve", *words[3:], environ={"ROCENV_OFFLINE": "1"})
        assert done.returncode == 0, done.stderr
        assert b"HIP SDK 5.7.1" in done.stdout

    def test_the_suggested_env_name_is_not_in_use(self, lab: Lab) -> None:
        lab.make_zluda()
        lab.make("sd2")
        assert "rocenv create sd3 " in launch(lab, "import os; os.abort()")[1]


class TestEnds:
    @pytest.mark.parametrize(
        ("number", "told"),
        [
            (signal.SIGABRT, "it called abort()"),
            (signal.SIGKILL, "memory runs out"),
            (signal.SIGILL, "instruction"),
            (signal.SIGBUS, "removed or truncated"),
        ],
    )
    def test_signals_are_explained(self, lab: Lab, number: signal.Signals, told: str) -> None:
        lab.make()
        code, said = launch(lab, f"import os; os.kill(os.getpid(), {int(number)})")
        assert code == 128 + number
        assert f"ended with {number.name}" in said
        assert told in said
        assert "rocenv verify sd" in said

    def test_the_innermost_python_frame_is_shown(self, lab: Lab) -> None:
        lab.make()
        code = "import faulthandler, os; faulthandler.enable()\ndef boom(): os.abort()\nboom()"
        assert "Python was in boom, `<string>` line 2" in launch(lab, code)[1]

    def test_the_last_lines_of_an_apps_own_error_are_shown(self, lab: Lab) -> None:
        lab.make_zluda()
        code, said = launch(lab, "raise SystemExit('port 7860 is taken')")
        after = said.partition("log: ")[2]
        assert code == 1
        assert "ended with exit code 1" in after
        assert "| port 7860 is taken" in after
        assert "known to fail" not in after, "an app's own error is not blamed on the set"
        assert "read the log" in after

    def test_a_successful_launch_prints_no_explanation(self, lab: Lab) -> None:
        lab.make()
        code, said = launch(lab, "print('fine')")
        assert (code, said.partition(".log\n")[2]) == (0, "")

    def test_a_fallback_to_the_cpu_is_reported(self, lab: Lab) -> None:
        lab.make_zluda(parts=(*zluda_parts("5.7.1", "3.9.5", "rocm5"), component("libraries", "5.7", "x")))
        code, said = launch(lab, "print('Failed to load ZLUDA: [WinError 126]')", "--app", "sdnext")
        assert code == 0
        assert " ended with exit code 0, but it used the CPU\n" in said
        assert ": a ZLUDA or HIP SDK file failed to load (it printed `Failed to load ZLUDA`)" in said
        assert "do:  rocenv verify sd" in said

    def test_a_set_that_is_known_to_fail_is_reported(self, lab: Lab) -> None:
        lab.make_zluda()
        _, said = launch(lab, "print('rocBLAS error: Cannot read TensileLibrary.dat'); exit(3)")
        after = said.partition("log: ")[2]
        assert "This rocBLAS has no kernels for the GPU [rocblas-tensile-missing-for-gfx]" in after
        assert "rocenv create sd2 --rocm 5.7 --zluda" in after
        assert "rocenv gpus" in after

    def test_control_sequences_in_an_apps_error_do_not_reach_the_terminal(self, lab: Lab) -> None:
        lab.make()
        code = "print('\\x1b]0;title\\x07\\x1b[2Jbad\\x08\\x9b'); exit(4)"
        done = lab.run("launch", "sd", "--", sys.executable, "-c", code)
        assert "\x1b" not in done.stderr.decode().partition(".log\n")[2]

    def test_a_long_compilation_is_explained(self, lab: Lab) -> None:
        lab.make()
        rows = lab.root / "home" / "profiles" / "own.toml"
        rows.parent.mkdir()
        rows.write_text(
            'schema = 1\n[[launcher]]\nkey = "generic"\ntitle = "any"\n'
            'compiling = "Compiling"\nfirst_run = { en = "the first run takes long", zh = "首次运行较慢" }\n'
            'status = "tested"\nsource = "x"\nchecked = "2026-11-20"\n'
        )
        program = "import time; print('Compiling ...', flush=True); time.sleep(4); print('done')"
        impatient = (
            "from rocenv.cli import main; from rocenv.launch import output; output._SILENCE_S = 1; main()"
        )
        done = subprocess.run(
            [sys.executable, "-c", impatient, "launch", "sd", "--", sys.executable, "-c", program],
            env=lab.env,
            cwd=lab.app,
            capture_output=True,
            check=False,
        )
        code, said = done.returncode, done.stderr.decode()
        assert code == 0
        assert said.count("the first run takes long") == 1
        assert b"# the first run takes long" in lab.log()


STACK = """Windows fatal exception: access violation

Current thread 0x00001a2c (most recent call first):
  File "C:\\sd\\torch\\__init__.py", line 130 in <module>
  File "C:\\SD.Next\\launch.py", line 5 in <module>

Extension modules: numpy.core._multiarray_umath (total: 1)
"""


class TestTrace:
    @pytest.mark.parametrize(
        ("text", "last", "inside", "failed", "torch"),
        [
            ("", "", False, "", False),
            ("load a b.dll\n", "a b.dll", True, "", False),
            ("load a.dll\nloaded a.dll\n", "a.dll", False, "", False),
            ("load a.dll\nloaded a.dll\nload b.dll\n", "b.dll", True, "", False),
            ("load a.dll\nloaded a.dll\ntorch\n", "a.dll", False, "", True),
            ("load a.dll\nfailed a.dll: [WinError 126]\n", "a.dll", False, "a.dll: [WinError 126]", False),
            ("failed C:\\bin: no such folder\n", "", False, "C:\\bin: no such folder", False),
            ("load a.dll\nfailed a.dll: no\nload a.dll\nloaded a.dll\ntorch", "a.dll", False, "", True),
            ("load a.dll\nloa", "a.dll", True, "", False),
            ("\x00\xff load\n", "", False, "", False),
        ],
    )
    def test_traces_are_parsed(self, text: str, last: str, inside: bool, failed: str, torch: bool) -> None:
        trace = parse_trace(text)
        assert (trace.last, trace.inside, trace.failed, trace.torch) == (last, inside, failed, torch)

    def test_a_crash_after_importing_torch_is_located(self, lab: Lab) -> None:
        lab.make_zluda()
        code = "open(os.environ['ROCENV_TRACE'], 'w').write('load a\\nloaded a\\ntorch\\n')"
        assert "after importing torch" in launch(lab, f"import os; {code}; os.abort()")[1]

    @pytest.mark.parametrize("code", [0, 1])
    def test_a_library_that_did_not_load_is_reported(self, lab: Lab, code: int) -> None:
        """ctypes turns the crash into an exception that the app may survive, but the trace shows it."""
        lab.make_zluda()
        trace = "load C:/a/rocblas.dll\nfailed C:/a/rocblas.dll: exception: access violation reading 0x8\n"
        script = (
            f"import os; open(os.environ['ROCENV_TRACE'], 'w').write({trace!r}); raise SystemExit({code})"
        )
        ended, said = launch(lab, script)
        assert ended == code
        assert "it could not load C:/a/rocblas.dll: exception: access violation reading 0x8" in said
        assert "do:  rocenv create sd2 --rocm 5.7 --zluda" in said


class TestStack:
    def test_the_last_stack_in_the_output_is_used(self) -> None:
        """ctypes survives a fault in a library that it loads, but Python has already printed a stack."""
        early = STACK.replace("__init__", "zluda")
        found = last_stack((early + "went on\n" + STACK).splitlines())
        assert found is not None
        assert found.frame == {"function": "<module>", "file": "C:\\sd\\torch\\__init__.py", "line": "130"}

    @pytest.mark.parametrize(
        ("after", "is_end"),
        [
            ("", True),
            ("\nPress any key to continue . . . \n", True),
            ("Running on local URL\n" * 6, False),
        ],
    )
    def test_output_after_the_stack_shows_whether_the_program_survived_the_crash(
        self, after: str, is_end: bool
    ) -> None:
        found = last_stack((STACK + after).splitlines())
        assert found is not None
        assert found.is_end == is_end

    def test_output_without_a_stack_is_accepted(self) -> None:
        assert last_stack(["all", "is well"]) is None


class TestScripts:
    """Scripts that start the app. Batch files hide Python's exit code."""

    def script(self, lab: Lab, text: str) -> None:
        path = lab.app / "webui.bat"
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
        (lab.root / "machine/windows/application_errors.xml").write_text(
            event(1, when="2999-01-01T00:00:00Z")
        )

    def test_a_signal_that_a_shell_reports_is_recognized_as_a_signal(self, lab: Lab) -> None:
        lab.make()
        self.script(lab, f"{shlex.quote(sys.executable)} -c 'import os; os.abort()'; exit $?")
        done = lab.run("launch", "sd", "./webui.bat")
        assert done.returncode == 134
        assert "ended with SIGABRT: it called abort()" in done.stderr.decode()

    @pytest.mark.parametrize("code", [0, 1])
    def test_a_crash_while_loading_a_library_is_found_in_a_program_that_a_script_started(
        self, lab: Lab, code: int
    ) -> None:
        lab.make_zluda()
        self.script(lab, f'echo "load C:/rocblas.dll" > "$ROCENV_TRACE"; echo Press any key; exit {code}')
        done = lab.run("launch", "sd", "./webui.bat")
        said = done.stderr.decode()
        assert done.returncode == code
        assert f"`webui.bat` ended with exit code {code}, but a program that it started crashed" in said
        assert "while loading `C:/rocblas.dll`" in said
        assert "in C:\\sd\\rocm\\6.1\\bin\\rocblas.dll" in said
        assert "do:  rocenv create sd2 --rocm 5.7 --zluda" in said

    def test_a_crash_with_a_stack_is_found_in_a_program_that_a_script_started(self, lab: Lab) -> None:
        lab.make_zluda()
        (lab.app / "stack").write_text(STACK)
        self.script(lab, "cat stack; echo Press any key to continue; exit 0")
        said = lab.run("launch", "sd", "./webui.bat").stderr.decode()
        assert "ended with exit code 0, but a program that it started crashed" in said

    def test_a_handled_fault_is_not_a_crash(self, lab: Lab) -> None:
        lab.make_zluda()
        (lab.app / "stack").write_text(STACK)
        self.script(lab, "cat stack; for n in 1 2 3 4 5 6; do echo step $n; done")
        done = lab.run("launch", "sd", "./webui.bat")
        assert done.stderr.decode().partition(".log\n")[2] == ""

    def test_crashes_in_other_programs_are_ignored(self, lab: Lab) -> None:
        lab.make_zluda()
        self.script(lab, "")
        _, said = launch(lab, "raise SystemExit('port 7860 is taken')")
        assert "Windows names" not in said


def test_a_failure_in_an_env_with_missing_files_suggests_to_repair_it(lab: Lab) -> None:
    prefix = lab.make_zluda(files=(*BUILD_FILES, "rocm/6.1/bin/hipfft.dll"))
    (prefix.path / "rocm/6.1/bin/hipfft.dll").unlink()
    code, said = launch(lab, "import sys; sys.exit(3)", "--app", "generic")
    assert code == 3, said
    assert "missing or changed (1), for example `rocm/6.1/bin/hipfft.dll`" in said
    assert "do:  rocenv repair sd\n" in said
    (log,) = (prefix.path / "logs").glob("*.log")
    found = json.loads(lab.run("diagnose", str(log), "--json").stdout)["findings"]
    assert found[0]["remedy"]["commands"] == ["rocenv repair sd"], "also someone who only has the log"
