"""GPU checks on Linux: drivers and permissions."""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rocenv.checks import devices
from rocenv.findings import Observation
from tests.checks.scenery import PHOENIX, RAPHAEL, RX_6800, RX_7900, RX_9070, Scenery
from tests.host.roots import GIB, NODES

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_healthy_machine_has_no_findings(scenery: Scenery) -> None:
    scenery.healthy()
    assert scenery.all() == []


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Fake the result of opening /dev/kfd, because root can open anything."""

    def set_(error: int) -> None:
        monkeypatch.setattr(devices, "open_errno", lambda _path: error)

    return set_


@pytest.fixture
def owned(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Set the devices' owner and this process's groups."""

    def set_(owner: str, groups: str = "1000 27") -> None:
        known = {"owner": owner, "groups": groups}
        monkeypatch.setattr(
            devices, "tried", lambda what, _about, _attempt, unknown: known.get(what, unknown)
        )

    return set_


def test_missing_groups_are_listed(
    scenery: Scenery, answers: Callable[[int], None], owned: Callable[..., None]
) -> None:
    scenery.healthy().root.put("etc/group", "root:x:0:\nrender:x:993:other\n")
    answers(errno.EACCES)
    owned("crw-rw---- 993")
    finding = scenery.sees("kfd_closed")
    assert finding is not None and finding.code == "kfd-permission-denied" and finding.severity == "error"
    assert finding.commands == ("sudo usermod -aG render $USER",)
    assert finding.evidence[0] == "crw-rw---- render /dev/kfd"


def test_the_finding_tells_a_new_group_member_to_log_in_again(
    scenery: Scenery, answers: Callable[[int], None], owned: Callable[..., None]
) -> None:
    scenery.healthy().root.put("etc/group", "render:x:993:other,user\n")
    answers(errno.EACCES)
    owned("crw-rw---- 993")
    finding = scenery.sees("kfd_closed")
    assert finding is not None and not finding.commands
    assert "Log out" in finding.instructions[0]


def test_a_container_needs_group_add_instead_of_usermod(
    scenery: Scenery, answers: Callable[[int], None], owned: Callable[..., None]
) -> None:
    scenery.healthy().root.put(".dockerenv", "")
    answers(errno.EACCES)
    owned("crw-rw---- 993")
    finding = scenery.sees("kfd_closed")
    assert finding is not None and "--group-add" in finding.instructions[0]
    assert not any("usermod" in command for command in finding.commands)


def test_a_device_that_only_root_can_open_needs_a_udev_rule(
    scenery: Scenery, answers: Callable[[int], None], owned: Callable[..., None]
) -> None:
    scenery.healthy().root.put("etc/group", "root:x:0:\n")
    answers(errno.EACCES)
    owned("crw------- 0")
    finding = scenery.sees("kfd_closed")
    assert finding is not None and any("udev" in command for command in finding.commands)


def test_a_command_creates_a_device_group_that_has_no_name(
    scenery: Scenery, answers: Callable[[int], None], owned: Callable[..., None]
) -> None:
    scenery.healthy().root.put("etc/group", "root:x:0:\n")
    answers(errno.EACCES)
    owned("crw-rw---- 992")
    finding = scenery.sees("kfd_closed")
    assert finding is not None
    assert finding.commands == ("sudo groupadd -g 992 gpu992", "sudo usermod -aG gpu992 $USER")
    scenery.root.put(".dockerenv", "")
    finding = scenery.sees("kfd_closed")
    assert finding is not None and "--group-add 992" in finding.instructions[0]


def test_joining_the_group_root_is_never_suggested(
    scenery: Scenery, answers: Callable[[int], None], owned: Callable[..., None]
) -> None:
    scenery.healthy().root.put("etc/group", "root:x:0:\n")
    answers(errno.EACCES)
    owned("crw------- 0")
    finding = scenery.sees("kfd_closed")
    assert finding is not None and not any("usermod" in command for command in finding.commands)


