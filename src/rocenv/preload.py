"""What a set with ZLUDA loads before torch, and which of its files stand for which of CUDA: pure.

Every path is below the prefix and uses `/`.
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
    """A file under the name of one of CUDA."""

    path: str
    source: str  # the file that it is
    stands_for: str  # what programs load, by name
    original: str = ""  # where torch's own file is kept, of which it took the place; "" = of none


def zluda_of(lock: Lock) -> Component | None:
    """The ZLUDA part of a set; None where it has none or nobody knows how to put it before torch."""
    build = lock.part("zluda")
    return build if build is not None and build.shims is not None else None


def torch_libraries(lock: Lock) -> str:
    """The folder of torch's own libraries; "" where the set has no torch."""
    torch = lock.part("torch")
    place = torch.layout.site_packages if torch is not None and torch.layout is not None else ""
    return f"{place}/torch/lib" if place else ""


def shims_of(lock: Lock, *, in_torch: bool) -> tuple[Shim, ...]:
    """List the shims of a set, in the order in which they are made; empty without ZLUDA.

    The file of torch that the build still calls comes first: it is copied before a shim takes its place.
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
    """List the folders in which the libraries of a set with ZLUDA find each other."""
    build = zluda_of(lock)
    rocm = lock.part("rocm")
    if build is None or rocm is None or rocm.layout is None:
        return ()
    return (rocm.layout.bin, build.into)


def preload(lock: Lock, files: Collection[str], *, in_torch: bool) -> tuple[str, ...]:
    """List what is loaded before torch, in order.

    The HIP runtime and its compiler come first if the SDK has them, since System32, which Windows searches
    before the env, may have those of the display driver. Then come the driver API, the libraries that the
    shims call, and the shims.
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
