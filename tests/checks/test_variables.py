"""Checks on variables that affect every program."""

from __future__ import annotations

import pytest

from tests.checks.scenery import RAPHAEL, RX_6800, Scenery
from tests.host.roots import GIB

RX_6750 = 0x73DF


def rocm(scenery: Scenery, folder: str, version: str) -> None:
    major = version.partition(".")[0]
    for name in (f"libamdhip64.so.{version}", f"libamdhip64.so.{major}", "libamdhip64.so"):
        scenery.root.put(f"{folder}/{name}", "")


@pytest.mark.parametrize(
    ("value", "severity"),
    [("10.3.0", "error"), ("gfx1030", "error"), ("11.0.0", "info"), ("10.3", "error"), ("9.0.0", "error")],
)
def test_an_unnecessary_override_is_reported(scenery: Scenery, value: str, severity: str) -> None:
    scenery.healthy().environ["HSA_OVERRIDE_GFX_VERSION"] = value
    finding = scenery.sees("override_wrong")
    assert finding is not None and finding.code == "hsa-override-wrong" and finding.severity == severity
    assert finding.evidence[0] == f"HSA_OVERRIDE_GFX_VERSION={value}"
    assert "unset HSA_OVERRIDE_GFX_VERSION" in finding.commands


def test_a_useful_override_outside_envs_is_reported(scenery: Scenery) -> None:
    scenery.root.kernel().cpu().gpu(1, RX_6750, 100301)
    scenery.environ["HSA_OVERRIDE_GFX_VERSION"] = "10.3.0"
    finding = scenery.sees("override_wrong")
    assert finding is not None and finding.severity == "info" and "every program" in finding.title
    assert not any("unset" in command for command in finding.commands)
    scenery.environ["PATH"] = f"{scenery.folder}/home/envs/sd/venv/bin:/usr/bin"
    assert scenery.sees("override_wrong") is None, "the active env sets it"


def test_an_override_for_a_different_generation_is_an_error(scenery: Scenery) -> None:
    scenery.root.kernel().cpu().gpu(1, RX_6750, 100301)
    scenery.environ["HSA_OVERRIDE_GFX_VERSION"] = "9.0.6"
    finding = scenery.sees("override_wrong")
    assert finding is not None and finding.severity == "error" and "gfx1031" in finding.title


def test_an_override_that_breaks_another_card_is_reported(scenery: Scenery) -> None:
    scenery.healthy().root.gpu(2, RX_6800, 100300)
    scenery.environ["HSA_OVERRIDE_GFX_VERSION"] = "10.3.0"
    finding = scenery.sees("override_wrong")
    assert finding is not None and "gfx1100" in finding.title


def test_a_variable_that_points_to_a_removed_rocm_is_reported(scenery: Scenery) -> None:
    scenery.elsewhere = False
    rocm(scenery.healthy(), "opt/rocm-6.4.1/lib", "6.4.60401")
    scenery.environ.update(
        ROCM_PATH="/opt/rocm-5.7.1", LD_LIBRARY_PATH="/opt/rocm-5.7.1/lib:/usr/local/cuda/lib"
    )
    finding = scenery.sees("rocm_path_stale")
    assert finding is not None and finding.code == "hip-path-unset"
    assert finding.evidence == ("ROCM_PATH: /opt/rocm-5.7.1", "LD_LIBRARY_PATH: /opt/rocm-5.7.1/lib")
    assert "/opt/rocm-6.4.1" in finding.instructions[0]
    scenery.environ.update(ROCM_PATH="/opt/rocm-6.4.1", LD_LIBRARY_PATH="/opt/rocm-6.4.1/lib")
    assert scenery.sees("rocm_path_stale") is None and scenery.sees("rocm_paths_differ") is None


def test_the_command_unsets_a_stale_variable_if_no_rocm_is_installed(scenery: Scenery) -> None:
    scenery.elsewhere = False
    scenery.healthy().environ["ROCM_PATH"] = "/opt/rocm-5.7.1"
    finding = scenery.sees("rocm_path_stale")
    assert finding is not None and finding.commands[0] == "unset ROCM_PATH" and len(finding.steps) == 2


