"""ROCm as Python wheels from a loopback copy of AMD's indexes, with the real rocenv, uv and pip."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import pytest
from uv import find_uv_bin

from rocenv.core.errors import ArchiveError
from rocenv.core.model import Artifact, FileEntry
from rocenv.data.load import load
from rocenv.home import Home
from rocenv.install.python_package import require_package, wheel_of
from rocenv.prefix import prefix_of
from tests import amd_real, amd_wheels, forked
from tests.amd_binaries import LINUX
from tests.amd_index import CURRENT, AmdIndex
from tests.host.roots import Root
from tests.webserver import serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CREATE = ("--rocm", "10.0", "--torch", "--target", "gfx1151")
WITHOUT_TORCH = ("--rocm", "10.0", "--target", "gfx1100")
CONSTRAINTS = "rocenv-keeps-rocm-torch.txt"
CORE = "rocm_sdk_core-10.0.0-py3-none-linux_x86_64.whl"
DEVICE = "rocm_sdk_device_gfx1100-10.0.0-py3-none-linux_x86_64.whl"  # no row contains its hash
TORCH = f"torch-2.13.0+rocm10.0.0-{CURRENT}-{CURRENT}-linux_x86_64.whl"
_HASH = """
[[file_hash]]
index = "{index}"
file = "{file}"
sha256 = "{sha256}"
status = "tested"
source = "tests"
checked = "2026-11-22"
"""


_OVERRIDE = """schema = 1
[[override]]
target = "gfx1170"
runs_as = "gfx1151"
value = "11.5.1"
verdict = "ok"
note = "a row of the user's own"
status = "tested"
source = "tests"
checked = "2026-11-22"
"""


@dataclass
class World:
    """A home whose mirrors are copies of AMD's indexes on loopback."""

    home: Path
    index: AmdIndex
    env: dict[str, str]

    def run(self, *argv: str, ok: bool = True, **env: str) -> subprocess.CompletedProcess[bytes]:
        done = forked.run(argv, env={**self.env, **env}, timeout_s=120)
        assert not ok or done.returncode == 0, done.stderr.decode()
        return done

    def json(self, *argv: str, ok: bool = True, **env: str) -> Any:
        return json.loads(self.run(*argv, "--json", ok=ok, **env).stdout)

    def prefix(self, name: str) -> Path:
        return self.home / "envs" / name

    def site(self, name: str) -> Path:
        (site,) = (self.prefix(name) / "venv" / "lib").glob("python3.*/site-packages")
        return site


def write_settings(home: Path, index: AmdIndex) -> None:
    """Configure a home for the loopback indexes and add the hashes of their files."""
    index.write_mirrors(home)
    (home / "profiles").mkdir()
    # Omit the shipped hashes, which are for AMD's real files.
    rows = [
        _HASH.format(index=row.index, file=row.file, sha256=index.wheel(row.file).sha256)
        for row in load().file_hash
        if index.has(row.file)
    ]
    (home / "profiles" / "hashes.toml").write_text("schema = 1\n" + "".join(rows))


def world(root: Path, index: AmdIndex) -> World:
    home = root / "a home"
    write_settings(home, index)
    env = {
        "HOME": str(root / "user"),
        "LC_ALL": "C.UTF-8",
        "NO_PROXY": "127.0.0.1",
        "PATH": os.environ["PATH"],
        "ROCENV_HOME": str(home),
        "ROCENV_STANDIN_TARGET": "gfx1151",
        "UV_HTTP_RETRIES": "0",
        "UV_PYTHON_DOWNLOADS": "never",
        # This proxy does not exist, so requests to the original URLs fail immediately and nothing leaves this
        # machine.
        "https_proxy": "http:///",
    }
    return World(home, index, env)


@pytest.fixture
def amd(tmp_path: Path) -> Iterator[World]:
    with AmdIndex() as index:
        yield world(tmp_path, index)


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A home for tests that only plan."""
    with AmdIndex() as index:
        yield world(tmp_path_factory.mktemp("plans"), index)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A home with an `sd` env that contains ROCm 10.0.0 and torch, and a `dev` env with compilers."""
    with AmdIndex() as index:
        amd = world(tmp_path_factory.mktemp("amd"), index)
        amd.run("create", "sd", *CREATE, "--no-verify", "-y")
        amd.run("create", "dev", "--rocm", "10.0", "--target", "gfx1151", "--dev", "--no-verify", "-y")
        yield amd


def names(plan: Any, kind: str) -> list[str]:
    (part,) = (part for part in plan["components"] if part["kind"] == kind)
    return [f"{each['name']} {each['version']}" for each in part["artifacts"]]


