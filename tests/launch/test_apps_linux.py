"""Stable Diffusion apps on Linux, which `launch` runs with the env's Python instead of their wrappers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from rocenv.apps.recognition import choose
from rocenv.core.model import EnvChange, Request
from rocenv.data.load import load
from tests import shipped
from tests.host.roots import Root
from tests.launch.lab import component, english_lines

if TYPE_CHECKING:
    from pathlib import Path

    from tests.launch.lab import Lab

TARGET = "gfx1031"
NAMES = ("HSA_OVERRIDE_GFX_VERSION", "LD_LIBRARY_PATH", "TORCH_COMMAND", "GIT")
SHOWS = f"""import os, sys
print("ARGS", sys.argv[1:])
print("PYTHON", sys.executable)
print("FOLDER", os.getcwd())
for name in {NAMES!r}:
    print(name, os.environ.get(name))
"""
# Wrapper script commands that override an env. Source: vladmandic/sdnext:webui.sh, and webui.sh in
# AUTOMATIC1111's webui and its forks
WRAPPER = """#!/usr/bin/env bash
[ -f webui-user.sh ] && . ./webui-user.sh
export LD_LIBRARY_PATH=/wrapper/lib HSA_OVERRIDE_GFX_VERSION=10.3.0
export TORCH_COMMAND="pip install torch==2.0.1+rocm5.7"
exec python3 launch.py "$@"
"""
FILES = {
    "sdnext": ("launch.py", "installer.py"),
    "webui-amdgpu": ("launch.py", "modules/launch_utils.py", "modules/zluda.py"),
    "forge": ("launch.py", "modules/launch_utils.py", "modules/zluda.py", "modules_forge/x.py"),
    "comfyui": ("main.py", "comfy/model_management.py"),
}
CHANGES = (
    EnvChange(action="set", name="HSA_OVERRIDE_GFX_VERSION", value="10.3.0-of-the-env"),
    EnvChange(action="prepend", name="LD_LIBRARY_PATH", value="{prefix}/rocm/lib"),
)


def on_linux(lab: Lab, *, torch: bool = True, app: str = "") -> Path:
    """Set up a Linux machine with an RX 6750 XT and an env for it; return the env's path."""
    machine = Root(lab.root / "linux").kernel().cpu().gpu(1, device=0x73DF, version=100301)
    lab.env["ROCENV_SYSROOT"] = str(machine.path)
    parts = [component("rocm", "6.2.4", "wheels")]
    parts += [component("torch", "2.5.1+rocm6.2", "x", python="3.11.9")] if torch else []
    request = Request(app=app)
    options: dict[str, Any] = {"parts": tuple(parts), "platform": "linux", "target": TARGET}
    return lab.make(**options, changes=CHANGES, request=request).path


def put(lab: Lab, app: str, content: str = SHOWS, folder: str = ".") -> Path:
    """Create an app's files and wrapper scripts."""
    home = lab.app / folder
    for name in FILES[app]:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(content)
    (home / "webui.sh").write_text(WRAPPER)
    (home / "webui.sh").chmod(0o755)
    return home


def said_by(text: bytes) -> dict[str, str]:
    """Map the first word of each line that an app printed to the rest of that line."""
    lines = (line.partition(" ") for line in text.decode().splitlines())
    return {name: value for name, _, value in lines}


