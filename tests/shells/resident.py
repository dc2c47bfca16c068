"""A faster `rocenv`: a process that has already imported the package forks for each call.

A call spends most of its time starting Python and importing modules. Here, the shell starts a small client
program that forwards its arguments, environment, open files and working directory, and exits with the call's
exit code. Shell tests call rocenv hundreds of times; tests for the program itself start the real program.
"""

from __future__ import annotations

import atexit
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_CLIENT = """\
#!{python} -ISB
import _socket, array, os, sys
connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
connection.connect({address!r})
words = [*map(os.fsencode, sys.argv[1:])]
variables = [name + b"=" + value for name, value in os.environb.items()]
message = b"\\0".join([b"%d" % len(words), *words, *variables])
files = array.array("i", [0, 1, 2, os.open(".", os.O_RDONLY)])
connection.sendmsg([b"%010d" % len(message)], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
while message:
    message = message[connection.send(message):]
os._exit(connection.recv(1)[0])
"""


@cache
def resident_rocenv() -> Path:
    """Start the process and return the path of its client program; the process ends when this one does."""
    # A socket's path can be at most 107 bytes long.
    folder = Path(tempfile.mkdtemp(prefix="resident-", dir="/tmp"))
    address, program = str(folder / "socket"), folder / "rocenv"
    program.write_text(_CLIENT.format(python=os.path.realpath(sys.executable), address=address))
    program.chmod(0o755)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(16)
    with listener:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.shells.resident", str(listener.fileno())],
            cwd=ROOT,
            pass_fds=[listener.fileno()],
            stdin=subprocess.PIPE,
        )
    atexit.register(process.communicate)
    return program


def main() -> None:
    """Serve calls until the test process exits, which closes standard input."""
    from rocenv.cli import COMMANDS, HIDDEN, load_command

    for name in (*COMMANDS, *HIDDEN):
        load_command(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        while True:
            ready, _, _ = select.select([listener, sys.stdin], [], [])
            if listener not in ready:
                shutil.rmtree(Path(listener.getsockname()).parent)
                return
            connection, _ = listener.accept()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listener.close()
                connection.send(bytes([_answer(connection)]))
                os._exit(0)
            connection.close()


def _answer(connection: socket.socket) -> int:
    length, (*files, folder), _, _ = socket.recv_fds(connection, 10, 4)
    message = b""
    while len(message) < int(length):
        message += connection.recv(int(length) - len(message))
    many, *texts = message.split(b"\0")
    if (child := os.fork()) == 0:
        for number, file in enumerate(files):
            os.dup2(file, number)
        os.environb.clear()
        for text in texts[int(many) :]:
            name, _, value = text.partition(b"=")
            os.environb[name] = value
        os.fchdir(folder)
        _run([os.fsdecode(text) for text in texts[: int(many)]])
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) % 256


def _run(words: list[str]) -> None:
    from rocenv.cli import main

    sys.argv = ["rocenv", *words]
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(number, mode, closefd=False) for number, mode in enumerate(("r", "w", "w"))
    )
    status: object = 1
    try:
        status = main()
    except SystemExit as end:
        status = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status if isinstance(status, int) else 0 if status is None else 1)


if __name__ == "__main__":
    main()