def changed(wheel: bytes) -> bytes:
    """Change the first member of a wheel, but nothing that uv reads for planning."""
    return wheel[:120] + bytes([wheel[120] ^ 1]) + wheel[121:]


# ---------------------------------------------------------------- the plan


def test_a_set_includes_a_c_library_if_the_system_has_an_older_one(amd: World) -> None:
    for glibc, brings in (("2.17", False), ("9.9", True)):
        (amd.home / "profiles" / "real.toml").write_text(amd_real.row("7.14.0", "gfx1151", glibc))
        plan = amd.json("resolve", "--rocm", "7.14.0", "--target", "gfx1151")
        assert plan["components"][0]["own_glibc"] is brings
        assert any("through its loader" in note for note in plan["notes"]) is brings


def test_a_plan_resolves_device_packages_from_metadata(plans: World) -> None:
    plan = plans.json("resolve", *CREATE)
    assert names(plan, "rocm") == [
        "rocm 10.0.0",
        "rocm-sdk-core 10.0.0",
        "rocm-sdk-libraries 10.0.0",
        "rocm-sdk-device-gfx1151 10.0.0",
    ]
    torch = names(plan, "torch")
    for wheel in (
        "torch 2.13.0+rocm10.0.0",
        "amd-torch-device-gfx1151 2.13.0+rocm10.0.0",
        "amd-torch-device-gfx115x 2.13.0+rocm10.0.0",
        "amd-torchvision-device-gfx1151 0.28.0+rocm10.0.0",
        "torchvision 0.28.0+rocm10.0.0",
    ):
        assert wheel in torch
    urls = [each["url"] for part in plan["components"] for each in part["artifacts"]]
    assert all(url.startswith("https://stable.repo.amd.com/rocm/") for url in urls), (
        "the URL is that of the mirror"
    )
    assert all(each["size_bytes"] for part in plan["components"] for each in part["artifacts"])
    whole = [
        each.path
        for each in plans.index.requests
        if each.path.endswith((".whl", ".tar.gz")) and each.method == "GET" and "Range" not in each.headers
    ]
    assert not whole, "planning must not download whole files"


def test_the_plan_lists_files_without_a_published_hash(plans: World) -> None:
    told = plans.run("resolve", *CREATE).stdout.decode()
    assert "4 of 4 files" not in told, "files with published hashes need no note"
    assert "the first download records the rest: amd-torch-device-gfx1151" in told
    assert "compilers and headers are not included; `--dev` adds them" in told


def test_a_plan_for_several_targets_contains_the_packages_for_each(plans: World) -> None:
    plan = plans.json("resolve", "--rocm", "10.0", "--torch", "--target", "gfx1100,gfx1201")
    rocm, torch = names(plan, "rocm"), names(plan, "torch")
    assert {"rocm-sdk-device-gfx1100 10.0.0", "rocm-sdk-device-gfx1201 10.0.0"} <= set(rocm)
    assert plan["components"][1]["why"].endswith("with kernels for gfx1100, gfx1201")
    for package in ("gfx1100", "gfx110x", "gfx1201", "gfx12-0"):
        assert f"amd-torch-device-{package} 2.13.0+rocm10.0.0" in torch


def test_a_mixed_cluster_installs_from_a_bundle_or_a_mirror(amd: World, tmp_path: Path) -> None:
    targets = ("--target", "gfx1100,gfx1201")
    amd.run("create", "hpc", "--rocm", "10.0", "--torch", *targets, "--no-verify")
    bundle, folder = str(tmp_path / "hpc.tar"), tmp_path / "mirror"
    amd.run("bundle", "hpc", "-o", bundle)
    settings = amd.json("mirror", str(folder))["mirrors"]
    before = len(amd.index.requests)
    for node in ("gfx1100", "gfx1201"):
        gpu: dict[str, Any] = {"ROCENV_TARGET": node, "ROCENV_STANDIN_TARGET": node}
        gpu["ROCENV_HOME"] = str(tmp_path / node)
        argv = ("create", "hpc", "--from", bundle, "--trust-lock")
        verified = amd.json(*argv, ROCENV_OFFLINE="1", **gpu)["verify"]
        assert (verified["target"], verified["level"]) == (node, "torch")
    other: dict[str, Any] = {"ROCENV_HOME": str(tmp_path / "client")}
    shutil.copytree(
        amd.home / "profiles", tmp_path / "client" / "profiles"
    )  # these rows contain the hashes of the mirrored files
    with serving(folder) as url:
        for each in settings:
            place = f"{url}/{each['folder']}/"
            amd.run("config", "set", f"mirrors.{each['prefix']}", place, **other)
        plan = amd.json("resolve", "--rocm", "10.0", "--torch", *targets, **other)
    assert len(amd.index.requests) == before
    mine = amd.json("resolve", "--rocm", "10.0", "--torch", *targets)
    # AMD's index does not publish hashes, but the mirror does.
    for part, own in zip(plan["components"], mine["components"], strict=True):
        assert all(each["sha256"] for each in part["artifacts"])
        assert [each["url"] for each in part["artifacts"]] == [each["url"] for each in own["artifacts"]]


