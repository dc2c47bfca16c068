"""The parent's side of a child that is asked one thing after the other, and may crash or hang at any."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from rocenv.probe.ladder import last_call, tail
from rocenv.probe.wire import Message
from rocenv.system.exit_codes import describe_exit, is_crash
from rocenv.system.process import kill_group, own_child, start_group

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rocenv.probe.ladder import Probe

_LONGEST_LINE = 1 << 20
_LOOK_EVERY_S = 0.5
End = Literal["crashed", "timeout", "failed", "no-device"]


class NoAnswer(Exception):
    """A request was not answered, or with bad news; the text says how.

    Attributes:
        end: What became of it. After `crashed` and `timeout` the child is gone.
    """

    def __init__(self, end: End, text: str) -> None:
        super().__init__(text)
        self.end = end


class Dialogue:
    """A child in the environment of an env, whose stderr goes to `log`; `close` ends it.

    Each request has the time limit of `probe`. Raises NoAnswer if the child cannot be started.
    """

    def __init__(self, probe: Probe, log: Path) -> None:
        self._timeout_s = probe.timeout_s
        self._log = log
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        argv = [*probe.python, *own_child("rocenv.probe.memory_child", str(os.getpid()))]
        with log.open("wb") as stderr:
            try:
                self._child = start_group(
                    argv,
                    probe.environ,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    cwd=probe.task.work_dir,
                )
            except OSError as error:
                raise NoAnswer("failed", f"cannot start the child: {error}") from error
        threading.Thread(target=self._read, daemon=True).start()

    def close(self) -> None:
        """End the child; what it has of a GPU's memory, the driver takes back."""
        if self._child.poll() is None:
            kill_group(self._child)
        assert self._child.stdin is not None
        with contextlib.suppress(OSError):  # what was still to be written has nobody to read it
            self._child.stdin.close()

    def ask(self, what: str, tell: Callable[[Any], None] = lambda _: None, **words: Any) -> Any:
        """The answer to a request; raises NoAnswer if there is none, or bad news.

        `tell` is called with each report of progress, which also restarts the time limit.
        """
        assert self._child.stdin is not None
        with contextlib.suppress(OSError):  # it died meanwhile, as the end of its output tells
            self._child.stdin.write(json.dumps({"do": what, **words}).encode() + b"\n")
            self._child.stdin.flush()
        while True:
            message = self._next()
            if message.kind == "done":
                return message.what
            if message.kind != "progress":
                raise NoAnswer(message.kind, str(message.what))
            tell(message.what)

    def _next(self) -> Message:
        line = self._line()
        if line is None:
            self.close()
            why = f"no answer within {self._timeout_s:g} s{last_call(tail(self._log))}"
            raise NoAnswer("timeout", why)
        if not line:
            raise NoAnswer("crashed", self._end())
        try:
            return msgspec.json.decode(line, type=Message)
        except msgspec.DecodeError as error:
            self.close()
            raise NoAnswer("crashed", "the child's output is no answer") from error

    def _line(self) -> bytes | None:
        """The next line, empty at the end of the output; None = there is none in time."""
        end = time.monotonic() + self._timeout_s
        while (left := end - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                return self._lines.get(timeout=min(left, _LOOK_EVERY_S))  # Ctrl-C waits for that on Windows
        return None

    def _end(self) -> str:
        try:
            code = self._child.wait(self._timeout_s)
        except subprocess.TimeoutExpired:
            self.close()
            return "the child closed its output and did not end"
        self.close()
        how = "crashed" if is_crash(code) else "ended without an answer"
        return f"{how}: {describe_exit(code)}{last_call(tail(self._log))}"

    def _read(self) -> None:
        assert self._child.stdout is not None
        with self._child.stdout as stream:
            while line := stream.readline(_LONGEST_LINE):
                self._lines.put(line)
        self._lines.put(b"")
