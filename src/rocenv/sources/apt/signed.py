"""Signed package indexes as files, for mirrors and for proving where packages in bundles came from."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from rocenv.sources.apt.control import UNPACKERS
from rocenv.sources.apt.index import RELEASE, open_index
from rocenv.sources.apt.mirrors import apt_settings, keyrings
from rocenv.sources.apt.signature import KEY_BYTES, RELEASE_BYTES, verified_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from rocenv.context import Context
    from rocenv.core.model import Lock
    from rocenv.data.releases import Repo, RocmSet
    from rocenv.sources.apt.index import Index

_KEY = "key"
_MAX_LIST_BYTES = 64 << 20  # Debian's is 10 MB
# A package list in `InRelease`: its hash and its compression.
_LISTED = re.compile(r"^ ([0-9a-f]{64}) +[0-9]+ +(?:\S*/)?Packages(\.[a-z0-9]+|)\s*$", re.MULTILINE)
# This is never the first line of a list. Searching Debian's 60 MB without `^` is five times as fast.
_HASH = re.compile(rb"\nSHA256: ([0-9a-f]{64})(?:\n|\Z)")


@dataclass(frozen=True, slots=True)
class SignedIndex:
    """A verified index's files in this home."""

    index: Index

    @property
    def release(self) -> Path:
        """The signed `InRelease`."""
        return self.index.folder / RELEASE

    @property
    def key(self) -> Path | None:
        """The key that signed `InRelease`, or None if the distribution itself includes the key."""
        return self.index.folder / _KEY if self.index.repo.key_url else None

    @property
    def lists(self) -> Iterator[tuple[str, Path]]:
        """The package lists: for each, its name relative to the suite, and its file."""
        return ((name, path) for path, name in self.index.files)

    @property
    def packages(self) -> frozenset[str]:
        """The hashes of all packages in the index."""
        lists = ((path.read_bytes(), PurePosixPath(name).suffix) for name, path in self.lists)
        return frozenset().union(*(_hashes(content, suffix) for content, suffix in lists))

    def members(self, number: int) -> dict[str, bytes | Path]:
        """Return the files as members of a bundle, for `proven`."""
        folder = f"indices/{self.index.repo.name}+{number}"
        found: dict[str, bytes | Path] = {f"{folder}/{RELEASE}": self.release}
        if self.key is not None:
            found[f"{folder}/{_KEY}"] = self.key
        return found | {
            f"{folder}/{path.name}{PurePosixPath(name).suffix}": path for name, path in self.lists
        }


def signed_indices(lock: Lock, context: Context, max_age_s: float) -> Iterator[SignedIndex]:
    """Yield the indexes of the repositories that a lock's Debian packages come from.

    Raises:
        FetchError: An index is neither cached nor reachable, or not trusted.
    """
    settings = apt_settings()
    network = replace(context.network, proxy=context.network.proxy or settings.http_proxy)
    for repo, row in _places(lock, context):
        index = open_index(repo, row, context.home, network, settings, max_age_s)
        if not (index.folder / RELEASE).exists():  # an older rocenv cached only its lists
            index = open_index(repo, row, context.home, network, settings, 0)
        yield SignedIndex(index)


def _places(lock: Lock, context: Context) -> Iterator[tuple[Repo, RocmSet]]:
    matrix = context.matrix
    for part in lock.components:
        used = {each.repo for each in part.artifacts if each.kind == "deb"}
        rows = [row for row in matrix.rocm if row.channel == part.channel]
        # A compiler has no row in this table, but all sets from its channel use the same suites.
        row = next((row for row in rows if row.version == part.version), next(iter(rows), None))
        if used and row is not None:
            yield from ((matrix.repos[name], row) for name in sorted(used) if name in matrix.repos)


def proven(
    repo: Repo, names: Collection[str], read: Callable[[str, int], bytes], wanted: Collection[str]
) -> frozenset[str]:
    """Return the hashes in `wanted` that are in an index from a bundle.

    The index must be signed by a key that this machine trusts for `repo`, but may have any date. Its files
    are read one at a time, and unpacked only if the signed file lists them as package lists.

    Args:
        repo: The repository.
        names: The names of the index's files.
        read: Reads a file, given its name and its maximum size in bytes.
        wanted: The hashes to look for.

    Raises:
        FetchError: There is no valid signature by a trusted key.
    """

    def content(name: str, max_bytes: int) -> bytes:
        return read(name, max_bytes) if name in names else b""

    keys = (content(_KEY, KEY_BYTES),) if repo.key_url else keyrings(repo)
    remedy = f"install the keyring: {' or '.join(repo.keyrings)}"
    text = verified_text(
        content(RELEASE, RELEASE_BYTES),
        keys,
        repo.fingerprints,
        what=f"the bundle's index for {repo.name}",
        remedy=remedy,
    )
    found: set[str] = set()
    listed = dict(_LISTED.findall(text))
    for name in set(names) - {RELEASE, _KEY}:
        packed = read(name, _MAX_LIST_BYTES)
        suffix = listed.get(hashlib.sha256(packed).hexdigest())
        if suffix in UNPACKERS:
            found |= _hashes(packed, suffix)
    return frozenset(found.intersection(wanted))


def _hashes(packed: bytes, suffix: str) -> set[str]:
    """Return the hashes in a compressed package list."""
    return {match[1].decode() for match in _HASH.finditer(UNPACKERS[suffix](packed))}
