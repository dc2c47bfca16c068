"""Render data rows as lines, for `explain` pages and `rocenv matrix`.

Each row becomes a subject, a version and text. Rows with the same subject and text share a line that lists
their versions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rocenv.explain.page import Line, sections
from rocenv.explain.phrases import (
    LEVELS,
    OUTCOME_RANK,
    OUTCOMES,
    OVERRIDES,
    in_order,
    listed,
    range_in_words,
    spans,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rocenv.data.knowledge import Override, Verdict
    from rocenv.data.known import Known
    from rocenv.data.releases import RocmWheels
    from rocenv.explain.page import Section

_KINDS = {"card": "discrete GPU", "apu": "APU"}


class Entry(NamedTuple):
    """A rendered row."""

    subject: str
    version: str  # "" if none; entries that differ only in version share a line
    text: str
    row: Known


def lines(table: str, rows: Iterable[Any], *, target: str = "") -> list[Line]:
    """Render a table's rows; if a target is given, only what applies to it."""
    return merged(entry(table, row, target) for row in rows)


def table_sections(found: Mapping[str, Sequence[Known]], target: str = "") -> tuple[Section, ...]:
    """Render whole tables, each under its title; if a target is given, only what applies to it."""
    return sections(*((TABLES[table][0], lines(table, rows, target=target)) for table, rows in found.items()))


def entry(table: str, row: Any, target: str = "") -> Entry:
    """Render one row."""
    subject, version, text = TABLES[table][1](row, target)
    return Entry(subject, version, text, row)


def merged(entries: Iterable[Entry]) -> list[Line]:
    """Merge entries that differ only in version, ordered by first occurrence."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for each in entries:
        groups.setdefault((each.subject, each.text), []).append(each)
    every: dict[str, set[str]] = {}
    for (subject, _text), group in groups.items():
        every.setdefault(subject, set()).update(each.version for each in group if each.version)
    return [
        Line(
            label=f"{subject} {spans((e.version for e in group if e.version), every[subject])}".strip(),
            text=text,
            rows=tuple(each.row for each in group),
        )
        for (subject, text), group in groups.items()
    ]


def wheel_promise(row: RocmWheels, target: str) -> str:
    """Summarize AMD's support for a target, and whether its build is release-ready."""
    if not row.has_lists:
        return "built for this GPU; AMD's support list has not been checked yet"
    if target in row.official:
        ready = "tested (release-ready)" if target in row.ready else "not marked as tested (release-ready)"
        return f"supported by AMD, {ready}" if row.ready else "supported by AMD"
    tested = target in row.ready
    return "tested by AMD (release-ready), but not supported" if tested else "built, not supported"


def combination(row: Verdict, *, about: str = "") -> str:
    """Render a verdict as a sentence: the combination, the result, and the remedy.

    `about` is the part that the page already covers, so the sentence omits it: "target", "rocm", "zluda"
    or "torch". If `about` is set and the verdict has a code, the sentence refers to the verdict's page
    instead of giving the remedy.
    """
    parts = combined(row, about)
    text = f"{parts}: {row.what}" if parts else row.what
    if row.only_if:
        text += f"; only if {row.only_if}"
    if row.code and about:
        return f"{text} (`rocenv explain {row.code}`)"
    if row.remedy:
        text += f". {'Instead' if row.verdict == 'broken' else 'Remedy'}: {row.remedy}"
    return text


def combined(row: Verdict, about: str = "") -> str:
    """List the parts of a combination: `gfx1031 with HIP SDK 6.1, ZLUDA 3.8.3 (rocm6)`."""
    sdk = "HIP SDK" if row.platform == "windows" and not row.on_wheels else "ROCm"
    parts = []
    if row.targets and about != "target":
        parts.append(listed(row.targets))
    if row.rocm and about != "rocm":
        parts.append(f"{sdk} {range_in_words(row.rocm)}")
    if (row.zluda or row.project or row.flavour) and about != "zluda":
        build = range_in_words(row.zluda) or row.project
        flavour = f"({listed(row.flavour)})" if row.flavour else ""
        parts.append(" ".join(filter(None, ("ZLUDA", build, flavour))))
    if row.torch and about != "torch":
        parts.append("torch" if row.torch == ">=0" else f"torch {range_in_words(row.torch)}")
    if row.driver:
        parts.append(f"display driver {range_in_words(row.driver)}")
    if row.on_wheels and parts:
        parts[-1] += " on Windows"
    return f"{parts[0]} with {listed(parts[1:])}" if parts[1:] else "".join(parts)


