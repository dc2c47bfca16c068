"""Rows about GPU memory: settings of programs, conflicts, and programs that release memory."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from rocenv.data.known import Known

if TYPE_CHECKING:
    from rocenv.data.rows import Matrix


class Setting(Known, frozen=True, kw_only=True):
    """A setting of a program that decides how much GPU memory it takes.

    Sizes are GiB of the memory that programs can fill, rounded to whole numbers as cards are sold.
    """

    IDENTITY = ("program", "key")
    RANGES = ("torch",)

    program: str  # as `mem settings` takes it
    key: str
    title: str  # "texture size"
    where: Literal["setting", "argument", "variable", "note"]  # a note sets nothing
    set: str = ""  # the value as people type it; "" for variables, which have `variables` and `value`
    place: str = ""  # where the program shows the setting
    text: str  # what it saves, and what it costs
    variables: tuple[str, ...] = ()  # environment variables, all set alike
    value: str = ""  # of the variables
    arguments: tuple[str, ...] = ()  # of the program
    # Rows with the same choice are alternatives: the one with the lowest rank whose conditions hold wins
    choice: str = ""  # "" = none
    rank: int = 1  # 0 = shown before everything else
    from_gib: float = 0  # only for GPUs with at least this much
    to_gib: float = 0  # only for GPUs with at most this much; 0 = any
    platforms: tuple[str, ...] = ("linux", "windows")
    integrated: bool | None = None  # only for APUs (true) or discrete GPUs (false)
    torch: str = ""  # PEP 440: only with these
    targets: tuple[str, ...] = ()  # only for these

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Yield settings that cannot exist, or that collide with another one."""
        if bool(self.variables) != (self.where == "variable") or bool(self.value) != bool(self.variables):
            yield '`variables` and `value` go together, and only with `where = "variable"`'
        if self.to_gib and self.to_gib < self.from_gib:
            yield "`to_gib` is below `from_gib`"
        for rule in matrix.never_together:
            yield from rule.violations(self.variables, self.value)
            rivals = [
                row for row in matrix.setting if row.program == self.program and row.sets(rule.variables)
            ]
            if self in rivals and len(rivals) > 1 and {row.choice for row in rivals} != {self.choice or None}:
                yield f"all settings of {', '.join(rule.variables)} need the same `choice`: one is used"

    def sets(self, variables: tuple[str, ...]) -> bool:
        """Return whether it sets one of these variables."""
        return bool(set(self.variables) & set(variables))


class NeverTogether(Known, frozen=True, kw_only=True):
    """Words that conflict in the values of variables."""

    IDENTITY = ("words",)

    variables: tuple[str, ...]  # names of the same variable; a value in one counts for all
    words: tuple[str, ...]
    off: tuple[str, ...] = ()  # texts that contain a word only to switch it off
    text: str  # what happens if they occur together

    def violations(self, names: tuple[str, ...], value: str) -> Iterator[str]:
        """Yield a complaint if a value of one of these variables contains all the words."""
        if set(names) & set(self.variables) and self.contained(value) == self.words:
            yield f"`{value}` combines {' and '.join(self.words)}, which conflict in {names[0]}"

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Yield a complaint unless there are words that can conflict."""
        if len(self.words) < 2 or not self.variables:
            yield "`words` needs two entries, and `variables` one"

    def contained(self, value: str) -> tuple[str, ...]:
        """Return the words that a value contains and does not switch off."""
        value = "".join(value.split())  # torch ignores blanks
        for text in self.off:
            value = value.replace(text, "")
        return tuple(word for word in self.words if word in value)


class Reclaim(Known, frozen=True, kw_only=True):
    """A program that keeps GPU memory while it is idle, and the command that asks it to release some.

    It is recognised by its process name, or as a script next to certain files. `{port}` in a command is the
    port that its command line names, else the usual one.
    """

    IDENTITY = ("program",)

    program: str
    title: str
    processes: tuple[str, ...] = ()  # patterns of process names
    scripts: tuple[str, ...] = ()  # names of scripts that an interpreter runs
    beside: tuple[str, ...] = ()  # files that are all next to the script
    not_beside: tuple[str, ...] = ()  # files next to the script of a related program
    port_argument: str = ""
    port: int = 0
    text: str
    command: str  # for Unix shells
    powershell: str
