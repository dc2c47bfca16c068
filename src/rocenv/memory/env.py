"""The env that a `mem` command uses, and the memory figures from its HIP runtime."""

from __future__ import annotations

import os
import tempfile
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rocenv.active_env import active_env
from rocenv.core.errors import RocenvError
from rocenv.host.gpu import printable
from rocenv.memory.amounts import amount, ranges
from rocenv.memory.gpus import HipFigure
from rocenv.prefix import all_prefixes, prefix_of
from rocenv.probe.hip_session import HipSession, NoAnswer
from rocenv.probe.setup import probe_of
from rocenv.probe.wire import HipGpu
from rocenv.system.machine import examined_elsewhere
from rocenv.system.process import exit_by_signal, handled
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rocenv.context import Context
    from rocenv.core.model import Record
    from rocenv.data.rows import Matrix
    from rocenv.home import Home
    from rocenv.host import Gpu, Host
    from rocenv.prefix import Prefix

_T = TypeVar("_T")
_TIMEOUT_S = 20.0
_MAX_NAMED = 3  # envs in a message


class NoGpu(RocenvError):
    """The runtime cannot find a GPU; the exit code is the same as for `verify`."""

    code = "no-gpu"
    exit_code = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvView:
    """An env and the memory figures from its HIP runtime; all fields are empty if there is no env."""

    name: str = ""
    record: Record | None = None
    figures: Mapping[int, HipFigure] = field(default_factory=dict)  # by GPU index
    notes: tuple[str, ...] = ()

    def gpu(self, host: Host) -> Gpu | None:
        """Return the GPU that programs use (in the env, if any), or None if there is no GPU."""
        own = host.devices_for(*self.record.lock.targets) if self.record is not None else ()
        return next(iter(own), host.gpu)


def view_of_env(context: Context, host: Host, name: str, *, ask_hip: bool = True) -> EnvView:
    """Query the env `name`, or else the active env, if any; raise PrefixError if `name` does not exist."""
    if not name and (not host.gpus or examined_elsewhere()):
        return EnvView()
    prefix = _named_or_active(context.home, os.environ, name)
    if prefix is None:
        return EnvView()
    record = prefix.record()
    if not ask_hip:
        return EnvView(name=prefix.name, record=record)
    with context.progress.wait(f"Querying HIP in {prefix.name}"):
        return hip_memory(prefix, record, context.matrix, host)


def env_for(home: Home, environ: Mapping[str, str], name: str = "") -> Prefix:
    """Choose the env `name`, or else the active env, or else the only env with a HIP runtime.

    Raises:
        PrefixError: `name` is not a valid env name.
        RocenvError: No env has a HIP runtime, or several have.
    """
    if chosen := _named_or_active(home, environ, name):
        return chosen
    envs = [prefix for prefix in all_prefixes(home) if prefix.state == "complete" and _has_hip(prefix)]
    if len(envs) == 1:
        return envs[0]
    if not envs:
        raise RocenvError(
            "no env has its own HIP runtime",
            hints=(f"create one: `rocenv create {home.unused_name('hip')}`",),
            code="no-env",
        )
    raise RocenvError(
        f"{len(envs)} envs have a HIP runtime, but none of them is active; specify one",
        hints=tuple(f"`rocenv mem probe {shell_join(each.name)}`" for each in envs[:_MAX_NAMED]),
        code="env-not-named",
    )


