"""The GPUs of a machine as programs' lists may call them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.core.variables import VISIBLE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocenv.data.rows import Matrix
    from rocenv.host import Host

BELOW = "ROCR_VISIBLE_DEVICES"  # numbers GPUs anew, below HIP
_BETWEEN = " / "  # names of an id that several products share
_MARKS = re.compile(r"\((?:tm|r)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A GPU of the machine."""

    target: str  # "" = not known
    names: frozenset[str] = frozenset()  # what it may be called: several products share an id
    is_shown: bool = True  # programs in the env may see it


def cards_of(host: Host, matrix: Matrix, environ: Mapping[str, str]) -> tuple[Card, ...]:
    """Return the GPUs that programs may list; which of them an environment hides, where its numbers tell."""
    gpus = [gpu for gpu in host.gpus if gpu.state != "unable"]
    products: dict[str, list[str]] = {}
    for row in matrix.pci:
        products.setdefault(f"1002:{row.device}", []).extend(row.products)
    numbers = [number.strip() for number in environ.get(VISIBLE, "").split(",")]
    shown = [] if environ.get(BELOW) else [gpu for gpu in gpus if str(gpu.hip_index) in numbers]
    return tuple(
        Card(
            target=gpu.target,
            # A lone "…" says that there are more.
            names=frozenset(
                _plain(name)
                for name in (*gpu.name.split(_BETWEEN), *products.get(gpu.pci_id, ()))
                if len(name) > 1
            ),
            is_shown=gpu in shown or not shown,
        )
        for gpu in gpus
    )


def owners(line: str, cards: Sequence[Card]) -> tuple[Card, ...]:
    """Return the GPUs that a line may be about, by the longest of their names in it; () = it has none."""
    text = _plain(line)
    names = {name for card in cards for name in card.names}
    # "RX 7900 XT" is no "RX 7900 XTX", and "RX 6700" stands in "RX 6700 XT" too.
    found = [name for name in names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)]
    longest = max(found, key=len, default="")
    return tuple(card for card in cards if longest in card.names)


def _plain(name: str) -> str:
    return " ".join(_MARKS.sub("", name.casefold()).split())
