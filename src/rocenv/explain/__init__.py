"""What is known about a thing of the matrix, in words, with sources. Pure: no I/O, no printing.

Kinds of things are siblings in a literal table: each says what can be asked (`names`), what a word of the
user means (`meant`), and explains it (`explain`).
"""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from rocenv.core.errors import RocenvError
from rocenv.explain import cause, code, pack, product, release, target, topic, torch, variable, zluda
from rocenv.explain.answer import Explanation, Step
from rocenv.explain.names import plain
from rocenv.explain.words import either

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocenv.data.rows import Matrix

_NEAR = 3
_SHOWN = 80  # characters of what was asked, where nobody knows it
_NO_PRODUCT = ("gfx", "rocm", "hip", "zluda", "torch")  # how names of other kinds begin


class Kind(Protocol):
    """A kind of things: a module with these functions."""

    def names(self, matrix: Matrix) -> list[str]:
        """Return what can be asked."""
        ...

    def meant(self, thing: str, matrix: Matrix) -> list[str]:
        """Return the names that a word in lower case means."""
        ...

    def explain(self, name: str, matrix: Matrix) -> Explanation:
        """Return what is known about a name that `meant` returned."""
        ...


# Exact names first: where one is found, no later kind is asked. A version may be that of several things.
EXACT: Mapping[str, Kind] = {
    "target": target,
    "pack": pack,
    "code": code,
    "cause": cause,
    "topic": topic,  # before variables: one is called ZLUDA, and `$ZLUDA` means that
    "variable": variable,
}
VERSIONS: Mapping[str, Kind] = {"release": release, "zluda": zluda, "torch": torch}
KINDS: Mapping[str, Kind] = {**EXACT, **VERSIONS, "product": product}


def explain(thing: str, matrix: Matrix) -> Explanation:
    """Return what is known about a thing; where several are meant, which they are.

    Raises:
        RocenvError: Nobody knows it; carries the nearest names and what can be asked.
    """
    word = plain(thing)
    found = _meant(word, matrix)
    if not found:
        shown = f"{thing[:_SHOWN]}..." if len(thing) > _SHOWN else thing
        raise _unknown(shown, word[:_SHOWN], matrix)
    if len(found) == 1:
        kind, name = found[0]
        explanation = KINDS[kind].explain(name, matrix)
        return replace(explanation, thing=thing) if kind == "product" else explanation
    steps = [
        Step(command=f"rocenv explain {name}", gives=KINDS[kind].explain(name, matrix).title)
        for kind, name in found
    ]
    return Explanation(
        thing=thing, kind="choice", title=f"`{thing}` may be one of {len(steps)} things", steps=tuple(steps)
    )


def _meant(word: str, matrix: Matrix) -> list[tuple[str, str]]:
    for name, kind in EXACT.items():
        if names := kind.meant(word, matrix):
            return [(name, each) for each in names]
    found = [(name, each) for name, kind in VERSIONS.items() for each in kind.meant(word, matrix)]
    if found or word.startswith(_NO_PRODUCT):
        return found
    return [("product", each) for each in product.meant(word, matrix)]


def _unknown(thing: str, word: str, matrix: Matrix) -> RocenvError:
    names = {plain(name): name for kind in KINDS.values() for name in kind.names(matrix)}
    near = [names[each] for each in difflib.get_close_matches(word, names, n=_NEAR, cutoff=0.6)]
    hints = [f"did you mean {either([f'`{each}`' for each in near])}?"] if near else []
    if word.startswith("gfx"):
        newest = max((row.checked for row in matrix.targets.values()), default="")
        message = (
            f"nothing is known about `{thing}`: it is none of the {len(matrix.targets)} targets known here"
        )
        hints += [
            f"the data is of {newest}; upgrade rocenv: a newer one may know it",
            "`rocenv gpus` shows which targets this machine has, `rocenv matrix` which ones are known",
        ]
    else:
        message = f"nothing is known about `{thing}`"
    hints.append(
        'ask for a target (gfx1031), a product ("RX 6750 XT"), a version (rocm-6.1, zluda-3.9.5, torch-2.7), '
        "packs (gfx1031-pack), a variable (HSA_OVERRIDE_GFX_VERSION) or a code (sdnext-3414)"
    )
    return RocenvError(message, hints=tuple(hints), code="thing-unknown")
