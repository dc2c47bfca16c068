"""Check the runtime, driver and target that an app release needs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from rocenv.apps.query import ask_version, program_path
from rocenv.checks.context import observe_app
from rocenv.core.errors import RocenvError
from rocenv.core.model import Request
from rocenv.core.versions import allows
from rocenv.core.versions import version_of as parsed
from rocenv.kernels import APP
from rocenv.prefix import library_folders
from rocenv.resolve.apps import known_releases, spans
from rocenv.resolve.suggest import resolved_command
from rocenv.system import machine
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rocenv.apps.context import LaunchContext
    from rocenv.checks.context import CheckContext
    from rocenv.core.model import Component, Lock
    from rocenv.data.apps import AppRelease
    from rocenv.findings import Observation

# The dynamic loader searches these last. /etc/ld.so.conf adds others, depending on the distribution.
_USUAL = ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Release:
    """An app release, and the env in which it is about to run."""

    launch: LaunchContext
    row: AppRelease
    version: str

    @property
    def lock(self) -> Lock:
        return self.launch.start.record.lock

    @property
    def rocm(self) -> Component | None:
        return self.lock.part("rocm")

    def observe(
        self, row: str, severity: str = "", create: str = "", build: str = "", **values: str
    ) -> Observation:
        """Create an observation; by default, it is an error if the launch is pointless without the GPU."""
        start, commands = self.launch.start, {"create": create, "build": build}
        severity = severity or ("error" if start.is_gpu_work else "warning")
        values["release"] = f"{start.launcher.title} {self.version}"
        return observe_app(row, self.launch, commands, severity=severity, **values)

    def another_env(self) -> dict[str, str]:
        """Values for a message that suggests an env for this release, or else a release for this env."""
        start, app = self.launch.start, self.launch.start.launcher.key
        request = Request(platform=self.lock.platform, target=self.lock.target, rocm=self.row.rocm, app=app)
        name = start.prefix.free_name()
        if create := resolved_command(name, request, self.launch.matrix, self.launch.machine):
            return {"create": create}
        releases = known_releases(app, self.lock.platform, self.launch.matrix)
        fitting = [
            span
            for span in spans(releases)
            if self.rocm and allows(span.rocm, self.rocm.version) and span.rocm != self.row.rocm
        ]
        return {"other": f"{start.launcher.title} {fitting[0].label}" if fitting else ""}


def app_release_unfit(context: CheckContext) -> Iterator[Observation]:
    """This version of the app requires a different runtime, driver or target."""
    launch = context.the_launch
    start, matrix, lock = launch.start, launch.matrix, launch.start.record.lock
    if not start.launcher.version or not start.is_app:
        return
    try:
        version = ask_version(start)
    except RocenvError as error:
        yield observe_app("app_version_unknown", launch, problem=error.message)
        return
    known = (start.launcher.key, lock.platform)
    rows = (row for row in matrix.app_release if (row.app, row.platform) == known)
    row = next((row for row in rows if allows(row.versions, version)), None)
    if row is None:
        yield observe_app("app_release_unknown", launch, release=f"{start.launcher.title} {version}")
        return
    release = _Release(launch=launch, row=row, version=version)
    if row.without:
        yield release.observe("app_too_old", why=row.without)
        return
    for check in _CHECKS:
        yield from check(release)


def _runtime(release: _Release) -> Iterator[Observation]:
    """Check the env's ROCm release, and the version that its HIP runtime reports."""
    rocm, row = release.rocm, release.row
    if rocm is None or release.lock.platform != "linux":
        return
    oldest = _dotted(row.runtime) if row.runtime else ""
    hip = _hip_version(release, rocm)
    values = {"rocm": rocm.version, "hip": hip, "wanted": row.rocm, "oldest": oldest}
    if row.rocm and not allows(row.rocm, rocm.version):
        yield release.observe("app_runtime_mismatch", **values, **release.another_env())
    elif oldest and hip and _is_older(hip, oldest):
        yield release.observe("app_runtime_refused", **values, **release.another_env())


def _dotted(number: int) -> str:
    """Decode HIP's version number: 60342131 is 6.3.42131."""
    return f"{number // 10_000_000}.{number // 100_000 % 100}.{number % 100_000}"


def _is_older(version: str, oldest: str) -> bool:
    """Whether a version is definitely older; `6.3` may or may not be older than 6.3.42131."""
    parts = tuple(parsed(oldest).release)[: len(parsed(version).release)]
    return tuple(parsed(version).release) < parts


