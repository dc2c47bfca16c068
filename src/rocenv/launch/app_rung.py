"""One more result behind the ladder: does an app, started in the env, see a GPU there."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.errors import RocenvError
from rocenv.launch.ask import is_program
from rocenv.launch.devices import list_devices
from rocenv.launch.flags import options_of
from rocenv.launch.of_devices import only
from rocenv.launch.start import choose, plan_start
from rocenv.model import RungResult
from rocenv.resolve.of_app import packages_of
from rocenv.system.exit_codes import is_crash

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rocenv.install.prefix import Prefix
    from rocenv.launch.devices import Devices
    from rocenv.launch.start import Start
    from rocenv.matrix.apps import Launcher
    from rocenv.matrix.rows import Matrix
    from rocenv.model import Record, RungStatus

RUNG = "app"
_BEFORE = ("files", "load", "device")  # where one of them is broken, the app cannot work either
_TAIL = 4096  # characters


def require_app(matrix: Matrix, key: str, platform: str) -> None:
    """Raise RocenvError, exit code 2, where there is no such app for the platform."""
    choose(tuple(matrix.launcher), key, (), Path.cwd(), platform=platform)


def app_rung(
    prefix: Prefix,
    record: Record,
    matrix: Matrix,
    key: str,
    ladder: Sequence[RungResult],
    *,
    environ: Mapping[str, str],
    timeout_s: float = 0.0,
) -> RungResult:
    """Return what became of an app in an env.

    Args:
        prefix: The env.
        record: Its record.
        matrix: Where the app's profile is.
        key: The app's.
        ladder: What the ladder found before.
        environ: The environment outside the env.
        timeout_s: For each question to the app; 0 = what it usually may take.
    """
    began = time.monotonic()
    broken = [each for each in ladder if each.rung in _BEFORE and each.status not in ("passed", "skipped")]
    if broken:
        return _result(began, "skipped", f"needs `{broken[0].rung}`")
    chosen = choose(tuple(matrix.launcher), key, (), Path.cwd(), platform=record.lock.platform)
    launcher = chosen[0]
    if launcher.needs.torch and launcher.devices is None:
        return _of_torch(began, launcher, record, ladder)
    try:
        words = _program(prefix, record, matrix, launcher, environ)
        if not words:
            return _result(began, "failed", _not_found(launcher))
        start = plan_start(prefix, record, chosen, words, environ, is_piped=False, columns=0)
        return _asked(began, start, ladder, timeout_s)
    except RocenvError as error:
        return _result(began, "failed", error.message)


def _asked(began: float, start: Start, ladder: Sequence[RungResult], timeout_s: float) -> RungResult:
    launcher = start.launcher
    if launcher.devices is None:
        return _of_help(began, start, timeout_s)
    devices = list_devices(start, timeout_s) if timeout_s else list_devices(start)
    return _of_devices(began, start, devices, ladder)


def _of_devices(began: float, start: Start, devices: Devices, ladder: Sequence[RungResult]) -> RungResult:
    said, code = devices.answer.text[-_TAIL:], devices.answer.code
    asked = f"`{os.path.basename(start.words[0])} {' '.join(start.launcher.devices.arguments)}`"  # type: ignore[union-attr]
    if devices.problem:
        status: RungStatus = "timeout" if code is None else "crashed" if is_crash(code) else "failed"
        return _result(began, status, f"{asked}: {devices.problem}", code=code, said=said)
    if devices.found:
        listed = "; ".join(each.line for each in devices.found)
        return _result(began, "passed", f"{asked} lists {listed}", code=code)
    text = f"it starts, and {asked} lists no GPU here: {only(devices.others)}"
    seen = next((each for each in ladder if each.rung == "device" and each.status == "passed"), None)
    if seen is not None:
        return _result(began, "failed", f"{text}, but `device` saw one", code=code, said=said)
    return _result(began, "skipped", text, code=code, no_device=True)


def _of_help(began: float, start: Start, timeout_s: float) -> RungResult:
    """Return whether an app that cannot list GPUs starts, and can be held to one."""
    launcher = start.launcher
    if not launcher.help:
        return _result(began, "skipped", f"{launcher.title} has no way to say which GPUs it sees")
    options = options_of(start, timeout_s) if timeout_s else options_of(start)
    if options.problem:
        return _result(began, "failed", f"asked for its help, {options.problem}")
    required = [flag.words[0] for flag in launcher.flags if flag.required]
    lacking = [name for name in required if name not in options]
    if lacking:
        return _result(began, "failed", f"this version has no `{lacking[0]}`, which holds it to the GPU")
    held = f" and knows `{required[0]}`, which holds it to the GPU" if required else ""
    return _result(began, "passed", f"it starts{held}; it has no way to list GPUs before it has a model")


def _of_torch(began: float, launcher: Launcher, record: Record, ladder: Sequence[RungResult]) -> RungResult:
    torch = next((each for each in ladder if each.rung == "torch"), None)
    if not any(part.kind == "torch" for part in record.lock.components):
        return _result(began, "failed", f"{launcher.title} needs torch, and the env has none")
    if torch is None:
        return _result(
            began, "skipped", f"{launcher.title} computes with torch: `torch` has to be run for it"
        )
    if torch.status == "passed":
        return _result(began, "passed", f"`torch` passed, which is what {launcher.title} computes with")
    status: RungStatus = "skipped"
    return _result(began, status, f"needs `torch`: {torch.detail}", no_device=torch.no_device)


def _program(
    prefix: Prefix, record: Record, matrix: Matrix, launcher: Launcher, environ: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the command that starts an app: the env's own program, else one that is found; () = none is."""
    for part in record.lock.components:
        row = packages_of(launcher.key, part.channel, matrix)
        if row is not None and row.program:
            name = row.program.rpartition("/")[2]
            places = (prefix.bin / name, prefix.rocm / row.program)
            if found := next((each for each in places if each.exists()), None):
                return (str(found),)
    return tuple(filter(None, [next(_elsewhere(launcher, environ), "")])) or launcher.command


def _elsewhere(launcher: Launcher, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield programs of an app in this folder, and then those on PATH."""
    for folder in (os.curdir, *filter(None, environ.get("PATH", "").split(os.pathsep))):
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        for name in names:
            path = os.path.join(folder, name)
            if is_program(name, launcher) and os.path.isfile(path) and os.access(path, os.X_OK):
                yield path


def _not_found(launcher: Launcher) -> str:
    names = " or ".join(f"`{each}`" for each in (launcher.entries[:2] or launcher.programs[:2]))
    return f"no program of {launcher.title} is in the env, on PATH or in this folder: {names}"


def _result(
    began: float,
    status: RungStatus,
    detail: str,
    *,
    code: int | None = None,
    no_device: bool = False,
    said: str = "",
) -> RungResult:
    return RungResult(
        rung=RUNG,
        status=status,
        elapsed_s=time.monotonic() - began,
        detail=detail,
        exit_code=code,
        no_device=no_device,
        stderr_tail=said if status not in ("passed", "skipped") else "",
    )
