"""Child processes: their groups, running one in the foreground, and becoming one."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from rocenv.system import WINDOWS
from rocenv.system.exit_codes import describe_exit, is_crash, own_exit_code
from rocenv.system.quoting import command_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

__all__ = [
    "describe_exit",
    "group_options",
    "handled",
    "is_crash",
    "kill_group",
    "left_to_child",
    "own_exit_code",
    "replace_process",
    "run_child",
    "start_child",
]


def group_options() -> dict[str, Any]:
    """Return the `Popen` options that put a child into a group of its own, for `kill_group`."""
    if WINDOWS:
        return {"creationflags": 0x00000200}  # CREATE_NEW_PROCESS_GROUP
    return {"start_new_session": True}


def _taskkill() -> str:
    # By its path: a program of that name in the current folder must not be run.
    return os.path.join(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "taskkill.exe")


def kill_group(child: subprocess.Popen[Any]) -> None:
    """End a child started with `group_options`, and what it started."""
    if WINDOWS:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                [_taskkill(), "/T", "/F", "/PID", str(child.pid)],
                capture_output=True,
                check=False,
                timeout=30,
            )
        child.kill()  # Wine's taskkill knows no /T
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def start_child(argv: Sequence[str], environ: Mapping[str, str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a child in this console and process group, so that Ctrl-C reaches it; its streams are ours.

    Args:
        argv: The program's path, and its arguments. On Windows a batch file is started through cmd.
        environ: Its environment.
        options: More for `Popen`: `stdout`, `cwd` …

    Raises:
        OSError: The program cannot be started.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # pythonw has none
            stream.flush()
    line = command_line(argv, environ) if WINDOWS else list(argv)
    return subprocess.Popen(line, env=dict(environ), **options)


@contextlib.contextmanager
def left_to_child() -> Iterator[None]:
    """While inside, an interrupt from the keyboard is the child's business: this process goes on waiting.

    To be entered before the child is started, by the main thread. An ignored signal would be ignored by the
    child too, so the handler is one that does nothing.
    """
    with handled(dict.fromkeys(("SIGINT", "SIGQUIT", "SIGBREAK"), lambda *_: None)):
        yield


@contextlib.contextmanager
def handled(handlers: Mapping[str, Callable[[int, Any], None]]) -> Iterator[None]:
    """While inside, these signals, those of them that this system has, go to these handlers.

    One that this process was told to ignore, as `nohup` and a shell's `&` do, stays ignored, here and in
    children.
    """
    here = {getattr(signal, name): handler for name, handler in handlers.items() if hasattr(signal, name)}
    before = {
        number: signal.signal(number, handler)
        for number, handler in here.items()
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def run_child(argv: Sequence[str], environ: Mapping[str, str], **options: Any) -> int:
    """Run a child in the foreground as `start_child` does, wait for it, and return its exit code.

    The code is as `subprocess` has it: on Windows all 32 bits, unsigned; minus the signal elsewhere. To end
    with it, see `own_exit_code`.
    """
    with left_to_child():
        return start_child(argv, environ, **options).wait()


def replace_process(argv: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Become `argv`, so that its exit code is ours; on Windows run it and exit with its 32-bit code.

    Raises:
        OSError: The program cannot be started.
    """
    if WINDOWS:
        code = run_child(argv, environ)
        os._exit(own_exit_code(code))
    sys.stdout.flush()
    sys.stderr.flush()
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
