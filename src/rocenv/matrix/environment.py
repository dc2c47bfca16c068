"""Which changes to the environment a set needs: the rows of the matrix, with the set's own places put in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocenv.matrix.rows import Matrix
    from rocenv.model import Component, EnvChange, Layout


def changes_for(
    components: Sequence[Component], matrix: Matrix, platform: str = "linux"
) -> tuple[EnvChange, ...]:
    """Return what activation changes for a set on a platform; `{prefix}` is left to be filled in.

    Libraries are not put on a search path where the set has a C library of its own: programs of the machine
    must never meet that.
    """
    kinds = {component.kind for component in components}
    layout = next((component.layout for component in components if component.layout), None)
    own_glibc = any(component.loader for component in components)
    changes = []
    for row in matrix.environment:
        if row.platform != platform or (row.when != "always" and row.when not in kinds):
            continue
        if row.change.value == "{library_dirs}":
            if not own_glibc and layout is not None:
                for folder in reversed(layout.library_dirs):
                    changes.append(replace(row.change, value=f"{{prefix}}/rocm/{folder}"))
            continue
        value = _placed(row.change.value, layout)
        if value is not None:
            changes.append(replace(row.change, value=value))
    return tuple(changes)


def _placed(value: str, layout: Layout | None) -> str | None:
    """Return a value with the places of a layout put in; None where the layout has no such place."""
    places = {}
    if layout is not None:
        places = {"{rocm}": layout.root, "{bin}": layout.bin, "{device_libs}": layout.device_libs}
    for name, place in places.items():
        if value == name:
            return f"{{prefix}}/rocm/{place}" if place else None
    return value
