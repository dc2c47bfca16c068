"""Which sets of the shipped matrix fit, in which order, and what is said where none does."""

from __future__ import annotations

import random
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.version import Version

from rocenv.commands.resolve import command as resolve_command
from rocenv.errors import ResolutionImpossible, RocenvError
from rocenv.matrix.load import load
from rocenv.model import Request
from rocenv.resolve import Candidate, describe, options, resolve, specifier, version_fits

if TYPE_CHECKING:
    from rocenv.matrix.rows import Matrix, RocmSet
    from tests.mini import Mini

MATRIX = load(Path(__file__).parents[1] / "profiles")


def sets(found: tuple[Candidate, ...]) -> list[str]:
    return [f"{each.rocm.channel} {each.rocm.version}" for each in found]


def request(rocm: str = "", target: str = "gfx1100", **wishes: str) -> Request:
    return Request(rocm=rocm, target=target, **wishes)


def impossible(wish: Request, matrix: Matrix = MATRIX) -> ResolutionImpossible:
    with pytest.raises(ResolutionImpossible) as caught:
        resolve(wish, matrix)
    return caught.value


# ---------------------------------------------------------------- which, and in which order


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        (request("5.7"), ["amd 5.7.1", "debian-trixie 5.7.1"]),
        (request("5.7.1"), ["amd 5.7.1", "debian-trixie 5.7.1"]),
        (request("==5.7.*"), ["amd 5.7.1", "debian-trixie 5.7.1"]),
        (request("5.7.*"), ["amd 5.7.1", "debian-trixie 5.7.1"]),
        (request(" 5.7 "), ["amd 5.7.1", "debian-trixie 5.7.1"]),
        (request("<6"), ["amd 5.7.1", "debian-trixie 5.7.1"]),
        (request("5.7", channel="debian-trixie"), ["debian-trixie 5.7.1"]),
        (request("6.4", "gfx942"), ["amd 6.4.2", "amd 6.4.1", "amd 6.4.0", "debian-forky 6.4"]),
        # Kernels in rocBLAS count for more than who built the set.
        (request("5.7", "gfx1036"), ["debian-trixie 5.7.1"]),
        (request(">=6.1,<6.3", "gfx1030"), ["amd 6.2.4", "amd 6.2.0", "amd 6.1.2", "amd 6.1.0"]),
        (request("6.4.3", channel="debian-forky"), ["debian-forky 6.4"]),
    ],
    ids=lambda value: describe(value) if isinstance(value, Request) else "",
)
def test_what_fits_best_first(wish: Request, expected: list[str]) -> None:
    assert sets(resolve(wish, MATRIX)) == expected


def test_a_new_target_has_kernels_from_amd_and_can_only_be_compiled_for_elsewhere() -> None:
    found = resolve(request("6.4", "gfx1201"), MATRIX)
    assert sets(found)[-1] == "debian-forky 6.4"
    assert "gfx1201" in found[0].rocm.blas
    assert "only its compiler" in found[-1].why
    assert any("no kernels for gfx1201" in note for note in found[-1].notes)


def test_without_a_version_the_best_is_a_supported_one_with_kernels() -> None:
    best = resolve(request(), MATRIX)[0].rocm
    assert "gfx1100" in best.blas
    assert "gfx1100" in best.official
    others = [row.version for row in MATRIX.rocm if "gfx1100" in row.official and row.channel == "amd"]
    assert Version(best.version) == max(map(Version, others))


def test_a_set_that_its_maker_supports_for_the_target_comes_first() -> None:
    def supported(row: RocmSet) -> RocmSet:
        return replace(row, official=("gfx1100",) if row.channel == "debian-trixie" else ())

    matrix = replace(MATRIX, rocm=tuple(map(supported, MATRIX.rocm)))
    assert sets(resolve(request("5.7"), matrix)) == ["debian-trixie 5.7.1", "amd 5.7.1"]


def test_a_target_without_support_is_said() -> None:
    notes = resolve(request("5.7"), MATRIX)[0].notes
    assert any("not among the targets that its maker supports" in note for note in notes)
    assert not any("maker supports" in note for note in resolve(request("5.7", "gfx906"), MATRIX)[0].notes)


