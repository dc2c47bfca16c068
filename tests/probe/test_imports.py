"""Why a DLL does not load, read from real ones that mingw built."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from rocenv.probe import imports

if TYPE_CHECKING:
    from pathlib import Path

A, B = "int rocblas_a(void) { return 0; }", "int rocblas_b(void) { return 0; }"
USES_BOTH = "int rocblas_a(void); int rocblas_b(void); int create(void) { return rocblas_a() + rocblas_b(); }"


def build(folder: Path, name: str, source: str, *needs: Path) -> Path:
    """Build a DLL."""
    folder.mkdir(parents=True, exist_ok=True)
    code, made = folder / f"{name}.c", folder / name
    code.write_text(source)
    command = ["x86_64-w64-mingw32-gcc", "-shared", str(code), *map(str, needs), "-o", str(made)]
    subprocess.run(command, check=True, timeout=60)
    return made


@pytest.fixture
def cublas(tmp_path: Path) -> Path:
    """A cublas.dll in `zluda` that needs `bin/rocblas.dll`."""
    rocblas = build(tmp_path / "bin", "rocblas.dll", A + B)
    return build(tmp_path / "zluda", "cublas.dll", USES_BOTH, rocblas)


def explain(library: Path) -> str:
    root, system = library.parents[1], library.parents[1] / "system32"
    system.mkdir(exist_ok=True)
    for name in ("KERNEL32.dll", "msvcrt.dll"):
        (system / name).touch()
    folders = (str(library.parent), "", str(root / "bin"))
    return imports.explain(str(library), folders, (str(system),))


def test_the_file_that_is_missing_is_named_with_who_needs_it(cublas: Path) -> None:
    (cublas.parents[1] / "bin" / "rocblas.dll").unlink()
    assert explain(cublas) == "cublas.dll needs rocblas.dll: not found"


def test_the_function_that_another_version_lacks_is_named(cublas: Path) -> None:
    older = build(cublas.parents[1] / "bin", "rocblas.dll", A)
    assert explain(cublas) == f"cublas.dll needs `rocblas_b`, which `{older}` lacks"


def test_a_whole_library_is_not_blamed(cublas: Path) -> None:
    assert explain(cublas).startswith("all that it imports is there")


def test_a_file_that_is_no_library_is_said_to_be_none(cublas: Path) -> None:
    cublas.write_text("<html>404</html>" * 100)
    assert f"`{cublas}` is no Windows library" in explain(cublas)
