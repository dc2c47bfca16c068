from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocenv.core.errors import ArchiveError, DataError, FetchError, PrefixError
from rocenv.core.model import FileEntry
from rocenv.install import store
from tests.debs import file, folder, symlink
from tests.stores import manifest_in

if TYPE_CHECKING:
    from rocenv.core.model import Artifact
    from tests.install.conftest import CachedHome

ENTRIES = [folder("./"), file("./usr/lib/libx.so.1", "content"), symlink("./usr/lib/libx.so", "libx.so.1")]


def add(cached_home: CachedHome, artifact: Artifact) -> None:
    store.add(cached_home.home, artifact, cached_home.package(artifact), cached_home.pool, lambda _size: None)


def whole(cached_home: CachedHome) -> set[str]:
    """A function that asserts that all store entries are complete and returns their hashes."""
    found = set()
    for place in cached_home.home.store.iterdir():
        if place.name == store.STAGING:
            assert list(place.iterdir()) == []
            continue
        manifest = manifest_in(place)
        tree = {
            str(path.relative_to(place / "tree"))
            for path in (place / "tree").rglob("*")
            if path.is_symlink() or path.is_file()
        }
        assert tree == set(manifest)
        found.add(place.name)
    return found


def test_an_added_artifact_is_read_only(cached_home: CachedHome) -> None:
    artifact = cached_home.artifact("x", ENTRIES)
    assert not store.holds(cached_home.home, artifact)
    add(cached_home, artifact)
    assert store.holds(cached_home.home, artifact)
    assert whole(cached_home) == {artifact.sha256}
    assert store.manifest_of(cached_home.home, artifact) == {
        "usr/lib/libx.so.1": FileEntry(sha256=hashlib.sha256(b"content").hexdigest(), size_bytes=7),
        "usr/lib/libx.so": FileEntry(link="libx.so.1"),
    }
    path = store.tree_of(cached_home.home, artifact) / "usr/lib/libx.so.1"
    assert stat.S_IMODE(path.stat().st_mode) == 0o444


def test_adding_an_artifact_again_does_nothing(cached_home: CachedHome) -> None:
    artifact = cached_home.artifact("x", ENTRIES)
    add(cached_home, artifact)
    before = (store.tree_of(cached_home.home, artifact) / "usr/lib/libx.so.1").stat()
    cached_home.package(artifact).unlink()
    add(cached_home, artifact)
    after = (store.tree_of(cached_home.home, artifact) / "usr/lib/libx.so.1").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_a_modified_cached_package_is_removed(cached_home: CachedHome) -> None:
    artifact = cached_home.artifact("x", ENTRIES)
    damaged = bytearray(cached_home.package(artifact).read_bytes())
    damaged[len(damaged) // 2] ^= 1
    cached_home.package(artifact).write_bytes(damaged)
    with pytest.raises(FetchError, match=r"x 1\.0") as caught:
        add(cached_home, artifact)
    assert caught.value.code == "hash-mismatch"
    assert not cached_home.package(artifact).exists(), "otherwise every later attempt would use it"
    assert not store.holds(cached_home.home, artifact)


def test_a_valid_package_with_a_different_hash_is_never_accepted(cached_home: CachedHome) -> None:
    """The package unpacks without errors, and its hash is known only at the end."""
    artifact, other = (
        cached_home.artifact("x", ENTRIES),
        cached_home.artifact("y", [*ENTRIES, file("./z", "more")]),
    )
    cached_home.package(artifact).write_bytes(cached_home.package(other).read_bytes())
    with pytest.raises(store.DamagedPackage):
        add(cached_home, artifact)
    assert whole(cached_home) == set()
    assert not cached_home.package(artifact).exists()


def test_a_package_missing_from_the_cache_is_an_error(cached_home: CachedHome) -> None:
    artifact = cached_home.artifact("x", ENTRIES)
    cached_home.package(artifact).unlink()
    with pytest.raises(FetchError, match="is missing"):
        add(cached_home, artifact)


def test_a_hostile_package_is_reported_and_leaves_nothing_behind(cached_home: CachedHome) -> None:
    artifact = cached_home.artifact("evil", [*ENTRIES, file("../out", "x")])
    with pytest.raises(ArchiveError, match=r"evil 1\.0: .*points outside") as caught:
        add(cached_home, artifact)
    assert artifact.url in caught.value.hints[0]
    assert whole(cached_home) == set()
    assert not store.holds(cached_home.home, artifact)


def test_leftovers_of_a_killed_process_are_harmless(cached_home: CachedHome) -> None:
    artifact = cached_home.artifact("x", ENTRIES)
    left = cached_home.home.store / store.STAGING / artifact.sha256 / "tree" / "usr"
    left.mkdir(parents=True)
    (left / "junk").write_text("half")
    (left / "junk").chmod(0o444)
    left.chmod(0o555)
    (cached_home.home.store / artifact.sha256 / "tree").mkdir(parents=True)
    (cached_home.home.store / artifact.sha256 / "tree" / "without a manifest").write_text("x")
    add(cached_home, artifact)
    assert whole(cached_home) == {artifact.sha256}


def test_concurrent_processes_unpack_an_artifact_only_once(cached_home: CachedHome) -> None:
    entries = [*ENTRIES, *(file(f"./usr/share/{number}", os.urandom(20_000)) for number in range(200))]
    artifact = cached_home.artifact("x", entries)
    code = textwrap.dedent(
        f"""
        import sys
        from concurrent.futures import ThreadPoolExecutor
        from pathlib import Path
        from rocenv.home import Home
        from rocenv.install import store
        from rocenv.core.model import Artifact
        artifact = {artifact!r}
        home = Home(Path({str(cached_home.home.path)!r}))
        written = []
        sys.stdin.readline()
        with ThreadPoolExecutor(2) as pool:
            store.add(home, artifact, home.artifacts / artifact.sha256, pool, written.append)
        print(sum(written))
        """
    )
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    written = []
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        out, _ = child.communicate(timeout=60)
        assert child.returncode == 0
        written.append(int(out))
    assert sorted(written) == [0, 0, 4_000_007], "one process unpacks, and the others wait for it"
    assert whole(cached_home) == {artifact.sha256}


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"files": []}', '{"files": {"a": {"sha": 1}}}', '{"schema": 1}', '{"files": {"a": 1}}'],
)
def test_a_damaged_manifest_is_reported(cached_home: CachedHome, text: str) -> None:
    artifact = cached_home.artifact("x", ENTRIES)
    add(cached_home, artifact)
    manifest = cached_home.home.store / artifact.sha256 / "manifest.json"
    manifest.write_text(text)
    with pytest.raises(DataError) as caught:
        store.manifest_of(cached_home.home, artifact)
    assert str(manifest) in caught.value.message


