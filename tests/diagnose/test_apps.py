"""Failures and remedies from app profiles."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rocenv.core.language import LANGUAGES
from rocenv.data.load import load
from rocenv.diagnose import diagnose_bytes
from rocenv.diagnose.report import report

MATRIX = load()
SHOWN = [(row, each) for row in MATRIX.launcher for each in row.failures if each.code]


def log_of(key: str, *lines: str) -> bytes:
    """Build a log like the ones that `launch` writes."""
    return "\n".join(("# rocenv 0.1.0", f"# app {key} (An app) in /x", *lines, "")).encode()


@pytest.mark.parametrize(
    ("launcher", "failure"), SHOWN, ids=[f"{row.key}-{each.text[:24]}" for row, each in SHOWN]
)
def test_a_failure_listed_in_an_app_profile_is_found(launcher, failure) -> None:  # type: ignore[no-untyped-def]
    found = diagnose_bytes(log_of(launcher.key, "starting", f"error: {failure.text} here"), MATRIX).findings
    assert failure.code in {each.code for each in found}
    assert found[0].evidence[0].line == 4


@pytest.mark.parametrize("head", ["", "# app of-somebody (Other) in /x\n", "GPU: NVIDIA GeForce RTX 3060\n"])
def test_an_apps_failure_is_not_reported_in_a_log_of_another_app(head: str) -> None:
    """Only one family of apps prints `Set vram state to`."""
    text = f"{head}Set vram state to: DISABLED\n".encode()
    assert diagnose_bytes(text, MATRIX).findings == ()


def test_a_rule_takes_precedence_over_a_profile() -> None:
    """The profile's text is generic; the rule's text states the cause."""
    lines = ("Set vram state to: DISABLED", "RuntimeError: HIP error: invalid device function", "gfx1031")
    found = diagnose_bytes(log_of("comfyui", *lines), MATRIX).findings
    assert [each.code for each in found] == ["hip-no-binary-for-gpu"]


def test_steps_from_the_app_profile_come_first() -> None:
    launcher, sign = next(
        (row, failure) for row, failure in SHOWN if any(each.code == failure.code for each in row.fallbacks)
    )
    rows = [row for row in launcher.fallbacks if row.code == sign.code]
    rule = next(row for row in MATRIX.rule if row.code == sign.code)
    (finding, *_) = diagnose_bytes(log_of(launcher.key, sign.text), MATRIX).findings
    assert finding.rule == rule
    for language in LANGUAGES:
        steps = report(finding, MATRIX, language).steps
        assert len(steps) <= max(4, len(rows))
        for step, row in zip(steps, rows, strict=False):
            assert step.text.startswith(getattr(row.text, language)[:10])


def test_commands_without_known_values_rely_on_defaults() -> None:
    """The command omits `--blender PROGRAM --target TARGET` because the log contains neither value."""
    log = log_of("blender", "Blender 4.5.2 LTS", "AMD Radeon RX 9070 XT", "Memory access fault by GPU node-1")
    (finding, *_) = diagnose_bytes(log, MATRIX).findings
    finding = replace(finding, own={}, facts={"app": ("blender",)})
    commands = report(finding, MATRIX, "en").commands
    build = "rocenv kernels build blender --blender blender"
    assert commands[:2] == (build, f"{build} --hiprt")
    assert commands[2] == "rocenv create demo --app blender --channel debian-sid"
