"""`rocenv resolve` and the resulting envs: Windows, overrides, integrated GPUs and user rows."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests import forked
from tests.host.roots import Root

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from tests.mini import Mini

OVERRIDE = """schema = 1
[[override]]
target = "gfx1036"
runs_as = "gfx1100"
value = "11.0.0"
verdict = "{verdict}"
note = "for the tests"
status = "tested"
source = "tests"
checked = "2026-11-20"
"""


def shipped(tmp_path: Path, *argv: str, **more: str) -> subprocess.CompletedProcess[str]:
    """A function that runs `rocenv resolve` with rocenv's own data and without a network."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("ROCENV_", "HSA_"))}
    env = {**environ, "ROCENV_HOME": str(tmp_path / "home"), "ROCENV_OFFLINE": "1", "ROCENV_TARGET": ""}
    env |= more
    return forked.run_text(["resolve", *argv], env=env, cwd=tmp_path)


def plan(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


# ---------------------------------------------------------------- Windows sets


def test_a_set_with_zluda_is_planned_on_any_machine(tmp_path: Path) -> None:
    wish = ("--platform", "windows", "--target", "gfx1031", "--rocm", "5.7", "--zluda")
    found = plan(shipped(tmp_path, *wish, "--json"))
    parts = {part["kind"]: part for part in found["components"]}
    assert list(parts) == ["rocm", "zluda", "libraries", "torch"]
    assert parts["rocm"]["version"] == "5.7.1"
    (archive,) = parts["zluda"]["artifacts"]
    assert archive["url"].startswith("https://github.com/lshqqytiger/ZLUDA/releases/download/rel.5e717459")
    assert archive["url"].endswith("/ZLUDA-windows-rocm5-amd64.zip")
    assert (archive["sha256"], archive["size_bytes"]) == (None, None), (
        "the hashes of these files are not published"
    )
    assert parts["torch"]["version"] == "2.7.1+cu118"
    assert parts["torch"]["python"] == "3.11", "app developers recommend this build with HIP SDK 5.7"
    environment = found["environment"]
    assert environment["DISABLE_ADDMM_CUDA_LT"] == "1"
    assert environment["TORCH_HOME"] == "{prefix}\\cache\\torch"
    assert environment["HIP_PATH"] == environment["HIP_PATH_57"] == "{prefix}\\rocm\\5.7\\"
    assert environment["PATH"].split(";")[1] == "{prefix}\\venv\\Scripts"
    assert not {"LD_LIBRARY_PATH", "XDG_CACHE_HOME"} & set(environment), "the sets are for Linux only"
    assert "torch" not in {
        part["kind"] for part in plan(shipped(tmp_path, *wish, "--no-torch", "--json"))["components"]
    }


def test_a_known_broken_set_is_not_planned(tmp_path: Path) -> None:
    wish = ("--platform", "windows", "--target", "gfx1031", "--rocm", "6.1", "--zluda")
    found = plan(shipped(tmp_path, *wish, "--json"))
    assert [part["version"] for part in found["components"] if part["kind"] == "zluda"] == ["3.8.4"]
    assert any("avoided" in note and "0xC0000005" in note for note in found["notes"])
    done = shipped(tmp_path, *wish, "3.8.3")
    assert done.returncode == 1
    assert "sdnext/issues/3414" in done.stderr
    assert "hint: rocenv resolve --platform windows --rocm 6.1 --zluda 3.8.4 --target gfx1031" in done.stderr


def test_a_plan_for_windows_cannot_be_installed_on_linux(mini: Mini) -> None:
    del mini.env["ROCENV_PROFILES"]
    wish = ("--platform", "windows", "--target", "gfx1100", "--zluda")
    done = mini.run("create", "sd", *wish, "--json")
    assert (done.returncode, json.loads(done.stdout)["error"]) == (1, "not-installable")
    assert not mini.prefix("sd").exists()
    done = mini.run("create", "sd", "--platform", "windows", "--json")
    assert (done.returncode, json.loads(done.stdout)["error"]) == (1, "no-gpu"), (
        "a plan for Windows must not use this machine's GPU"
    )


def test_zluda_requires_windows(tmp_path: Path) -> None:
    done = shipped(tmp_path, "--platform", "linux", "--target", "gfx1100", "--zluda")
    assert done.returncode == 1
    assert "ZLUDA is for Windows" in done.stderr
    assert "hint: rocenv resolve --torch --target gfx1100" in done.stderr


def test_commands_suggested_for_a_card_without_pytorch_work(tmp_path: Path) -> None:
    wish = ("--platform", "linux", "--torch", "--target", "RX 580")
    done = shipped(tmp_path, *wish)
    assert done.returncode == 1
    hints = re.findall(r"hint: (.*): `rocenv resolve (.*)`", done.stderr)
    assert [label for label, _ in hints] == ["without PyTorch", "on Windows, with ZLUDA"]
    assert [shipped(tmp_path, *options.split()).returncode for _, options in hints] == [0, 0]
    suggested = json.loads(shipped(tmp_path, *wish, "--json").stdout)["suggestions"]
    assert [each["command"] for each in suggested] == [f"rocenv resolve {options}" for _, options in hints]


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        (0x6818, ("ROCm never supported GCN 1", "Vulkan programs can use it", "for another machine")),
        (0x67DF, ("no driver is bound to it; load `amdgpu`", "`rocenv doctor`", "`--target gfx803`")),
        (
            None,
            (
                "this machine has no AMD GPU, only NVIDIA",
                '`rocenv resolve --torch --target "',
                "`rocenv diagnose`",
                "verified up to `compile`",
            ),
        ),
    ],
)
def test_a_next_step_is_suggested_on_a_machine_without_a_usable_gpu(
    mini: Mini, device: int | None, expected: tuple[str, ...]
) -> None:
    del mini.env["ROCENV_PROFILES"], mini.env["ROCENV_TARGET"]
    root = Root(mini.sysroot).kernel()
    if device is None:
        root.card("0000:09:00.0", 0x2684, vendor=0x10DE, driver="nvidia")
    else:
        root.card("0000:09:00.0", device, driver="radeon" if device == 0x6818 else "")
    done = mini.run("resolve", "--torch")
    assert done.returncode == 1
    for text in expected:
        assert text in done.stderr


