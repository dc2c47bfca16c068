"""Other tools that change the environment of a shell, as their users enter and leave them in each shell."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, ClassVar

from tests.shells.driver import program

if TYPE_CHECKING:
    from pathlib import Path

    from tests.shells.driver import Work

_POSIX = ("bash", "zsh", "dash", "ksh")
# The shell evaluates what a program prints, as the tools' own hooks have it done.
_EVALUATE = {
    **dict.fromkeys(_POSIX, 'eval "$({})"'),
    "fish": "{} | source",
    "tcsh": "eval `{}`",
    "elvish": "eval ({} | slurp)",
    "xonsh": "execx($({}))",
}
_ASSIGN_PATH = {
    **dict.fromkeys(_POSIX, 'PATH="$({})"; export PATH'),
    "fish": "set -gx PATH ({})",
    "tcsh": 'setenv PATH "`{}`"',
    "elvish": "set-env PATH ({})",
    "nu": "$env.PATH = (^{} | str trim | split row ':')",
    "xonsh": "$PATH = $({}).strip().split(':')",
}
# What the module that `mise activate nu` prints does with the answer.
_NU_MISE = (
    "for row in (^{} | from csv --noheaders --no-infer | rename op name value) {{ if $row.op == hide "
    "{{ hide-env --ignore-errors $row.name }} else if $row.name == PATH "
    "{{ $env.PATH = ($row.value | split row ':') }} else {{ load-env {{($row.name): $row.value}} }} }}"
)


class Neighbour:
    """A tool in one shell. Its methods return code, as a driver's do."""

    name: ClassVar[str]
    shells: ClassVar[tuple[str, ...]]  # that it serves, by its own documentation
    # What it keeps in the environment for itself; some of that stays for good, without rocenv too.
    keeps: ClassVar[str] = "(?!)"
    # Is it left with `deactivate`, like an env of ours?
    same_name: ClassVar[bool] = False

    def __init__(self, work: Work) -> None:
        self.work = work
        self.folder = work.folder / self.name
        self.folder.mkdir()

    @property
    def _shell(self) -> str:
        return self.work.driver.name

    @property
    def environ(self) -> dict[str, str]:
        return self.work.environ

    def start(self) -> str:
        """Do what a start-up file does for it."""
        return ""

    def before_script(self) -> str:
        """Give a script what a person's shell has and the tool relies on."""
        return ""

    def on(self) -> str:
        raise NotImplementedError

    def off(self) -> str:
        raise NotImplementedError

    def mark(self) -> tuple[str, str]:
        """Return a variable that is so only while it is on."""
        raise NotImplementedError

    def is_on(self, environ: dict[str, str]) -> bool:
        """Say whether it acts in this environment; no half of it may."""
        in_path = str(self.folder / "bin") in environ["PATH"].split(":")
        assert in_path == (self.mark() in environ.items()), environ
        return in_path

    def without_own(self, environ: dict[str, str]) -> dict[str, str]:
        return {name: value for name, value in environ.items() if not re.fullmatch(self.keeps, name)}

    def _script(self, name: str, text: str) -> Path:
        file = self.folder / name
        file.write_text(text)
        return file


class Conda(Neighbour):
    """The shape of conda's activation, since no conda can be had here.

    A program reads PATH and says what it is to be: with PREFIX/bin in front, or without that entry. The rest
    are variables that are set, and unset but for the depth.
    Source: conda/activate.py, `build_activate`, `build_deactivate`, `_remove_prefix_from_path`
    """

    name = "conda"
    shells = ("bash", "zsh", "dash", "ksh", "fish", "tcsh", "nu", "elvish", "xonsh")
    keeps = "CONDA_SHLVL"

    def on(self) -> str:
        driver, own = self.work.driver, self.folder
        script = self._script("on.sh", f'printf "%s\\n" "{own}/bin:$PATH"\n')
        variables = {"CONDA_PREFIX": str(own), "CONDA_DEFAULT_ENV": "demo", "CONDA_SHLVL": "1"}
        return "\n".join(
            [self._path(script), *(driver.put(name, value) for name, value in variables.items())]
        )

    def off(self) -> str:
        driver = self.work.driver
        script = self._script(
            "off.sh", f'printf "%s\\n" "$PATH" | tr : "\\n" | grep -vxF {self.folder}/bin | paste -sd:\n'
        )
        unset = [driver.erase(name) for name in ("CONDA_PREFIX", "CONDA_DEFAULT_ENV")]
        return "\n".join([self._path(script), *unset, driver.put("CONDA_SHLVL", "0")])

    def mark(self) -> tuple[str, str]:
        return "CONDA_PREFIX", str(self.folder)

    def _path(self, script: Path) -> str:
        return _ASSIGN_PATH[self._shell].format(f"/bin/sh {script}")


