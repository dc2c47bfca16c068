from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from rocenv.system import pe
from tests.dlls import dll

# Every compiled DLL depends on these.
SYSTEM = ("KERNEL32.dll", "msvcrt.dll")


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """DLLs in which cublas64_11 needs rocblas, which needs amdhip64_6 and delay-loads hipblaslt."""
    folder = tmp_path_factory.mktemp("set")
    hip = dll(folder / "amdhip64_6.dll", numbers="6,1,24177,0", text="6.1.24177-somebody's build")
    late = dll(folder / "hipblaslt.dll")
    blas = dll(folder / "rocblas.dll", needs=[hip], delayed=late.name, text="4.2.4")
    dll(folder / "cublas64_11.dll", needs=[blas], exports=["cublasCreate_v2", "cublasSgemm_v2"])
    return folder


@pytest.fixture
def place(shelf: Path, tmp_path: Path) -> Path:
    """A copy of these DLLs, with the Windows ones in a separate folder."""
    (tmp_path / "set").mkdir()
    for path in shelf.iterdir():
        (tmp_path / "set" / path.name).write_bytes(path.read_bytes())
    (tmp_path / "system32").mkdir()
    for name in SYSTEM:
        (tmp_path / "system32" / name.lower()).write_bytes(b"not even looked at")
    return tmp_path


def walk(place: Path, name: str = "cublas64_11.dll") -> list[str]:
    return pe.missing(place / "set" / name, [place / "set"], [place / "system32"])


def test_headers_are_read(shelf: Path) -> None:
    library = pe.read(shelf / "rocblas.dll")
    assert library.machine == "64-bit"
    assert set(library.imports) >= {"amdhip64_6.dll", "KERNEL32.dll"}
    assert "hipblaslt.dll" not in library.imports, "the import is delay-loaded"
    assert library.file_version == "4.2.4", "the version comes from the text, because all numbers are 0"
    assert pe.read(shelf / "amdhip64_6.dll").file_version == "6.1.24177.0"
    assert pe.read(shelf / "hipblaslt.dll").file_version == ""


def test_exported_names_are_read(shelf: Path) -> None:
    names = pe.export_names(shelf / "cublas64_11.dll")
    assert {"cublasCreate_v2", "cublasSgemm_v2"} <= names
    assert "cublasHgemm" not in names


def test_a_complete_set_has_no_missing_libraries(place: Path) -> None:
    assert walk(place) == []


def test_a_missing_library_is_reported_with_its_importer(place: Path) -> None:
    (place / "set" / "amdhip64_6.dll").unlink()
    assert walk(place) == ["cublas64_11.dll needs rocblas.dll, which needs amdhip64_6.dll: not found"]


def test_delay_loaded_libraries_can_be_missing(place: Path) -> None:
    (place / "set" / "hipblaslt.dll").unlink()
    assert walk(place) == []


def test_dll_names_are_case_insensitive(place: Path) -> None:
    (place / "set" / "amdhip64_6.dll").rename(place / "set" / "AMDHIP64_6.DLL")
    assert walk(place) == []


def test_a_dll_in_the_first_folder_is_used_even_if_it_is_incompatible(place: Path) -> None:
    (place / "first").mkdir()
    other = bytearray((place / "set" / "rocblas.dll").read_bytes())
    header = int.from_bytes(other[0x3C:0x40], "little")
    other[header + 4 : header + 6] = b"\x4c\x01"
    (place / "first" / "rocblas.dll").write_bytes(other)
    (found,) = pe.missing(
        place / "set" / "cublas64_11.dll", [place / "first", place / "set"], [place / "system32"]
    )
    assert f"`{place / 'first' / 'rocblas.dll'}` is 32-bit, but a 64-bit file is needed" in found


def test_an_import_that_is_not_a_library_is_reported(place: Path) -> None:
    (place / "set" / "rocblas.dll").write_bytes(b"<html>")
    (text,) = walk(place)
    assert "rocblas.dll` is not a Windows library" in text


def test_missing_system_libraries_are_reported(place: Path) -> None:
    (place / "system32" / "kernel32.dll").unlink()
    assert any("needs KERNEL32.dll: not found" in text for text in walk(place))