@pytest.mark.parametrize("driver", ["new", "25.5.1; rm", ""])
def test_an_invalid_driver_version_is_a_usage_error(tmp_path: Path, driver: str) -> None:
    done = shipped(tmp_path, "--platform", "windows", "--target", "gfx1100", "--zluda", "--driver", driver)
    assert done.returncode == (2 if driver else 0)
    assert ("is not a valid version for `--driver`" in done.stderr) is bool(driver)


def test_commands_suggested_on_windows_are_for_windows(mini: Mini) -> None:
    del mini.env["ROCENV_PROFILES"], mini.env["ROCENV_TARGET"]
    Root(mini.sysroot).windows({"device": 0, "name": "AMD Radeon RX 6750 XT", "gcnArchName": "gfx1031"})
    found = plan(mini.run("resolve", "--rocm", "6.1", "--zluda", "--json"))
    assert (found["platform"], found["target"]) == ("windows", "gfx1031")
    done = mini.run("resolve", "--rocm", "6.1", "--zluda", "3.8.3")
    assert "hint: rocenv resolve --rocm 6.1 --zluda 3.8.4 --target gfx1031" in done.stderr
    done = mini.run("resolve", "--platform", "linux", "--rocm", "6.2", "--target", "gfx1201")
    assert "hint: rocenv resolve --platform linux --rocm 7.2.4 --target gfx1201" in done.stderr


def test_a_plan_ends_with_the_command_that_creates_its_env(mini: Mini) -> None:
    planned = mini.run("resolve", "--rocm", ">=6.1,<6.5", "--channel", "mini", "--no-torch")
    label, _, command = planned.stderr.splitlines()[-1].partition(": `")
    assert (label, command) == (
        "create the env",
        "rocenv create --rocm '>=6.1,<6.5' --no-torch --channel mini`",
    )
    created = mini.run(*shlex.split(command.rstrip("`"))[1:], "-y", "--dry-run")
    assert created.returncode == 0 and planned.stdout in created.stdout
    elsewhere = mini.run("resolve", "--zluda", "--platform", "windows", "--target", "gfx1031", "--offline")
    assert "create the env" not in elsewhere.stderr


