"""The places that a kernel can be put, each a module of the same shape: `check`, `put` and `undo`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rocenv.compilers import Toolchain
    from rocenv.home import Home
    from rocenv.kernels.placed import Placed, PlaceName
    from rocenv.kernels.places.order import Order

PLACES: Mapping[PlaceName, str] = {
    "cache": "rocenv.kernels.places.app_cache",
    "overlay": "rocenv.kernels.places.overlay",
    "in-place": "rocenv.kernels.places.in_place",
}


def check(order: Order) -> None:
    """Raise RocenvError where a place cannot be used, which says what can: before a compiler has worked."""
    function: Callable[[Order], None] = importlib.import_module(PLACES[order.place]).check
    function(order)


def put(order: Order, content: bytes, toolchain: Toolchain) -> Placed:
    """Put a kernel where it was ordered, and note what lies there from now on.

    Args:
        order: The place, which has been checked.
        content: The kernel.
        toolchain: What compiled it.

    Raises:
        RocenvError: The place cannot be used; says which can.
        PrefixError: It cannot be written to.
    """
    function: Callable[[Order, bytes, Toolchain], Placed] = importlib.import_module(PLACES[order.place]).put
    return function(order, content, toolchain)


def undo(placed: Placed, home: Home) -> str:
    """Take a kernel away again, and put back what was there; return what was done in one sentence."""
    function: Callable[[Placed, Home], str] = importlib.import_module(PLACES[placed.place]).undo
    return function(placed, home)
