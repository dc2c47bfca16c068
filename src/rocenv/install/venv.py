"""A venv in the prefix: made by uv, filled from fetched wheels, checked, and cut off from uv's cache.

uv hard-links what it installs to its cache, so a file edited in place in one env would change every other
env, and every later one. Three things stand against that: small files get data of their own, large ones are
made read-only, and each install is compared with the hashes of the wheels' own RECORD files.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import errno
import hashlib
import os
import posixpath
import secrets
import stat
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.errors import ArchiveError, FetchError, PrefixError, RocenvError
from rocenv.model import FileEntry
from rocenv.sources.wheels import wheel_file_name
from rocenv.system import WINDOWS
from rocenv.system.files import break_link, clone_file, storage_errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocenv.model import Artifact
    from rocenv.sources.interpreter import Interpreter
    from rocenv.sources.uv import Outcome, Uv

# Below this a file is cheap to copy and may be one that people edit; above are libraries, worth sharing.
_OWN_DATA_BELOW = 1 << 20


def create_venv(venv: Path, python: Interpreter, uv: Uv) -> None:
    """Make an empty venv, which keeps working when the folder above it is renamed.

    Raises:
        PrefixError: It cannot be made, say because something lies there.
    """
    outcome = uv.run("venv", "--no-project", "--relocatable", f"--python={python.path}", str(venv))
    if outcome.code:
        raise PrefixError(f"cannot make the venv `{venv}`: {outcome.reason}", code="venv")


def install_wheels(
    venv: Path, artifacts: Sequence[Artifact], *, files: Mapping[str, Path], python: Interpreter, uv: Uv
) -> dict[str, FileEntry]:
    """Install exactly these wheels, and the pip that came with `python`, without opening a connection.

    Args:
        venv: A venv. Of what lies in it, changed or missing files of these wheels and other versions of
            them are replaced; further packages are left alone.
        artifacts: The locked set; their hashes are enforced.
        files: sha256 -> the fetched wheel, under any file name. Its path and time of change are how uv knows
            that it has unpacked it before.
        python: What the venv was made of.
        uv: Installs; `uv.tell` hears of files that were changed, here or in its cache.

    Returns:
        What lies in the venv afterwards, as `venv_files` does.

    Raises:
        FetchError: A wheel is missing or is not the one that was promised.
        ArchiveError: A wheel is damaged.
        PrefixError: The wheels do not fit the interpreter, or the venv cannot be written.
    """
    with storage_errors(venv), tempfile.TemporaryDirectory(prefix="rocenv-") as folder:
        requirements = Path(folder) / "requirements.txt"
        pins, places = _pins(artifacts, files, uv.cache / "rocenv-wheels")
        if python.pip_wheel is not None:
            pins.append(_pin_of(python.pip_wheel))
            places.append(python.pip_wheel.parent)
        requirements.write_text("".join(f"{pin}\n" for pin in pins), encoding="utf-8")
        install = [
            *("pip", "install", "--no-index", "--no-deps", "--only-binary=:all:", "--require-hashes"),
            # A reflink where the file system has them, else a hard link, else a copy.
            *("--link-mode=clone", f"--python={venv}", f"--requirements={requirements}"),
            *(f"--find-links={place.as_uri()}" for place in places),
        ]
        _succeed(uv.run(*install, offline=True))
        entries = _verified(venv, install, uv)
        _cut_off(venv, entries)
    return entries


def venv_files(venv: Path) -> dict[str, FileEntry]:
    """Return what lies in a venv: path below it, with `/` -> entry, sorted; byte code is left out.

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
            for path, entry in zip(found, pool.map(_entry, found), strict=True)
        }


def _entry(path: Path) -> FileEntry:
    info = path.lstat()
    if stat.S_ISLNK(info.st_mode):
        return FileEntry(link=os.readlink(path))
    return FileEntry(
        sha256=_digest(path, "sha256").hex(),
        size_bytes=info.st_size,
        executable=bool(info.st_mode & stat.S_IXUSR) and not WINDOWS,
    )


def _digest(path: Path, algorithm: str) -> bytes:
    digest = hashlib.new(algorithm)
    with path.open("rb") as stream:
        while data := stream.read(1 << 20):
            digest.update(data)
    return digest.digest()


def _pins(
    artifacts: Sequence[Artifact], files: Mapping[str, Path], links: Path
) -> tuple[list[str], list[Path]]:
    """Return a requirement for each wheel, and the folders in which uv finds it under its right name."""
    pins, places = [], []
    for artifact in artifacts:
        name = wheel_file_name(artifact.url)
        fetched = files.get(artifact.sha256)
        if fetched is None or not fetched.is_file():
            raise FetchError(f"the wheel `{name}` was not fetched")
        place = links / artifact.sha256
        place.mkdir(parents=True, exist_ok=True)
        _link(place / name, fetched)
        pins.append(f"{artifact.name}=={artifact.version} --hash=sha256:{artifact.sha256}")
        places.append(place)
    return pins, places


