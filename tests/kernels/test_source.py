"""The hash that an app's cached kernel is named by, against another way to come to it."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from rocenv.core.errors import RocenvError
from rocenv.kernels.source import content_hash, name_hash


def oracle(folder: Path, flags: str) -> str:
    """The rule told another way: recursion, as the app itself has it."""
    whole = hashlib.md5()

    def add(path: Path) -> None:
        for name in sorted(os.listdir(path)):
            inner = path / name
            if inner.is_dir():
                add(inner)
            else:
                whole.update(str(inner).encode() + inner.read_bytes())

    add(folder)
    return hashlib.md5(f"{whole.hexdigest().upper()}{flags}".encode()).hexdigest().upper()


def tree(root: Path) -> Path:
    # `a-b` sorts before `a/`, so whole paths sorted would be in another order than names level by level.
    for name in ("a/z.h", "a-b/y.h", "b.h", "a.h", "_u/x.h", "Z/w.h"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"// {name}\n")
    return root


def test_name_is_the_apps_own(tmp_path: Path) -> None:
    source = tree(tmp_path / "s p")
    flags = f'-std=c++17 -m64 -DHIPCC -I"{source}"'
    assert name_hash(source, flags) == oracle(source, flags)
    assert name_hash(source, flags + " ") != name_hash(source, flags)


def test_same_source_elsewhere_has_another_name_and_the_same_content(tmp_path: Path) -> None:
    here = tree(tmp_path / "here")
    there = Path(shutil.copytree(here, tmp_path / "there"))
    assert name_hash(here, "") != name_hash(there, "")
    assert content_hash(here) == content_hash(there)
    (there / "a.h").write_text("// changed\n")
    assert content_hash(here) != content_hash(there)


def test_empty_source_and_no_flags_have_the_name_worked_out_by_hand(tmp_path: Path) -> None:
    # The MD5 of the text D41D8CD98F00B204E9800998ECF8427E, which is that of nothing.
    assert name_hash(tmp_path, "") == "80404D0C6D24E87F650FF7D1985CD762"


def test_unreadable_source_is_an_error(tmp_path: Path) -> None:
    source = tree(tmp_path / "s")
    (source / "dangling.h").symlink_to("nowhere")
    with pytest.raises(RocenvError, match="dangling"):
        content_hash(source)
    (source / "dangling.h").unlink()
    os.mkfifo(source / "pipe.h")
    with pytest.raises(RocenvError, match="pipe"):
        content_hash(source)
