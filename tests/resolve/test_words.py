"""The order of sets, and the wording of requests, explanations and suggestions."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from rocenv.core.errors import ResolutionImpossible
from rocenv.core.model import Machine, Request
from rocenv.data.rows import Matrix
from rocenv.explain import explain
from rocenv.resolve import Candidate, resolve
from rocenv.resolve.request import no_set, options
from tests.resolve.commands import asked
from tests.resolve.test_cases import ROOT, matrix

if TYPE_CHECKING:
    from rocenv.data.releases import RocmSet


def linux(rocm: str = "", target: str = "gfx1100", **wishes: Any) -> Request:
    return Request(rocm=rocm, target=target, platform="linux", **wishes)


def windows(rocm: str = "", target: str = "gfx1100", **wishes: Any) -> Request:
    return Request(rocm=rocm, target=target, platform="windows", **wishes)


def names(request: Request, of: Matrix | None = None) -> list[str]:
    found = [each.rocm for each in resolve(request, of or matrix())]
    return [f"{part.channel} {part.version}" for part in found]


def impossible(request: Request, of: Matrix | None = None) -> ResolutionImpossible:
    with pytest.raises(ResolutionImpossible) as caught:
        resolve(request, of or matrix())
    return caught.value


# ---------------------------------------------------------------- order


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (linux("5.7"), ["amd 5.7.1", "amd 5.7.0", "debian-trixie 5.7"]),
        (linux("<6"), ["amd 5.7.1", "amd 5.7.0", "debian-trixie 5.7"]),
        (linux("5.7", channel="debian-trixie"), ["debian-trixie 5.7"]),
        (
            linux("6.4", "gfx942"),
            ["amd 6.4.3", "amd 6.4.2", "amd 6.4.1", "amd 6.4.0", "amd 6.4.4", "debian-forky 6.4"],
        ),
        (
            linux(">=6.1,<6.3", "gfx1030"),
            [f"amd {each}" for each in "6.2.4 6.2.2 6.2.1 6.2.0 6.1.5 6.1.2 6.1.1 6.1.0 6.2.3 6.1.3".split()],
        ),
    ],
    ids=lambda value: options(value) if isinstance(value, Request) else "",
)
def test_all_matching_sets_are_listed_best_first(request_: Request, expected: list[str]) -> None:
    assert names(request_) == expected


def test_officially_supported_sets_come_first() -> None:
    def supported(row: RocmSet) -> RocmSet:
        return structs.replace(row, official=("gfx1100",) if row.channel == "debian-trixie" else ())

    changed = replace(matrix(), rocm=tuple(map(supported, matrix().rocm)))
    assert names(linux("5.7"), changed) == ["debian-trixie 5.7", "amd 5.7.1", "amd 5.7.0"]


def test_releases_untested_with_the_driver_come_last() -> None:
    """Sets tested with the installed kernel driver come first, regardless of their channel and age."""
    machine = Machine(driver="5.7")
    first = next(resolve(linux(target="gfx90a"), matrix(), machine))
    assert first.rocm.version == "6.1.5"
    assert next(resolve(linux(target="gfx90a"), matrix())).rocm.version == "7.2.4"


def test_an_opt_in_channel_is_not_used_by_default() -> None:
    """Debian unstable can break on any given day."""
    assert matrix().channels["debian-sid"].only_named
    assert not any(name.startswith("debian-sid") for name in names(linux("6.4")))
    assert names(linux("6.4", channel="debian-sid")) == ["debian-sid 6.4"]


def test_an_opt_in_channel_is_not_mentioned_unless_requested() -> None:
    """The errors omit such a channel even if only that channel has a match."""
    asked_for = [linux("9.9"), linux("6.4", channel="debian-trixie"), linux("5.7", torch="2.7")]
    of_sid = tuple(row for row in matrix().rocm if row.channel == "debian-sid")
    unstable_only = replace(matrix(), rocm=of_sid)
    assert of_sid
    errors = [impossible(each) for each in asked_for] + [impossible(linux("6.4"), unstable_only)]
    for error in errors:
        told = f"{error.message} {error.hints} {error.rejections} {error.suggestions}"
        assert "debian-sid" not in told
    named = impossible(linux("5.7", channel="debian-sid"))
    assert any("debian-sid" in each.text for each in named.rejections)
    assert any("--channel debian-sid" in each.command for each in named.suggestions)


def test_an_opt_in_channel_is_marked_in_explanations() -> None:
    lines = explain("gfx1100", matrix()).lines
    packages = {line.label: line.text for line in lines if line.label.startswith("debian-")}
    assert packages["debian-forky 6.4"] == "has kernels"
    assert packages["debian-sid 6.4"] == "has kernels (only with `--channel debian-sid`)"
    assert packages["debian-experimental 7.2"].endswith("(only with `--channel debian-experimental`)")


def test_torch_is_included_only_on_request() -> None:
    assert all(found.part("torch") is None for found in resolve(linux(), matrix()))


# ---------------------------------------------------------------- wording


def test_each_component_has_a_reason() -> None:
    best = next(resolve(windows("5.7", "gfx1031", zluda="*", torch="*"), matrix()))
    assert all(part.why for part in best.parts)
    assert [kind for kind, _ in best.versions] == ["rocm", "zluda", "libraries", "torch"]


def test_the_message_for_an_impossible_request_repeats_the_request() -> None:
    assert no_set(linux("5.7")) == "rocenv has no set with ROCm 5.7 for gfx1100"
    found = no_set(linux(torch="*", python="3.11"))
    assert found == "No ROCm and PyTorch combination works on gfx1100 (Python 3.11)"
    assert no_set(windows("6.1", zluda="3.8.3", torch="*", driver="25.4.1")) == (
        "rocenv has no set with HIP SDK 6.1, ZLUDA 3.8.3 and PyTorch for gfx1100 (Windows, driver 25.4.1)"
    )


@pytest.mark.parametrize(
    "request_",
    [
        linux(">=6.1,<6.3", torch="*", python="3.11", channel="amd"),
        linux("5.7", torch="==2.5.1+rocm6.2", driver="22.20.50200"),
        windows("6.1", zluda="3.8.4.post1", torch="2.7.1"),
        windows(zluda="*", torch="*", driver="25.4.1"),
        windows("5.7", zluda="*"),
        windows(torch="*", channel="therock"),
    ],
    ids=options,
)
def test_printed_options_are_parsed_to_the_same_request(request_: Request) -> None:
    """The printed command can be pasted into a shell, and the program accepts it."""
    assert asked(f"rocenv resolve {options(request_)}") == request_


def test_a_request_in_an_empty_matrix_is_impossible_without_suggestions() -> None:
    """The error has no lines or suggestions, and rocenv does not crash."""
    for request in (linux(torch="*"), windows(torch="*"), windows(zluda="*", torch="*")):
        error = impossible(request, Matrix())
        assert error.message.startswith("No ")
        assert error.suggestions == ()


def test_suggestions_drop_as_little_as_possible() -> None:
    """If two requirements conflict, suggestions that drop either come before one that drops both."""
    error = impossible(linux("5.7", torch="2.7"))
    commands = [suggestion.command for suggestion in error.suggestions]
    assert commands[0] == "rocenv resolve --rocm 5.7 --torch 2.3 --target gfx1100"
    assert commands[1].endswith("--torch 2.7 --target gfx1100")
    assert len(commands) == 2


def test_an_unnecessary_override_is_not_offered() -> None:
    """If every component supports the target natively, an override is not even a second choice."""
    row = next(each for each in matrix().rocm if each.version == "6.2.4")
    torch = next(each for each in matrix().torch if (each.version, each.rocm) == ("2.7", "6.2.4"))
    only = replace(matrix(), rocm=(row,), torch=(torch,))
    found: list[Candidate] = list(resolve(linux(target="gfx1101", torch="*"), only))
    assert [each.override for each in found] == [None]


HASHES = """
import sys
from rocenv.core.errors import ResolutionImpossible
from rocenv.resolve import resolve
from tests.resolve.test_cases import CASES, matrix, read

for path in CASES:
    case = read(path)
    try:
        found = resolve(case.request, matrix(), case.machine)
        print([(each.parts, each.warnings, each.notes) for each in found])
    except ResolutionImpossible as error:
        print(error.rejections, error.suggestions)
"""


def test_results_are_deterministic() -> None:
    """Python's string hashes differ between processes, and the order of sets must not depend on them."""
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", HASHES],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "2")
    ]
    first, second = (run.communicate(timeout=120)[0] for run in runs)
    assert [run.returncode for run in runs] == [0, 0]
    assert first == second
    assert first