def combination_lines(rows: Iterable[Verdict], *, about: str) -> list[Line]:
    """Render verdicts, those with codes first, conditional last; `about`: see `combination`."""
    ordered = sorted(
        rows,
        key=lambda row: (
            not row.code,
            row.pack == "none",
            bool(row.only_if),
            OUTCOME_RANK[row.verdict],
            row.platform,
            row.rocm,
            row.what,
        ),
    )
    return [
        Line(label=OUTCOMES[row.verdict], text=combination(row, about=about), rows=(row,)) for row in ordered
    ]


def override_use(row: Override) -> str:
    """Summarize an override without its note: `10.3.0 (runs as gfx1030): works`."""
    only = f", only with ROCm {range_in_words(row.rocm)}" if row.rocm else ""
    way = "any value" if row.runs_as == "*" else f"{row.value} (runs as {row.runs_as})"
    return f"{way}: {OVERRIDES[row.verdict]}{only}"


def products(row: Any) -> str:
    """Describe a target's GPUs: `RX 6700 XT (discrete GPU, RDNA2, Navi22, GDDR6 12GiB)`."""
    traits = (_KINDS[row.kind], row.arch, row.codename, row.memory)
    return f"{row.products} ({listed(trait for trait in traits if trait)})"


def pythons(row: Any) -> str:
    """Format the Python versions of wheels: `Python 3.9 to 3.13`."""
    return f"Python {' to '.join(dict.fromkeys((row.python[0], row.python[-1])))}"


def _levels(**levels: Iterable[str]) -> str:
    """Format lists of targets by support level, omitting empty ones."""
    named = ((level.replace("_", "-"), in_order(targets)) for level, targets in levels.items())
    return "; ".join(f"{level}: {listed(targets)}" for level, targets in named if targets)


def _rocm(row: Any, target: str) -> tuple[str, str, str]:
    if target:
        text = "has kernels" if target in row.blas else "can compile for this GPU, but has no kernels"
        return row.channel, row.version, text
    rest = set(row.blas) - set(row.official)
    return "ROCm", row.version, f"channel {row.channel}; {_levels(supported=row.official, kernels=rest)}"


def _wheels(row: Any, target: str) -> tuple[str, str, str]:
    driver = f"; needs display driver {range_in_words(row.driver)}" if row.driver else ""
    if target:
        return f"{row.channel} wheels", row.version, wheel_promise(row, target) + driver
    rest = set(row.targets) - {*row.official, *row.ready}
    if row.has_lists:
        text = _levels(supported=row.official, release_ready=row.ready, built=rest)
        text = text.replace("release-ready:", "tested (release-ready):")
    else:
        text = f"AMD's support list has not been checked yet; {_levels(built=rest)}"
    note = f". {row.note}" if row.note else ""
    return f"{row.channel} wheels", row.version, f"for {row.platform}, {pythons(row)}; {text}{driver}{note}"


def _sdk(row: Any, _target: str) -> tuple[str, str, str]:
    files = listed((*row.runtime, *row.comgr, *row.hiprtc), "")
    missing = listed(row.not_included, "")
    parts = [f"{row.installer}, for {row.os}", f"runtime: {files}" if files else ""]
    parts.append(f"not included: {missing}" if missing else "")
    return "HIP SDK", row.version, "; ".join(filter(None, parts))


def _support(row: Any, target: str) -> tuple[str, str, str]:
    subject = "HIP SDK" if row.platform == "windows" else "ROCm packages"
    if target:
        return subject, row.rocm, LEVELS[row.level]
    note = f" ({row.note})" if row.note else ""
    return subject, row.rocm, f"{LEVELS[row.level]}: {listed(in_order(row.targets))}{note}"


def _torch(row: Any, target: str) -> tuple[str, str, str]:
    if row.cuda:
        named = f", documented for ZLUDA {range_in_words(row.zluda)}" if row.zluda else ""
        text = f"under ZLUDA: built for CUDA {row.cuda}{named}"
    else:
        text = f"for ROCm {row.rocm}" + (f" from channel {row.channel}" if row.channel else "")
    half = set(row.compiled) - set(row.targets)
    if target:
        fits = target in row.targets or row.channel
        lacking = "; compiled for this GPU, but rocBLAS has no kernels"
        return "torch", row.version, text if fits else f"{text}{lacking}"
    parts = [text, pythons(row), *(f"{name} {version}" for name, version in row.companions.items())]
    parts += [row.triton, f"needs glibc {row.glibc}" if row.glibc else ""]
    parts += [_levels(kernels_for=row.targets).replace("kernels-for:", "kernels for")]
    parts += [f"also compiled for {listed(in_order(half))}, but without rocBLAS kernels" if half else ""]
    parts += ["" if row.released or row.channel else "not released yet"]
    return "torch", row.version, "; ".join(filter(None, parts))


