"""Packages that come into an env for an app, and compilers that can be had for a target."""

from __future__ import annotations

from dataclasses import dataclass, field

from rocenv.core.model import Layout, Program  # noqa: TC001 - the reader needs the types at run time
from rocenv.data.known import Known


@dataclass(frozen=True, slots=True, kw_only=True)
class AppPackages(Known):
    """The packages that channels have of an app. Table `app_packages`."""

    app: str  # key of the launcher
    channels: tuple[str, ...]
    names: tuple[str, ...]  # the first is the one whose version is the app's
    program: str  # what it is, below the tree: "usr/bin/blender"
    programs: tuple[Program, ...]  # what people start by name
    library_dirs: tuple[str, ...] = ()  # below the tree, beside those of the set
    links: dict[str, str] = field(default_factory=dict)  # see `Layout`


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiler(Known):
    """A compiler for GPU code that can be had by itself, as an env of its own. Table `compiler`."""

    name: str  # of the env that it becomes, "clang-21"
    version: str  # of LLVM; its series where the channel moves on
    channel: str
    packages: tuple[str, ...]  # the first is the one whose version is the compiler's
    targets: tuple[str, ...]  # that it compiles for
    layout: Layout
    apt_dir: str = ""  # as in a ROCm set


TABLES: dict[str, type[Known]] = {"app_packages": AppPackages, "compiler": Compiler}
