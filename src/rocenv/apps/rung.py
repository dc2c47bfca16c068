"""The last rung of `verify --app`: whether the app finds the env's GPU when started in the env."""

from __future__ import annotations

import contextlib
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from rocenv.apps.context import LaunchContext
from rocenv.apps.devices import described, list_devices
from rocenv.apps.programs import env_for, env_with, has_gpu, program_of
from rocenv.apps.query import DEVICES_S, HELP_S, ask_help
from rocenv.apps.recognition import GENERIC, choose
from rocenv.apps.start import plan_start
from rocenv.core.errors import RocenvError, WrongUsage
from rocenv.core.model import APP_RUNG, Machine, RungResult
from rocenv.system.exit_codes import is_crash
from rocenv.system.files import write_atomic
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocenv.apps.devices import Devices
    from rocenv.apps.start import Start
    from rocenv.core.model import Record, RungStatus
    from rocenv.data.apps import Launcher
    from rocenv.data.rows import Matrix
    from rocenv.host import Host
    from rocenv.prefix import Prefix

_NEEDED = ("files", "load", "device")  # the app cannot work if one of these fails
_BROKEN = ("failed", "crashed", "timeout")
_TAIL = 4096  # characters of output
_LOG = "app.log"
_WILDCARD = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class AppRung:
    """A prepared check of an app in an env."""

    context: LaunchContext
    timeout_s: float = 0.0  # seconds per query; 0 for the default
    save_dir: Path | None = None  # for the app's output

    def result(self, ladder: Sequence[RungResult]) -> RungResult:
        """Run the rung after the ladder."""
        began = time.monotonic()
        broken = [each for each in ladder if each.rung in _NEEDED and each.status in _BROKEN]
        try:
            if broken:
                result = _result("skipped", f"needs `{broken[0].rung}`")
            elif _is_torch_only(self.context.start.launcher):
                result = _judge_torch(self.context, ladder)
            else:
                result = _judge_program(self, ladder)
        except RocenvError as error:
            result = _result("failed", error.message)
        return structs.replace(result, elapsed_s=time.monotonic() - began)


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
    """Prepare to query an app in an env.

    Args:
        prefix: The env.
        matrix: The data, with the app's profile.
        host: The machine.
        key: The app's name.
        environ: The environment variables before activation.
        target: Replaces the env's target; "" to keep it.
        timeout_s: For each query; 0 for the default.
        save_dir: Where to save the app's output; None to discard it.

    Raises:
        RocenvError: The app does not support the env's platform (exit code 2), or its program is missing.
    """
    record = prefix.record()
    if target not in ("", record.lock.target, record.lock.code_target):
        record = structs.replace(record, lock=structs.replace(record.lock, target=target, runs_as=""))
    if key == GENERIC:
        raise WrongUsage(
            f"`{GENERIC}` stands for any program, so there is no app to verify",
            hints=(f"verify the env itself: `rocenv verify {shell_join(prefix.name)}`",),
        )
    chosen = choose(tuple(matrix.launcher), key, (), Path.cwd(), platform=record.lock.platform)
    words: tuple[str, ...] = ()
    if not _is_torch_only(chosen[0]):
        words = program_of(prefix, record, matrix, chosen[0], environ)
        if not words:
            raise _program_missing(chosen[0], prefix, record, matrix, host)
    start = plan_start(prefix, record, chosen, words, environ, is_piped=False, columns=0, is_named=True)
    context = LaunchContext(start=start, host=host, matrix=matrix)
    return AppRung(context=context, timeout_s=timeout_s, save_dir=save_dir)


def _is_torch_only(launcher: Launcher) -> bool:
    """Whether the app uses the GPU only through torch; if so, there is no program to query."""
    return launcher.needs_torch and launcher.devices is None


def _judge_program(rung: AppRung, ladder: Sequence[RungResult]) -> RungResult:
    context, start, launcher = rung.context, rung.context.start, rung.context.start.launcher
    options = ask_help(start, rung.timeout_s or HELP_S) if launcher.help else None
    if options is not None and options.problem and launcher.devices is None:
        return _result("failed", f"could not read its help: {options.problem}")
    required = [flag.words[0] for flag in launcher.flags if flag.required]
    missing = [name for name in required if options and not options.problem and name not in options]
    if missing:
        return _result("failed", f"this version lacks `{missing[0]}`, which would keep it on the GPU")
    can_list = launcher.devices is not None and (
        options is None or options.problem or launcher.devices.arguments[0] in options
    )
    if not can_list:
        has = f" and has `{required[0]}`, which keeps it on the GPU" if required else ""
        starts = f"the app starts{has}, but " if options is not None else ""
        return _result("skipped", f"{starts}this version cannot list its GPUs")
    devices = list_devices(start, context.host, context.matrix, rung.timeout_s or DEVICES_S)
    if rung.save_dir is not None:
        end = devices.answer.problem or f"ended with exit code {devices.answer.code}"
        text = f"# {_question(start)}\n{devices.answer.text}\n# {end}\n"
        with contextlib.suppress(OSError):  # `verify` reports folders that it cannot write to
            write_atomic(rung.save_dir / _LOG, text.encode())
    return _judge_devices(context, devices, ladder)


