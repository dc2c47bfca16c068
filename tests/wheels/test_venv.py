from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from rocenv.core.errors import ArchiveError, FetchError, PrefixError, RocenvError
from rocenv.core.model import Artifact
from rocenv.install.path_length import refuse_long
from rocenv.install.venv import install_wheels, venv_files
from rocenv.sources.interpreter import examine
from rocenv.sources.uv import Uv
from rocenv.system.files import remove_path
from tests.wheels.conftest import ROCM
from tests.wheels.index import Index, Wheel, build_wheel

if TYPE_CHECKING:
    from rocenv.core.model import FileEntry
    from rocenv.sources.interpreter import Interpreter

OTHERS = ("2.4.1+rocm6.2", "2.1.2")  # versions of torch and numpy that are not in the set

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="uses the layout of a POSIX venv"),
]


class Bench:
    """A set with downloaded wheels, which are named by hash, and envs created from it."""

    def __init__(self, folder: Path, wheels: list[Wheel], python: Interpreter, uv: Uv) -> None:
        self.folder, self.python, self.uv = folder, python, uv
        self.files: dict[str, Path] = {}
        chosen = [wheel for wheel in wheels if wheel.filename.split("-")[1] not in OTHERS]
        self.artifacts = [self.fetch(wheel) for wheel in sorted(chosen, key=lambda wheel: wheel.project)]

    def fetch(self, wheel: Wheel, data: bytes | None = None, mtime_s: float | None = None) -> Artifact:
        path = self.folder / "artifacts" / wheel.sha256
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(wheel.data if data is None else data)
        if mtime_s is not None:
            os.utime(path, (mtime_s, mtime_s))
        self.files[wheel.sha256] = path
        name, version = wheel.filename.split("-")[:2]
        url = f"http://127.0.0.1:9/{wheel.filename}"
        return Artifact(kind="wheel", name=name, version=version, url=url, sha256=wheel.sha256, size_bytes=0)

    def create(self, name: str, *artifacts: Artifact) -> tuple[Path, dict[str, FileEntry]]:
        venv = self.folder / "envs" / name / "venv"
        self.uv.make_venv(venv, self.python)
        return venv, self.install(venv, *(artifacts or self.artifacts))

    def install(self, venv: Path, *artifacts: Artifact) -> dict[str, FileEntry]:
        return install_wheels(
            venv, self.site(venv), artifacts, files=self.files, python=self.python, uv=self.uv
        )

    def site(self, venv: Path) -> Path:
        return venv / "lib" / f"python{self.python.series}" / "site-packages"


@pytest.fixture
def bench(tmp_path: Path, torch_wheels: list[Wheel], python: Interpreter, uv: Uv) -> Bench:
    return Bench(tmp_path, torch_wheels, python, uv)


def run(*argv: str | Path) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout


def test_an_installed_set_works_and_has_version_pins(bench: Bench) -> None:
    venv, entries = bench.create("a")
    code = "import torch, importlib.metadata as m; torch.main(); print(m.version('torch'))"
    path, version = run(venv / "bin" / "python", "-c", code).splitlines()
    assert path == f"torch of {bench.site(venv)}/torch/__init__.py"
    assert version == "2.5.1+rocm6.2"
    assert run(venv / "bin" / "torchrun").startswith("torch of ")
    # If there were a direct_url.json, `pip freeze` would print a path on this machine.
    assert not [path for path in entries if path.endswith("direct_url.json")]


def test_installing_wheels_contacts_no_server(bench: Bench, index: Index) -> None:
    bench.artifacts = [
        structs.replace(each, url=f"{index.url(ROCM)}/{each.url.rpartition('/')[2]}")
        for each in bench.artifacts
    ]
    bench.create("a")
    assert index.asked == []


