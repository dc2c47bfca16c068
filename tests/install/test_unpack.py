"""Hostile archives: every known way to escape the folder, and damage that `tarfile` hides."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import stat
import tarfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocenv.core.errors import ArchiveError
from rocenv.core.model import FileEntry
from rocenv.install.deb import unpack_tar
from rocenv.install.tree import Tree, link_target, member_path
from tests.debs import Entry, device, fifo, file, folder, hardlink, setuid, symlink, tar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The folder to unpack into, surrounded by files that must not change."""
    around = tmp_path / "around"
    (around / "etc").mkdir(parents=True)
    (around / "etc" / "passwd").write_text("mine\n")
    (around / "into").mkdir()
    return around / "into"


def take(place: Path, stream: bytes, step: int = 1000) -> dict[str, FileEntry]:
    chunks = (stream[start : start + step] for start in range(0, len(stream), step))
    return unpack(chunks, place)


def unpack(
    chunks: Iterator[bytes], place: Path, advance: Callable[[int], None] = lambda _size: None
) -> dict[str, FileEntry]:
    tree = Tree(place, advance, for_windows=False)
    unpack_tar(chunks, tree)
    return tree.files


def snapshot(folder_: Path, leave_out: Path) -> dict[str, tuple[int, bytes]]:
    found = {}
    for path in sorted(folder_.rglob("*")):
        if path != leave_out and leave_out not in path.parents:
            info = path.lstat()
            found[str(path)] = (info.st_mode, path.read_bytes() if stat.S_ISREG(info.st_mode) else b"")
    return found


