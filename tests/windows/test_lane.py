"""A ZLUDA set from the first command to the first picture, in a real Windows Python under Wine.

The libraries are stand-ins that compute on the CPU (`shims/fakes`); everything else is real: CPython for
Windows, pip, cmd, archives, wheels, the loader's rules. The tests build on each other, since making an env
takes half a minute there. Each prints what a user would read.
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
    """A machine on which `sd` was created, as a newcomer would."""
    [created] = lane.rocenv(["create", "sd", "--rocm", "5.7", "--zluda"])
    assert created.code == 0, created.text
    assert "OK up to `torch` for gfx1031" in created.err
    assert created.err.count("recorded the sha256 of this first download") == 1, (
        "installer, ZLUDA, library pack"
    )
    taken = json.loads((lane.home / "pins.json").read_text())["pins"]
    [lane.urls["pack"]] = [url for url in taken if url.endswith(".7z")]
    return lane


@pytest.fixture(scope="module")
def app(lane: Lane) -> Path:
    """The checkout of an app like SD.Next."""
    return stand_in_app(lane.lab.wine / "drive_c" / "automatic")


class TestFirstPicture:
    def test_the_set_is_what_was_planned(self, sd: Lane) -> None:
        """`show`, `verify --json` and the record say the same."""
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
        assert numpy.name == "numpy-1.26.4.dist-info", "what the row of the matrix says, not torch's index"

    def test_the_app_multiplies_on_the_card(self, sd: Lane, app: Path) -> None:
        """`rocenv launch sd -- webui.bat`: the app runs in the env, and its words are kept."""
        [done] = sd.run(Step([sd.lab.rocenv, "launch", "sd", "--", "webui.bat"], cwd=windows_c(app)))
        assert done.code == 0, done.text
        assert "Device: Stand-in GPU [ZLUDA]" in done.out
        assert "Sum: 64.0" in done.out
        assert r"C:\rocenv\envs\sd\zluda\cublas64_11.dll" in done.out, "not torch's own"
        assert r"C:\rocenv\envs\sd\rocm\5.7\bin\rocblas.dll" in done.out
        assert "Schöne Grüße: 終わり" in done.out
        [log] = (sd.prefix("sd") / "logs").glob("*.log")
        text = log.read_text(encoding="utf-8")
        assert "Sum: 64.0" in text
        assert "3.9.5" in text.partition("Sum:")[0], "the head names the set"

    def test_cmd_has_what_the_env_needs(self, sd: Lane) -> None:
        """`activate.bat` in a real cmd, and back."""
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

    def test_without_activation_too(self, sd: Lane) -> None:
        """An app that is started by the venv's Python alone gets the same libraries."""
        [done, looked] = sd.run(
            Step([sd.python("sd"), "-c", BARE], env={"HIP_PATH": r"C:\elsewhere"}),
            Step([sd.python("sd"), "-c", LOOKED_FIRST]),
        )
        assert done.code == 0, done.text
        assert done.out.splitlines() == ["Stand-in GPU [ZLUDA]", "C:\\rocenv\\envs\\sd\\rocm\\5.7\\"]
        assert looked.out.splitlines() == ["nothing loaded", "Stand-in GPU [ZLUDA]", "cuDNN False"], (
            looked.text
        )

    def test_a_file_to_double_click(self, sd: Lane, app: Path) -> None:
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
    def test_in_torch_and_back(self, sd: Lane) -> None:
        """For apps that load by path: in torch's own folder, and byte for byte back."""
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

    def test_what_an_antivirus_took(self, sd: Lane) -> None:
        """A DLL that is gone is named, with Defender's own words; `repair` puts it back."""
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
        assert "put back: zluda/cublas64_11.dll (was missing)" in mended.err
        assert answer(proved)["level"] == "gemm"

    def test_a_torch_upgrade_by_hand(self, sd: Lane) -> None:
        """pip put another file over torch's; `verify` sees it and `repair` undoes it."""
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
    """What goes wrong is named, each at its rung."""

    @pytest.mark.parametrize(
        ("told", "rung", "status", "words"),
        [
            ("load.nvcuda=segv", "load", "crashed", "0xC0000005"),
            ("cugemm=segv", "gemm", "crashed", "0xC0000005"),
            ("cuversion=wrong", "version", "failed", "expected 12.2"),
            ("cublassgemm=wrong1", "blas", "failed", "elements are wrong"),
        ],
    )
    def test_a_library_fails(self, sd: Lane, told: str, rung: str, status: str, words: str) -> None:
        """A crash, a wrong version and a wrong result are results."""
        [done] = sd.rocenv(["verify", "sd", "--upto", rung, "--json"], ROCENV_STANDIN_FAIL=told)
        assert done.code == 1
        found = {each["rung"]: each for each in answer(done)["rungs"]}[rung]
        assert found["status"] == status
        assert words in found["detail"]

    def test_a_file_that_does_not_exist(self, sd: Lane) -> None:
        """A 404 says which archives exist."""
        path = sd.mirror.served(sd.urls["zluda"])
        sd.forget(sd.urls["zluda"])
        sd.server.always(path, Fault(status=404))
        [done] = sd.rocenv([*CREATE_OTHER])
        sd.server.always(path, Fault())
        assert done.code == 1
        assert "404" in done.err
        assert "known of the same release: `ZLUDA-windows-rocm5-amd64.zip`" in done.err
        assert not sd.prefix("other").exists()

    def test_a_file_that_is_another_one(self, sd: Lane) -> None:
        """What was fetched once has to be the same the next time, also where nobody publishes a hash."""
        first, removed = sd.rocenv([*CREATE_OTHER, "--no-verify"], ["remove", "other"])
        assert first.code == removed.code == 0, first.text
        pins = (sd.home / "pins.json").read_text()
        size = sd.mirror.place(sd.urls["zluda"]).stat().st_size
        with sd.serving(sd.urls["zluda"], b"PK of another day".ljust(size)[:size]):
            (sd.home / "pins.json").write_text(pins)
            [done] = sd.rocenv([*CREATE_OTHER])
        assert done.code == 1
        assert "this is not the expected `ZLUDA-windows-rocm5-amd64.zip 3.9.5`" in done.err

    def test_a_page_instead_of_an_archive(self, sd: Lane) -> None:
        """A provider's page is no archive, and is not recorded as one."""
        with sd.serving(sd.urls["zluda"], b"<!DOCTYPE html><html><body>Please sign in</body></html>"):
            [done] = sd.rocenv([*CREATE_OTHER])
        assert done.code == 1
        assert "the server sent a web page instead of the package" in done.err
        assert sd.urls["zluda"] not in (sd.home / "pins.json").read_text()

    def test_a_library_pack_for_another_release(self, sd: Lane) -> None:
        """What its files say counts, not what it is called."""
        pack = sd.mirror.place(sd.urls["pack"])
        other = library_pack(sd.folder / "packs", "6.1.2", "gfx1031", sd.mirror.workshop, name=pack.name)
        with sd.serving(sd.urls["pack"], other.read_bytes()):
            [done] = sd.rocenv([*CREATE_OTHER])
        assert done.code == 1
        assert "is for another release: its `rocblas.dll` is" in done.err
        assert sd.rocenv(["remove", "other"])[0].code == 0

    def test_a_dll_that_needs_one_that_is_nowhere(self, sd: Lane) -> None:
        """The imports are walked, and what is missing is named with who needs it."""
        archive = zluda_archive(
            sd.folder / "absent", "3.9.5", "rocm5", sd.mirror.workshop, change=needing_what_is_absent
        )
        with sd.serving(sd.urls["zluda"], archive.read_bytes()):
            [done, _removed] = sd.rocenv([*CREATE_OTHER], ["remove", "other"])
        assert done.code == 1
        assert "load     failed" in done.err
        assert "cublas64_11.dll needs" in done.err
        assert "not found" in done.err

    def test_a_dll_without_what_is_called_in_it(self, sd: Lane) -> None:
        """A missing export is named, and so is the file that lacks it."""
        archive = zluda_archive(
            sd.folder / "export", "3.9.5", "rocm5", sd.mirror.workshop, change=without_the_product
        )
        with sd.serving(sd.urls["zluda"], archive.read_bytes()):
            [done, _removed] = sd.rocenv([*CREATE_OTHER], ["remove", "other"])
        assert done.code == 1
        assert "cublasSgemm_v2" in done.err
        assert "not exported by" in done.err

    def test_an_installer_that_nobody_can_unpack(self, sd: Lane) -> None:
        """It is told which installer to run, how, and what that changes; then the SDK is taken over."""
        opaque = installer(sd.folder / "opaque", "5.7.1", sd.mirror.workshop, content="opaque")
        programs = sd.lab.wine / "drive_c" / "Program Files" / "AMD" / "ROCm" / "a name of its own"
        with sd.serving(sd.urls["sdk"], opaque.read_bytes()):
            [closed] = sd.rocenv([*CREATE_OTHER])
            hip_sdk(programs, "5.7.1", sd.mirror.workshop)
            before = {path: path.read_bytes() for path in programs.rglob("*") if path.is_file()}
            taken, _removed = sd.rocenv([*CREATE_OTHER, "--no-verify"], ["remove", "other"])
        after = {path: path.read_bytes() for path in programs.rglob("*") if path.is_file()}
        remove_sdk(programs)
        assert closed.code == 1
        assert "HIP SDK 5.7.1 has to be installed by AMD's own installer first" in closed.err
        assert sd.urls["sdk"] in closed.err
        assert "it asks for administrator rights" in closed.err
        assert "it changes: Program Files" in closed.err
        assert taken.code == 0, taken.text
        assert r"ROCm\a name of its own` (Program Files) into the store" in taken.err
        assert after == before, "a library pack never touches Program Files"

    def test_a_path_that_is_too_long(self, sd: Lane) -> None:
        """Windows' 260 characters are counted before anything is placed."""
        top = sd.lab.wine / "drive_c" / ("long " * 20).strip()
        home = top / ("longer " * 12).strip()
        sd.mirror.write_config(home)
        [done] = sd.rocenv([*CREATE_OTHER], ROCENV_HOME=windows_c(home))
        remove_sdk(top)
        assert done.code == 1
        assert "and Windows takes 259 for a whole path" in done.err
        assert "setx ROCENV_HOME" in done.err

    def test_a_file_in_use(self, sd: Lane) -> None:
        """An env in which an app runs is not removed, and not half of it either."""
        script = sd.lab.wine / "drive_c" / "busy.py"
        script.write_text(BUSY.format(python=sd.python("sd"), rocenv=sd.lab.rocenv), encoding="utf-8")
        busy, proved = sd.run(
            Step([sd.lab.python, r"C:\busy.py"]), Step([sd.lab.rocenv, "verify", "sd", "--upto", "files"])
        )
        assert "removal ended with 1" in busy.out
        assert "is in use by" in busy.text
        assert proved.code == 0, "nothing was lost"

    def test_another_zluda_in_front(self, sd: Lane) -> None:
        """A nvcuda.dll of somebody else on PATH, and a HIP_PATH that leads elsewhere, do not win."""
        other = sd.lab.wine / "drive_c" / "other zluda"
        other.mkdir(exist_ok=True)
        for name in ("nvcuda.dll", "cublas64_11.dll", "amdhip64.dll"):
            (other / name).write_bytes(b"MZ of somebody else")
        path = r"C:\other zluda;C:\windows\system32"
        [done] = sd.rocenv(["verify", "sd", "--json"], PATH=path, HIP_PATH=r"C:\elsewhere")
        assert answer(done)["level"] == "torch"

    def test_two_envs_share_an_sdk(self, sd: Lane) -> None:
        """One is removed, the other goes on."""
        made, removed, proved = sd.rocenv(
            ["clone", "sd", "second one"],
            ["remove", "second one"],
            ["verify", "sd", "--upto", "blas", "--json"],
        )
        assert (made.code, removed.code) == (0, 0), made.text + removed.text
        assert answer(proved)["level"] == "blas"


