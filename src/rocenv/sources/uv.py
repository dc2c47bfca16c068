"""uv as a child process: isolated from the user's own uv settings, its errors cut down to what matters."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocenv.core.errors import FetchError, PrefixError, RocenvError
from rocenv.core.model import Artifact
from rocenv.sources.interpreter import FROM_STORE, HINTS, from_python_org, is_from_store, is_version
from rocenv.sources.uv_outcome import Outcome
from rocenv.sources.wheel_names import ranks, wheel_file_name
from rocenv.sources.wheel_tool import outer_environ

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rocenv.sources.interpreter import Interpreter

# How to reach a server may come from outside; which packages are taken may not.
_KEPT = frozenset(
    {
        "UV_HTTP_CONNECT_TIMEOUT",
        "UV_HTTP_RETRIES",
        "UV_HTTP_TIMEOUT",
        "UV_INSECURE_HOST",
        "UV_NATIVE_TLS",
        "UV_PYTHON_DOWNLOADS_JSON_URL",
        "UV_PYTHON_INSTALL_MIRROR",
        "UV_SYSTEM_CERTS",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Uv:
    """How uv is run; a `WheelTool`.

    Attributes:
        cache: uv's cache; what it unpacks there is linked into the venvs.
        pythons: Where interpreters go that uv fetches.
        environ: The environment to start from; what could change the choice of packages is taken out.
        offline: Never open a connection.
        tell: Called with a line of text whenever uv starts a download, or something is done differently
            from what was asked.
    """

    cache: Path
    pythons: Path
    environ: Mapping[str, str]
    offline: bool
    tell: Callable[[str], None]

    def find_python(self, spec: str) -> Path:
        """Return a Python that `spec` allows: one on this machine, else one that uv fetches, if it may."""
        found = self.run("python", "find", "--system", spec)
        in_store = not found.code and is_from_store(Path(found.stdout.strip()))
        if in_store:
            found = self.run("python", "find", "--managed-python", spec)
        if found.code and self._may_fetch_python and is_version(spec):
            self.tell(f"No Python {spec} on this machine; fetching one")
            fetched = self.run("python", "install", "--no-bin", "--no-registry", spec)
            which = "--managed-python" if in_store else "--system"
            found = fetched if fetched.code else self.run("python", "find", which, spec)
        if found.code:
            reason, hints = (FROM_STORE, (from_python_org(spec),)) if in_store else (found.reason, HINTS)
            raise RocenvError(f"no Python `{spec}`: {reason}", hints=hints, code="python-missing")
        return Path(found.stdout.strip())

    def resolve(
        self,
        requirements: Sequence[str],
        *,
        index_url: str,
        python: Interpreter,
        dependencies: bool = True,
    ) -> tuple[Artifact, ...]:
        """See `WheelTool`. Offline, what is known of the index from before will do."""
        import tomlkit

        with tempfile.TemporaryDirectory(prefix="rocenv-") as folder:
            wanted = Path(folder) / "requirements.in"
            wanted.write_text("".join(f"{line}\n" for line in requirements), encoding="utf-8")
            outcome = self.run(
                *("pip", "compile", str(wanted), "--format=pylock.toml", "--only-binary=:all:"),
                *([f"--default-index={index_url}"] if index_url else []),
                *([] if dependencies else ["--no-deps"]),
                f"--python={python.path}",
            )
        if outcome.code:
            raise outcome.resolution_failure(requirements, index_url, python)
        rank = ranks(python)
        packages = tomlkit.parse(outcome.stdout).unwrap().get("packages", [])
        return tuple(_artifact(package, rank) for package in packages)  # uv sorts by name

    def make_venv(self, venv: Path, python: Interpreter) -> None:
        """See `WheelTool`."""
        outcome = self.run("venv", "--no-project", "--relocatable", f"--python={python.path}", str(venv))
        if outcome.code:
            raise PrefixError(f"cannot make the venv `{venv}`: {outcome.reason}", code="venv")

    def install(
        self,
        venv: Path,
        python: Interpreter,
        pins: Mapping[str, str],
        places: Sequence[Path],
        anew: Sequence[str] = (),
    ) -> None:
        """See `WheelTool`. By a wheel's path and time of change uv knows that it has unpacked it before."""
        if anew:
            self.run("cache", "clean", *anew, offline=True).require_installed()
        with tempfile.TemporaryDirectory(prefix="rocenv-") as folder:
            requirements = Path(folder) / "requirements.txt"
            requirements.write_text("".join(f"{pin}\n" for pin in pins.values()), encoding="utf-8")
            outcome = self.run(
                *("pip", "install", "--no-index", "--no-deps", "--only-binary=:all:", "--require-hashes"),
                # A reflink where the file system has them, else a hard link, else a copy.
                *("--link-mode=clone", f"--python={venv}", f"--requirements={requirements}"),
                *(f"--find-links={place.as_uri()}" for place in places),
                *(f"--reinstall-package={project}" for project in anew),
                offline=True,
            )
        outcome.require_installed()

    @property
    def _may_fetch_python(self) -> bool:
        """Whether an interpreter that is not here may be downloaded; uv's own variable can forbid it."""
        return not self.offline and self.environ.get("UV_PYTHON_DOWNLOADS") not in ("never", "manual")

    def run(self, *arguments: str, offline: bool = False) -> Outcome:
        """Run uv to its end and return how that went; a non-zero exit is the caller's to judge."""
        argv = [_binary(), "--no-config", "--no-progress", "--color=never", f"--cache-dir={self.cache}"]
        if offline or self.offline:
            argv.append("--offline")
        environ = outer_environ(self.environ) | {k: v for k, v in self.environ.items() if k in _KEPT}
        environ |= {"UV_PYTHON_DOWNLOADS": "manual", "UV_PYTHON_INSTALL_DIR": str(self.pythons)}
        environ["UV_NO_WRAP"] = "1"  # `Outcome` reads lines
        if bundle := environ.get("REQUESTS_CA_BUNDLE"):
            environ.setdefault("SSL_CERT_FILE", bundle)  # what rocenv's own connections trust
        lines = []
        with (
            tempfile.TemporaryFile() as stdout,
            subprocess.Popen(
                [*argv, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=subprocess.PIPE,
                env=environ,
                encoding="utf-8",
                errors="replace",
            ) as child,
        ):
            for line in child.stderr or ():
                lines.append(line)
                if line.startswith("Downloading "):
                    self.tell(line.strip())
            code = child.wait()
            stdout.seek(0)
            return Outcome(code=code, stdout=stdout.read().decode("utf-8", "replace"), stderr="".join(lines))


def _artifact(package: dict[str, Any], rank: Callable[[str], int]) -> Artifact:
    """Return a package of a lock as its best wheel: uv leaves only those that fit, but often several."""
    name, version = package["name"], package.get("version", "")
    wheels = package.get("wheels", [])
    if not wheels:
        raise FetchError(f"{name} {version} is no wheel in the index")
    wheel = min(wheels, key=lambda wheel: rank(wheel_file_name(wheel["url"])))
    sha256 = wheel.get("hashes", {}).get("sha256", "")
    if not sha256:
        raise FetchError(f"the index names no sha256 for {wheel['url']}")
    return Artifact(
        kind="wheel",
        name=name,
        version=version,
        url=wheel["url"].partition("#")[0],
        sha256=sha256,
        size_bytes=wheel.get("size", 0),
    )


def _binary() -> str:
    try:
        import uv

        return uv.find_uv_bin()
    except (ImportError, FileNotFoundError) as error:
        raise RocenvError(
            "uv, which installs the wheels, is missing beside rocenv",
            hints=("python -m pip install --force-reinstall uv",),
            code="uv-missing",
        ) from error
