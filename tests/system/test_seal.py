"""Sealed files, which are valid only in the home where they were written."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from rocenv.core.errors import DataError
from rocenv.system.seal import read_sealed, write_sealed

if TYPE_CHECKING:
    from pathlib import Path


def test_modified_foreign_and_swapped_sealed_files_are_rejected(tmp_path: Path) -> None:
    key, file, other = tmp_path / "key", tmp_path / "a" / "x", tmp_path / "a" / "y"
    file.parent.mkdir()
    write_sealed(file, b"one\n\n", key)
    write_sealed(other, b"two", key)
    assert read_sealed(file, key) == b"one\n\n"
    assert os.name == "nt" or key.stat().st_mode & 0o777 == 0o600
    sealed = file.read_bytes()

    def refused() -> None:
        with pytest.raises(DataError, match="was not written by rocenv in this home"):
            read_sealed(file, key)

    for content in (b"", b"one\n\n", sealed.replace(b"one", b"two"), sealed + b"x", other.read_bytes()):
        file.write_bytes(content)
        refused()
    file.write_bytes(sealed)
    assert read_sealed(file, key) == b"one\n\n"
    key.unlink()  # as if the cache had been copied without its key
    refused()
    write_sealed(other, b"two", key)  # creates a new key
    refused()


def test_sealed_files_stay_valid_if_their_folder_is_moved(tmp_path: Path) -> None:
    """The store prepares entries in a temporary folder, and users may rename a home."""
    staged = tmp_path / ".staging" / "sha" / "manifest.json"
    staged.parent.mkdir(parents=True)
    write_sealed(staged, b"{}", tmp_path / "key")
    staged.parent.rename(tmp_path / "sha")
    assert read_sealed(tmp_path / "sha" / "manifest.json", tmp_path / "key") == b"{}"


@pytest.mark.skipif(os.name == "nt", reason="Windows uses other permissions")
def test_a_group_that_shares_a_home_shares_its_key(tmp_path: Path) -> None:
    tmp_path.chmod(0o2775)
    write_sealed(tmp_path / "x", b"one", tmp_path / "key")
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(os.name == "nt", reason="Windows uses other permissions")
def test_a_weak_or_readable_key_is_rejected(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    key, file = tmp_path / "key", tmp_path / "x"
    for content, mode in ((b"", 0o600), (b"k" * 100, 0o600), (b"k" * 32, 0o644), (b"k" * 32, 0o640)):
        key.write_bytes(content)
        key.chmod(mode)
        write_sealed(file, b"one", key)
        assert read_sealed(file, key) == b"one"
        assert key.stat().st_mode & 0o777 == 0o600
        assert len(set(key.read_bytes())) > 1, "rocenv created a new key"
        key.chmod(0o644)
        with pytest.raises(DataError, match="is not this rocenv home's key"):
            read_sealed(file, key)
        key.unlink()
    key.mkdir()
    write_sealed(file, b"one", key)
    assert read_sealed(file, key) == b"one"


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="needs a second user")
def test_readers_of_a_home_accept_files_from_its_owner(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "cache").mkdir(parents=True)
    write_sealed(home / "cache" / "x", b"one", home / "key")
    for folder in (home / "cache", home, *list(home.parents)[:-1]):
        folder.chmod(folder.stat().st_mode | 0o055)
    code = "import sys; from pathlib import Path; from rocenv.system.seal import read_sealed\n"
    code += "print(read_sealed(Path(sys.argv[1]) / 'cache' / 'x', Path(sys.argv[1]) / 'key'))"

    def read() -> subprocess.CompletedProcess[str]:
        argv = ["setpriv", "--reuid=65534", "--clear-groups", sys.executable, "-c", code, str(home)]
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30)

    assert read().stdout == "b'one'\n", read().stderr
    (home / "cache" / "x").chmod(0o666)
    assert "was not written by rocenv in this home" in read().stderr
