"""The passwords that this machine's settings of apt, uv and pip have for servers of packages."""

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
    """Let a network use these passwords: locks and plans have none, so their addresses need them again."""
    addresses = [entry.uri for entry in all_entries()]
    with contextlib.suppress(DataError):  # of a damaged file of pip, which is reported where it is needed
        addresses += general_indices(os.environ, network)
    return replace(network, logins=tuple(address for address in addresses if "@" in address))
