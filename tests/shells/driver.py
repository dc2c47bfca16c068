"""The interface through which the checklist uses each shell, and code that runs real shells."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest

from rocenv.activate.env import Place
from rocenv.activate.scripts import activation_files
from rocenv.activate.shells import HOOKS, SHELLS
from rocenv.core.model import EnvChange
from rocenv.data.load import load
from tests.shells.resident import resident_rocenv
from tests.shells.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HOSTILE = """it's a "$HOME" $(touch canary)`touch canary`;touch canary&|<>*?[a]{b}\\n!!%~ 漢字 {prefix}"""


def set_(name: str, value: str) -> EnvChange:
    return EnvChange(action="set", name=name, value=value)


def prepend(name: str, value: str) -> EnvChange:
    return EnvChange(action="prepend", name=name, value=value)


def unset(name: str) -> EnvChange:
    return EnvChange(action="unset", name=name)


ROOT = Path(__file__).resolve().parents[2]
WATCHED = tuple(row.name for row in load().watched)
CHANGES = (
    prepend("PATH", "{prefix}/bin"),
    prepend("LD_LIBRARY_PATH", "{prefix}/lib"),
    prepend("LD_LIBRARY_PATH", "{prefix}/lib64"),
    set_("ROCM_PATH", "{prefix}/rocm"),
    set_("HIP_PATH", "{prefix}/rocm"),
    set_("EMPTY", ""),
    unset("HIP_PATH_57"),
)
# Environment variables that shells set themselves.
_SHELLS_OWN = re.compile(r"_|SHLVL|OLDPWD|PWD|XONSH.*|NU_VERSION|_AST_FEATURES|ROCENV_HOME")


