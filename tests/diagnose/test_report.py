"""The commands that reports suggest."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocenv.data.load import load
from rocenv.diagnose import diagnose_bytes
from rocenv.diagnose.report import known_combinations, report, suggest_env
from tests.test_placeholders import PLACEHOLDER

if TYPE_CHECKING:
    from rocenv.core.language import Language
    from rocenv.diagnose.facts import Facts

CASES = Path(__file__).parents[1] / "cases" / "diagnose"
SDNEXT = (CASES.parent / "founding" / "sdnext-zluda.log").read_bytes()
MATRIX = load()


@pytest.mark.parametrize("code", sorted(path.name for path in CASES.iterdir()))
def test_commands_do_not_contain_placeholders(code: str) -> None:
    for path in sorted((CASES / code).glob("*.log")):
        for finding in diagnose_bytes(path.read_bytes(), MATRIX).findings:
            told = report(finding, MATRIX, "en")
            assert told.steps, path
            assert [each for each in told.commands if "…" in each or PLACEHOLDER.search(each)] == [], path


def test_no_command_appears_twice() -> None:
    log = b"Blender 4.5.2 LTS\ncycles | ERROR System is out of GPU memory\n# app blender (Blender) in /x\n"
    (finding,) = diagnose_bytes(log, MATRIX).findings
    commands = report(finding, MATRIX, "en").commands
    assert "rocenv mem settings cycles" in commands
    assert len(set(commands)) == len(commands)


def test_a_suggested_command_without_a_target_detects_the_gpu() -> None:
    assert suggest_env({}, MATRIX) == "rocenv create demo --torch"
    facts: Facts = {"platform": ("windows",), "zluda": ("yes",)}
    assert suggest_env(facts, MATRIX) == "rocenv create demo --zluda"
    assert suggest_env({"gfx": ("gfx9999",)}, MATRIX) == ""


def test_a_suggested_env_has_torch_only_for_apps_that_need_it() -> None:
    facts: Facts = {"gfx": ("gfx1100",), "platform": ("linux",)}
    assert "--torch" in suggest_env(facts, MATRIX)
    assert "--torch" in suggest_env({**facts, "app": ("comfyui", "pytorch")}, MATRIX)
    assert suggest_env({**facts, "app": ("blender",)}, MATRIX) == "rocenv create demo --target gfx1100"


def test_commands_use_a_single_env_name_that_is_not_in_use() -> None:
    for path in sorted(CASES.glob("*/known-*.log")):
        for finding in diagnose_bytes(path.read_bytes(), MATRIX).findings:
            facts: Facts = {"another": ("spare",)}
            commands = report(finding, MATRIX, "en", facts).commands
            created = {name for each in commands for name in re.findall(r"rocenv create (\S+)", each)}
            assert created <= {"spare"}, path


def test_commands_contain_the_gpu_from_the_log() -> None:
    for path in sorted(CASES.glob("*/known-*.log")):
        diagnosis = diagnose_bytes(path.read_bytes(), MATRIX)
        known = set(diagnosis.facts.get("gfx", ())) & set(MATRIX.targets)
        for finding in diagnosis.findings:
            commands = report(finding, MATRIX, "en").commands
            creating = [each for each in commands if each.startswith("rocenv create ")]
            assert not known or all("--target" in each for each in creating), path


def test_torch_is_replaced_only_from_an_index_with_kernels_for_the_gpu() -> None:
    for name, index in (("RX 7900 XTX", "whl/rocm"), ("RX 6750 XT", ""), ("Radeon VII", "whl/rocm6.3")):
        log = f"GPU: AMD Radeon {name}\nLinux\nTorch not compiled with CUDA enabled\n".encode()
        (finding,) = diagnose_bytes(log, MATRIX).findings
        told = report(finding, MATRIX, "en", {"platform": ("linux",)})
        installs = [each for each in told.commands if each.startswith("pip install")]
        assert [index in each for each in installs] == ([True] if index else []), name
        assert index or "rocenv resolve --torch --target gfx1031" in told.commands


def test_a_log_of_amdgpu_jl_says_where_to_get_the_hip_sdk() -> None:
    log = b'julia> AMDGPU.hipRuntimeGetVersion\nERROR: could not load library ""\n @ AMDGPU.HIP libhip.jl:6\n'
    (finding,) = diagnose_bytes(log, MATRIX).findings
    first, second, *_ = report(finding, MATRIX, "en", {"platform": ("windows",)}).steps
    assert "install-on-windows" in first.text and 'Pkg.update("AMDGPU")' in second.text


def test_amds_pytorch_for_windows_comes_before_zluda() -> None:
    """AMD's PyTorch is suggested only for GPUs that it supports; the commands for ZLUDA come next."""
    wheels = [row for row in MATRIX.rocm_wheels if row.platform == "windows" and not row.floating]
    served = {target for row in wheels for target in row.targets}
    assert {"gfx1031", "gfx1201"} < served and "gfx906" not in served
    for target in ("gfx1031", "gfx1201", "gfx1010", "gfx1103", "gfx1151", "gfx906", "gfx803", "gfx90c"):
        (finding,) = diagnose_bytes(SDNEXT.replace(b"gfx1031", target.encode()), MATRIX).findings
        told = report(finding, MATRIX, "en")
        native = f"rocenv create demo --torch --target {target}"
        assert (told.commands[0] == native) == (native in told.commands) == (target in served), target
        zluda = [each for each in told.commands if "--zluda" in each]
        assert zluda[0] == f"rocenv create demo --rocm 5.7 --zluda --target {target}"
        assert ("--rocm 6.2" in " ".join(zluda)) == (target in served), "GCN cards need HIP SDK 5.7"


