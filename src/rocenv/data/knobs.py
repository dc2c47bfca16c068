"""Settings of programs that decide how much GPU memory they take, and ways to get memory back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rocenv.data.known import Known


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob(Known):
    """A setting of a program and what it buys. Table `knob`.

    Sizes are those of the memory that programs can fill, in GiB rounded to whole ones, as cards are sold.
    """

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


@dataclass(frozen=True, slots=True, kw_only=True)
class NeverTogether(Known):
    """Words that must not meet in the values of variables. Table `never_together`."""

    variables: tuple[str, ...]  # names for the same; what stands in one counts for all
    words: tuple[str, ...]
    off: tuple[str, ...] = ()  # what holds a word only to switch it off
    text: str  # what happens where they do

    def held(self, value: str) -> tuple[str, ...]:
        """Return the words that stand in a value and are not switched off there."""
        value = "".join(value.split())  # blanks count for nothing
        for text in self.off:
            value = value.replace(text, "")
        return tuple(word for word in self.words if word in value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reclaim(Known):
    """How a program that holds GPU memory without using it is asked to give it back. Table `reclaim`.

    It is known by its process name, or as a script that lies beside certain files. In commands `{port}` is
    what its command line says, else the usual one.
    """

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


TABLES: dict[str, type[Known]] = {"knob": Knob, "never_together": NeverTogether, "reclaim": Reclaim}
