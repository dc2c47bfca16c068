"""Verify an env rung by rung and store the result next to its record."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import math
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from rocenv.core.codec import verification_file
from rocenv.core.errors import RocenvError
from rocenv.core.model import APP_RUNG, Machine, RungResult, Verification
from rocenv.core.progress import size_text
from rocenv.core.versions import joined
from rocenv.findings import render, set_known_to_fail
from rocenv.host.defender import quarantined
from rocenv.host.windows import display_driver
from rocenv.probe.ladder import RUNGS, run_ladder
from rocenv.probe.setup import first_run_s, probe_of
from rocenv.resolve.request import create_command
from rocenv.resolve.verdicts import known_broken
from rocenv.system import WINDOWS, pe
from rocenv.system.files import write_atomic
from rocenv.system.machine import examined_elsewhere
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rocenv.core.model import ComponentKind, Lock, Record
    from rocenv.core.progress import Progress
    from rocenv.data.knowledge import Verdict
    from rocenv.data.rows import Matrix
    from rocenv.prefix import Prefix
    from rocenv.probe.ladder import Probe

Level = Literal["quick", "full"]
QUICK = ("files", "load", "version", "device", "memory")  # the rungs that do not compile anything
TIMEOUT_S = 120.0  # per rung; compiling on first use of a GPU may take a long time
_BROKEN = ("failed", "crashed", "timeout")
# Rung -> the parts whose packages contain the kernels that it runs.
_KERNELS: dict[str, tuple[ComponentKind, ...]] = {"blas": ("rocm",), "torch": ("rocm", "torch")}
_SHOWN = 3
_SLOW_S = 60.0
_SURE = 0.5  # minimum confidence in a cause found in a rung's output
_ROOM_BYTES = 1 << 20  # much more than the logs, code objects and results of the child processes need


def verify(
    prefix: Prefix,
    matrix: Matrix,
    progress: Progress,
    *,
    upto: str = RUNGS[-1],
    target: str = "",
    save_dir: Path | None = None,
    timeout_s: float = 0.0,
    report: Callable[[RungResult], None] = lambda _result: None,
    last: Callable[[tuple[RungResult, ...]], RungResult] | None = None,
    level: Level | None = None,
    until: float = math.inf,
) -> Verification:
    """Run the ladder in an env, store the result in its prefix, and return it.

    Args:
        prefix: A complete env.
        matrix: Lists system libraries and known-broken sets.
        progress: Shows hashing progress.
        upto: The last rung to run.
        target: Overrides the set's target.
        save_dir: Where to store the GEMM source, the code objects and the logs; created if missing.
        timeout_s: Time limit per rung, or 0 for a default that depends on the set.
        report: Called with each result.
        last: Called with the ladder's results; returns one more.
        level: Check a cluster node: store nothing, because nodes share the env; `quick` runs only short
            rungs and compares file sizes instead of hashes.
        until: Deadline for all rungs, on the monotonic clock.

    Raises:
        PrefixError: The env is missing or incomplete.
        RocenvError: `save_dir` is not writable, or there is no space for temporary files.
    """
    record = prefix.record()
    if not target and record.lock.request.more_targets:
        target = _target_here(record.lock, matrix)
    if target in ("", record.lock.target):
        target = record.lock.code_target  # the GPU's target after any override
    with ExitStack() as stack:
        work_dir = _work_dir(save_dir, stack)
        c_library = matrix.c_library[0]
        patience_s = timeout_s or first_run_s(record.lock) or TIMEOUT_S
        probe = probe_of(prefix, record, c_library, target=target, work_dir=work_dir, timeout_s=patience_s)
        probe = dataclasses.replace(probe, until=until)
        wanted = [rung for rung in probe.rungs if RUNGS.index(rung) <= RUNGS.index(upto)]
        if level == "quick":
            wanted = [rung for rung in wanted if rung in QUICK]
        driver = display_driver(matrix) if WINDOWS else ""
        known = known_broken(record.lock, matrix, driver)
        if first_run_s(record.lock):
            stack.enter_context(_note_when_slow(progress))
        results = run_ladder(
            probe,
            wanted,
            files=lambda: _files_rung(prefix, record, progress, hashes=level != "quick"),
            begin=lambda rung: progress.wait(f"Running the `{rung}` rung", closing=False),
            judge=lambda result: _with_causes(_with_packages(result, prefix, probe), known, matrix),
            report=report,
        )
        if last is not None:
            results = (*results, _with_causes(last(results), known, matrix))
            report(results[-1])
    verification = Verification(
        env=prefix.name,
        target=probe.task.target,
        results=results,
        advice=tuple(_advice(prefix, record, matrix, known[:1], driver)) if known else (),
        when=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    )
    # Store only results about the env, not those for another target or an app.
    if level is None and verification.target in (record.lock.code_target, *record.lock.request.more_targets):
        of_env = replace(verification, results=tuple(each for each in results if each.rung != APP_RUNG))
        _keep(lambda: prefix.write_verification(of_env), prefix.own, progress)
    if save_dir:
        file, text = save_dir / "verify.json", verification_file(verification)
        _keep(lambda: write_atomic(file, text), save_dir, progress)
    return verification


def _target_here(lock: Lock, matrix: Matrix) -> str:
    """For an env with several targets, choose the first one that matches a GPU on this machine."""
    from rocenv.host import detect

    here = {gpu.target for gpu in detect(matrix).gpus if gpu.usable}
    return next((target for target in lock.targets if target in here), lock.target)


def _work_dir(save_dir: Path | None, stack: ExitStack) -> Path:
    hint = "set TMPDIR to a folder with free space: `export TMPDIR=/var/tmp`"
    try:
        _require_room(Path(tempfile.gettempdir()), hint)
    except FileNotFoundError as error:  # none of the usual folders is writable
        raise RocenvError("there is no folder for temporary files", hints=(hint,), code="no-temp") from error
    if save_dir is None:
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rocenv-verify-")))
    _require_room(save_dir, "choose a different folder with `--save-artifacts`")
    return save_dir.resolve()


def _require_room(folder: Path, hint: str) -> None:
    """Create the folder; raise RocenvError if it is not writable, so that no rung fails for that reason."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_ROOM_BYTES))
    except OSError as error:
        raise RocenvError(
            f"cannot write to the folder `{folder}`: {error.strerror}", hints=(hint,), code="no-temp"
        ) from error


