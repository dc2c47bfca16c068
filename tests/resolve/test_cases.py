"""Expected results from the shipped matrix for real situations, each in a `tests/cases/NAME.toml`.

    why = "the situation in one sentence"
    source = "evidence: a link, or a row in a table"

    [request]                # as on the command line; "*" = any
    platform = "windows"     # default: linux
    target = "gfx1031"
    rocm, zluda, torch, python, channel, driver = "…"

    [machine]                # known facts about the machine that the set is for, if any
    glibc, kernel, driver = "…"

    [expect]                 # for the best set; unspecified fields can have any value
    rocm, channel, project, zluda, asset, torch, runs_as = "…"
    pack = "gfx1031"         # part of the file name or of one of the pack's targets; "" if there must be none
    override = "10.3.0"      # "" if there must be none
    notes = ["part of a note that must be shown"]
    absent_notes = ["part of a note that must not be shown"]

    [impossible]             # instead of [expect], if no set should match
    because = ["part of the text of a line"]
    sources = ["part of the source of a line"]
    lines = 2                # the exact number
    suggests = ["part of a suggested command"]

Expectations are based on the source, not on rocenv's output.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rocenv.core.codec import from_plain
from rocenv.core.errors import ResolutionImpossible
from rocenv.core.model import Machine, Request, Value
from rocenv.data.load import load
from rocenv.data.windows import Pack
from rocenv.resolve import Candidate, resolve
from tests.resolve.commands import asked

if TYPE_CHECKING:
    from rocenv.data.rows import Matrix

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
CASES = sorted((ROOT / "tests" / "cases").glob("*.toml"))


class Expect(Value, frozen=True, kw_only=True):
    rocm: str | None = None
    channel: str | None = None
    project: str | None = None
    zluda: str | None = None
    asset: str | None = None
    pack: str | None = None
    torch: str | None = None
    runs_as: str | None = None
    override: str | None = None
    notes: tuple[str, ...] = ()
    absent_notes: tuple[str, ...] = ()


class Impossible(Value, frozen=True, kw_only=True):
    because: tuple[str, ...]
    sources: tuple[str, ...] = ()
    lines: int | None = None
    suggests: tuple[str, ...] = ()


class Situation(Value, frozen=True, kw_only=True):
    why: str
    source: str
    request: Request
    machine: Machine = Machine()
    expect: Expect | None = None
    impossible: Impossible | None = None


@lru_cache(maxsize=1)
def matrix() -> Matrix:
    return load(ROOT / "profiles")


def read(path: Path) -> Situation:
    plain = tomllib.loads(path.read_text(encoding="utf-8"))
    plain.get("request", {}).setdefault("platform", "linux")
    return from_plain(Situation, plain, path.name)


def test_there_are_at_least_75_cases() -> None:
    assert len(CASES) >= 75


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_each_case_resolves_as_expected(path: Path) -> None:
    case = read(path)
    assert case.why
    assert case.source
    assert (case.expect is None) != (case.impossible is None)
    if case.expect is not None:
        check_set(next(resolve(case.request, matrix(), case.machine)), case.expect)
        return
    with pytest.raises(ResolutionImpossible) as caught:
        resolve(case.request, matrix(), case.machine)
    assert case.impossible is not None
    check_lines(caught.value, case.impossible)
    check_suggestions(caught.value, case)


def check_set(found: Candidate, expect: Expect) -> None:
    pack, zluda, torch = found.row(Pack), found.part("zluda"), found.part("torch")
    was: dict[str, Any] = {
        "rocm": found.rocm.version,
        "channel": found.rocm.channel,
        "project": zluda.channel if zluda else "",
        "zluda": zluda.version if zluda else "",
        "asset": zluda.asset.name if zluda and zluda.asset else "",
        "torch": torch.version if torch else "",
        "runs_as": found.runs_as,
        "override": found.override.value if found.override else "",
    }
    wanted = {name: getattr(expect, name) for name in was if getattr(expect, name) is not None}
    assert {name: was[name] for name in wanted} == wanted
    if expect.pack is not None:
        assert (pack is None) == (not expect.pack)
        assert pack is None or expect.pack in " ".join((pack.asset, *pack.targets))
    notes = "\n".join((*found.warnings, *found.notes, *found.local_notes))
    for text in expect.notes:
        assert text in notes
    for text in expect.absent_notes:
        assert text not in notes


def check_lines(error: ResolutionImpossible, expect: Impossible) -> None:
    texts = "\n".join(line.text for line in error.rejections)
    sources = "\n".join(line.source for line in error.rejections)
    assert all(line.source for line in error.rejections)
    for text in expect.because:
        assert text in texts
    for text in expect.sources:
        assert text in sources
    if expect.lines is not None:
        assert len(error.rejections) == expect.lines, texts


def check_suggestions(error: ResolutionImpossible, case: Situation) -> None:
    assert case.impossible is not None
    for text in case.impossible.suggests:
        assert any(text in suggestion.command for suggestion in error.suggestions), error.hints
    for suggestion in error.suggestions:
        again = asked(suggestion.command)
        assert again.targets == case.request.targets
        assert next(resolve(again, matrix(), case.machine)).versions == suggestion.components
