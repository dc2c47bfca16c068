"""Prove an env, rung by rung, and keep what was found beside its record."""

from __future__ import annotations

import datetime
import json
import os
import shlex
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.activate.changes import apply, expand
from rocenv.activate.loader import loader_argv
from rocenv.errors import RocenvError
from rocenv.install.prefix import library_folders
from rocenv.model import RungResult
from rocenv.probe.ladder import RUNGS, Probe, run_ladder
from rocenv.probe.wire import Task
from rocenv.progress import size_text
from rocenv.system.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rocenv.install.prefix import Prefix
    from rocenv.matrix.rows import CLibrary
    from rocenv.model import FileEntry, Record
    from rocenv.progress import Progress

TIMEOUT_S = 120.0  # of one rung: the first use of a GPU may compile for long
_SHOWN = 3
_ROOM_BYTES = 1 << 20  # logs, code objects and answers of the children are far smaller


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How far an env gets on this machine."""

    env: str
    target: str
    results: tuple[RungResult, ...]

    @property
    def level(self) -> str:
        """The last rung that passed with all before it that could run; "" if none did."""
        level = ""
        for result in self.results:
            if result.status == "passed":
                level = result.rung
            elif not result.no_device:
                break
        return level

    @property
    def broken(self) -> tuple[RungResult, ...]:
        """The rungs that did not pass, and not only for want of a GPU."""
        return tuple(each for each in self.results if each.status not in ("passed", "skipped"))

    @property
    def no_device(self) -> bool:
        """Whether rungs were left out because there is no usable GPU here."""
        return any(result.no_device for result in self.results)

    @property
    def exit_code(self) -> int:
        """0: all passed; 1: something is wrong; 4: nothing is wrong, but there is no GPU to run on."""
        if self.broken:
            return 1
        return 4 if self.no_device else 0


def verify(
    prefix: Prefix,
    c_library: CLibrary,
    progress: Progress,
    *,
    upto: str = RUNGS[-1],
    target: str = "",
    save_dir: Path | None = None,
    timeout_s: float = TIMEOUT_S,
    report: Callable[[RungResult], None] = lambda _result: None,
) -> Verdict:
    """Walk the ladder in an env, keep the result in its prefix, and return it.

    Args:
        prefix: A complete env.
        c_library: Which libraries are the machine's where the set has no C library of its own.
        progress: For hashing the files.
        upto: The last rung to run.
        target: Instead of the one that the set was resolved for.
        save_dir: Where the GEMM source, the code objects and the logs are kept; made when absent.
        timeout_s: For each rung.
        report: Called with each result as it comes.

    Raises:
        PrefixError: The env is missing or incomplete.
        RocenvError: `save_dir` cannot be made or written to, or there is no room for temporary files.
    """
    record = prefix.record()
    if target in ("", record.lock.target):
        target = record.lock.code_target  # the GPU of the set, as an override makes it look
    with ExitStack() as stack:
        work_dir = _work_dir(save_dir, stack)
        probe = _probe(prefix, record, c_library, target, work_dir, timeout_s)
        wanted = [rung for rung in probe.rungs if RUNGS.index(rung) <= RUNGS.index(upto)]
        results = run_ladder(
            probe, wanted, files=lambda: _files_rung(prefix, record, progress), report=report
        )
    verdict = Verdict(env=prefix.name, target=probe.task.target, results=results)
    # What another target gets says nothing about the set that the env was made of.
    own = prefix.own if verdict.target == record.lock.code_target else None
    _keep(verdict, own, save_dir, progress)
    return verdict


def as_json(verdict: Verdict) -> dict[str, object]:
    """Return a verdict as `verify --json` prints it."""
    rungs = [
        {
            "rung": result.rung,
            "status": result.status,
            "elapsed_s": round(result.elapsed_s, 3),
            "detail": result.detail,
            "exit_code": result.exit_code,
            "no_device": result.no_device,
            "findings": list(result.findings),
        }
        for result in verdict.results
    ]
    return {"env": verdict.env, "target": verdict.target, "level": verdict.level, "rungs": rungs}


def _work_dir(save_dir: Path | None, stack: ExitStack) -> Path:
    _require_room(Path(tempfile.gettempdir()), "set TMPDIR to a folder with room: `export TMPDIR=/var/tmp`")
    if save_dir is None:
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rocenv-verify-")))
    _require_room(save_dir, "name another folder with `--save-artifacts DIR`")
    return save_dir.resolve()


def _require_room(folder: Path, hint: str) -> None:
    """Make the folder if need be; raise RocenvError unless a rung can write to it, or it would be blamed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_ROOM_BYTES))
    except OSError as error:
        raise RocenvError(
            f"cannot write to the folder `{folder}`: {error.strerror}", hints=(hint,)
        ) from error


