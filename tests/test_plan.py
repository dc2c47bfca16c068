"""Plans: their channels, their notes about unavailable channels, and locks."""

from __future__ import annotations

import io
import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from rocenv.context import Context
from rocenv.core.errors import DataError, FetchError, ResolutionImpossible
from rocenv.core.lock import LOCK_SCHEMA, lock_text, read_lock
from rocenv.core.model import Artifact, Component, EnvChange, Layout, Lock, Program, Request, venv_layout
from rocenv.core.progress import Progress
from rocenv.data.load import load
from rocenv.home import Home
from rocenv.net import Network
from rocenv.plan import make_plan
from rocenv.sources.apt.mirrors import relocated
from rocenv.sources.unreachable import REMEMBERED_FOR_S
from tests.loopback import Fault, Loopback
from tests.mini import FUTURE_GLIBC, LIBRARIES, LOADER
from tests.stores import change_sealed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mini import Mini

_ROW = 'status = "tested"\nsource = "tests"\nchecked = "2026-11-20"\n'
# This channel is preferred, because vendor channels come before distribution channels. It has the same
# packages as `mini`.
_MAKER = """schema = 1
[[repo]]
name = "maker"
base = "{url}/maker"
suite = "mini"
keyrings = ["/usr/share/keyrings/mini.gpg"]
{row}
[[channel]]
name = "maker"
title = "The maker's archive"
by = "maker"
repos = ["maker"]
{row}
"""
_SET = """[[rocm]]
version = "{version}"
channel = "maker"
packages = ["mini5-hip"]
compiles = ["gfx1100"]
blas = ["gfx1100"]
official = ["gfx1100"]
{row}[rocm.layout]
root = "usr"
library_dirs = ["usr/lib/x86_64-linux-gnu"]
libraries = {{ hip = "libamdhip64.so.5" }}
"""
IN_RELEASE = "/maker/dists/mini/InRelease"
UNREACHABLE = Fault(body=b"x", cut_after=0)


class Planner:
    """Plans on the simulated machine."""

    def __init__(self, mini: Mini) -> None:
        self.mini = mini
        self.network = Network(pause_s=0.001)

    def plan(self, max_age_s: float = 3600, **wishes: str) -> Lock:
        wanted: dict[str, Any] = {"target": "gfx1100", "rocm": "5.7", **wishes}
        request = Request(**wanted)
        return make_plan(request, self.work(max_age_s))

    def work(self, max_age_s: float = 3600) -> Context:
        return Context(
            matrix=load(),
            home=Home(self.mini.home),
            network=self.network,
            progress=Progress(stream=io.StringIO()),
            max_age_s=max_age_s,
        )

    def add_maker(self, *versions: str) -> None:
        text = _MAKER.format(url=self.mini.server.url, row=_ROW)
        text += "".join(_SET.format(version=version, row=_ROW) for version in versions)
        (self.mini.root / "profiles/maker.toml").write_text(text)

    def serve_maker(self) -> None:
        (self.mini.root / "www/maker").symlink_to("debian")

    def break_maker(self) -> None:
        self.mini.server.always(IN_RELEASE, UNREACHABLE)

    def asked_maker(self) -> int:
        return len(self.mini.server.seen(IN_RELEASE))


@pytest.fixture
def planner(mini: Mini, monkeypatch: pytest.MonkeyPatch) -> Planner:
    for name, value in mini.env.items():
        monkeypatch.setenv(name, value)
    return Planner(mini)


def channels(lock: Lock) -> list[str]:
    return [component.channel for component in lock.components]


# ---------------------------------------------------------------- plans


