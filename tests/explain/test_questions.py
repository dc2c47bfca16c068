"""Questions that people ask, and what the answer has to say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from rocenv.core.errors import RocenvError
from rocenv.explain import explain
from rocenv.explain.product import meant

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocenv.data.rows import Matrix

    Read = Callable[[str], str]


class TestDoesMyCardWork:
    @pytest.mark.parametrize(
        ("target", "linux", "windows"),
        [
            (
                "gfx1031",
                "yes, the build for gfx1031 is release-ready, but AMD does not list it as supported: "
                "ROCm 10.0.0, 10.1.0 as wheels with torch 2.13.0, 2.14.0",
                "yes, with AMD's wheels (ROCm 10.0.0, 10.1.0; the build for gfx1031 is release-ready",
            ),
            (
                "gfx1201",
                "yes, AMD supports gfx1201, and the build is release-ready: ROCm 7.14.0",
                "yes, with AMD's wheels (ROCm 7.14.0, 10.0.0, 10.1.0; AMD supports gfx1201, but does not "
                "mark the build release-ready)",
            ),
            (
                "gfx942",
                "yes, AMD supports gfx942, and the build is release-ready",
                "no: neither a HIP SDK nor a wheel serves it",
            ),
            ("gfx950", "yes, AMD supports gfx950, but does not mark", "no: neither a HIP SDK nor a wheel"),
            (
                "gfx1103",
                "yes, AMD supports gfx1103, and the build is release-ready",
                "yes, with AMD's wheels (ROCm 10.0.0",
            ),
            (
                "gfx906",
                "yes, AMD still supports it: ROCm 5.7 to 6.3 as packages",
                "yes, under ZLUDA with a library pack and HIP SDK 5.7.1, or HIP SDK",
            ),
            (
                "gfx90c",
                "with care, as gfx900, only with ROCm before 6.4",
                "yes, under ZLUDA with a library pack",
            ),
            ("gfx803", "yes, but without torch", "yes, under ZLUDA with a library pack and HIP SDK 5.7.1"),
            ("gfx1033", "yes, the build for gfx1033 is release-ready", "yes, with AMD's wheels"),
            (
                "gfx1250",
                "yes, built for gfx1250, which AMD neither supports nor marks",
                "no: neither a HIP SDK nor a wheel serves it",
            ),
        ],
    )
    def test_verdict_stands_at_the_top(self, matrix: Matrix, target: str, linux: str, windows: str) -> None:
        on_linux, on_windows = explain(target, matrix).answer
        assert (on_linux.label, on_windows.label) == ("Linux", "Windows")
        assert on_linux.text.startswith(linux)
        assert on_windows.text.startswith(windows)
        assert on_linux.basis, "a verdict has a source"
        assert on_windows.basis, "a verdict has a source"

    def test_rx_6750_xt(self, read: Read) -> None:
        text = read("RX 6750 XT")
        assert "override 10.3.0, as gfx1030: works, with ROCm before 7" in text
        assert "no wheel of PyTorch's own has kernels for it" in text
        assert "HIP SDK 7.1, 7.2 AMD says: not supported; no set: RDNA2 has neither runtime nor" in text
        assert "HIP SDK 6.1 AMD's runtime only, no kernels; set: library pack, ZLUDA 3.8.4" in text
        assert "rocenv explain sdnext-3414" in text
        reported = text.rpartition(" reported ")[2].partition(" inferred ")[0]
        assert "ROCm/rocBLAS#1339" in reported, "the override is a report of users, and says which"

    def test_command_is_what_the_resolver_would_take(self, matrix: Matrix) -> None:
        linux, wheels, zluda = explain("gfx1031", matrix).steps
        assert linux.command == "rocenv create demo --platform linux --torch --target gfx1031"
        assert linux.gives == "ROCm 10.1.0 (AMD's wheels (TheRock)), torch 2.14.0"
        assert wheels.command == "rocenv create demo --platform windows --torch --target gfx1031"
        assert wheels.gives == linux.gives
        assert zluda.command == "rocenv resolve --platform windows --zluda --target gfx1031"
        assert zluda.gives == "HIP SDK 6.4.2, ZLUDA 3.9.5 (rocm6), a library pack, torch 2.7.1"

    def test_driver_that_a_set_cannot_live_with_is_said(self, matrix: Matrix) -> None:
        step = next(step for step in explain("rocm-6.1", matrix).steps if "--zluda" in step.command)
        assert step.gives.endswith("torch 2.3.1, display driver before 25.5.1")

    def test_steam_deck_is_warned_of_the_override(self, read: Read) -> None:
        text = read("steam deck")
        assert "override 10.3.0, as gfx1030: known to go wrong; Steam Deck: gradients are wrong" in text

    def test_vega_loses_its_kernels(self, read: Read) -> None:
        text = read("gfx906")
        assert "packages 6.4 to 7.2 AMD's runtime runs on it, the libraries have no kernels" in text
        assert "wheels not built for it" in text
        assert "compiled for it, but the rocBLAS inside has no kernels: torch 2.8 to 2.14" in text

    def test_support_and_readiness_are_said_of_each_platform(self, read: Read) -> None:
        linux, _, windows = read("gfx1201").partition(" Windows wheels ")
        assert "wheels ROCm 7.14.0 to 10.1.0 (therock): supported by AMD, release-ready" in linux
        assert windows.startswith(
            "ROCm 7.14.0 to 10.1.0 (therock): supported by AMD, not marked release-ready"
        )
        assert "7.2.1 needs display driver from 26.2.2 on" in windows

    def test_card_that_only_packages_serve(self, read: Read) -> None:
        text = read("gfx803")
        assert "wheels not built for it" in text
        assert "packages 5.7 kernels in its libraries" in text


class TestWhichRelease:
    def test_of_wheels(self, read: Read) -> None:
        text = read("10.0")
        assert "Linux as Python wheels: 10.0.0 (therock), with torch 2.13.0" in text
        assert "supported by AMD: gfx908, gfx90a" in text
        assert "release-ready: gfx942, gfx1010" in text
        assert "only built for: gfx1250" in text
        assert "rocenv create demo --platform windows --rocm 10.0 --torch --target gfx1201" in text

    def test_of_which_nobody_has_read_what_amd_promises(self, read: Read) -> None:
        text = read("10.2")
        assert "what AMD promises is not known yet; built for: gfx908, gfx90a" in text
        assert not re.search("supported by AMD|release-ready|only built for", text)
        assert "rocenv create demo --platform linux --rocm 10.2 --torch --target gfx1201" in text

    def test_a_patch_release_without_torch_says_what_must_not_be_mixed(self, read: Read) -> None:
        text = read("7.14.1")
        assert "7.14.1 (therock), without torch" in text
        assert "7.14.1: hipErrorInvalidValue is reported" in text

    def test_one_that_only_moves_on(self, read: Read) -> None:
        assert "the matching PyTorch is not known yet" in read("10.2")


class TestWhyNot61:
    def test_release(self, read: Read) -> None:
        text = read("6.1")
        assert "Linux torch 2.4 to 2.6 has wheels for it" in text
        assert "HIP SDK 6.1.2 goes with ZLUDA 3.8.post1 to 3.8.4 of lshqqytiger" in text
        assert "not with 3.9.5, which the apps take today" in text
        assert "takes it only with `--rocm 6.1`: by itself it takes" in text
        assert "rocenv explain sdnext-3414" in text

    def test_hip_sdk_is_the_windows_side_of_it(self, matrix: Matrix) -> None:
        titles = [section.title for section in explain("hip-sdk-6.1", matrix).sections]
        assert titles == ["Windows", "Known combinations"]

    def test_patch_release_is_told_with_its_series(self, matrix: Matrix) -> None:
        assert explain("rocm 6.1.2", matrix) == explain("rocm-6.1", matrix)


class TestWhichTorch:
    def test_for_gfx1103(self, read: Read) -> None:
        text = read("gfx1103")
        assert "with kernels of its own: torch 2.14, built for ROCm 7.14" in text
        assert "the rocBLAS inside has no kernels: torch 2.13, 2.14, built for ROCm 7.1, 7.2" in text
        assert "run as gfx1100: torch 2.1 to 2.14" in text
        assert "run as gfx1102: torch 2.7 to 2.14" in text
        assert "page faults and hangs of the GPU are reported" in text

    def test_torch_itself(self, read: Read) -> None:
        text = read("torch-2.7.1")
        assert "built for ROCm 6.2.4, 6.3; kernels for gfx900" in text
        assert "2.7.1 for CUDA 11.8; Python 3.10 to 3.12" in text


class TestParts:
    def test_zluda_that_is_not_for_hip_6(self, read: Read) -> None:
        text = read("3.9.6")
        assert "goes with HIP SDK 5.7.1, 7.1.1; not with 5.5.1, 6.1.2 to 6.4.2, 7.2.0" in text
        assert "why not 3.9.6 supports HIP 5 and HIP 7, not HIP 6" in text
        assert "ZLUDA-windows-rocm5-amd64.zip for HIP SDK 5.7" in text

    @pytest.mark.parametrize("thing", ["zluda-3.8.4", "ZLUDA 3.8.4", "zluda==3.8.4", "3.8.4", "c0804ca6249"])
    def test_zluda_build_by_any_name(self, matrix: Matrix, thing: str) -> None:
        assert explain(thing, matrix).thing == "zluda-3.8.4"

    def test_other_build_of_the_same_number_is_pointed_at(self, read: Read) -> None:
        assert "`rocenv explain zluda-3.8.4.post1`" in read("zluda-3.8.4")

    def test_packs_and_that_there_is_none(self, read: Read) -> None:
        text = read("gfx1031-pack")
        assert "9 packs, for HIP SDK 5.7, 6.1, 6.2, 6.4, 7.1" in text
        assert "no library pack for gfx1033 is known" in read("gfx1033-pack")

    def test_wsl(self, read: Read) -> None:
        text = read("wsl")
        assert "PyTorch work in Linux" in text
        assert "26.10.41.05 or newer" in text
        assert "`librocdxg`" in text
        assert "rocenv gpus" in text
        assert "Sources" in text

    def test_incident(self, read: Read) -> None:
        text = read("sdnext#3414")
        assert "ends with exception code 0xC0000005 before its page opens" in text
        assert "no set joins gfx1031 with HIP SDK 6.1, ZLUDA 3.8.3 (rocm6)" in text
        assert "Three causes fit, and none is proved" in text
        assert "rocenv resolve --platform windows --zluda --target gfx1031" in text

    def test_code_of_a_combination_without_an_incident(self, read: Read) -> None:
        assert "no set joins ZLUDA up to 3.9.4 with display driver from 25.5.1 on" in read("zluda-106")

    def test_variable(self, read: Read) -> None:
        text = read("hsa_override_gfx_version")
        assert "gfx1033 10.3.0 as gfx1030: known to go wrong" in text
        assert "Linux only; Windows HIP does not go through HSA" in text
        assert "a stale value causes memory faults" in text


class TestNames:
    @pytest.mark.parametrize(
        ("thing", "targets"),
        [
            ("rx 6750 xt", ["gfx1031"]),
            ("amd radeon(tm) 780m graphics", ["gfx1103"]),
            ("radeon 840m", ["gfx1152", "gfx1153"]),
            ("rx 6750 gre 10gb", ["gfx1031"]),
            ("1002:73df", ["gfx1031"]),
            ("mi210", ["gfx90a"]),
            ("geforce rtx 4090", []),
        ],
    )
    def test_product(self, matrix: Matrix, thing: str, targets: list[str]) -> None:
        assert meant(thing, matrix) == targets

    def test_features_are_no_part_of_a_target(self, matrix: Matrix) -> None:
        assert explain("gfx90a:sramecc+:xnack-", matrix) == explain("gfx90a", matrix)

    def test_what_may_be_several_things_is_listed(self, matrix: Matrix) -> None:
        choice = explain("Radeon 840M", matrix)
        assert choice.kind == "choice"
        assert [step.command for step in choice.steps] == ["rocenv explain gfx1152", "rocenv explain gfx1153"]
        commands = [step.command for step in explain("6", matrix).steps]
        assert "rocenv explain rocm-6.4" in commands
        assert "rocenv explain zluda-6" in commands

    def test_unknown_target_says_that_nothing_is_known_and_what_to_do(self, matrix: Matrix) -> None:
        with pytest.raises(RocenvError) as caught:
            explain("gfx1300", matrix)
        assert "none of the" in caught.value.message
        assert caught.value.exit_code == 1
        assert any("upgrade rocenv" in hint for hint in caught.value.hints)
        assert any("rocenv gpus" in hint for hint in caught.value.hints)

    def test_the_override_says_when_rocenv_sets_it(self, read: Read) -> None:
        text = read("HSA_OVERRIDE_GFX_VERSION")
        assert "set in an env where a set has no kernels for the target" in text

    def test_slip_names_what_is_near(self, matrix: Matrix) -> None:
        with pytest.raises(RocenvError) as caught:
            explain("sdnext-3415", matrix)
        assert caught.value.hints[0].startswith("did you mean `sdnext-3414`")

    @pytest.mark.parametrize("thing", ["", "   ", "'", "rocm-", "zluda-", "gfx", "torch-9.9", "2.99", "$"])
    def test_nonsense_is_an_expected_error(self, matrix: Matrix, thing: str) -> None:
        with pytest.raises(RocenvError):
            explain(thing, matrix)