def test_every_installed_file_is_listed_with_its_hash(bench: Bench) -> None:
    venv, entries = bench.create("a")
    (bench.site(venv) / "torch" / "__pycache__").mkdir()
    (bench.site(venv) / "torch" / "__pycache__" / "x.pyc").touch()
    assert venv_files(venv) == entries
    on_disk = {p.relative_to(venv).as_posix(): p for p in venv.rglob("*") if "__pycache__" not in p.parts}
    for path, entry in entries.items():
        target = on_disk[path]
        if entry.link:
            assert os.readlink(target) == entry.link
        else:
            assert hashlib.sha256(target.read_bytes()).hexdigest() == entry.sha256
            assert entry.executable == os.access(target, os.X_OK)
    assert {path for path, p in on_disk.items() if p.is_symlink() or p.is_file()} == set(entries)
    interpreters = [entry.link for path, entry in entries.items() if path.startswith("bin/python")]
    assert [link for link in interpreters if link.startswith("/")]


def test_a_second_env_shares_only_large_files(bench: Bench) -> None:
    sites = [bench.site(bench.create(name)[0]) for name in ("a", "b")]
    large = [(site / "torch" / "lib" / "libtorch_hip.so").stat() for site in sites]
    small = [(site / "torch" / "__init__.py").stat() for site in sites]
    assert large[0].st_ino == large[1].st_ino
    assert [info.st_mode & 0o222 for info in large] == [0, 0]
    assert [info.st_nlink for info in small] == [1, 1]
    assert small[0].st_mode & 0o200


def test_editing_a_small_file_affects_only_its_env(bench: Bench, said: list[str]) -> None:
    first, entries = bench.create("a")
    with (bench.site(first) / "torch" / "__init__.py").open("r+") as stream:
        stream.write("raise SystemExit('edited')")
    _, again = bench.create("b")
    assert again == entries
    assert said == []  # no wheel had to be unpacked again


def test_an_edited_library_does_not_affect_the_next_env(bench: Bench, said: list[str]) -> None:
    first, entries = bench.create("a")
    library = bench.site(first) / "torch" / "lib" / "libtorch_hip.so"
    library.chmod(0o644)
    with library.open("r+b") as stream:
        stream.write(b"edited")
    second, again = bench.create("b")
    assert (bench.site(second) / "torch" / "lib" / "libtorch_hip.so").read_bytes()[:6] != b"edited"
    assert again == entries
    (line,) = said
    assert "torch/lib/libtorch_hip.so` differs from its wheel" in line
    assert "reinstalling torch" in line
    bench.create("c")
    assert len(said) == 1  # the cache is intact again


def test_a_file_missing_from_the_cache_is_restored(bench: Bench, said: list[str]) -> None:
    _, entries = bench.create("a")
    (lost,) = (bench.uv.cache / "archive-v0").glob("*/filelock/__init__.py")
    lost.unlink()
    _, again = bench.create("b")
    assert again == entries
    assert "reinstalling filelock" in said[0]


def test_installing_again_restores_changes(bench: Bench) -> None:
    venv, entries = bench.create("a")
    (bench.site(venv) / "torch" / "__init__.py").write_text("edited")
    (bench.site(venv) / "torch" / "lib" / "libtorch_hip.so").unlink()
    other = build_wheel("numpy", "2.1.2", files={"numpy/other.py": b""})
    (bench.folder / other.filename).write_bytes(other.data)
    bench.uv.run("pip", "install", f"--python={venv}", "--no-index", str(bench.folder / other.filename))
    assert (bench.site(venv) / "numpy" / "other.py").exists()
    assert bench.install(venv, *bench.artifacts) == entries
    assert (bench.site(venv) / "torch" / "__init__.py").stat().st_nlink == 1


def test_installing_again_does_not_require_the_installed_files(bench: Bench) -> None:
    venv, entries = bench.create("a")
    for lost in ("RECORD", "METADATA"):
        (bench.site(venv) / "torch-2.5.1+rocm6.2.dist-info" / lost).unlink()
        (bench.site(venv) / "torch" / "__init__.py").write_text("edited")
        assert bench.install(venv, *bench.artifacts) == entries, lost


