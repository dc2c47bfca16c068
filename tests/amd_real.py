"""Real ROCm from Debian's packages, repackaged in the layout of AMD's wheels.

AMD's wheels work with an old C library, but Debian's ROCm needs a new one. These wheels bundle that C library
in a folder that no RUNPATH contains, so only programs started by the bundled loader use it.
"""

from __future__ import annotations

import posixpath
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.data.load import load
from tests import amd_wheels
from tests.amd_binaries import LINUX
from tests.wheels.index import Wheel, build_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator

C_LIBRARY = "_rocm_sdk_core/lib/glibc"
_CORE = "_rocm_sdk_core/lib"
_LLVM = f"{_CORE}/llvm/lib"
_SYSTEM = f"{_CORE}/rocm_sysdeps/lib"
_LIBRARIES = "_rocm_sdk_libraries/lib"
# Source: ROCm/TheRock:build_tools/_therock_utils/py_packaging.py
_SEARCHED = (_CORE, _LLVM, _SYSTEM, f"{_CORE}/host-math/lib")
_PLACES = {
    "librocblas": _LIBRARIES,
    "libamd": _CORE,
    "libhip": _CORE,
    "libhsa": _CORE,
    "libroctx": _CORE,
    "libLLVM": _LLVM,
}
_ROW = """
[[rocm_wheels]]
version = "{version}"
channel = "therock"
index = "https://repo.amd.com/rocm/whl-multi-arch/"
platform = "linux"
packages = ["rocm", "rocm-sdk-core", "rocm-sdk-libraries", "rocm-sdk-device-{{target}}"]
targets = ["{target}"]
python = ["3.10", "3.11", "3.12", "3.13", "3.14"]
glibc = "{glibc}"
loader = "{loader}"
status = "tested"
source = "tests"
checked = "2026-11-22"
[rocm_wheels.layout]
root = "_rocm_sdk_core"
library_dirs = ["{core}", "{libraries}", "{c_library}"]
libraries = {{ hip = "libamdhip64.so.7", hiprtc = "libhiprtc.so.7", rocblas = "librocblas.so.5" }}
runtime = {{ hip = "{series}", rocblas = "5" }}
"""


def row(version: str, target: str, glibc: str) -> str:
    """Render a data file with a row for the release that `wheels` builds."""
    series = ".".join(version.split(".")[:2])
    filled = _ROW.format(
        version=version,
        target=target,
        glibc=glibc,
        loader=load().c_library[0].loader,
        core=_CORE,
        libraries=_LIBRARIES,
        c_library=C_LIBRARY,
        series=series,
    )
    return f"schema = 1\n{filled}"


def wheels(tree: Path, version: str, target: str) -> tuple[Wheel, ...]:
    """Build a release's wheels for one target.

    Args:
        tree: The `usr` folder in an env with Debian's ROCm.
        version: The release.
        target: The target; kernels for other targets are omitted.
    """
    core: dict[str, bytes] = {}
    libraries: dict[str, bytes] = {}
    for place, content in _placed(tree / "lib" / "x86_64-linux-gnu"):
        (libraries if place.startswith(_LIBRARIES) else core)[place] = content
    kernels = {
        f"{_LIBRARIES}/rocblas/library/{path.name}": path.read_bytes()
        for path in sorted(tree.glob("lib/x86_64-linux-gnu/rocblas/*/library/*"))
        if target in path.name
    }
    return (
        amd_wheels.sdist(amd_wheels.Release(rocm=version, hip=0, rocm_of_torch="")),
        _wheel("rocm-sdk-core", version, core),
        _wheel("rocm-sdk-libraries", version, libraries),
        _wheel(f"rocm-sdk-device-{target}", version, kernels, requires=(f"rocm-sdk-libraries=={version}",)),
    )


def _wheel(name: str, version: str, files: dict[str, bytes], requires: tuple[str, ...] = ()) -> Wheel:
    packages = dict.fromkeys(f"{path.partition('/')[0]}/__init__.py" for path in files)
    content = {**dict.fromkeys(packages, b""), **files}
    return build_wheel(
        name, version, tag=f"py3-none-{LINUX}", files=content, requires=requires, requires_python=""
    )


def _placed(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield each library and its path in the wheels, after adapting its search path to that location."""
    c_library = load().c_library[0].files
    with tempfile.TemporaryDirectory(prefix="rocenv-real-") as scratch:
        for path in sorted(folder.iterdir()):
            soname = _soname(path) if path.is_file() and not path.is_symlink() else ""
            if soname in c_library:
                yield f"{C_LIBRARY}/{soname}", path.read_bytes()
            elif soname:
                place = next((_PLACES[start] for start in _PLACES if soname.startswith(start)), _SYSTEM)
                copy = Path(scratch, soname)
                shutil.copy(path, copy)
                copy.chmod(0o644)
                command = ["patchelf", "--force-rpath", "--set-rpath", _rpath(place), str(copy)]
                subprocess.run(command, check=True, timeout=120)
                yield f"{place}/{soname}", copy.read_bytes()
                copy.unlink()


def _soname(path: Path) -> str:
    """Return a library's soname, or "" for other files."""
    done = subprocess.run(
        ["patchelf", "--print-soname", str(path)], capture_output=True, text=True, timeout=120
    )
    return done.stdout.strip()


def _rpath(place: str) -> str:
    searched = (posixpath.relpath(folder, place) for folder in _SEARCHED if folder != place)
    return ":".join(["$ORIGIN", *(f"$ORIGIN/{folder}" for folder in searched)])