class TestWrappers:
    @pytest.mark.parametrize("app", ["sdnext", "webui-amdgpu", "forge"])
    @pytest.mark.parametrize(
        "typed",
        [
            ("./webui.sh",),
            ("bash", "-e", "webui.sh"),
            ("bash", "-eo", "pipefail", "webui.sh"),
            ("env", "A=1", "nice", "-n", "5", "./webui.sh"),
            ("/usr/bin/env", "bash", "webui.sh"),
            ("./start.sh",),
        ],
    )
    def test_launch_replaces_the_wrapper_and_explains_why(
        self, lab: Lab, app: str, typed: tuple[str, ...]
    ) -> None:
        path = on_linux(lab)
        put(lab, app)
        (lab.app / "start.sh").symlink_to("webui.sh")
        done = lab.run("launch", "sd", "--", *typed, "--medvram", "--port", "80 81")
        said = done.stderr.decode()
        seen = said_by(done.stdout)
        assert seen["ARGS"].startswith("['--medvram', '--port', '80 81'"), said
        assert seen["HSA_OVERRIDE_GFX_VERSION"] == "10.3.0-of-the-env"
        assert seen["LD_LIBRARY_PATH"].startswith(f"{path}/rocm/lib")
        assert "/wrapper/lib" not in seen["LD_LIBRARY_PATH"]
        (line,) = [line for line in said.splitlines() if "instead of `webui.sh`" in line]
        assert line.startswith("running ")
        assert f"{path}/venv/bin/python launch.py --medvram --port '80 81' instead of" in line
        assert ("LD_LIBRARY_PATH" if app == "sdnext" else "HSA_OVERRIDE_GFX_VERSION") in line

    def test_the_reason_for_replacing_a_wrapper_is_in_the_users_language(self, lab: Lab) -> None:
        on_linux(lab)
        put(lab, "sdnext")
        done = lab.run("launch", "sd", "--", "./webui.sh", environ={"LC_ALL": "zh_CN.UTF-8"})
        said = done.stderr.decode().partition("日志：")[0]
        assert "，而不是 `webui.sh`：它使用自己的 Python 和 torch，并替换 LD_LIBRARY_PATH\n" in said
        assert "已添加 `--skip-torch`，以保留环境中的 torch\n" in said
        assert english_lines(said) == []

    def test_app_generic_runs_the_command_as_typed(self, lab: Lab) -> None:
        on_linux(lab)
        put(lab, "sdnext")
        done = lab.run("launch", "sd", "--app", "generic", "./webui.sh", "--medvram")
        assert said_by(done.stdout)["LD_LIBRARY_PATH"] == "/wrapper/lib"
        assert said_by(done.stdout)["ARGS"] == "['--medvram']"
        assert b"instead of" not in done.stderr

    def test_an_unrelated_script_with_the_name_of_a_wrapper_runs_unchanged(self, lab: Lab) -> None:
        on_linux(lab)
        (lab.app / "webui.sh").write_text('#!/bin/sh\necho RAN "$@"\n')
        (lab.app / "webui.sh").chmod(0o755)
        assert lab.run("launch", "sd", "./webui.sh", "-x").stdout == b"RAN -x\n"

    def test_launch_changes_to_the_wrappers_folder(self, lab: Lab) -> None:
        on_linux(lab)
        home = put(lab, "sdnext", folder="SD Next")
        done = lab.run("launch", "sd", "--", "SD Next/webui.sh")
        assert said_by(done.stdout)["FOLDER"] == str(home), done.stderr

    def test_a_wrapper_inside_another_command_is_an_error(self, lab: Lab) -> None:
        on_linux(lab)
        put(lab, "sdnext")
        for typed in (("sh", "-c", "exec ./webui.sh --medvram"), ("ltrace", "./webui.sh")):
            done = lab.run("launch", "sd", "--", *typed)
            assert (done.returncode, done.stdout) == (1, b""), typed
            assert b"would run `webui.sh`, which undoes the env" in done.stderr
            assert b"hint: Start SD.Next without the script: `rocenv launch sd --app sdnext`" in done.stderr

    def test_the_app_of_the_started_file_takes_precedence_over_the_current_folder(self, lab: Lab) -> None:
        """The current folder belongs to another app."""
        on_linux(lab)
        put(lab, "comfyui")
        there = put(lab, "sdnext", folder="B")
        done = lab.run("launch", "sd", "--", "B/webui.sh", "--medvram")
        assert said_by(done.stdout)["FOLDER"] == str(there), done.stderr
        assert b"SD.Next" in done.stderr


class TestSettings:
    """Settings files that only the wrapper reads."""

    def settings(self, lab: Lab, text: str) -> str:
        on_linux(lab)
        home = put(lab, "sdnext")
        (home / "webui-user.sh").write_text(text)
        done = lab.run("launch", "sd", "./webui.sh")
        assert done.returncode == 0, done.stderr
        return done.stderr.decode()

    def test_a_settings_file_that_has_no_effect_is_reported(self, lab: Lab) -> None:
        said = self.settings(lab, "#!/bin/bash\nexport COMMANDLINE_ARGS='--gradio-auth me:pw1'\n")
        assert "webui-user.sh` are ignored. Only `webui.sh` reads that file" in said
        assert "pass the arguments in COMMANDLINE_ARGS to `rocenv launch`" in said
        assert "pw1" not in said and "pw1" not in lab.log().decode().partition("ARGS")[0]

    @pytest.mark.parametrize("text", ["", "#!/bin/bash\n# export A=1\n\n"])
    def test_a_settings_file_without_settings_is_not_reported(self, lab: Lab, text: str) -> None:
        assert "are ignored" not in self.settings(lab, text)

    def test_a_named_pipe_as_settings_file_does_not_block_launch(self, lab: Lab) -> None:
        on_linux(lab)
        os.mkfifo(put(lab, "sdnext") / "webui-user.sh")
        assert "are ignored" not in lab.run("launch", "sd", "./webui.sh").stderr.decode()


