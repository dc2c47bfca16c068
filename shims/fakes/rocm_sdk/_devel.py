"""Unpack the development files into the installation, as AMD's `rocm_sdk` does. For tests only."""

import importlib.metadata
import json
import shutil
import sys
import tarfile
from pathlib import Path

from rocm_sdk import _dist_info

_STAY_LINKS = ("amdclang", "amdclang++", "amdclang-cl", "amdclang-cpp", "amdflang", "amdlld", "amdllvm")


def get_devel_root():
    """Return the folder of unpacked development files, which links to the files from device wheels."""
    try:
        import rocm_sdk_devel
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("rocm_sdk_devel is missing: pip install rocm[devel]") from error
    package = Path(rocm_sdk_devel.__file__).parent
    site = package.parent
    root = site / _dist_info.PACKAGES["devel"]
    for archive in (package / "_devel.tar.xz", package / "_devel.tar"):
        if archive.exists():
            _unpack(archive, site)
            archive.unlink()  # its RECORD entry is kept
    _link_device_files(site, root)
    return root


def _record_of(name):
    files = importlib.metadata.files(name) or ()
    return next(file.locate() for file in files if file.name == "RECORD")


def _unpack(archive, site):
    known = {str(file) for file in importlib.metadata.files("rocm-sdk-devel") or ()}
    fresh = set()
    with _record_of("rocm-sdk-devel").open("a") as record, tarfile.open(archive) as tar:
        for member in tar:
            path = site / member.name
            if path.parent not in fresh:
                shutil.rmtree(path.parent, ignore_errors=True)
                fresh.add(path.parent)
            path.parent.mkdir(parents=True, exist_ok=True)
            if member.name not in known:
                record.write(f"{member.name},,\n")
            _place(tar, member, path, site)


def _place(tar, member, path, site):
    target = path.parent / member.linkname
    if member.issym() and sys.platform != "win32" and path.name in _STAY_LINKS:
        path.symlink_to(member.linkname)
    elif member.issym() and target.is_file():
        path.hardlink_to(target)
    else:
        tar.extract(member, site)


def _link_device_files(site, root):
    for dist in importlib.metadata.distributions(path=[str(site)]):
        if (
            not (dist.metadata["Name"] or "").startswith("rocm-sdk-device-")
            or dist.version != _dist_info.__version__
        ):
            continue
        for file in dist.files or ():
            if file.parent.name == ".devel_links":
                names = [_link(root, link) for link in json.loads(file.read_text())["links"]]
                _own(dist, [(root / name).relative_to(site).as_posix() for name in names])
    (root / ".devel_reconcile.lock").touch()


def _link(root, link):
    path = root / link["relpath"]
    target = path.parent / link["target"]
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or not path.samefile(target):
        path.unlink(missing_ok=True)
        path.hardlink_to(target)
    return link["relpath"]


def _own(dist, names):
    known = {str(file) for file in dist.files}
    record = next(file.locate() for file in dist.files if file.name == "RECORD")
    with record.open("a") as out:
        out.writelines(f"{name},,\n" for name in names if name not in known)
