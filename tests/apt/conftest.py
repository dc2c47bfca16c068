"""In-process access to the simulated machine and its repository, and an archive like AMD's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from rocenv.context import Context
from rocenv.data.load import load
from rocenv.home import Home
from rocenv.net import Network
from rocenv.sources.apt import Found, find
from tests.aptrepo import Key, Repo
from tests.debs import file

if TYPE_CHECKING:
    from rocenv.data.releases import RocmSet
    from rocenv.data.rows import Matrix
    from tests.mini import Mini

_ROW = 'status = "tested"\nsource = "tests"\nchecked = "2026-11-20"\n'
_AMD = """schema = 1
[[repo]]
name = "amd"
base = "{url}/rocm/apt/{{apt_dir}}"
key_url = "{url}/rocm/rocm.gpg.key"
fingerprints = ["{fingerprint}"]
{row}
[[repo]]
name = "host"
base = "host:"
keyrings = ["/usr/share/keyrings/mini.gpg"]
{row}
[[channel]]
name = "amd"
title = "AMD's own packages"
by = "maker"
repos = ["amd", "host"]
{row}
[[rocm]]
version = "5.7.1"
channel = "amd"
apt_dir = "5.7.1"
suite = "jammy"
packages = ["hip-runtime-amd"]
compiles = ["gfx1100"]
blas = ["gfx1100"]
{row}[rocm.layout]
root = "opt/rocm-5.7.1"
library_dirs = ["opt/rocm-5.7.1/lib"]
libraries = {{ hip = "libamdhip64.so.5" }}
"""


@dataclass
class Inside:
    """The simulated machine for tests that call functions instead of running commands."""

    mini: Mini
    network: Network

    @property
    def home(self) -> Home:
        return Home(self.mini.home)

    @property
    def matrix(self) -> Matrix:
        return load()

    def row(self, channel: str, version: str) -> RocmSet:
        return next(row for row in self.matrix.rocm if (row.channel, row.version) == (channel, version))

    def find(self, channel: str = "mini", version: str = "5.7.1", *, max_age_s: float = 0) -> Found:
        row = self.row(channel, version)
        context = Context(home=self.home, matrix=self.matrix, network=self.network, max_age_s=max_age_s)
        return find(row, context)

    def write_sources(self, text: str) -> None:
        """Replace the simulated machine's apt sources."""
        folder = self.mini.sysroot / "etc/apt/sources.list.d"
        for path in folder.iterdir():
            path.unlink()
        (folder / "own.sources").write_text(text)


@dataclass
class Amd:
    """An archive with AMD's layout: its key is served next to it, and its URL contains the release."""

    inside: Inside
    repo: Repo

    @property
    def key_path(self) -> str:
        return "/rocm/rocm.gpg.key"

    def serve_key(self, content: bytes) -> None:
        path = self.inside.mini.root / "www" / self.key_path.lstrip("/")
        path.write_bytes(content)

    def find(self) -> Found:
        return self.inside.find("amd", "5.7.1")


@pytest.fixture
def inside(mini: Mini, monkeypatch: pytest.MonkeyPatch) -> Inside:
    for name, value in mini.env.items():
        monkeypatch.setenv(name, value)
    mini.home.mkdir()
    return Inside(mini, Network(pause_s=0.01))


@pytest.fixture
def amd(inside: Inside) -> Amd:
    mini, key = inside.mini, Key.new("rocm")
    text = _AMD.format(url=mini.server.url, fingerprint=key.fingerprint, row=_ROW)
    (mini.root / "profiles/amd.toml").write_text(text)
    repo = Repo(mini.root / "www/rocm/apt/5.7.1", suite="jammy", key=key)
    repo.add(
        "hip-runtime-amd",
        "5.7.1.50701-98~22.04",
        [file("./opt/rocm-5.7.1/lib/libamdhip64.so.5", "hip")],
        depends="libc6 (>= 2.35), libdrm2",
    )
    repo.publish()
    mini.repo.add("libdrm2", "2.4-1", [file("./usr/lib/libdrm.so.2", "drm")], depends="libc6 (>= 2.17)")
    mini.repo.publish()
    amd = Amd(inside, repo)
    amd.serve_key(key.armoured)
    return amd
