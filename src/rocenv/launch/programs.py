"""Where a program of an app comes from that has code for a GPU: another env, or a build of its makers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.errors import RocenvError
from rocenv.model import Request
from rocenv.resolve import resolve
from rocenv.resolve.known import as_options
from rocenv.resolve.of_app import narrowed, packages_of
from rocenv.system.command_lines import as_typed

if TYPE_CHECKING:
    from rocenv.host import Host
    from rocenv.launch.view import View
    from rocenv.matrix.app_builds import AppBuild
    from rocenv.matrix.rows import Matrix
    from rocenv.model import Lock, Machine


def has_program(app: str, lock: Lock, matrix: Matrix) -> bool:
    """Tell whether a program of an app came with a set."""
    of_app = lock.request.app == app
    return of_app and any(packages_of(app, part.channel, matrix) for part in lock.components)


def env_with(app: str, lock: Lock, matrix: Matrix, machine: Machine, name: str) -> str:
    """Return the command that makes an env with an app's program for a set's target; "" where none has it."""
    channels = {each for row in matrix.app_packages if row.app == app for each in row.channels}
    if not lock.target or has_program(app, lock, matrix):
        return ""
    for channel in sorted(channels, key=lambda each: (matrix.channels[each].only_named, each)):
        wish = Request(platform=lock.platform, target=lock.target, app=app, channel=channel)
        try:
            found = next(resolve(narrowed(wish, matrix)[0], matrix, machine), None)
        except RocenvError:
            continue
        if found is not None:
            return f"rocenv create {as_typed(name)} {as_options(wish, machine.platform)}"
    return ""


def builds_for(view: View) -> tuple[AppBuild, ...]:
    """Return the builds of the app that bring kernels for the target along."""
    target, platform = view.start.record.lock.target, view.host.platform
    return tuple(
        row
        for row in view.matrix.app_build
        if row.app == view.start.launcher.key and row.platform == platform and target in row.targets
    )


def build_text(row: AppBuild, view: View) -> str:
    """Return a build in words."""
    target = view.start.record.lock.target
    family = row.families.get(target, target)
    asset = row.asset.replace("{family}", family)
    return f"the build {asset} from {row.url}, which brings what it needs for {target}: {row.note}".rstrip(
        ": "
    )


def has_gpu(host: Host, target: str) -> bool:
    """Tell whether a machine has a GPU of a target that programs can compute on."""
    return any(gpu.usable and gpu.target == target for gpu in host.gpus)
