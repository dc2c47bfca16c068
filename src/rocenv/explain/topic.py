"""A whole kind of parts, or a subject: what there is of it, and what is worth knowing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.core.versions import lowest, newest_first, series
from rocenv.explain import release, torch
from rocenv.explain.answer import Explanation, Line, Step, sections
from rocenv.explain.words import listed, range_in_words, targets_first

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rocenv.data.rows import Matrix

_FACTS = 12
_BUILDS = 12
_ALIASES = {
    "pytorch": "torch",
    "packs": "pack",
    "hip sdk": "hip-sdk",
    "libraries": "pack",
    "wsl2": "wsl",
    "wsl 2": "wsl",
}


def names(matrix: Matrix) -> list[str]:
    """Return what can be asked."""
    return sorted({*_OVERVIEWS, *(row.about for row in matrix.fact)})


def meant(thing: str, matrix: Matrix) -> list[str]:
    """Return the subject that is meant."""
    name = _ALIASES.get(thing, thing)
    return [name] if name in names(matrix) else []


def explain(name: str, matrix: Matrix) -> Explanation:
    """Return what there is of a kind of parts, and the facts about it."""
    overview = _OVERVIEWS[name](matrix) if name in _OVERVIEWS else []
    # Those without a key first, so that none seems to be about the one before it.
    facts = [row for row in matrix.fact if row.about == name]
    facts.sort(key=lambda row: (row.key, row.text))
    lines = [Line(label=row.key, text=row.text, rows=(row,)) for row in facts[:_FACTS]]
    if len(facts) > _FACTS:
        lines.append(Line(label="and more", text=f"{len(facts) - _FACTS} facts: `rocenv matrix --json`"))
    return Explanation(
        thing=name,
        kind="topic",
        title=_TITLES.get(name, f"About: {name}"),
        sections=sections((_OVERVIEW_TITLES.get(name, "What there is"), overview), ("To know", lines)),
        steps=_STEPS.get(name, ()),
        steps_title="Commands",
    )


def _torches(matrix: Matrix) -> list[Line]:
    rows = [row for row in matrix.torch if row.rocm]
    lines = []
    for name in torch.names(matrix)[::-1]:
        mine = [row for row in rows if series(row.version) == name.removeprefix("torch-")]
        if mine:
            pythons = mine[-1].python
            text = f"ROCm {listed(row.rocm for row in mine)}; Python {pythons[0]} to {pythons[-1]}"
            lines.append(Line(label=name, text=text, rows=(mine[-1],)))
    under = sorted((row for row in matrix.torch if row.cuda), key=lambda row: newest_first(row.version))
    if under:
        text = f"{listed(row.version for row in under)}, for CUDA {under[0].cuda}"
        lines.append(Line(label="under ZLUDA", text=text, rows=tuple(under)))
    return lines


def _builds(matrix: Matrix) -> list[Line]:
    order = sorted(matrix.zluda, key=lambda row: (not row.preferred, row.project, newest_first(row.version)))
    lines = []
    for row in order[:_BUILDS]:
        sdks = dict.fromkeys(
            name for asset in row.assets if asset.platform == "windows" for name in asset.rocm
        )
        text = f"{row.project}, " + (f"for HIP SDK {listed(sdks)}" if sdks else "no archive is known")
        text += f"; display driver {range_in_words(row.driver)}" if row.driver else ""
        text += "; what the apps take today" if row.preferred else ""
        lines.append(Line(label=f"zluda-{row.version}", text=text, rows=(row,)))
    rest = [f"zluda-{row.version}" for row in order[_BUILDS:]]
    return [*lines, Line(label="earlier", text=listed(rest))] if rest else lines


def _releases(matrix: Matrix) -> list[Line]:
    names = release.names(matrix)
    return [
        Line(label="ROCm", text=listed(name for name in names if name.startswith("rocm-"))),
        Line(label="HIP SDK", text=listed(name for name in names if name.startswith("hip-sdk-"))),
    ]


def _sdks(matrix: Matrix) -> list[Line]:
    rows = sorted(matrix.hip_sdk, key=lambda row: newest_first(row.version))
    return [
        Line(label=f"hip-sdk-{row.version}", text=f"{row.installer}, for {row.os}", rows=(row,))
        for row in rows
    ]


def _packs(matrix: Matrix) -> list[Line]:
    lines = []
    for version in sorted({version for row in matrix.pack for version in row.rocm}, key=newest_first):
        rows = [row for row in matrix.pack if version in row.rocm]
        targets = targets_first(
            each.partition(":")[0] for row in rows if not row.absent for each in row.targets
        )
        lines.append(Line(label=f"HIP SDK {version}", text=listed(targets), rows=tuple(rows)))
    return lines


def _on_wsl(matrix: Matrix) -> list[Line]:
    lines = []
    for row in sorted(matrix.wsl, key=lambda row: newest_first(lowest(row.rocm) or "0")):
        driver = f"; AMD's display driver {row.driver} or newer in Windows" if row.driver else ""
        lines.append(Line(label=f"ROCm {range_in_words(row.rocm)}", text=f"{row.needs}{driver}", rows=(row,)))
    return lines


_OVERVIEWS: Mapping[str, Callable[[Matrix], list[Line]]] = {
    "torch": _torches,
    "zluda": _builds,
    "rocm": _releases,
    "hip-sdk": _sdks,
    "pack": _packs,
    "wsl": _on_wsl,
}
_TITLES = {
    "torch": "PyTorch wheels",
    "zluda": "ZLUDA: CUDA programs on AMD GPUs, on Windows",
    "rocm": "ROCm releases",
    "hip-sdk": "HIP SDK: ROCm for Windows, by AMD",
    "pack": "Library packs: kernels for targets that a HIP SDK has none for, by third parties",
    "wsl": "WSL 2: ROCm in Linux on Windows",
}
_OVERVIEW_TITLES = {"wsl": "What each release needs"}
_STEPS = {
    "wsl": (
        Step(command="rocenv gpus", gives="the GPUs that Windows names, and its display driver"),
        Step(command="rocenv doctor", gives="what is missing on this machine"),
        Step(command="wsl.exe --update", gives="the newest WSL; `wsl.exe --shutdown` then restarts it"),
    ),
}
