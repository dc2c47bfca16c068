"""What a venv does at the start of its Python so that torch gets ZLUDA: the script, and what it is told."""

from __future__ import annotations

import json
from importlib.resources import files as package_files
from typing import TYPE_CHECKING

from rocenv.core.codec import to_plain
from rocenv.preload import folders_of, preload, zluda_of
from rocenv.system.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from rocenv.core.model import Lock
    from rocenv.install.prefix import Prefix

MODULE = "rocenv_zluda"


def write_startup(prefix: Prefix, lock: Lock, files: Collection[str], *, in_torch: bool) -> tuple[Path, ...]:
    """Write the start-up files of a set with ZLUDA and torch into its venv, and return their paths.

    Nothing in them names the prefix: they are good wherever it is moved.
    """
    build, torch = zluda_of(lock), lock.part("torch")
    if build is None or build.shims is None or torch is None or torch.layout is None:
        return ()
    told = {
        "folders": folders_of(lock),
        "load": preload(lock, files, in_torch=in_torch),
        "environment": [(each.action, each.name, each.value) for each in lock.environment],
        "switches": [
            {"name": each.name, "how": each.how, "value": each.value} for each in build.shims.switches
        ],
    }
    script = package_files("rocenv.install").joinpath("venv_start.py").read_bytes()
    contents = {
        f"{MODULE}.py": script,
        f"{MODULE}.pth": f"import {MODULE}\n".encode(),
        f"{MODULE}.json": json.dumps(to_plain(told), indent=1).encode(),
    }
    written = []
    for name, content in contents.items():
        path = prefix.path / torch.layout.site_packages / name
        write_atomic(path, content)
        written.append(path)
    return tuple(written)
