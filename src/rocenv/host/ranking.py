"""Choose the GPU to use, and explain the choice.

The first rule that separates two GPUs decides:

1. A usable GPU wins over a blocked one; a GPU that does not support compute is never chosen.
2. On Windows, a GPU wins if AMD has libraries for it or its target is unknown: overrides cannot replace
missing libraries there, and library packs help only under ZLUDA.
3. A card wins over a GPU that may be a card, and both win over an iGPU, regardless of memory: cards are
faster, and libraries are built for them.
4. Official support in current releases wins over libraries alone, and libraries win over no libraries.
5. More memory wins, in whole GiB, because that is what programs run out of.
6. The newer target wins.
7. The GPU that HIP lists first wins.

Alongside another vendor's card, an iGPU is chosen only if current releases officially support it and it has
more compute units than a desktop needs. Otherwise, the other card is the better choice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rocenv.core.variables import OVERRIDE, overridden_target
from rocenv.host.gpu import target_age

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from rocenv.data.knowledge import Override
    from rocenv.data.rows import Matrix
    from rocenv.host.gpu import Gpu

Support = Literal[0, 1, 2]  # no libraries, libraries, official

_LEVELS: dict[str, Support] = {"official": 2, "deprecated": 2, "libraries": 1}
_DESKTOP_UNITS = 2
_STATES = {"unable": 0, "barred": 1, "usable": 2}
_CARDS = {True: 0, None: 1, False: 2}
_GIB = 1 << 30
# Reasons, one for each element of a rank, in the same order.
_REASONS = (
    "{best} can be used now, but {other} cannot",
    "AMD has no libraries for {other} on Windows, only for {best}",
    "{best} is preferred over {other}, which is {kind}",
    "current releases support {best} better than {other}",
    "{best} has more memory than {other}",
    "{best} is newer than {other}",
    "{best} is the first of several similar GPUs",
)
_KINDS = {True: "part of the CPU", None: "possibly not a card", False: "a card"}


def supported_today(matrix: Matrix) -> Mapping[str, Support]:
    """Return each target's best support in any channel's newest packages and wheels.

    Wheels count only if AMD's lists of supported targets are known.
    """
    from packaging.version import Version

    said: list[tuple[str, str, Support, tuple[str, ...]]] = [
        ("", row.rocm, _LEVELS[row.level], row.targets) for row in matrix.support if row.level in _LEVELS
    ]
    for row in matrix.rocm_wheels:
        if row.has_lists and not row.floating:
            said += [(row.channel, row.version, 2, row.official), (row.channel, row.version, 1, row.targets)]
    versions = {version: Version(version) for _, version, _, _ in said}
    newest: dict[str, Version] = {}
    for channel, version, _, _ in said:
        newest[channel] = max(versions[version], newest.get(channel, versions[version]))
    support: dict[str, Support] = {}
    for channel, version, level, targets in said:
        if versions[version] == newest[channel]:
            support.update((target, max(level, support.get(target, level))) for target in targets)
    return support


def libraries_on_windows(matrix: Matrix) -> frozenset[str]:
    """Return the targets with libraries in a HIP SDK, and those with supported or release-ready wheels."""
    sdks = (row for row in matrix.support if row.platform == "windows" and row.level in _LEVELS)
    wheels = (row for row in matrix.rocm_wheels if row.platform == "windows")
    return frozenset(target for row in sdks for target in row.targets) | frozenset(
        target for row in wheels for target in (*row.official, *row.ready)
    )


def choose(
    gpus: Sequence[Gpu],
    others: Sequence[str],
    support: Mapping[str, Support],
    libraries: Collection[str] | None = None,
) -> tuple[int | None, str]:
    """Choose the GPU to use.

    Args:
        gpus: The GPUs, numbered.
        others: The vendors of other cards.
        support: See `supported_today`.
        libraries: See `libraries_on_windows`; None if missing libraries do not matter.

    Returns:
        The GPU's index, or None, and the reason: a sentence without a final period.
    """

    def rank(gpu: Gpu) -> tuple[object, ...]:
        return _rank(gpu, support, libraries)

    other_cards = " and ".join(others)
    if not gpus:
        return (
            None,
            f"this machine has no AMD GPU, only {other_cards}" if others else "this machine has no AMD GPU",
        )
    ranked = sorted((gpu for gpu in gpus if gpu.state != "unable"), key=rank, reverse=True)
    if not ranked:
        return None, f"no program can use {called(gpus[0])}: {gpus[0].why_not}"
    best = ranked[0]
    if others and best.integrated and not _worth_it(best, support):
        return (
            None,
            f"{called(best)} is part of the CPU; use the {other_cards} GPU instead",
        )
    reason = f"{called(best)} is the only GPU"
    if len(ranked) > 1:
        places = zip(rank(best), rank(ranked[1]), _REASONS, strict=True)
        text = next(text for mine, its, text in places if mine != its)
        kind = _KINDS[ranked[1].integrated]
        reason = text.format(best=called(best), other=called(ranked[1]), kind=kind)
    elif len(gpus) > 1:
        reason += " that supports compute"
    elif others:
        reason += f" from AMD (also present: {other_cards})"
    if not best.target:
        reason += "; its target is unknown"
    return best.index, reason if best.usable else f"{reason}, but {best.why_not}"


def called(gpu: Gpu) -> str:
    """Describe a GPU briefly, for use in a sentence."""
    return f"GPU {gpu.index} ({gpu.target or gpu.name or gpu.pci_id or 'target unknown'})"


def _rank(gpu: Gpu, support: Mapping[str, Support], libraries: Collection[str] | None) -> tuple[object, ...]:
    return (
        _STATES[gpu.state],
        libraries is None or not gpu.target or gpu.target in libraries,
        _CARDS[gpu.integrated],
        support.get(gpu.target, 0),
        round((gpu.memory_bytes or 0) / _GIB),
        target_age(gpu.target),
        -gpu.index,
    )


def _worth_it(gpu: Gpu, support: Mapping[str, Support]) -> bool:
    units = gpu.compute_units
    return support.get(gpu.target) == 2 and (units is None or units > _DESKTOP_UNITS)


def override_notes(
    value: str, gpus: Sequence[Gpu], support: Mapping[str, Support], known: Iterable[Override]
) -> tuple[str, ...]:
    """Return warnings about a useless or harmful override; an override affects all GPUs."""
    stands_for = overridden_target(value.strip())
    if not stands_for:
        return (
            f"{OVERRIDE}={value} is not a version such as 10.3.0, and programs reject it: `unset {OVERRIDE}`",
        )
    targets = dict.fromkeys(gpu.target for gpu in gpus if gpu.target and gpu.state != "unable")
    rows = [row for row in known if row.target in targets and row.value in (value.strip(), "*")]
    blocked = {row.target: row.note for row in rows if row.verdict == "block"}
    served = {row.target for row in rows if row.verdict in ("ok", "caution")}
    notes = []
    for target in targets:
        if target == stands_for:
            if not served:
                notes.append(f"{OVERRIDE}={value} has no effect on {target}")
        elif target in blocked:
            notes.append(f"{OVERRIDE}={value} is known to fail on {target}: {blocked[target]}")
        elif target in support and target not in served:
            notes.append(
                f"{OVERRIDE}={value} makes {target} pass as {stands_for}, but {target} needs no override"
            )
    return tuple(f"{note}: `unset {OVERRIDE}`" for note in notes)