def pax(headers: dict[str, str], entry: Entry) -> bytes:
    """Return a tar stream with one member and these pax headers."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo(entry.name)
        info.type, info.linkname, info.size = entry.kind, entry.link, len(entry.content)
        info.pax_headers = headers
        archive.addfile(info, io.BytesIO(entry.content))
    return out.getvalue()


def with_header(stream: bytes, position: int, field: bytes) -> bytes:
    """Return a tar stream whose first header has `field` at `position`, with a matching checksum."""
    header = bytearray(stream[:512])
    header[position : position + len(field)] = field
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + stream[512:]


class TestContents:
    def test_files_links_and_folders_are_unpacked(self, place: Path) -> None:
        files = take(
            place,
            tar(
                [
                    folder("./"),
                    folder("./usr/", mode=0o2755),
                    file("./usr/lib/libx.so.1", "content"),
                    file("./usr/bin/tool", "#!/bin/sh\n", mode=0o755),
                    symlink("./usr/lib/libx.so", "libx.so.1"),
                    hardlink("./usr/lib/other", "./usr/lib/libx.so.1"),
                    file("./usr/empty"),
                ]
            ),
        )
        sha256 = hashlib.sha256(b"content").hexdigest()
        assert files["usr/lib/libx.so.1"] == FileEntry(sha256=sha256, size_bytes=7)
        assert files["usr/lib/other"] == files["usr/lib/libx.so.1"]
        assert files["usr/bin/tool"].executable
        assert files["usr/lib/libx.so"] == FileEntry(link="libx.so.1")
        assert (place / "usr/lib/libx.so").read_text() == "content"
        assert os.path.samefile(place / "usr/lib/other", place / "usr/lib/libx.so.1")
        assert sorted(files) == sorted(
            str(path.relative_to(place)) for path in place.rglob("*") if path.is_symlink() or path.is_file()
        )

    def test_unpacked_files_are_read_only(self, place: Path) -> None:
        take(place, tar([file("a", "x", mode=0o666), file("b", "x", mode=0o777), hardlink("c", "a")]))
        modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in place.iterdir()}
        assert modes == {"a": 0o444, "b": 0o555, "c": 0o444}

    def test_unpacking_progress_counts_every_byte(self, place: Path) -> None:
        counted: list[int] = []
        stream = tar([file("a", bytes(3_000_000)), file("b", b"12")])
        unpack(iter([stream]), place, counted.append)
        assert sum(counted) == 3_000_002

    def test_gnu_and_pax_long_names_are_read(self, place: Path) -> None:
        name = "/".join(["d" * 60] * 5) + "/" + "n" * 200
        files = take(place, tar([file(name, "gnu"), symlink("l", name)]))
        assert (place / "l").read_text() == "gnu"
        assert files[name].size_bytes == 3
        assert "pax-" + name in take(place, pax({"path": "pax-" + name}, file("short", "pax")))

    def test_unicode_names_are_kept(self, place: Path) -> None:
        names = [
            "日本語",
            "Főtanúsítvány.crt",
            "with space",
            "it's $HOME",
            "100%",
            "Foo::Bar.3pm",
            "-rf",
            "~",
        ]
        assert sorted(take(place, tar(file(name, "x") for name in names))) == sorted(names)

    def test_the_result_does_not_depend_on_chunk_sizes(self, place: Path) -> None:
        stream = tar([file("a", "x" * 2000), folder("d"), file("d/b", "y" * 700), symlink("l", "a")])
        found = []
        for step in (1, 511, 512, 513, 100_000):
            into = place / str(step)
            into.mkdir()
            found.append(take(into, stream, step))
        assert all(each == found[0] for each in found)
        assert len(found[0]) == 3

    def test_an_empty_chunk_does_not_end_the_stream(self, place: Path) -> None:
        stream = tar([file("a", "x" * 2000)])
        assert unpack(iter([stream[:700], b"", stream[700:]]), place)["a"].size_bytes == 2000


ABSOLUTE_LINKS = {
    ("l", "/usr/lib/x"): "usr/lib/x",
    ("usr/lib/l", "/usr/lib/x"): "x",
    ("usr/share/l", "/etc/alternatives/x"): "../../etc/alternatives/x",
    ("usr/l", "/"): "..",
    ("l", "/"): ".",
    ("usr/l", "//etc/x"): "../etc/x",
    ("usr/l", "/../../etc/x"): "../etc/x",
}


class TestLinks:
    @pytest.mark.parametrize(("given_", "expected"), ABSOLUTE_LINKS.items())
    def test_an_absolute_link_target_is_relative_to_the_root_of_the_tree(
        self, given_: tuple[str, str], expected: str
    ) -> None:
        assert link_target(*given_) == expected

    def test_link_targets_do_not_depend_on_the_working_directory(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gone = tmp_path / "gone"
        gone.mkdir()
        monkeypatch.chdir(gone)
        gone.rmdir()
        assert link_target("usr/share/l", "/etc/x") == "../../etc/x"

    def test_an_absolute_link_is_rewritten_to_point_into_the_tree(self, place: Path) -> None:
        take(place, tar([file("etc/passwd", "of the package\n"), symlink("usr/lib/l", "/etc/passwd")]))
        assert (place / "usr/lib/l").read_text() == "of the package\n"

    @pytest.mark.parametrize("target", ["x", "./x", "../y", "../lib/x", "a//b", "x/"])
    def test_a_link_inside_the_tree_is_unchanged(self, target: str) -> None:
        assert link_target("usr/lib/l", target) == target


HOSTILE: dict[str, tuple[list[Entry], str]] = {
    "absolute": ([file("/etc/passwd", "x")], "absolute"),
    "absolute folder": ([folder("/etc/new")], "absolute"),
    "two slashes": ([file("//etc/passwd", "x")], "absolute"),
    "a drive": ([file("./c:/x", "x")], "absolute"),
    "climbing": ([file("../etc/passwd", "x")], "points outside"),
    "climbing later": ([file("usr/../../etc/passwd", "x")], "points outside"),
    "leaving the tree and coming back": ([file("usr/../x", "x")], "points outside"),
    "a folder that points outside": ([folder("../new")], "points outside"),
    "only dots": ([file("..", "x")], "points outside"),
    "through a link": ([symlink("d", "usr"), file("d/x", "x")], "uses a file as a folder"),
    "through a link outwards": ([symlink("d", "../etc"), file("d/passwd", "x")], "outside"),
    "a folder over a link": ([folder("usr"), symlink("d", "usr"), folder("d")], "uses a file as a folder"),
    "through a file": ([file("d", "x"), file("d/x", "x")], "uses a file as a folder"),
    "link out": ([symlink("l", "../etc/passwd")], "outside"),
    "link to the parent": ([symlink("l", "..")], "outside"),
    "link out of a subfolder": ([symlink("usr/lib/l", "../../../etc/passwd")], "outside"),
    "late dots": ([symlink("a", "b/../../etc/passwd")], "outside"),
    "dots after a name that seem to stay inside": ([folder("b"), symlink("b/a", "c/../../x")], "outside"),
    "link to nothing": ([symlink("l", "")], "link without a target"),
    "character device": ([device("dev/null")], "special file"),
    "block device": ([Entry(name="x", kind=tarfile.BLKTYPE)], "special file"),
    "pipe": ([fifo("p")], "special file"),
    "unknown kind": ([Entry(name="x", kind=b"Z")], "special file"),
    "set-uid": ([setuid("bin/su")], "set-uid"),
    "set-gid": ([file("bin/wall", "x", mode=0o2755)], "set-uid or set-gid"),
    "set-uid through a hard link": (
        [file("a", "x"), Entry(name="b", kind=tarfile.LNKTYPE, link="a", mode=0o4755)],
        "set-uid",
    ),
    "hard link out": ([hardlink("h", "../etc/passwd")], "points outside"),
    "absolute hard link": ([hardlink("h", "/etc/passwd")], "absolute"),
    "hard link to a later member": ([hardlink("h", "x"), file("x")], "not a file that precedes it"),
    "hard link to a link": ([symlink("l", "x"), hardlink("h", "l")], "not a file that precedes it"),
    "hard link to a folder": ([folder("d"), hardlink("h", "d")], "not a file that precedes it"),
    "hard link to itself": ([hardlink("h", "h")], "not a file that precedes it"),
    "the same file twice": ([file("x", "1"), file("x", "2")], "twice"),
    "a link and then a file": ([symlink("x", "y"), file("x", "2")], "twice"),
    "the same file in a different spelling": ([file("./x", "1"), file("x", "2")], "twice"),
    "a file over a folder": ([folder("d"), file("d", "x")], "twice"),
    "a file over an implied folder": ([file("d/x", "x"), file("d", "x")], "twice"),
    "a folder over a file": ([file("d", "x"), folder("d")], "uses a file as a folder"),
    "line break": ([file("a\nb", "x")], "control"),
    "escape sequence": ([file("a\x1b[31mb", "x")], "control"),
    "backslash": ([file("..\\..\\x", "x")], "backslash"),
    "line break in a link": ([symlink("l", "a\nb")], "control"),
    "no UTF-8": ([file("caf\udce9", "x")], "UTF-8"),
    "a name too long for any disk": ([file("n" * 300, "x")], "cannot be created"),
    "a path too long for any system": ([file("/".join(["d" * 200] * 30), "x")], "cannot be created"),
    "a link too long for any system": ([symlink("l", "d/" * 3000)], "cannot be created"),
}


class TestRejected:
    @pytest.mark.parametrize(("entries", "text"), HOSTILE.values(), ids=HOSTILE.keys())
    def test_hostile_members_are_rejected(self, place: Path, entries: list[Entry], text: str) -> None:
        before = snapshot(place.parent, place)
        with pytest.raises(ArchiveError, match=text) as caught:
            take(place, tar([file("first", "x"), *entries]))
        assert snapshot(place.parent, place) == before
        assert caught.value.message.isprintable(), "the message could control the terminal"
        for path in place.rglob("*"):
            assert path.is_symlink() or path.is_file() or path.is_dir()
            assert place.resolve() in path.resolve().parents

    @pytest.mark.parametrize(
        ("headers", "entry", "text"),
        [
            ({"path": "../etc/passwd"}, file("ok", "x"), "points outside"),
            ({"path": "/etc/passwd"}, file("ok", "x"), "absolute"),
            ({"path": "a\0b"}, file("ok", "x"), "control"),
            ({"linkpath": "../../etc"}, symlink("ok", "ok2"), "outside"),
            ({"linkpath": "a\0b"}, symlink("ok", "ok2"), "control"),
            ({"linkpath": "/etc/passwd"}, hardlink("ok", "ok2"), "absolute"),
            (
                {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"},
                file("ok", b"1\n0\n4\n".ljust(512)),
                "sparse",
            ),
            ({"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}, file("ok", "x"), "damaged"),
            ({"GNU.sparse.map": "x"}, file("ok", "x"), "damaged"),
            ({"GNU.sparse.size": "x"}, file("ok", "x"), "damaged"),
        ],
    )
    def test_hostile_pax_headers_are_rejected(
        self, place: Path, headers: dict[str, str], entry: Entry, text: str
    ) -> None:
        before = snapshot(place.parent, place)
        with pytest.raises(ArchiveError, match=text):
            take(place, pax(headers, entry))
        assert snapshot(place.parent, place) == before

    def test_a_gnu_sparse_file_is_rejected(self, place: Path) -> None:
        with pytest.raises(ArchiveError, match="sparse"):
            take(place, with_header(tar([file("x", "x")]), 156, b"S"))

    @pytest.mark.parametrize(
        "size",
        [b"77777777777\0", b"\x80" + b"\x7f" * 11, b"\xff" * 11 + b"\x01", b"\xff" * 10 + b"\xfe\x00"],
        ids=["8 GiB", "an exabyte", "below zero", "far below zero"],
    )
    def test_a_wrong_member_size_is_rejected(self, place: Path, size: bytes) -> None:
        with pytest.raises(ArchiveError):
            take(place, with_header(tar([file("x", "x" * 600), file("y", "y")]), 124, size))
        assert sum(path.stat().st_size for path in place.iterdir()) < 20_000

    def test_damage_in_the_middle_of_a_tar_is_an_error(self, place: Path) -> None:
        stream = bytearray(tar([file("a", "x"), file("b", "x"), file("c", "x")]))
        stream[1024 + 20] ^= 1
        with pytest.raises(ArchiveError, match="tar"):
            take(place, bytes(stream))

    @pytest.mark.parametrize("end", [0, 1, 511, 512, 513, 1024, 1500, 2048])
    def test_a_missing_end_marker_is_rejected(self, place: Path, end: int) -> None:
        stream = tar([file("a", "x"), file("b", "x")])
        assert len(stream) > 2048
        with pytest.raises(ArchiveError):
            take(place, stream[:end])

    @settings(max_examples=150, deadline=None)
    @given(data=st.data())
    def test_any_damage_to_a_tar_is_an_error_or_changes_only_file_contents(
        self, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
    ) -> None:
        around = tmp_path_factory.mktemp("around")
        into = around / "into"
        into.mkdir()
        stream = bytearray(
            data.draw(
                st.sampled_from(
                    [
                        pax({"path": "p" * 120, "comment": "é"}, file("s", "x" * 900)),
                        tar([file("n" * 150, "x" * 600), symlink("l", "a"), file("b", "x")]),
                    ]
                )
            )
        )
        for _ in range(data.draw(st.integers(1, 4))):
            stream[data.draw(st.integers(0, 3000))] = data.draw(st.integers(0, 255))
        with contextlib.suppress(ArchiveError):
            take(into, bytes(stream))
        assert [path.name for path in around.iterdir()] == ["into"]


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("ab./\\:\0\n~é"), max_size=12))
def test_a_name_that_points_outside_the_tree_is_rejected(name: str) -> None:
    try:
        path = member_path(name)
    except ArchiveError:
        return
    joined = os.path.normpath(os.path.join("/top", path))
    assert joined == "/top" or joined.startswith("/top/")
    assert path == "" or joined == f"/top/{path}"


@settings(max_examples=300, deadline=None)
@given(
    name=st.lists(st.sampled_from(["a", "b", "usr"]), min_size=1, max_size=4),
    target=st.text(st.sampled_from("ab./"), max_size=14),
)
def test_a_link_that_points_outside_the_tree_is_rejected(
    tmp_path_factory: pytest.TempPathFactory, name: list[str], target: str
) -> None:
    try:
        kept = link_target("/".join(name), target)
    except ArchiveError:
        return
    assert not kept.startswith("/")
    joined = os.path.normpath(os.path.join("/top", *name[:-1], kept))
    assert joined == "/top" or joined.startswith("/top/")


def test_no_chain_of_links_points_outside_the_tree(place: Path) -> None:
    """Each link is harmless on its own; only the chain would point outside."""
    entries: Iterable[Entry] = [
        folder("a/b/c"),
        symlink("a/b/c/up", ".."),
        symlink("x", "a/b/c/up"),
        symlink("a/y", "../x"),
    ]
    take(place, tar(entries))
    for path in place.rglob("*"):
        assert place.resolve() == path.resolve() or place.resolve() in path.resolve().parents
