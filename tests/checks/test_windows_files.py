"""Windows file checks, run on machine snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocenv.checks import windows_files
from rocenv.checks.run import render_in, run
from rocenv.home import Home
from tests.checks.scenery import checks_of
from tests.checks.test_windows import ADAPTER, Machine, machine, matrix, rendered
from tests.host.test_defender import EVENT
from tests.launch.lab import Lab

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["machine", "matrix"]  # fixtures

LONG_PATHS = r"SYSTEM\CurrentControlSet\Control\FileSystem"
EXCLUSIONS = r"SOFTWARE\Microsoft\Windows Defender\Exclusions\Paths"
REAL_TIME = r"SOFTWARE\Microsoft\Windows Defender\Real-Time Protection"


@pytest.fixture
def with_env(machine: Machine, tmp_path: Path) -> Machine:
    """A machine with a ZLUDA env."""
    machine.env(Lab(tmp_path).make_zluda())
    return machine


def taken(path: str) -> str:
    return EVENT.format(when="2026-11-20T10:00:00.1Z", threat="Trojan:Win32/X", path=f"file:_{path}")


def test_a_good_machine_has_no_findings(with_env: Machine) -> None:
    with_env.files["registry.json"] |= {LONG_PATHS: {"LongPathsEnabled": 0}}
    with_env.files["defender.xml"] = ""
    with_env.environ |= {"OneDrive": r"C:\Users\user\OneDrive", "ROCENV_HOME": r"C:\rocenv"}
    assert run(with_env.context(), checks_of(windows_files), "en") == []


def test_an_empty_snapshot_has_no_findings(with_env: Machine) -> None:
    with_env.files, with_env.environ = {}, {}
    assert run(with_env.context(), checks_of(windows_files), "en") == []


def test_a_missing_visual_c_runtime_is_reported(machine: Machine) -> None:
    del machine.files["system32.json"]["vcruntime140_1.dll"]
    context = machine.context()
    text = rendered(windows_files.vc_runtime_missing(context), context, "vc_runtime_missing")
    assert "vcruntime140_1.dll" in text
    assert "winget install" in text


@pytest.mark.parametrize(("version", "is_old"), [("14.38.33135.0", True), ("14.40.33810.0", False)])
def test_an_old_visual_c_runtime_is_reported(machine: Machine, version: str, is_old: bool) -> None:
    machine.files["system32.json"]["msvcp140.dll"] = version
    context = machine.context()
    seen = windows_files.vc_runtime_old(context)
    assert (seen is not None) == is_old
    if is_old:
        assert version in rendered(seen, context, "vc_runtime_old")


def test_a_quarantined_env_file_is_reported(with_env: Machine) -> None:
    path = with_env.envs[0].prefix.path / "zluda" / "nccl.dll"
    with_env.files["defender.xml"] = taken(str(path).replace("/", "\\"))
    context = with_env.context()
    text = rendered(windows_files.defender_took(context), context, "defender_took_of_env")
    assert "Trojan:Win32/X" in text
    assert "rocenv repair sd" in text


def test_each_envs_quarantined_files_are_reported(machine: Machine, tmp_path: Path) -> None:
    """The report contains one repair command per env."""
    lab = Lab(tmp_path)
    for name in ("one", "two"):
        prefix = lab.make_zluda(name)
        machine.env(prefix)
        path = str(prefix.path / "zluda" / "nccl.dll").replace("/", "\\")
        machine.files["defender.xml"] = machine.files.get("defender.xml", "") + taken(path)
    found = windows_files.defender_took(machine.context())
    assert [each.values["env"] for each in found] == ["one", "two"]


def test_an_apps_quarantined_zluda_files_are_reported(machine: Machine) -> None:
    machine.files["defender.xml"] = taken(r"C:\app\.zluda\nvcuda.dll") + taken(r"C:\Users\user\setup.exe")
    context = machine.context()
    text = rendered(windows_files.defender_took(context), context, "defender_took_zluda")
    assert r"Add-MpPreference -ExclusionPath C:\app\.zluda" in text
    assert "setup.exe" not in text, "this file is not part of ZLUDA"


def test_restored_files_and_removed_folders_are_ignored(machine: Machine, tmp_path: Path) -> None:
    """On this machine, unlike in a snapshot, the check knows which files still exist."""
    (tmp_path / "app").mkdir()
    file = tmp_path / "app" / "nvcuda.dll"
    machine.files["defender.xml"] = taken(str(file)) + taken(str(tmp_path / "gone" / "nvcuda.dll"))
    context = machine.context(elsewhere=False)
    [seen] = windows_files.defender_took(context)
    assert len(seen.evidence) == 1
    file.touch()
    assert windows_files.defender_took(context) == ()


@pytest.mark.parametrize(
    ("rows", "is_told"),
    [
        ({}, True),
        ({"C:\\Games": 0}, True),
        ({"C:\\rocenv": 0}, False),
        ({"c:\\*\\": 0}, False),
        ({"C:\\": 0}, False),
        (None, False),
    ],
)
def test_a_folder_that_defender_scans_is_reported(
    with_env: Machine, rows: dict[str, int] | None, is_told: bool
) -> None:
    """Only administrators can read Defender's exclusions, so unreadable exclusions are not a finding."""
    with_env.environ["ROCENV_HOME"] = r"C:\rocenv"
    with_env.files["registry.json"][EXCLUSIONS] = rows
    context = with_env.context()
    seen = windows_files.defender_not_told(context)
    assert (seen is not None) == is_told
    if is_told:
        assert "Add-MpPreference" in rendered(seen, context, "defender_not_told")


