"""A home, and artifacts that are available without a server."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from rocenv.core.model import Artifact
from rocenv.home import Home
from rocenv.install import store
from tests.debs import deb

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tests.debs import Entry


@dataclass(frozen=True)
class CachedHome:
    """A home with a cache that tests fill directly."""

    home: Home
    pool: ThreadPoolExecutor

    def artifact(self, name: str, entries: Iterable[Entry], package: bytes | None = None) -> Artifact:
        """Cache an artifact with these entries, or this package, and return it."""
        data = deb(entries) if package is None else package
        sha256 = hashlib.sha256(data).hexdigest()
        self.home.artifacts.mkdir(parents=True, exist_ok=True)
        (self.home.artifacts / sha256).write_bytes(data)
        return Artifact(
            kind="deb",
            name=name,
            version="1.0",
            url=f"https://mirror.example/{name}.deb",
            sha256=sha256,
            size_bytes=len(data),
        )

    def add(self, artifact: Artifact) -> None:
        store.add(self.home, artifact, self.package(artifact), self.pool, lambda _size: None)

    def package(self, artifact: Artifact) -> Path:
        return self.home.artifacts / artifact.sha256


@pytest.fixture
def cached_home(tmp_path: Path) -> Iterator[CachedHome]:
    with ThreadPoolExecutor(2) as pool:
        yield CachedHome(Home(tmp_path / "home"), pool)
