"""The log of one start: what was started with what, everything that it printed, and how it ended."""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import re
import subprocess
from typing import TYPE_CHECKING

from rocenv import __version__
from rocenv.core.logins import mask_logins
from rocenv.system.private import make_private, open_own

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from rocenv.host import Host
    from rocenv.launch.start import Start

FOLDER = "logs"
KEPT = 20  # logs of an env
# `--gradio-auth me:secret`, `--api-key=secret`, `HF_TOKEN=secret`, `https://me:secret@host`: such a value is
# nobody's business in a log that gets posted.
_SECRET = re.compile(
    r".*(auth|token|passw|secret|(api|access)[-_]?key|ngrok|credential|cookie).*|-*(pass|pwd|key)", re.I
)
# In a header, or in an address: "Authorization: Bearer x", "?token=x"
_WITHIN = re.compile(
    r"([\w-]*(?:auth|token|key|secret|cookie)[\w-]*: *|[?&][\w-]*(?:token|key|secret|auth|sig)[\w-]*=)[^&]+",
    re.I,
)
_NAME = re.compile(r"[-/]+.+|[A-Za-z_][A-Za-z0-9_]*")  # of an option, or of a variable
_ALLOWED = re.compile(r"[^A-Za-z0-9._-]+")


class Log:
    """A log file that is being written.

    What cannot be written is dropped, and the reason told once: a full disk must not end the app.
    """

    def __init__(self, path: Path, file: BinaryIO, tell: Callable[[str], None]) -> None:
        self.path = path
        self._file: BinaryIO | None = file
        self._tell = tell

    def write(self, data: bytes) -> None:
        """Add bytes as they are; what a crash of this process must not lose is on the disk then."""
        if self._file is None:
            return
        try:
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            self._tell(f"the log ends here: `{self.path}`: {error.strerror}")
            self.close()

    def say(self, lines: Sequence[str]) -> None:
        """Add lines of rocenv's own, marked as such."""
        self.write("".join(f"# {line}\n" for line in lines).encode("utf-8", "replace"))

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()


def open_log(start: Start, tell: Callable[[str], None]) -> Log | None:
    """Make the log of a start and let go of the oldest; None, and the reason told, where none can be made."""
    folder = start.prefix.path / FOLDER
    when = datetime.datetime.now().astimezone().strftime("%Y-%m-%dT%H%M%S")
    stem = f"{when}-{_ALLOWED.sub('-', start.launcher.key)}"
    try:
        make_private(folder)
        path, file = _fresh(folder, stem)
    except OSError as error:
        tell(f"no log is kept: `{folder}`: {error.strerror}")
        return None
    _drop_oldest(folder)
    return Log(path, file, tell)


def _fresh(folder: Path, stem: str) -> tuple[Path, BinaryIO]:
    for number in range(1, 100):
        path = folder / (f"{stem}.log" if number == 1 else f"{stem}-{number}.log")
        with contextlib.suppress(FileExistsError):
            return path, open(open_own(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb")
    raise FileExistsError(17, "too many logs of one second", str(folder))


def _drop_oldest(folder: Path) -> None:
    with contextlib.suppress(OSError):  # whatever is in the way, the app is started
        logs = sorted(folder.glob("????-??-??T??????-*.log"), key=_age)
        for path in logs[:-KEPT]:
            with contextlib.suppress(OSError):  # open in a program on Windows: next time
                path.unlink()
                path.with_suffix(".trace").unlink(missing_ok=True)


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # another start has just dropped it
        return 0.0


def head(start: Start, host: Host, level: str) -> Iterator[str]:
    """Yield what somebody needs who reads the log of another's machine.

    Of the environment only what the env changes is told, never what the user has in it.
    """
    lock = start.record.lock
    yield f"rocenv {__version__}, {platform.platform()}"
    yield f"env {start.prefix.name}, in {start.prefix.path}, verified: {level or 'never'}"
    yield f"set for {lock.code_target} on {lock.platform}"
    for part in lock.components:
        names = ", ".join(artifact.name for artifact in part.artifacts) if part.kind != "rocm" else ""
        python = f", Python {part.python}" if part.python else ""
        yield f"  {part.kind} {part.version} from {part.channel}{python}" + (
            f" ({names[:200]})" if names else ""
        )
    driver = host.driver
    yield f"driver {driver.release or driver.display or driver.amdgpu or driver.kernel or 'not known'}"
    for gpu in host.gpus:
        chosen = " (used)" if gpu.index == host.selected else ""
        yield f"GPU {gpu.index}: {gpu.target or 'target not known'} {gpu.name}{chosen}"
    if not host.gpus:
        yield f"GPU: {host.why}"
    yield f"app {start.launcher.key} ({start.launcher.title}) in {start.folder}"
    yield f"command {subprocess.list2cmdline(start.shown_words)}"
    for change in start.changes:
        value = "***" if is_secret(change.name) else mask_logins(change.value)
        value = f"{value}{os.pathsep}…" if change.action == "prepend" else value
        yield f"  unset {change.name}" if change.action == "unset" else f"  {change.name}={value}"


def is_secret(name: str) -> bool:
    """Tell whether what an option or a variable holds is nobody's business, by its name."""
    return bool(_NAME.fullmatch(name) and _SECRET.fullmatch(name))


def without_secrets(words: Sequence[str], secret_options: Sequence[str]) -> list[str]:
    """Return words with `***` in place of what is nobody's business, also behind one of these options."""
    shown: list[str] = []
    hide = False
    for word in words:
        option, equals, _ = word.partition("=")
        is_its_name = is_secret(option) or option in secret_options
        if hide:
            shown.append("***")
        elif is_its_name and equals:
            shown.append(f"{option}=***")
        else:
            shown.append(_WITHIN.sub(r"\1***", mask_logins(word)))
        hide = is_its_name and not equals and option.startswith("-")
    return shown
