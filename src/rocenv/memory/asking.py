"""The children that ask an env's HIP runtime about memory: a new one after a crash or a hang."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from rocenv.core.errors import RocenvError
from rocenv.probe.dialogue import Dialogue, NoAnswer
from rocenv.probe.setup import probe_of
from rocenv.probe.wire import Opened, Seen
from rocenv.system.process import exit_by_signal, handled
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rocenv.core.model import Record
    from rocenv.data.rows import Matrix
    from rocenv.prefix import Prefix
    from rocenv.probe.ladder import Probe

_T = TypeVar("_T")


class NoGpu(RocenvError):
    """There is no GPU whose memory could be asked for; the exit code is that of `verify`."""

    code = "no-gpu"
    exit_code = 4


class Talk:
    """What is asked in one command."""

    def __init__(self, probe: Probe, env: str, log: Path) -> None:
        self._probe = probe
        self._env = env
        self._log = log
        self._task = asdict(probe.task)
        self._child: Dialogue | None = None

    def open(self) -> Opened:
        """Return the GPU, made current; raise NoGpu or RocenvError."""
        return self._first(lambda: self._read(Opened, self._started().ask("open", task=self._task)))

    def all_gpus(self) -> tuple[Seen, ...]:
        """Return all GPUs, with what HIP says of their memory; raise as `open`."""
        found = self._first(lambda: self._started().ask("list", task=self._task))
        if not isinstance(found, list):
            found = [found]
        return self._first(lambda: tuple(self._read(Seen, each) for each in found))

    def ask(
        self, kind: type[_T], what: str, tell: Callable[[Any], None] = lambda _: None, **words: Any
    ) -> _T:
        """Return the answer to a request about the GPU that was opened; raise NoAnswer."""
        try:
            if self._child is None:
                self._started().ask("open", task=self._task)
            assert self._child is not None
            return self._read(kind, self._child.ask(what, tell, **words))
        except NoAnswer as error:
            if error.end in ("crashed", "timeout"):
                self.close()
            raise

    def close(self) -> None:
        """End the child, if there is one; the driver takes back what it had."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def _started(self) -> Dialogue:
        self._child = Dialogue(self._probe, self._log)
        return self._child

    def _read(self, kind: type[_T], plain: Any) -> _T:
        try:
            return msgspec.convert(plain, kind)
        except msgspec.ValidationError as error:
            raise NoAnswer("crashed", f"the child's answer: {error}") from error

    def _first(self, ask: Callable[[], _T]) -> _T:
        try:
            return ask()
        except NoAnswer as error:
            if error.end == "no-device":
                hint = "`rocenv gpus` says what there is, and why it cannot be used"
                raise NoGpu(str(error), hints=(hint,)) from error
            raise RocenvError(
                f"the HIP runtime of env `{self._env}` cannot be used: {error}",
                hints=(f"`rocenv verify {shell_join(self._env)}` says more",),
                code="runtime-broken",
            ) from error


@contextmanager
def talking(prefix: Prefix, record: Record, matrix: Matrix, timeout_s: float) -> Iterator[Talk]:
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
        talk = Talk(probe, prefix.name, Path(folder, "child.log"))
        try:
            yield talk
        finally:
            talk.close()


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
