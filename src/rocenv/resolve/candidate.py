"""A set that fits a request, and a request in words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from rocenv.core.model import Machine
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from rocenv.core.model import ComponentKind, Request
    from rocenv.data.knowledge import Override
    from rocenv.data.known import Known
    from rocenv.data.releases import Asset
    from rocenv.data.rows import Matrix

R = TypeVar("R", bound="Known")

# What a user asks for and could give up, the least painful first.
WISHES = ("channel", "python", "torch", "zluda", "rocm", "driver")

# What a release does for targets that its libraries have kernels for.
SERVING = ("official", "deprecated", "libraries")

UNKNOWN = "unknown target"  # the rule that every set breaks for a target that is in no row
_OPTIONS = ("rocm", "zluda", "torch", "python", "target", "channel", "driver", "app")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A request, the matrix, and the machine that the set is for."""

    request: Request
    matrix: Matrix
    machine: Machine = field(default_factory=Machine)

    @property
    def knows_target(self) -> bool:
        """Whether the target is in the matrix at all."""
        return not self.matrix.targets or self.request.target in self.matrix.targets

    @property
    def driver(self) -> str:
        """The driver that counts: the one asked for, else the machine's; "" = not known."""
        return self.request.driver or self.machine.driver


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One part of a set: the row that was chosen, and why. The row names the source that has its files."""

    kind: ComponentKind
    row: Known
    version: str
    channel: str  # the channel, index, project or provider that it comes from
    why: str
    asset: Asset | None = None  # of a ZLUDA build
    python: str = ""  # version for the wheels, "3.11"; "" = the source chooses


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A set that fits, with its parts in the order in which they are installed."""

    parts: tuple[Choice, ...]
    runs_as: str  # the target that its code is made for
    override: Override | None = None  # what makes the GPU pass for that target
    notes: tuple[str, ...] = ()

    @property
    def rocm(self) -> Choice:
        """The ROCm release, which every set has."""
        return next(each for each in self.parts if each.kind == "rocm")

    def part(self, kind: ComponentKind) -> Choice | None:
        """Return the part of a kind; None where the set has none."""
        return next((each for each in self.parts if each.kind == kind), None)

    def row(self, table: type[R]) -> R | None:
        """Return the chosen row of a table; None where no part is one."""
        return next((each.row for each in self.parts if isinstance(each.row, table)), None)

    @property
    def versions(self) -> tuple[tuple[ComponentKind, str], ...]:
        """Kind and version of each part."""
        return tuple((each.kind, each.version) for each in self.parts)


def wish_of(rule: str) -> str:
    """Return the wish that a rule is, or follows from; "" for a fact."""
    word = rule.partition(":")[0]
    return word if word in WISHES else ""


def describe(request: Request) -> str:
    """Return a request in words: `ROCm 5.7 for gfx1100`."""
    name = "HIP SDK" if request.platform == "windows" and request.zluda else "ROCm"
    parts = [f"{name} {request.rocm}" if request.rocm else f"any {name}"]
    extras = [("ZLUDA", request.zluda), ("torch", request.torch)]
    if extra := [f"{part}{_version(spec)}" for part, spec in extras if spec]:
        parts.append(f"with {' and '.join(extra)}")
    if request.python:
        parts.append(f"on Python {request.python}")
    parts.append(f"for {request.target}")
    if request.platform != "linux":
        parts.append(f"on {request.platform}")
    if request.driver:
        parts.append(f"with driver {request.driver}")
    if request.channel:
        parts.append(f"from channel {request.channel}")
    if request.app:
        parts.append(f"and the app {request.app}")
    return " ".join(parts)


def options(request: Request, here: str = "linux") -> str:
    """Return a request as command line options for a machine of the platform `here`."""
    parts = [f"--platform {request.platform}"] if request.platform != here else []
    for name in _OPTIONS:
        value = getattr(request, name)
        if value == "*":
            parts.append(f"--{name}")
        elif name == "torch" and (value == NO_TORCH or (not value and request.zluda)):
            parts.append("--no-torch")  # with ZLUDA torch is the default
        elif value:
            parts.append(f"--{name} {shell_join(value)}")
    return " ".join(parts)


NO_TORCH = "none"  # asked for, where the default is another


def _version(spec: str) -> str:
    return "" if spec == "*" else f" {spec}"
