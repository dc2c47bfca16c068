"""Checks of an app's release against the env: runtime, driver and target that this very version asks for."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from rocenv.core.model import Request
from rocenv.core.versions import allows
from rocenv.core.versions import version_of as parsed
from rocenv.launch.app_version import program_path, version_of
from rocenv.launch.runtime_files import found, is_own
from rocenv.launch.view import Concern
from rocenv.prefix import library_folders
from rocenv.resolve.apps import known_releases, spans
from rocenv.resolve.suggest import resolved_command
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rocenv.core.model import Component
    from rocenv.data.apps import AppRelease
    from rocenv.launch.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """An app's release beside the env that it is to run in."""

    view: View
    row: AppRelease
    version: str

    @property
    def name(self) -> str:
        """The app with its version."""
        return f"{self.view.start.launcher.title} {self.version}"

    @property
    def rocm(self) -> Component | None:
        """The ROCm of the env."""
        parts = self.view.start.record.lock.components
        return next((part for part in parts if part.kind == "rocm"), None)

    @property
    def is_work(self) -> bool:
        """It is to do something that the GPU is for, so that starting it without one is no use."""
        return self.view.start.is_gpu_work

    def another_env(self) -> str:
        """Return the command that makes a fitting env beside this one; where none can be, what else helps."""
        start, app = self.view.start, self.view.start.launcher.key
        lock = start.record.lock
        wish = Request(platform=lock.platform, target=lock.target, rocm=self.row.rocm, app=app)
        command = resolved_command(start.prefix.free_name(), wish, self.view.matrix, self.view.machine)
        return command or self._another_release()

    def _another_release(self) -> str:
        """Return which releases of the app work with the env as it is, the newest of them."""
        lock, launcher = self.view.start.record.lock, self.view.start.launcher
        fitting = [
            span
            for span in spans(known_releases(launcher.key, lock.platform, self.view.matrix))
            if self.rocm and allows(span.rocm, self.rocm.version) and span.rocm != self.row.rocm
        ]
        none = f"no set with ROCm {self.row.rocm or 'of any release'} is known for {lock.target}"
        if not fitting or self.rocm is None:
            return f"{none}: take another release of {launcher.title}"
        which = f"{launcher.title} {fitting[0].label}"
        return f"{none}: take a {which}, which works with the env's ROCm {self.rocm.version}"


def fits_release(view: View) -> Iterator[Concern]:
    """What this very version of the app asks of the runtime, the driver and the target."""
    start, matrix = view.start, view.matrix
    asked = next((row for row in matrix.app_program if row.app == start.launcher.key), None)
    if asked is None or not start.is_app:
        return
    found = version_of(start, asked, program_path(start))
    title = start.launcher.title
    if not found.version:
        yield Concern(
            code="app-version-unknown",
            severity="warning",
            text=f"which version of {title} this is is not known, so nothing was checked that depends on it: "
            f"{found.problem}",
        )
        return
    row = _row(view, found.version)
    if row is None:
        yield Concern(
            code="app-version-unknown",
            severity="note",
            text=f"what {title} {found.version} asks of the runtime is not known to rocenv",
            remedy="rocenv verify " + shell_join(start.prefix.name, "--app", start.launcher.key),
        )
        return
    release = Release(view=view, row=row, version=found.version)
    if row.without:
        yield _without_gpu(release)
        return
    for check in _CHECKS:
        yield from check(release)


def _row(view: View, version: str) -> AppRelease | None:
    lock, app = view.start.record.lock, view.start.launcher.key
    rows = (row for row in view.matrix.app_release if (row.app, row.platform) == (app, lock.platform))
    return next((row for row in rows if allows(row.versions, version)), None)


def _without_gpu(release: Release) -> Concern:
    return Concern(
        code="app-too-old",
        severity="error" if release.is_work else "warning",
        text=f"{release.name} does not use this GPU: {release.row.without}",
        remedy=f"take a newer {release.view.start.launcher.title}",
    )


def _runtime(release: Release) -> Iterator[Concern]:
    """The release of the env's ROCm, and the version that its HIP runtime answers."""
    rocm, row = release.rocm, release.row
    if rocm is None or release.view.start.record.lock.platform != "linux":
        return
    least = _dotted(row.runtime) if row.runtime else ""
    has = _hip_version(release, rocm)
    if row.rocm and not allows(row.rocm, rocm.version):
        wants = f"works with the runtime of ROCm {row.rocm}"
    elif least and has and _is_older(has, least):
        wants = f"refuses a HIP runtime older than {least} ({row.runtime})"
    else:
        return
    yield Concern(
        code="app-runtime-mismatch",
        severity="error" if release.is_work else "warning",
        text=f"{release.name} {wants}, and the env has ROCm {rocm.version}"
        + (f" with HIP {has}" if has else ""),
        remedy=release.another_env(),
    )


def _dotted(number: int) -> str:
    """Return the version behind a number: 60342131 is 6.3.42131."""
    return f"{number // 10_000_000}.{number // 100_000 % 100}.{number % 100_000}"


