"""Verify downloaded Python packages, and build wheels from pure-Python sdists.

AMD publishes the `rocm` package only as an sdist whose `setup.py` detects the machine's GPU. rocenv does not
run that code: it packs the modules and commands unchanged, so an sdist produces the same wheel on every
machine.
"""

from __future__ import annotations

import base64
import hashlib
import io
import lzma
import posixpath
import re
import tarfile
import zipfile
import zlib
from email import message_from_bytes
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from rocenv.core.errors import ArchiveError
from rocenv.core.versions import version_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rocenv.core.model import Artifact

_LARGEST_BYTES = 64 << 20  # total size of an sdist's members; `rocm` is 100 kB
_LARGEST_METADATA_BYTES = 4 << 20
# Errors that zipfile, tarfile, and decompressors raise for invalid files, and `packaging` for invalid names
# and versions.
_DAMAGED = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    KeyError,
    OSError,
    EOFError,
    RuntimeError,
    ValueError,
)
_DATE = (1980, 1, 1, 0, 0, 0)  # for every member; the earliest date that zip supports


def require_package(artifact: Artifact, path: Path) -> None:
    """Raise ArchiveError unless a file is the wheel or sdist that an artifact describes.

    If the hash is unknown, this detects a web page that a proxy served instead of the package.
    """
    try:
        metadata = _wheel_metadata(path) if artifact.kind == "wheel" else _sdist_members(path)["PKG-INFO"]
        found = message_from_bytes(metadata)
        # Non-ASCII values are `email.header.Header` objects.
        name, version = canonicalize_name(str(found["Name"] or "")), str(found["Version"] or "")
        is_right = name == canonicalize_name(artifact.name) and version_of(version) == version_of(
            artifact.version
        )
    except _DAMAGED as error:
        raise ArchiveError(
            f"`{artifact.url}` did not serve a Python package: {error}",
            hints=("open the URL in a browser: a proxy or your ISP may show its own page instead",),
        ) from error
    if not is_right:
        raise ArchiveError(
            f"`{artifact.url}` serves {name} {version}, not {artifact.name} {artifact.version}"
        )


def wheel_of(sdist: Path, artifact: Artifact, others: Sequence[Artifact]) -> tuple[str, bytes]:
    """Build a wheel from a pure-Python sdist without running its code.

    Args:
        sdist: The archive, with its modules in `src`.
        artifact: The name and version of the package.
        others: The other packages of its component: the wheel depends on the core package, and has an extra
          for each of the others.

    Returns:
        The wheel's file name and contents; the same input produces identical contents.

    Raises:
        ArchiveError: The archive is damaged or contains no modules.
    """
    try:
        members = _sdist_members(sdist)
        for path in members:
            path.encode()
    except _DAMAGED as error:
        raise ArchiveError(f"`{sdist.name}` for {artifact.name} is damaged: {error}") from error
    files = {
        path.removeprefix("src/"): content
        for path, content in members.items()
        if path.startswith("src/") and ".egg-info/" not in path
    }
    if not files:
        raise ArchiveError(f"the {artifact.name} sdist contains no modules in `src`")
    module = artifact.name.replace("-", "_")
    info = f"{module}-{artifact.version}.dist-info"
    files[f"{info}/METADATA"] = _metadata(artifact, others).encode()
    files[f"{info}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: rocenv\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    for path, content in members.items():
        if path.endswith(".egg-info/entry_points.txt"):
            files[f"{info}/entry_points.txt"] = content
    return f"{module}-{artifact.version}-py3-none-any.whl", _zipped(files, f"{info}/RECORD")


def _wheel_metadata(path: Path) -> bytes:
    with zipfile.ZipFile(path) as archive:
        names = [each for each in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", each)]
        if not names:
            raise KeyError("METADATA")
        if archive.getinfo(names[0]).file_size > _LARGEST_METADATA_BYTES:
            raise zipfile.BadZipFile("its METADATA is too large")
        return archive.read(names[0])


def _sdist_members(path: Path) -> dict[str, bytes]:
    """Read the regular files in an sdist, keyed by their path below its top-level folder."""
    members: dict[str, bytes] = {}
    left = _LARGEST_BYTES
    with tarfile.open(path, "r:gz") as archive:
        for member in archive:
            if not member.isfile():
                continue
            left -= member.size
            inner = member.name.partition("/")[2]
            if left < 0 or not inner or posixpath.normpath(inner) != inner or inner.startswith(("/", "../")):
                raise tarfile.TarError(f"`{member.name}` is too large or has an unsafe name")
            stream = archive.extractfile(member)
            assert stream is not None
            members[inner] = stream.read()
    return members


def _metadata(artifact: Artifact, others: Sequence[Artifact]) -> str:
    lines = ["Metadata-Version: 2.1", f"Name: {artifact.name}", f"Version: {artifact.version}"]
    for each in others:
        extra = each.name.removeprefix("rocm-sdk-").removesuffix("-custom")
        if extra == "core":
            lines.append(f"Requires-Dist: {each.name}=={each.version}")
        else:
            lines += [
                f"Provides-Extra: {extra}",
                f"Requires-Dist: {each.name}=={each.version}; extra == '{extra}'",
            ]
    return "\n".join(lines) + "\n"


def _zipped(files: Mapping[str, bytes], record: str) -> bytes:
    lines = []
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in sorted(files.items()):
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            lines.append(f"{path},sha256={digest},{len(content)}\n")
            archive.writestr(zipfile.ZipInfo(path, _DATE), content)
        archive.writestr(zipfile.ZipInfo(record, _DATE), "".join((*lines, f"{record},,\n")))
    return stream.getvalue()
