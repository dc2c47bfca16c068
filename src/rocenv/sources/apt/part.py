"""A set of the matrix, with the packages of an app, as a part of an env."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rocenv.core.model import Component
from rocenv.core.progress import size_text
from rocenv.core.versions import specifier
from rocenv.data.releases import RocmSet
from rocenv.resolve.of_app import packages_of
from rocenv.sources.apt import Found, find
from rocenv.sources.apt.closure import NoClosure

if TYPE_CHECKING:
    from rocenv.context import Context
    from rocenv.core.model import Layout, Request
    from rocenv.data.app_sets import AppPackages
    from rocenv.resolve import Candidate


def component(candidate: Candidate, request: Request, context: Context) -> tuple[Component, tuple[str, ...]]:
    """Return the packages of a candidate's ROCm set as a component, and notes for the plan; see `Source`.

    Raises:
        FetchError: An index cannot be had, or cannot be trusted.
        NoClosure: The index lacks something, or has moved on to a release that was not asked for.
    """
    row = candidate.rocm
    assert isinstance(row, RocmSet)
    found = find(row, context.matrix, context.home, context.network, max_age_s=context.max_age_s)
    app = packages_of(request.app, row.channel, context.matrix)
    along: tuple[str, ...] = ()
    if app is not None:
        bare, found = found, find_with(app, row, context)
        along = (_comes_along(app, row.channel, bare, found),)
    if row.floating and not specifier(request.rocm or "*", "--rocm").contains(found.version):
        raise NoClosure(f"channel {row.channel} is at {found.version} now")
    notes = (*along, *found.notes)
    if found.own_glibc:
        notes += (
            f"the set needs glibc {found.glibc}, newer than this machine's: it brings its own, and programs "
            "that use it are started through its loader (`rocenv run`, or `rocm-exec` once activated)",
        )
    part = Component(
        kind="rocm",
        name=row.channel,
        version=found.version,
        channel=row.channel,
        why=candidate.why["rocm"],
        artifacts=found.artifacts,
        glibc=found.glibc,
        loader=context.matrix.c_libraries[0].loader if found.own_glibc else "",
        layout=row.layout if app is None else with_app(row.layout, app),
    )
    return part, notes


def find_with(app: AppPackages, row: RocmSet, context: Context) -> Found:
    """Return the packages of a set and of an app, as one closure; raises as `find` does."""
    both = replace(row, packages=(*row.packages, *app.names))
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
