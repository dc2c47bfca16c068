"""Every plan in the test cases is installable: its sources list every file that it needs.

The archives and indexes run on loopback and serve everything in the data rows as empty files. For Windows
or a missing Python, the files are listed by passing the corresponding options to uv.
"""

from __future__ import annotations

import contextlib
import io
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import packaging.tags
import pytest
from msgspec import structs

import rocenv.plan
from rocenv.commands import create
from rocenv.commands.create import require_installable
from rocenv.commands.plan_view import plan_text
from rocenv.context import Context
from rocenv.core.errors import ResolutionImpossible, RocenvError
from rocenv.core.model import Request
from rocenv.core.progress import Progress
from rocenv.data.load import load
from rocenv.data.releases import RocmWheels
from rocenv.data.windows import HipSdk, Pack
from rocenv.home import Home
from rocenv.net import Network
from rocenv.plan import make_plan
from rocenv.resolve import resolve
from rocenv.sources import rocm_wheels, wheels
from rocenv.sources.interpreter import Interpreter
from rocenv.sources.uv import Uv
from tests import amd_wheels
from tests.amd_index import AmdIndex
from tests.aptrepo import Repo, archive_key
from tests.resolve.test_cases import CASES, Situation, read
from tests.wheels.index import Wheel, build_wheel, serve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.core.model import Lock
    from rocenv.data.releases import TorchSet
    from rocenv.data.rows import Matrix
    from rocenv.resolve import Candidate

KEYRING = "usr/share/keyrings/debian-archive-keyring.gpg"
PYTORCH = "https://download.pytorch.org/"
PACK = """schema = 1
[[pack]]
provider = "{provider}"
rocm = ["6.4.2"]
asset = "its.name.7z"
targets = ["gfx1011"]
url = "{url}"
status = "tested"
source = "its page"
checked = "2026-11-22"
"""


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Context]:
    """A home whose mirrors serve everything in the shipped rows."""
    root = tmp_path_factory.mktemp("creatable")
    shipped = load()
    # Replace AMD's key, which tests cannot sign with. The keyrings of distributions are files on the fake
    # machine.
    amd = structs.replace(shipped.repos["amd"], fingerprints=(archive_key().fingerprint,))
    shipped = replace(shipped, repo=tuple(amd if row.name == "amd" else row for row in shipped.repo))
    write_machine(root / "machine")
    write_archives(root / "www", shipped)
    with AmdIndex(platforms=()) as server, serve() as general, pytest.MonkeyPatch.context() as patch:
        server.folder = root / "www"
        server.offer_shipped(shipped)
        for name, found in pytorch_wheels(shipped).items():
            general.wheels[name] = found
        general.wheels["pypi"] = [maker() for _, maker in amd_wheels.pypi_files()]
        general.wheels["pypi"] += [build_wheel("numpy", version) for version in pinned_numpys(shipped)]
        mirrors = {
            **server.mirrors,
            "https://repo.radeon.com/rocm/apt/": f"{server.url}/apt/",
            "https://repo.radeon.com/rocm/rocm.gpg.key": f"{server.url}/rocm.gpg.key",
            "debian:": f"{server.url}/debian/",
            "host:": f"{server.url}/debian/",
            PYTORCH: f"{general.base}/",
            "pypi:": f"{general.base}/pypi/",
        }
        for name, value in (
            ("ROCENV_SYSROOT", str(root / "machine")),
            ("NO_PROXY", "127.0.0.1"),
            ("UV_HTTP_RETRIES", "0"),
        ):
            patch.setenv(name, value)
        network = Network(mirrors=tuple((prefix, (base,)) for prefix, base in mirrors.items()), pause_s=0.01)
        progress = Progress(stream=io.StringIO())
        yield Context(Home(root / "home"), matrix=shipped, network=network, progress=progress)


def write_machine(root: Path) -> None:
    """Create a Debian machine that trusts the archives' key."""
    (root / KEYRING).parent.mkdir(parents=True)
    (root / KEYRING).write_bytes(archive_key().keyring)
    (root / "etc").mkdir()
    (root / "etc/os-release").write_text("ID=debian\nVERSION_CODENAME=bookworm\n")