def test_a_plan_for_several_targets_lists_all_of_them(tmp_path: Path) -> None:
    wish = ("--channel", "amd", "--target", "gfx1100, gfx1201,gfx1100")
    found = plan(shipped(tmp_path, *wish, "--json"))
    assert (found["target"], found["targets"]) == ("gfx1100", ["gfx1100", "gfx1201"])
    assert "Plan for gfx1100, gfx1201 on Linux" in shipped(tmp_path, *wish).stdout
    alone = plan(shipped(tmp_path, "--channel", "amd", "--target", "gfx1100", "--json"))
    assert "targets" not in alone


def test_a_zluda_set_supports_one_target(tmp_path: Path) -> None:
    done = shipped(tmp_path, "--platform", "windows", "--zluda", "--target", "gfx1100,gfx1201")
    assert done.returncode == 2
    assert "a set with ZLUDA supports only one target" in done.stderr


def test_a_set_without_file_lists_is_shown_with_a_note(tmp_path: Path) -> None:
    done = shipped(tmp_path, "--target", "gfx942", "--json")
    found = plan(done)
    assert all(part["artifacts"] == [] for part in found["components"])
    assert "`create` would fail now, because the package lists could not be downloaded" in found["notes"]
    assert "hint: unset ROCENV_OFFLINE" in found["notes"]


def test_a_note_on_a_plan_says_where_to_get_an_app_that_is_not_included(tmp_path: Path) -> None:
    found = plan(shipped(tmp_path, "--app", "comfyui", "--target", "gfx1100", "--json"))
    assert "`git clone https://github.com/Comfy-Org/ComfyUI`" in found["notes"][0]


def test_the_error_for_an_unknown_channel_lists_the_known_ones(mini: Mini) -> None:
    done = mini.run("resolve", "--channel", "minni")
    assert done.returncode == 2
    assert "error: unknown channel `minni`" in done.stderr
    assert "hint: did you mean `--channel mini`?" in done.stderr
    assert "hint: channels: mini" in done.stderr


# ---------------------------------------------------------------- overrides


def test_an_override_is_set_only_in_the_env(mini: Mini) -> None:
    (mini.root / "profiles" / "override.toml").write_text(OVERRIDE.format(verdict="ok"))
    found = plan(mini.run("resolve", "--rocm", "5.7", "--target", "gfx1036", "--json"))
    assert (found["target"], found["runs_as"]) == ("gfx1036", "gfx1100")
    assert found["environment"]["HSA_OVERRIDE_GFX_VERSION"] == "11.0.0"
    assert any(
        note.startswith("gfx1036 runs as gfx1100: the env sets HSA_OVERRIDE_GFX_VERSION=11.0.0")
        for note in found["notes"]
    )
    mini.create("demo", "--target", "gfx1036")
    said = mini.run(
        "run", "demo", "--", "sh", "-c", "echo $HSA_OVERRIDE_GFX_VERSION", HSA_OVERRIDE_GFX_VERSION="9.0.0"
    )
    assert said.stdout == "11.0.0\n"
    native = plan(mini.run("resolve", "--rocm", "5.7", "--target", "gfx1100", "--json"))
    assert "HSA_OVERRIDE_GFX_VERSION" not in native["environment"]
    assert native["runs_as"] == "gfx1100"


def test_a_blocked_override_is_reported_with_its_source(mini: Mini) -> None:
    (mini.root / "profiles" / "override.toml").write_text(OVERRIDE.format(verdict="block"))
    done = mini.run("resolve", "--rocm", "5.7", "--target", "gfx1036", "--json")
    assert done.returncode == 1
    lines = json.loads(done.stdout)["conflict"]
    assert any("HSA_OVERRIDE_GFX_VERSION=11.0.0" in line["requirement"] for line in lines)
    assert any(line["source"] == "tests" for line in lines)


# ---------------------------------------------------------------- the machine's GPUs


