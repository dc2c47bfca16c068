"""Run a program and capture its output without changing how the program behaves.

On Linux, if our output is a terminal, the program writes to a pseudo-terminal, whose output is copied to the
real one unchanged. The program inherits our stdin, session and process group, so the terminal sends Ctrl-C,
Ctrl-Z and size changes to it directly; this process ignores Ctrl-C.

On Windows, the program writes to a pipe instead of the console, so it may buffer its output, change its
encoding or drop colors. Environment variables that rocenv sets prevent most of that. `rocenv run` does not
capture output, so its programs keep the console.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rocenv.system import WINDOWS
from rocenv.system.exit_codes import through_shell
from rocenv.system.process import handled, start_child

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType

    _Handler = Callable[[int, FrameType | None], None]

_CHUNK_BYTES = 1 << 16
_TICK_S = 1.0
_DRAIN_S = 2.0  # after a failure, to read output that is still in the pipe
_WAIT_S = 3.0  # after a success, before reporting that other programs are still printing


class NotStarted(Exception):
    """The system could not start a program; the message states the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a program ended."""

    code: int  # negative: killed by that signal, even if a shell reported it; on Windows, the 32-bit code
    pid: int
    interrupted: bool  # by Ctrl-C


def run_captured(
    argv: Sequence[str],
    environ: Mapping[str, str],
    *,
    keep: Callable[[bytes], None],
    tick: Callable[[], None] = lambda: None,
    still_printing: Callable[[], None] = lambda: None,
) -> Ended:
    """Run a program until it ends, and copy its output to ours and to `keep`.

    If the program succeeds, also wait for programs that it started, because some apps restart themselves.

    Args:
        argv: The program's path and arguments.
        environ: The program's complete environment.
        keep: Receives each chunk of output, from one thread at a time.
        tick: Called about once a second.
        still_printing: Called if other programs are still printing a few seconds after the program ended.

    Raises:
        NotStarted: The system could not start the program.
    """
    try:
        streams = open_streams()
    except OSError as error:
        raise NotStarted(error.strerror or str(error)) from error
    pressed: list[int] = []
    readers: list[threading.Thread] = []
    try:
        with _signals_for(pressed, streams) as children:
            child = _begin(argv, environ, streams)
            children.append(child)
            streams.close_ends()
            readers = _start_readers(streams.streams, keep)
            _wait(child, readers, tick, still_printing)
    finally:
        streams.close_ends()
        # On Windows, closing a pipe blocks while a thread reads it; exiting closes such pipes.
        if not any(reader.is_alive() for reader in readers):
            streams.close()
    code = child.returncode & 0xFFFFFFFF if WINDOWS else through_shell(child.returncode)
    return Ended(code=code, pid=child.pid, interrupted=bool(pressed))


def _begin(argv: Sequence[str], environ: Mapping[str, str], streams: Streams) -> subprocess.Popen[bytes]:
    try:
        return start_child(argv, environ, stdout=streams.stdout, stderr=streams.stderr)
    except OSError as error:
        raise NotStarted(error.strerror or str(error)) from error


def _start_readers(streams: Sequence[Stream], keep: Callable[[bytes], None]) -> list[threading.Thread]:
    one_at_a_time = threading.Lock()
    whole_lines = len(streams) > 1  # keeps lines from the two outputs separate
    readers = [
        threading.Thread(target=_read, args=(stream, keep, one_at_a_time, whole_lines), daemon=True)
        for stream in streams
    ]
    for reader in readers:
        reader.start()
    return readers


def _read(
    stream: Stream, keep: Callable[[bytes], None], one_at_a_time: threading.Lock, whole_lines: bool
) -> None:
    rest = b""
    while data := _next(stream.source):
        with one_at_a_time:
            stream.outlet.write(data)
            if whole_lines:
                end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
                data, rest = (rest + data[:end], data[end:]) if end else (b"", rest + data)
            if data:
                keep(data)
    if rest:
        with one_at_a_time:
            keep(rest)


def _next(source: int) -> bytes:
    """Read the next chunk of output, or b"" at the end."""
    try:
        return os.read(source, _CHUNK_BYTES)
    except OSError:  # EIO: every program has closed the pseudo-terminal. Source: pty(7)
        return b""


def _wait(
    child: subprocess.Popen[bytes],
    readers: Sequence[threading.Thread],
    tick: Callable[[], None],
    still_printing: Callable[[], None],
) -> None:
    ended = threading.Event()

    def wait() -> None:
        child.wait()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    # Poll, because Windows does not deliver Ctrl-C while Python waits for a lock.
    while not ended.wait(_TICK_S):
        tick()
    if child.returncode != 0:
        _join(readers, _DRAIN_S)
        return
    if not _join(readers, _WAIT_S):
        still_printing()
        while not _join(readers, _TICK_S):
            tick()
            if _released.is_set():
                return


def _join(readers: Sequence[threading.Thread], timeout_s: float) -> bool:
    end = time.monotonic() + timeout_s
    for reader in readers:
        reader.join(max(0.0, end - time.monotonic()))
    return not any(reader.is_alive() for reader in readers)


_released = threading.Event()


@contextlib.contextmanager
def _signals_for(pressed: list[int], streams: Streams) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Ignore Ctrl-C, which the terminal also sends to the program, and forward signals that only we receive.

    This sets handlers because the program would inherit `SIG_IGN`. Signals that were ignored when we started
    stay ignored.
    """
    children: list[subprocess.Popen[bytes]] = []
    _released.clear()

    def leave(number: int, _frame: FrameType | None) -> None:
        pressed.append(number)
        if children and children[0].returncode is not None:
            _released.set()

    def pass_on(number: int, _frame: FrameType | None) -> None:
        for child in children:
            with contextlib.suppress(OSError):
                child.send_signal(number)

    def resize(_number: int, _frame: FrameType | None) -> None:
        streams.resize()

    handlers: dict[str, _Handler] = {"SIGINT": leave, "SIGQUIT": leave, "SIGBREAK": leave}
    if not WINDOWS:
        handlers |= {"SIGTERM": pass_on, "SIGHUP": pass_on, "SIGWINCH": resize}
    with handled(handlers):
        yield children


