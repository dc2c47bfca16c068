"""Real shells, and envs that consist of nothing but what a script looks for."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from rocenv.activate.shells.posix import quote
from rocenv.activate.write import write_activation
from rocenv.core.model import EnvChange
from tests.shells.driver import CHANGES, WATCHED, program

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

SHELLS: dict[str, tuple[str, ...]] = {
    "bash": ("bash", "--norc"),
    "bash-posix": ("bash", "--norc", "--posix"),
    "zsh": ("zsh", "-f"),
    "dash": ("dash",),
}
HOSTILE = """it's a "$HOME" $(touch canary)`touch canary`;touch canary&|<>*?[a]{b}\\n!!%~ 漢字 {prefix}"""


def set_(name: str, value: str) -> EnvChange:
    return EnvChange(action="set", name=name, value=value)


def prepend(name: str, value: str) -> EnvChange:
    return EnvChange(action="prepend", name=name, value=value)


def unset(name: str) -> EnvChange:
    return EnvChange(action="unset", name=name)


@dataclass(frozen=True)
class Outcome:
    """What a script left: its exit code, its words, and the environments it dumped."""

    status: int
    stdout: str
    stderr: str
    dumps: Mapping[str, dict[str, str]]


@dataclass(frozen=True)
class Shell:
    """A shell that can be asked to run a script."""

    name: str
    argv: tuple[str, ...]
    folder: Path

    @property
    def kind(self) -> str:
        return self.name.partition("-")[0]

    def run(self, script: str, environ: Mapping[str, str] | None = None, **options: object) -> Outcome:
        """Run a script in which `dump NAME` stands for writing the environment down."""
        lines = []
        for line in script.splitlines():
            word, _, name = line.strip().partition(" ")
            dump = f"/usr/bin/env -0 >{quote(str(self.folder / ('dump.' + name)))}"
            lines.append(dump if word == "dump" else line)
        for old in self.folder.glob("dump.*"):
            old.unlink()
        file = self.folder / "script"
        file.write_bytes(os.fsencode("\n".join(lines) + "\n"))
        environ = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"} if environ is None else environ
        done = subprocess.run(
            [*self.argv, str(file)],
            env=dict(environ),
            cwd=self.folder,
            capture_output=True,
            check=False,
            timeout=30,
            stdin=subprocess.DEVNULL,
            **options,  # type: ignore[call-overload]
        )
        dumps = {path.name.partition(".")[2]: _parsed(path) for path in self.folder.glob("dump.*")}
        return Outcome(done.returncode, os.fsdecode(done.stdout), os.fsdecode(done.stderr), dumps)


def _parsed(path: Path) -> dict[str, str]:
    pairs = (os.fsdecode(item).partition("=") for item in path.read_bytes().split(b"\0") if item)
    return {name: value for name, _, value in pairs if name != "_"}


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Shell:
    return make_shell(request.param, tmp_path)


def make_shell(name: str, tmp_path: Path) -> Shell:
    folder = tmp_path / "work"
    folder.mkdir(exist_ok=True)
    argv = SHELLS[name]
    return Shell(name, (program(argv[0]), *argv[1:]), folder)


@pytest.fixture
def make_env(tmp_path: Path) -> Callable[..., Path]:
    def make(name: str = "demo", changes: Sequence[EnvChange] = CHANGES, folder: str = "") -> Path:
        prefix = tmp_path / (folder or name)
        (prefix / ".rocenv").mkdir(parents=True, exist_ok=True)
        (prefix / ".rocenv" / "record.json").touch()
        write_activation(prefix, name, changes, WATCHED)
        return prefix

    return make


def source(prefix: Path) -> str:
    return f". {quote(str(prefix / 'activate'))}"
