"""Two LLVMs that would come into one process are found in what ELF files ask for."""

from __future__ import annotations

import shutil
import struct
import subprocess
from typing import TYPE_CHECKING

import pytest

from rocenv.core.model import EnvChange, Layout
from rocenv.launch.elf import loaded, needs_of
from tests.host.roots import Root
from tests.launch.lab import Lab, component
from tests.network import cannot_run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

CODE = "two LLVMs come into one process"


def library(path: Path, *needed: Path, soname: str = "", run_path: str = "", old: bool = False) -> Path:
    """Build a library that needs others."""
    options = [f"-Wl,-soname,{soname or path.name}", "-Wl,--no-as-needed"]
    if run_path:
        options += [f"-Wl,-rpath,{run_path}", f"-Wl,--{'disable' if old else 'enable'}-new-dtags"]
    return _linked(path, ["-shared", "-fPIC", *options], needed)


def program(path: Path, *needed: Path, run_path: str = "") -> Path:
    """Build a program that says it is Blender 5.2.2."""
    source = path.with_suffix(".c")
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(
        "#include <stdio.h>\n#include <string.h>\nint main(int count, char **words) {\n"
        '  for (int i = 1; i < count; i++) { if (!strcmp(words[i], "--python-expr")) puts("HIP: Radeon");\n'
        '    if (!strcmp(words[i], "--version")) puts("Blender 5.2.2");\n'
        '    if (!strcmp(words[i], "--help")) puts("-b or --background\\n\\tSentence."); }\n  return 0; }\n'
    )
    options = [f"-Wl,-rpath,{run_path}"] if run_path else []
    return _linked(path, ["-Wl,--no-as-needed", *options], needed, str(source))


def _linked(path: Path, options: Sequence[str], needed: Sequence[Path], source: str = "/dev/null") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Shared libraries of a library need not be found to link it.
    found = ["-Wl,--unresolved-symbols=ignore-all", *map(str, needed)]
    subprocess.run(["cc", *options, "-x", "c", source, "-x", "none", *found, "-o", str(path)], check=True)
    return path


@pytest.fixture(autouse=True)
def compiler() -> None:
    """Leave it out where nothing compiles."""
    if shutil.which("cc") is None:
        cannot_run("needs a C compiler")


class Bench(Lab):
    """A Linux machine and an env with libraries."""

    def prepare(self, *, shared: str = "libLLVM.so.22", comgr: str = "libamd_comgr.so.3") -> Bench:
        """Make the env `art`, whose compiler library needs that LLVM; "" = it has its own inside."""
        root = Root(self.root / "linux").kernel().cpu().gpu(1, device=0x7550, version=120001)
        self.env["ROCENV_SYSROOT"] = str(root.path)
        layout = Layout(root="", library_dirs=("lib",), libraries={}, runtime={"hip": "6.4"})
        self.make(
            "art",
            (component("rocm", "6.4.3", "debian-forky", layout=layout.below("rocm"), into="rocm"),),
            platform="linux",
            target="gfx1201",
            changes=(EnvChange(action="prepend", name="LD_LIBRARY_PATH", value="{prefix}/rocm/lib"),),
        )
        needed = [library(self.libraries / shared)] if shared else []
        library(self.libraries / comgr, *needed)
        library(self.libraries / "libamdhip64.so.6")
        return self

    @property
    def libraries(self) -> Path:
        """The env's."""
        return self.prefix("art").path / "rocm/lib"

    def told(self, *words: str) -> str:
        """Launch it and return what was told."""
        argv = ("launch", "art", "--app", "blender", "--", "./blender", *words)
        return self.run(*argv).stderr.decode()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A machine and an app's folder at a path with a space."""
    return Bench(tmp_path / "a b")


