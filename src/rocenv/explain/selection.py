"""The rows of the matrix that match what was asked for, table by table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rocenv.core.model import Value
from rocenv.core.versions import allows, newest_first, series, specifier, version_fits
from rocenv.explain.words import OUTCOME_RANK, target_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rocenv.data.known import Known
    from rocenv.data.rows import Matrix

# The tables that say what goes with what, in the order of reading.
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
# Where a table says it by ranges of versions, and where by the versions themselves.
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
    """What was asked for; "" = anything. `rocm`, `zluda` and `torch` are SPECs."""

    rocm: str = ""
    zluda: str = ""
    torch: str = ""
    target: str = ""
    platform: str = ""

    @property
    def narrow(self) -> bool:
        """Whether anything but the platform is asked for."""
        return bool(self.rocm or self.zluda or self.torch or self.target)


def select(matrix: Matrix, filters: Filters) -> dict[str, list[Known]]:
    """Return by table the rows that say something about what was asked for and nothing against it.

    A row that leaves a part open says nothing about it. Rows are in an order of their own, so that the same
    data gives the same document.

    Raises:
        RocenvError: A SPEC is none; exit code 2.
    """
    asked = {
        option: _asked_versions(matrix, option, getattr(filters, option))
        for option in ("rocm", "zluda", "torch")
        if getattr(filters, option)
    }
    if not all(asked.values()) or (filters.target and filters.target not in matrix.targets):
        return {}  # what is not known is in no row, and not what the rows leave open
    found: dict[str, list[Known]] = {}
    for table in TABLES:
        rows = [
            row
            for row in _rows(matrix, table)
            if _matches(table, row, filters, asked) and _has_wheels(table, row, matrix, filters.platform)
        ]
        if rows:
            found[table] = sorted(rows, key=lambda row: _order(table, row))
    return found


def known_versions(matrix: Matrix, option: str) -> list[str]:
    """Return the versions that the matrix knows of a part, oldest first."""
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


def _rows(matrix: Matrix, table: str) -> Iterable[Any]:
    return matrix.targets.values() if table == "target" else getattr(matrix, table)


def _matches(table: str, row: Any, filters: Filters, asked: Mapping[str, set[str]]) -> bool:
    answers = [_on_platform(table, row, filters.platform), _on_target(table, row, filters.target)]
    said = [_on_versions(table, row, option, versions) for option, versions in asked.items()]
    if False in (*answers, *said):
        return False
    # The platform alone does not make a row one that is about what was asked.
    return not filters.narrow or True in (answers[1], *said)


def _on_platform(table: str, row: Any, platform: str) -> bool | None:
    """Tell whether a row is about a platform; None where it is about none."""
    if not platform:
        return None
    if table in ("hip_sdk", "zluda", "pack"):
        return platform == "windows"
    if table in ("rocm", "kernels", "override", "driver_pair"):
        return platform == "linux"
    if table == "torch":
        return None if row.channel else platform == ("linux" if row.rocm else "windows")
    return platform == row.platform if hasattr(row, "platform") else None


def _has_wheels(table: str, row: Any, matrix: Matrix, platform: str) -> bool:
    """Whether ROCm's wheels that a PyTorch uses exist for a platform; true of every other row."""
    if not platform or table != "torch" or not row.channel:
        return True
    wanted = (row.rocm, row.channel, platform)
    return any((each.version, each.channel, each.platform) == wanted for each in matrix.rocm_wheels)


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
    """Return a key that puts what is newest first, and is the same for no two rows."""
    if table == "verdict":
        return (not row.code, OUTCOME_RANK[row.verdict], row.platform, repr(row))
    version = getattr(row, "version", "") or (row.rocm[-1] if table == "pack" else "0")
    target = getattr(row, "name" if table == "target" else "target", "")
    return (target_key(target), newest_first(version), repr(row))
