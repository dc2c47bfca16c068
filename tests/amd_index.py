"""AMD's ROCm wheel indexes on loopback: URLs, redirects, pages and responses.

Each wheel is built on the first request for it, once per process. A page with hashes requires all of its
wheels to be built.
"""

from __future__ import annotations

import hashlib
import html
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote

from packaging.utils import canonicalize_name

from tests import amd_wheels
from tests.amd_binaries import LINUX, WINDOWS
from tests.loopback import Fault, Loopback

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from rocenv.data.rows import Matrix
    from tests.amd_wheels import Maker
    from tests.wheels.index import Wheel

CURRENT = f"cp{sys.version_info[0]}{sys.version_info[1]}"
STABLE, LEGACY = "/stable/rocm/whl-next/", "/repo/rocm/whl-multi-arch/"
NIGHTLY = "/nightly/rocm/whl-next/"
PYPI = "/pypi/simple/"
MIRRORS = {
    "https://stable.repo.amd.com/": "stable",
    "https://repo.amd.com/": "repo",
    "https://nightly.repo.amd.com/": "nightly",
    "https://repo.radeon.com/rocm/windows/": "radeon",
    "pypi:": PYPI.strip("/"),
}


_MAKING = threading.Lock()  # clients request several files at once, and those files share compiled libraries


