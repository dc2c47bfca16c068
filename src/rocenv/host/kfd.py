"""The nodes of the kernel's compute driver (KFD), as its topology in sysfs lists them.

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
_FRAME_BUFFER = (1, 2)  # heap types: with and without a way in for the CPU
_ABSENT = (errno.ENOENT, errno.ENOTDIR)
_NUMBER = re.compile(r"[0-9]{1,6}")
_LINE = re.compile(r"^(\w+) ([0-9]{1,20})$", re.MULTILINE)  # "simd_count 192"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A GPU, or a partition of one, as KFD lists it.

    The properties are those of the kernel's text: what a kernel does not have is not there.
    """

    number: int
    unreadable: bool = False  # as the kernel makes the GPUs that a container was not given
    properties: Mapping[str, int] = field(default_factory=dict)
    gpu_id: int | None = None  # 0 where the driver gave up on it
    memory_bytes: int = 0

    @property
    def compute_units(self) -> int:
        """How many compute units it has; 0 = it was not set up, or cannot be read."""
        return self.value("simd_count") // max(1, self.value("simd_per_cu"))

    @property
    def device(self) -> str:
        """The PCI device id, four hexadecimal digits; "" = not said."""
        return f"{self.value('device_id'):04x}" if self.value("device_id") else ""

    def addresses(self) -> tuple[str, str]:
        """Where it may be on the PCI bus: by its location, and where a partition's board is.

        The lowest three bits of the location are the number of the partition on boards that are divided, and
        the PCI function on all others.
        """
        bus, slot = self.value("location_id") >> 8 & 0xFF, self.value("location_id") >> 3 & 0x1F
        board = f"{self.value('domain'):04x}:{bus:02x}:{slot:02x}"
        return f"{board}.{self.value('location_id') & 7}", f"{board}.0"

    def value(self, name: str) -> int:
        """A property, 0 where it is not there, as the kernel writes for what does not apply."""
        return self.properties.get(name, 0)


def gpu_nodes() -> tuple[Node, ...]:
    """The nodes that are GPUs, in the order of their numbers, which is HIP's."""
    numbers = sorted(int(name) for name in list_folder(NODES) if _NUMBER.fullmatch(name))
    return tuple(filter(_is_gpu, map(_node, numbers)))


def present() -> bool:
    """Whether the kernel has a KFD topology at all."""
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
