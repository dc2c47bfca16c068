"""Wheels of the real format: torch for CUDA 11.8 with its DLLs, its siblings, and what it depends on."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.wheels.index import Wheel, build_wheel
from tests.windows.standin_compiler import SOURCES
from tests.windows.standin_sets import matrix, torch_dlls

if TYPE_CHECKING:
    from tests.windows.standin_compiler import Workshop

CUDA = "11.8"
# What torch depends on, as small as can be: name, version, and what that depends on.
_DEPENDENCIES = (
    ("filelock", "3.16.1", ()),
    ("fsspec", "2024.10.0", ()),
    ("jinja2", "3.1.4", ("MarkupSafe>=2.0",)),
    ("markupsafe", "3.0.2", ()),
    ("mpmath", "1.3.0", ()),
    ("networkx", "3.4.2", ()),
    ("pillow", "11.0.0", ()),
    ("setuptools", "75.0.0", ()),
    ("sympy", "1.13.3", ("mpmath<1.4,>=1.1.0",)),
    ("typing-extensions", "4.12.2", ()),
)
_REQUIRES = (
    "filelock",
    "typing-extensions>=4.10.0",
    'setuptools; python_version >= "3.12"',
    "sympy>=1.13.3",
    "networkx",
    "jinja2",
    "fsspec",
)


def torch_wheel(workshop: Workshop, version: str = "2.7.1+cu118", python: str = "cp311") -> Wheel:
    """Return a torch whose GPU half is `torch/lib/torch_cuda.dll`, beside NVIDIA's libraries."""
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
    return build_wheel("torch", version, tag=tag, requires=_REQUIRES, files=sources | libraries)


def sibling_wheels(version: str = "2.7.1+cu118", python: str = "cp311") -> tuple[Wheel, ...]:
    """Return torchvision and torchaudio in the versions that the matrix names with a torch."""
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
    """Return everything that the above depend on, but numpy."""
    return tuple(build_wheel(name, version, requires=requires) for name, version, requires in _DEPENDENCIES)


def numpy_wheel(path: Path | None = None, version: str = "1.26.4", python: str = "cp311") -> Wheel:
    """Return the numpy at `path`, or a tiny one."""
    if path is None:
        return build_wheel("numpy", version, tag=f"{python}-{python}-win_amd64")
    with zipfile.ZipFile(path) as archive:
        metadata = archive.read(f"numpy-{version}.dist-info/METADATA")
    return Wheel(path.name, path.read_bytes(), metadata)
