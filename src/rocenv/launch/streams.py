"""What stands between a program and our output: pseudo-terminals and pipes, and where their bytes go."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from dataclasses import dataclass, field

from rocenv.system import WINDOWS


class Outlet:
    """One of our own outputs; once nobody reads it, what is written goes nowhere."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._open = True

    def write(self, data: bytes) -> None:
        """Write all of the bytes, as they are and at once."""
        view = memoryview(data)
        while view and self._open:
            try:
                view = view[os.write(self._descriptor, view) :]
            except BlockingIOError:
                _wait_writable(self._descriptor)
            except OSError:
                self._open = False


class ConsoleOutlet(Outlet):
    """A console of Windows, which takes text: lines that are UTF-8, else of the code page of old programs."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        stream = sys.stdout if descriptor == 1 else sys.stderr
        self._raw = stream.buffer
        _show_colours(descriptor)
        self._rest = b""

    def write(self, data: bytes) -> None:
        """Write the bytes; a character that is not whole yet waits for the rest of it."""
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
    """Something that a program prints to: where it is read, and where it goes."""

    source: int
    outlet: Outlet


@dataclass(slots=True)
class Streams:
    """The outputs of a program that is about to be started."""

    stdout: int = -1
    stderr: int = -1
    streams: list[Stream] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)  # the program's, still open here
    terminals: list[tuple[int, int]] = field(default_factory=list)  # ours, and what stands for it

    def give_away(self) -> None:
        """Close the program's ends, so that the last one who has them ends the stream."""
        while self.ends:
            os.close(self.ends.pop())

    def follow(self) -> None:
        """Make the pseudo-terminals as large as the real ones."""
        for real, other in self.terminals:
            _copy_size(real, other)

    def close(self) -> None:
        """Close what is open here, once nobody reads it any more."""
        self.give_away()
        for stream in self.streams:
            with contextlib.suppress(OSError):
                os.close(stream.source)


def terminal_columns() -> int:
    """Return the width of the terminal that our output goes to; 0 where it goes to none."""
    return shutil.get_terminal_size().columns if _is_terminal(1) or _is_terminal(2) else 0


def is_piped() -> bool:
    """Tell whether what a program prints will go through a pipe."""
    return WINDOWS or not (_is_terminal(1) and _is_terminal(2))


def open_streams() -> Streams:
    """Return what a program is to print to.

    Both of its outputs are one where both of ours are: then all stays in the order in which it was printed.
    """
    made = Streams()
    made.stdout = _open(made, 1)
    made.stderr = made.stdout if _same_place() else _open(made, 2)
    return made


def _open(made: Streams, descriptor: int) -> int:
    if _is_terminal(descriptor) and not WINDOWS:
        source, end = _terminal_like()
        made.terminals.append((descriptor, source))
        made.follow()
    else:
        source, end = os.pipe()
    outlet = ConsoleOutlet if WINDOWS and _is_terminal(descriptor) else Outlet
    made.streams.append(Stream(source, outlet(descriptor)))
    made.ends.append(end)
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
    """Return a line as UTF-8; one that is not is of the code page `old`, whose characters may be lost."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return line.decode(old, "replace").encode()
    return line


def _whole_characters(data: bytes) -> tuple[bytes, bytes]:
    """Return data up to the last whole character of UTF-8, and what is left."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return (data[:-back], data[-back:]) if length > back else (data, b"")
    return data, b""


def _wait_writable(descriptor: int) -> None:
    import select

    select.select([], [descriptor], [], 1.0)


if sys.platform == "win32":

    def _show_colours(descriptor: int) -> None:
        """Let the console take escape sequences as such, which older ones do only when told to.

        Source: SetConsoleMode, ENABLE_VIRTUAL_TERMINAL_PROCESSING
        """
        import ctypes
        import msvcrt

        kernel32 = ctypes.windll.kernel32
        handle = ctypes.c_void_p(msvcrt.get_osfhandle(descriptor))
        mode = ctypes.c_uint32()
        if kernel32.GetConsoleMode(handle, ctypes.byref(mode)):
            kernel32.SetConsoleMode(handle, mode.value | 0x0004)

    def _terminal_like() -> tuple[int, int]:
        raise NotImplementedError

    def _copy_size(real: int, other: int) -> None:
        raise NotImplementedError

else:
    import fcntl
    import termios

    def _show_colours(descriptor: int) -> None:
        raise NotImplementedError

    def _terminal_like() -> tuple[int, int]:
        """Return both ends of a pseudo-terminal that leaves bytes as they are."""
        source, end = os.openpty()
        modes = termios.tcgetattr(end)
        modes[1] &= ~termios.OPOST  # the real terminal makes its own line ends
        termios.tcsetattr(end, termios.TCSANOW, modes)
        return source, end

    def _copy_size(real: int, other: int) -> None:
        with contextlib.suppress(OSError):
            size = fcntl.ioctl(real, termios.TIOCGWINSZ, bytes(8))
            fcntl.ioctl(other, termios.TIOCSWINSZ, size)
