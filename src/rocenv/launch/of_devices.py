"""Checks of the GPUs that a program itself lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.launch.view import Concern

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    launcher = view.start.launcher
    said = next((each for each in launcher.failures if each.text in devices.answer.text), None)
    why = f": {said.means} (it printed `{said.text}`)" if said else ""
    look = f"`rocenv gpus` shows what is there, `rocenv doctor {view.env}` why it cannot be used"
    yield Concern(
        code=NO_GPU_HERE,
        # Where it also has work that the CPU is for, such as a window, it is started.
        severity="error" if view.start.is_gpu_work or not launcher.gpu_work else "warning",
        text=f"{title} starts and lists no GPU here ({only(devices.others)}), so the CPU would do the work"
        + why,
        remedy=view.filled(said.remedy) if said and said.remedy else look,
    )


def made_to_fit(view: View) -> Iterator[Concern]:
    """What was found as the arguments were chosen that hold the app to the GPU."""
    yield from view.concerns


def only(others: tuple[str, ...]) -> str:
    """Return in words what a program lists in place of a GPU of the env."""
    return f"only {', '.join(others)}" if others else "only the CPU"
