"""The C library that a set brings along where the machine's is too old for it."""

from __future__ import annotations

from rocenv.core.versions import version_of
from rocenv.system.machine import glibc_version


def is_needed(glibc: str) -> bool:
    """Whether this machine's C library is older than `glibc`, "2.38", or another one."""
    machine = glibc_version()
    return machine is None or version_of(f"{machine[0]}.{machine[1]}") < version_of(glibc)


def note(glibc: str) -> str:
    """Say what it means for programs that a set brings its own."""
    return (
        f"the set needs glibc {glibc}, newer than this machine's: it brings its own, and programs "
        "that use it are started through its loader (`rocenv run`, or `rocm-exec` once activated)"
    )
