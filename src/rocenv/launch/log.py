"""The log of a launch: how the app was started, what it printed, and how it ended."""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import re
import subprocess
from typing import TYPE_CHECKING

from rocenv import __version__
from rocenv.apps.secrets import is_secret
from rocenv.core.logins import mask_logins
from rocenv.home import user_folder
from rocenv.system.private import make_private, open_own

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from rocenv.apps.context import LaunchContext
    from rocenv.apps.start import Start
    from rocenv.host import Host

FOLDER = "logs"
KEPT = 20  # logs per env
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


class Log:
    """An open log file.

    A full disk must not stop the app, so after the first failed write, further output is dropped. The reason
    is reported once.
    """

    def __init__(self, path: Path, file: BinaryIO, failed: Callable[[str], None]) -> None:
        self.path = path
        self._file: BinaryIO | None = file
        self._failed = failed

    def write(self, data: bytes) -> None:
        """Append bytes and flush them, so that they survive a crash of this process."""
        if self._file is None:
            return
        try:
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            self._failed(str(error.strerror))
            self.close()

    def annotate(self, lines: Sequence[str]) -> None:
        """Append rocenv's own lines, prefixed with `#`."""
        self.write("".join(f"# {line}\n" for line in lines).encode("utf-8", "replace"))

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()


def open_log(context: LaunchContext, report: Callable[[str], None]) -> Log | None:
    """Create a log and delete the oldest ones. If that fails, report the reason and return None.

    Only the user can read the file.
    """
    folder = context.start.prefix.path / FOLDER
    when = datetime.datetime.now().astimezone().strftime("%Y-%m-%dT%H%M%S")
    stem = f"{when}-{_NOT_IN_NAMES.sub('-', context.start.launcher.key)}"
    users = user_folder("XDG_STATE_HOME", ".local/state")
    try:
        try:
            path, file = _create(folder, stem)
        except OSError:
            if users is None:
                raise
            path, file = _create(users / FOLDER, stem)
    except OSError as error:
        report(context.message("log_not_created", folder=str(folder), reason=str(error.strerror)))
        return None
    _delete_oldest(path.parent)
    return Log(path, file, lambda why: report(context.message("log_incomplete", path=str(path), reason=why)))


def _create(folder: Path, stem: str) -> tuple[Path, BinaryIO]:
    make_private(folder)
    for number in range(1, 100):
        path = folder / (f"{stem}.log" if number == 1 else f"{stem}-{number}.log")
        with contextlib.suppress(FileExistsError):
            return path, open(open_own(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb")
    raise FileExistsError(17, "99 logs from this second already exist", str(folder))


def _delete_oldest(folder: Path) -> None:
    with contextlib.suppress(OSError):  # a failed cleanup must not prevent the start
        logs = sorted(folder.glob("????-??-??T??????-*.log"), key=_modified)
        for path in logs[:-KEPT]:
            with contextlib.suppress(OSError):  # on Windows, another program may have it open
                path.unlink()
                path.with_suffix(".trace").unlink(missing_ok=True)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # deleted by another launch
        return 0.0


def head(start: Start, host: Host, level: str) -> Iterator[str]:
    """Yield the facts that make the log useful on another machine.

    They include the variables that the env changes, but not the user's own.
    """
    lock = start.record.lock
    yield f"rocenv {__version__}, {platform.platform()}"
    yield f"env {start.prefix.name}, in {start.prefix.path}, verified: {level or 'never'}"
    yield f"set for {lock.code_target} on {lock.platform}"
    for part in lock.components:
        names = ", ".join(artifact.name for artifact in part.artifacts) if part.kind != "rocm" else ""
        python = f", Python {part.python}" if part.python else ""
        files = f" ({names[:200]})" if names else ""
        yield f"  {part.kind} {part.version} from {part.channel}{python}{files}"
    driver = host.driver
    yield f"driver {driver.release or driver.display or driver.amdgpu or driver.kernel or 'unknown'}"
    for gpu in host.gpus:
        chosen = " (used)" if gpu.index == host.selected else ""
        yield f"GPU {gpu.index}: {gpu.target or 'unknown target'} {gpu.name}{chosen}"
    if not host.gpus:
        yield f"GPU: {host.why}"
    yield f"app {start.launcher.key} ({start.launcher.title}) in {start.folder}"
    yield f"command {subprocess.list2cmdline(start.shown_words)}"
    for change in start.changes:
        value = "***" if is_secret(change.name) else mask_logins(change.value)
        value = f"{value}{os.pathsep}…" if change.action == "prepend" else value
        yield f"  unset {change.name}" if change.action == "unset" else f"  {change.name}={value}"