def _zluda(row: Any, _target: str) -> tuple[str, str, str]:
    sdks = dict.fromkeys(name for each in row.assets if each.platform == "windows" for name in each.rocm)
    parts = [f"by {row.project}", f"for HIP SDK {listed(sdks)}" if sdks else "no archive for a HIP SDK"]
    parts += [f"display driver {range_in_words(row.driver)}" if row.driver else ""]
    parts += ["the build that apps use" if row.preferred else ""]
    return "ZLUDA", row.version, "; ".join(filter(None, parts))


def _pack(row: Any, _target: str) -> tuple[str, str, str]:
    subject = f"HIP SDK {listed(row.rocm)}"
    if row.absent:
        return subject, "", f"no pack exists{f': {row.note}' if row.note else ''}"
    where = row.url or f"{row.provider}: {row.asset or f'see release {row.tag}'}"
    notes = [row.kind if row.kind != "rocblas" else "", "" if row.url else listed(row.targets, ""), row.note]
    note = "; ".join(filter(None, notes))
    return subject, "", f"{where} ({note})" if note else where


def _override(row: Any, target: str) -> tuple[str, str, str]:
    return "override" if target else row.target, "", f"{override_use(row)}; {row.note}"


def _verdict(row: Any, _target: str) -> tuple[str, str, str]:
    code = f" [{row.code}]" if row.code else ""
    return OUTCOMES[row.verdict], "", combination(row) + code


def _good_set(row: Any, _target: str) -> tuple[str, str, str]:
    rocm = "HIP SDK" if row.platform == "windows" else "ROCm"
    parts = [f"{rocm} {range_in_words(row.rocm)}", f"ZLUDA {range_in_words(row.zluda)}" if row.zluda else ""]
    parts += [f"torch {range_in_words(row.torch)}" if row.torch else ""]
    parts += [f"Python {listed(row.python)}" if row.python else ""]
    parts += [f"display driver {range_in_words(row.driver)}" if row.driver else ""]
    parts += [f"for {listed(in_order(row.targets), 'any supported GPU')}", row.note]
    return row.by, "", "; ".join(filter(None, parts))


def _build(row: Any, _target: str) -> tuple[str, str, str]:
    gpus = listed(in_order(row.targets), "any GPU, with Vulkan")
    asset = row.asset.replace("{family}", "gfxNNNN")
    return row.platform.capitalize(), "", f"{gpus}: `{asset}` from {row.url}; {row.note}"


def _wsl(row: Any, _target: str) -> tuple[str, str, str]:
    driver = f"; AMD's Windows driver {row.driver} or newer" if row.driver else ""
    return f"ROCm {range_in_words(row.rocm)}", "", f"{row.needs}{driver}"


# Table -> its title, and a function from a row to subject, version and text.
TABLES: Mapping[str, tuple[str, Callable[[Any, str], tuple[str, str, str]]]] = {
    "target": ("Targets", lambda row, _: (row.name, "", products(row))),
    "rocm": ("ROCm packages for Linux", _rocm),
    "rocm_wheels": ("ROCm as Python wheels", _wheels),
    "hip_sdk": ("HIP SDKs for Windows", _sdk),
    "support": ("GPU support by release", _support),
    "kernels": (
        "Kernels in rocBLAS",
        lambda row, _: (f"ROCm {row.rocm}", "", f"{row.kind}: {listed(in_order(row.targets))}"),
    ),
    "torch": ("PyTorch wheels", _torch),
    "zluda": ("ZLUDA builds", _zluda),
    "pack": ("Library packs", _pack),
    "override": ("HSA_OVERRIDE_GFX_VERSION, on Linux", _override),
    "verdict": ("Known combinations", _verdict),
    "good_set": ("Sets that app developers recommend", _good_set),
    "driver_pair": (
        "Kernel drivers tested with ROCm releases",
        lambda row, _: (f"driver {listed(row.drivers)}", "", f"ROCm {spans(row.rocm)}"),
    ),
    "release": (
        "Components",
        lambda row, _: (
            f"components of {row.version}",
            "",
            listed((f"{name} {version}" for name, version in row.parts.items()), row.note),
        ),
    ),
    "app_build": ("Builds", _build),
    "wsl": ("Requirements by release", _wsl),
    "fact": ("Good to know", lambda row, _: (row.key, "", row.text)),
}
