"""Common questions and the facts that their answers must contain."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rocenv.core.errors import RocenvError
from rocenv.explain import KINDS, explain
from rocenv.explain.target import product_meant as meant

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocenv.core.language import Language
    from rocenv.data.rows import Matrix

    Read = Callable[[str], str]


class TestDoesMyCardWork:
    @pytest.mark.parametrize(
        ("target", "linux", "windows"),
        [
            (
                "gfx1031",
                "unofficial: ROCm 10.1.0 (therock: AMD's Python wheels), torch 2.14.0 (AMD tests the build "
                "for gfx1031 and calls it release-ready, but does not list it as supported)",
                "unofficial: ROCm 10.1.0 (therock: AMD's Python wheels), torch 2.14.0 (AMD tests the build "
                "for gfx1031 and calls it release-ready, but does not list it as supported); or HIP SDK "
                "6.4.2, ZLUDA 3.9.5",
            ),
            (
                "gfx1201",
                "yes: ROCm 10.1.0 (therock: AMD's Python wheels), torch 2.14.0 (AMD supports gfx1201, tests "
                "the build and calls it release-ready); or ROCm 7.2.4 (amd: AMD's own packages), torch 2.14",
                "yes: ROCm 10.1.0 (therock: AMD's Python wheels), torch 2.14.0 (AMD supports gfx1201, but "
                "does not call the build tested and release-ready)",
            ),
            ("gfx942", "yes: ROCm 10.1.0", "no: neither a HIP SDK nor AMD's wheels support it"),
            (
                "gfx906",
                "yes: ROCm 6.3.3 (amd: AMD's own packages), torch 2.9 (AMD supported gfx906 in ROCm 6.3 and "
                "earlier)",
                "",
            ),
            ("gfx906", "", "unofficial: HIP SDK 5.7.1, ZLUDA 3.9.5 (rocm5), a library pack, torch 2.2.1"),
            (
                "gfx90c",
                "may work, as gfx900 (HSA_OVERRIDE_GFX_VERSION=9.0.0, only with ROCm before 6.4): ROCm 6.3.3",
                "unofficial: HIP SDK 5.7.1, ZLUDA 3.9.5 (rocm5), a library pack",
            ),
            (
                "gfx803",
                "yes, but without PyTorch, whose wheels have no kernels for this GPU: ROCm 5.7.1",
                "unofficial: HIP SDK 5.7.1",
            ),
            (
                "gfx1250",
                "unofficial: ROCm 10.1.0 (therock: AMD's Python wheels), torch 2.14.0 (built for gfx1250, "
                "which AMD neither supports nor tests)",
                "no: neither a HIP SDK nor AMD's wheels support it",
            ),
        ],
    )
    def test_a_cards_page_starts_with_the_answer(
        self, matrix: Matrix, target: str, linux: str, windows: str
    ) -> None:
        on_linux, on_windows = explain(target, matrix).answer
        assert (on_linux.label, on_windows.label) == ("Linux", "Windows")
        assert on_linux.text.startswith(linux)
        assert on_windows.text.startswith(windows)
        assert on_linux.basis, "a verdict has a source"
        assert on_windows.basis, "a verdict has a source"

    def test_a_cards_page_covers_both_platforms(self, read: Read) -> None:
        text = read("RX 6750 XT")
        assert "override 10.3.0 (runs as gfx1030): works, only with ROCm before 7" in text
        assert "no wheel on PyTorch's index has kernels for this GPU" in text
        assert "HIP SDK 7.1, 7.2 listed as unsupported by AMD; no set: in HIP SDK 7.1" in text
        assert "HIP SDK 6.1 runtime only, no kernels in the libraries; set: library pack, ZLUDA 3.8.4" in text
        assert "rocenv explain sdnext-3414" in text
        reported = text.rpartition(" reported ")[2].partition(" inferred ")[0]
        assert "ROCm/rocBLAS#1339" in reported, "the override must cite the user reports that it is based on"

    def test_commands_on_a_cards_page_match_the_resolver(self, matrix: Matrix) -> None:
        linux, wheels, zluda, _apps = explain("gfx1031", matrix).steps
        assert linux.command == "rocenv create demo --platform linux --torch --target gfx1031"
        assert linux.gives == "ROCm 10.1.0 (therock: AMD's Python wheels), torch 2.14.0"
        assert wheels.command == "rocenv create demo --platform windows --torch --target gfx1031"
        assert wheels.gives == linux.gives
        assert zluda.command == "rocenv resolve --platform windows --zluda --target gfx1031"
        assert zluda.gives == "HIP SDK 6.4.2, ZLUDA 3.9.5 (rocm6), a library pack, torch 2.7.1"

    def test_a_step_for_a_zluda_set_shows_the_required_driver(self, matrix: Matrix) -> None:
        step = next(step for step in explain("rocm-6.1", matrix).steps if "--zluda" in step.command)
        assert step.gives.endswith("torch 2.3.1, display driver before 25.5.1")

    def test_the_steam_deck_override_is_known_to_fail(self, read: Read) -> None:
        text = read("steam deck")
        assert "override 10.3.0 (runs as gfx1030): known to fail; Steam Deck: gradients are wrong" in text

    def test_the_vega_page_says_that_only_old_releases_have_kernels(self, read: Read) -> None:
        text = read("gfx906")
        assert "ROCm packages 6.4 to 7.2 runtime only, no kernels in the libraries" in text
        assert "wheels not built for this GPU" in text
        assert (
            "2.8 to 2.14 for ROCm 6.4 to 7.2 is compiled for this GPU, but its rocBLAS has no kernels" in text
        )

    def test_support_and_readiness_are_shown_per_platform(self, read: Read) -> None:
        text = read("gfx1201")
        assert "Linux therock wheels 7.14.0 to 10.1.0 supported by AMD, tested (release-ready)" in text
        assert (
            "Windows therock wheels 7.14.0 to 10.1.0 supported by AMD, not marked as tested (release-ready)"
            in text
        )
        assert "radeon-windows wheels 7.2.1 supported by AMD; needs display driver 26.2.2 or newer" in text

    def test_the_page_of_a_card_without_wheels_shows_the_packages_that_support_it(self, read: Read) -> None:
        text = read("gfx803")
        assert "wheels not built for this GPU" in text
        assert "ROCm packages 5.7 has kernels, but is not supported by AMD" in text


class TestWhichRelease:
    def test_a_wheel_release_page_lists_pytorch_and_targets(self, read: Read) -> None:
        text = read("10.0")
        assert "Linux wheels 10.0.0 (therock); torch 2.13.0" in text
        assert "supported: gfx908, gfx90a" in text
        assert "tested (release-ready): gfx942, gfx1010" in text
        assert "built: gfx1250" in text
        assert "rocenv create demo --platform windows --rocm 10.0 --torch --target gfx1201" in text

    def test_the_page_of_wheels_without_a_support_list_shows_their_built_targets(self, read: Read) -> None:
        text = read("10.2")
        assert "AMD's support list has not been checked yet; built: gfx908, gfx90a" in text
        assert not re.search("supported:|release-ready", text)
        assert "rocenv create demo --platform linux --rocm 10.2 --torch --target gfx1201" in text

    def test_the_page_of_a_patch_release_shows_its_note(self, read: Read) -> None:
        text = read("7.14.1")
        assert "gfx1036. hipErrorInvalidValue is reported" in text

    def test_a_release_page_says_if_no_pytorch_matches(self, read: Read) -> None:
        assert "the matching PyTorch is not known yet" in read("10.2")


class TestWhyNot61:
    def test_the_page_of_rocm_6_1_covers_linux_and_zluda(self, read: Read) -> None:
        text = read("6.1")
        assert "Linux packages 6.1.0 to 6.1.5; torch 2.4 to 2.6" in text
        assert "Windows, ZLUDA: HIP SDK 6.1.2, ZLUDA 3.8.4 (rocm6), torch 2.3.1" in text
        assert "rocenv resolve --platform windows --rocm 6.1 --zluda --target gfx1030" in text
        assert "rocenv explain sdnext-3414" in text

    def test_a_hip_sdk_page_covers_only_windows(self, matrix: Matrix) -> None:
        page = explain("hip-sdk-6.1", matrix)
        assert [line.label for line in page.answer] == ["Windows"]
        assert not any("ROCm packages" in line.label for line in page.lines)

    def test_the_page_of_a_patch_release_covers_its_series(self, matrix: Matrix) -> None:
        assert explain("rocm 6.1.2", matrix) == explain("rocm-6.1", matrix)


class TestWhichTorch:
    def test_the_gfx1103_page_lists_pytorch_builds_and_overrides(self, read: Read) -> None:
        text = read("gfx1103")
        assert "2.14 for ROCm 7.14 has kernels" in text
        assert "2.13, 2.14 for ROCm 7.1, 7.2 is compiled for this GPU, but its rocBLAS has no kernels" in text
        assert "2.1 to 2.14 for ROCm 5.5 to 7.2 runs as gfx1100" in text
        assert "2.7 to 2.14 for ROCm 6.2.4 to 7.2 runs as gfx1102" in text
        assert "users report page faults and GPU hangs" in text

    def test_a_pytorch_page_lists_rocm_and_cuda_builds(self, read: Read) -> None:
        text = read("torch-2.7.1")
        assert "Linux for ROCm 6.2.4, 6.3; kernels for gfx900" in text
        assert "torch 2.7.1 under ZLUDA: built for CUDA 11.8" in text


class TestParts:
    def test_a_zluda_page_lists_hip_sdks_that_fail(self, read: Read) -> None:
        text = read("3.9.6")
        assert "HIP SDK works with 5.7.1, 7.1.1; not with 5.5.1, 6.1.2 to 6.4.2, 7.2.0" in text
        assert "3.9.6 supports HIP 5 and HIP 7, not HIP 6" in text
        assert "ZLUDA-windows-rocm5-amd64.zip for HIP SDK 5.7" in text

    @pytest.mark.parametrize("thing", ["zluda-3.8.4", "ZLUDA 3.8.4", "zluda==3.8.4", "3.8.4", "c0804ca6249"])
    def test_a_zluda_page_is_found_by_any_name_of_the_build(self, matrix: Matrix, thing: str) -> None:
        assert explain(thing, matrix).thing == "zluda-3.8.4"

    def test_a_zluda_page_mentions_a_build_with_the_same_version(self, read: Read) -> None:
        assert "`rocenv explain zluda-3.8.4.post1`" in read("zluda-3.8.4")

    def test_a_target_pack_page_lists_library_packs(self, read: Read) -> None:
        text = read("gfx1031-pack")
        assert "9 packs, for HIP SDK 5.7, 6.1, 6.2, 6.4, 7.1" in text
        assert "no library pack for gfx1033 is known" in read("gfx1033-pack")

    def test_the_wsl_page_names_the_driver_and_the_library(self, read: Read) -> None:
        text = read("wsl")
        assert "PyTorch work on Linux" in text
        assert "26.10.41.05 or newer" in text
        assert "`librocdxg`" in text
        assert "rocenv create --torch" in text
        assert text.index("AMD lists RX 7800 XT") < text.index("ROCm before 7.1"), (
            "what is current comes first"
        )
        assert "Sources" in text

    def test_an_incident_page_says_what_rocenv_avoids(self, read: Read) -> None:
        text = read("sdnext#3414")
        assert "exits with exception code 0xC0000005 before its web page opens" in text
        assert "never combines gfx1031 with HIP SDK 6.1, ZLUDA 3.8.3 (rocm6)" in text
        assert "There are three possible causes, none of them proven" in text
        assert "rocenv resolve --platform windows --zluda --target gfx1031" in text

    def test_an_incident_combination_is_found_by_its_code(self, read: Read) -> None:
        assert "never combines ZLUDA 3.9.4 or older with display driver 25.5.1 or newer" in read("zluda-106")

    def test_an_exit_code_page_explains_the_code_and_links_incidents(self, read: Read) -> None:
        text = read("0xc0000005")
        assert text.startswith("0xC0000005 (access violation) The program ended because it accessed memory")
        assert "rocenv explain sdnext-3414" in text

    @pytest.mark.parametrize("number", [3221225477, -1073741819])
    def test_an_exit_code_can_be_decimal(self, matrix: Matrix, number: int) -> None:
        assert explain(str(number), matrix) == explain("0xC0000005", matrix)

    @pytest.mark.parametrize("thing", ["0xdeadbeef", "3735928559", "-2147483000", "0x00000003"])
    def test_an_unknown_exit_code_is_an_error(self, matrix: Matrix, thing: str) -> None:
        with pytest.raises(RocenvError) as caught:
            explain(thing, matrix)
        assert caught.value.message == f"no information about `{thing}`"
        assert (caught.value.code, caught.value.exit_code) == ("thing-unknown", 1)

    def test_the_name_of_a_check_leads_to_the_page_of_its_cause(self, matrix: Matrix) -> None:
        row = next(row for row in matrix.advice if row.name.replace("_", "-") != row.code)
        assert explain(row.name, matrix).thing == row.code

    @pytest.mark.parametrize("language", ["en", "zh"])
    def test_texts_with_unknown_values_contain_no_placeholders(
        self, matrix: Matrix, language: Language
    ) -> None:
        gap = re.compile(r"`?(?:\.\.\.|……)`?(?= |$|[，。：])|\{\w+\}|[\u4e00-\u9fff] [\u4e00-\u9fff]")
        rules = {row.code: row for row in matrix.rule}
        for code in KINDS["cause"].names(matrix):
            page = explain(code, matrix, language)
            texts = [page.title, *(command for line in page.lines for command in line.commands)]
            texts += [line.text for line in page.lines if not line.text.startswith("`")]
            background = "" if code not in rules else getattr(rules[code].more, language, "")
            quoted = " ".join(background.split())
            assert [text for text in texts if gap.search(text) and text not in quoted] == [], code

    def test_a_remedy_shows_its_conditions(self, matrix: Matrix) -> None:
        def remedies(code: str, language: Language) -> list[str]:
            page = explain(code, matrix, language)
            return [line.text for line in page.sections[0].lines]

        lines = remedies("hip-no-binary-for-gpu", "en")
        assert lines[0].startswith("Create an env")
        assert any(line.startswith("If the card is from NVIDIA: Install the CUDA") for line in lines)
        gpus = "gfx1031, gfx1032, gfx1034 or gfx1035"
        assert any(
            line.startswith(f"On Linux, if the GPU is {gpus}: or run the GPU as gfx1030") for line in lines
        )
        assert not any(":xnack" in line for line in lines), "only a log shows whether it applies"
        zh = remedies("hip-no-binary-for-gpu", "zh")
        assert any(line.startswith("如果显卡是 NVIDIA 的：") for line in zh)
        texts = remedies("igpu-selected-instead-of-dgpu", "en")
        about_bios = [text for text in texts if text.endswith("in the BIOS (integrated graphics: disabled).")]
        assert about_bios == [text for text in about_bios if text.startswith("On Linux: or disable")]
        assert len(about_bios) == 1, "the check's remedy repeats the rule's"

    def test_the_override_variable_page_lists_known_failures(self, read: Read) -> None:
        text = read("hsa_override_gfx_version")
        assert "gfx1033 10.3.0 (runs as gfx1030): known to fail" in text
        assert "Linux only; HIP on Windows does not use HSA" in text
        assert "a leftover value causes memory faults" in text

    def test_rocenvs_own_variables_have_pages(self, read: Read) -> None:
        assert "folder for everything that rocenv installs" in read("ROCENV_HOME")
        assert "gfx1201" in read("$rocenv_target")


class TestApps:
    @pytest.mark.parametrize("thing", ["llama.cpp", "Llama", "llm", "vulkan"])
    def test_the_llama_cpp_page_lists_vulkan_builds_that_need_no_rocm(
        self, matrix: Matrix, read: Read, thing: str
    ) -> None:
        assert explain(thing, matrix).thing == "llama.cpp"
        text = read(thing)
        assert "Linux any GPU, with Vulkan: `llama-bNNNN-bin-ubuntu-vulkan-x64.tar.gz` from https://" in text
        assert "`llama-bNNNN-bin-win-vulkan-x64.zip`" in text
        assert "rocenv create --app llama.cpp" in text
        assert "lemonade-sdk/llamacpp-rocm/releases; built nightly" in text

    def test_the_ollama_page_explains_integrated_gpus(self, read: Read) -> None:
        assert "unless you set `OLLAMA_IGPU_ENABLE=1`" in read("ollama")

    @pytest.mark.parametrize("thing", ["SD.Next", "sdnext"])
    def test_an_apps_page_shows_its_commands(self, matrix: Matrix, thing: str) -> None:
        commands = [step.command for step in explain(thing, matrix).steps]
        assert commands == [
            "rocenv create --app sdnext",
            "git clone https://github.com/vladmandic/sdnext",
            "rocenv launch sdnext",
        ]

    @pytest.mark.parametrize(
        ("target", "offered"),
        [("steam deck", True), ("RX 580", True), ("Strix Halo", True), ("gfx942", False)],
    )
    def test_the_page_of_an_unsupported_gpu_with_vulkan_suggests_an_app_without_rocm(
        self, matrix: Matrix, target: str, offered: bool
    ) -> None:
        commands = [step.command for step in explain(target, matrix).steps]
        assert ("rocenv explain llama.cpp" in commands) == offered

    @pytest.mark.parametrize("word", ["channel", "gemm", "rung", "release-ready", "target", "therock"])
    def test_every_term_in_rocenvs_output_has_a_page(self, matrix: Matrix, word: str) -> None:
        page = explain(word, matrix)
        assert page.kind == "topic"
        assert all(line.rows for line in page.lines) and page.lines


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
            ("ryzen ai max+ 395", ["gfx1151"]),
            ("6750xt", ["gfx1031"]),
            ("geforce rtx 4090", []),
        ],
    )
    def test_a_product_name_refers_to_its_targets(
        self, matrix: Matrix, thing: str, targets: list[str]
    ) -> None:
        assert meant(thing, matrix) == targets

    @pytest.mark.parametrize("thing", ["HD 7870", "GCN 1", "1002:6818"])
    def test_an_unsupported_card_has_a_page(self, matrix: Matrix, thing: str) -> None:
        found = explain(thing, matrix)
        assert (found.thing, found.kind) == (thing, "unsupported")
        assert [line.text.partition(" ")[0] for line in found.answer] == ["no:", "Vulkan"]
        assert all(line.rows for line in found.answer)

    def test_features_in_a_target_name_are_ignored(self, matrix: Matrix) -> None:
        assert explain("gfx90a:sramecc+:xnack-", matrix) == explain("gfx90a", matrix)

    def test_an_ambiguous_word_lists_its_meanings(self, matrix: Matrix) -> None:
        choice = explain("Radeon 840M", matrix)
        assert choice.kind == "choice"
        assert [step.command for step in choice.steps] == ["rocenv explain gfx1152", "rocenv explain gfx1153"]
        commands = [step.command for step in explain("6", matrix).steps]
        assert "rocenv explain rocm-6.4" in commands
        assert "rocenv explain zluda-6" in commands

    def test_an_unknown_target_gets_hints(self, matrix: Matrix) -> None:
        with pytest.raises(RocenvError) as caught:
            explain("gfx1300", matrix)
        assert "not among the" in caught.value.message
        assert caught.value.exit_code == 1
        assert any("a newer version may include it" in hint for hint in caught.value.hints)
        assert any("rocenv gpus" in hint for hint in caught.value.hints)

    def test_the_hint_for_an_unknown_target_omits_the_date_if_the_data_has_no_targets(
        self, matrix: Matrix
    ) -> None:
        with pytest.raises(RocenvError) as caught:
            explain("gfx1300", replace(matrix, target=()))
        assert caught.value.hints[0] == "a newer version may include it"

    def test_the_override_page_explains_when_rocenv_sets_it(self, read: Read) -> None:
        text = read("HSA_OVERRIDE_GFX_VERSION")
        assert "set only in envs whose set has no kernels for the GPU" in text

    def test_a_typo_suggests_similar_names(self, matrix: Matrix) -> None:
        with pytest.raises(RocenvError) as caught:
            explain("sdnext-3415", matrix)
        assert caught.value.hints[0].startswith("did you mean `sdnext-3414`")

    @pytest.mark.parametrize("thing", ["", "   ", "'", "rocm-", "zluda-", "gfx", "torch-9.9", "2.99", "$"])
    def test_invalid_input_is_an_expected_error(self, matrix: Matrix, thing: str) -> None:
        with pytest.raises(RocenvError):
            explain(thing, matrix)
