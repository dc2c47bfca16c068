"""What must hold between rows: one row for one thing, references that lead somewhere, no contradictions."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from rocenv.core.errors import DataError
from rocenv.data.checks_of_apps import check_apps
from rocenv.data.checks_of_knobs import check_knobs
from rocenv.data.checks_of_packages import check_packages
from rocenv.data.checks_of_rules import check_rules

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocenv.data.known import Known

# What makes two rows of a table the same thing. Tables that are not here may say anything twice.
IDENTITY: Mapping[str, tuple[str, ...]] = {
    "repo": ("name",),
    "channel": ("name",),
    "target": ("name",),
    "generic_target": ("name",),
    "pci": ("device", "revision"),
    "gpu_name": ("pattern",),
    "release": ("version", "channel"),
    "rocm": ("version", "channel"),
    "support": ("platform", "rocm", "channel", "level", "source", "status"),
    "kernels": ("rocm", "kind"),
    "system_kernel": ("rocm", "os"),
    "torch": ("version", "rocm", "cuda"),
    "rocm_wheels": ("version", "channel", "index"),
    "hip_sdk": ("version",),
    "installer_note": ("text",),
    "zluda": ("project", "version"),
    "pack": ("provider", "rocm", "asset", "targets"),
    "index": ("name",),
    "override": ("target", "value"),
    "good_set": ("platform", "by", "rocm", "zluda", "targets"),
    "driver_pair": ("drivers", "rocm"),
    "driver_train": ("amdgpu",),
    "display_driver": ("version",),
    "incident": ("code",),
    "variable": ("name", "by"),
    "environment": ("change", "when", "platform"),
    "watched": ("name",),
    "library": ("component",),
    "pack_place": ("kind", "member"),
    "shim_map": ("project", "zluda", "cuda"),
    "torch_switch": ("name",),
    "app": ("name",),
    "launcher": ("key",),
    "app_packages": ("app", "channels"),
    "app_build": ("app", "name", "platform"),
    "compiler": ("name",),
    "app_program": ("app",),
    "app_release": ("app", "versions", "platform"),
    "kernel_source": ("app",),
    "kernel_recipe": ("app", "kind", "versions"),
    "code_objects": ("elf_machine",),
    "knob": ("program", "key"),
    "never_together": ("words",),
    "reclaim": ("program",),
    "rule": ("code",),
    "clue": ("fact", "value", "text", "pattern"),
    "advice": ("name",),
    "gauge": ("key",),
    "first_kernel": ("target",),
}

# The conditions of a verdict: rows that share them must not say opposite things.
_CONDITIONS = (
    "platform",
    "targets",
    "rocm",
    "zluda",
    "project",
    "flavour",
    "torch",
    "driver",
    "pack",
    "only_if",
)

_OPPOSITES = {"broken": "works", "works": "broken"}

_TARGETS = ("target", "targets", "compiles", "blas", "official", "compiled", "members", "runs_as")
_VERSIONS: Mapping[str, tuple[str, ...]] = {
    "release": ("version",),
    "rocm": ("version", "glibc"),
    "compiler": ("version",),
    "support": ("rocm",),
    "system_kernel": ("rocm",),
    "torch": ("version", "rocm", "cuda", "python", "glibc"),
    "rocm_wheels": ("version", "python", "torch"),
    "hip_sdk": ("version",),
    "zluda": ("version",),
    "pack": ("rocm",),
    "good_set": ("python",),
    "driver_pair": ("drivers", "rocm"),
    "driver_train": ("amdgpu", "rocm"),
    "display_driver": ("version", "file_version"),
    "first_kernel": ("linux",),
}
_SPECIFIERS: Mapping[str, tuple[str, ...]] = {
    "torch": ("zluda",),
    "rocm_wheels": ("driver",),
    "zluda": ("driver",),
    "override": ("rocm",),
    "verdict": ("rocm", "zluda", "torch", "driver"),
    "good_set": ("rocm", "zluda", "torch", "driver"),
}


@dataclass(frozen=True, slots=True)
class Placed:
    """A row and where it stands: file, table and number."""

    where: str
    row: Any


Rows = dict[str, list[Placed]]


def identity(table: str, row: Known) -> tuple[object, ...] | None:
    """Return what the row is about; None where the table has rows that may be about the same."""
    if table == "verdict":
        return tuple(getattr(row, name) for name in (*_CONDITIONS, "what"))
    return tuple(getattr(row, name) for name in IDENTITY[table]) if table in IDENTITY else None


def _conditions(verdict: Known) -> tuple[object, ...]:
    return tuple(getattr(verdict, name) for name in _CONDITIONS)


def require_one_each(rows: Rows) -> None:
    """Raise DataError where two rows of the same data are about the same thing."""
    for table, placed_rows in rows.items():
        seen: dict[tuple[object, ...], str] = {}
        for placed in placed_rows:
            key = identity(table, placed.row)
            if key is None:
                continue
            if key in seen:
                raise DataError(
                    f"`{placed.where}` is about the same as `{seen[key]}`: {_in_words(table, placed.row)}"
                )
            seen[key] = placed.where


def merged(table: str, rows: Sequence[Placed], own: Sequence[Placed]) -> list[Placed]:
    """Return the rows of a table with the user's rows in the place of those they override, or added."""
    replaced = {identity(table, placed.row) for placed in own} - {None}
    kept = [placed for placed in rows if identity(table, placed.row) not in replaced]
    if table == "support":
        kept = _without_what_is_said_anew(kept, own)
    if table == "verdict":
        # In whatever words: who says it of the same conditions has the last word.
        judged = {_conditions(placed.row) for placed in own}
        kept = [placed for placed in kept if _conditions(placed.row) not in judged]
    return [*kept, *own]


