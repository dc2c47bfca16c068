"""The input for checks: a machine, its environment variables and envs, and an app that is about to start."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.core.errors import DataError, RocenvError
from rocenv.findings import Observation
from rocenv.host import detect
from rocenv.prefix import Prefix, all_prefixes, prefix_of
from rocenv.system.machine import environment, examined_elsewhere, missing_sysroot, read_attribute

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rocenv.apps.context import LaunchContext
    from rocenv.core.model import Record
    from rocenv.data.rows import Matrix
    from rocenv.home import Home
    from rocenv.host import Gpu, Host

_OS_RELEASE = ("/etc/os-release", "/usr/lib/os-release")
_OS_RELEASE_LINE = re.compile(r"^(ID|ID_LIKE)=[\"']?([\w .:-]*)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Env:
    """A complete env."""

    prefix: Prefix
    record: Record

    @property
    def name(self) -> str:
        """The env's name."""
        return self.prefix.name

    @property
    def rocm(self) -> str:
        """The env's ROCm version, or "" without ROCm."""
        part = self.record.lock.part("rocm")
        return part.version if part is not None else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckContext:
    """The state of a machine, and the env and app to check, if any."""

    host: Host
    matrix: Matrix
    environ: Mapping[str, str]  # of the machine being examined
    home: Home
    envs: tuple[Env, ...] = ()
    env: Env | None = None  # the env to check
    broken: Prefix | None = None  # set instead of `env` if that env is incomplete or damaged
    launch: LaunchContext | None = None  # the app that is about to start
    untrusted: bool = False  # the data about the machine comes from someone else
    elsewhere: bool = False  # only a snapshot of the machine is available, so checks cannot try anything

    @property
    def platform(self) -> str:
        """`linux` or `windows`."""
        return self.host.platform

    @property
    def the_env(self) -> Env:
        """The env to check, for checks that need one."""
        assert self.env is not None
        return self.env

    @property
    def relevant_envs(self) -> tuple[Env, ...]:
        """The env to check, or all envs if no env was specified."""
        return (self.env,) if self.env else self.envs

    @property
    def the_launch(self) -> LaunchContext:
        """The app that is about to start, for checks that need one."""
        assert self.launch is not None
        return self.launch

    def variable(self, name: str) -> str:
        """An environment variable of the machine being examined, or "" if it is not set.

        Windows ignores case.
        """
        alike = (value for key, value in self.environ.items() if key.upper() == name.upper())
        default = next(alike, "") if self.platform == "windows" else ""
        return self.environ.get(name) or default

    def limit(self, key: str) -> float:
        """A numeric threshold."""
        return float(self.threshold(key)[0])

    def threshold(self, key: str) -> tuple[str, ...]:
        """A check's reference values: a number, a version, or names."""
        found = next((row.values for row in self.matrix.threshold if row.key == key), ())
        if not found:
            raise DataError(f"the `threshold` table has no `{key}` row")
        return found


def examine_machine(
    home: Home, matrix: Matrix, *, name: str = "", environ: Mapping[str, str] | None = None
) -> CheckContext:
    """Examine this machine or the snapshot at `ROCENV_SYSROOT`, and the env `name`, if any.

    `environ` replaces this process's variables. If `environ` is passed for a snapshot, the envs in `home`
    are ignored.

    Raises:
        RocenvError: The env does not exist, or `ROCENV_SYSROOT` is not a folder.
    """
    elsewhere = examined_elsewhere()
    untrusted = elsewhere and environ is not None
    if missing := missing_sysroot():
        raise RocenvError(
            f"ROCENV_SYSROOT is `{missing}`, which is not a folder",
            hints=("unset ROCENV_SYSROOT   # to examine this machine",),
        )
    env, broken = _env_of(home, name) if name else (None, None)
    return CheckContext(
        host=detect(matrix),
        matrix=matrix,
        environ=environment() if environ is None else environ,
        home=home,
        envs=() if untrusted else tuple(_complete_envs(home)),
        env=env,
        broken=broken,
        untrusted=untrusted,
        elsewhere=elsewhere,
    )


def observe_app(
    row: str,
    launch: LaunchContext,
    commands: Mapping[str, str] | None = None,
    /,
    *,
    severity: str = "",
    **values: str,
) -> Observation:
    """Create an observation about an app that is about to start; adds values for the app and the env."""
    launcher = launch.start.launcher
    common = {"env": launch.start.prefix.name, "app": launcher.title, "key": launcher.key}
    return Observation(row, common | values, severity=severity, commands=commands or {})


def before_start(launch: LaunchContext, home: Home) -> CheckContext:
    """The context for the checks that `launch` runs before an app starts."""
    env = Env(prefix=launch.start.prefix, record=launch.start.record)
    return CheckContext(
        host=launch.host,
        matrix=launch.matrix,
        environ=launch.start.outside,
        home=home,
        envs=(env,),
        env=env,
        launch=launch,
        elsewhere=examined_elsewhere(),
    )


def _env_of(home: Home, name: str) -> tuple[Env | None, Prefix | None]:
    prefix = prefix_of(home, name)
    if prefix.state == "absent":
        prefix.require_complete()
    try:
        return Env(prefix=prefix, record=prefix.record()), None
    except (RocenvError, ValueError):
        return None, prefix


def _complete_envs(home: Home) -> Iterator[Env]:
    for prefix in all_prefixes(home):
        try:
            yield Env(prefix=prefix, record=prefix.record())
        except RocenvError:
            continue  # `env_unusable` reports this


def short_name(gpu: Gpu) -> str:
    """A GPU's name for titles: its product, or its target if several products share its PCI ID."""
    first, several, _ = gpu.name.partition(" / ")
    return (gpu.target if several else "") or first or gpu.target or gpu.pci_id


def distro() -> str:
    """The IDs of the Linux distribution and its parents, such as `linuxmint ubuntu debian`, or `unknown`.

    Source: os-release(5)
    """
    text = next(filter(None, (read_attribute(path)[0] for path in _OS_RELEASE)), "")
    fields = dict(_OS_RELEASE_LINE.findall(text))
    names = f"{fields.get('ID', '')} {fields.get('ID_LIKE', '')}".lower().split()
    return " ".join(dict.fromkeys(names)) or "unknown"