def test_a_plan_lists_every_file(planner: Planner) -> None:
    lock = planner.plan()
    (rocm,) = lock.components
    assert (rocm.kind, rocm.version, rocm.channel) == ("rocm", "5.7.1", "mini")
    assert [artifact.name for artifact in rocm.artifacts] == ["mini5-blas", "mini5-hip"]
    assert all(len(artifact.sha256) == 64 and artifact.size_bytes for artifact in rocm.artifacts)
    assert (rocm.loader, rocm.glibc) == ("", "2.17")
    assert lock.target == "gfx1100"
    assert lock.environment == (
        EnvChange(action="set", name="ROCM_PATH", value="{prefix}/rocm/usr"),
        EnvChange(action="prepend", name="PATH", value="{prefix}/rocm/usr/bin"),
        EnvChange(action="prepend", name="LD_LIBRARY_PATH", value=f"{{prefix}}/rocm/{LIBRARIES}"),
    )
    assert (lock.notes, lock.local_notes) == ((), ())


def test_a_set_with_its_own_c_library_does_not_set_ld_library_path(planner: Planner) -> None:
    lock = planner.plan(rocm="6.4")
    assert lock.components[0].loader == LOADER
    assert lock.components[0].glibc == FUTURE_GLIBC
    assert "LD_LIBRARY_PATH" not in {change.name for change in lock.environment}
    assert any(FUTURE_GLIBC in note and "its own" in note for note in lock.local_notes)


def test_planning_is_deterministic(planner: Planner) -> None:
    assert lock_text(planner.plan()) == lock_text(planner.plan(max_age_s=0))


# ---------------------------------------------------------------- unavailable channels


def test_the_preferred_channel_needs_no_note(planner: Planner) -> None:
    planner.add_maker("5.7.1")
    planner.serve_maker()
    lock = planner.plan()
    assert channels(lock) == ["maker"]
    assert (lock.notes, lock.local_notes) == ((), ())


def test_the_second_best_channel_is_used_with_a_note(planner: Planner) -> None:
    planner.add_maker("5.7.1")
    lock = planner.plan()
    assert channels(lock) == ["mini"]
    (note,) = lock.local_notes
    url = f"{planner.mini.server.url}{IN_RELEASE}"
    assert note == f"there is no complete ROCm 5.7.1 from maker: `{url}` returned 404 (Not Found)"


def test_an_unreachable_channel_causes_one_note_and_one_request(planner: Planner) -> None:
    planner.add_maker("5.7.0", "5.7.1", "5.7.2", "5.7.3", "5.7.4")
    planner.break_maker()
    lock = planner.plan()
    (note,) = lock.local_notes
    which = "ROCm 5.7.4 and 4 more from maker"
    assert f"{which} would fit better, but the connection to `127.0" in note
    assert IN_RELEASE not in note
    assert planner.asked_maker() == 4, "only the attempts of one request"


def test_an_incomplete_set_is_skipped_with_a_note(planner: Planner) -> None:
    planner.add_maker("5.7.1")
    planner.serve_maker()
    path = planner.mini.root / "profiles/maker.toml"
    path.write_text(path.read_text().replace("mini5-hip", "hip-runtime-amd"))
    lock = planner.plan()
    assert channels(lock) == ["mini"]
    reason = "`hip-runtime-amd`, required by the set itself, is not available: the index has no such package"
    assert lock.local_notes[0] == f"there is no complete ROCm 5.7.1 from maker: {reason}"


def test_a_mixed_set_does_not_match_an_exact_release(planner: Planner) -> None:
    path = planner.mini.root / "profiles/mini.toml"
    path.write_text(path.read_text().replace('version = "5.7.1"\n', 'version = "5.7"\n'))
    assert planner.plan(rocm="5.7").components[0].version == "5.7", (
        "a mixed set does not match, regardless of its HIP version"
    )
    for release in ("5.7.1", ">=5.7.1,<6"):
        with pytest.raises(ResolutionImpossible) as caught:
            planner.plan(rocm=release)
        (line,) = caught.value.rejections
        assert line.text.endswith(f"matches {release}, only 6.4.3, 5.7; channel mini mixes releases of 5.7")


