"""`rocenv activate` and `rocenv deactivate` in shells without the hook."""

from __future__ import annotations

import codecs
import hashlib
import json
import os
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from rocenv.activate.shells import HOOKS, SHELLS
from rocenv.commands.activate import _print_lines
from rocenv.commands.calling_shell import _ALIASES, calling_shell, hook_advice
from rocenv.core.errors import PrefixError
from rocenv.prefix import Prefix
from rocenv.system.machine import parent_name
from tests import forked
from tests.commands.lab import PROGRAM
from tests.shells.driver import program

if TYPE_CHECKING:
    from pathlib import Path

    from tests.commands.lab import Lab
    from tests.mini import Mini

# Shells that accept `-c COMMAND`. The program is not the last command, or it would replace the shell.
CALLERS = {
    "bash": "bash",
    "dash": "dash",
    "sh": "sh",
    "zsh": "zsh",
    "fish": "fish",
    "ksh": "ksh",
    "tcsh": "tcsh",
}
OF_LINUX = [name for name, shell in SHELLS.items() if "linux" in shell.platforms]


def from_shell(mini: Mini, name: str, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run the program as the child of a shell on this machine."""
    environ = {key: value for key, value in mini.env.items() if key != "ROCENV_SYSROOT"}
    code = f"{shlex.join([str(PROGRAM), *argv])}; echo"
    return subprocess.run(
        [program(CALLERS[name]), "-c", code],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


class TestActivate:
    @pytest.mark.parametrize("name", CALLERS)
    def test_activate_prints_the_line_for_the_calling_shell(self, mini: Mini, name: str) -> None:
        if name not in SHELLS:
            pytest.skip(f"no script for {name}")
        mini.create("my env")
        done = from_shell(mini, name, "activate", "my env")
        script = mini.prefix("my env") / SHELLS[name].file_name
        assert done.stdout.splitlines()[0] == SHELLS[name].source(str(script))
        assert "type this instead" in done.stderr
        assert HOOKS[name].line in done.stderr and HOOKS[name].file in done.stderr

    def test_the_output_of_create_ends_with_the_same_line(self, mini: Mini) -> None:
        caller = mini.sysroot / "proc" / str(forked.parent_pid()) / "comm"
        caller.parent.mkdir()
        for name in OF_LINUX:
            caller.write_text(name)
            done = mini.create(name)
            script = mini.prefix(name) / SHELLS[name].file_name
            assert f"activate it:  {SHELLS[name].source(str(script))}\n" in done.stderr

    def test_repair_restores_a_missing_script(self, mini: Mini) -> None:
        mini.create()
        script = mini.prefix("demo") / "activate"
        content = script.read_bytes()
        script.unlink()
        done = mini.run("activate", "demo")
        assert (done.returncode, done.stdout) == (1, "")
        assert "has no script for sh" in done.stderr and "hint: rocenv repair demo" in done.stderr
        assert mini.run("repair", "demo").returncode == 0
        assert script.read_bytes() == content
        assert mini.run("activate", "demo").returncode == 1

    def test_repair_adds_scripts_that_an_older_rocenv_did_not_write(self, mini: Mini) -> None:
        mini.create()
        prefix = mini.prefix("demo")
        names = {SHELLS[name].file_name for name in OF_LINUX}
        before = {name: (prefix / name).read_bytes() for name in names}
        # Imitate an env from a rocenv version that wrote only `activate`.
        (listed,) = prefix.glob(".rocenv/files-*.json")
        files = json.loads(listed.read_text())
        old = json.dumps({path: files[path] for path in files.keys() - names | {"activate"}}, indent=0)
        digest = hashlib.sha256(old.encode()).hexdigest()
        listed.unlink()
        listed.with_name(f"files-{digest[:16]}.json").write_text(old)
        record = prefix / ".rocenv" / "record.json"
        record.write_text(json.dumps(json.loads(record.read_text()) | {"files_sha256": digest}))
        for name in names - {"activate"}:
            (prefix / name).unlink()
        done = mini.run("repair", "demo")
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        assert {name: (prefix / name).read_bytes() for name in names} == before
        assert mini.run("verify", "demo", "--upto", "files").returncode == 0

    def test_the_printed_script_equals_the_file(self, mini: Mini) -> None:
        home = mini.root / "h\u00e9 \udcff'$x"
        mini.env["ROCENV_HOME"] = str(home)
        mini.create("d\u00e9mo")
        for shell in OF_LINUX:
            done = forked.run(["activate", "d\u00e9mo", "--shell", shell], env=mini.env)
            assert (done.returncode, done.stderr) == (0, b"")
            file = (home / "envs" / "d\u00e9mo" / SHELLS[shell].file_name).read_bytes()
            assert done.stdout == file.removeprefix(codecs.BOM_UTF8), (
                "in an evaluated script, a byte order mark would become part of a word"
            )

    def test_activate_prints_the_right_line_for_each_windows_shell(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        prefix = Prefix(tmp_path / "s d")
        prefix.path.mkdir()
        for shell in ("cmd", "powershell"):
            with pytest.raises(PrefixError, match=f"no script for {shell}") as caught:
                _print_lines(prefix, "windows")
            assert caught.value.hints == ("rocenv repair 's d'",)
            (prefix.path / SHELLS[shell].file_name).touch()
        _print_lines(prefix, "windows")
        printed = capsys.readouterr()
        assert printed.out.splitlines() == [
            SHELLS[shell].source(str(prefix.path / SHELLS[shell].file_name))
            for shell in ("cmd", "powershell")
        ]
        assert "in cmd:" in printed.err and "in PowerShell:" in printed.err

    def test_a_shell_of_another_platform_is_a_usage_error(self, mini: Mini) -> None:
        mini.create()
        done = mini.run("activate", "demo", "--shell", "cmd")
        assert (done.returncode, done.stdout) == (2, "")
        assert "is for linux, where the supported shells are bash, " in done.stderr


class TestCallingShell:
    @pytest.mark.parametrize(
        ("called", "shell"),
        [
            ("bash\n", "bash"),
            ("-bash\n", "bash"),
            ("zsh\n", "zsh"),
            ("ksh93\n", "ksh"),
            ("mksh\n", "ksh"),
            ("cmd\n", "sh"),
            ("python3\n", "sh"),
            ("tmux: server\n", "sh"),
            ("\n", "sh"),
            ("$(x)\n", "sh"),
            ("\udcff\n", "sh"),
            (None, "sh"),
        ],
    )
    def test_the_parent_process_determines_the_shell(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, called: str | None, shell: str
    ) -> None:
        monkeypatch.setenv("ROCENV_SYSROOT", str(tmp_path))
        file = tmp_path / "proc" / str(os.getppid()) / "comm"
        file.parent.mkdir(parents=True)
        if called is not None:
            file.write_bytes(os.fsencode(called))
        assert calling_shell("linux") == shell
        assert calling_shell("windows") == "cmd"
        if called in ("bash\n", None):
            assert ("add this line to ~/.bashrc:  " in hook_advice("activate x")) == (shell == "bash")

    def test_the_name_of_the_parent_process_is_found(self) -> None:
        assert parent_name()
        assert "\n" not in parent_name()

    def test_aliases_of_shell_names_refer_to_existing_shells(self) -> None:
        assert set(_ALIASES.values()) <= SHELLS.keys()
        assert not _ALIASES.keys() & SHELLS.keys()


def deactivate(lab: Lab, environ: dict[str, str] | None = None) -> tuple[int, str]:
    done = forked.run(["deactivate"], env={**lab.environ, **(environ or {})})
    assert done.stdout == b""
    return done.returncode, done.stderr.decode()


class TestDeactivate:
    def test_deactivate_reports_that_no_env_is_active(self, lab: Lab) -> None:
        lab.env("demo")
        assert deactivate(lab) == (0, "no env is active in this shell\n")
        envs = lab.home / "envs"
        for path in ("", ":", f"{envs}:/usr/bin", f"{envs}2/demo/bin", f"/x{envs}/demo/bin", f"{envs}/"):
            environ = {"PATH": path, "HIP_PATH": "", "ROCM_PATH": "/opt/rocm"}
            assert deactivate(lab, environ) == (0, "no env is active in this shell\n"), path

    @pytest.mark.parametrize("name", ["demo", "my env", "漢字", "it's"])
    @pytest.mark.parametrize("variable", ["PATH", "VIRTUAL_ENV", "ROCM_PATH", "HIP_PATH"])
    def test_deactivate_in_a_shell_that_inherited_an_env_explains_it(
        self, lab: Lab, variable: str, name: str
    ) -> None:
        prefix = lab.env(name)
        value = f"/usr/bin:{prefix}/bin:/bin" if variable == "PATH" else f"{prefix}//venv/"
        status, text = deactivate(lab, {variable: value})
        assert status == 1
        assert f"`{name}`" in text and "`deactivate`" in text
        assert "inherited" in text and "`exit`" in text
        assert "rocenv hook" in text

    def test_deactivate_reports_the_env_that_was_activated_last(self, lab: Lab) -> None:
        first, second = lab.env("first"), lab.env("second")
        path = f"{second}/bin:{first}/bin:/usr/bin"
        assert "env `second`" in deactivate(lab, {"PATH": path, "ROCM_PATH": f"{first}/rocm"})[1]

    def test_an_active_env_is_found_after_its_removal_and_through_a_linked_home(self, lab: Lab) -> None:
        prefix = lab.env("demo")
        real = lab.root / "real"
        lab.home.rename(real)
        lab.home.symlink_to(real)
        assert deactivate(lab, {"PATH": f"{prefix}/bin"})[0] == 1
        assert deactivate(lab, {"PATH": f"{real}/envs/demo/bin"})[0] == 1
        shutil.rmtree(real / "envs")
        assert "env `demo`" in deactivate(lab, {"PATH": f"{prefix}/bin"})[1]

    def test_control_characters_in_variables_do_not_reach_the_terminal(self, lab: Lab) -> None:
        status, text = deactivate(lab, {"PATH": f"{lab.home}/envs/\x1b[31mx\udcff/bin"})
        assert status == 1
        assert "\x1b" not in text and "env `?[31mx?`" in text
