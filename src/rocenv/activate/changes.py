"""Environment changes as data, and their effect on an environment.

`apply` computes the resulting environment. `rocenv run` uses it directly, and sourcing a script in any shell
must produce the same result. Lists and names follow the set's platform: `:` or `;` between entries;
Windows compares names and entries case-insensitively and does not support empty variables.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING

from rocenv.core.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rocenv.core.model import EnvChange

SEPARATORS = {"linux": ":", "windows": ";"}
_PREFIX = "{prefix}"
_PREFIX_URL = "{prefix_url}"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# Variables that shells reserve: changing one would break the shell that sources the script.
_SHELL_OWN = {
    "linux": frozenset(
        {"IFS", "PS1", "PS2", "PS4", "ENV", "BASH_ENV", "SHELLOPTS", "BASHOPTS", "UID", "EUID", "PPID"}
    ),
    # Source: `set /?` in cmd, "dynamic environment variables"
    "windows": frozenset(
        {"PROMPT", "COMSPEC", "PATHEXT", "SYSTEMROOT", "CD", "DATE", "TIME", "RANDOM", "ERRORLEVEL"}
        | {"CMDEXTVERSION", "CMDCMDLINE", "PSMODULEPATH"}
    ),
}


def same(text: str, platform: str) -> str:
    """Normalize a name or list entry for comparison on the platform."""
    return text.upper() if platform == "windows" else text


def expand(changes: Sequence[EnvChange], prefix: str, cache: str = "") -> tuple[EnvChange, ...]:
    """Replace `{prefix}` and `{prefix_url}` in the values of the changes.

    The prefix is inserted as given, with backslashes on Windows. Its URL is percent-encoded. If `cache` is
    given, it replaces the prefix's own cache folder.
    """
    from msgspec.structs import (
        replace,
    )  # imported late, because hooks do not use values

    def put(value: str) -> str:
        if cache and (rest := below_cache(value, "{prefix}")) is not None:
            return cache + put(rest)
        if _PREFIX_URL in value:
            value = value.replace(_PREFIX_URL, _url(prefix))
        return value.replace(_PREFIX, prefix)

    return tuple(replace(change, value=put(change.value)) for change in changes)


def below_cache(value: str, prefix: str) -> str | None:
    """Return the part of a path below the prefix's cache folder, or None if the path is elsewhere."""
    rest = value.removeprefix(f"{prefix}/cache")
    return rest if rest != value and rest[:1] in ("", "/") else None


def _url(prefix: str) -> str:
    path = PureWindowsPath(prefix)
    return (path if path.drive else PurePosixPath(prefix)).as_uri()


def apply(
    changes: Sequence[EnvChange], environ: Mapping[str, str], platform: str = "linux"
) -> dict[str, str]:
    """Apply the changes in order to a copy of `environ`.

    A prepended entry comes first, and existing copies are removed. Empty entries, which stand for the current
    folder on Linux, are dropped. Names keep their spelling in `environ`.
    """
    after = dict(environ)
    spelling = {same(name, platform): name for name in after}
    for change in changes:
        name = spelling.setdefault(same(change.name, platform), change.name)
        if change.action == "prepend":
            rest = _without(after.get(name, ""), change.value, platform)
            after[name] = SEPARATORS[platform].join([change.value, *rest])
        elif change.action == "unset" or (platform == "windows" and not change.value):
            after.pop(name, None)
        else:
            after[name] = change.value
    return after


def _without(value: str, entry: str, platform: str) -> list[str]:
    unwanted = same(entry, platform)
    rest = [other for other in value.split(SEPARATORS[platform]) if same(other, platform) != unwanted]
    # On Windows, a list of only empty entries counts as empty: they have no meaning, and cmd cannot detect
    # them.
    return rest if value and (platform != "windows" or any(rest)) else []


