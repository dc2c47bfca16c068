"""A fake HIP SDK installer: a program followed by a 7z archive with packages."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

from rocenv.install.sevenzip import run_quietly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

# Source: public build scripts that extract packages from the installers for 5.7 to 7.1
PACKAGES = "Packages/Apps/ROCmSDKPackages"
# The program in a self-extracting archive contains the 7z signature, because it searches for that signature.
_STUB = r'int main(void) { static volatile char s[] = "7z\xbc\xaf\x27\x1c"; return s[0] == 0; }'


def msi(path: Path, files: Mapping[str, bytes], folders: Sequence[str]) -> None:
    """Build a Windows Installer package.

    Args:
        path: The file to write, in an existing folder.
        files: The files to install: path below the last of `folders` -> bytes.
        folders: Nested folders below `Program Files`.
    """
    build = path.with_name(f"{path.stem}.build")
    build.mkdir()
    root: dict[str, object] = {}
    here = root
    for name in folders:
        here = here.setdefault(name, {})  # type: ignore[assignment]
    for name, content in files.items():
        place = here
        *parents, base = name.split("/")
        for parent in parents:
            place = place.setdefault(parent, {})  # type: ignore[assignment]
        place[base] = content
    counter = iter(range(100_000))
    references: list[str] = []
    tree = _directories(root, build, counter, references)
    build.joinpath("x.wxs").write_text(
        f"""<?xml version='1.0' encoding='utf-8'?>
<Wix xmlns='http://schemas.microsoft.com/wix/2006/wi'>
<Product Name={quoteattr(path.stem)} Id='*' UpgradeCode='ABCDDCBA-86C7-4D14-AEC0-86416A69ABDE' Language='1033'
 Version='1.0.0' Manufacturer='Nobody'>
<Package Id='*' InstallerVersion='200' Compressed='yes' InstallScope='perMachine'/>
<Media Id='1' Cabinet='core.cab' EmbedCab='yes'/>
<Directory Id='TARGETDIR' Name='SourceDir'><Directory Id='ProgramFiles64Folder'>{tree}</Directory></Directory>
<Feature Id='All' Level='1'>{"".join(references)}</Feature>
</Product></Wix>""",
        encoding="utf-8",
    )
    _run(["wixl", "-a", "x64", "-o", str(path), "x.wxs"], build)
    shutil.rmtree(build)


def _directories(
    tree: Mapping[str, object], build: Path, counter: Iterator[int], references: list[str]
) -> str:
    text = ""
    for name, inner in tree.items():
        number = next(counter)
        if isinstance(inner, bytes):
            (build / f"f{number}").write_bytes(inner)
            references.append(f"<ComponentRef Id='C{number}'/>")
            text += (
                f"<Component Id='C{number}' Guid='ABCDDCBA-83F1-4F22-985B-{number:012d}' Win64='yes'>"
                f"<File Id='F{number}' Name={quoteattr(name)} Source='f{number}' KeyPath='yes'/>"
                "</Component>"
            )
        else:
            assert isinstance(inner, dict)
            inside = _directories(inner, build, counter, references)
            text += f"<Directory Id='D{number}' Name={quoteattr(name)}>{inside}</Directory>"
    return text


def installer(path: Path, version: str, packages: Mapping[str, Mapping[str, bytes]], *options: str) -> Path:
    """Build an installer.

    Args:
        path: The file to write, in an existing folder.
        version: The SDK's folder, such as "5.7".
        packages: Package name, such as `SDKCore/ROCm_SDK_Core.msi` -> its files below `ROCm/VERSION`.
        options: Options for 7-Zip.
    """
    content = path.with_name(f"{path.stem}.content")
    for name, files in packages.items():
        place = content / PACKAGES / name
        place.parent.mkdir(parents=True, exist_ok=True)
        msi(place, files, ("AMD", "ROCm", version))
    driver = content / "Packages/Drivers/Display/WT6A_INF"
    driver.mkdir(parents=True)
    (driver / "driver.sys").write_bytes(b"the display driver" * 1000)
    (content / "Setup.exe").write_bytes(b"MZ")
    pack(path, content, *options)
    shutil.rmtree(content)
    return path


def pack(path: Path, content: Path, *options: str) -> None:
    """Pack a folder into a self-extracting program."""
    archive, source = path.with_suffix(".7z"), path.with_suffix(".c")
    _run(["7z", "a", *options, str(archive), "."], content)
    source.write_text(_STUB)
    _run(["x86_64-w64-mingw32-gcc", "-s", "-o", str(path), str(source)])
    settings = b';!@Install@!UTF-8!\nRunProgram="Setup.exe"\n;!@InstallEnd@!'
    path.write_bytes(path.read_bytes() + settings + archive.read_bytes())
    archive.unlink()
    source.unlink()


def msiextract(package: Path, target: Path, advance: Callable[[int], None]) -> None:
    """Unpack a package as `msiexec /a` does on Windows; the Windows lane runs the real one."""
    failure = run_quietly(["msiextract", "-C", str(target), str(package)], advance)
    assert not failure, failure


def _run(command: list[str], folder: Path | None = None) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