class Outlet:
    """One of our own outputs. Once its reader has closed it, writes are ignored."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._open = True

    def write(self, data: bytes) -> None:
        """Write all bytes unchanged and unbuffered."""
        view = memoryview(data)
        while view and self._open:
            try:
                view = view[os.write(self._descriptor, view) :]
            except BlockingIOError:
                select.select([], [self._descriptor], [], 1.0)
            except OSError:
                self._open = False


class ConsoleOutlet(Outlet):
    """A Windows console. Lines that are not UTF-8 are decoded with the OEM code page."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        stream = sys.stdout if descriptor == 1 else sys.stderr
        self._raw = stream.buffer
        _enable_colors(descriptor)
        self._rest = b""

    def write(self, data: bytes) -> None:
        """Write the bytes, but buffer an incomplete character until it is complete."""
        data, self._rest = _whole_characters(self._rest + data)
        if not self._open or not data:
            return
        try:
            self._raw.write(b"".join(map(_as_utf8, data.splitlines(keepends=True))))
            self._raw.flush()
        except OSError:
            self._open = False


@dataclass(frozen=True, slots=True)
class Stream:
    """A program's output: the descriptor to read, and the outlet to write to."""

    source: int
    outlet: Outlet


@dataclass(slots=True)
class Streams:
    """The outputs of a program that is about to start."""

    stdout: int = -1
    stderr: int = -1
    streams: list[Stream] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)  # the program's ends, while they are open in this process
    terminals: list[tuple[int, int]] = field(default_factory=list)  # (our terminal, its pseudo-terminal)

    def close_ends(self) -> None:
        """Close our copies of the write ends, so that a stream ends when the last program closes it."""
        while self.ends:
            os.close(self.ends.pop())

    def resize(self) -> None:
        """Resize the pseudo-terminals to match the real ones."""
        for real, other in self.terminals:
            _copy_size(real, other)

    def close(self) -> None:
        """Close all descriptors. All readers must have ended."""
        self.close_ends()
        for stream in self.streams:
            with contextlib.suppress(OSError):
                os.close(stream.source)


