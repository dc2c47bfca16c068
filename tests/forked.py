"""Run the real program without starting Python: fork a process that has already imported it.

`run(["list"], env=env)` does the same as `subprocess.run([sys.executable, "-m", "rocenv", "list"], env=env)`
in milliseconds. The child process has its own environment, working directory, streams and exit code. Tests of
startup and exit (signals, terminals, encodings, closed streams, concurrency) start the program itself.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import functools
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tests import shipped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LENGTH = struct.Struct("!I")


def run(
    argv: Sequence[str | bytes],
    *,
    env: Mapping[str, str],
    cwd: str | bytes | os.PathLike[str] | None = None,
    stdin: bytes | None = None,
    timeout_s: float = 60,
    within: Sequence[str] = (),
    first: str = "",
) -> subprocess.CompletedProcess[bytes]:
    """Run `rocenv ARGV...` to completion.

    Args:
        argv: The arguments of `rocenv`.
        env: Its whole environment.
        cwd: Its working folder; defaults to the current one.
        stdin: Its input; defaults to none.
        timeout_s: The child and its children are killed after this time.
        within: A command that runs its arguments, for example in a namespace. All calls with the same
            command share one such namespace.
        first: A shell script to run first.
    """
    request = {
        "argv": [os.fsdecode(each) for each in argv],
        "env": dict(env),
        "cwd": os.fsdecode(cwd or os.getcwd()),
        "first": first,
    }
    out, err = os.pipe(), os.pipe()
    given = (os.open(os.devnull, os.O_RDWR), None) if stdin is None else os.pipe()
    server = _server(tuple(within))
    with server.lock, ThreadPoolExecutor(3) as pool:
        pid = server.start(request, [given[0], out[1], err[1]])
        deadline = time.monotonic() + timeout_s
        outputs = [pool.submit(_read, end, deadline) for end in (out[0], err[0])]
        if given[1] is not None:
            pool.submit(_write, given[1], stdin or b"")
        try:
            code = server.exit_code(pid, timeout_s)
            texts = [output.result() for output in outputs]
        except TimeoutError:
            _kill_group(pid)
            raise subprocess.TimeoutExpired(["rocenv", *argv], timeout_s) from None
    return subprocess.CompletedProcess(["rocenv", *argv], code, *texts)


def _read(descriptor: int, deadline: float) -> bytes:
    """Read until every process has closed the other end; raise TimeoutError at the deadline."""
    output = bytearray()
    with open(descriptor, "rb", buffering=0) as file:
        while select.select([file], [], [], max(0, deadline - time.monotonic()))[0]:
            if not (chunk := file.read(1 << 16)):
                return bytes(output)
            output += chunk
    raise TimeoutError


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _write(descriptor: int, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), open(descriptor, "wb") as file:
        file.write(data)


def run_text(argv: Sequence[str | bytes], **options: Any) -> subprocess.CompletedProcess[str]:
    """Call `run` and decode the output as text."""
    done = run(argv, **options)
    out, err = (output.decode().replace("\r\n", "\n") for output in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(done.args, done.returncode, out, err)


def parent_pid() -> int:
    """Return the ID of the process from which `run` forks all others."""
    return _server(()).pid


class _Server:
    """The process that forks children. The first `run` starts it."""

    def __init__(self, within: Sequence[str]) -> None:
        self._socket, theirs = socket.socketpair()
        self.lock = threading.Lock()
        self._process = subprocess.Popen(
            [*within, sys.executable, "-m", "tests.forked", str(theirs.fileno())],
            cwd=Path(__file__).parents[1],
            # Do not inherit the first test's environment, which may select different data.
            env={"LC_ALL": "C.UTF-8", "PATH": os.defpath},
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        atexit.register(self.end)

    def start(self, request: Mapping[str, Any], files: Sequence[int]) -> int:
        """Start a child with these streams; return its process ID."""
        body = json.dumps(request).encode()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))]
        self._socket.sendmsg([_LENGTH.pack(len(body))], rights)
        self._socket.sendall(body)
        for file in files:
            os.close(file)
        return self._answer(None)

    def exit_code(self, pid: int, timeout_s: float) -> int:
        """Wait for the exit code (negative for a signal); on timeout, kill the child's process group."""
        try:
            return self._answer(timeout_s)
        except TimeoutError:
            _kill_group(pid)
            self._answer(None)
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def end(self) -> None:
        self._socket.close()
        self._process.wait(10)

    def _answer(self, timeout_s: float | None) -> int:
        self._socket.settimeout(timeout_s)
        answer = self._socket.recv(_LENGTH.size, socket.MSG_WAITALL)
        assert answer, "the server process died"
        return int.from_bytes(answer, "big", signed=True)


@functools.cache
def _server(within: tuple[str, ...]) -> _Server:
    return _Server(within)


def _serve(connection: socket.socket) -> None:
    """Fork a child for each request in turn; return only in a child, with its argv set."""
    while True:
        head, ancillary, _flags, _address = connection.recvmsg(_LENGTH.size, socket.CMSG_SPACE(3 * 4))
        if not head:
            os._exit(0)
        body = connection.recv(_LENGTH.unpack(head)[0], socket.MSG_WAITALL)
        files = array.array("i", ancillary[0][2])
        pid = os.fork()
        if pid == 0:
            os.setsid()  # so that a timeout also kills its children
            connection.close()
            _become(json.loads(body), files)
            return
        for file in files:
            os.close(file)
        connection.sendall(pid.to_bytes(4, "big", signed=True))
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        connection.sendall(code.to_bytes(4, "big", signed=True))


def _become(request: Mapping[str, Any], files: Sequence[int]) -> None:
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    if request["first"]:
        subprocess.run(["sh", "-ec", request["first"]], check=True)
    sys.argv = ["rocenv", *request["argv"]]
    encoding = os.environ.get("PYTHONIOENCODING", "utf-8")
    for name, number, errors in (("stdout", 1, "strict"), ("stderr", 2, "backslashreplace")):
        stream = open(number, "w", encoding=encoding, errors=errors, closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    site = Path(os.environ.get("PYTHONPATH", ""), "sitecustomize.py")
    if site.is_absolute() and site.exists():  # Python would run this when it starts
        runpy.run_path(str(site))


def _main() -> NoReturn:
    import rocenv
    from rocenv.checks import machine
    from rocenv.cli import main

    for module in pkgutil.walk_packages(rocenv.__path__, "rocenv."):
        if module.name != "rocenv.__main__":
            importlib.import_module(module.name)
    shipped.keep()()
    setattr(machine, "free_bytes", lambda _folder: 1 << 40)  # noqa: B010 - the tests' disk may be nearly full
    _serve(socket.socket(fileno=int(sys.argv[1])))
    try:
        main()
    except SystemExit as end:
        assert isinstance(end.code, int)
        _leave(end.code)
    raise AssertionError("main returned")


def _leave(code: int) -> NoReturn:
    """Exit as Python does, but without destroying all objects, which takes longer than most commands."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _main()
