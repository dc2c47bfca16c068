"""The libraries that a ZLUDA set loads before torch, and the files that replace CUDA's; pure functions.

Paths are relative to the prefix and use `/`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.core.model import KEPT_ORIGINAL

if TYPE_CHECKING:
    from collections.abc import Collection

    from rocenv.core.model import Component, Lock

ORIGINALS = ".rocenv/originals"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shim:
    """A file that replaces a CUDA library."""

    path: str
    source: str  # path of the file that the shim is made from
    stands_for: str  # library name that programs load
    original: str = ""  # where torch's replaced file is kept; "" if none was replaced


def zluda_of(lock: Lock) -> Component | None:
    """Return a set's ZLUDA component if the data defines how to load it before torch."""
    build = lock.part("zluda")
    return build if build is not None and build.shims is not None else None


def torch_libraries(lock: Lock) -> str:
    """Return torch's library folder, or "" if the set has no torch."""
    torch = lock.part("torch")
    place = torch.layout.site_packages if torch is not None and torch.layout is not None else ""
    return f"{place}/torch/lib" if place else ""


def shims_of(lock: Lock, *, in_torch: bool) -> tuple[Shim, ...]:
    """List a set's shims in creation order; () without ZLUDA.

    First comes the copy of torch's own DLL: ZLUDA still calls the copy, and a shim replaces the original.
    """
    build = zluda_of(lock)
    if build is None or build.shims is None:
        return ()
    torch = torch_libraries(lock)
    found = []
    name = build.shims.original
    if name and torch:
        source = f"{ORIGINALS}/{name}" if in_torch else f"{torch}/{name}"
        found.append(Shim(path=f"{build.into}/{KEPT_ORIGINAL}", source=source, stands_for=name))
    for file in build.shims.files:
        source = f"{build.into}/{file.file}"
        if in_torch:
            kept = f"{ORIGINALS}/{file.stands_for}"
            path = f"{torch}/{file.stands_for}"
            found.append(Shim(path=path, source=source, stands_for=file.stands_for, original=kept))
        elif file.file != file.stands_for:
            path = f"{build.into}/{file.stands_for}"
            found.append(Shim(path=path, source=source, stands_for=file.stands_for))
    return tuple(found)


def folders_of(lock: Lock) -> tuple[str, ...]:
    """List the folders where a ZLUDA set's libraries look for one another."""
    build = zluda_of(lock)
    rocm = lock.part("rocm")
    if build is None or rocm is None or rocm.layout is None:
        return ()
    return (rocm.layout.bin, build.into)


def preload(lock: Lock, files: Collection[str], *, in_torch: bool) -> tuple[str, ...]:
    """List the libraries loaded before torch, in order.

    The SDK's HIP runtime and compiler, if any, come first, because Windows searches System32 before the env,
    and the display driver may have installed its own there. They are followed by the driver API, the
    libraries that the shims call, and the shims.
    """
    build, folders = zluda_of(lock), folders_of(lock)
    if build is None or build.shims is None or not folders:
        return ()
    shims = build.shims
    runtime = [path for name in shims.runtime if (path := f"{folders[0]}/{name}") in files]
    place = torch_libraries(lock) if in_torch else build.into
    return (
        *runtime,
        *(f"{build.into}/{name}" for name in shims.driver),
        *(f"{folders[0]}/{name}" for name in shims.behind),
        *(f"{place}/{file.stands_for}" for file in shims.files),
    )
