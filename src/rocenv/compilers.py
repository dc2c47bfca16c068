"""GPU compilers: the one in an env, or the newest for a target.

A downloaded compiler becomes an env named after its row, so `list`, `repair` and `remove` work on it, and it
shares its files with envs that contain the same packages.
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
from rocenv.prefix import Prefix, prefix_of
from rocenv.sources.apt import TREE, find
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocenv.context import Context
    from rocenv.core.model import Layout, Record
    from rocenv.data.apps import Compiler
    from rocenv.data.rows import Matrix

_CLANG = re.compile(r"(.*/)?bin/clang(-[0-9]+)?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """An installed compiler."""

    name: str
    version: str
    clang: Path  # the program, or the script that starts it
    device_libs: Path | None
    include: Path  # the folder with HIP's headers
    env: str  # the env that contains it


def newest_for(target: str, matrix: Matrix) -> Compiler | None:
    """Return the newest compiler that supports a target, if any."""
    rows = [row for row in matrix.compiler if target in row.targets]
    return min(rows, key=lambda row: (newest_first(row.version), row.name), default=None)


def toolchain_of(prefix: Prefix, target: str) -> Toolchain | None:
    """Find an env's compiler for a target, if it has one.

    Raises:
        PrefixError: The env is missing or incomplete.
    """
    record = prefix.record()
    for part in record.lock.components:
        if part.layout is None:
            continue
        clang = _start_script(prefix, part.layout) or _plain_program(prefix, record, part)
        if clang is None:
            continue
        found = Toolchain(
            name=part.name,
            version=part.version,
            clang=clang,
            device_libs=prefix.path / part.layout.device_libs if part.layout.device_libs else None,
            include=prefix.path / part.layout.root / "include",
            env=prefix.name,
        )
        if _supports(found, target):
            return found
    return None


def ensure_available(row: Compiler, context: Context, report: Callable[[str], None]) -> Toolchain:
    """Return a compiler; create its env if it does not exist yet.

    Args:
        row: The compiler.
        context: The home, the network and the matrix.
        report: Receives a line for the user.

    Raises:
        PrefixError: An env of that name contains something else, or the disk is full.
        FetchError: The compiler cannot be downloaded at the moment.
    """
    prefix = prefix_of(context.home, row.name)
    if prefix.state != "complete":
        lock = compiler_lock(row, context)
        part = lock.components[0]
        download = sum(artifact.size_bytes for artifact in part.artifacts)
        unpacked = sum(artifact.installed_bytes for artifact in part.artifacts)
        report(
            f"installing compiler {row.name} {part.version} from {row.channel} as the env `{row.name}`: "
            f"{len(part.artifacts)} packages, {size_text(download)}, {size_text(unpacked)} when unpacked"
        )
        try:
            build(row.name, lock, context)
        except PrefixError as error:
            if error.code != "env-exists":  # another process created it first
                raise
    found = toolchain_of(prefix, row.targets[0])
    if found is None:
        raise PrefixError(
            f"the env `{row.name}` exists but does not contain that compiler",
            hints=(f"rocenv rename {shell_join(row.name)} {shell_join(prefix.free_name())}",),
            code="env-exists",
        )
    return found


def compiler_lock(row: Compiler, context: Context) -> Lock:
    """Plan a compiler's env from the current files of its channel.

    Raises:
        FetchError: The channel is unreachable, or its signature is invalid.
        RocenvError: One of the packages is missing from the channel.
    """
    packages = RocmSet(
        version=row.version,
        channel=row.channel,
        packages=row.packages,
        layout=row.layout,
        compiles=row.targets,
        blas=(),
        status=row.status,
        source=row.source,
        checked=row.checked,
    )
    try:
        found = find(packages, context)
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
        local_notes=found.notes,
    )


def _start_script(prefix: Prefix, layout: Layout) -> Path | None:
    """Find the script that starts clang in an env created for a compiler."""
    names = [name for each in layout.programs for name in each.names or (PurePosixPath(each.path).name,)]
    return next((prefix.bin / name for name in names if _CLANG.fullmatch(f"bin/{name}")), None)


def _plain_program(prefix: Prefix, record: Record, part: Component) -> Path | None:
    """Find clang among a set's packages; it must be able to start its linker without the env's loader."""
    files = prefix.files(record)
    clangs = (path for path in files if path.startswith(f"{part.into}/") and _CLANG.fullmatch(path))
    clang = min(clangs, key=lambda path: (path.count("/"), path), default="")
    if not clang or record.loader or f"{clang.rpartition('/')[0]}/lld" not in files:
        return None
    return prefix.path / clang


def _supports(found: Toolchain, target: str) -> bool:
    """Whether the device libraries support a target; features such as `:xnack-` are ignored."""
    number = target.partition(":")[0].removeprefix("gfx")
    return found.device_libs is None or (found.device_libs / f"oclc_isa_version_{number}.bc").exists()
