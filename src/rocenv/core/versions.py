"""What a SPEC allows: versions, series of versions, ranges."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from rocenv.core.errors import RocenvError

if TYPE_CHECKING:
    from collections.abc import Sequence


@lru_cache(maxsize=4096)
def specifier(text: str, option: str) -> SpecifierSet:
    """Return what a SPEC of the command line allows: `5.7` is 5.7 and its patch releases.

    Raises:
        RocenvError: It is neither a version nor a PEP 440 specifier; exit code 2.
    """
    text = text.strip()
    try:
        if text[:1].isdigit():
            series = text.removesuffix(".*")
            # A pre-release, a post-release or one with a local version is one release.
            text = f"=={series}.*" if series.replace(".", "").isdigit() else f"=={Version(text)}"
        return SpecifierSet("" if text == "*" else text, prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        error = RocenvError(
            f"`{text}` is no version for {option}",
            hints=(f"give a version (`{option} 5.7`) or a range (`{option} '>=6.1,<6.3'`)",),
            code="usage",
        )
        error.exit_code = 2
        raise error from None


def require_version(text: str, option: str) -> None:
    """Raise RocenvError, exit code 2, for what is no version."""
    try:
        Version(text)
    except InvalidVersion:
        error = RocenvError(
            f"`{text}` is no version for {option}",
            hints=(f"give a version: `{option} 25.4.1`",),
            code="usage",
        )
        error.exit_code = 2
        raise error from None


@cache
def version_of(text: str) -> Version:
    """Return the version that a text is."""
    return Version(text)


@cache
def _range(text: str) -> SpecifierSet:
    return SpecifierSet(text, prereleases=True)


@cache
def allows(text: str, version: str) -> bool:
    """Tell whether a range of the data allows a version; an empty range allows every one."""
    return not text or _range(text).contains(version_of(version))


@cache
def bounds(text: str) -> tuple[Version | None, Version | None]:
    """Return versions below and above which a range allows none; None = no such bound."""
    lows, highs = [], []
    for each in _range(text):
        version = Version(each.version.removesuffix(".*"))
        if each.operator in (">=", ">", "==", "~=", "==="):
            lows.append(Version(f"{version.base_version}.dev0"))
        if each.operator in ("<=", "<"):
            highs.append(Version(f"{version.base_version}.post999999"))
        if each.operator in ("==", "===", "~="):
            highs.append(_above(version, each.operator))
    return max(lows, default=None), min(highs, default=None)


def _above(version: Version, operator: str) -> Version:
    """Return a version above all that `==VERSION.*`, or `~=VERSION`, allows."""
    release = version.release[:-1] if operator == "~=" else version.release
    return Version(f"{version.epoch}!{'.'.join(map(str, (*release[:-1], release[-1] + 1)))}.dev0")


@cache
def wish(text: str, option: str) -> Wish:
    """Return what a SPEC of the command line asks for; "" and `*` for anything; raise as `specifier` does."""
    return Wish(text, option)


class Wish:
    """What a SPEC asks for."""

    def __init__(self, text: str, option: str) -> None:
        self._wanted = specifier(text or "*", option)
        self._lowest, self._highest = bounds(str(self._wanted))

    def meets(self, version: str, *, floating: bool = False, local: str = "") -> bool:
        """Tell whether a version is one that is asked for; see `version_fits`."""
        parsed = version_of(version)
        # Most versions are far off, which is found out faster than by asking the specifier.
        if self._highest is not None and parsed > self._highest:
            return False
        if self._lowest is not None and parsed < self._lowest:
            same_series = parsed.release[:2] == self._lowest.release[:2]
            if not (floating and same_series) and not local:
                return False
        return version_fits(self._wanted, version, floating=floating, local=local)


def version_fits(wanted: SpecifierSet, version: str, *, floating: bool, local: str = "") -> bool:
    """Tell whether a set's version is one that was asked for.

    The version of a floating set is only its series: it fits if any release of the series could, which `plan`
    checks again once the channel's index has named the exact one.
    """
    if wanted.contains(version_of(version)):
        return True
    if not floating:
        return False
    # A range can only begin or end at a version that it names.
    patches = {0, 99}
    for each in wanted:
        release = version_of(each.version.removesuffix(".*")).release
        if len(release) > 2:
            patches |= {max(0, release[2] - 1), release[2], release[2] + 1}
    return any(wanted.contains(f"{version}.{patch}{local}") for patch in patches)


@cache
def any_fits(text: str, versions: tuple[str, ...]) -> bool:
    """Tell whether one of several series is one that a SPEC for --python allows; "" allows all."""
    wanted = specifier(text or "*", "--python")
    return any(version_fits(wanted, version, floating=True) for version in versions)


@cache
def series(version: str) -> str:
    """Return the series of a version: `6.2.4` is of `6.2`."""
    return ".".join(version.split(".")[:2])


@cache
def newest_first(version: str) -> tuple[tuple[int, ...], ...]:
    """Return a key that sorts versions with the newest first."""
    parsed = version_of(version)
    release = tuple(-part for part in parsed.release) + (0,) * (4 - len(parsed.release))
    # A pre-release comes after its release, a post-release before it.
    pre = (1, *_stage(parsed)) if parsed.is_prerelease else (0,)
    return (tuple(-part for part in (parsed.epoch,)), release, (-(parsed.post or 0),), pre)


def _stage(version: Version) -> tuple[int, int]:
    letter, number = version.pre or ("", 0)
    return -{"": 0, "a": 1, "b": 2, "rc": 3}[letter], -number


def joined(texts: Sequence[str], most: int = 6) -> str:
    """Return texts with commas, at most so many of them."""
    shown = ", ".join(texts[:most])
    return shown if len(texts) <= most else f"{shown} and {len(texts) - most} more"
