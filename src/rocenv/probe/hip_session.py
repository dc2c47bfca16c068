"""Query an env's HIP runtime about GPU memory in a child process, which may crash or hang on any request."""

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
_MAX_LINE = 1 << 20
_POLL_S = 0.5
_WITH_TASK = ("open", "list")  # requests that may come first, before a GPU is opened
End = Literal["crashed", "timeout", "failed", "no-device"]


class NoAnswer(Exception):
    """A request failed or got no response, and the child has ended."""

    def __init__(self, end: End, text: str) -> None:
        super().__init__(text)
        self.end = end


class HipSession:
    """A session with a child process, which is replaced after a failed request.

    `probe`'s timeout applies to each request. The child's stderr goes to `log`.
    """

    def __init__(self, probe: Probe, log: Path) -> None:
        self._probe = probe
        self._log = log
        self._child: subprocess.Popen[bytes] | None = None
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def ask(
        self, kind: type[_T], what: str, report: Callable[[Any], None] = lambda _: None, **arguments: Any
    ) -> _T:
        """Send a request and return its result; raise NoAnswer if it fails or gets no response.

        `report` is called with each progress report, which also restarts the timeout.
        """
        try:
            if self._child is None:
                self._child = self._start()
                if what not in _WITH_TASK:
                    self._request(self._child, "open", report, {})
            return msgspec.convert(self._request(self._child, what, report, arguments), kind)
        except msgspec.ValidationError as error:
            self.close()
            raise NoAnswer("crashed", f"the child's response is malformed: {error}") from error
        except NoAnswer:
            self.close()
            raise

    def close(self) -> None:
        """Kill the child, if there is one; the driver frees its memory."""
        child, self._child = self._child, None
        if child is None:
            return
        if child.poll() is None:
            kill_group(child)
        assert child.stdin is not None
        with contextlib.suppress(OSError):  # pending writes fail, because the child is dead
            child.stdin.close()

    def _start(self) -> subprocess.Popen[bytes]:
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
        threading.Thread(target=_read_lines, args=(child, self._lines), daemon=True).start()
        return child

    def _request(
        self,
        child: subprocess.Popen[bytes],
        what: str,
        report: Callable[[Any], None],
        arguments: dict[str, Any],
    ) -> Any:
        task = {"task": asdict(self._probe.task)} if what in _WITH_TASK else {}
        assert child.stdin is not None
        with contextlib.suppress(OSError):  # if the child died, `_read_message` detects that
            child.stdin.write(json.dumps({"do": what, **task, **arguments}).encode() + b"\n")
            child.stdin.flush()
        while True:
            message = self._read_message(child)
            if message.kind == "done":
                return message.what
            if message.kind != "progress":
                raise NoAnswer(message.kind, str(message.what))
            report(message.what)

    def _read_message(self, child: subprocess.Popen[bytes]) -> Message:
        line = self._read_line()
        if line is None:
            raise NoAnswer("timeout", f"no response within {self._probe.timeout_s:g} s{self._last_call()}")
        if not line:
            raise NoAnswer("crashed", self._describe_end(child))
        try:
            return msgspec.json.decode(line, type=Message)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise NoAnswer("crashed", "the child's output is not a valid response") from error

    def _read_line(self) -> bytes | None:
        """Return the next line, b"" at the end of the output, or None after a timeout."""
        end = time.monotonic() + self._probe.timeout_s
        while (left := end - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                return self._lines.get(timeout=min(left, _POLL_S))  # Windows delays Ctrl-C during a wait
        return None

    def _describe_end(self, child: subprocess.Popen[bytes]) -> str:
        try:
            code = child.wait(self._probe.timeout_s)
        except subprocess.TimeoutExpired:
            return "the child closed its output but did not exit"
        how = "crashed" if is_crash(code) else "ended without a response"
        return f"{how}: {describe_exit(code)}{self._last_call()}"

    def _last_call(self) -> str:
        return last_call(tail(self._log))


def _read_lines(child: subprocess.Popen[bytes], lines: queue.SimpleQueue[bytes]) -> None:
    assert child.stdout is not None
    with child.stdout as stream:
        while line := stream.readline(_MAX_LINE):
            lines.put(line)
    lines.put(b"")
