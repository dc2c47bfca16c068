"""GPUs on Windows machines, where HIP and the display driver rarely agree."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from rocenv.host.windows import parse_controllers, parse_hip
from rocenv.system.process import own_child
from tests.host.conftest import MATRIX
from tests.host.roots import GIB, Root
from tests.users import missing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rocenv.host import Host

    Look = Callable[[], Host]

CARD: dict[str, Any] = {"Name": "AMD Radeon RX 6800", "gcnArchName": "gfx1030"}
IGPU: dict[str, Any] = {
    "Name": "AMD Radeon 780M Graphics",
    "gcnArchName": "gfx1103",
    "totalGlobalMem": "25.16 GB",
}
NVIDIA = {"Name": "NVIDIA GeForce RTX 4070", "PNPDeviceID": r"PCI\VEN_10DE&DEV_2786&REV_A1"}
NO_DEVICE = 'checkHipErrors() HIP API error = 0100 "no ROCm-capable device is detected"\n'


def adapter(name: str, device: str = "", driver: str = "", **more: Any) -> dict[str, Any]:
    pnp = {"PNPDeviceID": rf"PCI\VEN_1002&DEV_{device}&SUBSYS_17141043&REV_C1\6&1"} if device else {}
    return {"Name": name, "DriverVersion": driver, **pnp, **more}


def test_the_order_from_hip_is_kept_and_the_card_is_used(root: Root, look: Look) -> None:
    root.windows(
        IGPU, CARD, controllers=[adapter("AMD Radeon RX 6800"), adapter("AMD Radeon(TM) 780M Graphics")]
    )
    host = look()
    assert host.platform == "windows"
    assert [(gpu.target, gpu.integrated, gpu.hip_index) for gpu in host.gpus] == [
        ("gfx1103", True, 0),
        ("gfx1030", False, 1),
    ]
    assert (host.selected, host.visible_devices()) == (1, "1")


@pytest.mark.parametrize(
    ("first", "second", "used"),
    [
        (("AMD Radeon RX 580", "gfx803", "16 GB"), ("AMD Radeon 780M Graphics", "gfx1103", "4 GB"), 1),
        (("AMD Radeon RX 7900 XT", "gfx1100", "20 GB"), ("AMD Instinct MI300X", "gfx942", "192 GB"), 0),
        (("AMD Radeon RX 580", "gfx803", "8 GB"), ("AMD Radeon(TM) Vega 8 Graphics", "gfx902", "16 GB"), 0),
        (("AMD Radeon RX 9990 XTX", "", "8 GB"), ("AMD Radeon(TM) 610M", "gfx1036", "16 GB"), 0),
    ],
)
def test_a_gpu_with_libraries_is_preferred(
    root: Root, look: Look, first: tuple[str, str, str], second: tuple[str, str, str], used: int
) -> None:
    keys = ("Name", "gcnArchName", "totalGlobalMem")
    root.windows(dict(zip(keys, first, strict=True)), dict(zip(keys, second, strict=True)))
    host = look()
    assert host.selected == used
    lacks = second if used == 0 else first
    assert (
        f"AMD has no libraries for GPU {1 - used} ({lacks[1]}) on Windows" in host.why or lacks[1] == "gfx902"
    )


def test_facts_from_hip_and_display_drivers_are_combined(root: Root, look: Look) -> None:
    devices = [
        {**IGPU, "multiProcessorCount": 6, "isIntegrated": 1},
        {"Name": "", "gcnArchName": "gfx1030:xnack-"},
    ]
    controllers = [
        adapter("AMD Radeon RX 6800 XT", "73BF", "32.0.12033.1030"),
        adapter("AMD Radeon(TM) 780M Graphics", "15bf", AdapterRAM=GIB // 2),
    ]
    root.windows(*devices, controllers=controllers)
    host = look()
    igpu, card = host.gpus
    assert (igpu.pci_id, igpu.compute_units, igpu.vram_bytes) == ("1002:15bf", 12, GIB // 2)
    assert igpu.memory_bytes == int(25.16 * GIB)
    assert (card.name, card.pci_id, card.features) == ("AMD Radeon RX 6800 XT", "1002:73bf", ":xnack-")
    assert (host.driver.display, host.driver.release) == ("32.0.12033.1030", "24.12.1")


def test_compute_units_are_doubled_only_on_rdna(root: Root, look: Look) -> None:
    devices = [
        {"Name": "a", "gcnArchName": name, "multiProcessorCount": 36}
        for name in ("gfx803", "gfx1100", "gfx1999")
    ]
    root.windows(*devices)
    assert [gpu.compute_units for gpu in look().gpus] == [36, 72, None]


def test_without_hip_display_drivers_identify_targets(root: Root, look: Look) -> None:
    root.windows(controllers=adapter("AMD Radeon(TM) 8060S Graphics", "1586"))
    host = look()
    assert [(gpu.target, gpu.usable, gpu.hip_index) for gpu in host.gpus] == [("gfx1151", True, 0)]
    root.windows(controllers=[adapter("AMD Radeon(TM) RX 6800"), adapter("AMD Radeon(TM) Graphics")])
    assert [gpu.target for gpu in look().gpus] == ["gfx1030", ""]


@pytest.mark.parametrize("device", ["6818", ""])
@pytest.mark.parametrize("said", ["", NO_DEVICE])
def test_a_card_that_rocm_never_supported_is_not_usable(
    root: Root, look: Look, said: str, device: str
) -> None:
    root.windows(said=said, controllers=[adapter("AMD Radeon HD 7870", device)])
    host = look()
    assert host.gpu is None
    assert host.gpus[0].why_not == "ROCm never supported GCN 1"


def test_without_hip_no_gpu_number_is_guessed(root: Root, look: Look) -> None:
    root.windows(controllers=[adapter("AMD Radeon 780M Graphics"), adapter("AMD Radeon RX 6800")])
    host = look()
    assert (host.selected, host.visible_devices()) == (1, "")
    assert any("unknown" in note for note in host.notes)


def test_a_card_that_hip_does_not_list_is_shown_with_the_hip_error(root: Root, look: Look) -> None:
    root.windows(said=NO_DEVICE, controllers=[adapter("AMD Radeon RX 6800 XT", "73BF")])
    host = look()
    assert (host.gpus[0].target, host.gpus[0].state, host.selected) == ("gfx1030", "barred", 0)
    assert "no ROCm-capable device is detected" in host.why
    root.windows(
        IGPU, controllers=[adapter("AMD Radeon RX 6800 XT", "73BF"), adapter("AMD Radeon 780M Graphics")]
    )
    host = look()
    assert [(gpu.target, gpu.usable) for gpu in host.gpus] == [("gfx1103", True), ("gfx1030", False)]
    assert host.selected == 0


def test_identical_cards_are_listed_separately(root: Root, look: Look) -> None:
    root.windows(CARD, CARD, controllers=[adapter("AMD Radeon RX 6800", "73BF")] * 2)
    assert [gpu.pci_id for gpu in look().gpus] == ["1002:73bf"] * 2


@pytest.mark.parametrize("other", [NVIDIA, {"Name": "NVIDIA GeForce RTX 4070"}])
def test_an_igpu_next_to_an_nvidia_card_is_not_used(root: Root, look: Look, other: dict[str, Any]) -> None:
    igpu = {"Name": "AMD Radeon(TM) Graphics", "gcnArchName": "gfx1036", "isIntegrated": 1}
    root.windows(igpu, controllers=[other, adapter("AMD Radeon(TM) Graphics", "164E")])
    assert (look().selected, look().others) == (None, ("NVIDIA",))
    root.windows(controllers=[other])
    assert look().why == "this machine has no AMD GPU, only NVIDIA"


def test_capped_memory_values_are_ignored(root: Root, look: Look) -> None:
    root.windows(controllers=[adapter("AMD Radeon RX 6800", AdapterRAM=4293918720)])
    assert look().gpus[0].vram_bytes is None


@pytest.mark.parametrize(
    "text", ["", "null", "{}", "[1, [2]]", "{", "\0\xff", "[" * 50_000, '[{"Name": 7, "AdapterRAM": "much"}]']
)
def test_invalid_adapter_lists_are_ignored(root: Root, look: Look, text: str) -> None:
    root.windows(CARD)
    (root.path / "windows/video_controllers.json").write_text(text, encoding="latin-1")
    assert look().selected == 0


@pytest.mark.parametrize(
    "text",
    [
        "device#\n",
        "device# x\n",
        "device# 99999999999999\nName: x\n",
        "\0" * 100,
        "totalGlobalMem: 1.2.3 GB\n",
    ],
)
def test_invalid_hip_output_is_ignored(root: Root, look: Look, text: str) -> None:
    root.windows(said=text, controllers=[adapter("AMD Radeon RX 6800 XT", "73BF")])
    assert [gpu.target for gpu in look().gpus] == ["gfx1030"]


def test_devices_are_sorted_by_number() -> None:
    text = (
        "device#  1\nName:  b\ndevice#  0\nName:  a\ntotalGlobalMem:  1.2.3 GB\ngcnArchName: nonsense here\n"
    )
    assert [(gpu.name, gpu.target) for gpu in parse_hip(text, MATRIX)] == [("a", ""), ("b", "")]


def test_an_adapter_id_without_a_revision_is_accepted() -> None:
    row = {"PNPDeviceID": r"PCI\VEN_1002&DEV_73BF", "RadeonSoftwareVersion": "25.4.1"}
    controller = parse_controllers(json.dumps(row))[0]
    assert (controller.device, controller.revision, controller.release) == ("73bf", "", "25.4.1")


def test_hip_is_queried_in_a_child_process(tmp_path: Path) -> None:
    """With a fake HIP library, the child process prints the same output as `hipInfo`."""
    compiler = shutil.which("cc")
    if compiler is None:
        missing("no C compiler to build a fake HIP")
        return
    source = tmp_path / "hip.c"
    source.write_text(
        "#include <stdlib.h>\n#include <string.h>\n"
        'int hipGetDeviceCount(int *n) { *n = 2; return getenv("NO_DEVICE") ? 100 : 0; }\n'
        "int hipDeviceGetName(char *s, int l, int d)"
        ' { strncpy(s, d ? "AMD Radeon RX 6800" : "iGPU", l); return 0; }\n'
        "int hipDeviceTotalMem(size_t *b, int d) { *b = (size_t)(d + 1) << 33; return 0; }\n"
    )
    library = tmp_path / "hip.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source)], check=True, timeout=60)

    def asked(**env: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, *own_child("rocenv.host.hip_child", str(library))]
        return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)

    done = asked()
    assert done.returncode == 0, done.stderr
    assert [(gpu.name, gpu.memory_bytes) for gpu in parse_hip(done.stdout, MATRIX)] == [
        ("iGPU", 8 * GIB),
        ("AMD Radeon RX 6800", 16 * GIB),
    ]
    assert '"error 100"' in asked(NO_DEVICE="1").stdout


def test_unreadable_adapters_count_as_unknown_rather_than_absent(root: Root, look: Look) -> None:
    root.windows()
    assert look().why == "this machine has no AMD GPU"
    root.put("windows/video_controllers.json", "no JSON")
    assert "video_controllers.json` is not readable" in look().why


def test_a_byte_order_mark_from_powershell_is_ignored(root: Root, look: Look) -> None:
    text = json.dumps([adapter("AMD Radeon RX 6800", "73BF")])
    root.windows().put("windows/video_controllers.json", f"\ufeff{text}")
    assert [gpu.target for gpu in look().gpus] == ["gfx1030"]
    root.windows(said="\ufeffdevice# 0\nName: AMD Radeon RX 6800\n")
    assert [gpu.source for gpu in look().gpus] == ["HIP"]


def test_implausible_adapter_values_are_ignored(root: Root, look: Look) -> None:
    root.windows(controllers=[adapter("AMD Radeon \x1b[31m\ud800 RX 6800", "73BF", AdapterRAM=10**400)])
    host = look()
    assert host.gpus[0].vram_bytes is None
    assert host.gpus[0].name == "AMD Radeon ?[31m? RX 6800"


def test_without_hip_the_order_of_possible_igpus_is_unknown(root: Root, look: Look) -> None:
    root.windows(controllers=[adapter("AMD Radeon(TM) Graphics"), adapter("AMD Radeon RX 6800", "73BF")])
    host = look()
    assert (host.selected, host.visible_devices()) == (1, "")
    assert any("its numbers for these GPUs are unknown" in note for note in host.notes)
