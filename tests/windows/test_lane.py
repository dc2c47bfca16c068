"""A ZLUDA set from the first command to the first image, with a real Windows Python under Wine.

The libraries are fakes that compute on the CPU (`shims/fakes`). Everything else is real: CPython for Windows,
pip, cmd, archives, wheels and the loader's rules. The tests depend on each other, because creating an env
takes half a minute under Wine. Each test prints what a user would see.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.loopback import Fault
from tests.windows.conftest import answer
from tests.windows.lab import Step, windows
from tests.windows.mirror_app import stand_in_app
from tests.windows.standin_installer import installer
from tests.windows.standins import hip_sdk, library_pack, zluda_archive

if TYPE_CHECKING:
    from pathlib import Path

    from tests.windows.conftest import Lane
    from tests.windows.standin_compiler import Binary

pytestmark = pytest.mark.windows

CRASH = 0xC0000005


@pytest.fixture(scope="module")
def sd(lane: Lane) -> Lane:
    """A machine on which a new user has created `sd`."""
    [created] = lane.rocenv(["create", "sd", "--rocm", "5.7", "--zluda"])
    assert created.code == 0, created.text
    assert "OK up to `torch` for gfx1031" in created.err
    assert created.err.count("recorded the sha256 of the first download") == 1, (
        "installer, ZLUDA, library pack"
    )
    taken = json.loads((lane.home / "pins.json").read_text())["pins"]
    [lane.urls["pack"]] = [url for url in taken if url.endswith(".7z")]
    return lane


@pytest.fixture(scope="module")
def app(lane: Lane) -> Path:
    """A checkout of an app like SD.Next."""
    return stand_in_app(lane.lab.wine / "drive_c" / "automatic")


@pytest.fixture(scope="module")
def up(sd: Lane) -> Lane:
    """A machine with an `up` env that has ZLUDA 3.9.4, a request that allows 3.9.5, and user files."""
    made, written, removed = sd.rocenv(
        ["create", "up", "--rocm", "5.7", "--zluda", "3.9.4", "--no-verify", "-y"],
        ["lock", "up", "-o", r"C:\up.lock"],
        ["remove", "-y", "up"],
    )
    assert (made.code, written.code, removed.code) == (0, 0, 0), made.text + written.text + removed.text
    path = sd.lab.wine / "drive_c/up.lock"
    lock = json.loads(path.read_text(encoding="utf-8"))
    lock["request"]["zluda"] = "*"
    path.write_text(json.dumps(lock), encoding="utf-8")
    [made] = sd.rocenv(["create", "up", "--from", r"C:\up.lock", "--no-verify", "-y"])
    assert made.code == 0, made.text
    for path in (sd.prefix("up") / "cache/huggingface/model", sd.prefix("up") / "webui/own.py"):
        path.parent.mkdir(parents=True)
        path.write_text("mine")
    return sd


class TestFirstImage:
    def test_the_env_matches_its_plan(self, sd: Lane) -> None:
        """`show`, `verify --json` and the files agree."""
        shown, proved = sd.rocenv(["show", "sd", "--json"], ["verify", "sd", "--json"])
        assert answer(proved)["level"] == "torch"
        assert [each["rung"] for each in answer(proved)["rungs"]] == [
            *("files", "load", "version", "device", "memory", "gemm", "blas", "torch"),
        ]
        shims = {each["path"]: each["is"] for each in answer(shown)["shims"]}
        assert shims["zluda/cublas64_11.dll"] == "zluda/cublas.dll"
        prefix = sd.prefix("sd")
        assert (prefix / "rocm/5.7/bin/amdhip64.dll").exists()
        assert (prefix / "zluda/cublas64_11.dll").read_bytes() == (prefix / "zluda/cublas.dll").read_bytes()
        numpy = next((prefix / "venv/Lib/site-packages").glob("numpy-*.dist-info"))
        assert numpy.name == "numpy-1.26.4.dist-info", (
            "numpy must have the version in the row, not the one in torch's index"
        )

    def test_the_app_computes_on_the_gpu(self, sd: Lane, app: Path) -> None:
        """`rocenv launch sd -- webui.bat` runs the app in the env and logs its output."""
        [done] = sd.run(Step([sd.lab.rocenv, "launch", "sd", "--", "webui.bat"], cwd=windows_c(app)))
        assert done.code == 0, done.text
        assert "Device: Stand-in GPU [ZLUDA]" in done.out
        assert "Sum: 64.0" in done.out
        assert r"C:\rocenv\envs\sd\zluda\cublas64_11.dll" in done.out, (
            "the app must not load the libraries bundled with torch"
        )
        assert r"C:\rocenv\envs\sd\rocm\5.7\bin\rocblas.dll" in done.out
        assert "Schöne Grüße: 終わり" in done.out
        [log] = (sd.prefix("sd") / "logs").glob("*.log")
        text = log.read_text(encoding="utf-8")
        assert "Sum: 64.0" in text
        assert "3.9.5" in text.partition("Sum:")[0], "the log starts with the set"

    def test_activation_works_in_cmd(self, sd: Lane) -> None:
        """`activate.bat` and `deactivate` work in cmd."""
        script = sd.lab.wine / "drive_c" / "try.bat"
        script.write_bytes(
            b"@echo off\r\nset > C:\\before.txt\r\ncall C:\\rocenv\\envs\\sd\\activate.bat\r\n"
            b"set > C:\\during.txt\r\npython -c \"import torch; print('torch', torch.__version__)\"\r\n"
            b"call deactivate\r\nset > C:\\after.txt\r\n"
        )
        [done] = sd.run(Step(["cmd", "/c", r"C:\try.bat"]))
        assert "torch 2.7.1+cu118" in done.out
        drive = script.parent
        before, during, after = (variables(drive / f"{name}.txt") for name in ("before", "during", "after"))
        assert during["HIP_PATH"] == "C:\\rocenv\\envs\\sd\\rocm\\5.7\\"
        assert during["PATH"].split(";")[:4] == [
            *(rf"C:\rocenv\envs\sd\{each}" for each in ("bin", r"venv\Scripts", "zluda", r"rocm\5.7\bin"))
        ]
        assert after == before

    def test_the_venvs_python_works_without_activation(self, sd: Lane) -> None:
        """An app that the venv's Python starts gets the same libraries."""
        [done, looked] = sd.run(
            Step([sd.python("sd"), "-c", BARE], env={"HIP_PATH": r"C:\elsewhere"}),
            Step([sd.python("sd"), "-c", FIND_FIRST]),
        )
        assert done.code == 0, done.text
        assert done.out.splitlines() == ["Stand-in GPU [ZLUDA]", "C:\\rocenv\\envs\\sd\\rocm\\5.7\\"]
        assert looked.out.splitlines() == ["nothing loaded", "Stand-in GPU [ZLUDA]", "cuDNN False"], (
            looked.text
        )

    def test_the_shortcut_starts_the_app(self, sd: Lane, app: Path) -> None:
        """`--write-shortcut` writes a `.cmd` that starts the app from anywhere."""
        shortcut = ["launch", "sd", "--write-shortcut", "--", "webui.bat"]
        written, clicked = sd.run(
            Step([sd.lab.rocenv, *shortcut], cwd=windows_c(app)),
            Step(["cmd", "/c", windows_c(app / "sd.cmd")], cwd="C:\\"),
        )
        assert written.code == 0, written.text
        assert b"\r\n" in (app / "sd.cmd").read_bytes()
        assert clicked.code == 0, clicked.text
        assert "Sum: 64.0" in clicked.out


