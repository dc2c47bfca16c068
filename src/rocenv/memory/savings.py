"""Ways to get more of a model onto a GPU, each tried: pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rocenv.memory.estimate import PADDING, Estimate, Use, estimate_of, fit_of

if TYPE_CHECKING:
    from rocenv.memory.anatomy import Anatomy

_SHORTEST = 2 * PADDING  # tokens; less is no conversation
_SMALL_CACHE = "q8_0"
_SMALL_BATCH = 128
_WORTH = 0.1  # of a context, below which another way to a longer one is not worth a line


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """Arguments for llama.cpp, and what they bring."""

    arguments: tuple[str, ...]
    gives_up: str
    layers: int
    everything: bool
    needed_bytes: int  # by those layers
    context: int


def offers(estimate: Estimate, free_bytes: int, margin_bytes: int) -> tuple[Way, ...]:
    """Return all ways that get everything onto the GPU; where none does, the one that gets most there."""
    found = (*ways_of(estimate, free_bytes, margin_bytes), *shorter(estimate, free_bytes, margin_bytes))
    return tuple(way for way in found if way.everything) or found


def ways_of(estimate: Estimate, free_bytes: int, margin_bytes: int) -> tuple[Way, ...]:
    """Return what gets everything onto the GPU, or else more of it; what gives up least comes first."""
    now = fit_of(estimate, free_bytes, margin_bytes)
    if now.everything:
        return ()
    found: dict[tuple[str, ...], Way] = {}
    for use, arguments, gives_up in _milder(estimate.use):
        tried = _tried(estimate.anatomy, use, free_bytes, margin_bytes, arguments, gives_up)
        if tried.layers > now.layers:
            found.setdefault(tried.arguments, tried)
    everything = tuple(way for way in found.values() if way.everything)
    return everything or tuple(sorted(found.values(), key=lambda way: -way.layers))[:1]


def _milder(use: Use) -> list[tuple[Use, tuple[str, ...], str]]:
    """Return ways of use that take less, with their arguments and what they cost."""
    flash = replace(use, flash_attention=True)
    cache = replace(flash, cache_k=_SMALL_CACHE, cache_v=_SMALL_CACHE)
    flash_words = ("-fa", "on")
    cache_words = (*flash_words, "-ctk", _SMALL_CACHE, "-ctv", _SMALL_CACHE)
    found = [
        (flash, flash_words, "speed on some GPUs (flash attention)"),
        (replace(use, batch=_SMALL_BATCH), ("-ub", str(_SMALL_BATCH)), "time for long prompts"),
        (cache, cache_words, "a little of the quality (smaller cache)"),
    ]
    return found if use.batch > _SMALL_BATCH else [found[0], found[2]]


def _tried(
    anatomy: Anatomy,
    use: Use,
    free_bytes: int,
    margin_bytes: int,
    arguments: tuple[str, ...],
    gives_up: str,
) -> Way:
    estimate = estimate_of(anatomy, use)
    fits = fit_of(estimate, free_bytes, margin_bytes)
    return Way(
        arguments=arguments,
        gives_up=gives_up,
        layers=fits.layers,
        everything=fits.everything,
        needed_bytes=fits.needed_bytes,
        context=estimate.use.context,
    )


def shorter(estimate: Estimate, free_bytes: int, margin_bytes: int) -> tuple[Way, ...]:
    """Return the longest contexts with which everything fits: as it is, and with the other ways too."""
    found: dict[int, Way] = {}
    for use, arguments, gives_up in [(estimate.use, (), "a part of the context"), *_milder(estimate.use)]:
        most = longest(estimate.anatomy, use, free_bytes, margin_bytes)
        whole = most >= estimate.use.context // PADDING * PADDING
        if whole or not most or most < (1 + _WORTH) * max(found, default=0) or use.batch < estimate.use.batch:
            continue
        words, short = ("-c", str(most), *arguments), replace(use, context=most)
        found[most] = _tried(estimate.anatomy, short, free_bytes, margin_bytes, words, gives_up)
    return tuple(found.values())


def longest(anatomy: Anatomy, use: Use, free_bytes: int, margin_bytes: int) -> int:
    """Return the longest context, up to the one that is meant, with which everything fits; 0 = none does."""
    low, high = _SHORTEST // PADDING - 1, use.context // PADDING
    while low < high:
        middle = (low + high + 1) // 2
        estimate = estimate_of(anatomy, replace(use, context=middle * PADDING))
        low, high = (
            (middle, high) if fit_of(estimate, free_bytes, margin_bytes).everything else (low, middle - 1)
        )
    return low * PADDING if low * PADDING >= _SHORTEST else 0