def test_a_node_can_install_only_its_part_of_a_lock(amd: World, tmp_path: Path) -> None:
    lock = str(tmp_path / "hpc.lock")
    amd.run("create", "hpc", "--rocm", "10.0", "--torch", "--target", "gfx1100,gfx1201", "--no-verify")
    amd.run("lock", "hpc", "-o", lock)
    gpu: dict[str, Any] = {"ROCENV_TARGET": "gfx1201", "ROCENV_STANDIN_TARGET": "gfx1201"}
    made = amd.json("create", "node", "--from", lock, "--target", "RX 9070 XT", **gpu)
    assert (made["verify"]["target"], made["verify"]["level"]) == ("gfx1201", "torch")
    whole = {
        each
        for kind in ("rocm", "torch")
        for each in names(amd.json("create", "x", "--from", lock, "--dry-run"), kind)
    }
    mine = {each for kind in ("rocm", "torch") for each in names(made["plan"], kind)}
    left_out = {each.split()[0] for each in whole - mine}
    assert left_out == {f"{each}-device-gfx1100" for each in ("rocm-sdk", "amd-torch", "amd-torchvision")}
    assert amd.json("upgrade", "node", "--dry-run")["plan"]["target"] == "gfx1201"
    done = amd.run("create", "other", "--from", lock, "--target", "gfx942", ok=False)
    assert (done.returncode, b"not for gfx942" in done.stderr) == (1, True), done.stderr


def test_a_package_built_for_a_different_rocm_release_is_not_used(amd: World) -> None:
    """PyTorch sets no upper bound, so the newest triton that it accepts is for a newer ROCm."""
    data = amd.index.wheel(TORCH).data
    unbound = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(unbound, "w") as new:
        for each in old.namelist():
            new.writestr(
                each, re.sub(rb"Requires-Dist: triton==.*", b"Requires-Dist: triton", old.read(each))
            )
    amd.index.replace(TORCH, unbound.getvalue())
    done = amd.run("resolve", *CREATE, ok=False)
    assert done.returncode == 1
    said = " ".join(done.stderr.decode().split())
    assert "triton 3.9.0+git0000000a.rocm10.1.0 is built for ROCm 10.1.0" in said
    assert "all wheels in this env must be built for ROCm 10.0.0" in said


def test_a_torch_without_kernels_for_the_gpu_is_not_used(amd: World) -> None:
    """uv ignores extras that a wheel does not define."""
    stable = replace(amd_wheels.STABLE[0], targets=("gfx1100",))
    amd.index.replace(TORCH, amd_wheels.torch(stable, "2.13.0", CURRENT, LINUX).data)
    done = amd.run("resolve", *CREATE, ok=False)
    assert done.returncode == 1
    assert "torch==2.13.0+rocm10.0.0 has no kernels for gfx1151" in " ".join(done.stderr.decode().split())


def test_the_newest_nightly_with_torch_is_used(plans: World) -> None:
    wish = ("--channel", "therock-nightly", "--target", "gfx1100")
    alone, with_torch = plans.json("resolve", *wish), plans.json("resolve", *wish, "--torch")
    newest, older = alone["components"][0]["version"], with_torch["components"][0]["version"]
    assert newest.startswith("10.2.0a2026")
    assert older < newest
    assert f"torch 2.14.0+rocm{older}" in names(with_torch, "torch")
    assert with_torch["components"][0]["why"].endswith("built for gfx1100; AMD's support is not known yet")
    assert not any("release candidate" in note for note in with_torch["notes"]), (
        "the index of this nightly lists the torch"
    )


@pytest.mark.parametrize(
    ("rocm", "said", "hint"),
    [
        ("10.2", "has no build of ROCm 10.2", "rocenv explain rocm-10.2"),
        ("10.2.0a20261001", "has no build of ROCm 10.2.0a20261001", "add `--channel therock-nightly`"),
    ],
)
def test_a_release_missing_from_its_index_is_explained(plans: World, rocm: str, said: str, hint: str) -> None:
    done = plans.run("resolve", "--rocm", rocm, "--torch", "--target", "gfx1100", ok=False)
    told = " ".join(done.stderr.decode().split())
    assert done.returncode == 1
    assert "Matching sets exist, but their channels are missing some of the packages: - " in told
    assert f"rocm/whl-next/ {said}" in told
    assert hint in told


