"""Other tools that change a shell's environment. Tests activate and deactivate them as users do."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, ClassVar

from tests.shells.driver import program
from tests.shells.drivers.xonsh import PATIENT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.shells.driver import Work

_PATIENT = PATIENT.replace("{...}", "{{...}}")  # escaped for `format`
_POSIX = ("bash", "zsh", "dash", "ksh")
# Evaluates a program's output in the shell, as hooks of such tools do.
_EVALUATE = {
    **dict.fromkeys(_POSIX, 'eval "$({})"'),
    "fish": "{} | source",
    "tcsh": "eval `{}`",
    "elvish": "eval ({} | slurp)",
    "xonsh": _PATIENT + "execx($({}))",
}
_ASSIGN_PATH = {
    **dict.fromkeys(_POSIX, 'PATH="$({})"; export PATH'),
    "fish": "set -gx PATH ({})",
    "tcsh": 'setenv PATH "`{}`"',
    "elvish": "set-env PATH ({})",
    "nu": "$env.PATH = (^{} | str trim | split row ':')",
    "xonsh": _PATIENT + "$PATH = $({}).strip().split(':')",
}
# Applies mise's output, as the module from `mise activate nu` does.
_NU_MISE = (
    "for row in (^{} | from csv --noheaders --no-infer | rename op name value) {{ if $row.op == hide "
    "{{ hide-env --ignore-errors $row.name }} else if $row.name == PATH "
    "{{ $env.PATH = ($row.value | split row ':') }} else {{ load-env {{($row.name): $row.value}} }} }}"
)


class Neighbour:
    """A tool in one shell; its methods return code, as a driver's do."""

    name: ClassVar[str]
    shells: ClassVar[tuple[str, ...]]  # the shells that its documentation lists as supported
    # Variables that the tool stores in the environment; some remain after it is deactivated, even without
    # rocenv.
    keeps: ClassVar[str] = "(?!)"
    # Whether the tool is deactivated with `deactivate`, as envs are.
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
        """Run the line that the tool adds to a startup file."""
        return ""

    def before_script(self) -> str:
        """Set up what the tool expects from an interactive shell."""
        return ""

    def on(self) -> str:
        raise NotImplementedError

    def off(self) -> str:
        raise NotImplementedError

    def mark(self) -> tuple[str, str]:
        """Return a variable and a value that it has only while the tool is active."""
        raise NotImplementedError

    def is_on(self, environ: dict[str, str]) -> bool:
        """Whether the tool is active in this environment; fail the test if it is partly active."""
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
    """Imitates conda's activation, because conda is not available to the tests.

    A program reads PATH and prints it with PREFIX/bin prepended or removed. Activation also sets other
    variables; deactivation unsets all but CONDA_SHLVL. Source: conda/activate.py, `build_activate`,
    `build_deactivate`, `_remove_prefix_from_path`
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
    """Python's own venv, whose `deactivate` restores the PATH that was saved on activation."""

    name = "venv"
    shells: ClassVar[tuple[str, ...]] = ("bash", "zsh", "dash", "ksh", "fish", "tcsh")
    keeps = "_OLD_.*"  # fish and xonsh export the saved values
    same_name = True
    make: ClassVar[tuple[str, ...]] = ("venv", "--without-pip")

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        subprocess.run(
            [sys.executable, "-m", *self.make, self.folder], env=self.environ, check=True, timeout=60
        )

    def start(self) -> str:
        # virtualenv uses an attribute that xonsh 0.13 does not have.
        return "__xonsh__.xontrib = __import__('types').SimpleNamespace()" if self._shell == "xonsh" else ""

    def before_script(self) -> str:
        if self._shell == "tcsh":
            return "set prompt='> '"  # venv's script fails without a prompt
        return "" if self._shell in ("fish", "nu", "xonsh") else "PS1='> '"

    def on(self) -> str:
        driver = self.work.driver
        suffix = {"fish": ".fish", "tcsh": ".csh", "nu": ".nu", "xonsh": ".xsh"}.get(driver.name, "")
        script = self.folder / "bin" / f"activate{suffix}"
        return f"overlay use {script}" if driver.name == "nu" else driver.source(script)

    def off(self) -> str:
        # In nushell, virtualenv's `deactivate` is an alias for this command, but rocenv's permanently
        # replaces it.
        return "overlay hide activate" if self._shell == "nu" else "deactivate"

    def mark(self) -> tuple[str, str]:
        return "VIRTUAL_ENV", str(self.folder)


class Virtualenv(Venv):
    """virtualenv from PyPI, which behaves like venv."""

    name = "virtualenv"
    shells = ("bash", "zsh", "dash", "ksh", "fish", "tcsh", "nu", "xonsh")
    make = ("virtualenv", "--quiet", "--no-seed", "--no-periodic-update")


class Direnv(Neighbour):
    """direnv, which restores every variable's previous value when the user leaves the folder."""

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
        """Change to a folder, and run the code that the hook runs at the next prompt."""
        name = self._shell
        command = f"{self.program} export {name}"
        if name == "elvish":
            # Applies direnv's output (nothing, or JSON) as `direnv hook elvish` does.
            code = (
                f"for m [({command} | from-json)] {{ for k [(keys $m)] "
                "{ if $m[$k] { set-env $k $m[$k] } else { unset-env $k } } }"
            )
        else:
            code = _EVALUATE[name].format(command)
        return f"{self.work.driver.change_folder(folder)}\n{code}"


class Mise(Neighbour):
    """mise, which rebuilds PATH when the user leaves the folder."""

    name = "mise"
    shells = ("bash", "zsh", "fish", "nu", "elvish", "xonsh")
    keeps = "__MISE_.*|MISE_.*"

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self.program = program("mise")
        # mise prints its own path without quotes, so a path with a space would not work.
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
        if name in ("nu", "elvish"):  # the rest of mise's code needs a prompt in these shells
            return f"{driver.put('MISE_SHELL', name)}\n{driver.put('__MISE_ORIG_PATH', self.environ['PATH'])}"
        return _EVALUATE[name].format(f"{self.program} activate {name}")

    def on(self) -> str:
        return self._prompt(self.folder)

    def off(self) -> str:
        return self._prompt(self.work.folder)

    def mark(self) -> tuple[str, str]:
        return "NEIGHBOUR", "mise"

    def _prompt(self, folder: Path) -> str:
        """Change to a folder, and run the code that the hook runs at the next prompt."""
        name = self._shell
        # Without --force, mise may conclude from modification times that nothing has changed.
        command = f"{self.program} hook-env --force -s {name}"
        code = _NU_MISE.format(command) if name == "nu" else _EVALUATE[name].format(command)
        return f"{self.work.driver.change_folder(folder)}\n{code}"
