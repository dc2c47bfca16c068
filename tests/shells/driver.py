"""What the checklist has to be able to say in each shell, and the real shells it says it to."""

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
# What every shell keeps for itself in the environment.
_SHELLS_OWN = re.compile(r"_|SHLVL|OLDPWD|PWD|XONSH.*|NU_VERSION|_AST_FEATURES|ROCENV_HOME")


def program(name: str) -> str:
    """Return the path of a program that tests need; without it they are skipped, but not in CI."""
    found = shutil.which(name, path=f"{ROOT / 'build' / 'shells'}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        if os.environ.get("CI"):
            pytest.fail(f"{name} is not installed")
        pytest.skip(f"{name} is not installed")
    return found


@dataclass(frozen=True)
class Outcome:
    """What a script left: its exit code, its words, and the environments it dumped."""

    status: int
    stdout: str
    stderr: str
    dumps: Mapping[str, dict[str, str]]


class Driver:
    """How one shell says what the checklist asks for: each method returns code, whole lines of it."""

    name: ClassVar[str]  # in `SHELLS` and `HOOKS`
    program: ClassVar[str]
    suffix: ClassVar[str] = ""  # of a script file
    # Lines of the checklist that cannot be asked of this shell -> why.
    not_applicable: ClassVar[Mapping[int, str]] = {}
    # Line 1: name -> code that makes the shell strict.
    modes: ClassVar[Mapping[str, str]] = {"plain": ""}
    # Line 36: name -> code: aliases, functions and options that must not change the result.
    oddities: ClassVar[Mapping[str, str]] = {}
    # Can the shell tell a variable of its own from one of the environment?
    has_own_variables: ClassVar[bool] = True

    def argv(self, script: Path) -> list[str]:
        """Return what runs a script file without start-up files."""
        raise NotImplementedError

    def script(self, code: Sequence[str]) -> str:
        """Put statements together to a script."""
        return "\n".join([*code, ""])

    def quote(self, text: str) -> str:
        """Return one literal word (by the tests' own reckoning, not by the code under test)."""
        raise NotImplementedError

    def put(self, name: str, value: str) -> str:
        """Set a variable of the environment."""
        raise NotImplementedError

    def erase(self, name: str) -> str:
        """Remove a variable of the environment, which need not be there."""
        raise NotImplementedError

    def put_own(self, name: str, value: str) -> str:
        """Set a variable of the shell that is not exported."""
        raise NotImplementedError

    def surround(self, name: str, front: str, back: str) -> str:
        """Put an entry in front of a list like PATH, and one behind it."""
        raise NotImplementedError

    def source(self, script: Path) -> str:
        """Source a script."""
        raise NotImplementedError

    def leave(self) -> str:
        """Leave the newest env."""
        return "deactivate"

    def call(self, *words: str) -> str:
        """Run a command, function or program."""
        return " ".join([words[0], *map(self.quote, words[1:])])

    def dump(self, path: Path) -> str:
        """Write the environment that a program gets to a file, as `env -0` prints it."""
        return f"/usr/bin/env -0 >{self.quote(str(path))}"

    def say(self, text: str) -> str:
        """Print a word."""
        return f"echo {self.quote(text)}"

    def say_status(self) -> str:
        """Print `status N` with the exit code of the last command."""
        return "echo status $?"

    def attempt(self, code: str) -> str:
        """Run a statement that may fail, without ending the script; the next one may be `say_status`."""
        return code

    def change_folder(self, folder: Path) -> str:
        """Go to a folder."""
        return f"cd {self.quote(str(folder))}"

    def list_names(self) -> str:
        """Print the names (more does no harm) of all functions, aliases, completions and variables."""
        raise NotImplementedError

    def load_hook(self, file: Path) -> str:
        """Load the hook, whose code stands in a file, as the one line of the start-up file does."""
        return self.source(file)

    # ------------------------------------------------ a person at a terminal

    def interactive(self, work: Work) -> list[str]:
        """Return what starts the shell for a person, with no start-up files but `start_up`'s."""
        raise NotImplementedError

    def start_up(self, code: str) -> list[str]:
        """Return the lines that are typed first: a prompt that ends in `#> `, then `code`."""
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
        """Type lines at a terminal; return what is shown after each, up to and with the next prompt.

        `first` are statements of the start-up file; `prefix` are words in front of the shell's command line.
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
    """A folder with a home of rocenv's in it, and one shell to run scripts in."""

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
        """Make an env that consists of nothing but what a script looks for."""
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
        """Return the code that writes the environment down under a name."""
        return self.driver.dump(self.folder / f"dump.{name}")

    def hook(self) -> str:
        """Return the code that loads the hook, which finds rocenv."""
        file = self.folder / f"hook{self.driver.suffix}"
        place = Place(program=str(resident_rocenv()), envs=str(self.folder / "unused" / "envs"))
        file.write_bytes(os.fsencode(HOOKS[self.driver.name].render(place)))
        return self.driver.load_hook(file)

    def run(
        self, *code: str, environ: Mapping[str, str] | None = None, prefix: Sequence[str] = ()
    ) -> Outcome:
        """Run statements as one script; `prefix` are words in front of the shell's command line."""
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
        """Activate and deactivate; what was there before is back."""
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
    """Write what activates an env, as `create` does, but without waiting for the disk."""
    for path, content in activation_files(name, str(prefix), changes, WATCHED, "linux").items():
        (prefix / path).write_bytes(content)


def _parsed(path: Path) -> dict[str, str]:
    pairs = (os.fsdecode(item).partition("=") for item in path.read_bytes().split(b"\0") if item)
    return {name: value for name, _, value in pairs if not _SHELLS_OWN.fullmatch(name)}
