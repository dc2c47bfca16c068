"""Checks of the folders in which programs keep compiled kernels."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from rocenv.doctor.checks import caches

if TYPE_CHECKING:
    from pathlib import Path

    from tests.doctor.scenery import Scenery

fcntl = pytest.importorskip("fcntl")  # locks as Linux has them

LOCAL = "21 1 8:2 / / rw - ext4 /dev/sda2 rw\n"


@pytest.fixture
def live(scenery: Scenery, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """This very machine, with a home of its own: what is tried is tried."""
    monkeypatch.delenv("ROCENV_SYSROOT")
    home = tmp_path / "user"
    home.mkdir()
    scenery.environ["HOME"] = str(home)
    scenery.elsewhere = False
    return home


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs"])
def test_a_home_on_a_share(scenery: Scenery, kind: str) -> None:
    mount = f"30 21 0:50 / /home rw - {kind} server:/export rw\n"
    scenery.healthy().root.put("proc/self/mountinfo", LOCAL + mount)
    finding = scenery.sees("cache_on_network")
    assert finding is not None and finding.code == "cache-dir-not-writable-or-nfs" and kind in finding.title
    assert finding.evidence[0].startswith("~/.cache: /home/user/.cache")
    assert "server" not in " ".join(finding.evidence)


def test_caches_that_variables_keep_off_the_share(scenery: Scenery) -> None:
    mount = "30 21 0:50 / /home rw - nfs4 server:/export rw\n"
    scenery.healthy().root.put("proc/self/mountinfo", LOCAL + mount)
    scenery.environ.update(XDG_CACHE_HOME="/var/tmp/user", MIOPEN_USER_DB_PATH="/var/tmp/user/miopen")
    assert scenery.sees("cache_on_network") is None
    scenery.environ["TORCH_HOME"] = "/home/user/torch"
    finding = scenery.sees("cache_on_network")
    assert finding is not None and finding.evidence == ("TORCH_HOME: /home/user/torch (nfs4)",)


def test_a_cache_that_cannot_be_written(scenery: Scenery, live: Path) -> None:
    scenery.environ["MIOPEN_USER_DB_PATH"] = "/proc/nowhere"
    finding = scenery.sees("cache_read_only")
    assert finding is not None and "/proc/nowhere" in finding.detail
    assert finding.commands == ("export MIOPEN_USER_DB_PATH=/var/tmp/$USER/rocm-cache",)
    assert scenery.sees("cache_without_locks") is None, "one trouble is told once"


def test_a_file_in_the_place_of_the_usual_cache(scenery: Scenery, live: Path) -> None:
    (live / ".cache").touch()
    finding = scenery.sees("cache_read_only")
    assert finding is not None and finding.evidence == (f"~/.cache: {live}/.cache",)


@pytest.mark.parametrize("way", ["lockf", "flock"])
def test_a_cache_without_locks(
    scenery: Scenery, live: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    def refused(*_args: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, way, refused)
    finding = scenery.sees("cache_without_locks")
    assert finding is not None and os.strerror(errno.ENOLCK) in finding.detail


def test_good_caches_are_silent_and_nothing_is_left_behind(scenery: Scenery, live: Path) -> None:
    (live / ".cache").mkdir()
    for check in ("cache_read_only", "cache_without_locks"):
        assert scenery.sees(check) is None
    assert list(live.iterdir()) == [live / ".cache"] and not any((live / ".cache").iterdir())


def test_of_a_copy_nothing_is_tried(scenery: Scenery, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(_folder: Path) -> bool:
        raise AssertionError

    monkeypatch.setattr(caches, "_written", forbidden)
    scenery.healthy()
    assert scenery.sees("cache_read_only") is None and scenery.sees("cache_without_locks") is None
