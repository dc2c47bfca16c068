from __future__ import annotations

import io
import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rocenv.context import Context
from rocenv.core.errors import FetchError, ResolutionImpossible, RocenvError
from rocenv.core.model import Layout, Request
from rocenv.core.progress import Progress
from rocenv.data.releases import RocmWheels, TorchSet
from rocenv.data.rows import Matrix
from rocenv.home import Home
from rocenv.net import Network
from rocenv.resolve import Choice
from rocenv.resolve.candidate import Candidate
from rocenv.sources.general_index import with_companions
from rocenv.sources.wheels import component, resolve_wheels
from tests.wheels.conftest import ROCM
from tests.wheels.index import Index, Wheel, build_wheel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rocenv.core.model import Artifact
    from rocenv.sources.interpreter import Interpreter
    from rocenv.sources.uv import Uv

    Resolve = Callable[..., tuple[Artifact, ...]]


@pytest.fixture
def resolve(index: Index, python: Interpreter, uv: Uv) -> Resolve:
    def call(*requirements: str, folder: str = ROCM, **more: object) -> tuple[Artifact, ...]:
        options = {"index_url": index.url(folder), "local": "rocm6.2", "python": python, "uv": uv}
        return resolve_wheels(requirements, **{**options, **more})  # type: ignore[arg-type]

    return call


def versions(artifacts: Sequence[Artifact]) -> dict[str, str]:
    return {artifact.name: artifact.version for artifact in artifacts}


def test_a_pytorch_set_is_resolved_with_hashes_from_the_index(index: Index, resolve: Resolve) -> None:
    artifacts = resolve("torch==2.5.*")
    assert versions(artifacts) == {
        "filelock": "3.13.1",
        "numpy": "1.26.3",
        "pytorch-triton-rocm": "3.1.0",
        "torch": "2.5.1+rocm6.2",
    }
    torch = artifacts[-1]
    assert (torch.kind, torch.sha256) == ("wheel", index.wheels[ROCM][0].sha256)
    assert torch.url == f"{index.base}/{ROCM}/torch-2.5.1%2Brocm6.2-{index.wheels[ROCM][0].tag}.whl"


def test_companions_come_from_the_general_index(
    index: Index, resolve: Resolve, python: Interpreter, uv: Uv, said: list[str]
) -> None:
    general = build_wheel("numpy", "1.26.4", requires=["never-asked-for"])
    index.wheels["simple"] = [
        general,
        build_wheel("numpy", "2.1.0"),
        build_wheel("torch", "2.5.9+cpu"),
        build_wheel("einops", "0.8.0"),
    ]
    found = resolve("torch==2.5.*")
    wheels = with_companions(
        found,
        {"numpy": "1.26.4", "einops": "0.8.0"},
        index_urls=["http://127.0.0.1:9/mirror", index.url("simple")],
        python=python,
        uv=uv,
    )
    assert versions(wheels) == {**versions(found), "numpy": "1.26.4", "einops": "0.8.0"}
    assert [wheel.name for wheel in wheels] == sorted(versions(wheels))
    (numpy,) = [wheel for wheel in wheels if wheel.name == "numpy"]
    assert (numpy.sha256, numpy.url) == (general.sha256, f"{index.base}/simple/{general.filename}")
    assert said[-1].endswith(f"trying {index.url('simple')}")