def test_a_disabled_defender_is_ignored(with_env: Machine) -> None:
    with_env.files["registry.json"] |= {EXCLUSIONS: {}, REAL_TIME: {"DisableRealtimeMonitoring": 1}}
    assert windows_files.defender_not_told(with_env.context()) is None


def test_a_home_with_a_long_path_is_reported(machine: Machine) -> None:
    machine.environ["ROCENV_HOME"] = "C:\\Users\\user\\" + "deep\\" * 30 + "rocenv"
    machine.files["registry.json"][LONG_PATHS] = {"LongPathsEnabled": 0}
    context = machine.context()
    assert "setx ROCENV_HOME" in rendered(windows_files.home_too_deep(context), context, "home_too_deep")
    machine.files["registry.json"][LONG_PATHS] = {"LongPathsEnabled": 1}
    assert windows_files.home_too_deep(machine.context()) is None


def test_a_home_in_onedrive_is_reported(machine: Machine) -> None:
    machine.environ |= {
        "ONEDRIVE": r"C:\Users\user\OneDrive",
        "ROCENV_HOME": r"c:\users\user\onedrive\rocenv",
    }
    context = machine.context()
    assert "OneDrive" in rendered(windows_files.home_in_cloud(context), context, "home_in_cloud")
    machine.environ["ROCENV_HOME"] = r"C:\Users\user\OneDrive - old\rocenv"
    assert windows_files.home_in_cloud(machine.context()) is None, "the folder is next to OneDrive's folder"


@pytest.mark.parametrize(
    ("home", "folder"),
    [
        (r"C:\Users\user\Dropbox\rocenv", r"C:\Users\user\Dropbox"),
        (r"D:\dropbox (Team)\ai\rocenv", r"D:\dropbox (Team)"),
        (r"G:\My Drive\rocenv", r"G:\My Drive"),
        (r"C:\Users\user\iCloudDrive\rocenv", r"C:\Users\user\iCloudDrive"),
        (r"C:\dropboxes\rocenv", ""),
    ],
)
def test_a_home_in_another_cloud_folder_is_reported(machine: Machine, home: str, folder: str) -> None:
    machine.environ["ROCENV_HOME"] = home
    context = machine.context()
    seen = windows_files.home_in_cloud(context)
    if folder:
        assert f"`{folder}`" in rendered(seen, context, "home_in_cloud")
    else:
        assert seen is None


def test_a_windows_folder_on_another_drive_is_ignored(with_env: Machine) -> None:
    """The finding must not suggest removing the Windows folder from PATH."""
    own = r"D:\Windows\System32"
    with_env.files["folders.json"][own] = ["nvcuda.dll", "amdhip64.dll"]
    with_env.environ |= {"Path": own + r";D:\Windows\x", "SYSTEMROOT": r"D:\Windows"}
    with_env.files["folders.json"][r"D:\Windows\x"] = ["nvcuda.dll"]
    for _said in (True, False):
        context = with_env.context()
        assert windows_files.other_zluda_on_path(context) is None
        assert windows_files.other_hip_on_path(context) is None
        with_env.environ.pop("SYSTEMROOT", None)


@pytest.mark.parametrize(
    ("home", "word"),
    [
        (r"C:\Users\Jane Doe\rocenv", r'"C:\Users\Jane Doe\rocenv"'),
        (r"C:\Users\张三\rocenv (1)", r'"C:\Users\张三\rocenv (1)"'),
        (r"C:\Users\a$(calc)\rocenv", ""),
    ],
)
def test_a_home_path_with_special_characters_is_quoted_or_omitted_in_commands(
    with_env: Machine, home: str, word: str
) -> None:
    with_env.environ["ROCENV_HOME"] = home
    with_env.files["registry.json"] |= {EXCLUSIONS: {}, REAL_TIME: {}}
    context = with_env.context()
    seen = windows_files.defender_not_told(context)
    assert seen is not None
    finding = render_in(context, "x", seen, "en")
    assert finding.commands == ((f"Add-MpPreference -ExclusionPath {word}",) if word else ())


def test_a_home_in_onedrive_is_reported_on_this_machine(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OneDriveConsumer", str(tmp_path))
    machine.home = Home(tmp_path / "rocenv")
    assert windows_files.home_in_cloud(machine.context(elsewhere=False)) is not None


def test_a_different_zluda_build_on_path_is_reported(with_env: Machine) -> None:
    with_env.files["folders.json"][r"C:\ZLUDA"] = ["nvcuda.dll", "zluda.exe", "cublas64_11.dll"]
    with_env.environ["Path"] += r';"C:\ZLUDA\"'
    context = with_env.context()
    text = rendered(windows_files.other_zluda_on_path(context), context, "other_zluda_on_path")
    assert r"C:\ZLUDA" in text
    with_env.envs.clear()
    assert windows_files.other_zluda_on_path(with_env.context()) is None, (
        "without a ZLUDA env, there is no difference to report"
    )


def test_zluda_in_system32_is_reported(machine: Machine) -> None:
    machine.files["system32.json"]["nvcuda.dll"] = ""
    context = machine.context()
    assert "System32" in rendered(windows_files.zluda_in_system32(context), context, "zluda_in_system32")
    machine.adapters = [ADAPTER, {"Name": "NVIDIA GeForce RTX 4070"}]
    assert windows_files.zluda_in_system32(machine.context()) is None, "the file belongs to NVIDIA's driver"


def test_a_copy_of_hip_on_path_is_reported(machine: Machine) -> None:
    machine.files["folders.json"][r"C:\tools"] = ["amdhip64_6.dll"]
    machine.environ["Path"] += r";C:\tools"
    context = machine.context()
    assert r"C:\tools" in rendered(windows_files.other_hip_on_path(context), context, "other_hip_on_path")
