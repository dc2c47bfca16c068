"""The GPUs that a program itself lists, and which of them an env is for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.launch.ask import Answer, ask, ended

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rocenv.host import Host
    from rocenv.launch.start import Start
    from rocenv.matrix.apps import DeviceList
    from rocenv.model import Lock

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
    answer: Answer

    @property
    def problem(self) -> str:
        """Why the answer says nothing about GPUs; "" = it does."""
        return "" if not self.answer.problem and self.answer.code == 0 else ended(self.answer)

    def for_lock(self, lock: Lock, host: Host) -> tuple[Device, ...]:
        """Return the GPUs that an env is for; where that cannot be seen, the first: the env puts it there."""
        if not lock.target:  # a compiler is for many
            return self.found
        if any(each.target for each in self.found):
            # With an override a GPU tells the target that it passes for.
            return tuple(each for each in self.found if each.target in (lock.target, lock.code_target))
        products = {gpu.name.casefold() for gpu in host.gpus if gpu.target == lock.target and gpu.name}
        named = [each for each in self.found if any(name in each.line.casefold() for name in products)]
        return tuple(named) or self.found[:1]

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


def list_devices(start: Start, timeout_s: float = TIMEOUT_S) -> Devices:
    """Run the program of a start as its profile says, in the env, and return the GPUs that it lists.

    Raises:
        CommandNotFound: There is no such program.
        CommandNotExecutable: It is no program.
    """
    asked = start.launcher.devices
    assert asked is not None
    answer = ask(start, asked.arguments, timeout_s)
    return Devices(
        found=tuple(_found(answer.lines, asked)),
        others=tuple(_others(answer.lines, asked.pattern, asked.other)),
        answer=answer,
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
