"""Recording a machine during detection, and replaying the recording."""

from __future__ import annotations

import errno
import os
import signal
import socket
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest

from rocenv.system import machine
from rocenv.system.machine import Answers
from tests.host.roots import GIB

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocenv.host import Host
    from tests.host.roots import Root

    Look = Callable[[], Host]


def everything(_name: str) -> bool:
    return True


def replayed(look: Look, monkeypatch: pytest.MonkeyPatch) -> tuple[Host, Host]:
    """A function that records the machine during detection, then detects again from the recording alone."""
    with machine.recording(everything) as answers:
        first = look()
    monkeypatch.delenv("ROCENV_SYSROOT")
    with machine.answering(answers):
        return first, look()


def test_replaying_a_recording_gives_the_same_result(
    root: Root, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    root.kernel(dkms="6.10.5").cpu().gpu(1, 0x73BF, 100300).gpu(2, 0x164E, 100306, units=2)
    root.card("0000:09:00.0", 0x2204, vendor=0x10DE, driver="nvidia")
    monkeypatch.setenv("HSA_OVERRIDE_GFX_VERSION", "11.0.0")
    first, second = replayed(look, monkeypatch)
    assert len(first.gpus) == 2
    assert first.notes
    assert second == first


def test_a_recording_contains_the_platform(root: Root, look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    device = {"Name": "AMD Radeon RX 6800", "gcnArchName": "gfx1030", "totalGlobalMem": "15.98 GB"}
    root.windows(device, controllers=[{"Name": "AMD Radeon RX 6800", "AdapterRAM": 8 * GIB}])
    first, second = replayed(look, monkeypatch)
    assert second == first
    assert (second.platform, [gpu.target for gpu in second.gpus]) == ("windows", ["gfx1030"])


def test_errors_are_recorded(root: Root, look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    """One device fails to open with ENXIO, and one file is a folder."""
    root.kernel().gpu(1, 0x73BF, 100300).gpu(2, 0x744C, 110000)
    (root.path / "dev/kfd").unlink()
    properties = root.path / "sys/class/kfd/kfd/topology/nodes/2/properties"
    properties.unlink()
    properties.mkdir()
    monkeypatch.chdir(root.path / "dev")
    with socket.socket(socket.AF_UNIX) as device:
        device.bind("kfd")
        with machine.recording(everything) as answers:
            first = look()
    monkeypatch.delenv("ROCENV_SYSROOT")
    with machine.answering(answers):
        assert machine.open_errno("/dev/kfd") == errno.ENXIO
        assert look() == first
    assert "ENXIO" in first.gpus[0].why_not


def test_unrecorded_queries_find_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replay must not fall back to this machine."""
    monkeypatch.setenv("HSA_OVERRIDE_GFX_VERSION", "10.3.0")
    with machine.answering(Answers()):
        assert machine.examined_elsewhere()
        assert machine.read_text("/proc/version") is None
        assert machine.read_attribute("/proc/version") == ("", errno.ENOENT)
        assert machine.list_folder("/") == []
        assert not machine.unreadable("/")
        assert not machine.is_folder("/")
        assert machine.open_errno("/dev/null") == errno.ENOENT
        assert machine.access_errno("/dev/null") == errno.ENOENT
        assert not machine.is_there("/dev/null")
        assert machine.mount_of(Path("/")) is None
        assert "HSA_OVERRIDE_GFX_VERSION" not in machine.environment()
        assert not machine.machine_path("/proc").exists()
        assert machine.tried("free bytes", "/", lambda: 7, 0) == 0
        assert machine.program_output("/windows/hipinfo.txt", lambda: "this machine's") is None
    assert machine.is_folder("/")
    assert machine.environment() is os.environ


def test_the_machine_is_restored_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), machine.answering(Answers()):
        _ = 1 / 0
    assert not machine.examined_elsewhere()
    with pytest.raises(ZeroDivisionError), machine.recording(everything):
        _ = 1 / 0
    with machine.recording(everything) as answers:
        assert not answers.files


def test_size_limits_apply_to_recorded_files() -> None:
    answers = Answers()
    answers.keep_file("//proc/version", "Linux", 0)
    answers.keep_file("/proc/version", "Linux version 6.8", 0)
    answers.keep_file("/proc/version", "Lin", 0)
    with machine.answering(answers):
        assert machine.read_attribute("/proc/version", 5) == ("Linux", 0)
        assert machine.read_text("/proc/version") == "Linux version 6.8"


def test_program_output_and_attempted_operations_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROCENV_SYSROOT", raising=False)
    with machine.recording(everything) as answers:
        assert machine.program_output("/windows/hipinfo.txt", lambda: "device# 0") == "device# 0"
        assert machine.program_output("/windows/defender.xml", lambda: None) is None
        assert machine.tried("locks", "/home/user/.cache", lambda: "No locks available", "") != ""
        machine.keep_row("/windows/registry.json", "SOFTWARE", {"A": 1})
    assert answers.rows == {"/windows/registry.json": {"SOFTWARE": {"A": 1}}}
    with machine.answering(answers):
        assert machine.program_output("/windows/hipinfo.txt", lambda: None) == "device# 0"
        assert machine.program_output("/windows/defender.xml", lambda: "mine") is None
        assert machine.tried("locks", "/home/user/.cache", lambda: "mine", "") == "No locks available"
        assert machine.tried("locks", "/home/user/.cache", lambda: 1, 0) == 0, (
            "a recorded value of the wrong type is ignored"
        )


def test_file_operations_are_not_attempted_on_a_snapshot(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ROCENV_SYSROOT", str(tmp_path))
    assert machine.tried("free bytes", "/", lambda: 7, -1) == -1


def test_links_to_a_mount_are_resolved_on_the_machine(root: Root, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    there = tmp_path / "real"
    root.put(
        "proc/self/mountinfo",
        f"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:50 / {there} rw - nfs4 server:/x rw\n",
    )
    with machine.recording(everything) as answers:
        assert machine.mount_of(tmp_path / "link" / "cache") is not None
    (tmp_path / "link").unlink()
    with machine.answering(answers):
        mount = machine.mount_of(PurePosixPath(tmp_path / "link" / "cache"))
        assert mount is not None
        assert mount.kind == "nfs4"


@pytest.mark.skipif(os.name == "nt", reason="no named pipes")
def test_a_pipe_in_place_of_a_file_does_not_block(root: Root) -> None:
    def too_long(_signal: int, _frame: object) -> None:
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, too_long)
    (root.path / "proc/self").mkdir(parents=True)
    os.mkfifo(root.path / "proc/self/mountinfo")
    signal.alarm(5)
    try:
        assert machine.mount_of(Path("/home")) is None
        assert not machine.read_text("/proc/self/mountinfo")
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_text_files_are_read_completely(monkeypatch: pytest.MonkeyPatch, root: Root) -> None:
    """/proc returns at most one page per read."""
    root.put("proc/long", "".join(f"line {number}\n" for number in range(9000)))
    read = os.read
    monkeypatch.setattr(os, "read", lambda file, count: read(file, min(count, 4096)))
    assert machine.read_attribute("/proc/long", 1 << 20)[0].endswith("line 8999\n")
    assert len(machine.read_attribute("/proc/long", 5000)[0]) == 5000


@pytest.mark.parametrize("escape", ["\\999", "\\x", "\\N{foo}", "\\u12", "\\"])
def test_an_invalid_mount_point_is_skipped(root: Root, escape: str) -> None:
    root.put(
        "proc/self/mountinfo",
        f"1 0 8:1 / /a{escape} rw - ext4 /dev/a rw\n2 0 8:2 / /中\\040b rw - nfs4 s:/ rw\n",
    )
    mount = machine.mount_of(PurePosixPath("/中 b/x"))
    assert mount is not None
    assert mount.kind == "nfs4"


class TestEnvironment:
    def test_iterating_over_the_environment_yields_only_gpu_variables(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HIP_PATH_57", "C:\\hip")
        monkeypatch.setenv("DIARY", "dear diary")
        with machine.recording(lambda name: name.startswith("HIP")) as answers:
            assert "DIARY" not in dict(machine.environment())
        assert answers.variables["HIP_PATH_57"] == "C:\\hip"
        assert "DIARY" not in answers.variables

    def test_any_variable_can_be_looked_up_by_name(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("EDITOR", "ed")
        with machine.recording(lambda _name: False) as answers:
            assert machine.environment().get("EDITOR") == "ed"
            assert machine.environment().get("NOT_THERE") is None
        assert answers.variables == {"EDITOR": "ed"}

    def test_variable_names_ignore_case_on_windows(self) -> None:
        with machine.answering(Answers(windows=True, variables={"SystemRoot": "C:\\Windows"})):
            assert machine.environment()["SYSTEMROOT"] == machine.environment()["systemroot"]
            assert list(machine.environment()) == ["SYSTEMROOT"]
        with machine.answering(Answers(variables={"Path": "x"})):
            assert "PATH" not in machine.environment()
