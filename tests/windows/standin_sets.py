"""The fake DLLs in a HIP SDK, a ZLUDA build and a torch wheel, named as in rocenv's data."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from rocenv.core.versions import series
from rocenv.data.load import load
from tests.windows.standin_compiler import Binary, text

if TYPE_CHECKING:
    from rocenv.data.knowledge import Verdict
    from rocenv.data.rows import Matrix
    from rocenv.data.windows import Asset, HipSdk, ZludaBuild

INCIDENT = "sdnext-3414"
WRAPS_NVRTC_SINCE = Version(
    "3.8.5"
)  # ZLUDA builds of this version and later have an nvrtc that calls NVIDIA's
SAYS_NIGHTLY_SINCE = Version("3.8.8")
STOCK_TARGETS = ("gfx1030", "gfx1100", "gfx1101", "gfx1102")
NO_DRIVER = text("there is no NVIDIA driver")
# DLLs with one function: name -> function, and the DLLs that it calls.
_TRIVIAL = {
    "rocsolver": ("rocsolver_get_version_string_size", ("rocblas", "hip")),
    "rocsparse": ("rocsparse_create_handle", ("hip",)),
    "hipfft": ("hipfftCreate", ("hip",)),
    "hipblas": ("hipblasCreate", ("rocblas", "rocsolver")),
    "cusparse": ("cusparseCreate", ("rocsparse", "hip")),
    "cufft": ("cufftCreate", ("hipfft",)),
    "cufftw": ("fftwf_execute", ()),
    "nvml": ("nvmlInit_v2", ()),
    "nccl": ("ncclGetVersion", ()),
    "cudart": ("cudaRuntimeGetVersion", ()),
    "cublaslt": ("cublasLtCreate", ("hipblaslt",)),
    "cudnn": ("cudnnCreate", ("miopen",)),
    "hipblaslt": ("hipblasLtCreate", ()),
    "miopen": ("miopenCreate", ()),
    "zluda_dump": ("zluda_dump", ()),
    "zluda_redirect": ("zluda_redirect", ()),
    "zluda_trace": ("zluda_trace", ()),
    "nvcudart_hybrid64": ("cudaGetDriverEntryPoint", ()),
    "nvapi64": ("nvapi_QueryInterface", ()),
}
_CALLED = {
    "hip": "hipFree",
    "rocblas": "rocblas_destroy_handle",
}  # the function to call in DLLs that have several
_NOT_SUPPORTED = {"nccl": "5", "nvml": "3"}  # placeholders in ZLUDA, too
_NVIDIA = {  # DLLs in a CUDA torch wheel: file -> function, status code for "no driver"
    "cublasLt64_11.dll": ("cublasLtCreate", "1"),
    "cusparse64_11.dll": ("cusparseCreate", "1"),
    "cufft64_10.dll": ("cufftCreate", "5"),
    "cufftw64_10.dll": ("fftwf_execute", "5"),
    "cudart64_110.dll": ("cudaRuntimeGetVersion", "35"),
    "cudnn64_9.dll": ("cudnnCreate", "1"),
}


@lru_cache(maxsize=1)
def matrix() -> Matrix:
    """Return the data in this checkout, which is read only once."""
    return load()


def sdk_row(version: str) -> HipSdk:
    """Return a HIP SDK's row by version or series."""
    rows = [row for row in matrix().hip_sdk if row.version == version or series(row.version) == version]
    assert len(rows) == 1, f"the matrix has {len(rows)} HIP SDKs {version}"
    assert rows[0].runtime, f"the names of the DLLs in HIP SDK {version} are not known"
    return rows[0]


def build_row(project: str, version: str) -> ZludaBuild:
    """Return a ZLUDA build's row."""
    (row,) = (row for row in matrix().zluda if (row.project, row.version) == (project, version))
    return row


def asset_of(build: ZludaBuild, flavour: str) -> Asset:
    """Return a variant of a build's Windows archive: plain, rocm5, rocm6 or nightly."""
    (asset,) = (each for each in build.assets if (each.platform, each.flavour) == ("windows", flavour))
    return asset