def test_users_can_edit_packages_that_they_added(bench: Bench, said: list[str]) -> None:
    venv, _ = bench.create("a")
    added = build_wheel("my-tool", "1.0")
    (bench.folder / added.filename).write_bytes(added.data)
    bench.uv.run("pip", "install", f"--python={venv}", "--no-index", str(bench.folder / added.filename))
    edited = bench.site(venv) / "my_tool" / "__init__.py"
    edited.unlink()
    edited.write_text("mine")
    bench.install(venv, *bench.artifacts)
    assert edited.read_text() == "mine"
    assert said == []


@pytest.mark.parametrize("how", [{"false_record": True}, {"algorithm": "shake_128"}])
def test_a_wheel_that_does_not_match_its_own_record_is_rejected(bench: Bench, how: dict[str, Any]) -> None:
    liar = bench.fetch(build_wheel("numpy", "1.26.4", **how))
    with pytest.raises(RocenvError) as caught:
        bench.create("a", liar)
    assert caught.value.code == "wheel-inconsistent"
    assert "numpy contains files that do not match its RECORD" in caught.value.message


def _names(file: Path, folder: Path) -> bool:
    return file.is_file() and str(folder).encode() in file.read_bytes()


def test_a_renamed_venv_keeps_working(bench: Bench, tmp_path: Path) -> None:
    venv, entries = bench.create("with spaces, and 'quotes'")
    moved = venv.parent.rename(tmp_path / "elsewhere") / "venv"
    assert str(tmp_path / "elsewhere") in run(moved / "bin" / "torchrun")
    left = [path for path in entries if _names(moved / path, venv)]
    assert left == []
    assert bench.install(moved, *bench.artifacts) == entries


def test_the_envs_pip_can_still_replace_torch(bench: Bench, tmp_path: Path) -> None:
    plain, bench.python = bench.python, examine(Path(sys.executable))
    if bench.python.pip_wheel is None:
        pytest.skip("this Python does not include pip")
    venv, entries = bench.create("a")
    assert [path for path in entries if path.endswith("/pip/__main__.py")]
    newer = build_wheel("torch", "2.5.2+rocm6.2", files={"torch/__init__.py": b"", "torch/new.py": b""})
    (tmp_path / newer.filename).write_bytes(newer.data)
    run(venv / "bin" / "python", "-m", "pip", "install", "--no-index", "--no-deps", tmp_path / newer.filename)
    site = bench.site(venv)
    assert (site / "torch" / "new.py").exists()
    assert not (site / "torch" / "lib").exists()
    bench.python = plain
    _, again = bench.create("b")
    assert {path: entries[path] for path in again} == again, "pip wrote to uv's cache"


