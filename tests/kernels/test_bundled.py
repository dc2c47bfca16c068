"""Compiled kernels in bundles, which the importing home checks and then seals itself."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from rocenv.context import Context
from rocenv.core.errors import RocenvError
from rocenv.data.load import load
from rocenv.home import Home
from rocenv.install.bundle import open_bundle
from rocenv.kernels.cache import Entry, _cached, _keep, export, import_bundled
from tests.bundles import bundle_of
from tests.kernels.code import kernels

if TYPE_CHECKING:
    from pathlib import Path

KEY = "k" * 32
CODE = kernels("gfx1100", 3)
ENTRY = Entry(
    app="blender",
    kind="hip",
    version="4.5",
    target="gfx1100",
    compiler="clang 21",
    sha256=hashlib.sha256(CODE).hexdigest(),
    kernels=3,
    flags=0x41,
    seconds=1.0,
)


def exported(home: Home) -> dict[str, bytes]:
    home.kernels.mkdir(parents=True)
    _keep(home.kernels / KEY, ENTRY, CODE, home.key)
    found = export(home, "blender", ("gfx1100", "gfx1201"))
    return {name: each if isinstance(each, bytes) else each.read_bytes() for name, each in found.items()}


def take(contents: dict[str, bytes], folder: Path) -> Home:
    path = folder / "lab.tar"
    path.write_bytes(bundle_of(contents, {}))
    home = Home(folder / "elsewhere")
    import_bundled(open_bundle(path), Context(home, matrix=load()))
    return home


def test_kernels_for_the_envs_app_and_gpu_are_imported(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    contents = exported(home)
    assert export(home, "llama", ("gfx1100",)) == export(home, "blender", ("gfx1201",)) == {}
    other = take(contents, tmp_path)
    kept = _cached(other.kernels / KEY, "gfx1100", other.key)
    assert kept is not None
    assert (kept.entry, kept.content) == (ENTRY, CODE)


def test_a_bundled_kernel_for_another_gpu_is_rejected(tmp_path: Path) -> None:
    contents = exported(Home(tmp_path / "home"))
    contents[f"kernels/{KEY}/kernel"] = kernels("gfx1201", 3)
    with pytest.raises(RocenvError):
        take(contents, tmp_path)
    assert not (tmp_path / "elsewhere/cache/kernels" / KEY).exists()


def test_a_bundled_kernel_with_a_hostile_key_cannot_replace_the_cache(tmp_path: Path) -> None:
    contents = exported(Home(tmp_path / "home"))
    other = Home(tmp_path / "elsewhere")
    other.artifacts.mkdir(parents=True)
    for key in ("..", "."):
        hostile = {name.replace(KEY, key): content for name, content in contents.items()}
        with pytest.raises(RocenvError, match="does not belong"):
            take(hostile, tmp_path)
        assert other.artifacts.exists()
