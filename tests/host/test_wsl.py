"""GPUs in WSL, which only Windows can list."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from rocenv import host as detection
from rocenv.host import wsl
from rocenv.host.gpu import Driver, Found
from rocenv.system import machine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rocenv.host import Host
    from tests.host.roots import Root

    Look = Callable[[], Host]

CARD: dict[str, Any] = {
    "Name": "AMD Radeon RX 7900 XTX",
    "PNPDeviceID": r"PCI\VEN_1002&DEV_744C&SUBSYS_0E3B1002&REV_C8",
    "DriverVersion": "32.0.12033.1030",
    "AdapterRAM": 4293918720,
}
IGPU: dict[str, Any] = {
    "Name": "AMD Radeon(TM) Graphics",
    "PNPDeviceID": r"PCI\VEN_1002&DEV_164E&SUBSYS_88771043&REV_C9",
    "DriverVersion": "32.0.12033.1030",
    "AdapterRAM": 512 << 20,
}
NVIDIA = {"Name": "NVIDIA GeForce RTX 4070", "PNPDeviceID": r"PCI\VEN_10DE&DEV_2786&REV_A1"}


def test_the_gpu_is_identified_by_the_windows_host(root: Root, look: Look) -> None:
    root.wsl(CARD, NVIDIA)
    host = look()
    (gpu,) = host.gpus
    assert (gpu.target, gpu.name, gpu.pci_id) == ("gfx1100", "AMD Radeon RX 7900 XTX", "1002:744c")
    assert gpu.source == "Windows, display driver, target by PCI id"
    assert gpu.vram_bytes is None, "Windows reports 4 GiB for larger sizes"
    assert (host.selected, host.others, host.platform) == (0, ("NVIDIA",), "linux")
    assert (host.driver.wsl, host.driver.display, host.driver.release) == (True, "32.0.12033.1030", "24.12.1")


def test_the_card_is_used_and_no_hip_number_is_guessed(root: Root, look: Look) -> None:
    root.wsl(IGPU, CARD)
    host = look()
    assert [(gpu.target, gpu.integrated, gpu.hip_index) for gpu in host.gpus] == [
        ("gfx1036", True, None),
        ("gfx1100", False, None),
    ]
    assert (host.selected, host.visible_devices()) == (1, "")
    assert any("unknown" in note for note in host.notes)


def test_a_machine_without_an_amd_gpu_is_recognized(root: Root, look: Look) -> None:
    root.wsl(NVIDIA)
    assert (look().gpus, look().why) == ((), "this machine has no AMD GPU, only NVIDIA")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("interop is off, so Linux cannot start Windows programs", "interop is off"),
        ("`powershell.exe` failed: it did not end within 20 s", "did not end within 20 s"),
        ("", "does not contain the list from Windows"),
    ],
)
def test_gpus_are_unknown_rather_than_absent_if_windows_does_not_respond(
    root: Root, look: Look, answer: str, told: str
) -> None:
    root.wsl(answer=answer)
    host = look()
    assert (host.gpus, host.selected, host.driver.wsl) == ((), None, True)
    assert "cannot tell whether" in host.why
    assert told in host.why
    assert "rocenv create --torch --target" in host.remedies[0]


def test_windows_is_not_queried_if_a_target_is_specified(
    root: Root, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    root.wsl()
    monkeypatch.setenv("ROCENV_TARGET", "gfx1100")
    assert [gpu.target for gpu in look().gpus] == ["gfx1100"]


@pytest.mark.parametrize(
    ("files", "off"),
    [
        ({}, False),  # unknown, as in a container
        ({"register": "", "status": "enabled\n"}, True),
        ({"register": "", "WSLInterop": "disabled\n"}, True),
        ({"register": "", "WSLInterop": "enabled\ninterpreter /init\n"}, False),
        ({"register": "", "WSLInterop-late": "enabled\ninterpreter /init\n"}, False),
    ],
)
def test_the_kernel_reports_whether_interop_is_off(root: Root, files: dict[str, str], off: bool) -> None:
    root.wsl()
    for name, text in files.items():
        root.put(f"proc/sys/fs/binfmt_misc/{name}", text)
    assert wsl.interop_is_off() is off


# A fake of the Windows program, which test machines do not have. It responds to the expected query as
# PowerShell 5.1 does and rejects all others.
POWERSHELL = r"""
import sys, time