def _files_rung(prefix: Prefix, record: Record, progress: Progress, *, hashes: bool) -> RungResult:
    from rocenv.integrity import differences, replaced_packages
    from rocenv.presence import damaged

    start = time.monotonic()
    files = prefix.files(record)
    found = differences(prefix.path, files, progress) if hashes else damaged(prefix.path, files)
    elapsed_s = time.monotonic() - start
    if not found:
        size = size_text(sum(entry.size_bytes for entry in files.values()))
        detail = f"{len(files)} files, {size}, {'unchanged' if hashes else 'with the recorded sizes'}"
        return RungResult(rung="files", status="passed", elapsed_s=elapsed_s, detail=detail)
    shown = ", ".join(_shown(prefix, path, what) for path, what in list(found.items())[:_SHOWN])
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    replaced = "".join(
        f"package `{each.name}` is {each.found or 'not installed'}, but the lock has {each.locked}: "
        for each in replaced_packages(prefix.path, record.lock)[:1]
    )
    detail = f"{replaced}{shown}{more}; `rocenv repair {shell_join(prefix.name)}` restores them"
    detail += _quarantine_note(prefix, found)
    return RungResult(rung="files", status="failed", elapsed_s=elapsed_s, detail=detail)


def _shown(prefix: Prefix, path: str, what: str) -> str:
    """Describe a difference; for a replaced DLL, include the version that it reports."""
    text = f"`{path}` is {what}"
    if what != "changed" or not path.lower().endswith(".dll"):
        return text
    try:
        version = pe.read(prefix.path / path).file_version
    except RocenvError:
        return f"{text} (it is not a library)"
    return f"{text} (its version is {version})" if version else text


