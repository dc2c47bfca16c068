"""Checks on the kernel, its driver and its log."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from rocenv.checks import kernel
from rocenv.system import process
from tests.checks.scenery import RX_7900, Scenery
from tests.host.roots import GIB

if TYPE_CHECKING:
    from collections.abc import Callable

RX_580 = 0x67DF
LOG = "var/log/kern.log"
BOOT = "May  1 10:00:00 desk kernel: [    0.000000] Linux version 6.14.0-27-generic (x@y)\n"


def line(text: str) -> str:
    return f"May  1 10:00:09 desk kernel: [    9.123456] {text}\n"


def test_a_driver_that_was_not_tested_with_an_envs_rocm_is_reported(scenery: Scenery) -> None:
    scenery.healthy().root.kernel("5.15.0-91-generic", dkms="6.2.4.23.20")
    scenery.env("sd", rocm="6.4.3")
    scenery.env("old", rocm="5.6.1")
    finding = scenery.sees("driver_apart")
    assert finding is not None and finding.code == "kernel-userspace-mismatch"
    assert "5.7" in finding.title and "sd" in finding.title
    assert finding.evidence == ("/sys/module/amdgpu/version: 6.2.4.23.20", "sd: ROCm 6.4")


def test_the_rocm_inside_torch_is_checked(scenery: Scenery) -> None:
    scenery.healthy().root.kernel("5.15.0-91-generic", dkms="5.16.9.22.20")
    scenery.env("wheels", torch="2.6.0+rocm6.2.4")
    finding = scenery.sees("driver_apart")
    assert finding is not None and finding.evidence[1] == "wheels: ROCm 6.2"


def test_a_module_version_without_a_rocm_release_is_ignored(scenery: Scenery) -> None:
    scenery.healthy().root.kernel("6.8.0", dkms="6.10.5")
    scenery.env("sd", rocm="5.7.1")
    assert scenery.sees("driver_apart") is None


def test_a_kernel_older_than_all_tested_kernels_is_reported(scenery: Scenery) -> None:
    scenery.healthy().root.kernel("5.10.6-200.fc33.x86_64")
    scenery.env("new", rocm="6.2.4")
    finding = scenery.sees("kernel_too_old_for_env")
    assert finding is not None and "5.10.6" in finding.title and "5.15" in finding.detail
    scenery.root.kernel("6.8.0-45-generic")
    assert scenery.sees("kernel_too_old_for_env") is None


def test_the_kernels_age_does_not_matter_with_amds_driver(scenery: Scenery) -> None:
    scenery.healthy().root.kernel("5.10.6", dkms="6.8.5")
    scenery.env("new", rocm="6.2.4")
    assert scenery.sees("kernel_too_old_for_env") is None


@pytest.mark.parametrize(
    ("logged", "code"),
    [
        ("kfd kfd: amdgpu: skipped device 1002:67df, PCI rejects atomics 730<0", "pcie-atomics-missing"),
        ("kfd kfd: skipped device 1002:67df, PCI rejects atomics", "pcie-atomics-missing"),
        ("amdgpu 0000:08:00.0: amdgpu: PCIE atomic ops is not supported", "pcie-atomics-missing"),
        ("kfd kfd: amdgpu: POLARIS10 not supported in kfd", "gpu-unsupported-by-kfd"),
        ("amdgpu 0000:08:00.0: amdgpu: VRAM: 8192M", "gpu-left-out"),
    ],
)
def test_the_kernel_log_explains_why_kfd_ignored_a_card(scenery: Scenery, logged: str, code: str) -> None:
    scenery.root.kernel().cpu().card("0000:08:00.0", RX_580)
    scenery.root.put(LOG, BOOT + line(logged))
    finding = scenery.sees("gpu_left_out")
    assert finding is not None and finding.code == code
    assert (logged in finding.evidence) == (code != "gpu-left-out")
    assert finding.evidence[0].endswith(": 0000:08:00.0"), "the ID is shown once"


def test_the_log_from_an_earlier_boot_is_ignored(scenery: Scenery) -> None:
    scenery.healthy()
    before = line("amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=4, emitted seq=6")
    scenery.root.put(LOG, BOOT + before + BOOT + line("amdgpu 0000:03:00.0: amdgpu: SMU is initialized"))
    assert scenery.sees("gpu_resets") is None


def test_each_reset_is_shown_once_and_without_the_host_name(scenery: Scenery) -> None:
    scenery.healthy()
    hang = line("amdgpu 0000:03:00.0: amdgpu: ring comp_1.0.0 timeout, signaled seq=4, emitted seq=6")
    scenery.root.put(LOG, BOOT + hang * 500 + line("amdgpu 0000:03:00.0: amdgpu: GPU reset begin!"))
    finding = scenery.sees("gpu_resets")
    assert finding is not None and finding.code == "gpu-hang-reset" and len(finding.evidence) == 2
    assert not any("desk" in text or "9.123" in text for text in finding.evidence)


def test_missing_firmware_is_distinguished_from_other_failures(scenery: Scenery) -> None:
    scenery.healthy()
    failed = line("amdgpu 0000:0b:00.0: amdgpu: Fatal error during GPU init")
    file = line(
        "amdgpu 0000:0b:00.0: Direct firmware load for amdgpu/navy_flounder_sos.bin failed with error -2"
    )
    scenery.root.put(LOG, BOOT + file + failed)
    finding = scenery.sees("gpu_init_failed")
    assert finding is not None and finding.code == "firmware-missing"
    assert "amdgpu/navy_flounder_sos.bin" in finding.detail
    scenery.root.put(LOG, BOOT + failed)
    finding = scenery.sees("gpu_init_failed")
    assert finding is not None and finding.code == "gpu-not-set-up"


@pytest.mark.parametrize(
    "other",
    [
        "Bluetooth: hci0: Direct firmware load for mediatek/BT_RAM_CODE.bin failed with error -2",
        "Bluetooth: hci0: Failed to load MediaTek firmware file (-2)",
        "amdgpu 0000:03:00.0: Direct firmware load for amdgpu/isp_4_1_1.bin failed with error -2",
    ],
)
def test_missing_firmware_for_another_device_is_ignored(scenery: Scenery, other: str) -> None:
    scenery.healthy()
    failed = line("amdgpu 0000:0b:00.0: probe with driver amdgpu failed with error -22")
    scenery.root.put(LOG, BOOT + line(other) + failed)
    finding = scenery.sees("gpu_init_failed")
    assert finding is not None and finding.code == "gpu-not-set-up" and len(finding.evidence) == 1


@pytest.mark.parametrize(
    ("release", "command"),
    [
        ("ID=ubuntu\nID_LIKE=debian\n", "sudo apt install linux-firmware"),
        ("ID=debian\n", "sudo apt install firmware-amd-graphics"),
        ("ID=fedora\n", "sudo dnf upgrade '*-firmware'"),
        ('ID="opensuse-tumbleweed"\nID_LIKE="opensuse suse"\n', "sudo zypper install kernel-firmware-amdgpu"),
        ("ID=cachyos\nID_LIKE=arch\n", "sudo pacman -Syu linux-firmware"),
        ("ID=nixos\n", ""),
        ("", ""),
    ],
)
def test_firmware_is_installed_with_the_distributions_command(
    scenery: Scenery, release: str, command: str
) -> None:
    scenery.healthy().root.put("etc/os-release", release)
    file = line("amdgpu 0000:0b:00.0: Direct firmware load for amdgpu/gc_11_0_0_pfp.bin failed with error -2")
    scenery.root.put(LOG, BOOT + file + line("amdgpu 0000:0b:00.0: amdgpu: Fatal error during GPU init"))
    finding = scenery.sees("gpu_init_failed")
    assert finding is not None and len(finding.steps) == 1
    assert (finding.commands or ("",))[0] == command


def test_missing_firmware_that_is_optional_is_ignored(scenery: Scenery) -> None:
    scenery.healthy()
    text = "amdgpu 0000:03:00.0: Direct firmware load for amdgpu/isp_4_1_1.bin failed with error -2"
    scenery.root.put(LOG, BOOT + line(text))
    assert scenery.all() == []


def test_gpu_and_iommu_page_faults_are_reported(scenery: Scenery) -> None:
    scenery.healthy()
    gpu = line("amdgpu 0000:01:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:8 pasid:32770)")
    bus = line(
        "pci 0000:01:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x000f address=0xfd00 flags=0x0020]"
    )
    scenery.root.put(LOG, BOOT + gpu)
    finding = scenery.sees("gpu_page_faults")
    assert finding is not None and scenery.sees("iommu_faults") is None
    scenery.root.put(LOG, BOOT + bus.replace("01:00.0", "05:00.0"))
    assert scenery.sees("iommu_faults") is None, "another device's"
    scenery.root.put(LOG, BOOT + bus)
    assert scenery.sees("iommu_faults") is not None and scenery.sees("gpu_page_faults") is None


@pytest.mark.parametrize(
    ("kind", "is_told"), [("DMA-FQ", True), ("DMA", True), ("identity", False), ("", False)]
)
def test_iommu_translation_between_several_cards_is_reported(
    scenery: Scenery, kind: str, is_told: bool
) -> None:
    scenery.healthy().root.gpu(2, RX_7900, 110000, memory=24 * GIB)
    for bus in ("01", "02"):
        if kind:
            scenery.root.put(f"sys/bus/pci/devices/0000:{bus}:00.0/iommu_group/type", f"{kind}\n")
    assert (scenery.sees("iommu_between_gpus") is not None) == is_told


def test_iommu_translation_with_a_single_card_is_fine(scenery: Scenery) -> None:
    scenery.healthy().root.put("sys/bus/pci/devices/0000:01:00.0/iommu_group/type", "DMA-FQ\n")
    assert scenery.sees("iommu_between_gpus") is None


@pytest.mark.parametrize(
    "logged",
    [
        "amdgpu 0000:01:00.0: amdgpu: MES failed to response msg=14",
        "amdgpu 0000:01:00.0: amdgpu: MES failed to respond to msg=REMOVE_QUEUE",
        "amdgpu: Queue preemption time out",
        "kfd kfd: amdgpu: qcm fence wait loop timeout expired",
    ],
)
def test_hang_messages_from_different_kernels_are_reported(scenery: Scenery, logged: str) -> None:
    scenery.healthy().root.put(LOG, BOOT + line(logged))
    finding = scenery.sees("gpu_resets")
    assert finding is not None and finding.evidence == (logged,)


@pytest.mark.parametrize(
    ("logged", "severity", "restart"),
    [
        (
            ("ring gfx_0.0.0 timeout, signaled seq=4", "ring gfx_0.0.0 timeout, but soft recovered"),
            "info",
            False,
        ),
        (("ring gfx_0.0.0 timeout, signaled seq=4", "Ring gfx_0.0.0 reset succeeded"), "info", False),
        (("GPU reset begin!", "GPU reset(2) succeeded!"), "warning", False),
        (("GPU reset begin!", "GPU reset(1) succeeded!", "GPU reset(2) failed"), "warning", True),
        (("ring gfx_0.0.0 timeout, but soft recovered", "GPU reset begin!"), "warning", True),
    ],
)
def test_a_hang_from_which_the_gpu_recovered_needs_no_restart(
    scenery: Scenery, logged: tuple[str, ...], severity: str, restart: bool
) -> None:
    scenery.healthy()
    text = "".join(line(f"amdgpu 0000:01:00.0: amdgpu: {each}") for each in logged)
    scenery.root.put(LOG, BOOT + text)
    finding = scenery.sees("gpu_resets")
    assert finding is not None and finding.severity == severity
    assert finding.instructions[0].startswith("Restart") == restart


def test_intel_iommu_faults_are_reported(scenery: Scenery) -> None:
    scenery.healthy()
    text = "DMAR: [DMA Read NO_PASID] Request device [01:00.0] fault addr 0xfd00 [fault reason 0x06]"
    scenery.root.put(LOG, BOOT + line(text.replace("01:00.0", "05:00.0")))
    assert scenery.sees("iommu_faults") is None, "another device's"
    scenery.root.put(LOG, BOOT + line(text))
    finding = scenery.sees("iommu_faults")
    assert finding is not None and "iommu=pt" in finding.instructions[0]
    scenery.root.put("proc/cmdline", "ro quiet iommu=pt\n")
    finding = scenery.sees("iommu_faults")
    assert finding is not None and "already" in finding.instructions[0] and len(finding.steps) == 1


@pytest.mark.slow
@pytest.mark.parametrize("word", ["amdgpu ", "ring ", "amdgpu [hub", "amdgpu Failed to load ", "x kernel: "])
def test_a_kernel_log_with_long_lines_is_read_quickly(scenery: Scenery, word: str) -> None:
    scenery.healthy().root.put(LOG, BOOT + (word * 2000 + "\n") * 1000)
    start = time.process_time()
    for check in (kernel.gpu_init_failed, kernel.gpu_resets, kernel.gpu_page_faults, kernel.iommu_faults):
        assert check(scenery.context()) is None
    assert time.process_time() - start < 2


def test_the_end_of_a_long_kernel_log_is_read(scenery: Scenery) -> None:
    scenery.healthy()
    old = BOOT + line("amdgpu 0000:01:00.0: amdgpu: GPU reset begin!")
    noise = line("usb 1-1: new device " + "x" * 900) * 40_000
    new = BOOT + line("amdgpu 0000:01:00.0: amdgpu: MES failed to respond")
    scenery.root.put(LOG, old + noise + new)
    finding = scenery.sees("gpu_resets")
    assert finding is not None and len(finding.evidence) == 1 and "MES" in finding.evidence[0]


@pytest.fixture
def programs(scenery: Scenery, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Replace `dmesg` and `journalctl`; return a list that records which of them ran."""

    def set_(**said: str) -> list[str]:
        started: list[str] = []

        def run(command: tuple[str, ...], **_more: object) -> process.Completed:
            started.append(command[0])
            text = said.get(command[0])
            return process.Completed(code=1 if text is None else 0, stdout=(text or "").encode())

        monkeypatch.setattr(process, "run", run)
        monkeypatch.setattr(
            kernel, "program_output", lambda path, ask, _most: None if "kern" in path else ask()
        )
        monkeypatch.setattr(kernel, "examined_elsewhere", lambda: False)
        monkeypatch.setattr(kernel, "machine_path", lambda _path: scenery.folder / "none")
        scenery.elsewhere = False
        return started

    return set_