def test_a_snapshot_finding_suggests_the_usual_groups(
    scenery: Scenery, answers: Callable[[int], None]
) -> None:
    scenery.healthy()
    answers(errno.EACCES)
    finding = scenery.sees("kfd_closed")
    assert finding is not None and finding.commands == ("sudo usermod -aG render,video $USER",)


def test_an_inaccessible_render_node_is_reported(
    scenery: Scenery, monkeypatch: pytest.MonkeyPatch, owned: Callable[..., None]
) -> None:
    scenery.healthy().root.put("etc/group", "video:x:44:\n")
    monkeypatch.setattr(devices, "access_errno", lambda path: errno.EACCES if "render" in path else 0)
    owned("crw-rw---- 44")
    finding = scenery.sees("render_node_closed")
    assert finding is not None and "/dev/dri/renderD128" in finding.detail
    assert finding.commands == ("sudo usermod -aG video $USER",)


@pytest.mark.parametrize("error", [errno.EINVAL, errno.ENOMEM, errno.ENODEV])
def test_other_kfd_errors_are_not_permission_problems(
    scenery: Scenery, answers: Callable[[int], None], error: int
) -> None:
    scenery.healthy()
    answers(error)
    finding = scenery.sees("kfd_refuses")
    assert finding is not None and finding.code == "kernel-userspace-mismatch"
    assert errno.errorcode[error] in finding.title
    assert scenery.sees("kfd_closed") is None


def test_missing_device_files_are_reported_inside_and_outside_containers(scenery: Scenery) -> None:
    scenery.healthy()
    (scenery.root.path / "dev/kfd").unlink()
    finding = scenery.sees("container_without_devices")
    assert finding is not None and finding.code == "gpu-devices-missing", "this is not a container"
    assert any("modprobe" in command for command in finding.commands)
    scenery.root.put(".dockerenv", "")
    finding = scenery.sees("container_without_devices")
    assert finding is not None and finding.code == "container-device-not-passed"
    assert len(finding.commands) == 1


POD = "12 11 0:50 / / rw - overlay overlay rw,lowerdir=/var/lib/containerd/io.containerd.snapshotter.v1/1\n"
HOSTNAME = "40 12 8:1 /var/lib/docker/containers/0a1b/hostname /etc/hostname rw - ext4 /dev/sda1 rw\n"
LIVE_MEDIUM = "12 11 0:50 / / rw - overlay /cow rw,lowerdir=/filesystem.squashfs,upperdir=/cow/upper\n"
BESIDE_DOCKER = (
    "21 1 8:2 / / rw - ext4 /dev/sda2 rw\n"
    "90 21 0:60 / /var/lib/docker/overlay2/0a/merged rw - overlay overlay rw,lowerdir=/var/lib/docker/l/A\n"
)


@pytest.mark.parametrize(
    ("files", "environ", "is_container"),
    [
        ({"proc/1/cgroup": "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-0a.scope\n"}, {}, True),
        ({"proc/1/cgroup": "12:cpu:/docker/0a1b2c\n"}, {}, True),
        ({"proc/1/cgroup": "0::/lxc.payload.box/init.scope\n"}, {}, True),
        ({"proc/1/cgroup": "0::/\n", "proc/self/mountinfo": POD}, {}, True),
        ({"proc/self/mountinfo": HOSTNAME}, {}, True),
        ({}, {"APPTAINER_CONTAINER": "/srv/rocm.sif"}, True),
        ({}, {"SINGULARITY_CONTAINER": "/srv/rocm.sif"}, True),
        ({"proc/1/cgroup": "0::/init.scope\n", "proc/self/mountinfo": BESIDE_DOCKER}, {}, False),
        ({"proc/1/cgroup": "0::/system.slice/containerd.service\n"}, {}, False),
        ({"proc/self/mountinfo": LIVE_MEDIUM}, {}, False),
    ],
)
def test_containers_and_hosts_are_distinguished(
    scenery: Scenery, files: dict[str, str], environ: dict[str, str], is_container: bool
) -> None:
    scenery.healthy().environ.update(environ)
    for path, text in files.items():
        scenery.root.put(path, text)
    (scenery.root.path / "dev/kfd").unlink()
    finding = scenery.sees("container_without_devices")
    assert finding is not None
    assert (finding.code == "container-device-not-passed") == is_container


