"""`rocenv create --torch`, where everything except the wheels is real."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocenv import config
from rocenv.context import Context
from rocenv.core.errors import FetchError
from rocenv.core.model import Request
from rocenv.home import Home
from rocenv.install.bundle import open_bundle, provide_python
from rocenv.net import Network
from rocenv.plan import make_plan
from tests.network import cannot_run
from tests.webserver import serving
from tests.wheels.index import Index, build_wheel, serve
from tests.wheels.test_interpreter import downloads_of, put_python

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.sources.interpreter import Interpreter
    from tests.mini import Mini

ORIGINAL = "https://download.pytorch.org/whl/rocm6.4"
ROWS = """schema = 1
[[torch]]
version = "2.8"
rocm = "6.4"
index = "{index}"
python = ["{python}"]
targets = ["gfx1100"]
status = "tested"
source = "tests"
checked = "2026-11-20"

[[environment]]
change = {{ action = "prepend", name = "PATH", value = "{{prefix}}/venv/bin" }}
when = "torch"
reason = "the venv"
source = "tests"
status = "tested"
checked = "2026-11-20"
"""
# Behaves like a ROCm build on a machine without a GPU.
TORCH = b"""
__version__ = "2.8.0+rocm6.4"
class version: hip = "6.4.43484"
class cuda: is_available = staticmethod(lambda: False)
"""
BIG = b"\x7fELF" + bytes(range(256)) * 8192


@pytest.fixture
def torch_world(mini: Mini, python: Interpreter) -> Iterator[tuple[Mini, Index]]:
    """The simulated machine, with a torch index behind a configured mirror."""
    series = python.series
    (mini.root / "profiles" / "torch.toml").write_text(ROWS.format(index=ORIGINAL, python=series))
    tag = f"cp{series.replace('.', '')}"
    with serve() as index:
        index.wheels["mirror/rocm6.4"] = [
            build_wheel(
                "torch",
                "2.8.0+rocm6.4",
                tag=f"{tag}-{tag}-linux_x86_64",
                requires=["filelock"],
                files={"torch/__init__.py": TORCH, "torch/lib/libtorch_hip.so": BIG},
            ),
            build_wheel("filelock", "3.13.1"),
        ]
        done = mini.run("config", "set", f"mirrors.{ORIGINAL}", index.url("mirror/rocm6.4"))
        assert done.returncode == 0, done.stderr
        yield mini, index


def create(mini: Mini, name: str, *options: str) -> subprocess.CompletedProcess[str]:
    done = mini.run("create", name, "--json", *options, NO_PROXY="127.0.0.1", UV_HTTP_RETRIES="0")
    assert done.returncode == 0, done.stderr
    return done


def test_an_env_with_torch_is_created_repaired_and_removed(
    torch_world: tuple[Mini, Index],
) -> None:
    mini, index = torch_world
    told = json.loads(create(mini, "sd", "--rocm", "6.4", "--torch", "--no-verify").stdout)
    torch = next(part for part in told["plan"]["components"] if part["kind"] == "torch")
    assert torch["version"] == "2.8.0+rocm6.4"
    assert {wheel["name"] for wheel in torch["artifacts"]} == {"filelock", "torch"}
    assert all(len(wheel["sha256"]) == 64 for wheel in torch["artifacts"])
    assert all(wheel["url"].startswith(f"{ORIGINAL}/") for wheel in torch["artifacts"]), (
        "the lock contains the original URL, not that of the mirror"
    )

    seen = mini.run(
        "run", "sd", "--", "python", "-c", "import torch; print(torch.__version__, torch.__file__)"
    )
    assert seen.stdout.startswith("2.8.0+rocm6.4"), seen.stderr
    assert str(mini.prefix("sd")) in seen.stdout

    rungs = {rung["rung"]: rung for rung in json.loads(mini.run("verify", "sd", "--json").stdout)["rungs"]}
    assert rungs["files"]["status"] == "passed"
    assert rungs["torch"]["no_device"], rungs["torch"]

    # Patch a source file in place, as app installers do, which must not affect the next env.
    patched = mini.prefix("sd") / "venv"
    (source,) = patched.rglob("torch/__init__.py")
    with source.open("ab") as out:
        out.write(b"\npatched = True\n")
    lock = mini.root / "sd.lock"
    assert mini.run("lock", "sd", "-o", str(lock)).returncode == 0
    before = len(index.asked)
    create(mini, "again", "--from", str(lock), "--no-verify", "--offline")
    assert len(index.asked) == before
    clean = mini.run("run", "again", "--", "python", "-c", "import torch; print(hasattr(torch, 'patched'))")
    assert clean.stdout == "False\n", clean.stderr
    (first,) = patched.rglob("libtorch_hip.so")
    (second,) = (mini.prefix("again") / "venv").rglob("libtorch_hip.so")
    assert first.stat().st_ino == second.stat().st_ino or first.stat().st_blocks == second.stat().st_blocks

    assert mini.run("rename", "sd", "moved").returncode == 0
    code = "import torch; print(hasattr(torch, 'patched'))"
    assert mini.run("run", "moved", "--", "python", "-c", code).stdout == "True\n"
    assert json.loads(mini.run("repair", "moved", "--json").stdout)["repaired"], "the patch had no effect"
    assert mini.run("run", "moved", "--", "python", "-c", code).stdout == "False\n"
    rungs = {rung["rung"]: rung for rung in json.loads(mini.run("verify", "moved", "--json").stdout)["rungs"]}
    assert rungs["files"]["status"] == "passed"


def test_other_users_cannot_write_to_uvs_files(torch_world: tuple[Mini, Index]) -> None:
    mini, _ = torch_world
    before = os.umask(0)
    try:
        subprocess.run(
            mini.command("create", "sd", "--rocm", "6.4", "--torch", "--no-verify"),
            env={**mini.env, "NO_PROXY": "127.0.0.1"},
            check=True,
            capture_output=True,
        )
    finally:
        os.umask(before)
    paths = [mini.home, *mini.home.rglob("*")]
    writable = [path for path in paths if not path.is_symlink() and path.stat().st_mode & 0o022]
    # uv's lock files are writable by everyone, so other users must not be able to access their folder.
    assert (mini.home / "cache" / "uv").stat().st_mode & 0o077 == 0
    left = [str(path) for path in writable if not path.is_relative_to(mini.home / "cache" / "uv")]
    assert left == []


def test_a_torch_that_does_not_support_the_target_is_an_error_with_alternatives(
    torch_world: tuple[Mini, Index],
) -> None:
    mini, _ = torch_world
    done = mini.run("create", "sd", "--rocm", "6.4", "--torch", "2.1", "--json")
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert told["error"] == "resolution-impossible"
    assert any("2.8" in each["found"] for each in told["conflict"])
    assert not mini.prefix("sd").exists()


def test_an_unreachable_torch_index_does_not_affect_the_rocm_channel(
    torch_world: tuple[Mini, Index], monkeypatch: pytest.MonkeyPatch
) -> None:
    mini, index = torch_world
    index.headless = True
    for name, value in {**mini.env, "NO_PROXY": "127.0.0.1", "UV_HTTP_RETRIES": "0"}.items():
        monkeypatch.setenv(name, value)
    home = Home(mini.home)
    network = Network(mirrors=config.load(home.config_file).mirrors, pause_s=0.001)
    context = Context(home, network=network)
    wish = Request(rocm="6.4", target="gfx1100", torch="*")
    with pytest.raises(FetchError, match="was lost"):
        make_plan(wish, context)
    lock = make_plan(wish, context, unlisted=True)
    assert [part.kind for part in lock.components] == ["rocm", "torch"], "the ROCm set itself is complete"
    assert "`create` would fail now, because the package lists could not be downloaded" in lock.local_notes
    done = mini.run("resolve", "--rocm", "6.4")
    assert done.returncode == 0, done.stderr


class TestALockWithADifferentIndex:
    """An unknown host for wheels, replaced by the configured index if that lists the same files."""

    @pytest.fixture
    def lock(self, torch_world: tuple[Mini, Index]) -> Path:
        mini, index = torch_world
        rows = mini.root / "profiles" / "torch.toml"
        rows.write_text(
            rows.read_text().replace("targets =", 'companions = { numpy = "1.0", other = "2.0" }\ntargets =')
        )
        index.wheels["simple"] = [build_wheel("numpy", "1.0"), build_wheel("other", "2.0")]
        mini.env["UV_DEFAULT_INDEX"] = index.url("simple")
        create(mini, "one", "--rocm", "6.4", "--torch", "--no-verify")
        path = mini.root / "their.lock"
        assert mini.run("lock", "one", "-o", str(path)).returncode == 0
        server = index.url("simple").partition("/simple")[0]
        assert server in path.read_text()
        path.write_text(path.read_text().replace(server, "https://mirror.invalid"))
        self.forget(mini)
        return path

    def forget(self, mini: Mini) -> None:
        shutil.rmtree(mini.home / "cache" / "artifacts")
        shutil.rmtree(mini.home / "cache" / "uv")

    def review(self, mini: Mini, lock: Path, url: str, *more: str) -> tuple[dict[str, list[str]], str]:
        argv = ("create", "three", "--from", str(lock), "--dry-run", "--json", *more)
        done = mini.run(*argv, NO_PROXY="127.0.0.1", UV_HTTP_RETRIES="0", UV_DEFAULT_INDEX=url)
        hosts = json.loads(done.stdout)["foreign_hosts"]
        return {each["host"]: sorted(each["files"]) for each in hosts}, done.stderr

    def test_an_env_from_a_lock_with_foreign_wheels_uses_the_configured_index(
        self, torch_world: tuple[Mini, Index], lock: Path
    ) -> None:
        mini, index = torch_world
        assert self.review(mini, lock, index.url("simple"))[0] == {}
        mini.env["UV_DEFAULT_INDEX"] = index.url("simple")
        create(mini, "two", "--from", str(lock), "--no-verify")
        assert "mirror.invalid" not in (mini.prefix("two") / "rocenv.lock").read_text()

    def test_downloaded_wheels_are_not_looked_up_in_the_index(
        self, torch_world: tuple[Mini, Index], lock: Path
    ) -> None:
        mini, index = torch_world
        mini.env["UV_DEFAULT_INDEX"] = index.url("simple")
        create(mini, "two", "--from", str(lock), "--no-verify")
        shutil.rmtree(mini.home / "cache" / "uv")
        assert self.review(mini, lock, index.url("simple"), "--offline")[0] == {}

    def test_a_foreign_wheel_with_a_different_hash_or_type_is_shown(
        self, torch_world: tuple[Mini, Index], lock: Path
    ) -> None:
        mini, index = torch_world
        own = [build_wheel("numpy", "1.0", files={"numpy/other.py": b""}), build_wheel("other", "2.0")]
        index.wheels["own"] = own
        assert self.review(mini, lock, index.url("own"))[0] == {"https://mirror.invalid": ["numpy"]}
        plain = json.loads(lock.read_text())
        (part,) = (each for each in plain["components"] if each["kind"] == "torch")
        (other,) = (each for each in part["artifacts"] if each["name"] == "other")
        deb = plain["components"][0]["artifacts"][0]
        deb.update(url="https://evil.invalid/x.deb", sha256=other["sha256"], repo="", path="")
        lock.write_text(json.dumps(plain))
        assert "https://evil.invalid" in self.review(mini, lock, index.url("simple"))[0]

    def test_only_foreign_wheels_missing_from_the_index_are_shown(
        self, torch_world: tuple[Mini, Index], lock: Path
    ) -> None:
        mini, index = torch_world
        index.wheels["own"] = [build_wheel("numpy", "1.1"), build_wheel("other", "2.0")]
        assert self.review(mini, lock, index.url("own"))[0] == {"https://mirror.invalid": ["numpy"]}

    def test_all_foreign_wheels_are_shown_if_the_index_is_unreachable(
        self, torch_world: tuple[Mini, Index], lock: Path
    ) -> None:
        mini, _ = torch_world
        hosts, said = self.review(mini, lock, "http://127.0.0.1:9/simple")
        assert hosts == {"https://mirror.invalid": ["numpy", "other"]}
        assert "cannot look up the lock's wheels: " in said

    def test_the_plan_lists_packages_from_the_foreign_index(
        self, torch_world: tuple[Mini, Index], lock: Path
    ) -> None:
        mini, _ = torch_world
        done = mini.run("create", "two", "--from", str(lock), "--dry-run", NO_PROXY="127.0.0.1")
        assert "installs these Python packages: filelock, numpy, other, torch" in done.stdout


def offline(mini: Mini, name: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Create an env from the bundle in another home, in a network namespace with no network."""
    if subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False).returncode:
        cannot_run("unshare cannot make a network namespace here")
    return subprocess.run(
        ["unshare", "-rn", *mini.command("create", name, "--from", "lab.tar", "--no-verify", *options)],
        env={**mini.env, "ROCENV_HOME": str(mini.root / "elsewhere"), "ROCENV_OFFLINE": "1"},
        cwd=mini.root,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"),
    reason="the Python download is for this platform only",
)
def test_a_bundle_contains_the_wheels_and_a_python_for_them(
    torch_world: tuple[Mini, Index], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mini, _ = torch_world
    create(mini, "lab", "--rocm", "6.4", "--torch", "--no-verify")
    downloads = downloads_of(Path(sys.executable).resolve(), tmp_path)
    done = mini.run("bundle", "lab", "-o", "lab.tar", "--json", UV_PYTHON_DOWNLOADS_JSON_URL=downloads)
    assert done.returncode == 0, done.stderr
    (key,) = json.loads(done.stdout)["pythons"]
    assert key.startswith("cpython-")

    refused = offline(mini, "lab", "-y")
    assert refused.returncode == 1, "wheels are not signed"
    said = " ".join(refused.stderr.split())
    assert "torch" in said
    assert key in said
    assert "mini6-hip" not in said.partition("error:")[2], "the signed index lists the package"
    done = offline(mini, "lab", "--trust-lock")
    assert done.returncode == 0, done.stderr
    home = str(mini.root / "elsewhere")
    code = "import torch; print(torch.__version__)"
    seen = mini.run("run", "lab", "--", "python", "-c", code, ROCENV_HOME=home)
    assert seen.stdout == "2.8.0+rocm6.4\n", seen.stderr

    # This machine has the same Python, so the one in the bundle has not been used yet.
    bundle = open_bundle(mini.root / "lab.tar")
    monkeypatch.setattr(sys, "executable", str(put_python(tmp_path / "python2", "2.7.1")))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("HOME", str(tmp_path))
    context = Context(Home(mini.root / "bare"), offline=True)
    provide_python(bundle, bundle.lock("lab"), context)
    assert list(context.home.pythons.glob(f"{key}/bin/python3"))


def test_a_mirror_contains_wheels_and_their_index(torch_world: tuple[Mini, Index]) -> None:
    mini, index = torch_world
    create(mini, "lab", "--rocm", "6.4", "--torch", "--no-verify")
    done = mini.run("mirror", "mirror", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["problems"] == []
    home, before = str(mini.root / "elsewhere"), len(index.asked)
    with serving(mini.root / "mirror") as url:
        for each in answer["mirrors"]:
            setting = (f"mirrors.{each['prefix']}", f"{url}/{each['folder']}/")
            mini.run("config", "set", *setting, ROCENV_HOME=home)
        argv = ("create", "lab", "--rocm", "6.4", "--torch", "--no-verify", "--json")
        done = mini.run(*argv, ROCENV_HOME=home, NO_PROXY="127.0.0.1", UV_HTTP_RETRIES="0")
        assert done.returncode == 0, done.stderr
    assert len(index.asked) == before
    wheels = json.loads(done.stdout)["plan"]["components"][-1]["artifacts"]
    assert all(each["url"].startswith("https://download.pytorch.org/whl/") for each in wheels)