class TestOwnTorch:
    def test_arguments_keep_apps_from_installing_torch(self, lab: Lab) -> None:
        on_linux(lab)
        put(lab, "sdnext")
        done = lab.run("launch", "sd")
        assert said_by(done.stdout)["ARGS"] == "['--skip-torch']"
        assert b"added `--skip-torch` to keep the env's torch" in done.stderr
        assert said_by(lab.run("launch", "sd", "--skip-torch").stdout)["ARGS"] == "['--skip-torch']"

    @pytest.mark.parametrize("app", ["webui-amdgpu", "forge"])
    def test_launch_replaces_torch_command_with_one_that_installs_nothing(self, lab: Lab, app: str) -> None:
        """The apps run `python -m $TORCH_COMMAND` even with `--skip-install`."""
        on_linux(lab)
        runs = (
            "import os, subprocess, sys\n"
            "subprocess.run(f'\"{sys.executable}\" -m ' + os.environ['TORCH_COMMAND'], shell=True)"
        )
        put(lab, app, runs)
        # A fake pip, because some Python installations do not include pip.
        (lab.app / "pip.py").write_text("import sys; print(sys.argv[1:])\n")
        outside = {"TORCH_COMMAND": "pip install torch==2.0.1+rocm5.7"}
        done = lab.run("launch", "sd", environ=outside)
        assert done.stdout == b"['--version']\n", done

    def test_comfyui_needs_no_argument_to_keep_torch(self, lab: Lab) -> None:
        path = on_linux(lab)
        put(lab, "comfyui")
        seen = said_by(lab.run("launch", "sd", "--lowvram").stdout)
        assert (seen["ARGS"], seen["PYTHON"]) == ("['--lowvram']", f"{path}/venv/bin/python")

    @pytest.mark.parametrize("app", FILES)
    def test_an_env_without_torch_is_an_error_with_a_create_command(self, lab: Lab, app: str) -> None:
        on_linux(lab, torch=False)
        put(lab, app)
        done = lab.run("launch", "sd")
        assert (done.returncode, done.stdout) == (1, b"")
        assert "needs PyTorch, which env `sd` does not contain" in done.stderr.decode()
        assert f"rocenv create sd2 --target {TARGET} --app {app}" in done.stderr.decode()

    @pytest.mark.parametrize(
        "typed",
        [
            ("venv/bin/python", "launch.py"),
            ("nice", "-n", "5", "venv/bin/python", "launch.py"),
            ("env", *(f"A{number}=1" for number in range(9)), "../app/venv/bin/python", "launch.py"),
            ("strace", "-f", "-o", "trace", "venv/bin/python", "launch.py"),
            ("sh", "-c", "exec venv/bin/python launch.py --api-auth me:pw1"),
            ("bash", "-c", ". 'venv/bin/activate' && python launch.py"),
        ],
    )
    def test_the_python_in_an_apps_folder_is_not_used(self, lab: Lab, typed: tuple[str, ...]) -> None:
        """The app's own Python would silently use a different torch."""
        on_linux(lab)
        home = put(lab, "sdnext")
        program(home / "venv/bin/python")
        (home / "venv/bin/activate").write_text('PATH="$PWD/venv/bin:$PATH"\n')
        done = lab.run("launch", "sd", "--", *typed)
        assert (done.returncode, done.stdout) == (1, b""), done.stderr
        assert b"is SD.Next's own Python, not the env's" in done.stderr
        assert b"hint: Start SD.Next with the env's Python: `rocenv launch sd --app sdnext`" in done.stderr
        assert b"pw1" not in done.stderr
        if typed[0] in ("nice", "env"):
            assert lab.run("launch", "sd", "--app", "generic", "--", *typed).stdout == b"ran\n"

    def test_arguments_can_contain_the_folder_of_the_apps_python(self, lab: Lab) -> None:
        on_linux(lab)
        program(put(lab, "sdnext") / "venv/bin/python")
        assert lab.run("launch", "sd", "--", "ls", "venv/bin").stdout == b"python\n"

    def test_other_programs_in_an_apps_folder_need_no_torch(self, lab: Lab) -> None:
        on_linux(lab, torch=False)
        put(lab, "sdnext")
        assert lab.run("launch", "sd", "--", "echo", "--skip-torch").stdout == b"--skip-torch\n"


