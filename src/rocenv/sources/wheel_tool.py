"""What rocenv needs of a program that resolves and installs wheels, and the choice of one.

uv is taken where it runs, being many times faster; else the pip of the interpreter, so that machines on which
uv does not start (an old Windows) have wheels too. Nobody is asked which.
"""

from __future__ import annotations

import os
import re
import subprocess
from functools import cache
from typing import TYPE_CHECKING, Protocol

from rocenv.system import WINDOWS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from rocenv.core.model import Artifact
    from rocenv.home import Home
    from rocenv.sources.interpreter import Interpreter

# What could change the choice of packages, or the interpreter's behaviour.
_DROPPED = re.compile(r"(UV_|PIP_|PYTHON|CONDA_).*|VIRTUAL_ENV|__PYVENV_LAUNCHER__")
_START_LIMIT_S = 60.0


class WheelTool(Protocol):
    """A program that resolves and installs wheels."""

    @property
    def cache(self) -> Path:
        """The folder that it may keep things in."""
        ...

    @property
    def tell(self) -> Callable[[str], None]:
        """What takes a line for the user: downloads, and what is done differently from what was asked."""
        ...

    def find_python(self, spec: str) -> Path:
        """Return a Python on this machine that `spec` allows; one may be fetched for it.

        Raises:
            RocenvError: There is none.
        """
        ...

    def resolve(
        self,
        requirements: Sequence[str],
        *,
        index_url: str,
        python: Interpreter,
        dependencies: bool = True,
    ) -> tuple[Artifact, ...]:
        """Return the wheels of one index that fulfil `requirements`, sorted by name, each with its sha256.

        Args:
            requirements: PEP 508, such as `torch==2.5.*`.
            index_url: No other index is asked; "" = the one that the tool asks by itself.
            python: The interpreter that the wheels are for.
            dependencies: Whether what the wheels depend on belongs to the answer.

        Raises:
            ResolutionImpossible: The index cannot fulfil the requirements for this interpreter.
            FetchError: It does not answer, or a wheel has no hash.
        """
        ...

    def make_venv(self, venv: Path, python: Interpreter) -> None:
        """Make an empty venv where nothing lies yet; PrefixError where that does not work."""
        ...

    def install(
        self,
        venv: Path,
        python: Interpreter,
        pins: Mapping[str, str],
        places: Sequence[Path],
        anew: Sequence[str] = (),
    ) -> None:
        """Install exactly these wheels, without a connection, so that the venv may be renamed afterwards.

        Args:
            venv: Where to.
            python: What the venv was made of.
            pins: Project -> its line of a requirements file, with the hash.
            places: The folders of the wheels.
            anew: Projects that are to be unpacked again, from their wheels and not from any cache.

        Raises:
            FetchError: A wheel is not the one that was promised.
            ArchiveError: A wheel is damaged.
            PrefixError: The wheels do not fit the interpreter, or the venv cannot be written.
        """
        ...


def choose_tool(home: Home, *, offline: bool, tell: Callable[[str], None]) -> WheelTool:
    """Return uv where it runs, else pip, which `tell` hears of once."""
    trouble = _trouble_of_uv()
    if not trouble:
        from rocenv.sources.uv import Uv

        return Uv(cache=home.uv_cache, pythons=home.pythons, environ=os.environ, offline=offline, tell=tell)
    from rocenv.sources.pip import Pip

    if not _said:
        _said.append(trouble)
        tell(f"uv does not run here ({trouble}); pip is used instead, which is slower")
    return Pip(cache=home.uv_cache / "rocenv-pip", environ=os.environ, offline=offline, tell=tell)


_said: list[str] = []  # a command chooses more than once: when it plans, and when it builds


@cache
def _trouble_of_uv() -> str:
    """Return why uv cannot be used, "" if it can."""
    try:
        import uv

        binary = uv.find_uv_bin()
        done = subprocess.run(
            [binary, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_START_LIMIT_S,
            check=False,
        )
    except (ImportError, FileNotFoundError):
        return "it is not installed"
    except subprocess.TimeoutExpired:
        return f"it hangs for more than {_START_LIMIT_S:.0f} s"
    except OSError as error:
        return str(error.strerror or error)
    code = done.returncode
    return f"`uv --version` ends with exit code {code if code < 256 else hex(code)}" if code else ""


def outer_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a tool: proxies and all, but nothing that chooses packages."""
    return {name: value for name, value in environ.items() if not _DROPPED.fullmatch(name)}


def python_of(venv: Path) -> Path:
    """Return the interpreter of a venv."""
    return venv / "Scripts" / "python.exe" if WINDOWS else venv / "bin" / "python"


def site_packages(venv: Path) -> Path:
    """Return the folder that a venv's packages lie in."""
    return venv / "Lib" / "site-packages" if WINDOWS else next(venv.glob("lib/python3*/site-packages"))
