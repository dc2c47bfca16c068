"""Which recipe an app's version asks for, and its words filled in for this very app."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from rocenv.core.errors import RocenvError, WrongUsage
from rocenv.core.template import fill
from rocenv.kernels.source import content_hash, name_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocenv.data.recipes import KernelRecipe, KernelSource
    from rocenv.data.rows import Matrix
    from rocenv.kernels.installation import Installation
    from rocenv.kernels.program import Program

_BITS = "64"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A kernel to be made: what is compiled, how, and what the app calls the result."""

    installation: Installation
    recipe: KernelRecipe
    version: str
    target: str
    file: Path
    flags: tuple[str, ...]
    source_hash: str
    include: Path | None = None  # the folder of further headers
    headers_hash: str = ""  # of those
    precompiled: str  # its name among the kernels that came with the app
    compressed: bool  # those are
    cached: str  # its name in the app's cache; "" = not known

    @property
    def title(self) -> str:
        """What to call the kernel in a sentence."""
        return f"{self.installation.row.title} {self.recipe.title} kernel for {self.target}"


def kinds(app: str, matrix: Matrix) -> dict[str, KernelRecipe]:
    """Return the kinds of kernels that an app has, each with one of its recipes; the usual one first."""
    found: dict[str, KernelRecipe] = {}
    for row in matrix.kernel_recipe:
        if row.app == app:
            found.setdefault(row.kind, row)
    return found


def job_for(
    installation: Installation,
    program: Program,
    version: str,
    kind: str,
    target: str,
    include: Path | None,
    recipes: Sequence[KernelRecipe],
    *,
    to_be_loaded: bool = True,
) -> Job:
    """Return the kernel to be made for an app.

    Args:
        installation: The app.
        program: Its bytes.
        version: Its version.
        kind: Of the kernel.
        target: The target.
        include: The folder of further headers, where the user named one.
        recipes: All there are.
        to_be_loaded: By this very program, which may have been built without that kind.

    Raises:
        RocenvError: No recipe is for this version, the program was built without that kind, or headers or
            the file are missing.
    """
    recipe = _recipe(installation.row, version, kind, recipes)
    if to_be_loaded and program.known and not program.holds(recipe.precompiled_text):
        raise RocenvError(
            f"this {installation.row.app} {version} was built without {recipe.title}, so it would never load "
            f"such a kernel (`{installation.program}`)",
            hints=("take an official build of it, or another packager's",),
            code="kernels-built-without",
        )
    file = installation.source / recipe.file
    if not file.is_file():
        raise RocenvError(
            f"`{file}` is missing: the source of this {installation.row.app} is not whole",
            hints=("install it again", "or `--app-version VERSION`, if the version was read wrong"),
            code="kernels-no-source",
        )
    words = {"source": str(installation.source), "target": target}
    headers = _headers(recipe, installation.source, include) if recipe.headers else None
    words["include"] = str(headers or "")
    built = [each for each in recipe.built_with if program.holds(each.text)]
    flags = [fill(flag, words) for flag in (*recipe.flags, *(flag for each in built for flag in each.flags))]
    cached = ""
    if recipe.cached and (text := program.text(recipe.flags_text)):
        named = text.replace("%d", _BITS).replace("%s", str(installation.source)) + recipe.flags_more
        named += "".join(each.named for each in built)
        words["md5"] = name_hash(installation.source, named)
        cached = fill(recipe.cached, words)
    compressed = not program.known or program.holds(f"{recipe.precompiled_text}.zst")
    return Job(
        installation=installation,
        recipe=recipe,
        version=version,
        target=target,
        file=file,
        flags=tuple(flags),
        source_hash=content_hash(installation.source),
        include=headers,
        # What else lies beside them is not included.
        headers_hash=content_hash(headers / Path(recipe.headers).parts[0]) if headers is not None else "",
        precompiled=fill(recipe.precompiled, words) + (".zst" if compressed else ""),
        compressed=compressed,
        cached=cached,
    )


def is_at_least(version: str, least: str) -> bool:
    """Tell whether a version is another one or a later."""
    try:
        return not least or Version(version) >= Version(least)
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
    if not is_at_least(version, row.since):
        raise RocenvError(
            f"{row.app} {version} has no kernels for AMD GPUs: {row.title} has them from {row.since} on",
            hints=(f"upgrade {row.app}",),
            code="kernels-too-old",
        )
    raise RocenvError(
        f"no recipe for {kind} kernels of {row.app} {version}: there are some for "
        + " or ".join(f"`{each.versions}`" for each in of_kind),
        hints=("another version, or another kind of kernel",),
        code="kernels-no-recipe",
    )


def _headers(recipe: KernelRecipe, source: Path, include: Path | None) -> Path:
    for folder in filter(None, (include, source)):
        if (folder / recipe.headers).is_file():
            return folder
    where = f"`{include}`" if include is not None else f"the source (`{source}`)"
    raise RocenvError(
        f"{recipe.title} kernels need the header `{recipe.headers}`, which is not in {where}",
        hints=(f"get {recipe.headers_from}", f"then name it: `--{recipe.kind} --{recipe.kind}-include DIR`"),
        code="kernels-no-headers",
    )
