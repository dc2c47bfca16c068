"""What to call a GPU in a title."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocenv.host import Gpu

_SEVERAL = " / "  # stands between the products that one PCI id is sold as


def short_name(gpu: Gpu) -> str:
    """Return its product's name, or its target where its PCI id is that of several products."""
    first, several, _ = gpu.name.partition(_SEVERAL)
    return (gpu.target if several else "") or first or gpu.target or gpu.pci_id
