"""Checks on the folders where programs cache compiled kernels."""

from __future__ import annotations

import errno
import os
import sqlite3
from typing import TYPE_CHECKING

import pytest

from rocenv.checks import caches
from rocenv.checks.caches import miopen_database_damaged

if TYPE_CHECKING:
    from pathlib import Path

    from tests.checks.scenery import Scenery

fcntl = pytest.importorskip("fcntl")  # Linux file locks

LOCAL = "21 1 8:2 / / rw - ext4 /dev/sda2 rw\n"


@pytest.fixture
def live(scenery: Scenery, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """This machine with a temporary home, in which checks really write and lock files."""
    monkeypatch.delenv("ROCENV_SYSROOT")
    home = tmp_path / "user"
    home.mkdir()
    scenery.environ["HOME"] = str(home)
    scenery.elsewhere = False
    return home


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs"])
def test_a_home_on_a_network_filesystem_is_reported(scenery: Scenery, kind: str) -> None:
    mount = f"30 21 0:50 / /home rw - {kind} server:/export rw\n"
    scenery.healthy().root.put("proc/self/mountinfo", LOCAL + mount)
    finding = scenery.sees("cache_on_network")
    assert finding is not None and finding.code == "cache-dir-not-writable-or-nfs" and kind in finding.title
    assert finding.evidence[0].startswith("~/.cache: /home/user/.cache")
    assert "server" not in " ".join(finding.evidence)


def test_caches_that_variables_move_off_the_network_are_fine(scenery: Scenery) -> None:
    mount = "30 21 0:50 / /home rw - nfs4 server:/export rw\n"
    scenery.healthy().root.put("proc/self/mountinfo", LOCAL + mount)
    scenery.environ.update(XDG_CACHE_HOME="/var/tmp/user", MIOPEN_USER_DB_PATH="/var/tmp/user/miopen")
    assert scenery.sees("cache_on_network") is None
    scenery.environ["TORCH_HOME"] = "/home/user/torch"
    finding = scenery.sees("cache_on_network")
    assert finding is not None and finding.evidence == ("TORCH_HOME: /home/user/torch (nfs4)",)


def test_a_read_only_cache_is_reported(scenery: Scenery, live: Path) -> None:
    scenery.environ["MIOPEN_USER_DB_PATH"] = "/proc/nowhere"
    finding = scenery.sees("cache_read_only")
    assert finding is not None and "/proc/nowhere" in finding.detail
    assert finding.commands == ("export MIOPEN_USER_DB_PATH=/var/tmp/$USER/rocm-cache",)
    assert scenery.sees("cache_without_locks") is None, "each problem is reported once"


def test_a_file_at_the_path_of_the_default_cache_is_reported(scenery: Scenery, live: Path) -> None:
    (live / ".cache").touch()
    finding = scenery.sees("cache_read_only")
    assert finding is not None and finding.evidence == (f"~/.cache: {live}/.cache",)
    assert finding.commands == ("sudo chown -R $USER ~/.cache",)


@pytest.mark.skipif(os.geteuid() != 0, reason="switches to another user")
def test_an_inaccessible_cache_folder_is_reported(scenery: Scenery, live: Path) -> None:
    (live / ".config").mkdir(mode=0)
    for parent in (live, *live.parents[:-2]):
        parent.chmod(0o755)
    os.chown(live, 65534, -1)
    os.chown(live / ".config", 65534, -1)
    os.seteuid(65534)
    try:
        finding = scenery.sees("cache_read_only")
        assert scenery.sees("cache_without_locks") is None
        assert scenery.sees("miopen_database_damaged") is None
    finally:
        os.seteuid(0)
    assert finding is not None and f"{live}/.config`" in finding.detail
    assert finding.commands == ("sudo chown -R $USER ~/.config", "chmod u+rwx ~/.config")


@pytest.mark.parametrize("way", ["lockf", "flock"])
def test_a_cache_without_file_locking_is_reported(
    scenery: Scenery, live: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    def refused(*_args: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, way, refused)
    finding = scenery.sees("cache_without_locks")
    assert finding is not None and os.strerror(errno.ENOLCK) in finding.detail


def test_checking_good_caches_reports_nothing_and_leaves_no_files(scenery: Scenery, live: Path) -> None:
    (live / ".cache").mkdir()
    for check in ("cache_read_only", "cache_without_locks"):
        assert scenery.sees(check) is None
    assert list(live.iterdir()) == [live / ".cache"] and not any((live / ".cache").iterdir())


def test_checks_do_not_write_or_lock_files_on_a_snapshot(
    scenery: Scenery, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(_folder: Path) -> bool:
        raise AssertionError

    monkeypatch.setattr(caches, "_can_write", forbidden)
    scenery.healthy()
    assert scenery.sees("cache_read_only") is None and scenery.sees("cache_without_locks") is None


@pytest.mark.parametrize("point", ["/mnt/x\\\\x", r"/mnt/\134x41", "/mnt/a\\040b", "/mnt/\u76d8", "/mnt/\\x"])
def test_mount_points_with_odd_names_are_parsed(scenery: Scenery, point: str) -> None:
    strange = f"29 21 8:3 / {point} rw - ext4 /dev/sda3 rw\n"
    mount = "30 21 0:50 / /home rw - nfs4 server:/export rw\n"
    scenery.healthy().root.put("proc/self/mountinfo", LOCAL + strange + mount)
    assert scenery.sees("cache_on_network") is not None


def test_a_network_mount_with_spaces_is_recognized(scenery: Scenery) -> None:
    mount = "30 21 0:50 / /mnt/my\\040\\347\\233\\230 rw - cifs //server/x rw\n"
    scenery.healthy().root.put("proc/self/mountinfo", LOCAL + mount)
    scenery.environ["XDG_CACHE_HOME"] = "/mnt/my \u76d8/cache"
    assert scenery.sees("cache_on_network") is not None


@pytest.fixture
def dead(live: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A network mount that does not respond; a check that touches it fails the test."""
    share = live / "share"
    share.mkdir()
    listed = LOCAL + f"30 21 0:50 / {share} rw - nfs4 server:/export rw\n"
    monkeypatch.setattr(caches, "read_text", lambda _path: listed)
    for module, name in ((os, "stat"), (os, "lstat"), (os, "scandir"), (os, "readlink"), (os, "listdir")):
        real = getattr(module, name)

        def guarded(path: object = ".", *more: object, real: object = real, **options: object) -> object:
            assert not str(path).startswith(str(share)), f"{path} is asked for"
            return real(path, *more, **options)  # type: ignore[operator]

        monkeypatch.setattr(module, name, guarded)
    return share


@pytest.mark.parametrize("linked", [False, True])
def test_a_dead_network_mount_is_not_touched(
    scenery: Scenery, live: Path, dead: Path, monkeypatch: pytest.MonkeyPatch, linked: bool
) -> None:
    monkeypatch.setattr(caches, "_can_write", lambda folder: not str(folder).startswith(str(dead)))
    folder = live / "link" if linked else dead
    if linked:
        folder.symlink_to("share")
    scenery.environ.update(XDG_CACHE_HOME=f"{folder}/cache", MIOPEN_USER_DB_PATH=f"{folder}/miopen")
    finding = scenery.sees("cache_on_network")
    assert finding is not None and len(finding.evidence) == 2
    for check in ("cache_read_only", "cache_without_locks", "miopen_database_damaged"):
        assert scenery.sees(check) is None


def test_checking_a_database_does_not_block_writers(
    scenery: Scenery, live: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = live / ".config/miopen/gfx1100.ukdb"
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE kern_db (name TEXT)")
    database.close()
    real, opened = sqlite3.connect, []

    def connect(name: str, **more: object) -> sqlite3.Connection:
        opened.append(name)
        return real(name, **more)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(sqlite3, "connect", connect)
    assert miopen_database_damaged(scenery.context()) is None
    assert len(opened) == 1 and "immutable=1" in opened[0]


def test_a_database_that_a_program_has_open_is_skipped(scenery: Scenery, live: Path) -> None:
    path = live / ".config/miopen/gfx1100.ukdb"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 8192)
    assert scenery.sees("miopen_database_damaged") is not None
    with path.open("rb"):
        assert scenery.sees("miopen_database_damaged") is None
