"""Run child processes: to completion, in the foreground, or in place of this process."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn

from rocenv.core.errors import RocenvError
from rocenv.system import WINDOWS
from rocenv.system.exit_codes import describe_exit, own_exit_code
from rocenv.system.private import umask_of_user
from rocenv.system.quoting import command_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

DROP = subprocess.DEVNULL
KEEP = subprocess.PIPE
MERGE = subprocess.STDOUT

PACKAGE_PARENT = Path(__file__).parents[2]
_LIMIT_BYTES = 1 << 20
_PIECE_BYTES = 1 << 16
_LOOK_EVERY_S = 0.1  # on Windows, Ctrl-C is handled only between waits
_DRAIN_S = 5.0  # time for reading what remains in the pipes after the child has ended
_CONTROL = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_OVERSTRUCK = re.compile(r"[^\n]\x08")  # bold and underlined text in manual pages


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A child's output, and how the child ended."""

    stdout: bytes = b""
    stderr: bytes = b""
    code: int | None = None  # None if it was not started or was killed
    problem: str = ""  # why it was not started or was killed, as a clause: "it did not end within 5 s"
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        """Whether it ended with exit code 0."""
        return self.code == 0

    @property
    def text(self) -> str:
        """Standard output as text, without terminal control sequences."""
        text = self.stdout.decode("utf-8", "replace").replace("\r\n", "\n")
        return _CONTROL.sub("", _OVERSTRUCK.sub("", text))

    @property
    def error_text(self) -> str:
        """Standard error as text."""
        return self.stderr.decode("utf-8", "replace").replace("\r\n", "\n")

    @property
    def lines(self) -> list[str]:
        """The non-empty lines in standard output."""
        return [line for line in self.text.splitlines() if line.strip()]

    @property
    def end(self) -> str:
        """The outcome, as a clause: "it ended with exit code 3"."""
        return self.problem or f"it ended with {describe_exit(self.code or 0)}"


def run(
    argv: Sequence[str] | str,
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | str | None = None,
    stdin: bytes = b"",
    stdout: IO[bytes] | int = KEEP,
    stderr: IO[bytes] | int = KEEP,
    timeout_s: float | None = None,
    stop_s: float = 0.0,
    limit_bytes: int = _LIMIT_BYTES,
    plain_scripts: bool = False,
    on_line: Callable[[str], None] = lambda _line: None,
    on_wait: Callable[[], None] = lambda: None,
) -> Completed:
    """Run a program to completion and capture its output.

    The child has its own process group. The whole group is killed on timeout, on excessive output, and when
    a callback, Ctrl-C, SIGTERM or SIGHUP interrupts the wait. A failing child does not raise an exception;
    if the program cannot be started, the result has a `problem`.

    Args:
        argv: The program's path and arguments, or a complete command line on Windows.
        environ: The child's environment, or None for this process's environment.
        cwd: The child's working directory.
        stdin: The child's standard input.
        stdout: `KEEP`, `DROP`, or a file to write to.
        stderr: `KEEP`, `DROP`, `MERGE` (into stdout), or a file to write to.
        timeout_s: The child's maximum run time.
        stop_s: How long the child has to exit on SIGTERM, after a timeout or interrupt, before it is killed.
        limit_bytes: The size limit for stdout and for stderr.
        plain_scripts: Run a script without `#!` with sh, as shells do.
        on_line: Called in this thread with each line on standard error as it arrives.
        on_wait: Called several times a second while the child runs.
    """
    with contextlib.ExitStack() as stack:
        received = stack.enter_context(_terminations())
        source: IO[bytes] | int = DROP
        if stdin:
            import tempfile

            source = stack.enter_context(tempfile.TemporaryFile())
            source.write(stdin)
            source.seek(0)
        try:
            options = {"stdin": source, "stdout": stdout, "stderr": stderr, "cwd": cwd}
            child = start_group(argv, environ, plain_scripts=plain_scripts, **options)
        except (OSError, RocenvError) as error:
            name = argv if isinstance(argv, str) else argv[0]
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            return Completed(problem=f"`{name}` cannot be started: {reason}")

        def look() -> None:
            _exit_if(received)
            on_wait()

        try:
            return _Running(child, limit_bytes, stop_s, on_line).wait(timeout_s, look)
        except BaseException:
            kill_group(child)
            raise