def test_the_env_hides_the_igpu_alongside_the_card(mini: Mini) -> None:
    del mini.env["ROCENV_TARGET"]
    Root(mini.sysroot).kernel().cpu().gpu(1, 0x1681, 100305, units=6).gpu(2, 0x744C, 110000, units=96)
    (mini.root / "profiles" / "gpus.toml").write_text(_GPUS)
    done = mini.run("resolve", "--rocm", "5.7", "--json")
    found = plan(done)
    assert found["target"] == "gfx1100", "the env selects the card, although the kernel lists the iGPU first"
    assert found["environment"]["HIP_VISIBLE_DEVICES"] == "1"
    assert "HIP_VISIBLE_DEVICES=1 in the env hides the iGPU" in done.stderr
    other = plan(mini.run("resolve", "--rocm", "5.7", "--target", "gfx1030", "--json"))
    assert "HIP_VISIBLE_DEVICES" not in other["environment"], "the env is not for the card in this machine"


def test_the_env_for_one_of_several_cards_also_hides_the_igpu(mini: Mini) -> None:
    del mini.env["ROCENV_TARGET"]
    root = Root(mini.sysroot).kernel().cpu().gpu(1, 0x1681, 100305, units=6)
    root.gpu(2, 0x744C, 110000, units=96).gpu(3, 0x73BF, 100300, memory=8 << 30)
    (mini.root / "profiles" / "gpus.toml").write_text(_GPUS)
    found = plan(mini.run("resolve", "--rocm", "5.7", "--target", "gfx1030", "--json"))
    assert found["environment"]["HIP_VISIBLE_DEVICES"] == "2,1", "programs use the first GPU in the list"
    both = mini.run("resolve", "--rocm", "5.7", "--target", "gfx1100,gfx1030", "--json")
    assert plan(both)["environment"]["HIP_VISIBLE_DEVICES"] == "1,2"
    assert "HIP_VISIBLE_DEVICES=1,2 in the env hides the iGPU" in both.stderr


def test_a_note_on_a_set_for_two_targets_names_the_target_without_kernels(mini: Mini) -> None:
    for targets in ("gfx1100,gfx1030", "gfx1030,gfx1100"):
        found = plan(mini.run("resolve", "--rocm", "5.7", "--target", targets, "--json"))
        (warning,) = found["warnings"]
        assert "no kernels for gfx1030," in warning
        assert found["components"][0]["why"].endswith("only its compiler supports gfx1030")


def test_gpu_numbers_are_those_of_the_machine_that_creates_the_env(mini: Mini) -> None:
    del mini.env["ROCENV_TARGET"]
    here = Root(mini.sysroot).kernel().cpu().gpu(1, 0x1681, 100305, units=6).gpu(2, 0x744C, 110000, units=96)
    (mini.root / "profiles" / "gpus.toml").write_text(_GPUS)
    assert mini.run("create", "one", "--rocm", "5.7", "--no-verify").returncode == 0
    lock = mini.root / "one.lock"
    assert mini.run("lock", "one", "-o", str(lock)).returncode == 0
    argv = ("create", "two", "--from", str(lock), "--dry-run", "--json")
    assert plan(mini.run(*argv))["environment"]["HIP_VISIBLE_DEVICES"] == "1"
    assert "HIP_VISIBLE_DEVICES" not in plan(mini.run(*argv, ROCENV_TARGET=""))["environment"]
    shutil.rmtree(here.path / "sys")
    here.gpu(1, 0x744C, 110000, units=96).gpu(2, 0x1681, 100305, units=6)
    assert plan(mini.run(*argv))["environment"]["HIP_VISIBLE_DEVICES"] == "0"


