"""Apps that exit with 0 without using the GPU, causes from rules, and workarounds from profiles."""

from __future__ import annotations

import json
import re
import signal
from typing import TYPE_CHECKING, Any

import pytest

from rocenv.data.load import load
from tests import shipped
from tests.host.roots import Root
from tests.launch.lab import component
from tests.programs import PYTHON

if TYPE_CHECKING:
    from tests.launch.lab import Lab

KNOWN = """status = "tested"
source = "tests"
checked = "2026-11-22"
"""
ROW = (
    """schema = 1
[[launcher]]
key = "render"
title = "Render"
programs = ["render"]
gpu_used = ["Rendering with HIP"]
gpu_work = ["--frame"]
gpu_work_shown = ["Preparing the scene"]
cpu = ["--device cpu"]
only_tells = ["--version"]
failures = [
  { text = "HIP is not usable", code = "no-gpu-detected", cpu = true },
  { text = "no room for the scene", code = "vram-oom", means = { en = "the scene is large", zh = "场景大" },\
 remedy = "rocenv mem" },
]
"""
    + KNOWN
    + """
[[launcher.fallbacks]]
code = "vram-oom"
text = { en = "halve the textures", zh = "把纹理减半" }
command = "rocenv run {name} -- {program} --half"

[[launcher.fallbacks]]
code = "no-gpu-detected"
text = { en = "no matter here", zh = "与此无关" }

[[launcher.fallbacks]]
code = "vram-oom"
text = { en = "then take a kernel for {target}", zh = "再换用 {target} 的内核" }
command = "rocenv explain {target}"
"""
)
TARGET = "gfx1031"
USED = "Rendering with HIP on gfx1031"


@pytest.fixture
def render(lab: Lab) -> Lab:
    """A Linux machine with an env, and a program whose output and exit code can be set."""
    machine = Root(lab.root / "linux").kernel().cpu().gpu(1, device=0x73DF, version=100301)
    lab.env["ROCENV_SYSROOT"] = str(machine.path)
    lab.make(parts=(component("rocm", "6.2.4", "wheels"),), platform="linux", target=TARGET)
    rows = lab.root / "home" / "profiles" / "own.toml"
    rows.parent.mkdir(parents=True)
    rows.write_text(ROW)
    shipped.put_into(lab.root / "home")
    program = lab.app / "render"
    program.write_text(
        f"{PYTHON}import os, sys\n"
        "print(os.environ.get('SAYS', ''), flush=True)\n"
        "code = int(os.environ.get('CODE', '0'))\n"
        "os.kill(os.getppid(), code) if code > 99 else sys.exit(code)\n"
    )
    program.chmod(0o755)
    return lab


def launch(lab: Lab, says: str, *argv: str, code: int = 0) -> tuple[int, str]:
    """Launch the program and return its exit code and rocenv's output after it."""
    done = lab.run("launch", "sd", "./render", *argv, environ={"SAYS": says, "CODE": str(code)})
    return done.returncode, done.stderr.decode().partition(".log\n")[2]


def why(said: str) -> list[str]:
    return [line.removeprefix("why: ") for line in said.splitlines() if line.startswith("why: ")]


def todo(said: str) -> list[str]:
    return [line.removeprefix("do:  ") for line in said.splitlines() if line.startswith("do:  ")]


