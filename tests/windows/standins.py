"""Fakes of what a Windows user downloads: HIP SDK trees, ZLUDA archives and library packs.

All files have the names from rocenv's data, so the mirror can serve them at the real URLs. Installers are in
`standin_installer`, wheels in `standin_wheels`.
"""

from __future__ import annotations

import subprocess
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.core.versions import series
from tests.windows.standin_sets import (
    STOCK_TARGETS,
    asset_of,
    build_row,
    rocblas_dll,
    sdk_dlls,
    sdk_row,
    zluda_binaries,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tests.windows.standin_compiler import Binary, Workshop

KERNELS = "rocblas/library"
KERNELS_MARK = "rocenv-standin-kernels"
_HEADER = "#define HIP_VERSION_MAJOR {major}\n#define HIP_VERSION_MINOR {minor}\n"
EPOCH = (2024, 1, 1, 0, 0, 0)
# This 7-Zip filter splits code into four streams. Some 7z readers do not support it.
BCJ2 = ("-m0=BCJ2", "-m1=LZMA", "-m2=LZMA", "-m3=LZMA", "-mb0:1", "-mb0s1:2", "-mb0s2:3")


def hip_sdk(
    folder: Path,
    version: str,
    workshop: Workshop,
    *,
    targets: tuple[str, ...] = STOCK_TARGETS,
    change: Callable[[Binary], Binary] = lambda binary: binary,
) -> Path:
    """Build a tree like `C:\\Program Files\\AMD\\ROCm\\5.7` in `folder`.

    Args:
        version: The SDK's version, "5.7.1", or its series.
        targets: The targets for which its rocBLAS has kernels.
        change: Called for each DLL before it is built, to break one of them.
    """
    sdk = sdk_row(version)
    workshop.build(map(change, sdk_dlls(sdk)), folder / "bin")
    write_kernels(folder / "bin" / KERNELS, sdk.version, targets)
    major, minor, *_ = sdk.version.split(".")
    texts = {
        ".info/version": f"{sdk.version}\n",
        "include/hip/hip_version.h": _HEADER.format(major=major, minor=minor),
        "include/rocblas/rocblas.h": "/* stand-in */\n",
        "lib/amdhip64.lib": "stand-in\n",
        "bin/hipconfig.bat": f"@echo {sdk.version}\r\n",
    }
    for name, content in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, newline="")
    return folder


def write_kernels(folder: Path, version: str, targets: tuple[str, ...]) -> None:
    """Write the kernel files that an SDK's rocBLAS loads."""
    folder.mkdir(parents=True, exist_ok=True)
    for target in targets:
        content = f"{KERNELS_MARK} {series(version)}\n{target}\n"
        (folder / f"TensileLibrary_lazy_{target}.dat").write_text(content, newline="")
        (folder / f"Kernels.so-000-{target}.hsaco").write_bytes(b"\x7fELF stand-in " + target.encode() * 50)


def zluda_archive(
    folder: Path,
    version: str,
    flavour: str,
    workshop: Workshop,
    *,
    flat: bool | None = None,
    claims: str = "",
    change: Callable[[Binary], Binary] = lambda binary: binary,
) -> Path:
    """Build an archive of lshqqytiger's ZLUDA with its real name; return its path.

    Args:
        version: The build's version, as in the data: "3.9.5".
        flavour: plain, rocm5, rocm6 or nightly.
        flat: Whether to omit the top-level `zluda/` folder; defaults to the layout of the real archive.
        claims: A wrong version for its files to report.
        change: Called for each file before it is built, to break one of them.
    """
    build = build_row("lshqqytiger", version)
    asset = asset_of(build, flavour)
    top = "" if (flavour == "nightly" if flat is None else flat) else "zluda/"
    files = _built(map(change, zluda_binaries(build, asset, claims)), workshop)
    texts = {"LICENSE-MIT": b"stand-in\n"}
    return write_zip(folder / asset.name, {top + name: data for name, data in (files | texts).items()})


def vosen_archive(
    folder: Path,
    version: str,
    workshop: Workshop,
    *,
    change: Callable[[Binary], Binary] = lambda binary: binary,
) -> Path:
    """Build an archive of vosen's ZLUDA, in which `trace/` contains other files with the same names."""
    build = build_row("vosen", version)
    asset = asset_of(build, "plain")
    binaries = zluda_binaries(build, asset)
    files = {f"zluda/{name}": data for name, data in _built(map(change, binaries), workshop).items()}
    traced = [binary for binary in binaries if binary.name.endswith(".dll") and "64_" in binary.name]
    for name, data in _built(traced, workshop).items():
        files[f"zluda/trace/{name}"] = data + b"trace"  # data after the last section is not loaded
    return write_zip(folder / asset.name, files)


def library_pack(
    folder: Path,
    sdk_version: str,
    target: str,
    workshop: Workshop,
    *,
    name: str,
    with_rocblas: bool = True,
    inner: str = "",
    bcj2: bool = False,
    made_for: str = "",
) -> Path:
    """Build a rocBLAS library pack at `folder/name`; return its path.

    Args:
        sdk_version: The SDK for which its rocblas.dll was built.
        inner: A folder in the archive that contains everything.
        bcj2: Whether to use a filter that some 7z readers do not support.
        made_for: The SDK for which its kernels were built, if different.
    """
    sdk = sdk_row(sdk_version)
    with tempfile.TemporaryDirectory() as work_name:
        work = Path(work_name)
        top = work / inner
        write_kernels(top / "library", made_for or sdk.version, (target,))
        if with_rocblas:
            workshop.build([rocblas_dll(sdk)], top)
        (top / "readme.txt").write_text("copy library to bin\\rocblas and rocblas.dll to bin\n")
        return write_7z(folder / name, work, BCJ2 if bcj2 else ())


def write_7z(path: Path, content: Path, options: tuple[str, ...] = ()) -> Path:
    """Pack the contents of a folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    members = sorted(each.name for each in content.iterdir())
    command = ["7z", "a", "-bd", "-y", "-mx=1", "-mtm=off", *options, str(path.absolute()), *members]
    done = subprocess.run(command, cwd=content, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return path


def write_zip(path: Path, files: Mapping[str, bytes]) -> Path:
    """Write a zip archive whose bytes depend only on the files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), data, zipfile.ZIP_DEFLATED, 1)
    return path


def _built(binaries: Iterable[Binary], workshop: Workshop) -> dict[str, bytes]:
    binaries = list(binaries)
    with tempfile.TemporaryDirectory() as work_name:
        work = Path(work_name)
        workshop.build(binaries, work)
        return {binary.name: (work / binary.name).read_bytes() for binary in binaries}
