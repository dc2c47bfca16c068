"""Find the active env, and the env that contains a path."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rocenv.prefix import Prefix

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rocenv.home import Home

# Variables that point to a folder in the env; every env sets one of them, even if its `bin` is not on PATH.
_OF_ACTIVE_ENV = ("VIRTUAL_ENV", "ROCM_PATH", "HIP_PATH")


def env_around(home: Home, path: str) -> str:
    """Return the name of the env that contains a path, or "" if none does; the env may no longer exist."""
    path = os.path.normpath(path)
    for envs in (str(home.envs), os.path.realpath(home.envs)):
        root = os.path.join(os.path.normcase(envs), "")
        if os.path.normcase(path).startswith(root):
            return path[len(root) :].split(os.sep)[0]
    return ""


def active_names(home: Home, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the names of envs on `PATH`, then in other variables; some may no longer exist."""
    for entry in (*environ.get("PATH", "").split(os.pathsep), *map(environ.get, _OF_ACTIVE_ENV)):
        if entry and (name := env_around(home, entry)):
            yield name


def active_env(home: Home, environ: Mapping[str, str]) -> Prefix | None:
    """Find the active env: the complete one whose programs come first on `PATH`."""
    found = (Prefix(home.envs / name) for name in active_names(home, environ))
    return next((prefix for prefix in found if prefix.state == "complete"), None)
