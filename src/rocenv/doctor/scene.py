"""What checks look at: a machine, the variables that are set there, and the envs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.core.errors import DataError, RocenvError
from rocenv.host import detect
from rocenv.prefix import Prefix, all_prefixes, prefix_of
from rocenv.system.machine import environment, examined_elsewhere, missing_sysroot

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rocenv.core.model import Record
    from rocenv.data.rows import Matrix
    from rocenv.home import Home
    from rocenv.host import Host


@dataclass(frozen=True, slots=True, kw_only=True)
class Env:
    """A complete env."""

    prefix: Prefix
    record: Record

    @property
    def name(self) -> str:
        """Its name."""
        return self.prefix.name

    @property
    def rocm(self) -> str:
        """The version of its ROCm, "" where it has none."""
        part = self.record.lock.part("rocm")
        return part.version if part is not None else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A machine as it is now."""

    host: Host
    matrix: Matrix
    environ: Mapping[str, str]  # of the examined machine
    home: Home
    envs: tuple[Env, ...] = ()
    asked: Env | None = None  # the one that was named
    named: Prefix | None = None  # the env that was named and is not whole, so that there is no more of it
    sent: bool = False  # all that is known was sent by somebody
    elsewhere: bool = False  # only what lies in a copy of the machine is known; nothing can be tried

    @property
    def platform(self) -> str:
        """`linux` or `windows`."""
        return self.host.platform

    def limit(self, key: str) -> float:
        """Return a number that a check measures by."""
        return float(self.gauge(key)[0])

    def gauge(self, key: str) -> tuple[str, ...]:
        """Return what a check measures by: a number, a version, or names."""
        found = next((row.values for row in self.matrix.gauge if row.key == key), ())
        if not found:
            raise DataError(f"no row of the table `gauge` is called `{key}`")
        return found


def scene_of(
    home: Home, matrix: Matrix, *, name: str = "", environ: Mapping[str, str] | None = None
) -> Scene:
    """Return this machine, or the one below `ROCENV_SYSROOT`, as checks look at it.

    Args:
        home: Whose envs are meant.
        matrix: What is known.
        name: Of the env that is asked about; "" = none.
        environ: The variables of the examined machine; None = this process's. Envs of a machine that is
            examined elsewhere with variables of its own are not known.

    Raises:
        RocenvError: There is no such env, or no copy of a machine where `ROCENV_SYSROOT` says.
    """
    elsewhere = examined_elsewhere()
    of_other = elsewhere and environ is not None
    if missing := missing_sysroot():
        raise RocenvError(
            f"ROCENV_SYSROOT names `{missing}`, which is not a folder",
            hints=("unset ROCENV_SYSROOT   # to examine this machine",),
        )
    asked = _asked(home, name) if name else None
    return Scene(
        host=detect(matrix),
        matrix=matrix,
        environ=environment() if environ is None else environ,
        home=home,
        envs=() if of_other else tuple(_envs(home)),
        asked=asked if isinstance(asked, Env) else None,
        named=asked if isinstance(asked, Prefix) else None,
        sent=of_other,
        elsewhere=elsewhere,
    )


def _asked(home: Home, name: str) -> Env | Prefix:
    """Return the env of a name, or its folder alone where that is not whole."""
    prefix = prefix_of(home, name)
    if prefix.state == "absent":
        prefix.require_complete()
    try:
        return Env(prefix=prefix, record=prefix.record())
    except (RocenvError, ValueError):
        return prefix


def _envs(home: Home) -> Iterator[Env]:
    """Return the complete envs; one whose record cannot be read is told of where it is asked about."""
    for prefix in all_prefixes(home):
        try:
            yield Env(prefix=prefix, record=prefix.record())
        except RocenvError:
            continue
