"""The distribution's real indexes, from the mirror that apt on this machine uses."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from rocenv import config
from rocenv.context import Context
from rocenv.core.errors import FetchError
from rocenv.core.model import Lock, Request
from rocenv.core.progress import Progress
from rocenv.data.load import load
from rocenv.home import Home
from rocenv.net import Network
from rocenv.plan import make_plan
from rocenv.sources.apt.mirrors import addresses
from rocenv.sources.apt.version import version_key
from rocenv.system.machine import glibc_version
from tests.network import require_network

NO_NETWORK = ("unreachable", "offline", "server-error", "certificate", "no-mirror")


def plan(request: Request, home: Home, *, repo: str) -> Lock:
    network = Network(mirrors=config.load(Home.default().config_file).mirrors)
    matrix = load(Path(__file__).parents[1] / "profiles")
    if not addresses(matrix.repos[repo], network):
        require_network("neither this machine's apt nor `[mirrors]` has a Debian mirror")
    context = Context(matrix=matrix, home=home, network=network, progress=Progress(stream=io.StringIO()))
    try:
        return make_plan(request, context)
    except FetchError as error:
        if error.code in NO_NETWORK:
            require_network(error.message)
        raise


@pytest.mark.network
@pytest.mark.parametrize(
    ("channel", "rocm", "target", "libraries"),
    [
        (
            "debian-trixie",
            "5.7",
            "gfx1100",
            {"libamdhip64-5", "libhsa-runtime64-1", "librocblas0", "libnuma1"},
        ),
        (
            "debian-forky",
            "6.4",
            "gfx1201",
            {"libamdhip64-6", "libhsa-runtime64-1", "librocblas4", "libnuma1"},
        ),
        (
            "debian-experimental",
            "7.2",
            "gfx1201",
            {"libamdhip64-7", "libhsa-runtime64-1", "librocblas5", "libnuma1"},
        ),
    ],
)
def test_real_indexes_yield_a_plan(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    channel: str,
    rocm: str,
    target: str,
    libraries: set[str],
) -> None:
    monkeypatch.delenv("ROCENV_SYSROOT", raising=False)
    request = Request(rocm=rocm, target=target, channel=channel)
    lock = plan(request, Home(tmp_path / "home"), repo=channel)
    (component,) = lock.components
    names = {artifact.name for artifact in component.artifacts}
    assert libraries <= names
    assert component.version.startswith(rocm)
    assert not any(name.startswith(("perl", "dpkg", "debconf", "python3")) for name in names)
    machine = glibc_version()
    is_older = machine is None or version_key(f"{machine[0]}.{machine[1]}") < version_key(component.glibc)
    assert ("libc6" in names) is is_older
    assert bool(component.loader) is is_older
    assert 10 < len(names) < 60
    assert sum(artifact.size_bytes for artifact in component.artifacts) > 100_000_000


@pytest.mark.network
def test_only_rocm_comes_from_experimental(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything else, in particular the C library, comes from sid."""
    monkeypatch.delenv("ROCENV_SYSROOT", raising=False)
    request = Request(rocm="7.2", target="gfx1201", channel="debian-experimental")
    lock = plan(request, Home(tmp_path / "home"), repo="debian-experimental")
    by_repo: dict[str, set[str]] = {}
    for artifact in lock.components[0].artifacts:
        by_repo.setdefault(artifact.repo, set()).add(artifact.name)
    assert by_repo.keys() == {"debian-sid", "debian-experimental"}
    rocm = ("libamd", "libhip", "libhsa", "libroc")
    assert all(name.startswith(rocm) for name in by_repo["debian-experimental"]), by_repo
    assert not any(name.startswith(rocm) for name in by_repo["debian-sid"]), by_repo