class TestProof:
    def test_nothing_is_printed_if_the_output_shows_gpu_use(self, render: Lab) -> None:
        assert launch(render, USED, "--frame", "1") == (0, "")

    def test_a_run_whose_output_does_not_show_gpu_use_is_reported(self, render: Lab) -> None:
        code, said = launch(render, "Saved: 0001.png", "--frame", "1")
        assert code == 0, "the exit code is the program's own"
        assert "Render ended with exit code 0, but nothing in its output shows that it used the GPU" in said
        assert todo(said)[0] == "rocenv verify sd"
        assert "nothing in its output shows that it used the GPU" in render.log().decode()

    def test_a_run_whose_output_announces_gpu_work_must_also_show_gpu_use(self, render: Lab) -> None:
        """For example, the app may run a script that renders."""
        code, said = launch(render, "Preparing the scene\nSaved: 0001.png", "script")
        assert code == 0
        assert "Render ended with exit code 0, but nothing in its output shows that it used the GPU" in said
        assert launch(render, f"Preparing the scene\n{USED}", "script") == (0, "")
        assert launch(render, "Preparing the scene", "script", "--device", "cpu") == (0, "")

    def test_cpu_use_mentioned_in_the_output_is_reported(self, render: Lab) -> None:
        code, said = launch(render, "warning: HIP is not usable, rendering on CPU", "--frame=1")
        assert code == 0
        assert "Render ended with exit code 0, but it used the CPU" in said
        assert "nothing shows" not in said

    @pytest.mark.parametrize(
        "argv", [(), ("--version",), ("--frame", "1", "--version"), ("--frame", "1", "--device", "cpu")]
    )
    def test_a_run_without_gpu_work_does_not_have_to_show_gpu_use(
        self, render: Lab, argv: tuple[str, ...]
    ) -> None:
        assert launch(render, "Saved: 0001.png", *argv) == (0, "")

    def test_cpu_use_that_the_user_requested_is_not_a_failure(self, render: Lab) -> None:
        assert launch(render, "HIP is not usable", "--frame", "1", "--device", "cpu") == (0, "")

    def test_cpu_use_that_the_user_requested_is_not_a_cause(self, render: Lab) -> None:
        """The app fails for a reason unrelated to the GPU."""
        _, said = launch(
            render, "HIP is not usable\nscene: broken", "--frame", "1", "--device", "cpu", code=3
        )
        assert "Render ended with exit code 3" in said
        assert why(said) == []
        _, said = launch(render, "HIP is not usable\nscene: broken", "--frame", "1", code=3)
        assert any("[no-gpu-detected]" in line for line in why(said))

    def test_a_missing_gpu_is_reported_even_without_gpu_work(self, render: Lab) -> None:
        code, said = launch(render, "HIP is not usable", "--version")
        assert code == 0
        assert said.lstrip().startswith("Render ended with exit code 0, but it did not find a usable GPU\n")

    def test_the_apps_own_error_takes_precedence_over_missing_gpu_use(self, render: Lab) -> None:
        code, said = launch(render, "no such file: scene", "--frame", "1", code=3)
        assert code == 3
        assert "Render ended with exit code 3" in said
        assert (
            "nothing in its output shows that it used the GPU" not in said
            and "rocenv verify" not in said.split("Render ended")[1]
        )

    def test_other_programs_are_not_expected_to_use_the_gpu(self, render: Lab) -> None:
        done = render.run("launch", "sd", "--app", "render", "--", "echo", "--frame")
        assert done.stderr.decode().partition(".log\n")[2] == ""

    def test_a_server_stopped_with_ctrl_c_is_judged_by_its_output(self, render: Lab) -> None:
        """Ctrl-C is the normal way to stop a server."""
        terminal = render.terminal("launch", "sd", "./render", "--frame", "1")
        terminal.end()
        (render.app / "render").write_text(
            f"{PYTHON}import time\ntry:\n    print('HIP is not usable, going on', flush=True)\n"
            "    time.sleep(60)\nexcept KeyboardInterrupt:\n    pass\n"
        )
        terminal = render.terminal("launch", "sd", "./render", "--frame", "1")
        terminal.wait_for(b"going on")
        terminal.type(b"\x03")
        terminal.end()
        assert b"Render ended with exit code 0, but it used the CPU" in terminal.shown
        (render.app / "render").write_text(
            f"{PYTHON}import time\ntry:\n    print('waits', flush=True)\n"
            "    time.sleep(60)\nexcept KeyboardInterrupt:\n    pass\n"
        )
        terminal = render.terminal("launch", "sd", "./render", "--frame", "1")
        terminal.wait_for(b"waits")
        terminal.type(b"\x03")
        terminal.end()
        assert b"nothing shows" not in terminal.shown


class TestOneCause:
    def test_launch_and_diagnose_report_the_same_cause(self, render: Lab) -> None:
        _, said = launch(render, "error: no room for the scene", "--frame", "1")
        (line,) = why(said)
        rule = next(row for row in load().rule if row.code == "vram-oom")
        assert line == f"{rule.title.en} [vram-oom]: the scene is large (it printed `no room for the scene`)"
        (finding,) = diagnosed(render)
        assert (finding["code"], finding["title"]) == ("vram-oom", rule.title.en)
        assert [each["text"] for each in finding["evidence"]] == ["error: no room for the scene"]

    def test_each_cause_is_shown_once(self, render: Lab) -> None:
        """The profile's failure and the rule's own patterns both match the output."""
        text = "no room for the scene\ntorch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB."
        _, said = launch(render, text, "--frame", "1", code=1)
        assert sum("[vram-oom]" in line for line in why(said)) == 1

    def test_an_apps_failure_messages_are_ignored_in_other_logs(self, render: Lab) -> None:
        """`no room for the scene` may mean GPU memory in one app and the disk in another."""
        log = render.app / "other.log"
        log.write_text("amdgpu: gfx1031\nrobocopy: no room for the scene on D\n")
        done = render.run("diagnose", str(log), "--json")
        assert (done.returncode, json.loads(done.stdout)["findings"]) == (1, [])

    def test_generic_failures_are_recognized_in_launch_logs(self, render: Lab) -> None:
        done = render.run("launch", "sd", "--", "sh", "-c", "echo CUBLAS_STATUS_NOT_SUPPORTED; exit 1")
        assert "[zluda-unsupported-cuda-api]" in done.stderr.decode()
        assert [each["code"] for each in diagnosed(render)] == ["zluda-unsupported-cuda-api"]

    @pytest.mark.parametrize("launcher", load().launcher, ids=lambda row: row.key)
    def test_failures_in_profiles_do_not_repeat_their_rule(self, launcher: Any) -> None:
        titles = {row.code: row.title.en for row in load().rule}
        for failure in launcher.failures:
            assert failure.means != titles.get(failure.code)
            assert failure.code or failure.means


