"""Read bundles: plain tar files with locks and all their files, for machines without a network.

    MANIFEST.json           the envs, and the sha256 and size of every other member
    artifacts/SHA256        packages and wheels
    data.json               the rows of rocenv's data that the locks use; for humans, never read by rocenv
    indices/…               signed package indexes, which prove the origin of the packages
    kernels/KEY/…           compiled kernels for an env's app
    locks/SHA256.lock       the envs' locks
    pythons/KEY.tar.gz      interpreters for wheels

A bundle can come from anyone, so it is not read with `tarfile`, which would load extended headers of any size
into memory. `open_bundle` reads the headers, accepts only plain files that the manifest lists, each only
once, and remembers where they start. Each member is hashed when it is used; the bundle is never unpacked as
a whole.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.core.codec import from_plain
from rocenv.core.errors import DataError, FetchError, RocenvError
from rocenv.core.foreign import open_regular, parse_json
from rocenv.core.lock import MAX_LOCK_BYTES, parse_lock
from rocenv.core.model import Value
from rocenv.core.versions import joined, series
from rocenv.install.store import Section, bundle_error, reading
from rocenv.sources.apt.signed import proven
from rocenv.sources.interpreter import find_python, install_archive
from rocenv.sources.uv import Uv
from rocenv.system.files import CHUNK_BYTES
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from io import BufferedReader

    from rocenv.context import Context
    from rocenv.core.model import Artifact, Lock

BUNDLE_SCHEMA = 1
MANIFEST = "MANIFEST.json"
_MAX_MANIFEST_BYTES = 4 << 20
_MAX_NAME = 200
_MAX_MEMBERS = 20_000  # about 100 per env
_BLOCK = tarfile.BLOCKSIZE
_MAGIC = b"ustar"
_COMPRESSED = {b"\x1f\x8b": "gunzip", b"\x28\xb5\x2f\xfd": "unzstd", b"\xfd7zXZ": "unxz"}
_SUFFIXES = (".gz", ".zst", ".xz")
_PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE)
_MEMBER = re.compile(
    r"artifacts/[0-9a-f]{64}|data\.json|(indices|kernels|locks|pythons)(/\w[\w.+~-]*){1,2}", re.ASCII
)


class Member(Value, frozen=True, kw_only=True):
    """A member's entry in the manifest."""

    sha256: str
    size_bytes: int


class Manifest(Value, frozen=True, kw_only=True):
    """The content of `MANIFEST.json`."""

    rocenv: str  # the version that wrote the bundle
    envs: dict[str, str]  # name -> member with its lock
    files: dict[str, Member]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A bundle whose manifest was checked; the contents of its members are not verified yet."""

    path: Path
    manifest: Manifest
    sections: Mapping[str, Section]

    @property
    def extras(self) -> list[str]:
        """Descriptions of its interpreters and kernels."""
        names = (each.removesuffix(".tar.gz") for each in self.sections if each.startswith("pythons/"))
        kernels = sum(each.startswith("kernels/") and each.endswith("/kernel") for each in self.sections)
        return [*(each.partition("/")[2] for each in names), *([f"{kernels} GPU kernels"] if kernels else [])]

    def content(self, member: str, max_bytes: int) -> bytes:
        """Read a small member, and verify its hash.

        Raises:
            DataError: The member is missing or too large, or has changed.
        """
        known = self.manifest.files.get(member)
        if known is None:
            raise bundle_error(self.path, f"it does not contain `{member}`")
        if known.size_bytes > max_bytes:
            raise bundle_error(self.path, f"`{member}` in it is too large")
        content = b"".join(self._chunks(member))
        if hashlib.sha256(content).hexdigest() != known.sha256:
            raise bundle_error(self.path, f"`{member}` in it has changed")
        return content

    def copy(self, member: str, target: Path) -> str:
        """Copy a member into a new file, and return its hash; raise DataError if the member has changed."""
        digest = hashlib.sha256()
        with target.open("xb") as out:
            for data in self._chunks(member):
                digest.update(data)
                out.write(data)
        if digest.hexdigest() != self.manifest.files[member].sha256:
            raise bundle_error(self.path, f"`{member}` in it has changed")
        return digest.hexdigest()

    def _chunks(self, member: str) -> Iterator[bytes]:
        section = self.sections[member]
        left = section.size_bytes
        with reading(self.path), open_regular(self.path) as stream:
            stream.seek(section.start)
            while data := stream.read(min(left, CHUNK_BYTES)):
                left -= len(data)
                yield data

    def lock(self, name: str) -> Lock:
        """Read an env's lock; if there is only one, return it for any name.

        Raises:
            RocenvError: The bundle contains several locks, but none for this name.
            DataError: The lock is damaged or unsafe.
        """
        envs = self.manifest.envs
        if name not in envs and len(envs) != 1:
            raise RocenvError(
                f"the bundle `{self.path}` does not contain an env named `{name}`, only "
                f"{joined(list(envs), 20) or 'files without envs'}",
                hints=("use one of these names for the new env; `rocenv rename` can change it later",),
                code="bundle-without-env",
            )
        member = envs.get(name) or next(iter(envs.values()))
        return parse_lock(self.content(member, MAX_LOCK_BYTES), f"{self.path}:{member}")

    def artifacts(self, lock: Lock) -> dict[str, Section]:
        """Locate a lock's files: sha256 -> location; raise DataError if one is missing or changed."""
        files = {each: artifact_member(each) for each in lock.artifacts if each.kind != "folder"}
        missing = [f"`{each.name} {each.version}`" for each in files if files[each] not in self.sections]
        if missing:
            raise bundle_error(self.path, f"it does not contain {joined(missing, 5)}")
        for each, member in files.items():
            if self.sections[member].size_bytes != each.size_bytes:
                what = f"`{each.name} {each.version}` in it has changed: its size is different"
                raise bundle_error(self.path, what)
        return {each.sha256: self.sections[member] for each, member in files.items()}


