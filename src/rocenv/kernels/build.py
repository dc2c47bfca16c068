"""Build a kernel from Blender's source, and put it where Blender looks for it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet

from rocenv.active_env import active_env
from rocenv.compilers import Toolchain, ensure_available, newest_for, toolchain_of
from rocenv.core.errors import RocenvError
from rocenv.core.variables import OVERRIDE
from rocenv.host import detect
from rocenv.kernels import APP
from rocenv.kernels.cache import CompiledKernel, cached_or_compiled
from rocenv.kernels.compile import compiler_version
from rocenv.kernels.installation import find, version_of, with_source_of
from rocenv.kernels.placement import check_place, put
from rocenv.kernels.recipe import Job, job_for
from rocenv.prefix import prefix_of
from rocenv.system import WINDOWS
from rocenv.system.files import storage_errors, write_atomic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from rocenv.context import Context
    from rocenv.data.rows import Matrix
    from rocenv.kernels.placed import Placed, PlaceName
    from rocenv.prefix import Prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """The kernel to build, and where to put it."""

    kind: str
    path: str = ""  # of Blender; "" for the one in the env, or else on PATH
    target: str = ""  # "" for the env's, or else the selected GPU's
    env: str = ""  # provides the compiler; "" for the active env, or else the one that contains Blender
    include: Path | None = None
    version: str = ""  # of Blender; "" to detect it
    place: PlaceName = "overlay"
    output: Path | None = None  # write the kernel to this file instead of placing it


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildResult:
    """A built kernel, and where it was placed."""

    job: Job
    kernel: CompiledKernel
    toolchain: Toolchain
    placed: Placed | None


def build(
    request: BuildRequest, context: Context, environ: Mapping[str, str], report: Callable[[str], None]
) -> BuildResult:
    """Compile a kernel and place it where Blender finds it.

    Args:
        request: What to build.
        context: The home, the network and the matrix.
        environ: The user's environment variables; they identify the active env.
        report: Receives messages for the user.

    Raises:
        RocenvError: Blender, its source, a recipe or a compiler is missing, or the kernel cannot be placed.
        PrefixError: An env is missing or incomplete, or the disk is full.
        FetchError: The compiler cannot be downloaded now.
    """
    matrix, home = context.matrix, context.home
    if WINDOWS:
        raise RocenvError(
            "rocenv compiles kernels for Blender only on Linux",
            hints=("install the newest official build of Blender, which might have kernels for your GPU",),
            code="kernels-no-compiler",
        )
    if request.output is not None:
        _require_writable(request.output)
    env = _chosen_env(request.env, context, environ)
    installation = find(request.path or _program_of(env), home)
    env = env or installation.prefix
    target = _target(request.target, tuple(filter(None, (env, installation.prefix))), matrix, report)
    version = request.version or version_of(installation, matrix.launcher)
    installation = with_source_of(installation, version, detected=not request.version)
    job = job_for(
        installation,
        version,
        request.kind,
        target,
        request.include,
        matrix.kernel_recipe,
        to_be_loaded=request.output is None,
    )
    if request.output is None:
        check_place(job, request.place)
    report(f"Blender {version} in `{installation.root}`: {job.title}, from `{job.file}`")
    for warning in _unlisted_target(job, matrix):
        report(warning)
    toolchain = _toolchain(env, target, context, report, named=bool(request.env))
    compiler = compiler_version(toolchain)
    report(f"compiler: {compiler}, in env `{toolchain.env}`")
    kernel = cached_or_compiled(job, toolchain, compiler, home, context.progress, matrix.code_objects, report)
    placed = None
    if request.output is None:
        placed = put(job, kernel.content, request.place, home, env.name if env is not None else "")
    else:
        with storage_errors(request.output):
            write_atomic(request.output, kernel.content)
    return BuildResult(job=job, kernel=kernel, toolchain=toolchain, placed=placed)


def _require_writable(output: Path) -> None:
    """Raise RocenvError early if a file cannot be written, because compiling takes minutes."""
    folder = output.absolute().parent
    if folder.is_dir() and os.access(folder, os.W_OK) and not output.is_dir():
        return
    why = f"`{folder}` {'is not writable' if folder.is_dir() else 'is not an existing folder'}"
    if output.is_dir():
        why = "it is a folder"
    raise RocenvError(
        f"cannot write `{output}`: {why}",
        hints=("create that folder first, or choose a different file with `--output`",),
        code="kernels-unwritable",
    )


def _chosen_env(name: str, context: Context, environ: Mapping[str, str]) -> Prefix | None:
    if not name:
        return active_env(context.home, environ)
    prefix = prefix_of(context.home, name)
    prefix.require_complete()
    return prefix


def _program_of(env: Prefix | None) -> str:
    """Find Blender's start script in an env; return "" if there is none."""
    return str(env.bin / APP) if env is not None and (env.bin / APP).is_file() else ""


def _target(named: str, envs: Sequence[Prefix], matrix: Matrix, report: Callable[[str], None]) -> str:
    """Choose the named target, or else the env's, or else the GPU's."""
    locks = [(env.name, env.record().lock) for env in envs if env.state == "complete"]
    if named:
        for name, lock in locks[:1]:
            if lock.runs_as and named == lock.target != lock.runs_as:
                report(
                    f"in env `{name}`, {OVERRIDE} makes the GPU run as {lock.runs_as}, so Blender "
                    f"does not load kernels for {named} there; build with `--target {lock.runs_as}`"
                )
        return named
    if found := next((lock.code_target for _, lock in locks if lock.code_target), ""):
        return found
    host = detect(matrix)
    if host.gpu is None:
        raise RocenvError(
            f"this machine has no GPU to build for: {host.why}",
            hints=("specify the kernel's target, such as `--target gfx1201`",),
            code="no-gpu",
        )
    return host.gpu.target


def _unlisted_target(job: Job, matrix: Matrix) -> Iterator[str]:
    """Yield a warning if this version of Blender is not known to accept the target."""
    for row in matrix.app_release:
        if (row.app, row.platform) != (APP, "linux") or not row.targets or job.target in row.targets:
            continue
        if SpecifierSet(row.versions, prereleases=True).contains(job.version):
            known = ", ".join(row.targets)
            yield f"Blender {job.version} may ignore {job.target}; it is known to accept {known}"


def _toolchain(
    env: Prefix | None, target: str, context: Context, report: Callable[[str], None], *, named: bool
) -> Toolchain:
    """Choose the env's compiler, or else the newest one for the target."""
    if env is not None:
        if (own := toolchain_of(env, target)) is not None:
            return own
        if named:
            report(f"env `{env.name}` has no compiler for {target}; using the newest one instead")
    row = newest_for(target, context.matrix)
    if row is None:
        known = sorted({each for row in context.matrix.compiler for each in row.targets})
        raise RocenvError(
            f"rocenv has no compiler for {target}" + (f", only for {', '.join(known)}" if known else ""),
            hints=("use `--env` to specify an env that has one",),
            code="kernels-no-compiler",
        )
    return ensure_available(row, context, report)
