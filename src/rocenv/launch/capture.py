"""Run a program so that all it prints is also kept, and its console behaves as without that.

Where our output is a terminal, the program's is one too: on Linux a pseudo-terminal of its own, whose bytes
go to the real one as they are. Its input is ours. It stays in our session and process group, so that Ctrl-C,
Ctrl-Z and a changed window reach it from the terminal itself; this process leaves them to it.

On Windows there is a pipe instead, so a program that asks finds no terminal: what it then does differently
(buffering, encoding, colours) is set right by variables as far as its profile says how. `rocenv run` gives it
the console itself, and keeps no log.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.launch.streams import open_streams
from rocenv.system import WINDOWS
from rocenv.system.exit_codes import through_shell
from rocenv.system.process import handled, start_child

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType

    from rocenv.launch.streams import Stream, Streams

    _Handler = Callable[[int, FrameType | None], None]

_CHUNK_BYTES = 1 << 16
_TICK_S = 1.0
_DRAIN_S = 2.0  # after a bad end, for what is still in the pipe
_PATIENCE_S = 3.0  # after a good end, before it is told that others still print


class NotStarted(Exception):
    """The system does not start a program; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a program ended."""

    code: int  # negative = by that signal, also one that a shell told of; on Windows the 32-bit code
    pid: int
    interrupted: bool  # somebody pressed Ctrl-C while it ran


def run_captured(
    argv: Sequence[str],
    environ: Mapping[str, str],
    *,
    keep: Callable[[bytes], None],
    tick: Callable[[], None] = lambda: None,
    tell: Callable[[str], None] = lambda _text: None,
) -> Ended:
    """Run a program to its end, its output going where ours goes and to `keep`.

    Where it leaves other programs behind that print to the same place, as an app does that starts itself
    anew, they are waited for, unless it ended badly.

    Args:
        argv: The program's path and arguments.
        environ: Its whole environment.
        keep: Called with every piece of output, from one thread at a time.
        tick: Called about once a second.
        tell: Called with what the user should know.

    Raises:
        NotStarted: The program cannot be started.
    """
    try:
        streams = open_streams()
    except OSError as error:
        raise NotStarted(error.strerror or str(error)) from error
    pressed: list[int] = []
    readers: list[threading.Thread] = []
    try:
        with _signals_left_to(pressed, streams) as children:
            child = _begin(argv, environ, streams)
            children.append(child)
            streams.give_away()
            readers = _start_readers(streams.streams, keep)
            _wait(child, readers, tick, tell)
    finally:
        streams.give_away()
        # On Windows closing waits for a read that goes on; what is left open ends with this process.
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
    whole_lines = len(streams) > 1  # or pieces of two outputs' lines would stand in one another
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
    """Return the next piece of output; empty at its end."""
    try:
        return os.read(source, _CHUNK_BYTES)
    except OSError:  # EIO: the last program on a pseudo-terminal has closed it. Source: pty(7)
        return b""


def _wait(
    child: subprocess.Popen[bytes],
    readers: Sequence[threading.Thread],
    tick: Callable[[], None],
    tell: Callable[[str], None],
) -> None:
    ended = threading.Event()

    def wait() -> None:
        child.wait()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    # In slices, for Windows' sake: there Ctrl-C is not seen while a lock is waited for.
    while not ended.wait(_TICK_S):
        tick()
    if child.returncode != 0:
        _join(readers, _DRAIN_S)
        return
    if not _join(readers, _PATIENCE_S):
        tell("it has ended; programs that it started go on and print here, until Ctrl-C")
        while not _join(readers, _TICK_S):
            tick()
            if _let_go.is_set():
                return


def _join(readers: Sequence[threading.Thread], timeout_s: float) -> bool:
    end = time.monotonic() + timeout_s
    for reader in readers:
        reader.join(max(0.0, end - time.monotonic()))
    return not any(reader.is_alive() for reader in readers)


_let_go = threading.Event()


@contextlib.contextmanager
def _signals_left_to(pressed: list[int], streams: Streams) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Leave Ctrl-C to the program, which gets it from the terminal; pass on what only this process gets.

    Handlers, and not `SIG_IGN`: that would be the program's too. What the caller has us ignore stays ignored.
    """
    children: list[subprocess.Popen[bytes]] = []
    _let_go.clear()

    def leave(number: int, _frame: FrameType | None) -> None:
        pressed.append(number)
        if children and children[0].returncode is not None:
            _let_go.set()

    def pass_on(number: int, _frame: FrameType | None) -> None:
        for child in children:
            with contextlib.suppress(OSError):
                child.send_signal(number)

    def follow(_number: int, _frame: FrameType | None) -> None:
        streams.follow()

    handlers: dict[str, _Handler] = {"SIGINT": leave, "SIGQUIT": leave, "SIGBREAK": leave}
    if not WINDOWS:
        handlers |= {"SIGTERM": pass_on, "SIGHUP": pass_on, "SIGWINCH": follow}
    with handled(handlers):
        yield children
