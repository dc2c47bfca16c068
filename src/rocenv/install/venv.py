"""A venv in the prefix: made and filled from fetched wheels, checked, and cut off from uv's cache.

uv hard-links what it installs to its cache, so a file edited in place in one env would change every other
env, and every later one. Three things stand against that: small files get data of their own, large ones are
made read-only, and each install is compared with the hashes of the wheels' own RECORD files.

rocenv checks the hashes of the wheels, so that a damaged one is fetched again; uv hashes what it unpacks, so
that nobody exchanges a wheel in between.
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

# Below this a file is cheap to copy and may be one that people edit; above are libraries, worth sharing.
_OWN_DATA_BELOW = 1 << 20
_DEVEL_TAR = (
    "_devel.tar"  # Source: ROCm/TheRock:build_tools/packaging/python/templates/rocm/src/rocm_sdk/_devel.py
)
_INIT_LIMIT_S = 900.0


def install_venv(
    prefix: Path, components: Sequence[Component], wheels: Mapping[str, Path], context: Context
) -> dict[str, FileEntry]:
    """Install the wheels of a set, into a venv that is made unless it is there; list its files.

    The venv keeps working when the prefix is renamed. `wheels` maps sha256 to a file of any name.

    Raises:
        PrefixError: It cannot be made, or parts want different ones; or as `install_wheels` raises.
    """
    from rocenv.sources.interpreter import find_python
    from rocenv.sources.uv import Uv

    wanted = {(each.into, each.python, each.layout and each.layout.site_packages) for each in components}
    into, version, packages = wanted.pop()
    if wanted or not packages:
        raise PrefixError("the set does not say which venv its wheels go into", code="set-incomplete")
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
    """Unpack ROCm's compilers and headers, as their first use would do it; tell whether there are any.

    Else a user's first `hipcc` would change the env. It runs also where they are unpacked: a device wheel
    that uv installed again has lost its links among them. The cache must be cut off before, since this makes
    hard links inside the venv.
    """
    if not (site / "rocm_sdk_devel").is_dir():
        return False
    python = venv / ("Scripts/python.exe" if WINDOWS else "bin/python")
    done = run([str(python), "-I", "-m", "rocm_sdk", "init", "--quiet"], timeout_s=_INIT_LIMIT_S)
    if not done.ok:
        said = done.error_text.strip().rpartition("\n")[2]
        raise PrefixError(f"`rocm-sdk init` cannot unpack ROCm's compilers: {said or done.end}", code="venv")
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
    """Install exactly these wheels, and the pip that came with `python`, without opening a connection.

    Args:
        venv: A venv. Of what is in it, changed or missing files of these wheels and other versions of
            them are replaced; further packages are left alone.
        site: Its folder of packages.
        artifacts: The locked set; their hashes are enforced before uv sees a wheel, and by uv.
        files: sha256 -> the fetched wheel, under any file name.
        python: What the venv was made of.
        uv: Installs; `uv.report` receives a line for files that were changed, here or in its cache.

    Returns:
        What is in the venv afterwards, as `venv_files` does.

    Raises:
        FetchError: A wheel is missing or is not the one that was promised.
        ArchiveError: A wheel is damaged.
        PrefixError: The wheels do not fit the interpreter, a path would be too long for Windows, or the venv
            cannot be written.
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
            uv.report(f"`{paths[0]}` is not what its wheel holds; reinstalling {project}")
            wheels[project].require_hash()
        _install(venv, wheels, uv, anew=tuple(damaged))
        entries = venv_files(venv)
        _require_undamaged(venv, entries, wheels)
    _cut_off(venv, entries)
    return entries


def _install(venv: Path, wheels: Mapping[str, _Offered], uv: Uv, anew: Sequence[str] = ()) -> None:
    """Let uv install these wheels alone; where it finds one damaged, say which, and forget that file."""
    pins = [
        f"{name}=={each.artifact.version} --hash=sha256:{each.link.parent.name}"
        for name, each in wheels.items()
    ]
    try:
        uv.install(venv, pins, [each.link.parent for each in wheels.values()], anew)
    except ArchiveError as error:
        for each in wheels.values():
            if WINDOWS and each.link != each.file:  # it may be a copy that differs
                each.link.unlink(missing_ok=True)
            each.require_hash()
        hint = "its hash is right, so it was built like this: report this to whoever builds that wheel"
        raise ArchiveError(error.message, hints=(hint,)) from error


