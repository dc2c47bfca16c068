"""ROCm in wheels: map libraries to packages, and check that `rocm_sdk` finds the env's libraries.

Only the child process of a rung imports this.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import PurePath
from typing import TYPE_CHECKING

from rocenv.probe.device import Failure

if TYPE_CHECKING:
    from rocenv.probe.wire import Task

# Role -> name in `rocm_sdk`. rocBLAS has none; hipBLAS loads it from its own folder. Source:
# ROCm/TheRock:build_tools/packaging/python/templates/rocm/src/rocm_sdk/_dist_info.py
_NAMES = {"hip": "amdhip64", "hiprtc": "hiprtc"}
_PACKAGE_FOLDER = "_rocm_"  # `_rocm_sdk_core` is the folder of the `rocm-sdk-core` package


def package_of(path: str) -> str:
    """Return the package that provides a library, or "" for a library outside ROCm's packages."""
    folders = (part for part in PurePath(path).parts if part.startswith(_PACKAGE_FOLDER))
    return next(folders, "")[1:].replace("_", "-")


def provided_by(path: str) -> str:
    """Return the end of an error message about a library: the package that provides it."""
    package = package_of(path)
    return f"; package `{package}` provides it" if package else ""


def _place(path: str) -> str:
    return os.path.normcase(os.path.realpath(path))


def check_lookup(task: Task) -> None:
    """Raise Failure unless the env's `rocm_sdk` has the set's version and finds the set's libraries."""
    names = {name: task.libraries[role] for role, name in _NAMES.items() if role in task.libraries}
    done = subprocess.run([*task.lookup, *names], stdout=subprocess.PIPE, text=True, check=False)
    try:
        found: dict[str, str] = json.loads(done.stdout)
    except ValueError:
        raise Failure(f"the env's Python exited with code {done.returncode} in `rocm_sdk`") from None
    if task.release and found.get("release", task.release) != task.release:
        raise Failure(
            f"package `rocm` is {found['release']}, but the lock has {task.release}; "
            f"`{task.repair}` restores it"
        )
    for name, path in names.items():
        if name not in found:
            raise Failure(
                f"`rocm_sdk` cannot find `{path}` ({found.get('error')}){provided_by(path)}; "
                f"`{task.repair}` restores it"
            )
        if _place(found[name]) != _place(path):
            raise Failure(
                f"`rocm_sdk` finds `{found[name]}` as {name}, so programs load that instead of `{path}` from "
                f"package `{package_of(path)}`; delete the first file, then run `{task.repair}`"
            )
