"""A lock with ZLUDA for tests that run on any system."""

from __future__ import annotations

from rocenv.core.model import VENV, Artifact, Component, Layout, Lock, Request, ShimFile, Shims, venv_layout

SHIMS = Shims(
    runtime=("amdhip64.dll",),
    driver=("nvcuda.dll", "nvml.dll"),
    behind=("rocblas.dll",),
    files=(
        ShimFile(file="cublas.dll", stands_for="cublas64_11.dll"),
        ShimFile(file="nvrtc.dll", stands_for="nvrtc64_112_0.dll"),
    ),
    original="nvrtc64_112_0.dll",
)
SDK_LAYOUT = Layout(
    root="rocm/5.7", library_dirs=("rocm/5.7/bin",), libraries={"hip": "amdhip64.dll"}, bin="rocm/5.7/bin"
)
TORCH_LIB = "venv/Lib/site-packages/torch/lib"


def artifact(name: str, digit: str, kind: str = "archive") -> Artifact:
    """Build an artifact with made-up hashes, which tests never download."""
    return Artifact(
        kind=kind,  # type: ignore[arg-type]
        name=name,
        version="1",
        url=f"https://example.invalid/{name}",
        sha256=digit * 64,
        size_bytes=1,
    )


def zluda_lock() -> Lock:
    """Build a lock with all four kinds of components."""
    parts = (
        Component(
            kind="rocm",
            name="HIP SDK",
            version="5.7.1",
            channel="hip-sdk",
            why="",
            artifacts=(artifact("sdk.exe", "1", "installer"),),
            layout=SDK_LAYOUT,
            into="rocm/5.7",
        ),
        Component(
            kind="zluda",
            name="ZLUDA",
            version="3.9.5",
            channel="lshqqytiger",
            why="",
            artifacts=(artifact("zluda.zip", "2"),),
            into="zluda",
            anchor="nvcuda.dll",
            shims=SHIMS,
        ),
        Component(
            kind="libraries",
            name="rocBLAS library pack",
            version="5.7.1",
            channel="someone",
            why="",
            artifacts=(artifact("pack.7z", "3"),),
            into="rocm/5.7",
            places={"rocblas.dll": "bin/rocblas.dll", "library/": "bin/rocblas/library/"},
        ),
        Component(
            kind="torch",
            name="torch",
            version="2.7.1+cu118",
            channel="index",
            why="",
            artifacts=(artifact("torch", "4", "wheel"),),
            python="3.11.9",
            layout=venv_layout("3.11.9", "windows"),
            into=VENV,
        ),
    )
    return Lock(
        request=Request(platform="windows"),
        platform="windows",
        target="gfx1031",
        components=parts,
        environment=(),
    )