def test_an_incomplete_nightly_is_skipped(amd: World) -> None:
    wish = ("--channel", "therock-nightly", "--target", "gfx1100")
    newest = amd.json("resolve", *wish)["components"][0]["version"]
    amd.index.remove(f"rocm_sdk_libraries-{newest}-py3-none-linux_x86_64.whl")
    older = amd.json("resolve", *wish)["components"][0]["version"]
    assert older < newest
    done = amd.run("resolve", *wish, "--rocm", newest, ok=False)
    assert f"has no `rocm-sdk-libraries` for ROCm {newest}" in " ".join(done.stderr.decode().split())
    assert amd.json("resolve", *wish, "--rocm", older)["components"][0]["version"] == older


def test_wheels_of_two_releases_are_never_mixed(plans: World) -> None:
    done = plans.run("resolve", "--rocm", "7.14.1", "--torch", "--target", "gfx1100", ok=False)
    assert done.returncode == 1
    told = " ".join(done.stderr.decode().split())
    assert "all wheels in an env must be for the same ROCm release" in told
    assert "hipErrorInvalidValue" in told
    plan = plans.json("resolve", "--rocm", "7.14", "--torch", "--target", "gfx1100")
    assert all("+rocm7.14.0" in each for each in names(plan, "torch") if each.startswith("torch"))


def test_an_index_without_ranges_or_with_hashes_produces_the_same_plan(plans: World, tmp_path: Path) -> None:
    plan = plans.json("resolve", *CREATE)
    for options in ({"ranges": False}, {"hashes": True, "sidecars": ("torch", "triton")}):
        with AmdIndex(**options) as index:
            other = world(tmp_path / str(len(os.listdir(tmp_path))), index).json("resolve", *CREATE)
        for kind in ("rocm", "torch"):
            assert names(other, kind) == names(plan, kind)


# ---------------------------------------------------------------- trust


def test_a_file_whose_hash_differs_from_the_data_is_rejected(amd: World) -> None:
    amd.index.replace(CORE, changed(amd.index.wheel(CORE).data))
    done = amd.run("create", "sd", *WITHOUT_TORCH, "-y", ok=False)
    assert done.returncode == 1
    assert "this is not the expected `rocm-sdk-core 10.0.0`" in done.stderr.decode()
    assert json.loads(amd.run("list", "--json").stdout)["envs"] == []


def test_an_index_that_contradicts_a_known_hash_is_rejected(tmp_path: Path) -> None:
    with AmdIndex(hashes=True) as index:
        amd = world(tmp_path, index)
        index.break_hash(CORE)
        done = amd.run("create", "sd", *WITHOUT_TORCH, "-y", ok=False)
        assert done.returncode == 1
        assert "but rocenv expects" in done.stderr.decode()


def test_later_downloads_must_match_the_hash_of_the_first(made: World, tmp_path: Path) -> None:
    pins = made.home / "pins.json"
    assert len(json.loads(pins.read_text())["pins"]) > 10
    lock = tmp_path / "sd.lock"
    made.run("lock", "sd", "-o", str(lock))
    assert all(
        each["sha256"] for part in json.loads(lock.read_text())["components"] for each in part["artifacts"]
    )
    with AmdIndex() as index:
        later = world(tmp_path, index)  # a home with only the records of the first downloads
        shutil.copy(pins, later.home)
        index.replace(TORCH, changed(index.wheel(TORCH).data))
        done = later.run("create", "sd", *CREATE, "-y", ok=False)
    assert done.returncode == 1
    assert "this is not the expected `torch 2.13.0+rocm10.0.0`" in done.stderr.decode()


def test_an_index_whose_hash_differs_from_the_first_download_is_rejected(tmp_path: Path) -> None:
    with AmdIndex(hashes=True) as index:
        amd = world(tmp_path, index)
        plan = amd.json("resolve", *WITHOUT_TORCH)
        [device] = [each for each in plan["components"][0]["artifacts"] if "device" in each["name"]]
        pin = {"sha256": "a" * 64, "size_bytes": 1, "when": "2026-11-01"}
        (amd.home / "pins.json").write_text(json.dumps({"schema": 1, "pins": {device["url"]: pin}}))
        done = amd.run("create", "sd", *WITHOUT_TORCH, "-y", ok=False)
        assert done.returncode == 1
        assert "its first download had" in " ".join(done.stderr.decode().split())