class TestShims:
    def test_shims_in_torch_can_be_undone(self, sd: Lane) -> None:
        """`--in-torch` replaces torch files that apps load by path; `--undo` restores them."""
        lib = sd.prefix("sd") / "venv/Lib/site-packages/torch/lib"
        before = {path.name: path.read_bytes() for path in lib.iterdir()}
        put, proved = sd.rocenv(["shim", "sd", "--in-torch"], ["verify", "sd", "--json"])
        assert put.code == 0, put.text
        assert answer(proved)["level"] == "torch"
        zluda = (sd.prefix("sd") / "zluda/cublas.dll").read_bytes()
        assert (lib / "cublas64_11.dll").read_bytes() == zluda
        kept = sd.prefix("sd") / ".rocenv/originals/cublas64_11.dll"
        assert kept.read_bytes() == before["cublas64_11.dll"]
        undone, again = sd.rocenv(["shim", "sd", "--undo"], ["verify", "sd", "--upto", "load", "--json"])
        assert undone.code == 0, undone.text
        assert {path.name: path.read_bytes() for path in lib.iterdir()} == before
        assert answer(again)["level"] == "load"

    def test_repair_restores_a_dll_removed_by_antivirus(self, sd: Lane) -> None:
        """`verify` reports the missing DLL and Defender's log; `repair` restores the DLL."""
        taken = sd.prefix("sd") / "zluda/cublas64_11.dll"
        taken.unlink()
        (sd.prefix("sd") / "zluda/nccl.dll").unlink()
        copy = sd.folder / "machine"
        (copy / "windows").mkdir(parents=True, exist_ok=True)
        (copy / "windows/defender.xml").write_text(DEFENDER, encoding="utf-8")
        root = windows(copy)
        failed, mended, proved = sd.run(
            Step([sd.lab.rocenv, "verify", "sd"], env={"ROCENV_SYSROOT": root}),
            Step([sd.lab.rocenv, "repair", "sd"]),
            Step([sd.lab.rocenv, "verify", "sd", "--upto", "gemm", "--json"]),
        )
        assert failed.code == 1
        assert "`zluda/cublas64_11.dll` is missing" in failed.out
        assert (
            "Microsoft Defender quarantined `nccl.dll` (Trojan:Win32/Wacatac.B!ml, 2026-11-20" in failed.text
        )
        assert "rocenv repair sd" in failed.text
        assert mended.code == 0, mended.text
        assert "restored zluda/cublas64_11.dll (was missing)" in mended.err
        assert answer(proved)["level"] == "gemm"

    def test_repair_restores_a_torch_file_replaced_by_pip(self, sd: Lane) -> None:
        """`verify` detects a file that pip replaced, and `repair` restores it."""
        lib = sd.prefix("sd") / "venv/Lib/site-packages/torch/lib"
        changed = lib / "torch_cuda.dll"
        changed.chmod(0o644)
        original = changed.read_bytes()
        changed.unlink()
        changed.write_bytes(b"MZ of another torch")
        failed, mended = sd.rocenv(["verify", "sd", "--upto", "files"], ["repair", "sd"])
        assert failed.code == 1
        assert "torch/lib/torch_cuda.dll` is changed (it is not a library)" in failed.out
        assert mended.code == 0, mended.text
        assert changed.read_bytes() == original