def write_archives(www: Path, matrix: Matrix) -> None:
    """Publish the packages in the rows at the URLs of their channels."""
    suites: dict[tuple[str, str], Repo] = {}
    for row in matrix.rocm:
        repo = matrix.repos[matrix.channels[row.channel].repos[0]]
        place = f"apt/{row.apt_dir}" if repo.name == "amd" else "debian"
        suite = repo.suite or row.suite
        archive = suites.setdefault((place, suite), Repo(www / place, suite=suite))
        there = {each.name for each in archive.packages}
        for name in set(row.packages) - there:
            archive.add(name, f"{row.version}-1", content=b"")
    for suite in ("bookworm", "sid", "experimental"):
        archive = suites.setdefault(("debian", suite), Repo(www / "debian", suite=suite))
    for archive in suites.values():
        archive.add("libc6", "99.0-1", content=b"")
        archive.publish(by_hash=False, forms=(".xz",))
    (www / "rocm.gpg.key").write_bytes(archive_key().armoured)


def pytorch_wheels(matrix: Matrix) -> dict[str, list[Wheel]]:
    """Return the wheels on pytorch.org by index; its URL ends with the build, such as `cu118`."""
    found: dict[str, list[Wheel]] = {}
    for row in matrix.torch:
        if not row.channel:
            folder = row.index.removeprefix(PYTORCH).rstrip("/")
            found.setdefault(folder, []).extend(builds(row, folder.rpartition("/")[2]))
    return found


def builds(row: TorchSet, local: str) -> Iterator[Wheel]:
    platform = "win_amd64" if row.cuda else "linux_x86_64"
    names = {"torch": row.version, **row.companions}
    for name in names.keys() & {"torch", "torchvision", "torchaudio"}:
        version = names[name] + (".0" if names[name].count(".") < 2 else "")
        for series in row.python:
            tag = f"cp{series.replace('.', '')}"
            yield build_wheel(name, f"{version}+{local}", tag=f"{tag}-{tag}-{platform}")


def pinned_numpys(matrix: Matrix) -> set[str]:
    return {row.companions["numpy"] for row in matrix.torch if "numpy" in row.companions}


# ---------------------------------------------------------------- other platforms and Python versions


@contextlib.contextmanager
def listing_on(platform: str, answers: dict[tuple[str, ...], Any]) -> Iterator[None]:
    """List files as on another platform that has every Python; `answers` caches uv's output."""
    run = Uv.run
    asked = ""

    def find_python(spec: str, _uv: Uv) -> Interpreter:
        nonlocal asked
        asked = spec or "{}.{}".format(*sys.version_info[:2])
        return Interpreter(path=Path(sys.executable), version=f"{asked}.0")

    def run_there(uv: Uv, *arguments: str, **options: Any) -> Any:
        assert arguments[:2] == ("pip", "compile")
        arguments += (f"--python-platform={platform}", f"--python-version={asked}")
        # Cache, because many sets share a PyTorch release.
        same = (*(each for each in arguments if "/rocenv-" not in each), *map(str, options.items()))
        wanted = (Path(arguments[2]).read_text(), *same)
        if wanted not in answers:
            answers[wanted] = run(uv, *arguments, **options)
        return answers[wanted]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Uv, "run", run_there)
        patch.setattr(wheels, "find_python", find_python)
        patch.setattr(rocm_wheels, "find_python", find_python)
        if platform == "windows":
            patch.setattr(rocenv.plan, "WINDOWS", True)
            patch.setattr(create, "WINDOWS", True)
            patch.setattr(packaging.tags, "platform_tags", lambda: iter(["win_amd64"]))
        yield


