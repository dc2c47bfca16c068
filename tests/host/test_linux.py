"""GPUs on Linux machines, each with a detail that would mislead naive detection code."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocenv.core.errors import RocenvError
from rocenv.host.gpu import split_target, target_age, target_name
from tests.host.roots import GIB, NODES, Root
from tests.users import unprivileged

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocenv.host import Host

    Look = Callable[[], Host]

RX_6800, RX_580, RX_7900, RAPHAEL, MI300X = 0x73BF, 0x67DF, 0x744C, 0x164E, 0x74A1


def targets(host: Host) -> list[str]:
    return [gpu.target for gpu in host.gpus]


@pytest.mark.parametrize(
    ("version", "name"),
    [(90010, "gfx90a"), (90012, "gfx90c"), (100306, "gfx1036"), (110003, "gfx1103"), (120500, "gfx1250")],
)
def test_kernel_version_numbers_are_converted_to_target_names(version: int, name: str) -> None:
    assert target_name(version) == name


def test_features_are_split_from_the_target() -> None:
    assert split_target("gfx90a:sramecc+:xnack-") == ("gfx90a", ":sramecc+:xnack-")
    assert split_target(" gfx1100 ") == ("gfx1100", "")


def test_targets_are_sorted_by_number() -> None:
    names = ["gfx1030", "gfx90a", "gfx1201", "gfx803", "gfx942", "gfx1100", "gfx90c"]
    newer_last = ["gfx803", "gfx90a", "gfx90c", "gfx942", "gfx1030", "gfx1100", "gfx1201"]
    assert sorted(names, key=target_age) == newer_last
    assert target_age("nonsense") < target_age("gfx803")


def test_the_card_is_used_and_an_igpu_with_more_memory_is_hidden(root: Root, look: Look) -> None:
    root.kernel().cpu()
    root.gpu(1, RAPHAEL, 100306, units=2, memory=GIB // 2, gtt=48 * GIB, bus=0x10)
    root.gpu(2, RX_7900, 110000, units=96, memory=24 * GIB, bus=3)
    host = look()
    assert targets(host) == ["gfx1036", "gfx1100"]
    assert [gpu.integrated for gpu in host.gpus] == [True, False]
    assert [gpu.memory_bytes for gpu in host.gpus] == [48 * GIB + GIB // 2, 24 * GIB]
    assert [gpu.compute_units for gpu in host.gpus] == [2, 96]
    assert (host.selected, host.visible_devices()) == (1, "1")
    assert host.why == "GPU 1 (gfx1100) is preferred over GPU 0 (gfx1036), which is part of the CPU"


def test_an_env_for_several_targets_sees_only_their_cards(root: Root, look: Look) -> None:
    root.kernel().cpu().gpu(1, RAPHAEL, 100306, units=2).gpu(2, RX_7900, 110000, units=96)
    root.gpu(3, RX_6800, 100300, units=60).gpu(4, 0x7550, 120001, units=64)
    host = look()
    assert targets(host) == ["gfx1036", "gfx1100", "gfx1030", "gfx1201"]
    assert host.visible_devices("gfx1201", "gfx1100") == "3,1", "in the order of the targets"
    assert host.visible_devices("gfx1100", "gfx1201") == "1,3"
    assert host.visible_devices("gfx1036", "gfx1100") == "0,1", "the iGPU has one of the targets"
    assert host.visible_devices("gfx1100", "gfx906") == "1", "missing targets are skipped"
    assert host.visible_devices("gfx906", "gfx908") == ""
    assert host.visible_devices("gfx1100") == "1,2,3", "other cards come after the requested one"


def test_system_memory_does_not_count_as_an_igpus_vram(root: Root, look: Look) -> None:
    root.kernel().gpu(1, RAPHAEL, 100306, memory=16 * GIB, gtt=16 * GIB)
    root.put("sys/bus/pci/devices/0000:01:00.0/mem_info_vram_total", str(GIB // 2))
    gpu = look().gpus[0]
    assert (gpu.vram_bytes, gpu.gtt_bytes) == (GIB // 2, 16 * GIB)


def test_nodes_are_sorted_by_number(root: Root, look: Look) -> None:
    root.kernel().cpu()
    for number, device in ((2, RX_7900), (10, RX_6800), (9, RX_7900)):
        root.gpu(number, device, 110000 if device == RX_7900 else 100300)
    assert [gpu.node for gpu in look().gpus] == [2, 9, 10]
    assert [gpu.hip_index for gpu in look().gpus] == [0, 1, 2]


def test_pci_ids_identify_targets_on_old_kernels(root: Root, look: Look) -> None:
    root.kernel("4.15.0").cpu().gpu(1, RX_6800, None).gpu(2, 0x9999, None)
    root.gpu(3, 0x74A0, None, revision=0).gpu(4, 0x74A0, None, revision=1)
    assert targets(look()) == ["gfx1030", "", "gfx940", "gfx942"]
    assert look().gpus[0].source == "KFD, target by PCI id"
    assert look().gpus[1].pci_id == "1002:9999"


def test_the_kernels_target_overrides_the_pci_id(root: Root, look: Look) -> None:
    root.kernel().gpu(1, 0x74A0, 90400, revision=1)
    assert targets(look()) == ["gfx940"]


def test_an_unknown_target_is_listed_and_usable(root: Root, look: Look) -> None:
    root.kernel().gpu(1, 0x8123, 150207, memory=64 * GIB)
    host = look()
    assert (targets(host), host.selected, host.gpus[0].integrated) == (["gfx1527"], 0, None)


def test_the_same_address_in_a_different_domain_is_a_different_gpu(root: Root, look: Look) -> None:
    for number in range(4):
        root.gpu(number + 4, MI300X, 90402, bus=2, domain=number)
    addresses = [gpu.address for gpu in look().gpus]
    assert addresses == [f"000{number}:02:00.0" for number in range(4)]
    assert look().notes == ()


def test_partitions_belong_to_their_board(root: Root, look: Look) -> None:
    for partition in range(8):
        root.gpu(partition + 2, MI300X, 90402, units=38, bus=5, partition=partition, memory=24 * GIB)
    root.put("sys/bus/pci/devices/0000:05:00.0/mem_info_vram_total", str(192 * GIB))
    host = look()
    assert {gpu.address for gpu in host.gpus} == {"0000:05:00.0"}
    assert [gpu.memory_bytes for gpu in host.gpus] == [24 * GIB] * 8
    assert host.notes == ("8 of these are partitions of one board, sharing memory and compute units",)


def test_a_slightly_smaller_first_partition_stays_first(root: Root, look: Look) -> None:
    root.gpu(1, MI300X, 90402, memory=48 * GIB - (16 << 20)).gpu(2, MI300X, 90402, memory=48 * GIB)
    assert look().selected == 0


def test_names_from_the_system_override_the_shipped_ones(root: Root, look: Look) -> None:
    root.kernel().gpu(1, RX_6800, 100300, revision=0xC1)
    assert look().gpus[0].name == "Radeon RX 6800 XT"
    root.put(
        "usr/share/libdrm/amdgpu.ids", "# x\n1.0.0\n73BF,\tC0,\tAMD Radeon RX 6900 XT\n73BF,\tC1,\tOther\n"
    )
    assert look().gpus[0].name == "Other"
    root.put("sys/bus/pci/devices/0000:01:00.0/product_name", "Its Own\n")
    assert look().gpus[0].name == "Its Own"


@pytest.mark.parametrize(
    ("driver", "why"),
    [
        ("amdgpu", "PCIe atomics"),
        ("radeon", "`radeon`"),
        ("vfio-pci", "virtual machine"),
        ("", "no driver"),
    ],
)
def test_a_card_that_kfd_skipped_is_shown_with_the_reason(
    root: Root, look: Look, driver: str, why: str
) -> None:
    root.kernel().cpu().card("0000:01:00.0", RX_580, driver=driver)
    host = look()
    assert (targets(host), host.selected) == (["gfx803"], None)
    assert why in host.gpus[0].why_not
    assert why in host.why
    assert host.gpus[0].hip_index is None


def test_a_missing_kfd_is_distinguished_from_a_skipped_card(root: Root, look: Look) -> None:
    root.kernel().card("0000:01:00.0", RX_580)
    assert "compute driver (KFD) is missing" in look().why


def test_only_gpu_pci_classes_are_listed(root: Root, look: Look) -> None:
    root.card("0000:01:00.0", MI300X, base_class=0x12).card("0000:01:00.1", 0xAB38, base_class=0x04)
    assert targets(look()) == ["gfx942"]


def test_an_igpu_is_used_if_the_card_does_not_support_compute(root: Root, look: Look) -> None:
    root.kernel().cpu().gpu(1, RAPHAEL, 100306).card("0000:08:00.0", RX_580)
    host = look()
    assert (targets(host), host.selected) == (["gfx1036", "gfx803"], 0)
    assert host.why == "GPU 0 (gfx1036) is the only GPU that supports compute"
    assert host.visible_devices() == "", "an iGPU that is used must not be hidden"


def test_a_gpu_whose_node_failed_to_initialize_is_unusable(root: Root, look: Look) -> None:
    root.kernel().cpu().node(1, gpu_id=0, simd_count=0, vendor_id=0x1002, device_id=RX_6800)
    root.gpu(2, RX_7900, 110000)
    host = look()
    assert [(gpu.target, gpu.state, gpu.hip_index) for gpu in host.gpus] == [
        ("gfx1030", "unable", None),
        ("gfx1100", "usable", 0),
    ]


def test_an_old_apu_with_one_node_for_cpu_and_gpu_is_detected(root: Root, look: Look) -> None:
    root.kernel("5.4.0").node(
        0, cpu_cores_count=4, simd_count=32, simd_per_cu=4, vendor_id=0x1002, device_id=0x9874
    )
    gpu = look().gpus[0]
    assert (gpu.integrated, gpu.compute_units, gpu.target) == (True, 8, "")


@pytest.mark.parametrize(
    ("device", "version", "units"), [(RAPHAEL, 100306, 2), (0x1638, 90012, 8), (0x15BF, 110003, 2)]
)
def test_an_igpu_is_not_used_alongside_an_nvidia_card(
    root: Root, look: Look, device: int, version: int, units: int
) -> None:
    root.kernel().gpu(1, device, version, units=units).card(
        "0000:09:00.0", 0x2204, vendor=0x10DE, driver="nvidia"
    )
    host = look()
    assert host.gpus[0].usable
    assert host.selected is None
    assert "use the NVIDIA GPU instead" in host.why
    assert host.others == ("NVIDIA",)


def test_an_amd_card_or_a_large_igpu_is_used_next_to_an_nvidia_card(root: Root, look: Look) -> None:
    root.kernel().card("0000:09:00.0", 0x2204, vendor=0x10DE, driver="nvidia").gpu(
        1, 0x1586, 110501, units=40
    )
    assert look().selected == 0
    root.gpu(2, RX_6800, 100300)
    assert look().selected == 1


def test_a_small_igpu_is_used_if_it_is_the_only_gpu(root: Root, look: Look) -> None:
    root.kernel().gpu(1, RAPHAEL, 100306, units=2).card("0000:09:00.0", 0x0111, vendor=0x1234, driver="bochs")
    assert look().selected == 0, "a virtual display is not another vendor's card"


def test_cards_are_ranked_by_support_then_memory_then_age(root: Root, look: Look) -> None:
    root.kernel().gpu(1, 0x66A1, 90006, memory=32 * GIB).gpu(2, RX_6800, 100300, memory=16 * GIB)
    assert look().why == "current releases support GPU 1 (gfx1030) better than GPU 0 (gfx906)"
    root.gpu(3, RX_7900, 110000, memory=24 * GIB)
    assert look().why == "GPU 2 (gfx1100) has more memory than GPU 1 (gfx1030)"
    root.gpu(4, 0x7550, 120001, memory=24 * GIB)
    assert look().why == "GPU 3 (gfx1201) is newer than GPU 2 (gfx1100)"
    root.gpu(5, 0x7550, 120001, memory=24 * GIB)
    assert look().why == "GPU 3 (gfx1201) is the first of several similar GPUs"


def test_a_machine_without_an_amd_gpu_says_which_gpus_it_has(root: Root, look: Look) -> None:
    assert (look().gpus, look().why) == ((), "this machine has no AMD GPU")
    root.card("0000:09:00.0", 0x2204, vendor=0x10DE, driver="nvidia").card("0000:00:02.0", 1, vendor=0x8086)
    assert (look().gpus, look().selected, look().why) == (
        (),
        None,
        "this machine has no AMD GPU, only Intel and NVIDIA",
    )


def test_the_kernel_and_driver_versions_are_detected(root: Root, look: Look) -> None:
    root.kernel("6.8.0-45-generic", dkms="6.10.5")
    driver = look().driver
    assert (driver.kernel, driver.amdgpu, driver.loaded) == ("6.8.0-45-generic", "6.10.5", True)


def test_a_container_without_the_devices_is_explained(root: Root, look: Look) -> None:
    root.kernel().gpu(1, RAPHAEL, 100306).gpu(2, RX_6800, 100300)
    (root.path / "dev/kfd").unlink()
    host = look()
    assert [gpu.state for gpu in host.gpus] == ["barred", "barred"]
    assert (host.selected, host.visible_devices()) == (1, "1"), (
        "the GPUs are listed as if access had been granted"
    )
    assert "`/dev/kfd` does not exist" in host.why
    assert "--device /dev/kfd --device /dev/dri" in host.remedies[0]


def test_a_container_with_only_one_of_two_gpus_is_detected(root: Root, look: Look) -> None:
    root.kernel().gpu(1, RX_7900, 110000).gpu(2, RX_6800, 100300)
    (root.path / "dev/dri/renderD128").unlink()
    host = look()
    assert [(gpu.target, gpu.state, gpu.hip_index) for gpu in host.gpus] == [
        ("gfx1100", "barred", None),
        ("gfx1030", "usable", 0),
    ]
    assert host.selected == 1
    assert host.why == "GPU 1 (gfx1030) can be used now, but GPU 0 (gfx1100) cannot"


def test_kfd_errors_other_than_missing_permissions_are_reported(
    root: Root, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    root.kernel().gpu(1, RX_6800, 100300)
    (root.path / "dev/kfd").unlink()
    monkeypatch.chdir(root.path / "dev")
    with socket.socket(socket.AF_UNIX) as device:
        device.bind("kfd")  # opening it fails with ENXIO for every user
        host = look()
    assert host.selected == 0
    assert errno.errorcode[errno.ENXIO] in host.gpus[0].why_not
    assert "usermod" not in host.remedies[0]


def test_an_unreadable_node_is_listed_as_a_gpu(root: Root, look: Look) -> None:
    root.kernel().cpu().gpu(1, RX_6800, 100300).gpu(2, RX_7900, 110000)
    properties = root.path / NODES / "1/properties"
    properties.unlink()
    properties.mkdir()  # unreadable even for root
    host = look()
    assert [(gpu.target, gpu.state, gpu.node) for gpu in host.gpus] == [
        ("gfx1030", "barred", 1),
        ("gfx1100", "usable", 2),
    ]
    assert host.selected == 1


def test_gpus_are_listed_without_permission_to_use_them(root: Root, tmp_path: Path) -> None:
    """Permissions prevent an unprivileged user from opening `/dev/kfd` and one of the nodes."""
    root.kernel().gpu(1, RX_6800, 100300).gpu(2, RX_7900, 110000)
    (root.path / "dev/kfd").chmod(0)
    (root.path / NODES / "1/properties").chmod(0)
    program = (
        "import json, tests.host.conftest as c; from rocenv.host import detect; h = detect(c.MATRIX);"
        "print(json.dumps([[g.target, g.state, g.why_not] for g in h.gpus] + [h.selected, list(h.remedies)]))"
    )
    done = subprocess.run(
        [*unprivileged(), sys.executable, "-c", program],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, second, selected, remedies = json.loads(done.stdout)
    assert first[:2] == ["gfx1030", "barred"]
    assert "KFD node 1 is not readable" in first[2]
    assert second == ["gfx1100", "barred", "no permission to open `/dev/kfd`"]
    assert selected == 1
    assert any("usermod -aG render,video" in remedy for remedy in remedies)


GARBAGE = [
    "",
    "\0\0\0",
    "simd_count\n",
    "simd_count many\n",
    "simd_count -1\n",
    "simd_count 99999999999999999999999\n",
]


@pytest.mark.parametrize("text", [*GARBAGE, "simd_count 192\n" * 100_000, "\x80" * 5000])
def test_invalid_files_do_not_hide_other_gpus(root: Root, look: Look, text: str) -> None:
    root.kernel().gpu(1, RX_6800, 100300).gpu(2, RX_7900, 110000)
    for name in ("properties", "gpu_id", "name", "mem_banks/0/properties"):
        (root.path / NODES / "1" / name).write_text(text, encoding="latin-1")
    for path in (root.path / "sys/bus/pci/devices/0000:01:00.0").iterdir():
        path.write_text(text, encoding="latin-1")
    root.put("proc/version", text)
    root.put("usr/share/libdrm/amdgpu.ids", text)
    assert "gfx1100" in [gpu.target for gpu in look().gpus if gpu.usable]


def test_special_files_neither_raise_an_exception_nor_block(root: Root, look: Look) -> None:
    root.kernel().gpu(2, RX_7900, 110000)
    nodes = root.path / NODES
    for number in (3, 4, 5, 6):
        (nodes / str(number)).mkdir()
    (nodes / "3/properties").symlink_to("properties")
    os.mkfifo(nodes / "4/properties")
    (nodes / "5/properties").symlink_to("/dev/zero")
    (nodes / "7").symlink_to("7")
    (nodes / "8").write_text("no folder")
    (nodes / "nine").mkdir()
    (root.path / "sys/bus/pci/devices/0000:0a:00.0").symlink_to("0000:0a:00.0")
    host = look()
    assert [gpu.target for gpu in host.gpus if gpu.usable] == ["gfx1100"]
    assert host.gpus[0].index == host.selected


@pytest.mark.parametrize(
    ("said", "targets", "selected"),
    [
        ("", [], None),
        (" , ", [], None),
        ("gfx90a:xnack-", ["gfx90a"], 0),
        ("gfx1036, gfx1100", ["gfx1036", "gfx1100"], 1),
        ("gfx9999", ["gfx9999"], 0),
    ],
)
def test_rocenv_target_replaces_detection(
    root: Root,
    look: Look,
    monkeypatch: pytest.MonkeyPatch,
    said: str,
    targets: list[str],
    selected: int | None,
) -> None:
    root.kernel().gpu(1, RX_7900, 110000)
    monkeypatch.setenv("ROCENV_TARGET", said)
    host = look()
    assert [gpu.target for gpu in host.gpus] == targets
    assert host.selected == selected
    assert "ROCENV_TARGET" in host.why
    assert host.visible_devices() == "", "HIP's device numbers are unknown if the user specifies the targets"


@pytest.mark.parametrize(
    ("value", "version", "expected"),
    [
        ("10.3.0", 100300, "has no effect on gfx1030"),
        ("12.0.1", 110501, "makes gfx1151 pass as gfx1201"),
        ("10.3.0", 100305, "wrong results"),
        ("10.3.0", 100301, ""),
        ("9.0.0", 90012, ""),
        ("1030", 100300, "is not a version"),
    ],
)
def test_a_leftover_override_is_reported(
    root: Root, look: Look, monkeypatch: pytest.MonkeyPatch, value: str, version: int, expected: str
) -> None:
    root.kernel().gpu(1, 0x1111, version)
    monkeypatch.setenv("HSA_OVERRIDE_GFX_VERSION", value)
    notes = look().notes
    assert len(notes) == bool(expected)
    assert all(expected in note and "`unset HSA_OVERRIDE_GFX_VERSION`" in note for note in notes)


@pytest.mark.parametrize("said", ["GFX1100", "rtx4090", "gfx\x1b[31m1100", "gfx1100,rm -rf /", "gfx\udcff"])
def test_an_invalid_value_of_rocenv_target_is_an_error(
    root: Root, look: Look, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setenv("ROCENV_TARGET", said)
    with pytest.raises(RocenvError, match="in ROCENV_TARGET is not a valid target") as caught:
        look()
    assert caught.value.code == "target-unknown"
    assert caught.value.message.isprintable()


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("RX 6800 XT", "export ROCENV_TARGET=gfx1030"),
        ("GFX1100", "export ROCENV_TARGET=gfx1100"),
        ("rtx4090", "rocenv explain"),
    ],
)
def test_the_error_for_an_invalid_rocenv_target_says_how_to_find_a_valid_one(
    root: Root, look: Look, monkeypatch: pytest.MonkeyPatch, said: str, hint: str
) -> None:
    monkeypatch.setenv("ROCENV_TARGET", said)
    with pytest.raises(RocenvError) as caught:
        look()
    assert hint in " ".join(caught.value.hints) and "unset ROCENV_TARGET" in " ".join(caught.value.hints)


def test_devices_that_cannot_be_listed_are_unknown_rather_than_absent(root: Root, look: Look) -> None:
    assert look().why == "this machine has no AMD GPU"
    root.put("sys/bus/pci/devices", "no folder")
    assert look().why.startswith("cannot tell whether this machine has an AMD GPU: `/sys/bus/pci/devices`")


@pytest.mark.parametrize("name", ["nowhere", "proc/version", "x" * 300])
def test_an_invalid_sysroot_is_reported(
    root: Root, look: Look, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    root.kernel()
    monkeypatch.setenv("ROCENV_SYSROOT", str(root.path / name))
    why = look().why
    assert why.startswith(f"ROCENV_SYSROOT is set to `{root.path}"[:120])
    assert why.endswith("`, which is not a folder")


def test_strings_from_the_machine_cannot_control_a_terminal(root: Root, look: Look) -> None:
    root.kernel("6\x1b[2J").gpu(1, RX_7900, 110000).card("0000:09:00.0", 0x1234, driver="x\x1b]0;y\x07")
    root.put("sys/bus/pci/devices/0000:01:00.0/product_name", "\x1b[31m\u202eRX\n" + "7" * 5000)
    host = look()
    texts = [*(gpu.name + gpu.why_not + gpu.features for gpu in host.gpus), host.why, host.driver.kernel]
    assert all(text.isprintable() and len(text) < 500 for text in texts), texts
    assert host.gpus[0].name.startswith("?[31m?RX 777")


def test_a_single_amd_gpu_is_described_as_the_only_one(root: Root, look: Look) -> None:
    root.kernel().gpu(1, RX_7900, 110000).card("0000:09:00.0", 0x2684, vendor=0x10DE, driver="nvidia")
    assert look().why == "GPU 0 (gfx1100) is the only GPU from AMD (also present: NVIDIA)"


@pytest.mark.parametrize("driver", ["radeon", "amdgpu", ""])
def test_a_card_that_rocm_never_supported_is_not_a_driver_problem(
    root: Root, look: Look, driver: str
) -> None:
    root.kernel().gpu(1, RX_7900, 110000).card("0000:09:00.0", 0x6818, driver=driver)
    host = look()
    assert host.gpu is not None and host.gpu.target == "gfx1100"
    assert [gpu.why_not for gpu in host.gpus if not gpu.usable] == ["ROCm never supported GCN 1"]