def proven_files(bundle: Bundle, lock: Lock, context: Context) -> frozenset[str]:
    """Return the hashes of a lock's packages that are in the bundle's signed indexes.

    The indexes must be signed by a key that this machine trusts; a note explains any failure.

    Raises:
        DataError: An index has changed.
    """
    indices: dict[str, list[str]] = {}
    for member in bundle.sections:
        folder, _, name = member.rpartition("/")
        if folder.startswith("indices/"):
            indices.setdefault(folder, []).append(name)
    wanted = {each.sha256 for each in lock.artifacts if each.kind == "deb"}
    found: set[str] = set()
    for folder, names in indices.items():

        def read(name: str, max_bytes: int, folder: str = folder) -> bytes:
            return bundle.content(f"{folder}/{name}", max_bytes)

        repo = context.matrix.repos.get(folder.removeprefix("indices/").rpartition("+")[0])
        try:
            found |= proven(repo, names, read, wanted) if repo is not None else set()
        except FetchError as error:
            context.note("\n  ".join((f"warning: {error.message}", *error.hints[-1:])))
    return frozenset(found)


def provide_python(bundle: Bundle, lock: Lock, context: Context) -> None:
    """Install the bundle's Python into the home, if a lock's wheels need it and it is not installed.

    Raises:
        DataError: The interpreter in the bundle has changed.
        RocenvError: uv cannot install it.
    """
    version = next((series(part.python) for part in lock.components if part.python), "")
    start = f"pythons/cpython-{version}."
    member = next((each for each in bundle.sections if version and each.startswith(start)), "")
    if not member:
        return
    uv = Uv.for_context(context)
    try:
        find_python(version, dataclasses.replace(uv, offline=True))
    except RocenvError:
        key = member.removeprefix("pythons/").removesuffix(".tar.gz")
        context.note(f"Python {version} is not installed; installing {key} from the bundle")
        with tempfile.TemporaryDirectory(prefix="rocenv-") as folder:
            archive = Path(folder) / f"{key}.tar.gz"
            install_archive(key, archive, bundle.copy(member, archive), uv)


def artifact_member(artifact: Artifact) -> str:
    """Return the name of the member that contains an artifact."""
    return f"artifacts/{artifact.sha256}"


def is_bundle(path: Path) -> bool:
    """Whether a file is a tar file, regardless of its name.

    Raises:
        DataError: The file is compressed.
        OSError: The file cannot be read.
    """
    with open_regular(path) as stream:
        head = stream.read(_BLOCK)
    if program := next((name for magic, name in _COMPRESSED.items() if head.startswith(magic)), ""):
        # Pass the file on stdin, because these programs reject file names without their own suffix.
        plain = path.with_suffix("") if path.suffix in _SUFFIXES else path.with_suffix(".plain.tar")
        raise DataError(
            f"`{path}` is compressed, but rocenv reads only uncompressed bundles",
            hints=(f"decompress it first: `{program} < {shell_join(str(path))} > {shell_join(str(plain))}`",),
            code="bundle-damaged",
        )
    return head[257:262] == _MAGIC


