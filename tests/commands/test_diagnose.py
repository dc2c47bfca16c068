"""`rocenv diagnose` from the command line."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rocenv.core.language import chosen
from rocenv.data.load import load
from tests import forked, shipped

CASES = Path(__file__).parents[1] / "cases" / "diagnose"
KFD = CASES / "kfd-permission-denied"
FOUNDING = Path(__file__).parents[1] / "cases" / "founding"
posix = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX pipes, links and terminals")


def diagnose(
    home: Path, *arguments: str, stdin: bytes | None = None, **environ: str
) -> subprocess.CompletedProcess[bytes]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG"))}
    env = {**plain, "ROCENV_HOME": str(home), "LC_ALL": "C.UTF-8", **environ}
    return forked.run(["diagnose", *arguments], env=env, stdin=stdin)


def document(done: subprocess.CompletedProcess[bytes]) -> Any:
    return json.loads(done.stdout)


LOG = b"start\nUnable to open /dev/kfd read-write: Permission denied\n"


def test_a_finding_has_a_cause_and_a_remedy(tmp_path: Path) -> None:
    log = tmp_path / "my app.log"
    log.write_bytes(LOG)
    done = diagnose(tmp_path, str(log))
    text = done.stdout.decode()
    assert (done.returncode, done.stderr) == (0, b"")
    assert "[kfd-permission-denied]" in text
    assert "line 2: Unable to open /dev/kfd read-write: Permission denied" in text
    assert "usermod -aG render,video" in text
    assert "rocenv explain kfd-permission-denied" in text


@pytest.mark.parametrize(
    ("arguments", "environ"),
    [(("--lang", "zh"), {}), ((), {"LC_ALL": "zh_CN.UTF-8"}), ((), {"LC_ALL": "", "LANG": "zh_SG.UTF-8"})],
)
def test_findings_are_available_in_chinese(
    tmp_path: Path, arguments: tuple[str, ...], environ: dict[str, str]
) -> None:
    done = diagnose(tmp_path, "-", *arguments, stdin=LOG, **environ, PYTHONIOENCODING="utf-8")
    text = done.stdout.decode()
    assert "原因" in text
    assert "why:" not in text
    assert "usermod -aG render,video" in text


def test_output_is_readable_if_its_encoding_has_no_chinese(tmp_path: Path) -> None:
    """With a Western code page, Chinese output is UTF-8; English output masks Chinese text."""
    done = diagnose(tmp_path, "-", "--lang", "zh", stdin=LOG, PYTHONIOENCODING="cp1252")
    assert (done.returncode, done.stderr) == (0, b"")
    assert "原因" in done.stdout.decode()
    foreign = "错误 Unable to open /dev/kfd read-write: Permission denied\n".encode()
    done = diagnose(tmp_path, "-", stdin=foreign, PYTHONIOENCODING="cp1252")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"?? Unable to open /dev/kfd" in done.stdout


def test_the_lang_option_overrides_the_locale(tmp_path: Path) -> None:
    done = diagnose(tmp_path, "-", "--lang", "en", stdin=LOG, LC_ALL="zh_CN.UTF-8")
    assert "why:" in done.stdout.decode()


def test_output_is_english_in_locales_with_traditional_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LANGUAGE", raising=False)
    for locale, language in (
        ("zh_CN.UTF-8", "zh"),
        ("zh", "zh"),
        ("zh_Hans_SG", "zh"),
        ("zh_TW.UTF-8", "en"),
        ("zh_HK", "en"),
        ("zh_Hant", "en"),
        ("de_DE", "en"),
    ):
        monkeypatch.setenv("LC_ALL", locale)
        assert chosen() == language, locale


def test_the_json_document_contains_the_finding(tmp_path: Path) -> None:
    done = diagnose(tmp_path, "-", "--json", stdin=LOG)
    (finding,) = document(done)["findings"]
    assert set(finding) == {"code", "title", "confidence", "evidence", "facts", "cause", "remedy", "links"}
    assert finding["code"] == "kfd-permission-denied"
    assert 0.5 < finding["confidence"] <= 1
    assert finding["evidence"][0] == {
        "line": 2,
        "text": "Unable to open /dev/kfd read-write: Permission denied",
        "count": 1,
    }
    assert finding["remedy"]["text"]
    assert finding["remedy"]["commands"]
    assert finding["cause"]


def test_diagnose_exits_with_1_if_it_finds_nothing(tmp_path: Path) -> None:
    done = diagnose(tmp_path, "-", stdin=b"git: could not resolve host\n")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"found no known GPU problem" in done.stderr
    assert b"rocenv doctor" in done.stderr
    done = diagnose(tmp_path, "-", "--json", stdin=b"git: could not resolve host\n")
    assert (done.returncode, document(done)) == (1, {"findings": []})


def test_an_empty_log_is_reported(tmp_path: Path) -> None:
    done = diagnose(tmp_path, "-", stdin=b"")
    assert done.returncode == 1
    assert b"is empty" in done.stderr


def test_a_missing_log_is_reported(tmp_path: Path) -> None:
    done = diagnose(tmp_path, str(tmp_path / "nowhere.log"))
    assert done.returncode == 1
    assert b"cannot read" in done.stderr
    assert b"Traceback" not in done.stderr
    done = diagnose(tmp_path, str(tmp_path / "nowhere.log"), "--json")
    assert document(done)["error"] == "log-unreadable"


def test_evidence_from_a_folder_includes_the_file(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "1.log").write_text("fine\n")
    (logs / "2.log.gz").write_bytes(gzip.compress(LOG))
    done = diagnose(tmp_path / "home", str(logs), "--json")
    (finding,) = document(done)["findings"]
    assert (finding["evidence"][0]["file"], finding["evidence"][0]["line"]) == ("2.log.gz", 2)


def test_facts_about_the_machine_supplement_those_in_the_log(tmp_path: Path) -> None:
    log = b"File /home/user/app.py\nRuntimeError: HIP error: invalid device function\n"
    done = diagnose(tmp_path, "-", stdin=log, ROCENV_TARGET="gfx1201")
    assert b"here:  gfx gfx1201" in done.stdout
    told = b"Device 0: AMD Radeon RX 6600, gfx1032 (0x1032)\n" + log
    done = diagnose(tmp_path, "-", stdin=told, ROCENV_TARGET="gfx1201")
    assert b"gfx1201" not in done.stdout
    assert b"gfx1032" in done.stdout


def test_escape_sequences_in_a_log_are_not_printed(tmp_path: Path) -> None:
    done = diagnose(
        tmp_path, "-", stdin=b"\x1b]0;owned\x07Unable to open /dev/kfd read-write: Permission denied\x9b2J\n"
    )
    assert b"\x1b" not in done.stdout
    assert b"\x9b" not in done.stdout


# The failing lines mention neither GPU and are far from the line that lists both.
GPUS = b"INFO ROCm: agents=['gfx1036', 'gfx1031'] selected=1\n" + b"loading\n" * 70
NO_KERNELS = b"RuntimeError: HIP error: invalid device function\n"


class TestSelectedGpu:
    @pytest.mark.parametrize("language", ["en", "zh"])
    def test_the_discrete_gpu_is_preferred_to_the_integrated_gpu(self, tmp_path: Path, language: str) -> None:
        log = b"File /home/user/app/main.py\n" + GPUS + NO_KERNELS
        done = diagnose(tmp_path, "-", "--json", "--lang", language, stdin=log)
        (finding,) = document(done)["findings"]
        commands = [each for each in finding["remedy"]["commands"] if "rocenv create" in each]
        assert commands
        assert all("gfx1031" in each for each in commands)
        said = " ".join((finding["title"], finding["cause"], finding["remedy"]["text"]))
        assert "gfx1036" not in said + " ".join(finding["remedy"]["commands"])
        assert "gfx1031" in said

    def test_facts_come_from_the_machine_on_which_the_error_occurred(self, tmp_path: Path) -> None:
        logs = tmp_path / "logs"
        logs.mkdir()
        first = b"File /home/user/a.py\nROCm 6.2 AMD Radeon RX 6750 XT gfx1031\ntorch 2.5.1+rocm6.2 is fine\n"
        second = b"File /home/user/b.py\nROCm 6.4 AMD Radeon RX 9070 XT gfx1201\n" + NO_KERNELS
        for names in (("a.log", "b.log"), ("y.log", "x.log")):
            for name, data in zip(names, (first, second), strict=True):
                (logs / name).write_bytes(data)
            done = diagnose(tmp_path / "home", str(logs), "--json")
            (finding,) = document(done)["findings"]
            assert finding["evidence"][0]["file"] == names[1]
            assert (finding["facts"]["gfx"], finding["facts"]["rocm"]) == ("gfx1201", "6.4")
            assert "gfx1031" not in done.stdout.decode()
            assert "--target gfx1201" in " ".join(finding["remedy"]["commands"])
            for name in names:
                (logs / name).unlink()


class TestEncodings:
    @pytest.mark.parametrize("odd", ["cp936", "utf-8"])
    def test_a_log_with_mixed_encodings_is_decoded_line_by_line(self, tmp_path: Path, odd: str) -> None:
        """An old program writes GBK to an app's UTF-8 log, or vice versa."""
        usual = "utf-8" if odd == "cp936" else "cp936"
        line = "错误：无法加载模型 Unable to open /dev/kfd read-write: Permission denied"
        lines = [f"信息：第 {n} 步完成，正在保存图片 amdgpu /home/user".encode(usual) for n in range(300)]
        for at in (70, 170, 270):
            lines[at] = line.encode(odd)
        log = tmp_path / "mixed.log"
        log.write_bytes(b"\n".join(lines))
        (finding,) = document(diagnose(tmp_path, str(log), "--json"))["findings"]
        (evidence,) = finding["evidence"]
        assert (evidence["line"], evidence["text"], evidence["count"]) == (71, line, 3)
        lines[71] = f"{line}，请检查".encode(usual)
        del lines[70]
        log.write_bytes(b"\n".join(lines))
        (finding,) = document(diagnose(tmp_path, str(log), "--json"))["findings"]
        assert finding["evidence"][0]["text"] == f"{line}，请检查"


