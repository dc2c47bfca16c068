"""Memory settings for programs, which match the GPU and never combine conflicting options."""

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
PROGRAMS = sorted({row.program for row in MATRIX.setting})
NAMES = ("PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
SPLIT, GROW = "max_split_size_mb", "expandable_segments"


def advice(
    program: str, gib: float | None = 16, environ: dict[str, str] | None = None, **card: Any
) -> Advice:
    size = None if gib is None else int(gib * GIB)
    known = {"platform": "linux", "total_bytes": size, "integrated": False, "target": "gfx1100", **card}
    return advise(program, Card(**known), MATRIX.setting, MATRIX.never_together, environ or {})


def states(found: Advice) -> dict[str, str]:
    return {each.row.key: each.state for each in found.settings}


def test_programs_with_settings_are_listed() -> None:
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
def test_settings_depend_on_the_memory_size(gib: float, arguments: tuple[str, ...], chosen: str) -> None:
    found = advice("sdnext", gib)
    assert found.arguments == arguments
    assert states(found)[chosen] == "taken"


def test_sdnext_keeps_its_default_of_balanced_offload() -> None:
    """`--lowvram` would select sequential offload instead."""
    assert states(advice("sdnext", 3.98))["lowvram"] == "instead"
    assert "lowvram" not in states(advice("sdnext", 8))


def test_only_one_of_several_alternative_settings_is_used() -> None:
    assert {key: states(advice("llama.cpp"))[key] for key in ("fit", "layers")} == {
        "fit": "taken",
        "layers": "instead",
    }


def test_the_setting_for_a_smaller_llama_cpp_cache_quantizes_only_keys() -> None:
    """Quantized values would require flash attention, without which llama.cpp would not start."""
    assert advice("llama.cpp", 8).arguments == ("--cache-type-k", "q8_0")


def test_settings_are_shown_with_their_conditions_for_an_unknown_gpu() -> None:
    found = advice("sdnext", None, integrated=None, target="")
    assert found.arguments == ()
    conditions = {each.row.key: each.condition for each in found.settings if each.state == "if"}
    assert conditions == {
        "small": "with at most 4 GiB",
        "lowvram": "with at most 4 GiB",
        "medvram": "with 5 GiB or more and with at most 12 GiB",
        "balanced": "with 12 GiB or more",
    }


def test_settings_depend_on_whether_the_gpu_is_an_apu() -> None:
    assert "layers-apu" in states(advice("llama.cpp", integrated=True))
    assert "layers-apu" not in states(advice("llama.cpp"))
    assert "fit" not in states(advice("llama.cpp", integrated=True))


def test_settings_depend_on_the_platform() -> None:
    assert "reserve" in states(advice("comfyui"))
    assert set(states(advice("comfyui", platform="windows"))) & {"reserve", "reserve-windows"} == {
        "reserve-windows"
    }


def test_all_names_of_a_variable_get_the_same_value() -> None:
    found = advice("pytorch")
    assert set(found.variables) == set(NAMES)
    assert len(set(found.variables.values())) == 1


def test_expandable_segments_require_a_newer_torch() -> None:
    assert states(advice("pytorch", torch="2.12.0+rocm7.2"))["expandable-segments"] == "instead"
    assert states(advice("pytorch"))["expandable-segments"] == "if"
    assert "expandable-segments" not in states(advice("pytorch", torch="2.9.1"))
    assert "expandable-segments" not in states(advice("pytorch", platform="windows", torch="2.12.0"))


@pytest.mark.parametrize("name", NAMES)
def test_a_setting_that_conflicts_with_the_environment_is_omitted(name: str) -> None:
    found = advice("pytorch", environ={name: "expandable_segments:True"})
    assert found.variables == {}
    assert states(found)["split-size"] == "kept-out"
    (conflict,) = found.conflicts
    assert name in conflict
    assert "omitted" in conflict


def test_a_conflict_within_the_environment_is_reported() -> None:
    found = advice("comfyui", environ={NAMES[0]: f"{SPLIT}:128", NAMES[1]: f"{GROW}:True"})
    assert found.variables == {}
    assert found.unset == (NAMES[0], NAMES[1])
    assert any("your environment has" in conflict for conflict in found.conflicts)


def test_an_equal_value_in_the_environment_is_not_a_conflict() -> None:
    value = advice("pytorch").variables[NAMES[0]]
    found = advice("pytorch", environ={NAMES[1]: value})
    assert found.conflicts == ()
    assert set(found.variables) == set(NAMES)


@pytest.mark.parametrize("value", [f"{SPLIT}:128", f"{GROW}:False", "backend:native", ""])
def test_the_users_setting_takes_precedence(value: str) -> None:
    found = advice("pytorch", environ={NAMES[1]: value})
    assert found.variables == {}
    assert states(found)["split-size"] == "kept-out"
    (conflict,) = found.conflicts
    assert f"is omitted because your environment already sets {NAMES[1]}={value}" in conflict


def test_an_option_disabled_in_the_environment_is_not_a_conflict() -> None:
    for off in (f"{GROW}:False", f"{GROW}: False", f" {GROW} : False"):
        found = advice("comfyui", environ={NAMES[0]: f"{SPLIT}:128", NAMES[1]: off})
        assert found.unset == ()
        assert not any("with both" in conflict for conflict in found.conflicts)


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
def test_conflicting_options_never_occur_together(
    program: str,
    size: int | None,
    platform: str,
    integrated: bool | None,
    target: str,
    torch: str,
    environ: dict[str, str],
) -> None:
    card = Card(platform=platform, total_bytes=size, integrated=integrated, target=target, torch=torch)
    found = advise(program, card, MATRIX.setting, MATRIX.never_together, environ)
    after = "".join({**environ, **found.variables}.get(name, "") for name in NAMES)
    own = "".join(environ.get(name, "") for name in NAMES)
    assert not (SPLIT in after and GROW in after) or (SPLIT in own and GROW in own)
    assert not any(SPLIT in value and GROW in value for value in found.variables.values())
    chosen = [each.row.choice for each in found.settings if each.state in ("taken", "kept-out")]
    assert len([name for name in chosen if name]) == len({name for name in chosen if name})


class TestData:
    """Rejected rows, which would combine conflicting options."""

    RULE = ("never_together", example("never_together", variables=["A", "B"], words=["split", "grow"]))

    def setting(self, key: str, value: str, **more: Any) -> tuple[str, dict[str, Any]]:
        values = {"where": "variable", "variables": ["A"], "value": value, **more}
        return "setting", example("setting", key=key, **values)

    def test_a_conflict_within_one_value_is_rejected(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="conflict in"):
            loaded(tmp_path, self.RULE, self.setting("one", "split:1,grow:1"))

    def test_a_conflict_with_a_value_that_activation_sets_is_rejected(self, tmp_path: Path) -> None:
        change = {"action": "set", "name": "B", "value": "grow,split"}
        with pytest.raises(DataError, match="conflict in"):
            loaded(tmp_path, self.RULE, ("environment", example("environment", change=change)))

    def test_a_conflict_with_a_value_that_launch_sets_is_rejected(self, tmp_path: Path) -> None:
        change = {"action": "set", "name": "B", "value": "grow,split"}
        with pytest.raises(DataError, match="conflict in"):
            loaded(tmp_path, self.RULE, ("launcher", example("launcher", environment=[change])))

    def test_a_conflict_between_rows_that_are_not_alternatives_is_rejected(self, tmp_path: Path) -> None:
        rows = self.setting("one", "split:1"), self.setting("two", "grow:1", variables=["B"])
        with pytest.raises(DataError, match="only one of them can apply"):
            loaded(tmp_path, self.RULE, *rows)

    def test_conflicting_rows_that_are_alternatives_are_accepted(self, tmp_path: Path) -> None:
        rows = self.setting("one", "split:1", choice="c"), self.setting("two", "grow:1", choice="c")
        assert len(loaded(tmp_path, self.RULE, *rows).setting) == 2

    @pytest.mark.parametrize(
        ("values", "expected"),
        [
            ({"torch": "newer"}, "not a valid version range"),
            ({"value": ""}, "require each other"),
            ({"where": "setting"}, "require each other"),
            ({"from_gib": 8, "to_gib": 4}, "below"),
        ],
    )
    def test_invalid_rows_are_rejected(self, values: dict[str, Any], expected: str, tmp_path: Path) -> None:
        row = {"where": "variable", "variables": ["A"], "value": "x", **values}
        with pytest.raises(DataError, match=expected):
            loaded(tmp_path, ("setting", example("setting", **row)))