class TestIncident:
    """sdnext#3414: HIP SDK 6.1 with ZLUDA 3.8.3 on a gfx1031 ends with 0xC0000005 in rocblas.dll."""

    def test_is_not_built(self, sd: Lane) -> None:
        """`create --rocm 6.1 --zluda` takes another build, and says why."""
        planned, refused = sd.rocenv(
            ["create", "x", "--rocm", "6.1", "--zluda", "--dry-run", "--json"],
            ["create", "x", "--rocm", "6.1", "--zluda", "3.8.3"],
        )
        parts = {part["kind"]: part["version"] for part in answer(planned)["components"]}
        assert parts["zluda"] != "3.8.3"
        assert refused.code == 1
        assert "3.8.3" in refused.err
        assert "https://github.com/vladmandic/sdnext/issues/3414" in refused.err

    def test_an_env_that_has_it_is_recognised_and_cured(self, sd: Lane, app: Path) -> None:
        """Made by hand, it is named by `verify` and `launch`, and the command that they print cures it."""
        six, written, both = sd.rocenv(
            ["create", "six", "--rocm", "6.1", "--zluda", "3.8.4", "--no-verify", "-y"],
            ["lock", "six", "-o", r"C:\six.lock"],
            ["verify", "sd", "--upto", "blas", "--json"],
        )
        assert (six.code, written.code) == (0, 0), six.text + written.text
        assert answer(both)["level"] == "blas", "5.7 and 6.1 side by side"
        lock = json.loads((sd.lab.wine / "drive_c/six.lock").read_text(encoding="utf-8"))
        by_hand = sd.lab.wine / "drive_c/by hand.lock"
        by_hand.write_text(json.dumps(incident_lock(lock, sd)), encoding="utf-8")
        create, verify, launch = sd.run(
            Step([sd.lab.rocenv, "create", "bad", "--from", r"C:\by hand.lock", "--no-verify", "-y"]),
            Step([sd.lab.rocenv, "verify", "bad", "--json"]),
            Step([sd.lab.rocenv, "launch", "bad", "--", "webui.bat"], cwd=windows_c(app)),
        )
        assert create.code == 0, create.text
        assert "warning: such a set is known to fail" in create.err
        rungs = {each["rung"]: each for each in answer(verify)["rungs"]}
        assert verify.code == 1
        assert rungs["blas"]["status"] == "crashed"
        assert "rocblas.dll" in rungs["blas"]["detail"]
        assert any("--rocm 5.7" in line for line in answer(verify)["advice"])
        assert any("sdnext-3414" in each["findings"] for each in rungs.values())
        assert launch.code & 0xFFFFFFFF == CRASH
        said = launch.text.rpartition("SD.Next ended with ")[
            2
        ]  # what was told before the start does not count
        assert said.startswith("0xC0000005 (access violation)")
        assert "why: this set is known to fail" in said
        assert "issues/3414" in said
        remedy = next(
            line.partition("rocenv create")[2].partition("`")[0]
            for line in said.splitlines()
            if line.startswith("do:  rocenv create") and "--rocm 5.7" in line
        )
        assert "--zluda" in remedy
        name = remedy.split()[0]
        path = windows(sd.lab.venv / "Scripts") + r";C:\windows\system32"
        cured, works = sd.run(
            # As it was printed, typed into cmd.
            Step(["cmd", "/c", "rocenv", "create", *remedy.split()], env={"PATH": path}),
            Step([sd.lab.rocenv, "launch", name, "--", "webui.bat"], cwd=windows_c(app)),
        )
        assert cured.code == 0, cured.text
        assert works.code == 0, works.text
        assert "Sum: 64.0" in works.out


