"""Pre-launch checks: errors prevent the app from starting; other findings are only shown."""

from __future__ import annotations

import json
import re
import shutil
import sys
from typing import TYPE_CHECKING

import pytest

from rocenv.core.model import EnvChange, Layout, Request
from rocenv.data.load import load
from tests import shipped
from tests.launch.lab import BUILD_FILES, TARGET, component, hipinfo, zluda_parts

PYTHON = "venv/Scripts/python.exe"

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.launch.lab import Lab

SDNEXT = ("launch.py", "installer.py")
RUNS = "import os, sys; print('ARGS', sys.argv[1:]); print('ZLUDA', os.environ.get('ZLUDA'))\n"


def put(folder: Path, *names: str, content: str = RUNS) -> None:
    """Write an app's files."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def good_env(lab: Lab) -> Path:
    """Create a verified env without known problems; return its path."""
    prefix = lab.make_zluda(
        parts=(*zluda_parts("5.7.1", "3.9.5", "rocm5"), component("libraries", "5.7", "x"))
    )
    rungs = [{"rung": "gemm", "status": "passed"}]
    (prefix.own / "verified.json").write_text(json.dumps({"level": "gemm", "rungs": rungs}))
    return prefix.path


class TestApps:
    def test_sdnext_is_recognized_and_gets_its_arguments(self, lab: Lab) -> None:
        put(lab.app, *SDNEXT)
        path = good_env(lab)
        done = lab.run("launch", "sd")
        assert done.stdout.decode() == f"ARGS ['--use-zluda']\nZLUDA {path}/zluda\n"
        assert done.stderr.decode().splitlines()[0] == "added `--use-zluda` to use the env's ZLUDA"
        assert lab.logs()[0].name.endswith("-sdnext.log")
        assert "warning" not in done.stderr.decode()

    def test_arguments_without_a_program_are_passed_to_the_default_command(self, lab: Lab) -> None:
        put(lab.app, *SDNEXT)
        good_env(lab)
        done = lab.run("launch", "sd", "--", "--debug", "--use-zluda")
        assert b"ARGS ['--debug', '--use-zluda']" in done.stdout

    def test_arguments_in_environment_variables_count_as_given(self, lab: Lab) -> None:
        put(lab.app, *SDNEXT)
        good_env(lab)
        done = lab.run("launch", "sd", environ={"COMMANDLINE_ARGS": "--use-zluda --debug"})
        assert b"ARGS []" in done.stdout

    def test_no_zluda_argument_is_added_in_an_env_without_zluda(self, lab: Lab) -> None:
        put(lab.app, *SDNEXT)
        lab.make(parts=(component("torch", "2.9.0", "wheels"),))
        assert b"ARGS ['--skip-torch']" in lab.run("launch", "sd").stdout

    def test_an_app_is_recognized_by_the_started_file(self, lab: Lab) -> None:
        put(lab.app / "SD Next", *SDNEXT)
        good_env(lab)
        done = lab.run("launch", "sd", "--", sys.executable, "SD Next/launch.py")
        assert b"ARGS ['--use-zluda']" in done.stdout
        assert lab.logs()[0].name.endswith("-sdnext.log")

    @pytest.mark.parametrize(
        ("files", "app"),
        [
            (("launch.py", "installer.py", "modules/launch_utils.py"), "sdnext"),
            (("launch.py", "modules/launch_utils.py", "modules/zluda.py"), "webui-amdgpu"),
            (
                ("launch.py", "modules/launch_utils.py", "modules/zluda.py", "modules_forge/x.py"),
                "forge",
            ),
            (("main.py", "comfy/customzluda/zluda.py"), "comfyui-zluda"),
        ],
    )
    def test_forks_of_an_app_are_distinguished(self, lab: Lab, files: tuple[str, ...], app: str) -> None:
        put(lab.app, *files)
        good_env(lab)
        lab.run("launch", "sd")
        assert lab.logs()[0].name.endswith(f"-{app}.log")

    @pytest.mark.parametrize("more", [(), ("modules_forge/x.py",)])
    def test_upstream_apps_without_zluda_get_no_zluda_argument(self, lab: Lab, more: tuple[str, ...]) -> None:
        put(lab.app, "launch.py", "modules/launch_utils.py", *more)
        good_env(lab)
        assert b"ARGS []" in lab.run("launch", "sd", "--", sys.executable, "launch.py").stdout

    def test_options_after_the_command_belong_to_the_app(self, lab: Lab) -> None:
        put(lab.app, *SDNEXT)
        put(lab.app, "webui.bat", content='#!/bin/sh\necho "$@"\n')
        (lab.app / "webui.bat").chmod(0o755)
        good_env(lab)
        done = lab.run("launch", "sd", "./webui.bat", "--medvram", "--app", "x", "--", "-h")
        assert done.stdout == b"--medvram --app x -- -h --use-zluda\n", done.stderr
        done = lab.run("launch", "--app", "generic", "sd", "./webui.bat", "--", "-h")
        assert done.stdout == b"-- -h\n"
        done = lab.run("launch", "sd", "--app=generic", "--", "./webui.bat", "-h")
        assert done.stdout == b"-h\n"
        assert b"ARGS ['--medvram', '--use-zluda']" in lab.run("launch", "sd", "--medvram").stdout

    def test_options_before_the_command_belong_to_rocenv(self, lab: Lab) -> None:
        lab.make()
        assert b"Usage:" in lab.run("launch", "sd", "--help").stdout
        assert b"Usage:" in lab.run("launch", "-h").stdout
        for argv in (("sd", "--app"), ("--nonsense", "sd"), (), ("--app", "generic")):
            done = lab.run("launch", *argv)
            assert (done.returncode, b"Traceback" in done.stderr) == (2, False), argv

    def test_batch_files_use_the_envs_python(self, lab: Lab) -> None:
        put(
            lab.app,
            *SDNEXT,
            content="import os; print(*(os.environ[n] for n in ('PYTHON', 'SKIP_VENV')))",
        )
        path = good_env(lab)
        assert lab.run("launch", "sd").stdout.decode() == f"{path}/{PYTHON} 1\n"

    def test_an_unknown_app_is_an_error(self, lab: Lab) -> None:
        lab.make()
        done = lab.run("launch", "sd", "--app", "photoshop")
        assert done.returncode == 2
        known = sorted(row.key for row in load().launcher if "windows" in row.platforms)
        assert f"use one of these with `--app`: {', '.join(known)}\n" in done.stderr.decode()

    def test_a_missing_command_is_an_error(self, lab: Lab) -> None:
        lab.make()
        done = lab.run("launch", "sd")
        assert done.returncode == 2
        assert b"`rocenv launch sd -- python3 app.py`" in done.stderr

    def test_a_missing_program_exits_with_127(self, lab: Lab) -> None:
        lab.make()
        done = lab.run("launch", "sd", "--", "no-such-program")
        assert (done.returncode, b"command `no-such-program` not found" in done.stderr) == (127, True)
        assert b"--dev" not in done.stderr

    @pytest.mark.parametrize("verb", ["run", "launch"])
    def test_a_folder_that_is_missing_from_the_env_is_reported(self, lab: Lab, verb: str) -> None:
        layout = Layout(root="rocm", library_dirs=("rocm/lib",), libraries={"hip": "libamdhip64.so.6"})
        rocm = component("rocm", "6.4.3", "amd", into="rocm", layout=layout)
        files = ("rocm/lib/libamdhip64.so.6", "rocm/lib/other", "rocm/share/doc")
        path = lab.make(parts=(rocm,), platform="linux", files=files).path
        assert b"rocenv repair" not in lab.run(verb, "sd", "--", "true").stderr
        shutil.rmtree(path / "rocm/lib")
        done = lab.run(verb, "sd", "--", "echo", "started")
        assert done.stdout == b"started\n", "the command may not need the folders"
        said = " ".join(done.stderr.decode().split())
        assert "2 files of env `sd` are missing" in said or "missing or modified (2, such as" in said
        assert "`rocenv repair sd`" in said

    @pytest.mark.parametrize("verb", ["run", "launch"])
    def test_the_hint_for_a_missing_rocm_tool_creates_an_env_that_contains_it(
        self, lab: Lab, verb: str
    ) -> None:
        lab.make(platform="linux", request=Request(target=TARGET))
        done = lab.run(verb, "sd", "--", "hipcc-of-rocm", "x.cpp")
        assert done.returncode == 127
        create = re.search(rb"`(rocenv create sd2 [^`]*--dev[^`]*)`", done.stderr)
        assert create, done.stderr.decode()

    @pytest.mark.parametrize("launcher", load().launcher, ids=lambda row: row.key)
    def test_shipped_app_profiles_are_consistent(self, launcher) -> None:  # type: ignore[no-untyped-def]
        assert not launcher.signs or launcher.command, "an app found in a folder can be started there"
        assert launcher.signs or launcher.programs or launcher.key == "generic", "the command is recognized"
        generic = next(row for row in load().launcher if row.key == "generic")
        launcher = launcher.inheriting(generic)
        assert all(change.action == "set" for change in launcher.environment)
        assert launcher.compiling
        assert launcher.first_run
        if launcher.own_zluda and launcher.zluda_variable:
            assert launcher.zluda_arguments


def other_app(lab: Lab) -> None:
    (lab.app / ".zluda").mkdir()
    rows = """schema = 1