def test_an_invalid_index_page_is_a_clear_error(amd: World) -> None:
    paths = ("/stable/rocm/pytorch/whl-next/torch/", "/stable/rocm/core/whl-next/rocm/")
    for path in paths:
        amd.index.drop_page(path)
    for page in (
        b'<a href="http://[evil/torch-2.13.0-py3-none-any.whl">x</a>',
        b"<![foo[ <a href='x'>",
        b'<a href="file:///etc/torch-2.13.0-py3-none-any.whl">x</a>',
        b'<a href="torch-1.0-py3-none-any.%00.whl">y</a>',
        b"\xff\xfe<html>",
    ):
        amd.index.files.update(dict.fromkeys(paths, page))
        done = amd.run("create", "sd", *CREATE, "-y", ok=False)
        assert done.returncode == 1, page
        assert "Traceback" not in done.stderr.decode(), page
    assert "open that URL in a browser" in done.stderr.decode()


def test_a_damaged_first_download_is_a_clear_error(amd: World) -> None:
    for content in (b"\x1f\x8b damaged", b"PK\x05\x06" + bytes(18)):
        amd.index.replace(DEVICE, content)
        done = amd.run("create", "x", *WITHOUT_TORCH, "-y", ok=False)
        assert done.returncode == 1, content
        assert "Traceback" not in done.stderr.decode(), content
        assert DEVICE in done.stderr.decode(), content


def test_a_web_page_instead_of_a_wheel_is_not_pinned(amd: World) -> None:
    amd.index.replace(TORCH, b"PK\x03\x04 please sign in" * 100)
    done = amd.run("create", "sd", *CREATE, "-y", ok=False)
    assert done.returncode == 1
    assert "is no Python package" in done.stderr.decode() or "cannot resolve" in done.stderr.decode()
    pins = amd.home / "pins.json"
    assert not pins.exists() or "/torch-2.13" not in pins.read_text()


def test_a_package_with_unreadable_metadata_is_a_clear_error(tmp_path: Path) -> None:
    """Without a hash, rocenv cannot tell that the file is damaged."""
    metadata = "Metadata-Version: 2.1\nName: ro\u0109m\nVersion: 10.0.0\n".encode()
    sdist = _sdist(tmp_path, {"PKG-INFO": metadata})
    wheel = tmp_path / "x.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("rocm-10.0.0.dist-info/METADATA", metadata)
    for path, artifact in ((sdist, _artifact("rocm")), (wheel, _artifact("rocm", kind="wheel"))):
        with pytest.raises(ArchiveError, match=r"serves ro.*m 10\.0\.0, not rocm"):
            require_package(artifact, path)
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("rocm-10.0.0.dist-info/METADATA", metadata)
    content = wheel.read_bytes()
    at = (
        content.index(b"/METADATA") + len("/METADATA") + 9
    )  # after the name come the LZMA header and a zero byte
    wheel.write_bytes(content[:at] + b"\xff" + content[at + 1 :])
    with pytest.raises(ArchiveError, match="did not serve a Python package: Corrupt"):
        require_package(_artifact("rocm", kind="wheel"), wheel)


def test_an_sdist_is_converted_to_a_wheel_without_running_its_code(tmp_path: Path) -> None:
    path = _sdist(
        tmp_path, {"setup.py": b"raise SystemExit('was run')", "src/rocm_sdk/__init__.py": b"x = 1\n"}
    )
    rocm = _artifact("rocm")
    others = [_artifact("rocm-sdk-core"), _artifact("rocm-sdk-device-gfx1151")]
    name, content = wheel_of(path, rocm, others)
    assert name == "rocm-10.0.0-py3-none-any.whl"
    assert wheel_of(path, rocm, others) == (name, content), "the result must be reproducible"
    with zipfile.ZipFile(io.BytesIO(content)) as wheel:
        assert "setup.py" not in wheel.namelist()
        metadata = wheel.read("rocm-10.0.0.dist-info/METADATA").decode()
    assert "Requires-Dist: rocm-sdk-core==10.0.0\n" in metadata
    assert "Requires-Dist: rocm-sdk-device-gfx1151==10.0.0; extra == 'device-gfx1151'\n" in metadata


@pytest.mark.parametrize("member", ["../../out.py", "/etc/out.py", "src/../../out.py"])
def test_an_sdist_with_paths_that_point_outside_is_rejected(tmp_path: Path, member: str) -> None:
    path = _sdist(tmp_path, {member: b"x"})
    with pytest.raises(ArchiveError, match="unsafe name"):
        wheel_of(path, _artifact("rocm"), [])


def _artifact(name: str, *, kind: Literal["wheel", "sdist"] = "sdist") -> Artifact:
    return Artifact(kind=kind, name=name, version="10.0.0", url="", sha256="", size_bytes=0)


def _sdist(folder: Path, members: dict[str, bytes]) -> Path:
    path = folder / "rocm-10.0.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(f"rocm-10.0.0/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


# ---------------------------------------------------------------- the env


