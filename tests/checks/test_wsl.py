"""Checks on the WSL device, the Windows driver, and the library through which ROCm uses the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocenv.checks.context import Env
from rocenv.checks.run import checks_for, run
from rocenv.core.model import FileEntry

if TYPE_CHECKING:
    from rocenv.findings import Finding
    from tests.checks.scenery import Scenery

PNP = r"PCI\VEN_1002&DEV_744C&SUBSYS_0E3B1002&REV_C8"


def adapter(driver: str) -> dict[str, str]:
    return {"Name": "AMD Radeon RX 7900 XTX", "PNPDeviceID": PNP, "DriverVersion": driver}


def test_wsl_without_a_gpu_or_a_runtime_is_reported(scenery: Scenery) -> None:
    scenery.root.wsl()
    assert scenery.sees("wsl_without_gpu") is None and scenery.sees("no_gpu") is None
    finding = scenery.sees("wsl_without_runtime")
    assert finding is not None and finding.code == "wsl-gpu-unavailable"
    assert "26.10.41.05" in finding.steps[0].text and "rocenv create --torch --target" in finding.commands[0]
    scenery.root.wsl(adapter("32.0.31041.3013"))
    finding = scenery.sees("wsl_without_runtime")
    assert finding is not None and finding.commands == ("rocenv create --torch",), "the GPU is known"
    scenery.root.put("opt/rocm-7.2.0/lib/librocdxg.so.1", "")
    assert scenery.sees("wsl_without_runtime") is None
    (scenery.root.path / "dev/dxg").unlink()
    finding = scenery.sees("wsl_without_gpu")
    assert finding is not None and finding.severity == "error" and "wsl.exe --update" in finding.commands


def test_a_gpu_that_amd_does_not_list_for_wsl_is_reported(scenery: Scenery) -> None:
    scenery.root.wsl(adapter("32.0.31041.3013"))
    assert scenery.sees("wsl_gpu_unlisted") is None
    rx_6800 = {"Name": "AMD Radeon RX 6800 XT", "PNPDeviceID": PNP.replace("744C", "73BF")}
    scenery.root.wsl({**rx_6800, "DriverVersion": "32.0.31041.3013"})
    finding = scenery.sees("wsl_gpu_unlisted")
    assert finding is not None and "gfx1030" in finding.detail and "rocenv explain wsl" in finding.commands


def test_a_windows_host_that_does_not_respond_is_reported(scenery: Scenery) -> None:
    scenery.root.wsl(answer="`powershell.exe` failed: it did not end within 20 s")
    finding = scenery.sees("wsl_windows_silent")
    assert finding is not None and "did not end within 20 s" in finding.evidence[0]
    scenery.root.put("proc/sys/fs/binfmt_misc/WSLInterop", "disabled\n")
    finding = scenery.sees("wsl_windows_silent")
    assert finding is not None and "interop" in finding.title
    assert any("rocenv create --torch --target" in command for command in finding.commands)


def test_a_windows_host_that_responds_has_no_finding(
    scenery: Scenery, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenery.root.wsl()
    monkeypatch.setenv("ROCENV_TARGET", "gfx1100")
    assert scenery.sees("wsl_windows_silent") is None
    monkeypatch.delenv("ROCENV_TARGET")
    scenery.root.wsl(adapter("32.0.31041.3013"))
    assert scenery.sees("wsl_windows_silent") is None and scenery.sees("wsl_driver_old") is None


def test_an_old_windows_driver_is_reported(scenery: Scenery) -> None:
    scenery.root.wsl(adapter("32.0.31041.1004"))
    finding = scenery.sees("wsl_driver_old")
    assert finding is not None and "26.10.41.05" in finding.detail and "10.1" in finding.title
    env = scenery.env("ml", rocm="10.0.0")
    assert scenery.sees("wsl_driver_old") is None, "the existing env works with this driver"
    scenery.env("new", rocm="10.1.0")
    finding = scenery.sees("wsl_driver_old")
    assert finding is not None and "10.1.0" in finding.title
    assert told(scenery, "wsl_driver_old", env) is None, "only the requested env is checked"


def test_a_variable_that_hides_the_gpu_is_reported(scenery: Scenery) -> None:
    scenery.root.wsl(adapter("32.0.31041.3013"))
    assert scenery.sees("wsl_detection_off") is None
    scenery.environ["HSA_ENABLE_DXG_DETECTION"] = "0"
    finding = scenery.sees("wsl_detection_off")
    assert finding is not None and finding.severity == "error"
    assert "unset HSA_ENABLE_DXG_DETECTION" in finding.commands


def test_an_older_system_rocm_without_the_wsl_variable_is_reported(scenery: Scenery) -> None:
    scenery.root.wsl(adapter("32.0.31041.3013")).put("opt/rocm-7.2.0/lib/librocdxg.so.1", "")
    finding = scenery.sees("wsl_detection_off")
    assert finding is not None and finding.commands == ("export HSA_ENABLE_DXG_DETECTION=1",)
    scenery.environ["HSA_ENABLE_DXG_DETECTION"] = "1"
    assert scenery.sees("wsl_detection_off") is None


def test_a_newer_system_rocm_does_not_need_the_wsl_variable(scenery: Scenery) -> None:
    scenery.root.wsl(adapter("32.0.31041.3013")).put("opt/rocm-7.14.0/lib/librocdxg.so.1", "")
    assert scenery.sees("wsl_detection_off") is None


def with_files(scenery: Scenery, rocm: str, *paths: str) -> Env:
    """Add an env with a list of files."""
    env = scenery.env("ml", rocm=rocm)
    env.prefix.own.mkdir(parents=True)
    record = env.prefix.write_record(env.record, dict.fromkeys(paths, FileEntry(sha256="0" * 64)))
    scenery.envs = [Env(prefix=env.prefix, record=record)]
    return scenery.envs[0]


def told(scenery: Scenery, check: str, env: Env) -> Finding | None:
    context = scenery.context(env=env)
    english, chinese = (run(context, checks_for(context, (check,)), language) for language in ("en", "zh"))
    assert len(english) == len(chinese) <= 1
    assert all("{" not in each.title + each.detail for each in (*english, *chinese))
    return english[0] if english else None


WHEEL = "venv/lib/python3.12/site-packages/_rocm_sdk_core/lib"


@pytest.mark.parametrize(
    ("rocm", "files", "system", "title"),
    [
        ("10.0.0", (f"{WHEEL}/libamdhip64.so.7", f"{WHEEL}/librocdxg.so.1"), False, None),
        ("7.2.4", ("rocm/lib/libamdhip64.so.7",), True, None),
        ("7.2.4", ("rocm/lib/libamdhip64.so.7",), False, "`librocdxg` is missing"),
        ("6.2.4", ("rocm/lib/libamdhip64.so.6",), True, "cannot use the GPU on WSL"),
    ],
)
def test_an_env_without_librocdxg_is_reported(
    scenery: Scenery, rocm: str, files: tuple[str, ...], system: bool, title: str | None
) -> None:
    scenery.root.wsl(adapter("32.0.31041.3013"))
    if system:
        scenery.root.put("opt/rocm/lib/librocdxg.so.1", "")
    finding = told(scenery, "wsl_env_without_library", with_files(scenery, rocm, *files))
    assert (finding is None) is (title is None)
    if finding is not None and title is not None:
        assert title in finding.title and "rocenv explain wsl" in finding.commands


def test_an_env_with_librocdxg_is_fine(scenery: Scenery) -> None:
    scenery.root.wsl(adapter("32.0.31041.3013"))
    with_files(scenery, "10.0.0", f"{WHEEL}/librocdxg.so.1")
    assert scenery.sees("wsl_without_runtime") is None


def test_machines_without_wsl_have_no_wsl_findings(scenery: Scenery) -> None:
    scenery.healthy().environ["HSA_ENABLE_DXG_DETECTION"] = "0"
    context = scenery.context()
    checks = [each for each in checks_for(context) if each.name.startswith("wsl_")]
    assert len(checks) == 6 and run(context, checks, "en") == []
