"""Derive a set's environment changes and CUDA replacement files from the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from rocenv.core.model import KEPT_ORIGINAL, VENV, Layout, Shims, Switch
from rocenv.core.template import fill
from rocenv.core.variables import VISIBLE
from rocenv.core.versions import allows, series

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rocenv.core.model import Component, EnvChange
    from rocenv.data.knowledge import EnvRow
    from rocenv.data.releases import TorchSet
    from rocenv.data.rows import Matrix
    from rocenv.data.windows import HipSdk, ZludaBuild


def changes_for(
    components: Sequence[Component], matrix: Matrix, platform: str = "linux", *, guarded: bool = True
) -> tuple[EnvChange, ...]:
    """List the changes that activating a set makes; values contain `{prefix}`.

    Args:
        components: The set.
        matrix: The rows.
        platform: The set's platform.
        guarded: Keep other programs from replacing the set's wheels. Ignored for torch with ZLUDA, because
            apps select that torch themselves.
    """
    kinds = set(_conditions(components))
    if guarded and "venv" in kinds and "zluda" not in kinds:
        kinds.add("guard")
    places = _places(components)
    tree = next((part for part in components if part.layout is not None and part.layout.root), None)
    names = {"series": series(tree.version).replace(".", "") if tree else ""}
    return tuple(
        replace(row.change, name=fill(row.change.name, names), value=value)
        for row in matrix.environment
        if row.platform == platform and row.when in kinds and _is_for(row, components)
        for value in _values(row.change.value, places, platform)
    )


def changes_on_wsl(components: Sequence[Component], matrix: Matrix) -> tuple[EnvRow, ...]:
    """List the additional changes that a set with ROCm needs on WSL."""
    return tuple(row for row in matrix.environment if row.when == "wsl" and _is_for(row, components))


def machine_variables(matrix: Matrix) -> frozenset[str]:
    """Return the machine-specific variables, so that locks can omit them."""
    return frozenset({VISIBLE, *(row.change.name for row in matrix.environment if row.when == "wsl")})


def _is_for(row: EnvRow, components: Sequence[Component]) -> bool:
    rocm = next((part.version for part in components if part.kind == "rocm"), "")
    return not row.rocm or allows(row.rocm, rocm)


def _conditions(components: Sequence[Component]) -> Iterator[str]:
    """Yield the values of `EnvRow.when` that apply to a set, except `guard` and `wsl`."""
    yield "always"
    for part in components:
        yield part.kind
        if part.kind == "rocm":
            yield "wheels" if part.into == VENV else "tree"
        if part.into == VENV:
            yield "venv"


def _places(components: Sequence[Component]) -> dict[str, tuple[str, ...]]:
    """Map placeholders in values to paths relative to the prefix, or to () if the set has no such path.

    If a set has its own C library, there is no library search path, because system programs would load that C
    library and crash. Libraries in wheels find each other without a search path.
    """
    layouts = [part.layout for part in components if part.layout is not None]
    tree = next((layout for layout in layouts if layout.root), Layout(root="", library_dirs=(), libraries={}))
    unsearched = any(part.loader or (part.kind == "rocm" and part.into == VENV) for part in components)
    has_torch = any(part.kind == "torch" for part in components)
    called = (part.into for part in components if has_torch and part.shims and part.shims.original)
    return {
        "{rocm}": (tree.root,),
        "{bin}": (tree.bin,),
        "{device_libs}": (tree.device_libs,),
        "{library_dirs}": () if unsearched else tree.library_dirs[::-1],  # prepended last, so it is first
        "{original}": tuple(f"{into}/{KEPT_ORIGINAL}" for into in called),
    }


def _values(value: str, places: Mapping[str, tuple[str, ...]], platform: str) -> Iterator[str]:
    """Yield the value once for each of its placeholder's paths, or unchanged if it has no placeholder."""
    place = next((place for place in places if value.startswith(place)), "")
    if not place:
        yield value
    for path in filter(None, places.get(place, ())):
        full = f"{{prefix}}/{path}"
        yield (full.replace("/", "\\") if platform == "windows" else full) + value.removeprefix(place)


def shims_for(sdk: HipSdk, build: ZludaBuild, torch: TorchSet | None, matrix: Matrix) -> Shims | None:
    """Return the files and settings for torch on a ZLUDA build, or None if no row covers the pair.

    Without torch, return those for the CUDA version that the build implements.
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
