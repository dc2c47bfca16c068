"""Bundles with arbitrary content, created without rocenv."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def bundle_of(contents: Mapping[str, bytes], envs: Mapping[str, str]) -> bytes:
    """Create a bundle with these members; `envs` maps env names to the members that contain their locks."""
    files = {
        name: {"sha256": hashlib.sha256(content).hexdigest(), "size_bytes": len(content)}
        for name, content in contents.items()
    }
    manifest = {"schema": 1, "rocenv": "1", "envs": dict(envs), "files": files}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, content in {"MANIFEST.json": json.dumps(manifest).encode(), **contents}.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()