def test_every_reason_is_reported_if_all_channels_fail(planner: Planner) -> None:
    planner.add_maker("5.7.1")
    planner.break_maker()
    planner.mini.repo.publish(key=None, fields={"SHA256": ""})
    with pytest.raises(FetchError) as caught:
        planner.plan()
    message = caught.value.message
    title, maker, mini = message.split("\n  - ")
    assert title == "Matching sets exist, but none could be downloaded:"
    assert maker.startswith("ROCm 5.7.1 from maker (The maker's archive): ")
    assert mini.startswith(
        "ROCm 5.7.1 from mini (The mini archive): the index of `mini` in `debian:` does not contain"
    )
    assert caught.value.code == "fetch-failed"
    assert any("mirrors." in hint for hint in caught.value.hints)


def test_only_the_requested_channel_is_tried(planner: Planner) -> None:
    planner.add_maker("5.7.1")
    planner.break_maker()
    assert channels(planner.plan(channel="mini")) == ["mini"]
    assert planner.asked_maker() == 0
    with pytest.raises(FetchError) as caught:
        planner.plan(channel="maker")
    assert caught.value.code == "unreachable"


# ---------------------------------------------------------------- channels that did not respond


def test_an_unreachable_channel_is_not_retried_for_ten_minutes(planner: Planner) -> None:
    planner.add_maker("5.7.1")
    planner.break_maker()
    planner.plan()
    asked = planner.asked_maker()
    lock = planner.plan()
    assert planner.asked_maker() == asked
    assert lock.local_notes[0].endswith("(tried just now)")


def test_planning_uses_the_cache_when_offline(planner: Planner) -> None:
    planner.add_maker("5.7.1")
    planner.serve_maker()
    planner.plan()
    planner.break_maker()
    (state,) = (planner.mini.home / "cache/indices").glob("maker-*/state.json")
    change_sealed(state, Home(planner.mini.home), checked_s=1)
    assert channels(planner.plan()) == ["mini"]
    planner.network = replace(planner.network, offline=True)
    assert channels(planner.plan()) == ["maker"]


@pytest.mark.parametrize("way", ["channel", "max_age", "mirrors", "time", "clock set back", "damage"])
def test_an_unreachable_channel_is_retried_early_in_some_cases(planner: Planner, way: str) -> None:
    """The user requests the channel or fresh data, the mirrors change, or ten minutes pass."""
    planner.add_maker("5.7.1")
    planner.break_maker()
    planner.plan()
    planner.serve_maker()
    planner.mini.server.always(IN_RELEASE, Fault())
    note = planner.mini.home / "cache/indices/unreachable-maker.json"
    plain = json.loads(note.read_text())
    if way == "mirrors":
        planner.network = replace(planner.network, mirrors=(("https://example.org/", ("https://other/",)),))
    elif way == "time":
        note.write_text(json.dumps(plain | {"at_s": time.time() - REMEMBERED_FOR_S - 1}))
    elif way == "clock set back":
        note.write_text(json.dumps(plain | {"at_s": time.time() + 3600}))
    elif way == "damage":
        note.write_text("[]")
    lock = planner.plan(
        channel="maker" if way == "channel" else "", max_age_s=0 if way == "max_age" else 3600
    )
    assert channels(lock) == ["maker"]


def test_the_record_of_an_outage_is_removed_after_a_success(planner: Planner) -> None:
    planner.add_maker("5.7.1")
    planner.break_maker()
    planner.plan()
    planner.serve_maker()
    planner.mini.server.always(IN_RELEASE, Fault())
    planner.plan(channel="maker")
    assert channels(planner.plan()) == ["maker"]


def test_an_http_error_of_a_channel_is_not_remembered(planner: Planner) -> None:
    """The server may be fixed at any moment, and retrying does not involve a timeout."""
    planner.add_maker("5.7.1")
    assert channels(planner.plan()) == ["mini"]
    planner.serve_maker()
    assert channels(planner.plan()) == ["maker"]


# ---------------------------------------------------------------- locks


def test_a_written_lock_is_read_back_without_local_notes(planner: Planner, tmp_path: Path) -> None:
    lock = planner.plan(rocm="6.4")
    path = tmp_path / "a lock"
    path.write_text(lock_text(lock))
    assert read_lock(path) == structs.replace(lock, local_notes=()), (
        "local notes do not apply to other machines"
    )
    assert lock_text(read_lock(path)) == path.read_text()


