"""Choose the recipe for an app version, and fill in an installation's paths."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from rocenv.core.errors import RocenvError, WrongUsage
from rocenv.core.template import fill

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocenv.data.recipes import KernelRecipe, KernelSource
    from rocenv.data.rows import Matrix
    from rocenv.kernels.installation import Installation, ProgramBytes

_MAX_SOURCE_BYTES = 64 << 20  # larger files are not source code
_MAX_SOURCE_FILES = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One kernel to compile."""

    installation: Installation
    recipe: KernelRecipe
    version: str
    target: str
    file: Path
    flags: tuple[str, ...]
    source_hash: str
    include: Path | None = None  # the folder with additional headers
    headers_hash: str = ""
    file_name: str  # in the folder with the kernels that the app ships with
    compressed: bool  # like those

    @property
    def title(self) -> str:
        """The kernel's name, for use in a sentence."""
        return f"{self.installation.row.title} {self.recipe.title} kernel for {self.target}"


def kinds(app: str, matrix: Matrix) -> dict[str, KernelRecipe]:
    """List an app's kinds of kernels with one recipe each; the default kind comes first."""
    found: dict[str, KernelRecipe] = {}
    for row in matrix.kernel_recipe:
        if row.app == app:
            found.setdefault(row.kind, row)
    return found


def job_for(
    installation: Installation,
    program: ProgramBytes,
    version: str,
    kind: str,
    target: str,
    include: Path | None,
    recipes: Sequence[KernelRecipe],
    *,
    to_be_loaded: bool = True,
) -> Job:
    """Prepare to compile a kernel for an app.

    Args:
        installation: The app.
        program: The app's program; its bytes show its build options.
        version: Its version.
        kind: The kind of kernel.
        target: The GPU target.
        include: The folder with additional headers, if the user specified one.
        recipes: All recipes.
        to_be_loaded: Whether this program will load the kernel: then it must support the kind.

    Raises:
        RocenvError: No recipe covers this version, the program was built without that kind, or headers or
            the source file are missing.
    """
    recipe = _recipe(installation.row, version, kind, recipes)
    if to_be_loaded and program.known and not program.contains(recipe.precompiled_text):
        raise RocenvError(
            f"this {installation.row.app} {version} was built without {recipe.title} and would never load "
            f"the kernel (`{installation.program}`)",
            hints=("use an official build, or one from a different distribution",),
            code="kernels-built-without",
        )
    file = installation.source / recipe.file
    if not file.is_file():
        raise RocenvError(
            f"`{file}` is missing: the source for this {installation.row.app} is incomplete",
            hints=(
                "reinstall it",
                "or specify the version with `--app-version`, if it was detected wrongly",
            ),
            code="kernels-no-source",
        )
    headers = _headers(recipe, installation.source, include) if recipe.headers else None
    values = {"source": str(installation.source), "target": target, "include": str(headers or "")}
    extra = (flag for each in recipe.built_with if program.contains(each.text) for flag in each.flags)
    compressed = not program.known or program.contains(f"{recipe.precompiled_text}.zst")
    return Job(
        installation=installation,
        recipe=recipe,
        version=version,
        target=target,
        file=file,
        flags=tuple(fill(flag, values) for flag in (*recipe.flags, *extra)),
        source_hash=content_hash(installation.source),
        include=headers,
        # Only the headers' own folder: files next to it are not compiled.
        headers_hash=content_hash(headers / Path(recipe.headers).parts[0]) if headers is not None else "",
        file_name=fill(recipe.precompiled, values) + (".zst" if compressed else ""),
        compressed=compressed,
    )


def is_at_least(version: str, minimum: str) -> bool:
    """Compare two versions; an empty minimum accepts every version, any other rejects an invalid one."""
    try:
        return not minimum or Version(version) >= Version(minimum)
    except InvalidVersion:
        return False


def _recipe(row: KernelSource, version: str, kind: str, recipes: Sequence[KernelRecipe]) -> KernelRecipe:
    try:
        parsed = Version(version)
    except InvalidVersion as error:
        raise WrongUsage(f"`{version}` is not a version", hints=("write it like `5.2.2`",)) from error
    of_kind = [each for each in recipes if each.app == row.app and each.kind == kind]
    for each in of_kind:
        if SpecifierSet(each.versions, prereleases=True).contains(parsed):
            return each
    covered = " or ".join(f"`{each.versions}`" for each in of_kind)
    raise RocenvError(
        f"rocenv has no recipe for {kind} kernels of {row.app} {version}, only for {covered}",
        hints=(f"use a different version of {row.app}, or a different kind of kernel",),
        code="kernels-no-recipe",
    )


def _headers(recipe: KernelRecipe, source: Path, include: Path | None) -> Path:
    for folder in filter(None, (include, source)):
        if (folder / recipe.headers).is_file():
            return folder
    where = f"`{include}`" if include is not None else f"the source (`{source}`)"
    raise RocenvError(
        f"{recipe.title} kernels need the header `{recipe.headers}`, which is not in {where}",
        hints=(
            f"download {recipe.headers_from}",
            f"then specify its top folder with `--{recipe.kind}-include`",
        ),
        code="kernels-no-headers",
    )


def content_hash(source: Path) -> str:
    """Hash the names and contents of the files in a source folder, but not the folder's path."""
    digest = hashlib.sha256()
    for name, path in _files(source):
        content = _content(path)
        digest.update(f"{name}\0{len(content)}\0".encode("utf-8", "surrogateescape"))
        digest.update(content)
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files in a folder in a fixed order."""
    count = 0
    stack = [("", folder)]
    while stack:
        name, path = stack.pop()
        if path.is_dir():
            below = f"{name}/" if name else ""
            names = sorted(os.listdir(path), key=os.fsencode, reverse=True)
            stack.extend((below + each, path / each) for each in names)
            continue
        count += 1
        if count > _MAX_SOURCE_FILES:
            raise _unusable(folder, f"it contains more than {_MAX_SOURCE_FILES} files")
        yield name, path


def _content(path: Path) -> bytes:
    try:
        if not path.is_file():
            raise _unusable(path, "it is not a file")
        if path.stat().st_size > _MAX_SOURCE_BYTES:
            raise _unusable(path, "it is too large")
        return path.read_bytes()
    except OSError as error:
        raise _unusable(path, error.strerror or "it cannot be read") from error


def _unusable(path: Path, why: str) -> RocenvError:
    return RocenvError(
        f"`{path}` cannot be used as a source of kernels: {why}",
        hints=("download the source again",),
        code="kernels-bad-source",
    )
