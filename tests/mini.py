"""A simulated machine for the real `rocenv`, with a mirror and data about tiny sets.

Its one channel has two sets. ROCm 5.7 works with any C library. ROCm 6.4 claims to need a newer C library
than any machine has and includes a copy of the local one.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests import forked
from tests.aptrepo import Repo
from tests.debs import Entry, file, folder, symlink

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping

    from tests.loopback import Loopback

LIBRARIES = "usr/lib/x86_64-linux-gnu"
LOADER = "ld-linux-x86-64.so.2"
TARGET = "gfx1100"
FUTURE_GLIBC = "99.0"
_ROW = 'status = "tested"\nsource = "tests/mini.py"\nchecked = "2026-11-20"\n'
_SET = """
[[rocm]]
version = "{version}"
channel = "mini"
packages = ["{suffix}-hip", "{suffix}-blas"]
compiles = ["gfx1030", "gfx1100"]
blas = ["gfx1100"]
official = ["gfx1100"]
{row}[rocm.layout]
root = "usr"
bin = "usr/bin"
library_dirs = ["{libraries}"]
libraries.hip = "libamdhip64.so.{major}"
libraries.hiprtc = "libhiprtc.so.{major}"
libraries.rocblas = "librocblas.so.{major}"
runtime = {{ hip = "{version}" }}
"""
PROFILES = f"""schema = 1
[[repo]]
name = "mini"
base = "debian:"
suite = "mini"
keyrings = ["/usr/share/keyrings/mini.gpg"]
suites_known = ["mini"]
{_ROW}
[[channel]]
name = "mini"
title = "The mini archive"
by = "distribution"
repos = ["mini"]
{_ROW}
[[keep_out]]
pattern = "debconf*"
reason = "packages in a prefix are not configured"
{_ROW}
[[c_library]]
package = "libc6"
loader = "{LOADER}"
files = ["{LOADER}", "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0"]
{_ROW}
[[environment]]
change = {{ action = "set", name = "ROCM_PATH", value = "{{rocm}}" }}
when = "rocm"
reason = "compilers look here"
{_ROW}
[[environment]]
change = {{ action = "prepend", name = "PATH", value = "{{bin}}" }}
when = "rocm"
reason = "the programs of the release"
{_ROW}
[[environment]]
change = {{ action = "prepend", name = "LD_LIBRARY_PATH", value = "{{library_dirs}}" }}
when = "rocm"
reason = "the libraries of the env first"
{_ROW}"""


@dataclass
class Mini:
    """A simulated machine in one folder; `env` is the environment of its processes."""

    root: Path
    server: Loopback
    repo: Repo
    env: dict[str, str] = field(default_factory=dict)

    @classmethod
    def build(cls, root: Path, server: Loopback, libraries: Mapping[str, bytes] | None = None) -> Mini:
        """Create the machine and publish both sets.

        Args:
            root: An empty folder.
            server: A running server for `root / "www"`; mirrors are below `/debian`.
            libraries: Role (hip, hiprtc, rocblas) -> bytes of the library; defaults to plain text.
        """
        mini = cls(root, server, Repo(root / "www" / "debian"))
        mini._write_machine()
        write_profiles(root / "profiles")
        for suffix, version, glibc in (("mini5", "5.7.1", "2.17"), ("mini6", "6.4.3", FUTURE_GLIBC)):
            mini.add_set(suffix, version, glibc, libraries or {})
        mini.repo.add("libc6", f"{FUTURE_GLIBC}-1", c_library_files(), compression="none", depends="debconf")
        mini.repo.publish()
        mini.env = {
            "HOME": str(root / "user"),
            "LC_ALL": "C.UTF-8",
            "PATH": os.environ.get("PATH", os.defpath),
            "ROCENV_HOME": str(mini.home),
            "ROCENV_PROFILES": str(root / "profiles"),
            "ROCENV_SYSROOT": str(mini.sysroot),
            "ROCENV_TARGET": TARGET,
        }
        return mini

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def sysroot(self) -> Path:
        return self.root / "sysroot"

    def prefix(self, name: str) -> Path:
        return self.home / "envs" / name

    def command(self, *argv: str) -> list[str]:
        """Return a command line for the real program."""
        return [sys.executable, "-m", "rocenv", *argv]

    def run(self, *argv: str, timeout_s: float = 60, **env: str) -> subprocess.CompletedProcess[str]:
        """Run `rocenv ARGV...`; keyword arguments are added to its environment."""
        return forked.run_text(argv, env={**self.env, **env}, cwd=self.root, timeout_s=timeout_s)

    def create(self, name: str = "demo", *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Create, but do not verify, an env with ROCm 5.7 or the release in argv; fail if `create` fails."""
        options = argv if "--rocm" in argv else ("--rocm", "5.7", *argv)
        done = self.run("create", name, *options, "--no-verify", timeout_s=60, **env)
        assert done.returncode == 0, done.stderr
        return done

    def add_set(self, suffix: str, version: str, glibc: str, libraries: Mapping[str, bytes]) -> None:
        """Add a set's packages to the repository; `publish` makes them available."""
        major = version.partition(".")[0]

        def library(role: str, name: str) -> list[Entry]:
            content = libraries.get(role, f"{name} {version}\n".encode())
            return [
                file(f"./{LIBRARIES}/{name}.so.{version}", content),
                symlink(f"./{LIBRARIES}/{name}.so.{major}", f"{name}.so.{version}"),
            ]

        self.repo.add(
            f"{suffix}-hip",
            f"{version}-1",
            [
                *map(folder, ("./", "./usr", "./usr/lib", f"./{LIBRARIES}", "./usr/bin")),
                *library("hip", "libamdhip64"),
                *library("hiprtc", "libhiprtc"),
                file("./usr/bin/hipconfig", "#!/bin/sh\necho hipconfig of the env\n", mode=0o755),
                file(f"./usr/share/doc/{suffix}-hip/copyright", "none\n"),
            ],
            depends=f"libc6 (>= {glibc}), debconf (>= 0.5) | debconf-2.0",
        )
        self.repo.add(
            f"{suffix}-blas",
            f"{version}-1",
            [
                *library("rocblas", "librocblas"),
                file(f"./{LIBRARIES}/rocblas/library/kernels.dat", "k" * 4096),
            ],
            compression="xz",
            depends=f"{suffix}-hip (>= {version}), libc6 (>= 2.17)",
        )

    def _write_machine(self) -> None:
        texts = {
            "etc/os-release": 'ID=mini\nVERSION_CODENAME="mini"\n',
            "etc/apt/sources.list.d/mini.sources": (
                f"Types: deb\nURIs: {self.server.url}/debian\nSuites: mini\nComponents: main\n"
                "Signed-By: /usr/share/keyrings/mini.gpg\n"
            ),
            "proc/self/mountinfo": "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n",
        }
        for name, text in texts.items():
            path = self.sysroot / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        keyring = self.sysroot / "usr/share/keyrings/mini.gpg"
        keyring.parent.mkdir(parents=True)
        keyring.write_bytes(self.repo.key.keyring)
        (self.root / "user").mkdir()


def write_profiles(folder: Path) -> None:
    """Write the data rows for both sets."""
    folder.mkdir()
    sets = "".join(
        _SET.format(version=version, suffix=suffix, major=version[0], row=_ROW, libraries=LIBRARIES)
        for suffix, version in (("mini5", "5.7.1"), ("mini6", "6.4.3"))
    )
    (folder / "mini.toml").write_text(PROFILES + sets)


def add_row(folder: Path, suffix: str, version: str) -> None:
    """Add a data row for another set."""
    row = _SET.format(version=version, suffix=suffix, major=version[0], row=_ROW, libraries=LIBRARIES)
    (folder / f"{suffix}-{version}.toml").write_text(f"schema = 1\n{row}")


def c_library_files() -> list[Entry]:
    """Return this Python's C library as package entries."""
    maps = Path("/proc/self/maps").read_text()
    match = re.search(r"(/\S+)/libc\.so\.6$", maps, re.MULTILINE)
    assert match is not None, "this Python does not use the GNU C library"
    names = (LOADER, "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1")
    found = [Path(match[1]) / name for name in names]
    return [
        file(f"./{LIBRARIES}/{path.name}", path.read_bytes(), mode=0o755) for path in found if path.exists()
    ]
