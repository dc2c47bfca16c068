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
    from tests.install.conftest import Cellar

ENTRIES = [folder("./"), file("./usr/lib/libx.so.1", "content"), symlink("./usr/lib/libx.so", "libx.so.1")]


def add(cellar: Cellar, artifact: Artifact) -> None:
    store.add(cellar.home, artifact, cellar.package(artifact), cellar.pool, lambda _size: None)


def whole(cellar: Cellar) -> set[str]:
    """Return the hashes in the store, once it is sure that each is there in full and nothing else is."""
    found = set()
    for place in cellar.home.store.iterdir():
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


def test_what_was_added_is_there_read_only(cellar: Cellar) -> None:
    artifact = cellar.artifact("x", ENTRIES)
    assert not store.holds(cellar.home, artifact)
    add(cellar, artifact)
    assert store.holds(cellar.home, artifact)
    assert whole(cellar) == {artifact.sha256}
    assert store.manifest_of(cellar.home, artifact) == {
        "usr/lib/libx.so.1": FileEntry(sha256=hashlib.sha256(b"content").hexdigest(), size_bytes=7),
        "usr/lib/libx.so": FileEntry(link="libx.so.1"),
    }
    path = store.tree_of(cellar.home, artifact) / "usr/lib/libx.so.1"
    assert stat.S_IMODE(path.stat().st_mode) == 0o444


