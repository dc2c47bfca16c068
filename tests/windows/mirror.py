"""A loopback mirror of everything that a ZLUDA set downloads, with the same paths as the real URLs.

with Loopback(folder=root) as server:
    mirror = Mirror(root, server, workshop)
    mirror.add_installer("5.7.1")
    mirror.add_zluda("3.9.5", "rocm5")
    mirror.add_pack("5.7", "gfx1031")
    mirror.add_torch("2.7.1+cu118")
    mirror.write_config(home)
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from rocenv.core.versions import series
from rocenv.sources.general_index import GENERAL
from tests.loopback import Fault
from tests.windows import standin_installer, standin_wheels, standins
from tests.windows.lab import PYTHON, PYTHON_TAG
from tests.windows.standin_sets import asset_of, build_row, matrix, sdk_row

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from rocenv.data.windows import Pack
    from tests.loopback import Loopback
    from tests.wheels.index import Wheel
    from tests.windows.standin_compiler import Workshop

HTML = {"Content-Type": "text/html"}
GENERAL_FOLDER = "general/simple/"
OTHER_NUMPY = "2.1.2"  # torch's own index has a version that differs from the row


@dataclass
class Mirror:
    """The served files. The first folder in a path is the real host.

    Args:
        root: The folder that the server serves.
        server: The running server.
        workshop: The workshop that builds the fake libraries.
    """

    root: Path
    server: Loopback
    workshop: Workshop
    mirrors: dict[str, str] = field(default_factory=dict)  # prefix of real URLs -> prefix on this server
    _indices: dict[str, dict[str, Wheel]] = field(default_factory=dict)  # folder -> file name -> wheel

    def add_installer(self, version: str, **options: Any) -> str:
        """Add a HIP SDK installer; return its real URL."""
        sdk = sdk_row(version)
        place = self.place(sdk.url)
        made = standin_installer.installer(place.parent, sdk.version, self.workshop, **options)
        assert made == place
        return sdk.url

    def add_zluda(self, version: str, flavour: str, project: str = "lshqqytiger", **options: Any) -> str:
        """Add a ZLUDA build's archive; return its real URL."""
        build = build_row(project, version)
        url = build.url.format(tag=build.tag, asset=asset_of(build, flavour).name)
        place = self.place(url)
        if project == "vosen":
            made = standins.vosen_archive(place.parent, version, self.workshop, **options)
        else:
            made = standins.zluda_archive(place.parent, version, flavour, self.workshop, **options)
        assert made == place
        return url

    def add_pack(self, sdk: str, target: str, **options: Any) -> tuple[str, ...]:
        """Add every library pack in the data for an SDK and a target; return their real URLs."""
        packs = packs_for(sdk, target)
        assert packs, f"the data has no pack for {target} and HIP SDK {sdk}"
        for pack in packs:
            place = self.place(pack.url)
            made = {"name": place.name, "inner": pack.inner_folder, **options}
            standins.library_pack(place.parent, sdk_row(sdk).version, target, self.workshop, **made)
        return tuple(pack.url for pack in packs)

    def add_torch(
        self, version: str = "2.7.1+cu118", python: str = PYTHON_TAG, numpy: Path | None = None
    ) -> str:
        """Add torch and its companions and dependencies to torch's own index, and numpy to the general index.

        Args:
            version: The version, including its local part, as in the wheels.
            python: The tag of the interpreter.
            numpy: The real numpy 1.26.4 for Windows, if available.

        Returns:
            The real URL of torch's index.
        """
        plain = version.partition("+")[0]
        (row,) = (
            each for each in matrix().torch if (each.version, each.cuda) == (plain, standin_wheels.CUDA)
        )
        torch = standin_wheels.torch_wheel(self.workshop, version, python)
        dependencies = standin_wheels.dependency_wheels()
        other_numpy = standin_wheels.numpy_wheel(None, OTHER_NUMPY, python)
        own = (torch, *standin_wheels.sibling_wheels(version, python), *dependencies, other_numpy)
        self.add_index(self._folder(row.index), own)
        general = (standin_wheels.numpy_wheel(numpy, row.companions["numpy"], python), *dependencies)
        self.add_index(GENERAL_FOLDER, general)
        self.mirrors[GENERAL] = f"{self.server.url}/{GENERAL_FOLDER}"
        return row.index

    def add_index(self, folder: str, wheels: tuple[Wheel, ...]) -> None:
        """Add wheels to a simple index (PEP 503, 658) with their hashes, but without sizes."""
        for wheel in wheels:
            path = self.root / folder / wheel.filename
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(wheel.data)
            path.with_name(path.name + ".metadata").write_bytes(wheel.metadata)
        known = self._indices.setdefault(folder, {})
        known.update((wheel.filename, wheel) for wheel in wheels)
        projects = sorted({wheel.project for wheel in known.values()})
        for project in projects:
            page = "".join(_link(wheel) for wheel in known.values() if wheel.project == project)
            self._serve_page(f"/{folder}{project}/", page)
        self._serve_page(f"/{folder}", "".join(f'<a href="{each}/">{each}</a>\n' for each in projects))

    def place(self, url: str) -> Path:
        """Return the local file that the server sends for a real URL, after creating its folder."""
        return self.root / self._folder(url).rstrip("/")

    def served(self, url: str) -> str:
        """Return the path of a real URL on the server, for `Loopback.fail` and `Loopback.seen`."""
        return f"/{self._folder(url).rstrip('/')}"

    def config_text(self) -> str:
        """Render a `config.toml` with these mirrors and the lab's only Python as the default."""
        lines = [f'"{prefix}" = "{address}"' for prefix, address in sorted(self.mirrors.items())]
        return "\n".join(["[mirrors]", *lines, "[defaults]", f'python = "{PYTHON}"', ""])

    def write_config(self, home: Path) -> Path:
        """Write `config.toml` into a ROCENV_HOME."""
        home.mkdir(parents=True, exist_ok=True)
        path = home / "config.toml"
        path.write_text(self.config_text(), encoding="utf-8")
        return path

    def _folder(self, url: str) -> str:
        parts = urlsplit(url)
        self.mirrors[f"{parts.scheme}://{parts.netloc}/"] = f"{self.server.url}/{parts.netloc}/"
        return f"{parts.netloc}{unquote(parts.path)}".rstrip("/") + "/"

    def _serve_page(self, path: str, links: str) -> None:
        body = f"<!DOCTYPE html><html><body>\n{links}</body></html>\n".encode()
        for each in (path, path.rstrip("/")):
            # Redirect to the path with a slash, as real servers do, so that relative links resolve.
            fault = Fault(headers=HTML) if each == path else Fault(status=301, headers={"Location": path})
            self.server.files[each] = body
            self.server.always(each, fault)


def packs_for(sdk: str, target: str) -> tuple[Pack, ...]:
    """List the rocBLAS packs that can be downloaded for an SDK and exactly one target."""
    row = sdk_row(sdk)
    return tuple(
        pack
        for pack in matrix().pack
        if pack.kind == "rocblas"
        and pack.url
        and {row.version, series(row.version)} & set(pack.rocm)
        and pack.targets == (target,)
        and pack.asset.endswith(".7z")
    )


def _link(wheel: Wheel) -> str:
    metadata = hashlib.sha256(wheel.metadata).hexdigest()
    return (
        f'<a href="../{quote(wheel.filename)}#sha256={wheel.sha256}" '
        f'data-dist-info-metadata="sha256={metadata}" data-core-metadata="sha256={metadata}">'
        f"{wheel.filename}</a><br/>\n"
    )
