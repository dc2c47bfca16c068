"""What can be seen to be wrong before an app is started, each with the next command.

Every check is a small function in `CHECKS`. An `error` keeps the app from being started, since it would not
run in the env, or would harm it; a `warning` or a `note` is told, and it is started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.launch import of_app, of_devices, of_env, of_llvm, of_release

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rocenv.launch.view import Concern, View

CHECKS: tuple[Callable[[View], Iterable[Concern]], ...] = (
    of_app.torch_there,
    of_env.python_there,
    of_app.app_there,
    of_env.shims_in_place,
    of_app.own_zluda,
    of_app.deleted_zluda,
    of_app.own_python,
    of_app.wrapper_within,
    of_app.own_settings,
    of_app.wrapper_settings,
    of_app.right_way_of_shims,
    of_env.others_on_path,
    of_env.hip_elsewhere,
    of_release.fits_release,
    of_llvm.one_llvm,
    of_devices.gpu_listed,
    of_devices.made_to_fit,
    of_env.right_gpu,
    of_env.last_proof,
    of_env.known_to_fail,
)
_ORDER = ("error", "warning", "note")


def look(view: View) -> tuple[Concern, ...]:
    """Return what is wrong, errors first."""
    found = [concern for check in CHECKS for concern in check(view)]
    return tuple(sorted(found, key=lambda concern: _ORDER.index(concern.severity)))
