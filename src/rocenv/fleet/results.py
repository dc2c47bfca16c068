"""Read nodes' result files, which are untrusted because any node or user may have written them."""

from __future__ import annotations

import datetime
import os
import re
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from rocenv.core.errors import RocenvError
from rocenv.core.foreign import read_file
from rocenv.fleet.node import MAX_REASON, PREFIX

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable
    from pathlib import Path

T = TypeVar("T", bound="Hashable")

_MAX_BYTES = 256 << 10
_Text = Annotated[str, Meta(max_length=200)]
# Other strings may have a special meaning in Slurm: `n[1-9]` is nine nodes, and ALL is every node.
_NAME = re.compile(r"(?!all$)[A-Za-z0-9][A-Za-z0-9._-]{0,199}", re.IGNORECASE)
_REASON = re.compile(PREFIX + r"[A-Za-z][A-Za-z ]*")


def is_node_name(text: str) -> bool:
    """Whether Slurm can interpret a string only as the name of a single node."""
    return _NAME.fullmatch(text) is not None


class Driver(Struct, frozen=True, gc=False):
    """A node's GPU driver, as `verify --node --json` prints it."""

    kernel: _Text | None = None
    amdgpu: _Text | None = None
    display: _Text | None = None

    @property
    def text(self) -> str:
        """The version that identifies the driver."""
        return self.amdgpu or self.display or self.kernel or ""


class _Gpu(Struct, gc=False):
    target: _Text | None = None
    pci_id: _Text | None = None
    usable: bool = False
    firmware: Annotated[dict[_Text, _Text], Meta(max_length=100)] = {}


class _File(Struct, gc=False):
    schema: Literal[1]
    node: _Text
    when: Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$")]
    healthy: bool
    reason: _Text
    detail: Annotated[str, Meta(max_length=20_000)] = ""
    elapsed_s: float = 0.0
    lock_sha256: _Text | None = None
    target: _Text | None = None
    driver: Driver | None = None
    gpus: Annotated[list[_Gpu], Meta(max_length=256)] | None = None
    gflops: Annotated[dict[_Text, Annotated[float, Meta(gt=0, lt=1e9)]], Meta(max_length=20)] = {}


class Gpu(Struct, frozen=True, gc=False):
    """The properties that all GPUs of a model should share."""

    target: str
    pci_id: str
    firmware: tuple[tuple[str, str], ...]


class Result(Struct, frozen=True, gc=False, kw_only=True):
    """The result of checking a node."""

    node: str
    when: str
    reason: str  # valid as a drain reason
    detail: str
    elapsed_s: float
    lock_sha256: str
    target: str
    driver: Driver
    gpus: tuple[Gpu, ...] | None  # usable ones, or None if unknown
    gflops: tuple[tuple[str, float], ...]

    @property
    def healthy(self) -> bool:
        """Whether the check found no problem."""
        return self.reason == f"{PREFIX}ok"


@dataclass
class Results:
    """The newest result of each node."""

    newest: dict[str, Result] = field(default_factory=dict)
    gpus_before: dict[str, int] = field(default_factory=dict)  # node -> maximum usable in older results
    silent: list[str] = field(default_factory=list)  # nodes with an empty file and no result
    unreadable: dict[str, str] = field(default_factory=dict)  # file -> why


def read_results(folder: Path, *, named_by_file: bool = False) -> Results:
    """Read all `*.json` files in a folder; list invalid files instead of failing.

    Args:
        folder: The folder; subfolders are ignored.
        named_by_file: Identify nodes by file name instead of by content.

    Raises:
        RocenvError: The folder cannot be read.
    """
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".json") or named_by_file)
    except OSError as error:
        raise RocenvError(f"cannot read `{folder}`: {error.strerror}", code="no-results") from error
    found, empty, answers = Results(), [], []
    kept: dict[Hashable, Hashable] = {}
    for name in names:
        try:
            content = read_file(folder / name, _MAX_BYTES)
            stem = name.removesuffix(".json")
            if content.strip():
                answers.append(_parsed(content, stem if named_by_file else "", kept))
            elif is_node_name(stem):
                empty.append(stem)
            else:
                found.unreadable[name] = "it is empty"
        except OSError as error:
            found.unreadable[name] = error.strerror or "it cannot be read"
        except (ValueError, RecursionError) as error:  # includes errors from msgspec
            found.unreadable[name] = str(error).partition("\n")[0]
    for answer in sorted(answers, key=attrgetter("when")):
        older = found.newest.get(answer.node)
        if older and older.gpus is not None:
            most = max(len(older.gpus), found.gpus_before.get(answer.node, 0))
            found.gpus_before[answer.node] = most
        found.newest[answer.node] = answer
    found.silent = [name for name in empty if name not in found.newest]
    return found


def _parsed(content: bytes, node: str, kept: dict[Hashable, Hashable]) -> Result:
    """Parse a result; `kept` lets results share equal values."""
    file = msgspec.json.decode(content, type=_File)
    datetime.datetime.fromisoformat(file.when)
    node = node or file.node
    if not is_node_name(node):
        raise ValueError("it has no valid node name")
    reason = file.reason if _REASON.fullmatch(file.reason) and len(file.reason) <= MAX_REASON else ""
    if not reason or file.healthy != (reason == f"{PREFIX}ok"):
        reason = f"{PREFIX}error"

    def once(value: T) -> T:
        return kept.setdefault(value, value)  # type: ignore[return-value]

    gpus = tuple(
        Gpu(each.target or "", each.pci_id or "", once(tuple(sorted(each.firmware.items()))))
        for each in file.gpus or ()
        if each.usable
    )
    return Result(
        node=node,
        when=file.when,
        reason=once(reason),
        detail=once(file.detail),
        elapsed_s=file.elapsed_s,
        lock_sha256=once(file.lock_sha256 or ""),
        target=once(file.target or ""),
        driver=once(file.driver or Driver()),
        gpus=None if file.gpus is None else once(gpus),
        gflops=tuple(file.gflops.items()),
    )


def folded(nodes: Iterable[str]) -> str:
    """Fold node names as Slurm and ClusterShell do, into a form such as `n[1-4,7]`."""
    parts = {node: re.fullmatch(r"(.*?)(\d{1,9})(\D*)", node) for node in nodes}
    padded = {(match[1], len(match[2]), match[3]) for match in parts.values() if match and match[2][0] == "0"}
    names: list[str] = []
    groups: dict[tuple[str, int, str], list[int]] = {}
    for node, match in parts.items():
        if match is None:
            names.append(node)
            continue
        key = match[1], len(match[2]), match[3]
        groups.setdefault(key if key in padded else (match[1], 0, match[3]), []).append(int(match[2]))
    for (before, width, after), numbers in groups.items():
        runs: list[list[int]] = []
        for number in sorted(numbers):
            if runs and number == runs[-1][-1] + 1:
                runs[-1][1:] = [number]
            else:
                runs.append([number])
        text = ",".join("-".join(f"{number:0{width}}" for number in run) for run in runs)
        names.append(f"{before}{f'[{text}]' if numbers[1:] else text}{after}")
    return ",".join(names)