# ---------------------------------------------------------------- what a SPEC may be


@pytest.mark.parametrize(
    ("text", "version", "fits"),
    [
        ("5.7", "5.7", True),
        ("5.7", "5.7.1", True),
        ("5.7", "5.70", False),
        ("5", "5.7.1", True),
        ("5.7.1", "5.7", False),
        ("6.4.*", "6.4.3", True),
        (">=6.1,<6.3", "6.2.4", True),
        (">=6.1,<6.3", "6.3.0", False),
        ("!=6.2.0", "6.2.0", False),
        ("~=6.1", "6.4", True),
        ("~=6.1.0", "6.2", False),
        (">=7", "7.0.0rc1", False),
        ("<7.0", "7.0.0rc1", False),
        ("*", "0.1", True),
        ("", "0.1", True),
    ],
)
def test_a_spec(text: str, version: str, fits: bool) -> None:
    assert version_fits(specifier(text, "--rocm"), version, floating=False) is fits


@pytest.mark.parametrize(
    ("text", "fits"), [("6.4", True), ("6.4.3", True), (">=6.4.2", True), ("6.3", False), (">6.4,<6.5", True)]
)
def test_a_series_fits_if_a_release_of_it_could(text: str, fits: bool) -> None:
    assert version_fits(specifier(text, "--rocm"), "6.4", floating=True) is fits


@pytest.mark.parametrize("text", ["latest", "v5.7", "=5.7", ">=", "5.7 6.1", "5.7,<6", "\u0665"])
def test_what_is_no_spec(text: str) -> None:
    with pytest.raises(RocenvError) as caught:
        specifier(text, "--rocm")
    assert caught.value.exit_code == 2
    assert text.strip() in caught.value.message
    assert "--rocm 5.7" in caught.value.hints[0]


@pytest.mark.parametrize("option", ["--rocm", "--torch", "--python"])
def test_a_bad_spec_on_the_command_line_is_a_usage_error(mini: Mini, option: str) -> None:
    wishes = {"--rocm": ["--rocm", "latest"], "--torch": ["--torch", "latest"]}
    done = mini.run("resolve", *wishes.get(option, ["--torch", "--python", "latest"]))
    assert done.returncode == 2
    assert f"is no version for {option}" in done.stderr
    assert "Traceback" not in done.stderr


# ---------------------------------------------------------------- torch


@pytest.mark.parametrize(
    ("wish", "rocm", "torch"),
    [
        (request("6.2", torch="*"), "6.2.4", "2.7"),
        (request("6.2", torch="2.5"), "6.2.4", "2.5"),
        (request("6.2", torch="2.5.1"), "6.2.4", "2.5"),
        (request("6.2", torch="==2.5.1+rocm6.2"), "6.2.4", "2.5"),
        (request(torch="2.5", python="3.11"), "6.2.4", "2.5"),
        (request("5.7", torch="*", python="3.12"), "5.7.1", "2.3"),
        (request("5.7", torch="<2.3"), "5.7.1", "2.2"),
    ],
    ids=lambda value: describe(value) if isinstance(value, Request) else "",
)
def test_torch_is_the_newest_that_was_built_for_the_set(wish: Request, rocm: str, torch: str) -> None:
    best = resolve(wish, MATRIX)[0]
    assert best.torch is not None
    assert (best.rocm.version, best.torch.version) == (rocm, torch)


def test_no_torch_unless_asked() -> None:
    assert all(found.torch is None for found in resolve(request(), MATRIX))


def test_a_torch_that_no_set_goes_with() -> None:
    error = impossible(request("5.7", torch="2.7"))
    reasons = [reason.found for reason in error.rejections if reason.requirement.startswith("torch")]
    assert reasons
    assert all("2.3 (Python 3.8 to 3.12)" in reason for reason in reasons)
    assert error.suggestions[0].components[0] != ("rocm", "5.7.1")


def test_a_torch_without_kernels_for_the_target() -> None:
    error = impossible(request("5.7", "gfx803", torch="*"))
    reason = error.rejections[0]
    assert reason.requirement == "torch for gfx803"
    assert reason.found.startswith("without: torch for ROCm 5.7 is made for gfx900")