def terminal_columns() -> int:
    """The width of our terminal, or 0 if the output is not a terminal."""
    return shutil.get_terminal_size().columns if _is_terminal(1) or _is_terminal(2) else 0


def is_piped() -> bool:
    """Whether a program's output would go to a pipe."""
    return WINDOWS or not (_is_terminal(1) and _is_terminal(2))


def open_streams() -> Streams:
    """Open the outputs for a program.

    If stdout and stderr are the same file or terminal, the program gets one stream for both, which preserves
    the order of its output.
    """
    opened = Streams()
    opened.stdout = _open(opened, 1)
    opened.stderr = opened.stdout if _same_place() else _open(opened, 2)
    return opened


def _open(opened: Streams, descriptor: int) -> int:
    if _is_terminal(descriptor) and not WINDOWS:
        source, end = _pseudo_terminal()
        opened.terminals.append((descriptor, source))
        opened.resize()
    else:
        source, end = os.pipe()
    outlet = ConsoleOutlet if WINDOWS and _is_terminal(descriptor) else Outlet
    opened.streams.append(Stream(source, outlet(descriptor)))
    opened.ends.append(end)
    return end


def _is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


def _same_place() -> bool:
    if _is_terminal(1) or _is_terminal(2):
        return _is_terminal(1) and _is_terminal(2)
    try:
        one, other = os.fstat(1), os.fstat(2)
    except OSError:
        return False
    return bool(one.st_ino) and (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)


def _as_utf8(line: bytes, old: str = "oem") -> bytes:
    """Convert a line from code page `old` to UTF-8 unless it already is; characters can be lost."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return line.decode(old, "replace").encode()
    return line


def _whole_characters(data: bytes) -> tuple[bytes, bytes]:
    """Split data after the last complete UTF-8 character."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return (data[:-back], data[-back:]) if length > back else (data, b"")
    return data, b""


if sys.platform == "win32":

    def _enable_colors(descriptor: int) -> None:
        """Enable escape sequences, which older consoles ignore by default.

        Source: SetConsoleMode, ENABLE_VIRTUAL_TERMINAL_PROCESSING
        """
        import ctypes
        import msvcrt

        kernel32 = ctypes.windll.kernel32
        handle = ctypes.c_void_p(msvcrt.get_osfhandle(descriptor))
        mode = ctypes.c_uint32()
        if kernel32.GetConsoleMode(handle, ctypes.byref(mode)):
            kernel32.SetConsoleMode(handle, mode.value | 0x0004)

    def _pseudo_terminal() -> tuple[int, int]:
        raise NotImplementedError

    def _copy_size(real: int, other: int) -> None:
        raise NotImplementedError

else:
    import fcntl
    import termios

    def _enable_colors(descriptor: int) -> None:
        raise NotImplementedError

    def _pseudo_terminal() -> tuple[int, int]:
        """Open a pseudo-terminal that does not change any bytes."""
        source, end = os.openpty()
        modes = termios.tcgetattr(end)
        modes[1] &= ~termios.OPOST  # the real terminal converts line endings
        termios.tcsetattr(end, termios.TCSANOW, modes)
        return source, end

    def _copy_size(real: int, other: int) -> None:
        with contextlib.suppress(OSError):
            size = fcntl.ioctl(real, termios.TIOCGWINSZ, bytes(8))
            fcntl.ioctl(other, termios.TIOCSWINSZ, size)