def test_replacing_a_damaged_entry_does_not_change_the_files_of_envs(
    cached_home: CachedHome,
) -> None:
    artifact = cached_home.artifact("x", ENTRIES)
    add(cached_home, artifact)
    expected = store.manifest_of(cached_home.home, artifact)
    library = store.tree_of(cached_home.home, artifact) / "usr/lib/libx.so.1"
    used = cached_home.home.path / "used"
    used.hardlink_to(library)
    library.chmod(0o644)
    library.write_text("CONTENT")
    assert store.holds(cached_home.home, artifact)
    assert not store.holds(cached_home.home, artifact, expected)
    package = cached_home.package(artifact)

    def again(package: Path) -> None:
        store.add(cached_home.home, artifact, package, cached_home.pool, lambda _size: None, expected)

    with pytest.raises(FetchError, match="is missing"):
        again(package.with_name("gone"))
    assert library.read_text() == "CONTENT"
    again(package)
    assert (library.read_text(), used.read_text()) == ("content", "CONTENT")
    assert whole(cached_home) == {artifact.sha256}


def test_gc_removes_only_unused_artifacts(cached_home: CachedHome) -> None:
    needed, other = (
        cached_home.artifact("needed", ENTRIES),
        cached_home.artifact("other", [file("./y", "y" * 5000)]),
    )
    add(cached_home, needed)
    add(cached_home, other)
    (cached_home.home.store / store.STAGING / "half").mkdir()
    (cached_home.home.store / store.STAGING / "half" / "x").write_text("12345")
    keep = frozenset({needed.sha256})
    told = store.sweep(cached_home.home, keep, dry_run=True)
    assert store.holds(cached_home.home, other)
    assert store.sweep(cached_home.home, keep, dry_run=False) == told
    assert [title for title, _ in told] == ["leftovers from interrupted work", "other 1.0"]
    assert told[0][1] == 5
    assert told[1][1] >= 5000
    assert whole(cached_home) == {needed.sha256}
    assert store.sweep(cached_home.home, keep, dry_run=False) == []


def test_gc_removes_nothing_in_a_home_without_a_store(cached_home: CachedHome) -> None:
    assert store.sweep(cached_home.home, frozenset(), dry_run=False) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="requires /dev/full")
def test_a_full_disk_is_reported(cached_home: CachedHome) -> None:
    # Here, only one write fails; tests/crash/test_full_disk.py fills a whole disk.
    artifact = cached_home.artifact("x", ENTRIES)

    def full(_size: int) -> None:
        with open("/dev/full", "w") as out:
            out.write("x")

    with pytest.raises(PrefixError, match="no space") as caught:
        store.add(cached_home.home, artifact, cached_home.package(artifact), cached_home.pool, full)
    assert caught.value.code == "no-space"
    assert whole(cached_home) == set()
