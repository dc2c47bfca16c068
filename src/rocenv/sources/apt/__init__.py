"""apt repositories as a source of ROCm releases and apps.

`index` downloads and verifies a repository's index, `mirrors` finds the mirrors that this machine's apt uses,
and `closure` selects packages. Closures are cached under a hash of all inputs; cache files that this home
did not write are ignored.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import structs

from rocenv.core.codec import from_plain, to_plain
from rocenv.core.errors import DataError, NotAvailable
from rocenv.core.foreign import parse_json
from rocenv.core.logins import shown
from rocenv.core.model import Artifact, Component, Value
from rocenv.core.progress import size_text
from rocenv.data.releases import RocmSet
from rocenv.resolve.apps import packages_of
from rocenv.sources import c_library, unreachable
from rocenv.sources.apt.closure import closure, demands_on
from rocenv.sources.apt.control import Lists, Relation
from rocenv.sources.apt.index import day_of, open_index
from rocenv.sources.apt.mirrors import apt_settings, join
from rocenv.sources.apt.version import upstream, version_key
from rocenv.system.machine import glibc_version
from rocenv.system.seal import read_sealed, write_sealed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocenv.context import Context
    from rocenv.core.model import Layout, Request
    from rocenv.data.apps import AppPackages
    from rocenv.data.rows import Matrix
    from rocenv.resolve import Candidate, Choice
    from rocenv.sources.apt.control import Package
    from rocenv.sources.apt.index import Index

TREE = "rocm"  # folder in the prefix for unpacked packages


class Found(Value, frozen=True, kw_only=True):
    """A set's current packages."""

    version: str  # version of the first requested package
    artifacts: tuple[Artifact, ...]
    glibc: str  # oldest C library that the set supports: "2.38"
    own_glibc: bool  # whether the set includes a C library because the system's is too old
    notes: tuple[str, ...] = ()


def outline(choice: Choice, _candidate: Candidate, _request: Request, _context: Context) -> Component:
    """Implement `Source.outline`."""
    row = choice.row
    assert isinstance(row, RocmSet)
    return structs.replace(choice.outline(choice.channel), layout=row.layout.below(TREE), into=TREE)


def component(
    choice: Choice, candidate: Candidate, request: Request, context: Context
) -> tuple[Component, tuple[str, ...]]:
    """List the packages for a release and an app; see `Source`.

    Raises:
        FetchError: An index is unreachable or not trusted.
        NotAvailable: The indexes do not contain a package.
    """
    row = choice.row
    assert isinstance(row, RocmSet)
    app = packages_of(request.app, row.channel, context.matrix)
    with unreachable.tracked(row.channel, context, named=bool(request.channel)):
        bare = found = find(row, context)
        if app is not None:
            found = find(structs.replace(row, packages=(*row.packages, *app.names)), context)
    notes = found.notes
    if app is not None:
        notes = (_added_by(app, row.channel, bare, found), *notes)
    if found.own_glibc:
        notes += (c_library.note(found.glibc),)
    part = structs.replace(
        outline(choice, candidate, request, context),
        artifacts=found.artifacts,
        glibc=found.glibc,
        loader=context.matrix.c_library[0].loader if found.own_glibc else "",
        layout=(row.layout if app is None else _with_app(row.layout, app)).below(TREE),
    )
    return part, notes


def _with_app(layout: Layout, app: AppPackages) -> Layout:
    folders = tuple(dict.fromkeys((*layout.library_dirs, *app.library_dirs)))
    programs = (*layout.programs, *app.programs)
    return structs.replace(
        layout, library_dirs=folders, programs=programs, links={**layout.links, **app.links}
    )


def _added_by(app: AppPackages, channel: str, bare: Found, found: Found) -> str:
    """Describe the packages that an app adds to a set, and their size."""
    there = {artifact.name for artifact in bare.artifacts}
    added = [artifact for artifact in found.artifacts if artifact.name not in there]
    first = next((each for each in found.artifacts if each.name == app.names[0]), None)
    fetched = sum(artifact.size_bytes for artifact in added)
    unpacked = sum(artifact.installed_bytes for artifact in added)
    name = f"{first.name} {first.version}" if first else app.app
    return (
        f"adds {name} from {channel}, {len(added)} packages including its dependencies: "
        f"{size_text(fetched)}, {size_text(unpacked)} unpacked"
    )