def test_a_second_time_nothing_is_done(cellar: Cellar) -> None:
    artifact = cellar.artifact("x", ENTRIES)
    add(cellar, artifact)
    before = (store.tree_of(cellar.home, artifact) / "usr/lib/libx.so.1").stat()
    cellar.package(artifact).unlink()
    add(cellar, artifact)
    after = (store.tree_of(cellar.home, artifact) / "usr/lib/libx.so.1").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_a_package_that_changed_in_the_cache_is_thrown_away(cellar: Cellar) -> None:
    artifact = cellar.artifact("x", ENTRIES)
    damaged = bytearray(cellar.package(artifact).read_bytes())
    damaged[len(damaged) // 2] ^= 1
    cellar.package(artifact).write_bytes(damaged)
    with pytest.raises(FetchError, match=r"x 1\.0") as caught:
        add(cellar, artifact)
    assert caught.value.code == "hash-mismatch"
    assert not cellar.package(artifact).exists(), "or it would be met again by every later try"
    assert not store.holds(cellar.home, artifact)


def test_another_whole_package_in_its_place_is_never_taken(cellar: Cellar) -> None:
    """It unpacks well, and its hash is known only at its end."""
    artifact, other = cellar.artifact("x", ENTRIES), cellar.artifact("y", [*ENTRIES, file("./z", "more")])
    cellar.package(artifact).write_bytes(cellar.package(other).read_bytes())
    with pytest.raises(store.DamagedPackage):
        add(cellar, artifact)
    assert whole(cellar) == set()
    assert not cellar.package(artifact).exists()


def test_a_package_that_left_the_cache(cellar: Cellar) -> None:
    artifact = cellar.artifact("x", ENTRIES)
    cellar.package(artifact).unlink()
    with pytest.raises(FetchError, match="gone"):
        add(cellar, artifact)


def test_a_hostile_package_leaves_nothing_and_is_named(cellar: Cellar) -> None:
    artifact = cellar.artifact("evil", [*ENTRIES, file("../out", "x")])
    with pytest.raises(ArchiveError, match=r"evil 1\.0: .*climbs") as caught:
        add(cellar, artifact)
    assert artifact.url in caught.value.hints[0]
    assert whole(cellar) == set()
    assert not store.holds(cellar.home, artifact)


def test_leftovers_of_a_killed_process_are_in_nobodys_way(cellar: Cellar) -> None:
    artifact = cellar.artifact("x", ENTRIES)
    left = cellar.home.store / store.STAGING / artifact.sha256 / "tree" / "usr"
    left.mkdir(parents=True)
    (left / "junk").write_text("half")
    (left / "junk").chmod(0o444)
    left.chmod(0o555)
    (cellar.home.store / artifact.sha256 / "tree").mkdir(parents=True)
    (cellar.home.store / artifact.sha256 / "tree" / "without a manifest").write_text("x")
    add(cellar, artifact)
    assert whole(cellar) == {artifact.sha256}


def test_two_processes_that_want_the_same(cellar: Cellar) -> None:
    entries = [*ENTRIES, *(file(f"./usr/share/{number}", os.urandom(20_000)) for number in range(200))]
    artifact = cellar.artifact("x", entries)
    code = textwrap.dedent(
        f"""
        import sys
        from concurrent.futures import ThreadPoolExecutor
        from pathlib import Path
        from rocenv.home import Home
        from rocenv.install import store
        from rocenv.core.model import Artifact
        artifact = {artifact!r}
        home = Home(Path({str(cellar.home.path)!r}))
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
    assert sorted(written) == [0, 0, 4_000_007], "one unpacks, the others wait for it"
    assert whole(cellar) == {artifact.sha256}


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"files": []}', '{"files": {"a": {"sha": 1}}}', '{"schema": 1}', '{"files": {"a": 1}}'],
)
def test_a_damaged_manifest_is_named(cellar: Cellar, text: str) -> None:
    artifact = cellar.artifact("x", ENTRIES)
    add(cellar, artifact)
    manifest = cellar.home.store / artifact.sha256 / "manifest.json"
    manifest.write_text(text)
    with pytest.raises(DataError) as caught:
        store.manifest_of(cellar.home, artifact)
    assert str(manifest) in caught.value.message


def test_what_is_damaged_stays_until_it_is_replaced_and_the_files_of_envs_stay_theirs(cellar: Cellar) -> None:
    artifact = cellar.artifact("x", ENTRIES)
    add(cellar, artifact)
    expected = store.manifest_of(cellar.home, artifact)
    library = store.tree_of(cellar.home, artifact) / "usr/lib/libx.so.1"
    used = cellar.home.path / "used"
    used.hardlink_to(library)
    library.chmod(0o644)
    library.write_text("CONTENT")
    assert store.holds(cellar.home, artifact)
    assert not store.holds(cellar.home, artifact, expected)
    package = cellar.package(artifact)

    def again(package: Path) -> None:
        store.add(cellar.home, artifact, package, cellar.pool, lambda _size: None, expected)

    with pytest.raises(FetchError, match="is gone"):
        again(package.with_name("gone"))
    assert library.read_text() == "CONTENT"
    again(package)
    assert (library.read_text(), used.read_text()) == ("content", "CONTENT")
    assert whole(cellar) == {artifact.sha256}


def test_the_sweep_takes_only_what_nobody_needs(cellar: Cellar) -> None:
    needed, other = cellar.artifact("needed", ENTRIES), cellar.artifact("other", [file("./y", "y" * 5000)])
    add(cellar, needed)
    add(cellar, other)
    (cellar.home.store / store.STAGING / "half").mkdir()
    (cellar.home.store / store.STAGING / "half" / "x").write_text("12345")
    keep = frozenset({needed.sha256})
    told = store.sweep(cellar.home, keep, dry_run=True)
    assert store.holds(cellar.home, other)
    assert store.sweep(cellar.home, keep, dry_run=False) == told
    assert [title for title, _ in told] == ["remains of interrupted work", "other 1.0"]
    assert told[0][1] == 5
    assert told[1][1] >= 5000
    assert whole(cellar) == {needed.sha256}
    assert store.sweep(cellar.home, keep, dry_run=False) == []


def test_the_sweep_of_a_home_that_has_no_store(cellar: Cellar) -> None:
    assert store.sweep(cellar.home, frozenset(), dry_run=False) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_an_error_that_says_so(cellar: Cellar) -> None:
    # An unpacked file that lands on a full disk; a whole disk that fills up: tests/crash/test_full_disk.py.
    artifact = cellar.artifact("x", ENTRIES)

    def full(_size: int) -> None:
        with open("/dev/full", "w") as out:
            out.write("x")

    with pytest.raises(PrefixError, match="no space") as caught:
        store.add(cellar.home, artifact, cellar.package(artifact), cellar.pool, full)
    assert caught.value.code == "no-space"
    assert whole(cellar) == set()
