"""The libraries in AMD's ROCm wheels, with their real names, built from the fakes in `shims/fakes`."""

from __future__ import annotations

import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tests.windows.standin_compiler import SOURCES, Binary, Workshop, text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.amd_wheels import Release

LINUX, WINDOWS = "linux_x86_64", "win_amd64"
_SYSDEPS, _HOST_MATH = "lib/rocm_sysdeps/lib", "lib/host-math/lib"
# Folder in the package -> sonames of its stubs.
_CORE_STUBS = {
    "lib": (
        "libamd_comgr.so.3 libhsa-runtime64.so.1 libhiprtc-builtins.so.7 libhipfile.so.0 libroctx64.so.4 "
        "librocprofiler-register.so.0 librocprofiler-sdk.so.1 librocprofiler-sdk-roctx.so.1 "
        "libroctracer64.so.4 librocm_smi64.so.1 librocm_kpack.so.0 libamd_smi.so.26"
    ).split(),
    _SYSDEPS: ["librocm_sysdeps_liblzma.so.5"],
    _HOST_MATH: ["librocm-openblas.so.0"],
}
_LIBRARY_STUBS = (
    "libhipblaslt.so.1 librocfft.so.0 libhipfft.so.0 librocrand.so.1 libhiprand.so.1 librocsolver.so.0 "
    "libhipsolver.so.1 librocsparse.so.1 libhipsparse.so.4 libhipsparselt.so.0 libMIOpen.so.1 "
    "libhipdnn_backend.so librccl.so.1 librocroller.so.1 liborigami.so.1"
).split()
_CORE_DLLS = ("amd_comgr.dll", "rocm_kpack.dll", "rocm-openblas.dll", "amdocl64.dll")
_LIBRARY_DLLS = (
    "libhipblaslt.dll rocfft.dll hipfft.dll rocrand.dll hiprand.dll rocsolver.dll hipsolver.dll "
    "rocsparse.dll hipsparse.dll MIOpen.dll origami.dll hipdnn_backend.dll"
).split()
_TOOLS = "hipcc hipconfig amdclang amdclang++ offload-arch"
_TOOLS_LINUX = "rocminfo rocm_agent_enumerator rocm-smi amd-smi hipify-perl"
_TOOLS_WINDOWS = "hipInfo"
_PLACEHOLDER = "name-of-a-library-with-one-function"
_RPATH = ":".join(
    f"$ORIGIN{each}"
    for each in (
        "",
        *(f"/../../_rocm_sdk_core/{each}" for each in ("lib", "lib/llvm/lib", _SYSDEPS, _HOST_MATH)),
    )
)
_ROCBLAS = "5.0.0"
_ONE_FUNCTION = (("STANDIN_GROUP", text("other")), ("STANDIN_FUNCTION", "standin_answer"))


def core(release: Release, platform: str) -> dict[str, bytes]:
    """Build the runtime's libraries and programs: path in its folder -> bytes."""
    return _linux_core(release) if platform == LINUX else _windows_core(release)


def libraries(release: Release, platform: str) -> dict[str, bytes]:
    """Build the math libraries."""
    return _linux_libraries() if platform == LINUX else _windows_libraries(release)


def torch(release: Release, platform: str) -> dict[str, bytes]:
    """Build torch's GPU library, which loads HIP and rocBLAS by name and has no RPATH for them."""
    if platform == LINUX:
        needs = ("libamdhip64.so.7", "librocblas.so.5")
        return {"lib/libtorch_hip.so": library("libtorch_hip.so", "torch_hip.c", 0, needs, "$ORIGIN")}
    links = (_hip_dll(release), _rocblas_dll(release))
    made = Binary(name="torch_hip.dll", source="torch_hip.c", version=release.rocm, links=links)
    return _built(made, *(() if release.libraries else links), folder="lib")


def tools(platform: str) -> list[str]:
    """List the runtime's programs."""
    return f"{_TOOLS} {_TOOLS_LINUX if platform == LINUX else _TOOLS_WINDOWS}".split()


