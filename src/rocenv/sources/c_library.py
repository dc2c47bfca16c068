"""Decide whether a set must include a C library because the system's is too old."""

from __future__ import annotations

from rocenv.core.errors import RocenvError
from rocenv.core.versions import version_of
from rocenv.system.machine import glibc_version


def is_needed(glibc: str) -> bool:
    """Whether this machine's C library is older than `glibc` ("2.38"), or is not glibc."""
    machine = glibc_version()
    return machine is None or version_of(f"{machine[0]}.{machine[1]}") < version_of(glibc)


def note(glibc: str) -> str:
    """Explain the effect of a bundled C library."""
    return (
        f"the set needs glibc {glibc}, which is newer than this machine's, so it includes its own; programs "
        "that use the set must be started through its loader (`rocenv run`, or `rocm-exec` in an active env)"
    )


def too_old(name: str, glibc: str) -> RocenvError:
    """Return the error for a lock or bundle from a machine with a newer C library."""
    machine = glibc_version()
    found = f"{machine[0]}.{machine[1]}" if machine else ""
    return RocenvError(
        f"`{name}` requires glibc {glibc}, but this machine has {found or 'a different C library'}",
        hints=(
            f"recreate the env on a machine with glibc {found}, then write the lock or bundle there: "
            "the set includes its own C library if the machine's is older",
        )
        if found
        else (),
        code="not-installable",
    )