class TestClash:
    def test_through_a_library_of_the_apps_own(self, bench: Bench) -> None:
        bench.prepare()
        llvm = library(bench.app / "lib/libLLVM.so.19.1")
        osl = library(bench.app / "lib/liboslexec.so.1", llvm, run_path="$ORIGIN")
        program(bench.app / "blender", osl, run_path="$ORIGIN/lib")
        told = bench.told("-b")
        assert CODE in told
        assert "libLLVM.so.19.1 (for liboslexec.so.1) and libLLVM.so.22 (for libamd_comgr.so.3)" in told
        comgr = bench.libraries / "libamd_comgr.so.3"
        again = f"rocenv launch art --app blender -- env 'LD_PRELOAD={comgr}' ./blender"
        assert f"hint: {again}" in told
        create = "rocenv create art2 --target gfx1201 --channel amd"
        assert f"take a build of AMD's, which has its LLVM inside: {create}" in told

    def test_the_same_llvm_twice_is_none(self, bench: Bench) -> None:
        bench.prepare(shared="libLLVM.so.19.1")
        llvm = library(bench.app / "lib/libLLVM.so.19.1")
        program(bench.app / "blender", llvm, run_path="$ORIGIN/lib")
        assert CODE not in bench.told("-b")

    def test_llvm_inside_the_compiler_library_is_none(self, bench: Bench) -> None:
        bench.prepare(shared="")
        llvm = library(bench.app / "lib/libLLVM.so.19.1")
        program(bench.app / "blender", llvm, run_path="$ORIGIN/lib")
        assert CODE not in bench.told("-b")

    def test_drawing_counts_where_there_is_a_window(self, bench: Bench) -> None:
        bench.prepare()
        mesa = library(bench.libraries / "libLLVM-17.so.1")
        library(bench.libraries / "libgallium-26.1.so", mesa)
        program(bench.app / "blender")
        assert "libLLVM-17.so.1 (for libgallium-26.1.so)" in bench.told("scene.blend")
        assert CODE not in bench.told("-b", "scene.blend")

    def test_remedy_silences_it(self, bench: Bench) -> None:
        bench.prepare()
        llvm = library(bench.app / "lib/libLLVM.so.19.1")
        program(bench.app / "blender", llvm, run_path="$ORIGIN/lib")
        preload = f"LD_PRELOAD={bench.libraries / 'libamd_comgr.so.3'}"
        done = bench.run("launch", "art", "--app", "blender", "--", "env", preload, "./blender", "-b")
        assert (done.returncode, CODE.encode() in done.stderr) == (0, False), done.stderr
        # It is held to the GPU as ever.
        assert b"added `--python-expr " in done.stderr and b"not known as a program" not in done.stderr
        done = bench.run(
            "launch", "art", "--app", "blender", "--", "env", preload, "./blender", "-b", "-f", "1"
        )
        assert b"nothing shows that it used the GPU" in done.stderr


class TestFiles:
    def test_search_order(self, tmp_path: Path) -> None:
        """RPATH goes before the folders of the environment, RUNPATH behind them."""
        for folder in ("own", "given"):
            library(tmp_path / folder / "libx.so")
        for old, first in ((True, "own"), (False, "given")):
            needing = library(
                tmp_path / f"liby{old}.so", tmp_path / "own/libx.so", run_path="$ORIGIN/own", old=old
            )
            found = loaded([str(needing)], [str(tmp_path / "given")], [])
            assert [each.path for each in found] == [str(needing), str(tmp_path / first / "libx.so")]

    def test_circle(self, tmp_path: Path) -> None:
        one = library(tmp_path / "libone.so")
        two = library(tmp_path / "libtwo.so", one)
        library(one, two)
        assert len(loaded([str(one)], [str(tmp_path)], [])) == 2

    @pytest.mark.parametrize("cut", [0, 3, 16, 63, 64, 200, 1000])
    def test_cut(self, tmp_path: Path, cut: int) -> None:
        path = library(tmp_path / "libx.so")
        path.write_bytes(path.read_bytes()[:cut])
        found = needs_of(str(path))
        assert found is None or not found.needed

    def test_a_section_that_names_no_strings(self, tmp_path: Path) -> None:
        path = library(tmp_path / "libx.so", library(tmp_path / "liby.so"))
        data = bytearray(path.read_bytes())
        (table,) = struct.unpack_from("<Q", data, 0x28)
        for section in range(table, len(data) - 63, 64):
            if struct.unpack_from("<I", data, section + 4) == (6,):  # the dynamic one
                struct.pack_into("<I", data, section + 40, 0)
        path.write_bytes(data)
        assert needs_of(str(path)) is None

    def test_every_damaged_byte_of_the_head(self, tmp_path: Path) -> None:
        path = library(tmp_path / "libx.so", library(tmp_path / "liby.so"))
        whole = path.read_bytes()
        for place in range(64 + 56 * 12):
            for value in (0, 0xFF):
                path.write_bytes(whole[:place] + bytes([value]) + whole[place + 1 :])
                needs_of(str(path))

    def test_no_file(self, tmp_path: Path) -> None:
        assert needs_of(str(tmp_path / "none")) is None
        assert needs_of(str(tmp_path)) is None