def venv_files(venv: Path) -> dict[str, FileEntry]:
    """List a venv's files: path below it, with `/` -> entry, sorted; byte code is left out.

    The target of a link is given as it is: that of the interpreter is absolute and outside of the venv.
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
    """Make a wheel of each source archive: the sha256 of the archive -> the wheel."""
    made = {}
    for artifact in artifacts:
        if artifact.kind == "sdist" and artifact.sha256 in files:
            others = [each for each in artifacts if each.name.startswith(f"{artifact.name}-sdk-")]
            name, content = wheel_of(files[artifact.sha256], artifact, others)
            path = folder / hashlib.sha256(content).hexdigest() / name
            path.parent.mkdir(parents=True, exist_ok=True)
            # uv takes a wheel with another time for another one.
            if not path.exists() or path.read_bytes() != content:
                write_atomic(path, content)
            made[artifact.sha256] = path
    return made


class _Offered(NamedTuple):
    """A wheel under its right name for uv, and the file that this name leads to."""

    artifact: Artifact
    file: Path
    link: Path  # the file itself, if rocenv has made it of a source archive; in a folder named by its sha256

    def require_hash(self) -> None:
        """Raise DamagedPackage unless the file is the promised one, which else is removed."""
        if self.link != self.file:
            require_hash(self.artifact, self.file)


def _offered(artifact: Artifact, files: Mapping[str, Path], links: Path) -> _Offered:
    name = wheel_file_name(artifact.url)
    file = files.get(artifact.sha256)
    if file is None or not file.is_file():
        raise FetchError(f"the wheel `{name}` was not fetched")
    return _Offered(artifact, file, file if artifact.kind == "sdist" else links / artifact.sha256 / name)


def _bundled(pip: Path, links: Path) -> _Offered:
    """Offer the pip that came with an interpreter, without the other wheels beside it."""
    version, sha256 = pip.name.split("-")[1], sha256_of(pip)
    artifact = Artifact(kind="wheel", name="pip", version=version, url=pip.name, sha256=sha256, size_bytes=0)
    return _Offered(artifact, pip, links / sha256 / pip.name)


def _offer(wheel: _Offered) -> None:
    """Let the link lead to a file that has the promised hash, also while another process does the same.

    The hash is checked once, until the file changes: what has happened to it is older than the folder of the
    link. The link is symbolic, so that it keeps no space in use. Windows allows that to few: a hard link
    there, or a copy.
    """
    if wheel.link == wheel.file:
        return
    folder = wheel.link.parent
    with contextlib.suppress(OSError):
        same = os.path.samefile(wheel.link, wheel.file) or _looks_like(wheel.link, wheel.file)
        info = wheel.file.stat()
        # Programs can set the first of these times back, but not the second (on Windows, that of creation).
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
    """Whether a file was copied from another before."""
    first, second = copy.stat(), original.stat()
    return (first.st_size, first.st_mtime_ns) == (second.st_size, second.st_mtime_ns)


def _names_in(wheel: Path) -> list[str]:
    try:
        with zipfile.ZipFile(wheel) as archive:
            return archive.namelist()
    except zipfile.BadZipFile:
        return []  # uv will say so


def _drop_broken_lists(site: Path, projects: Container[str]) -> None:
    """Remove the `.dist-info` of projects that lacks its list of files: uv would not replace those."""
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
            f"{project} holds files that differ from its own list, such as `{contradicting[project][0]}`",
            hints=("report this to whoever builds that wheel",),
            code="wheel-inconsistent",
        )


def _damaged(venv: Path, entries: Mapping[str, FileEntry], projects: Container[str]) -> dict[str, list[str]]:
    """Map each damaged project to its files that are missing or are not what its RECORD says."""
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
        # Unpacking it removes it, and leaves it in the list.
        site, _, name = path.rpartition("/rocm_sdk_devel/")
        return name.startswith(_DEVEL_TAR) and f"{site}/_rocm_sdk_devel/__init__.py" in entries
    if not expected:  # the list itself, and what was unpacked later
        return True
    algorithm, _, encoded = expected.partition("=")
    if algorithm not in hashlib.algorithms_guaranteed or algorithm.startswith("shake_"):
        return False
    digest = bytes.fromhex(entry.sha256) if algorithm == "sha256" else hash_of(venv / path, algorithm)
    # Hexadecimal in wheels that AMD's tools have split.
    return encoded.rstrip("=") in (base64.urlsafe_b64encode(digest).rstrip(b"=").decode(), digest.hex())


def _cut_off(venv: Path, entries: Mapping[str, FileEntry]) -> None:
    """See to it that no careless write in the venv reaches the cache."""

    def cut(name: str) -> None:
        path = venv / name
        info = path.lstat()
        # Windows removes no read-only file, and unpacking the compilers removes theirs.
        if info.st_nlink == 1 or path.name.startswith(_DEVEL_TAR):
            return
        if info.st_size < _OWN_DATA_BELOW:
            break_link(path)
        else:
            # The same inode as in the cache, and in every other env: read-only there too.
            path.chmod(stat.S_IMODE(info.st_mode) & ~0o222)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(cut, (name for name, entry in entries.items() if not entry.link)))