def incident() -> Verdict:
    """Return the verdict for sdnext#3414."""
    (row,) = (row for row in matrix().verdict if row.code == INCIDENT)
    return row


def hip_dll(sdk: HipSdk) -> Binary:
    """Describe an SDK's HIP runtime."""
    major, minor, patch = (*_part(sdk, "hip", series(sdk.version)).split("."), "0")[:3]
    number = str(int(major) * 10_000_000 + int(minor) * 100_000 + int(patch))
    return Binary(
        name=sdk.runtime[0],
        source="hip.c",
        version=sdk.version,
        defines=(("STANDIN_HIP_VERSION", number),),
    )


def rocblas_dll(sdk: HipSdk, version: str = "") -> Binary:
    """Describe an SDK's rocBLAS; a library pack's rocBLAS reports a different version."""
    bad = incident()
    crashes = bad.zluda.removeprefix("==") if sdk.version in SpecifierSet(bad.rocm) else ""
    return Binary(
        name="rocblas.dll",
        source="rocblas.c",
        version=version or sdk.version,
        defines=(
            ("STANDIN_SERIES", text(series(sdk.version))),
            ("STANDIN_ROCBLAS_VERSION", text(_part(sdk, "rocblas", "4.0.0"))),
            ("STANDIN_CRASHES_WITH", text(crashes)),
        ),
        links=(hip_dll(sdk),),
    )


def sdk_dlls(sdk: HipSdk) -> tuple[Binary, ...]:
    """Describe all DLLs in a HIP SDK."""
    found = [hip_dll(sdk)]
    found += [_trivial(name, "amd_comgr", "amd_comgr_get_version", sdk.version) for name in sdk.comgr]
    for name in sdk.hiprtc:
        if "builtins" in name:
            found.append(_trivial(name, "builtins", "hiprtc_builtins", sdk.version))
        else:
            found.append(Binary(name=name, source="hiprtc.c", version=sdk.version))
    found += [_library(name.removesuffix(".dll").lower(), sdk, sdk.version, name) for name in sdk.libraries]
    return tuple(found)


def zluda_binaries(build: ZludaBuild, asset: Asset, claims: str = "") -> tuple[Binary, ...]:
    """Return all files in a ZLUDA build's archive.

    Args:
        claims: A wrong version for the files to report, or "" for the correct one.
    """
    rocm = asset.rocm[0] if "." in asset.rocm[0] else max(_series_of_major(asset.rocm[0]), key=Version)
    names = build.files + (build.nightly_files if asset.flavour == "nightly" else ())
    return tuple(
        _zluda_file(name, build, asset, sdk_row(rocm), claims or build.version)
        for name in names
        if "*" not in name and "<" not in name
    )


def torch_dlls(version: str) -> tuple[Binary, ...]:
    """Describe the DLLs in `torch/lib` of a wheel for CUDA 11.8."""
    found = [
        Binary(name="cublas64_11.dll", source="nvidia.c", version="11.11.3.6"),
        Binary(name="nvrtc64_112_0.dll", source="nvrtc.c", version="11.8.89"),
    ]
    found += [
        _trivial(name, "nvidia", function, "11.8", answer=status, complaint=NO_DRIVER)
        for name, (function, status) in _NVIDIA.items()
    ]
    libraries = {each.name: each for each in found}
    needed = ("cublas64_11.dll", "cublasLt64_11.dll", "cudnn64_9.dll")
    found.append(
        Binary(
            name="caffe2_nvrtc.dll",
            source="trivial.c",
            version=version,
            defines=_trivial_defines("caffe2_nvrtc", "caffe2_nvrtc", calls=("nvrtcGetNumSupportedArchs",)),
            links=(libraries["nvrtc64_112_0.dll"],),
        )
    )
    links = tuple(libraries[name] for name in needed)
    found.append(Binary(name="torch_cuda.dll", source="torch_cuda.c", version=version, links=links))
    return tuple(found)


