"""Child processes: their groups, their ends, and becoming one."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from rocenv.system import WINDOWS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def group_options() -> dict[str, Any]:
    """Return the `Popen` options that put a child into a group of its own, for `kill_group`."""
    if WINDOWS:
        return {"creationflags": 0x00000200}  # CREATE_NEW_PROCESS_GROUP
    return {"start_new_session": True}


def kill_group(child: subprocess.Popen[Any]) -> None:
    """End a child started with `group_options`, and what it started."""
    if WINDOWS:
        subprocess.run(
            ["taskkill", "/T", "/F", "/PID", str(child.pid)], capture_output=True, check=False, timeout=30
        )
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def describe_exit(code: int) -> str:
    """Return a name for an exit code of a child: `SIGSEGV`, `0xC0000005` or `exit code 3`."""
    if code < 0:
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"
    if code & 0xC0000000 == 0xC0000000:
        return f"0x{code:08X}"
    return f"exit code {code}"


def is_crash(code: int) -> bool:
    """Tell whether an exit code of a child means that it was ended by a fault and not by its own choice."""
    return code < 0 or code & 0xC0000000 == 0xC0000000


def replace_process(argv: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Become `argv`, so that its exit code is ours; on Windows run it and exit with its 32-bit code.

    Raises:
        OSError: The program cannot be started.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    if WINDOWS:
        raise SystemExit(subprocess.run(argv, env=dict(environ), check=False).returncode)
    for name in ("SIGPIPE", "SIGXFSZ"):
        # Python ignores these, and a program would inherit that: `yes | head` would not end quietly.
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execve(argv[0], list(argv), dict(environ))
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        # A script without `#!` is run by sh, as every shell does. Source: execvp(3)
        os.execve("/bin/sh", ["/bin/sh", *argv], dict(environ))
