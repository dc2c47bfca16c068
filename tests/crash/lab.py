"""Kill real commands at chosen points in a home, then check invariants."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.stores import manifest_in

if TYPE_CHECKING:
    from tests.mini import Mini

KILLER = Path(__file__).parent / "killer"


@dataclass
class Lab:
    """The simulated machine, with a home that is restored before each attempt."""

    mini: Mini

    def keep(self) -> None:
        """Save the home for `put_back`; hard links stay hard links."""
        self.mini.home.mkdir(exist_ok=True)
        subprocess.run(["cp", "-a", str(self.mini.home), str(self._kept)], check=True, timeout=30)

    def put_back(self) -> None:
        shutil.rmtree(self.mini.home, ignore_errors=True)
        if self._kept.exists():
            subprocess.run(["cp", "-a", str(self._kept), str(self.mini.home)], check=True, timeout=30)

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return self.mini.run(*argv)

    def changes(self, *argv: str) -> list[str]:
        """Run a command to completion; return its changes to the disk in order."""
        log = self.mini.root / "log"
        log.unlink(missing_ok=True)
        done = self._run_watched(*argv, KILL_LOG=str(log))
        assert done.returncode == 0, done.stderr
        return log.read_text().splitlines()

    def killed_at(self, number: int, *argv: str) -> bool:
        """Run a command and kill it at its `number`-th change; return whether it got that far."""
        done = self._run_watched(*argv, KILL_AT=str(number))
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        return done.returncode != 0

    def states(self) -> dict[str, str]:
        """Return the state of each env that `list` reports, after checking the files in complete ones."""
        done = self.run("list", "--json")
        assert done.returncode == 0, done.stderr
        states = {env["name"]: env["state"] for env in json.loads(done.stdout)["envs"]}
        for name, state in states.items():
            if state == "complete":
                self.require_whole(name)
        return states

    def require_whole(self, name: str) -> None:
        """Fail unless all of the env's files exist and its scripts use its location."""
        done = self.run("verify", name, "--upto", "files")
        assert done.returncode == 0, done.stdout + done.stderr
        script = '. "$1/activate" && [ "$ROCM_PATH" = "$1/rocm/usr" ] && hipconfig'
        place = str(self.mini.prefix(name))
        shell = subprocess.run(
            ["sh", "-c", script, "sh", place], env=self.mini.env, capture_output=True, timeout=20
        )
        assert shell.returncode == 0, shell.stderr

    def require_whole_store(self) -> None:
        """Fail unless every artifact in the store matches its manifest."""
        store = self.mini.home / "store"
        for place in store.iterdir() if store.exists() else []:
            if place.name != ".staging":
                assert tree(place / "tree") == manifest(place), place

    def envs(self) -> dict[str, Any]:
        """Return the contents of `envs`, except creation times."""
        found = tree(self.mini.home / "envs")
        for name in [name for name in found if name.endswith("/.rocenv/record.json")]:
            record = json.loads((self.mini.home / "envs" / name).read_text())
            found[name] = {key: value for key, value in record.items() if key != "created"}
        return {name: what for name, what in found.items() if not name.endswith("verified.json")}

    @property
    def _kept(self) -> Path:
        return self.mini.root / "kept"

    def _run_watched(self, *argv: str, **settings: str) -> subprocess.CompletedProcess[str]:
        settings |= {"PYTHONPATH": str(KILLER), "KILL_BELOW": str(self.mini.home)}
        return self.mini.run(*argv, timeout_s=60, **settings)


def tree(place: Path) -> dict[str, Any]:
    """Map the path of each file and link below a folder to its contents."""
    found: dict[str, Any] = {}
    for path in sorted(place.rglob("*")):
        info = path.lstat()
        name = str(path.relative_to(place))
        if stat.S_ISLNK(info.st_mode):
            found[name] = os.readlink(path)
        elif stat.S_ISREG(info.st_mode):
            sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
            found[name] = (sha256, bool(info.st_mode & stat.S_IXUSR))
    return found


def manifest(place: Path) -> dict[str, Any]:
    """Return the manifest for an artifact in the store, in the format that `tree` returns."""
    files = manifest_in(place)
    return {
        name: entry.get("link") or (entry["sha256"], entry.get("executable", False))
        for name, entry in sorted(files.items())
    }


def spread(total: int, points: int, share: int, shares: int) -> list[int]:
    """Spread `points` numbers evenly over 1..total; return every `shares`-th, starting at index `share`."""
    points = min(points, total)
    numbers = [1 + (total - 1) * point // max(1, points - 1) for point in range(points)]
    return numbers[share::shares]
