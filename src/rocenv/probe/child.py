"""The child process of one rung.

It reads a Task from stdin and writes one Answer to stdout, each as one line of JSON. Whatever vendor
libraries print goes to stderr. Exit code 0 means that it wrote an Answer, even if the rung failed; otherwise,
the parent reports how this process ended.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, NoReturn

from rocenv.probe import own_process, windows
from rocenv.probe.device import Failure, NoDevice
from rocenv.probe.library import CallError
from rocenv.probe.rungs import RUNGS
from rocenv.probe.session import Session
from rocenv.probe.wire import STANDIN, Answer, Task, valid_text

if TYPE_CHECKING:
    from collections.abc import Callable


def answer(rung: str, task: Task) -> Answer:
    """Run a rung, then check the origin of every library that it used."""
    session = Session(task)
    found = _attempt(RUNGS[rung], session)
    leaks = session.leaks()
    if leaks:
        own = [] if found.status == "passed" else [found.detail]
        found = Answer(status="failed", detail="; ".join(own + leaks))
    detail = f"{STANDIN}: {found.detail}" if session.standin else found.detail
    return replace(found, detail=valid_text(detail))


def _attempt(rung: Callable[[Session], str], session: Session) -> Answer:
    try:
        return Answer(status="passed", detail=rung(session))
    except NoDevice as error:
        return Answer(status="skipped", detail=str(error), no_device=True)
    except (Failure, CallError) as error:
        return Answer(status="failed", detail=str(error))


def main(rung: str) -> NoReturn:
    """Write the Answer to the original stdout, and exit without running the vendor libraries' destructors."""
    out = own_process.keep_stdout()
    windows.watch_faults()
    line = json.dumps(asdict(answer(rung, Task.from_plain(json.load(sys.stdin)))))
    own_process.flush_c_streams()
    sys.stderr.flush()
    os.write(out, line.encode() + b"\n")
    # Runtime destructors occasionally crash at exit, after all work is done.
    os._exit(0)
