"""What each release of an app asks of the GPU's runtime, driver and target, and how a release is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rocenv.data.known import Known


@dataclass(frozen=True, slots=True, kw_only=True)
class AppProgram(Known):
    """How an app's program is asked which release it is, and what it loads as it runs.

    Table `app_program`.
    """

    app: str  # key of the launcher
    arguments: tuple[str, ...]  # that make it print its version and end
    pattern: str  # of that print; group `version`
    runtime: str = ""  # pattern of the HIP runtime's library; "" = what is loaded is not looked at
    compiler: str = ""  # the same, of the compiler library that it opens
    loads: tuple[str, ...] = ()  # patterns of libraries that are loaded by name, beside the runtime
    shows: tuple[str, ...] = ()  # the same, where it opens a window
    windowless: tuple[str, ...] = ()  # arguments with which it opens none


@dataclass(frozen=True, slots=True, kw_only=True)
class AppRelease(Known):
    """Releases of an app that ask the same. Table `app_release`."""

    app: str  # key of the launcher
    versions: str  # PEP 440
    platform: Literal["linux", "windows"]
    without: str = ""  # why it has no use for the GPU at all; "" = it has
    rocm: str = ""  # PEP 440: releases whose runtime it works with
    libraries: tuple[str, ...] = ()  # the HIP runtime as it looks for it, in that order; () = not read
    ray_tracing: tuple[str, ...] = ()  # the same, for ray tracing in hardware
    runtime: int = 0  # the least that the HIP runtime may answer as its version; 0 = not checked
    driver: str = ""  # the oldest display driver, as AMD counts them; only where the release checks it
    targets: tuple[str, ...] = ()  # its maker builds kernels for; () = not read
    denoiser: tuple[str, ...] = ()  # targets that it denoises on; () = not read, or it has none
    refuses: tuple[str, ...] = ()  # patterns of targets that it does not take, whatever kernels there are
    note: str = ""


TABLES: dict[str, type[Known]] = {"app_program": AppProgram, "app_release": AppRelease}
