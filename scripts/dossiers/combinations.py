"""The combinations of the dossiers: their conditions are prose there, and specifiers in verdicts.toml."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet

from dossiers.lookup import Fault

if TYPE_CHECKING:
    from dossiers.lookup import Row
    from rocenv.data.rows import Matrix


def combination(row: Row, matrix: Matrix) -> None:
    """Raise Fault unless a verdict from the same source says the same of each release that the row names."""
    verdict = row["verdict"].replace("works-with-workaround", "workaround")
    source = row["source"].replace(" ; ", "; ").replace(" (name not recorded)", ", name not recorded")
    found = [each for each in matrix.verdict if (each.verdict, each.source) == (verdict, source)]
    found = [each for each in found if has_targets(each.targets, row["gfx"])]
    found = [each for each in found if contains(each.zluda, zluda_version(row["zluda"]))]
    found = [each for each in found if contains(each.driver, row.get("driver", "").lstrip(">="))]
    for text in row["hip_sdk"].split("/"):
        version = re.search(r"\d+\.(?:\d\w*(?:\.\w+)?|x)", text)
        rocm = version[0].replace("x", "2") if version else ""
        if not any(contains(each.rocm, rocm) and (rocm or not each.rocm) for each in found):
            raise Fault(
                f"no verdict `{verdict}` on {row['gfx']} with {text} and {row['zluda']} from {source}"
            )


def zluda_version(text: str) -> str:
    # vosen v6-preview.76 and earlier / 1c238a9 (3.8.3, rocm6 asset) / 3.9.x
    match = re.search(
        r"\bv(?P<major>\d+)(?:-preview\.(?P<preview>\d+))?|(?P<dotted>\d+\.\d+(?:\.[\dx]+)?)", text
    )
    if match is None or "Koharu" in text:  # the version of the app that brings it
        return ""
    if match["major"]:
        return match["major"] + (f"rc{match['preview']}" if match["preview"] else "")
    return match["dotted"].replace("x", "0")


def has_targets(targets: tuple[str, ...], text: str) -> bool:
    named = [match[0].rstrip("x") for part in text.split("/") if (match := re.search("gfx[0-9a-f]+x*", part))]
    if not named:
        return not targets or text != "any"
    return all(any(target.startswith(name) for target in targets) for name in named)


def contains(specifier: str, version: str) -> bool:
    return not version or SpecifierSet(specifier).contains(version, prereleases=True)