class _Running:
    """A child whose output is being read."""

    def __init__(
        self, child: subprocess.Popen[bytes], limit_bytes: int, stop_s: float, on_line: Callable[[str], None]
    ) -> None:
        self._child = child
        self._limit_bytes = limit_bytes
        self._stop_s = stop_s
        self._on_line = on_line
        self._reported = 0  # bytes of stderr passed to `on_line`
        self._kept = (bytearray(), bytearray())
        self._over_limit = False
        self._ended = threading.Event()
        self._readers = [
            threading.Thread(target=self._read, args=(stream, kept), daemon=True)
            for stream, kept in zip((child.stdout, child.stderr), self._kept, strict=True)
            if stream is not None
        ]
        for thread in (*self._readers, threading.Thread(target=self._await_end, daemon=True)):
            thread.start()

    def wait(self, timeout_s: float | None, on_wait: Callable[[], None]) -> Completed:
        started = time.monotonic()
        problem, timed_out = "", False
        try:
            while not self._ended.wait(_slice(started, timeout_s)):
                self._report_lines()
                on_wait()
                if timeout_s is not None and time.monotonic() - started >= timeout_s:
                    problem, timed_out = f"it did not end within {timeout_s:g} s", True
                if timed_out or self._over_limit:
                    break
        except BaseException:
            self._stop()
            raise
        if not self._ended.is_set():
            self._stop()
        elif not WINDOWS:
            kill_group(self._child)  # a grandchild could keep the pipes open
        for reader in self._readers:
            reader.join(_DRAIN_S)
        if self._over_limit:
            problem, timed_out = "it printed too much", False
        self._report_lines(whole=True)
        stdout, stderr = (bytes(kept[: self._limit_bytes]) for kept in self._kept)
        code = None if problem else self._child.returncode
        return Completed(stdout=stdout, stderr=stderr, code=code, problem=problem, timed_out=timed_out)

    def _stop(self) -> None:
        if self._stop_s:
            stop_group(self._child, self._stop_s)
        kill_group(self._child)

    def _await_end(self) -> None:
        self._child.wait()
        self._ended.set()

    def _read(self, stream: IO[bytes], kept: bytearray) -> None:
        with stream, contextlib.suppress(OSError, ValueError):
            while data := stream.read1(_PIECE_BYTES):  # type: ignore[attr-defined]
                kept += data
                if len(kept) > self._limit_bytes:
                    self._over_limit = True
                    return

    def _report_lines(self, whole: bool = False) -> None:
        text = bytes(self._kept[1][self._reported :])
        end = len(text) if whole else text.rfind(b"\n") + 1
        self._reported += end
        for line in text[:end].decode("utf-8", "replace").splitlines():
            self._on_line(line)


def _slice(started: float, timeout_s: float | None) -> float:
    if timeout_s is None:
        return _LOOK_EVERY_S
    return max(0.0, min(_LOOK_EVERY_S, started + timeout_s - time.monotonic()))


def own_child(module: str, *words: str) -> list[str]:
    """Return Python arguments that run a rocenv module's `main(*words)`."""
    # Do not use `-m`: isolated mode ignores a rocenv installed in the user's site-packages or on PYTHONPATH.
    start = "import sys; sys.path.append(sys.argv.pop(1))"
    code = f"{start}; from {module} import main; sys.exit(main(*sys.argv[1:]))"
    return ["-I", "-c", code, str(PACKAGE_PARENT), *words]


def start_group(
    argv: Sequence[str] | str,
    environ: Mapping[str, str] | None,
    *,
    plain_scripts: bool = False,
    **options: Any,
) -> subprocess.Popen[bytes]:
    """Start a child in its own process group, for `kill_group`; raise OSError on failure."""
    if WINDOWS:
        options["creationflags"] = 0x00000200  # CREATE_NEW_PROCESS_GROUP
    else:
        options["start_new_session"] = True
    return _popen(argv, os.environ if environ is None else environ, plain_scripts, options)


