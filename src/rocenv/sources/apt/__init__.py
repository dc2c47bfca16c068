"""Apt repositories as a source: a release, with the packages of an app, as a part of an env."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import structs

from rocenv.core.errors import NotAvailable
from rocenv.core.model import Component
from rocenv.core.progress import size_text
from rocenv.core.versions import specifier
from rocenv.data.releases import RocmSet
from rocenv.net import unreachable
from rocenv.resolve.apps import packages_of
from rocenv.sources.apt.index import join
from rocenv.sources.apt.packages import DEBIAN, HOST, Found, addresses, find

if TYPE_CHECKING:
    from rocenv.context import Context
    from rocenv.core.model import Artifact, Layout, Lock, Request
    from rocenv.data.apps import AppPackages
    from rocenv.resolve import Candidate, Choice


TREE = "rocm"  # the folder of a prefix that packages are unpacked into


def outline(choice: Choice, _candidate: Candidate, _request: Request, _context: Context) -> Component:
    """Return a release without its packages; see `Source`."""
    row = choice.row
    assert isinstance(row, RocmSet)
    return Component(
        kind=choice.kind,
        name=choice.channel,
        version=choice.version,
        channel=choice.channel,
        why=choice.why,
        layout=row.layout.below(TREE),
        into=TREE,
    )


def component(
    choice: Choice, candidate: Candidate, request: Request, context: Context
) -> tuple[Component, tuple[str, ...]]:
    """Return a release with its packages and those of an app; see `Source`.

    Raises:
        FetchError: An index does not answer, or cannot be trusted.
        NotAvailable: The index lacks something, or has moved on to a release that was not asked for.
    """
    row = choice.row
    assert isinstance(row, RocmSet)
    app = packages_of(request.app, row.channel, context.matrix)
    bare = None
    with unreachable.tracked(
        row.channel,
        context.home,
        context.network.mirrors,
        ask_anyway=bool(request.channel) or not context.max_age_s or context.network.is_offline,
    ):
        found = find(row, context.matrix, context.home, context.network, max_age_s=context.max_age_s)
        if app is not None:
            bare, found = found, find_with(app, row, context)
        if row.floating and not specifier(request.rocm or "*", "--rocm").contains(found.version):
            raise NotAvailable(f"channel {row.channel} is at {found.version} now")
    notes = found.notes
    if app is not None and bare is not None:
        notes = (_comes_along(app, row.channel, bare, found), *notes)
    if found.own_glibc:
        notes += (
            f"the set needs glibc {found.glibc}, newer than this machine's: it brings its own, and programs "
            "that use it are started through its loader (`rocenv run`, or `rocm-exec` once activated)",
        )
    part = replace(
        outline(choice, candidate, request, context),
        version=found.version,
        artifacts=found.artifacts,
        glibc=found.glibc,
        loader=context.matrix.c_library[0].loader if found.own_glibc else "",
        layout=(row.layout if app is None else with_app(row.layout, app)).below(TREE),
    )
    return part, notes


def find_with(app: AppPackages, row: RocmSet, context: Context) -> Found:
    """Return the packages of a set and of an app, as one closure; raises as `find` does."""
    both = structs.replace(row, packages=(*row.packages, *app.names))
    return find(both, context.matrix, context.home, context.network, max_age_s=context.max_age_s)


def with_app(layout: Layout, app: AppPackages) -> Layout:
    """Return the layout of a set with an app's places."""
    folders = tuple(dict.fromkeys((*layout.library_dirs, *app.library_dirs)))
    programs = (*layout.programs, *app.programs)
    return replace(layout, library_dirs=folders, programs=programs, links={**layout.links, **app.links})


def _comes_along(app: AppPackages, channel: str, bare: Found, found: Found) -> str:
    """Return in words what an app brings into a set, and how big that is."""
    there = {artifact.name for artifact in bare.artifacts}
    added = [artifact for artifact in found.artifacts if artifact.name not in there]
    first = next((each for each in found.artifacts if each.name == app.names[0]), None)
    fetched = sum(artifact.size_bytes for artifact in added)
    unpacked = sum(artifact.installed_bytes for artifact in added)
    name = f"{first.name} {first.version}" if first else app.app
    return (
        f"{name} of {channel} comes along, {len(added)} packages with what it needs: "
        f"{size_text(fetched)}, {size_text(unpacked)} once unpacked"
    )


def relocated(lock: Lock, context: Context) -> Lock:
    """Return a lock with the addresses that its packages have on the mirrors of this machine's apt."""
    parts = tuple(
        replace(part, artifacts=tuple(_relocated(each, context) for each in part.artifacts))
        for part in lock.components
    )
    return replace(lock, components=parts)


def _relocated(artifact: Artifact, context: Context) -> Artifact:
    repo = context.matrix.repos.get(artifact.repo)
    if repo is None or not artifact.path or repo.base not in (DEBIAN, HOST):
        return artifact
    bases = addresses(repo, "", context.network)
    if not bases or any(artifact.url == join(base, artifact.path) for base in bases):
        return artifact
    return replace(artifact, url=join(bases[0], artifact.path))