class TestFailures:
    """Failures, each reported by its own rung."""

    @pytest.mark.parametrize(
        ("failure", "rung", "status", "words"),
        [
            ("load.nvcuda=segv", "load", "crashed", "0xC0000005"),
            ("cugemm=segv", "gemm", "crashed", "0xC0000005"),
            ("cuversion=wrong", "version", "failed", "expected 12.2"),
            ("cublassgemm=wrong1", "blas", "failed", "elements are wrong"),
        ],
    )
    def test_a_failing_library_fails_its_rung(
        self, sd: Lane, failure: str, rung: str, status: str, words: str
    ) -> None:
        """A crash, a wrong version or a wrong value fails only the affected rung."""
        [done] = sd.rocenv(["verify", "sd", "--upto", rung, "--json"], ROCENV_STANDIN_FAIL=failure)
        assert done.code == 1
        found = {each["rung"]: each for each in answer(done)["rungs"]}[rung]
        assert found["status"] == status
        assert words in found["detail"]

    def test_the_error_for_a_404_lists_existing_archives(self, sd: Lane) -> None:
        """The error for a 404 lists the existing archives."""
        path = sd.mirror.served(sd.urls["zluda"])
        sd.forget(sd.urls["zluda"])
        sd.server.always(path, Fault(status=404))
        [done] = sd.rocenv([*CREATE_OTHER])
        sd.server.always(path, Fault())
        assert done.code == 1
        assert "404" in done.err
        assert "known files in this release: `ZLUDA-windows-rocm5-amd64.zip`" in done.err
        assert not sd.prefix("other").exists()

    def test_a_download_that_changed_is_rejected(self, sd: Lane) -> None:
        """Even without a published hash, a later download must match the first one."""
        first, removed = sd.rocenv([*CREATE_OTHER, "--no-verify"], ["remove", "-y", "other"])
        assert first.code == removed.code == 0, first.text
        pins = (sd.home / "pins.json").read_text()
        size = sd.mirror.place(sd.urls["zluda"]).stat().st_size
        with sd.serving(sd.urls["zluda"], b"PK of another day".ljust(size)[:size]):
            (sd.home / "pins.json").write_text(pins)
            [done] = sd.rocenv([*CREATE_OTHER])
        assert done.code == 1
        assert "this is not the expected `ZLUDA-windows-rocm5-amd64.zip 3.9.5`" in done.err

    def test_a_web_page_served_as_an_archive_is_rejected(self, sd: Lane) -> None:
        """A sign-in page is rejected, and its hash is not recorded."""
        with sd.serving(sd.urls["zluda"], b"<!DOCTYPE html><html><body>Please sign in</body></html>"):
            [done] = sd.rocenv([*CREATE_OTHER])
        assert done.code == 1
        assert "the server sent a web page instead of the package" in done.err
        assert sd.urls["zluda"] not in (sd.home / "pins.json").read_text()

    def test_a_library_pack_for_a_different_release_is_rejected(self, sd: Lane) -> None:
        """rocenv checks the versions of the files in a pack, not the name of the pack."""
        pack = sd.mirror.place(sd.urls["pack"])
        other = library_pack(sd.folder / "packs", "6.1.2", "gfx1031", sd.mirror.workshop, name=pack.name)
        with sd.serving(sd.urls["pack"], other.read_bytes()):
            [done] = sd.rocenv([*CREATE_OTHER])
        assert done.code == 1
        assert "is for a different release: its `rocblas.dll` is" in done.err
        assert sd.rocenv(["remove", "-y", "other"])[0].code == 0

    def test_a_missing_dependency_is_reported(self, sd: Lane) -> None:
        """The error names the missing DLL and the DLL that needs it."""
        archive = zluda_archive(
            sd.folder / "absent", "3.9.5", "rocm5", sd.mirror.workshop, change=with_missing_dependency
        )
        with sd.serving(sd.urls["zluda"], archive.read_bytes()):
            [done, _removed] = sd.rocenv([*CREATE_OTHER], ["remove", "-y", "other"])
        assert done.code == 1
        assert "load     failed" in done.err
        assert "cublas64_11.dll needs" in done.err
        assert "not found" in done.err

    def test_a_missing_export_is_reported(self, sd: Lane) -> None:
        """The error names the missing export and the DLL that should have it."""
        archive = zluda_archive(
            sd.folder / "export", "3.9.5", "rocm5", sd.mirror.workshop, change=with_missing_export
        )
        with sd.serving(sd.urls["zluda"], archive.read_bytes()):
            [done, _removed] = sd.rocenv([*CREATE_OTHER], ["remove", "-y", "other"])
        assert done.code == 1
        assert "cublasSgemm_v2" in done.err
        assert "not exported by" in done.err

    def test_create_explains_how_to_run_a_closed_installer(self, sd: Lane) -> None:
        """The error describes the installer, its options and its effects; then rocenv copies the SDK."""
        opaque = installer(sd.folder / "opaque", "5.7.1", sd.mirror.workshop, content="opaque")
        programs = sd.lab.wine / "drive_c" / "Program Files" / "AMD" / "ROCm" / "a name of its own"
        with sd.serving(sd.urls["sdk"], opaque.read_bytes()):
            [closed] = sd.rocenv([*CREATE_OTHER])
            hip_sdk(programs, "5.7.1", sd.mirror.workshop)
            before = {path: path.read_bytes() for path in programs.rglob("*") if path.is_file()}
            copied, _removed = sd.rocenv([*CREATE_OTHER, "--no-verify"], ["remove", "-y", "other"])
        after = {path: path.read_bytes() for path in programs.rglob("*") if path.is_file()}
        remove_sdk(programs)
        assert closed.code == 1
        assert "first install HIP SDK 5.7.1 with AMD's own installer" in closed.err
        assert sd.urls["sdk"] in closed.err
        assert "it asks for administrator rights" in closed.err
        assert "the installer changes Program Files" in closed.err
        assert copied.code == 0, copied.text
        assert r"ROCm\a name of its own` (Program Files) into the store" in copied.err
        assert after == before, "a library pack changed Program Files"

    def test_a_path_that_is_too_long_is_rejected(self, sd: Lane) -> None:
        """`create` checks the Windows limit of 260 characters before it writes anything."""
        top = sd.lab.wine / "drive_c" / ("long " * 20).strip()
        home = top / ("longer " * 12).strip()
        sd.mirror.write_config(home)
        [done] = sd.rocenv([*CREATE_OTHER], ROCENV_HOME=windows_c(home))
        remove_sdk(top)
        assert done.code == 1
        assert "but Windows limits paths to 259" in done.err
        assert "setx ROCENV_HOME" in done.err

    def test_an_env_in_use_is_not_removed(self, sd: Lane) -> None:
        """`remove` refuses to remove an env that is in use, and leaves it intact."""
        script = sd.lab.wine / "drive_c" / "busy.py"
        script.write_text(BUSY.format(python=sd.python("sd"), rocenv=sd.lab.rocenv), encoding="utf-8")
        busy, proved = sd.run(
            Step([sd.lab.python, r"C:\busy.py"]), Step([sd.lab.rocenv, "verify", "sd", "--upto", "files"])
        )
        assert "removal ended with 1" in busy.out
        assert "is in use by" in busy.text
        assert proved.code == 0, "the env's files are missing"

    def test_a_different_zluda_on_path_is_ignored(self, sd: Lane) -> None:
        """A different nvcuda.dll on PATH and a different HIP_PATH do not affect the env."""
        other = sd.lab.wine / "drive_c" / "other zluda"
        other.mkdir(exist_ok=True)
        for name in ("nvcuda.dll", "cublas64_11.dll", "amdhip64.dll"):
            (other / name).write_bytes(b"MZ of another program")
        path = r"C:\other zluda;C:\windows\system32"
        [done] = sd.rocenv(["verify", "sd", "--json"], PATH=path, HIP_PATH=r"C:\elsewhere")
        assert answer(done)["level"] == "torch"

    def test_two_envs_share_an_sdk(self, sd: Lane) -> None:
        """Removing one env does not affect the other."""
        made, removed, proved = sd.rocenv(
            ["clone", "sd", "second one"],
            ["remove", "-y", "second one"],
            ["verify", "sd", "--upto", "blas", "--json"],
        )
        assert (made.code, removed.code) == (0, 0), made.text + removed.text
        assert answer(proved)["level"] == "blas"


