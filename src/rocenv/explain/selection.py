"""Matrix queries: the rows that match filters, and a one-page overview."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rocenv.core.model import Value
from rocenv.core.versions import allows, newest_first, series, specifier, version_fits
from rocenv.explain.phrases import LEVELS, OUTCOME_RANK, in_order, in_ranges, target_key
from rocenv.explain.target import packs_for, series_known, wheels_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rocenv.data.known import Known, Platform
    from rocenv.data.releases import TorchSet
    from rocenv.data.rows import Matrix

# The tables about compatibility, in reading order.
TABLES = (
    "target",
    "rocm",
    "rocm_wheels",
    "hip_sdk",
    "support",
    "kernels",
    "torch",
    "zluda",
    "pack",
    "override",
    "verdict",
    "good_set",
    "driver_pair",
)
# Tables that refer to a part by version range, by version, and by series.
_RANGES = {
    "rocm": ("override", "verdict", "good_set"),
    "zluda": ("torch", "verdict", "good_set"),
    "torch": ("verdict", "good_set"),
}
_VERSIONS = {
    "rocm": {"rocm": "version", "rocm_wheels": "version", "hip_sdk": "version", "pack": "rocm"},
    "zluda": {"zluda": "version"},
    "torch": {"torch": "version"},
}
_SERIES = {"support": "rocm", "kernels": "rocm", "driver_pair": "rocm", "torch": "rocm"}
_TARGETS = ("target", "targets", "runs_as", "compiles", "blas", "official", "compiled")


class Filters(Value, frozen=True, kw_only=True):
    """The filters of a query; "" matches everything. `rocm`, `zluda` and `torch` contain SPECs."""

    rocm: str = ""
    zluda: str = ""
    torch: str = ""
    target: str = ""
    platform: str = ""

    @property
    def narrow(self) -> bool:
        """Whether there is a filter other than the platform."""
        return bool(self.rocm or self.zluda or self.torch or self.target)


def select(matrix: Matrix, filters: Filters) -> dict[str, list[Known]]:
    """Select the rows that match at least one filter and contradict none, by table.

    A row that does not mention a part neither matches nor contradicts a filter on it. The result does not
    depend on the order of the data files.

    Raises:
        RocenvError: A SPEC is invalid (exit code 2).
    """
    asked = {
        option: _asked_versions(matrix, option, getattr(filters, option))
        for option in ("rocm", "zluda", "torch")
        if getattr(filters, option)
    }
    if not all(asked.values()) or (filters.target and filters.target not in matrix.targets):
        return {}  # no row matches an unknown part
    found: dict[str, list[Known]] = {}
    for table in TABLES:
        rows = [row for row in _rows(matrix, table, filters.platform) if _matches(table, row, filters, asked)]
        if rows:
            found[table] = sorted(rows, key=lambda row: _order(table, row))
    return found


def known_versions(matrix: Matrix, option: str) -> list[str]:
    """List a part's known versions, oldest first."""
    found: set[str] = set()
    for table, field in _VERSIONS[option].items():
        for row in _rows(matrix, table):
            value = getattr(row, field)
            found.update((value,) if isinstance(value, str) else value)
    if option == "rocm":
        found |= {row.version for row in matrix.release} | {row.rocm for row in matrix.support}
    return sorted(found, key=newest_first, reverse=True)


def _asked_versions(matrix: Matrix, option: str, text: str) -> set[str]:
    wanted = specifier(text, f"--{option}")
    return {
        version for version in known_versions(matrix, option) if version_fits(wanted, version, floating=False)
    }


def torch_for(matrix: Matrix, platform: str) -> list[TorchSet]:
    """List the PyTorch wheels for a platform, or for all platforms if it is "".

    PyTorch wheels that require separate ROCm wheels exist for the same platforms as those ROCm wheels.
    """
    places = {(row.version, row.channel) for row in matrix.rocm_wheels if row.platform == platform}
    own = {("linux", True), ("windows", False)}
    return [
        row
        for row in matrix.torch
        if not platform
        or ((row.rocm, row.channel) in places if row.channel else (platform, bool(row.rocm)) in own)
    ]


def _rows(matrix: Matrix, table: str, platform: str = "") -> Iterable[Any]:
    if table == "torch":
        return torch_for(matrix, platform)
    return matrix.targets.values() if table == "target" else getattr(matrix, table)


def _matches(table: str, row: Any, filters: Filters, asked: Mapping[str, set[str]]) -> bool:
    answers = [_on_platform(table, row, filters.platform), _on_target(table, row, filters.target)]
    said = [_on_versions(table, row, option, versions) for option, versions in asked.items()]
    if False in (*answers, *said):
        return False
    # A row must match a filter other than the platform.
    return not filters.narrow or True in (answers[1], *said)


def _on_platform(table: str, row: Any, platform: str) -> bool | None:
    """Whether a row applies to a platform; None if it does not mention one."""
    if not platform:
        return None
    if table in ("hip_sdk", "zluda", "pack"):
        return platform == "windows"
    if table in ("rocm", "kernels", "override", "driver_pair"):
        return platform == "linux"
    return platform == row.platform if hasattr(row, "platform") else None


def _on_target(table: str, row: Any, target: str) -> bool | None:
    if not target:
        return None
    if table == "target":
        return bool(row.name == target)
    named: set[str] = set()
    for field in _TARGETS:
        value = getattr(row, field, ())
        named.update(each.partition(":")[0] for each in ((value,) if isinstance(value, str) else value))
    return target in named if named else None