def test_an_env_built_from_wheels_passes_every_rung(made: World) -> None:
    report = made.json("verify", "sd")
    assert {rung["rung"]: rung["status"] for rung in report["rungs"]} == dict.fromkeys(
        ("files", "load", "version", "compile", "device", "memory", "kernel", "gemm", "blas", "torch"),
        "passed",
    )
    assert not made.index.asked("setup.py")


def test_activation_points_only_to_the_wheels(made: World) -> None:
    activate = made.prefix("sd") / "activate"
    script = f'. "{activate}"; env -0; which python'
    env = {**made.env, "HIP_PATH": "/opt/rocm", "LD_LIBRARY_PATH": "/opt/rocm/lib", "ROCM_PATH": "/opt/rocm"}
    done = subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True, check=True)
    *pairs, python = done.stdout.split("\0")
    found = dict(pair.split("=", 1) for pair in pairs)
    core = str(made.site("sd") / "_rocm_sdk_core")
    assert (found["ROCM_PATH"], found["HIP_PATH"]) == (core, core)
    assert found["LD_LIBRARY_PATH"] == "/opt/rocm/lib", "wheels find their libraries by themselves"
    assert python.strip() == str(made.prefix("sd") / "venv" / "bin" / "python")
    constraints = {name: value for name, value in found.items() if name.endswith("CONSTRAINT")}
    kinds = ("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT", "UV_CONSTRAINT", "UV_BUILD_CONSTRAINT")
    assert constraints == dict.fromkeys(kinds, found["PIP_CONSTRAINT"])
    assert found["PIP_CONSTRAINT"] == (made.prefix("sd") / CONSTRAINTS).as_uri()
    assert " " not in found["PIP_CONSTRAINT"], "pip splits the variable at spaces"
    lines = (made.prefix("sd") / CONSTRAINTS).read_text().splitlines()
    kept = {line.partition("==")[0] for line in lines if not line.startswith("#")}
    assert {"torch", "torchvision", "torchaudio", "triton", "rocm", "rocm-sdk-core"} <= kept
    assert not {"numpy", "rocm-bootstrap"} & kept, "other packages may replace these"


def test_other_builds_cannot_replace_torch_for_rocm(made: World, tmp_path: Path) -> None:
    wheel = made.index.wheel(TORCH)
    assert wheel.sha256
    page = tmp_path / "pypi"
    page.mkdir()
    _plain_wheel(page, "torch", "2.14.0")
    _plain_wheel(page, "helper", "1.0", "Requires-Dist: torch\n")
    _plain_wheel(page, "newer", "1.0", "Requires-Dist: torch>=2.14\n")
    install = ("run", "sd", "--", "python", "-m", "pip", "install", "--no-index", f"--find-links={page}")
    made.run(*install, "helper")
    refused = made.run(*install, "newer", ok=False)
    assert refused.returncode == 1
    assert b"torch==2.13.0+rocm10.0.0" in refused.stdout + refused.stderr
    uv = ("run", "sd", "--", find_uv_bin(), "pip", "install", "--no-index", f"--find-links={page}", "newer")
    refused = made.run(*uv, ok=False)
    assert refused.returncode == 1
    assert b"torch==2.13.0+rocm10.0.0" in refused.stdout + refused.stderr
    version = made.run("run", "sd", "--", "python", "-c", "import torch; print(torch.__version__)")
    assert version.stdout.endswith(b"2.13.0+rocm10.0.0\n")


def test_a_package_built_in_isolation_installs_under_the_constraints(made: World, tmp_path: Path) -> None:
    source = isolated(tmp_path / "isolated", requires="helper")
    page = tmp_path / "pypi"
    page.mkdir()
    _plain_wheel(page, "helper", "1.0")
    install = ("run", "sd", "--", "python", "-m", "pip", "install", "--no-index", f"--find-links={page}")
    made.run(*install, str(source))
    made.run("run", "sd", "--", "python", "-c", "import isolated")


def test_a_package_is_not_built_with_a_different_torch(made: World, tmp_path: Path) -> None:
    """pip and uv reject a different torch; without build isolation, they use the env's torch."""
    source = isolated(tmp_path / "isolated", requires="torch")
    page = tmp_path / "pypi"
    page.mkdir()
    _plain_wheel(page, "torch", "2.14.0")
    python = str(made.prefix("sd") / "venv" / "bin" / "python")
    install = ("install", "--no-index", f"--find-links={page}")
    own, current = (python, "-m", "pip"), (sys.executable, "-m", "pip", f"--python={python}")
    for program in (own, current, (find_uv_bin(), "pip")):
        refused = made.run("run", "sd", "--", *program, *install, str(source), ok=False)
        assert refused.returncode in (1, 2), program
        assert b"torch==2.13.0+rocm10.0.0" in refused.stdout + refused.stderr
    made.run("run", "sd", "--", *own, *install, "--no-build-isolation", str(source))


