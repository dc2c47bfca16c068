"""A check of MIOpen's databases, which a crash or a disk without locks can leave malformed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.doctor.databases import damaged_databases
from rocenv.doctor.seen import Seen

if TYPE_CHECKING:
    from rocenv.doctor.scene import Scene

_SHOWN = 10


def miopen_database_damaged(scene: Scene) -> Seen | None:
    """A database of compiled kernels that SQLite cannot use any more."""
    found = () if scene.elsewhere else damaged_databases(scene.environ)
    if not found:
        return None
    evidence = tuple(map(str, found[:_SHOWN]))
    return Seen(
        "miopen_database_damaged", {"database": found[0].name, "folder": str(found[0].parent)}, evidence
    )