def test_two_concurrent_installations_succeed(bench: Bench, said: list[str]) -> None:
    results: dict[str, dict[str, FileEntry]] = {}

    def create(name: str) -> None:
        results[name] = bench.create(name)[1]

    threads = [threading.Thread(target=create, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results["a"] == results["b"]
    assert said == []


@pytest.mark.parametrize("used_before", [False, True])
def test_a_wheel_with_the_wrong_hash_is_rejected(bench: Bench, used_before: bool) -> None:
    """The wheel is removed, so that another attempt downloads it, even if its modification time was reset."""
    promised, other = build_wheel("numpy", "1.26.4"), build_wheel("numpy", "1.26.4", script="f2py = numpy:f")
    if used_before:
        bench.create("before", bench.fetch(promised))
    with pytest.raises(FetchError) as caught:
        bench.create("a", bench.fetch(promised, other.data, mtime_s=1))
    assert caught.value.code == "hash-mismatch"
    assert f"its sha256 is {other.sha256}, not {promised.sha256}" in caught.value.message
    assert not bench.files[promised.sha256].exists()


def test_a_wheel_swapped_after_hashing_is_not_installed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted wheel is valid, and is removed after uv has read it."""
    promised, evil = build_wheel("numpy", "1.26.4"), build_wheel("numpy", "1.26.4", script="f2py = numpy:f")
    artifact = bench.fetch(promised)
    install = Uv.install

    def exchanged(*args: Any, **options: Any) -> None:
        bench.fetch(promised, evil.data)
        try:
            install(*args, **options)
        finally:
            bench.fetch(promised)

    monkeypatch.setattr(Uv, "install", exchanged)
    with pytest.raises(ArchiveError, match=r"a wheel is damaged: .*Hash mismatch for `numpy==1\.26\.4`"):
        bench.create("a", artifact)
    monkeypatch.undo()
    bench.create("b", artifact)


def test_a_silently_corrupted_wheel_is_removed(bench: Bench) -> None:
    wheel = build_wheel("numpy", "1.26.4")
    artifact = bench.fetch(wheel)
    bench.create("a", artifact)
    bench.fetch(wheel, wheel.data[:-40] + bytes(40))
    for folder in bench.uv.cache.iterdir():
        if folder.name != "rocenv-wheels":
            remove_path(folder)
    os.utime(bench.uv.cache / "rocenv-wheels" / wheel.sha256, (2e9, 2e9))  # newer than all other files
    with pytest.raises(FetchError, match=r"numpy 1\.26\.4 was damaged in the cache"):
        bench.create("b", artifact)
    bench.create("c", bench.fetch(wheel))


def test_a_wheel_name_with_encoded_slashes_does_not_point_outside(bench: Bench) -> None:
    """The name is from an untrusted lock."""
    wheel = build_wheel("numpy", "1.26.4")
    artifact = structs.replace(bench.fetch(wheel), url=f"http://127.0.0.1:9/..%2f..%2f..%2f{wheel.filename}")
    bench.create("a", artifact)
    (link,) = bench.folder.rglob(wheel.filename)
    assert link.parent == bench.uv.cache / "rocenv-wheels" / wheel.sha256


def test_a_file_that_is_not_a_wheel_is_rejected(bench: Bench) -> None:
    venv, _ = bench.create("a")
    wheel = build_wheel("numpy", "1.26.4")
    for data in (b"<!doctype html>", b"", wheel.data[:-30]):
        promised = replace(wheel, data=data)
        with pytest.raises(ArchiveError, match=r"a wheel is damaged.*numpy==1\.26\.4"):
            bench.install(venv, bench.fetch(promised))


def test_a_missing_wheel_is_reported(bench: Bench) -> None:
    bench.files.clear()
    with pytest.raises(
        FetchError, match=r"the wheel `filelock-3\.13\.1-py3-none-any\.whl` was not downloaded"
    ):
        bench.create("a")


def test_a_lock_for_a_different_python_is_rejected(bench: Bench) -> None:
    foreign = bench.fetch(build_wheel("torch", "2.5.1+rocm6.2", tag="cp37-cp37m-linux_x86_64"))
    with pytest.raises(PrefixError, match=r"the torch wheel is for Python 3\.7, not for") as caught:
        bench.create("a", foreign)
    assert caught.value.hints == ("--python 3.7",)


def test_a_new_venv_never_replaces_an_existing_one(bench: Bench) -> None:
    venv, entries = bench.create("a")
    with pytest.raises(PrefixError, match="already exists"):
        bench.uv.make_venv(venv, bench.python)
    assert venv_files(venv) == entries


def test_a_missing_python_interpreter_is_reported(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(PrefixError, match=r"python3\.99"):
        bench.uv.make_venv(tmp_path / "venv", replace(bench.python, path=tmp_path / "python3.99"))


def test_a_path_too_long_for_windows_is_reported(tmp_path: Path) -> None:
    names = ["torch/__init__.py", f"torch/include/{'x' * 240}.h"]
    with pytest.raises(
        PrefixError, match=r"the path of `torch/include/x+\.h` in .* but Windows limits paths to 259"
    ) as caught:
        refuse_long(tmp_path, names)
    assert caught.value.code == "path-too-long"
    assert "ROCENV_HOME" in caught.value.hints[0]
    refuse_long(tmp_path, names[:1])