def kill_group(child: subprocess.Popen[bytes]) -> None:
    """Kill a child started with `start_group`, and its descendants."""
    if WINDOWS:
        # Use the full path, so that a program with this name in the current folder does not run.
        taskkill = os.path.join(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "taskkill.exe")
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                [taskkill, "/T", "/F", "/PID", str(child.pid)], capture_output=True, check=False, timeout=30
            )
        child.kill()  # Wine's taskkill lacks /T
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def stop_group(child: subprocess.Popen[bytes], wait_s: float) -> bool:
    """Ask a child of `start_group` to exit, then kill its group; return whether it ended.

    Waits at most twice `wait_s`, even for a process that cannot be killed because it is waiting for a disk
    or a driver.
    """
    for number in (signal.SIGTERM, 0 if WINDOWS else signal.SIGKILL):
        if child.poll() is None:
            with contextlib.suppress(OSError):
                child.kill() if WINDOWS else os.killpg(child.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(wait_s)
    return child.poll() is not None


def start_child(argv: Sequence[str], environ: Mapping[str, str], **options: Any) -> subprocess.Popen[bytes]:
    """Start the user's program in this console and process group, so that Ctrl-C reaches it.

    The program shares this process's streams unless `options` (for `Popen`) change that, and uses the user's
    umask.

    Raises:
        OSError: The program cannot be started.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # pythonw has no streams
            with contextlib.suppress(OSError):  # start the program even if nothing reads our output
                stream.flush()
    return _popen(argv, environ, True, {"umask": umask_of_user(), **options})


def _popen(
    argv: Sequence[str] | str, environ: Mapping[str, str], plain_scripts: bool, options: Mapping[str, Any]
) -> subprocess.Popen[bytes]:
    line = argv if isinstance(argv, str) else command_line(argv, environ) if WINDOWS else list(argv)
    try:
        return subprocess.Popen(line, env=dict(environ), **options)
    except OSError as error:
        if WINDOWS or not plain_scripts or error.errno != errno.ENOEXEC:
            raise
        # Source: execvp(3)
        return subprocess.Popen(["/bin/sh", *argv], env=dict(environ), **options)


@contextlib.contextmanager
def handled(handlers: Mapping[str, Callable[[int, Any], None]]) -> Iterator[None]:
    """Install signal handlers for a block, skipping signals that this system does not have.

    If this process inherited a signal as ignored (from `nohup` or a shell's `&`), it stays ignored, including
    in children.
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


@contextlib.contextmanager
def _terminations() -> Iterator[list[int]]:
    """Record SIGTERM and SIGHUP instead of exiting at once, so that the child can be stopped first.

    The handler does not raise, because that could interrupt the child's start, and then nothing would stop
    that child.
    """
    received: list[int] = []
    names = ("SIGTERM", "SIGHUP") if threading.current_thread() is threading.main_thread() else ()
    with handled(dict.fromkeys(names, lambda number, _frame: received.append(number))):
        yield received
    _exit_if(received)


def _exit_if(received: Sequence[int]) -> None:
    if received:
        raise SystemExit(128 + received[0])


def exit_by_signal(number: int, _frame: object) -> NoReturn:
    """Exit with the shell's exit code for a signal; a handler for `handled`."""
    raise SystemExit(128 + number)


def run_child(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run a child in the foreground, wait for it, and return its exit code.

    Keyboard interrupts go to the child, and this process keeps waiting. The code has the form that
    `subprocess` uses: unsigned, with all 32 bits, on Windows; elsewhere, a negative signal number if a
    signal killed the child. Use `own_exit_code` to exit with it.
    """
    # Use no-op handlers, not SIG_IGN, which the child would inherit. Set them before it starts.
    with handled(dict.fromkeys(("SIGINT", "SIGQUIT", "SIGBREAK"), lambda *_: None)):
        return start_child(argv, environ).wait()


def replace_process(argv: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Replace this process with `argv`; on Windows, run it and exit with its 32-bit code.

    Raises:
        OSError: The program cannot be started.
    """
    if WINDOWS:
        code = run_child(argv, environ)
        os._exit(own_exit_code(code))
    sys.stdout.flush()
    sys.stderr.flush()
    for name in ("SIGPIPE", "SIGXFSZ"):
        # Python ignores these signals, and a program would inherit that: `yes | head` would not end quietly.
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    if umask_of_user() >= 0:
        os.umask(umask_of_user())
    try:
        os.execve(argv[0], list(argv), dict(environ))
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        os.execve("/bin/sh", ["/bin/sh", *argv], dict(environ))
