"""The parent's side of the child that is asked about a GPU's memory, and may crash or hang at any request."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import threading
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from rocenv.probe.ladder import last_call, tail
from rocenv.probe.wire import Message
from rocenv.system.exit_codes import describe_exit, is_crash
from rocenv.system.process import kill_group, own_child, start_group

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rocenv.probe.ladder import Probe

_T = TypeVar("_T")
_LONGEST_LINE = 1 << 20
_LOOK_EVERY_S = 0.5
_WITH_TASK = ("open", "list")  # requests that need no open GPU
End = Literal["crashed", "timeout", "failed", "no-device"]


class NoAnswer(Exception):
    """A request failed or was not answered; the text says how. The child has ended."""

    def __init__(self, end: End, text: str) -> None:
        super().__init__(text)
        self.end = end


class HipSession:
    """Asks the HIP runtime of an env, in one child; after a failed request, in a new one.

    Each request has the time limit of `probe`. The child's stderr goes to `log`.
    """

    def __init__(self, probe: Probe, log: Path) -> None:
        self._probe = probe
        self._log = log
        self._child: subprocess.Popen[bytes] | None = None
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def ask(
        self, kind: type[_T], what: str, tell: Callable[[Any], None] = lambda _: None, **words: Any
    ) -> _T:
        """The answer to a request; raises NoAnswer if it fails or is not answered.

        `tell` is called with each report of progress, which also restarts the time limit.
        """
        try:
            if self._child is None:
                self._child = self._started()
                if what not in _WITH_TASK:
                    self._answer(self._child, "open", tell, {})
            return msgspec.convert(self._answer(self._child, what, tell, words), kind)
        except msgspec.ValidationError as error:
            self.close()
            raise NoAnswer("crashed", f"the child's answer: {error}") from error
        except NoAnswer:
            self.close()
            raise

    def close(self) -> None:
        """End the child, if there is one; what it has of a GPU's memory, the driver takes back."""
        child, self._child = self._child, None
        if child is None:
            return
        if child.poll() is None:
            kill_group(child)
        assert child.stdin is not None
        with contextlib.suppress(OSError):  # what was still to be written has nobody to read it
            child.stdin.close()

    def _started(self) -> subprocess.Popen[bytes]:
        argv = [*self._probe.python, *own_child("rocenv.probe.memory_child", str(os.getpid()))]
        with self._log.open("wb") as stderr:
            try:
                child = start_group(
                    argv,
                    self._probe.environ,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    cwd=self._probe.task.work_dir,
                )
            except OSError as error:
                raise NoAnswer("failed", f"cannot start the child: {error}") from error
        self._lines = queue.SimpleQueue()
        threading.Thread(target=_read, args=(child, self._lines), daemon=True).start()
        return child

    def _answer(
        self, child: subprocess.Popen[bytes], what: str, tell: Callable[[Any], None], words: dict[str, Any]
    ) -> Any:
        task = {"task": asdict(self._probe.task)} if what in _WITH_TASK else {}
        assert child.stdin is not None
        with contextlib.suppress(OSError):  # it died meanwhile, as the end of its output tells
            child.stdin.write(json.dumps({"do": what, **task, **words}).encode() + b"\n")
            child.stdin.flush()
        while True:
            message = self._next(child)
            if message.kind == "done":
                return message.what
            if message.kind != "progress":
                raise NoAnswer(message.kind, str(message.what))
            tell(message.what)

    def _next(self, child: subprocess.Popen[bytes]) -> Message:
        line = self._line()
        if line is None:
            raise NoAnswer("timeout", f"no answer within {self._probe.timeout_s:g} s{self._last_call()}")
        if not line:
            raise NoAnswer("crashed", self._end(child))
        try:
            return msgspec.json.decode(line, type=Message)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise NoAnswer("crashed", "the child's output is no answer") from error

    def _line(self) -> bytes | None:
        """The next line, empty at the end of the output; None = there is none in time."""
        end = time.monotonic() + self._probe.timeout_s
        while (left := end - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                return self._lines.get(timeout=min(left, _LOOK_EVERY_S))  # Ctrl-C waits for that on Windows
        return None

    def _end(self, child: subprocess.Popen[bytes]) -> str:
        try:
            code = child.wait(self._probe.timeout_s)
        except subprocess.TimeoutExpired:
            return "the child closed its output and did not end"
        how = "crashed" if is_crash(code) else "ended without an answer"
        return f"{how}: {describe_exit(code)}{self._last_call()}"

    def _last_call(self) -> str:
        return last_call(tail(self._log))


def _read(child: subprocess.Popen[bytes], lines: queue.SimpleQueue[bytes]) -> None:
    assert child.stdout is not None
    with child.stdout as stream:
        while line := stream.readline(_LONGEST_LINE):
            lines.put(line)
    lines.put(b"")