[[launcher]]
key = "other"
title = "Other"
signs = ["launch.py"]
command = ["{python}", "launch.py"]
own_zluda = [".zluda"]
compiling = "Compilation"
first_run = { en = "wait", zh = "请等待" }
status = "tested"
source = "tests"
checked = "2026-11-20"
"""
    put(lab.root / "home" / "profiles", "own.toml", content=rows)
    shipped.put_into(lab.root / "home")


def own_python(lab: Lab) -> None:
    put(lab.app, "venv/bin/python")
    (lab.app / "venv/bin/python").chmod(0o755)


def batch_file(lab: Lab) -> None:
    put(lab.app, "webui.bat", content="#!/bin/sh\n")
    (lab.app / "webui.bat").chmod(0o755)


# A function that damages a good env or app, the command to run, the message, and the suggested command.
Case = tuple["Callable[[Lab], object]", tuple[str, ...], str, str]
ERRORS: dict[str, Case] = {
    "shim-taken-away": (
        lambda lab: (lab.prefix().path / "zluda/cublas64_11.dll").unlink(),
        (),
        "`zluda/cublas64_11.dll` in env `sd` is missing or modified",
        "rocenv repair sd",
    ),
    "shim-changed": (
        lambda lab: (lab.prefix().path / "zluda/nvcuda.dll").write_text("NVIDIA's"),
        (),
        "`zluda/nvcuda.dll` in env `sd` is missing or modified",
        "rocenv repair sd",
    ),
    "python-gone": (
        lambda lab: (lab.prefix().path / PYTHON).unlink(),
        (),
        "Env `sd`'s Python is missing",
        "rocenv repair sd",
    ),
    "venv-broken": (
        lambda lab: (lab.prefix().path / PYTHON).rename(lab.prefix().path / "venv/pyvenv.cfg"),
        (),
        "Env `sd`'s Python is missing",
        "rocenv create sd2 --from ",
    ),
    "its-own-python": (
        own_python,
        ("--", "venv/bin/python", "launch.py"),
        "is SD.Next's own Python, not the env's",
        "rocenv launch sd --app sdnext",
    ),
    "reinstall": (
        lambda lab: None,
        ("--", "--reinstall"),
        "With `--reinstall`, SD.Next deletes the env's ZLUDA",
        "Start it without `--reinstall`",
    ),
    "reinstall-in-the-script": (
        batch_file,
        ("./webui.bat", "--reinstall"),
        "With `--reinstall`, SD.Next deletes the env's ZLUDA",
        "add `--app generic`",
    ),
    "old-build": (
        lambda lab: put(lab.prefix().path, "zluda/cudart.dll"),
        (),
        "SD.Next deletes ZLUDA builds that contain `cudart.dll`",
        "rocenv create sd2 --rocm 5.7 --zluda 3.9.5",
    ),
    "own-zluda": (
        other_app,
        ("--app", "other"),
        "Other would load the ZLUDA in",
        "Rename that folder",
    ),
    "app-is-elsewhere": (
        lambda lab: (lab.app / "launch.py").unlink(),
        ("--app", "sdnext"),
        "SD.Next's `launch.py` is not in",
        "Change to SD.Next's folder",
    ),
}


class TestErrors:
    @pytest.mark.parametrize("name", ERRORS)
    def test_an_error_prevents_the_app_from_starting(self, lab: Lab, name: str) -> None:
        harm, argv, text, remedy = ERRORS[name]
        put(lab.app, *SDNEXT)
        good_env(lab)
        harm(lab)
        done = lab.run("launch", "sd", *argv)
        said = done.stderr.decode()
        assert (done.returncode, done.stdout) == (1, b""), said
        assert text in said
        assert remedy in said
        assert not lab.logs()

    def test_a_variable_that_reinstalls_torch_is_an_error(self, lab: Lab) -> None:
        put(lab.app, *SDNEXT)
        good_env(lab)
        done = lab.run("launch", "sd", environ={"SD_REINSTALL": "false"})
        assert done.returncode == 1
        assert "Unset the environment variable `SD_REINSTALL`" in done.stderr.decode()

    @pytest.mark.parametrize("argv", [("echo", "--reinstall"), ("--app", "generic", "./webui.bat")])
    def test_reinstall_options_of_other_programs_in_the_apps_folder_are_accepted(
        self, lab: Lab, argv: tuple[str, ...]
    ) -> None:
        put(lab.app, *SDNEXT)
        put(lab.app, "webui.bat", content="#!/bin/sh\n")
        (lab.app / "webui.bat").chmod(0o755)
        good_env(lab)
        put(lab.prefix().path, "zluda/cudart.dll")
        assert lab.run("launch", "sd", *argv, environ={"SD_REINSTALL": "1"}).returncode == 0

    def test_large_libraries_are_compared_by_size_only(self, lab: Lab) -> None:
        lab.make_zluda()
        library = lab.prefix().path / "rocm/6.1/bin/rocblas.dll"
        library.write_text(library.read_text().swapcase())
        assert lab.run("launch", "sd", "--", "true").returncode == 0
        library.write_text("cut short")
        assert b"is missing or modified" in lab.run("launch", "sd", "--", "true").stderr
        library.unlink()
        assert b"is missing" in lab.run("launch", "sd", "--", "true").stderr

    def test_a_newer_zluda_build_is_suggested_for_an_outdated_one(self, lab: Lab) -> None:
        put(lab.app, *SDNEXT)
        lab.make_zluda(parts=zluda_parts("5.7.1", "3.8.4", "rocm5"))
        put(lab.prefix().path, "zluda/cudart.dll")
        done = lab.run("launch", "sd")
        assert "rocenv create sd2 --rocm 5.7 --zluda 3.9.5 --target gfx1031" in done.stderr.decode()

    def test_comfyuis_batch_files_are_an_error(self, lab: Lab) -> None:
        put(lab.app, "main.py", "comfy/customzluda/zluda.py", "comfyui-n.bat", content="exit 9")
        (lab.app / "comfyui-n.bat").chmod(0o755)
        good_env(lab)
        done = lab.run("launch", "sd", "--", "./comfyui-n.bat")
        assert done.returncode == 1
        assert "`comfyui-n.bat` starts the app's own Python and ZLUDA" in done.stderr.decode()

    def test_an_incomplete_env_is_an_error(self, lab: Lab) -> None:
        lab.prefix().own.mkdir(parents=True)
        done = lab.run("launch", "sd", "--", "true")
        assert (done.returncode, b"is incomplete" in done.stderr) == (1, True)


class TestWarnings:
    def test_the_envs_zluda_takes_precedence_over_the_apps_own_zluda(self, lab: Lab) -> None:
        put(lab.app, *SDNEXT)
        (lab.app / ".zluda").mkdir()
        path = good_env(lab)
        done = lab.run("launch", "sd")
        assert f"ZLUDA {path}/zluda" in done.stdout.decode()
        assert (done.returncode, "would load the ZLUDA" in done.stderr.decode()) == (0, False)

    def test_an_unverified_env_causes_a_note(self, lab: Lab) -> None:
        lab.make()
        done = lab.run("launch", "sd", "--", "true")
        assert "note: Env `sd` has never been verified. " in done.stderr.decode()
        assert "  hint: Verify it: `rocenv verify sd`\n" in done.stderr.decode()

    def test_pre_launch_findings_are_in_the_users_language(self, lab: Lab) -> None:
        lab.make()
        done = lab.run("launch", "sd", "--", "true", environ={"LC_ALL": "zh_CN.UTF-8"})
        assert "提示：环境 `sd` 从未验证过。" in done.stderr.decode()
        assert "建议：进行验证：`rocenv verify sd`" in done.stderr.decode()
        (lab.prefix().path / PYTHON).unlink()
        done = lab.run(
            "launch", "sd", "--", str(lab.prefix().path / PYTHON), environ={"LC_ALL": "zh_CN.UTF-8"}
        )
        assert "环境 `sd` 没有 Python。" in done.stderr.decode()

    def test_a_failed_verification_is_reported(self, lab: Lab) -> None:
        prefix = lab.make()
        rungs = [{"rung": "files", "status": "passed"}, {"rung": "gemm", "status": "crashed"}]
        (prefix.own / "verified.json").write_text(json.dumps({"level": "files", "rungs": rungs}))
        done = lab.run("launch", "sd", "--", "true")
        assert "Env `sd` failed its last verification. The `gemm` check failed" in done.stderr.decode()

    def test_an_igpu_that_hip_lists_first_is_reported(self, lab: Lab) -> None:
        good_env(lab)
        (lab.root / "machine/windows/hipinfo.txt").write_text(
            hipinfo(("gfx1036", "AMD Radeon(TM) Graphics", 1), ("gfx1031", "AMD Radeon RX 6750 XT", 0))
        )
        done = lab.run("launch", "sd", "--", "true")
        assert "The first GPU that programs in env `sd` see is not the gfx1031" in done.stderr.decode()
        assert "`set HIP_VISIBLE_DEVICES=1`" in done.stderr.decode()
        done = lab.run("launch", "sd", "--", "true", environ={"HIP_VISIBLE_DEVICES": "1"})
        assert "another GPU" not in done.stderr.decode()

    def test_a_new_env_is_suggested_if_the_env_selects_the_igpu(self, lab: Lab) -> None:
        """The env's own value overrides a value in the caller's environment."""
        prefix = lab.make(changes=(EnvChange(action="set", name="HIP_VISIBLE_DEVICES", value="0,1"),))
        (lab.root / "machine/windows/hipinfo.txt").write_text(
            hipinfo(("gfx1036", "AMD Radeon(TM) Graphics", 1), ("gfx1031", "AMD Radeon RX 6750 XT", 0))
        )
        done = lab.run("launch", "sd", "--", "true", environ={"HIP_VISIBLE_DEVICES": "1"})
        assert f"`rocenv create sd2 --from {prefix.lock_file}`\n" in done.stderr.decode()

    def test_an_env_without_a_target_works_with_any_gpu(self, lab: Lab) -> None:
        """A compiler env, for example, supports many targets."""
        lab.make("cc", platform="linux", target="")
        done = lab.run("launch", "cc", "--", "true")
        assert "this machine has no such GPU" not in done.stderr.decode()
        verified = lab.run("verify", "cc", "--upto", "files", "--target", "gfx1100")
        assert "here for :" not in verified.stderr.decode()

    def test_an_env_for_a_gpu_that_is_not_installed_is_reported(self, lab: Lab) -> None:
        lab.make(target="gfx1100")
        done = lab.run("launch", "sd", "--", "true")
        assert (
            "Env `sd` is for gfx1100, but this machine has no such GPU. The machine has: gfx1031"
            in done.stderr.decode()
        )

    def test_a_different_zluda_earlier_on_path_is_reported(self, lab: Lab) -> None:
        good_env(lab)
        put(lab.root / "other", "nvcuda.dll")
        path = f"{lab.root}/other:{lab.env['PATH']}"
        done = lab.run("launch", "sd", "--", "true", environ={"PATH": path})
        assert "Another `nvcuda.dll`" not in done.stderr.decode(), "the env's own ZLUDA comes first"
        change = EnvChange(action="prepend", name="PATH", value=f"{lab.root}/other")
        lab.make_zluda("other", changes=(change,), files=BUILD_FILES)
        done = lab.run("launch", "other", "--", "true")
        assert "Another `nvcuda.dll` is on PATH" in done.stderr.decode()

    def test_an_incompatible_driver_is_reported(self, lab: Lab) -> None:
        lab.make_zluda(parts=(*zluda_parts("6.2.4", "3.9.2"), component("libraries", "6.2.4", "x")))
        adapters = [{"Name": "AMD Radeon RX 6750 XT", "RadeonSoftwareVersion": "25.9.1"}]
        (lab.root / "machine/windows/video_controllers.json").write_text(json.dumps(adapters))
        done = lab.run("launch", "sd", "--", "true")
        assert done.returncode == 0
        assert "warning: Env `sd` does not work with display driver 25.9.1" in done.stderr.decode()
        expected = "ZLUDA before 3.9.5 does not work with display driver 25.5.1 and later"
        assert expected in done.stderr.decode()
        assert "rocenv create sd2 --rocm 6.2 --zluda 3.9.5 --target gfx1031" in done.stderr.decode()

    def test_shims_in_torchs_folder_are_reported_if_the_app_loads_them_itself(self, lab: Lab) -> None:
        put(lab.app, *SDNEXT)
        lab.make_zluda(in_torch=True, files=BUILD_FILES)
        assert "PyTorch's folder in this env also contains it" in lab.run("launch", "sd").stderr.decode()

    def test_a_settings_file_without_the_zluda_argument_is_reported(self, lab: Lab) -> None:
        put(lab.app, "launch.py", "modules/launch_utils.py", "modules/zluda.py")
        put(lab.app, "webui-user.bat", content="#!/bin/sh\nset COMMANDLINE_ARGS=--medvram\n")
        (lab.app / "webui-user.bat").chmod(0o755)
        good_env(lab)
        done = lab.run("launch", "sd", "--", "./webui-user.bat")
        assert "`webui-user.bat` does not start" in done.stderr.decode()
        put(lab.app, "webui-user.bat", content="#!/bin/sh\nset COMMANDLINE_ARGS=--medvram --use-zluda\n")
        done = lab.run("launch", "sd", "--", "./webui-user.bat")
        assert "does not start" not in done.stderr.decode()


def test_launch_sets_the_same_environment_as_run(lab: Lab) -> None:
    """Only the variables for Python programs with piped output differ."""
    lab.make(changes=(EnvChange(action="set", name="MIOPEN_X", value="{prefix}/x"),))
    script = "import os; print(sorted(os.environ.items()))"
    command = ("sd", "--", sys.executable, "-c", script)
    ran = dict(eval(lab.run("run", *command).stdout))
    launched = dict(eval(lab.run("launch", *command).stdout))
    assert launched.items() - ran.items() == {("PYTHONUNBUFFERED", "1"), ("PYTHONIOENCODING", "utf-8")}
    assert ran.items() - launched.items() == set()
