"""A real apt repository in a folder, signed with a temporary key. Tests can change it between requests."""

from __future__ import annotations

import gzip
import hashlib
import lzma
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import format_datetime
from functools import cache
from typing import TYPE_CHECKING, Any

import pysequoia

from tests.debs import Compression, Entry, deb

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_PACKERS = {"": bytes, ".xz": lambda data: lzma.compress(data, preset=0), ".gz": gzip.compress}


@dataclass(frozen=True, slots=True)
class Key:
    """A signing key, and its public half as a keyring."""

    secret: Any

    @classmethod
    def new(cls, user: str = "archive") -> Key:
        return cls(pysequoia.Tsk.generate(f"{user} <{user}@example.org>"))

    @property
    def keyring(self) -> bytes:
        return bytes(self.secret.extract_certificate())

    @property
    def armoured(self) -> bytes:
        return str(self.secret.extract_certificate()).encode()

    @property
    def fingerprint(self) -> str:
        return str(self.secret.extract_certificate().fingerprint).upper()

    def clear_sign(self, text: str) -> bytes:
        mode = pysequoia.SignatureMode.CLEAR
        return bytes(pysequoia.sign(self.secret.signer(), text.encode(), mode=mode))


@cache
def archive_key() -> Key:
    """Create the archive's key, once per test run."""
    return Key.new()


@dataclass(frozen=True, slots=True)
class Built:
    """A package in a repository."""

    name: str
    version: str
    path: str  # relative to the repository
    stanza: str


@dataclass
class Repo:
    """A repository with one suite below `folder`; `publish` makes changes take effect."""

    folder: Path
    suite: str = "mini"
    component: str = "main"
    key: Key = field(default_factory=archive_key)
    packages: list[Built] = field(default_factory=list)

    def add(
        self,
        name: str,
        version: str,
        entries: Iterable[Entry] = (),
        *,
        compression: Compression = "gz",
        content: bytes | None = None,
        fields: dict[str, str] | None = None,
        **relations: str,
    ) -> Built:
        """Add a package to the pool and the next index, alongside its other versions.

        Args:
            name: The package name.
            version: The full version.
            entries: Its file tree.
            compression: The compression for the file tree.
            content: The package file's bytes, instead of a valid package built from `entries`.
            fields: Fields in its stanza, which override the correct values (`Size`, `SHA256` ...).
            **relations: More fields, with names like `depends` and `pre_depends`.
        """
        more = {key.replace("_", "-").title(): value for key, value in relations.items()}
        control = {"Package": name, "Version": version, "Architecture": "amd64", **more}
        entries = list(entries)
        if content is None:
            content = deb(entries, control=_stanza(control), compression=compression)
        path = f"pool/{self.component}/{name[0]}/{name}/{name}_{version.replace(':', '%3a')}_amd64.deb"
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        control |= {
            "Installed-Size": str(sum(len(entry.content) for entry in entries) // 1024 + 1),
            "Filename": path,
            "Size": str(len(content)),
            "SHA256": hashlib.sha256(content).hexdigest(),
            **(fields or {}),
        }
        built = Built(name, version, path, _stanza(control))
        self.packages.append(built)
        return built

    def remove(self, name: str, *, from_index: bool = True) -> None:
        """Remove all versions of a package from the pool and, by default, from the next index."""
        for package in [package for package in self.packages if package.name == name]:
            (self.folder / package.path).unlink(missing_ok=True)
            if from_index:
                self.packages.remove(package)

    def publish(
        self,
        *,
        by_hash: bool = True,
        forms: Iterable[str] = (".xz", ".gz"),
        fields: dict[str, str] | None = None,
        key: Key | None = None,
    ) -> str:
        """Write `Packages` and a signed `InRelease`; return the signed text.

        Args:
            by_hash: Also serve the lists under their hashes, and keep older ones.
            forms: The suffixes of the list files; "" for the uncompressed list.
            fields: Fields in the release file, which override the correct values (`Valid-Until`, `Date` ...).
            key: The key to sign with, instead of the repository's own.
        """
        packages = "\n".join(package.stanza for package in self.packages).encode()
        place = f"{self.component}/binary-amd64"
        listed = [self._write_list(f"{place}/Packages{form}", _PACKERS[form](packages)) for form in forms]
        release = {
            "Origin": "Mini",
            "Suite": self.suite,
            "Codename": self.suite,
            "Date": http_date(0),
            "Acquire-By-Hash": "yes" if by_hash else "no",
            "Architectures": "amd64",
            "Components": self.component,
            "SHA256": "".join(f"\n {line}" for line in listed),
            **(fields or {}),
        }
        text = _stanza(release)
        self.write("InRelease", (key or self.key).clear_sign(text))
        return text

    def write(self, name: str, content: bytes) -> None:
        """Write arbitrary bytes to a file in the suite, such as a tampered `InRelease`."""
        path = self.folder / "dists" / self.suite / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def read(self, name: str) -> bytes:
        """Read a file in the suite."""
        return (self.folder / "dists" / self.suite / name).read_bytes()

    def _write_list(self, name: str, content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()
        self.write(name, content)
        self.write(f"{name.rpartition('/')[0]}/by-hash/SHA256/{digest}", content)
        return f"{digest} {len(content)} {name}"


def http_date(seconds_from_now: float) -> str:
    """Format a date as release files do."""
    then = datetime.fromtimestamp(datetime.now(timezone.utc).timestamp() + seconds_from_now, timezone.utc)
    return format_datetime(then, usegmt=True).replace("GMT", "UTC")


def _stanza(fields: dict[str, str]) -> str:
    return "".join(f"{name}: {value}\n".replace(": \n", ":\n") for name, value in fields.items())
