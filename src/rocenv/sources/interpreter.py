"""Find the Python for a venv.

The Python that runs rocenv is used if it is suitable. Otherwise, uv selects one: an earlier download for
rocenv, an installation on this machine, or a new download.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.core.errors import DataError, RocenvError
from rocenv.core.foreign import parse_json
from rocenv.core.versions import series
from rocenv.sources.encryption import require_encrypted
from rocenv.system import WINDOWS
from rocenv.system.process import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocenv.sources.uv import Uv
    from rocenv.sources.uv_outcome import Outcome

_KEY = re.compile(
    r"cpython-(?P<major>\d{1,2})\.(?P<minor>\d{1,3})\.(?P<patch>\d{1,3})"
    r"-(?P<os>linux|windows)-(?P<arch>x86_64|aarch64)-(?P<libc>gnu|musl|none)"
)
_START_LIMIT_S = 60.0
_HINTS = ("select an installed Python, e.g. `--python 3.12`",)
# Source: patientx/ComfyUI-Zluda@8622f33e:.github/README.md
_STORE = "from the Microsoft Store, where torch cannot load all its libraries"

# ensurepip bundles the pip wheel; Debian and Fedora move it to WHEEL_PKG_DIR or another folder.
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
    pip_wheel: Path | None = None  # the pip that it bundles; None if the file is missing
    base: Path | None = None  # the installation folder, even for a venv
    platform: str = ""  # win-amd64

    @property
    def series(self) -> str:
        """The version in the matrix's format: `3.11`."""
        return series(self.version)


def find_python(spec: str, uv: Uv) -> Interpreter:
    """Find the Python for a venv, and let uv download it if necessary and allowed.

    `spec` is a version (`3.11`), a specifier (`>=3.10,<3.13`), a path, a name, or "" for rocenv's own Python.

    Raises:
        RocenvError: The Python is missing, does not run, or does not support torch.
    """
    own = examine(Path(sys.executable))
    if not spec or (_allows(spec, own.version) and not _unsuitable(own)):
        found = own
    else:
        found = examine(_find_with_uv(spec, uv))
    if reason := _unsuitable(found):
        raise RocenvError(
            f"the Python at `{found.path}` is unsuitable: {reason}",
            hints=(_from_python_org(found.series), "or use `--python` to select another Python"),
            code="python-missing",
        )
    return found


def fetch_archive(version: str, uv: Uv) -> tuple[str, Path]:
    """Let uv download a Python archive unless it is cached; return uv's key for it, and the file.

    Raises:
        RocenvError: uv does not provide this Python, or cannot download it.
    """
    if uv.environ.get("UV_PYTHON_DOWNLOADS") == "never":
        raise RocenvError("UV_PYTHON_DOWNLOADS=never disables Python downloads", code="python-missing")
    found = uv.run("python", "list", version, "--only-downloads", "--output-format=json")
    listed = [] if found.code else parse_json(found.stdout, "uv python list")
    keys = [each["key"] for each in listed if _KEY.fullmatch(each["key"]) and each["variant"] == "default"]
    if not keys:
        raise RocenvError(f"uv cannot download Python {version}", hints=_HINTS, code="python-missing")
    kept = uv.cache / "pythons" / keys[0]
    with tempfile.TemporaryDirectory(prefix="rocenv-") as folder:
        # uv checks the hash only when installing, so let it install.
        environ = {**uv.environ, "UV_PYTHON_CACHE_DIR": str(kept)}
        done = _install(keys[0], replace(uv, environ=environ, pythons=Path(folder)))
    archives = sorted(kept.glob("*.tar.gz")) if not done.code else []
    if not archives:
        raise RocenvError(f"uv cannot download `{keys[0]}`: {done.reason}", code="python-missing")
    return keys[0], archives[-1]


def install_archive(key: str, archive: Path, sha256: str, uv: Uv) -> None:
    """Install a Python offline from a file that `fetch_archive` returned; uv checks its hash.

    Raises:
        RocenvError: uv cannot install it.
    """
    parts = _KEY.fullmatch(key)
    if parts is None:
        raise RocenvError(f"`{key}` is not a Python that uv can install", code="python-missing")
    row = {
        "name": "cpython",
        "arch": {"family": parts["arch"], "variant": None},
        **{name: parts[name] for name in ("os", "libc")},
        **{name: int(parts[name]) for name in ("major", "minor", "patch")},
        "prerelease": "",
        "url": archive.as_uri(),
        "sha256": sha256,
        "variant": None,
        "build": None,
    }
    with tempfile.TemporaryDirectory(prefix="rocenv-") as folder:
        listed = Path(folder) / "downloads.json"
        listed.write_text(json.dumps({key: row}), encoding="utf-8")
        environ = {**uv.environ, "UV_PYTHON_DOWNLOADS_JSON_URL": listed.as_uri()}
        done = _install(key, replace(uv, environ=environ, offline=True))
    if done.code:
        raise RocenvError(f"uv cannot install `{key}`: {done.reason}", code="python-missing")


