"""A fake HIP SDK installer in the real format: a program followed by a 7z archive with MSIs."""

from __future__ import annotations

import random
import subprocess
import tempfile
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

from tests.windows.standin_compiler import Binary, Workshop, text
from tests.windows.standin_sets import sdk_row
from tests.windows.standins import hip_sdk, write_7z

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal

    from rocenv.data.windows import HipSdk

EXIT_IF_RUN = 77  # exit code of the program, which rocenv must not run
MSI_PATH = "Packages/Apps/ROCmSDKPackages/SDKCore/ROCm_SDK_Core.msi"
_GUID = "{{4E1A7A7E-0000-4000-8000-{number:012d}}}"
_WXS = """<?xml version="1.0" encoding="utf-8"?>
<Wix xmlns="http://schemas.microsoft.com/wix/2006/wi">
  <Product Id="{product}" UpgradeCode="{upgrade}" Name="ROCm SDK Core" Version="{version}" Language="1033"
           Manufacturer="rocenv stand-in">
    <Package InstallerVersion="200" Compressed="yes" />
    <Media Id="1" Cabinet="core.cab" EmbedCab="yes" />
    <Directory Id="TARGETDIR" Name="SourceDir">
      <Directory Id="ProgramFiles64Folder">
{tree}
      </Directory>
    </Directory>
    <Feature Id="Core" Level="1">
{components}
    </Feature>
  </Product>
</Wix>
"""


def installer(
    folder: Path,
    version: str,
    workshop: Workshop,
    *,
    content: Literal["msi", "opaque", "empty"] = "msi",
) -> Path:
    """Build an installer with the name of the real one; return its path.

    Args:
        version: The SDK's version or series.
        content: `opaque` appends data in an unknown format. `empty` makes an archive that contains only
            drivers, as in installers without the SDK.
    """
    sdk = sdk_row(version)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work_name:
        work = Path(work_name)
        packed = b"\0opaque" + random.Random(20).randbytes(200_000)
        if content != "opaque":
            packed = _archive(sdk, work, workshop, with_sdk=content == "msi").read_bytes()
    target = folder / sdk.installer
    target.write_bytes(workshop.path(_program(sdk)).read_bytes() + packed)
    return target


def write_msi(path: Path, tree: Path, sdk: HipSdk) -> Path:
    """Write an MSI that installs the `tree` folder into the SDK's folder."""
    _, *parts = PureWindowsPath(sdk.install_dir).relative_to("C:\\").parts  # without "Program Files"
    folders = _Folders(tree)
    body = folders.elements(tree)
    for index, part in reversed(list(enumerate(parts))):
        body = f'<Directory Id="top{index}" Name={quoteattr(part)}>\n{body}</Directory>\n'
    number = int("".join(sdk.version.split(".")))
    wxs = path.absolute().with_suffix(".wxs")
    wxs.write_text(
        _WXS.format(
            product=_GUID.format(number=number),
            upgrade=_GUID.format(number=10**9 + number),
            version=sdk.version,
            tree=body,
            components="".join(f'<ComponentRef Id="{each}" />\n' for each in folders.components),
        )
    )
    _run(["wixl", "-a", "x64", "-o", str(path.absolute()), str(wxs)], cwd=tree)
    wxs.unlink()
    return path


class _Folders:
    """Renders a tree as XML elements, with one component per folder."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        self.components: list[str] = []
        self._count = 0

    def elements(self, folder: Path) -> str:
        return "".join(self._elements(folder))

    def _elements(self, folder: Path) -> Iterator[str]:
        entries = sorted(folder.iterdir())
        files = [entry for entry in entries if entry.is_file()]
        if files:
            name = f"component{self._next()}"
            self.components.append(name)
            guid = _GUID.format(number=2 * 10**9 + self._count)
            yield f'<Component Id="{name}" Guid="{guid}">\n'
            for file in files:
                inner = quoteattr(str(file.relative_to(self.tree)))
                yield f'<File Id="file{self._next()}" Name={quoteattr(file.name)} Source={inner} />\n'
            yield "</Component>\n"
        for entry in entries:
            if entry.is_dir():
                yield f'<Directory Id="folder{self._next()}" Name={quoteattr(entry.name)}>\n'
                yield from self._elements(entry)
                yield "</Directory>\n"

    def _next(self) -> int:
        self._count += 1
        return self._count


def _archive(sdk: HipSdk, work: Path, workshop: Workshop, *, with_sdk: bool) -> Path:
    content = work / "content"
    others = {
        "Setup.exe": b"MZ stand-in",
        "Bin64/ATISetup.exe": b"MZ stand-in",
        "Config/AMDLog.config": b"<configuration/>",
        "Packages/Drivers/Display/WT6A_INF/U0123456.inf": b"[Version]\r\n",
    }
    for name, data in others.items():
        path = content / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    if with_sdk:
        msi = content / MSI_PATH
        msi.parent.mkdir(parents=True)
        write_msi(msi, hip_sdk(work / "tree", sdk.version, workshop), sdk)
    return write_7z(work / "packed.7z", content)


def _program(sdk: HipSdk) -> Binary:
    says = text("AMD Software: PRO Edition, stand-in")
    return Binary(
        name="Setup.exe",
        source="program.c",
        version=sdk.version,
        defines=(("STANDIN_SAYS", says), ("STANDIN_EXIT", str(EXIT_IF_RUN))),
    )


def _run(command: list[str], cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
