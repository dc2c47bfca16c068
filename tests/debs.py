"""Debian packages, built byte by byte because packaging tools cannot write invalid ones."""

from __future__ import annotations

import gzip
import io
import lzma
import subprocess
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

Compression = Literal["xz", "xz-blocks", "gz", "zst", "none"]
_SUFFIX = {"xz": ".xz", "xz-blocks": ".xz", "gz": ".gz", "zst": ".zst", "none": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A member of a package's file tree; its name is written unchanged."""

    name: str
    kind: bytes = tarfile.REGTYPE
    content: bytes = b""
    link: str = ""  # the target of a symbolic or hard link, written unchanged
    mode: int = 0o644


def file(name: str, content: bytes | str = b"", mode: int = 0o644) -> Entry:
    data = content.encode() if isinstance(content, str) else content
    return Entry(name=name, content=data, mode=mode)


def folder(name: str, mode: int = 0o755) -> Entry:
    return Entry(name=name, kind=tarfile.DIRTYPE, mode=mode)


def symlink(name: str, link: str) -> Entry:
    return Entry(name=name, kind=tarfile.SYMTYPE, link=link, mode=0o777)


def hardlink(name: str, link: str) -> Entry:
    return Entry(name=name, kind=tarfile.LNKTYPE, link=link)


def device(name: str) -> Entry:
    return Entry(name=name, kind=tarfile.CHRTYPE)


def fifo(name: str) -> Entry:
    return Entry(name=name, kind=tarfile.FIFOTYPE)


def setuid(name: str, content: bytes = b"#!/bin/sh\n") -> Entry:
    return file(name, content, mode=0o4755)


def tar(entries: Iterable[Entry]) -> bytes:
    """Build a tar with the entries in this order and with unchanged names and links."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for entry in entries:
            info = tarfile.TarInfo(entry.name)
            info.type, info.linkname, info.mode = entry.kind, entry.link, entry.mode
            info.size = len(entry.content)
            info.uname = info.gname = "root"
            info.mtime = 1_700_000_000
            archive.addfile(info, io.BytesIO(entry.content))
    return out.getvalue()


def compress(data: bytes, how: Compression, *, block_bytes: int = 1 << 16) -> bytes:
    """Compress data; `xz-blocks` writes independent blocks that state their sizes, as dpkg-deb does."""
    match how:
        case "xz":
            return lzma.compress(data, preset=0)
        case "xz-blocks":
            # Only the threaded encoder writes sizes to block headers.
            command = ["xz", "-0", "-c", "-T2", f"--block-size={block_bytes}"]
            return subprocess.run(command, input=data, capture_output=True, check=True, timeout=60).stdout
        case "gz":
            return gzip.compress(data, 1, mtime=0)
        case "zst":
            import zstandard

            return zstandard.ZstdCompressor(1).compress(data)
        case "none":
            return data


def ar(members: Iterable[tuple[str, bytes]]) -> bytes:
    """Build an `ar` archive. Source: deb(5), ar(5)"""
    out = bytearray(b"!<arch>\n")
    for name, data in members:
        out += f"{name:<16}{1_700_000_000:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode()
        out += data + b"\n" * (len(data) % 2)
    return bytes(out)


def deb(
    entries: Iterable[Entry],
    *,
    control: str = "",
    compression: Compression = "xz",
    block_bytes: int = 1 << 16,
    data: bytes | None = None,
) -> bytes:
    """Build a Debian package.

    Args:
        entries: Its file tree.
        control: The text of the control file.
        compression: The compression for the file tree.
        block_bytes: The uncompressed block size for `xz-blocks`.
        data: The data member's bytes, instead of `entries`.
    """
    if data is None:
        data = compress(tar(entries), compression, block_bytes=block_bytes)
    return ar(
        [
            ("debian-binary", b"2.0\n"),
            ("control.tar.gz", compress(tar([file("./control", control)]), "gz")),
            (f"data.tar{_SUFFIX[compression]}", data),
        ]
    )
