"""Update a folder that a web server can serve as a mirror of the packages and wheels in this home's envs.

    HOST/PATH               a package or wheel, at the path in its URL; also signed package indexes
    debian/…, host/…        the same, for repositories whose URL differs between machines
    HOST/INDEX/PROJECT/     a page of links to wheels, at the path of an index's page
    simple/PROJECT/         the same, for wheels from the general index

Files are added and replaced, but never removed, because other machines may have locks that need them. A
package list is written before the `InRelease` that signs it. The list comes from this home, even if it is
old, because a newer one would list packages that are not part of any env.
"""

from __future__ import annotations

import contextlib
import html
import math
import os
import re
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from packaging.utils import canonicalize_name

from rocenv.core.errors import FetchError, RocenvError
from rocenv.core.packages import wheel_file_name
from rocenv.install.build import env_locked
from rocenv.install.fetch import download
from rocenv.install.store import require_hash
from rocenv.sources.apt.mirrors import is_symbolic, relocated
from rocenv.sources.apt.signed import signed_indices
from rocenv.sources.general_index import GENERAL
from rocenv.sources.lock_review import plain_place
from rocenv.system import WINDOWS
from rocenv.system.files import beside, file_chunks, move, write_atomic
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from rocenv.context import Context
    from rocenv.core.model import Artifact, Lock
    from rocenv.data.rows import Matrix
    from rocenv.sources.apt.signed import SignedIndex

_SIMPLE = "simple"
_PAGE = "index.html"
_LINK = re.compile('^<a href="([^"]+)">([^<]+)</a><br>$', re.MULTILINE)


@dataclass(slots=True)
class Mirrored:
    """The result of updating a mirror.

    Attributes:
        settings: URL prefix for `[mirrors]` -> folder in the mirror.
        added: Path of each new file, relative to the mirror -> size.
        problems: Reasons for missing files, one line each.
    """

    settings: dict[str, str] = field(default_factory=dict)
    added: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def update_mirror(folder: Path, locks: Mapping[str, Lock], context: Context) -> Mirrored:
    """Add to a mirror everything that machines need to create these envs.

    Raises:
        FetchError: A file is neither cached nor available for download.
        RocenvError: The folder is not writable.
    """
    done = Mirrored()
    try:
        with env_locked(context.home, uses_store=True):
            locks = {name: relocated(lock, context) for name, lock in locks.items()}
            _add_artifacts(folder, locks.values(), context, done)
            _add_signed_indices(folder, locks, context, done)
            for lock in locks.values():
                _add_pages(folder, lock, context.matrix, done)
    except OSError as error:
        hint = "specify a writable folder on a disk with enough space"
        raise RocenvError(f"cannot write to `{folder}`: {error.strerror}", hints=(hint,)) from error
    return done


def _place_of(artifact: Artifact, matrix: Matrix) -> tuple[str, str, str]:
    """Return a file's path in a mirror, and the prefix and folder for `[mirrors]`; all "" without a URL."""
    repo = matrix.repos.get(artifact.repo)
    if repo is not None and is_symbolic(repo) and artifact.path:
        folder = repo.base.rstrip(":")
        return f"{folder}/{artifact.path}", repo.base, folder
    return _place_of_url(artifact.url)


def _place_of_url(url: str) -> tuple[str, str, str]:
    origin, path = plain_place(url)
    host = urlsplit(origin).netloc.replace(":", "_")
    return (f"{host}/{unquote(path).strip('/')}", f"{origin}/", host) if origin else ("", "", "")


def _is_below(place: str) -> bool:
    """Whether a path stays inside the mirror; a lock may contain any URL."""
    is_plain = place.isprintable() and not (WINDOWS and re.search(r"[\\:]", place))
    return "/" in place.rstrip("/") and is_plain and not {".", ".."} & set(place.split("/"))


def _add_artifacts(folder: Path, locks: Iterable[Lock], context: Context, done: Mirrored) -> None:
    """Copy files that are missing or have a different size; earlier copies have already been verified."""
    missing: dict[str, Artifact] = {}
    places: dict[str, list[str]] = {}
    for artifact in (each for lock in locks for each in lock.artifacts if each.kind != "folder"):
        place, prefix, below = _place_of(artifact, context.matrix)
        if not _is_below(place):
            done.problems.append(f"`{artifact.name}` has a URL that cannot be mirrored: {artifact.url}")
            continue
        done.settings[prefix] = below
        with contextlib.suppress(OSError):
            if (folder / place).stat().st_size == artifact.size_bytes:
                continue
        missing[artifact.sha256] = artifact
        places.setdefault(artifact.sha256, []).append(place)
    with (
        closing(download(list(missing.values()), context)) as fetched,
        context.progress.stage("Copying", sum(each.size_bytes for each in missing.values())) as stage,
    ):
        for artifact, path in fetched:
            require_hash(artifact, path)
            for place in places[artifact.sha256]:
                _copy(path, folder / place)
                done.added[place] = artifact.size_bytes
            stage.advance(artifact.size_bytes)


