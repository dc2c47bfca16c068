"""Files that count only where this home wrote them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from rocenv.core.errors import DataError
from rocenv.system.seal import read_sealed, write_sealed

if TYPE_CHECKING:
    from pathlib import Path


def test_a_changed_a_foreign_and_an_exchanged_file(tmp_path: Path) -> None:
    key, file, other = tmp_path / "key", tmp_path / "a" / "x", tmp_path / "a" / "y"
    file.parent.mkdir()
    write_sealed(file, b"one\n\n", key)
    write_sealed(other, b"two", key)
    assert read_sealed(file, key) == b"one\n\n"
    assert os.name == "nt" or key.stat().st_mode & 0o777 == 0o600
    sealed = file.read_bytes()

    def refused() -> None:
        with pytest.raises(DataError, match="is not as this rocenv home wrote it"):
            read_sealed(file, key)

    for content in (b"", b"one\n\n", sealed.replace(b"one", b"two"), sealed + b"x", other.read_bytes()):
        file.write_bytes(content)
        refused()
    file.write_bytes(sealed)
    assert read_sealed(file, key) == b"one\n\n"
    key.unlink()  # as in a cache that was copied without it
    refused()
    write_sealed(other, b"two", key)  # makes a new key
    refused()


def test_the_folder_may_move(tmp_path: Path) -> None:
    """The store fills an entry beside its place, and a home may be renamed."""
    staged = tmp_path / ".staging" / "sha" / "manifest.json"
    staged.parent.mkdir(parents=True)
    write_sealed(staged, b"{}", tmp_path / "key")
    staged.parent.rename(tmp_path / "sha")
    assert read_sealed(tmp_path / "sha" / "manifest.json", tmp_path / "key") == b"{}"


@pytest.mark.skipif(os.name == "nt", reason="Windows has other rights")
def test_a_group_that_shares_a_home_shares_its_key(tmp_path: Path) -> None:
    tmp_path.chmod(0o2775)
    write_sealed(tmp_path / "x", b"one", tmp_path / "key")
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o640
