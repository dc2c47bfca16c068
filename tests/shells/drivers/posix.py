"""bash, zsh, dash and ksh."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tests.shells.driver import Driver, Work, program

if TYPE_CHECKING:
    from pathlib import Path

_NAMES = """
    cd hash printf echo source test unalias typeset emulate unset export eval set shift exit read
    rocenv true false
""".split()
# Names that plain sh accepts as function names.
_ORDINARY = "cd hash printf echo source test unalias emulate read".split()
# Builtins that cannot be reached once functions have replaced them.
_WAYS_PAST = ["command", "builtin", "local", "return"]


def aliases(names: list[str]) -> str:
    names = [*names, *_WAYS_PAST, "alias"]  # last, because it redefines `alias` itself
    return "\n".join(f"alias {name}='touch canary; false'" for name in names)


def functions(names: list[str]) -> str:
    return "\n".join(f"{name}() {{ touch canary; }}" for name in names)


class Posix(Driver):
    flags: ClassVar[tuple[str, ...]] = ()

    def argv(self, script: Path) -> list[str]:
        return [program(self.program), *self.flags, str(script)]

    def quote(self, text: str) -> str:
        return "'" + text.replace("'", "'\"'\"'") + "'"

    def put(self, name: str, value: str) -> str:
        return f"{name}={self.quote(value)}; export {name}"

    def erase(self, name: str) -> str:
        return f"unset {name}"

    def put_own(self, name: str, value: str) -> str:
        return f"{name}={self.quote(value)}"

    def surround(self, name: str, front: str, back: str) -> str:
        return f"{name}={self.quote(front)}:${name}:{self.quote(back)}"

    def source(self, script: Path) -> str:
        # Bypass a `.` alias, because the typed command is not under test.
        return f"\\. {self.quote(str(script))}"

    def attempt(self, code: str) -> str:
        return code

    def list_names(self) -> str:
        return "set; alias"

    def load_hook(self, file: Path) -> str:
        return f'eval "$(cat {self.quote(str(file))})"'


class Bash(Posix):
    name = "bash"
    program = "bash"
    flags = ("--norc", "--noprofile")
    modes: ClassVar[dict[str, str]] = {
        "plain": "",
        "nounset": "set -u",
        "errexit": "set -e",
        "both": "set -eu",
        "pipefail": "set -euo pipefail; shopt -s inherit_errexit nullglob extglob nocasematch",
        "traps": "set -ETe; trap 'echo trapped; exit 9' ERR",
        "allexport": "set -a",
        "prompt": "PS1='$ '",
    }
    oddities: ClassVar[dict[str, str]] = {
        "aliases": "shopt -s expand_aliases\n" + aliases(_NAMES),
        "functions": functions(_NAMES),
        "IFS": "IFS=/_Ri",
        "empty IFS": "IFS=",
        "noglob": "set -fC",
        "CDPATH": "CDPATH=/usr:/",
        "posix": "set -o posix",
    }

    def interactive(self, work: Work) -> list[str]:
        return [program("bash"), *self.flags, "--noediting", "-i"]

    def start_up(self, code: str) -> list[str]:
        return [*super().start_up(code), "set -o histexpand"]


class Zsh(Posix):
    name = "zsh"
    program = "zsh"
    flags = ("-f",)
    modes: ClassVar[dict[str, str]] = {
        "plain": "",
        "nounset": "set -u",
        "errexit": "set -e",
        "both": "set -eu",
        "pipefail": "setopt ERR_EXIT NO_UNSET PIPE_FAIL RC_QUOTES",
        "warnings": "setopt WARN_CREATE_GLOBAL WARN_NESTED_VAR POSIX_BUILTINS NO_GLOBAL_EXPORT",
        "allexport": "setopt ALL_EXPORT",
    }
    oddities: ClassVar[dict[str, str]] = {
        "aliases": aliases(_NAMES),
        "functions": functions(_NAMES),
        "IFS": "IFS=/_Ri",
        "noglob": "set -fC",
        "CDPATH": "CDPATH=/usr:/",
        "ksh": "setopt KSH_ARRAYS SH_WORD_SPLIT GLOB_SUBST KSH_GLOB NO_NOMATCH",
        "globs": "setopt EXTENDED_GLOB NULL_GLOB IGNORE_BRACES PROMPT_SUBST SH_FILE_EXPANSION",
    }

    def interactive(self, work: Work) -> list[str]:
        return [program("zsh"), "-f", "-o", "NO_ZLE", "-i"]

    def start_up(self, code: str) -> list[str]:
        return [*super().start_up(code), "setopt PROMPT_SUBST PROMPT_BANG PROMPT_PERCENT"]

    def list_names(self) -> str:
        return "set; typeset -f; alias"


class Dash(Posix):
    name = "dash"
    program = "dash"
    has_own_variables = False  # dash cannot tell its own variables from environment variables
    modes: ClassVar[dict[str, str]] = {
        "plain": "",
        "nounset": "set -u",
        "errexit": "set -e",
        "both": "set -eu",
        "allexport": "set -a",
    }
    oddities: ClassVar[dict[str, str]] = {
        "aliases": aliases(_NAMES),
        "functions": functions([*_ORDINARY, "typeset"]),
        "IFS": "IFS=/_Ri",
        "no IFS": "unset IFS",
        "noglob": "set -fC",
        "CDPATH": "CDPATH=/usr:/",
    }

    def interactive(self, work: Work) -> list[str]:
        return [program("dash"), "-i"]


class Ksh(Dash):
    name = "ksh"
    program = "ksh"
    has_own_variables = True
    oddities: ClassVar[dict[str, str]] = {
        **Dash.oddities,
        "functions": functions(_ORDINARY),
    }

    def interactive(self, work: Work) -> list[str]:
        return [program("ksh"), "+o", "emacs", "-i"]

    def list_names(self) -> str:
        return "set; alias; typeset -f"
