"""Valid and invalid Debian packages: the outer archive and its compression."""

from __future__ import annotations

import gzip
import io
import random
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
import zstandard

from rocenv.core.errors import ArchiveError
from rocenv.install.deb import data_chunks, unpack_tar
from rocenv.install.tree import Tree
from tests.debs import ar, compress, deb, file, folder, tar
from tests.loopback import HTML

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rocenv.core.model import FileEntry
    from tests.debs import Compression

HOW: tuple[Compression, ...] = ("xz", "xz-blocks", "gz", "zst", "none")
ENTRIES = [
    folder("./"),
    folder("./usr"),
    file("./usr/big", random.Random(3).randbytes(300_000)),
    *(file(f"./usr/{number}", f"{number}\n" * number) for number in range(60)),
]
TREE = tar(ENTRIES)


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as executor:
        yield executor


def content(package: bytes, pool: ThreadPoolExecutor) -> bytes:
    return b"".join(data_chunks(io.BytesIO(package), pool, 2))


def unpack(package: bytes, pool: ThreadPoolExecutor, place: Path) -> dict[str, FileEntry]:
    tree = Tree(place, lambda _size: None, for_windows=False)
    unpack_tar(data_chunks(io.BytesIO(package), pool, 2), tree)
    return tree.files


@pytest.mark.parametrize("how", HOW)
def test_packages_with_every_compression_are_read(pool: ThreadPoolExecutor, how: Compression) -> None:
    assert content(deb(ENTRIES, compression=how), pool) == TREE


@pytest.mark.parametrize("how", HOW)
def test_any_truncation_of_a_package_is_an_error(
    pool: ThreadPoolExecutor, how: Compression, tmp_path: Path
) -> None:
    package = deb(ENTRIES, compression=how)
    for number, end in enumerate({len(package) * part // 40 for part in range(40)} | {len(package) - 2}):
        place = tmp_path / str(number)
        place.mkdir()
        with pytest.raises(ArchiveError):
            unpack(package[:end], pool, place)


@pytest.mark.parametrize("how", HOW)
def test_a_tar_that_was_truncated_before_packing_is_an_error(
    pool: ThreadPoolExecutor, how: Compression, tmp_path: Path
) -> None:
    # The checksums of such a package match, so without the error, files would silently be missing.
    for number, end in enumerate({len(TREE) * part // 40 // 512 * 512 for part in range(40)} | {1000, 1024}):
        place = tmp_path / str(number)
        place.mkdir()
        package = deb([], data=compress(TREE[:end], how), compression=how)
        with pytest.raises(ArchiveError, match=r"tar|truncated"):
            unpack(package, pool, place)


@pytest.mark.parametrize("how", ["gz", "zst"])
def test_compressed_data_that_ends_early_is_an_error(
    pool: ThreadPoolExecutor, how: Compression, tmp_path: Path
) -> None:
    data = compress(TREE, how)
    for number, end in enumerate({len(data) * part // 40 for part in range(40)}):
        place = tmp_path / str(number)
        place.mkdir()
        with pytest.raises(ArchiveError):
            package = deb([], data=data[:end], compression=how)
            unpack(package, pool, place)


@pytest.mark.parametrize("how", HOW[:-1])  # uncompressed data has no checksums
def test_flipped_bits_in_a_package_are_detected_or_harmless(
    pool: ThreadPoolExecutor, how: Compression, tmp_path: Path
) -> None:
    data = bytearray(compress(TREE, how))
    for number, place in enumerate(range(0, len(data), len(data) // 60)):
        data[place] ^= 1 << number % 8
        folder_ = tmp_path / str(number)
        folder_.mkdir()
        try:
            package = deb([], data=bytes(data), compression=how)
            files = unpack(package, pool, folder_)
        except ArchiveError:
            pass
        else:
            assert len(files) == 61
        data[place] ^= 1 << number % 8


def test_several_gzip_streams_form_one_tar(pool: ThreadPoolExecutor) -> None:
    data = gzip.compress(TREE[:70_000]) + gzip.compress(b"") + gzip.compress(TREE[70_000:])
    assert content(deb([], data=data, compression="gz"), pool) == TREE


def test_several_zstd_frames_form_one_tar(pool: ThreadPoolExecutor) -> None:
    pack = zstandard.ZstdCompressor().compress
    assert content(deb([], data=pack(TREE[:70_000]) + pack(TREE[70_000:]), compression="zst"), pool) == TREE


@pytest.mark.parametrize("how", ["gz", "zst"])
def test_highly_compressed_data_is_yielded_in_small_pieces(
    pool: ThreadPoolExecutor, how: Compression
) -> None:
    package = deb([], data=compress(bytes(64 << 20), how), compression=how)
    sizes = [len(piece) for piece in data_chunks(io.BytesIO(package), pool, 2)]
    assert sum(sizes) == 64 << 20
    assert max(sizes) <= 1 << 20
    assert min(sizes) > 0


NO_PACKAGE = {
    "nothing": (b"", "not a Debian package"),
    "a web page": (HTML, "not a Debian package"),
    "an rpm": (b"\xed\xab\xee\xdb" + bytes(200), "not a Debian package"),
    "only the magic": (b"!<arch>\n", "no data"),
    "no file tree": (ar([("debian-binary", b"2.0\n"), ("control.tar.gz", b"odd")]), "no data"),
    "another compression": (ar([("data.tar.lzma", b"x")]), r"`\.lzma`"),
    "a size that is not a number": (
        ar([("x", b"")]).replace(b"0         `", b"1e3       `"),
        "list of members",
    ),
    "a size below zero": (ar([("x", b"")]).replace(b"0         `", b"-9        `"), "list of members"),
    "a member larger than the file": (ar([("x", b"")]).replace(b"0         `", b"9999999999`"), "truncated"),
    "a data member larger than the file": (
        ar([("data.tar", b"")]).replace(b"0         `", b"9999999999`"),
        "truncated",
    ),
    "something between members": (ar([("x", b"ab")]) + b"\n" + ar([("data.tar", b"")])[8:], "no data"),
}


@pytest.mark.parametrize(("package", "text"), NO_PACKAGE.values(), ids=NO_PACKAGE.keys())
def test_files_that_are_not_packages_are_rejected(
    pool: ThreadPoolExecutor, package: bytes, text: str
) -> None:
    with pytest.raises(ArchiveError, match=text):
        content(package, pool)


def test_a_member_of_odd_length_before_the_data_is_skipped(pool: ThreadPoolExecutor) -> None:
    package = ar([("debian-binary", b"2.0\n"), ("_sign", b"odd"), ("data.tar/", TREE)])
    assert content(package, pool) == TREE
