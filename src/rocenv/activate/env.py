"""The input for rendering scripts and hooks, and placeholders in resource files.

Scripts are files in `shells/resources` that people can read and shells can check. `__NAME__` is a
placeholder; lines that start with `##` are for maintainers and are removed.
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

# Written last by `create`, so it marks an env as complete.
MARKER = (".rocenv", "record.json")
# Folders in an env whose content belongs to its users; an image contains none of it.
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
    # `{prefix}` in values is replaced; each variable is set or unset once, or only prepended to.
    changes: tuple[EnvChange, ...]
    watched: tuple[str, ...]  # variables to report if they are set, although the env does not change them

    @property
    def ident(self) -> str:
        """An identifier of letters and digits, unique among the envs in a shell."""
        return ident(self.prefix)

    def cached(self, change: EnvChange) -> str | None:
        """Return a value's path below the cache folder, which the user can choose; None = another."""
        if self.platform != "linux" or change.action != "set":
            return None
        return rules.below_cache(change.value, self.prefix)

    @property
    def caches(self) -> dict[str, str]:
        """Variables for cache folders, and their paths below the common cache folder."""
        return {each.name: rest for each in self.changes if (rest := self.cached(each)) is not None}

    @property
    def label(self) -> str:
        """The name, safe to show in a prompt or comment."""
        return label(self.name)

    @property
    def changed(self) -> tuple[str, ...]:
        """The variables that the env changes, each once."""
        return rules.names(self.changes, self.platform)

    @property
    def after(self) -> dict[str, str]:
        """The result of applying the changes to an empty environment."""
        return rules.apply(self.changes, {}, self.platform)

    @property
    def lists(self) -> dict[str, tuple[str, ...]]:
        """Variables that the env only prepends entries to."""
        found = {name: rules.entries(self.changes, name, self.platform) for name in self.changed}
        return {name: entries for name, entries in found.items() if entries}

    def path(self, *names: str) -> str:
        """Return the absolute path of a file in the prefix."""
        return ("\\" if self.platform == "windows" else "/").join((self.prefix, *names))

    @property
    def marker(self) -> str:
        """A file that exists if and only if the env does."""
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
    """What an exporter needs to know besides the env."""

    base: str = ""  # container image of the distribution on which the env was made
    has_loader: bool = False  # programs start through the env's own dynamic loader
    folders: tuple[str, ...] = ()  # folders outside the env that it needs
    image: str = ""  # path of the image file


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Machine-specific values for a hook."""

    program: str  # absolute path of rocenv, or just its name
    envs: str  # the folder of envs if ROCENV_HOME is unset or empty; otherwise $ROCENV_HOME/envs


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """Code for a shell's start-up file, and how to install it."""

    file: str  # the start-up file, as users would type it
    line: str  # the line to add to it
    render: Callable[[Place], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """A shell's activation support."""

    file_name: str  # of the script in the prefix
    platforms: tuple[str, ...]  # platforms whose envs it can activate, as in `Lock.platform`
    quote: Callable[[str], str]  # quotes text as one literal word
    source: Callable[[str], str]  # returns the command that sources the script at this path
    files: Callable[[Env], Mapping[str, str]]  # path relative to the prefix -> text
    encode: Callable[[str], bytes] = os.fsencode  # keeps paths that are not UTF-8
    hook: Hook | None = None


def ident(prefix: str) -> str:
    """Return an identifier of letters and digits for an env at this path."""
    import hashlib

    return hashlib.sha256(os.fsencode(prefix)).hexdigest()[:12]


def copied(name: str, made_for: str) -> str:
    """Return the message that a script or program shows in a moved or copied env."""
    return (
        f"this env was made for {made_for}, and its scripts use files there; "
        f"`rocenv show {label(name)}` shows how to use it here"
    )


def changes_for_user(lock: Lock, prefix: str, environ: Mapping[str, str]) -> tuple[EnvChange, ...]:
    """Expand an env's changes; if the user cannot write to the env, caches are in the user's own folder."""
    return rules.expand(lock.environment, prefix, users_cache(lock.platform, prefix, environ))


def users_cache(platform: str, prefix: str, environ: Mapping[str, str]) -> str:
    """Return this user's cache folder if the user cannot write to the env's; "" otherwise.

    Images contain no `cache`, because a FUSE filesystem may report everything as writable.
    """
    if platform != "linux" or os.access(f"{prefix}/cache", os.W_OK):
        return ""
    base, own = environ.get("XDG_CACHE_HOME", ""), f"/rocenv/{ident(prefix)}"
    if not base.startswith("/"):
        base = f"{environ.get('HOME', '')}/.cache"
    return base if base.endswith(own) else base + own  # it ends so while the env is active


def fill(resource: str, words: Mapping[str, str]) -> str:
    """Fill a resource file's placeholders."""
    return fill_script(resource_text(resource), words)


def resource_text(resource: str) -> str:
    """Read a resource file without its comments for maintainers.

    bash and fish spend most of the sourcing time on reading the script, so indentation is removed for them.
    """
    text = _NOTE.sub("", (RESOURCES / resource).read_text(encoding="utf-8"))
    return _INDENTATION.sub("", text) if resource.endswith((".sh", ".fish")) else text


def label(name: str) -> str:
    """Replace characters that some shell would expand in a prompt with `?`."""
    return "".join(c if c.isalnum() or c in _SHOWN_AS_IS else "?" for c in name)
