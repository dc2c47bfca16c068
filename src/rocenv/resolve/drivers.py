"""Match kernel drivers with ROCm releases, and find what WSL needs instead."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocenv.core.versions import allows, joined, series, version_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rocenv.core.model import Lock, Machine
    from rocenv.data.knowledge import WslNeeds
    from rocenv.data.rows import Matrix
    from rocenv.resolve.combination import Case


def kernel_driver(text: str, matrix: Matrix) -> str:
    """Find an amdgpu driver's ROCm series ("6.2", "30.10"), or "" if unknown.

    It accepts a series, an amdgpu package's version (`22.20.50200`, `6.1.60101`, `30.10.1`), and a module
    version that ends with one (`5.16.9.22.20`). Other module versions (`6.10.5`) do not identify a series.
    """
    parts = text.split(".")
    if not all(part.isdigit() for part in parts) or len(parts) < 2:
        return ""
    known = {driver for row in matrix.driver_pair for driver in row.drivers}
    head = ".".join(parts[:2])
    trains = {row.amdgpu: row.rocm for row in matrix.driver_train}
    tail = ".".join(parts[-2:])
    if len(parts) > 4:
        return trains.get(tail, "")
    if head in trains:
        return trains[head]
    packaged = len(parts) == 2 or (len(parts) == 3 and (len(parts[2]) > 3 or head in known))
    return head if packaged else ""


def tested(driver: str, release: str, matrix: Matrix) -> bool | None:
    """Whether a release was tested with a kernel driver, or None if neither is listed."""
    if not driver:
        return None
    heard = False
    for row in matrix.driver_pair:
        if driver in row.drivers and release in row.rocm:
            return True
        heard = heard or driver in row.drivers or release in row.rocm
    return False if heard else None


def oldest_kernel(release: str, matrix: Matrix) -> tuple[str, str]:
    """Find the oldest stock kernel that a release was tested on, and the source; both are "" if unknown."""
    found = [
        (version_of(kernel), kernel, row.source)
        for row in matrix.system_kernel
        if row.rocm == release and not row.backports
        for kernel in row.kernels
    ]
    _, kernel, source = min(found, default=(None, "", ""))
    return kernel, source


def kernel_is_older(kernel: str, oldest: str) -> bool:
    """Whether a kernel ("5.10.6-200.fc33") is from an older series than a tested one, or False if unknown."""
    own = re.match(r"(\d+)\.(\d+)", kernel)
    other = re.match(r"(\d+)\.(\d+)", oldest)
    if own is None or other is None:
        return False
    return (int(own[1]), int(own[2])) < (int(other[1]), int(other[2]))


def tested_drivers(release: str, matrix: Matrix) -> tuple[list[str], str]:
    """List the kernel drivers that a release was tested with, and the source."""
    rows = [row for row in matrix.driver_pair if release in row.rocm]
    drivers = {driver for row in rows for driver in row.drivers}
    source = min((row.source for row in rows), default="")
    return sorted(drivers, key=lambda text: [int(part) for part in text.split(".")]), source


def untested_releases(versions: Iterable[str], case: Case) -> frozenset[str]:
    """List the series that were not tested with the kernel driver, or were tested only on newer kernels."""
    matrix, kernel = case.matrix, case.machine.kernel
    driver = kernel_driver(case.driver, matrix)
    releases = set(map(series, versions))
    if driver:
        return frozenset(each for each in releases if tested(driver, each, matrix) is False)
    if kernel and not case.driver:
        return frozenset(each for each in releases if kernel_is_older(kernel, oldest_kernel(each, matrix)[0]))
    return frozenset()


def driver_notes(version: str, case: Case) -> Iterator[str]:
    """Yield a note if a ROCm version was not tested with the machine's kernel driver or kernel."""
    matrix, kernel, release = case.matrix, case.machine.kernel, series(version)
    driver = kernel_driver(case.driver, matrix)
    if tested(driver, release, matrix) is False:
        drivers, source = tested_drivers(release, matrix)
        with_others = f"was tested with drivers from {joined(drivers)} ({source})"
        yield (
            f"driver skew: the kernel driver is from ROCm {driver}, but ROCm {release} "
            f"{with_others if drivers else 'is not on the list of releases tested with it'}; too "
            "large a gap between versions causes memory faults"
        )
    oldest, source = oldest_kernel(release, matrix)
    if kernel and not case.driver and kernel_is_older(kernel, oldest):
        yield (
            f"old kernel: {kernel} is older than {oldest}, the oldest that ROCm {release} was tested on "
            f"({source})"
        )


def wsl_needs(release: str, matrix: Matrix) -> WslNeeds | None:
    """Find the requirements for using the GPU in WSL with a release, or None if there is no row for it."""
    return next((row for row in matrix.wsl if allows(row.rocm, release)), None)


def display_is_older(display: str, row: WslNeeds) -> bool | None:
    """Whether a Windows display driver is older than a release needs, or None if unknown.

    `display` is AMD's number ("26.10.41.05") or the one that Windows shows ("32.0.31041.1004").
    """
    oldest = row.driver_file if re.match(r"[0-9]+\.0\.", display) else row.driver
    if not all(re.fullmatch(r"[0-9]+(\.[0-9]+){1,3}", text) for text in (display, oldest)):
        return None
    return [int(part) for part in display.split(".")] < [int(part) for part in oldest.split(".")]


def named_driver(row: WslNeeds) -> str:
    """Return a row's oldest driver in both numbering schemes: AMD's, and the one that Windows shows."""
    return row.driver + (f" (DriverVersion {row.driver_file})" if row.driver_file else "")


def lacking_on_wsl(lock: Lock, machine: Machine, matrix: Matrix) -> Iterator[str]:
    """Yield the components that the user must install for GPU access in WSL on this machine."""
    rocm = lock.part("rocm")
    row = wsl_needs(rocm.version, matrix) if rocm is not None and machine.wsl else None
    if rocm is None or row is None or lock.platform != "linux":
        return
    if unlisted := [each for each in lock.request.targets if row.targets and each not in row.targets]:
        yield (
            f"on WSL, ROCm might not find {' and '.join(unlisted)}: AMD does not list it for WSL"
            " (`rocenv explain wsl`); alternatively, use rocenv on Windows itself"
        )
    if row.library != "included":
        yield f"on WSL, ROCm {rocm.version} needs {row.needs} (`rocenv explain wsl`)"
    display = lock.request.driver or machine.display
    if row.driver and display_is_older(display, row) is not False:
        if lock.request.driver:
            has = f"`--driver` is {display}"
        elif display:
            has = f"Windows has {display}"
        else:
            has = (
                "the installed version is unknown: `Get-CimInstance Win32_VideoController` in PowerShell"
                " shows it as DriverVersion; specify it with `--driver`"
            )
        oldest = named_driver(row)
        yield f"on WSL, ROCm {rocm.version} needs AMD's display driver {oldest} or newer; {has}"