def _hip_version(release: _Release, rocm: Component) -> str:
    """The known part of the env's HIP runtime version, or "" if it is unknown."""
    known = rocm.layout.runtime.get("hip", "") if rocm.layout else ""
    for row in release.launch.matrix.release:
        exact = row.parts.get("hip", "") if row.version == rocm.version else ""
        if known and exact.startswith(f"{known}."):
            return exact
    return known


def _libraries(release: _Release) -> Iterator[Observation]:
    """Check that the app can load its HIP runtime, and that it loads the env's."""
    names, launch = release.row.libraries, release.launch
    if not names or not _knows_libraries(release):
        return
    first = next(((name, path) for name in names if (path := _found(launch, name))), None)
    if first is None:
        yield release.observe("app_runtime_missing", names=", ".join(names), **release.another_env())
        return
    name, path = first
    if _is_own(launch, path):
        return
    own = next((each for each in names if _is_own(launch, _found(launch, each))), "")
    is_fixed = all(each.startswith("/") for each in names)
    instead = {} if is_fixed else release.another_env()
    values = {"path": path, "name": name, "own": own, "fixed": "yes" if is_fixed else ""}
    yield release.observe("app_runtime_elsewhere", "warning", **values, **instead)


def _found(launch: LaunchContext, name: str) -> str:
    """A library's path, in the env's folders if possible, or "" if it is missing."""
    if name.startswith("/"):
        return name if machine.is_there(name) else ""
    own = [*map(str, library_folders(launch.start.prefix, launch.start.record.lock))]
    own += filter(None, launch.start.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep))
    inside = next((path for folder in own if os.path.isfile(path := os.path.join(folder, name))), "")
    return inside or next((path for each in _USUAL if machine.is_there(path := f"{each}/{name}")), "")


def _is_own(launch: LaunchContext, path: str) -> bool:
    """Whether a path, with links resolved, is in the env."""
    own = launch.start.prefix.path
    return bool(path) and any(
        each.startswith(str(folder) + os.sep)
        for each in (path, os.path.realpath(path))
        for folder in (own, os.path.realpath(own))
    )


def _knows_libraries(release: _Release) -> bool:
    folders = library_folders(release.launch.start.prefix, release.lock)
    return bool(folders) and release.lock.platform == "linux"


def _driver(release: _Release) -> Iterator[Observation]:
    oldest, driver = release.row.driver, release.launch.host.driver.release
    if oldest and driver and allows(f"<{oldest}", driver):
        yield release.observe("app_driver_old", oldest=oldest, driver=driver)


def _target(release: _Release) -> Iterator[Observation]:
    row, target = release.row, release.lock.code_target
    app, matrix = release.launch.start.launcher.key, release.launch.matrix
    if any(fnmatchcase(target, pattern) for pattern in row.refuses):
        older = any(each.app == app and target in each.targets for each in matrix.app_release)
        yield release.observe("app_refuses_target", target=target, older="yes" if older else "")
        return
    is_built = target in row.targets or not row.targets
    has_kernels = release.launch.start.has_kernels
    if not (has_kernels or (has_kernels is None and is_built)):
        targets = "" if is_built else ", ".join(row.targets)
        values = {"target": target, "targets": targets, "build": _build_command(release, target)}
        yield release.observe("app_without_kernels", "warning", **values)


def _build_command(release: _Release, target: str) -> str:
    """The command that compiles the app's kernels, or "" if rocenv cannot compile them."""
    program = program_path(release.launch.start)
    if release.launch.start.launcher.key != APP:
        return ""
    named = () if program is None else ("--blender", str(program))
    return shell_join("rocenv", "kernels", "build", "blender", *named, "--target", target)


def _denoiser(release: _Release) -> Iterator[Observation]:
    row, target = release.row, release.lock.code_target
    if row.denoiser and target in row.targets and target not in row.denoiser:
        yield release.observe("app_denoises_on_cpu", "info", target=target)


def _ray_tracing(release: _Release) -> Iterator[Observation]:
    """Check that the env has the library that enables hardware ray tracing."""
    names = release.row.ray_tracing
    if names and _knows_libraries(release) and not any(_found(release.launch, name) for name in names):
        yield release.observe("app_ray_tracing_off", "info", name=names[0])


_CHECKS: tuple[Callable[[_Release], Iterator[Observation]], ...] = (
    _runtime,
    _libraries,
    _driver,
    _target,
    _denoiser,
    _ray_tracing,
)