def _copy(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = beside(target, "new")
    try:
        with fresh.open("xb") as out:
            for data in file_chunks(path):
                out.write(data)
        move(fresh, target)
    finally:
        fresh.unlink(missing_ok=True)


def _add_signed_indices(folder: Path, locks: Mapping[str, Lock], context: Context, done: Mirrored) -> None:
    packages: dict[Path, frozenset[str]] = {}
    for name, lock in locks.items():
        try:
            indices = {each.release: each for each in signed_indices(lock, context, math.inf)}
        except FetchError as error:
            done.problems.append(
                f"a package index of env `{name}` is missing, so clients can create it only from its lock: "
                f"{error.message}"
            )
            continue
        for release in indices.keys() - packages.keys():
            packages[release] = indices[release].packages
            _add_signed_index(folder, indices[release], done)
        wanted = {each.sha256 for each in lock.artifacts if each.kind == "deb"}
        if not wanted <= frozenset().union(*(packages[release] for release in indices)):
            done.problems.append(
                f"the package index is newer than env `{name}`, so clients can create it only from its lock; "
                f"to change that, run `rocenv upgrade {shell_join(name)}`, then `rocenv mirror` again"
            )


def _add_signed_index(folder: Path, signed: SignedIndex, done: Mirrored) -> None:
    index = signed.index
    if is_symbolic(index.repo):
        root = index.root.rstrip(":")
        done.settings[index.root] = root
    else:
        root, prefix, below = _place_of_url(index.root)
        done.settings[prefix] = below
    suite = f"{root}/dists/{index.suite}"
    for name, path in signed.lists:
        _put(folder, f"{suite}/{name}", path.read_bytes(), done)
    _put(folder, f"{suite}/InRelease", signed.release.read_bytes(), done)
    if signed.key is not None:
        place, prefix, below = _place_of_url(index.repo.key_url)
        done.settings[prefix] = below
        _put(folder, place, signed.key.read_bytes(), done)


def _add_pages(folder: Path, lock: Lock, matrix: Matrix, done: Mirrored) -> None:
    """Add links for a lock's wheels to the pages of their indexes."""
    files = {
        place: each
        for part in lock.components
        for each in part.artifacts
        if each.kind in ("wheel", "sdist") and (place := _place_of(each, matrix)[0])
    }
    pages = dict(_indices(lock, matrix))
    for index, is_flat in pages.items():
        root, prefix, below = _place_of_url(index)
        done.settings[prefix] = below
        for place, each in files.items():
            _link(folder, root if is_flat else f"{root}/{canonicalize_name(each.name)}", place, each, done)
    hosts = {_place_of_url(index)[2] for index in pages}
    for place, each in files.items():
        if place.partition("/")[0] not in hosts:
            done.settings[GENERAL] = _SIMPLE
            _link(folder, f"{_SIMPLE}/{canonicalize_name(each.name)}", place, each, done)


def _indices(lock: Lock, matrix: Matrix) -> Iterator[tuple[str, bool]]:
    """Yield the indexes that list a lock's wheels, and whether each is flat: one page for all projects."""
    for part in lock.components:
        if part.kind == "torch":
            build = part.version.partition("+")[2]
            yield from ((row.index, False) for row in matrix.torch if row.build.partition("+")[2] == build)
        for row in matrix.rocm_wheels:
            is_row = (row.channel, row.platform) == (part.channel, lock.platform)
            if part.kind == "rocm" and is_row and (row.floating or row.version == part.version):
                yield row.index, row.flat


def _link(folder: Path, page: str, place: str, artifact: Artifact, done: Mirrored) -> None:
    """Add a link to a page, keeping links from earlier runs."""
    path = folder / page / _PAGE
    known = dict(_LINK.findall(path.read_text(encoding="utf-8"))) if path.exists() else {}
    relative = os.path.relpath(place, page).replace(os.sep, "/")
    href = f"{quote(relative)}#sha256={artifact.sha256}"
    known[html.escape(href)] = html.escape(wheel_file_name(artifact.url))
    lines = (f'<a href="{link}">{name}</a><br>' for link, name in sorted(known.items()))
    text = "\n".join(("<!DOCTYPE html>", *lines, ""))
    _put(folder, f"{page}/{_PAGE}", text.encode(), done)


def _put(folder: Path, place: str, content: bytes, done: Mirrored) -> None:
    path = folder / place
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, content)
    done.added[place] = len(content)
