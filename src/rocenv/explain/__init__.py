"""Explain targets, versions, variables and codes with an answer, commands, and rows with sources.

This package does no I/O. `KINDS` lists the kinds of subjects; a kind selects rows, and `rows` renders them.
"""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from rocenv.core.errors import RocenvError
from rocenv.explain import causes, parts, target, topics
from rocenv.explain.page import Explanation, Step
from rocenv.explain.phrases import either, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rocenv.core.language import Language
    from rocenv.data.rows import Matrix

_NEAR = 3
_SHOWN = 80  # characters of an unknown subject to quote
_NO_PRODUCT = ("gfx", "rocm", "hip", "zluda", "torch")  # queries with these prefixes are not products


class Kind(NamedTuple):
    """A kind of subject."""

    names: Callable[[Matrix], list[str]]
    meant: Callable[[str, Matrix], list[str]]  # the names that a lowercase query matches
    explain: Callable[[str, Matrix], Explanation]


KINDS: Mapping[str, Kind] = {
    "target": Kind(target.names, target.meant, target.explain),
    "pack": Kind(parts.pack_names, parts.pack_meant, parts.explain_pack),
    "code": Kind(topics.code_names, topics.code_meant, topics.explain_code),
    "cause": Kind(causes.names, causes.meant, causes.explain),
    "topic": Kind(topics.subject_names, topics.subject_meant, topics.explain_subject),
    "variable": Kind(topics.variable_names, topics.variable_meant, topics.explain_variable),
    "release": Kind(parts.release_names, parts.release_meant, parts.explain_release),
    "zluda": Kind(parts.zluda_names, parts.zluda_meant, parts.explain_zluda),
    "torch": Kind(parts.torch_names, parts.torch_meant, parts.explain_torch),
    "product": Kind(target.product_names, target.product_meant, target.explain),
    "unsupported": Kind(target.unsupported_names, target.unsupported_meant, target.explain_unsupported),
}
# The first group with a match wins. A version can match several kinds. Topics precede variables: `zluda` is
# the topic, and `$ZLUDA` is the variable.
_GROUPS = (
    *((kind,) for kind in ("target", "pack", "code", "cause", "topic", "variable")),
    ("release", "zluda", "torch"),
    ("product",),
    ("unsupported",),
)


def explain(thing: str, matrix: Matrix, language: Language = "en") -> Explanation:
    """Explain a subject, or list the candidates if it is ambiguous. Only causes are translated.

    Raises:
        RocenvError: The subject is unknown; the hints list similar names and all kinds of subjects.
    """
    word = plain(thing)
    found = find(word, matrix)
    if not found:
        shown = f"{thing[:_SHOWN]}..." if len(thing) > _SHOWN else thing
        raise _unknown(shown, word[:_SHOWN], matrix)
    if len(found) == 1:
        kind, name = found[0]
        if kind == "cause":
            return causes.explain(name, matrix, language)
        explanation = KINDS[kind].explain(name, matrix)
        return replace(explanation, thing=thing) if kind in ("product", "unsupported") else explanation
    steps = [
        Step(command=f"rocenv explain {name}", gives=KINDS[kind].explain(name, matrix).title)
        for kind, name in found
    ]
    title = f"`{thing}` can mean {len(steps)} things"
    return Explanation(thing=thing, kind="choice", title=title, steps=tuple(steps))


def find(word: str, matrix: Matrix) -> list[tuple[str, str]]:
    """Find the kinds and names that a lowercase query matches."""
    for group in _GROUPS:
        if group == ("product",) and word.startswith(_NO_PRODUCT):
            break
        if found := [(kind, name) for kind in group for name in KINDS[kind].meant(word, matrix)]:
            return found
    return []


def _unknown(thing: str, word: str, matrix: Matrix) -> RocenvError:
    names = {plain(name): name for kind in KINDS.values() for name in kind.names(matrix)}
    near = [names[each] for each in difflib.get_close_matches(word, names, n=_NEAR, cutoff=0.6)]
    hints = [f"did you mean {either([f'`{each}`' for each in near])}?"] if near else []
    message = f"no information about `{thing}`"
    if word.startswith("gfx"):
        newest = max((row.checked for row in matrix.targets.values()), default="")
        message += f": it is not among the {len(matrix.targets)} known targets"
        dated = f"rocenv's data is from {newest}; " if newest else ""
        hints += [
            f"{dated}a newer version may include it",
            "`rocenv gpus` shows this machine's targets, and `rocenv matrix` shows all known targets",
        ]
    hints.append(
        'try a target (gfx1031), a product ("RX 6750 XT"), a version (rocm-6.1, zluda-3.9.5, torch-2.7), '
        "library packs (gfx1031-pack), an app (llama.cpp), a variable (HSA_OVERRIDE_GFX_VERSION), "
        "a cause (vram-oom), "
        "an exit code (0xC0000005) or an incident (sdnext-3414)"
    )
    return RocenvError(message, hints=tuple(hints), code="thing-unknown")
