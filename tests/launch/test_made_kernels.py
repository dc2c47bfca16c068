"""Kernels that rocenv built for an app and that `launch` makes the app use."""

from __future__ import annotations

import hashlib
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from rocenv.home import Home
from rocenv.kernels.placed import Placed, content_hash, write
from tests.host.roots import Root
from tests.launch.lab import Lab, component, english_lines

if TYPE_CHECKING:
    from pathlib import Path

SAYS = """#!/bin/sh
case "$*" in
--version) echo 'Blender 5.2.2'; exit ;;
--help) printf -- '-b or --background\\n\\tSentence.\\n'; exit ;;
*available_devices*) echo 'HIP: Radeon'; exit ;;
esac
echo "WHICH $0"; echo '[HIP_'
"""


class Bench(Lab):
    """A machine, an env, and an app with its kernel source."""

    def prepare(self, **placed: Any) -> Bench:
        """Create all files, and record that the kernel has been placed."""
        root = Root(self.root / "linux").kernel().cpu().gpu(1, device=0x7550, version=120001)
        self.env["ROCENV_SYSROOT"] = str(root.path)
        self.make("art", (component("rocm", "6.4.3", "amd"),), platform="linux", target="gfx1201")
        self.put(self.app / "blender")
        self.source.mkdir()
        (self.source / "kernel.cpp").write_text("kernel")
        (self.root / "kernel").write_text("code")
        return self.note(**placed)

    def note(self, **placed: Any) -> Bench:
        """Record a placed kernel."""
        values: dict[str, Any] = {
            "app": "blender",
            "kind": "hip",
            "version": "5.2.2",
            "target": "gfx1201",
            "place": "overlay",
            "file": str(self.root / "kernel"),
            "sha256": hashlib.sha256(b"code").hexdigest(),
            "source": str(self.source),
            "source_hash": content_hash(self.source),
            "program": str(self.app / "blender"),
        }
        write(Home(self.root / "home"), Placed(**(values | placed)))
        return self

    def put(self, path: Path) -> Path:
        """Write a program."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SAYS)
        path.chmod(0o755)
        return path

    @property
    def source(self) -> Path:
        """The kernel source."""
        return self.root / "source"

    def launched(self) -> tuple[str, str]:
        """Return the app's output and rocenv's output."""
        done = self.run("launch", "art", "--", "./blender", "-b", "-f", "1")
        assert done.returncode == 0, done.stderr
        return done.stdout.decode(), done.stderr.decode()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A machine and an app's folder, at a path with a space."""
    return Bench(tmp_path / "a b")


def test_the_app_uses_the_overlay_with_its_kernels(bench: Bench) -> None:
    start = bench.put(bench.root / "overlay/start/blender")
    bench.prepare(start=str(start), resources="/its/own")
    said, told = bench.launched()
    assert f"WHICH {start}\n" in said
    assert "using the hip kernels for gfx1201 that rocenv built (overlay)" in told


def test_notes_about_kernels_are_in_the_users_language(bench: Bench) -> None:
    bench.prepare(start=str(bench.put(bench.root / "overlay/start/blender")), resources="/its/own")
    bench.env["LC_ALL"] = "zh_CN.UTF-8"
    said = bench.launched()[1].partition("日志：")[0]
    assert "正在使用 rocenv 为 gfx1201 编译的 hip 内核（overlay）\n" in said
    assert "`：让 Blender 报错退出，而不是改用 CPU 渲染\n" in said
    assert english_lines(said) == []


@pytest.mark.parametrize("placed", [{"target": "gfx1100"}, {"program": "/another/blender", "source": "/x"}])
def test_kernels_for_a_different_gpu_or_program_are_ignored(bench: Bench, placed: dict[str, str]) -> None:
    bench.prepare(start=str(bench.put(bench.root / "never/start/blender")), **placed)
    said, told = bench.launched()
    assert "/never" not in said and "using" not in told


def test_kernels_from_a_different_source_are_reported(bench: Bench) -> None:
    bench.prepare(start=str(bench.put(bench.root / "never/start/blender")))
    (bench.source / "kernel.cpp").write_text("newer")
    said, told = bench.launched()
    assert "/never" not in said
    assert "not using the hip kernels for gfx1201 that rocenv built (overlay): this " in told
    again = f"rocenv kernels build blender --blender '{bench.app / 'blender'}' --target gfx1201 --hip"
    assert again in told


def test_kernels_are_ignored_if_the_apps_kernel_source_is_missing(bench: Bench) -> None:
    bench.prepare(start=str(bench.put(bench.root / "never/start/blender")))
    shutil.rmtree(bench.source)
    assert "never/start" not in bench.launched()[0]


@pytest.mark.parametrize("content", [None, b"the app's own"])
def test_placed_kernels_that_are_missing_or_damaged_are_reported(bench: Bench, content: bytes | None) -> None:
    bench.prepare(start=str(bench.put(bench.root / "never/start/blender")))
    (bench.root / "kernel").unlink()
    if content is not None:
        (bench.root / "kernel").write_bytes(content)
    said, told = bench.launched()
    assert "/never" not in said and "  using" not in told and "note: using" not in told
    assert "not using the hip kernels for gfx1201 that rocenv built (overlay): `" in told
    program = f"rocenv kernels build blender --blender '{bench.app / 'blender'}'"
    assert f"{program} --target gfx1201 --hip --place overlay" in told


def test_an_outdated_kernel_in_the_apps_installation_is_reported(bench: Bench) -> None:
    bench.prepare(place="in-place")
    (bench.source / "kernel.cpp").write_text("newer")
    _, told = bench.launched()
    assert "not using" not in told
    assert "restore the original: rocenv kernels build blender" in told
    assert "--place in-place --undo" in told
