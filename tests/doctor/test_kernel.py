"""Checks of the kernel and its driver, with envs, and by the log."""

from __future__ import annotations

import pytest

from tests.doctor.scenery import RX_7900, Scenery
from tests.host.roots import GIB

RX_580 = 0x67DF
LOG = "var/log/kern.log"
BOOT = "May  1 10:00:00 desk kernel: [    0.000000] Linux version 6.14.0-27-generic (x@y)\n"


def line(text: str) -> str:
    return f"May  1 10:00:09 desk kernel: [    9.123456] {text}\n"


def test_a_driver_far_from_the_rocm_of_an_env(scenery: Scenery) -> None:
    scenery.healthy().root.kernel("5.15.0-91-generic", dkms="6.2.4.23.20")
    scenery.env("sd", rocm="6.4.3")
    scenery.env("old", rocm="5.6.1")
    finding = scenery.sees("driver_apart")
    assert finding is not None and finding.code == "kernel-userspace-mismatch"
    assert "5.7" in finding.title and "sd" in finding.title
    assert finding.evidence == ("/sys/module/amdgpu/version: 6.2.4.23.20", "sd: ROCm 6.4")


def test_the_rocm_inside_torch_counts_too(scenery: Scenery) -> None:
    scenery.healthy().root.kernel("5.15.0-91-generic", dkms="5.16.9.22.20")
    scenery.env("wheels", torch="2.6.0+rocm6.2.4")
    finding = scenery.sees("driver_apart")
    assert finding is not None and finding.evidence[1] == "wheels: ROCm 6.2"


def test_a_module_version_that_does_not_say_its_rocm_is_no_skew(scenery: Scenery) -> None:
    scenery.healthy().root.kernel("6.8.0", dkms="6.10.5")
    scenery.env("sd", rocm="5.7.1")
    assert scenery.sees("driver_apart") is None


def test_a_kernel_older_than_all_that_was_tested(scenery: Scenery) -> None:
    scenery.healthy().root.kernel("5.10.6-200.fc33.x86_64")
    scenery.env("new", rocm="6.2.4")
    finding = scenery.sees("kernel_too_old_for_env")
    assert finding is not None and "5.10.6" in finding.title and "5.15" in finding.detail
    scenery.root.kernel("6.8.0-45-generic")
    assert scenery.sees("kernel_too_old_for_env") is None


def test_amds_own_driver_hides_the_age_of_the_kernel(scenery: Scenery) -> None:
    scenery.healthy().root.kernel("5.10.6", dkms="6.8.5")
    scenery.env("new", rocm="6.2.4")
    assert scenery.sees("kernel_too_old_for_env") is None


@pytest.mark.parametrize(
    ("logged", "code"),
    [
        ("kfd kfd: amdgpu: skipped device 1002:67df, PCI rejects atomics 730<0", "pcie-atomics-missing"),
        ("kfd kfd: skipped device 1002:67df, PCI rejects atomics", "pcie-atomics-missing"),
        ("kfd kfd: amdgpu: POLARIS10 not supported in kfd", "gpu-unsupported-by-kfd"),
        ("amdgpu 0000:08:00.0: amdgpu: VRAM: 8192M", "gpu-left-out"),
    ],
)
def test_why_a_card_was_left_out_is_read_in_the_log(scenery: Scenery, logged: str, code: str) -> None:
    scenery.root.kernel().cpu().card("0000:08:00.0", RX_580)
    scenery.root.put(LOG, BOOT + line(logged))
    finding = scenery.sees("gpu_left_out")
    assert finding is not None and finding.code == code
    assert (logged in finding.evidence) == (code != "gpu-left-out")


def test_what_an_earlier_start_logged_is_over(scenery: Scenery) -> None:
    scenery.healthy()
    before = line("amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=4, emitted seq=6")
    scenery.root.put(LOG, BOOT + before + BOOT + line("amdgpu 0000:03:00.0: amdgpu: SMU is initialized"))
    assert scenery.sees("gpu_resets") is None


def test_resets_are_told_once_each_and_without_the_name_of_the_machine(scenery: Scenery) -> None:
    scenery.healthy()
    hang = line("amdgpu 0000:03:00.0: amdgpu: ring comp_1.0.0 timeout, signaled seq=4, emitted seq=6")
    scenery.root.put(LOG, BOOT + hang * 500 + line("amdgpu 0000:03:00.0: amdgpu: GPU reset begin!"))
    finding = scenery.sees("gpu_resets")
    assert finding is not None and finding.code == "gpu-hang-reset" and len(finding.evidence) == 2
    assert not any("desk" in text or "9.123" in text for text in finding.evidence)


def test_missing_firmware_is_told_from_another_failure(scenery: Scenery) -> None:
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


def test_firmware_that_the_driver_can_do_without_is_no_trouble(scenery: Scenery) -> None:
    scenery.healthy()
    text = "amdgpu 0000:03:00.0: Direct firmware load for amdgpu/isp_4_1_1.bin failed with error -2"
    scenery.root.put(LOG, BOOT + line(text))
    assert scenery.all() == []


def test_page_faults_of_the_gpu_and_of_the_iommu(scenery: Scenery) -> None:
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
def test_the_iommu_between_several_cards(scenery: Scenery, kind: str, is_told: bool) -> None:
    scenery.healthy().root.gpu(2, RX_7900, 110000, memory=24 * GIB)
    for bus in ("01", "02"):
        if kind:
            scenery.root.put(f"sys/bus/pci/devices/0000:{bus}:00.0/iommu_group/type", f"{kind}\n")
    assert (scenery.sees("iommu_between_gpus") is not None) == is_told


def test_the_iommu_of_a_single_card_is_no_trouble(scenery: Scenery) -> None:
    scenery.healthy().root.put("sys/bus/pci/devices/0000:01:00.0/iommu_group/type", "DMA-FQ\n")
    assert scenery.sees("iommu_between_gpus") is None


def test_without_a_log_nothing_is_said(scenery: Scenery) -> None:
    scenery.healthy()
    (scenery.root.path / LOG).unlink()
    assert scenery.all() == []
