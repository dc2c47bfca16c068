"""Failure causes, which `launch` finds in the app's earlier output but not in its own log lines."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from rocenv.core.model import EnvChange
from tests.host.roots import Root
from tests.launch.lab import component

if TYPE_CHECKING:
    from tests.launch.lab import Lab

TARGET = "gfx1031"
NO_KERNELS = "RuntimeError: HIP error: invalid device function"
CODE = "hip-no-binary-for-gpu"
OVERRIDE = EnvChange(action="set", name="HSA_OVERRIDE_GFX_VERSION", value="10.3.0")
# With this override, every program reports gfx1030 as its target.
OVERRIDDEN = f"File /home/user/app.py\nHSA_OVERRIDE_GFX_VERSION=10.3.0 GPU gfx1030\n{NO_KERNELS}"


def on_linux(lab: Lab) -> None:
    """Set up a Linux machine with an RX 6750 XT, and an env for it that sets an override."""
    machine = Root(lab.root / "linux").kernel().cpu().gpu(1, device=0x73DF, version=100301)
    lab.env["ROCENV_SYSROOT"] = str(machine.path)
    parts = (component("rocm", "6.2.4", "wheels"), component("torch", "2.5.1+rocm6.2", "x", python="3.11.9"))
    lab.make(parts=parts, platform="linux", target=TARGET, changes=(OVERRIDE,))


def launch(lab: Lab, printed: str, *more: str, code: int = 1) -> tuple[int, str]:
    """Launch an app that prints `printed`; return its exit code and rocenv's output after it."""
    script = lab.app / "app.py"
    script.write_text(f"print({printed!r})\nraise SystemExit({code})\n")
    done = lab.run("launch", "sd", *more, "--", sys.executable, str(script))
    return done.returncode, done.stderr.decode().partition(".log\n")[2]


def diagnosed(lab: Lab, said: str) -> list[Any]:
    """Run the command that an explanation suggests, and return its findings."""
    (command,) = re.findall(r"^do:  (rocenv diagnose .*)$", said, re.MULTILINE)
    done = lab.run(*shlex.split(command)[1:], "--json")
    found: list[Any] = json.loads(done.stdout)["findings"]
    return found


class TestTheCause:
    def test_the_explanation_shows_the_cause_and_the_next_command(self, lab: Lab) -> None:
        on_linux(lab)
        code, said = launch(lab, f"File /home/user/app.py\n{NO_KERNELS}")
        assert code == 1
        (why,) = [line for line in said.splitlines() if f"[{CODE}]" in line]
        assert why.startswith("why: ")
        (finding,) = diagnosed(lab, said)
        assert finding["code"] == CODE
        assert finding["title"] in why
        assert f"# {why}" in lab.log().decode()

    def test_a_successful_run_is_not_diagnosed(self, lab: Lab) -> None:
        on_linux(lab)
        assert launch(lab, NO_KERNELS, code=0) == (0, "")

    def test_no_cause_is_shown_for_an_unrelated_error(self, lab: Lab) -> None:
        on_linux(lab)
        _, said = launch(lab, "OSError: [Errno 98] Address already in use")
        assert "ended with exit code 1" in said
        assert re.findall(r"\[[a-z-]+\]", said) == []
        assert "rocenv diagnose" not in said

    def test_a_cause_early_in_a_long_log_is_found(self, lab: Lab) -> None:
        on_linux(lab)
        noise = "\n".join(f"step {n} loss {n / 7:.3f}" for n in range(20_000))
        _, said = launch(lab, f"File /home/user/app.py\n{NO_KERNELS}\n{noise}")
        assert f"[{CODE}]" in said

    def test_a_cause_is_found_even_if_no_log_was_written(self, lab: Lab) -> None:
        on_linux(lab)
        file = lab.prefix().path / "logs"
        file.write_text("a file where the folder should be")
        command = (sys.executable, "-c", f"print({NO_KERNELS!r}); exit(1)")
        done = lab.run("launch", "sd", "--", *command, environ={"XDG_STATE_HOME": str(file)})
        said = done.stderr.decode()
        assert done.returncode == 1
        assert f"[{CODE}]" in said
        assert "rocenv diagnose" not in said


class TestTheTarget:
    def test_suggested_commands_use_the_envs_gpu_and_not_its_override(self, lab: Lab) -> None:
        on_linux(lab)
        _, said = launch(lab, OVERRIDDEN)
        (finding,) = diagnosed(lab, said)
        commands = [*finding["remedy"]["commands"], *said.splitlines()]
        targets = [word for command in commands for word in re.findall(r"--target (\S+)", command)]
        assert targets
        assert set(targets) == {TARGET}

    def test_commands_for_a_launch_log_use_the_gpu_from_its_header(self, lab: Lab) -> None:
        """Someone may read the log on a machine with a different GPU, or none."""
        on_linux(lab)
        _, said = launch(lab, f"File /home/user/app.py\n{NO_KERNELS}")
        lab.env["ROCENV_SYSROOT"] = str(
            Root(lab.root / "other").kernel().cpu().gpu(1, device=0x7550, version=120001).path
        )
        (finding,) = diagnosed(lab, said)
        known = finding["facts"]
        assert (known["gfx"], known["torch"]) == (TARGET, "2.5.1+rocm6.2")
        assert "6.2.4" in known["rocm"]
        assert all("gfx1201" not in command for command in finding["remedy"]["commands"])


class TestOwnLines:
    """Lines from rocenv at the beginning and end of a `launch` log."""

    @pytest.mark.parametrize("words", [NO_KERNELS, "rocBLAS error: Cannot read TensileLibrary.dat"])
    def test_the_command_line_in_the_header_is_not_read_as_output(self, lab: Lab, words: str) -> None:
        on_linux(lab)
        done = lab.run("launch", "sd", "--", sys.executable, "-c", "raise SystemExit(1)", words)
        assert f"# command {subprocess.list2cmdline([sys.executable])}" in lab.log().decode()
        assert words in lab.log().decode()
        said = done.stderr.decode().partition(".log\n")[2]
        assert "ended with exit code 1" in said
        assert re.findall(r"\[[a-z-]+\]", said) == []

    def test_rocenvs_explanation_is_not_read_as_output(self, lab: Lab) -> None:
        """The explanation repeats the app's last lines, which would otherwise count twice."""
        on_linux(lab)
        _, said = launch(lab, f"File /home/user/app.py\n{NO_KERNELS}")
        log = lab.log().decode().split("\n")
        assert any(line.startswith("# ") and NO_KERNELS in line for line in log)
        (finding,) = diagnosed(lab, said)
        (evidence,) = finding["evidence"]
        assert evidence == {"line": log.index(NO_KERNELS) + 1, "text": NO_KERNELS, "count": 1}

    def test_an_override_in_the_header_is_not_read_as_output(self, lab: Lab) -> None:
        on_linux(lab)
        _, said = launch(lab, f"File /home/user/app.py\n{NO_KERNELS}")
        assert f"#   {OVERRIDE.name}={OVERRIDE.value}" in lab.log().decode()
        (finding,) = diagnosed(lab, said)
        assert [each["text"] for each in finding["evidence"]] == [NO_KERNELS]

    def test_an_apps_own_lines_that_start_with_a_hash_are_read_as_output(self, lab: Lab) -> None:
        """`#` has no special meaning in a log that `launch` did not write."""
        log = lab.app / "other.log"
        log.write_text(f"# configuration\n# {NO_KERNELS}\n")
        (finding,) = json.loads(lab.run("diagnose", str(log), "--json").stdout)["findings"]
        assert finding["code"] == CODE
