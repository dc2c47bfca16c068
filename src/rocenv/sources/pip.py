"""pip as a child process, for machines on which uv does not run.

The pip is the interpreter's own: the one that is installed in it, or the wheel that came with it. Nothing of
the user's pip configuration reaches it, except how servers are reached. Only resolving needs a network; pip
keeps no copy of an index, so offline nothing can be resolved.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocenv.core.errors import FetchError, PrefixError, RocenvError
from rocenv.core.model import Artifact
from rocenv.sources.installed_pythons import pick
from rocenv.sources.launchers import make_relocatable
from rocenv.sources.pip_outcome import PipOutcome
from rocenv.sources.pip_settings import pip_settings
from rocenv.sources.wheel_errors import index_name
from rocenv.sources.wheel_tool import outer_environ, python_of, site_packages
from rocenv.system import WINDOWS
from rocenv.system.files import remove_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rocenv.sources.interpreter import Interpreter

_OLDEST = (22, 3)  # the first with `--python`; `--report` came a little earlier
# How to reach a server may come from outside; which packages are taken may not.
_KEPT = {
    "proxy": "proxy",
    "cert": "cert",
    "client-cert": "client-cert",
    "retries": "retries",
    "timeout": "timeout",
    "default-timeout": "timeout",
}
_DATE_OF_LAUNCHERS = "315532800"  # 1980, so that the same wheel gets the same ones each time
# Runs the pip of a wheel under a name that lets it install another pip on Windows too.
_FROM_WHEEL = """
import runpy, sys
sys.path.insert(0, sys.argv.pop(1))
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pip:
    """How pip is run; a `WheelTool`.

    Attributes:
        cache: Of what pip downloads, to find out what it depends on.
        environ: The environment to start from; what could change the choice of packages is taken out.
        offline: Never open a connection.
        tell: Called with a line of text whenever pip downloads a wheel.
    """

    cache: Path
    environ: Mapping[str, str]
    offline: bool
    tell: Callable[[str], None]

    def find_python(self, spec: str) -> Path:
        """Return a Python of this machine that `spec` allows; none is ever fetched."""
        return pick(spec, self.environ)

    def resolve(
        self,
        requirements: Sequence[str],
        *,
        index_url: str,
        python: Interpreter,
        dependencies: bool = True,
    ) -> tuple[Artifact, ...]:
        """See `WheelTool`. An older pip downloads wheels for that, and `tell` hears of it."""
        if self.offline:
            raise FetchError(
                f"offline, and without uv nothing is known of {index_name(index_url)} from before",
                hints=("run the same command once without `--offline`, or make uv run: `uv --version`",),
                code="offline",
            )
        with tempfile.TemporaryDirectory(prefix="rocenv-") as folder:
            report = Path(folder, "report.json")
            outcome = self.run(
                *(python, "install", "--dry-run", "--ignore-installed", "--only-binary=:all:"),
                *(f"--report={report}", *_index(index_url), *([] if dependencies else ["--no-deps"])),
                *requirements,
            )
            if outcome.code:
                raise outcome.resolution_failure(requirements, index_url, python)
            entries = json.loads(report.read_text(encoding="utf-8"))["install"]
        return tuple(sorted((self._artifact(entry, python) for entry in entries), key=lambda each: each.name))

    def make_venv(self, venv: Path, python: Interpreter) -> None:
        """See `WheelTool`."""
        if venv.exists() and next(venv.iterdir(), None) is not None:
            raise PrefixError(f"cannot make the venv `{venv}`: it already exists", code="venv")
        copies = ["--copies"] if WINDOWS else []
        argv = [str(python.path), "-I", "-m", "venv", "--without-pip", *copies, str(venv)]
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=outer_environ(self.environ),
                encoding="utf-8",
                errors="replace",
                check=False,
            )
        except OSError as error:
            raise PrefixError(
                f"cannot make the venv `{venv}`: `{python.path}`: {error.strerror}", code="venv"
            ) from error
        if done.returncode:
            reason = (done.stdout.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            raise PrefixError(f"cannot make the venv `{venv}`: {reason}", code="venv")
        make_relocatable(venv)

    def install(
        self,
        venv: Path,
        python: Interpreter,
        pins: Mapping[str, str],
        places: Sequence[Path],
        anew: Sequence[str] = (),
    ) -> None:
        """See `WheelTool`. pip unpacks each wheel from the file itself: there is no cache to distrust."""
        wanted = [pins[project] for project in anew] if anew else list(pins.values())
        with tempfile.TemporaryDirectory(prefix="rocenv-") as folder:
            requirements = Path(folder, "requirements.txt")
            requirements.write_text("".join(f"{pin}\n" for pin in wanted), encoding="utf-8")
            outcome = self.run(
                *(python, "install", "--no-index", "--no-deps", "--only-binary=:all:", "--require-hashes"),
                *("--no-compile", "--no-warn-script-location", f"--requirement={requirements}"),
                *(f"--find-links={place}" for place in places),
                *(["--force-reinstall"] if anew else []),
                venv=venv,
            )
        outcome.require_installed()
        make_relocatable(venv)
        for left in site_packages(venv).glob("~*"):
            # What Windows did not let pip remove: a running program has it open.
            with contextlib.suppress(OSError):
                remove_tree(left)
            if left.exists():
                self.tell(f"`{left}` is still open in a running program; the next repair removes it")

    def run(self, python: Interpreter, *arguments: str, venv: Path | None = None) -> PipOutcome:
        """Run the pip of `python` to its end, on what is installed in `venv` or else in `python` itself."""
        environ = outer_environ(self.environ)
        environ |= {"PIP_CONFIG_FILE": os.devnull, "PYTHONUTF8": "1"}
        environ["SOURCE_DATE_EPOCH"] = _DATE_OF_LAUNCHERS
        with tempfile.TemporaryDirectory(prefix="rocenv-") as folder:
            log = Path(folder, "pip.log")
            common = [
                *("--isolated", "--no-input", "--no-color", "--disable-pip-version-check"),
                *(f"--cache-dir={self.cache}", f"--log={log}", *self._reaching()),
            ]
            lines = []
            with subprocess.Popen(
                [*_program(python, venv), *common, *arguments, "--progress-bar=off"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environ,
                encoding="utf-8",
                errors="replace",
            ) as child:
                for line in child.stdout or ():
                    lines.append(line)
                    # "  Downloading torch-2.5.1-….whl.metadata (28 kB)" is no wheel
                    if re.match(r"\s*Downloading \S+\.whl\b(?!\.metadata)", line):
                        self.tell(line.strip())
                code = child.wait()
            text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
            return PipOutcome(code=code, output="".join(lines), log=text)

    def _reaching(self) -> Iterator[str]:
        settings = pip_settings(self.environ)
        if bundle := self.environ.get("REQUESTS_CA_BUNDLE"):
            settings.setdefault("cert", bundle)  # what rocenv's own connections trust
        for name, option in _KEPT.items():
            if name in settings:
                yield f"--{option}={settings[name]}"

    def _artifact(self, entry: dict[str, Any], python: Interpreter) -> Artifact:
        from packaging.utils import canonicalize_name

        about, source = entry["metadata"], entry["download_info"]
        url = str(source["url"]).partition("#")[0]
        archive = source.get("archive_info", {})
        named = archive.get("hash", "").partition("sha256=")[2]  # so before pip 23.1
        sha256 = archive.get("hashes", {}).get("sha256", "") or named or self._hash_of(url, python)
        return Artifact(
            kind="wheel",
            name=canonicalize_name(about["name"]),
            version=about["version"],
            url=url,
            sha256=sha256,
            size_bytes=0,
        )

    def _hash_of(self, url: str, python: Interpreter) -> str:
        """Return the hash of a wheel that its index names none of; it is downloaded for that."""
        with tempfile.TemporaryDirectory(prefix="rocenv-") as folder:
            outcome = self.run(python, "download", "--no-deps", "--no-index", f"--dest={folder}", url)
            found = list(Path(folder).glob("*.whl"))
            if outcome.code or not found:
                raise FetchError(f"the index names no sha256 for {url}: {outcome.reason}")
            digest = hashlib.sha256()
            with found[0].open("rb") as stream:
                while data := stream.read(1 << 20):
                    digest.update(data)
            return digest.hexdigest()


def _index(url: str) -> list[str]:
    return [f"--index-url={url}"] if url else []


def _program(python: Interpreter, venv: Path | None) -> list[str]:
    """Return what starts the newest pip that belongs to `python`."""
    bundled = python.pip_wheel.name.split("-")[1] if python.pip_wheel is not None else ""
    newest = max(_release(python.pip), _release(bundled))
    if newest < _OLDEST:
        there = python.pip or bundled
        raise RocenvError(
            f"the Python at `{python.path}` has {f'pip {there}, which is too old' if there else 'no pip'}",
            hints=(f'"{python.path}" -m pip install --upgrade pip', "or make uv run: `uv --version`"),
            code="pip-missing",
        )
    start = ["-I", "-X", "utf8"]
    if _release(python.pip) == newest:
        target = [f"--python={python_of(venv)}"] if venv else []
        return [str(python.path), *start, "-m", "pip", *target]
    program = python_of(venv) if venv else python.path
    return [str(program), *start, "-c", _FROM_WHEEL, str(python.pip_wheel)]


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
