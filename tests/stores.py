"""Entries of the store, read and written as rocenv does, but without asking whether they are right."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rocenv.system.seal import write_sealed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocenv.home import Home


def manifest_in(place: Path) -> dict[str, Any]:
    """Return the files that the manifest of an entry lists."""
    found: dict[str, Any] = json.loads((place / "manifest.json").read_bytes().partition(b"\n")[2])["files"]
    return found


def write_manifest(home: Home, sha256: str, files: Mapping[str, object]) -> None:
    """Let an entry list these files."""
    text = json.dumps({"schema": 1, "name": "x", "version": "1", "files": files})
    write_sealed(home.store / sha256 / "manifest.json", text.encode(), home.key)