class TestUpgrade:
    def test_an_env_in_use_keeps_its_set(self, up: Lane) -> None:
        """`upgrade` builds the new set but does not swap it in while a program uses the env's folder."""
        assert_refused_in(up, "up", "upgrade", "up", "-y")

    def test_the_newer_set_is_swapped_in_and_out(self, up: Lane) -> None:
        """`upgrade` replaces the set and keeps the user's files; `--rollback` returns to the old one."""
        for argv, version in ((["-y"], "3.9.5"), (["--rollback"], "3.9.4")):
            changed, shown, started, whole = up.rocenv(
                ["upgrade", "up", *argv],
                ["show", "up", "--json"],
                ["run", "up", "--", "python", "-c", "import torch; print(torch.cuda.get_device_name(0))"],
                ["verify", "up", "--upto", "gemm", "--json"],
            )
            assert changed.code == 0, changed.text
            versions = {each["kind"]: each["version"] for each in answer(shown)["components"]}
            assert versions["zluda"] == version
            assert started.out == "Stand-in GPU [ZLUDA]\n", started.text
            assert answer(whole)["level"] == "gemm"
            for kept in ("cache/huggingface/model", "webui/own.py"):
                assert (up.prefix("up") / kept).read_text() == "mine"
            assert {path.name for path in up.prefix("up").parent.glob("up*")} == {"up", "up~old"}
            if version == "3.9.5":
                assert_refused_in(up, "up~old", "upgrade", "up", "--rollback")
        [removed] = up.rocenv(["remove", "-y", "up", "up~old"])
        assert removed.code == 0, removed.text


