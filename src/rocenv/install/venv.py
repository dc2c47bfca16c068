"""Create a venv in the prefix, install wheels into it, verify it, and detach it from uv's cache.

uv hard-links installed files to its cache, so editing a file in one env would change every other env,
including future ones. Three measures prevent that: small files are copied, large ones become read-only, and
each installation is compared with the hashes in the wheels' RECORD files.

rocenv verifies wheel hashes so that it can re-download damaged wheels; uv verifies the hashes again when it
unpacks the wheels, so that a wheel cannot be replaced after rocenv verifies it.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import hashlib
import os
import posixpath
import secrets
import stat
import zipfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from packaging.utils import canonicalize_name

from rocenv.core.errors import ArchiveError, FetchError, PrefixError, RocenvError
from rocenv.core.model import Artifact
from rocenv.core.packages import wheel_file_name
from rocenv.core.versions import series
from rocenv.install.path_length import require_short_names
from rocenv.install.python_package import wheel_of
from rocenv.install.store import require_hash
from rocenv.integrity import file_entry
from rocenv.system import WINDOWS
from rocenv.system.files import break_link, clone_file, hash_of, remove_tree, sha256_of, write_atomic
from rocenv.system.process import run

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from rocenv.context import Context
    from rocenv.core.model import Component, FileEntry
    from rocenv.sources.interpreter import Interpreter
    from rocenv.sources.uv import Uv

# Smaller files are cheap to copy, and users may edit them; larger files are libraries, worth sharing.
_OWN_DATA_BELOW = 1 << 20
_DEVEL_TAR = (
    "_devel.tar"  # Source: ROCm/TheRock:build_tools/packaging/python/templates/rocm/src/rocm_sdk/_devel.py
)
_INIT_LIMIT_S = 900.0


def install_venv(
    prefix: Path, components: Sequence[Component], wheels: Mapping[str, Path], context: Context
) -> dict[str, FileEntry]:
    """Install a set's wheels into a venv, creating it if missing, and return its files.

    The venv still works if the prefix is renamed. `wheels` maps sha256 to a file with any name.

    Raises:
        PrefixError: The venv cannot be created, components need different venvs, or `install_wheels` failed.
    """
    from rocenv.sources.interpreter import find_python
    from rocenv.sources.uv import Uv

    wanted = {(each.into, each.python, each.layout and each.layout.site_packages) for each in components}
    into, version, packages = wanted.pop()
    if wanted or not packages:
        raise PrefixError("the set does not specify a venv for its wheels", code="set-incomplete")
    uv = Uv.for_context(context)
    python = find_python(series(version), uv)
    venv = prefix / into
    if not (venv / "pyvenv.cfg").exists():
        remove_tree(venv)
        uv.make_venv(venv, python)
    artifacts = [artifact for each in components for artifact in each.artifacts]
    with context.progress.wait("Installing the wheels"):
        entries = install_wheels(venv, prefix / packages, artifacts, files=wheels, python=python, uv=uv)
        if _expand_devel(venv, prefix / packages):
            entries = venv_files(venv)
    return {f"{into}/{name}": entry for name, entry in entries.items()}


def _expand_devel(venv: Path, site: Path) -> bool:
    """Unpack ROCm's compilers and headers, as their first use would, and return whether there are any.

    Otherwise the user's first `hipcc` would change the env. Run this even if they are already unpacked,
    because reinstalling a device wheel removes its links to them. Detach the venv from uv's cache first:
    this creates hard links inside the venv, which detaching would mistake for links to the cache.
    """
    if not (site / "rocm_sdk_devel").is_dir():
        return False
    python = venv / ("Scripts/python.exe" if WINDOWS else "bin/python")
    done = run([str(python), "-I", "-m", "rocm_sdk", "init", "--quiet"], timeout_s=_INIT_LIMIT_S)
    if not done.ok:
        said = done.error_text.strip().rpartition("\n")[2]
        raise PrefixError(
            f"`rocm-sdk init` could not unpack ROCm's compilers: {said or done.end}", code="venv"
        )
    return True


def install_wheels(
    venv: Path,
    site: Path,
    artifacts: Sequence[Artifact],
    *,
    files: Mapping[str, Path],
    python: Interpreter,
    uv: Uv,
) -> dict[str, FileEntry]:
    """Install exactly these wheels, and the pip bundled with `python`, offline.

    Args:
        venv: The venv to update. Changed or missing files and other versions of these wheels are replaced;
          other packages are kept.
        site: The site-packages folder of the venv.
        artifacts: The locked wheels; rocenv and uv both verify their hashes.
        files: sha256 -> downloaded wheel, with any file name.
        python: The base Python of the venv.
        uv: The uv that installs the wheels; `uv.report` receives a line about changed files in the venv or in
          uv's cache.

    Returns:
        The files in the updated venv, from `venv_files`.

    Raises:
        FetchError: A wheel is missing or does not match its hash.
        ArchiveError: A wheel is damaged.
        PrefixError: The wheels do not support the interpreter, a path is too long for Windows, or the venv is
          not writable.
    """
    links = uv.cache / "rocenv-wheels"
    files = {**files, **_made_wheels(artifacts, files, links)}
    wheels: dict[str, _Offered] = {
        canonicalize_name(each.name): _offered(each, files, links) for each in artifacts
    }
    if python.pip_wheel is not None:
        wheels["pip"] = _bundled(python.pip_wheel, links)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(_offer, wheels.values()))
    require_short_names(site, (name for each in wheels.values() for name in _names_in(each.file)))
    _drop_broken_lists(site, wheels)
    _install(venv, wheels, uv)
    entries = venv_files(venv)
    if damaged := _damaged(venv, entries, wheels):
        for project, paths in damaged.items():
            uv.report(f"`{paths[0]}` differs from its wheel; reinstalling {project}")
            wheels[project].require_hash()
        _install(venv, wheels, uv, anew=tuple(damaged))
        entries = venv_files(venv)
        _require_undamaged(venv, entries, wheels)
    _detach(venv, entries)
    return entries


def _install(venv: Path, wheels: Mapping[str, _Offered], uv: Uv, anew: Sequence[str] = ()) -> None:
    """Have uv install exactly these wheels; if a wheel is damaged, remove it and raise an error."""
    pins = [
        f"{name}=={each.artifact.version} --hash=sha256:{each.link.parent.name}"
        for name, each in wheels.items()
    ]
    try:
        uv.install(venv, pins, [each.link.parent for each in wheels.values()], anew)
    except ArchiveError as error:
        for each in wheels.values():
            if WINDOWS and each.link != each.file:  # a copy, which may have changed
                each.link.unlink(missing_ok=True)
            each.require_hash()
        hint = "its hash is correct, so the published wheel is damaged; report this to its publisher"
        raise ArchiveError(error.message, hints=(hint,)) from error


def venv_files(venv: Path) -> dict[str, FileEntry]:
    """Return a venv's files except bytecode: relative path with `/` -> entry, sorted.

    Link targets are kept unchanged: the interpreter links to an absolute path outside the venv.
    """
    found = []
    for folder, subfolders, names in os.walk(venv):
        links = [name for name in subfolders if os.path.islink(os.path.join(folder, name))]
        found += [Path(folder, name) for name in (*names, *links)]
        subfolders[:] = [name for name in subfolders if name != "__pycache__" and name not in links]
    found.sort()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return {
            path.relative_to(venv).as_posix(): entry
            for path, entry in zip(found, pool.map(file_entry, found), strict=True)
        }


def _made_wheels(artifacts: Sequence[Artifact], files: Mapping[str, Path], folder: Path) -> dict[str, Path]:
    """Build a wheel from each sdist: sha256 of the sdist -> wheel."""
    made = {}
    for artifact in artifacts:
        if artifact.kind == "sdist" and artifact.sha256 in files:
            others = [each for each in artifacts if each.name.startswith(f"{artifact.name}-sdk-")]
            name, content = wheel_of(files[artifact.sha256], artifact, others)
            path = folder / hashlib.sha256(content).hexdigest() / name
            path.parent.mkdir(parents=True, exist_ok=True)
            # uv would treat a wheel with a different modification time as a different wheel.
            if not path.exists() or path.read_bytes() != content:
                write_atomic(path, content)
            made[artifact.sha256] = path
    return made


class _Offered(NamedTuple):
    """A wheel, and a link to it with the name that uv expects."""

    artifact: Artifact
    file: Path
    link: Path  # in a folder named after its sha256; same as `file` if rocenv built it from an sdist

    def require_hash(self) -> None:
        """Remove the file and raise DamagedPackage unless the file matches its hash."""
        if self.link != self.file:
            require_hash(self.artifact, self.file)


def _offered(artifact: Artifact, files: Mapping[str, Path], links: Path) -> _Offered:
    name = wheel_file_name(artifact.url)
    file = files.get(artifact.sha256)
    if file is None or not file.is_file():
        raise FetchError(f"the wheel `{name}` was not downloaded")
    return _Offered(artifact, file, file if artifact.kind == "sdist" else links / artifact.sha256 / name)


def _bundled(pip: Path, links: Path) -> _Offered:
    """Offer uv an interpreter's bundled pip wheel, but not the other wheels in its folder."""
    version, sha256 = pip.name.split("-")[1], sha256_of(pip)
    artifact = Artifact(kind="wheel", name="pip", version=version, url=pip.name, sha256=sha256, size_bytes=0)
    return _Offered(artifact, pip, links / sha256 / pip.name)


