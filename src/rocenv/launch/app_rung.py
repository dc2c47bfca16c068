"""One more result behind the ladder: does an app, started in the env, see the GPU that it is for."""

from __future__ import annotations

import contextlib
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rocenv.core.errors import RocenvError, WrongUsage
from rocenv.core.model import APP_RUNG, Machine, RungResult
from rocenv.launch.devices import described, list_devices, only
from rocenv.launch.flags import options_of
from rocenv.launch.programs import env_for, env_with, has_gpu, program_of
from rocenv.launch.start import GENERIC, choose, plan_start
from rocenv.system.exit_codes import is_crash
from rocenv.system.files import write_atomic
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocenv.core.model import Record, RungStatus
    from rocenv.data.apps import Launcher
    from rocenv.data.rows import Matrix
    from rocenv.host import Host
    from rocenv.launch.devices import Devices
    from rocenv.launch.start import Start
    from rocenv.prefix import Prefix
    from rocenv.system.process import Completed

_BEFORE = ("files", "load", "device")  # where one of them is broken, the app cannot work either
_TAIL = 4096  # characters
_LOG = "app.log"
_PATTERN = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class AppRung:
    """An app that is to be asked in an env."""

    prefix: Prefix
    record: Record
    matrix: Matrix
    host: Host
    launcher: Launcher
    start: Start | None  # None = it computes with torch, and there is nothing to start
    timeout_s: float = 0.0  # for each question to it; 0 = what it usually may take
    save_dir: Path | None = None  # where its answers are kept

    def result(self, ladder: Sequence[RungResult]) -> RungResult:
        """Return what becomes of it, once the ladder was walked."""
        began = time.monotonic()
        broken = [
            each for each in ladder if each.rung in _BEFORE and each.status not in ("passed", "skipped")
        ]
        if broken:
            return _result(began, "skipped", f"needs `{broken[0].rung}`")
        if self.start is None:
            return _of_torch(began, self, ladder)
        try:
            return _asked(began, self, self.start, ladder)
        except RocenvError as error:
            return _result(began, "failed", error.message)


def app_rung(
    prefix: Prefix,
    matrix: Matrix,
    host: Host,
    key: str,
    *,
    environ: Mapping[str, str],
    target: str = "",
    timeout_s: float = 0.0,
    save_dir: Path | None = None,
) -> AppRung:
    """Return an app that can be asked in an env.

    Args:
        prefix: The env.
        matrix: Where the app's profile is.
        host: The machine.
        key: The app's.
        environ: The environment outside the env.
        target: Instead of the env's; "" = that one.
        timeout_s: For each question to the app; 0 = what it usually may take.
        save_dir: Where its answers are kept; None = nowhere.

    Raises:
        RocenvError: There is no such app for the env's platform, exit code 2; or no program of it here.
    """
    record = prefix.record()
    if target not in ("", record.lock.target, record.lock.code_target):
        record = replace(record, lock=replace(record.lock, target=target, runs_as=""))
    if key == GENERIC:
        raise WrongUsage(
            f"`{GENERIC}` stands for any program, and there is nothing to ask of it",
            hints=(f"without `--app` the env itself is proved: `rocenv verify {shell_join(prefix.name)}`",),
        )
    chosen = choose(tuple(matrix.launcher), key, (), Path.cwd(), platform=record.lock.platform)
    launcher, start = chosen[0], None
    if not launcher.needs.torch or launcher.devices is not None:
        words = program_of(prefix, record, matrix, launcher, environ)
        if not words:
            raise _not_found(prefix, launcher, _env_with(launcher, record, matrix, host, prefix))
        start = plan_start(prefix, record, chosen, words, environ, is_piped=False, columns=0, is_named=True)
    return AppRung(
        prefix=prefix,
        record=record,
        matrix=matrix,
        host=host,
        launcher=launcher,
        start=start,
        timeout_s=timeout_s,
        save_dir=save_dir,
    )


def _asked(began: float, rung: AppRung, start: Start, ladder: Sequence[RungResult]) -> RungResult:
    launcher, timeout = start.launcher, {"timeout_s": rung.timeout_s} if rung.timeout_s else {}
    options = options_of(start, **timeout) if launcher.help else None
    if options is not None and options.problem and launcher.devices is None:
        return _result(began, "failed", f"asked for its help, {options.problem}")
    required = [flag.words[0] for flag in launcher.flags if flag.required]
    lacking = [name for name in required if options and not options.problem and name not in options]
    if lacking:
        return _result(began, "failed", f"this version has no `{lacking[0]}`, which holds it to the GPU")
    can_list = launcher.devices is not None and (
        options is None or options.problem or launcher.devices.arguments[0] in options
    )
    if not can_list:
        held = f" and knows `{required[0]}`, which holds it to the GPU" if required else ""
        starts = f"it starts{held}; " if options is not None else ""
        return _result(began, "skipped", f"{starts}this version cannot say which GPUs it sees")
    devices = list_devices(start, rung.host, rung.matrix, **timeout)
    _save(rung, start, devices.answer)
    return _of_devices(began, rung, start, devices, ladder)