def _zluda_file(name: str, build: ZludaBuild, asset: Asset, sdk: HipSdk, says: str) -> Binary:
    stem = name.partition(".")[0].lower()
    role = stem.partition("64_")[0]  # vosen's files have CUDA names, such as cublas64_11.dll
    if name.endswith(".exe"):
        program = (("STANDIN_SAYS", text(f"ZLUDA {says}")), ("STANDIN_EXIT", "1"))
        return Binary(name=name, source="program.c", version=says, defines=program)
    if role == "nvcuda":
        defines = _nvcuda_defines(build, asset)
        return Binary(name=name, source="nvcuda.c", version=says, defines=defines, links=(hip_dll(sdk),))
    if role == "cublas":
        links = (rocblas_dll(sdk), _library("rocsolver", sdk, sdk.version, "rocsolver.dll"))
        build_is = (("STANDIN_ZLUDA_VERSION", text(build.version)),)
        return Binary(name=name, source="cublas.c", version=says, defines=build_is, links=links)
    if role == "nvrtc":
        wraps = Version(build.version) >= WRAPS_NVRTC_SINCE
        return Binary(
            name=name, source="nvrtc.c", version=says, defines=(("STANDIN_WRAPS", "1"),) if wraps else ()
        )
    return _library(role, sdk, says, name)


def _nvcuda_defines(build: ZludaBuild, asset: Asset) -> tuple[tuple[str, str], ...]:
    major, minor = (build.cuda or "12.2").split(".")
    found = [("STANDIN_CUDA_VERSION", str(int(major) * 1000 + int(minor) * 10))]
    if build.project == "lshqqytiger":
        found.append(("STANDIN_IS_LSHQQYTIGER", "1"))
        if Version(build.version) >= SAYS_NIGHTLY_SINCE:
            found.append(("STANDIN_NIGHTLY", str(int(asset.flavour == "nightly"))))
    return tuple(found)


def _library(role: str, sdk: HipSdk, version: str, name: str) -> Binary:
    """Describe a simple library that calls the SDK's libraries."""
    if role == "rocblas":
        return rocblas_dll(sdk)
    function, needs = _TRIVIAL[role]
    links = tuple(_needed(each, sdk) for each in needs)
    calls = tuple(_CALLED[each] if each in _CALLED else _TRIVIAL[each][0] for each in needs)
    defines = _trivial_defines(role, function, calls=calls, answer=_NOT_SUPPORTED.get(role, "0"))
    return Binary(name=name, source="trivial.c", version=version, defines=defines, links=links)


def _needed(role: str, sdk: HipSdk) -> Binary:
    if role == "hip":
        return hip_dll(sdk)
    return _library(role, sdk, sdk.version, {"miopen": "MIOpen.dll"}.get(role, f"{role}.dll"))


def _trivial(
    name: str, group: str, function: str, version: str, *, answer: str = "0", complaint: str = ""
) -> Binary:
    defines = _trivial_defines(group, function, answer=answer, complaint=complaint)
    return Binary(name=name, source="trivial.c", version=version, defines=defines)


def _trivial_defines(
    group: str, function: str, *, calls: tuple[str, ...] = (), answer: str = "0", complaint: str = ""
) -> tuple[tuple[str, str], ...]:
    found = [("STANDIN_GROUP", text(group)), ("STANDIN_FUNCTION", function), ("STANDIN_ANSWER", answer)]
    found += zip(("STANDIN_CALLS", "STANDIN_CALLS_TOO"), calls, strict=False)
    if complaint:
        found.append(("STANDIN_COMPLAINT", complaint))
    return tuple(found)


def _series_of_major(major: str) -> list[str]:
    return [
        series(row.version) for row in matrix().hip_sdk if row.version.split(".")[0] == major and row.runtime
    ]


def _part(sdk: HipSdk, part: str, otherwise: str) -> str:
    found = (row.parts[part] for row in matrix().release if row.version == sdk.version and part in row.parts)
    return next(found, otherwise)
