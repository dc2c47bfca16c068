"""The input for rendering scripts and hooks, and the placeholders in resource files.

Scripts are files in `shells/resources`, so that people can read them and linters can check them. `__NAME__`
is a placeholder; lines that start with `##` are comments for maintainers and are removed.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.activate import changes as rules
from rocenv.core.template import fill_script

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rocenv.core.model import EnvChange, Lock

# `create` writes this file last, so it marks an env as complete.
MARKER = (".rocenv", "record.json")
# Folders in an env whose contents belong to its users, so images do not include them.
OF_USERS = ("cache", "logs")
EXECUTED_STATUS = 33
RESOURCES = Path(__file__).parent / "shells" / "resources"
_NOTE = re.compile(r"^\s*(?:@rem )?##.*\n", re.MULTILINE)
_INDENTATION = re.compile(r"^ +", re.MULTILINE)
_SHOWN_AS_IS = frozenset(" ._+-@,=")


@dataclass(frozen=True, slots=True, kw_only=True)
class Env:
    """The input for rendering an env's scripts at a given prefix."""

    name: str
    prefix: str
    platform: str
    # From `reduced`, with `{prefix}` already replaced in values.
    changes: tuple[EnvChange, ...]
    watched: tuple[str, ...]  # other variables to report if they are set

    @property
    def ident(self) -> str:
        """An alphanumeric identifier that is unique among the envs in a shell."""
        return ident(self.prefix)

    def cached(self, change: EnvChange) -> str | None:
        """Return a value's path below the cache folder, which users can move, or None if it is elsewhere."""
        if self.platform != "linux" or change.action != "set":
            return None
        return rules.below_cache(change.value, self.prefix)

    @property
    def caches(self) -> dict[str, str]:
        """Variables for cache folders -> their paths below the common cache folder."""
        return {each.name: rest for each in self.changes if (rest := self.cached(each)) is not None}

    @property
    def label(self) -> str:
        """The name in a form that is safe in prompts and comments."""
        return label(self.name)

    @property
    def changed(self) -> tuple[str, ...]:
        """The variables that the env changes, without duplicates."""
        return rules.names(self.changes, self.platform)

    @property
    def after(self) -> dict[str, str]:
        """The result of applying the changes to an empty environment."""
        return rules.apply(self.changes, {}, self.platform)

    @property
    def lists(self) -> dict[str, tuple[str, ...]]:
        """Variables that the env only prepends to -> the entries."""
        found = {name: rules.entries(self.changes, name, self.platform) for name in self.changed}
        return {name: entries for name, entries in found.items() if entries}

    def path(self, *names: str) -> str:
        """Return the absolute path of a file in the prefix."""
        return ("\\" if self.platform == "windows" else "/").join((self.prefix, *names))

    @property
    def marker(self) -> str:
        """The path of a file that exists if and only if the env does."""
        return self.path(*MARKER)

    @property
    def gone(self) -> str:
        """The message that a script shows if its env no longer exists."""
        return f"the env at {self.prefix} no longer exists; `rocenv list` shows the envs"

    @property
    def copied(self) -> str:
        """The message that a script shows in a moved or copied env."""
        return copied(self.name, self.prefix)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What exporters need in addition to the env."""

    base: str = ""  # container image of the distribution on which the env was created
    has_loader: bool = False  # whether programs start through the env's own dynamic loader
    folders: tuple[str, ...] = ()  # folders outside the env that it needs
    image: str = ""  # path of the image file


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Machine-specific values for a hook."""

    program: str  # absolute path of rocenv, or just its name
    envs: str  # the folder of envs; hooks use $ROCENV_HOME/envs instead if ROCENV_HOME is not empty


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """Code for a shell's startup file, and how to install it."""

    file: str  # the startup file, as users would type it
    line: str  # the line to add to the file
    render: Callable[[Place], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """Support for activating envs in a shell."""

    file_name: str  # of the script in the prefix
    platforms: tuple[str, ...]  # platforms whose envs it can activate, as in `Lock.platform`
    quote: Callable[[str], str]  # quotes text as a single literal word
    source: Callable[[str], str]  # returns the command that sources the script at a path
    files: Callable[[Env], Mapping[str, str]]  # path relative to the prefix -> text
    encode: Callable[[str], bytes] = os.fsencode  # preserves paths that are not UTF-8
    hook: Hook | None = None


def ident(prefix: str) -> str:
    """Return an alphanumeric identifier for an env at this path."""
    import hashlib

    return hashlib.sha256(os.fsencode(prefix)).hexdigest()[:12]


def copied(name: str, made_for: str) -> str:
    """Return the message that a script or program shows in a moved or copied env."""
    return (
        f"this env was made for {made_for}, and its scripts use files there; "
        f"`rocenv show {label(name)}` shows how to use it here"
    )


def changes_for_user(lock: Lock, prefix: str, environ: Mapping[str, str]) -> tuple[EnvChange, ...]:
    """Expand an env's changes; caches go in the user's own folder if the env is not writable."""
    return rules.expand(lock.environment, prefix, users_cache(lock.platform, prefix, environ))


def users_cache(platform: str, prefix: str, environ: Mapping[str, str]) -> str:
    """Return the user's own cache folder if the env's cache is not writable, otherwise "".

    Images omit `cache`, which a FUSE filesystem might report as writable even if it is not.
    """
    if platform != "linux" or os.access(f"{prefix}/cache", os.W_OK):
        return ""
    base, own = environ.get("XDG_CACHE_HOME", ""), f"/rocenv/{ident(prefix)}"
    if not base.startswith("/"):
        base = f"{environ.get('HOME', '')}/.cache"
    return base if base.endswith(own) else base + own  # while the env is active, `base` includes `own`


def fill(resource: str, words: Mapping[str, str]) -> str:
    """Fill in a resource file's placeholders."""
    return fill_script(resource_text(resource), words)


def resource_text(resource: str) -> str:
    """Read a resource file without the comments for maintainers.

    bash and fish spend most of the sourcing time reading the script, so indentation is removed for them.
    """
    text = _NOTE.sub("", (RESOURCES / resource).read_text(encoding="utf-8"))
    return _INDENTATION.sub("", text) if resource.endswith((".sh", ".fish")) else text


def label(name: str) -> str:
    """Replace with `?` any character that a shell might expand in a prompt."""
    return "".join(c if c.isalnum() or c in _SHOWN_AS_IS else "?" for c in name)