def test_the_no_guard_option_omits_the_constraints(plans: World) -> None:
    plan = plans.json("resolve", *CREATE, "--no-guard")
    assert not [name for name in plan["environment"] if name.endswith("CONSTRAINT")]
    assert "PIP_CONSTRAINT" in plans.json("resolve", *CREATE)["environment"]


def test_the_first_use_of_the_compiler_changes_no_files(made: World) -> None:
    root = made.json("resolve", "--rocm", "10.0", "--target", "gfx1151", "--dev")["environment"]["ROCM_PATH"]
    assert root.endswith("/_rocm_sdk_devel")
    made.run("run", "dev", "--", "hipcc", "--version")
    assert made.json("verify", "dev", "--upto", "files")["level"] == "files"
    removed = next((made.site("dev") / "_rocm_sdk_devel" / "bin").iterdir())
    removed.unlink()
    (restored,) = made.json("repair", "dev")["repaired"]
    assert restored == {"path": removed.relative_to(made.prefix("dev")).as_posix(), "what": "missing"}
    assert made.json("verify", "dev", "--upto", "files")["level"] == "files"
    assert not made.json("repair", "dev")["repaired"]


def test_repairing_a_device_wheel_restores_the_links_to_its_files(made: World) -> None:
    before = listed(made, "dev")
    device = next(
        path for path in before if "_rocm_sdk_libraries/" in path and path.endswith("gfx1151.kpack")
    )
    (made.prefix("dev") / device).unlink()
    made.run("repair", "dev")
    assert listed(made, "dev") == before


def test_repair_reports_files_that_reinstalling_their_wheel_does_not_restore(made: World) -> None:
    """Launchers depend on uv's version. A package's other files do not, even in a folder named `bin`."""
    prefix = prefix_of(Home(made.home), "sd")
    record = prefix.record()
    lost = f"{made.site('sd').relative_to(prefix.path).as_posix()}/_rocm_sdk_core/bin/lost"
    entry = FileEntry(sha256="0" * 64, size_bytes=1)
    more = {lost: entry, "venv/bin/of-an-older-uv": entry}
    prefix.write_record(record, prefix.files(record) | more)
    done = made.run("repair", "sd", ok=False)
    assert f"`{lost}` is still missing" in " ".join(done.stderr.decode().split())
    left = prefix.files(prefix.record())
    assert left.keys() & more.keys() == {lost}
    left.pop(lost)
    prefix.write_record(prefix.record(), left)
    assert not made.json("repair", "sd")["repaired"]


def listed(amd: World, name: str) -> set[str]:
    """Return the files that the env's record lists."""
    prefix = prefix_of(Home(amd.home), name)
    return set(prefix.files(prefix.record()))


def test_an_env_is_repaired_cloned_and_rebuilt_offline(made: World) -> None:
    library = made.site("sd") / "_rocm_sdk_core" / "lib" / "libamdhip64.so.7"
    good = library.read_bytes()
    library.unlink()
    library.write_bytes(good + b"x")
    before = len(made.index.requests)
    assert made.json("repair", "sd", ROCENV_OFFLINE="1")["repaired"]
    assert library.read_bytes() == good
    made.run("clone", "sd", "twin", ROCENV_OFFLINE="1")
    lock = made.home / "sd.lock"
    made.run("lock", "sd", "-o", str(lock))
    made.run("create", "again", "--from", str(lock), "--no-verify", "-y", ROCENV_OFFLINE="1")
    for wheel in (made.home / "cache" / "uv" / "rocenv-wheels").glob("*/rocm-10.0.0-*.whl"):
        wheel.write_bytes(b"lost")  # the wheel built from the `rocm` sdist is rebuilt
    made.run("create", "anew", *CREATE, "--no-verify", "-y", ROCENV_OFFLINE="1")
    assert len(made.index.requests) == before
    for name in ("twin", "again", "anew"):
        assert made.json("verify", name, "--upto", "compile")["level"] == "compile"
        assert (made.prefix(name) / CONSTRAINTS).read_bytes() == (
            made.prefix("sd") / CONSTRAINTS
        ).read_bytes()


# Like SD.Next, this app installs its own choice of PyTorch unless that is disabled.
_APP = """
import json, os, sys
if "--skip-torch" not in sys.argv:
    sys.exit("the app's own installer ran")
import torch
found = {name: os.environ[name] for name in ("PIP_CONSTRAINT", "UV_CONSTRAINT", "ROCM_PATH")}
found |= {"torch": torch.__version__, "file": torch.__file__, "gpu": torch.cuda.is_available()}
print(json.dumps(found))
"""