def test_every_field_of_a_written_lock_is_read_back(tmp_path: Path) -> None:
    wheel = Artifact(
        kind="wheel",
        name="torch",
        version="2.5.1+rocm6.2",
        url="https://download.pytorch.org/whl/rocm6.2/torch-2.5.1%2Brocm6.2-cp311-cp311-linux_x86_64.whl",
        sha256="ab" * 32,
        size_bytes=1,
        installed_bytes=2,
        repo="amd",
        path="pool/x",
    )
    layout = Layout(
        root="opt/rocm",
        library_dirs=("opt/rocm/lib", "usr/lib"),
        libraries={"hip": "libamdhip64.so.6"},
        bin="opt/rocm/bin",
        device_libs="opt/rocm/amdgcn/bitcode",
        runtime={"hip": "6.2"},
        programs=(
            Program(
                path="usr/bin/llama-cli",
                environment={"X": "{tree}/usr"},
                arguments=("-B{bin}",),
                not_before="-cc1",
                names=("llama",),
            ),
        ),
        links={"usr/bin": "usr/lib/*.so"},
        names={"usr/lib/x.so": "usr/lib/x.so.1"},
        site_packages="lib/python3.11/site-packages",
    )
    component = Component(
        kind="torch",
        name="torch",
        version="2.5.1",
        channel="https://download.pytorch.org/whl/rocm6.2",
        why="because of “quotes” and ümlauts",
        artifacts=(wheel,),
        glibc="2.38",
        loader=LOADER,
        layout=layout.below("rocm"),
        into="rocm",
        python="3.11.7",
    )
    lock = Lock(
        request=Request(rocm="6.2", torch="*", python="3.11", target="gfx1100", channel="amd", app="sdnext"),
        platform="linux",
        target="gfx1100",
        components=(component,),
        environment=(EnvChange(action="unset", name="HIP_VISIBLE_DEVICES"),),
        notes=("one", "two"),
    )
    path = tmp_path / "x.lock"
    path.write_text(lock_text(lock))
    assert read_lock(path) == lock
    assert lock_text(read_lock(path)) == path.read_text()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is not valid JSON"),
        ("not json", "is not valid JSON"),
        pytest.param("[" * 100_000, "is not valid JSON", id="deep"),
        ("[]", "is not a rocenv lock"),
        ('"lock"', "is not a rocenv lock"),
        ("{}", "is not a rocenv lock"),
        ('{"schema": "1"}', "is not a rocenv lock"),
        ('{"schema": 1}', "key `request` is missing"),
        ('{"schema": 3, "future": true}', "a newer rocenv wrote the lock"),
    ],
)
def test_invalid_locks_are_rejected(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "x.lock"
    path.write_text(content)
    with pytest.raises(DataError, match=said) as caught:
        read_lock(path)
    assert str(path) in caught.value.message
    if "newer" in said:
        assert "upgrade rocenv" in caught.value.hints[0]


def test_a_lock_with_schema_1_is_read_as_the_same_set(tmp_path: Path) -> None:
    """In schema 1, paths are relative to the ROCm packages' folder, and components have no folder."""
    packages = Layout(root="opt/rocm", library_dirs=("opt/rocm/lib",), libraries={}, links={"usr/bin": "a/*"})
    rocm = Component(kind="rocm", name="amd", version="6.2", channel="amd", why="", layout=packages)
    torch = Component(kind="torch", name="torch", version="2.5", channel="index", why="", python="3.11.2")
    old = Lock(
        request=Request(), platform="linux", target="gfx1100", components=(rocm, torch), environment=()
    )
    path = tmp_path / "x.lock"
    path.write_text(lock_text(old).replace(f'"schema": {LOCK_SCHEMA}', '"schema": 1'))
    lock = read_lock(path)
    layout, venv = lock.components[0].layout, lock.components[1].layout
    assert layout is not None
    assert venv is not None
    assert [part.into for part in lock.components] == ["rocm", "venv"]
    assert (layout.root, layout.library_dirs) == ("rocm/opt/rocm", ("rocm/opt/rocm/lib",))
    assert layout.links == {"rocm/usr/bin": "rocm/a/*"}
    assert (layout.bin, layout.device_libs) == ("", "")
    assert lock.python == venv.python == "venv/bin/python"
    assert venv.site_packages == "venv/lib/python3.11/site-packages"


@pytest.mark.parametrize("name", ["missing", "."])
def test_an_unreadable_lock_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="cannot read the lock"):
        read_lock(tmp_path / name)


