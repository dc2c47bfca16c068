"""Prove an env, rung by rung, and keep what was found beside its record."""

from __future__ import annotations

import contextlib
import datetime
import json
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.core.errors import RocenvError
from rocenv.core.model import Machine, RungResult
from rocenv.core.progress import size_text
from rocenv.host.defender import quarantined
from rocenv.host.windows import display_driver
from rocenv.probe.ladder import RUNGS, run_ladder
from rocenv.proof import first_run_s, probe_of
from rocenv.resolve.known import known_broken, remedy_command
from rocenv.system import WINDOWS, pe
from rocenv.system.files import write_atomic
from rocenv.system.machine import examined_elsewhere
from rocenv.system.quoting import as_typed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rocenv.core.model import Record
    from rocenv.core.progress import Progress
    from rocenv.data.knowledge import Verdict as Known
    from rocenv.data.rows import Matrix
    from rocenv.install.change import Difference
    from rocenv.install.prefix import Prefix

APP = "app"  # what an app finds in the env, behind the ladder
TIMEOUT_S = 120.0  # of one rung: the first use of a GPU may compile for long
_SHOWN = 3
_SLOW_S = 60.0
_SURE = 0.5  # of a cause that a rung's output shows
_ROOM_BYTES = 1 << 20  # logs, code objects and answers of the children are far smaller


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How far an env gets on this machine."""

    env: str
    target: str
    results: tuple[RungResult, ...]
    advice: tuple[str, ...] = ()  # what is known to be wrong with such a set, and what to do

    @property
    def level(self) -> str:
        """The last rung that passed with all before it that could run; "" if none did.

        What an app finds counts only on a GPU that was proved to be there.
        """
        level, proved = "", [result.rung for result in self.results if result.status == "passed"]
        for result in self.results:
            if result.rung == APP and "device" not in proved:
                break
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
    matrix: Matrix,
    progress: Progress,
    *,
    upto: str = RUNGS[-1],
    target: str = "",
    save_dir: Path | None = None,
    timeout_s: float = 0.0,
    report: Callable[[RungResult], None] = lambda _result: None,
    last: Callable[[tuple[RungResult, ...]], RungResult] | None = None,
) -> Verdict:
    """Walk the ladder in an env, keep the result in its prefix, and return it.

    Args:
        prefix: A complete env.
        matrix: Which libraries are the machine's, and which sets are known to fail.
        progress: For hashing the files.
        upto: The last rung to run.
        target: Instead of the one that the set was resolved for.
        save_dir: Where the GEMM source, the code objects and the logs are kept; made when absent.
        timeout_s: For each rung; 0 = what such a set may need.
        report: Called with each result as it comes.
        last: What else is to be proved once the ladder was walked: from its results to one more.

    Raises:
        PrefixError: The env is missing or incomplete.
        RocenvError: `save_dir` cannot be made or written to, or there is no room for temporary files.
    """
    record = prefix.record()
    if target in ("", record.lock.target):
        target = record.lock.code_target  # the GPU of the set, as an override makes it look
    with ExitStack() as stack:
        work_dir = _work_dir(save_dir, stack)
        c_library = matrix.c_libraries[0]
        patience_s = timeout_s or first_run_s(record.lock) or TIMEOUT_S
        probe = probe_of(prefix, record, c_library, target=target, work_dir=work_dir, timeout_s=patience_s)
        wanted = [rung for rung in probe.rungs if RUNGS.index(rung) <= RUNGS.index(upto)]
        driver = display_driver(matrix) if WINDOWS else ""
        known = known_broken(record.lock, matrix, driver)
        if first_run_s(record.lock):
            stack.enter_context(_said_when_slow(progress))
        results = run_ladder(
            probe,
            wanted,
            files=lambda: _files_rung(prefix, record, progress),
            judge=lambda result: _knowing(result, known, matrix),
            report=report,
        )
        if last is not None:
            results = (*results, _knowing(last(results), known, matrix))
            report(results[-1])
    advice = tuple(_advice(prefix, record, matrix, known[0], driver)) if known else ()
    verdict = Verdict(env=prefix.name, target=probe.task.target, results=results, advice=advice)
    # What another target gets says nothing about the set that the env was made of.
    own = prefix.own if verdict.target == record.lock.code_target else None
    # Nor does an app that is missing or broken: it is no part of the ladder that an env is judged by.
    of_env = replace(verdict, results=tuple(each for each in results if each.rung != APP))
    _keep(of_env, own and own / "verified.json", progress)
    _keep(verdict, save_dir and save_dir / "verify.json", progress)
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
    return {
        "env": verdict.env,
        "target": verdict.target,
        "level": verdict.level,
        "advice": list(verdict.advice),
        "rungs": rungs,
    }


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
    shown = ", ".join(_shown(prefix, each) for each in found[:_SHOWN])
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    detail = f"{shown}{more}; `rocenv repair {as_typed(prefix.name)}` puts them back"
    detail += _defender_took(prefix, found)
    return RungResult(rung="files", status="failed", elapsed_s=elapsed_s, detail=detail)


def _shown(prefix: Prefix, each: Difference) -> str:
    """Return a difference in words; of a DLL that is another one also what it says it is."""
    text = f"`{each.path}` is {each.what}"
    if each.what != "changed" or not each.path.lower().endswith(".dll"):
        return text
    try:
        version = pe.read(prefix.path.joinpath(*each.path.split("/"))).file_version
    except RocenvError:
        return f"{text} (it is no library)"
    return f"{text} (it says that it is version {version})" if version else text


def _knowing(result: RungResult, known: Sequence[Known], matrix: Matrix) -> RungResult:
    """Return the result of a rung that went wrong, with what is known of such a set and of what it said."""
    if result.rung == "files" or result.status not in ("failed", "crashed", "timeout"):
        return result
    from rocenv.diagnose import diagnose_bytes

    said = diagnose_bytes(f"{result.detail}\n{result.stderr_tail}\n".encode(), matrix)
    codes = (
        *(row.code for row in known if row.code),
        *(each.code for each in said.findings if each.confidence >= _SURE),
    )
    return replace(result, findings=tuple(dict.fromkeys(codes)))


def _advice(prefix: Prefix, record: Record, matrix: Matrix, row: Known, driver: str) -> Iterator[str]:
    yield f"known of such a set: {row.what} [{row.source.partition(';')[0].strip()}]"
    machine = Machine(platform=record.lock.platform, driver=driver)
    command = remedy_command(record.lock, matrix, machine, name=prefix.free_name())
    if command:
        yield f"a set without that: `{command}`"


@contextlib.contextmanager
def _said_when_slow(progress: Progress) -> Iterator[None]:
    """Say once, after a minute, what takes so long: a first run that looks hung is often killed."""
    text = "kernels are being compiled for the GPU, as on every first run; that may take half an hour"
    timer = threading.Timer(_SLOW_S, progress.note, (text,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _defender_took(prefix: Prefix, found: Sequence[Difference]) -> str:
    """Return what Microsoft Defender took of what is missing, in words; "" where it tells of none."""
    missing = [str(prefix.path.joinpath(*each.path.split("/"))) for each in found if each.what == "missing"]
    taken = quarantined(missing) if missing and (WINDOWS or examined_elsewhere()) else ()
    if not taken:
        return ""
    first = taken[0]
    name = first.path.replace("\\", "/").rpartition("/")[2]
    others = f" and {len(taken) - 1} more" if taken[1:] else ""
    return (
        f"; Microsoft Defender took `{name}` away ({first.threat}, {first.when}){others}: allow the "
        "folder in Windows Security before that, or it will do so again"
    )


def _keep(verdict: Verdict, path: Path | None, progress: Progress) -> None:
    if path is None:
        return
    when = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    text = json.dumps({"schema": 1, "when": when, **as_json(verdict)}, indent=1).encode()
    try:
        write_atomic(path, text)
    except OSError as error:  # an env of somebody else, a full disk: the result is good all the same
        progress.note(f"the result could not be kept in `{path.parent}`: {error.strerror}")


def last_level(prefix: Prefix) -> str:
    """Return the level of the last verification, "" if there was none that can be read."""
    try:
        return str(json.loads((prefix.own / "verified.json").read_bytes())["level"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
