"""Apps that end well and used no GPU, causes in the rules' words, and what apps' profiles say to try."""

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
  { text = "no room for the scene", code = "vram-oom", means = "the scene is large", remedy = "rocenv mem" },
]
"""
    + KNOWN
    + """
[[launcher.fallbacks]]
code = "vram-oom"
text = "halve the textures"
zh = "把纹理减半"
command = "rocenv run {name} -- {program} --half"

[[launcher.fallbacks]]
code = "no-gpu-detected"
text = "no matter here"
zh = "与此无关"

[[launcher.fallbacks]]
code = "vram-oom"
text = "then take a kernel for {target}"
zh = "再换用 {target} 的内核"
command = "rocenv explain {target}"
"""
)
TARGET = "gfx1031"
USED = "Rendering with HIP on gfx1031"


@pytest.fixture
def render(lab: Lab) -> Lab:
    """A Linux machine with an env, and a program that prints what it is told to and ends as it is told to."""
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
    """Launch the program and return its exit code and what was said after it."""
    done = lab.run("launch", "sd", "./render", *argv, environ={"SAYS": says, "CODE": str(code)})
    return done.returncode, done.stderr.decode().partition(".log\n")[2]


def why(said: str) -> list[str]:
    return [line.removeprefix("why: ") for line in said.splitlines() if line.startswith("why: ")]


def todo(said: str) -> list[str]:
    return [line.removeprefix("do:  ") for line in said.splitlines() if line.startswith("do:  ")]


class TestProof:
    def test_the_gpu_was_used(self, render: Lab) -> None:
        assert launch(render, USED, "--frame", "1") == (0, "")

    def test_nothing_shows_that_it_was(self, render: Lab) -> None:
        code, said = launch(render, "Saved: 0001.png", "--frame", "1")
        assert code == 0, "the exit code is the program's own"
        assert "Render ended with exit code 0, but nothing shows that it used the GPU" in said
        assert todo(said)[0] == "rocenv verify sd"
        assert "nothing shows that it used the GPU" in render.log().decode()

    def test_work_that_only_its_output_shows(self, render: Lab) -> None:
        """As where a script renders, or does not."""
        code, said = launch(render, "Preparing the scene\nSaved: 0001.png", "script")
        assert code == 0
        assert "Render ended with exit code 0, but nothing shows that it used the GPU" in said
        assert launch(render, f"Preparing the scene\n{USED}", "script") == (0, "")
        assert launch(render, "Preparing the scene", "script", "--device", "cpu") == (0, "")

    def test_it_says_that_the_cpu_works(self, render: Lab) -> None:
        code, said = launch(render, "warning: HIP is not usable, rendering on CPU", "--frame=1")
        assert code == 0
        assert "Render ended with exit code 0, but it worked on the CPU" in said
        assert "nothing shows" not in said

    @pytest.mark.parametrize(
        "argv", [(), ("--version",), ("--frame", "1", "--version"), ("--frame", "1", "--device", "cpu")]
    )
    def test_no_work_for_the_gpu_was_asked_for(self, render: Lab, argv: tuple[str, ...]) -> None:
        assert launch(render, "Saved: 0001.png", *argv) == (0, "")

    def test_the_cpu_that_was_asked_for_is_no_failure(self, render: Lab) -> None:
        assert launch(render, "HIP is not usable", "--frame", "1", "--device", "cpu") == (0, "")

    def test_the_cpu_that_was_asked_for_is_no_cause(self, render: Lab) -> None:
        """It has an error of its own, and the want of a GPU is none of its causes."""
        _, said = launch(
            render, "HIP is not usable\nscene: broken", "--frame", "1", "--device", "cpu", code=3
        )
        assert "Render ended with exit code 3" in said
        assert why(said) == []
        _, said = launch(render, "HIP is not usable\nscene: broken", "--frame", "1", code=3)
        assert any("[no-gpu-detected]" in line for line in why(said))

    def test_who_asked_for_no_work_is_told_of_none(self, render: Lab) -> None:
        code, said = launch(render, "HIP is not usable", "--version")
        assert code == 0
        assert said.lstrip().startswith(
            "Render ended with exit code 0, but there is no GPU here that it can use\n"
        )

    def test_an_error_of_its_own_says_more(self, render: Lab) -> None:
        code, said = launch(render, "no such file: scene", "--frame", "1", code=3)
        assert code == 3
        assert "Render ended with exit code 3" in said
        assert (
            "nothing shows that it used the GPU" not in said
            and "rocenv verify" not in said.split("Render ended")[1]
        )

    def test_other_programs_prove_nothing(self, render: Lab) -> None:
        done = render.run("launch", "sd", "--app", "render", "--", "echo", "--frame")
        assert done.stderr.decode().partition(".log\n")[2] == ""

    def test_a_server_that_is_ended_by_ctrl_c(self, render: Lab) -> None:
        """It has no other end, so what it printed before is all there is to go by."""
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
        assert b"Render ended with exit code 0, but it worked on the CPU" in terminal.shown
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
    def test_launch_and_diagnose_say_the_same(self, render: Lab) -> None:
        _, said = launch(render, "error: no room for the scene", "--frame", "1")
        (line,) = why(said)
        rule = next(row for row in load().rule if row.code == "vram-oom")
        assert line == f"{rule.title.en} [vram-oom]: the scene is large (it printed `no room for the scene`)"
        (finding,) = diagnosed(render)
        assert (finding["code"], finding["title"]) == ("vram-oom", rule.title.en)
        assert [each["text"] for each in finding["evidence"]] == ["error: no room for the scene"]

    def test_each_cause_is_said_once(self, render: Lab) -> None:
        """The output shows it by signs of the rule too, which know more of it."""
        text = "no room for the scene\ntorch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB."
        _, said = launch(render, text, "--frame", "1", code=1)
        assert sum("[vram-oom]" in line for line in why(said)) == 1

    def test_a_line_that_shows_nothing_in_logs_of_others(self, render: Lab) -> None:
        """`no room for the scene` is what one app says of its GPU memory; others say it of a disk."""
        log = render.app / "other.log"
        log.write_text("amdgpu: gfx1031\nrobocopy: no room for the scene on D\n")
        done = render.run("diagnose", str(log), "--json")
        assert (done.returncode, json.loads(done.stdout)["findings"]) == (1, [])

    def test_what_is_true_of_any_program_counts_in_a_log_of_launch(self, render: Lab) -> None:
        done = render.run("launch", "sd", "--", "sh", "-c", "echo CUBLAS_STATUS_NOT_SUPPORTED; exit 1")
        assert "[zluda-unsupported-cuda-api]" in done.stderr.decode()
        assert [each["code"] for each in diagnosed(render)] == ["zluda-unsupported-cuda-api"]

    @pytest.mark.parametrize("launcher", load().launcher, ids=lambda row: row.key)
    def test_failures_of_the_data_repeat_no_rule(self, launcher: Any) -> None:
        titles = {row.code: row.title.en for row in load().rule}
        for failure in launcher.failures:
            assert failure.means != titles.get(failure.code)
            assert failure.code or failure.means


def diagnosed(lab: Lab, *more: str) -> list[Any]:
    done = lab.run("diagnose", str(lab.logs()[-1]), "--json", *more)
    found: list[Any] = json.loads(done.stdout)["findings"]
    return found


class TestFallbacks:
    def test_they_are_told_in_order_and_filled(self, render: Lab) -> None:
        _, said = launch(render, "no room for the scene", "--frame", "1", code=1)
        told = todo(said)
        (first,) = [number for number, line in enumerate(told) if line.startswith("halve the textures: ")]
        assert told[first].startswith("halve the textures: rocenv run sd -- ")
        assert told[first].endswith("/render --half")
        assert told[first + 1] == "then take a kernel for gfx1031: rocenv explain gfx1031"
        assert told[first + 2] == "rocenv mem"
        assert not any("no matter here" in line for line in told)

    def test_a_cause_that_only_the_output_shows_has_them_too(self, render: Lab) -> None:
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
    def test_diagnose_tells_them_first(self, render: Lab, language: str, texts: tuple[str, ...]) -> None:
        launch(render, "no room for the scene", "--frame", "1", code=1)
        (finding,) = diagnosed(render, "--lang", language)
        told, commands = finding["remedy"]["text"], finding["remedy"]["commands"]
        places = [told.index(text) for text in texts]
        assert places == sorted(places)
        assert told.startswith(texts[0])
        assert commands[:2] == ["rocenv run NAME -- PROGRAM --half", "rocenv explain gfx1031"]

    def test_not_in_the_log_of_another_app(self, render: Lab) -> None:
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
                "there is no rule `no-such-cause`",
            ),
            ('code = "vram-oom"\ntext', 'code = "of-nobody"\ntext', "there is no rule `of-nobody`"),
            ('code = "vram-oom", means = "the scene is large"', "code = ''", "neither `means` nor `code`"),
            ('text = "HIP is not usable"', 'text = "x"', "must be part of one line"),
            ('gpu_used = ["Rendering with HIP"]', 'gpu_used = [""]', "`gpu_used`"),
            ('["Preparing the scene"]', '["x"]', "`gpu_work_shown`: `x` must be part of one line"),
            ('programs = ["render"]', 'programs = [" "]', "`programs` contains an empty text"),
            ('zh = "与此无关"', 'zh = ""', "lacks a text in a language"),
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
            ('title = "Render"', 'title = "Render"\nneeds = { rocm = "six" }', "`needs.rocm`: `six`"),
            (
                'title = "Render"',
                'title = "Render"\nwrapper = { names = ["x.sh"] }',
                "`wrapper` needs a `command`",
            ),
        ],
    )
    def test_a_profile_that_cannot_be_right_is_refused(
        self, render: Lab, old: str, new: str, fault: str
    ) -> None:
        rows = render.root / "home" / "profiles" / "own.toml"
        assert old in ROW
        rows.write_text(ROW.replace(old, new, 1))
        done = render.run("launch", "sd", "--", "true")
        said = done.stderr.decode()
        assert done.returncode == 1, said
        assert fault in said
        assert "own.toml: launcher[0]" in said
        assert "Traceback" not in said

    def test_signals_are_still_signals(self, render: Lab) -> None:
        (render.app / "render").write_text(
            f"{PYTHON}import os\nprint('no room for the scene', flush=True)\nos.abort()\n"
        )
        code, said = launch(render, "", "--frame", "1")
        assert code == 128 + signal.SIGABRT
        assert "Render ended with SIGABRT" in said
        assert re.search(r"^why: .*\[vram-oom\]", said, re.MULTILINE)
