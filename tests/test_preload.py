from __future__ import annotations

from msgspec.structs import replace

from rocenv.preload import folders_of, preload, shims_of
from tests.sets import SHIMS, TORCH_LIB, zluda_lock

BIN = "rocm/5.7/bin"


def test_libraries_are_loaded_after_their_dependencies() -> None:
    order = preload(zluda_lock(), {f"{BIN}/amdhip64.dll"}, in_torch=False)
    assert order == (
        f"{BIN}/amdhip64.dll",
        "zluda/nvcuda.dll",
        "zluda/nvml.dll",
        f"{BIN}/rocblas.dll",
        "zluda/cublas64_11.dll",
        "zluda/nvrtc64_112_0.dll",
    )
    assert folders_of(zluda_lock()) == (BIN, "zluda")


def test_a_runtime_missing_from_the_sdk_is_loaded_from_the_driver() -> None:
    assert preload(zluda_lock(), (), in_torch=False)[0] == "zluda/nvcuda.dll"


def test_the_original_torch_file_is_copied_before_it_is_replaced() -> None:
    first, *rest = shims_of(zluda_lock(), in_torch=True)
    assert (first.path, first.source) == (
        "zluda/nvrtc_cuda.dll",
        ".rocenv/originals/nvrtc64_112_0.dll",
    )
    assert [shim.path for shim in rest] == [f"{TORCH_LIB}/cublas64_11.dll", f"{TORCH_LIB}/nvrtc64_112_0.dll"]
    assert all(shim.original for shim in rest)


def test_a_zluda_build_with_cuda_file_names_needs_no_copies() -> None:
    lock = zluda_lock()
    same = replace(
        SHIMS, files=tuple(replace(file, file=file.stands_for) for file in SHIMS.files), original=""
    )
    parts = tuple(replace(part, shims=same) if part.shims else part for part in lock.components)
    assert shims_of(replace(lock, components=parts), in_torch=False) == ()


def test_a_set_without_zluda_has_no_shims() -> None:
    lock = zluda_lock()
    plain = replace(lock, components=tuple(part for part in lock.components if part.kind != "zluda"))
    assert (shims_of(plain, in_torch=True), preload(plain, (), in_torch=False), folders_of(plain)) == (
        (),
        (),
        (),
    )