@contextmanager
def open_session(prefix: Prefix, record: Record, matrix: Matrix, timeout_s: float) -> Iterator[HipSession]:
    """Open a session with an env's HIP runtime; closing it ends its child processes.

    Args:
        prefix: A complete env.
        record: The env's record.
        matrix: Lists the system libraries.
        timeout_s: Applies to each request.

    Raises:
        RocenvError: The env does not have its own HIP runtime.
    """
    with (
        handled(dict.fromkeys(("SIGTERM", "SIGHUP"), exit_by_signal)),
        tempfile.TemporaryDirectory(prefix="rocenv-memory-", ignore_cleanup_errors=True) as folder,
    ):
        target, library = record.lock.code_target, matrix.c_library[0]
        probe = probe_of(prefix, record, library, target=target, work_dir=Path(folder), timeout_s=timeout_s)
        hip = probe.task.libraries.get("hip")
        if not hip:
            raise RocenvError(
                f"env `{prefix.name}` has no HIP runtime of its own: it contains no ROCm, or only ROCm as"
                " Python wheels",
                hints=(f"`rocenv list` shows other envs; `rocenv create {prefix.free_name()}` installs HIP",),
                code="no-runtime",
            )
        # Load only HIP: ZLUDA also allocates through it.
        task = replace(probe.task, runtime="hip", libraries={"hip": hip}, preload=())
        with closing(HipSession(replace(probe, task=task), Path(folder, "child.log"))) as session:
            yield session


def first_answer(session: HipSession, env: str, kind: type[_T], request: str) -> _T:
    """Send a session's first request; raise NoGpu or RocenvError if it fails."""
    try:
        return session.ask(kind, request)
    except NoAnswer as error:
        if error.end == "no-device":
            hint = "`rocenv gpus` lists the GPUs and shows why they are unusable"
            raise NoGpu(str(error), hints=(hint,)) from error
        raise RocenvError(
            f"the HIP runtime of env `{env}` failed: {error}",
            hints=(f"`rocenv verify {shell_join(env)}` shows where it fails",),
            code="runtime-broken",
        ) from error


def hip_memory(prefix: Prefix, record: Record, matrix: Matrix, host: Host) -> EnvView:
    """Query an env's HIP runtime for each GPU's memory; notes explain missing figures."""
    view = EnvView(name=prefix.name, record=record)
    if host.named:
        return view
    try:
        with open_session(prefix, record, matrix, _TIMEOUT_S) as session:
            listed = first_answer(session, prefix.name, tuple[HipGpu, ...], "list")
    except RocenvError as error:
        return replace(view, notes=(f"could not query HIP in `{prefix.name}`: {error.message}",))
    found: dict[int, HipFigure] = {}
    notes = []
    for each in listed:
        gpu = match_gpu(each, host.gpus)
        if gpu is None or gpu.index in found:
            place = f" at {each.address}" if each.address else ""
            name = f"{printable(each.name) or 'a GPU'} ({printable(each.target)})"
            notes.append(
                f"ignoring {name}{place} with {amount(each.total_bytes)}: HIP in `{prefix.name}` lists it,"
                " but it does not match any GPU on this machine"
            )
        else:
            found[gpu.index] = HipFigure(free_bytes=each.free_bytes, total_bytes=each.total_bytes)
    if silent := [gpu.index for gpu in host.gpus if gpu.index not in found]:
        notes.append(f"HIP in `{prefix.name}` does not list GPU {ranges(silent)}")
    return replace(view, figures=found, notes=tuple(notes))


def match_gpu(hip_gpu: HipGpu, gpus: Sequence[Gpu]) -> Gpu | None:
    """Find the detected GPU that HIP lists as `hip_gpu`; return None if there is no unique match."""
    there = [gpu for gpu in gpus if gpu.address and gpu.address == hip_gpu.address]
    if there:
        # A board's partitions share its address, so match them by order; that works only if HIP lists all of
        # them.
        return there[hip_gpu.before] if len(there) == hip_gpu.alike else None
    alike = [
        gpu
        for gpu in gpus
        if not (gpu.address and hip_gpu.address) and (not gpu.target or gpu.target == hip_gpu.target)
    ]
    if len(alike) == 1:
        return alike[0]
    return next((gpu for gpu in alike if gpu.hip_index == hip_gpu.ordinal), None)


def _named_or_active(home: Home, environ: Mapping[str, str], name: str) -> Prefix | None:
    return prefix_of(home, name) if name else active_env(home, environ)


def _has_hip(prefix: Prefix) -> bool:
    try:
        components = prefix.record_wherever_made().lock.components
    except RocenvError:
        return False
    libraries = [component.layout.libraries for component in components if component.layout is not None]
    return any("hip" in names or "nvcuda" in names for names in libraries)