class TestIncident:
    """sdnext#3414: HIP SDK 6.1 with ZLUDA 3.8.3 on gfx1031 crashes with 0xC0000005 in rocblas.dll."""

    def test_create_avoids_the_broken_build(self, sd: Lane) -> None:
        """`create --rocm 6.1 --zluda` selects a different build and explains why it skips 3.8.3."""
        planned, refused = sd.rocenv(
            ["create", "x", "--rocm", "6.1", "--zluda", "--dry-run", "--json"],
            ["create", "x", "--rocm", "6.1", "--zluda", "3.8.3"],
        )
        parts = {part["kind"]: part["version"] for part in answer(planned)["components"]}
        assert parts["zluda"] != "3.8.3"
        assert refused.code == 1
        assert "3.8.3" in refused.err
        assert "https://github.com/vladmandic/sdnext/issues/3414" in refused.err

    def test_an_affected_env_is_recognized_and_fixed(self, sd: Lane, app: Path) -> None:
        """`verify` and `launch` recognize an env from an edited lock and print the command that fixes it."""
        six, written, both = sd.rocenv(
            ["create", "six", "--rocm", "6.1", "--zluda", "3.8.4", "--no-verify", "-y"],
            ["lock", "six", "-o", r"C:\six.lock"],
            ["verify", "sd", "--upto", "blas", "--json"],
        )
        assert (six.code, written.code) == (0, 0), six.text + written.text
        assert answer(both)["level"] == "blas", "the envs with HIP SDK 5.7 and 6.1 affect each other"
        lock = json.loads((sd.lab.wine / "drive_c/six.lock").read_text(encoding="utf-8"))
        edited = sd.lab.wine / "drive_c/edited.lock"
        edited.write_text(json.dumps(incident_lock(lock, sd)), encoding="utf-8")
        create, verify, launch = sd.run(
            Step([sd.lab.rocenv, "create", "bad", "--from", r"C:\edited.lock", "--no-verify", "-y"]),
            Step([sd.lab.rocenv, "verify", "bad", "--json"]),
            Step([sd.lab.rocenv, "launch", "bad", "--", "webui.bat"], cwd=windows_c(app)),
        )
        assert create.code == 0, create.text
        assert "warning: this set is known to fail" in create.err
        rungs = {each["rung"]: each for each in answer(verify)["rungs"]}
        assert verify.code == 1
        assert rungs["blas"]["status"] == "crashed"
        assert "rocblas.dll" in rungs["blas"]["detail"]
        assert any("--rocm 5.7" in line for line in answer(verify)["advice"])
        assert any("sdnext-3414" in each["findings"] for each in rungs.values())
        assert launch.code & 0xFFFFFFFF == CRASH
        # Only the explanation after the crash matters, not warnings before the app starts.
        explanation = launch.text.rpartition("SD.Next ended with ")[2]
        assert explanation.startswith("0xC0000005 (access violation)")
        assert "why: this set is known to fail" in explanation
        assert "issues/3414" in explanation
        remedy = next(
            line.partition("rocenv create")[2].partition("`")[0]
            for line in explanation.splitlines()
            if line.startswith("do:  rocenv create") and "--rocm 5.7" in line
        )
        assert "--zluda" in remedy
        name = remedy.split()[0]
        path = windows(sd.lab.venv / "Scripts") + r";C:\windows\system32"
        fixed, works = sd.run(
            # Type the printed command into cmd.
            Step(["cmd", "/c", "rocenv", "create", *remedy.split()], env={"PATH": path}),
            Step([sd.lab.rocenv, "launch", name, "--", "webui.bat"], cwd=windows_c(app)),
        )
        assert fixed.code == 0, fixed.text
        assert works.code == 0, works.text
        assert "Sum: 64.0" in works.out


