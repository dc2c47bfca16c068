"""Read the nodes that the kernel's compute driver (KFD) lists in sysfs.

Source: torvalds/linux:drivers/gpu/drm/amd/amdkfd/kfd_topology.c
"""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rocenv.host.pci import AMD
from rocenv.system.machine import list_folder, read_attribute

if TYPE_CHECKING:
    from collections.abc import Mapping

NODES = "/sys/class/kfd/kfd/topology/nodes"
_FRAME_BUFFER = (1, 2)  # heap types: accessible to the CPU or not
_ABSENT = (errno.ENOENT, errno.ENOTDIR)
_NUMBER = re.compile(r"[0-9]{1,6}")
_LINE = re.compile(r"^(\w+) ([0-9]{1,20})$", re.MULTILINE)  # "simd_count 192"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A GPU or GPU partition, as KFD lists it.

    The properties come from text files that the kernel provides; older kernels provide fewer properties.
    """

    number: int
    unreadable: bool = False  # true for GPUs that are hidden from a container
    properties: Mapping[str, int] = field(default_factory=dict)
    gpu_id: int | None = None  # 0 if the driver could not initialize it
    memory_bytes: int = 0

    @property
    def compute_units(self) -> int:
        """The number of compute units, or 0 if the node is uninitialized or unreadable."""
        return self.value("simd_count") // max(1, self.value("simd_per_cu"))

    @property
    def device(self) -> str:
        """The PCI device ID (four hexadecimal digits), or "" if unknown."""
        return f"{self.value('device_id'):04x}" if self.value("device_id") else ""

    def addresses(self) -> tuple[str, str]:
        """The possible PCI addresses: its own and, if it is a partition, its board's.

        The lowest three bits of the location are the partition number on partitioned boards, and the PCI
        function on all others.
        """
        bus, slot = self.value("location_id") >> 8 & 0xFF, self.value("location_id") >> 3 & 0x1F
        board = f"{self.value('domain'):04x}:{bus:02x}:{slot:02x}"
        return f"{board}.{self.value('location_id') & 7}", f"{board}.0"

    def value(self, name: str) -> int:
        """Return a property, or 0 if it is missing; the kernel also uses 0 if it does not apply."""
        return self.properties.get(name, 0)


def gpu_nodes() -> tuple[Node, ...]:
    """List the GPU nodes by number, which is also HIP's order."""
    numbers = sorted(int(name) for name in list_folder(NODES) if _NUMBER.fullmatch(name))
    return tuple(filter(_is_gpu, map(_node, numbers)))


def present() -> bool:
    """Whether the kernel has a KFD topology."""
    return bool(list_folder(NODES))


def _is_gpu(node: Node) -> bool:
    signs = (node.value("simd_count"), node.value("gfx_target_version"), node.gpu_id)
    return node.unreadable or any(signs) or node.value("vendor_id") == AMD


def _node(number: int) -> Node:
    folder = f"{NODES}/{number}"
    text, error = read_attribute(f"{folder}/properties")
    if error:
        return Node(number=number, unreadable=error not in _ABSENT)
    gpu_id = read_attribute(f"{folder}/gpu_id")[0].strip()
    memory = 0
    for bank in list_folder(f"{folder}/mem_banks"):
        values = _numbers(read_attribute(f"{folder}/mem_banks/{bank}/properties")[0])
        if values.get("heap_type") in _FRAME_BUFFER:
            memory += values.get("size_in_bytes", 0)
    return Node(
        number=number,
        properties=_numbers(text),
        gpu_id=int(gpu_id) if re.fullmatch(r"[0-9]{1,10}", gpu_id) else None,
        memory_bytes=memory,
    )


def _numbers(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in _LINE.findall(text)}
