"""Locks between processes.

Anyone who can open a lock file can take the lock, so rocenv lets only users with write access to its folder
open it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.core.errors import PrefixError
from rocenv.system import WINDOWS
from rocenv.system.private import make_closed, open_own

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONG_S = 1.0
_PAUSE_S = 0.05
_HOLDER = re.compile(rb"([0-9]{1,10}) ([0-9]{1,12}) ([a-z-]{1,30})\n")
_VERB = re.compile(r"[a-z-]{1,30}")


@contextlib.contextmanager
def locked(path: Path, *, shared: bool = False, waiting: str = "") -> Iterator[None]:
    """Hold an interprocess lock; the kernel releases it when the process ends, even if it is killed.

    After waiting for one second, report the holders on stderr.

    Args:
        path: The lock file. It is created if missing, and never removed, because removing it would cause a
            race.
        shared: Allow other shared holders (on Windows every lock is exclusive).
        waiting: A message for stderr, printed once if another process holds the lock.

    Raises:
        PrefixError: The lock file is a link, or the filesystem does not support locks.
    """
    make_closed(path.parent)
    descriptor = _open(path)
    try:
        _wait(path, descriptor, shared, waiting)
        try:
            if not shared:
                _record_holder(descriptor)
            yield
        finally:
            if not shared:
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, 0)
            _unlock(descriptor)
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    mode = 0o660 if path.parent.stat().st_mode & stat.S_IWGRP else 0o600
    try:
        descriptor = open_own(path, os.O_RDWR | os.O_CREAT, mode)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EINVAL):
            raise
        raise PrefixError(
            f"`{path}` is not a regular file, so rocenv cannot lock it", hints=(f"remove `{path}`",)
        ) from error
    if not WINDOWS:
        with contextlib.suppress(OSError):  # another group member may own it
            if stat.S_IMODE(os.fstat(descriptor).st_mode) != mode:
                os.fchmod(descriptor, mode)
    return descriptor


def _wait(path: Path, descriptor: int, shared: bool, waiting: str) -> None:
    began = time.monotonic()
    says_who = True
    while not _try_lock(descriptor, shared):
        if waiting:
            sys.stderr.write(f"{waiting}\n")
            waiting = ""
        if says_who and time.monotonic() - began > _LONG_S:
            sys.stderr.write(f"{_holder(path, descriptor)}\n")
            says_who = False
        time.sleep(_PAUSE_S)


def _record_holder(descriptor: int) -> None:
    """Record the holder after the first byte, because on Windows others cannot read the locked byte."""
    found = _VERB.fullmatch(sys.argv[1]) if len(sys.argv) > 1 else None
    text = f" {os.getpid()} {time.time():.0f} {found[0] if found else '-'}\n"
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, text.encode())


def _holder(path: Path, descriptor: int) -> str:
    """Describe the exclusive holder that the lock file records, or the processes that share the lock."""
    try:
        os.lseek(descriptor, 1, os.SEEK_SET)
        found = _HOLDER.fullmatch(os.read(descriptor, 64))
    except OSError:
        found = None
    if found is None or not _may_exist(int(found[1])):
        pids = _sharing(descriptor)
        if len(pids) > 1:
            return f"still waiting for processes {', '.join(map(str, pids))}, which hold `{path}`"
        return (
            f"still waiting for {f'process {pids[0]}' if pids else 'another process'}, which holds `{path}`"
        )
    verb = found[3].decode()
    held_s = max(0, int(time.time()) - int(found[2]))
    held = f"{held_s // 60} min" if held_s >= 120 else f"{held_s} s"
    name = "rocenv" if verb == "-" else f"rocenv {verb}"
    return f"still waiting for `{name}` (process {int(found[1])}), which has held `{path}` for {held}"


def _sharing(descriptor: int) -> list[int]:
    """List the processes that hold a lock on a file; return an empty list on systems other than Linux."""
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return []
    info = os.fstat(descriptor)
    # "1: FLOCK  ADVISORY  READ 4711 08:01:131 0 EOF"
    fields = (line.split() for line in lines if "->" not in line)
    found = [(each[5], int(each[4])) for each in fields if each[1] == "FLOCK"]
    file = f"{os.major(info.st_dev):02x}:{os.minor(info.st_dev):02x}:{info.st_ino}"
    if all(place != file for place, _ in found):  # btrfs lists a different device than `stat`
        file = next((place for place, _ in found if place.endswith(f":{info.st_ino}")), "")
    return [pid for place, pid in found if place == file]


def _may_exist(pid: int) -> bool:
    """Whether a process might still exist; shared holders do not replace a stale record."""
    if WINDOWS:
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass
    return True


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int, shared: bool) -> bool:
        os.lseek(descriptor, 0, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try_lock(descriptor: int, shared: bool) -> bool:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise PrefixError(
                f"this filesystem does not support file locks: {error.strerror}",
                hints=("set ROCENV_HOME to a folder on a local disk",),
            ) from error
        return True

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
