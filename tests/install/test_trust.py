"""Whoever can write to the cache, or to the store but not to its key, gets no byte of theirs into an env."""

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
from rocenv.install.tree import _MOST_MEMBERS
from rocenv.system import WINDOWS
from tests.debs import compress, deb, file, folder, tar
from tests.stores import manifest_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.debs import Compression
    from tests.install.conftest import Cellar
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
    """Let another process change a file to another one and back, again and again."""
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


@pytest.mark.skipif(WINDOWS, reason="a file that is open is not replaced there")
@pytest.mark.parametrize("how", _WRITERS)
def test_what_was_not_hashed_is_never_unpacked(cellar: Cellar, tmp_path: Path, how: str) -> None:
    good, evil = zipped(GOOD), zipped(EVIL)
    sha256 = hashlib.sha256(good).hexdigest()
    cellar.home.artifacts.mkdir(parents=True)
    package = cellar.home.artifacts / sha256
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
                cellar.add(artifact)
            except (store.DamagedPackage, FetchError):
                refused += 1
                continue
            taken += 1
            library = store.tree_of(cellar.home, artifact) / "nvcuda.dll"
            assert library.read_bytes() == GOOD
            shutil.rmtree(library.parents[1])
    assert refused, "the other process was never in between"


@pytest.mark.skipif(WINDOWS, reason="there are no modes")
def test_nobody_else_can_write_where_the_copy_is(
    cellar: Cellar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = os.umask(0)
    try:
        artifact = cellar.artifact("x", (), zipped(GOOD))
        found: list[int] = []

        def look(_size: int) -> None:
            works = [path.parent for path in (cellar.home.store / store.STAGING).glob("*/a")]
            found.extend(path.stat().st_mode & 0o777 for path in works)

        store.add(cellar.home, replace(artifact, kind="archive"), cellar.package(artifact), cellar.pool, look)
    finally:
        os.umask(before)
    assert set(found) == {0o700}


@pytest.mark.skipif(WINDOWS, reason="there are no pipes in folders")
@pytest.mark.parametrize("kind", ["deb", "archive"])
@pytest.mark.parametrize("what", ["a pipe", "a folder", "a device"])
def test_something_else_in_the_cache(cellar: Cellar, kind: str, what: str) -> None:
    artifact = replace(cellar.artifact("x", ENTRIES), kind=kind)
    package = cellar.package(artifact)
    package.unlink()
    {"a pipe": os.mkfifo, "a folder": os.mkdir, "a device": lambda path: path.symlink_to("/dev/zero")}[what](
        package
    )
    with pytest.raises(FetchError, match="is not readable: not a regular file") as caught:
        cellar.add(artifact)
    assert "remove it" in caught.value.hints[0]


class TestTheManifest:
    def test_files_and_manifest_that_were_changed_together(self, cellar: Cellar) -> None:
        artifact = cellar.artifact("x", ENTRIES)
        cellar.add(artifact)
        place = cellar.home.store / artifact.sha256
        library = place / "tree/usr/lib/libx.so.1"
        library.chmod(0o644)
        library.write_text("CONTENT")
        manifest = (place / "manifest.json").read_text()
        old, new = (hashlib.sha256(each).hexdigest() for each in (b"content", b"CONTENT"))
        assert old in manifest
        (place / "manifest.json").write_text(manifest.replace(old, new))
        assert not store.holds(cellar.home, artifact)
        with pytest.raises(DataError, match="damaged in the store"):
            store.manifest_of(cellar.home, artifact)
        cellar.add(artifact)
        assert library.read_text() == "content"

    def test_an_entry_in_the_place_of_another(self, cellar: Cellar) -> None:
        first, second = cellar.artifact("x", ENTRIES), cellar.artifact("y", [file("./y", "other")])
        cellar.add(first)
        shutil.copytree(cellar.home.store / first.sha256, cellar.home.store / second.sha256)
        assert not store.holds(cellar.home, second)
        cellar.add(second)
        assert set(store.manifest_of(cellar.home, second)) == {"y"}

    def test_an_entry_of_an_older_version_or_of_another_home(self, cellar: Cellar, tmp_path: Path) -> None:
        artifact = cellar.artifact("x", ENTRIES)
        cellar.add(artifact)
        place = cellar.home.store / artifact.sha256
        plain = {"schema": 1, "name": "x", "version": "1.0", "files": manifest_in(place)}
        (place / "manifest.json").write_text(json.dumps(plain))
        assert not store.holds(cellar.home, artifact)
        assert [size > 0 for _, size in store.sweep(cellar.home, frozenset(), dry_run=True)] == [True]
        cellar.add(artifact)
        assert store.holds(cellar.home, artifact)
        other = Home(tmp_path / "other")
        shutil.copytree(cellar.home.store, other.store)
        assert not store.holds(other, artifact)

    def test_create_and_verify_notice_it(self, mini: Mini) -> None:
        assert mini.run("create", "one", "--rocm", "5.7", "--no-verify").returncode == 0
        library = next(
            path for path in (mini.home / "store").rglob("librocblas.so*") if not path.is_symlink()
        )
        content = library.read_bytes()
        library.chmod(0o644)
        library.write_bytes(content + b"evil")  # the env's as well: it is the same file
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


class TestHowMuchAPackageMayUnpack:
    def written(self, cellar: Cellar, artifact: Artifact) -> int:
        """Return how many bytes are written before a package is refused."""
        sizes: list[int] = []
        with pytest.raises(ArchiveError) as caught:
            store.add(cellar.home, artifact, cellar.package(artifact), cellar.pool, sizes.append)
        self.message = caught.value.message
        assert not store.holds(cellar.home, artifact)
        assert list((cellar.home.store / store.STAGING).iterdir()) == []
        return sum(sizes)

    @pytest.mark.parametrize("how", ["xz", "xz-blocks", "gz", "zst"])
    def test_one_that_claims_a_kilobyte(self, cellar: Cellar, how: Compression) -> None:
        package = deb([file("./x", bytes(200 << 20))], compression=how)
        artifact = replace(cellar.artifact("x", (), package), installed_bytes=1024)
        assert self.written(cellar, artifact) <= 65 << 20
        assert "it unpacks to more than 67.1 MB, but the package index states 1.0 kB" in self.message

    def test_one_of_which_the_index_states_no_size(self, cellar: Cellar) -> None:
        package = deb([file("./x", bytes(200 << 20))])
        assert self.written(cellar, cellar.artifact("x", (), package)) < 80 << 20
        assert "states no size" in self.message

    def test_one_that_takes_a_quarter_more_than_stated(self, cellar: Cellar) -> None:
        package = deb([file("./x", bytes(180 << 20))], compression="gz")
        artifact = replace(cellar.artifact("x", (), package), installed_bytes=150 << 20)
        cellar.add(artifact)
        assert store.holds(cellar.home, artifact)

    def test_what_comes_behind_the_last_file_counts(self, cellar: Cellar) -> None:
        package = deb((), data=compress(tar([file("./x", b"x")]) + bytes(200 << 20), "xz"))
        artifact = replace(cellar.artifact("x", (), package), installed_bytes=1024)
        assert self.written(cellar, artifact) == 1

    def test_a_header_that_would_fill_the_memory(self, cellar: Cellar) -> None:
        long_name = [file("./" + "a/" * (4 << 20), b"x")]
        artifact = replace(cellar.artifact("x", (), deb(long_name)), installed_bytes=1 << 30)
        assert self.written(cellar, artifact) == 0
        assert "a header of 8.4 MB" in self.message

    def test_more_folders_than_any_package_has(self, cellar: Cellar) -> None:
        entries = [folder(f"./{number}/{'a/' * 2000}") for number in range(_MOST_MEMBERS // 2000)]
        artifact = replace(cellar.artifact("x", (), deb(entries)), installed_bytes=1 << 30)
        assert self.written(cellar, artifact) == 0
        assert "more than 200,000 files and folders" in self.message
