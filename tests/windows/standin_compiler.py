"""Build DLLs and programs for Windows from `shims/fakes/`: each only once, two at a time."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

SOURCES = Path(__file__).parents[2] / "shims" / "fakes"
COMPILER = "x86_64-w64-mingw32-gcc"
RESOURCES = "x86_64-w64-mingw32-windres"
ABSENT = "msvcp_absent.dll"  # the missing dependency of a DLL with `needs_absent`
ABSENT_SOURCE = "int rocenv_absent(void) { return 0; }\n"
PARALLEL = 2
FLAGS = (
    *("-O2", "-Wall", "-Wextra", "-Werror", "-Wno-cast-function-type"),
    *("-s", "-static-libgcc", "-Wl,--no-insert-timestamp"),
)

_RESOURCE = """1 VERSIONINFO
FILEVERSION {numbers}
PRODUCTVERSION {numbers}
FILEOS 0x40004
FILETYPE 0x2
BEGIN
  BLOCK "StringFileInfo"
  BEGIN
    BLOCK "040904B0"
    BEGIN
      VALUE "CompanyName", "rocenv stand-in"
      VALUE "FileDescription", "For tests only, not a GPU runtime"
      VALUE "FileVersion", "{version}"
      VALUE "ProductVersion", "{version}"
    END
  END
  BLOCK "VarFileInfo"
  BEGIN
    VALUE "Translation", 0x409, 1200
  END
END
"""


@dataclass(frozen=True, kw_only=True)
class Binary:
    """A DLL or a program to build.

    Attributes:
        version: The version in its resource, or "" to omit the resource.
        links: The DLLs that it imports.
        without: Functions to omit from its exports.
        needs_absent: Whether to import a DLL that does not exist.
    """

    name: str
    source: str
    version: str = ""
    defines: tuple[tuple[str, str], ...] = ()
    links: tuple[Binary, ...] = ()
    without: tuple[str, ...] = ()
    needs_absent: bool = False

    @property
    def is_program(self) -> bool:
        return self.name.endswith(".exe")


def text(value: str) -> str:
    """Quote a value as a C string for a macro."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


@dataclass
class Workshop:
    """Builds binaries into a content-addressed folder, so that later runs reuse them."""

    folder: Path
    _keys: dict[Binary, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    def build(self, binaries: Iterable[Binary], into: Path) -> None:
        """Build binaries and copy them into a folder under their names."""
        binaries = list(binaries)
        into.mkdir(parents=True, exist_ok=True)
        for wave in _waves(binaries):
            with ThreadPoolExecutor(PARALLEL) as pool:
                list(pool.map(self.path, wave))
        for binary in binaries:
            shutil.copyfile(self.path(binary), into / binary.name)

    def path(self, binary: Binary) -> Path:
        """Build a binary if necessary; return the file with its real name."""
        target = self.folder / self._key(binary) / binary.name
        if not target.exists():
            self._compile(binary, target)
        return target

    def _compile(self, binary: Binary, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as work:
            made = Path(work) / binary.name
            macros = {**dict(binary.defines), **{name: f"not_exported_{name}" for name in binary.without}}
            macros["STANDIN_NAME"] = text(binary.name)
            libraries = [self.path(each) for each in binary.links]
            if binary.needs_absent:
                macros["STANDIN_NEEDS_ABSENT"] = "1"
                libraries.append(self._absent(Path(work)))
            command = [COMPILER, *FLAGS, *([] if binary.is_program else ["-shared"])]
            command += [f"-D{name}={value}" for name, value in macros.items()]
            command += [str(SOURCES / binary.source), *map(str, libraries)]
            if binary.version:
                command.append(str(self._resource(binary.version)))
            _run([*command, "-o", str(made)])
            os.replace(made, target)

    def _absent(self, folder: Path) -> Path:
        source = folder / "absent.c"
        source.write_text(ABSENT_SOURCE)
        _run([COMPILER, "-shared", str(source), "-o", str(folder / ABSENT)])
        return folder / ABSENT

    def _resource(self, version: str) -> Path:
        """Compile a version resource, which all files in a release share."""
        target = self.folder / f"version-{re.sub('[^0-9A-Za-z.]', '_', version)}.o"
        if not target.exists():
            numbers = [int(part) for part in re.findall("[0-9]+", version)[:4]]
            numbers += [0] * (4 - len(numbers))
            source = _RESOURCE.format(numbers=",".join(map(str, numbers)), version=version)
            with tempfile.TemporaryDirectory(dir=self.folder) as work:
                rc, made = Path(work, "version.rc"), Path(work, "version.o")
                rc.write_text(source)
                _run([RESOURCES, str(rc), str(made)])
                os.replace(made, target)
        return target

    def _key(self, binary: Binary) -> str:
        if binary not in self._keys:
            sources = b"".join(path.read_bytes() for path in sorted(SOURCES.glob("*.[ch]")))
            content = sources + repr((binary, FLAGS, _RESOURCE)).encode()
            self._keys[binary] = hashlib.sha256(content).hexdigest()[:16]
        return self._keys[binary]


def _waves(binaries: Iterable[Binary]) -> list[list[Binary]]:
    """Sort the binaries and their dependencies into groups that depend only on earlier groups."""
    depths: dict[Binary, int] = {}

    def depth(binary: Binary) -> int:
        if binary not in depths:
            depths[binary] = 1 + max((depth(each) for each in binary.links), default=-1)
        return depths[binary]

    deepest = max((depth(binary) for binary in binaries), default=-1)
    return [[binary for binary, at in depths.items() if at == wave] for wave in range(deepest + 1)]


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