def _on_versions(table: str, row: Any, option: str, versions: set[str]) -> bool | None:
    if field := _VERSIONS[option].get(table):
        value = getattr(row, field)
        named = (value,) if isinstance(value, str) else value
        return any(each in versions for each in named) if named else None
    if option == "rocm" and table in _SERIES:
        value = getattr(row, _SERIES[table])
        named = (value,) if isinstance(value, str) else value
        releases = {series(version) for version in versions}
        return any(series(each) in releases for each in named if each) if any(named) else None
    if table in _RANGES[option]:
        text = getattr(row, option)
        return any(allows(text, version) for version in versions) if text else None
    return None


def _order(table: str, row: Any) -> tuple[Any, ...]:
    """Build a unique sort key, newest first."""
    if table == "verdict":
        return (not row.code, OUTCOME_RANK[row.verdict], row.platform, repr(row))
    if table == "support":
        return (newest_first(row.rocm), row.platform, list(LEVELS).index(row.level), repr(row))
    version = getattr(row, "version", "") or (row.rocm[-1] if table == "pack" else "0")
    target = getattr(row, "name" if table == "target" else "target", "")
    return (target_key(target), newest_first(version), repr(row))


# ----------------------------------------------------------------------------------------- the overview

_LETTERS = {"official": "O", "deprecated": "D", "libraries": "L", "runtime": "R", "unsupported": "x"}
_MEANINGS = {
    "O": "supported by AMD",
    "D": "deprecated",
    "L": "kernels, but unofficial",
    "P": "kernels in a library pack",
    "R": "no kernels",
    "x": "unsupported",
    "-": "not listed",
    "*": "release-ready: AMD tests the build",
}
RUNS_AS = "RUNS AS: with HSA_OVERRIDE_GFX_VERSION, for these ROCm releases"


def overview(matrix: Matrix, platform: Platform) -> list[tuple[str, str]]:
    """Build a table: one letter per release, one row per group of targets with the same support."""
    groups: dict[str, list[str]] = {}
    heading, letters = _letters(matrix, platform)
    for target, cells in letters.items():
        groups.setdefault(cells, []).append(target)
    order = list(letters)
    found = [(cells, in_ranges(targets, order)) for cells, targets in groups.items() if cells.strip("- ")]
    return [(heading, f"TARGETS ON {platform.upper()}"), *found]


def full_overview(matrix: Matrix, platform: Platform) -> list[tuple[str, ...]]:
    """Build a table with a row for each target, and, on Linux, the targets that it can run as."""
    heading, letters = _letters(matrix, platform)
    rows: list[tuple[str, ...]] = [(f"ON {platform.upper()}", heading), *letters.items()]
    if platform == "linux":
        runs_as = ["RUNS AS", *(_overrides(matrix, target) for target in letters)]
        rows = [(*row, other) for row, other in zip(rows, runs_as, strict=True)]
    return rows


def legend(tables: Sequence[Sequence[tuple[str, ...]]]) -> str:
    """Explain the letters of overviews."""
    words = {word for table in tables for row in table[1:] for cell in row for word in cell.split()}
    used = {char for word in words if word[0] in _MEANINGS and len(word) < 3 for char in word}
    texts = [f"{letter} {meaning}" for letter, meaning in _MEANINGS.items() if letter in used]
    return "  ".join(text.replace(" ", "\u00a0") for text in (*texts, "7.14+ AMD's wheels"))


def _letters(matrix: Matrix, platform: Platform) -> tuple[str, dict[str, str]]:
    """Return the releases as a heading, and each target's letters below it."""
    columns = _columns(matrix, platform)
    return " ".join(columns), {
        target: " ".join(of_target.get(target, "-").ljust(len(head)) for head, of_target in columns.items())
        for target in in_order(matrix.targets)
    }


def _columns(matrix: Matrix, platform: Platform) -> dict[str, dict[str, str]]:
    """Map each column's heading to its targets' letters.

    Wheel releases are omitted if their series has a column for packages or an SDK, or if their support lists
    have not been checked. Of the others, consecutive ones with the same support share a column.
    """
    packages = series_known(matrix, platform)
    columns: dict[str, dict[str, str]] = {release: {} for release in packages}
    for row in matrix.support:
        if row.platform == platform:
            columns[row.rocm].update(dict.fromkeys(row.targets, _LETTERS[row.level]))
    for target in matrix.targets if platform == "windows" else ():
        for release in {series(version) for pack in packs_for(matrix, target) for version in pack.rocm}:
            if columns.setdefault(release, {}).get(target, "x") not in "ODL":
                columns[release][target] = "P"
    last: dict[str, str] = {}
    for wheels in wheels_of(matrix, platform):
        if wheels.has_lists and series(wheels.version) not in packages:
            letters = {
                target: f"{'O' if target in wheels.official else 'L'}{'*' if target in wheels.ready else ''}"
                for target in wheels.targets
            }
            if letters != last:
                columns[f"{series(wheels.version)}+"] = letters
            last = letters
    return columns


def _overrides(matrix: Matrix, target: str) -> str:
    """List the targets that a target can run as, best first, with the ROCm releases that allow it."""
    rows = sorted(
        (row for row in matrix.override if row.target == target and row.verdict in ("ok", "caution")),
        key=lambda row: (row.verdict != "ok", row.value),
    )
    return ", ".join(row.runs_as + (f" ({row.rocm})" if row.rocm else "") for row in rows)
