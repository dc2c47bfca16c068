"""`rocenv hook`, which prints a shell's hook with the paths to the program and the envs folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import platformdirs
import pytest

from rocenv.activate.env import Place
from rocenv.activate.shells import HOOKS
from rocenv.home import Home
from tests.commands.lab import PROGRAM

if TYPE_CHECKING:
    from pathlib import Path

    from tests.commands.lab import Lab


def hook_of(shell: str, program: str | Path, envs: str | Path) -> bytes:
    return os.fsencode(HOOKS[shell].render(Place(program=str(program), envs=str(envs))))


@pytest.mark.parametrize("shell", HOOKS)
def test_each_shell_has_its_own_hook(lab: Lab, shell: str) -> None:
    done = lab.run("hook", shell)
    usual = lab.root / "user" / ".local/share/rocenv/envs"
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == hook_of(shell, PROGRAM, usual), "ROCENV_HOME may have changed when the hook runs"
    assert not lab.home.exists() and not usual.exists()


@pytest.mark.parametrize("argv", [(), ("frob",), ("bash", "zsh"), ("",)])
def test_usage_errors_list_the_shells(lab: Lab, argv: tuple[str, ...]) -> None:
    done = lab.run("hook", *argv)
    assert (done.returncode, done.stdout) == (2, b"")
    if len(argv) < 2:
        assert all(shell in done.stderr.decode() for shell in HOOKS)


def test_help_shows_the_line_for_each_shell(lab: Lab) -> None:
    assert HOOKS.keys() <= HOOKS.keys()
    text = lab.run("hook", "--help", COLUMNS="40").stdout.decode()
    for start_up in HOOKS.values():
        assert start_up.line in text and start_up.file in text


class TestProgram:
    def test_a_symlink_to_the_program_is_not_resolved(self, lab: Lab) -> None:
        link = lab.root / "b in" / "rocenv"
        link.parent.mkdir()
        link.symlink_to(PROGRAM)
        by_path = {**lab.environ, "PATH": f"{link.parent}:/usr/bin:/bin"}
        for argv, cwd in ((["rocenv"], "/"), (["./rocenv"], str(link.parent)), ([str(link)], "/")):
            done = subprocess.run(
                [*argv, "hook", "bash"], env=by_path, cwd=cwd, capture_output=True, check=True, timeout=60
            )
            assert done.stdout == hook_of("bash", link, lab.root / "user/.local/share/rocenv/envs"), argv

    @pytest.mark.parametrize("found", [True, False])
    def test_python_m_rocenv_prints_the_program_on_path(self, lab: Lab, found: bool) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "rocenv", "hook", "bash"],
            env={**lab.environ, "PATH": lab.environ["PATH"] if found else "/usr/bin:/bin"},
            capture_output=True,
            check=True,
            timeout=60,
        )
        expected = PROGRAM if found else shutil.which("rocenv", path="/usr/bin:/bin") or "rocenv"
        assert done.stdout == hook_of("bash", expected, lab.root / "user/.local/share/rocenv/envs")


class TestEnvsFolder:
    @pytest.mark.parametrize(
        "environ",
        [
            {},
            {"XDG_DATA_HOME": ""},
            {"XDG_DATA_HOME": "/a b/it's"},
            {"XDG_DATA_HOME": "/a/../b/", "XDG_CONFIG_HOME": "//c"},
            {"XDG_DATA_HOME": "relative", "XDG_CONFIG_HOME": "~/x"},
            {"XDG_DATA_HOME": " ", "XDG_CONFIG_HOME": " /x"},
            {"HOME": "/"},
            {"HOME": "/home/\udcff"},
            {"HOME": ""},
            {"HOME": "relative", "XDG_DATA_HOME": "/x"},
            {"HOME": "-", "XDG_CONFIG_HOME": "/x"},
        ],
    )
    def test_the_default_home_matches_platformdirs(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]
    ) -> None:
        """rocenv computes its default home itself, because platformdirs is slow to import."""
        for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "ROCENV_HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        data = platformdirs.user_data_path("rocenv", appauthor=False)
        assert Home.usual() == Home.default() == Home(data)
        settings = platformdirs.user_config_path("rocenv", appauthor=False)
        assert Home.usual().config_file == settings / "config.toml"

    def test_a_path_that_is_not_utf8_is_printed_unchanged(self, lab: Lab) -> None:
        done = lab.run("hook", "bash", XDG_DATA_HOME="/x\udcff\udc80")
        assert b"/x\xff\x80/rocenv/envs" in done.stdout


def test_starting_a_shell_imports_no_unneeded_module(lab: Lab) -> None:
    imported = lab.modules("hook", "bash")
    needless = {
        "platformdirs",
        "tomlkit",
        "tomllib",
        "requests",
        "rich",
        "subprocess",
        "shutil",
        "rocenv.core.model",
        "msgspec",
    }
    assert "rocenv.activate.shells" in imported
    assert not imported & (needless - {"shutil"})