def examine(path: Path) -> Interpreter:
    """Query the Python at `path` for its version and folders; raise RocenvError if it does not run."""
    answer = run([str(path), "-I", "-X", "utf8", "-c", _QUESTIONS], timeout_s=_START_LIMIT_S)
    try:
        if not answer.ok:
            raise ValueError(answer.end)
        plain = parse_json(answer.text, str(path))
        return Interpreter(
            path=path,
            version=plain["version"],
            free_threaded=plain["free_threaded"],
            pip_wheel=Path(plain["pip_wheel"]) if plain["pip_wheel"] else None,
            base=Path(plain["base"]) if plain.get("base") else None,
            platform=plain.get("platform", ""),
        )
    except (DataError, ValueError, KeyError, TypeError) as error:
        raise RocenvError(
            f"the Python at `{path}` does not run: {error}", hints=_HINTS, code="python-missing"
        ) from error


def is_from_store(path: Path) -> bool:
    """Whether a Windows path belongs to the Microsoft Store."""
    return "windowsapps" in (part.lower() for part in re.split(r"[/\\]", str(path)))


def ranking(python: Interpreter) -> Callable[[str], int | None]:
    """Return a sort key for wheel file names: the wheel most specific to this interpreter sorts first.

    The key is None for incompatible wheels.
    """
    from packaging.tags import compatible_tags, cpython_tags
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    major, minor = map(int, python.series.split("."))
    interpreter = f"cp{major}{minor}"
    abi = interpreter + ("t" if python.free_threaded else "")
    tags = [*cpython_tags((major, minor), abis=[abi]), *compatible_tags((major, minor), interpreter)]
    order = {tag: position for position, tag in enumerate(tags)}

    def rank(file_name: str) -> int | None:
        try:
            fits = [order[tag] for tag in parse_wheel_filename(file_name)[3] if tag in order]
        except InvalidWheelFilename:
            return None
        return min(fits, default=None)

    return rank


def _find_with_uv(spec: str, uv: Uv) -> Path:
    found = uv.run("python", "find", "--system", spec)
    in_store = not found.code and is_from_store(Path(found.stdout.strip()))
    if in_store:
        found = uv.run("python", "find", "--managed-python", spec)
    if found.code and uv.may_fetch_python and _is_version(spec):
        uv.report(f"Python {spec} is not installed; downloading it")
        fetched = _install(spec, uv)
        which = "--managed-python" if in_store else "--system"
        found = fetched if fetched.code else uv.run("python", "find", which, spec)
    if found.code:
        reason, hints = found.reason, _HINTS
        if in_store:
            reason, hints = f"the only one on this machine is {_STORE}", (_from_python_org(spec),)
        raise RocenvError(f"cannot find Python `{spec}`: {reason}", hints=hints, code="python-missing")
    return Path(found.stdout.strip())


def _install(spec: str, uv: Uv) -> Outcome:
    """Let uv download a Python. uv checks hashes, so its mirrors may use plain HTTP.

    Raises:
        FetchError: UV_PYTHON_DOWNLOADS_JSON_URL is a plain HTTP URL.
    """
    mirror, listed = (
        uv.environ.get(f"UV_PYTHON_{name}", "") for name in ("INSTALL_MIRROR", "DOWNLOADS_JSON_URL")
    )
    if listed.startswith("http:"):
        require_encrypted((listed,), uv.environ, "the list of Pythons (UV_PYTHON_DOWNLOADS_JSON_URL)")
    plain_http = any(each.startswith("http:") for each in (mirror, listed))
    return uv.run("python", "install", "--no-bin", "--no-registry", spec, plain_http=plain_http)


def _unsuitable(python: Interpreter) -> str:
    """Explain why torch does not work with this Python, or return "" if it does."""
    if is_from_store(python.path) or (python.base is not None and is_from_store(python.base)):
        return f"it is {_STORE}"
    if WINDOWS and python.platform not in ("", "win-amd64"):
        return f"it was built for {python.platform}, which torch does not support"
    return ""


def _from_python_org(spec: str) -> str:
    return f"install the 64-bit Python {spec} from python.org, not the one from the Microsoft Store"


def _is_version(spec: str) -> bool:
    """Whether `spec` is a version or a specifier rather than a path or a name."""
    return re.match(r"[\d<>=!~]", spec) is not None


def _allows(spec: str, version: str) -> bool:
    """Whether `spec` allows a version; False if `spec` is a path or a name."""
    if not _is_version(spec):
        return False
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return SpecifierSet(f"=={spec}.*" if spec[0].isdigit() else spec).contains(version)
    except InvalidSpecifier:
        return False  # syntax that only uv understands, such as `3.13t`
