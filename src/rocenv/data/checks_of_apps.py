"""What must hold of apps' profiles: causes that are there, patterns and ranges that are some."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from rocenv.core.errors import DataError
from rocenv.data.apps import CONDITIONS, PLACES, SIZES
from rocenv.data.checks_of_rules import SHORTEST

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rocenv.data.apps import Launcher
    from rocenv.data.checks import Placed

_PLACE = re.compile(r"\{[a-z_]+\}")
# The groups that the patterns of a list need; `device` is the name of a GPU.
_GROUPS = {"pattern": ("device",), "other": (), "target": ("number", "target")}


def check_apps(rows: Mapping[str, Sequence[Placed]]) -> None:
    """Raise DataError where a profile names a cause that no rule has, or holds what cannot be looked for."""
    codes = {placed.row.code for placed in rows["rule"]}
    for placed in rows["launcher"]:
        row = placed.row
        faults = (*_of_causes(row, codes), *_of_texts(row), *_of_patterns(row), *_of_arguments(row))
        for fault in faults:
            raise DataError(f"{fault} (`{placed.where}`, `{row.key}`)")


def _of_causes(row: Launcher, codes: set[str]) -> Iterator[str]:
    for failure in row.failures:
        if failure.code and failure.code not in codes:
            yield f"`failures`: no rule has the code `{failure.code}`"
        if not failure.code and not failure.means:
            yield f"`failures`: `{failure.text}` has neither `means` nor `code`"
    if row.math_library is not None and row.math_library.code not in codes:
        yield f"`math_library`: no rule has the code `{row.math_library.code}`"
    for fallback in row.fallbacks:
        if fallback.code not in codes:
            yield f"`fallbacks`: no rule has the code `{fallback.code}`"
        if not fallback.text or not fallback.zh:
            yield f"`fallbacks`: one for `{fallback.code}` has no text in a language"


def _of_texts(row: Launcher) -> Iterator[str]:
    texts = [("failures", failure.text) for failure in row.failures]
    for name in ("gpu_used", "gpu_work_shown"):
        texts += [(name, text) for text in getattr(row, name)]
    for name, text in texts:
        if len(text.encode()) < SHORTEST or "\n" in text:
            yield f"`{name}`: `{text}` is no part of a line that says anything"
    for name in ("programs", "gpu_work", "cpu", "not_hip"):
        if not all(text.strip() for text in getattr(row, name)):
            yield f"`{name}` holds an empty text"
    if row.wrapper.names and not row.command:
        yield "`wrapper` needs a `command` to start in its place"


def _of_arguments(row: Launcher) -> Iterator[str]:
    for flag in row.flags:
        if not flag.words:
            yield "`flags`: one adds nothing"
        places = {place for word in flag.words for place in _PLACE.findall(word)}
        for name in {name.removeprefix("not-") for name in flag.when} - set(CONDITIONS):
            yield f"`flags`: there is no condition `{name}`, only {', '.join(CONDITIONS)}"
        for place in places - set(PLACES):
            yield f"`flags`: nothing stands for `{place}`, only for {', '.join(PLACES)}"
    for size in set(row.sizes) - set(SIZES):
        yield f"`sizes`: there is no size `{size}`, only {', '.join(SIZES)}"
    if row.fit_margin_mib < 0 or any(not each.names or each.operands < 0 for each in row.starters):
        yield "`fit_margin_mib` and `starters`: no number is below 0, and a starter has a name"
    if not all(each.new for each in row.renamed):
        yield "`renamed`: one says nothing to take instead"
    if row.devices is not None and not row.devices.arguments:
        yield "`devices` has no `arguments` to ask with"


def _of_patterns(row: Launcher) -> Iterator[str]:
    for name in ("rocm", "python"):
        text = getattr(row.needs, name)
        try:
            SpecifierSet(text)
        except InvalidSpecifier:
            yield f"`needs.{name}`: `{text}` is no range of versions"
    if row.devices is None:
        return
    for name, wanted in _GROUPS.items():
        text = getattr(row.devices, name)
        try:
            groups = re.compile(text).groupindex
        except re.error as error:
            yield f"`devices.{name}`: `{text}` is no regular expression: {error}"
            continue
        for group in wanted:
            if group not in groups and (text or name == "pattern"):
                yield f"`devices.{name}`: `{text}` has no group `{group}`"
