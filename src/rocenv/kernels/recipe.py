"""Choose the recipe for a version of Blender, and fill in an installation's paths."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from rocenv.core.errors import RocenvError, WrongUsage
from rocenv.core.template import fill
from rocenv.kernels.installation import program_bytes
from rocenv.kernels.placed import content_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocenv.data.recipes import KernelRecipe
    from rocenv.kernels.installation import Installation


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
    file_name: str  # in the folder with the kernels that Blender ships with
    compressed: bool  # as those kernels are

    @property
    def title(self) -> str:
        """The kernel's name, for use in a sentence."""
        return f"Cycles {self.recipe.title} kernel for {self.target}"


def job_for(
    installation: Installation,
    version: str,
    kind: str,
    target: str,
    include: Path | None,
    recipes: Sequence[KernelRecipe],
    *,
    to_be_loaded: bool = True,
) -> Job:
    """Prepare to compile a kernel.

    Args:
        installation: Blender; its program's bytes reveal the build options.
        version: Blender's version.
        kind: The kind of kernel.
        target: The GPU target.
        include: The folder with additional headers, if the user specified one.
        recipes: All recipes.
        to_be_loaded: Whether this program will load the kernel, and so must support its kind.

    Raises:
        RocenvError: No recipe covers this version, the program was built without that kind, or headers or
            the source file are missing.
    """
    recipe, program = _recipe(version, kind, recipes), program_bytes(installation)
    if to_be_loaded and program.known and not program.contains(recipe.precompiled_text):
        raise RocenvError(
            f"this Blender {version} was built without {recipe.title} and would never load "
            f"the kernel (`{installation.program}`)",
            hints=("use an official build, or one from a different distribution",),
            code="kernels-built-without",
        )
    file = installation.source / recipe.file
    if not file.is_file():
        raise RocenvError(
            f"`{file}` is missing: the source for this Blender is incomplete",
            hints=(
                "reinstall Blender",
                "or specify the version with `--app-version`, if the detected version is wrong",
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
        # Hash only the folder with the headers: files next to it are not compiled.
        headers_hash=content_hash(headers / Path(recipe.headers).parts[0]) if headers is not None else "",
        file_name=fill(recipe.precompiled, values) + (".zst" if compressed else ""),
        compressed=compressed,
    )


def _recipe(version: str, kind: str, recipes: Sequence[KernelRecipe]) -> KernelRecipe:
    try:
        parsed = Version(version)
    except InvalidVersion as error:
        raise WrongUsage(
            f"`{version}` is not a valid version", hints=("use a version such as `5.2.2`",)
        ) from error
    of_kind = [each for each in recipes if each.kind == kind]
    for each in of_kind:
        if SpecifierSet(each.versions, prereleases=True).contains(parsed):
            return each
    covered = " or ".join(f"`{each.versions}`" for each in of_kind)
    raise RocenvError(
        f"rocenv has no recipe for {kind} kernels for Blender {version}, only for {covered}",
        hints=("use a different version of Blender, or a different kind of kernel",),
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