def _with_packages(result: RungResult, prefix: Prefix, probe: Probe) -> RungResult:
    """Mention missing kernel packages in the detail of a failed rung."""
    if result.status not in _BROKEN:
        return result
    lacking = _lacking_kernels(prefix, prefix.record().lock, probe.task.target, result.rung)
    return replace(result, detail=f"{result.detail}; {lacking}") if lacking else result


def _lacking_kernels(prefix: Prefix, lock: Lock, target: str, rung: str) -> str:
    """Name the missing kernel packages for a target and the command that adds them, or return "".

    AMD puts the kernels for each target into separate packages named after the target. Without them, programs
    fail with only `hipErrorInvalidImage`.
    """
    from rocenv.integrity import installed_packages

    lacking: list[str] = []
    for part in filter(None, map(lock.part, _KERNELS.get(rung, ()))):
        if part.layout is not None:
            names = (each.name for each in part.artifacts if each.name.endswith(f"-{lock.code_target}"))
            there = installed_packages(prefix.path / part.layout.site_packages)
            wanted = (f"{name.removesuffix(lock.code_target)}{target}" for name in names)
            lacking += [f"`{name}`" for name in wanted if name not in there]
    if not lacking:
        return ""
    rocm = lock.part("rocm")
    more = dict.fromkeys((*lock.request.more_targets, target))
    request = replace(lock.request, rocm=rocm.version if rocm else "", more_targets=tuple(more))
    command = create_command(prefix.free_name(), request, lock.platform)
    return f"there are no kernels for {target}; {joined(lacking)} would provide them: `{command}`"


def _with_causes(result: RungResult, known: Sequence[Verdict], matrix: Matrix) -> RungResult:
    """Add codes to a failed rung: the set's known problems, and the causes found in the rung's output."""
    if result.rung == "files" or result.status not in _BROKEN:
        return result
    from rocenv.diagnose import diagnose_bytes

    said = diagnose_bytes(f"{result.detail}\n{result.stderr_tail}\n".encode(), matrix)
    codes = (
        *(row.code for row in known if row.code),
        *(each.code for each in said.findings if each.confidence >= _SURE),
    )
    return replace(result, findings=tuple(dict.fromkeys(codes)))


def _advice(
    prefix: Prefix, record: Record, matrix: Matrix, rows: Sequence[Verdict], driver: str
) -> Iterator[str]:
    machine = Machine(platform=record.lock.platform, driver=driver)
    observation = set_known_to_fail(prefix, record.lock, rows, matrix, machine)
    finding = render("env_known_broken", observation, matrix, "en", platform=record.lock.platform)
    yield f"{finding.title}: {finding.evidence[0]}"
    for step in finding.steps:
        yield ": ".join((step.text.rstrip("."), *(f"`{command}`" for command in step.commands)))


@contextlib.contextmanager
def _note_when_slow(progress: Progress) -> Iterator[None]:
    """After a minute, explain the delay, because users tend to kill a first run that seems to hang."""
    text = "Compiling GPU kernels; the first run may take half an hour"
    timer = threading.Timer(_SLOW_S, progress.note, (text,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _quarantine_note(prefix: Prefix, found: Mapping[str, str]) -> str:
    """Return a message about missing files that Microsoft Defender quarantined, or "" if there are none."""
    missing = [
        str(prefix.path.joinpath(*path.split("/"))) for path, what in found.items() if what == "missing"
    ]
    taken = quarantined(missing) if missing and (WINDOWS or examined_elsewhere()) else ()
    if not taken:
        return ""
    first = taken[0]
    name = first.path.replace("\\", "/").rpartition("/")[2]
    others = f" and {len(taken) - 1} more" if taken[1:] else ""
    return (
        f"; Microsoft Defender quarantined `{name}` ({first.threat}, {first.when}){others}: "
        "exclude the folder in Windows Security first"
    )


def _keep(write: Callable[[], None], folder: Path, progress: Progress) -> None:
    try:
        write()
    except OSError as error:  # another user's env or a full disk: the result is still valid
        progress.note(f"could not save the result in `{folder}`: {error.strerror}")