CREATE_OTHER = ("create", "other", "--rocm", "5.7", "--zluda", "--no-torch", "-y")

BARE = "import torch, os; print(torch.cuda.get_device_name(0)); print(os.environ['HIP_PATH'])"
# Like transformers and diffusers, look for torch before importing it.
FIND_FIRST = """
import ctypes, importlib.util
assert importlib.util.find_spec("torch") is not None
handle = ctypes.WinDLL("kernel32").GetModuleHandleW
print("nothing loaded" if not handle("nvcuda.dll") else "loaded")
import torch
print(torch.cuda.get_device_name(0))
print("cuDNN", torch.backends.cudnn.enabled)
"""

# Tries to remove the env while a program in it has torch loaded.
BUSY = """
import subprocess, sys
code = "import torch, sys; print('ready', flush=True); sys.stdin.read()"
app = subprocess.Popen([r"{python}", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
app.stdout.readline()
done = subprocess.run([r"{rocenv}", "remove", "-y", "sd"], capture_output=True, text=True)
print("removal ended with", done.returncode)
print(done.stderr)
app.communicate()
"""

# Keeps a folder in use while running a command elsewhere.
IN_FOLDER = """
import os, subprocess, sys
os.chdir(r"{folder}")
done = subprocess.run({argv!r}, capture_output=True, text=True, cwd="C:\\\\")
print("it ended with", done.returncode)
print(done.stderr)
"""

