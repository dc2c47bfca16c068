"""Check the GPUs that an app's program lists, and the arguments that keep it on the env's GPU.

The checks do not run the program; `LaunchContext.adaptation` contains its output.
"""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

from rocenv.apps.arguments import telltale_arguments
from rocenv.apps.blas import CODE, another_env
from rocenv.apps.devices import described
from rocenv.apps.programs import builds_for, env_with, has_gpu, has_program
from rocenv.apps.query import is_script, program_words
from rocenv.apps.recognition import GENERIC, name_of, program_at
from rocenv.checks.context import observe_app
from rocenv.core.model import Request
from rocenv.core.template import fill
from rocenv.resolve.request import create_command
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rocenv.apps.context import LaunchContext
    from rocenv.apps.devices import Devices
    from rocenv.checks.context import CheckContext
    from rocenv.data.apps import Flag
    from rocenv.findings import Observation

_VARIABLE = re.compile(r"\$([A-Z_]+)")


def app_without_gpu(context: CheckContext) -> Observation | None:
    """The program does not list the env's GPU."""
    launch = context.the_launch
    devices = launch.devices
    if devices is None:
        return None
    if launch.adaptation.is_for_others:
        return _gpu_not_listed(launch, devices)
    if devices.found:
        return None
    if devices.problem:
        asked = launch.start.launcher.devices
        values = {"asked": " ".join(asked.arguments) if asked else "", "problem": devices.problem}
        return observe_app("app_devices_unreadable", launch, **values)
    failures = launch.start.launcher.failures
    failure = next((each for each in failures if each.text in devices.answer.text), None)
    has_gpus = any(gpu.target for gpu in launch.host.gpus)
    values = {"others": ", ".join(devices.others) or "CPU", "target": launch.start.record.lock.target}
    if failure is None and has_gpus and _is_gpu_usable(launch):
        return _no_hip(launch, values)
    if has_gpus and failure is not None:
        values |= {"means": launch.text(failure.means), "printed": failure.text}
        values["remedy"] = launch.command(failure.remedy)
    elif not has_gpus:
        values["why"] = launch.host.why or "no AMD GPU"
    return observe_app("app_lists_no_gpu", launch, severity=_severity(launch), **values)


def _no_hip(launch: LaunchContext, values: Mapping[str, str]) -> Observation:
    """The GPU works in the env, so the app was built without HIP or cannot find it."""
    lock, key = launch.start.record.lock, launch.start.launcher.key
    is_seen = _device_status(launch) == "passed"
    create = env_with(key, lock, launch.matrix, launch.machine, launch.start.prefix.free_name())
    is_own = is_seen and has_program(key, lock, launch.matrix)
    more = {"seen": "yes" if is_seen else "", "verify": "yes" if is_own or not is_seen else ""}
    values = {**values, **more, **_build(launch)}
    return observe_app("app_lists_no_hip", launch, {"create": create}, severity=_severity(launch), **values)


def _gpu_not_listed(launch: LaunchContext, devices: Devices) -> Observation:
    lock, start = launch.start.record.lock, launch.start
    other = next((each.target for each in devices.found if each.target), "")
    request = Request(platform=lock.platform, target=other, app=launch.app)
    create = create_command(start.prefix.free_name(), request, lock.platform) if other else ""
    values = {"target": lock.target, "there": ", ".join(map(described, devices.found)), "other": other}
    return observe_app("app_gpu_not_listed", launch, {"create": create}, severity=_severity(launch), **values)


def _is_gpu_usable(launch: LaunchContext) -> bool:
    """Whether the machine has a GPU with the env's target, and `verify` did not fail on it."""
    status = _device_status(launch) or "skipped"
    target = launch.start.record.lock.target
    is_present = has_gpu(launch.host, target) if launch.host.gpus else status == "passed"
    return bool(target) and is_present and status in ("passed", "skipped")


def _device_status(launch: LaunchContext) -> str:
    last = launch.start.prefix.verification()
    return last.status("device") if last else ""


def app_device_named(context: CheckContext) -> Iterator[Observation]:
    """The user selected a GPU that the program does not list or that does not have the env's target."""
    launch = context.the_launch
    named, devices, lock = launch.adaptation.named, launch.devices, launch.start.record.lock
    if named is None:
        return
    there = ", ".join(each.name for each in devices.found) if devices else ""
    for name in named.unlisted:
        yield observe_app("app_device_unlisted", launch, device=name, there=there)
    for each in named.used:
        if lock.target and each.target not in ("", *lock.targets, lock.code_target):
            values = {"device": each.name, "gfx": each.target, "target": lock.target}
            yield observe_app("app_device_other_target", launch, **values)


