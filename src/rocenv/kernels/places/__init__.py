"""The places that a kernel can be put, each a module of the same shape: `put` and `undo`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rocenv.home import Home
    from rocenv.kernels.placed import Placed
    from rocenv.kernels.places.order import Order

PlaceName = Literal["cache", "overlay", "in-place"]

# name -> module, and what it is in a few words.
PLACES: Mapping[PlaceName, tuple[str, str]] = {
    "cache": ("rocenv.kernels.places.app_cache", "the cache of kernels that the app compiled itself"),
    "overlay": (
        "rocenv.kernels.places.overlay",
        "a copy of the installation made of links, with the kernel in it",
    ),
    "in-place": ("rocenv.kernels.places.in_place", "the installation itself; the original is kept"),
}


def put(order: Order) -> Placed:
    """Put a kernel where it was ordered.

    Raises:
        RocenvError: The place cannot be used; says which can.
        PrefixError: It cannot be written to.
    """
    function: Callable[[Order], Placed] = importlib.import_module(PLACES[order.place][0]).put
    return function(order)


def undo(placed: Placed, home: Home) -> str:
    """Take a kernel away again, and put back what was there; return what was done in one sentence."""
    name: PlaceName = placed.place if placed.place in PLACES else "cache"  # type: ignore[assignment]
    function: Callable[[Placed, Home], str] = importlib.import_module(PLACES[name][0]).undo
    return function(placed, home)
