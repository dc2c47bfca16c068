"""What a set gets from the rows: its changes to the environment, and its files in front of CUDA."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from rocenv.core.model import KEPT_ORIGINAL, Shims, Switch
from rocenv.core.template import fill
from rocenv.core.versions import allows, series

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocenv.core.model import Component, EnvChange, Layout
    from rocenv.data.releases import HipSdk, TorchSet, ZludaBuild
    from rocenv.data.rows import Matrix


def changes_for(
    components: Sequence[Component], matrix: Matrix, platform: str = "linux"
) -> tuple[EnvChange, ...]:
    """List the changes that activating a set makes on a platform; `{prefix}` stays as it is in values.

    A set with its own C library gets no search path for libraries: programs of the machine would load that C
    library and crash.
    """
    kinds = {component.kind for component in components}
    layouts = (component.layout for component in components if component.layout)
    layout = next((each for each in layouts if each.root), None)
    own_glibc = any(component.loader for component in components)
    changes = []
    for row in matrix.environment:
        if row.platform != platform or (row.when != "always" and row.when not in kinds):
            continue
        if row.change.value == "{library_dirs}":
            if not own_glibc and layout is not None:
                for folder in reversed(layout.library_dirs):
                    changes.append(replace(row.change, value=f"{{prefix}}/{folder}"))
            continue
        if row.change.value == "{original}":
            original = _original(components)
            if original:
                changes.append(replace(row.change, value=original))
            continue
        value = _placed(row.change.value, layout, platform)
        if value is not None:
            name = fill(row.change.name, {"series": _series(components)})
            changes.append(replace(row.change, name=name, value=value))
    return tuple(changes)


def _original(components: Sequence[Component]) -> str:
    """Return the path of the file of torch that a ZLUDA build still calls; "" if it calls none."""
    build = next((part for part in components if part.shims is not None and part.shims.original), None)
    has_torch = any(part.kind == "torch" for part in components)
    return f"{{prefix}}\\{build.into}\\{KEPT_ORIGINAL}" if build is not None and has_torch else ""


def _series(components: Sequence[Component]) -> str:
    """Return the series of the ROCm part as variables have it: `57`."""
    rocm = next((component.version for component in components if component.kind == "rocm"), "")
    return series(rocm).replace(".", "")


def _placed(value: str, layout: Layout | None, platform: str) -> str | None:
    """Return a value with the places of a layout put in; None where the layout has no such place."""
    root, programs, bitcode = (layout.root, layout.bin, layout.device_libs) if layout else ("", "", "")
    places = {"{rocm}": root, "{bin}": programs, "{device_libs}": bitcode}
    for name, place in places.items():
        if value.startswith(name):
            if not place:
                return None
            path = f"{{prefix}}/{place}"
            return (path.replace("/", "\\") if platform == "windows" else path) + value.removeprefix(name)
    return value


def shims_for(sdk: HipSdk, build: ZludaBuild, torch: TorchSet | None, matrix: Matrix) -> Shims | None:
    """Return the files and settings that make a torch run on a build; None if no row knows that pair.

    Without a torch, they are those for the CUDA that the build implements.
    """
    for row in matrix.shim_map:
        fits = allows(row.zluda, build.version)
        if row.project != build.project or not fits or (torch is not None and row.cuda != torch.cuda):
            continue
        held = set(sdk.libraries)
        return Shims(
            runtime=(*sdk.runtime, *sdk.comgr),
            driver=row.driver,
            behind=tuple(name for name in row.behind if not held or name in held),
            files=row.files,
            original=row.original,
            first_run_s=row.first_run_s,
            switches=tuple(Switch(name=s.name, how=s.how, value=s.value) for s in matrix.torch_switch),
        )
    return None