class Venv(Neighbour):
    """Python's own. `deactivate` puts back what PATH was when it was activated."""

    name = "venv"
    shells: ClassVar[tuple[str, ...]] = ("bash", "zsh", "dash", "ksh", "fish", "tcsh")
    keeps = "_OLD_.*"  # fish and xonsh export it
    same_name = True
    make: ClassVar[tuple[str, ...]] = ("venv", "--without-pip")

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        subprocess.run(
            [sys.executable, "-m", *self.make, self.folder], env=self.environ, check=True, timeout=60
        )

    def start(self) -> str:
        # virtualenv takes an attribute for granted that xonsh 0.13 has not.
        return "__xonsh__.xontrib = __import__('types').SimpleNamespace()" if self._shell == "xonsh" else ""

    def before_script(self) -> str:
        if self._shell == "tcsh":
            return "set prompt='> '"  # without one the script of venv fails
        return "" if self._shell in ("fish", "nu", "xonsh") else "PS1='> '"

    def on(self) -> str:
        driver = self.work.driver
        suffix = {"fish": ".fish", "tcsh": ".csh", "nu": ".nu", "xonsh": ".xsh"}.get(driver.name, "")
        script = self.folder / "bin" / f"activate{suffix}"
        return f"overlay use {script}" if driver.name == "nu" else driver.source(script)

    def off(self) -> str:
        # What the `deactivate` of virtualenv is short for; in nushell ours stands in its place for good.
        return "overlay hide activate" if self._shell == "nu" else "deactivate"

    def mark(self) -> tuple[str, str]:
        return "VIRTUAL_ENV", str(self.folder)


class Virtualenv(Venv):
    """The one of PyPI. It does as venv does."""

    name = "virtualenv"
    shells = ("bash", "zsh", "dash", "ksh", "fish", "tcsh", "nu", "xonsh")
    make = ("virtualenv", "--quiet", "--no-seed", "--no-periodic-update")


class Direnv(Neighbour):
    """direnv: on leaving the folder every variable gets the value that it had on entering."""

    name = "direnv"
    shells = ("bash", "zsh", "fish", "tcsh", "elvish")
    keeps = "DIRENV_.*"

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self.program = program("direnv")
        (self.folder / "bin").mkdir()
        self._script(".envrc", "export NEIGHBOUR=direnv\nPATH_add bin\n")
        subprocess.run([self.program, "allow", self.folder], env=self.environ, check=True, timeout=60)

    def on(self) -> str:
        return self._prompt(self.folder)

    def off(self) -> str:
        return self._prompt(self.work.folder)

    def mark(self) -> tuple[str, str]:
        return "NEIGHBOUR", "direnv"

    def _prompt(self, folder: Path) -> str:
        """Go to a folder, and do what the hook does at the next prompt."""
        name = self._shell
        command = f"{self.program} export {name}"
        if name == "elvish":
            # What `direnv hook elvish` does with the answer, which is empty or JSON.
            code = (
                f"for m [({command} | from-json)] {{ for k [(keys $m)] "
                "{ if $m[$k] { set-env $k $m[$k] } else { unset-env $k } } }"
            )
        else:
            code = _EVALUATE[name].format(command)
        return f"{self.work.driver.change_folder(folder)}\n{code}"


class Mise(Neighbour):
    """mise: on leaving the folder PATH is made anew."""

    name = "mise"
    shells = ("bash", "zsh", "fish", "nu", "elvish", "xonsh")
    keeps = "__MISE_.*|MISE_.*"

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self.program = program("mise")
        # It prints its own path into code, and that does not take a space.
        if " " in self.program:
            self.program = shutil.copy2(self.program, str(self.folder / "mise"))
        (self.folder / "bin").mkdir()
        file = self._script("mise.toml", '[env]\nNEIGHBOUR = "mise"\n_.path = "./bin"\n')
        subprocess.run([self.program, "trust", "-q", file], env=self.environ, check=True, timeout=60)

    @property
    def environ(self) -> dict[str, str]:
        return {**self.work.environ, "MISE_OFFLINE": "1"}

    def start(self) -> str:
        driver, name = self.work.driver, self._shell
        if name in ("nu", "elvish"):  # where the rest of it needs a prompt
            return f"{driver.put('MISE_SHELL', name)}\n{driver.put('__MISE_ORIG_PATH', self.environ['PATH'])}"
        return _EVALUATE[name].format(f"{self.program} activate {name}")

    def on(self) -> str:
        return self._prompt(self.folder)

    def off(self) -> str:
        return self._prompt(self.work.folder)

    def mark(self) -> tuple[str, str]:
        return "NEIGHBOUR", "mise"

    def _prompt(self, folder: Path) -> str:
        """Go to a folder, and do what the hook does at the next prompt."""
        name = self._shell
        # Without --force, mise may decide from times of files that nothing has changed.
        command = f"{self.program} hook-env --force -s {name}"
        code = _NU_MISE.format(command) if name == "nu" else _EVALUATE[name].format(command)
        return f"{self.work.driver.change_folder(folder)}\n{code}"
