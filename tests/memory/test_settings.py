"""Settings for a card: chosen by what is known of it, and never two that must not meet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocenv.core.errors import DataError
from rocenv.data.load import load
from rocenv.memory.settings import Advice, Card, advise
from tests.data.data import example, loaded
from tests.host.roots import GIB

if TYPE_CHECKING:
    from pathlib import Path

MATRIX = load()
PROGRAMS = sorted({knob.program for knob in MATRIX.knob})
NAMES = ("PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
SPLIT, GROW = "max_split_size_mb", "expandable_segments"


def advice(
    program: str, gib: float | None = 16, environ: dict[str, str] | None = None, **card: Any
) -> Advice:
    size = None if gib is None else int(gib * GIB)
    known = {"platform": "linux", "total_bytes": size, "integrated": False, "target": "gfx1100", **card}
    return advise(program, Card(**known), MATRIX.knob, MATRIX.never_together, environ or {})


def states(found: Advice) -> dict[str, str]:
    return {each.knob.key: each.state for each in found.settings}


def test_all_programs_of_the_help_are_there() -> None:
    asked = {"cycles", "redshift", "octane", "pytorch", "sdnext", "comfyui", "llama.cpp"}
    assert asked <= set(PROGRAMS)


@pytest.mark.parametrize(
    ("gib", "arguments", "chosen"),
    [
        (3.98, (), "small"),
        (8, ("--medvram",), "medvram"),
        (11.98, ("--medvram",), "medvram"),
        (16, (), "balanced"),
        (23.98, (), "balanced"),
    ],
)
def test_the_size_of_the_card_chooses(gib: float, arguments: tuple[str, ...], chosen: str) -> None:
    found = advice("sdnext", gib)
    assert found.arguments == arguments
    assert states(found)[chosen] == "taken"


def test_what_sdnext_does_by_itself_is_not_made_worse() -> None:
    """`--lowvram` by hand means sequential offload, and by itself it takes balanced."""
    assert states(advice("sdnext", 3.98))["lowvram"] == "instead"
    assert "lowvram" not in states(advice("sdnext", 8))


def test_of_opposite_settings_one_is_taken() -> None:
    assert {key: states(advice("llama.cpp"))[key] for key in ("fit", "layers")} == {
        "fit": "taken",
        "layers": "instead",
    }


def test_a_cache_of_lower_precision_needs_nothing_else() -> None:
    """That of the values needs flash attention, which llama.cpp refuses to start without."""
    assert advice("llama.cpp", 8).arguments == ("--cache-type-k", "q8_0")


def test_without_a_card_nothing_is_chosen_that_depends_on_it() -> None:
    found = advice("sdnext", None, integrated=None, target="")
    assert found.arguments == ()
    conditions = {each.knob.key: each.condition for each in found.settings if each.state == "if"}
    assert conditions == {
        "small": "up to 4 GiB",
        "lowvram": "up to 4 GiB",
        "medvram": "from 5 GiB on and up to 12 GiB",
        "balanced": "from 12 GiB on",
    }


def test_an_apu_is_told_other_things() -> None:
    assert "layers-apu" in states(advice("llama.cpp", integrated=True))
    assert "layers-apu" not in states(advice("llama.cpp"))
    assert "fit" not in states(advice("llama.cpp", integrated=True))


def test_the_reserve_of_the_platform_is_told() -> None:
    assert "reserve" in states(advice("comfyui"))
    assert set(states(advice("comfyui", platform="windows"))) & {"reserve", "reserve-windows"} == {
        "reserve-windows"
    }


def test_all_names_of_the_allocator_are_set_alike() -> None:
    found = advice("pytorch")
    assert set(found.variables) == set(NAMES)
    assert len(set(found.variables.values())) == 1


def test_growing_segments_need_a_torch_that_has_them() -> None:
    assert states(advice("pytorch", torch="2.12.0+rocm7.2"))["expandable-segments"] == "instead"
    assert states(advice("pytorch"))["expandable-segments"] == "if"
    assert "expandable-segments" not in states(advice("pytorch", torch="2.9.1"))
    assert "expandable-segments" not in states(advice("pytorch", platform="windows", torch="2.12.0"))


@pytest.mark.parametrize("name", NAMES)
def test_what_the_environment_has_is_not_joined_by_the_other(name: str) -> None:
    found = advice("pytorch", environ={name: "expandable_segments:True"})
    assert found.variables == {}
    assert states(found)["split-size"] == "kept-out"
    (said,) = found.conflicts
    assert name in said
    assert "not added" in said


def test_an_environment_that_has_both_is_told_so() -> None:
    found = advice("comfyui", environ={NAMES[0]: f"{SPLIT}:128", NAMES[1]: f"{GROW}:True"})
    assert found.variables == {}
    assert found.unset == (NAMES[0], NAMES[1])
    assert any("your environment has" in said for said in found.conflicts)


def test_the_same_setting_in_the_environment_is_no_conflict() -> None:
    value = advice("pytorch").variables[NAMES[0]]
    found = advice("pytorch", environ={NAMES[1]: value})
    assert found.conflicts == ()
    assert set(found.variables) == set(NAMES)


@pytest.mark.parametrize("value", [f"{SPLIT}:128", f"{GROW}:False", "backend:native", ""])
def test_what_the_user_has_set_stays(value: str) -> None:
    found = advice("pytorch", environ={NAMES[1]: value})
    assert found.variables == {}
    assert states(found)["split-size"] == "kept-out"
    (said,) = found.conflicts
    assert f"{NAMES[1]}={value}, so that is left as you have set it" in said


def test_a_word_that_is_switched_off_is_not_held() -> None:
    for off in (f"{GROW}:False", f"{GROW}: False", f" {GROW} : False"):
        found = advice("comfyui", environ={NAMES[0]: f"{SPLIT}:128", NAMES[1]: off})
        assert found.unset == ()
        assert not any("with both" in said for said in found.conflicts)


@given(
    program=st.sampled_from(PROGRAMS),
    size=st.none() | st.integers(0, 1 << 42),
    platform=st.sampled_from(["linux", "windows"]),
    integrated=st.sampled_from([None, True, False]),
    target=st.sampled_from(["", "gfx1030", "gfx1151", "gfx1201"]),
    torch=st.sampled_from(["", "2.4.1", "2.9.1+rocm6.4", "2.12.0", "2.14.0", "no version"]),
    environ=st.dictionaries(
        st.sampled_from(NAMES),
        st.sampled_from(["", f"{SPLIT}:64", f"{GROW}:True", f"{SPLIT}:64,{GROW}:True", "backend:native"]),
    ),
)
def test_the_two_never_meet(
    program: str,
    size: int | None,
    platform: str,
    integrated: bool | None,
    target: str,
    torch: str,
    environ: dict[str, str],
) -> None:
    card = Card(platform=platform, total_bytes=size, integrated=integrated, target=target, torch=torch)
    found = advise(program, card, MATRIX.knob, MATRIX.never_together, environ)
    after = "".join({**environ, **found.variables}.get(name, "") for name in NAMES)
    own = "".join(environ.get(name, "") for name in NAMES)
    assert not (SPLIT in after and GROW in after) or (SPLIT in own and GROW in own)
    assert not any(SPLIT in value and GROW in value for value in found.variables.values())
    chosen = [each.knob.choice for each in found.settings if each.state in ("taken", "kept-out")]
    assert len([name for name in chosen if name]) == len({name for name in chosen if name})


class TestData:
    """Rows that would bring the two together do not load."""

    RULE = ("never_together", example("never_together", variables=["A", "B"], words=["split", "grow"]))

    def knob(self, key: str, value: str, **more: Any) -> tuple[str, dict[str, Any]]:
        values = {"where": "variable", "variables": ["A"], "value": value, **more}
        return "knob", example("knob", key=key, **values)

    def test_in_one_value(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="never meet"):
            loaded(tmp_path, self.RULE, self.knob("one", "split:1,grow:1"))

    def test_in_a_value_that_activation_sets(self, tmp_path: Path) -> None:
        change = {"action": "set", "name": "B", "value": "grow,split"}
        with pytest.raises(DataError, match="never meet"):
            loaded(tmp_path, self.RULE, ("environment", example("environment", change=change)))

    def test_in_a_value_that_the_start_of_an_app_sets(self, tmp_path: Path) -> None:
        change = {"action": "set", "name": "B", "value": "grow,split"}
        with pytest.raises(DataError, match="never meet"):
            loaded(tmp_path, self.RULE, ("launcher", example("launcher", environment=[change])))

    def test_in_two_rows_that_would_both_be_taken(self, tmp_path: Path) -> None:
        rows = self.knob("one", "split:1"), self.knob("two", "grow:1", variables=["B"])
        with pytest.raises(DataError, match="only one is taken"):
            loaded(tmp_path, self.RULE, *rows)

    def test_alternatives_may_be_there(self, tmp_path: Path) -> None:
        rows = self.knob("one", "split:1", choice="c"), self.knob("two", "grow:1", choice="c")
        assert len(loaded(tmp_path, self.RULE, *rows).knob) == 2

    @pytest.mark.parametrize(
        ("values", "said"),
        [
            ({"torch": "newer"}, "not a valid version range"),
            ({"value": ""}, "go together"),
            ({"where": "setting"}, "go together"),
            ({"from_gib": 8, "to_gib": 4}, "below"),
        ],
    )
    def test_a_row_that_cannot_be(self, values: dict[str, Any], said: str, tmp_path: Path) -> None:
        row = {"where": "variable", "variables": ["A"], "value": "x", **values}
        with pytest.raises(DataError, match=said):
            loaded(tmp_path, ("knob", example("knob", **row)))
