"""Finding the Python that a venv is made of.

Order: the one that runs rocenv, if it fits; one that was fetched for rocenv before; one on this machine's
PATH; one that uv fetches now, unless downloads are forbidden.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.errors import RocenvError

if TYPE_CHECKING:
    from rocenv.sources.uv import Uv

_HINTS = ("ask for one that is there, e.g. `--python 3.12`",)

# ensurepip carries the wheel of pip; Debian and Fedora keep it in WHEEL_PKG_DIR or in a folder of their own.
_QUESTIONS = """
import glob, json, os, sys, sysconfig
folders = [sysconfig.get_config_var("WHEEL_PKG_DIR") or "", "/usr/share/python-wheels"]
try:
    import ensurepip
    folders.append(os.path.join(os.path.dirname(ensurepip.__file__), "_bundled"))
except ImportError:
    pass
wheels = [name for folder in folders if folder for name in sorted(glob.glob(folder + "/pip-*.whl"))]
print(json.dumps({
    "version": "%d.%d.%d" % sys.version_info[:3],
    "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    "pip_wheel": wheels[-1] if wheels else "",
}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A Python on this machine."""

    path: Path
    version: str  # 3.11.7
    free_threaded: bool = False
    pip_wheel: Path | None = None  # the pip that came with it; None where the system leaves it out

    @property
    def series(self) -> str:
        """The version as the matrix names it: `3.11`."""
        return self.version.rpartition(".")[0]


def find_python(spec: str, uv: Uv) -> Interpreter:
    """Return the Python to use.

    Args:
        spec: A version (`3.11`), a specifier (`>=3.10,<3.13`), a path or a name; "" = rocenv's own.
        uv: Looks for it, and fetches it where that is allowed; `uv.tell` learns of the latter.

    Raises:
        RocenvError: There is none, or it does not run; names `spec`.
    """
    own = examine(Path(sys.executable))
    if not spec or _allows(spec, own.version):
        return own
    found = uv.run("python", "find", "--system", spec)
    if found.code and uv.may_fetch_python and _is_version(spec):
        uv.tell(f"No Python {spec} on this machine; fetching one")
        fetched = uv.run("python", "install", "--no-bin", "--no-registry", spec)
        found = fetched if fetched.code else uv.run("python", "find", "--system", spec)
    if found.code:
        raise RocenvError(f"no Python `{spec}`: {found.reason}", hints=_HINTS, code="python-missing")
    return examine(Path(found.stdout.strip()))


def examine(path: Path) -> Interpreter:
    """Return what the Python at `path` says of itself; RocenvError if it does not run."""
    try:
        answer = subprocess.run(
            [path, "-I", "-c", _QUESTIONS], capture_output=True, check=True, timeout=60, text=True
        )
        plain = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise RocenvError(
            f"the Python at `{path}` does not run: {error}", hints=_HINTS, code="python-missing"
        ) from error
    return Interpreter(
        path=path,
        version=plain["version"],
        free_threaded=plain["free_threaded"],
        pip_wheel=Path(plain["pip_wheel"]) if plain["pip_wheel"] else None,
    )


def _is_version(spec: str) -> bool:
    return re.match(r"[\d<>=!~]", spec) is not None


def _allows(spec: str, version: str) -> bool:
    if not _is_version(spec):
        return False
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return SpecifierSet(f"=={spec}.*" if spec[0].isdigit() else spec).contains(version)
    except InvalidSpecifier:
        return False  # something only uv knows, such as `3.13t`
