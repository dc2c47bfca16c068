"""Minimal envs for the `launch` tests, and a terminal to run `launch` in."""

from __future__ import annotations

import fcntl
import hashlib
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocenv.core.model import (
    VENV,
    Artifact,
    Component,
    EnvChange,
    FileEntry,
    Layout,
    Lock,
    Record,
    Request,
    ShimFile,
    Shims,
    venv_layout,
)
from rocenv.prefix import Prefix
from tests import forked, shipped
from tests.host.roots import Root

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TARGET = "gfx1031"
SHIMS = Shims(
    runtime=("amdhip64_6.dll",),
    driver=("nvcuda.dll",),
    behind=("rocblas.dll",),
    files=(ShimFile(file="cublas.dll", stands_for="cublas64_11.dll"),),
)
BUILD_FILES = ("zluda/nvcuda.dll", "zluda/cublas.dll", "zluda/cublas64_11.dll", "rocm/6.1/bin/rocblas.dll")


def component(kind: Any, version: str, channel: str, *, asset: str = "", **more: Any) -> Component:
    """Return a component of a set."""
    files = (Artifact(kind="archive", name=asset, version=version, url="", sha256="", size_bytes=0),)
    if kind == "torch":
        more = {"into": VENV, "layout": venv_layout("3.11", "linux"), **more}
    return Component(
        kind=kind,
        name=kind,
        version=version,
        channel=channel,
        why="",
        artifacts=files if asset else (),
        **more,
    )


def zluda_parts(sdk: str = "6.1.2", build: str = "3.8.3", asset: str = "rocm6") -> tuple[Component, ...]:
    """Return the components of a ZLUDA set, by default the one from incident 3414."""
    root = f"rocm/{sdk[:3]}"
    layout = Layout(root=root, library_dirs=(f"{root}/bin",), libraries={}, bin=f"{root}/bin")
    return (
        component("rocm", sdk, "hip-sdk", into=root, layout=layout),
        component(
            "zluda",
            build,
            "lshqqytiger",
            asset=f"ZLUDA-windows-{asset}-amd64.zip".replace("--", "-"),
            into="zluda",
            shims=SHIMS,
        ),
        component(
            "torch", "2.3.0+cu118", "cu118", python="3.10.11", layout=venv_layout("3.10.11", "windows")
        ),
    )