# ---------------------------------------------------------------- Linux libraries


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Create a folder for compiled files that is deleted when the process ends."""
    return tempfile.TemporaryDirectory(prefix="rocenv-amd-")


@cache
def library(name: str, source: str, hip: int = 0, needs: tuple[str, ...] = (), rpath: str = _RPATH) -> bytes:
    """Compile a fake library with DT_RPATH; `needs` contains the sonames of its dependencies."""
    folder = Path(_folder().name)
    stubs = [folder / soname for soname in needs]
    for stub in stubs:
        stub.write_bytes(_stub(stub.name))
    path = folder / f"{hip}-{name}"
    command = [
        *("cc", "-shared", "-fPIC", "-O1", "-s", f"-Wl,-soname,{name}", "-Wl,-z,noseparate-code"),
        *("-Wl,--disable-new-dtags", f"-Wl,-rpath,{rpath}", "-Wl,--no-as-needed", "-Wl,--build-id=none"),
        *((f"-DSTANDIN_HIP_VERSION={hip}",) if hip else ()),
        *(f"-D{key}={value}" for key, value in _ONE_FUNCTION),
        f'-DSTANDIN_NAME="{name}"',
        f'-DSTANDIN_ROCBLAS_VERSION="{_ROCBLAS}"',
        *map(str, (SOURCES / source, *stubs, "-o", path)),
    ]
    subprocess.run(command, check=True, timeout=60)
    return path.read_bytes()


def _stub(soname: str) -> bytes:
    return _renamed(library(_PLACEHOLDER, "trivial.c"), _PLACEHOLDER, soname)


def _renamed(content: bytes, placeholder: str, name: str) -> bytes:
    """Copy a compiled library under a new soname, because compiling one per soname would take too long."""
    assert len(name) <= len(placeholder)
    return content.replace(placeholder.encode(), name.encode().ljust(len(placeholder), b"\0"))


def _linux_core(release: Release) -> dict[str, bytes]:
    files = {
        f"{folder}/{soname}": _stub(soname) for folder, sonames in _CORE_STUBS.items() for soname in sonames
    }
    if release.rocm.startswith("10."):
        files["lib/librocdxg.so.1"] = _stub("librocdxg.so.1")
    needs = ("libamd_comgr.so.3", "libhsa-runtime64.so.1", "librocm_kpack.so.0")
    files["lib/libamdhip64.so.7"] = library("libamdhip64.so.7", "hip.c", release.hip, needs)
    files["lib/libhiprtc.so.7"] = library("libhiprtc.so.7", "hiprtc.c", release.hip, needs[:1])
    for tool in tools(LINUX):
        files[f"bin/{tool}"] = f"#!/bin/sh\necho 'rocenv stand-in: {tool} of ROCm {release.rocm}'\n".encode()
    return files


def _linux_libraries() -> dict[str, bytes]:
    files = {f"lib/{soname}": _stub(soname) for soname in _LIBRARY_STUBS}
    files["lib/librocblas.so.5"] = library("librocblas.so.5", "rocblas.c", 0, ("libamdhip64.so.7",))
    files["lib/libhipblas.so.3"] = library("libhipblas.so.3", "trivial.c", 0, ("librocblas.so.5",))
    return files


# ---------------------------------------------------------------- Windows DLLs


def _hip_dll(release: Release) -> Binary:
    defines = (("STANDIN_HIP_VERSION", str(release.hip)),)
    major = release.hip_version.partition(".")[0]
    return Binary(name=f"amdhip64_{major}.dll", source="hip.c", version=release.rocm, defines=defines)


def _rocblas_dll(release: Release) -> Binary:
    defines = (
        ("STANDIN_SERIES", text(release.series)),
        ("STANDIN_ROCBLAS_VERSION", text(_ROCBLAS)),
        ("STANDIN_CRASHES_WITH", text("")),
    )
    links = (_hip_dll(release),)
    return Binary(name="rocblas.dll", source="rocblas.c", version=release.rocm, defines=defines, links=links)


def _dlls(names: Iterable[str], release: Release) -> dict[str, bytes]:
    """Build DLLs that export one function each, all from one compiled DLL."""
    placeholder = f"{_PLACEHOLDER}.dll"
    made = Binary(name=placeholder, source="trivial.c", version=release.rocm, defines=_ONE_FUNCTION)
    content = _workshop().path(made).read_bytes()
    return {f"bin/{name}": _renamed(content, placeholder, name) for name in names}


def _windows_core(release: Release) -> dict[str, bytes]:
    rtc = release.hiprtc_dll
    says = (("STANDIN_SAYS", text(f"rocenv stand-in: ROCm {release.rocm}")), ("STANDIN_EXIT", "0"))
    program = _workshop().path(Binary(name="tool.exe", source="program.c", defines=says)).read_bytes()
    return {
        **_built(_hip_dll(release), Binary(name=rtc, source="hiprtc.c", version=release.rocm)),
        **_dlls((*_CORE_DLLS, rtc.replace("hiprtc", "hiprtc-builtins")), release),
        **{f"bin/{tool}.exe": program for tool in tools(WINDOWS)},
    }


def _windows_libraries(release: Release) -> dict[str, bytes]:
    calls = (*_ONE_FUNCTION, ("STANDIN_CALLS", "rocblas_destroy_handle"))
    rocblas = _rocblas_dll(release)
    hipblas = Binary(
        name="hipblas.dll", source="trivial.c", version=release.rocm, defines=calls, links=(rocblas,)
    )
    return _built(rocblas, hipblas) | _dlls(_LIBRARY_DLLS, release)


def _workshop() -> Workshop:
    return Workshop(Path(__file__).parents[1] / "build" / "standins")  # mingw is slow


def _built(*binaries: Binary, folder: str = "bin") -> dict[str, bytes]:
    return {f"{folder}/{binary.name}": _workshop().path(binary).read_bytes() for binary in binaries}
