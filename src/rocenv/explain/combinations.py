"""Verdicts on combinations as statements, the most telling first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.explain.answer import Line
from rocenv.explain.words import OUTCOME_RANK, OUTCOMES, listed, range_in_words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocenv.data.knowledge import Verdict


def combination_lines(rows: Iterable[Verdict], *, most: int, about: str, more: str) -> list[Line]:
    """Return what is known about combinations, at most so many lines and one that says where the rest is.

    Args:
        rows: In any order.
        most: How many are told.
        about: What the reader knows already and need not be told again: "target", "rocm", "zluda", "torch".
        more: The command that shows all of them.
    """
    ordered = sorted(rows, key=_weight)
    lines = [
        Line(label=OUTCOMES[row.verdict], text=combination_text(row, about=about), rows=(row,))
        for row in ordered
    ]
    if len(lines) <= most + 1:
        return lines
    return [*lines[:most], Line(label="more", text=f"{len(lines) - most} others are known: `{more}`")]


def combination_text(row: Verdict, *, about: str = "") -> str:
    """Return a verdict as a sentence: the combination, what happens, what to do instead."""
    parts = _parts(row, about)
    text = f"{_joined(parts)}: {row.what}" if parts else row.what
    if row.only_if:
        text += f"; only if {row.only_if}"
    if row.code and about:
        return f"{text} (`rocenv explain {row.code}`)"  # which tells the remedy
    if row.remedy:
        text += f". {'Instead' if row.verdict == 'broken' else 'What helps'}: {row.remedy}"
    return text


def _parts(row: Verdict, about: str) -> list[str]:
    name = "HIP SDK" if row.platform == "windows" and not row.on_wheels else "ROCm"
    parts = []
    if row.targets and about != "target":
        parts.append(listed(row.targets))
    if row.rocm and about != "rocm":
        parts.append(f"{name} {range_in_words(row.rocm)}")
    if (row.zluda or row.project or row.flavour) and about != "zluda":
        build = " ".join(
            part for part in (row.project if not row.zluda else "", range_in_words(row.zluda)) if part
        )
        parts.append(f"ZLUDA {build}{f' ({listed(row.flavour)})' if row.flavour else ''}")
    if row.torch and about != "torch":
        parts.append("torch" if row.torch == ">=0" else f"torch {range_in_words(row.torch)}")
    if row.driver:
        parts.append(f"display driver {range_in_words(row.driver)}")
    if row.on_wheels and parts:
        parts[-1] += " on Windows"
    return parts


def _joined(parts: list[str]) -> str:
    first, *rest = parts
    return f"{first} with {listed(rest)}" if rest else first


def _weight(row: Verdict) -> tuple[object, ...]:
    """Return a key for the order: what has a name first, last what only one machine met."""
    return (
        not row.code,
        row.pack == "none",
        bool(row.only_if),
        OUTCOME_RANK[row.verdict],
        row.platform,
        row.rocm,
        row.what,
    )