@dataclass
class Lab:
    """A separate ROCENV_HOME; `env` is the environment for commands that `run` starts."""

    root: Path
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Set up a Windows machine with the GPU from incident 3414."""
        machine = Root(self.root / "machine")
        machine.put("windows/hipinfo.txt", hipinfo((TARGET, "AMD Radeon RX 6750 XT", 0)))
        machine.put("windows/video_controllers.json", "[]")
        self.app.mkdir(parents=True)
        shipped.put_into(self.root / "home")
        self.env = {
            "HOME": str(self.root),
            "LC_ALL": "C.UTF-8",
            "PATH": os.environ.get("PATH", os.defpath),
            "ROCENV_HOME": str(self.root / "home"),
            "ROCENV_SYSROOT": str(machine.path),
            "PYTHONPATH": str(Path(__file__).parents[2] / "src"),
            "TERM": "xterm",
        }

    @property
    def app(self) -> Path:
        """The app's folder, in which commands run."""
        return self.root / "app"

    def prefix(self, name: str = "sd") -> Prefix:
        return Prefix(self.root / "home" / "envs" / name)

    def make(
        self,
        name: str = "sd",
        parts: tuple[Component, ...] = (),
        *,
        platform: str = "windows",
        target: str = TARGET,
        changes: tuple[EnvChange, ...] = (),
        files: Sequence[str] = (),
        in_torch: bool = False,
        request: Request = Request(),  # noqa: B008 - it is frozen
    ) -> Prefix:
        """Create a complete env with these files, each of which contains its own path."""
        prefix = self.prefix(name)
        entries = {}
        for path in files:
            (prefix.path / path).parent.mkdir(parents=True, exist_ok=True)
            (prefix.path / path).write_text(path)
            entries[path] = FileEntry(sha256=hashlib.sha256(path.encode()).hexdigest(), size_bytes=len(path))
        prefix.own.mkdir(parents=True, exist_ok=True)
        (prefix.path / "cache").mkdir(exist_ok=True)
        lock = Lock(request=request, platform=platform, target=target, components=parts, environment=changes)
        python = prefix.path / lock.python
        python.parent.mkdir(parents=True)
        python.symlink_to(sys.executable)
        record = Record(
            name=name,
            created="2026-11-20T00:00:00+00:00",
            rocenv_version="1",
            lock=lock,
            shims_in_torch=in_torch,
        )
        prefix.write_record(record, entries)
        return prefix

    def make_zluda(self, name: str = "sd", **more: Any) -> Prefix:
        """Create a ZLUDA env, as `create` does."""
        changes = (
            EnvChange(action="set", name="ZLUDA", value="{prefix}/zluda"),
            EnvChange(action="prepend", name="PATH", value="{prefix}/zluda"),
            EnvChange(action="set", name="HIP_PATH", value="{prefix}/rocm/6.1/"),
        )
        options: dict[str, Any] = {"parts": zluda_parts(), "changes": changes, "files": BUILD_FILES}
        return self.make(name, **(options | more))

    def run(
        self, *argv: str, environ: Mapping[str, str] | None = None, **more: Any
    ) -> subprocess.CompletedProcess[bytes]:
        """Run `rocenv` in the app's folder, without a terminal."""
        if not more:
            return forked.run(argv, env={**self.env, **(environ or {})}, cwd=self.app)
        options: dict[str, Any] = {"capture_output": True, "stdin": subprocess.DEVNULL, "timeout": 60}
        return subprocess.run(
            [sys.executable, "-m", "rocenv", *argv],
            env={**self.env, **(environ or {})},
            cwd=self.app,
            **(options | more),
        )

    def logs(self, name: str = "sd") -> list[Path]:
        """Return an env's logs, oldest first."""
        return sorted((self.prefix(name).path / "logs").glob("*.log"), key=lambda path: path.stat().st_mtime)

    def log(self, name: str = "sd") -> bytes:
        """Return the contents of an env's newest log."""
        return self.logs(name)[-1].read_bytes()

    def terminal(self, *argv: str, rows: int = 40, columns: int = 133) -> Terminal:
        """Start `rocenv` in its own terminal."""
        return Terminal.start([sys.executable, "-m", "rocenv", *argv], self.env, self.app, (rows, columns))


def english_lines(text: str) -> list[str]:
    """Return the lines that contain no Chinese characters."""
    return [line for line in text.splitlines() if line and not re.search("[一-龥]", line)]


def hipinfo(*gpus: tuple[str, str, int]) -> str:
    """Return what `hipInfo` prints for these GPUs: (target, name, 1 for an iGPU)."""
    return "".join(
        f"device#{number}\nName: {name}\ngcnArchName: {target}\nisIntegrated: {integrated}\n"
        for number, (target, name, integrated) in enumerate(gpus)
    )


@dataclass
class Terminal:
    """A program in a terminal, as users run it."""

    pid: int
    descriptor: int
    shown: bytes = b""

    @classmethod
    def start(cls, argv: list[str], env: dict[str, str], folder: Path, size: tuple[int, int]) -> Terminal:
        """Start a program in a new terminal, as the session leader."""
        pid, descriptor = pty.fork()
        if pid == 0:
            os.chdir(folder)
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
            os.execve(argv[0], argv, env)
        return cls(pid, descriptor)

    def wait_for(self, text: bytes, timeout_s: float = 30) -> None:
        """Read output until `text` appears."""
        end = time.monotonic() + timeout_s
        while text not in self.shown:
            assert time.monotonic() < end, self.shown
            self._read(0.2)

    def type(self, data: bytes) -> None:
        os.write(self.descriptor, data)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def end(self, timeout_s: float = 30) -> int:
        """Read to the end and return the exit code."""
        end = time.monotonic() + timeout_s
        while self._read(0.2):
            assert time.monotonic() < end, self.shown
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.descriptor)
        return code

    def _read(self, timeout_s: float) -> bool:
        if not select.select([self.descriptor], [], [], timeout_s)[0]:
            return True
        try:
            data = os.read(self.descriptor, 1 << 16)
        except OSError:
            return False
        self.shown += data
        return bool(data)
