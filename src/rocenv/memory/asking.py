"""The session in which an env's HIP runtime is asked about memory."""

from __future__ import annotations

import tempfile
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rocenv.core.errors import RocenvError
from rocenv.probe.hip_session import HipSession, NoAnswer
from rocenv.probe.setup import probe_of
from rocenv.system.process import exit_by_signal, handled
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.core.model import Record
    from rocenv.data.rows import Matrix
    from rocenv.prefix import Prefix
    from rocenv.probe.ladder import Probe

_T = TypeVar("_T")


class NoGpu(RocenvError):
    """There is no GPU whose memory could be asked for; the exit code is that of `verify`."""

    code = "no-gpu"
    exit_code = 4


def first_answer(session: HipSession, env: str, kind: type[_T], what: str) -> _T:
    """The answer to the first request of a command; raises NoGpu or RocenvError if there is none."""
    try:
        return session.ask(kind, what)
    except NoAnswer as error:
        if error.end == "no-device":
            hint = "`rocenv gpus` says what there is, and why it cannot be used"
            raise NoGpu(str(error), hints=(hint,)) from error
        raise RocenvError(
            f"the HIP runtime of env `{env}` cannot be used: {error}",
            hints=(f"`rocenv verify {shell_join(env)}` says more",),
            code="runtime-broken",
        ) from error


@contextmanager
def hip_session(prefix: Prefix, record: Record, matrix: Matrix, timeout_s: float) -> Iterator[HipSession]:
    """Give what asks the HIP runtime of an env; whatever it started is gone afterwards.

    Args:
        prefix: A complete env.
        record: Its record.
        matrix: Which libraries are the machine's.
        timeout_s: For each request.

    Raises:
        RocenvError: The env has no HIP runtime of its own.
    """
    with (
        handled(dict.fromkeys(("SIGTERM", "SIGHUP"), exit_by_signal)),
        tempfile.TemporaryDirectory(prefix="rocenv-memory-", ignore_cleanup_errors=True) as folder,
    ):
        probe = _only_hip(_probe(prefix, record, matrix, Path(folder), timeout_s))
        if not probe.task.libraries:
            raise RocenvError(
                f"env `{prefix.name}` has no HIP runtime that rocenv could ask: it has no ROCm release, or "
                "only what lies in wheels",
                hints=("`rocenv list` shows other envs; one made with `--rocm VERSION` has one",),
                code="no-runtime",
            )
        with closing(HipSession(probe, Path(folder, "child.log"))) as session:
            yield session


def _probe(prefix: Prefix, record: Record, matrix: Matrix, folder: Path, timeout_s: float) -> Probe:
    return probe_of(
        prefix,
        record,
        matrix.c_library[0],
        target=record.lock.code_target,
        work_dir=folder,
        timeout_s=timeout_s,
    )


def _only_hip(probe: Probe) -> Probe:
    """Return the same for HIP alone: the memory behind ZLUDA is HIP's, and nothing else has to be loaded."""
    hip = probe.task.libraries.get("hip")
    task = replace(probe.task, runtime="hip", libraries={"hip": hip} if hip else {}, preload=())
    return replace(probe, task=task)
