"""The script for bash on Windows (Git, MSYS2, Cygwin), tested in this machine's bash.

A test folder replaces the drives. These tests cannot check how the runtimes convert `PATH` for Windows
programs.
"""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from rocenv.activate.changes import apply, expand
from rocenv.activate.scripts import write_activation
from rocenv.activate.shells import SHELLS, posix
from rocenv.core.model import EnvChange
from tests.shells.driver import program

if TYPE_CHECKING:
    from pathlib import Path

SHELL = "bash"
line = pytest.mark.checklist

CHANGES = (
    EnvChange(action="prepend", name="PATH", value=r"{prefix}\rocm\5.7\bin"),
    EnvChange(action="prepend", name="PATH", value=r"{prefix}\bin"),
    EnvChange(action="set", name="HIP_PATH", value="{prefix}\\rocm\\5.7\\"),
    EnvChange(
        action="set",
        name="FLAGS",
        value=r"$(touch canary) `touch canary` 'x' & \n -v _ROCENV_ALL _ROCENV_FIRST",
    ),
    EnvChange(action="set", name="EMPTY", value=""),
    EnvChange(action="prepend", name="LISTED", value=r"{prefix}\lib"),
    EnvChange(action="unset", name="ROCM_PATH"),
)
KINDS = {
    "git": {"OSTYPE": "msys", "MSYSTEM": "MINGW64"},
    "msys": {"OSTYPE": "msys", "MSYSTEM": "MSYS"},
    "cygwin": {"OSTYPE": "cygwin"},
    "dash of msys": {"MSYSTEM": "MSYS"},
    "dash of cygwin": {},
}
OWN = ("_", "SHLVL", "PWD", "OLDPWD", "OSTYPE", "MSYSTEM")


class WindowsPath:
    """A path in the test folder, with the corresponding Windows path."""

    def __init__(self, path: Path, name: str) -> None:
        self.joinpath = path.joinpath
        self.name = name

    def __str__(self) -> str:
        return self.name


class Lab:
    """A C: drive, and a shell that can access it as on Windows."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder = folder
        self.roots = {"CYGWIN": f"{folder}/cygdrive", "MSYS": f"{folder}/drives"}
        self.root = self.roots["CYGWIN" if "cygwin" in kind else "MSYS"]
        self.shell = program("dash" if "dash" in kind else "bash")
        self.environ = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "ROCM_PATH": "C:\\r", **KINDS[kind]}

    def env(self, name: str) -> str:
        """Create an env, and return the command that sources its script in this shell."""
        prefix = self.folder / "drives" / "c" / "Users" / "me" / name
        (prefix / ".rocenv").mkdir(parents=True)
        (prefix / ".rocenv" / "record.json").touch()
        (self.folder / "cygdrive").mkdir(exist_ok=True)
        if not (self.folder / "cygdrive" / "c").exists():
            (self.folder / "cygdrive" / "c").symlink_to(self.folder / "drives" / "c")
        write_activation(WindowsPath(prefix, self.windows(name)), name, CHANGES, (), "windows")  # type: ignore[arg-type]
        return f". {posix.quote(f'{self.root}/c/Users/me/{name}/activate')}\n"

    def windows(self, name: str) -> str:
        return rf"C:\Users\me\{name}"

    def run(self, *code: str) -> tuple[subprocess.CompletedProcess[str], dict[str, dict[str, str]]]:
        """Run statements; `dump NAME` dumps the environment."""
        lines = [
            f"/usr/bin/env -0 >{self.folder}/dump.{text[5:]}" if text.startswith("dump ") else text
            for text in code
        ]
        script = self.folder / "script"
        script.write_text("\n".join([*lines, ""]), "utf-8")
        flags = ["--norc"] if self.shell.endswith("bash") else []
        done = subprocess.run(
            [self.shell, *flags, str(script)], cwd=self.folder, env=self.environ, text=True, encoding="utf-8",
            capture_output=True, check=False, timeout=60,
        )  # fmt: skip
        dumps = {path.name[5:]: parsed(path) for path in self.folder.glob("dump.*")}
        return done, dumps

    def expected(self, name: str, before: dict[str, str]) -> dict[str, str]:
        """Return the environment that the oracle expects, with PATH in the shell's notation."""
        windows = self.windows(name)
        after = apply(expand(CHANGES[2:], windows), before, "windows")
        root = f"{self.root}/c/Users/me/{name}"
        return {**after, "PATH": f"{root}/bin:{root}/rocm/5.7/bin:{before['PATH']}"}


def parsed(path: Path) -> dict[str, str]:
    pairs = (os.fsdecode(item).partition("=") for item in path.read_bytes().split(b"\0") if item)
    return {name: value for name, _, value in pairs if name not in OWN}


@pytest.fixture(params=KINDS)
def lab(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    lab = Lab(tmp_path, request.param)
    monkeypatch.setattr(posix, "ROOTS", lab.roots)
    return lab


@line(44)
def test_only_path_uses_the_shells_notation(lab: Lab) -> None:
    name = "it's 漢 $(touch canary) `x`"
    enter = lab.env(name)
    done, dumps = lab.run(
        "dump before", enter, "dump active", enter, "dump twice", "deactivate", "dump after", "set"
    )
    assert (done.returncode, done.stderr) == (
        0,
        "rocenv: replaced until you deactivate the env: ROCM_PATH\n" * 2,
    )
    assert dumps["active"] == dumps["twice"] == lab.expected(name, dumps["before"])
    assert dumps["after"] == dumps["before"]
    assert "rocenv_" not in done.stdout.lower().replace(str(lab.folder).lower(), "")
    assert list(lab.folder.rglob("canary*")) == []


@line(44)
def test_envs_can_be_nested_and_edits_are_kept(lab: Lab) -> None:
    first, second = lab.env("a"), lab.env("b")
    done, dumps = lab.run(
        "dump before", first, "dump first", second, "dump second", "deactivate", "dump back",
        'PATH="/front:$PATH:/back"; HIP_PATH=mine', "deactivate", "dump after",
    )  # fmt: skip
    assert dumps["second"] == {
        **lab.expected("b", dumps["first"]),
        "LISTED": rf"{lab.windows('b')}\lib;{lab.windows('a')}\lib",
    }
    assert dumps["back"] == dumps["first"]
    before = dumps["before"]
    assert dumps["after"] == {**before, "PATH": f"/front:{before['PATH']}:/back", "HIP_PATH": "mine"}
    assert "so not restored: HIP_PATH\n" in done.stderr


@line(44)
def test_activating_a_missing_env_is_an_error_and_changes_nothing(lab: Lab) -> None:
    enter = lab.env("a")
    (lab.folder / "drives/c/Users/me/a/.rocenv/record.json").unlink()
    done, dumps = lab.run("dump before", enter, "echo status $?", "dump after", "set")
    assert "status 1" in done.stdout and "no longer exists" in done.stderr
    assert dumps["after"] == dumps["before"]
    assert "rocenv_" not in done.stdout.lower().replace(str(lab.folder).lower(), "")


@line(44)
def test_the_printed_activation_command_works_in_all_runtimes() -> None:
    assert SHELLS["msys"].source(r"C:\Users\it's\activate") == r". 'C:/Users/it'\''s/activate'"
    assert posix._spelled(r"\\server\share\x").endswith("//server/share/x")
