"""`rocenv diagnose` as people and scripts meet it."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CASES = Path(__file__).parents[1] / "cases" / "diagnose"
KFD = CASES / "kfd-permission-denied"
FOUNDING = Path(__file__).parents[1] / "cases" / "founding"


def diagnose(
    home: Path, *arguments: str, stdin: bytes | None = None, **environ: str
) -> subprocess.CompletedProcess[bytes]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG"))}
    return subprocess.run(
        [sys.executable, "-m", "rocenv", "diagnose", *arguments],
        env={**plain, "ROCENV_HOME": str(home), "LC_ALL": "C.UTF-8", **environ},
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
    )


def document(done: subprocess.CompletedProcess[bytes]) -> Any:
    return json.loads(done.stdout)


LOG = b"start\nUnable to open /dev/kfd read-write: Permission denied\n"


def test_what_why_and_what_to_do(tmp_path: Path) -> None:
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
    [(("--lang", "zh"), {}), ((), {"LC_ALL": "zh_CN.UTF-8"}), ((), {"LC_ALL": "", "LANG": "zh_TW.UTF-8"})],
)
def test_in_chinese(tmp_path: Path, arguments: tuple[str, ...], environ: dict[str, str]) -> None:
    done = diagnose(tmp_path, "-", *arguments, stdin=LOG, **environ, PYTHONIOENCODING="utf-8")
    text = done.stdout.decode()
    assert "原因" in text
    assert "why:" not in text
    assert "usermod -aG render,video" in text


def test_where_the_output_has_no_characters_for_it(tmp_path: Path) -> None:
    """As a pipe of a western Windows: Chinese comes as UTF-8, foreign lines of a log with question marks."""
    done = diagnose(tmp_path, "-", "--lang", "zh", stdin=LOG, PYTHONIOENCODING="cp1252")
    assert (done.returncode, done.stderr) == (0, b"")
    assert "原因" in done.stdout.decode()
    foreign = "错误 Unable to open /dev/kfd read-write: Permission denied\n".encode()
    done = diagnose(tmp_path, "-", stdin=foreign, PYTHONIOENCODING="cp1252")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"?? Unable to open /dev/kfd" in done.stdout


def test_an_option_beats_the_locale(tmp_path: Path) -> None:
    done = diagnose(tmp_path, "-", "--lang", "en", stdin=LOG, LC_ALL="zh_CN.UTF-8")
    assert "why:" in done.stdout.decode()


def test_the_document(tmp_path: Path) -> None:
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


def test_silence_is_an_expected_no(tmp_path: Path) -> None:
    done = diagnose(tmp_path, "-", stdin=b"git: could not resolve host\n")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"no known GPU trouble" in done.stderr
    assert b"rocenv doctor" in done.stderr
    done = diagnose(tmp_path, "-", "--json", stdin=b"git: could not resolve host\n")
    assert (done.returncode, document(done)) == (1, {"findings": []})


def test_an_empty_log_is_called_empty(tmp_path: Path) -> None:
    done = diagnose(tmp_path, "-", stdin=b"")
    assert done.returncode == 1
    assert b"nothing to read" in done.stderr


def test_no_such_log(tmp_path: Path) -> None:
    done = diagnose(tmp_path, str(tmp_path / "nowhere.log"))
    assert done.returncode == 1
    assert b"cannot read" in done.stderr
    assert b"Traceback" not in done.stderr
    done = diagnose(tmp_path, str(tmp_path / "nowhere.log"), "--json")
    assert document(done)["error"] == "log-unreadable"


def test_a_folder_names_the_file(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "1.log").write_text("fine\n")
    (logs / "2.log.gz").write_bytes(gzip.compress(LOG))
    done = diagnose(tmp_path / "home", str(logs), "--json")
    (finding,) = document(done)["findings"]
    assert (finding["evidence"][0]["file"], finding["evidence"][0]["line"]) == ("2.log.gz", 2)


def test_the_machine_fills_in_what_the_log_does_not_say(tmp_path: Path) -> None:
    log = b"File /home/user/app.py\nRuntimeError: HIP error: invalid device function\n"
    done = diagnose(tmp_path, "-", stdin=log, ROCENV_TARGET="gfx1201")
    assert b"here:  gfx gfx1201" in done.stdout
    told = b"Device 0: AMD Radeon RX 6600, gfx1032 (0x1032)\n" + log
    done = diagnose(tmp_path, "-", stdin=told, ROCENV_TARGET="gfx1201")
    assert b"gfx1201" not in done.stdout
    assert b"gfx1032" in done.stdout


def test_terminal_commands_in_a_log_stay_text(tmp_path: Path) -> None:
    done = diagnose(
        tmp_path, "-", stdin=b"\x1b]0;owned\x07Unable to open /dev/kfd read-write: Permission denied\x9b2J\n"
    )
    assert b"\x1b" not in done.stdout
    assert b"\x9b" not in done.stdout


class TestFoundingCases:
    """The reports that the project began with, each with what an expert answers."""

    @pytest.mark.parametrize("language", ["en", "zh"])
    @pytest.mark.parametrize(
        ("name", "codes", "words"),
        [
            (
                "sdnext-zluda",
                ["zluda-hipsdk-version-mismatch"],
                ["6.1", "gfx1031", "rocblas.dll", "rocenv create sd --rocm 5.7 --zluda", ".zluda"],
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
                ["Denoising Data", "5.2", "HIP RT", "gfx1201", "hipcc"],
            ),
            ("cycles-memory", ["vram-oom"], ["Texture Limit", "CYCLES_CONCURRENT_STATES_FACTOR", "/free"]),
            ("redshift-memory", ["vram-oom"], ["Redshift", "Percentage of GPU", "ollama stop"]),
        ],
    )
    def test_it_reads_like_an_expert(
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
