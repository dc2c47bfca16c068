"""Rows of the matrix as tables for people to read: short columns first, what may be long at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rocenv.core.wrap import wrapped
from rocenv.explain.combinations import combination_text
from rocenv.explain.words import OUTCOMES, VERDICTS, listed, oldest_first, range_in_words, targets_first

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rocenv.data.known import Known

    Cell = Callable[[Any], str]

_GAP = 2
_NARROWEST = 30  # room that the last column has at least


def tables_text(found: Mapping[str, Sequence[Known]], *, width: int) -> list[str]:
    """Return tables with a status and the number of a source for each row, then the sources by number."""
    sources = list(dict.fromkeys(row.source for rows in found.values() for row in rows))
    number = {source: place for place, source in enumerate(sources, 1)}
    lines = []
    for table, rows in found.items():
        title, heads, cells = _TABLES[table]
        cut = [
            (*(cell(row) for cell in cells[:-1]), row.status, f"[{number[row.source]}]", cells[-1](row))
            for row in rows
        ]
        head = tuple(heads.split("|"))
        lines += [title, *_aligned([(*head[:-1], "STATUS", "SOURCE", head[-1]), *cut], width), ""]
    lines.append("Sources")
    for source, place in number.items():
        lines += wrapped(source, width, f"  [{place}] ", "       ")
    return lines


def _aligned(rows: list[tuple[str, ...]], width: int) -> list[str]:
    """Return rows as aligned columns; the last column goes on in the next line where it has to."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    start = 2 + sum(width + _GAP for width in widths)
    lines = []
    for *cells, last in rows:
        first = "  " + "".join(cell.ljust(room + _GAP) for cell, room in zip(cells, widths, strict=True))
        if width - start < _NARROWEST:
            lines += [first.rstrip(), *wrapped(last, width, " " * 6, " " * 6)]
        else:
            lines += wrapped(last, width, first, " " * start) or [first.rstrip()]
    return lines


def _targets(row: Any) -> str:
    return listed(targets_first(row.targets), "any")


def _pythons(row: Any) -> str:
    return f"{row.python[0]} to {row.python[-1]}" if len(row.python) > 1 else listed(row.python)


def _rocm_targets(row: Any) -> str:
    rest = targets_first(target for target in row.blas if target not in row.official)
    parts = [f"supported {listed(targets_first(row.official))}"] if row.official else []
    parts += [f"kernels {listed(rest)}"] if rest else []
    return "; ".join(parts)


def _wheel_targets(row: Any) -> str:
    rest = targets_first(set(row.targets) - {*row.official, *row.ready})
    lists = (("supported", row.official), ("release-ready", row.ready), ("built", rest))
    return "; ".join(f"{what} {listed(targets_first(targets))}" for what, targets in lists if targets)


def _torch_targets(row: Any) -> str:
    if row.cuda:
        return f"under ZLUDA {range_in_words(row.zluda)}"
    return f"those of ROCm {row.rocm} of channel {row.channel}" if row.channel else _targets(row)


def _archives(row: Any) -> str:
    archives = [f"{asset.name} for HIP SDK {listed(asset.rocm)}" for asset in row.assets if asset.rocm]
    return "; ".join(archives) or "no archive for a HIP SDK"


def _override(row: Any) -> str:
    return str(row.note) + (f" (only with ROCm {range_in_words(row.rocm)})" if row.rocm else "")


def _good_set(row: Any) -> str:
    parts = [f"ZLUDA {range_in_words(row.zluda)}"] if row.zluda else []
    parts += [f"torch {range_in_words(row.torch)}"] if row.torch else []
    parts += [f"Python {listed(row.python)}"] if row.python else []
    parts += [f"display driver {range_in_words(row.driver)}"] if row.driver else []
    parts += [f"for {_targets(row)}", *([row.note] if row.note else [])]
    return "; ".join(parts)


# Table -> its title, the headings, and a cell for each of them; the last one may be long.
_TABLES: Mapping[str, tuple[str, str, tuple[Cell, ...]]] = {
    "target": (
        "Targets",
        "TARGET|KIND|ARCH|PRODUCTS",
        (lambda row: str(row.name), lambda row: row.kind, lambda row: row.arch, lambda row: row.products),
    ),
    "rocm": (
        "ROCm packages for Linux",
        "VERSION|CHANNEL|TARGETS",
        (lambda row: row.version, lambda row: row.channel, _rocm_targets),
    ),
    "rocm_wheels": (
        "ROCm as Python wheels",
        "VERSION|CHANNEL|FOR|PYTHON|TARGETS",
        (
            lambda row: row.version,
            lambda row: row.channel,
            lambda row: row.platform,
            _pythons,
            _wheel_targets,
        ),
    ),
    "hip_sdk": (
        "HIP SDKs for Windows",
        "VERSION|FOR|INSTALLER",
        (lambda row: row.version, lambda row: row.os, lambda row: row.installer),
    ),
    "support": (
        "What a release does for targets",
        "ROCM|FOR|LEVEL|TARGETS",
        (lambda row: row.rocm, lambda row: row.platform, lambda row: row.level, _targets),
    ),
    "kernels": (
        "Kernels in rocBLAS: the list it is built from, or what was found in a package",
        "ROCM|KIND|TARGETS",
        (lambda row: row.rocm, lambda row: row.kind, _targets),
    ),
    "torch": (
        "PyTorch wheels",
        "VERSION|FOR|PYTHON|TARGETS",
        (
            lambda row: row.version,
            lambda row: f"ROCm {row.rocm}" if row.rocm else f"CUDA {row.cuda}",
            _pythons,
            _torch_targets,
        ),
    ),
    "zluda": (
        "ZLUDA builds",
        "VERSION|PROJECT|DRIVER|ARCHIVES",
        (
            lambda row: row.version,
            lambda row: row.project,
            lambda row: range_in_words(row.driver) or "any",
            _archives,
        ),
    ),
    "pack": (
        "Library packs",
        "HIP SDK|KIND|TARGETS|FILE",
        (
            lambda row: listed(row.rocm),
            lambda row: "none" if row.absent else row.kind,
            lambda row: (
                row.targets[0] + (f" +{len(row.targets) - 1}" if row.targets[1:] else "")
                if row.targets
                else "any"
            ),
            lambda row: (
                row.note if row.absent else row.url or row.asset or f"{row.provider}, release {row.tag}"
            ),
        ),
    ),
    "override": (
        "HSA_OVERRIDE_GFX_VERSION, on Linux",
        "TARGET|RUNS AS|VALUE|VERDICT|NOTE",
        (
            lambda row: row.target,
            lambda row: row.runs_as,
            lambda row: row.value,
            lambda row: VERDICTS[row.verdict],
            _override,
        ),
    ),
    "verdict": (
        "Known combinations",
        "VERDICT|CODE|COMBINATION",
        (lambda row: OUTCOMES[row.verdict], lambda row: row.code or "", combination_text),
    ),
    "good_set": (
        "Sets that makers of apps name",
        "BY|ROCM|SET",
        (lambda row: row.by, lambda row: range_in_words(row.rocm), _good_set),
    ),
    "driver_pair": (
        "Kernel drivers that were tested with ROCm releases",
        "DRIVERS|ROCM",
        (lambda row: listed(oldest_first(row.drivers)), lambda row: listed(oldest_first(row.rocm))),
    ),
}
