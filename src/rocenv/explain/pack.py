"""The library packs for a target: what gives a HIP SDK kernels that it has not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.core.versions import series
from rocenv.explain.answer import Explanation, Line, sections
from rocenv.explain.on_windows import packs_for
from rocenv.explain.sets import step, zluda_sets
from rocenv.explain.support import levels
from rocenv.explain.words import SHORT_LEVELS, count, listed, oldest_first, targets_first

if TYPE_CHECKING:
    from rocenv.data.releases import Pack
    from rocenv.data.rows import Matrix

_SUFFIX = "-pack"
_FACTS = 6


def names(matrix: Matrix) -> list[str]:
    """Return what can be asked: every target, for that there is no pack is an answer too."""
    return [f"{target}{_SUFFIX}" for target in targets_first(matrix.targets)]


def meant(thing: str, matrix: Matrix) -> list[str]:
    """Return the packs that are meant."""
    name = thing.replace(" ", "-").removesuffix("s")
    return [name] if name.removesuffix(_SUFFIX) in matrix.targets and name.endswith(_SUFFIX) else []


def explain(name: str, matrix: Matrix) -> Explanation:
    """Return which packs there are for a target, and how they are used."""
    target = name.removesuffix(_SUFFIX)
    packs = [*packs_for(matrix, target), *packs_for(matrix, target, kind="hipblaslt")]
    absent = [row for row in matrix.pack if row.absent and (not row.targets or target in row.targets)]
    found = zluda_sets(matrix, target)
    facts = sorted((row for row in matrix.fact if row.about == "pack"), key=lambda row: row.text)[:_FACTS]
    return Explanation(
        thing=name,
        kind="pack",
        title=f"Library packs for {target}",
        answer=(_answer(matrix, target, packs), *(_absent_line(row) for row in absent)),
        sections=sections(
            ("Packs", [_pack_line(row) for row in packs]),
            ("How a pack is used", [Line(text=row.text, rows=(row,)) for row in facts] if packs else []),
        ),
        steps=(step(found, matrix, "Windows"),) if found.best and found.best.part("libraries") else (),
        steps_title="The set that rocenv takes",
    )


def _answer(matrix: Matrix, target: str, packs: list[Pack]) -> Line:
    said = levels(matrix, "windows", target)
    own = [row for row in said.values() if row.level in ("official", "deprecated", "libraries")]
    native = (
        f"HIP SDK {listed(oldest_first(row.rocm for row in own))} needs none: it has kernels for {target}"
    )
    if not packs:
        text = f"no library pack for {target} is known" + (f"; {native}" if own else "")
        return Line(text=text, rows=tuple(own or said.values()))
    versions = listed(oldest_first(series(version) for row in packs for version in row.rocm))
    text = f"{count(len(packs), 'pack')}, for HIP SDK {versions}; each fits its own release only"
    without: dict[str, list[str]] = {}
    for row in said.values():
        if row not in own:
            without.setdefault(SHORT_LEVELS[row.level], []).append(row.rocm)
    for words, releases in without.items():
        text += f". HIP SDK {listed(oldest_first(releases))} without one: {words}"
    return Line(text=f"{text}. {native}" if own else text, rows=(*packs[:1], *said.values()))


def _absent_line(row: Pack) -> Line:
    versions = listed(row.rocm)
    return Line(text=f"none for HIP SDK {versions}" + (f": {row.note}" if row.note else ""), rows=(row,))


def _pack_line(row: Pack) -> Line:
    text = row.url or f"{row.provider}: {row.asset or f'see release {row.tag}'}"
    if row.kind != "rocblas":
        text += f" ({row.kind})"
    if row.note:
        text += f" ({row.note})"
    return Line(label=f"HIP SDK {listed(row.rocm)}", text=text, rows=(row,))
