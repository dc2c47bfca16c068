"""Unpack ZLUDA builds and library packs, which are zip or 7z archives."""

from __future__ import annotations

import errno
import lzma
import stat
import struct
import zipfile
import zlib
from typing import TYPE_CHECKING

from rocenv.core.errors import ArchiveError
from rocenv.install.tree import require_plausible, shown
from rocenv.system.files import CHUNK_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rocenv.install.tree import Tree

# Other file types, by their first bytes.
_OTHERS = (
    (b"MZ", "a program"),
    (b"Rar!", "a RAR archive"),
    (b"\x1f\x8b", "compressed with gzip"),
    (b"\xfd7zXZ", "compressed with xz"),
    (b"!<arch>", "a Debian package"),
    (b"\xd0\xcf\x11\xe0", "a Windows Installer package"),
    (b"version https://git-lfs", "a Git LFS pointer instead of the file"),
)
_HTML = (b"<!doctype html", b"<html", b"<head", b"<?xml")
# Errors that `zipfile` and its decoders raise for damaged files; an invalid offset raises OSError.
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error,
    EOFError, ValueError, IndexError, KeyError, OverflowError, NotImplementedError, RuntimeError,
)  # fmt: skip


def unpack_archive(path: Path, tree: Tree, work: Path) -> None:
    """Unpack a zip or 7z archive after checking all names. File modes and empty folders are dropped.

    If an external program has to unpack the archive, it uses `work`, which is created and removed.

    Raises:
        ArchiveError: The file is not a zip or 7z archive, is damaged, encrypted or a bomb, or requires a
            program that is not installed; or a member has an unsafe name, collides with another under
            Windows' naming rules, or is a link.
        PrefixError: A path would be longer than Windows allows.
    """
    with path.open("rb") as stream:
        head = stream.read(512)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        _unpack_zip(path, tree)
    elif head.startswith(b"7z\xbc\xaf\x27\x1c"):
        from rocenv.install.sevenzip import unpack_7z

        unpack_7z(path, tree, work)
    else:
        raise ArchiveError(f"expected a zip or 7z archive, found {what_it_is(head)}")
    if not tree.files:
        raise ArchiveError("it contains no files and may be incomplete")


def what_it_is(head: bytes) -> str:
    """Describe a file of an unexpected type by its first bytes."""
    if not head:
        return "empty"
    plain = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if plain.startswith(_HTML):
        return "a web page instead of the file"
    for magic, words in _OTHERS:
        if head.startswith(magic):
            return words
    try:
        head[:256].decode("ascii")
    except UnicodeDecodeError:
        return f"something that starts with the bytes {head[:8].hex(' ')}"
    return f"text that starts with `{shown(head[:40].decode('ascii'))}`"


def _unpack_zip(path: Path, tree: Tree) -> None:
    members = []
    try:
        archive = zipfile.ZipFile(path)
    except _DAMAGE as error:
        raise ArchiveError(f"damaged zip archive: {error}") from error
    with archive:
        for info in archive.infolist():
            # `filename` ends at the first NUL; this is the full name in the archive.
            if not info.orig_filename.endswith(("/", "\\")):
                members.append((tree.claim(info.orig_filename), info))
            _require_readable(info)
        require_plausible(sum(info.file_size for _, info in members), path.stat().st_size)
        for name, info in members:
            tree.write(name, info.file_size, _zip_chunks(archive, info))


def _require_readable(info: zipfile.ZipInfo) -> None:
    if info.flag_bits & 0x1:
        raise ArchiveError(f"`{shown(info.orig_filename)}` is encrypted")
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise ArchiveError(f"`{shown(info.orig_filename)}` is a link or some other special file")


def _zip_chunks(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    """Yield a member's bytes. The caller writes them, so that write errors are not reported as damage."""
    name = shown(info.orig_filename)
    try:
        with archive.open(info) as source:
            while data := source.read(CHUNK_BYTES):
                yield data
    except _DAMAGE as error:
        raise ArchiveError(f"`{name}` is damaged: {str(error) or type(error).__name__}") from error
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise ArchiveError(f"`{name}` is damaged: its offset is outside the archive") from error