LAUNCHERS = load().launcher
PATTERNS = """schema = 1
[[launcher]]
key = "chat"
title = "Chat"
programs = ["chat-*"]
platforms = ["linux"]
status = "tested"
source = "tests"
checked = "2026-11-22"
[[launcher]]
key = "model"
title = "Model"
programs = ["*.model"]
status = "tested"
source = "tests"
checked = "2026-11-22"
"""


def own_rows(lab: Lab, text: str) -> None:
    path = lab.root / "home" / "profiles" / "own.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    shipped.put_into(lab.root / "home")


def program(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\necho ran\n")
    path.chmod(0o755)
    return str(path)


class TestRecognition:
    @pytest.mark.parametrize(
        ("name", "app"),
        [("chat-server", "chat"), ("Chat-7B.model", "model"), ("x.MODEL", "model"), ("chat", "generic")],
    )
    def test_an_app_is_recognized_by_its_program_name(self, lab: Lab, name: str, app: str) -> None:
        on_linux(lab)
        own_rows(lab, PATTERNS)
        path = program(lab.root / "else where" / name)
        assert lab.run("launch", "sd", "--", path, "--x").stdout == b"ran\n"
        assert lab.logs()[-1].name.endswith(f"-{app}.log")

    def test_an_app_is_recognized_by_the_script_that_a_shell_runs(self, lab: Lab) -> None:
        on_linux(lab)
        own_rows(lab, PATTERNS)
        program(lab.app / "small.model")
        assert lab.run("launch", "sd", "--", "sh", "./small.model").stdout == b"ran\n"
        assert lab.logs()[-1].name.endswith("-model.log")

    def test_the_app_in_the_envs_record_is_the_last_resort(self, lab: Lab) -> None:
        """rocenv uses the recorded app only if the command and nearby files identify none."""
        on_linux(lab, app="comfyui")
        program(lab.app / "mine.sh")
        assert lab.run("launch", "sd", "./mine.sh").stdout == b"ran\n"
        assert lab.logs()[-1].name.endswith("-comfyui.log")
        done = lab.run("launch", "sd")
        assert (done.returncode, b"Change to ComfyUI's folder" in done.stderr) == (1, True)
        (lab.app / "main.py").write_text(SHOWS)
        assert said_by(lab.run("launch", "sd").stdout)["ARGS"] == "[]"
        put(lab, "sdnext")
        assert said_by(lab.run("launch", "sd").stdout)["ARGS"] == "['--skip-torch']"

    def test_an_unknown_app_in_the_envs_record_is_ignored(self, lab: Lab) -> None:
        on_linux(lab, app="of-the-future")
        done = lab.run("launch", "sd")
        assert (done.returncode, b"rocenv does not recognize an app" in done.stderr) == (2, True)

    def test_an_app_for_a_different_platform_is_an_error(self, lab: Lab) -> None:
        on_linux(lab)
        done = lab.run("launch", "sd", "--app", "comfyui-zluda")
        assert done.returncode == 2
        assert b"ComfyUI-Zluda runs only on Windows" in done.stderr
        (names,) = [line for line in done.stderr.decode().splitlines() if "one of these" in line]
        assert "comfyui-zluda" not in names

    def test_an_app_without_a_default_command_requires_one(self, lab: Lab) -> None:
        on_linux(lab)
        own_rows(lab, PATTERNS)
        done = lab.run("launch", "sd", "--app", "chat")
        assert (done.returncode, b"Chat has no default command" in done.stderr) == (2, True)

    def test_the_most_specific_program_pattern_identifies_the_app(self, tmp_path: Path) -> None:
        """`Llama-3.2.llamafile` is a llamafile, although its name starts with a model name."""
        chosen, folder = choose(LAUNCHERS, "", ["/x/Llama-3.2-1B.llamafile"], tmp_path, platform="linux")
        assert (chosen.key, str(folder)) == ("llamafile", "/x")
        assert choose(LAUNCHERS, "", ["llama-server"], tmp_path, platform="linux")[0].key == "llama.cpp"
        assert choose(LAUNCHERS, "", ["-m", "llama-x"], tmp_path, platform="linux")[0].key == "generic"


def test_the_envs_python_is_found_if_the_home_path_is_relative(lab: Lab) -> None:
    """`launch` changes to the app's folder, so the env's path must be absolute."""
    on_linux(lab)
    home = put(lab, "sdnext", folder="sd")
    done = lab.run("launch", "sd", "--", "sd/webui.sh", environ={"ROCENV_HOME": "../home"})
    assert said_by(done.stdout).get("FOLDER") == str(home), done.stderr
