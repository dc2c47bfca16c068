"""Find an app's program in this env, on PATH, in a different env, or among published builds."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rocenv.apps.query import is_program
from rocenv.apps.recognition import plain_name
from rocenv.core.model import Request
from rocenv.resolve.apps import packages_of
from rocenv.resolve.request import create_command
from rocenv.resolve.suggest import resolved_command
from rocenv.system import WINDOWS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rocenv.apps.context import LaunchContext
    from rocenv.core.model import Lock, Machine, Record
    from rocenv.data.apps import AppBuild, Launcher
    from rocenv.data.rows import Matrix
    from rocenv.host import Host
    from rocenv.prefix import Prefix


def has_program(app: str, lock: Lock, matrix: Matrix) -> bool:
    """Whether a set includes an app's program."""
    of_app = lock.request.app == app
    return of_app and any(packages_of(app, part.channel, matrix) for part in lock.components)


def env_for(app: str, lock: Lock, name: str) -> str:
    """The command that creates an env for an app and a set's target."""
    return create_command(name, Request(platform=lock.platform, target=lock.target, app=app), lock.platform)


def env_with(app: str, lock: Lock, matrix: Matrix, machine: Machine, name: str) -> str:
    """The command that creates an env with an app's program for a set's target, or "" if no set fits."""
    channels = {each for row in matrix.app_packages if row.app == app for each in row.channels}
    if not lock.target or has_program(app, lock, matrix):
        return ""
    for channel in sorted(channels, key=lambda each: (matrix.channels[each].only_named, each)):
        request = Request(platform=lock.platform, target=lock.target, app=app, channel=channel)
        if command := resolved_command(name, request, matrix, machine):
            return command
    return ""


def builds_for(context: LaunchContext) -> tuple[AppBuild, ...]:
    """Find the app's builds that include GPU libraries for the target."""
    target, key = context.start.record.lock.target, context.start.launcher.key
    rows = (
        row for row in context.matrix.app_build if (row.app, row.platform) == (key, context.host.platform)
    )
    return tuple(row for row in rows if target in row.targets)


def has_gpu(host: Host, target: str) -> bool:
    """Whether the machine has a usable GPU with this target."""
    return any(gpu.usable and gpu.target == target for gpu in host.gpus)


def program_of(
    prefix: Prefix, record: Record, matrix: Matrix, launcher: Launcher, environ: Mapping[str, str]
) -> tuple[str, ...]:
    """Find an app's program in the env, on PATH or in the current folder; return () if there is none."""
    for part in record.lock.components:
        row = packages_of(launcher.key, part.channel, matrix)
        if row is not None and row.program:
            name = row.program.rpartition("/")[2]
            places = (prefix.bin / name, prefix.path / part.into / row.program)
            found = next((each for each in places if each.exists()), None)
            # If the env's copy is missing, the `files` rung reports that.
            if found is not None or record.lock.request.app == launcher.key:
                return (str(found or places[0]),)
    return tuple(filter(None, [next(_elsewhere(launcher, environ), "")])) or launcher.command


def _elsewhere(launcher: Launcher, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield an app's programs on PATH, then in the current folder; `entries` come first in each."""
    usual = {name: number for number, name in enumerate(launcher.entries)}
    for folder in (*filter(None, environ.get("PATH", "").split(os.pathsep)), os.curdir):
        try:
            names = [name for name in os.listdir(folder) if is_program(name, launcher)]
        except OSError:
            continue
        for name in sorted(names, key=lambda name: (usual.get(plain_name(name), len(usual)), name)):
            path = os.path.abspath(os.path.join(folder, name))
            # On Windows, os.access(X_OK) is true for every file.
            runs = name.lower().endswith(".exe") if WINDOWS else os.access(path, os.X_OK)
            if runs and os.path.isfile(path):
                yield path
