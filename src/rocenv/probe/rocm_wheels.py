"""ROCm in wheels: which package has a library, and whether `rocm_sdk` finds the env's own libraries.

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

# Role -> the name that `rocm_sdk` knows it by. It knows none for rocBLAS, which hipBLAS loads from beside it.
# Source: ROCm/TheRock:build_tools/packaging/python/templates/rocm/src/rocm_sdk/_dist_info.py
_NAMES = {"hip": "amdhip64", "hiprtc": "hiprtc"}
_PACKAGE_FOLDER = "_rocm_"  # `_rocm_sdk_core` is the folder of package `rocm-sdk-core`


def package_of(path: str) -> str:
    """The package that provides a library, "" for one that is of no package of ROCm's."""
    folders = (part for part in PurePath(path).parts if part.startswith(_PACKAGE_FOLDER))
    return next(folders, "")[1:].replace("_", "-")


def provided_by(path: str) -> str:
    """The end of a sentence about a library that does not load: which package provides it."""
    package = package_of(path)
    return f"; package `{package}` provides it" if package else ""


def _place(path: str) -> str:
    return os.path.normcase(os.path.realpath(path))


def check_lookup(task: Task) -> None:
    """Raise Failure unless the env's `rocm_sdk` is of the set's release and finds the set's libraries."""
    names = {name: task.libraries[role] for role, name in _NAMES.items() if role in task.libraries}
    done = subprocess.run([*task.lookup, *names], stdout=subprocess.PIPE, text=True, check=False)
    try:
        found: dict[str, str] = json.loads(done.stdout)
    except ValueError:
        raise Failure(f"the env's Python ended with exit code {done.returncode} in `rocm_sdk`") from None
    if task.release and found.get("release", task.release) != task.release:
        raise Failure(
            f"package `rocm` is {found['release']}, and the lock has {task.release}; "
            f"`{task.repair}` puts it back"
        )
    for name, path in names.items():
        if name not in found:
            raise Failure(
                f"`rocm_sdk` does not find `{path}` ({found.get('error')}){provided_by(path)}; "
                f"`{task.repair}` puts it back"
            )
        if _place(found[name]) != _place(path):
            raise Failure(
                f"`rocm_sdk` finds `{found[name]}` as {name}, and programs load that instead of `{path}` of "
                f"package `{package_of(path)}`; delete the first file, then run `{task.repair}`"
            )