def diagnosed(lab: Lab, *more: str) -> list[Any]:
    done = lab.run("diagnose", str(lab.logs()[-1]), "--json", *more)
    found: list[Any] = json.loads(done.stdout)["findings"]
    return found


class TestFallbacks:
    def test_workarounds_are_filled_in_and_ordered(self, render: Lab) -> None:
        _, said = launch(render, "no room for the scene", "--frame", "1", code=1)
        told = todo(said)
        (first,) = [number for number, line in enumerate(told) if line.startswith("halve the textures: ")]
        assert told[first].startswith("halve the textures: rocenv run sd -- ")
        assert told[first].endswith("/render --half")
        assert told[first + 1] == "then take a kernel for gfx1031: rocenv explain gfx1031"
        assert told[first + 2] == "rocenv mem"
        assert not any("no matter here" in line for line in told)

    def test_the_explanation_is_in_the_users_language(self, render: Lab) -> None:
        render.env["LC_ALL"] = "zh_CN.UTF-8"
        _, said = launch(render, "no room for the scene", "--frame", "1", code=1)
        assert re.search(r"^原因：.*\[vram-oom\]", said, re.MULTILINE)
        assert "\n解决：把纹理减半：rocenv run sd -- " in said
        assert "why: " not in said and "do: " not in said

    def test_causes_found_by_diagnose_also_have_workarounds(self, render: Lab) -> None:
        text = "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB."
        _, said = launch(render, text, "--frame", "1", code=1)
        assert any(line.startswith("halve the textures") for line in todo(said))

    @pytest.mark.parametrize(
        ("language", "texts"),
        [
            ("en", ("halve the textures", "then take a kernel for gfx1031")),
            ("zh", ("把纹理减半", "再换用 gfx1031 的内核")),
        ],
    )
    def test_diagnose_shows_workarounds_first(
        self, render: Lab, language: str, texts: tuple[str, ...]
    ) -> None:
        launch(render, "no room for the scene", "--frame", "1", code=1)
        (finding,) = diagnosed(render, "--lang", language)
        told, commands = finding["remedy"]["text"], finding["remedy"]["commands"]
        places = [told.index(text) for text in texts]
        assert places == sorted(places)
        assert told.startswith(texts[0])
        assert commands[0] == "rocenv explain gfx1031", "the log does not show which program was started"

    def test_workarounds_are_not_shown_for_a_different_app(self, render: Lab) -> None:
        log = render.app / "other.log"
        log.write_text("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB.\ngfx1031\n")
        done = render.run("diagnose", str(log))
        assert done.returncode == 0
        assert "halve the textures" not in done.stdout.decode()


class TestData:
    @pytest.mark.parametrize(
        ("old", "new", "fault"),
        [
            (
                'code = "vram-oom", means',
                'code = "no-such-cause", means',
                "unknown rule `no-such-cause`",
            ),
            ('code = "vram-oom"\ntext', 'code = "of-nobody"\ntext', "unknown rule `of-nobody`"),
            (
                'code = "vram-oom", means = { en = "the scene is large", zh = "场景大" }',
                "code = ''",
                "neither `means` nor `code`",
            ),
            ('text = "HIP is not usable"', 'text = "x"', "must be part of one line"),
            ('gpu_used = ["Rendering with HIP"]', 'gpu_used = [""]', "`gpu_used`"),
            ('["Preparing the scene"]', '["x"]', "`gpu_work_shown`: `x` must be part of one line"),
            ('programs = ["render"]', 'programs = [" "]', "`programs` contains an empty string"),
            ('zh = "与此无关"', 'zh = ""', "`en` or `zh` is empty: `no matter here`"),
            (
                'title = "Render"',
                'title = "Render"\ndevices = { arguments = ["-l"], pattern = "(" }',
                "is not a valid regular expression",
            ),
            (
                'title = "Render"',
                'title = "Render"\ndevices = { arguments = ["-l"], pattern = "ROCm" }',
                "has no group `device`",
            ),
            ('title = "Render"', 'title = "Render"\nversion = "("', "is not a valid regular expression"),
            (
                'title = "Render"',
                'title = "Render"\nwrapper = { names = ["x.sh"] }',
                "`wrapper` needs a `command`",
            ),
        ],
    )
    def test_an_invalid_profile_is_rejected(self, render: Lab, old: str, new: str, fault: str) -> None:
        rows = render.root / "home" / "profiles" / "own.toml"
        assert old in ROW
        rows.write_text(ROW.replace(old, new, 1))
        done = render.run("launch", "sd", "--", "true")
        said = done.stderr.decode()
        assert done.returncode == 1, said
        assert fault in said
        assert "own.toml: launcher[0]" in said
        assert "Traceback" not in said

    def test_a_crash_does_not_hide_an_earlier_failure(self, render: Lab) -> None:
        (render.app / "render").write_text(
            f"{PYTHON}import os\nprint('no room for the scene', flush=True)\nos.abort()\n"
        )
        code, said = launch(render, "", "--frame", "1")
        assert code == 128 + signal.SIGABRT
        assert "Render ended with SIGABRT" in said
        assert re.search(r"^why: .*\[vram-oom\]", said, re.MULTILINE)
