"""What the scripts and hooks of all shells are rendered from, and the filling of their resource files.

The scripts are files in `shells/resources` that a person can read and a shell can check as they are. A word
`__NAME__` in them is a placeholder; a line that begins with `##` is for maintainers and is left out.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.activate import changes as rules

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rocenv.core.model import EnvChange

# Written last by `create`, so it tells a complete env from a partial one.
MARKER = (".rocenv", "record.json")
EXECUTED_STATUS = 33
RESOURCES = Path(__file__).parent / "shells" / "resources"
_PLACEHOLDER = re.compile("__([A-Z]+(?:_[A-Z]+)*)__")
_NOTE = re.compile(r"^\s*(?:@rem )?##.*\n", re.MULTILINE)
_INDENTATION = re.compile(r"^ +", re.MULTILINE)
_SHOWN_AS_IS = frozenset(" ._+-@,=")


@dataclass(frozen=True, slots=True, kw_only=True)
class Env:
    """An env as its scripts see it, at the prefix that they are rendered for."""

    name: str
    prefix: str
    platform: str
    # `{prefix}` in their values is replaced; a variable is set or unset once, or only prepended to.
    changes: tuple[EnvChange, ...]
    watched: tuple[str, ...]  # variables to report if they are set, although nothing changes them

    @property
    def ident(self) -> str:
        """Letters and digits that tell this env from others in one shell."""
        import hashlib

        return hashlib.sha256(os.fsencode(self.prefix)).hexdigest()[:12]

    @property
    def label(self) -> str:
        """The name, safe to show in a prompt and in a comment."""
        return label(self.name)

    @property
    def changed(self) -> tuple[str, ...]:
        """The names of the variables that it changes, each once."""
        return rules.names(self.changes, self.platform)

    @property
    def after(self) -> dict[str, str]:
        """What it makes of an empty environment."""
        return rules.apply(self.changes, {}, self.platform)

    @property
    def lists(self) -> dict[str, tuple[str, ...]]:
        """The variables to which it prepends entries and does nothing else."""
        found = {name: rules.entries(self.changes, name, self.platform) for name in self.changed}
        return {name: entries for name, entries in found.items() if entries}

    def path(self, *names: str) -> str:
        """A path below the prefix."""
        return ("\\" if self.platform == "windows" else "/").join((self.prefix, *names))

    @property
    def marker(self) -> str:
        """A file that exists as long as the env does."""
        return self.path(*MARKER)

    @property
    def gone(self) -> str:
        """What a script says where the env does not exist any more."""
        return f"there is no env at {self.prefix} any more; `rocenv list` shows those that there are"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a hook has to know of the machine."""

    program: str  # absolute path of rocenv, or its bare name
    envs: str  # the folder of envs where ROCENV_HOME is unset or empty; else it is $ROCENV_HOME/envs


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """The code for a shell's start-up file, and how it gets there."""

    file: str  # the start-up file, as people write it
    line: str  # the one line for it
    render: Callable[[Place], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """How an env is activated in a shell."""

    file_name: str  # of the script in the prefix
    platforms: tuple[str, ...]  # whose envs it activates, as in `Lock.platform`
    quote: Callable[[str], str]  # a text as one literal word
    source: Callable[[str], str]  # what a person types to source the script at this path
    files: Callable[[Env], Mapping[str, str]]  # path below the prefix -> text
    encode: Callable[[str], bytes] = os.fsencode  # paths that are not UTF-8 are kept as they are
    hook: Hook | None = None


def fill(resource: str, words: Mapping[str, str]) -> str:
    """Fill the placeholders of a resource file in one pass, since a value may look like a placeholder."""
    return fill_text(resource_text(resource), words)


def resource_text(resource: str) -> str:
    """A resource file without the lines for maintainers.

    Reading a script is most of what sourcing it costs in bash and fish, so theirs are without indentation.
    """
    text = _NOTE.sub("", (RESOURCES / resource).read_text(encoding="utf-8"))
    return _INDENTATION.sub("", text) if resource.endswith((".sh", ".fish")) else text


def fill_text(text: str, words: Mapping[str, str]) -> str:
    """Fill the placeholders of a text in one pass."""
    return _PLACEHOLDER.sub(lambda found: words[found[1]], text)


def label(name: str) -> str:
    """Replace every character that some shell would expand in a prompt by `?`."""
    return "".join(c if c.isalnum() or c in _SHOWN_AS_IS else "?" for c in name)