DEFENDER = r"""<Event xmlns='http://schemas.microsoft.com/win/2004/08/events/event'>
<System><EventID>1117</EventID><TimeCreated SystemTime='2026-11-20T10:11:12.000Z'/></System>
<EventData><Data Name='Threat Name'>Trojan:Win32/Wacatac.B!ml</Data>
<Data Name='Path'>file:_C:\rocenv\envs\sd\zluda\nccl.dll</Data></EventData></Event>
"""


def assert_refused_in(lane: Lane, name: str, *argv: str) -> None:
    """Assert that a command fails while a program runs in an env's folder, and leaves every env unchanged."""
    before = {each: tree(lane.prefix(each)) for each in ("up", name)}
    script = lane.lab.wine / "drive_c" / "busy.py"
    text = IN_FOLDER.format(folder=rf"C:\rocenv\envs\{name}", argv=[lane.lab.rocenv, *argv])
    script.write_text(text, encoding="utf-8")
    [done] = lane.run(Step([lane.lab.python, r"C:\busy.py"]))
    assert "it ended with 1" in done.out
    assert rf"`C:\rocenv\envs\{name}` is in use by" in done.out
    assert "`cd` elsewhere" in done.out
    assert {each: tree(lane.prefix(each)) for each in before} == before


def windows_c(path: Path) -> str:
    r"""Convert a path below Wine's `drive_c` to `C:\…`."""
    return "C:\\" + str(path).partition("/drive_c/")[2].replace("/", "\\")


def with_missing_dependency(binary: Binary) -> Binary:
    """Make cuBLAS need a DLL that does not exist."""
    return replace(binary, needs_absent=True) if binary.name == "cublas.dll" else binary


def with_missing_export(binary: Binary) -> Binary:
    """Remove matrix multiplication from cuBLAS's exports."""
    return replace(binary, without=("cublasSgemm_v2",)) if binary.name == "cublas.dll" else binary


def remove_sdk(folder: Path) -> None:
    """Remove a folder that the lane created, including rocenv's read-only subfolders."""
    for path in folder.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(folder)


def tree(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def variables(path: Path) -> dict[str, str]:
    """Parse the output of `set`."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    found = dict(line.partition("=")[::2] for line in lines if "=" in line)
    return {name.upper(): value for name, value in found.items()}


def incident_lock(lock: dict[str, Any], lane: Lane) -> dict[str, Any]:
    """Put the faulty build into a lock, as a user could do by hand."""
    [build] = [part for part in lock["components"] if part["kind"] == "zluda"]
    url = lane.urls["zluda 3.8.3"]
    served = lane.mirror.place(url).read_bytes()
    build["version"] = "3.8.3"
    build["artifacts"][0] |= {
        "version": "3.8.3",
        "url": url,
        "sha256": hashlib.sha256(served).hexdigest(),
        "size_bytes": len(served),
    }
    return lock
