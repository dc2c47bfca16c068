"""A product by its name, or a device by its PCI id: the target that it is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocenv.explain import target
from rocenv.explain.words import targets_first

if TYPE_CHECKING:
    from rocenv.data.rows import Matrix
    from rocenv.explain.answer import Explanation

_SHORTEST = 3  # letters of a word that can be looked for in names
_MAKER = ("amd", "radeon")  # words of a name that tell nothing


def names(matrix: Matrix) -> list[str]:
    """Return what can be asked."""
    return sorted({product for row in matrix.pci for product in row.products})


def meant(thing: str, matrix: Matrix) -> list[str]:
    """Return the targets of what is called so; where nothing is just that, of all that have its words."""
    device = thing.removeprefix("1002:")
    found = {row.target for row in matrix.pci if row.device == device}
    words = _words(thing)
    if found or not words:
        return targets_first(found)
    products = [(_words(product), row.target) for row in matrix.pci for product in row.products]
    found = {name for product, name in products if product == words}
    if max(map(len, words)) < _SHORTEST:
        return targets_first(found)
    found = found or {name for product, name in products if set(words) <= set(product)}
    spoken = " ".join(words)
    found = found or {row.target for row in matrix.gpu_name if re.search(row.pattern, spoken, re.IGNORECASE)}
    texts = [(_words(row.products), row.name) for row in matrix.targets.values()]
    return targets_first(found or {name for text, name in texts if set(words) <= set(text)})


def explain(name: str, matrix: Matrix) -> Explanation:
    """Return what is known about the target of a product."""
    return target.explain(name, matrix)


def _words(text: str) -> list[str]:
    """Return the words of a name that tell products apart, in lower case: `AMD Radeon(TM) 780M` is `780m`."""
    plain = re.sub(r"\((?:tm|r)\)", " ", text.casefold())
    return [word for word in re.split(r"[\s,/()-]+", plain) if word and word not in _MAKER]
