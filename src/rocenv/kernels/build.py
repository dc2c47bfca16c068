"""From a path of an app to a kernel that the app finds: all steps in their order."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet

from rocenv.activate.changes import apply, expand
from rocenv.compilers import Toolchain, ensure_available, newest_for, toolchain_of
from rocenv.core.errors import RocenvError
from rocenv.kernels import places
from rocenv.kernels.cache import Made, made
from rocenv.kernels.compile import compiler_version
from rocenv.kernels.installation import find, fitting
from rocenv.kernels.places.app_cache import why_not
from rocenv.kernels.places.order import Order
from rocenv.kernels.program import program_of
from rocenv.kernels.recipe import Job, job_for
from rocenv.kernels.target import target_for
from rocenv.kernels.version import version_of
from rocenv.memory.env import active_env
from rocenv.prefix import all_prefixes, prefix_of
from rocenv.system import WINDOWS
from rocenv.system.files import storage_errors, write_atomic
from rocenv.system.locks import locked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rocenv.context import Context
    from rocenv.data.recipes import KernelSource
    from rocenv.data.rows import Matrix
    from rocenv.home import Home
    from rocenv.kernels.installation import Installation
    from rocenv.kernels.placed import Placed, PlaceName
    from rocenv.prefix import Prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a user asks for."""

    row: KernelSource
    path: str  # of the app; "" = the one on PATH
    kind: str
    target: str = ""  # "" = the env's, else that of the GPU in use
    env: str = ""  # whose compiler and cache; "" = the env that the app lies in, or that is active, if any
    include: Path | None = None
    version: str = ""  # of the app; "" = it says it itself
    place: PlaceName | None = None  # None = the one that suits
    output: Path | None = None  # a file to write, in place of any place


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What came of it."""

    job: Job
    made: Made
    toolchain: Toolchain
    placed: Placed | None
    why: str  # that place


def build(wish: Wish, context: Context, environ: Mapping[str, str], tell: Callable[[str], None]) -> Done:
    """Compile a kernel of an app, and put it where the app finds it.

    Args:
        wish: What is asked for.
        context: The home, the network and the matrix.
        environ: The user's.
        tell: Takes a line for the user.

    Raises:
        RocenvError: The app, its source, a recipe, a compiler or the place cannot be had; says what to do.
        PrefixError: An env is missing or incomplete, or the disk is full.
        FetchError: The compiler cannot be fetched now.
    """
    if WINDOWS:
        raise RocenvError(
            f"rocenv cannot compile kernels of {wish.row.app} on Windows yet, but only on Linux",
            hints=(
                f"take the newest official build of {wish.row.app}: it may come with kernels for your GPU",
            ),
            code="kernels-no-compiler",
        )
    matrix, home = context.matrix, context.home
    if wish.output is not None:
        _require_folder(wish.output)
    env = _env_of(wish.env, environ, context)
    installation = find(wish.path or _own_program(env, wish.row), wish.row, home)
    env = env or installation.prefix
    target = target_for(wish.target, tuple(filter(None, (env, installation.prefix))), matrix, tell)
    wish = replace(wish, target=target)
    version = wish.version or version_of(installation)
    installation = _fitting(installation, version, is_said=not wish.version)
    program = program_of(installation)
    job = job_for(
        installation,
        program,
        version,
        wish.kind,
        wish.target,
        wish.include,
        matrix.kernel_recipe,
        to_be_loaded=wish.output is None,
    )
    place, why = _place(wish, job, home)
    order = Order(
        job=job,
        place=place,
        home=home,
        env=env.name if env is not None else "",
        environ=_environ(env, environ),
    )
    if wish.output is None:
        places.check(order)
    tell(f"{wish.row.app} {version} in `{installation.root}`: {job.title}, from `{job.file}`")
    for said in _refusals(job, matrix):
        tell(said)
    toolchain = _toolchain(wish, env, context, tell)
    compiler = compiler_version(toolchain)
    tell(f"compiler: {compiler}, of the env `{toolchain.env}`")
    kernel = made(job, toolchain, compiler, home, context.progress, matrix.code_objects, tell)
    if wish.output is not None:
        with storage_errors(wish.output):
            write_atomic(wish.output, kernel.content)
        return Done(job=job, made=kernel, toolchain=toolchain, placed=None, why="")
    with storage_errors(home.path), locked(home.lock("kernels", wish.row.app)):
        placed = places.put(order, kernel.content, toolchain)
    return Done(job=job, made=kernel, toolchain=toolchain, placed=placed, why=why)


def _require_folder(output: Path) -> None:
    """Raise RocenvError where a file cannot be written: known before a compiler has worked for minutes."""
    folder = output.absolute().parent
    if folder.is_dir() and os.access(folder, os.W_OK) and not output.is_dir():
        return
    why = "it is a folder" if output.is_dir() else f"`{folder}` is no folder that you may write to"
    raise RocenvError(
        f"cannot write `{output}`: {why}",
        hints=("make that folder first, or name another: `--output FILE`",),
        code="kernels-unwritable",
    )


def _fitting(installation: Installation, version: str, *, is_said: bool) -> Installation:
    """Return the installation with the source of the very version that its program says it is."""
    found = fitting(installation, version)
    if found is None and is_said:
        raise RocenvError(
            f"`{installation.program}` is {version}, but the source beside it is of "
            f"{installation.version_of_folder} (`{installation.source}`)",
            hints=(f"name the program that this source is of: `--{installation.row.app} PROGRAM`",),
            code="kernels-bad-source",
        )
    return found or installation


def _env_of(name: str, environ: Mapping[str, str], context: Context) -> Prefix | None:
    """Return the env that was named, else the one that is active, if any."""
    if name:
        prefix = prefix_of(context.home, name)
        prefix.require_complete()
        return prefix
    return active_env([each for each in all_prefixes(context.home) if each.state == "complete"], environ)


def _refusals(job: Job, matrix: Matrix) -> Iterator[str]:
    """Yield what to tell where this version of the app is known not to take GPUs of the target."""
    app = job.installation.row.app
    for row in matrix.app_release:
        if (row.app, row.platform) != (app, "linux") or not row.targets or job.target in row.targets:
            continue
        if SpecifierSet(row.versions, prereleases=True).contains(job.version):
            known = ", ".join(row.targets)
            yield f"{app} {job.version} is known to take {known}; whether it takes {job.target}, is not"


def _own_program(env: Prefix | None, row: KernelSource) -> str:
    """Return the app of an env; "" where it has none."""
    names = {Path(each).name for each in row.programs} if env is not None else set()
    found = (env.bin / name for name in sorted(names) if env is not None)
    return next((str(path) for path in found if path.is_file()), "")


def _environ(env: Prefix | None, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment that the app will see: that of the env."""
    if env is None:
        return environ
    lock = env.record().lock
    return apply(expand(lock.environment, str(env.path)), environ, lock.platform)


def _toolchain(wish: Wish, env: Prefix | None, context: Context, tell: Callable[[str], None]) -> Toolchain:
    """Return the env's compiler, else the newest that can be had; which, is told."""
    if env is not None:
        own = toolchain_of(env, wish.target)
        if own is not None:
            return own
        why = f"the env `{env.name}` has no compiler of its own for {wish.target}"
        if wish.env:
            tell(f"{why}; taking the newest that can be had")
    row = newest_for(wish.target, context.matrix)
    if row is None:
        known = sorted({target for each in context.matrix.compiler for target in each.targets})
        raise RocenvError(
            f"no compiler can be had for {wish.target}"
            + (f"; there is one for {', '.join(known)}" if known else ""),
            hints=("name an env that has one: `--env NAME`",),
            code="kernels-no-compiler",
        )
    return ensure_available(row, context, tell)


def _place(wish: Wish, job: Job, home: Home) -> tuple[PlaceName, str]:
    """Return where a kernel goes, and why there."""
    if wish.place is not None:
        return wish.place, "as asked"
    if why := why_not(job, home):
        return "overlay", why
    return "cache", f"it came without a kernel for {job.target}"
