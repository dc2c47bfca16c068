"""`rocenv doctor` on a live Windows system, with Wine's registry, System32, event log and folders."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.windows.conftest import show
from tests.windows.lab import Step

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.windows.lab import Lab

pytestmark = pytest.mark.windows

HOME = {"ROCENV_HOME": r"C:\doctor", "ROCENV_TARGET": "gfx1031"}


def findings(lab: Lab, *options: str, **env: str) -> tuple[int, Mapping[str, Any]]:
    """Run `doctor`; return the number of checks and the findings by check."""
    step = Step([lab.rocenv, "doctor", "--json", *options], env=HOME | env)
    [done] = lab.run(step)
    show(step, done)
    document = json.loads(done.out)
    found = {each["check"]: each for each in document["findings"]}
    is_wrong = any(each["severity"] == "error" for each in document["findings"])
    assert done.code == int(is_wrong), done.text
    return document["checks_run"], found


def test_every_check_runs_on_windows(lab: Lab) -> None:
    """Every check works on a live Windows system, and a normal home produces no findings."""
    count, found = findings(lab)
    assert count > 15
    assert not [each for each in found.values() if each["code"] == "check-failed"], found
    assert not {"home_too_deep", "home_in_cloud", "hip_path_stale", "other_hip_on_path"} & set(found)


def test_doctor_finds_wrong_variables_and_folders(lab: Lab) -> None:
    other = lab.wine / "drive_c" / "other hip"
    other.mkdir(exist_ok=True)
    (other / "amdhip64.dll").write_bytes(b"MZ of another program")
    home = r"C:\Users\user\OneDrive\rocenv"
    _count, found = findings(
        lab,
        HIP_PATH="C:\\gone\\",
        PATH=r"C:\windows\system32;C:\other hip",
        OneDrive=r"C:\Users\user\OneDrive",
        ROCENV_HOME=home,
    )
    assert found["hip_path_stale"]["evidence"] == [r"HIP_PATH=C:\gone"]
    assert r"C:\other hip" in found["other_hip_on_path"]["detail"]
    assert home in found["home_in_cloud"]["detail"]


def test_zluda_in_system32_is_found(lab: Lab) -> None:
    """The check reads System32, and its message is available in Chinese."""
    library = lab.wine / "drive_c" / "windows" / "system32" / "nvcuda.dll"
    had = library.read_bytes() if library.exists() else None
    library.write_bytes(b"MZ of a ZLUDA")
    try:
        count, found = findings(lab, "--check", "zluda_in_system32", "--lang", "zh")
    finally:
        library.unlink()
        if had is not None:
            library.write_bytes(had)
    assert count == 1
    assert "没有 NVIDIA 显卡" in found["zluda_in_system32"]["title"]