def test_the_report_on_a_log_without_a_gpu_lists_the_cards_that_amds_pytorch_supports() -> None:
    (finding,) = diagnose_bytes(SDNEXT.replace(b"['gfx1031']", b"[]"), MATRIX).findings
    told = report(finding, MATRIX, "en")
    assert "supports RX 5000 to RX 9000 cards" in told.steps[0].text
    assert told.commands[:2] == ("rocenv create demo --torch", "rocenv create demo --rocm 5.7 --zluda")


@pytest.mark.parametrize(
    ("old", "new", "codes"),
    [
        (b"", b"", ("sdnext-3414",)),
        (b"gfx1031", b"gfx1100", ()),
        (b"3.8.3", b"3.8.4", ()),
        (b"ZLUDA: version 3.8.3", b"ZLUDA", ()),
    ],
)
def test_a_known_combination_is_found_if_the_log_mentions_all_its_parts(
    old: bytes, new: bytes, codes: tuple[str, ...]
) -> None:
    log = SDNEXT.replace(old, new) if old else SDNEXT
    assert known_combinations(diagnose_bytes(log, MATRIX).facts, MATRIX) == codes


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_suggested_command_contains_a_placeholder_target_if_no_gpu_is_known(language: Language) -> None:
    log = b"start\nError invalid device function at line 73 in file /home/user/ops.hip\n"
    (finding,) = diagnose_bytes(log, MATRIX).findings
    told = report(finding, MATRIX, language, {"no_gpu": ("yes",)})
    assert told.commands[0] == "rocenv create demo --torch --target TARGET"
    assert sum("`rocenv gpus`" in step.text and "TARGET" in step.text for step in told.steps) == 1


@pytest.mark.parametrize(("here", "told"), [("gfx1031", 0), ("gfx1032", 1), ("", 1)])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_step_mentions_that_the_log_is_from_a_machine_with_another_gpu(
    language: Language, here: str, told: int
) -> None:
    (finding, *_) = diagnose_bytes(SDNEXT, MATRIX).findings
    texts = [step.text for step in report(finding, MATRIX, language, {"here": (here,)}).steps]
    assert sum('`rocenv explain "RX 6600"`' in text and "gfx1031" in text for text in texts) == told


def test_a_log_of_an_integrated_gpu_mentions_the_card_without_blaming_it() -> None:
    """The log shows that the integrated GPU failed and that there is a card, but not which one is in use."""
    log = CASES / "igpu-selected-instead-of-dgpu" / "known-laptop-tensile-gfx1035.log"
    (finding,) = diagnose_bytes(log.read_bytes(), MATRIX).findings
    assert finding.confidence < 0.9
    assert [each.line for each in finding.evidence] == [2, 1]
    told = report(finding, MATRIX, "en")
    assert "The log also mentions a discrete GPU" in told.cause
    assert "do not support" not in " ".join((told.cause, *(step.text for step in told.steps)))
    assert told.commands[-1] == "rocenv create demo --torch --target gfx1035"
    alone = b"rocBLAS error: Cannot read /x/TensileLibrary.dat: Illegal seek for GPU arch : gfx1036\n"
    (finding,) = diagnose_bytes(alone, MATRIX).findings
    assert "If the machine also has a discrete GPU" in report(finding, MATRIX, "en").cause


def test_advice_for_an_app_folder_says_in_which_folder_to_run_the_commands() -> None:
    (finding, *_) = diagnose_bytes(SDNEXT, MATRIX).findings
    told = {each: step.text for step in report(finding, MATRIX, "en").steps for each in step.commands}
    assert told["rmdir /s /q .zluda"].endswith("Run this in the app's folder:")
    assert "do not pass `--use-zluda`" in told["rocenv launch demo -- webui.bat"]
