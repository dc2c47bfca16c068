"""Zip and 7z archives: valid, unsafe and damaged."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import stat
import subprocess
import zipfile
from typing import TYPE_CHECKING

import py7zr
import pytest

from rocenv.core.errors import ArchiveError
from rocenv.core.model import Artifact, FileEntry
from rocenv.install import store
from rocenv.install.archive import unpack_archive
from rocenv.install.tree import Tree, require_plausible, windows_path
from tests.dlls import dll

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.install.conftest import CachedHome

FILES = {
    "zluda/nvcuda.dll": b"MZ driver" * 1000,
    "zluda/cublas.dll": os.urandom(50_000),
    "zluda/trace/cublas.dll": b"another one of the same name",
    "zluda/empty.txt": b"",
    "zluda/ümlaut [x] & more.txt": b"name",
}


def zipped(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            info.filename = name  # the constructor could truncate or alter the name
            info.compress_type = method
            archive.writestr(info, content)
    return out.getvalue()


def sevenzipped(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with py7zr.SevenZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writef(io.BytesIO(content), name)
    return out.getvalue()


def by_7z(folder: Path, files: dict[str, bytes], *options: str) -> bytes:
    """Return an archive of these files, written by 7-Zip."""
    source = folder / "source"
    for name, content in files.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(content)
    archive = folder / "made.7z"
    environ = {**os.environ, "LC_ALL": "C.UTF-8"}
    command = ["7z", "a", *options, str(archive), "."]
    subprocess.run(command, cwd=source, check=True, capture_output=True, env=environ)
    shutil.rmtree(source)
    data = archive.read_bytes()
    archive.unlink()
    return data


class Place:
    """A folder to unpack into; unpacking must not add anything else to its parent."""

    def __init__(self, folder: Path) -> None:
        self.around = folder / "around"
        self.into = self.around / "into"
        self.into.mkdir(parents=True)
        self.archive = folder / "archive.bin"
        self.advanced = 0

    def advance(self, size_bytes: int) -> None:
        self.advanced += size_bytes

    def unpack(self, advance: Callable[[int], None]) -> dict[str, FileEntry]:
        tree = Tree(self.into, advance, for_windows=True)
        unpack_archive(self.archive, tree, self.around / "work")
        return tree.files

    def take(self, data: bytes) -> dict[str, FileEntry]:
        self.archive.write_bytes(data)
        try:
            return self.unpack(self.advance)
        finally:
            assert [path.name for path in self.around.iterdir()] == ["into"]

    def refused(self, data: bytes, why: str) -> ArchiveError:
        with pytest.raises(ArchiveError, match=why) as caught:
            self.take(data)
        return caught.value

    @property
    def contents(self) -> dict[str, bytes]:
        files = (path for path in self.into.rglob("*") if not path.is_dir())
        return {path.relative_to(self.into).as_posix(): path.read_bytes() for path in files}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


PACKERS = pytest.mark.parametrize("pack", [zipped, sevenzipped])


class TestContents:
    @pytest.mark.parametrize(
        "method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
    )
    def test_zip(self, place: Place, method: int) -> None:
        self.check(place, zipped(FILES, method))

    @pytest.mark.parametrize(
        "options", ["", "-ms=off", "-mx=0", "-mx=9", "-m0=BZip2", "-m0=Deflate", "-m0=PPMd"]
    )
    def test_7z(self, place: Place, tmp_path: Path, options: str) -> None:
        self.check(place, by_7z(tmp_path, FILES, *options.split()))

    def test_a_7z_that_py7zr_wrote_is_unpacked(self, place: Place) -> None:
        self.check(place, sevenzipped(FILES))

    @staticmethod
    def check(place: Place, data: bytes) -> None:
        entries = place.take(data)
        assert place.contents == FILES
        assert entries == {
            name: FileEntry(sha256=hashlib.sha256(content).hexdigest(), size_bytes=len(content))
            for name, content in FILES.items()
        }
        assert place.advanced == sum(map(len, FILES.values()))
        for name in FILES:
            assert stat.S_IMODE((place.into / name).stat().st_mode) == 0o444

    def test_a_system_program_unpacks_a_7z_that_py7zr_cannot_read(self, place: Place, tmp_path: Path) -> None:
        library = dll(tmp_path / "rocblas.dll").read_bytes() * 3
        files = {"library/Kernels.so-000-gfx1031.hsaco": b"code" * 5000, "rocblas.dll": library}
        place.take(by_7z(tmp_path, files, "-m0=BCJ2"))
        assert place.contents == files
        for name in files:
            assert stat.S_IMODE((place.into / name).stat().st_mode) == 0o444

    def test_the_error_suggests_a_program_if_none_is_suitable(
        self, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        library = dll(tmp_path / "rocblas.dll").read_bytes()
        data = by_7z(tmp_path, {"rocblas.dll": library}, "-m0=BCJ2")
        monkeypatch.setenv("PATH", str(tmp_path))
        error = place.refused(data, "BCJ2.*7-Zip")
        assert "install 7-Zip" in error.hints[0]
        assert place.contents == {}

    def test_the_next_program_is_used_if_one_fails_to_unpack_an_archive(
        self, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        library = dll(tmp_path / "rocblas.dll").read_bytes()
        data = by_7z(tmp_path, {"rocblas.dll": library}, "-m0=BCJ2")
        real = shutil.which("7z")
        tools = tmp_path / "tools"
        tools.mkdir()
        (tools / "7z").write_text("#!/bin/sh\necho 'no such codec' >&2\nexit 2\n")
        (tools / "7z").chmod(0o755)
        monkeypatch.setenv("PATH", str(tools))
        place.refused(data, "7z: exit code 2 no such codec")
        (tools / "7za").write_text(f'#!/bin/sh\nexec {real} "$@"\n')
        (tools / "7za").chmod(0o755)
        place.take(data)
        assert place.contents == {"rocblas.dll": library}

    def test_unexpected_files_from_an_unpacking_program_are_rejected(
        self, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        library = dll(tmp_path / "rocblas.dll").read_bytes()
        data = by_7z(tmp_path, {"bin/rocblas.dll": library}, "-m0=BCJ2")
        tools = tmp_path / "tools"
        tools.mkdir()
        monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
        into = 'for word; do case "$word" in -o*) cd "${word#-o}";; esac; done;'
        for act, why in [
            ("exit 0", "was not unpacked"),
            ("mkdir bin; echo x > bin/rocblas.dll", "does not match the size and checksum"),
            ("mkdir bin; ln -s /etc/hostname bin/rocblas.dll", "is a link"),
            (f"ln -s {tmp_path} bin; cp /etc/hostname bin/rocblas.dll", "through a link"),
            ("mkdir bin; ln /proc/self/exe bin/x; touch bin/y; ln bin/y bin/rocblas.dll", "is a link"),
        ]:
            (tools / "7z").write_text(f"#!/bin/sh\n{into}\n{act}\n")
            (tools / "7z").chmod(0o755)
            place.refused(data, why)
            assert place.contents == {}

    def test_backslashes_in_names_are_separators(self, place: Place) -> None:
        place.take(zipped({"zluda\\": b"", "zluda\\nvcuda.dll": b"x", "zluda/trace\\a.dll": b"y"}))
        assert place.contents == {"zluda/nvcuda.dll": b"x", "zluda/trace/a.dll": b"y"}

    @PACKERS
    def test_folder_names_are_case_insensitive(
        self, place: Place, pack: Callable[[dict[str, bytes]], bytes]
    ) -> None:
        place.take(pack({"Bin/a.dll": b"a", "bin/b.dll": b"b", "BIN/Library/c": b"c"}))
        assert place.contents == {"Bin/a.dll": b"a", "Bin/b.dll": b"b", "Bin/Library/c": b"c"}

    def test_file_modes_in_the_archive_are_ignored(self, place: Place) -> None:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for mode in (0o777, 0o4755, 0o000):
                info = zipfile.ZipInfo(f"{mode:o}.exe")
                info.external_attr = (stat.S_IFREG | mode) << 16
                archive.writestr(info, b"x")
        place.take(out.getvalue())
        assert {stat.S_IMODE(path.stat().st_mode) for path in place.into.iterdir()} == {0o444}


UNSAFE = {
    "../out.dll": "points outside",
    "a/../../out.dll": "points outside",
    "..\\out.dll": "points outside",
    "a\\..\\..\\out.dll": "points outside",
    "/etc/cron.d/x": "absolute",
    "\\Windows\\x.dll": "absolute",
    "\\\\server\\share\\x": "absolute",
    "C:\\Windows\\x.dll": "absolute",
    "C:x.dll": "absolute",
    "bin/C:x.dll": "special on Windows",
    "bin/a.dll:hidden": "special on Windows",
    "bin/a.dll::$DATA": "special on Windows",
    "bin/a*.dll": "special on Windows",
    'bin/"a".dll': "special on Windows",
    "bin/a|b": "special on Windows",
    "nul": "device",
    "bin/NUL.txt": "device",
    "bin/con": "device",
    "Aux/x.dll": "device",
    "bin/COM1.log.txt": "device",
    "bin/lpt\u00b9": "device",
    "bin/nul .txt": "device",
    "bin/CONOUT$": "device",
    "bin/a.dll.": "dot or a space",
    "bin/a.dll ": "dot or a space",
    "bin /a.dll": "dot or a space",
    "bin./a.dll": "dot or a space",
    ".. /a.dll": "dot or a space",
    "bin/a\x1b[31m.dll": "control character",
    "bin/a\nb": "control character",
    "bin/a\x00.dll": "control character",
}


class TestUnsafeNames:
    @pytest.mark.parametrize("name", UNSAFE)
    def test_zip(self, place: Place, name: str) -> None:
        place.refused(zipped({"good.dll": b"x", name: b"evil"}), UNSAFE[name])
        assert place.contents == {}, "rocenv checks names before it writes anything"

    @pytest.mark.parametrize("name", [name for name in UNSAFE if "\x00" not in name])
    def test_7z(self, place: Place, name: str) -> None:
        # py7zr refuses to write some of these names, so write a name of the same length and replace it.
        stand_in = "x" * len(name)
        out = io.BytesIO()
        with py7zr.SevenZipFile(out, "w") as archive:
            archive.set_encoded_header_mode(False)
            archive.writef(io.BytesIO(b"fine"), "good.dll")
            archive.writef(io.BytesIO(b"evil"), stand_in)
        data = out.getvalue().replace(stand_in.encode("utf-16-le"), name.encode("utf-16-le"))
        place.refused(with_header_sums(data), UNSAFE[name])
        assert place.contents == {}

    @pytest.mark.parametrize(
        "name", ["console.dll", "bin/null.txt", "a..b", "com10", "nul2.x", "-x", "@list", "a;b"]
    )
    def test_similar_but_safe_names_are_accepted(self, place: Place, name: str) -> None:
        place.take(zipped({name: b"x"}))
        assert list(place.contents) == [name]

    def test_a_name_that_is_not_utf8_is_rejected(self) -> None:
        with pytest.raises(ArchiveError, match="UTF-8"):
            windows_path("bin/\ud800.dll")

    def test_a_name_that_is_too_long_is_rejected(self, place: Place) -> None:
        place.refused(zipped({"x" * 300: b""}), "cannot be created")


class TestTwice:
    @PACKERS
    @pytest.mark.parametrize(
        ("first", "second", "why"),
        [
            ("a.dll", "A.DLL", "twice"),
            ("bin/a.dll", "BIN\\a.dll", "twice"),
            ("bin/ärger.dll", "bin/ÄRGER.dll", "twice"),
            ("bin/a", "bin/A/b.dll", "uses a file as a folder"),
            ("bin/a/b.dll", "bin/A", "twice"),
            ("a.dll", "./a.dll", "twice"),
        ],
    )
    def test_names_that_windows_treats_as_equal_are_rejected(
        self,
        place: Place,
        pack: Callable[[dict[str, bytes]], bytes],
        first: str,
        second: str,
        why: str,
    ) -> None:
        place.refused(pack({first: b"1", second: b"2"}), why)
        assert place.contents == {}

    def test_duplicate_names_are_rejected(self, place: Place) -> None:
        with pytest.warns(UserWarning, match="Duplicate"):
            out = io.BytesIO()
            with zipfile.ZipFile(out, "w") as archive:
                archive.writestr("a.dll", b"1")
                archive.writestr("a.dll", b"2")
        place.refused(out.getvalue(), "twice")


class TestLinks:
    @pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFSOCK])
    def test_links_and_special_files_in_a_zip_are_rejected(self, place: Place, kind: int) -> None:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            info = zipfile.ZipInfo("bin")
            info.external_attr = (kind | 0o777) << 16
            archive.writestr(info, "/etc")
            archive.writestr("bin/passwd", "x")
        place.refused(out.getvalue(), "link or some other special file|goes through")
        assert place.contents == {}

    def test_a_link_in_a_7z_is_rejected(self, place: Place, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to("/etc/passwd")
        command = ["7z", "a", "-snl", str(tmp_path / "l.7z"), "link"]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        place.refused((tmp_path / "l.7z").read_bytes(), "`link` is a link")


class TestOtherFiles:
    @pytest.mark.parametrize(
        ("data", "why"),
        [
            (b"", "empty"),
            (b"<!DOCTYPE html>\n<html><body>Sign in", "a web page"),
            (b"\xef\xbb\xbf\n<HTML>", "a web page"),
            (b"MZ\x90\x00", "a program"),
            (b"Rar!\x1a\x07\x00", "a RAR archive"),
            (b"\x1f\x8b\x08", "gzip"),
            (b"version https://git-lfs.github.com/spec/v1\noid", "Git LFS"),
            (b"Not Found", "text that starts with `Not Found`"),
            (b"\x1b[31mred", r"text that starts with `\\x1b\[31mred`"),
            (b"\xde\xad\xbe\xef", "bytes de ad be ef"),
        ],
    )
    def test_the_error_says_what_kind_of_file_it_is(self, place: Place, data: bytes, why: str) -> None:
        place.refused(data, why)

    @pytest.mark.parametrize("head", [b"PK\x03\x04", b"PK\x05\x06", b"7z\xbc\xaf\x27\x1c"])
    @pytest.mark.parametrize("size", [0, 26, 5000])
    def test_a_truncated_archive_is_rejected(self, place: Place, head: bytes, size: int) -> None:
        place.refused(head + b"\x00" * size, "damaged|cut|incomplete")

    def test_the_name_of_an_archive_does_not_matter(self, place: Place, tmp_path: Path) -> None:
        place.archive = tmp_path / "ZLUDA-windows.zip"
        place.take(sevenzipped(FILES))
        assert place.contents == FILES


class TestDamage:
    @PACKERS
    def test_any_truncation_of_an_archive_is_detected(
        self, place: Place, pack: Callable[[dict[str, bytes]], bytes]
    ) -> None:
        whole = pack(FILES)
        for kept in [*range(4, 200, 17), *range(200, len(whole) - 1, len(whole) // 20), len(whole) - 1]:
            place.refused(whole[:kept], "damaged|truncated|expected a zip or 7z")
            self.only_whole_files(place)

    @pytest.mark.slow
    @PACKERS
    def test_a_flipped_byte_in_an_archive_is_detected_or_harmless(
        self, place: Place, pack: Callable[[dict[str, bytes]], bytes]
    ) -> None:
        whole = pack(FILES)
        # Most offsets are in the headers, which are at the end of a 7z archive.
        places = {*range(0, 120, 3), *range(len(whole) - 400, len(whole), 3), *range(0, len(whole), 2497)}
        for at in sorted(places):
            data = whole[:at] + bytes([whole[at] ^ 0x15]) + whole[at + 1 :]
            try:
                entries = place.take(data)
            except ArchiveError:
                pass
            else:
                # Only timestamps or names changed; the files have the right contents.
                content = {hashlib.sha256(content).hexdigest() for content in FILES.values()}
                assert {entry.sha256 for entry in entries.values()} <= content
            self.only_whole_files(place)

    @staticmethod
    def only_whole_files(place: Place) -> None:
        shutil.rmtree(place.into)
        place.into.mkdir()

    def test_a_checksum_error_shows_the_file(self, place: Place) -> None:
        data = zipped({"a.dll": b"content of a file"}, zipfile.ZIP_STORED)
        place.refused(data.replace(b"content", b"CONTENT"), "`a.dll` is damaged")
        self.only_whole_files(place)
        place.refused(
            with_header_sums(by_store(b"content of a file").replace(b"content", b"CONTENT")),
            "checksum of `a.dll` is wrong",
        )

    def test_an_encrypted_archive_is_rejected(self, place: Place, tmp_path: Path) -> None:
        data = bytearray(zipped({"a.dll": b"x" * 50}))
        data[6] |= 1
        at = data.index(b"PK\x01\x02")
        data[at + 8] |= 1
        place.refused(bytes(data), "`a.dll` is encrypted")
        place.refused(by_7z(tmp_path, {"a.dll": b"x" * 50}, "-psecret"), "encrypted")
        shutil.rmtree(place.into)
        place.into.mkdir()
        place.refused(by_7z(tmp_path, {"a.dll": b"x" * 50}, "-psecret", "-mhe=on"), "encrypted")

    def test_a_disk_error_is_not_reported_as_damage(self, place: Place, tmp_path: Path) -> None:
        def full(size_bytes: int) -> None:
            raise OSError(28, "No space left on device")

        for data in (zipped(FILES), sevenzipped(FILES)):
            place.archive.write_bytes(data)
            with pytest.raises(OSError, match="No space"):
                place.unpack(full)
            self.only_whole_files(place)


class TestBombs:
    @PACKERS
    def test_an_implausible_compression_ratio_is_rejected(
        self, place: Place, pack: Callable[[dict[str, bytes]], bytes], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("rocenv.install.tree._RATIO_FREE_BYTES", 1 << 20)
        place.refused(pack({"zeros": bytes(10 << 20)}), "claims to unpack to 10485760")
        assert place.contents == {}

    def test_plausible_compression_ratios_are_accepted(self) -> None:
        require_plausible(200 * (1 << 30), 1 << 30)
        require_plausible(64 << 20, 100)
        with pytest.raises(ArchiveError, match="claims to unpack to"):
            require_plausible(150 << 20, 100_000)

    def test_many_names_for_the_same_bytes_are_rejected(self, place: Place) -> None:
        # Every entry in the list points to the same compressed member.
        data = zipped({"a": bytes(20 << 20)})
        start = data.index(b"PK\x01\x02")
        end = data.index(b"PK\x05\x06")
        entry = bytearray(data[start:end])
        entries = b""
        for number in range(50):
            entry[46:47] = bytes([0x41 + number]) if number < 26 else bytes([0xE0 + number - 26])
            entries += bytes(entry)
        tail = bytearray(data[end:])
        tail[8:12] = (50).to_bytes(2, "little") * 2
        tail[12:16] = len(entries).to_bytes(4, "little")
        place.refused(data[:start] + entries + bytes(tail), "claims to unpack to|twice")
        assert place.contents == {}

    def test_more_data_than_declared_is_rejected(self, place: Place) -> None:
        data = bytearray(zipped({"a.dll": b"x" * 5000}))
        at = data.index(b"PK\x01\x02")
        data[at + 24 : at + 28] = (10).to_bytes(4, "little")
        place.refused(bytes(data), "damaged|larger")

    def test_less_data_than_declared_is_rejected(self, place: Place) -> None:
        data = bytearray(zipped({"a.dll": b"x" * 5000}))
        at = data.index(b"PK\x01\x02")
        data[at + 24 : at + 28] = (9000).to_bytes(4, "little")
        place.refused(bytes(data), "damaged|truncated")


class TestInTheStore:
    def artifact(self, cached_home: CachedHome, data: bytes) -> Artifact:
        sha256 = hashlib.sha256(data).hexdigest()
        cached_home.home.artifacts.mkdir(parents=True, exist_ok=True)
        (cached_home.home.artifacts / sha256).write_bytes(data)
        url = "https://mirror.example/ZLUDA-windows-rocm5-amd64.zip"
        return Artifact(
            kind="archive", name="ZLUDA", version="3.9.5", url=url, sha256=sha256, size_bytes=len(data)
        )

    @PACKERS
    def test_an_archive_is_unpacked_into_the_store_like_a_package(
        self, cached_home: CachedHome, pack: Callable[[dict[str, bytes]], bytes]
    ) -> None:
        artifact = self.artifact(cached_home, pack(FILES))
        store.add(
            cached_home.home, artifact, cached_home.package(artifact), cached_home.pool, lambda _size: None
        )
        assert set(store.manifest_of(cached_home.home, artifact)) == set(FILES)
        tree = store.tree_of(cached_home.home, artifact)
        assert (tree / "zluda/nvcuda.dll").read_bytes() == FILES["zluda/nvcuda.dll"]
        assert list((cached_home.home.store / store.STAGING).iterdir()) == []

    def test_a_bad_archive_is_reported_and_leaves_nothing_behind(self, cached_home: CachedHome) -> None:
        artifact = self.artifact(cached_home, zipped({"a": b"", "../b": b""}))
        with pytest.raises(ArchiveError, match=r"ZLUDA 3\.9\.5: .*points outside") as caught:
            store.add(
                cached_home.home,
                artifact,
                cached_home.package(artifact),
                cached_home.pool,
                lambda _size: None,
            )
        assert artifact.url in caught.value.hints[0]
        assert list((cached_home.home.store / store.STAGING).iterdir()) == []
        assert not store.holds(cached_home.home, artifact)

    def test_the_hint_names_the_missing_program(
        self, cached_home: CachedHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        library = dll(tmp_path / "rocblas.dll").read_bytes()
        artifact = self.artifact(cached_home, by_7z(tmp_path, {"rocblas.dll": library}, "-m0=BCJ2"))
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(ArchiveError, match="7-Zip") as caught:
            store.add(
                cached_home.home,
                artifact,
                cached_home.package(artifact),
                cached_home.pool,
                lambda _size: None,
            )
        assert "install 7-Zip" in caught.value.hints[0]


def by_store(content: bytes) -> bytes:
    """Return an uncompressed 7z archive that contains `a.dll`."""
    out = io.BytesIO()
    with py7zr.SevenZipFile(out, "w", filters=[{"id": py7zr.FILTER_COPY}]) as archive:
        archive.writef(io.BytesIO(content), "a.dll")
    return out.getvalue()


def with_header_sums(data: bytes) -> bytes:
    """Return a 7z archive with modified headers and matching checksums."""
    import struct
    import zlib

    offset, size = struct.unpack_from("<QQ", data, 12)
    header = data[32 + offset : 32 + offset + size]
    start = struct.pack("<QQI", offset, size, zlib.crc32(header))
    return data[:8] + struct.pack("<I", zlib.crc32(start)) + start + data[32:]