def app_not_held(context: CheckContext) -> Observation | None:
    """Whether the program accepts GPU arguments is unknown, so it may run on the CPU."""
    launch = context.the_launch
    start, launcher, options = launch.start, launch.start.launcher, launch.adaptation.options
    if not launch.adaptation.is_unknown:
        return None
    name = name_of((program_words(start) or (start.program,))[-1])
    wanted = next(iter(telltale_arguments(launcher)), "")
    is_seen = program_at(start.words, launcher.starters) < len(start.words)
    values = {
        "program": name,
        "option": wanted if options is not None and not options.problem else "",
        "problem": options.problem if options is not None else "",
        "script": "yes" if options is None and is_script(start) else "",
    }
    can_name = is_seen and not start.is_named and not values["script"]
    commands = {"launch": _launch_as(launch, launcher.key) if can_name else ""}
    return observe_app("app_not_held", launch, commands, **values)


def app_option_missing(context: CheckContext) -> Iterator[Observation]:
    """This version of the app lacks an option that would keep it on the GPU, or one that the user passed."""
    launch = context.the_launch
    options, choice = launch.adaptation.options, launch.adaptation.choice
    if options is None or choice is None:
        return
    generic = {"launch": _launch_as(launch, GENERIC)}
    if options.problem:
        start = launch.start
        asked = (*program_words(start), *start.launcher.help)
        command = shell_join("rocenv", "run", start.prefix.name, "--", *asked)
        yield observe_app("app_help_unreadable", launch, {"help": command}, problem=options.problem)
    for flag in (flag for flag in choice.lacking if flag.required):
        yield observe_app("app_option_missing", launch, generic, option=flag.words[0])
    for flag in (flag for flag in choice.unfilled if flag.required):
        yield _unfilled(launch, flag, generic)
    for word, instead in dict(choice.unknown).items():
        yield observe_app("app_option_unknown", launch, option=word, instead=instead)


def _unfilled(launch: LaunchContext, flag: Flag, commands: Mapping[str, str]) -> Observation:
    listed = ", ".join(each.line for each in launch.devices.found) if launch.devices else ""
    values = {"option": flag.words[0], "listed": listed, "target": launch.start.record.lock.target}
    return observe_app("app_option_unfilled", launch, commands, **values)


def app_blas_fails(context: CheckContext) -> Iterator[Observation]:
    """The env's rocBLAS does not work on the env's target, and the app cannot work around that."""
    launch = context.the_launch
    tuning, choice, environ = launch.adaptation.tuning, launch.adaptation.choice, launch.start.environ
    if tuning.blas != "fails" or choice is None:
        return
    added = [each.words[0] for each in choice.added if each.words[0] in tuning.around_blas]
    common = {"target": launch.start.record.lock.target, **_build(launch)}
    commands = {"create": another_env(launch)}
    if not added and not any(word in launch.start.words for word in tuning.around_blas):
        values = common | {"ways": "; ".join(launch.fallbacks({CODE}))}
        yield observe_app("app_blas_fails", launch, commands, **values)
    for option in (each for each in added if each in tuning.tools):
        tools = tuning.tools[option]
        places = [_VARIABLE.sub(lambda name: environ.get(name[1], ""), path) for path in tools]
        if not any(shutil.which(path, path=environ.get("PATH", "")) for path in places):
            values = common | {"option": option, "tool": tools[0], "places": ", ".join(tools)}
            yield observe_app("app_tool_missing", launch, commands, **values)


def app_model_too_large(context: CheckContext) -> Observation | None:
    """No layer of the model fits on the GPU, so the CPU would do all the work."""
    launch = context.the_launch
    tuning, choice = launch.adaptation.tuning, launch.adaptation.choice
    room = tuning.room
    if room is None or choice is None or room.layers != 0:
        return None
    if not any(each.flag.words[0] == tuning.layers for each in choice.added):
        return None
    show = shell_join("rocenv", "mem", *(("model", str(tuning.model)) if tuning.model else ()))
    return observe_app("app_model_too_large", launch, {"show": show}, why=room.why)


def _severity(launch: LaunchContext) -> str:
    return "error" if launch.needs_gpu else "warning"


def _build(launch: LaunchContext) -> dict[str, str]:
    """Values for a message about the app's first official build for the target; {} if there is none."""
    target = launch.start.record.lock.target
    for row in builds_for(launch):
        asset = fill(row.asset, {"family": row.families.get(target, target)})
        return {"build": asset, "url": row.url, "note": row.note}
    return {}


def _launch_as(launch: LaunchContext, app: str) -> str:
    """The command that starts the same program as a different app."""
    start = launch.start
    both = zip(start.words, start.shown_words, strict=True)
    typed = [shown for word, shown in both if word not in start.added]
    return shell_join("rocenv", "launch", start.prefix.name, "--app", app, "--", *typed)