def test_a_python_that_no_torch_was_built_for() -> None:
    error = impossible(request("5.7", torch="*", python="3.14"))
    assert any("and Python 3.14" in reason.requirement for reason in error.rejections)
    commands = [suggestion.command for suggestion in error.suggestions]
    assert "rocenv resolve --rocm 5.7 --torch --target gfx1100" in commands


# ---------------------------------------------------------------- where nothing fits


def test_a_target_that_no_set_of_the_version_compiles_for() -> None:
    error = impossible(request("5.7", "gfx1201"))
    assert error.message == "no set fits ROCm 5.7 for gfx1201"
    assert len(error.rejections) == len(MATRIX.rocm), "each candidate is told why"
    (suggestion,) = error.suggestions
    assert suggestion.command == f"rocenv resolve --rocm {suggestion.components[0][1]} --target gfx1201"
    first = error.rejections[0]
    assert first.requirement == "target gfx1201", "the nearest misses come first"
    assert first.source


@pytest.mark.parametrize(
    "wish",
    [
        request("5.7", "gfx1201"),
        request("4.0"),
        request("5.7", channel="debian-forky"),
        request("5.7", torch="2.9"),
        request("6.4", torch="*", python="3.8"),
        request(channel="nobody"),
        request("7.*", "gfx803"),
        request(">=6.1,<6.3", "gfx1201", torch="2.4"),
    ],
    ids=describe,
)
def test_what_is_suggested_does_resolve(wish: Request) -> None:
    error = impossible(wish)
    assert error.suggestions
    assert error.hints == tuple(suggestion.command for suggestion in error.suggestions)
    for suggestion in error.suggestions:
        words = shlex.split(suggestion.command)
        assert words[:2] == ["rocenv", "resolve"]
        parsed = resolve_command.make_context("resolve", words[2:]).params
        again = Request(
            **{name: parsed[name] or "" for name in ("rocm", "torch", "python", "target", "channel")}
        )
        best = resolve(again, MATRIX)[0]
        assert ("rocm", best.rocm.version) in suggestion.components
        assert parsed["target"] == wish.target, "the GPU is not a wish"


def test_a_target_that_nothing_knows_has_no_suggestion() -> None:
    error = impossible(request("5.7", "gfx9999"))
    assert error.suggestions == ()
    assert "gfx9999" in error.message


def test_windows_has_no_set_of_these() -> None:
    error = impossible(replace(request("5.7"), platform="windows"))
    assert {"platform windows"} <= {reason.requirement for reason in error.rejections}


def test_options_can_be_pasted() -> None:
    wish = request(">=6.1,<6.3", torch="*", python="3.11", channel="amd")
    text = "--rocm '>=6.1,<6.3' --torch --python 3.11 --target gfx1100 --channel amd"
    assert options(wish) == text


# ---------------------------------------------------------------- order


wishes = st.builds(
    request,
    st.sampled_from(["", "5.7", "6.4", ">=6", "4"]),
    st.sampled_from(["gfx1100", "gfx1030", "gfx1201", "gfx942", "gfx803", "gfx9999"]),
    torch=st.sampled_from(["", "*", "2.5"]),
    channel=st.sampled_from(["", "amd", "debian-forky"]),
)


@settings(max_examples=60, deadline=None)
@given(wish=wishes, seed=st.integers(0, 1 << 16))
def test_the_order_of_the_rows_changes_nothing(wish: Request, seed: int) -> None:
    def outcome(matrix: Matrix) -> object:
        try:
            return resolve(wish, matrix)
        except ResolutionImpossible as error:
            return error.message, error.rejections, error.suggestions

    rocm, torch = list(MATRIX.rocm), list(MATRIX.torch)
    mixer = random.Random(seed)
    mixer.shuffle(rocm)
    mixer.shuffle(torch)
    shuffled = replace(MATRIX, rocm=tuple(rocm), torch=tuple(torch))
    assert outcome(shuffled) == outcome(MATRIX)