def test_a_container_without_render_nodes_is_reported(scenery: Scenery) -> None:
    scenery.healthy()
    (scenery.root.path / "dev/dri/renderD128").unlink()
    finding = scenery.sees("container_without_devices")
    assert finding is not None and "renderD128" in finding.evidence[0]


def test_a_container_with_only_one_of_the_hosts_gpus_is_fine(scenery: Scenery) -> None:
    scenery.healthy().root.gpu(2, RX_7900, 110000)
    (scenery.root.path / "dev/dri/renderD129").unlink()
    assert scenery.sees("container_without_devices") is None


def test_a_machine_without_an_amd_gpu_is_reported(scenery: Scenery, monkeypatch: pytest.MonkeyPatch) -> None:
    scenery.root.kernel().card("0000:01:00.0", 0x2684, vendor=0x10DE, driver="nvidia")
    finding = scenery.sees("no_gpu")
    assert finding is not None and finding.severity == "warning" and "NVIDIA" in finding.evidence[0]
    monkeypatch.setenv("ROCENV_TARGET", "gfx1100")
    assert scenery.sees("no_gpu") is None


def test_a_kernel_that_is_too_old_for_a_card_is_reported(scenery: Scenery) -> None:
    scenery.root.kernel("6.8.0-45-generic").cpu().card("0000:03:00.0", RX_9070, driver="")
    finding = scenery.sees("gpu_without_driver")
    assert finding is not None and finding.code == "kernel-too-old"
    assert "6.12" in finding.detail and "6.8.0-45-generic" in finding.detail
    assert not any("apt" in command for command in finding.commands), "the distribution is unknown"
    scenery.root.put("etc/os-release", 'NAME="Fedora Linux"\nID=fedora\nVERSION_ID=40\n')
    finding = scenery.sees("gpu_without_driver")
    assert finding is not None and finding.commands == ("sudo dnf upgrade --refresh",)


@pytest.mark.parametrize("driver", ["radeon", "amdgpu", ""])
def test_a_card_that_rocm_never_supported_is_not_a_driver_problem(scenery: Scenery, driver: str) -> None:
    scenery.root.kernel().cpu().card("0000:03:00.0", 0x6818, driver=driver)
    finding = scenery.sees("gpu_never_supported")
    assert finding is not None and "GCN 1" in finding.title and "Vulkan" in " ".join(finding.instructions)
    assert finding.commands == ("rocenv explain 1002:6818", "rocenv explain llama.cpp")
    for other in ("gpu_without_driver", "gpu_left_out", "kfd_missing"):
        assert scenery.sees(other) is None
    scenery.healthy()
    assert scenery.sees("gpu_never_supported") is None


def test_a_card_without_a_driver_is_reported(scenery: Scenery) -> None:
    scenery.root.kernel("6.14.0").cpu().card("0000:03:00.0", RX_9070, driver="")
    finding = scenery.sees("gpu_without_driver")
    assert finding is not None and finding.code == "driver-not-bound"
    assert not any("modprobe" in command for command in finding.commands), "it is loaded"


def test_a_card_reserved_for_a_virtual_machine_is_fine_if_another_card_works(scenery: Scenery) -> None:
    scenery.root.kernel().cpu().card("0000:08:00.0", RX_6800, driver="vfio-pci")
    finding = scenery.sees("gpu_without_driver")
    assert finding is not None and finding.severity == "warning" and "virtual machine" in finding.title
    scenery.healthy()
    assert scenery.sees("gpu_without_driver") is None


def test_a_kernel_without_kfd_is_reported(scenery: Scenery) -> None:
    scenery.root.kernel().card("0000:03:00.0", RX_7900)
    finding = scenery.sees("kfd_missing")
    assert finding is not None and finding.code == "kfd-missing"
    scenery.root.put("run/.containerenv", "")
    finding = scenery.sees("kfd_missing")
    assert finding is not None and finding.code == "container-device-not-passed"