def _question(start: Start) -> str:
    return shell_join(*start.words, *(start.launcher.devices.arguments if start.launcher.devices else ()))


def _judge_devices(context: LaunchContext, devices: Devices, ladder: Sequence[RungResult]) -> RungResult:
    output, code = devices.answer.text[-_TAIL:], devices.answer.code
    lock, asked = context.start.record.lock, f"`{_question(context.start)}`"
    if devices.problem:
        is_crashed = code is not None and is_crash(code)
        status: RungStatus = "timeout" if devices.answer.timed_out else "crashed" if is_crashed else "failed"
        return _result(status, f"{asked}: {devices.problem}", code=code, output=output)
    target, used = lock.target, devices.for_lock(lock)
    listed = ", ".join((*map(described, devices.found), *devices.others)) or "the CPU"
    if used:
        return _result("passed", f"{asked} lists {', '.join(map(described, used))}", code=code)
    if used is None:
        text = f"the app starts, but rocenv cannot tell which GPU listed by {asked} is the {target}: {listed}"
        return _result("skipped", text, code=code)
    device = next((each for each in ladder if each.rung == "device"), None)
    is_there = device.status == "passed" if device else has_gpu(context.host, target)
    wanted = f"a {target} GPU" if devices.found else "a HIP GPU" if is_there else "a GPU"
    text = f"the app starts, but {asked} does not list {wanted}, only {listed}"
    if not is_there:
        return _result("skipped", text, code=code, no_device=True)
    seen = "`device` found it" if device else "this machine has one"
    return _result(
        "failed", f"{text}, although {seen}; {_advice(context, devices)}", code=code, output=output
    )


def _advice(context: LaunchContext, devices: Devices) -> str:
    """Explain why an app does not list the env's GPU, and what to do."""
    if devices.found:
        return f"`rocenv doctor {context.env}` shows why the app sees a different GPU"
    lock, name = context.start.record.lock, context.start.prefix.free_name()
    command = env_with(context.start.launcher.key, lock, context.matrix, context.machine, name)
    fix = f"; create an env that includes the app with HIP: `{command}`" if command else ""
    return f"this build does not include HIP or cannot find the HIP runtime{fix}"


def _judge_torch(context: LaunchContext, ladder: Sequence[RungResult]) -> RungResult:
    launcher, lock = context.start.launcher, context.start.record.lock
    torch = next((each for each in ladder if each.rung == "torch"), None)
    if lock.part("torch") is None:
        command = env_for(launcher.key, lock, context.start.prefix.free_name())
        text = f"{launcher.title} needs torch, but the env does not contain it; create one with torch"
        return _result("failed", f"{text}: `{command}`")
    if torch is None:
        return _result("skipped", f"{launcher.title} uses torch, but the `torch` check did not run")
    if torch.status == "passed":
        return _result("passed", f"{launcher.title} uses torch, and `torch` passed")
    return _result("skipped", f"needs `torch`: {torch.detail}", no_device=torch.no_device)


def _program_missing(
    launcher: Launcher, prefix: Prefix, record: Record, matrix: Matrix, host: Host
) -> RocenvError:
    plain = [each for each in (*launcher.entries, *launcher.programs) if not _WILDCARD.search(each)]
    names = " or ".join(f"`{each}`" for each in plain[:2])
    machine = Machine(platform=host.platform, driver=host.driver.release)
    command = env_with(launcher.key, record.lock, matrix, machine, prefix.free_name())
    return RocenvError(
        f"{launcher.title} ({names}) was not found in env `{prefix.name}`, on PATH or in the current folder",
        hints=(
            "add it to PATH" + (f", or create an env that includes it: `{command}`" if command else ""),
            f"verify the env itself: `rocenv verify {shell_join(prefix.name)}`",
        ),
        code="app-missing",
    )


def _result(
    status: RungStatus, detail: str, *, code: int | None = None, no_device: bool = False, output: str = ""
) -> RungResult:
    return RungResult(
        rung=APP_RUNG,
        status=status,
        elapsed_s=0.0,
        detail=detail,
        exit_code=code,
        no_device=no_device,
        stderr_tail=output,
    )
