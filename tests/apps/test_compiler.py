"""The compiler that rocenv installs, compiling GPU code on this machine even if its C library is old."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

if TYPE_CHECKING:
    from pathlib import Path

    from rocenv.compilers import Toolchain
    from tests.apps.conftest import Rocenv

KERNEL = """
#include <hip/hip_runtime.h>
extern "C" __global__ void add(float *a, const float *b) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  a[i] += sqrtf(b[i]);
}
"""
GFX1201 = 0x4E  # EF_AMDGPU_MACH, the low byte of the flags. Source: LLVM, AMDGPUUsage
AMDGPU = 224
BARE = {"PATH": os.defpath}  # as on a machine without a compiler or an active env


def compiled(toolchain: Toolchain, source: Path, output: Path, *flags: str) -> None:
    argv = [str(toolchain.clang), "-x", "hip", *flags, str(source), "-o", str(output)]
    done = subprocess.run(argv, env=BARE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_kernel_is_compiled_to_a_code_object_for_the_target(
    clang_toolchain: Toolchain, tmp_path: Path
) -> None:
    folder = tmp_path / "with a space"
    folder.mkdir()
    source, output = folder / "kernel.hip", folder / "kernel.co"
    source.write_text(KERNEL)

    compiled(
        clang_toolchain,
        source,
        output,
        "--offload-arch=gfx1201",
        "--cuda-device-only",
        "--no-gpu-bundle-output",
        "-O3",
    )

    with output.open("rb") as file:
        elf = ELFFile(file)
        assert elf["e_machine"] in ("EM_AMDGPU", AMDGPU)
        assert elf["e_flags"] & 0xFF == GFX1201
        symbols = elf.get_section_by_name(".dynsym")
        assert isinstance(symbols, SymbolTableSection)
        names = {symbol.name for symbol in symbols.iter_symbols()}
    assert "add.kd" in names, "the code object does not contain the kernel"


def test_programs_that_the_compiler_starts_find_their_loader(
    clang_toolchain: Toolchain, tmp_path: Path
) -> None:
    """To build one file for two targets and the host, clang runs itself, lld and clang-offload-bundler."""
    source, output = tmp_path / "both.hip", tmp_path / "both.o"
    source.write_text(KERNEL + "int main() { float *p = nullptr; add<<<1, 1>>>(p, p); return 0; }\n")

    compiled(clang_toolchain, source, output, "--offload-arch=gfx1201", "--offload-arch=gfx1100", "-c")

    data = output.read_bytes()
    assert data[:4] == b"\x7fELF"
    assert b"hipv4-amdgcn-amd-amdhsa--gfx1201" in data
    assert b"hipv4-amdgcn-amd-amdhsa--gfx1100" in data


def test_a_compiler_env_is_a_normal_env(
    rocenv: Rocenv, apps_home: Path, clang_toolchain: Toolchain, tmp_path: Path
) -> None:
    """`list`, `show`, `doctor`, `verify`, `repair`, `lock` and `run` treat it like any other env."""
    name = clang_toolchain.env
    assert name in rocenv("list").stdout
    assert "compiles GPU code" in rocenv("show", name).stdout
    findings = json.loads(rocenv("doctor", name, "--json").stdout)["findings"]
    assert "env-for-another-gpu" not in {each["code"] for each in findings}, "a compiler env is not for a GPU"
    (apps_home / "envs" / name / "bin" / "lld").unlink()
    broken = rocenv("verify", name)
    assert broken.returncode == 1
    assert "bin/lld" in broken.stdout
    assert rocenv("repair", name).returncode == 0
    assert rocenv("verify", name).returncode == 0

    lock = tmp_path / "compiler.lock"
    assert rocenv("lock", name, "-o", lock).returncode == 0
    rocenv("remove", "-y", "copied")
    assert rocenv("create", "copied", "--from", lock, "-y").returncode == 0
    done = rocenv("run", "copied", "--", "clang", "--version")
    assert rocenv("remove", "-y", "copied").returncode == 0
    assert done.returncode == 0, done.stderr
    assert f"version {clang_toolchain.version}" in done.stdout


def test_the_compiler_supports_every_target_in_its_row(clang_toolchain: Toolchain, tmp_path: Path) -> None:
    from rocenv.data.load import load

    row = next(each for each in load().compiler if each.name == clang_toolchain.name)
    source = tmp_path / "kernel.hip"
    source.write_text(KERNEL)
    for target in row.targets:
        compiled(
            clang_toolchain,
            source,
            tmp_path / f"{target}.co",
            f"--offload-arch={target}",
            "--cuda-device-only",
            "--no-gpu-bundle-output",
        )
