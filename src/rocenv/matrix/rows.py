"""The rows of the compatibility matrix, as the files in `profiles/` hold them.

A row without a source or the day it was checked does not load. `status` says how well a row is known:
`maker` (stated by who makes the thing), `tested` (run by this project), `reported`, `inferred`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rocenv.model import EnvChange, Layout  # noqa: TC001 - the reader needs the types at run time

if TYPE_CHECKING:
    from collections.abc import Mapping

Status = Literal["maker", "tested", "reported", "inferred"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Repo:
    """An apt repository.

    `base` is an address, or `debian:` or `host:` for what the machine's own apt is set up with; `{apt_dir}`
    and the `suite` may be filled in by the set that uses it.
    """

    name: str
    base: str
    source: str
    checked: str
    suite: str = ""  # "" = the set names it, or for `host:` the machine's own release
    components: tuple[str, ...] = ("main",)
    keyrings: tuple[str, ...] = ()  # paths on the machine; those that are there count
    key_url: str = ""  # where the key is fetched where there is no keyring; needs fingerprints
    fingerprints: tuple[str, ...] = ()  # of the only keys to trust, in capitals; () = all of the keyrings
    suites_known: tuple[str, ...] = ()  # releases, or names for one, by which a mirror is recognised


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """Who builds a set, and from which repositories it is put together."""

    name: str
    title: str
    by: Literal["maker", "distribution"]
    repos: tuple[str, ...]  # the preferred one first
    source: str
    checked: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RocmSet:
    """One ROCm release from one channel: a candidate."""

    version: str
    channel: str
    packages: tuple[str, ...]  # what is asked for; their dependencies follow
    layout: Layout
    compiles: tuple[str, ...]  # targets that its run-time compiler knows
    blas: tuple[str, ...]  # targets that its rocBLAS has kernels for
    status: Status
    source: str
    checked: str
    official: tuple[str, ...] = ()  # targets that its maker supports
    floating: bool = False  # the channel moves on: the exact version is read from its index
    glibc: str = ""  # the oldest C library it runs with, where its packages do not say it; "2.35"
    version_package: str = ""  # the package whose version is the set's, where it floats
    apt_dir: str = ""
    suite: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchSet:
    """One torch release built for one ROCm."""

    version: str
    rocm: str
    index: str
    python: tuple[str, ...]
    targets: tuple[str, ...]  # compiled, with BLAS kernels
    status: Status
    source: str
    checked: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepOut:
    """Packages that a prefix has no use for."""

    pattern: str
    reason: str
    source: str
    checked: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CLibrary:
    """The packages that make up the C library, and the program loader they bring."""

    package: str
    loader: str
    files: tuple[str, ...]  # library names that come from the machine where its own C library is used
    source: str
    checked: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvRow:
    """One change that activation makes, and why."""

    change: EnvChange
    when: Literal["always", "rocm", "torch"]
    reason: str
    source: str
    checked: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A variable that acts on every set, so that a value left from another installation is reported."""

    name: str
    reason: str
    source: str
    checked: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Everything that `profiles/` says."""

    repos: Mapping[str, Repo]
    channels: Mapping[str, Channel]
    rocm: tuple[RocmSet, ...]
    torch: tuple[TorchSet, ...]
    keep_out: tuple[KeepOut, ...]
    c_libraries: tuple[CLibrary, ...]
    environment: tuple[EnvRow, ...]
    watched: tuple[Watched, ...]

    @property
    def keep_out_patterns(self) -> tuple[str, ...]:
        """The name patterns of the packages to keep out."""
        return tuple(row.pattern for row in self.keep_out)