def test_a_lock_cannot_control_the_terminal(mini: Mini) -> None:
    mini.create("one", "--rocm", "5.7")
    lock = json.loads(mini.run("lock", "one").stdout)
    lock["notes"] = ["harmless \x1b[2J\x1b]0;title\x07"]
    lock["components"][0]["why"] = "\x1b[31mred"
    path = mini.root / "foreign.lock"
    path.write_text(json.dumps(lock))
    done = mini.run("create", "two", "--from", str(path), "--dry-run")
    assert done.returncode == 1
    assert "unprintable character" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_the_original_target_can_be_requested_despite_an_override(mini: Mini) -> None:
    (mini.root / "profiles" / "override.toml").write_text(OVERRIDE.format(verdict="ok"))
    argv = ("create", "demo", "--rocm", "5.7", "--target", "gfx1036", "--no-verify")
    assert mini.run(*argv).returncode == 0
    for more in ((), ("--target", "gfx1036"), ("--target", "gfx1100")):
        done = mini.run("verify", "demo", "--upto", "files", "--json", *more)
        assert (done.returncode, json.loads(done.stdout)["target"]) == (0, "gfx1100"), more


_ROW = 'status = "tested"\nsource = "tests"\nchecked = "2026-11-20"\n'
_GPUS = "schema = 1\n" + "".join(
    f'[[target]]\nname = "{name}"\narch = "a"\nkind = "{kind}"\nwave = 32\nproducts = "p"\n{_ROW}'
    for name, kind in (("gfx1035", "apu"), ("gfx1100", "card"), ("gfx1030", "card"))
)


# ---------------------------------------------------------------- WSL

_SWITCH = "HSA_ENABLE_DXG_DETECTION"
_WSL = f"""schema = 1
[[environment]]
change = {{ action = "set", name = "{_SWITCH}", value = "1" }}
when = "wsl"
rocm = ">=6"
reason = "ROCm looks for the GPU there"
{_ROW}
[[wsl]]
rocm = ">=6"
library = "separate"
needs = "a library of its own"
driver = "26.1"
driver_file = "32.0.31000.5"
{_ROW}"""


def on_wsl(mini: Mini, driver: str = "") -> None:
    del mini.env["ROCENV_TARGET"]
    (mini.root / "profiles" / "wsl.toml").write_text(_WSL)
    adapter = {"Name": "AMD Radeon RX 7900 XTX", "PNPDeviceID": r"PCI\VEN_1002&DEV_744C&REV_C8"}
    root = Root(mini.sysroot)
    (mini.root / "profiles" / "gpus.toml").write_text(
        _GPUS + f'[[pci]]\ndevice = "744c"\ntarget = "gfx1100"\n{_ROW}'
    )
    if driver:
        root.wsl({**adapter, "DriverVersion": driver})
    else:
        root.wsl()


def test_an_env_on_wsl_enables_gpu_access(mini: Mini) -> None:
    on_wsl(mini, "32.0.31000.5")
    done = mini.run("resolve", "--rocm", "6.4", "--json")
    found = plan(done)
    assert (found["target"], found["environment"][_SWITCH]) == ("gfx1100", "1")
    assert f"{_SWITCH}=1 in the env: ROCm looks for the GPU there" in found["notes"]
    assert "on WSL, ROCm 6.4.3 needs a library of its own (`rocenv explain wsl`)" in found["notes"]
    assert not any("display driver" in note for note in found["notes"]), "the driver is new enough"
    assert _SWITCH not in plan(mini.run("resolve", "--rocm", "5.7", "--json"))["environment"], (
        "ROCm 5.7 does not support WSL"
    )


def test_an_old_windows_driver_is_reported_on_wsl(mini: Mini) -> None:
    on_wsl(mini, "32.0.31000.4")
    shown = " ".join(mini.run("resolve", "--rocm", "6.4").stdout.split())
    assert "display driver 26.1 (DriverVersion 32.0.31000.5) or newer; Windows has 32.0.31000.4" in shown


def test_an_explicit_target_suffices_if_windows_does_not_list_its_gpus(mini: Mini) -> None:
    on_wsl(mini)
    silent = mini.run("resolve", "--rocm", "6.4")
    assert (silent.returncode, "--target" in silent.stderr) == (1, True)
    assert "Windows did not list its GPUs" in silent.stderr
    assert "another machine" not in silent.stderr, "the target is for the GPU in this machine"
    found = plan(mini.run("resolve", "--rocm", "6.4", "--target", "gfx1100", "--json"))
    assert found["environment"][_SWITCH] == "1"
    assert any("the installed version is unknown" in note for note in found["notes"])
    for driver, sufficient in (
        ("26.1", True),
        ("26.10.41.05", True),
        ("25.12.1", False),
        ("32.0.31000.4", False),
    ):
        argv = ("resolve", "--rocm", "6.4", "--target", "gfx1100", "--driver", driver, "--json")
        notes = plan(mini.run(*argv))["notes"]
        assert any(f"`--driver` is {driver}" in note for note in notes) is not sufficient, (driver, notes)
        assert not any("driver skew" in note or "is unknown" in note for note in notes), (
            "the driver is that of Windows"
        )


