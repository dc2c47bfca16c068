"""Reuse the logins for package servers from this machine's apt, uv and pip configuration."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from rocenv.core.errors import DataError
from rocenv.sources.apt.mirrors import all_entries
from rocenv.sources.general_index import general_indices

if TYPE_CHECKING:
    from rocenv.net import Network


def with_logins(network: Network) -> Network:
    """Give a network the logins, because URLs in locks and plans omit them."""
    addresses = [entry.uri for entry in all_entries()]
    with contextlib.suppress(DataError):  # an invalid pip configuration, which is reported when it is used
        addresses += general_indices(os.environ, network)
    return replace(network, logins=tuple(address for address in addresses if "@" in address))
