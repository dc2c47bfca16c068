"""Builds of apps for AMD GPUs that others publish, for targets that a set's own libraries do not serve."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from rocenv.data.known import Known


@dataclass(frozen=True, slots=True, kw_only=True)
class AppBuild(Known):
    """Builds of an app that bring GPU libraries of their own. Table `app_build`."""

    app: str  # key of the launcher
    name: str  # who publishes them
    platform: Literal["linux", "windows"]
    url: str  # where they are
    asset: str  # how a file is called; `{family}` as `families` has it
    targets: tuple[str, ...]
    families: dict[str, str] = field(default_factory=dict)  # what a target is called there; absent = the same
    note: str = ""


TABLES: dict[str, type[Known]] = {"app_build": AppBuild}
