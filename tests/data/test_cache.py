"""The data cache, which must match the current files and cannot execute code."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from rocenv.core.errors import DataError
from rocenv.data.load import TABLES, load, load_cached
from rocenv.system.seal import read_sealed, write_sealed
from tests.data.data import BASE, example, write

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's data folder with one row, in addition to a small matrix."""
    monkeypatch.setenv("ROCENV_PROFILES", str(write(tmp_path / "shipped", BASE)))
    return write(tmp_path / "own", [("pci", example("pci", device="73df"))])


def test_a_changed_file_with_the_same_size_and_time_is_detected(own: Path, tmp_path: Path) -> None:
    cache, path = tmp_path / "matrix", own / "0.toml"
    assert [row.device for row in load_cached(cache, own, tmp_path / "key").pci] == ["73df"]
    before = path.stat()
    with path.open("r+", encoding="utf-8") as file:  # in place, so the inode stays the same
        content = file.read()
        file.seek(0)
        file.write(content.replace("73df", "73ff"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert [row.device for row in load_cached(cache, own, tmp_path / "key").pci] == ["73ff"]


def test_added_and_removed_data_files_are_detected(own: Path, tmp_path: Path) -> None:
    cache = tmp_path / "matrix"
    load_cached(cache, own, tmp_path / "key")
    (own / "0.toml").unlink()
    assert not load_cached(cache, own, tmp_path / "key").pci
    write(own, [("pci", example("pci", device="73df"))])
    assert len(load_cached(cache, own, tmp_path / "key").pci) == 1


@pytest.mark.parametrize("leads_to", ["0.toml/1.toml", "link.toml", "nowhere"])
def test_a_broken_link_is_an_error(leads_to: str, own: Path, tmp_path: Path) -> None:
    load_cached(tmp_path / "matrix", own, tmp_path / "key")
    (own / "link.toml").symlink_to(leads_to)
    with pytest.raises(DataError, match=r"cannot read `.*link\.toml`"):
        load_cached(tmp_path / "matrix", own, tmp_path / "key")


def test_an_unwritable_cache_is_tolerated(own: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    assert len(load_cached(tmp_path / "file" / "matrix", own, tmp_path / "key").pci) == 1


@pytest.mark.parametrize(
    "content", [b"", b"\xc1", b"\x80cposix\nsystem\n.", b"\x81\xa3pci\x91\x81\xa6device\x07"]
)
def test_a_damaged_cache_is_rebuilt(content: bytes, own: Path, tmp_path: Path) -> None:
    """The stamp is right, but the rest is truncated, garbage, a pickle, or a row with an invalid value."""
    cache, key = tmp_path / "matrix", tmp_path / "key"
    good = load_cached(cache, own, key)
    whole = cache.read_bytes()
    write_sealed(cache, read_sealed(cache, key)[:32] + content, key)
    assert load_cached(cache, own, key) == good
    assert cache.read_bytes() == whole


def test_rows_planted_in_the_cache_are_ignored(own: Path, tmp_path: Path) -> None:
    """The planted rows are valid and as long as the original ones, and the stamp is right."""
    cache, key = tmp_path / "matrix", tmp_path / "key"
    good = load_cached(cache, own, key)
    whole = cache.read_bytes()
    assert b"73df" in whole
    cache.write_bytes(whole.replace(b"73df", b"73ff"))
    assert load_cached(cache, own, key) == good
    assert cache.read_bytes() == whole
    cache.write_bytes(whole.partition(b"\n")[2].replace(b"73df", b"73ff"))  # older versions' format
    assert load_cached(cache, own, key) == good
    key.unlink()
    assert load_cached(cache, own, key) == good
    assert cache.read_bytes() != whole, "the cache is sealed with a new key"


def test_the_cache_returns_the_same_rows_as_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test covers every table, including nested values."""
    rows = [*BASE, *((table, example(table)) for table in TABLES if table not in dict(BASE))]
    monkeypatch.setenv("ROCENV_PROFILES", str(write(tmp_path / "shipped", rows)))
    cache = tmp_path / "matrix"
    first = load_cached(cache, tmp_path / "own", tmp_path / "key")
    written = cache.stat().st_mtime_ns
    assert load_cached(cache, tmp_path / "own", tmp_path / "key") == first == load()
    assert cache.stat().st_mtime_ns == written, "the rows were read from the cache"


def test_the_cache_returns_the_shipped_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROCENV_PROFILES", raising=False)
    load_cached(tmp_path / "matrix", tmp_path / "own", tmp_path / "key")
    assert load_cached(tmp_path / "matrix", tmp_path / "own", tmp_path / "key") == load()
