"""Compilers for GPU code: the one of an env, or the newest one for a target.

A compiler that is fetched becomes an env of its own, named by its row. So it is listed, checked, repaired and
removed like any other, and shares its files with the envs that hold the same packages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from rocenv.core.errors import NotAvailable, PrefixError, RocenvError
from rocenv.core.model import Component, Lock, Request
from rocenv.core.progress import size_text
from rocenv.core.versions import newest_first
from rocenv.data.environment import changes_for
from rocenv.data.releases import RocmSet
from rocenv.install.build import build
from rocenv.prefix import Prefix, library_folders, prefix_of
from rocenv.sources.apt import TREE, find
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from rocenv.context import Context
    from rocenv.core.model import Layout, Record
    from rocenv.data.apps import Compiler
    from rocenv.data.rows import Matrix

_DRIVER = re.compile(r"(.*/)?bin/clang(-[0-9]+)?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """A compiler that is there, ready to be run."""

    name: str
    version: str
    clang: Path  # what to start: a starter where there is one
    programs: tuple[Path, ...]  # what it starts in turn
    library_dirs: tuple[Path, ...]
    loader: Path | None  # the env's own; starters use it by themselves
    device_libs: Path | None
    include: Path | None  # of HIP's headers
    env: str  # the env that it is in

    def run_argv(self, program: Path, *args: str) -> list[str]:
        """Return the command line that runs one of its programs, with the loader where it needs that."""
        if self.loader is None or program in (self.clang, *self.programs):
            return [str(program), *args]
        folders = ":".join(map(str, self.library_dirs))
        start = [str(self.loader), "--library-path", folders, "--argv0", str(program)]
        return [*start, str(program), *args]


def newest_for(target: str, matrix: Matrix) -> Compiler | None:
    """Return the newest compiler that has a target; None if there is none."""
    rows = [row for row in matrix.compiler if target in row.targets]
    return min(rows, key=lambda row: (newest_first(row.version), row.name), default=None)


def toolchain_of(prefix: Prefix, target: str) -> Toolchain | None:
    """Return the compiler that an env holds; None where it holds none for the target.

    Raises:
        PrefixError: The env is missing or incomplete.
    """
    record = prefix.record()
    for part in record.lock.components:
        if part.layout is None:
            continue
        found = _of_starters(prefix, record, part, part.layout)
        found = found or _of_tree(prefix, record, part, part.layout)
        if found is not None and _knows(found, target):
            return found
    return None


def ensure_available(row: Compiler, context: Context, report: Callable[[str], None]) -> Toolchain:
    """Return a compiler; create the env for it if there is none yet.

    Args:
        row: The compiler.
        context: The home, the network and the matrix.
        report: Takes a line for the user.

    Raises:
        PrefixError: An env of that name is something else, or the disk is full.
        FetchError: It cannot be downloaded now.
    """
    prefix = prefix_of(context.home, row.name)
    if prefix.state != "complete":
        lock = compiler_lock(row, context)
        part = lock.components[0]
        fetched = sum(artifact.size_bytes for artifact in part.artifacts)
        unpacked = sum(artifact.installed_bytes for artifact in part.artifacts)
        report(
            f"compiler {row.name} {part.version} from {row.channel}, as the env `{row.name}`: "
            f"{len(part.artifacts)} packages, {size_text(fetched)}, {size_text(unpacked)} once unpacked"
        )
        try:
            build(row.name, lock, context)
        except PrefixError as error:
            if error.code != "env-exists":  # another rocenv was faster
                raise
    found = toolchain_of(prefix, row.targets[0])
    if found is None:
        raise PrefixError(
            f"the env `{row.name}` is not the compiler of that name",
            hints=(f"rocenv rename {shell_join(row.name)} {shell_join(prefix.free_name())}",),
            code="env-exists",
        )
    return found


def compiler_lock(row: Compiler, context: Context) -> Lock:
    """Return a compiler with every file, as its channel has it now.

    Raises:
        FetchError: The channel is unreachable, or cannot be trusted.
        RocenvError: It lacks something.
    """
    wanted = RocmSet(
        version=row.version,
        channel=row.channel,
        packages=row.packages,
        layout=row.layout,
        compiles=row.targets,
        blas=(),
        apt_dir=row.apt_dir,
        status=row.status,
        source=row.source,
        checked=row.checked,
    )
    try:
        found = find(wanted, context)
    except NotAvailable as error:
        raise RocenvError(
            f"compiler {row.name} is not available from channel {row.channel}: {error}", code="set-incomplete"
        ) from error
    part = Component(
        kind="compiler",
        name=row.name,
        version=found.version,
        channel=row.channel,
        why=f"compiles GPU code for {len(row.targets)} targets",
        artifacts=found.artifacts,
        glibc=found.glibc,
        loader=context.matrix.c_library[0].loader if found.own_glibc else "",
        layout=row.layout.below(TREE),
        into=TREE,
    )
    return Lock(
        request=Request(channel=row.channel),
        platform="linux",
        target="",
        components=(part,),
        environment=changes_for((part,), context.matrix),
        watched=tuple(each.name for each in context.matrix.watched),
        notes=found.notes,
    )


def _of_starters(prefix: Prefix, record: Record, part: Component, layout: Layout) -> Toolchain | None:
    """Return the compiler of an env that was made for it: its programs have starters."""
    names = [name for each in layout.programs for name in each.names or (PurePosixPath(each.path).name,)]
    driver = next((name for name in names if _DRIVER.fullmatch(f"bin/{name}")), "")
    if not driver:
        return None
    return Toolchain(
        name=part.name,
        version=part.version,
        clang=prefix.bin / driver,
        programs=tuple(prefix.bin / name for name in names if name != driver),
        library_dirs=library_folders(prefix, record.lock),
        loader=prefix.path / record.loader if record.loader else None,
        device_libs=prefix.path / layout.device_libs if layout.device_libs else None,
        include=prefix.path / layout.root / "include",
        env=prefix.name,
    )


def _of_tree(prefix: Prefix, record: Record, part: Component, layout: Layout) -> Toolchain | None:
    """Find the compiler among the packages of a set; it has to start other programs without a loader."""
    files = prefix.files(record)
    driver = min(
        (path for path in files if path.startswith(f"{part.into}/") and _DRIVER.fullmatch(path)),
        key=lambda path: (path.count("/"), path),
        default="",
    )
    folder = driver.rpartition("/")[0]
    if not driver or record.loader or f"{folder}/lld" not in files:
        return None
    return Toolchain(
        name=PurePosixPath(driver).name,
        version=part.version,
        clang=prefix.path / driver,
        programs=tuple(prefix.path / path for path in _programs(folder, files)),
        library_dirs=library_folders(prefix, record.lock),
        loader=None,
        device_libs=prefix.path / layout.device_libs if layout.device_libs else None,
        include=prefix.path / layout.root / "include",
        env=prefix.name,
    )


def _programs(folder: str, files: Collection[str]) -> list[str]:
    names = ("lld", "ld.lld", "clang-offload-bundler", "llvm-link", "opt")
    return [f"{folder}/{name}" for name in names if f"{folder}/{name}" in files]


def _knows(found: Toolchain, target: str) -> bool:
    """Tell whether the device libraries have anything for a target; features behind a colon do not count."""
    number = target.partition(":")[0].removeprefix("gfx")
    return found.device_libs is None or (found.device_libs / f"oclc_isa_version_{number}.bc").exists()
