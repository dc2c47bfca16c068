"""Settings of programs that decide how much GPU memory they take, and ways to get memory back."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from rocenv.data.known import Known

if TYPE_CHECKING:
    from rocenv.data.rows import Matrix


class Knob(Known, frozen=True, kw_only=True):
    """A setting of a program and what it buys.

    Sizes are those of the memory that programs can fill, in GiB rounded to whole ones, as cards are sold.
    """

    IDENTITY = ("program", "key")
    RANGES = ("torch",)

    program: str  # as `mem --for` has it
    key: str
    title: str  # "size of textures"
    where: Literal["setting", "argument", "variable", "note"]  # a note is nothing to set
    set: str = ""  # what is set, as it is written there; for variables "" = `variables` and `value` say it
    place: str = ""  # where in the program a setting is found
    text: str  # what it buys, and what it costs
    variables: tuple[str, ...] = ()  # of the environment, all set alike
    value: str = ""  # for those
    arguments: tuple[str, ...] = ()  # of the program, as words
    # Rows of one choice are alternatives: the one of lowest rank whose conditions hold is taken
    choice: str = ""  # "" = it is none
    rank: int = 1  # 0 = it comes before everything else
    from_gib: float = 0  # only for cards with as much memory
    to_gib: float = 0  # only for cards with at most as much; 0 = any
    platforms: tuple[str, ...] = ("linux", "windows")
    integrated: bool | None = None  # only for APUs, or only for cards
    torch: str = ""  # PEP 440: only with these
    targets: tuple[str, ...] = ()  # only for these

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Yield settings that cannot exist, or that another one must not meet."""
        if bool(self.variables) != (self.where == "variable") or bool(self.value) != bool(self.variables):
            yield '`variables` and `value` go together, and with `where = "variable"` only'
        if self.to_gib and self.to_gib < self.from_gib:
            yield "`to_gib` is below `from_gib`"
        for rule in matrix.never_together:
            yield from rule.violations(self.variables, self.value)
            rivals = [row for row in matrix.knob if row.program == self.program and row.sets(rule.variables)]
            if self in rivals and len(rivals) > 1 and {row.choice for row in rivals} != {self.choice or None}:
                yield f"all settings of {', '.join(rule.variables)} need the same `choice`: only one is taken"

    def sets(self, variables: tuple[str, ...]) -> bool:
        """Tell whether it sets one of these variables."""
        return bool(set(self.variables) & set(variables))


class NeverTogether(Known, frozen=True, kw_only=True):
    """Words that must not meet in the values of variables."""

    IDENTITY = ("words",)

    variables: tuple[str, ...]  # names for the same; what stands in one counts for all
    words: tuple[str, ...]
    off: tuple[str, ...] = ()  # what holds a word only to switch it off
    text: str  # what happens where they do

    def violations(self, names: tuple[str, ...], value: str) -> Iterator[str]:
        """Yield a complaint if a value of one of these variables contains all the words."""
        if set(names) & set(self.variables) and self.held(value) == self.words:
            yield f"`{value}` combines {' and '.join(self.words)}, which must never meet in {names[0]}"

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Yield a complaint unless there are words that can meet."""
        if len(self.words) < 2 or not self.variables:
            yield "`words` needs two entries, and `variables` one"

    def held(self, value: str) -> tuple[str, ...]:
        """The words that a value contains and does not switch off."""
        value = "".join(value.split())  # blanks count for nothing
        for text in self.off:
            value = value.replace(text, "")
        return tuple(word for word in self.words if word in value)


class Reclaim(Known, frozen=True, kw_only=True):
    """How a program that holds GPU memory without using it is asked to give it back.

    It is known by its process name, or as a script beside certain files. In commands `{port}` is
    what its command line says, else the usual one.
    """

    IDENTITY = ("program",)

    program: str
    title: str
    processes: tuple[str, ...] = ()  # patterns of process names
    scripts: tuple[str, ...] = ()  # file names of what an interpreter runs
    signs: tuple[str, ...] = ()  # files beside the script that are all there
    unlike: tuple[str, ...] = ()  # files beside it that are not: they are a relative's
    port_argument: str = ""
    port: int = 0
    text: str
    command: str  # for the shells of Unix
    powershell: str  # the same for PowerShell