def _without_what_is_said_anew(rows: Sequence[Placed], own: Sequence[Placed]) -> list[Placed]:
    anew = {
        (placed.row.platform, placed.row.rocm, placed.row.channel, target)
        for placed in own
        for target in placed.row.targets
    }
    kept = []
    for placed in rows:
        row = placed.row
        targets = tuple(
            target for target in row.targets if (row.platform, row.rocm, row.channel, target) not in anew
        )
        if targets:
            kept.append(Placed(placed.where, replace(row, targets=targets)))
    return kept


def check(rows: Rows) -> None:
    """Raise DataError where a row refers to nothing, or two rows contradict each other."""
    targets = {placed.row.name for placed in rows["target"]}
    generic = {placed.row.name for placed in rows["generic_target"]}
    for table, placed_rows in rows.items():
        for placed in placed_rows:
            if targets:
                _check_targets(placed, targets)
            _check_texts(table, placed)
    for placed in rows["target"]:
        name = placed.row.generic
        _require(not name or name in generic, placed.where, f"`generic` names `{name}`, which is not there")
    _check_sources(rows)
    _check_sets(rows)
    _check_windows(rows)
    _check_contradictions(rows)
    check_rules(rows)
    check_apps(rows)
    check_knobs(rows)
    check_packages(rows)


def _check_targets(placed: Placed, targets: set[str]) -> None:
    for field in _TARGETS:
        value = getattr(placed.row, field, ())
        for name in (value,) if isinstance(value, str) else value:
            is_any = field == "runs_as" and name == "*"
            _require(
                is_any or name.partition(":")[0] in targets,
                placed.where,
                f"`{field}` names the target `{name}`, which is not there",
            )


