"""The GPUs that an app lists, and which of them have the env's target."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rocenv.apps.query import DEVICES_S, ask
from rocenv.core.variables import VISIBLE
from rocenv.memory.amounts import MIB

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rocenv.apps.start import Start
    from rocenv.core.model import Lock
    from rocenv.data.apps import DeviceList
    from rocenv.data.rows import Matrix
    from rocenv.host import Host
    from rocenv.system.process import Completed

BELOW_HIP = "ROCR_VISIBLE_DEVICES"  # renumbers the GPUs before HIP does
_NUMBER = re.compile(r"[0-9]+$")
_MAX_LINE = 4000  # characters per line
_MAX_DIGITS = 12
_SHARED = " / "  # separates product names that share a PCI ID
_TRADEMARKS = re.compile(r"\((?:tm|r)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A GPU as a program lists it."""

    name: str  # for arguments: "ROCm0"
    line: str
    target: str = ""  # "" if unknown
    free_bytes: int | None = None  # as the program sees it


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """The devices that the user specified."""

    used: tuple[Device, ...]  # HIP GPUs
    others: tuple[str, ...]  # other devices
    unlisted: tuple[str, ...]  # devices that the program does not list


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """A program's list of usable GPUs."""

    found: tuple[Device, ...]
    others: tuple[str, ...]  # lines for other devices, such as the CPU
    answer: Completed

    @property
    def problem(self) -> str:
        """Why the output is unusable, or "" if it is usable."""
        return "" if self.answer.ok else self.answer.end

    def for_lock(self, lock: Lock) -> tuple[Device, ...] | None:
        """The GPUs with an env's target, or None if the program's list does not identify them."""
        if not lock.target:  # a compiler env has many targets
            return self.found
        # With an override, a GPU reports the target of the override.
        used = tuple(each for each in self.found if each.target in (*lock.targets, lock.code_target))
        is_unclear = not used and any(not each.target for each in self.found)
        return None if is_unclear else used

    def named(self, names: Iterable[str]) -> Named:
        """Group the user's device names by kind, ignoring case."""
        own = {each.name.casefold(): each for each in self.found}
        other = {line.partition(":")[0].strip().casefold() for line in self.others}
        found = [(name, own.get(name.casefold())) for name in names]
        left = [name for name, device in found if device is None]
        return Named(
            used=tuple(device for _, device in found if device is not None),
            others=tuple(name for name in left if name.casefold() in other),
            unlisted=tuple(name for name in left if name.casefold() not in other),
        )


def list_devices(start: Start, host: Host, matrix: Matrix, timeout_s: float = DEVICES_S) -> Devices:
    """Run a program to list its GPUs.

    If the program does not print targets, use those of the detected GPUs where the match is certain.

    Raises:
        CommandNotFound: The program does not exist.
        CommandNotExecutable: The file cannot be executed.
    """
    row = start.launcher.devices
    assert row is not None
    answer = ask(start, row.arguments, timeout_s)
    found = tuple(_found(answer.lines, row))
    if not any(each.target for each in found):
        cards = cards_of(host, matrix, start.environ)
        if not cards and len(found) == 1:  # no GPU was detected, and the program lists just this one
            cards = (Card(target=start.record.lock.target),)
        found = with_targets(found, cards)
    return Devices(found=found, others=tuple(_others(answer.lines, row)), answer=answer)


def _found(lines: Sequence[str], row: DeviceList) -> Iterator[Device]:
    targets = _targets(lines, row.target) if row.target else {}
    wanted = re.compile(row.pattern)
    for line in lines:
        if found := wanted.search(line[:_MAX_LINE]):
            number = _NUMBER.search(found["device"])
            yield Device(
                name=found["device"],
                line=line.strip(),
                target=targets.get(number[0], "") if number else "",
                free_bytes=_free_bytes(found),
            )


def _targets(lines: Sequence[str], pattern: str) -> dict[str, str]:
    """Map GPU numbers (the end of each name) to the targets that the program prints."""
    wanted = re.compile(pattern)
    found = (wanted.search(line[:_MAX_LINE]) for line in lines)
    return {each["number"]: each["target"] for each in found if each}


def _free_bytes(found: re.Match[str]) -> int | None:
    text = found.groupdict().get("free_mib") or ""
    return int(text) * MIB if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else None


def _others(lines: Sequence[str], row: DeviceList) -> Iterator[str]:
    for line in lines if row.other else ():
        if re.search(row.other, line[:_MAX_LINE]) and not re.search(row.pattern, line[:_MAX_LINE]):
            yield line.strip()


def described(device: Device) -> str:
    """A GPU as shown in messages: its name and, if known, its target."""
    return f"{device.line} [{device.target}]" if device.target else device.line


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A GPU on this machine, with the names that programs can use for it."""

    target: str  # "" if unknown
    names: frozenset[str] = frozenset()  # several, because products share PCI IDs
    is_shown: bool = True  # visible to programs in the env


def cards_of(host: Host, matrix: Matrix, environ: Mapping[str, str]) -> tuple[Card, ...]:
    """List this machine's GPUs with the names that programs can use for them."""
    gpus = [gpu for gpu in host.gpus if gpu.state != "unable"]
    products: dict[str, list[str]] = {}
    for row in matrix.pci:
        products.setdefault(f"1002:{row.device}", []).extend(row.products)
    numbers = [number.strip() for number in environ.get(VISIBLE, "").split(",")]
    shown = [] if environ.get(BELOW_HIP) else [gpu for gpu in gpus if str(gpu.hip_index) in numbers]
    return tuple(
        Card(
            target=gpu.target,
            # Skip a name that is only "…": it stands for more names.
            names=frozenset(
                _plain(name)
                for name in (*gpu.name.split(_SHARED), *products.get(gpu.pci_id, ()))
                if len(name) > 1
            ),
            is_shown=gpu in shown or not shown,
        )
        for gpu in gpus
    )


def with_targets(found: Sequence[Device], cards: Sequence[Card]) -> tuple[Device, ...]:
    """Add the targets implied by the product names in the GPUs' lines.

    If all GPUs that no other line mentions share a target, a line without a product name gets that target.
    """
    named = [_owners(each.line, cards) for each in found]
    left = {each.target for each in cards if each.is_shown and not any(each in some for some in named)}
    targets = [{each.target for each in some} if some else left for some in named]
    return tuple(
        replace(device, target=next(iter(known))) if len(known) == 1 else device
        for device, known in zip(found, targets, strict=True)
    )


def _owners(line: str, cards: Sequence[Card]) -> tuple[Card, ...]:
    """Find the GPUs that match the longest product name in a line; return () if it contains none."""
    text = _plain(line)
    names = {name for card in cards for name in card.names}
    # "RX 7900 XT" is not part of "RX 7900 XTX", and "RX 6700" also matches in "RX 6700 XT".
    found = [name for name in names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)]
    longest = max(found, key=len, default="")
    return tuple(card for card in cards if longest in card.names)


def _plain(name: str) -> str:
    return " ".join(_TRADEMARKS.sub("", name.casefold()).split())