def _offer(wheel: _Offered) -> None:
    """Verify the file's hash, then create the link, even while another process does the same.

    The hash is verified again only if the file is newer than the link's folder. The link is symbolic, so that
    deleting the file frees its space. On Windows, where most users are not allowed to create symbolic links,
    it is a hard link or a copy.
    """
    if wheel.link == wheel.file:
        return
    folder = wheel.link.parent
    with contextlib.suppress(OSError):
        same = os.path.samefile(wheel.link, wheel.file) or _looks_like(wheel.link, wheel.file)
        info = wheel.file.stat()
        # Programs can set the modification time but not the change time (on Windows, the creation time).
        if same and max(info.st_mtime_ns, info.st_ctime_ns) <= folder.stat().st_mtime_ns:
            return
    wheel.require_hash()
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / f".{secrets.token_hex(8)}"
    if WINDOWS:
        clone_file(wheel.file, fresh)
    else:
        fresh.symlink_to(os.path.abspath(wheel.file))
    os.replace(fresh, wheel.link)


def _looks_like(copy: Path, original: Path) -> bool:
    """Whether a file appears to be an earlier copy of another."""
    first, second = copy.stat(), original.stat()
    return (first.st_size, first.st_mtime_ns) == (second.st_size, second.st_mtime_ns)