CREATE_OTHER = ("create", "other", "--rocm", "5.7", "--zluda", "--no-torch", "-y")

BARE = "import torch, os; print(torch.cuda.get_device_name(0)); print(os.environ['HIP_PATH'])"
# As transformers and diffusers do: they look whether torch is there, and import it later.
LOOKED_FIRST = """
import ctypes, importlib.util
assert importlib.util.find_spec("torch") is not None
handle = ctypes.WinDLL("kernel32").GetModuleHandleW
print("nothing loaded" if not handle("nvcuda.dll") else "loaded")
import torch
print(torch.cuda.get_device_name(0))
print("cuDNN", torch.backends.cudnn.enabled)
"""

# Imports torch in the env, and tries to remove the env meanwhile.
BUSY = """
import subprocess, sys
code = "import torch, sys; print('ready', flush=True); sys.stdin.read()"
app = subprocess.Popen([r"{python}", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
app.stdout.readline()
done = subprocess.run([r"{rocenv}", "remove", "sd"], capture_output=True, text=True)
print("removal ended with", done.returncode)
print(done.stderr)
app.communicate()
"""

DEFENDER = r"""<Event xmlns='http://schemas.microsoft.com/win/2004/08/events/event'>
<System><EventID>1117</EventID><TimeCreated SystemTime='2026-11-20T10:11:12.000Z'/></System>
<EventData><Data Name='Threat Name'>Trojan:Win32/Wacatac.B!ml</Data>
<Data Name='Path'>file:_C:\rocenv\envs\sd\zluda\nccl.dll</Data></EventData></Event>
"""


def windows_c(path: Path) -> str:
    r"""Return a path below Wine's `drive_c` as `C:\…`."""
    return "C:\\" + str(path).partition("/drive_c/")[2].replace("/", "\\")


def needing_what_is_absent(binary: Binary) -> Binary:
    """Return cuBLAS as one that needs a DLL which is on no machine, and every other file as it is."""
    return replace(binary, needs_absent=True) if binary.name == "cublas.dll" else binary


def without_the_product(binary: Binary) -> Binary:
    """Return cuBLAS as one that does not export its product, and every other file as it is."""
    return replace(binary, without=("cublasSgemm_v2",)) if binary.name == "cublas.dll" else binary


def remove_sdk(folder: Path) -> None:
    """Remove a folder that the lane made; what rocenv put there is read-only."""
    for path in folder.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(folder)


def variables(path: Path) -> dict[str, str]:
    """Return what `set` printed."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    found = dict(line.partition("=")[::2] for line in lines if "=" in line)
    return {name.upper(): value for name, value in found.items()}


def incident_lock(lock: dict[str, Any], lane: Lane) -> dict[str, Any]:
    """Return the lock with the build of the incident, as somebody would write it by hand."""
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
