"""The shells that can activate an env. One module each; each prints code and knows nothing of envs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rocenv.activate.shells import batch, csh, elvish, fish, msys, nu, posix, powershell, xonsh

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a script is put together from; the code in it was printed by the same shell."""

    ident: str  # tells this env apart in a shell that has several active; letters and digits
    label: str  # the env's name, made safe to show in a prompt and in a comment
    name: str
    prefix: str
    platform: str
    script: str  # path that the script will have
    marker: str  # path of a file that is there as long as the env is
    exported: tuple[str, ...]  # names that are set in the end
    changed: tuple[str, ...]  # names that anything is done to
    lists: Mapping[str, tuple[str, ...]]  # those to which entries are prepended and nothing else is done
    leftovers: tuple[str, ...]  # names to report if they are set, beside those that are changed
    save: str
    change: tuple[str, ...]
    restore: tuple[str, ...]


class Shell(Protocol):
    """How one shell, or a family of them, says things."""

    @property
    def file_name(self) -> str:
        """Return the name of the script in the prefix."""

    @property
    def platforms(self) -> tuple[str, ...]:
        """Return the platforms whose sets it activates, as in `Lock.platform`."""

    def source(self, script: str) -> str:
        """Return what a person types to source the script."""

    def prefix_word(self, prefix: str) -> str:
        """Return what stands for the prefix in the values that are handed to the functions below."""

    def quote(self, value: str) -> str:
        """Return `value` as one literal word."""

    def save(self, ident: str, names: Sequence[str]) -> str:
        """Remember the values of those that are set, and whether they are exported."""

    def set(self, name: str, value: str) -> str:
        """Set."""

    def prepend(self, name: str, value: str) -> str:
        """Put an entry first, once."""

    def unset(self, name: str) -> str:
        """Make the variable absent."""

    def restore(self, ident: str, name: str, after: str | None, entries: Sequence[str]) -> str:
        """Put back what `save` remembered; after a change by the user take only `entries` out.

        Args:
            ident: See `Parts`.
            name: The variable.
            after: What the changes make of it; None = unset. Without meaning where there are `entries`.
            entries: What was prepended, if nothing else was done to the variable.
        """

    def assemble(self, parts: Parts) -> str:
        """Return the whole script."""

    def companions(self, parts: Parts) -> dict[str, str]:
        """Return the files that the script needs beside it: path below the prefix, with `/`, and text."""

    def encode(self, script: str) -> bytes:
        """Return a file's content."""


SHELLS: dict[str, Shell] = {
    "bash": posix,
    "cmd": batch,
    "dash": posix,
    "elvish": elvish,
    "fish": fish,
    "ksh": posix,
    "msys": msys,
    "nu": nu,
    "powershell": powershell,
    "sh": posix,
    "tcsh": csh,
    "xonsh": xonsh,
    "zsh": posix,
}