def _is_older(has: str, least: str) -> bool:
    """Tell whether a version is older for certain; of `6.3` against 6.3.42131 that is not known."""
    parts = tuple(parsed(least).release)[: len(parsed(has).release)]
    return tuple(parsed(has).release) < parts


def _hip_version(release: Release, rocm: Component) -> str:
    """Return the version of the env's HIP runtime, as much of it as is known; "" where nothing is."""
    answers = rocm.layout.runtime.get("hip", "") if rocm.layout else ""
    for row in release.view.matrix.release:
        exact = row.parts.get("hip", "") if row.version == rocm.version else ""
        if answers and exact.startswith(f"{answers}."):
            return exact
    return answers


def _libraries(release: Release) -> Iterator[Concern]:
    """The file of the HIP runtime that it finds first, by the names that it looks for."""
    row, view = release.row, release.view
    folders = library_folders(view.start.prefix, view.start.record.lock)
    if not row.libraries or not folders or view.start.record.lock.platform != "linux":
        return  # where the env has its libraries is not known, then
    first = next(((name, path) for name in row.libraries if (path := found(view, name))), None)
    if first is None:
        yield Concern(
            code="app-runtime-missing",
            severity="error" if release.is_work else "warning",
            text=f"{release.name} looks for {', '.join(row.libraries)}, and none of them is in the env",
            remedy=release.another_env(),
        )
        return
    name, path = first
    if is_own(view, path):
        return
    its = next((each for each in row.libraries if is_own(view, found(view, each))), "")
    why = f"it looks for `{name}` before the env's `{its}`" if its else f"the env has no `{name}`"
    yield Concern(
        code="app-runtime-elsewhere",
        severity="warning",
        text=f"{release.name} takes the HIP runtime `{path}`, which is not the env's: {why}",
        remedy=_own_remedy(release),
    )


def _own_remedy(release: Release) -> str:
    if all(name.startswith("/") for name in release.row.libraries):
        return f"this version takes it from there and nowhere else; {_newer(release)}"
    return release.another_env()


def _newer(release: Release) -> str:
    return f"a newer {release.view.start.launcher.title} takes the env's"


def _ray_tracing(release: Release) -> Iterator[Concern]:
    """The name of the runtime that hardware ray tracing is switched on by."""
    row, view = release.row, release.view
    lock = view.start.record.lock
    if not row.ray_tracing or lock.platform != "linux" or not library_folders(view.start.prefix, lock):
        return
    if not any(found(view, name) for name in row.ray_tracing):
        yield Concern(
            code="ray-tracing-off",
            severity="note",
            text=f"hardware ray tracing stays off in {release.name}: for that it looks for "
            f"`{row.ray_tracing[0]}`, and the env has the runtime under a name with a version only",
        )


def _driver(release: Release) -> Iterator[Concern]:
    row, has = release.row, release.view.host.driver.release
    if not row.driver or not has or not allows(f"<{row.driver}", has):
        return
    yield Concern(
        code="windows-driver-unsuitable",
        severity="error" if release.is_work else "warning",
        text=f"{release.name} refuses display drivers older than {row.driver}, and this machine has {has}",
        remedy=f"install AMD's driver {row.driver} or newer",
    )


def _target(release: Release) -> Iterator[Concern]:
    row, lock = release.row, release.view.start.record.lock
    target, launcher = lock.code_target, release.view.start.launcher
    if any(fnmatchcase(target, pattern) for pattern in row.refuses):
        yield Concern(
            code="app-refuses-target",
            severity="error" if release.is_work else "warning",
            text=f"{release.name} does not take {target}, whatever kernels there are",
            remedy=f"an older {launcher.title} does" if _taken_before(release) else "",
        )
        return
    has = release.view.start.has_kernels
    is_built = target in row.targets or not row.targets
    if has or (has is None and is_built):
        return
    yield Concern(
        code="app-without-kernels",
        severity="warning",
        text=f"this {release.name} comes without kernels for {target}"
        + ("" if is_built else f"; its maker builds them for {', '.join(row.targets)}"),
        remedy=_building(release, target),
    )


def _building(release: Release, target: str) -> str:
    """Return the command that makes an app's kernels; "" where nobody has said how."""
    app, program = release.view.start.launcher.key, program_path(release.view.start)
    if not any(each.app == app for each in release.view.matrix.kernel_recipe):
        return ""
    named = () if program is None else (f"--{app}", str(program))
    return shell_join("rocenv", "kernels", "build", app, *named, "--target", target)


def _taken_before(release: Release) -> bool:
    app, target = release.view.start.launcher.key, release.view.start.record.lock.code_target
    return any(row.app == app and target in row.targets for row in release.view.matrix.app_release)


def _denoiser(release: Release) -> Iterator[Concern]:
    target = release.view.start.record.lock.code_target
    if release.row.denoiser and target in release.row.targets and target not in release.row.denoiser:
        yield Concern(
            code="denoises-on-cpu",
            severity="note",
            text=f"{release.name} renders on {target} and denoises on the CPU: its denoiser has no GPU "
            "code for that",
        )


_CHECKS: tuple[Callable[[Release], Iterator[Concern]], ...] = (
    _runtime,
    _libraries,
    _driver,
    _target,
    _denoiser,
    _ray_tracing,
)