def test_a_card_that_kfd_failed_to_set_up_is_reported(scenery: Scenery) -> None:
    scenery.healthy()
    scenery.root.put(f"{NODES}/1/gpu_id", "0\n")
    finding = scenery.sees("gpu_not_set_up")
    assert finding is not None and finding.severity == "error"


def igpu_and_card(scenery: Scenery) -> None:
    scenery.root.kernel("6.14.0").cpu()
    scenery.root.gpu(1, RAPHAEL, 100306, units=2, memory=GIB // 2, gtt=16 * GIB, bus=0x10)
    scenery.root.gpu(2, RX_7900, 110000, units=96, memory=24 * GIB, bus=3)


def test_an_integrated_gpu_that_hip_lists_before_the_card_is_reported(scenery: Scenery) -> None:
    igpu_and_card(scenery)
    finding = scenery.sees("igpu_first")
    assert finding is not None and finding.code == "igpu-selected-instead-of-dgpu"
    assert finding.commands == ("export HIP_VISIBLE_DEVICES=1",)


@pytest.mark.parametrize(
    "environ",
    [
        {"HIP_VISIBLE_DEVICES": "1"},
        {"HIP_VISIBLE_DEVICES": "1,0"},
        {"ROCR_VISIBLE_DEVICES": "1"},
        {"ROCR_VISIBLE_DEVICES": "1,0", "HIP_VISIBLE_DEVICES": "0"},
        {"CUDA_VISIBLE_DEVICES": "1"},
        {"ROCR_VISIBLE_DEVICES": "GPU-5a1b2c3d4e5f6071"},
    ],
)
def test_a_variable_that_puts_the_card_first_prevents_the_finding(
    scenery: Scenery, environ: dict[str, str]
) -> None:
    igpu_and_card(scenery)
    scenery.environ.update(environ)
    assert scenery.sees("igpu_first") is None


@pytest.mark.parametrize(
    ("environ", "command"),
    [
        ({"HIP_VISIBLE_DEVICES": "1"}, "export HIP_VISIBLE_DEVICES=0,2"),
        ({"HIP_VISIBLE_DEVICES": "1,0"}, "export HIP_VISIBLE_DEVICES=0,2"),
        ({"ROCR_VISIBLE_DEVICES": "1"}, "export ROCR_VISIBLE_DEVICES=0,2"),
        ({"ROCR_VISIBLE_DEVICES": "1,2", "HIP_VISIBLE_DEVICES": "0"}, "export ROCR_VISIBLE_DEVICES=0,2"),
    ],
)
def test_a_variable_that_selects_the_integrated_gpu_is_named_as_the_cause(
    scenery: Scenery, environ: dict[str, str], command: str
) -> None:
    two_igpus_and_cards(scenery)
    scenery.environ.update(environ)
    finding = scenery.sees("igpu_first")
    assert finding is not None and finding.commands[0] == command
    name, value = next(iter(environ.items()))
    assert finding.title.startswith(f"{name}={value} makes programs use the integrated GPU")


def test_a_variable_that_selects_an_integrated_gpu_listed_first_is_the_cause(scenery: Scenery) -> None:
    igpu_and_card(scenery)
    scenery.environ["HIP_VISIBLE_DEVICES"] = "0"
    finding = scenery.sees("igpu_first")
    assert finding is not None and finding.title.startswith("HIP_VISIBLE_DEVICES=0 ")


@pytest.mark.parametrize("environ", [{"HIP_VISIBLE_DEVICES": "0,1"}, {"HIP_VISIBLE_DEVICES": ""}])
def test_a_variable_that_keeps_the_integrated_gpu_first_is_reported(
    scenery: Scenery, environ: dict[str, str]
) -> None:
    igpu_and_card(scenery)
    scenery.environ.update(environ)
    assert scenery.sees("igpu_first") is not None


def test_an_integrated_gpu_alone_or_after_the_card_is_fine(scenery: Scenery) -> None:
    scenery.root.kernel("6.14.0").cpu().gpu(1, PHOENIX, 110003, memory=8 * GIB)
    assert scenery.sees("igpu_first") is None
    scenery.healthy().root.gpu(2, RAPHAEL, 100306, units=2, bus=0x10)
    assert scenery.sees("igpu_first") is None


@pytest.mark.parametrize("value", ["-1", "4", "7,0"])
def test_a_variable_that_hides_every_gpu_is_reported(scenery: Scenery, value: str) -> None:
    scenery.healthy()
    scenery.environ["HIP_VISIBLE_DEVICES"] = value
    finding = scenery.sees("gpus_hidden")
    assert finding is not None and finding.commands[0] == "unset HIP_VISIBLE_DEVICES"
    scenery.environ["HIP_VISIBLE_DEVICES"] = "0,4"
    assert scenery.sees("gpus_hidden") is None


def two_igpus_and_cards(scenery: Scenery) -> None:
    """Add GPUs in HIP's order: 0 is a card, 1 an integrated GPU, 2 another card."""
    scenery.root.kernel("6.14.0").cpu()
    scenery.root.gpu(1, RX_6800, 100300, memory=16 * GIB, bus=5)
    scenery.root.gpu(2, RAPHAEL, 100306, units=2, memory=GIB // 2, gtt=16 * GIB, bus=0x10)
    scenery.root.gpu(3, RX_7900, 110000, units=96, memory=24 * GIB, bus=3)


def test_hip_numbers_the_gpus_that_rocr_leaves_visible(scenery: Scenery) -> None:
    two_igpus_and_cards(scenery)
    scenery.environ["ROCR_VISIBLE_DEVICES"] = "1,2"
    assert scenery.sees("igpu_first") is not None
    scenery.environ["HIP_VISIBLE_DEVICES"] = "1"
    assert scenery.sees("igpu_first") is None and scenery.sees("gpus_hidden") is None


@pytest.mark.parametrize(
    ("environ", "variable"),
    [
        ({"ROCR_VISIBLE_DEVICES": ""}, "ROCR_VISIBLE_DEVICES"),
        ({"ROCR_VISIBLE_DEVICES": "none"}, "ROCR_VISIBLE_DEVICES"),
        ({"ROCR_VISIBLE_DEVICES": "0", "HIP_VISIBLE_DEVICES": "1"}, "HIP_VISIBLE_DEVICES"),
        ({"ROCR_VISIBLE_DEVICES": "7", "HIP_VISIBLE_DEVICES": "0"}, "ROCR_VISIBLE_DEVICES"),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, "CUDA_VISIBLE_DEVICES"),
        ({"HIP_VISIBLE_DEVICES": "1-2"}, "HIP_VISIBLE_DEVICES"),
        ({"HIP_VISIBLE_DEVICES": "1--"}, "HIP_VISIBLE_DEVICES"),
        ({"HIP_VISIBLE_DEVICES": "\u00b2"}, "HIP_VISIBLE_DEVICES"),
    ],
)
def test_the_finding_names_the_variable_that_hides_every_gpu(
    scenery: Scenery, environ: dict[str, str], variable: str
) -> None:
    scenery.healthy().environ.update(environ)
    finding = scenery.sees("gpus_hidden")
    assert finding is not None and finding.commands[0] == f"unset {variable}"
    assert finding.title.startswith(variable)
    assert scenery.sees("igpu_first") is None


@pytest.mark.parametrize("value", ["0,none", "GPU-5a1b2c3d4e5f6071", "0,GPU-5a1b2c3d4e5f6071"])
def test_a_device_list_with_an_invalid_entry_or_unique_ids_is_accepted(scenery: Scenery, value: str) -> None:
    scenery.healthy().environ["ROCR_VISIBLE_DEVICES"] = value
    assert scenery.sees("gpus_hidden") is None


def test_a_title_shows_the_target_of_a_card_with_several_product_names(scenery: Scenery) -> None:
    igpu_and_card(scenery)
    context = scenery.context()
    card = context.host.gpus[1]
    several = replace(card, name="AMD Radeon RX 7900 XT / AMD Radeon RX 7900 XTX / AMD Radeon RX 7900M")
    host = replace(context.host, gpus=(context.host.gpus[0], several))
    seen = devices.igpu_first(replace(context, host=host))
    assert isinstance(seen, Observation) and seen.values["card"] == card.target