def child_python(prefix: Prefix, record: Record, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the start of a command line that runs rocenv's own Python as `rocenv run` runs programs."""
    if not record.loader:
        return (sys.executable,)
    folders = library_folders(prefix, record.lock)
    loader = prefix.path / record.loader
    return tuple(loader_argv([sys.executable], environ, loader=loader, library_dirs=folders))


def _probe(
    prefix: Prefix, record: Record, c_library: CLibrary, target: str, work_dir: Path, timeout_s: float
) -> Probe:
    files = prefix.files(record)
    layouts = [component.layout for component in record.lock.components if component.layout is not None]
    libraries = {
        role: _find(prefix, record, files, name)
        for layout in layouts
        for role, name in layout.libraries.items()
    }
    known = {path.rpartition("/")[2] for path in files if path.startswith("rocm/") and ".so" in path}
    has_torch = any(component.kind == "torch" for component in record.lock.components)
    environ = apply(expand(record.lock.environment, str(prefix.path)), os.environ)
    return Probe(
        task=Task(
            target=target,
            prefix=str(prefix.path),
            libraries=libraries,
            work_dir=str(work_dir),
            expected={role: version for layout in layouts for role, version in layout.runtime.items()},
            known=tuple(sorted(known)),
            allowed_outside=() if record.loader else c_library.files,
            seed=int.from_bytes(os.urandom(4), "big"),
        ),
        python=child_python(prefix, record, environ),
        environ=environ,
        timeout_s=timeout_s,
        torch_python=(str(prefix.venv_python),) if has_torch else (),
    )


def _find(prefix: Prefix, record: Record, files: dict[str, FileEntry], name: str) -> str:
    """Return the absolute path of a library; the place where it should be if the env does not hold it."""
    folders = [folder.relative_to(prefix.path).as_posix() for folder in library_folders(prefix, record.lock)]
    path = next(
        (f"{folder}/{name}" for folder in folders if f"{folder}/{name}" in files), f"{folders[0]}/{name}"
    )
    return str(prefix.path / path)


def _files_rung(prefix: Prefix, record: Record, progress: Progress) -> RungResult:
    from rocenv.install.change import differences

    start = time.monotonic()
    files = prefix.files(record)
    size_bytes = sum(entry.size_bytes for entry in files.values())
    with progress.stage("Checking files", size_bytes) as stage:
        found = differences(prefix, files, stage.advance)
    elapsed_s = time.monotonic() - start
    if not found:
        detail = f"{len(files)} files, {size_text(size_bytes)}, as the record has them"
        return RungResult(rung="files", status="passed", elapsed_s=elapsed_s, detail=detail)
    shown = ", ".join(f"`{each.path}` is {each.what}" for each in found[:_SHOWN])
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    detail = f"{shown}{more}; `rocenv repair {shlex.quote(prefix.name)}` puts them back"
    return RungResult(rung="files", status="failed", elapsed_s=elapsed_s, detail=detail)


def _keep(verdict: Verdict, own: Path | None, save_dir: Path | None, progress: Progress) -> None:
    when = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    text = json.dumps({"schema": 1, "when": when, **as_json(verdict)}, indent=1).encode()
    for folder, name in ((own, "verified.json"), (save_dir, "verify.json")):
        try:
            if folder is not None:
                write_atomic(folder / name, text)
        except OSError as error:  # an env of somebody else, a full disk: the result is good all the same
            progress.note(f"the result could not be kept in `{folder}`: {error.strerror}")


def last_level(prefix: Prefix) -> str:
    """Return the level of the last verification, "" if there was none that can be read."""
    try:
        return str(json.loads((prefix.own / "verified.json").read_bytes())["level"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
