"""The GPUs that a program itself lists, and which of them an env is for."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rocenv.launch.ask import ask
from rocenv.launch.cards import Card, cards_of, owners

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rocenv.core.model import Lock
    from rocenv.data.apps import DeviceList
    from rocenv.data.rows import Matrix
    from rocenv.host import Host
    from rocenv.launch.start import Start
    from rocenv.system.process import Completed

TIMEOUT_S = 90.0  # a driver that has slept may take long to wake
_MIB = 1 << 20
_NUMBER = re.compile(r"[0-9]+$")
_LONGEST = 4000  # characters of a line
_MOST_DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A GPU as a program lists it."""

    name: str  # as arguments have it: "ROCm0"
    line: str
    target: str = ""  # "" = it is not told
    free_bytes: int | None = None  # as the program sees it; None = it is not told


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Devices that somebody has named."""

    used: tuple[Device, ...]  # GPUs
    others: tuple[str, ...]  # devices of another kind
    unlisted: tuple[str, ...]  # that the program does not list


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """What a program answers when it is asked for the GPUs that it can use."""

    found: tuple[Device, ...]
    others: tuple[str, ...]  # lines of other devices, as of the CPU or another interface
    answer: Completed

    @property
    def problem(self) -> str:
        """Why the answer says nothing about GPUs; "" = it does."""
        return "" if self.answer.ok else self.answer.end

    def for_lock(self, lock: Lock) -> tuple[Device, ...] | None:
        """Return the GPUs that an env is for; None where there may be some, and nothing tells which."""
        if not lock.target:  # a compiler is for many
            return self.found
        # With an override a GPU tells the target that it passes for.
        used = tuple(each for each in self.found if each.target in (*lock.targets, lock.code_target))
        is_unclear = not used and any(not each.target for each in self.found)
        return None if is_unclear else used

    def named(self, names: Iterable[str]) -> Named:
        """Return which devices somebody means, whatever the case of the letters."""
        own = {each.name.casefold(): each for each in self.found}
        other = {line.partition(":")[0].strip().casefold() for line in self.others}
        found = [(name, own.get(name.casefold())) for name in names]
        left = [name for name, device in found if device is None]
        return Named(
            used=tuple(device for _, device in found if device is not None),
            others=tuple(name for name in left if name.casefold() in other),
            unlisted=tuple(name for name in left if name.casefold() not in other),
        )


def list_devices(start: Start, host: Host, matrix: Matrix, timeout_s: float = TIMEOUT_S) -> Devices:
    """Run the program of a start as its profile says, in the env, and return the GPUs that it lists.

    Where it tells no targets, they have those that the machine's GPUs have, as far as that is certain.

    Raises:
        CommandNotFound: There is no such program.
        CommandNotExecutable: It is no program.
    """
    asked = start.launcher.devices
    assert asked is not None
    answer = ask(start, asked.arguments, timeout_s)
    found = tuple(_found(answer.lines, asked))
    if not any(each.target for each in found):
        cards = cards_of(host, matrix, start.environ)
        if not cards and len(found) == 1:  # nothing is known of the machine, and there is no other
            cards = (Card(target=start.record.lock.target),)
        found = recognised(found, cards)
    return Devices(
        found=found,
        others=tuple(_others(answer.lines, asked.pattern, asked.other)),
        answer=answer,
    )


def recognised(found: Sequence[Device], cards: Sequence[Card]) -> tuple[Device, ...]:
    """Return GPUs with the targets that their lines' names of products tell.

    One whose line names none has the target of those of the machine that no line names, if they have one.
    """
    named = [owners(each.line, cards) for each in found]
    left = {each.target for each in cards if each.is_shown and not any(each in some for some in named)}
    targets = [{each.target for each in some} if some else left for some in named]
    return tuple(
        replace(device, target=next(iter(known))) if len(known) == 1 else device
        for device, known in zip(found, targets, strict=True)
    )


def _found(lines: Sequence[str], asked: DeviceList) -> Iterator[Device]:
    targets = _targets(lines, asked.target) if asked.target else {}
    wanted = re.compile(asked.pattern)
    for line in lines:
        if found := wanted.search(line[:_LONGEST]):
            name = found["device"]
            number = _NUMBER.search(name)
            target = targets.get(number[0], "") if number else ""
            yield Device(name=name, line=line.strip(), target=target, free_bytes=_free_bytes(found))


def _targets(lines: Sequence[str], pattern: str) -> dict[str, str]:
    """Return the targets that a program tells, by the number that ends a GPU's name."""
    wanted = re.compile(pattern)
    found = (wanted.search(line[:_LONGEST]) for line in lines)
    return {each["number"]: each["target"] for each in found if each}


def _free_bytes(found: re.Match[str]) -> int | None:
    text = found.groupdict().get("free_mib") or ""
    return int(text) * _MIB if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


def _others(lines: Sequence[str], pattern: str, other: str) -> Iterator[str]:
    if other:
        for line in lines:
            if re.search(other, line[:_LONGEST]) and not re.search(pattern, line[:_LONGEST]):
                yield line.strip()


def only(others: Sequence[str]) -> str:
    """What a program lists in place of a GPU of the env, in words."""
    return f"only {', '.join(others)}" if others else "only the CPU"


def described(device: Device) -> str:
    """A GPU as the program lists it, with its target if that is known."""
    return f"{device.line} [{device.target}]" if device.target else device.line
