from __future__ import annotations

import json
import platform
import sys
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocenv.errors import RocenvError
from rocenv.sources.interpreter import find_python

if TYPE_CHECKING:
    from rocenv.sources.uv import Uv

OWN = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.mark.parametrize("spec", ["", OWN, f">={OWN},<{sys.version_info[0] + 1}", f"=={OWN}.*"])
def test_rocenvs_own_python_is_taken_where_it_fits(uv: Uv, spec: str) -> None:
    found = find_python(spec, uv)
    assert found.path == Path(sys.executable)
    assert found.version == ".".join(map(str, sys.version_info[:3]))
    assert found.series == OWN


@pytest.mark.skipif(sys.platform == "win32", reason="the other Python is a shell script")
def test_a_python_given_by_path_is_taken(uv: Uv, tmp_path: Path) -> None:
    other = tmp_path / "my python"
    other.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    other.chmod(0o755)
    assert find_python(str(other), uv).series == OWN


@pytest.mark.parametrize("spec", ["3.99", ">=3.99", "/nowhere/python3", "python3.99"])
def test_a_python_that_is_not_here_is_named_with_what_to_do(uv: Uv, said: list[str], spec: str) -> None:
    environ = {**uv.environ, "PATH": "/nowhere"}
    with pytest.raises(RocenvError) as caught:
        find_python(spec, replace(uv, environ=environ))
    assert caught.value.code == "python-missing"
    assert f"no Python `{spec}`" in caught.value.message
    assert "--python" in caught.value.hints[0]
    assert said == []


def test_a_python_that_does_not_run_is_named(uv: Uv, tmp_path: Path) -> None:
    broken = tmp_path / "python3"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    with pytest.raises(RocenvError, match="Python"):
        find_python(str(broken), uv)


@pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"), reason="the download is for one platform"
)
def test_a_python_that_is_nowhere_is_fetched_into_the_home(
    uv: Uv, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    too_old = tmp_path / "python2"  # stands for the one that runs rocenv
    answer = json.dumps({"version": "2.7.1", "free_threaded": False, "pip_wheel": ""})
    too_old.write_text(f"#!/bin/sh\necho '{answer}'\n")
    too_old.chmod(0o755)
    environ = {**uv.environ, "PATH": "/nowhere", "UV_PYTHON_DOWNLOADS": "automatic"}
    environ["UV_PYTHON_DOWNLOADS_JSON_URL"] = downloads_of(Path(sys.executable).resolve(), tmp_path)
    monkeypatch.setattr(sys, "executable", str(too_old))
    assert find_python(OWN, replace(uv, environ=environ)).series == OWN
    assert said == [f"No Python {OWN} on this machine; fetching one"]
    assert list(uv.pythons.glob(f"cpython-{OWN}.*/bin/python3"))
    # It is there now: also for those who forbid downloads.
    assert find_python(OWN, replace(uv, offline=True, environ=environ)).series == OWN
    assert len(said) == 1
    assert not (tmp_path / "user" / ".local" / "bin").exists()


def downloads_of(real: Path, folder: Path) -> str:
    """A list of downloads of the form uv reads: one, whose Python is a script that runs `real`."""
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
