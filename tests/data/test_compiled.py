"""The compiled form is the rows as they are in the files now, and it cannot run anything."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING

import pytest

from rocenv.core.errors import DataError
from rocenv.data.compiled import compiled
from tests.data.data import BASE, example, write

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder beside a small matrix; one row in it."""
    monkeypatch.setenv("ROCENV_PROFILES", str(write(tmp_path / "shipped", BASE)))
    return write(tmp_path / "own", [("pci", example("pci", device="73df"))])


def test_a_change_that_leaves_size_and_time_as_they_were_is_seen(own: Path, tmp_path: Path) -> None:
    cache, path = tmp_path / "matrix", own / "0.toml"
    assert [row.device for row in compiled(cache, own).pci] == ["73df"]
    before = path.stat()
    with path.open("r+", encoding="utf-8") as file:  # in its place: the inode stays as well
        content = file.read()
        file.seek(0)
        file.write(content.replace("73df", "73ff"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert [row.device for row in compiled(cache, own).pci] == ["73ff"]


def test_a_file_that_comes_or_goes_is_seen(own: Path, tmp_path: Path) -> None:
    cache = tmp_path / "matrix"
    compiled(cache, own)
    (own / "0.toml").unlink()
    assert not compiled(cache, own).pci
    write(own, [("pci", example("pci", device="73df"))])
    assert len(compiled(cache, own).pci) == 1


@pytest.mark.parametrize("leads_to", ["0.toml/1.toml", "link.toml", "nowhere"])
def test_a_link_that_leads_nowhere_is_told_and_not_taken_for_nothing(
    leads_to: str, own: Path, tmp_path: Path
) -> None:
    compiled(tmp_path / "matrix", own)
    (own / "link.toml").symlink_to(leads_to)
    with pytest.raises(DataError, match=r"cannot read `.*link\.toml`"):
        compiled(tmp_path / "matrix", own)


def test_a_cache_that_cannot_be_written_is_done_without(own: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    assert len(compiled(tmp_path / "file" / "matrix", own).pci) == 1


def test_a_name_with_dots_leads_out_of_no_module_of_rows(own: Path, tmp_path: Path) -> None:
    """`rocenv.data.compiled` imports `os`, and pickle follows dots: `os.mkdir` must not be within reach."""
    cache, witness = tmp_path / "matrix", tmp_path / "witness"
    good = compiled(cache, own)
    stamp = cache.read_bytes()[:32]

    def text(value: str) -> bytes:
        return pickle.SHORT_BINUNICODE + bytes([len(value)]) + value.encode()

    call = text("rocenv.data.compiled") + text("os.mkdir") + pickle.STACK_GLOBAL
    bomb = pickle.PROTO + b"\x04" + call + text(str(witness)) + pickle.TUPLE1 + pickle.REDUCE + pickle.STOP
    cache.write_bytes(stamp + bomb)
    assert compiled(cache, own) == good
    assert not witness.exists()