def program(name: str) -> str:
    """Return the path of a program that the test needs. If it is missing, skip the test, or fail in CI."""
    found = shutil.which(name, path=f"{ROOT / 'build' / 'shells'}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        if os.environ.get("CI"):
            pytest.fail(f"{name} is not installed")
        pytest.skip(f"{name} is not installed")
    return found


@dataclass(frozen=True)
class Outcome:
    """A script's exit code, its output, and the environments that it dumped."""

    status: int
    stdout: str
    stderr: str
    dumps: Mapping[str, dict[str, str]]


class Driver:
    """A shell's code for the checklist; each method returns complete lines of code."""

    name: ClassVar[str]  # a name in `SHELLS` and `HOOKS`
    program: ClassVar[str]
    suffix: ClassVar[str] = ""  # of a script file
    # Checklist line -> why it does not apply to this shell.
    not_applicable: ClassVar[Mapping[int, str]] = {}
    # Line 1: name -> code that enables strict modes.
    modes: ClassVar[Mapping[str, str]] = {"plain": ""}
    # Line 36: name -> code that defines aliases, functions and options, which must not change the result.
    oddities: ClassVar[Mapping[str, str]] = {}
    # Whether the shell distinguishes its own variables from environment variables.
    has_own_variables: ClassVar[bool] = True

    def argv(self, script: Path) -> list[str]:
        """Return the command line that runs a script file without startup files."""
        raise NotImplementedError

    def script(self, code: Sequence[str]) -> str:
        return "\n".join([*code, ""])

    def quote(self, text: str) -> str:
        """Quote a word without using the code under test."""
        raise NotImplementedError

    def put(self, name: str, value: str) -> str:
        """Set an environment variable."""
        raise NotImplementedError

    def erase(self, name: str) -> str:
        """Remove an environment variable, even if it is unset."""
        raise NotImplementedError

    def put_own(self, name: str, value: str) -> str:
        """Set a shell variable without exporting it."""
        raise NotImplementedError

    def surround(self, name: str, front: str, back: str) -> str:
        """Add one entry at the front and one at the end of a list such as PATH."""
        raise NotImplementedError

    def source(self, script: Path) -> str:
        """Source a script."""
        raise NotImplementedError

    def leave(self) -> str:
        """Deactivate the most recently activated env."""
        return "deactivate"

    def call(self, *words: str) -> str:
        """Run a command, function or program."""
        return " ".join([words[0], *map(self.quote, words[1:])])

    def dump(self, path: Path) -> str:
        """Write a program's environment to a file, in the format of `env -0`."""
        return f"/usr/bin/env -0 >{self.quote(str(path))}"

    def say(self, text: str) -> str:
        """Print a word."""
        return f"echo {self.quote(text)}"

    def say_status(self) -> str:
        """Print `status N`, where N is the last command's exit code."""
        return "echo status $?"

    def attempt(self, code: str) -> str:
        """Run a statement whose failure must not end the script; `say_status` may follow."""
        return code

    def change_folder(self, folder: Path) -> str:
        """Change to a folder."""
        return f"cd {self.quote(str(folder))}"

    def list_names(self) -> str:
        """Print at least the names of all functions, aliases, completions and variables."""
        raise NotImplementedError

    def load_hook(self, file: Path) -> str:
        """Load the hook from a file, as the line in a user's startup file does."""
        return self.source(file)

    # ------------------------------------------------ a user at a terminal

    def interactive(self, work: Work) -> list[str]:
        """Return the command that starts an interactive shell with only the startup files from `start_up`."""
        raise NotImplementedError

    def start_up(self, code: str) -> list[str]:
        """Return the lines to type first, which set a prompt that ends in `#> ` and then run `code`."""
        return ["PS1='#''> '", *code.splitlines()]

    def talk(
        self,
        work: Work,
        lines: Sequence[str],
        *,
        first: str = "",
        prefix: Sequence[str] = (),
        **environ: str,
    ) -> list[str]:
        """Type lines at a terminal; return the output after each one, including the next prompt.

        `first` contains statements for the startup file; `prefix` precedes the shell's command line.
        """
        argv = [*prefix, *self.interactive(work)]
        terminal = Terminal(argv, work.folder, {**work.environ, "TERM": "dumb", **environ})
        with terminal:
            terminal.settle()
            for line in self.start_up(first):
                terminal.type(line)
            return [terminal.type(line) for line in lines]


@dataclass(frozen=True)
class Work:
    """A folder with a rocenv home, and a shell to run scripts in."""

    driver: Driver
    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def environ(self) -> dict[str, str]:
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.folder),
            "LC_ALL": "C.UTF-8",
            "ROCENV_HOME": str(self.home),
        }

    def env(
        self, name: str = "demo", changes: Sequence[EnvChange] = CHANGES, folder: Path | str = ""
    ) -> Path:
        """Create a minimal env with only the files that the scripts check."""
        prefix = self.home / "envs" / (folder or name)
        (prefix / ".rocenv").mkdir(parents=True, exist_ok=True)
        (prefix / ".rocenv" / "record.json").touch()
        render(prefix, name, changes)
        return prefix

    def script(self, prefix: Path) -> Path:
        """Return the path of an env's script for this shell."""
        return prefix / SHELLS[self.driver.name].file_name

    def enter(self, prefix: Path) -> str:
        """Return the code that sources an env's script."""
        return self.driver.source(self.script(prefix))

    def dump(self, name: str) -> str:
        """Return the code that dumps the environment to a file with this name."""
        return self.driver.dump(self.folder / f"dump.{name}")

    def hook(self) -> str:
        """Return the code that loads a hook with a working rocenv."""
        file = self.folder / f"hook{self.driver.suffix}"
        place = Place(program=str(resident_rocenv()), envs=str(self.folder / "unused" / "envs"))
        file.write_bytes(os.fsencode(HOOKS[self.driver.name].render(place)))
        return self.driver.load_hook(file)

    def run(
        self, *code: str, environ: Mapping[str, str] | None = None, prefix: Sequence[str] = ()
    ) -> Outcome:
        """Run statements as one script; `prefix` precedes the shell's command line."""
        for old in self.folder.glob("dump.*"):
            old.unlink()
        file = self.folder / f"script{self.driver.suffix}"
        file.write_bytes(os.fsencode(self.driver.script(code)))
        done = subprocess.run(
            [*prefix, *self.driver.argv(file)],
            env=dict(self.environ if environ is None else environ),
            cwd=self.folder,
            capture_output=True,
            check=False,
            timeout=120,
            stdin=subprocess.DEVNULL,
        )
        dumps = {path.name.partition(".")[2]: _parsed(path) for path in self.folder.glob("dump.*")}
        return Outcome(done.returncode, os.fsdecode(done.stdout), os.fsdecode(done.stderr), dumps)

    def round_trip(self, prefix: Path, *before: str, environ: Mapping[str, str] | None = None) -> Outcome:
        """Activate and deactivate an env, and assert that this restores the previous state."""
        outcome = self.run(
            *before,
            self.dump("before"),
            self.enter(prefix),
            self.dump("active"),
            self.driver.leave(),
            self.dump("after"),
            self.driver.say("reached"),
            environ=environ,
        )
        assert (outcome.status, outcome.stdout.split()) == (0, ["reached"]), outcome
        assert outcome.dumps["after"] == outcome.dumps["before"]
        return outcome


def render(prefix: Path, name: str, changes: Sequence[EnvChange]) -> None:
    """Write an env's activation files as `create` does, but without flushing them to disk."""
    for path, content in activation_files(name, str(prefix), changes, WATCHED, "linux").items():
        (prefix / path).write_bytes(content)


def _parsed(path: Path) -> dict[str, str]:
    pairs = (os.fsdecode(item).partition("=") for item in path.read_bytes().split(b"\0") if item)
    return {name: value for name, _, value in pairs if not _SHELLS_OWN.fullmatch(name)}