def find(row: RocmSet, context: Context) -> Found:
    """Find a set's current packages.

    Raises:
        FetchError: An index cannot be downloaded or is not trusted.
        NotAvailable: The indexes do not contain a package that the set needs.
    """
    matrix, home = context.matrix, context.home
    settings = apt_settings()
    network = context.network
    network = replace(network, proxy=network.proxy or settings.http_proxy)
    repos = [matrix.repos[name] for name in matrix.channels[row.channel].repos]
    indices = [open_index(repo, row, home, network, settings, context.max_age_s) for repo in repos]
    kept = home.indices / "closures" / f"{_cache_key(row, matrix, indices)}.json"
    try:
        found = from_plain(Found, parse_json(read_sealed(kept, home.key), str(kept)), str(kept))
    except (OSError, DataError):
        found = _resolve(row, matrix, indices)
        kept.parent.mkdir(exist_ok=True)
        write_sealed(kept, json.dumps(to_plain(found)).encode(), home.key)
    reason = (
        "rocenv is offline" if network.is_offline else "this machine's apt does not check the date either"
    )
    return structs.replace(found, notes=(*found.notes, *_notes(indices, reason)))


def _notes(indices: Sequence[Index], reason: str) -> Iterator[str]:
    for index in indices:
        if index.state.has_expired:
            day = day_of(index.state.valid_until_s)
            yield f"the index of {index.repo.name} expired on {day}, but rocenv uses it because {reason}"
        if index.state.older:
            yield index.state.older
    for index in indices:
        for why in index.state.passed_over:
            yield f"{why}; using the index of {index.repo.name} from {shown(index.state.base)} instead"


def _cache_key(row: RocmSet, matrix: Matrix, indices: Sequence[Index]) -> str:
    """Hash all inputs to the closure."""
    said = {
        "form": 4,
        "lists": [[each.state.base, *(file.sha256 for file in each.state.files)] for each in indices],
        "roots": row.packages,
        "keep_out": matrix.keep_out_patterns,
        "c_library": [library.package for library in matrix.c_library],
        "glibc": [glibc_version(), row.glibc],
    }
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:32]


def _resolve(row: RocmSet, matrix: Matrix, indices: Sequence[Index]) -> Found:
    lists = [Lists(index.repo.name, index.files) for index in indices]
    roots = tuple((Relation(name),) for name in row.packages)
    patterns = matrix.keep_out_patterns
    library = matrix.c_library[0].package
    # Never exclude packages that a row lists explicitly; Blender, for example, embeds Python.
    packages = closure(roots, lists, (*patterns, library), row.packages)
    demands = (*demands_on(packages, library), row.glibc or "0")
    glibc = upstream(max(demands, key=version_key))
    own = c_library.is_needed(glibc)
    if own:
        packages = closure((*roots, (Relation(library),)), lists, patterns, row.packages)
    version = upstream(next(each.version for each in packages if each.name == row.packages[0]))
    bases = {index.repo.name: index.base for index in indices}
    artifacts = tuple(_artifact(package, bases[package.repo]) for package in packages)
    return Found(version=version, artifacts=artifacts, glibc=glibc, own_glibc=own)


def _artifact(package: Package, base: str) -> Artifact:
    if re.fullmatch("[0-9a-f]{64}", package.sha256) is None or not package.filename:
        raise NotAvailable(f"the index does not contain a sha256 or file name for {package}")
    return Artifact(
        kind="deb",
        name=package.name,
        version=package.version,
        url=join(base, package.filename),
        sha256=package.sha256,
        size_bytes=package.size_bytes,
        installed_bytes=package.installed_bytes,
        repo=package.repo,
        path=package.filename,
    )