def test_a_lock_from_wsl_works_on_other_systems(mini: Mini) -> None:
    on_wsl(mini, "32.0.31000.5")
    done = mini.run("create", "one", "--rocm", "6.4", "--no-verify")
    assert done.returncode == 0, done.stderr
    lock = mini.root / "one.lock"
    assert mini.run("lock", "one", "-o", str(lock)).returncode == 0
    argv = ("create", "two", "--from", str(lock), "--dry-run", "--json")
    again = mini.run(*argv)
    assert plan(again)["environment"][_SWITCH] == "1"
    assert f"{_SWITCH}=1 in the env" in again.stderr
    (mini.sysroot / "dev" / "dxg").unlink()
    native = plan(mini.run(*argv))
    assert _SWITCH not in native["environment"]
    assert not any(_SWITCH in note for note in native["notes"])


def test_the_shipped_rows_cover_wsl(tmp_path: Path) -> None:
    machine = tmp_path / "machine"
    machine.mkdir()
    Root(machine).wsl()
    for rocm, switched in (("7.2.4", True), ("6.4", False)):
        wish = ("--rocm", rocm, "--channel", "amd", "--target", "gfx1100", "--json")
        found = plan(shipped(tmp_path, *wish, ROCENV_SYSROOT=str(machine)))
        assert (_SWITCH in found["environment"]) is switched
        assert any(note.startswith(f"on WSL, ROCm {rocm}") for note in found["notes"])
        assert not any("does not list it" in note for note in found["notes"])
        native = plan(shipped(tmp_path, *wish))
        assert _SWITCH not in native["environment"]
        assert not any("WSL" in note for note in native["notes"])


def test_a_plan_on_wsl_warns_of_a_gpu_that_amd_does_not_list_for_it(tmp_path: Path) -> None:
    machine = tmp_path / "machine"
    machine.mkdir()
    Root(machine).wsl()
    wish = ("--torch", "--target", "RX 6800 XT", "--json")
    notes = plan(shipped(tmp_path, *wish, ROCENV_SYSROOT=str(machine)))["notes"]
    assert any("AMD does not list it for WSL" in note for note in notes)
    assert not any("for WSL" in note for note in plan(shipped(tmp_path, *wish))["notes"])


def test_a_plan_for_an_app_with_a_vulkan_build_refers_to_it(tmp_path: Path) -> None:
    wish = ("--app", "llama.cpp", "--target", "Steam Deck", "--json")
    notes = plan(shipped(tmp_path, *wish))["notes"]
    assert any("Vulkan build, which does not need ROCm: `rocenv explain llama.cpp`" in note for note in notes)


# ---------------------------------------------------------------- the user's own rows


def test_user_rows_take_effect_immediately(mini: Mini) -> None:
    assert mini.run("resolve", "--rocm", "5.7", "--target", "gfx1036").returncode == 1
    own = mini.home / "profiles" / "mine.toml"
    own.parent.mkdir(parents=True)
    own.write_text(OVERRIDE.format(verdict="ok"))
    assert plan(mini.run("resolve", "--rocm", "5.7", "--target", "gfx1036", "--json"))["runs_as"] == "gfx1100"
    own.write_text(OVERRIDE.format(verdict="perhaps"))
    done = mini.run("resolve", "--rocm", "5.7", "--json")
    assert json.loads(done.stdout)["error"] == "data-invalid"
    assert str(own) in done.stderr
    own.unlink()
    assert mini.run("resolve", "--rocm", "5.7", "--target", "gfx1036").returncode == 1