@posix
class TestATerminal:
    def shown(self, log: Path, **environ: str) -> bytes:
        from tests.launch.lab import Terminal

        shipped.put_into(log.parent)
        argv = [sys.executable, "-m", "rocenv", "diagnose", str(log)]
        env = {**os.environ, "ROCENV_HOME": str(log.parent), "LC_ALL": "C.UTF-8", "TERM": "xterm", **environ}
        terminal = Terminal.start(argv, env, log.parent, (40, 100))
        assert terminal.end() == 0
        return terminal.shown

    @pytest.fixture
    def log(self, tmp_path: Path) -> Path:
        log = tmp_path / "app.log"
        words = b"\x1b]0;owned\x07\x1b[2JUnable to open \x1b[31m/dev/kfd\x1b[0m read-write: Permission denied"
        log.write_bytes(b"start\n" + words + b" \x1b\x1b[ \xc2\x9b2J \x9b5n\n")
        return log

    def test_titles_are_colored_and_log_text_is_not(self, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("NO_COLOR", raising=False)
        shown = self.shown(log)
        assert re.search(rb"1\. \x1b\[33m[^\x1b]+\x1b\[0m  \[kfd-permission-denied\]", shown)
        assert b"?[" not in shown
        assert b"Unable to open /dev/kfd read-write: Permission denied" in shown
        plain = re.sub(rb"\x1b\[(?:33|0)m", b"", shown)
        assert b"\x1b" not in plain
        assert "\x9b" not in plain.decode("utf-8", "replace")
        assert b"owned" not in plain

    def test_no_color_turns_colors_off(self, log: Path) -> None:
        assert b"\x1b" not in self.shown(log, NO_COLOR="1")


@posix
class TestMixedFolder:
    @pytest.fixture
    def logs(self, tmp_path: Path) -> Path:
        logs = tmp_path / "logs"
        logs.mkdir()
        (logs / "app.log").write_bytes(LOG)
        return logs

    def only_the_log(self, logs: Path) -> str:
        """Check that only the log was read; return the notes on the other files."""
        done = diagnose(logs.parent / "home", str(logs), "--json")
        (finding,) = document(done)["findings"]
        assert [each["file"] for each in finding["evidence"]] == ["app.log"]
        assert "Traceback" not in done.stderr.decode()
        return done.stderr.decode()

    def test_a_library_is_not_read_as_a_log(self, logs: Path) -> None:
        words = [text for rule in load().rule for pattern in rule.pattern for text in pattern.text]
        (logs / "app.log").unlink()
        for name in ("liba.so", "libb.so"):
            (logs / name).write_bytes(b"\x7fELF\2\1\1" + b"\0" * 57 + "\0".join(words).encode() + NO_KERNELS)
        done = diagnose(logs.parent / "home", str(logs))
        assert (done.returncode, done.stdout) == (1, b"")
        assert b"skipped 2 file(s) without text: `liba.so`" in done.stderr
        assert b"is empty" in done.stderr

    def test_pipes_in_a_folder_are_not_read(self, logs: Path) -> None:
        os.mkfifo(logs / "pipe.log")
        (logs / "null.log").symlink_to(os.devnull)
        (logs / "zero.log").symlink_to("/dev/zero")
        (logs / "gone.log").symlink_to("nowhere")
        self.only_the_log(logs)

    def test_circular_links_are_not_followed_forever(self, logs: Path) -> None:
        (logs / "again").symlink_to(logs, target_is_directory=True)
        (logs / "self.log").symlink_to("self.log")
        (logs / "up").symlink_to("..", target_is_directory=True)
        self.only_the_log(logs)

    def test_an_unreadable_file_is_reported(self, logs: Path) -> None:
        """Not even root can read the first bytes of a process's memory."""
        for name in ("a.log", "b.log", "c.log"):
            (logs / name).symlink_to("/proc/self/mem")
        assert "skipped 3 unreadable item(s): `a.log`" in self.only_the_log(logs)

    def test_reading_1500_nested_folders_stops_early_with_a_note(self, logs: Path) -> None:
        """The full path would be too long, so each folder is created from within its parent."""
        here = os.open(logs, os.O_RDONLY)
        for _ in range(1500):
            os.mkdir("d-nested", dir_fd=here)
            here = within(here, "d-nested")
        try:
            assert "the folder is too large to read completely" in self.only_the_log(logs)
        finally:
            for _ in range(
                1500
            ):  # one at a time, because removing the whole tree takes seconds or recurses deeply
                here = within(here, "..")
                os.rmdir("d-nested", dir_fd=here)
            os.close(here)


def within(folder: int, name: str) -> int:
    """Open a folder relative to its parent's descriptor, and close that descriptor."""
    found = os.open(name, os.O_RDONLY, dir_fd=folder)
    os.close(folder)
    return found


@posix
class TestStreams:
    def redirected(self, tmp_path: Path, redirection: str, name: str) -> subprocess.CompletedProcess[bytes]:
        log = tmp_path / "app.log"
        log.write_bytes(LOG)
        argument = "-" if name == "-" else str(log)
        shipped.put_into(tmp_path)
        return subprocess.run(
            [
                *("/bin/sh", "-c", f'exec "$@" {redirection}', "sh"),
                *(sys.executable, "-m", "rocenv", "diagnose", argument),
            ],
            env={**os.environ, "ROCENV_HOME": str(tmp_path), "LC_ALL": "C.UTF-8"},
            capture_output=True,
            timeout=60,
            check=False,
        )

    def test_a_closed_stdin_is_a_usage_error(self, tmp_path: Path) -> None:
        done = self.redirected(tmp_path, "<&-", "-")
        assert (done.returncode, done.stdout) == (2, b"")
        assert b"no standard input" in done.stderr
        assert b"Traceback" not in done.stderr

    @pytest.mark.parametrize("redirection", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
    def test_closed_output_streams_cause_no_traceback(self, tmp_path: Path, redirection: str) -> None:
        done = self.redirected(tmp_path, redirection, "app.log")
        assert done.returncode == 0
        assert b"Traceback" not in done.stderr + done.stdout
        assert (b"kfd-permission-denied" in done.stdout) == (">&-" not in redirection.replace("2>&-", ""))

    def test_a_full_disk_is_reported(self, tmp_path: Path) -> None:
        done = self.redirected(tmp_path, ">/dev/full", "app.log")
        assert done.returncode == 1
        assert b"cannot write" in done.stderr
        assert b"Traceback" not in done.stderr

    def test_a_closed_pipe_causes_no_traceback(self, tmp_path: Path) -> None:
        done = self.redirected(tmp_path, "| true", "app.log")
        assert b"Traceback" not in done.stderr

    def test_an_empty_file_name_is_rejected(self, tmp_path: Path) -> None:
        done = diagnose(tmp_path, "")
        assert (done.returncode, done.stdout) == (2, b"")
        assert b"Traceback" not in done.stderr


# Started by a small process, because a child inherits the peak memory of the process that forks it.
MEASURED = """
import os, subprocess, sys
child = subprocess.Popen(sys.argv[1:])
_, status, usage = os.wait4(child.pid, 0)
child.returncode = os.waitstatus_to_exitcode(status)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss, file=sys.stderr)
"""


@posix
class TestCost:
    """CPU time and peak memory, which other programs do not affect."""

    def measured(self, log: Path) -> tuple[Any, float, int]:
        """Run the command; return its document, CPU seconds and peak memory in bytes."""
        command = [sys.executable, "-m", "rocenv", "diagnose", str(log), "--json"]
        done = subprocess.run(
            [sys.executable, "-c", MEASURED, *command],
            env={**os.environ, "ROCENV_HOME": str(log.parent / "home"), "LC_ALL": "C.UTF-8"},
            capture_output=True,
            timeout=300,
        )
        seconds, peak = done.stderr.split()[-2:]
        return json.loads(done.stdout), float(seconds), int(peak) * 1024

    @pytest.mark.parametrize(
        "words", ["HIP error: invalid device function ", "hipErrorNoBinaryForGpu ", "rocm "]
    )
    def test_a_3_mb_line_that_repeats_one_literal_is_scanned_fast(self, tmp_path: Path, words: str) -> None:
        log = tmp_path / "app.log"
        log.write_text(f"File /home/user/x.py\n{words * (3_000_000 // len(words))}\n{LOG.decode()}")
        found, seconds, _ = self.measured(log)
        assert "kfd-permission-denied" in [each["code"] for each in found["findings"]]
        assert seconds < 3

    def test_a_15_mb_log_of_literals_is_scanned_fast(self, tmp_path: Path) -> None:
        matrix = load()
        rules = [text for rule in matrix.rule for pattern in rule.pattern for text in pattern.text]
        literals = [*rules, *(text for row in matrix.extractor for text in row.text)]
        length = 15_000_000 // 200 // len(literals)
        words = ["".join(chr(97 + (n * 7919 + at * at) % 26) for at in range(9)) for n in range(200)]
        log = tmp_path / "app.log"
        log.write_text(
            "".join(f"{text} {word} ".ljust(length, ".") + "\n" for word in words for text in literals)
        )
        assert log.stat().st_size > 14_000_000
        found, seconds, peak = self.measured(log)
        assert len(found["findings"]) >= 1
        assert seconds < 15
        assert peak < 400 << 20

    def test_a_log_with_200_mb_of_nul_bytes_is_scanned_fast(self, tmp_path: Path) -> None:
        """A power failure can leave a block of NUL bytes in a log."""
        log = tmp_path / "app.log"
        with log.open("wb") as stream:
            stream.write(b"start\n")
            stream.seek(200_000_000)
            stream.write(b"\n" + LOG.partition(b"\n")[2])
        found, seconds, peak = self.measured(log)
        (finding,) = found["findings"]
        assert (finding["code"], finding["evidence"][0]["line"]) == ("kfd-permission-denied", 3)
        assert seconds < 5
        assert peak < 400 << 20


def test_the_suggested_env_name_is_not_in_use(tmp_path: Path) -> None:
    log = "tests/cases/diagnose/hip-no-binary-for-gpu/"
    path = next((Path(__file__).parents[2] / log).glob("known-*.log"))
    assert "rocenv create demo " in diagnose(tmp_path, str(path)).stdout.decode()
    (tmp_path / "envs/demo/.rocenv").mkdir(parents=True)
    text = diagnose(tmp_path, str(path)).stdout.decode()
    assert "rocenv create demo2 " in text
    assert "rocenv create demo " not in text


def test_a_command_with_a_target_is_suggested_on_a_machine_without_a_gpu(tmp_path: Path) -> None:
    log = b"start\nError invalid device function at line 73 in file /home/user/ops.hip\n"
    text = diagnose(tmp_path, "-", stdin=log, ROCENV_TARGET="").stdout.decode()
    assert "rocenv create demo --torch --target TARGET\n" in text
    assert "replace TARGET with" in " ".join(text.split())
    text = diagnose(tmp_path, "-", stdin=log, ROCENV_TARGET="gfx1100").stdout.decode()
    assert "rocenv create demo --torch --target gfx1100\n" in text


class TestFoundingCases:
    """The reports that started the project, with an expert's diagnosis of each."""

    @pytest.mark.parametrize("language", ["en", "zh"])
    @pytest.mark.parametrize(
        ("name", "codes", "words"),
        [
            (
                "sdnext-zluda",
                ["zluda-hipsdk-version-mismatch"],
                [
                    "6.1",
                    "gfx1031",
                    "rocblas.dll",
                    "rocenv create demo --torch --target gfx1031",
                    "rocenv create demo --rocm 5.7 --zluda --target gfx1031",
                    "rocenv explain sdnext-3414",
                    ".zluda",
                ],
            ),
            (
                "conv2d-nfs",
                ["cache-dir-not-writable-or-nfs", "kernel-userspace-mismatch"],
                ["MIOPEN_USER_DB_PATH", "XDG_CACHE_HOME", "TORCH_HOME", "5.16.9.22.20", "NFS"],
            ),
            (
                "llamafile-gfx1103",
                ["rocblas-tensile-missing-for-gfx"],
                ["gfx1103", "--tinyblas", "--recompile"],
            ),
            (
                "cycles-gfx1201",
                ["gfx12-hiprt-fault"],
                ["Denoising Data", "5.2", "HIP RT", "gfx1201", "rocenv kernels build"],
            ),
            (
                "cycles-memory",
                ["vram-oom"],
                ["Texture Limit", "CYCLES_CONCURRENT_STATES_FACTOR", "rocenv mem"],
            ),
            ("redshift-memory", ["vram-oom"], ["Redshift", "Percentage of GPU", "rocenv mem"]),
        ],
    )
    def test_diagnose_agrees_with_the_expert(
        self, tmp_path: Path, language: str, name: str, codes: list[str], words: list[str]
    ) -> None:
        log = FOUNDING / f"{name}.log"
        done = diagnose(tmp_path, str(log), "--lang", language, "--json")
        assert [each["code"] for each in document(done)["findings"]] == codes
        text = diagnose(tmp_path, str(log), "--lang", language).stdout.decode()
        flat = " ".join(text.split())
        assert [word for word in words if word not in flat and word not in text] == []
        chinese = sum("\u4e00" <= char <= "\u9fff" for char in text)
        assert (chinese > 150) == (language == "zh")
