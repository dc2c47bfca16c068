"""Read the result files of nodes: untrusted, because any node or user may have written them."""

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
from rocenv.fleet.node import LONGEST_REASON, PREFIX

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable
    from pathlib import Path

T = TypeVar("T", bound="Hashable")

_MOST_BYTES = 256 << 10
_Text = Annotated[str, Meta(max_length=200)]
# Any other character could mean something to Slurm: `n[1-9]` is nine nodes, and ALL is all of them.
_NAME = re.compile(r"(?!all$)[A-Za-z0-9][A-Za-z0-9._-]{0,199}", re.IGNORECASE)
_REASON = re.compile(PREFIX + r"[A-Za-z][A-Za-z ]*")


def is_node_name(text: str) -> bool:
    """Whether a text can only mean one node to Slurm."""
    return _NAME.fullmatch(text) is not None


class Driver(Struct, frozen=True, gc=False):
    """The driver of a node's GPUs, as `verify --node --json` prints it."""

    kernel: _Text | None = None
    amdgpu: _Text | None = None
    display: _Text | None = None

    @property
    def text(self) -> str:
        """The version that identifies it."""
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
    """What must be the same for all GPUs of a model."""

    target: str
    pci_id: str
    firmware: tuple[tuple[str, str], ...]


class Result(Struct, frozen=True, gc=False, kw_only=True):
    """The answer of a node."""

    node: str
    when: str
    reason: str  # one with which Slurm can drain the node
    detail: str
    elapsed_s: float
    lock_sha256: str
    target: str
    driver: Driver
    gpus: tuple[Gpu, ...] | None  # usable ones; None = unknown
    gflops: tuple[tuple[str, float], ...]

    @property
    def healthy(self) -> bool:
        """Whether the node found nothing wrong with itself."""
        return self.reason == f"{PREFIX}ok"


@dataclass
class Results:
    """The newest answer of each node."""

    newest: dict[str, Result] = field(default_factory=dict)
    gpus_before: dict[str, int] = field(default_factory=dict)  # node -> most usable GPUs in older answers
    silent: list[str] = field(default_factory=list)  # nodes with an empty file and no answer
    unreadable: dict[str, str] = field(default_factory=dict)  # file -> why


def read_results(folder: Path, *, named_by_file: bool = False) -> Results:
    """Read all `*.json` files in a folder; a file that is not a node's answer is listed, not an error.

    Args:
        folder: The folder; its subfolders are not read.
        named_by_file: The names of the files, not their content, tell which node wrote them.

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
            content = read_file(folder / name, _MOST_BYTES)
            stem = name.removesuffix(".json")
            if content.strip():
                answers.append(_parsed(content, stem if named_by_file else "", kept))
            elif is_node_name(stem):
                empty.append(stem)
            else:
                found.unreadable[name] = "it is empty"
        except OSError as error:
            found.unreadable[name] = error.strerror or "it cannot be read"
        except (ValueError, RecursionError) as error:  # of msgspec, too
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
    """Parse an answer; equal parts of many answers are `kept` once."""
    file = msgspec.json.decode(content, type=_File)
    datetime.datetime.fromisoformat(file.when)
    node = node or file.node
    if not is_node_name(node):
        raise ValueError("it has no valid node name")
    reason = file.reason if _REASON.fullmatch(file.reason) and len(file.reason) <= LONGEST_REASON else ""
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
    """Write node names as Slurm and ClusterShell do: `n[1-4,7]`."""
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
