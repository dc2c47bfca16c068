"""How a target is served on Windows: by ROCm's own wheels, under ZLUDA, with or without a library pack."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rocenv.core.versions import newest_first, series
from rocenv.data.releases import HipSdk, Pack, RocmWheels, TorchSet, ZludaBuild
from rocenv.explain.answer import Line
from rocenv.explain.sets import alone, driver_limit, zluda_sets
from rocenv.explain.support import levels, wheel_lines
from rocenv.explain.words import SHORT_LEVELS, either, listed, oldest_first, spans
from rocenv.resolve.wheels import BUILT, promise, promised

if TYPE_CHECKING:
    from rocenv.data.known import Known
    from rocenv.data.rows import Matrix
    from rocenv.explain.sets import Found


_NO_SET = "no set"


def windows_answer(matrix: Matrix, target: str, zluda: Found, wheels: Found) -> Line:
    """Return in a sentence whether and how a target works on Windows, the way that is known best first."""
    ways = [way for way in (_under_zluda(zluda), _by_wheels(target, wheels)) if way[0]]
    native = wheels.best.row(RocmWheels) if wheels.best else None
    if native is not None and promise(native, (target,)) < BUILT:
        ways.reverse()
    if not ways:
        packs = "" if packs_for(matrix, target) else ", and no library pack is known"
        newest = sorted(matrix.hip_sdk, key=lambda row: newest_first(row.version))[:1]
        text = f"no: neither a HIP SDK nor a wheel serves it{packs}"
        return Line(label="Windows", text=text, rows=tuple(newest))
    said = levels(matrix, "windows", target).values()
    rows = (*(row for _, rows in ways for row in rows), *said)
    return Line(label="Windows", text=f"yes, {'; or '.join(text for text, _ in ways)}", rows=rows)


def _under_zluda(found: Found) -> tuple[str, tuple[Known, ...]]:
    if found.best is None:
        return "", ()
    with_pack = [each.rocm.version for each in found.candidates if each.part("libraries")]
    without = [each.rocm.version for each in found.candidates if not each.part("libraries")]
    text = f"HIP SDK {either(oldest_first(without))}" if without else ""
    if not without or found.best.part("libraries"):  # what `create` takes comes first
        packed = f"a library pack and HIP SDK {either(oldest_first(with_pack))}"
        text = f"{packed}, or {text}" if text else packed
    rows = tuple(row for row in (found.best.row(ZludaBuild), found.best.row(Pack)) if row is not None)
    return f"under ZLUDA with {text}", rows


def _by_wheels(target: str, found: Found) -> tuple[str, tuple[Known, ...]]:
    rows = [row for each in found.candidates if (row := each.row(RocmWheels)) and not row.floating]
    if not rows:
        return "", ()
    promises = promised(rows[0], (target,))
    alike = [row for row in rows if promised(row, (target,)) == promises]
    versions = listed(oldest_first(row.version for row in alike))
    return f"with AMD's wheels (ROCm {versions}; {promises})", tuple(rows[:1])


def windows_lines(matrix: Matrix, target: str) -> list[Line]:
    """Say what AMD's wheels and each HIP SDK do for a target, and which set it makes."""
    sdks = sorted(matrix.hip_sdk, key=lambda row: newest_first(row.version))
    alike: dict[str, list[tuple[str, tuple[Known, ...]]]] = {}
    for sdk in sdks:
        text, rows = _sdk_text(matrix, sdk, target)
        alike.setdefault(text, []).append((series(sdk.version), rows))
    known = [series(row.version) for row in sdks]
    lines = [
        Line(
            label=f"HIP SDK {spans((version for version, _ in group), known)}",
            text=text,
            rows=tuple(row for _, rows in group for row in rows),
        )
        for text, group in sorted(alike.items(), key=lambda each: _NO_SET in each[0])
    ]
    return [*wheel_lines(matrix, target, "windows"), *lines]


def _sdk_text(matrix: Matrix, sdk: HipSdk, target: str) -> tuple[str, tuple[Known, ...]]:
    said = levels(matrix, "windows", target).get(series(sdk.version))
    found = zluda_sets(alone(matrix, "hip_sdk", sdk), target)
    support = SHORT_LEVELS[said.level if said else ""]
    rows: list[Known] = [said] if said else [sdk]
    best = found.best
    build = best.row(ZludaBuild) if best else None
    torch = best.row(TorchSet) if best else None
    if best is None or build is None or torch is None:
        found = zluda_sets(replace(alone(matrix, "hip_sdk", sdk), zluda=_usual_builds(matrix)), target)
        return f"{support}; {_NO_SET}: {found.reasons}", (*refusing(matrix, found), *rows)
    pack = best.row(Pack)
    rows += [row for row in (pack, build) if row is not None]
    limit = driver_limit(matrix, best, target)
    with_pack = "library pack, " if pack else ""
    text = f"{support}; set: {with_pack}ZLUDA {build.version}, torch {torch.version}"
    return f"{text}, {limit}" if limit else text, tuple(rows)


def _usual_builds(matrix: Matrix) -> tuple[ZludaBuild, ...]:
    """Return the builds of the project that the apps take: why one of another does not do is of no use."""
    projects = {row.project for row in matrix.zluda if row.preferred}
    return tuple(row for row in matrix.zluda if row.project in projects) or matrix.zluda


def refusing(matrix: Matrix, found: Found) -> tuple[Known, ...]:
    """Return the verdicts that leave no set."""
    said = {each.found for each in found.refusal.rejections} if found.refusal else set()
    return tuple(row for row in matrix.verdict if row.what in said)


def packs_for(matrix: Matrix, target: str, *, kind: str = "rocblas") -> list[Pack]:
    """Return the library packs for a target, whichever features they are for, the newest SDK first."""
    rows = [
        row
        for row in matrix.pack
        if row.kind == kind and not row.absent and target in (each.partition(":")[0] for each in row.targets)
    ]
    return sorted(rows, key=lambda row: (newest_first(row.rocm[-1]), row.provider, row.asset))


def pack_lines(matrix: Matrix, target: str) -> list[Line]:
    """Return in one line which library packs there are for a target."""
    packs = packs_for(matrix, target)
    if not packs:
        return []
    versions = listed(oldest_first(series(version) for row in packs for version in row.rocm))
    text = f"{len(packs)}, for HIP SDK {versions}: `rocenv explain {target}-pack`"
    return [Line(label="library packs", text=text, rows=tuple(packs[:1]))]
