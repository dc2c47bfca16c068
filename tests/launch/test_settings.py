"""What the user has set in a file that only an app's shell wrapper reads, and how it is told."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.launch.test_apps_linux import on_linux, put, said_by

if TYPE_CHECKING:
    from pathlib import Path

    from tests.launch.lab import Lab

MORE = "webui-user.sh` does more than rocenv can read"


@pytest.fixture(name="home")
def fixture_home(lab: Lab) -> Path:
    on_linux(lab)
    return put(lab, "sdnext")


def hints_for(
    lab: Lab, content: str | bytes, *typed: str, environ: dict[str, str] | None = None
) -> list[str]:
    """Return what is told to be typed for a settings file, and check that no password is told with it."""
    data = content.encode() if isinstance(content, str) else content
    (lab.app / "webui-user.sh").write_bytes(data)
    done = lab.run("launch", "sd", "--", *(typed or ("./webui.sh",)), environ=environ)
    assert done.returncode == 0, done.stderr
    said = done.stderr.decode()
    warnings = said.partition("`webui.sh` is not run")[0]
    logged = [line for line in lab.log().decode().splitlines() if line.startswith("#")]  # the app tells too
    assert not [word for word in ("pw1", "pw2", "pw9") if word in warnings or word in str(logged)]
    return re.findall(r"webui-user\.sh` sets [^\n]*\n  hint: (.*?)\n(?=warning: )", warnings, re.DOTALL)


def arguments(*words: str) -> str:
    return f"export COMMANDLINE_ARGS={shlex.quote(' '.join(words))}\n"


class TestAssignments:
    def test_settings_of_the_user_that_it_reads_are_named(self, lab: Lab, home: Path) -> None:
        (home / "webui-user.sh").write_text(
            '#!/bin/bash\n# export COMMANDLINE_ARGS="--no"\nexport COMMANDLINE_ARGS="--medvram --port 7861"\n'
            'export GIT="/opt/my git"\nexport venv_dir="venv"\nexport TORCH_COMMAND="pip install torch"\n'
            'export HF_HOME="$HOME/hf"\nexport BROKEN="it\n'
        )
        done = lab.run("launch", "sd", "./webui.sh", "--medvram")
        said = done.stderr.decode()
        assert "webui-user.sh` sets COMMANDLINE_ARGS, and is not read without `webui.sh`" in said
        assert f"hint: rocenv launch sd -- {home}/webui.sh --port 7861 --medvram\n" in said
        assert "hint: export GIT='/opt/my git'\n" in said
        assert 'hint: export HF_HOME="$HOME/hf"\n' in said
        assert not any(f"sets {name}" in said for name in ("venv_dir", "TORCH_COMMAND"))
        # What is said to be typed does it.
        typed = lab.run(
            *shlex.split("launch sd -- ./webui.sh --port 7861 --medvram"), environ={"GIT": "/opt/my git"}
        )
        assert said_by(typed.stdout)["ARGS"].startswith("['--port', '7861'")
        assert said_by(typed.stdout)["GIT"] == "/opt/my git"

    def test_settings_that_only_a_shell_can_read(self, lab: Lab, home: Path) -> None:
        path = home / "webui-user.sh"
        path.write_text(
            'export COMMANDLINE_ARGS="--medvram \n --port 1"\nexport HF_TOKEN=hf_secret123\nA=1; B=2\n'
        )
        said = lab.run("launch", "sd", "./webui.sh").stderr.decode()
        assert f"hint: rocenv launch sd -- {home}/webui.sh --medvram --port 1\n" in said
        assert "sets HF_TOKEN" in said and "hf_secret123" not in said
        assert b"hf_secret123" not in lab.logs()[-1].read_bytes()
        assert MORE in said
        for text in ('COMMANDLINE_ARGS+=" --x"\n', "if true; then\n  export ONLY=1\nfi\n", "B=(1 2)\n"):
            path.write_text(text)
            said = lab.run("launch", "sd", "./webui.sh").stderr.decode()
            assert MORE in said and " sets " not in said
        path.write_text("#!/bin/bash\n\n# nothing\nexport A=\n")
        assert MORE not in lab.run("launch", "sd", "./webui.sh").stderr.decode()

    def test_no_settings_file_or_one_that_is_none(self, lab: Lab, home: Path) -> None:
        assert b"not read" not in lab.run("launch", "sd", "./webui.sh").stderr
        (home / "webui-user.sh").mkdir()
        assert lab.run("launch", "sd", "./webui.sh").returncode == 0
        (home / "webui-user.sh").rmdir()
        os.mkfifo(home / "webui-user.sh")
        assert lab.run("launch", "sd", "./webui.sh").returncode == 0
        (home / "webui-user.sh").unlink()
        (home / "webui-user.sh").write_bytes(b"\xff\xfeexport A=\x00\n=\nexport B=(1 2)\n")
        assert lab.run("launch", "sd", "./webui.sh").returncode == 0

    def test_what_is_told_sets_what_the_file_sets(self, lab: Lab, home: Path) -> None:
        lines = (
            "export A='a=b=c d'",
            "export B=a#b",
            "export C=#fff # it's a colour",
            'export D="a \\\n b"',
            "export E=a\\\nb",
            "export F='a \\\n b'",
            "export G='it'\\''s' H=2",
            "export I=\"$HOME/x\" J='$HOME'",
            "export K=~/x",
            "export L=`echo a b`-${HOME:-c d}",
            'export M="\\$5 \\"q\\" \\d"',
            "export N=$'a\\'b'",
            "export O=1\nexport O=2",
            'export P=1\nexport P="$P:2"',
            "export Q=''\\#1 # \"",
            "export R=/私の模型/é",
        )
        hints = hints_for(lab, "\n".join(lines))
        there = {"HOME": "/home/me", "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
        told, meant = (
            subprocess.run(["bash", "-c", f"{each}\nenv -0"], env=there, capture_output=True).stdout
            for each in ("\n".join(hints), f". {home}/webui-user.sh")
        )
        assert len(hints) == len(lines) + 3
        assert sorted(told.split(b"\0")) == sorted(meant.split(b"\0"))

    def test_done_as_told_it_is_told_no_more(self, lab: Lab, home: Path) -> None:
        text = 'export HF_HOME="$HOME/hf"\nexport A=~/x\nexport B=1\n'
        assert len(hints_for(lab, text)) == 3
        done = {"HF_HOME": f"{lab.root}/hf", "A": f"{lab.root}/x", "B": "1"}
        assert hints_for(lab, text, environ=done) == []

    @pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf"])
    def test_written_on_windows(self, lab: Lab, home: Path, before: bytes) -> None:
        text = before + b'# x\r\nexport A=1\r\nexport B="x \\\r\n y"\r\n'
        assert hints_for(lab, text) == ["export A=1", "export B='x  y'"]

    @pytest.mark.parametrize("value", [b"/m\xff/x", b"\x1b[31m", "/私の　模型".encode()])
    def test_what_no_terminal_shows_is_named(self, lab: Lab, home: Path, value: bytes) -> None:
        """A command that lacks a letter of it would set another value."""
        text = b'export A="' + value + b'"\nexport COMMANDLINE_ARGS="--data ' + value + b'"\n'
        assert hints_for(lab, text) == [
            f"export {name}=…, as it stands there" for name in ("A", "COMMANDLINE_ARGS")
        ]

    @pytest.mark.parametrize(
        "text", ["f() {\n  export A=1\n}\n", "export A=$(date)\n", 'export A="\n', "export A=1\n" * 10_000]
    )
    def test_what_cannot_be_told_is_said_to_be_there(self, lab: Lab, home: Path, text: str) -> None:
        assert hints_for(lab, text) == []
        assert MORE in lab.run("launch", "sd", "./webui.sh").stderr.decode()

    def test_a_huge_file_keeps_nobody_waiting(self, lab: Lab, home: Path) -> None:
        began = time.monotonic()
        assert hints_for(lab, 'A="x' + "a" * (1 << 20) + "\n" * 60) == []
        assert time.monotonic() - began < 10


class TestArguments:
    @pytest.mark.parametrize(
        ("content", "typed", "seen"),
        [
            (arguments("--medvram", "--ckpt-dir", "'/my models/x'"), (), "--medvram|--ckpt-dir|/my models/x"),
            ('COMMANDLINE_ARGS="--medvram \\\n  --api"\n', (), "--medvram|--api"),
            (arguments("--port 80 --medvram"), ("--port", "81"), "--medvram|--port|81"),
            (arguments("--port 80 --medvram"), ("--port=81",), "--medvram|--port=81"),
            (arguments("--port=80 --lora -1 --medvram"), ("--port", "81"), "--lora|-1|--medvram|--port|81"),
            (arguments("--api --skip-torch"), (), "--api"),
        ],
    )
    def test_what_is_told_gives_them(
        self, lab: Lab, home: Path, content: str, typed: tuple[str, ...], seen: str
    ) -> None:
        """From wherever it is typed: rocenv goes to the app's folder, and the user does not."""
        (hint,) = hints_for(lab, content, "./webui.sh", *typed)
        assert hint.startswith("rocenv launch sd -- ")
        (home / "webui-user.sh").unlink()
        command = [sys.executable, "-m", *shlex.split(hint)]
        done = subprocess.run(command, env=lab.env, cwd=lab.root, capture_output=True)
        assert said_by(done.stdout)["ARGS"].startswith(str(seen.split("|"))[:-1]), done.stderr

    def test_what_starts_it_stays_in_front(self, lab: Lab, home: Path) -> None:
        (hint,) = hints_for(lab, arguments("--api"), "nice", "-n", "5", "./webui.sh", "--medvram")
        assert hint == f"rocenv launch sd -- nice -n 5 {home}/webui.sh --api --medvram"

    def test_all_that_are_given_are_not_lost(self, lab: Lab, home: Path) -> None:
        assert hints_for(lab, arguments("--port 80 --api"), "./webui.sh", "--api", "--port", "81") == []

    @pytest.mark.parametrize(
        ("words", "typed", "hint"),
        [
            ("--gradio-auth me:pw1 --medvram", (), "--medvram --gradio-auth …, as it stands there"),
            ("--gradio-auth=me:pw1", (), "--gradio-auth …, as it stands there"),
            ("--gradio-auth me:pw1 you:pw2", (), "--gradio-auth …, as it stands there"),
            ("https://me:pw1@host/ --api", (), "--api https://***@host/ …, as it stands there"),
            ("--api-key -pw1 --api", (), "--api --api-key …, as it stands there"),
            ("--proxy https://me:pw1@host/", (), "--proxy …, as it stands there"),
            (
                "--gradio-auth me:pw1 --api-auth 'a b:pw2' --api",
                ("--gradio-auth", "me:pw9"),
                "--api --api-auth …, as it stands there",
            ),
            ("--gradio-auth me:pw1 --data '/a b'", ("--gradio-auth", "me:pw9"), "--data '/a b'"),
        ],
    )
    def test_passwords_make_no_command(
        self, lab: Lab, home: Path, words: str, typed: tuple[str, ...], hint: str
    ) -> None:
        """Neither shown, nor as `***` in a command, which would set that one."""
        assert hints_for(lab, f'export COMMANDLINE_ARGS="{words}"\n', "./webui.sh", *typed) == [
            f"to what you type add {hint}"
        ]

    def test_a_token_in_front_of_it_makes_no_command(self, lab: Lab, home: Path) -> None:
        typed = ("env", "HF_TOKEN=pw1", "./webui.sh")
        assert hints_for(lab, arguments("--api"), *typed) == ["to what you type add --api"]

    @pytest.mark.parametrize(
        "line",
        [
            'export {}="--gradio-auth me:pw1 --data $HOME/x"',
            "export {}=https://me:pw1@host/$HOME",
            "export {}='--x --api-key=pw1 $'",
            "export {}=\"'--api-key' pw1 $HOME\"",
        ],
    )
    @pytest.mark.parametrize("name", ["COMMANDLINE_ARGS", "EXTRA"])
    def test_passwords_within_other_values(self, lab: Lab, home: Path, name: str, line: str) -> None:
        (hint,) = hints_for(lab, line.format(name) + "\n")
        assert hint.endswith("…, as it stands there")

    def test_quotes_that_the_app_cannot_read_either(self, lab: Lab, home: Path) -> None:
        (hint,) = hints_for(lab, 'export COMMANDLINE_ARGS="--api \'x"\n')
        assert hint == "look at it: a quote in its value is not closed"
