"""Attackers who can write to the cache, or to the store without its key, cannot change an env."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
import zipfile
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from rocenv.core.errors import ArchiveError, DataError, FetchError
from rocenv.core.model import Artifact
from rocenv.home import Home
from rocenv.install import store
from rocenv.install.tree import _MAX_MEMBERS
from rocenv.system import WINDOWS
from tests.debs import compress, deb, file, folder, tar
from tests.stores import manifest_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.debs import Compression
    from tests.install.conftest import CachedHome
    from tests.mini import Mini

GOOD, EVIL = b"good" * 250_000, b"evil" * 250_000
ENTRIES = [folder("./"), file("./usr/lib/libx.so.1", "content")]
_WRITERS = {
    "the name": """
        while True:
            for content in (evil, good):
                fresh.write_bytes(content)
                os.replace(fresh, package)
        """,
    "the content": """
        while True:
            with contextlib.suppress(FileNotFoundError), package.open("r+b") as out:
                for content in (evil, good):
                    os.pwrite(out.fileno(), content, 0)
                    time.sleep(0.002)
            if not package.exists():
                package.write_bytes(good)
        """,
}


def zipped(content: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in ("nvcuda.dll", "cublas.dll"):
            archive.writestr(name, content)
    return out.getvalue()


@contextlib.contextmanager
def writer(how: str, package: Path, good: bytes, evil: bytes, folder_: Path) -> Iterator[None]:
    """Start a process that repeatedly replaces a file with a different one and restores it."""
    (folder_ / "good").write_bytes(good)
    (folder_ / "evil").write_bytes(evil)
    head = f"""
        import contextlib, os, time
        from pathlib import Path
        folder = Path({str(folder_)!r})
        package, fresh = Path({str(package)!r}), folder / "fresh"
        good, evil = (folder / "good").read_bytes(), (folder / "evil").read_bytes()
        """
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(head) + textwrap.dedent(_WRITERS[how])])
    try:
        yield
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()


@pytest.mark.skipif(WINDOWS, reason="Windows cannot replace open files")
@pytest.mark.parametrize("how", _WRITERS)
def test_only_hashed_bytes_are_unpacked(cached_home: CachedHome, tmp_path: Path, how: str) -> None:
    good, evil = zipped(GOOD), zipped(EVIL)
    sha256 = hashlib.sha256(good).hexdigest()
    cached_home.home.artifacts.mkdir(parents=True)
    package = cached_home.home.artifacts / sha256
    package.write_bytes(good)
    artifact = Artifact(
        kind="archive",
        name="ZLUDA",
        version="1",
        url="https://mirror.example/z.zip",
        sha256=sha256,
        size_bytes=len(good),
    )
    refused = taken = 0
    with writer(how, package, good, evil, tmp_path):
        end = time.monotonic() + 60
        while (refused < 5 or taken < 30) and time.monotonic() < end:
            try:
                cached_home.add(artifact)
            except (store.DamagedPackage, FetchError):
                refused += 1
                continue
            taken += 1
            library = store.tree_of(cached_home.home, artifact) / "nvcuda.dll"
            assert library.read_bytes() == GOOD
            shutil.rmtree(library.parents[1])
    assert refused, "the other process never replaced the file in time"


@pytest.mark.skipif(WINDOWS, reason="Windows files have no modes")
def test_other_users_cannot_write_to_the_private_copy(
    cached_home: CachedHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = os.umask(0)
    try:
        artifact = cached_home.artifact("x", (), zipped(GOOD))
        found: list[int] = []

        def look(_size: int) -> None:
            works = [path.parent for path in (cached_home.home.store / store.STAGING).glob("*/a")]
            found.extend(path.stat().st_mode & 0o777 for path in works)

        store.add(
            cached_home.home,
            replace(artifact, kind="archive"),
            cached_home.package(artifact),
            cached_home.pool,
            look,
        )
    finally:
        os.umask(before)
    assert set(found) == {0o700}


@pytest.mark.skipif(WINDOWS, reason="Windows folders cannot contain pipes")
@pytest.mark.parametrize("kind", ["deb", "archive"])
@pytest.mark.parametrize("what", ["a pipe", "a folder", "a device"])
def test_special_files_in_the_cache_are_rejected(cached_home: CachedHome, kind: str, what: str) -> None:
    artifact = replace(cached_home.artifact("x", ENTRIES), kind=kind)
    package = cached_home.package(artifact)
    package.unlink()
    {"a pipe": os.mkfifo, "a folder": os.mkdir, "a device": lambda path: path.symlink_to("/dev/zero")}[what](
        package
    )
    with pytest.raises(FetchError, match=r"cannot read .*: not a regular file") as caught:
        cached_home.add(artifact)
    assert "remove it" in caught.value.hints[0]


class TestTheManifest:
    def test_changing_both_the_files_and_the_manifest_is_detected(self, cached_home: CachedHome) -> None:
        artifact = cached_home.artifact("x", ENTRIES)
        cached_home.add(artifact)
        place = cached_home.home.store / artifact.sha256
        library = place / "tree/usr/lib/libx.so.1"
        library.chmod(0o644)
        library.write_text("CONTENT")
        manifest = (place / "manifest.json").read_text()
        old, new = (hashlib.sha256(each).hexdigest() for each in (b"content", b"CONTENT"))
        assert old in manifest
        (place / "manifest.json").write_text(manifest.replace(old, new))
        assert not store.holds(cached_home.home, artifact)
        with pytest.raises(DataError, match="damaged in the store"):
            store.manifest_of(cached_home.home, artifact)
        cached_home.add(artifact)
        assert library.read_text() == "content"

    def test_a_store_entry_moved_to_a_different_hash_is_invalid(self, cached_home: CachedHome) -> None:
        first, second = cached_home.artifact("x", ENTRIES), cached_home.artifact("y", [file("./y", "other")])
        cached_home.add(first)
        shutil.copytree(cached_home.home.store / first.sha256, cached_home.home.store / second.sha256)
        assert not store.holds(cached_home.home, second)
        cached_home.add(second)
        assert set(store.manifest_of(cached_home.home, second)) == {"y"}

    def test_a_store_entry_from_an_older_rocenv_or_another_home_is_invalid(
        self, cached_home: CachedHome, tmp_path: Path
    ) -> None:
        artifact = cached_home.artifact("x", ENTRIES)
        cached_home.add(artifact)
        place = cached_home.home.store / artifact.sha256
        plain = {"schema": 1, "name": "x", "version": "1.0", "files": manifest_in(place)}
        (place / "manifest.json").write_text(json.dumps(plain))
        assert not store.holds(cached_home.home, artifact)
        assert [size > 0 for _, size in store.sweep(cached_home.home, frozenset(), dry_run=True)] == [True]
        cached_home.add(artifact)
        assert store.holds(cached_home.home, artifact)
        other = Home(tmp_path / "other")
        shutil.copytree(cached_home.home.store, other.store)
        assert not store.holds(other, artifact)

    def test_create_and_verify_detect_a_planted_store_entry(self, mini: Mini) -> None:
        assert mini.run("create", "one", "--rocm", "5.7", "--no-verify").returncode == 0
        library = next(
            path for path in (mini.home / "store").rglob("librocblas.so*") if not path.is_symlink()
        )
        content = library.read_bytes()
        library.chmod(0o644)
        library.write_bytes(content + b"evil")  # also changes the env, which shares the file
        place = next(path for path in library.parents if path.parent.name == "store")
        manifest, old = place / "manifest.json", hashlib.sha256(content).hexdigest()
        text = manifest.read_text().replace(old, hashlib.sha256(content + b"evil").hexdigest())
        manifest.write_text(
            text.replace(f'"size_bytes": {len(content)}', f'"size_bytes": {len(content) + 4}')
        )
        assert "files    failed" in mini.run("verify", "one", "--upto", "files").stdout
        assert mini.run("create", "two", "--rocm", "5.7", "--no-verify").returncode == 0
        found = next(path for path in mini.prefix("two").rglob(library.name) if not path.is_symlink())
        assert found.read_bytes() == content
        assert "files    passed" in mini.run("verify", "two", "--upto", "files").stdout
        assert mini.run("repair", "one").returncode == 0
        assert "files    passed" in mini.run("verify", "one", "--upto", "files").stdout


class TestUnpackedSizeLimit:
    def written(self, cached_home: CachedHome, artifact: Artifact) -> int:
        """Return the number of bytes written before a package is rejected."""
        sizes: list[int] = []
        with pytest.raises(ArchiveError) as caught:
            store.add(
                cached_home.home, artifact, cached_home.package(artifact), cached_home.pool, sizes.append
            )
        self.message = caught.value.message
        assert not store.holds(cached_home.home, artifact)
        assert list((cached_home.home.store / store.STAGING).iterdir()) == []
        return sum(sizes)

    @pytest.mark.parametrize("how", ["xz", "xz-blocks", "gz", "zst"])
    def test_a_package_must_not_greatly_exceed_its_declared_size(
        self, cached_home: CachedHome, how: Compression
    ) -> None:
        package = deb([file("./x", bytes(200 << 20))], compression=how)
        artifact = replace(cached_home.artifact("x", (), package), installed_bytes=1024)
        assert self.written(cached_home, artifact) <= 65 << 20
        assert "it unpacks to more than 67.1 MB, but the package index declares 1.0 kB" in self.message

    def test_a_package_without_a_declared_size_is_limited(self, cached_home: CachedHome) -> None:
        package = deb([file("./x", bytes(200 << 20))])
        assert self.written(cached_home, cached_home.artifact("x", (), package)) < 80 << 20
        assert "declares no size" in self.message

    def test_a_package_can_exceed_its_declared_size_by_a_quarter(self, cached_home: CachedHome) -> None:
        package = deb([file("./x", bytes(180 << 20))], compression="gz")
        artifact = replace(cached_home.artifact("x", (), package), installed_bytes=150 << 20)
        cached_home.add(artifact)
        assert store.holds(cached_home.home, artifact)

    def test_trailing_data_in_a_package_is_limited(self, cached_home: CachedHome) -> None:
        package = deb((), data=compress(tar([file("./x", b"x")]) + bytes(200 << 20), "xz"))
        artifact = replace(cached_home.artifact("x", (), package), installed_bytes=1024)
        assert self.written(cached_home, artifact) == 1

    def test_an_oversized_tar_header_is_rejected(self, cached_home: CachedHome) -> None:
        long_name = [file("./" + "a/" * (4 << 20), b"x")]
        artifact = replace(cached_home.artifact("x", (), deb(long_name)), installed_bytes=1 << 30)
        assert self.written(cached_home, artifact) == 0
        assert "a header of 8.4 MB" in self.message

    def test_too_many_folders_are_rejected(self, cached_home: CachedHome) -> None:
        entries = [folder(f"./{number}/{'a/' * 2000}") for number in range(_MAX_MEMBERS // 2000)]
        artifact = replace(cached_home.artifact("x", (), deb(entries)), installed_bytes=1 << 30)
        assert self.written(cached_home, artifact) == 0
        assert "more than 200,000 files and folders" in self.message