def test_dependencies_missing_from_the_torch_index_come_from_the_first_general_index_that_responds(
    index: Index, python: Interpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tag = f"cp{python.series.replace('.', '')}"
    index.wheels["windows"] = [
        build_wheel("torch", "2.9.1+rocmsdk1", tag=f"{tag}-{tag}-linux_x86_64", requires=["filelock"]),
        build_wheel("torchvision", "0.24.1+rocmsdk1", requires=["torch==2.9.1", "numpy"]),
    ]
    index.wheels["simple"] = [build_wheel("numpy", "1.26.4"), build_wheel("filelock", "3.13.1")]
    rocm = RocmWheels(
        version="6.4.4",
        channel="radeon-windows",
        index="https://rocm.invalid/windows/",
        platform="linux",
        packages=(),
        targets=("gfx1100",),
        layout=Layout(root="", library_dirs=(), libraries={}),
        python=(python.series,),
        flat=True,
        status="tested",
        source="tests",
        checked="2026-11-22",
    )
    torch = TorchSet(
        version="2.9.1",
        rocm="6.4.4",
        channel="radeon-windows",
        index=rocm.index,
        python=(python.series,),
        status="tested",
        source="tests",
        checked="2026-11-22",
    )
    nothing = "http://127.0.0.1:9/mirror"
    mirrors = ((rocm.index, (index.url("windows/"),)), ("pypi:", (nothing, index.url("simple"))))
    said = io.StringIO()
    context = Context(
        matrix=Matrix(),
        home=Home(tmp_path),
        network=Network(mirrors=mirrors, pause_s=0),
        progress=Progress(stream=said),
    )
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    choice = Choice(kind="torch", row=torch, version="2.9.1", channel=torch.channel, why="because")
    below = Choice(kind="rocm", row=rocm, version="6.4.4", channel=rocm.channel, why="because")
    candidate = Candidate(parts=(below, choice), runs_as="gfx1100")
    part, notes = component(choice, candidate, Request(target="gfx1100", torch="*"), context)
    assert versions(part.artifacts) == {
        "filelock": "3.13.1",
        "numpy": "1.26.4",
        "torch": "2.9.1+rocmsdk1",
        "torchvision": "0.24.1+rocmsdk1",
    }
    assert [note.partition(":")[0] for note in notes] == ["the env will not contain torchaudio"]
    assert f"trying {index.url('simple')}" in said.getvalue()


def test_a_cuda_row_is_resolved_with_its_companions(
    index: Index, python: Interpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tag = f"cp{python.series.replace('.', '')}"
    index.wheels["whl/cu118"] = [
        *(
            build_wheel("torch", f"2.7.1+{local}", tag=f"{tag}-{tag}-linux_x86_64")
            for local in ("cpu", "cu118")
        ),
        build_wheel("torchvision", "0.22.1+cu118", requires=["numpy", "torch==2.7.1"]),
        build_wheel("torchvision", "0.23.0+cu118"),
        build_wheel("numpy", "2.1.2"),
    ]
    index.wheels["simple"] = [build_wheel("numpy", "1.26.4"), build_wheel("torch", "2.7.1+cu118.evil")]
    row = TorchSet(
        version="2.7.1",
        cuda="11.8",
        index="https://torch.invalid/whl/cu118",
        python=(python.series,),
        companions={"torchvision": "0.22.1", "numpy": "1.26.4"},
        status="tested",
        source="tests",
        checked="2026-11-20",
    )
    mirrors = ((row.index, (index.url("whl/cu118"),)), ("pypi:", (index.url("simple"),)))
    context = Context(
        matrix=Matrix(),
        home=Home(tmp_path),
        network=Network(mirrors=mirrors, pause_s=0),
        progress=Progress(stream=io.StringIO()),
    )
    choice = Choice(
        kind="torch", row=row, version="2.7", channel=row.index, why="because", python=python.series
    )
    candidate = Candidate(parts=(choice,), runs_as="gfx1100")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    part, _ = component(choice, candidate, Request(platform="windows", zluda="*"), context)
    assert (part.kind, part.name, part.version) == ("torch", "torch", "2.7.1+cu118")
    assert part.python == python.version
    assert versions(part.artifacts) == {
        "numpy": "1.26.4",
        "torch": "2.7.1+cu118",
        "torchvision": "0.22.1+cu118",
    }
    assert all(wheel.size_bytes for wheel in part.artifacts)
    assert part.artifacts[1].url.startswith(f"{row.index}/torch-2.7.1%2Bcu118-")


def test_a_companion_missing_from_the_general_index_is_reported(
    index: Index, python: Interpreter, uv: Uv
) -> None:
    index.wheels["simple"] = [build_wheel("numpy", "1.26.4", tag="cp37-cp37m-win_amd64")]
    with pytest.raises(ResolutionImpossible, match=r"has `numpy` for Python 3\.7, not for 3\."):
        with_companions((), {"numpy": "1.26.4"}, index_urls=[index.url("simple")], python=python, uv=uv)


def test_a_cpu_torch_is_rejected_even_if_it_is_the_only_one(index: Index, resolve: Resolve) -> None:
    index.wheels["whl/cpu"] = [build_wheel("torch", "2.5.1+cpu")]
    with pytest.raises(ResolutionImpossible, match=r"is 2\.5\.1\+cpu, which is not built for `rocm6\.2`"):
        resolve("torch==2.5.*", folder="whl/cpu")


@pytest.mark.parametrize("version", ["2.5.1+rocm6.2.4", "2.5.2"])
def test_a_newer_torch_build_for_a_different_rocm_is_not_used(
    index: Index, resolve: Resolve, version: str
) -> None:
    index.wheels[ROCM].append(build_wheel("torch", version))
    with pytest.raises(ResolutionImpossible) as caught:
        resolve("torch==2.5.*")
    assert f"is {version}," in caught.value.message
    assert versions(resolve("torch==2.5.1+rocm6.2"))["torch"] == "2.5.1+rocm6.2"


def test_the_users_uv_and_pip_settings_are_ignored(
    index: Index, resolve: Resolve, uv: Uv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.wheels["evil"] = [build_wheel("torch", "2.5.9+cu124"), build_wheel("numpy", "1.26.9")]
    evil = index.url("evil")
    setting = f'[[index]]\nurl = "{evil}"\nindex-strategy = "unsafe-best-match"\n'
    for folder in (tmp_path, tmp_path / "user" / ".config" / "uv"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "uv.toml").write_text(setting)
    (tmp_path / "pyproject.toml").write_text('[tool.uv]\nconstraint-dependencies = ["numpy==1.26.9"]\n')
    monkeypatch.chdir(tmp_path)
    names = ("UV_INDEX", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "PIP_INDEX_URL")
    environ = {
        **uv.environ,
        **dict.fromkeys(names, evil),
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_TORCH_BACKEND": "cpu",
        "UV_EXCLUDE_NEWER": "2001-01-01",
        "UV_CONFIG_FILE": str(tmp_path / "uv.toml"),
        "XDG_CONFIG_HOME": str(tmp_path / "user" / ".config"),
    }
    artifacts = resolve("torch==2.5.*", uv=replace(uv, environ=environ))
    assert versions(artifacts)["torch"] == "2.5.1+rocm6.2"
    assert versions(artifacts)["numpy"] == "1.26.3"
    assert [path for path in index.asked if "evil" in path] == []


@pytest.mark.skipif(sys.platform != "linux", reason="the wheel tags are for Linux")
def test_the_most_specific_wheel_is_used(index: Index, resolve: Resolve, python: Interpreter) -> None:
    series = "cp" + python.series.replace(".", "")
    best = build_wheel("numpy", "1.26.3", tag=f"{series}-{series}-manylinux_2_17_x86_64")
    index.wheels[ROCM] += [
        build_wheel("numpy", "1.26.3", tag=f"{series}-abi3-manylinux_2_17_x86_64"),
        best,
        build_wheel("numpy", "1.26.3", tag=f"{series}-{series}-manylinux2010_x86_64"),
        build_wheel("numpy", "1.26.3", tag="cp27-cp27m-manylinux_2_17_x86_64"),
    ]
    (numpy,) = [artifact for artifact in resolve("torch==2.5.*") if artifact.name == "numpy"]
    assert numpy.sha256 == best.sha256


def test_the_error_lists_python_versions_that_have_wheels(index: Index, resolve: Resolve) -> None:
    index.wheels[ROCM] = [
        build_wheel("torch", "2.2.0+rocm6.2", tag=f"cp{series}-cp{series}-linux_x86_64")
        for series in ("37", "38")
    ]
    with pytest.raises(ResolutionImpossible) as caught:
        resolve("torch==2.2.*")
    assert "has `torch` for Python 3.7, 3.8, not for 3." in caught.value.message
    assert caught.value.hints == ("--python 3.8",)


def test_the_error_for_a_missing_version_lists_the_available_ones(resolve: Resolve) -> None:
    with pytest.raises(ResolutionImpossible) as caught:
        resolve("torch==2.9.*")
    reason = "only torch<=2.5.1+rocm6.2 is available and you require torch==2.9.*"
    assert reason in caught.value.message
    assert caught.value.hints == ()


def test_a_missing_dependency_is_reported(index: Index, resolve: Resolve) -> None:
    index.wheels[ROCM] = [w for w in index.wheels[ROCM] if w.project != "filelock"]
    with pytest.raises(ResolutionImpossible, match=r"filelock.*was not found"):
        resolve("torch==2.5.*")


def test_conflicting_requirements_are_a_one_line_error(resolve: Resolve) -> None:
    with pytest.raises(ResolutionImpossible, match=r"numpy.*2") as caught:
        resolve("torch==2.5.*", "numpy==2.1.2")
    assert "\n" not in caught.value.message


def test_source_packages_are_never_built(index: Index, resolve: Resolve) -> None:
    index.wheels["whl/sdist"] = [Wheel("torch-2.5.1+rocm6.2.tar.gz", b"", b"")]
    with pytest.raises(ResolutionImpossible, match="no usable wheels"):
        resolve("torch==2.5.*", folder="whl/sdist")
    assert not [path for path in index.asked if path.endswith(".tar.gz")]


def test_a_sign_in_page_instead_of_an_index_is_an_error(index: Index, resolve: Resolve) -> None:
    index.html = True
    with pytest.raises(ResolutionImpossible) as caught:
        resolve("torch==2.5.*")
    assert re.search(r"no (versions|usable wheels) of", caught.value.message)
    assert index.base in caught.value.hints[0]


def test_planning_does_not_wait_for_an_unreachable_index(resolve: Resolve, uv: Uv) -> None:
    """By default, uv waits up to ten seconds."""
    eager = replace(uv, environ={**uv.environ, "UV_HTTP_RETRIES": "3"})
    for url in ("http://127.0.0.1:9/whl", "https://name.invalid/whl"):
        with pytest.raises(FetchError) as caught:
            resolve("torch==2.5.*", index_url=url, uv=eager)
        assert caught.value.code == "unreachable"
        assert "retries" not in caught.value.message


@pytest.mark.parametrize("end", ["/torch/", ".metadata"])
def test_an_overloaded_index_is_retried(index: Index, resolve: Resolve, uv: Uv, end: str) -> None:
    index.busy = [end]
    eager = replace(uv, environ={**uv.environ, "UV_HTTP_RETRIES": "3"})
    assert versions(resolve("torch==2.5.*", uv=eager))["torch"] == "2.5.1+rocm6.2"
    assert not index.busy


def test_an_unreachable_index_is_a_one_line_error(resolve: Resolve) -> None:
    with pytest.raises(FetchError) as caught:
        resolve("torch==2.5.*", index_url="http://127.0.0.1:9/whl/rocm6.2")
    assert re.search("Connection refused|not connect", caught.value.message)
    assert "\n" not in caught.value.message
    assert caught.value.code == "unreachable"
    with pytest.raises(FetchError) as caught:
        resolve("torch==2.5.*", index_url="https://name.invalid/whl")
    assert caught.value.message == (
        "cannot reach https://name.invalid/whl (no such host, or no network) while downloading `torch==2.5.*`"
    )


def test_the_next_mirror_url_is_tried_with_a_note(index: Index, resolve: Resolve, said: list[str]) -> None:
    index.wheels["stale"] = [build_wheel("torch", "2.4.1+rocm6.2")]

    def candidates(url: str) -> tuple[str, ...]:
        return ("http://127.0.0.1:9/mirror", index.url("stale"), url)

    artifacts = resolve("torch==2.5.*", candidates=candidates)
    assert versions(artifacts)["torch"] == "2.5.1+rocm6.2"
    assert [line.rpartition("; trying ")[2] for line in said] == [index.url("stale"), index.url(ROCM)]


def test_an_error_from_a_reachable_index_takes_precedence(index: Index, resolve: Resolve) -> None:
    with pytest.raises(ResolutionImpossible, match=r"torch==2\.9"):
        resolve("torch==2.9.*", candidates=lambda url: (url, "http://127.0.0.1:9/mirror"))


def test_hashes_missing_from_the_index_are_computed(index: Index, resolve: Resolve, said: list[str]) -> None:
    index.hashed = False
    hashes = {artifact.name: artifact.sha256 for artifact in resolve("torch==2.5.*")}
    assert hashes["torch"] == index.wheels[ROCM][0].sha256
    assert [line for line in said if line.startswith("Downloading torch")]


def test_uv_can_use_the_cached_index_offline(index: Index, resolve: Resolve, uv: Uv) -> None:
    first = resolve("torch==2.5.*")
    index.asked.clear()
    assert resolve("torch==2.5.*", uv=replace(uv, offline=True)) == first
    with pytest.raises(FetchError, match=r"offline, but `torch==2\.5\.\*` .* is not fully cached"):
        resolve("torch==2.5.*", uv=replace(uv, offline=True), folder="whl/rocm6.1")
    assert index.asked == []


def test_an_unwritable_cache_is_reported(resolve: Resolve, uv: Uv, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RocenvError, match="Failed to initialize cache at"):
        resolve("torch==2.5.*", uv=replace(uv, cache=tmp_path / "file" / "uv"))


def test_the_password_of_a_mirror_is_not_in_the_lock_or_in_messages(
    index: Index, resolve: Resolve, said: list[str]
) -> None:
    index.wheels["mirror"] = index.wheels[ROCM]
    mirror = index.url("mirror").replace("http://", "http://me:secret@")
    original = "http://127.0.0.1:9/whl/rocm6.2"
    artifacts = resolve("torch==2.5.*", index_url=original, candidates=lambda url: (mirror, url))
    assert all(artifact.url.startswith(f"{original}/") for artifact in artifacts)
    with pytest.raises(RocenvError) as caught:
        resolve("torch==2.9.*", index_url=original, candidates=lambda url: (f"{mirror}/gone", mirror, url))
    assert "secret" not in "".join((caught.value.message, *caught.value.hints, *said))