def test_an_app_uses_the_envs_torch_and_skips_its_installer(made: World, tmp_path: Path) -> None:
    app = tmp_path / "SD Next"
    app.mkdir()
    (app / "launch.py").write_text(_APP)
    (app / "installer.py").write_text("")
    machine = Root(tmp_path).kernel().cpu().gpu(1, device=0x1586, version=110501)
    env = {**made.env, "ROCENV_SYSROOT": str(machine.path)}
    done = forked.run(("launch", "sd"), env=env, cwd=app)
    assert b"added `--skip-torch` to keep the env's torch" in done.stderr
    found = json.loads(done.stdout)
    assert (found["torch"], found["gpu"]) == ("2.13.0+rocm10.0.0", True)
    assert found["file"] == str(made.site("sd") / "torch" / "__init__.py")
    assert found["PIP_CONSTRAINT"] == found["UV_CONSTRAINT"] == (made.prefix("sd") / CONSTRAINTS).as_uri()
    assert found["ROCM_PATH"] == str(made.site("sd") / "_rocm_sdk_core")


def isolated(source: Path, *, requires: str) -> Path:
    """Write the source of a package that needs another package at build time."""
    source.mkdir()
    _plain_wheel(source, "isolated", "1.0")
    (source / "backend.py").write_text(_BACKEND.format(module=requires))
    (source / "pyproject.toml").write_text(
        f'[build-system]\nrequires = ["{requires}"]\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    return source


# The build requires `helper`, which is installed only in the build environment, and returns a prebuilt wheel.
_BACKEND = """
import shutil
def build_wheel(folder, config_settings=None, metadata_directory=None):
    import {module}
    shutil.copy("isolated-1.0-py3-none-any.whl", folder)
    return "isolated-1.0-py3-none-any.whl"
"""


def _plain_wheel(folder: Path, name: str, version: str, requires: str = "") -> None:
    from tests.wheels.index import build_wheel

    wheel = build_wheel(name, version, requires=[requires.partition(": ")[2].strip()] if requires else [])
    (folder / wheel.filename).write_bytes(wheel.data)


def test_an_override_selects_kernels_for_the_target_that_the_gpu_runs_as(plans: World) -> None:
    (plans.home / "profiles" / "override.toml").write_text(_OVERRIDE)
    plan = plans.json("resolve", "--rocm", "10.0", "--torch", "--target", "gfx1170")
    names = {artifact["name"] for part in plan["components"] for artifact in part["artifacts"]}
    assert {"rocm-sdk-device-gfx1151", "amd-torch-device-gfx1151"} <= names
    assert not any("gfx1170" in name for name in names)
    assert (plan["target"], plan["runs_as"]) == ("gfx1170", "gfx1151")
    assert plan["environment"]["HSA_OVERRIDE_GFX_VERSION"] == "11.5.1"


# ---------------------------------------------------------------- WSL


def test_the_runtime_finds_the_wsl_library_by_name(made: World) -> None:
    link = made.site("sd") / "_rocm_sdk_core/lib/librocdxg.so"
    assert os.readlink(link) == "librocdxg.so.1"
    link.unlink()
    made.run("repair", "sd")
    assert os.readlink(link) == "librocdxg.so.1"
    made.run("verify", "sd", "--upto", "files")


def test_an_env_on_wsl_uses_the_gpu_that_windows_reports(plans: World, tmp_path: Path) -> None:
    pnp = r"PCI\VEN_1002&DEV_1586&SUBSYS_17141043&REV_C1"
    adapter = {"Name": "AMD Radeon(TM) 8060S Graphics", "PNPDeviceID": pnp}
    machine = tmp_path / "machine"
    machine.mkdir()
    Root(machine).wsl({**adapter, "DriverVersion": "32.0.31041.1004"})
    plan = plans.json("resolve", "--rocm", "10.0", "--torch", ROCENV_SYSROOT=str(machine))
    assert (plan["target"], plan["environment"]["HSA_ENABLE_DXG_DETECTION"]) == ("gfx1151", "1")
    assert not any("on WSL" in note for note in plan["notes"]), "no library is missing"
    Root(machine).wsl({**adapter, "DriverVersion": "32.0.21013.1000"})
    plan = plans.json("resolve", "--rocm", "10.0", "--torch", ROCENV_SYSROOT=str(machine))
    assert any(
        "display driver 26.8.1 (DriverVersion 32.0.31041.1004) or newer; Windows has 32.0.21013.1000" in each
        for each in plan["notes"]
    )


def test_doctor_finds_the_wsl_library_in_the_env(made: World, tmp_path: Path) -> None:
    Root(tmp_path).wsl()
    found = made.json("doctor", "sd", "--check", "wsl_env_without_library", ROCENV_SYSROOT=str(tmp_path))
    assert found["findings"] == []
