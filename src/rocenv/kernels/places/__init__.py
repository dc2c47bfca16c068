"""The places that a kernel can be put, each a module of the same shape: `put` and `undo`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rocenv.home import Home
    from rocenv.kernels.placed import Placed, PlaceName
    from rocenv.kernels.places.order import Order

PLACES: Mapping[PlaceName, str] = {
    "cache": "rocenv.kernels.places.app_cache",
    "overlay": "rocenv.kernels.places.overlay",
    "in-place": "rocenv.kernels.places.in_place",
}


def put(order: Order) -> Placed:
    """Put a kernel where it was ordered, and note what lies there from now on.

    Raises:
        RocenvError: The place cannot be used; says which can.
        PrefixError: It cannot be written to.
    """
    function: Callable[[Order], Placed] = importlib.import_module(PLACES[order.place]).put
    return function(order)


def undo(placed: Placed, home: Home) -> str:
    """Take a kernel away again, and put back what was there; return what was done in one sentence."""
    function: Callable[[Placed, Home], str] = importlib.import_module(PLACES[placed.place]).undo
    return function(placed, home)
