"""Rows about GPU memory: program settings, conflicts, and programs that can release memory."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from rocenv.data.known import Known

if TYPE_CHECKING:
    from rocenv.data.rows import Matrix


class Setting(Known, frozen=True, kw_only=True):
    """A program's setting that affects GPU memory usage.

    Sizes are in GiB of usable memory, rounded to whole numbers as in product specifications.
    """

    IDENTITY = ("program", "key")
    RANGES = ("torch",)

    program: str  # the argument of `mem settings`
    key: str
    title: str  # "texture size"
    where: Literal["setting", "argument", "variable", "note"]  # `note`: only a hint, nothing to set
    set: str = ""  # value to enter; "" for variables, which use `variables` and `value`
    place: str = ""  # location in the program's UI
    text: str  # benefit and cost
    variables: tuple[str, ...] = ()  # environment variables, all set to `value`
    value: str = ""
    arguments: tuple[str, ...] = ()  # command-line arguments
    # Rows with the same choice are alternatives: among those whose conditions are true, the lowest rank wins.
    choice: str = ""  # "" if none
    rank: int = 1  # 0 to show it before everything else
    from_gib: float = 0  # minimum GPU memory
    to_gib: float = 0  # maximum GPU memory; 0 for any
    platforms: tuple[str, ...] = ("linux", "windows")
    integrated: bool | None = None  # only for APUs (true) or discrete GPUs (false)
    torch: str = ""  # PEP 440; torch versions that it applies to
    targets: tuple[str, ...] = ()  # targets that it applies to; () for all

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Report inconsistent fields, and conflicts with other settings."""
        if bool(self.variables) != (self.where == "variable") or bool(self.value) != bool(self.variables):
            yield '`variables`, `value` and `where = "variable"` require each other'
        if self.to_gib and self.to_gib < self.from_gib:
            yield "`to_gib` is below `from_gib`"
        for rule in matrix.never_together:
            yield from rule.violations(self.variables, self.value)
            rivals = [
                row for row in matrix.setting if row.program == self.program and row.sets(rule.variables)
            ]
            if self in rivals and len(rivals) > 1 and {row.choice for row in rivals} != {self.choice or None}:
                names = ", ".join(rule.variables)
                yield f"all settings for {names} need the same `choice`, because only one of them can apply"

    def sets(self, variables: tuple[str, ...]) -> bool:
        """Whether it sets one of these variables."""
        return bool(set(self.variables) & set(variables))


class NeverTogether(Known, frozen=True, kw_only=True):
    """Options that conflict within an environment variable's value."""

    IDENTITY = ("words",)

    variables: tuple[str, ...]  # aliases for one variable
    words: tuple[str, ...]
    off: tuple[str, ...] = ()  # strings that disable one of the words
    text: str  # what happens if they are combined

    def violations(self, names: tuple[str, ...], value: str) -> Iterator[str]:
        """Report a value for one of these variables if it contains all the words."""
        if set(names) & set(self.variables) and self.contained(value) == self.words:
            yield f"`{value}` combines {' and '.join(self.words)}, which conflict in {names[0]}"

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Report a row with fewer than two words or without variables."""
        if len(self.words) < 2 or not self.variables:
            yield "`words` needs at least two entries, and `variables` at least one"

    def contained(self, value: str) -> tuple[str, ...]:
        """Return the words that a value contains and does not disable."""
        value = "".join(value.split())  # torch ignores whitespace
        for text in self.off:
            value = value.replace(text, "")
        return tuple(word for word in self.words if word in value)


class Reclaim(Known, frozen=True, kw_only=True):
    """A program that keeps GPU memory while idle, and the command that makes it release some.

    rocenv recognizes it by its process name, or as a script next to certain files. In commands, `{port}` is
    the port from its command line, or the default port.
    """

    IDENTITY = ("program",)

    program: str
    title: str
    processes: tuple[str, ...] = ()  # patterns for process names
    scripts: tuple[str, ...] = ()  # names of its scripts, run by an interpreter
    beside: tuple[str, ...] = ()  # files that must all be next to the script
    not_beside: tuple[str, ...] = ()  # files next to the script if it belongs to a related program
    port_argument: str = ""
    port: int = 0
    text: str
    command: str  # for Unix shells
    powershell: str