def _check_texts(table: str, placed: Placed) -> None:
    for field in _VERSIONS.get(table, ()):
        value = getattr(placed.row, field)
        given = [value] if value or field == "version" else []
        for text in given if isinstance(value, str) else value:
            _require(_is_version(text), placed.where, f"`{field}`: `{text}` is no version")
    for field in _SPECIFIERS.get(table, ()):
        text = getattr(placed.row, field)
        try:
            SpecifierSet(text)
        except InvalidSpecifier as error:
            raise DataError(f"`{field}`: `{text}` is no range of versions (`{placed.where}`)") from error
    if table == "gpu_name":
        try:
            re.compile(placed.row.pattern)
        except re.error as error:
            raise DataError(
                f"`pattern`: `{placed.row.pattern}` is no regular expression: {error} (`{placed.where}`)"
            ) from error


def _check_sources(rows: Rows) -> None:
    repos = {placed.row.name for placed in rows["repo"]}
    for placed in rows["repo"]:
        repo = placed.row
        trusted = bool(repo.fingerprints) if repo.key_url else bool(repo.keyrings)
        _require(
            trusted, placed.where, "`keyrings`, or `key_url` with `fingerprints`, must say whom to trust"
        )
        for fingerprint in repo.fingerprints:
            _require(
                re.fullmatch("[0-9A-F]{40,64}", fingerprint) is not None,
                placed.where,
                f"`fingerprints`: `{fingerprint}` is not written as 40 hexadecimal digits in capitals",
            )
    for placed in rows["channel"]:
        for name in placed.row.repos:
            _require(name in repos, placed.where, f"`repos` names `{name}`, which is not there")


def _check_sets(rows: Rows) -> None:
    channels = {placed.row.name for placed in rows["channel"]}
    for placed in rows["rocm"]:
        row, where = placed.row, placed.where
        _require(row.channel in channels, where, f"`channel` names `{row.channel}`, which is not there")
        _require(bool(row.packages), where, "`packages` is empty")
        _require(
            not row.floating or bool(row.version_package), where, "`version_package` is missing: it floats"
        )
    for placed in rows["torch"]:
        row = placed.row
        _require(bool(row.rocm) != bool(row.cuda), placed.where, "one of `rocm` and `cuda` must be there")


def _check_windows(rows: Rows) -> None:
    versions = [placed.row.version for placed in rows["hip_sdk"]]
    known = {series(version) for version in versions} | {version.split(".")[0] for version in versions}
    for placed in rows["zluda"]:
        for asset in placed.row.assets:
            for name in (*asset.rocm, *asset.also):
                _require(name in known, placed.where, f"`assets` is for HIP SDK `{name}`, which is not there")
    for placed in rows["pack"]:
        for version in placed.row.rocm:
            _require(
                series(version) in known,
                placed.where,
                f"`rocm` names HIP SDK `{version}`, which is not there",
            )


def _check_contradictions(rows: Rows) -> None:
    said: dict[tuple[object, ...], dict[str, Placed]] = {}
    for placed in rows["verdict"]:
        verdict = placed.row.verdict
        others = said.setdefault(_conditions(placed.row), {})
        others.setdefault(verdict, placed)
        opposite = others.get(_OPPOSITES.get(verdict, ""))
        if opposite is not None:
            raise DataError(
                f"`verdict` is `{verdict}`, and `{opposite.where}` says `{opposite.row.verdict}` of the same "
                f"(`{placed.where}`)"
            )
    levels: dict[tuple[str, str, str, str], Placed] = {}
    for placed in rows["support"]:
        row = placed.row
        for target in row.targets:
            other = levels.setdefault((row.platform, row.rocm, row.channel, target), placed)
            _require(
                other.row.level == row.level,
                placed.where,
                f"`targets` has `{target}` as {row.level}, and `{other.where}` as {other.row.level}",
            )


def series(version: str) -> str:
    """Return the series of a version: `6.2.4` is of `6.2`."""
    return ".".join(version.split(".")[:2])


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def _in_words(table: str, row: Known) -> str:
    names = _CONDITIONS if table == "verdict" else IDENTITY[table]
    return ", ".join(f"{name} = {getattr(row, name)!r}" for name in names if getattr(row, name))


def _require(condition: bool, where: str, what: str) -> None:
    if not condition:
        raise DataError(f"{what} (`{where}`)")