def _link(link: Path, target: Path) -> None:
    """Let `link` lead to `target`, also while another process does the same.

    Symbolic, so that it keeps no space in use; a Windows that forbids those gets a hard link.
    """
    fresh = link.with_name(f".{secrets.token_hex(8)}")
    with contextlib.suppress(OSError):
        if os.path.samefile(link, target):
            return
    try:
        fresh.symlink_to(os.path.abspath(target))
    except OSError:
        clone_file(target, fresh)
    os.replace(fresh, link)


def _pin_of(wheel: Path) -> str:
    name, version = wheel.name.split("-")[:2]
    return f"{name}=={version} --hash=sha256:{_digest(wheel, 'sha256').hex()}"


def _succeed(outcome: Outcome) -> None:
    if not outcome.code:
        return
    if "(os error 28)" in outcome.stderr:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if "Hash mismatch" in outcome.stderr:
        raise FetchError(
            f"a fetched wheel is not the promised one: {outcome.reason}",
            hints=("rocenv cache clear artifacts wheels", "and repeat the command: it fetches them anew"),
            code="hash-mismatch",
        )
    if "Failed to extract" in outcome.stderr:
        raise ArchiveError(f"a wheel is damaged: {outcome.reason}")
    project, pythons = outcome.fitting_pythons
    if pythons:
        raise PrefixError(
            f"the wheel of {project} is for Python {', '.join(pythons)}, not for that of the venv",
            hints=(f"--python {pythons[-1]}",),
            code="venv",
        )
    raise PrefixError(f"cannot install the wheels: {outcome.reason}", code="venv")


def _verified(venv: Path, install: Sequence[str], uv: Uv) -> dict[str, FileEntry]:
    """Return the files of the venv, once all of them are what their wheels say; unpack anew what is not."""
    entries = venv_files(venv)
    damaged = _damaged(venv, entries)
    if not damaged:
        return entries
    for project, paths in damaged.items():
        uv.tell(f"`{paths[0]}` is not what its wheel holds; unpacking {project} anew")
    _succeed(uv.run("cache", "clean", *damaged, offline=True))
    anew = (f"--reinstall-package={project}" for project in damaged)
    _succeed(uv.run(*install, *anew, offline=True))
    entries = venv_files(venv)
    if contradicting := _damaged(venv, entries):
        project = min(contradicting)
        raise RocenvError(
            f"{project} holds files that differ from its own list, such as `{contradicting[project][0]}`",
            hints=("report this to whoever builds that wheel",),
            code="wheel-inconsistent",
        )
    return entries


def _damaged(venv: Path, entries: Mapping[str, FileEntry]) -> dict[str, list[str]]:
    """Return, for each project, the files that are missing or are not what its RECORD says."""
    damaged = defaultdict(list)
    for record in [path for path in entries if path.endswith(".dist-info/RECORD")]:
        site, _, folder = posixpath.dirname(record).rpartition("/")
        project = folder.partition("-")[0].lower().replace("_", "-")
        with (venv / record).open(encoding="utf-8", newline="") as rows:
            for row in csv.reader(rows):
                path = posixpath.normpath(posixpath.join(site, row[0]))
                # The RECORD itself has no hash; byte code has none that would hold.
                if row[1] and "/__pycache__/" not in path and not _same(venv, path, entries, row[1]):
                    damaged[project].append(path)
    return damaged


def _same(venv: Path, path: str, entries: Mapping[str, FileEntry], expected: str) -> bool:
    entry = entries.get(path)
    if entry is None:
        return False
    algorithm, _, encoded = expected.partition("=")
    if algorithm not in hashlib.algorithms_available:
        return False
    digest = bytes.fromhex(entry.sha256) if algorithm == "sha256" else _digest(venv / path, algorithm)
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == encoded.rstrip("=")


def _cut_off(venv: Path, entries: Mapping[str, FileEntry]) -> None:
    """See to it that no careless write in the venv reaches the cache."""
    for name, entry in entries.items():
        path = venv / name
        if entry.link or path.lstat().st_nlink == 1:
            continue
        if entry.size_bytes < _OWN_DATA_BELOW:
            break_link(path)
        else:
            # The same inode as in the cache, and in every other env: read-only there too.
            path.chmod(stat.S_IMODE(path.lstat().st_mode) & ~0o222)
