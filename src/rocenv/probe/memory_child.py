"""The child of `mem --probe`: does what it is asked, request by request, and ends with whoever asks.

What it holds of a GPU's memory must not outlive its parent. The end of stdin ends it, also while it waits in
a vendor library; on Linux the kernel does besides, for a library may hang while it is loaded.
"""

from __future__ import annotations

import ctypes
import json
import os
import queue
import signal
import sys
import threading
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NoReturn

from rocenv.probe import allocation, streams, windows
from rocenv.probe.device import Failure, NoDevice, Runtime
from rocenv.probe.library import CallError
from rocenv.probe.session import Session
from rocenv.probe.wire import Task

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocenv.probe.memory_wire import Kind

_PR_SET_PDEATHSIG = 1  # Source: prctl(2)


class Worker:
    """What the requests have in common: the session, and the GPU once it is open."""

    def __init__(self, out: int) -> None:
        self._out = out
        self._runtime: Runtime | None = None
        self._works: dict[str, Callable[[dict[str, Any]], Any]] = {
            "open": self._open,
            "list": self._list,
            "try": lambda words: allocation.attempt(self._gpu, words["size"]),
            "fill": lambda words: allocation.fill(self._gpu, **words, tell=self._tell),
            "push": lambda words: allocation.push(self._gpu, words["size"]),
        }

    def answer(self, line: str) -> None:
        """Do what one line asks, and say what came of it."""
        words = json.loads(line)
        work = self._works[words.pop("do")]
        try:
            found = work(words)
        except NoDevice as error:
            self._say("no-device", str(error))
        except (Failure, CallError) as error:
            self._say("failed", str(error))
        else:
            self._say("done", [asdict(each) for each in found] if isinstance(found, list) else asdict(found))

    @property
    def _gpu(self) -> Runtime:
        if self._runtime is None:
            raise Failure("no GPU was opened")
        return self._runtime

    def _open(self, words: dict[str, Any]) -> Any:
        opened, self._runtime = allocation.open_gpu(_session(words))
        return opened

    def _list(self, words: dict[str, Any]) -> Any:
        return allocation.all_gpus(_session(words))

    def _tell(self, size_bytes: int) -> None:
        self._say("told", size_bytes)

    def _say(self, kind: Kind, what: object) -> None:
        streams.flush_c_streams()
        os.write(self._out, json.dumps({"kind": kind, "what": what}).encode() + b"\n")


def _session(words: dict[str, Any]) -> Session:
    return Session(Task.from_json(json.dumps(words["task"])))


def _die_with_parent(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before that
            os._exit(0)


def _requests() -> queue.SimpleQueue[str]:
    """Return where requests come, read by a thread that ends this process with its stdin."""
    found: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            found.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return found


def main(parent: str) -> NoReturn:
    """Answer on the original stdout, one request after the other; `parent` is the process that asks."""
    _die_with_parent(int(parent))
    out = streams.keep_stdout()
    windows.watch_faults()
    requests, worker = _requests(), Worker(out)
    while True:
        worker.answer(requests.get())