@pytest.mark.parametrize(
    ("keys", "value", "said"),
    [
        (("target",), "../../gfx1100", "is not a target"),
        (("target",), 1100, "`target` in .*: expected `str`, got `int`"),
        (
            ("components", 0, "artifacts", 0, "size_bytes"),
            "1",
            r"`components\[0\]\.artifacts\[0\]\.size_bytes`",
        ),
        (("components", 0, "kind"), "cuda", r"`components\[0\]\.kind` in .* is 'cuda'"),
        (("components", 0, "surprise"), 1, r"unknown key `components\[0\]\.surprise`"),
        (("components", 0, "artifacts", 0, "sha256"), "../../../../tmp/x", "the sha256 of `mini5-blas`"),
        (("components", 0, "artifacts", 0, "sha256"), "AB" * 32, "the sha256 of `mini5-blas`"),
        (
            ("components", 0, "artifacts", 0, "installed_bytes"),
            -1,
            "the size of `mini5-blas` in .* is negative",
        ),
        (("components", 0, "artifacts", 0, "path"), "pool/../../x", "points outside its repository"),
        (("components", 0, "layout", "root"), "../..", r"`\.\./\.\.` in .* points outside the env"),
        (
            ("components", 0, "layout", "library_dirs"),
            ["usr/lib", "/opt/rocm/lib"],
            "`/opt/rocm/lib` in .* points outside",
        ),
        (("components", 0, "layout", "libraries"), {"hip": "/usr/lib/x.so"}, "points outside the env"),
        (("components", 0, "loader"), "../../evil", "points outside the env"),
        (("components", 0, "into"), ".rocenv", "is not a valid component folder"),
        (("components", 0, "into"), "", "is not a valid component folder"),
        (("components", 0, "layout", "bin"), "bin", "`bin` in .* is outside the component's folder `rocm`"),
        (
            ("components", 0, "layout", "links"),
            {"bin": "rocm/x"},
            "`bin` in .* is outside the component's folder",
        ),
        (
            ("components", 0, "layout", "names"),
            {"rocm/../../x": "rocm/y"},
            "points outside the env",
        ),
        (("environment", 0, "name"), "X; touch evil; Y", "is not a valid variable name"),
        (("watched",), ["X$(touch evil)"], "is not a valid variable name"),
        (
            ("components", 0, "artifacts", 0, "name"),
            "x --index-url=http://evil/",
            "not a valid package name or version",
        ),
        (
            ("components", 0, "artifacts", 0, "version"),
            "1 --index-url=http://evil/",
            "not a valid package name or version",
        ),
        (("components", 0, "artifacts", 0, "name"), "-r", "not a valid package name or version"),
    ],
)
def test_unsafe_locks_are_rejected(
    planner: Planner, tmp_path: Path, keys: tuple[Any, ...], value: object, said: str
) -> None:
    plain = json.loads(lock_text(planner.plan()))
    place = plain
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    path = tmp_path / "x.lock"
    path.write_text(json.dumps(plain))
    with pytest.raises(DataError, match=said):
        read_lock(path)


PYTORCH = "https://download.pytorch.org/whl"


