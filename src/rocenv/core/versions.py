"""Compare and sort versions, and match them against a SPEC or a range."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from rocenv.core.errors import WrongUsage
from rocenv.core.model import series as series

if TYPE_CHECKING:
    from collections.abc import Sequence


@lru_cache(maxsize=4096)
def specifier(text: str, option: str) -> SpecifierSet:
    """Parse a version or specifier from the command line; `5.7` includes its patch releases.

    Raises:
        WrongUsage: The text is neither a version nor a PEP 440 specifier.
    """
    text = text.strip()
    try:
        if text[:1].isdigit():
            start = text.removesuffix(".*")
            # A pre-release, post-release or local version means exactly that release.
            text = f"=={start}.*" if start.replace(".", "").isdigit() else f"=={Version(text)}"
        return SpecifierSet("" if text == "*" else text, prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        raise WrongUsage(
            f"`{text}` is not a valid version for `{option}`",
            hints=(f"give a version (`{option} 5.7`) or a range (`{option} '>=6.1,<6.3'`)",),
        ) from None


def require_version(text: str, option: str) -> None:
    """Raise WrongUsage if the text is not a version."""
    try:
        Version(text)
    except InvalidVersion:
        raise WrongUsage(
            f"`{text}` is not a valid version for `{option}`", hints=(f"give a version: `{option} 25.4.1`",)
        ) from None


@cache
def version_of(text: str) -> Version:
    """Parse a version, with a cache."""
    return Version(text)


@cache
def _range(text: str) -> SpecifierSet:
    return SpecifierSet(text, prereleases=True)


@cache
def allows(text: str, version: str) -> bool:
    """Whether a range from the data includes a version; an empty range includes every version.

    An untrusted lock can contain an invalid version; only the empty range includes it.
    """
    try:
        return not text or _range(text).contains(version_of(version))
    except InvalidVersion:
        return False


@cache
def lowest(text: str) -> str:
    """Return the lower bound of a range in the data (`4.4` for `>=4.4,<5.0`), or "" if it has none."""
    starts = [
        version_of(each.version.removesuffix(".*"))
        for each in _range(text)
        if each.operator in (">=", ">", "==", "~=")
    ]
    return max(starts).base_version if starts else ""


@cache
def meets(spec: str, version: str, option: str, *, floating: bool = False, local: str = "") -> bool:
    """Whether a version matches a command-line SPEC; "" and `*` match any.

    Raises:
        WrongUsage: The SPEC is invalid.
    """
    return version_fits(specifier(spec or "*", option), version, floating=floating, local=local)


@cache
def meets_whole(spec: str, of_series: str, option: str) -> bool:
    """Whether a command-line SPEC includes every release in a series.

    A set that mixes several releases from a series does not match a SPEC that includes only some of them,
    such as `6.4.3` or `>=6.4.2`.

    Raises:
        WrongUsage: The SPEC is invalid.
    """
    wanted = specifier(spec or "*", option)
    return all(wanted.contains(f"{of_series}.{patch}") for patch in _representative_patches(wanted))


def any_meets(spec: str, versions: tuple[str, ...], option: str) -> bool:
    """Whether a SPEC includes a release in any of these series."""
    return any(meets(spec, version, option, floating=True) for version in versions)


def version_fits(wanted: SpecifierSet, version: str, *, floating: bool, local: str = "") -> bool:
    """Whether a specifier includes a version or, if the version is rolling, any release in its series.

    `plan` checks again once the channel's index has determined the exact release. `local` is the local
    version of the releases in the series: `+rocm6.2`.
    """
    if wanted.contains(version_of(version)):
        return True
    if not floating:
        return False
    if any(_is_build_of(each.version, version) for each in wanted if each.operator in ("==", "===")):
        return True
    return any(wanted.contains(f"{version}.{patch}{local}") for patch in _representative_patches(wanted))


def _representative_patches(wanted: SpecifierSet) -> set[int]:
    """Pick patch numbers to test: the range's bounds, their neighbors, 0 and 99."""
    patches = {0, 99}
    for each in wanted:
        release = version_of(each.version.removesuffix(".*")).release
        if len(release) > 2:
            patches |= {max(0, release[2] - 1), release[2], release[2] + 1}
    return patches


def _is_build_of(version: str, series_of_row: str) -> bool:
    """Whether a version is a pre-release of a series, such as nightly build 10.2.0a20261001 of 10.2."""
    parsed = version_of(version.removesuffix(".*"))
    return parsed.is_prerelease and ".".join(map(str, (*parsed.release, 0)[:2])) == series_of_row


@cache
def newest_first(version: str) -> tuple[tuple[int, ...], ...]:
    """Sort key that puts the newest version first."""
    parsed = version_of(version)
    release = tuple(-part for part in parsed.release) + (0,) * (4 - len(parsed.release))
    # Pre-releases come after their release, post-releases before it.
    pre = (1, *_stage(parsed)) if parsed.is_prerelease else (0,)
    return (tuple(-part for part in (parsed.epoch,)), release, (-(parsed.post or 0),), pre)


def _stage(version: Version) -> tuple[int, int]:
    letter, number = version.pre or ("", 0)
    return -{"": 0, "a": 1, "b": 2, "rc": 3}[letter], -number


def joined(texts: Sequence[str], limit: int = 6) -> str:
    """Join strings with commas, showing at most `limit` of them: `a, b and 3 more`."""
    shown = ", ".join(texts[:limit])
    return shown if len(texts) <= limit else f"{shown} and {len(texts) - limit} more"