def open_bundle(path: Path) -> Bundle:
    """Read the manifest of a bundle and find its members, using a limited amount of memory.

    Raises:
        DataError: The file is not a bundle, or a newer rocenv wrote it, or a member is missing, truncated,
            unsafe, or not in the manifest.
    """
    with reading(path), open_regular(path) as stream:
        found = _sections(path, stream)
        manifest = _manifest(path, stream, found.pop(MANIFEST))
    for name, known in manifest.files.items():
        if name.startswith("artifacts/"):
            continue  # `Bundle.artifacts` checks these and reports them by package name
        if name not in found:
            raise bundle_error(path, f"it does not contain `{name}`")
        if found[name].size_bytes != known.size_bytes:
            raise bundle_error(path, f"`{name}` in it has changed: its size is different")
    for name in found:
        if name not in manifest.files:
            raise bundle_error(path, f"its manifest does not list `{name}`")
    return Bundle(path=path, manifest=manifest, sections=found)


def _sections(path: Path, stream: BufferedReader) -> dict[str, Section]:
    """Find all members by reading only their headers."""
    end = stream.seek(0, 2)
    found: dict[str, Section] = {}
    position = stream.seek(0)
    while len(header := stream.read(_BLOCK)) == _BLOCK and header.strip(b"\0"):
        if not found and header[:100].rstrip(b"\0") != MANIFEST.encode():
            break
        name, size = _header(path, header)
        if name in found or len(found) == _MAX_MEMBERS:
            why = f"it contains `{name}` twice" if name in found else "it has too many members"
            raise bundle_error(path, why)
        found[name] = Section(path, position + _BLOCK, size)
        position += _BLOCK + -(-size // _BLOCK) * _BLOCK
        if position > end:
            raise bundle_error(path, f"it is truncated: it ends inside `{name}`")
        stream.seek(position)
    if MANIFEST not in found:
        raise DataError(
            f"`{path}` is a tar file, but not a bundle: it does not begin with `{MANIFEST}`",
            hints=("`rocenv bundle` writes bundles",),
            code="bundle-damaged",
        )
    if len(header) < _BLOCK:
        raise bundle_error(path, f"it is truncated: it ends after {len(found)} members")
    return found


def _header(path: Path, header: bytes) -> tuple[str, int]:
    """Read the name and size of a member; raise DataError unless it belongs in a bundle."""
    try:
        member = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
    except (tarfile.HeaderError, ValueError) as error:
        raise bundle_error(path, "it has a damaged header") from error
    if member.type not in _PLAIN or member.size < 0:
        raise bundle_error(path, f"{member.name!r} in it is not a regular file")
    if member.name != MANIFEST and _MEMBER.fullmatch(member.name) is None:
        raise bundle_error(path, f"{member.name!r} does not belong in a bundle")
    return member.name, member.size


def _manifest(path: Path, stream: BufferedReader, section: Section) -> Manifest:
    if section.size_bytes > _MAX_MANIFEST_BYTES:
        raise bundle_error(path, f"`{MANIFEST}` in it is too large")
    stream.seek(section.start)
    try:
        plain = parse_json(stream.read(section.size_bytes), MANIFEST)
    except DataError as error:
        raise bundle_error(path, error.message) from error
    schema = plain.pop("schema", None) if isinstance(plain, dict) else None
    if isinstance(schema, int) and schema > BUNDLE_SCHEMA:
        raise DataError(
            f"the bundle `{path}` was written by a newer rocenv (schema {schema}; this version supports "
            f"{BUNDLE_SCHEMA})",
            hints=("upgrade rocenv",),
        )
    if schema != BUNDLE_SCHEMA:
        raise bundle_error(path, f"`{MANIFEST}` in it is not a bundle's manifest")
    try:
        manifest = from_plain(Manifest, plain, MANIFEST)
    except DataError as error:
        raise bundle_error(path, error.message) from error
    if any(len(name) > _MAX_NAME or not name.isprintable() for name in manifest.envs):
        raise bundle_error(path, "it contains an invalid env name")
    # A lock must not be in `artifacts/`, because members there are optional and can be large.
    if not all(member.startswith("locks/") for member in manifest.envs.values()):
        raise bundle_error(path, "a file that it uses as a lock is not in `locks/`")
    if any(len(name) > _MAX_NAME or _MEMBER.fullmatch(name) is None for name in manifest.files):
        raise bundle_error(path, "its manifest lists a file that does not belong in a bundle")
    return manifest
