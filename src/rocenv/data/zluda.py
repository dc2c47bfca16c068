"""Rows about how ZLUDA gets in front of CUDA, and what they make of a build."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rocenv.core.model import ShimFile, Shims, Switch
from rocenv.data.known import Known

if TYPE_CHECKING:
    from rocenv.data.releases import HipSdk, TorchSet, ZludaBuild
    from rocenv.data.rows import Matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class ShimMap(Known):
    """Which files of a ZLUDA build stand for which of CUDA. Table `shim_map`."""

    project: Literal["lshqqytiger", "vosen"]
    zluda: str  # PEP 440 specifier on the build
    cuda: str  # of the torch that it is put in front of, "11.8"
    driver: tuple[str, ...]  # files of the build loaded first, under their own names; the driver API first
    behind: tuple[str, ...]  # libraries of the HIP SDK that `files` call, loaded before them
    files: tuple[ShimFile, ...]  # in the order in which they are loaded, cuBLAS first
    first_run_s: int  # what the first use may take, while kernels are compiled
    original: str = ""  # the file of torch that the build still calls
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchSwitch(Known):
    """A setting of torch that ZLUDA needs. Table `torch_switch`."""

    name: str
    how: Literal["set", "call", "disable"]
    value: bool = False
    reason: str


TABLES: dict[str, type[Known]] = {"shim_map": ShimMap, "torch_switch": TorchSwitch}


def shims_for(sdk: HipSdk, build: ZludaBuild, torch: TorchSet | None, matrix: Matrix) -> Shims | None:
    """Return what puts a build in front of a torch; None where no row knows that pair.

    Without a torch, what it would be for torch for the only CUDA that the builds stand in for.
    """
    from packaging.specifiers import SpecifierSet

    for row in matrix.shim_map:
        fits = SpecifierSet(row.zluda).contains(build.version, prereleases=True)
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