def what_is_missing(plan: Lock, best: Candidate) -> str:
    """Describe files that `create` could not find, except those that the user must provide."""
    try:
        require_installable(plan)
    except RocenvError as error:
        if not pack_is_named(error, best.row(Pack)):
            return error.message
    for each in plan.artifacts:
        # If the hash is missing, the first download determines it, so the URL must use HTTPS.
        if not each.sha256 and not each.url.startswith("https://"):
            return f"{each.name} has neither a hash nor a trusted URL: {each.url}"
    sdk = best.row(HipSdk)
    return "" if sdk is None or installer_is_named(plan, sdk) else "the HIP SDK's installer is missing"


def pack_is_named(error: RocenvError, pack: Pack | None) -> bool:
    """Whether `create` explains where to find a library pack with an unknown file name."""
    page = f"https://github.com/{pack.provider}/releases/tag/{pack.tag}" if pack else ""
    return bool(page) and any(page in hint and "`pack` row" in hint for hint in error.hints)


def installer_is_named(plan: Lock, sdk: HipSdk) -> bool:
    """Whether the plan mentions the HIP SDK installer, which users may have to run, and its URL."""
    [installer] = next(part for part in plan.components if part.kind == "rocm").artifacts
    named = (installer.kind, installer.name, installer.url)
    return named == ("installer", sdk.installer, sdk.url) and sdk.url in plan_text(plan)


def listed(best: Candidate, case: Situation, context: Context, answers: dict[tuple[str, ...], Any]) -> str:
    """Plan the best set for a case, with all of its files."""
    with listing_on(case.request.platform, answers), pytest.MonkeyPatch.context() as patch:
        patch.setattr(rocenv.plan, "resolve", lambda *_: iter([best]))
        try:
            return what_is_missing(make_plan(case.request, context, case.machine), best)
        except RocenvError as error:
            return error.message


def situations(matrix: Matrix) -> Iterator[tuple[str, Situation]]:
    """Return the cases that resolve, and each wheel release with each matching PyTorch release."""
    for path in CASES:
        case = read(path)
        if case.expect is not None:
            yield path.stem, case
    for row in matrix.rocm_wheels:
        torches = [each for each in matrix.torch if (each.channel, each.rocm) == (row.channel, row.version)]
        for torch in (*([""] if row.packages else []), *(each.version for each in torches)):
            request = Request(
                platform=row.platform, target="gfx1100", rocm=row.version, channel=row.channel, torch=torch
            )
            yield (
                f"{row.platform} {row.channel} {row.version} {torch}",
                Situation(why="", source="", request=request),
            )


def test_every_plan_that_resolves_can_be_created(context: Context) -> None:
    missing: dict[str, str] = {}
    answers: dict[tuple[str, ...], Any] = {}
    seen = set()
    for name, case in situations(context.matrix):
        best = next(resolve(case.request, context.matrix, case.machine))
        parts = tuple((part.kind, part.channel, part.version) for part in best.parts)
        # Wheels for different targets differ only in their names.
        by_name = best.row(RocmWheels) is not None and best.runs_as == case.request.target
        targets = len(case.request.targets) if by_name else (*case.request.targets, best.runs_as)
        question = (case.request.platform, parts, targets, case.request.python)
        if question not in seen:
            seen.add(question)
            missing[name] = listed(best, case, context, answers)
    assert {name: why for name, why in missing.items() if why} == {}
    assert len(seen) > 90


def test_a_user_row_can_add_a_pack(context: Context, tmp_path: Path) -> None:
    """Users do not have to wait for a new rocenv release."""
    case = read(next(path for path in CASES if path.stem == "gfx1011-windows-rocm64"))
    with pytest.raises(ResolutionImpossible):
        resolve(case.request, context.matrix)
    url = "https://github.com/somebody/packs/releases/download/v1/its.name.7z"
    (tmp_path / "own.toml").write_text(PACK.format(provider="somebody/packs", url=url))
    best = next(resolve(case.request, load(own=tmp_path)))
    with listing_on("windows", {}), pytest.MonkeyPatch.context() as patch:
        patch.setattr(rocenv.plan, "resolve", lambda *_: iter([best]))
        plan = make_plan(case.request, context)
    assert url in [each.url for each in plan.artifacts]
    assert not any("file name is unknown" in note for note in plan.notes)
