"""Creating and undoing shims, on any system, in a folder that resembles a Windows env."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocenv.core.errors import PrefixError
from rocenv.install.shims import apply_shims, base_files, undo_shims
from rocenv.integrity import file_entry
from rocenv.prefix import Prefix
from tests.sets import TORCH_LIB, zluda_lock

if TYPE_CHECKING:
    from pathlib import Path

    from rocenv.core.model import FileEntry

FILES = {
    "zluda/nvcuda.dll": b"zluda nvcuda",
    "zluda/cublas.dll": b"zluda cublas",
    "zluda/nvrtc.dll": b"zluda nvrtc",
    f"{TORCH_LIB}/cublas64_11.dll": b"nvidia cublas",
    f"{TORCH_LIB}/nvrtc64_112_0.dll": b"nvidia nvrtc",
}


@pytest.fixture
def prefix(tmp_path: Path) -> Prefix:
    for path, content in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
        (tmp_path / path).chmod(0o444)
    return Prefix(tmp_path)


def entries(prefix: Prefix) -> dict[str, FileEntry]:
    return {path: file_entry(prefix.path / path) for path in FILES}


def content(prefix: Prefix) -> dict[str, bytes]:
    return {
        path.relative_to(prefix.path).as_posix(): path.read_bytes()
        for path in sorted(prefix.path.rglob("*"))
        if path.is_file()
    }


def test_shims_in_a_folder_of_their_own_leave_torch_unchanged(prefix: Prefix) -> None:
    made = apply_shims(prefix, zluda_lock(), entries(prefix))
    there = content(prefix)
    assert {path: there[path] for path in FILES} == FILES
    assert there["zluda/cublas64_11.dll"] == b"zluda cublas"
    assert there["zluda/nvrtc_cuda.dll"] == b"nvidia nvrtc"
    assert set(made) == set(there) - set(FILES)
    assert all(file_entry(prefix.path / path) == entry for path, entry in made.items())


@pytest.mark.parametrize("times", [1, 2])
def test_shims_in_torch_can_be_undone(prefix: Prefix, times: int) -> None:
    base = entries(prefix)
    for _ in range(times):
        made = apply_shims(prefix, zluda_lock(), base, in_torch=True)
    there = content(prefix)
    assert there[f"{TORCH_LIB}/cublas64_11.dll"] == b"zluda cublas"
    assert there[f"{TORCH_LIB}/nvrtc64_112_0.dll"] == b"zluda nvrtc"
    assert there["zluda/nvrtc_cuda.dll"] == b"nvidia nvrtc", "the wrapper must not call itself"
    assert base_files(zluda_lock(), base | made) == base
    undo_shims(prefix, zluda_lock())
    after = content(prefix)
    assert {path: after[path] for path in FILES} == FILES


def test_a_file_from_another_program_is_not_saved_as_torchs_original(prefix: Prefix) -> None:
    path = prefix.path / TORCH_LIB / "cublas64_11.dll"
    base = entries(prefix)
    path.chmod(0o644)
    path.write_bytes(b"of an upgrade by hand")
    with pytest.raises(PrefixError, match="is not the original torch file") as caught:
        apply_shims(prefix, zluda_lock(), base, in_torch=True)
    assert "rocenv repair" in caught.value.hints[0]
    assert path.read_bytes() == b"of an upgrade by hand", "the unknown file is kept"


def test_a_wrapper_never_wraps_itself(prefix: Prefix) -> None:
    """Otherwise nvrtc_cuda.dll would be the ZLUDA wrapper and call itself, as in ComfyUI-Zluda and Applio."""
    path = prefix.path / TORCH_LIB / "nvrtc64_112_0.dll"
    path.chmod(0o644)
    path.write_bytes(FILES["zluda/nvrtc.dll"])
    for in_torch in (False, True):
        with pytest.raises(PrefixError, match="call itself"):
            apply_shims(prefix, zluda_lock(), entries(prefix), in_torch=in_torch)


def test_an_incomplete_zluda_build_is_an_error(prefix: Prefix) -> None:
    base = {path: entry for path, entry in entries(prefix).items() if path != "zluda/cublas.dll"}
    with pytest.raises(PrefixError, match=r"no component contains `zluda/cublas\.dll`"):
        apply_shims(prefix, zluda_lock(), base)