def _wheels_lock(artifact: dict[str, str], **component: Any) -> str:
    """Return a lock with ROCm wheels and torch, in which one wheel and its component are modified."""
    rocm = Artifact(
        kind="sdist",
        name="rocm",
        version="10.0.0",
        url="https://repo.amd.com/rocm-10.0.0.tar.gz",
        sha256="ab" * 32,
        size_bytes=0,
    )
    torch = structs.replace(
        rocm,
        kind="wheel",
        name="torch",
        version="2.5.1+rocm6.2",
        url=f"{PYTORCH}/rocm6.2/torch-2.5.1%2Brocm6.2-cp311-cp311-linux_x86_64.whl",
    )
    part = Component(
        kind="rocm",
        name="ROCm wheels",
        version="10.0.0",
        channel="",
        why="",
        artifacts=(rocm,),
        layout=venv_layout("3.11.2", "linux"),
        into="venv",
        python="3.11.2",
    )
    other = structs.replace(part, kind="torch", artifacts=(structs.replace(torch, **artifact),), **component)
    lock = Lock(
        request=Request(), platform="linux", target="gfx1100", components=(part, other), environment=()
    )
    return lock_text(lock)


@pytest.mark.parametrize(
    ("name", "version", "url"),
    [
        ("torch", "2.5.1+rocm6.2", f"{PYTORCH}/rocm6.2/torch-2.5.1+rocm6.2-cp311-cp311-linux_x86_64.whl"),
        ("torch", "2.3.1+cu118", "http://10.0.0.1:8080/x/torch-2.3.1%2Bcu118-cp311-cp311-win_amd64.whl"),
        (
            "pytorch-triton-rocm",
            "3.1.0",
            f"{PYTORCH}/pytorch_triton_rocm-3.1.0-cp311-cp311-linux_x86_64.whl#sha256=00",
        ),
        (
            "markupsafe",
            "2.1.5",
            "https://mirror.example.org/whl/MarkupSafe-2.1.5-cp311-cp311-"
            "manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        ),
        ("Jinja2", "3.1.6", f"{PYTORCH}/jinja2-3.1.6-py3-none-any.whl"),
        ("mpmath", "1.3", f"{PYTORCH}/mpmath-1.3.0-1-py3-none-any.whl"),
        (
            "torch",
            "2.13.0a0+rocm10.0.0a20261001",
            "a%2Fb%2Ftorch-2.13.0a0%2Brocm10.0.0a20261001-py3-none-any.whl",
        ),
    ],
)
@pytest.mark.parametrize("schema", [1, LOCK_SCHEMA])
def test_wheel_urls_in_a_lock_can_be_escaped_as_on_indexes_and_mirrors(
    tmp_path: Path, name: str, version: str, url: str, schema: int
) -> None:
    path = tmp_path / "x.lock"
    text = _wheels_lock({"name": name, "version": version, "url": url})
    path.write_text(text.replace(f'"schema": {LOCK_SCHEMA}', f'"schema": {schema}'))
    if schema == 1:  # schema 1 had no ROCm wheels
        plain = json.loads(path.read_text())
        del plain["components"][0]
        path.write_text(json.dumps(plain))
    assert read_lock(path).components[-1].artifacts[0].url == url


@pytest.mark.parametrize(
    ("artifact", "component", "said"),
    [
        ({"url": f"{PYTORCH}/.."}, {}, r"the URL of `torch` in .* ends in '\.\.'"),
        (
            {"url": f"{PYTORCH}/torch-2.5.1-py3-none-any.whl"},
            {},
            r"not a valid wheel name for torch 2\.5\.1\+rocm",
        ),
        ({"url": f"{PYTORCH}/numpy-2.5.1%2Brocm6.2-py3-none-any.whl"}, {}, "the URL of `torch`"),
        ({"version": "main"}, {}, "is not a valid wheel name for torch main"),
        ({"kind": "sdist"}, {}, "is not a valid source archive name for torch"),
        (
            {"name": "pip", "version": "25.0", "url": f"{PYTORCH}/pip-25.0-py3-none-any.whl"},
            {},
            "`pip` in .* cannot be a wheel in a set",
        ),
        ({}, {"layout": None}, "the component `torch` in .* has wheels but no folder"),
        ({}, {"python": "3.12.1"}, r"Python 3\.11\.2 in `venv`, torch for Python 3\.12\.1 in `venv`"),
    ],
)
def test_locks_with_invalid_wheels_are_rejected(
    tmp_path: Path, artifact: dict[str, str], component: dict[str, Any], said: str
) -> None:
    path = tmp_path / "x.lock"
    path.write_text(_wheels_lock(artifact, **component))
    with pytest.raises(DataError, match=said) as caught:
        read_lock(path)
    assert "`rocenv lock`" in caught.value.hints[0]


def test_packages_in_a_lock_cannot_be_unpacked_outside_the_env(planner: Planner, tmp_path: Path) -> None:
    """Without a component folder, a package's `home/x` would be unpacked to `/home/x`."""
    plain = json.loads(lock_text(planner.plan()))
    del plain["components"][0]["into"], plain["components"][0]["layout"]
    path = tmp_path / "x.lock"
    path.write_text(json.dumps(plain))
    with pytest.raises(DataError, match="is not a valid component folder"):
        read_lock(path)
    path.write_text(json.dumps({**plain, "schema": 1}))
    assert read_lock(path).components[0].into == "rocm"


def test_a_lock_cannot_hide_an_artifact_behind_one_with_the_same_hash(
    planner: Planner, tmp_path: Path
) -> None:
    plain = json.loads(lock_text(planner.plan()))
    artifacts = plain["components"][0]["artifacts"]
    artifacts.insert(0, {**artifacts[0], "name": "x --index-url=http://evil/"})
    path = tmp_path / "x.lock"
    path.write_text(json.dumps(plain))
    with pytest.raises(DataError, match="not a valid package name or version"):
        read_lock(path)


def test_a_lock_from_a_different_machine_uses_the_local_mirror(planner: Planner) -> None:
    here = planner.plan()
    elsewhere = _with_urls(here, "http://mirror.example.org/debian")
    assert relocated(elsewhere, planner.work()) == here


def test_a_lock_file_does_not_contain_the_password_of_a_mirror(planner: Planner, tmp_path: Path) -> None:
    lock = _with_urls(planner.plan(), "http://me:p@ss@mirror.example.org/debian")
    path = tmp_path / "x.lock"
    path.write_text(lock_text(lock))
    assert read_lock(path) == _with_urls(lock, "http://mirror.example.org/debian")


def test_a_lock_keeps_urls_from_this_machine(planner: Planner) -> None:
    lock = planner.plan()
    with Loopback() as other:
        planner.network = replace(planner.network, mirrors=(("debian:", (f"{other.url}/debian",)),))
        assert relocated(lock, planner.work()) == lock


def test_a_lock_keeps_its_urls_on_a_machine_without_a_mirror(planner: Planner) -> None:
    elsewhere = _with_urls(planner.plan(), "http://mirror.example.org/debian")
    (planner.mini.sysroot / "etc/apt/sources.list.d/mini.sources").unlink()
    assert relocated(elsewhere, planner.work()) == elsewhere


def test_a_lock_from_an_unknown_repository_keeps_its_urls(planner: Planner) -> None:
    lock = _with_urls(planner.plan(), "http://mirror.example.org/debian", repo="gone")
    assert relocated(lock, planner.work()) == lock


def test_artifacts_shared_by_components_are_listed_once(planner: Planner) -> None:
    lock = planner.plan()
    twice = structs.replace(lock, components=lock.components * 2)
    assert twice.artifacts == lock.components[0].artifacts


def test_an_env_from_a_lock_has_the_same_lock(mini: Mini) -> None:
    mini.create("one")
    lock = mini.root / "one.lock"
    lock.write_text(mini.run("lock", "one").stdout)
    done = mini.run("create", "two", "--from", str(lock), "--no-verify")
    assert done.returncode == 0, done.stderr
    assert mini.run("lock", "two").stdout == lock.read_text()


def _with_urls(lock: Lock, base: str, *, repo: str = "mini") -> Lock:
    components = [
        structs.replace(
            component,
            artifacts=tuple(
                structs.replace(artifact, url=f"{base}/{artifact.path}", repo=repo)
                for artifact in component.artifacts
            ),
        )
        for component in lock.components
    ]
    return structs.replace(lock, components=tuple(components))
