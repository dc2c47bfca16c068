"""Hashes of kernel sources."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from rocenv.core.errors import RocenvError
from rocenv.kernels.placed import content_hash


def tree(root: Path) -> Path:
    for name in ("a/z.h", "a-b/y.h", "b.h", "a.h", "_u/x.h", "Z/w.h"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"// {name}\n")
    return root


def test_source_hash_depends_on_names_and_contents_but_not_on_the_folder(tmp_path: Path) -> None:
    here = tree(tmp_path / "here")
    there = Path(shutil.copytree(here, tmp_path / "there"))
    assert content_hash(here) == content_hash(there)
    (there / "a.h").write_text("// changed\n")
    assert content_hash(here) != content_hash(there)
    shutil.copy(here / "a.h", there / "a.h")
    assert content_hash(here) == content_hash(there)
    (there / "b.h").rename(there / "c.h")
    assert content_hash(here) != content_hash(there)


def test_an_unreadable_source_is_an_error(tmp_path: Path) -> None:
    source = tree(tmp_path / "s")
    (source / "dangling.h").symlink_to("nowhere")
    with pytest.raises(RocenvError, match="dangling"):
        content_hash(source)
    (source / "dangling.h").unlink()
    os.mkfifo(source / "pipe.h")
    with pytest.raises(RocenvError, match="pipe"):
        content_hash(source)


def test_links_to_their_own_folders_are_an_error(tmp_path: Path) -> None:
    source = tree(tmp_path / "s")
    for name in ("up", "again"):
        (source / "a" / name).symlink_to("..")
    with pytest.raises(RocenvError, match="links to its own folders"):
        content_hash(source)
