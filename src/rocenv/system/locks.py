"""Locks between processes."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING

from rocenv.core.errors import PrefixError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def locked(path: Path, *, shared: bool = False, waiting: str = "") -> Iterator[None]:
    """Hold a lock between processes; the kernel drops it when its holder dies, however it dies.

    Args:
        path: The lock file; made when absent and left in place, since removing it would race.
        shared: Let other shared holders in (on Windows every lock is exclusive).
        waiting: Printed to stderr once if another process holds the lock.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as handle:
        said = False
        while not _try_lock(handle.fileno(), shared):
            if waiting and not said:
                sys.stderr.write(waiting + "\n")
                said = True
            time.sleep(0.05)
        try:
            yield
        finally:
            _unlock(handle.fileno())


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
                f"cannot lock a file on this file system: {error.strerror}",
                hints=("set ROCENV_HOME to a folder on a local disk",),
            ) from error
        return True

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
