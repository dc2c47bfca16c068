"""Known problems with existing sets, and commands that create better ones."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rocenv.core.errors import ResolutionImpossible
from rocenv.core.model import Lock, Machine, Request
from rocenv.data.load import load
from rocenv.resolve import resolve
from rocenv.resolve.suggest import suggest_env
from rocenv.resolve.verdicts import known_broken
from tests.launch.lab import component, zluda_parts

MATRIX = load()
INCIDENT = zluda_parts()


def lock_of(parts, target: str = "gfx1031") -> Lock:  # type: ignore[no-untyped-def]
    """Return a lock for Windows."""
    return Lock(request=Request(), platform="windows", target=target, components=parts, environment=())


class TestKnownBroken:
    def test_incident_3414_is_the_first_known_problem_of_its_set(self) -> None:
        found = known_broken(lock_of(INCIDENT), MATRIX)
        assert found[0].code == "sdnext-3414"

    @pytest.mark.parametrize(
        ("parts", "target"),
        [
            (zluda_parts(build="3.8.4"), "gfx1031"),
            (zluda_parts(asset="rocm5"), "gfx1031"),
            (zluda_parts(sdk="6.2.4"), "gfx1031"),
            (INCIDENT, "gfx1030"),
            ((replace(INCIDENT[0]), INCIDENT[2]), "gfx1031"),
        ],
        ids=["build", "archive", "sdk", "target", "no-zluda"],
    )
    def test_a_verdict_applies_only_if_all_its_conditions_match(self, parts, target: str) -> None:  # type: ignore[no-untyped-def]
        assert "sdnext-3414" not in {row.code for row in known_broken(lock_of(parts, target), MATRIX)}

    def test_builds_of_different_projects_with_the_same_version_are_distinguished(self) -> None:
        parts = (INCIDENT[0], replace(INCIDENT[1], channel="vosen"), INCIDENT[2])
        assert "sdnext-3414" not in {row.code for row in known_broken(lock_of(parts), MATRIX)}

    def test_verdicts_about_drivers_apply_only_if_the_driver_is_known(self) -> None:
        parts = (*zluda_parts("6.2.4", "3.9.4"), component("libraries", "6.2.4", "x"))
        lock = lock_of(parts, "gfx1100")
        assert not any(row.driver for row in known_broken(lock, MATRIX))
        assert not any(row.driver for row in known_broken(lock, MATRIX, "25.4.1"))
        assert any("25.5.1" in row.driver for row in known_broken(lock, MATRIX, "25.5.1"))

    @pytest.mark.parametrize(
        ("rocm", "torch", "target", "known"),
        [
            ("7.14.1", "2.12.0+rocm7.14.1", "gfx1201", True),
            ("7.14.0", "2.12.0+rocm7.14.0", "gfx1201", False),
            ("7.14.1", "2.12.0+rocm7.14.1", "gfx1100", False),
            ("7.14.0", "2.13.0+rocm7.14.0", "gfx1201", False),
            ("10.0.0", "2.13.0+rocm10.0.0", "gfx1201", False),
        ],
    )
    def test_a_problem_with_one_zluda_build_does_not_affect_others(
        self, rocm: str, torch: str, target: str, known: bool
    ) -> None:
        parts = (component("rocm", rocm, "therock"), component("torch", torch, "therock"))
        found = known_broken(lock_of(parts, target), MATRIX)
        assert [row.code for row in found] == (["therock-7861"] if known else [])

    def test_a_verdict_can_require_a_missing_library_pack(self) -> None:
        bare = zluda_parts("5.7.1", "3.9.5", "rocm5")
        assert any(row.pack == "none" for row in known_broken(lock_of(bare), MATRIX))
        packed = (*bare, component("libraries", "5.7", "x"))
        assert known_broken(lock_of(packed), MATRIX) == ()

    @pytest.mark.slow
    def test_search_results_are_never_known_broken(self) -> None:
        """The test checks the best sets for each target."""
        for target in MATRIX.targets:
            for driver in ("", "25.4.1", "25.9.1"):
                request = Request(platform="windows", target=target, zluda="*", torch="*", driver=driver)
                try:
                    best = next(resolve(request, MATRIX))
                except ResolutionImpossible:  # there is no set for this target
                    continue
                zluda, torch = best.part("zluda"), best.part("torch")
                assert zluda
                assert zluda.asset
                assert torch
                pack = (component("libraries", "x", "x"),) if best.part("libraries") else ()
                parts = (
                    component("rocm", best.rocm.version, "hip-sdk"),
                    component("zluda", zluda.version, zluda.channel, asset=zluda.asset.name),
                    component("torch", f"{torch.version}+cu118", "x"),
                    *pack,
                )
                assert known_broken(lock_of(parts, target), MATRIX, driver) == (), (target, driver)


class TestSuggestEnv:
    @pytest.mark.parametrize(
        ("parts", "target", "driver", "command"),
        [
            (INCIDENT, "gfx1031", "", "--rocm 5.7 --zluda --target gfx1031"),
            (zluda_parts("6.2.4", "3.9.2"), "gfx1100", "25.9.1", "--rocm 6.2 --zluda 3.9.5 --target gfx1100"),
            (zluda_parts("6.4.2", "3.9.6", ""), "gfx1100", "", "--rocm 6.4 --zluda 3.9.5 --target gfx1100"),
            (zluda_parts("7.1.1", "3.9.6", ""), "gfx1030", "", "--zluda"),
        ],
        ids=["incident-3414", "driver", "plain-archive", "hip-7"],
    )
    def test_the_nearest_set_is_suggested(self, parts, target: str, driver: str, command: str) -> None:  # type: ignore[no-untyped-def]
        machine = Machine(platform="windows", driver=driver)
        told = suggest_env(lock_of(parts, target), MATRIX, machine, name="sd2")
        assert told.startswith("rocenv create sd2 ")
        assert command in told

    def test_a_suggestion_for_another_platform_includes_the_platform(self) -> None:
        told = suggest_env(lock_of(INCIDENT), MATRIX, Machine(platform="linux"), name="sd2")
        assert told == "rocenv create sd2 --platform windows --rocm 5.7 --zluda --target gfx1031"

    def test_the_suggestion_omits_torch_if_the_set_has_no_torch(self) -> None:
        told = suggest_env(lock_of(INCIDENT[:2]), MATRIX, name="sd2")
        assert told == "rocenv create sd2 --rocm 5.7 --zluda --no-torch --target gfx1031"

    def test_the_suggestion_is_for_the_same_app(self) -> None:
        lock = lock_of(INCIDENT)
        own = replace(lock, request=replace(lock.request, app="comfyui-zluda"))
        assert suggest_env(own, MATRIX, name="sd2").endswith(" --app comfyui-zluda")
        assert suggest_env(lock, MATRIX, name="sd2", app="comfyui-zluda").endswith(" --app comfyui-zluda")
        assert "--app" not in suggest_env(lock, MATRIX, name="sd2")
        assert "--rocm 5.7" in suggest_env(lock, MATRIX, name="sd2", app="of-a-profile-that-is-gone")

    @pytest.mark.parametrize("number", [0, 1, 2], ids=["sdk", "build", "torch"])
    def test_a_lock_with_invalid_versions_is_accepted(self, number: int) -> None:
        parts = tuple(
            replace(each, version="odd") if at == number else each for at, each in enumerate(INCIDENT)
        )
        lock = lock_of(parts)
        assert "sdnext-3414" not in {row.code for row in known_broken(lock, MATRIX)} or number == 2
        assert suggest_env(lock, MATRIX, name="sd2").startswith("rocenv create sd2 ")

    def test_nothing_is_suggested_if_there_is_no_alternative(self) -> None:
        assert suggest_env(lock_of(INCIDENT, "gfx9999"), MATRIX, name="sd2") == ""

    @pytest.mark.parametrize("target", sorted(MATRIX.targets))
    def test_a_command_is_suggested_whenever_a_working_set_exists(self, target: str) -> None:
        request = Request(platform="windows", target=target, zluda="*", torch="*")
        try:
            next(resolve(request, MATRIX))
        except ResolutionImpossible:
            assert suggest_env(lock_of(INCIDENT, target), MATRIX, name="sd2") == ""
        else:
            assert f"--target {target}" in suggest_env(lock_of(INCIDENT, target), MATRIX, name="sd2")