flags, question = sys.argv[1:-1], sys.argv[-1]
open({log!r}, "a").write("asked\n")
if flags != ["-NoProfile", "-NonInteractive", "-Command"] or '"' in question:
    sys.exit("wrong arguments")
if "Get-CimInstance Win32_VideoController" not in question or "ConvertTo-Json" not in question:
    sys.exit("wrong question")
{body}
"""
ANSWER = r"""
sys.stdout.buffer.write(
    b'[{"Name":"AMD Radeon RX 6800 XT",'
    b'"PNPDeviceID":"PCI\\\\VEN_1002\\u0026DEV_73BF\\u0026SUBSYS_0E3A1002\\u0026REV_C1\\\\6\\u00261f3c9d7e\\u00260",'
    b'"DriverVersion":"32.0.31041.1004","AdapterRAM":4293918720},'
    b'{"Name":"Microsoft Remote Display Adapter","PNPDeviceID":"SWD\\\\REMOTEDISPLAYENUM\\\\RDPIDD",'
    b'"DriverVersion":"10.0.26100.1","AdapterRAM":null},7]\r\n'
)
"""


@pytest.fixture
def powershell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Add a fake PowerShell to the PATH of a fake WSL machine; return the path of its log."""
    for name in ("ROCENV_SYSROOT", "ROCENV_TARGET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(detection, "linux_gpus", lambda _matrix: Found())
    monkeypatch.setattr(detection, "linux_driver", lambda: Driver(kernel="6.6.87.2", wsl=True))
    monkeypatch.setattr(wsl, "interop_is_off", lambda: False)

    def make(body: str) -> Path:
        log = tmp_path / "asked"
        program = tmp_path / "bin" / "powershell.exe"
        program.parent.mkdir()
        program.write_text(f"#!{sys.executable}\n{POWERSHELL.format(log=str(log), body=body)}")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(program.parent))
        return log

    return make


def test_windows_is_queried_and_its_response_is_recorded(
    powershell: Callable[[str], Path], look: Look
) -> None:
    log = powershell(ANSWER)
    with machine.recording(bool) as answers:
        host = look()
    assert [(gpu.target, gpu.pci_id) for gpu in host.gpus] == [("gfx1030", "1002:73bf")]
    assert host.driver.display == "32.0.31041.1004"
    assert log.read_text() == "asked\n", "once"
    assert "1f3c9d7e" not in answers.files[wsl.ANSWER][0], "the PCI location must not be recorded"
    with machine.answering(answers):
        assert look() == host
    assert log.read_text() == "asked\n", "replaying a recording starts no programs"


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("sys.exit('Access is denied.')", "exit code 1 (Access is denied.)"),
        ("print('what is this')", "listed no display adapters (what is this)"),
        ("", "listed no display adapters"),
        ("time.sleep(60)", "did not end within 0.5 s"),
    ],
)
def test_failed_powershell_queries_are_explained(
    powershell: Callable[[str], Path], look: Look, monkeypatch: pytest.MonkeyPatch, body: str, told: str
) -> None:
    powershell(body)
    monkeypatch.setattr(wsl, "_TIMEOUT_S", 0.5 if "sleep" in body else 20)
    host = look()
    assert (host.gpus, "cannot tell whether" in host.why) == ((), True)
    assert told in host.why
    assert "rocenv create --torch --target" in host.remedies[0]


def test_a_missing_powershell_is_explained(
    powershell: Callable[[str], Path], look: Look, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "neither on PATH" in look().why


@pytest.mark.parametrize("why", ["no WSL", "a GPU that Linux lists", "interop is off"])
def test_powershell_is_not_started_on_other_machines(
    powershell: Callable[[str], Path], look: Look, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    log = powershell(ANSWER)
    if why == "no WSL":
        monkeypatch.setattr(detection, "linux_driver", lambda: Driver(kernel="6.14.0"))
    elif why == "interop is off":
        monkeypatch.setattr(wsl, "interop_is_off", lambda: True)
    else:
        gpus = (detection.Gpu(source="KFD", target="gfx1100"),)
        monkeypatch.setattr(detection, "linux_gpus", lambda _matrix: Found(gpus=gpus))
    look()
    assert not log.exists()
