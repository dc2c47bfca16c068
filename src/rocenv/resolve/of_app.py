"""What an app asks of an env, as a narrower request. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rocenv.errors import RocenvError
from rocenv.resolve.candidate import NO_TORCH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.matrix.app_sets import AppPackages
    from rocenv.matrix.apps import Launcher
    from rocenv.matrix.rows import Matrix
    from rocenv.model import Request


def narrowed(request: Request, matrix: Matrix) -> tuple[Request, tuple[str, ...]]:
    """Return a request with what its app needs and the user did not say, and what to tell about that.

    The request is as the user gave it: `NO_TORCH` still tells "none" from "not said".

    Raises:
        RocenvError: There is no such app (exit code 2), or none for the platform.
    """
    if not request.app:
        return request, ()
    row = _launcher(request.app, matrix)
    if request.platform not in row.platforms:
        where = " and ".join(each.capitalize() for each in row.platforms)
        raise RocenvError(
            f"{row.title} is known for {where} only, and the env is for {request.platform.capitalize()}",
            hints=(
                f"a plan for {where}: `rocenv resolve --platform {row.platforms[0]} --app {request.app} "
                f"--target {request.target or 'gfx1100'}`",
            ),
            code="app-platform",
        )
    needs, notes = row.needs, []
    if needs.rocm and not request.rocm:
        request = replace(request, rocm=needs.rocm)
        notes.append(
            f"{row.title} works with ROCm {needs.rocm}, so no other is considered; `--rocm` names one"
        )
    if needs.torch and not request.torch:
        request = replace(request, torch="*")
        notes.append(f"{row.title} needs torch, so it comes along; `--no-torch` leaves it out")
    elif needs.torch and request.torch == NO_TORCH:
        notes.append(f"{row.title} needs torch, and `--no-torch` leaves it out: it has to bring its own")
    if needs.python and not request.python and request.torch not in ("", NO_TORCH):
        request = replace(request, python=needs.python)
        notes.append(f"{row.title} works with Python {needs.python}; `--python` takes another one")
    return request, tuple(notes)


def packages_of(app: str, channel: str, matrix: Matrix) -> AppPackages | None:
    """Return what a channel has of an app; None where it has nothing, or no app is named."""
    return next((row for row in matrix.app_packages if (row.app, row.channel) == (app, channel)), None)


def own_program(request: Request, channel: str, matrix: Matrix) -> Iterator[str]:
    """Yield what to tell where a channel has no packages of an app: the user brings the program.

    Nothing of an app that no channel has, and that is no program to install: everybody brings a folder of it.
    """
    row = next((each for each in matrix.launcher if each.key == request.app), None)
    others = sorted(each.channel for each in matrix.app_packages if each.app == request.app)
    if row is None or not (row.programs or others):
        return
    text = f"channel {channel} has no packages of {row.title}: your own is used"
    yield text + (f" (`--channel {others[0]}` has some)" if others and request.platform == "linux" else "")


def _launcher(key: str, matrix: Matrix) -> Launcher:
    known = {row.key: row for row in matrix.launcher}
    if key not in known:
        error = RocenvError(
            f"there is no app `{key}`",
            hints=(f"`--app` takes one of {', '.join(sorted(known))}",),
            code="usage",
        )
        error.exit_code = 2
        raise error
    return known[key]
