"""The real program without the start of a Python: forked from a process that has imported it already.

`run(["list"], env=env)` does what `subprocess.run([sys.executable, "-m", "rocenv", "list"], env=env)` does, in a
process of its own with its own environment, folder, streams and exit code, and takes milliseconds. Tests of starting
and ending (signals, terminals, encodings, closed streams, several at once) start the program itself.
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
import signal
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LENGTH = struct.Struct("!I")


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | os.PathLike[str],
    stdin: bytes = b"",
    timeout_s: float = 60,
) -> subprocess.CompletedProcess[bytes]:
    """Run `rocenv ARGV...` to its end."""
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(open(os.memfd_create(name), "w+b")) for name in ("in", "out", "err")]  # noqa: SIM115
        files[0].write(stdin)
        files[0].seek(0)
        code = _server().run(
            {"argv": list(argv), "env": dict(env), "cwd": os.fspath(cwd)},
            [file.fileno() for file in files],
            timeout_s,
        )
        out, err = (os.pread(file.fileno(), 1 << 30, 0) for file in files[1:])
    return subprocess.CompletedProcess(["rocenv", *argv], code, out, err)


class _Server:
    """The process that forks, started for the first `run` of this one."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.forked", str(theirs.fileno())],
            cwd=Path(__file__).parents[1],
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        atexit.register(self.end)

    def run(self, request: Mapping[str, Any], files: Sequence[int], timeout_s: float) -> int:
        """Have a child with these streams, and return its exit code, negative for a signal."""
        with self._lock:
            body = json.dumps(request).encode()
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))]
            self._socket.sendmsg([_LENGTH.pack(len(body))], rights)
            self._socket.sendall(body)
            pid = self._answer(None)
            try:
                return self._answer(timeout_s)
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                self._answer(None)
                raise subprocess.TimeoutExpired(request["argv"], timeout_s) from None

    def end(self) -> None:
        self._socket.close()
        self._process.wait(10)

    def _answer(self, timeout_s: float | None) -> int:
        self._socket.settimeout(timeout_s)
        answer = self._socket.recv(_LENGTH.size, socket.MSG_WAITALL)
        assert answer, "the process that forks has died"
        return int.from_bytes(answer, "big", signed=True)


@functools.cache
def _server() -> _Server:
    return _Server()


def _serve(connection: socket.socket) -> None:
    """Fork a child for each request, one after another; returns in a child, with its argv in place."""
    while True:
        head, ancillary, _flags, _address = connection.recvmsg(_LENGTH.size, socket.CMSG_SPACE(3 * 4))
        if not head:
            os._exit(0)
        body = connection.recv(_LENGTH.unpack(head)[0], socket.MSG_WAITALL)
        files = array.array("i", ancillary[0][2])
        pid = os.fork()
        if pid == 0:
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
    sys.argv = ["rocenv", *request["argv"]]
    for name, number in (("stdout", 1), ("stderr", 2)):
        errors = "strict" if name == "stdout" else "backslashreplace"
        stream = open(number, "w", encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115


def _main() -> NoReturn:
    import rocenv.commands
    from rocenv.cli import main

    for module in pkgutil.iter_modules(rocenv.commands.__path__, "rocenv.commands."):
        if not module.name.endswith("_windows"):
            importlib.import_module(module.name)
    _serve(socket.socket(fileno=int(sys.argv[1])))
    main()


if __name__ == "__main__":
    _main()