def test_api_sets_do_not_need_a_file(place: Path) -> None:
    api = place / "set" / "api-ms-win-core-heap-l1-1-0.dll"
    dll(api)
    dll(place / "set" / "user.dll", needs=[api])
    api.unlink()
    assert walk(place, "user.dll") == []


def test_circular_imports_terminate(place: Path) -> None:
    a, b = place / "set" / "a.dll", place / "set" / "b.dll"
    dll(b)
    dll(a, needs=[b])
    b.unlink()
    dll(b, needs=[a, place / "set" / "gone.dll"])
    assert walk(place, "a.dll") == ["a.dll needs b.dll, which needs gone.dll: not found"]


def test_a_missing_search_folder_is_skipped(place: Path) -> None:
    path = place / "set" / "cublas64_11.dll"
    found = pe.missing(str(path), ["", place / "nowhere", str(place / "set")], [place / "system32"])
    assert found == []


@pytest.mark.parametrize("kept", [0, 1, 63, 64, 300, 1500, -1])
def test_a_truncated_library_is_rejected(place: Path, kept: int) -> None:
    path = place / "set" / "rocblas.dll"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(pe.NotPe, match=r"rocblas\.dll"):
        pe.read(path)


def test_files_that_are_not_dlls_are_rejected(place: Path) -> None:
    for content in (b"MZ", b"\x7fELF" + bytes(100), b"MZ" + b"\xff" * 500):
        (place / "x").write_bytes(content)
        with pytest.raises(pe.NotPe):
            pe.read(place / "x")
        with pytest.raises(pe.NotPe):
            pe.export_names(place / "x")


def test_a_dll_with_any_flipped_byte_is_read_or_rejected(place: Path) -> None:
    gc.freeze()  # pefile runs the garbage collector for every file; exclude objects from earlier tests
    whole = (place / "set" / "rocblas.dll").read_bytes()
    path = place / "set" / "flipped.dll"
    for at in range(0, min(len(whole), 0x600), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            pe.read(path)
            pe.export_names(path)
        except pe.NotPe as error:
            assert "flipped.dll" in error.message


@pytest.mark.skipif(
    sys.platform == "win32", reason="Windows allows moving open files, depending on their flags"
)
def test_a_dll_is_closed_after_reading(place: Path) -> None:
    path = place / "set" / "rocblas.dll"
    pe.read(path)
    pe.export_names(path)
    pe.missing(path, [place / "set"], [place / "system32"])
    # On Windows, a file stays in use for as long as it is mapped.
    assert str(path) not in Path("/proc/self/maps").read_text()
    open_files = [entry.readlink() for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
    assert path not in open_files


A, B = "int rocblas_a(void) { return 0; }", "int rocblas_b(void) { return 0; }"
USES_BOTH = "int rocblas_a(void); int rocblas_b(void); int create(void) { return rocblas_a() + rocblas_b(); }"


def build(folder: Path, name: str, source: str, *needs: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    code, made = folder / f"{name}.c", folder / name
    code.write_text(source)
    command = ["x86_64-w64-mingw32-gcc", "-shared", str(code), *map(str, needs), "-o", str(made)]
    subprocess.run(command, check=True, timeout=60)
    return made


def test_dll_load_failures_are_explained(tmp_path: Path) -> None:
    """The DLLs are built with mingw; `zluda/cublas.dll` needs `bin/rocblas.dll`."""
    rocblas = build(tmp_path / "bin", "rocblas.dll", A + B)
    cublas = build(tmp_path / "zluda", "cublas.dll", USES_BOTH, rocblas)
    system = tmp_path / "system32"
    system.mkdir()
    for name in SYSTEM:
        (system / name).touch()

    def explain() -> str:
        return pe.explain_not_loading(
            str(cublas), (str(cublas.parent), "", str(rocblas.parent)), [str(system)]
        )

    assert explain().startswith("all its imports exist")
    build(rocblas.parent, "rocblas.dll", A)
    assert explain() == f"cublas.dll needs `rocblas_b`, which `{rocblas}` does not export"
    rocblas.unlink()
    assert explain() == "cublas.dll needs rocblas.dll: not found"
    cublas.write_text("<html>404</html>" * 100)
    assert f"`{cublas}` is not a Windows library" in explain()