def _names_in(wheel: Path) -> list[str]:
    try:
        with zipfile.ZipFile(wheel) as archive:
            return archive.namelist()
    except zipfile.BadZipFile:
        return []  # uv reports it


def _drop_broken_lists(site: Path, projects: Container[str]) -> None:
    """Remove `.dist-info` folders lacking RECORD or METADATA, because uv would not replace them."""
    for info in list(site.glob("*.dist-info")):
        whole = (info / "RECORD").is_file() and (info / "METADATA").is_file()
        if not whole and _project_of(info.name) in projects:
            remove_tree(info)


def _project_of(dist_info: str) -> str:
    return canonicalize_name(dist_info.partition("-")[0])


def _require_undamaged(venv: Path, entries: Mapping[str, FileEntry], projects: Container[str]) -> None:
    if contradicting := _damaged(venv, entries, projects):
        project = min(contradicting)
        raise RocenvError(
            f"{project} contains files that do not match its RECORD, such as `{contradicting[project][0]}`",
            hints=("report this to the wheel's publisher",),
            code="wheel-inconsistent",
        )


def _damaged(venv: Path, entries: Mapping[str, FileEntry], projects: Container[str]) -> dict[str, list[str]]:
    """Map each damaged project to its missing or changed files, according to its RECORD."""
    damaged = defaultdict(list)
    for record in [path for path in entries if path.endswith(".dist-info/RECORD")]:
        site, _, folder = posixpath.dirname(record).rpartition("/")
        project = _project_of(folder)
        if project not in projects:
            continue
        with (venv / record).open(encoding="utf-8", newline="") as rows:
            for row in csv.reader(rows):
                path = posixpath.normpath(posixpath.join(site, row[0]))
                if "/__pycache__/" not in path and not _is_whole(venv, path, entries, row[1]):
                    damaged[project].append(path)
    return damaged


def _is_whole(venv: Path, path: str, entries: Mapping[str, FileEntry], expected: str) -> bool:
    entry = entries.get(path)
    if entry is None:
        # Unpacking the compilers removes this file, but RECORD still lists it.
        site, _, name = path.rpartition("/rocm_sdk_devel/")
        return name.startswith(_DEVEL_TAR) and f"{site}/_rocm_sdk_devel/__init__.py" in entries
    if not expected:  # RECORD itself, and files that are unpacked later
        return True
    algorithm, _, encoded = expected.partition("=")
    if algorithm not in hashlib.algorithms_guaranteed or algorithm.startswith("shake_"):
        return False
    digest = bytes.fromhex(entry.sha256) if algorithm == "sha256" else hash_of(venv / path, algorithm)
    # RECORD contains hexadecimal hashes in wheels split by AMD's tools.
    return encoded.rstrip("=") in (base64.urlsafe_b64encode(digest).rstrip(b"=").decode(), digest.hex())


def _detach(venv: Path, entries: Mapping[str, FileEntry]) -> None:
    """Detach the venv from uv's cache, so that changes in the venv do not affect the cache."""

    def cut(name: str) -> None:
        path = venv / name
        info = path.lstat()
        # Unpacking the compilers deletes their archive, which fails on Windows if it is read-only.
        if info.st_nlink == 1 or path.name.startswith(_DEVEL_TAR):
            return
        if info.st_size < _OWN_DATA_BELOW:
            break_link(path)
        else:
            # The cache and all other envs share this inode, so it becomes read-only there too.
            path.chmod(stat.S_IMODE(info.st_mode) & ~0o222)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(cut, (name for name, entry in entries.items() if not entry.link)))