def names(changes: Sequence[EnvChange], platform: str = "linux") -> tuple[str, ...]:
    """List the names that the changes affect, without duplicates, in order."""
    found: dict[str, str] = {}
    for change in changes:
        found.setdefault(same(change.name, platform), change.name)
    return tuple(found.values())


def entries(changes: Sequence[EnvChange], name: str, platform: str = "linux") -> tuple[str, ...]:
    """List the entries prepended to `name`, in order, or () if `name` also changes in another way.

    Such a list is undone entry by entry, which keeps entries that the user has added.
    """
    own = [change for change in changes if same(change.name, platform) == same(name, platform)]
    return tuple(c.value for c in own) if all(c.action == "prepend" for c in own) else ()


def reduced(changes: Sequence[EnvChange], platform: str = "linux") -> tuple[EnvChange, ...]:
    """Simplify changes so that each variable is either set once, unset once, or only prepended to."""
    from rocenv.core.model import EnvChange  # imported late, as above

    after = apply(changes, {}, platform)
    found: list[EnvChange] = []
    for name in names(changes, platform):
        if own := entries(changes, name, platform):
            found += (EnvChange(action="prepend", name=name, value=entry) for entry in own)
        elif name in after:
            found.append(EnvChange(action="set", name=name, value=after[name]))
        else:
            found.append(EnvChange(action="unset", name=name))
    return tuple(found)


def leftovers(
    changes: Sequence[EnvChange], watched: Sequence[str], platform: str = "linux"
) -> tuple[str, ...]:
    """List watched names that the changes do not affect."""
    touched = {same(name, platform) for name in names(changes, platform)}
    return tuple(name for name in watched if same(name, platform) not in touched)


def require_valid(changes: Sequence[EnvChange], platform: str = "linux") -> None:
    """Raise DataError for a change that a shell cannot apply or would run as code."""
    for change in changes:
        name = same(change.name, platform)
        if not _NAME.fullmatch(name) or name in _SHELL_OWN[platform] or name.startswith("_ROCENV"):
            raise DataError(f"an env cannot change the variable `{change.name}`")
        if "\0" in change.value:
            raise DataError(f"the value of `{change.name}` contains a NUL character")
        # A `%` in a URL is safe, because URLs are neither list entries nor program arguments.
        is_address = change.action == "set" and change.value.startswith("file:")
        text = change.value.replace("%", "") if is_address else change.value
        if platform == "windows" and (found := against_cmd(text)):
            raise DataError(f"the value of `{change.name}` contains {found}, which cmd does not support")
        if change.action == "prepend" and (not change.value or SEPARATORS[platform] in change.value):
            raise DataError(f"cannot prepend `{change.value}` to `{change.name}`: it is not a single entry")


def against_cmd(text: str) -> str:
    """Describe the first character that is unsafe in a batch file even within quotes, or return "".

    Within quotes, cmd takes `&`, `|`, `<`, `>` and parentheses literally. But a quotation mark in the text
    ends the quoting, each `call` expands a `%` again and doubles a `^`, and delayed expansion, which
    many scripts enable, removes a `!`.

    Source: "How does the Windows Command Interpreter (CMD.EXE) parse scripts?", Stack Overflow 4094699
    """
    for char in text:
        if char in '"%!^':
            return f"`{char}`"
        if ord(char) < 32 or ord(char) == 127 or "\ud800" <= char <= "\udfff":
            return "an unprintable character"
    return ""


def lines(changes: Sequence[EnvChange], platform: str = "linux") -> Iterator[str]:
    """Yield each variable's change in a readable form: `PATH=/env/bin:$PATH`, `unset X`."""
    after = apply(changes, {}, platform)
    for name in names(changes, platform):
        if name not in after:
            yield f"unset {name}"
        elif entries(changes, name, platform):
            before = f"%{name}%" if platform == "windows" else f"${name}"
            yield f"{name}={after[name]}{SEPARATORS[platform]}{before}"
        else:
            yield f"{name}={after[name]}"
