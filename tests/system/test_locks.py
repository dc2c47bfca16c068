"""Locks between processes: permissions, waiting, and files that are not locks."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest

from rocenv.core.errors import PrefixError
from rocenv.system.locks import locked
from tests.users import missing

if TYPE_CHECKING:
    from collections.abc import Iterator

HOLD = """
import sys, time, pathlib
sys.argv[1:1] = {words!r}
from rocenv.system.locks import locked
with locked(pathlib.Path({path!r}), shared={shared!r}):
    print("held", flush=True)
    time.sleep(60)
"""


WAIT = """
import pathlib
from rocenv.system import locks
locks._LONG_S = {long_s}
with locks.locked(pathlib.Path({path!r}), waiting={waiting!r}):
    pass
"""


@contextlib.contextmanager
def holder(path: Path, *, shared: bool = False, words: tuple[str, ...] = ()) -> Iterator[int]:
    code = HOLD.format(path=str(path), shared=shared, words=list(words))
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        yield child.pid
    finally:
        child.kill()
        child.wait()
        child.stdout.close()  # type: ignore[union-attr]


@contextlib.contextmanager
def waiter(path: Path, *, long_s: float = 0.1, waiting: str = "") -> Iterator[IO[str]]:
    """Yield the stderr of a process that waits for a lock for up to 30 s."""
    code = WAIT.format(path=str(path), long_s=long_s, waiting=waiting)
    child = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    timer = threading.Timer(30, child.kill)
    timer.start()
    try:
        assert child.stderr is not None
        yield child.stderr
    finally:
        timer.cancel()
        child.kill()
        child.wait()
        child.stderr.close()  # type: ignore[union-attr]


@pytest.mark.parametrize("umask", [0o022, 0o002, 0o000, 0o077])
def test_only_users_with_write_access_can_open_a_lock(tmp_path: Path, umask: int) -> None:
    path = tmp_path / "home" / "locks" / "one.lock"
    before = os.umask(umask)
    try:
        with locked(path):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
    finally:
        os.umask(before)
    for folder in (path.parent, path.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_lock_file_from_an_older_version_becomes_private(tmp_path: Path) -> None:
    path = tmp_path / "one.lock"
    path.touch()
    path.chmod(0o644)
    with locked(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_group_can_lock_its_shared_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o2770)
    path = home / "locks" / "one.lock"
    with locked(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
    assert stat.S_IMODE(path.parent.stat().st_mode) & 0o777 == 0o770


def test_a_user_with_only_read_access_cannot_block_others() -> None:
    if os.geteuid() != 0:
        missing("only root can become another user")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "locks", "one.lock")
        with locked(path):
            pass
        for each in (path.parent, path.parent.parent):
            each.chmod(0o755)  # older versions created lock files with this mode
        for program in ("cat", "ls"):
            done = subprocess.run(
                [f"/bin/{program}", str(path)], user=65534, group=65534, extra_groups=(), cwd="/", check=False
            )
            assert (done.returncode == 0) == (program == "ls"), program


def test_a_link_in_place_of_a_lock_file_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    path = tmp_path / "one.lock"
    for place in (target, tmp_path / "new"):
        path.symlink_to(place)
        with pytest.raises(PrefixError, match="rocenv cannot lock it") as caught, locked(path):
            pass
        assert caught.value.hints == (f"remove `{path}`",)
        path.unlink()
    assert target.read_text() == "precious"
    assert not (tmp_path / "new").exists()
    os.mkfifo(path)
    with pytest.raises(PrefixError, match="rocenv cannot lock it"), locked(path):
        pass


class TestLongWait:
    def test_the_waiting_message_shows_the_holder(self, tmp_path: Path) -> None:
        path = tmp_path / "one.lock"
        words = ("create", "demo", "--secret")
        with holder(path, words=words) as pid, waiter(path, waiting="waiting for another rocenv") as said:
            assert said.readline() == "waiting for another rocenv\n"
            assert said.readline().startswith(
                f"still waiting for `rocenv create` (process {pid}), which has held `{path}`"
            )
            assert "--secret" not in path.read_text()

    def test_nothing_more_is_printed_if_the_wait_ends_early(self, tmp_path: Path) -> None:
        path = tmp_path / "one.lock"
        with contextlib.ExitStack() as stack:
            stack.enter_context(holder(path))
            with waiter(path, long_s=20, waiting="it waits") as said:
                assert said.readline() == "it waits\n"
                stack.close()
                assert said.read() == ""

    def test_the_waiting_message_lists_shared_holders_but_not_a_killed_one(self, tmp_path: Path) -> None:
        path = tmp_path / "one.lock"
        with holder(path, words=("create",)):
            pass  # killed
        with holder(path, shared=True) as first, holder(path, shared=True) as second, waiter(path) as said:
            line = said.readline()
        if sys.platform == "linux":
            named = re.fullmatch(rf"still waiting for processes (\d+), (\d+), which hold `{path}`\n", line)
            assert named is not None
            assert {int(pid) for pid in named.groups()} == {first, second}
        else:
            assert line == f"still waiting for another process, which holds `{path}`\n"

    @pytest.mark.parametrize("content", [b" \x00\xff\x1b[31m", b" 9999999999 1 a\n"], ids=["garbage", "pid"])
    def test_the_lock_file_can_contain_anything(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "one.lock"
        with holder(path, shared=True) as pid:
            path.write_bytes(content)
            with waiter(path) as said:
                who = f"process {pid}" if sys.platform == "linux" else "another process"
                assert said.readline() == f"still waiting for {who}, which holds `{path}`\n"

    def test_the_waiting_message_says_how_long_the_lock_has_been_held(self, tmp_path: Path) -> None:
        path = tmp_path / "one.lock"
        with holder(path, shared=True):
            path.write_text(f" {os.getpid()} {time.time() - 605:.0f} gc\n")
            with waiter(path) as said:
                who = f"`rocenv gc` (process {os.getpid()}), which has held `{path}` for 10 min"
                assert who in said.readline()


def test_the_holder_leaves_no_files_behind(tmp_path: Path) -> None:
    path = tmp_path / "one.lock"
    with locked(path):
        assert path.read_text().startswith(f" {os.getpid()} ")
    assert path.read_text() == ""