@pytest.mark.parametrize(
    ("release", "command"),
    [('ID=linuxmint\nID_LIKE="ubuntu debian"\n', "dpkg"), ("ID=fedora\n", "rpm"), ("ID=arch\n", "pacman")],
)
def test_installed_packages_are_listed_with_the_distributions_command(
    scenery: Scenery, release: str, command: str
) -> None:
    rocm(scenery.healthy(), "opt/rocm-6.4.1/lib", "6.4.60401")
    rocm(scenery, "usr/lib/x86_64-linux-gnu", "5.7.31921")
    scenery.root.put("etc/ld.so.conf.d/10-rocm-opencl.conf", "/opt/rocm-6.4.1/lib\n")
    scenery.root.put("etc/os-release", release)
    finding = scenery.sees("two_rocms")
    assert finding is not None and len(finding.commands) == 2 and finding.commands[1].startswith(command)


def test_a_variable_is_not_stale_if_the_snapshot_omits_its_parent_folder(scenery: Scenery) -> None:
    scenery.healthy().environ["ROCM_PATH"] = "/opt/rocm-5.7.1"
    assert scenery.sees("rocm_path_stale") is None
    scenery.root.put("opt/rocm-6.4.1/.info/version", "6.4.1\n")
    assert scenery.sees("rocm_path_stale") is not None


def test_variables_that_point_to_two_releases_are_reported(scenery: Scenery) -> None:
    rocm(scenery.healthy(), "opt/rocm-6.4.1/lib", "6.4.60401")
    rocm(scenery, "opt/rocm-5.7.1/lib", "5.7.50701")
    scenery.environ.update(ROCM_PATH="/opt/rocm-6.4.1", LD_LIBRARY_PATH="/opt/rocm-5.7.1/lib")
    finding = scenery.sees("rocm_paths_differ")
    assert finding is not None and finding.code == "mixed-rocm-installs"
    assert "6.4.60401" in finding.title and "5.7.50701" in finding.title
    del scenery.environ["LD_LIBRARY_PATH"]
    scenery.environ["PATH"] = "/usr/bin:/opt/rocm-5.7.1/bin"
    assert scenery.sees("rocm_paths_differ") is not None


def test_two_runtimes_on_the_loaders_path_are_reported(scenery: Scenery) -> None:
    rocm(scenery.healthy(), "opt/rocm-6.4.1/lib", "6.4.60401")
    rocm(scenery, "usr/lib/x86_64-linux-gnu", "5.7.31921")
    assert scenery.sees("two_rocms") is None, "no search path contains the runtime in /opt"
    scenery.root.put("etc/ld.so.conf.d/10-rocm-opencl.conf", "# ROCm\n/opt/rocm-6.4.1/lib\n")
    finding = scenery.sees("two_rocms")
    assert finding is not None and finding.code == "mixed-rocm-installs"
    assert finding.evidence[0] == "/opt/rocm-6.4.1/lib: libamdhip64.so.6.4.60401"


def test_links_to_the_same_runtime_are_not_reported(scenery: Scenery) -> None:
    rocm(scenery.healthy(), "opt/rocm/lib", "6.4.60401")
    rocm(scenery, "opt/rocm-6.4.1/lib", "6.4.60401")
    scenery.environ["LD_LIBRARY_PATH"] = "/opt/rocm/lib:/opt/rocm-6.4.1/lib"
    assert scenery.all() == []


def test_the_folders_of_an_active_env_are_ignored(scenery: Scenery) -> None:
    rocm(scenery.healthy(), "usr/lib/x86_64-linux-gnu", "5.7.31921")
    inside = scenery.folder / "home/envs/sd/rocm/lib"
    rocm(scenery, str(inside).lstrip("/"), "6.4.60401")
    scenery.environ.update(LD_LIBRARY_PATH=str(inside), ROCM_PATH=str(inside.parent))
    assert scenery.sees("two_rocms") is None and scenery.sees("rocm_paths_differ") is None


def test_an_override_for_the_integrated_gpu_is_reported(scenery: Scenery) -> None:
    scenery.healthy().root.gpu(2, RAPHAEL, 100306, units=2, memory=GIB // 2, bus=0x10)
    scenery.environ["HSA_OVERRIDE_GFX_VERSION"] = "10.3.0"
    assert scenery.sees("override_wrong") is not None
