"""What is found about the GPUs that a program itself lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.core.model import Request
from rocenv.launch.programs import build_text, builds_for, env_with, has_gpu, has_program
from rocenv.launch.view import Concern
from rocenv.resolve.request import create_command

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocenv.launch.devices import Device, Named
    from rocenv.launch.view import View

NO_GPU_HERE = "no-gpu-here"


def gpu_listed(view: View) -> Iterator[Concern]:
    """A GPU that the program can use, where it was asked for those."""
    devices = view.devices
    if devices is None or devices.found:
        return
    asked = view.start.launcher.devices
    title, arguments = view.start.launcher.title, " ".join(asked.arguments) if asked else ""
    if devices.problem:
        yield Concern(
            code="devices-unread",
            severity="warning",
            text=f"which GPUs {title} can use is not known: asked with `{arguments}`, {devices.problem}",
            remedy=f"rocenv verify {view.env} --app {view.start.launcher.key}",
        )
        return
    launcher, target = view.start.launcher, view.start.record.lock.target
    said = next((each for each in launcher.failures if each.text in devices.answer.text), None)
    why = f": {said.means} (it printed `{said.text}`)" if said else ""
    if not any(gpu.target for gpu in view.host.gpus):
        said, why = (
            None,
            f": this machine has no GPU that can be used, {view.host.why or 'as far as it tells'}",
        )
    if said is None and _is_usable(view):
        is_seen = _device_status(view) == "passed"
        yield Concern(
            code=NO_GPU_HERE,
            severity="error" if needs_gpu(view) else "warning",
            text=f"this build of {title} has no HIP, or does not find its runtime"
            f"{'' if is_seen else ', or that sees no GPU'}: it starts and lists no "
            f"GPU of HIP's ({only(devices.others)}), and the machine has a {target}",
            remedy="; or ".join(_with_hip(view, is_seen=is_seen)) or f"look for a build of {title} with HIP",
        )
        return
    look = f"`rocenv gpus` shows what is there, `rocenv doctor {view.env}` why it cannot be used"
    yield Concern(
        code=NO_GPU_HERE,
        severity="error" if needs_gpu(view) else "warning",
        text=f"{title} starts and lists no GPU here ({only(devices.others)}), so the CPU would do the work"
        + why,
        remedy=view.filled(said.remedy) if said and said.remedy else look,
    )


def _is_usable(view: View) -> bool:
    """Tell whether programs in the env can use a GPU of its target: as `verify` and the machine tell."""
    status = _device_status(view) or "skipped"
    target = view.start.record.lock.target
    is_there = has_gpu(view.host, target) if view.host.gpus else status == "passed"
    return bool(target) and is_there and status in ("passed", "skipped")


def _device_status(view: View) -> str:
    last = view.start.prefix.verification()
    return last.status("device") if last else ""


def _with_hip(view: View, *, is_seen: bool) -> Iterator[str]:
    """Yield how the app is had with HIP: with the env, in another env, or as a build of its makers."""
    lock, key = view.start.record.lock, view.start.launcher.key
    verify = f"`rocenv verify {view.env} --app {key}`"
    if not is_seen:
        yield f"{verify} tells which"
    elif has_program(key, lock, view.matrix):
        yield f"{verify} asks the env's own program"
    name = view.start.prefix.free_name()
    if command := env_with(key, lock, view.matrix, view.machine, name):
        yield f"an env with one that has it: `{command}`"
    yield from (build_text(row, view) for row in builds_for(view))


def needs_gpu(view: View) -> bool:
    """Tell whether a start is for nothing without a GPU: an app may also have a window, or run a script."""
    return view.start.is_gpu_work or not view.start.launcher.gpu_work


def none_of_env(view: View) -> Concern:
    """Return the error where a program lists GPUs, and none of the env's target."""
    start, found = view.start, view.devices.found if view.devices else ()
    lock, there = start.record.lock, ", ".join(described(each) for each in found)
    other = next((each.target for each in found if each.target), "GFX")
    request = Request(platform=lock.platform, target=other, app=view.app)
    create = create_command(start.prefix.free_name(), request, lock.platform)
    return Concern(
        code="gpu-not-listed",
        severity="error" if needs_gpu(view) else "warning",
        text=f"the env is for {lock.target}, and {start.launcher.title} lists no such GPU here, only {there}",
        remedy=f"`rocenv gpus` shows what is there, `rocenv doctor {view.env}` why it cannot be used; "
        f"for the other one: `{create}`",
    )


def about_named(view: View, named: Named) -> Iterator[Concern]:
    """Yield what is wrong with GPUs that the user has named."""
    devices, lock = view.devices, view.start.record.lock
    there = ", ".join(each.name for each in devices.found) if devices else ""
    for name in named.unlisted:
        yield Concern(
            code="device-not-listed",
            severity="warning",
            text=f"{view.start.launcher.title} lists no `{name}` here",
            remedy=f"name one of {there}, or none: then the env's own is named" if there else "rocenv gpus",
        )
    for each in named.used:
        if lock.target and each.target not in ("", *lock.targets, lock.code_target):
            yield Concern(
                code="device-of-another-target",
                severity="warning",
                text=f"`{each.name}` is a {each.target}, and the env is for {lock.target}",
                remedy="name none: then the env's own is named",
            )


def made_to_fit(view: View) -> Iterator[Concern]:
    """What was found as the arguments were chosen that hold the app to the GPU."""
    yield from view.concerns


def only(others: Sequence[str]) -> str:
    """Return in words what a program lists in place of a GPU of the env."""
    return f"only {', '.join(others)}" if others else "only the CPU"


def described(device: Device) -> str:
    """Return a GPU as the program lists it, with its target where that is told."""
    return f"{device.line} [{device.target}]" if device.target else device.line
