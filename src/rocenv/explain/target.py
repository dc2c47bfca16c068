"""A gfx target: does this GPU work now, with what, and what is known to go wrong."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocenv.data.releases import RocmWheels
from rocenv.explain.answer import Explanation, Line, sections
from rocenv.explain.combinations import combination_lines
from rocenv.explain.on_linux import linux_answer, linux_lines
from rocenv.explain.on_windows import pack_lines, windows_answer, windows_lines
from rocenv.explain.sets import linux_sets, step, wheel_sets, zluda_sets
from rocenv.explain.words import listed, targets_first
from rocenv.resolve.wheels import BUILT, promise

if TYPE_CHECKING:
    from rocenv.data.knowledge import Target
    from rocenv.data.rows import Matrix

_TROUBLES = 2  # told on the page; the rest is a command away
_PRODUCTS = 4
_KINDS = {"card": "graphics card", "apu": "APU, graphics in the processor"}


def names(matrix: Matrix) -> list[str]:
    """Return what can be asked."""
    return targets_first(matrix.targets)


def meant(thing: str, matrix: Matrix) -> list[str]:
    """Return the targets that are meant: features like `:xnack-` are no part of a name."""
    name = thing.partition(":")[0]
    return [name] if name in matrix.targets else []


def explain(name: str, matrix: Matrix) -> Explanation:
    """Return what is known about a target."""
    row = matrix.targets[name]
    linux, zluda, wheels = linux_sets(matrix, name), zluda_sets(matrix, name), wheel_sets(matrix, name)
    bare = linux if linux.best else linux_sets(matrix, name, torch=False)
    native = wheels.best.row(RocmWheels) if wheels.best else None
    proved = native is not None and promise(native, (name,)) < BUILT
    ways = [("Linux", bare), ("Windows, wheels", wheels), ("Windows, ZLUDA", zluda)]
    if zluda.best is not None and not proved:
        ways.pop(1)  # nobody vouches for those wheels
    steps = [step(found, matrix, label) for label, found in ways if found.best is not None]
    windows = windows_lines(matrix, name)
    told = {id(row) for line in windows for row in line.rows}
    concerned = [each for each in matrix.verdict if name in each.targets and id(each) not in told]
    return Explanation(
        thing=name,
        kind="target",
        title=f"{name}: {row.products} ({listed(trait for trait in _traits(row) if trait)})",
        answer=(linux_answer(matrix, name, linux), windows_answer(matrix, name, zluda, wheels)),
        sections=sections(
            ("Linux", linux_lines(matrix, name, linux)),
            ("Windows", [*windows, *pack_lines(matrix, name)]),
            (
                "Known combinations",
                [
                    *_incident_lines(name, matrix, {each.code for each in concerned if each.code}),
                    *combination_lines(
                        concerned, most=_TROUBLES, about="target", more=f"rocenv matrix --target {name}"
                    ),
                ],
            ),
            ("The GPU", _gpu_lines(row, matrix)),
        ),
        steps=tuple(steps),
        steps_title="Best sets now",
    )


def _traits(row: Target) -> tuple[str, ...]:
    return (_KINDS[row.kind], row.arch, row.codename, row.memory)


def _gpu_lines(row: Target, matrix: Matrix) -> list[Line]:
    devices = sorted(
        (pci for pci in matrix.pci if pci.target == row.name and pci.products),
        key=lambda pci: (pci.device, pci.revision),
    )
    products = list(dict.fromkeys(product for pci in devices for product in pci.products))
    lines = []
    if products:
        shown = listed(products[:_PRODUCTS])
        shown += f" and {len(products) - _PRODUCTS} more" if len(products) > _PRODUCTS else ""
        lines.append(Line(label="sold as", text=shown, rows=tuple(devices[:1])))
    for generic in matrix.generic_target:
        if generic.name == row.generic:
            others = [member for member in generic.members if member != row.name]
            those = listed(others) if len(others) < 3 else f"{len(others)} others"
            text = f"code for {generic.name} runs on it, as on {those}; {generic.note}"
            lines.append(Line(label="generic", text=text, rows=(generic,)))
    return lines


def _incident_lines(name: str, matrix: Matrix, told: set[str]) -> list[Line]:
    """Return the incidents on a target that no combination tells of already."""
    return [
        Line(label="incident", text=f"{row.title} (`rocenv explain {row.code}`)", rows=(row,))
        for row in sorted(matrix.incident, key=lambda row: row.code)
        if not any(row.code.startswith(code) for code in told)
        and re.search(rf"\b{name}\b", row.facts.get("gpu", ""))
    ]
