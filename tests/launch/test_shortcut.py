"""Batch files that users double-click to start an app."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocenv.commands.launch import shortcut_text
from rocenv.core.errors import RocenvError

if TYPE_CHECKING:
    from tests.launch.lab import Lab


class TestText:
    def test_a_shortcut_for_plain_words_does_not_switch_the_code_page(self) -> None:
        text = shortcut_text(["C:\\py\\python.exe", "-m", "rocenv", "launch", "sd"], "C:\\SD.Next", {})
        assert text.decode().split("\r\n") == [
            "@echo off",
            "rem made by rocenv launch --write-shortcut",
            "setlocal disabledelayedexpansion",
            'cd /d "C:\\SD.Next"',
            "C:\\py\\python.exe -m rocenv launch sd",
            'set "_ENDED=%errorlevel%"',
            'if not "%_ENDED%"=="0" pause',
            "exit /b %_ENDED%",
            "",
        ]
        assert b"chcp" not in text, "the code page is not switched for ASCII words"

    def test_special_characters_are_escaped_in_a_shortcut(self) -> None:
        text = shortcut_text(["C:\\Program Files\\p.exe", "a&b", "100%", "x^y!", "tail\\ \\"], "C:\\", {})
        assert '"C:\\Program Files\\p.exe" "a&b" "100%%" "x^y!" "tail\\ \\\\"' in text.decode()

    def test_non_ascii_words_switch_to_utf8_and_restore_the_code_page(self) -> None:
        lines = (
            shortcut_text(["p.exe"], "C:\\Bilder\u00fcbung\\\u6f22", {"ROCENV_HOME": "D:\\x"})
            .decode()
            .split("\r\n")
        )
        assert "chcp 65001 >nul" in lines
        assert lines.index("chcp 65001 >nul") < lines.index('cd /d "C:\\Bilder\u00fcbung\\\u6f22"')
        assert "chcp %_CODE_PAGE% >nul" in lines
        assert 'set "ROCENV_HOME=D:\\x"' in lines

    @pytest.mark.parametrize("word", ['say "hi"', "two\nlines", "\x1b"])
    def test_arguments_that_a_batch_file_cannot_pass_on_are_rejected(self, word: str) -> None:
        with pytest.raises(RocenvError, match="a batch file cannot pass the"):
            shortcut_text([word], "C:\\", {})


class TestCommand:
    def test_the_shortcut_starts_the_app(self, lab: Lab) -> None:
        lab.make_zluda()
        for name in ("launch.py", "installer.py"):
            (lab.app / name).write_text("print('never')")
        done = lab.run("launch", "sd", "--write-shortcut", "--", "--medvram")
        path = lab.app / "sd.cmd"
        assert (done.returncode, done.stdout) == (0, b"sd.cmd\n"), done.stderr
        text = path.read_bytes()
        assert b"-m rocenv launch sd --app sdnext -- --medvram\r\n" in text
        assert f'cd /d "{lab.app}"'.encode() in text
        assert f'set "ROCENV_HOME={lab.root}/home"'.encode() in text
        assert b"never" not in done.stderr
        assert lab.run("launch", "sd", "--write-shortcut", "other folder").returncode == 0
        assert (lab.app / "other folder" / "sd.cmd").exists()

    def test_a_relative_path_in_the_command_stays_valid(self, lab: Lab) -> None:
        """The command runs an app in a subfolder."""
        lab.make_zluda()
        (lab.app / "SD.Next").mkdir()
        for name in ("launch.py", "installer.py"):
            (lab.app / "SD.Next" / name).write_text("print('never')")
        done = lab.run("launch", "sd", "--write-shortcut", "--", "python", "SD.Next/launch.py")
        text = (lab.app / "sd.cmd").read_text()
        assert done.returncode == 0, done.stderr
        assert f'cd /d "{lab.app}"' in text
        assert "--app sdnext -- python SD.Next/launch.py\n" in text

    def test_other_files_are_not_overwritten(self, lab: Lab) -> None:
        lab.make_zluda()
        (lab.app / "sd.cmd").write_text("@echo mine")
        done = lab.run("launch", "sd", "--write-shortcut", ".", "--", "true")
        assert (done.returncode, (lab.app / "sd.cmd").read_text()) == (1, "@echo mine")
        assert b"was not written by rocenv" in done.stderr

    def test_a_shortcut_for_a_linux_env_is_refused(self, lab: Lab) -> None:
        lab.make(platform="linux")
        done = lab.run("launch", "sd", "--write-shortcut", "--", "true")
        assert (done.returncode, b"shortcuts work only on Windows" in done.stderr) == (1, True)
