from __future__ import annotations

import json
import platform
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from rocenv.core.errors import RocenvError
from rocenv.sources.interpreter import find_python, is_from_store
from rocenv.sources.uv import Uv
from rocenv.sources.uv_outcome import Outcome

OWN = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.mark.parametrize("spec", ["", OWN, f">={OWN},<{sys.version_info[0] + 1}", f"=={OWN}.*"])
def test_rocenvs_own_python_is_used_if_it_matches(uv: Uv, spec: str) -> None:
    found = find_python(spec, uv)
    assert found.path == Path(sys.executable)
    assert found.version == ".".join(map(str, sys.version_info[:3]))
    assert found.series == OWN


@pytest.mark.skipif(sys.platform == "win32", reason="the other Python is a shell script")
def test_a_python_specified_by_path_is_used(uv: Uv, tmp_path: Path) -> None:
    other = tmp_path / "my python"
    other.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    other.chmod(0o755)
    assert find_python(str(other), uv).series == OWN


@pytest.mark.parametrize("spec", ["3.99", ">=3.99", "/nowhere/python3", "python3.99"])
def test_a_missing_python_is_an_error_with_a_hint(uv: Uv, said: list[str], spec: str) -> None:
    with pytest.raises(RocenvError) as caught:
        find_python(spec, replace(uv, environ={**uv.environ, "PATH": "/nowhere"}))
    assert caught.value.code == "python-missing"
    assert f"cannot find Python `{spec}`" in caught.value.message
    assert "--python" in caught.value.hints[-1]
    assert said == []


def test_a_python_that_does_not_run_is_reported(uv: Uv, tmp_path: Path) -> None:
    broken = tmp_path / "python3"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    with pytest.raises(RocenvError, match="Python"):
        find_python(str(broken), uv)


@pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"),
    reason="the Python download is for this platform only",
)
def test_a_missing_python_is_downloaded_into_the_home(
    uv: Uv, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    too_old = put_python(tmp_path / "python2", "2.7.1")  # poses as the Python that runs rocenv
    environ = {**uv.environ, "PATH": "/nowhere", "UV_PYTHON_DOWNLOADS": "automatic"}
    environ["UV_PYTHON_DOWNLOADS_JSON_URL"] = downloads_of(Path(sys.executable).resolve(), tmp_path)
    monkeypatch.setattr(sys, "executable", str(too_old))
    assert find_python(OWN, replace(uv, environ=environ)).series == OWN
    assert said == [f"Python {OWN} is not installed; downloading it"]
    assert list(uv.pythons.glob(f"cpython-{OWN}.*/bin/python3"))
    # The Python is installed now, so this works even if downloads are disabled.
    assert find_python(OWN, replace(uv, offline=True, environ=environ)).series == OWN
    assert len(said) == 1
    assert not (tmp_path / "user" / ".local" / "bin").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="the other Python is a shell script")
def test_a_python_from_the_microsoft_store_is_rejected_even_if_requested(
    uv: Uv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This includes venvs made from it, which are outside the Store's folder."""
    venv = put_python(tmp_path / "venv" / "python", "3.98.1", base="C:/Program Files/WindowsApps/Python.3.98")
    monkeypatch.setattr(Uv, "run", lambda *_: Outcome(code=0, stdout=f"{venv}\n", stderr=""))
    with pytest.raises(RocenvError, match="Microsoft Store") as caught:
        find_python(str(venv), uv)
    assert caught.value.code == "python-missing"
    assert "python.org" in caught.value.hints[0]


@pytest.mark.skipif(sys.platform == "win32", reason="the other Pythons are shell scripts")
def test_a_python_from_the_microsoft_store_that_uv_finds_is_skipped(
    uv: Uv, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = (
        tmp_path / "WindowsApps" / "python.exe",
        put_python(tmp_path / "managed" / "python", "3.98.1"),
    )
    managed = ""

    def run(_: Uv, *arguments: str, **_more: object) -> Outcome:
        nonlocal managed
        if "install" in arguments:
            managed = str(other)
        path = managed if "--managed-python" in arguments else str(store)
        return Outcome(code=0 if path else 2, stdout=f"{path}\n", stderr="")

    monkeypatch.setattr(Uv, "run", run)
    with pytest.raises(
        RocenvError,
        match=r"cannot find Python `3\.98`: the only one on this machine is from the Microsoft Store",
    ):
        find_python("3.98", uv)
    assert find_python("3.98", replace(uv, environ={})).path == other
    assert said == ["Python 3.98 is not installed; downloading it"]


def test_microsoft_store_paths_are_recognized() -> None:
    assert is_from_store(Path(r"C:\Users\me\AppData\Local\Microsoft\WindowsApps\python3.11.exe"))
    assert not is_from_store(Path(r"C:\Users\me\MyWindowsApps\python.exe"))


def put_python(path: Path, version: str, base: str = "/usr") -> Path:
    """Write a script that responds to rocenv's queries like a Python of this version."""
    path.parent.mkdir(exist_ok=True)
    answer = {"version": version, "free_threaded": False, "pip_wheel": "", "base": base}
    path.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
    path.chmod(0o755)
    return path


def downloads_of(real: Path, folder: Path) -> str:
    """Write a download list in uv's format with one Python: a script that runs `real`."""
    version = ".".join(map(str, sys.version_info[:3]))
    root = folder / "build" / "python"
    (root / "bin").mkdir(parents=True)
    library = root / "lib" / f"python{OWN}"
    library.mkdir(parents=True)
    (library / "_sysconfigdata__linux_x86_64-linux-gnu.py").write_text(
        "# system configuration generated and used by the sysconfig module\nbuild_time_vars = {}\n"
    )
    program = root / "bin" / f"python{OWN}"
    program.write_text(f'#!/bin/sh\nexec "{real}" "$@"\n')
    program.chmod(0o755)
    for name in ("python", "python3"):
        (root / "bin" / name).symlink_to(program.name)
    with tarfile.open(folder / "python.tar.gz", "w:gz") as archive:
        archive.add(root, "python")
    entry = {
        "name": "cpython",
        "arch": {"family": "x86_64", "variant": None},
        "os": "linux",
        "libc": "gnu",
        **dict(zip(("major", "minor", "patch"), sys.version_info[:3], strict=True)),
        "prerelease": "",
        "url": (folder / "python.tar.gz").as_uri(),
        "sha256": None,
        "variant": None,
        "build": "20240101",
    }
    (folder / "downloads.json").write_text(json.dumps({f"cpython-{version}-linux-x86_64-gnu": entry}))
    return (folder / "downloads.json").as_uri()