class AmdIndex(Loopback):
    """Serve the indexes until the `with` block ends.

    Args:
        platforms: The wheels' platforms; Windows needs mingw.
        pythons: The Python versions that torch is built for.
        hashes: Add the sha256 of each file to the pages. AMD's stable index omits hashes.
        ranges: Support range requests.
        sidecars: Projects that publish metadata next to their files.
    """

    def __init__(
        self,
        *,
        platforms: tuple[str, ...] = (LINUX,),
        pythons: tuple[str, ...] = (CURRENT,),
        hashes: bool = False,
        ranges: bool = True,
        sidecars: Sequence[str] = (),
    ) -> None:
        super().__init__(ranges=ranges, missing=403)
        self.hashes = hashes
        self.sidecars = frozenset(sidecars)
        self._makers: dict[str, Maker] = {}  # path on the server -> file
        self._pages: dict[str, list[str]] = {}  # page path -> paths of its files, or names of its projects
        self._false: set[str] = set()  # names of files whose hash on the page is wrong
        pure = list(amd_wheels.pure_files())
        for base, releases in (
            (STABLE, amd_wheels.STABLE),
            (NIGHTLY, amd_wheels.NIGHTLY),
            (LEGACY, amd_wheels.LEGACY),
        ):
            self.offer(base, [*amd_wheels.release_files(releases, platforms, pythons), *pure])
        for platform in platforms:
            for python in pythons:
                older = amd_wheels.vision_files(amd_wheels.LEGACY[0], "0.28.0", "2.13.0", python, platform)
                self.offer(STABLE, older)
        for name, maker in amd_wheels.pypi_files():
            page = f"{PYPI}{project_of(name)}/"
            self._add(page + name, maker, page, PYPI)
        if WINDOWS in platforms:
            for release in amd_wheels.RADEON:
                self.offer(f"/radeon/rocm-rel-{release.rocm}/", amd_wheels.radeon_files(release))

    @property
    def mirrors(self) -> dict[str, str]:
        """Render a `[mirrors]` section for config.toml that redirects AMD's URLs to this server."""
        return {prefix: f"{self.url}/{base}/" for prefix, base in MIRRORS.items()}

    def write_mirrors(self, home: Path) -> None:
        """Add the mirrors to the settings of a rocenv home."""
        home.mkdir(parents=True, exist_ok=True)
        lines = [f'"{prefix}" = "{base}"\n' for prefix, base in self.mirrors.items()]
        with (home / "config.toml").open("a", encoding="utf-8") as out:
            out.writelines(["[mirrors]\n", *lines])

    @property
    def sent(self) -> int:
        """The total size of all response bodies sent, in bytes."""
        return sum(self._sent.values())

    def has(self, name: str) -> bool:
        """Whether a file with this name is served."""
        return any(path.endswith(f"/{name}") for path in self._makers)

    def wheel(self, name: str) -> Wheel:
        """Build the file with this name."""
        return self._made(next(path for path in self._makers if path.endswith(f"/{name}")))

    def asked(self, name: str) -> bool:
        """Whether a client requested this file or part of it."""
        return any(each.path.endswith(f"/{name}") and each.method == "GET" for each in self.requests)

    def add(self, wheels: Iterable[Wheel]) -> None:
        """Add files to the index for 7.13 to 7.14.1."""
        self.offer(LEGACY, ((wheel.filename, partial(_same, wheel)) for wheel in wheels))

    def offer(self, base: str, files: Iterable[tuple[str, Maker]]) -> None:
        """Add files to an AMD index: a redirecting one, a flat folder, or one with a page per project."""
        for name, maker in files:
            project = project_of(name)
            page = f"{base}{project}/"
            if base.startswith("/radeon/"):
                self._add(base + name, maker, base)
            elif base.endswith("/whl-next/"):
                product = "pytorch" if _is_of_torch(project) else "core"
                actual = f"{base.removesuffix('whl-next/')}{product}/whl-next/{project}/"
                self._add(actual + name, maker, actual, base)
                self.always(page, Fault(status=301, headers={"Location": actual}))
            else:
                self._add(base + name, maker, page, base)

    def offer_shipped(self, matrix: Matrix) -> None:
        """Add an empty wheel for every file that the rows list."""
        for row in matrix.rocm_wheels:
            prefix = next(each for each in MIRRORS if row.index.startswith(each))
            release = (row.channel, row.version)
            builds = [each for each in matrix.torch if (each.channel, each.rocm) == release]
            base = f"/{MIRRORS[prefix]}/{row.index.removeprefix(prefix)}"
            self.offer(base, dict(amd_wheels.shipped_files(row, builds)).items())

    def break_hash(self, name: str) -> None:
        """Publish a wrong hash for a file, if the pages contain hashes."""
        self._false.add(name)

    def replace(self, name: str, content: bytes) -> None:
        """Replace a file's contents, but not its published hash."""
        for path in self._makers:
            if path.endswith(f"/{name}"):
                self.files[path] = content

    def remove(self, name: str) -> None:
        """Remove a file, as AMD does with old nightly builds."""
        for path in [path for path in self._makers if path.endswith(f"/{name}")]:
            del self._makers[path]
            self.files.pop(path, None)
            for listed in self._pages.values():
                if path in listed:
                    listed.remove(path)

    def drop_page(self, path: str) -> None:
        """Remove a page, so that a file in `files` with the same path is served instead."""
        self._pages.pop(path, None)

    def content(self, path: str) -> bytes | None:
        if path in self._pages:
            return self._page(path).encode()
        if path not in self.files and path in self._makers:
            self.files[path] = self._made(path).data
        sidecar = path.removesuffix(".metadata")
        if sidecar != path and sidecar in self._makers and self._has_sidecar(sidecar):
            return self._made(sidecar).metadata
        return super().content(path)

    def _made(self, path: str) -> Wheel:
        with _MAKING:
            return self._makers[path]()

    def _add(self, path: str, maker: Maker, page: str, root: str = "") -> None:
        self._makers[path] = maker
        self._pages.setdefault(page, []).append(path)
        if root:
            projects = self._pages.setdefault(root, [])
            projects += [name for name in [f"{page.split('/')[-2]}/"] if name not in projects]

    def _page(self, page: str) -> str:
        lines = ["<!DOCTYPE html>", "<html>", "  <body>"]
        for path in sorted(self._pages[page]):
            name = path.rstrip("/").rpartition("/")[2]
            lines.append(
                f'    <a href="{self._link(page, path)}"{self._attributes(path)}>{html.escape(name)}</a><br/>'
            )
        return "\n".join([*lines, "  </body>", "</html>", "<!--TIMESTAMP 1790000000-->", ""])

    def _link(self, page: str, path: str) -> str:
        """Build a link from a page to a file or project below it, or to a file in the parent folder."""
        folder, _, name = path.rpartition("/")
        if not path.startswith("/"):
            return path
        digest = ""
        if self.hashes:
            data = self._made(path).data + (b"?" if name in self._false else b"")
            digest = f"#sha256={hashlib.sha256(data).hexdigest()}"
        return ("" if f"{folder}/" == page else "../") + quote(name) + digest

    def _attributes(self, path: str) -> str:
        if not self._has_sidecar(path):
            return ""
        digest = hashlib.sha256(self._made(path).metadata).hexdigest()
        return "".join(f' data-{name}-metadata="sha256={digest}"' for name in ("dist-info", "core"))

    def _has_sidecar(self, path: str) -> bool:
        return path.endswith(".whl") and project_of(path.rpartition("/")[2]) in self.sidecars


def _same(wheel: Wheel) -> Wheel:
    return wheel


def project_of(file_name: str) -> str:
    """Return the project that a file belongs to."""
    return canonicalize_name(file_name.split("-")[0])


def _is_of_torch(project: str) -> bool:
    return project.startswith(("torch", "triton", "amd-torch"))
