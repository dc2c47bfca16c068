"""The lab, a mirror on loopback, and a ROCENV_HOME, shared by all tests in the lane."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.loopback import Loopback
from tests.windows.lab import Done, Lab, Step, windows
from tests.windows.mirror import Mirror
from tests.windows.standin_compiler import Workshop

if TYPE_CHECKING:
    from collections.abc import Iterator

_RULE = "─" * 100


@dataclass
class Lane:
    """A Windows machine with a fake Radeon card, and a mirror of everything it downloads."""

    lab: Lab
    server: Loopback
    mirror: Mirror
    folder: Path  # for temporary files on the Linux side
    home: Path
    urls: dict[str, str] = field(default_factory=dict)

    @property
    def environ(self) -> dict[str, str]:
        """Variables for every command, in addition to the machine's."""
        return {
            "ROCENV_HOME": r"C:\rocenv",
            "ROCENV_TARGET": "gfx1031",
            "ROCENV_STANDIN_TARGET": "gfx1031",
            # The server is not a proxy, so connections to other machines fail.
            "https_proxy": self.server.url,
            "no_proxy": "127.0.0.1",
        }

    def rocenv(self, *commands: list[str], **env: str) -> list[Done]:
        """Run rocenv commands one after another, and print what a user would see."""
        steps = [Step([self.lab.rocenv, *command], env=self.environ | env) for command in commands]
        return self.run(*steps)

    def run(self, *steps: Step) -> list[Done]:
        """Run programs one after another, and print what a user would see."""
        full = [Step(s.argv, self.environ | dict(s.env or {}), s.cwd, s.timeout_s) for s in steps]
        found = self.lab.run(*full)
        for step, done in zip(full, found, strict=True):
            show(step, done)
        return found

    def forget(self, url: str) -> None:
        """Delete a download and its recorded hash."""
        path = self.home / "pins.json"
        pins = json.loads(path.read_text())
        pin = pins["pins"].pop(url, None)
        path.write_text(json.dumps(pins))
        if pin:
            (self.home / "cache/artifacts" / pin["sha256"]).unlink(missing_ok=True)
            _remove(self.home / "store" / pin["sha256"])

    @contextlib.contextmanager
    def serving(self, url: str, data: bytes) -> Iterator[None]:
        """Serve different bytes at a URL within a `with` block, after deleting earlier downloads of it."""
        place = self.mirror.place(url)
        good = place.read_bytes()
        self.forget(url)
        place.write_bytes(data)
        try:
            yield
        finally:
            place.write_bytes(good)
            self.forget(url)

    def prefix(self, name: str) -> Path:
        """Return the Linux path of an env."""
        return self.home / "envs" / name

    def python(self, name: str) -> str:
        """Return the Windows path of an env's Python."""
        return rf"C:\rocenv\envs\{name}\venv\Scripts\python.exe"


def show(step: Step, done: Done) -> None:
    """Print a command and its result."""
    words = [Path(str(step.argv[0]).replace("\\", "/")).stem, *map(str, step.argv[1:])]
    lines = [f"C:\\> {' '.join(words)}", *done.text.rstrip().splitlines()]
    if done.code:
        lines.append(f"(exit code {done.code & 0xFFFFFFFF:#x})")
    lines.append(f"({done.took_s:.1f} s)")
    sys.stderr.write("\n".join(f"  │ {line}" for line in lines) + "\n")


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    lab = Lab()
    lab.make()
    with lab.running():
        yield lab


@pytest.fixture(scope="session")
def lane(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lane]:
    workshop = Workshop(lab.folder / "standins")
    root = tmp_path_factory.mktemp("mirror")
    home = lab.wine / "drive_c" / "rocenv"
    for old in (home, lab.wine / "drive_c" / "Program Files" / "AMD"):
        _remove(old)
    with Loopback(folder=root) as server:
        mirror = Mirror(root, server, workshop)
        lane = Lane(lab=lab, server=server, mirror=mirror, folder=tmp_path_factory.mktemp("lane"), home=home)
        lane.urls["sdk"] = mirror.add_installer("5.7.1")
        lane.urls["zluda"] = mirror.add_zluda("3.9.5", "rocm5")
        lane.urls["pack"] = mirror.add_pack("5.7", "gfx1031")[0]
        lane.urls["torch"] = mirror.add_torch()
        mirror.add_torch("2.2.1+cu118")
        mirror.add_zluda("3.9.4", "rocm5")
        mirror.add_torch("2.6.0+cu118")
        lane.urls["sdk 6.1"] = mirror.add_installer("6.1.2")
        lane.urls["zluda 3.8.3"] = mirror.add_zluda("3.8.3", "rocm6")
        lane.urls["zluda 3.8.4"] = mirror.add_zluda("3.8.4", "rocm6")
        mirror.add_pack("6.1.2", "gfx1031")
        mirror.write_config(home)
        yield lane


@pytest.fixture(autouse=True)
def _headline(request: pytest.FixtureRequest) -> None:
    """Print the first line of the docstring before the output of each test."""
    text = (request.node.obj.__doc__ or request.node.name).strip().splitlines()[0]
    sys.stderr.write(f"\n{_RULE}\n{text}\n")


def _remove(folder: Path) -> None:
    """Remove an earlier run's folder, including read-only subfolders."""
    for path in folder.rglob("*") if folder.exists() else ():
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    shutil.rmtree(folder, ignore_errors=True)


def answer(done: Done) -> Any:
    """Parse the JSON document that a command printed."""
    return json.loads(done.out)


__all__ = ["Lane", "answer", "windows"]
