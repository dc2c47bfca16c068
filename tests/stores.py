"""Access to sealed files, such as store manifests, without rocenv's checks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rocenv.system.seal import read_sealed, write_sealed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocenv.home import Home


def manifest_in(place: Path) -> dict[str, Any]:
    """Return the files that a store entry's manifest lists."""
    found: dict[str, Any] = json.loads((place / "manifest.json").read_bytes().partition(b"\n")[2])["files"]
    return found


def write_manifest(home: Home, sha256: str, files: Mapping[str, object]) -> None:
    """Write a manifest that lists these files."""
    text = json.dumps({"schema": 1, "name": "x", "version": "1", "files": files})
    write_sealed(home.store / sha256 / "manifest.json", text.encode(), home.key)


def change_sealed(path: Path, home: Home, **changes: object) -> None:
    """Change values in a sealed JSON file and seal it again."""
    plain = json.loads(read_sealed(path, home.key)) | changes
    write_sealed(path, json.dumps(plain).encode(), home.key)
