"""Wheels in the real format: torch for CUDA 11.8, its DLLs, companions and dependencies."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.wheels.index import Wheel, build_wheel
from tests.wheels.pure import PURE, TORCH_REQUIRES
from tests.windows.lab import PYTHON_TAG
from tests.windows.standin_compiler import SOURCES
from tests.windows.standin_sets import matrix, torch_dlls

if TYPE_CHECKING:
    from tests.windows.standin_compiler import Workshop

CUDA = "11.8"


def torch_wheel(workshop: Workshop, version: str = "2.7.1+cu118", python: str = PYTHON_TAG) -> Wheel:
    """Build a torch wheel whose GPU library is `torch/lib/torch_cuda.dll`, next to NVIDIA's libraries."""
    with tempfile.TemporaryDirectory() as work_name:
        work = Path(work_name)
        binaries = torch_dlls(version.partition("+")[0])
        workshop.build(binaries, work)
        libraries = {f"torch/lib/{each.name}": (work / each.name).read_bytes() for each in binaries}
    package = SOURCES / "torch"
    sources = {
        f"torch/{path.relative_to(package).as_posix()}": path.read_bytes() for path in package.rglob("*.py")
    }
    sources["torch/version.py"] = (
        f"__version__ = {version!r}\ncuda = {CUDA!r}\nhip = None\ndebug = False\n".encode()
    )
    tag = f"{python}-{python}-win_amd64"
    return build_wheel("torch", version, tag=tag, requires=TORCH_REQUIRES, files=sources | libraries)


def sibling_wheels(version: str = "2.7.1+cu118", python: str = PYTHON_TAG) -> tuple[Wheel, ...]:
    """Build the torchvision and torchaudio that the data pairs with a torch."""
    plain, _, local = version.partition("+")
    (row,) = (each for each in matrix().torch if (each.version, each.cuda) == (plain, CUDA))
    tag = f"{python}-{python}-win_amd64"
    vision, audio = (f"{row.companions[name]}+{local}" for name in ("torchvision", "torchaudio"))
    return (
        build_wheel(
            "torchvision", vision, tag=tag, requires=("numpy", f"torch=={plain}", "pillow!=8.3.*,>=5.3.0")
        ),
        build_wheel("torchaudio", audio, tag=tag, requires=(f"torch=={plain}",)),
    )


def dependency_wheels() -> tuple[Wheel, ...]:
    """Build all dependencies except numpy."""
    return tuple(
        build_wheel(name, version, requires=requires)
        for name, (version, requires) in PURE.items()
        if name != "numpy"
    )


def numpy_wheel(path: Path | None = None, version: str = "1.26.4", python: str = PYTHON_TAG) -> Wheel:
    """Return the numpy wheel at `path`, or build an empty one."""
    if path is None:
        return build_wheel("numpy", version, tag=f"{python}-{python}-win_amd64")
    with zipfile.ZipFile(path) as archive:
        metadata = archive.read(f"numpy-{version}.dist-info/METADATA")
    return Wheel(path.name, path.read_bytes(), metadata)