def test_all_checks_of_a_run_share_one_read_of_the_kernel_log(
    scenery: Scenery, programs: Callable[..., list[str]]
) -> None:
    scenery.healthy()
    started = programs(dmesg="[    1.0] amdgpu 0000:01:00.0: amdgpu: GPU reset begin!\n")
    assert "gpu-hang-reset" in {finding.code for finding in scenery.all()}
    assert started == ["dmesg"]


def test_the_journal_replaces_a_restricted_dmesg(
    scenery: Scenery, programs: Callable[..., list[str]]
) -> None:
    scenery.healthy()
    started = programs(journalctl="Nov 01 10:00:09 desk kernel: amdgpu 0000:01:00.0: GPU reset begin!\n")
    finding = scenery.sees("gpu_resets")
    assert finding is not None and finding.evidence == ("amdgpu 0000:01:00.0: GPU reset begin!",)
    assert started == ["dmesg", "journalctl"]


def test_an_unreadable_kernel_log_is_a_finding(scenery: Scenery, programs: Callable[..., list[str]]) -> None:
    scenery.healthy()
    programs()
    finding = scenery.sees("gpu_init_failed")
    assert finding is not None and finding.code == "kernel-log-unreadable" and finding.severity == "info"
    assert "firmware" in finding.detail and "hung" in finding.detail


def test_a_snapshot_without_a_kernel_log_has_no_finding(scenery: Scenery) -> None:
    scenery.healthy()
    (scenery.root.path / LOG).unlink()
    assert scenery.all() == []
