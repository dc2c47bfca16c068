"""Finding the Python that a venv is made of.

Order: the one that runs rocenv, if it fits; then what the wheel tool finds (uv: one that was fetched for
rocenv before, one on this machine, one that is fetched now; pip: one on this machine).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.core.errors import RocenvError
from rocenv.system import WINDOWS

if TYPE_CHECKING:
    from rocenv.sources.wheel_tool import WheelTool

HINTS = ("ask for one that is there, e.g. `--python 3.12`",)
# Source: patientx/ComfyUI-Zluda@8622f33e:.github/README.md
_STORE = "that of the Microsoft Store, with which torch cannot load all of its libraries"
FROM_STORE = f"the only one here is {_STORE}"

# ensurepip carries the wheel of pip; Debian and Fedora keep it in WHEEL_PKG_DIR or in a folder of their own.
_QUESTIONS = """
import glob, importlib.util, json, os, sys, sysconfig
folders = [sysconfig.get_config_var("WHEEL_PKG_DIR") or "", "/usr/share/python-wheels"]
try:
    import ensurepip
    folders.append(os.path.join(os.path.dirname(ensurepip.__file__), "_bundled"))
except ImportError:
    pass
wheels = [name for folder in folders if folder for name in sorted(glob.glob(folder + "/pip-*.whl"))]
pip = importlib.util.find_spec("pip")
site = os.path.dirname(os.path.dirname(pip.origin)) if pip and pip.origin else ""
infos = [os.path.basename(name) for name in glob.glob(glob.escape(site) + "/pip-*.dist-info")] if site else []
print(json.dumps({
    "version": "%d.%d.%d" % sys.version_info[:3],
    "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    "pip_wheel": wheels[-1] if wheels else "",
    "pip": infos[0][len("pip-"):-len(".dist-info")] if infos else "",
    "base": sys.base_prefix,
    "platform": sysconfig.get_platform(),
}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A Python on this machine."""

    path: Path
    version: str  # 3.11.7
    free_threaded: bool = False
    pip_wheel: Path | None = None  # the pip that came with it; None where the system leaves it out
    pip: str = ""  # version of the pip that is installed in it; "" = none is
    base: Path | None = None  # the folder of the Python that its venv, if it is in one, was made of
    platform: str = ""  # win-amd64

    @property
    def series(self) -> str:
        """The version as the matrix names it: `3.11`."""
        return self.version.rpartition(".")[0]


def find_python(spec: str, tool: WheelTool) -> Interpreter:
    """Return the Python to use.

    Args:
        spec: A version (`3.11`), a specifier (`>=3.10,<3.13`), a path or a name; "" = rocenv's own.
        tool: Looks for it, and fetches it where it can; `tool.tell` learns of the latter.

    Raises:
        RocenvError: There is none, it does not run, or venvs for torch cannot be made of it; names `spec`.
    """
    own = examine(Path(sys.executable))
    if not spec or (allows(spec, own.version) and not unfit(own)):
        found = own
    else:
        found = examine(tool.find_python(spec))
    if trouble := unfit(found):
        raise RocenvError(
            f"the Python at `{found.path}` will not do: {trouble}",
            hints=(from_python_org(found.series), "or name another one: `--python PATH`"),
            code="python-missing",
        )
    return found


def examine(path: Path) -> Interpreter:
    """Return what the Python at `path` says of itself; RocenvError if it does not run."""
    try:
        answer = subprocess.run(
            [path, "-I", "-X", "utf8", "-c", _QUESTIONS],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=60,
            encoding="utf-8",
        )
        plain = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise RocenvError(
            f"the Python at `{path}` does not run: {error}", hints=HINTS, code="python-missing"
        ) from error
    return Interpreter(
        path=path,
        version=plain["version"],
        free_threaded=plain["free_threaded"],
        pip_wheel=Path(plain["pip_wheel"]) if plain["pip_wheel"] else None,
        pip=plain.get("pip", ""),
        base=Path(plain["base"]) if plain.get("base") else None,
        platform=plain.get("platform", ""),
    )


def unfit(python: Interpreter) -> str:
    """Return why no venv for torch can be made of a Python, "" if one can."""
    if is_from_store(python.path) or (python.base is not None and is_from_store(python.base)):
        return f"it is {_STORE}"
    if WINDOWS and python.platform not in ("", "win-amd64"):
        return f"it is built for {python.platform}, and there is no torch for that"
    return ""


def from_python_org(spec: str) -> str:
    """Return the advice which Python to install on Windows."""
    return f"install the 64-bit Python {spec} of python.org, not that of the Microsoft Store"


def is_from_store(path: Path) -> bool:
    """Tell whether a path of Windows leads to what the Microsoft Store installed."""
    return "windowsapps" in (part.lower() for part in re.split(r"[/\\]", str(path)))


def is_version(spec: str) -> bool:
    """Tell whether `spec` is a version or a specifier, and no path or name."""
    return re.match(r"[\d<>=!~]", spec) is not None


def allows(spec: str, version: str) -> bool:
    """Tell whether a version is one that `spec` allows; a path or a name allows none."""
    if not is_version(spec):
        return False
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return SpecifierSet(f"=={spec}.*" if spec[0].isdigit() else spec).contains(version)
    except InvalidSpecifier:
        return False  # something only uv knows, such as `3.13t`