def _save(rung: AppRung, start: Start, answer: Completed) -> None:
    if rung.save_dir is None or start.launcher.devices is None:
        return
    command = shell_join(*start.words, *start.launcher.devices.arguments)
    end = answer.problem or f"ended with {answer.code}"
    with contextlib.suppress(OSError):  # where nothing can be kept, that is told of the whole result
        write_atomic(rung.save_dir / _LOG, f"# {command}\n{answer.text}\n# {end}\n".encode())


def _of_devices(
    began: float, rung: AppRung, start: Start, devices: Devices, ladder: Sequence[RungResult]
) -> RungResult:
    said, code = devices.answer.text[-_TAIL:], devices.answer.code
    arguments = start.launcher.devices.arguments if start.launcher.devices else ()
    asked = f"`{shell_join(*start.words, *arguments)}`"
    if devices.problem:
        is_late, is_bad = devices.answer.timed_out, code is not None and is_crash(code)
        status: RungStatus = "timeout" if is_late else "crashed" if is_bad else "failed"
        return _result(began, status, f"{asked}: {devices.problem}", code=code, said=said)
    target, used = rung.record.lock.target, devices.for_lock(rung.record.lock)
    others = (*map(described, devices.found), *devices.others)
    if used:
        return _result(began, "passed", f"{asked} lists {'; '.join(map(described, used))}", code=code)
    if used is None:
        text = f"it starts, and nothing tells which GPU is the {target} of those that {asked} lists"
        return _result(began, "skipped", f"{text}: {'; '.join(others)}", code=code)
    device = next((each for each in ladder if each.rung == "device"), None)
    is_there = device.status == "passed" if device else has_gpu(rung.host, target)
    none = "no GPU of HIP's" if is_there else "no GPU"
    text = f"it starts, and {asked} lists {f'no {target}' if devices.found else none} here"
    if not is_there:
        return _result(began, "skipped", f"{text}: {only(others)}", code=code, no_device=True)
    why = f"though {'`device` saw' if device else 'the machine has'} one: {_instead(rung, devices)}"
    return _result(began, "failed", f"{text}, {why}; it lists {only(others)}", code=code, said=said)


def _instead(rung: AppRung, devices: Devices) -> str:
    """Return why an app lists no GPU of the env where there is one, and what to do."""
    name = shell_join(rung.prefix.name)
    if devices.found:
        return f"`rocenv doctor {name}` tells why another one is shown to it"
    why = "this build has no HIP, or does not find its runtime"
    command = _env_with(rung.launcher, rung.record, rung.matrix, rung.host, rung.prefix)
    return why + (f"; an env with one that has it: `{command}`" if command else "")


def _env_with(launcher: Launcher, record: Record, matrix: Matrix, host: Host, prefix: Prefix) -> str:
    machine = Machine(platform=host.platform, driver=host.driver.release)
    return env_with(launcher.key, record.lock, matrix, machine, prefix.free_name())


def _of_torch(began: float, rung: AppRung, ladder: Sequence[RungResult]) -> RungResult:
    launcher, lock = rung.launcher, rung.record.lock
    torch = next((each for each in ladder if each.rung == "torch"), None)
    if lock.part("torch") is None:
        command = env_for(launcher.key, lock, rung.prefix.free_name())
        text = f"{launcher.title} needs torch, and the env has none; one with it: `{command}`"
        return _result(began, "failed", text)
    if torch is None:
        return _result(
            began, "skipped", f"{launcher.title} computes with torch: `torch` has to be run for it"
        )
    if torch.status == "passed":
        return _result(began, "passed", f"`torch` passed, which is what {launcher.title} computes with")
    status: RungStatus = "skipped"
    return _result(began, status, f"needs `torch`: {torch.detail}", no_device=torch.no_device)


def _not_found(prefix: Prefix, launcher: Launcher, command: str) -> RocenvError:
    plain = [each for each in (*launcher.entries, *launcher.programs) if not _PATTERN.search(each)]
    names = " or ".join(f"`{each}`" for each in plain[:2])
    return RocenvError(
        f"no program of {launcher.title} is in the env `{prefix.name}`, on PATH or in this folder: {names}",
        hints=(
            "put it on PATH" + (f", or make an env that has it: `{command}`" if command else ""),
            f"without it the env itself is proved: `rocenv verify {shell_join(prefix.name)}`",
        ),
        code="app-missing",
    )


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
        rung=APP_RUNG,
        status=status,
        elapsed_s=time.monotonic() - began,
        detail=detail,
        exit_code=code,
        no_device=no_device,
        stderr_tail=said if status not in ("passed", "skipped") else "",
    )
