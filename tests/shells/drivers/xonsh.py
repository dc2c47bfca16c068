"""xonsh."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, ClassVar

from tests.shells.driver import Driver, Work, program

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# A prefix for statements with `$(...)`: it makes xonsh wait longer for captured output, because xonsh drops
# output that arrives too late.
PATIENT = "with ${...}.swap(XONSH_PROC_FREQUENCY=0.5): "
_PLAIN = string.ascii_letters + string.digits + " /._-+,:;="
_NAMES = ("exec", "open", "print", "str", "list", "dict", "tuple", "len", "any", "isinstance", "sys", "os")
_OPTIONS = {"AUTO_CD": True, "THREAD_SUBPROCS": False, "DOTGLOB": True, "XONSH_ENCODING": "ascii"}


class Xonsh(Driver):
    name = "xonsh"
    program = "xonsh"
    suffix = ".xsh"
    has_own_variables = False
    not_applicable: ClassVar[Mapping[int, str]] = {
        34: "xonsh passes every variable to programs, even its prompt; test_xonsh.py tests the rest",
    }
    modes: ClassVar[Mapping[str, str]] = {
        "plain": "",
        "raise": "$RAISE_SUBPROC_ERROR = True",
        "update": "$UPDATE_OS_ENVIRON = True",
        "literal": "$EXPAND_ENV_VARS = False",
    }
    oddities: ClassVar[Mapping[str, str]] = {
        "aliases": "\n".join(
            f"aliases[{name!r}] = 'touch canary'"
            for name in ("cd", "hash", "printf", "echo", "exec", "test", "unset", "rocenv")
        ),
        "names": "\n".join(f"{name} = lambda *_, **__: open('canary', 'w')" for name in _NAMES),
        "options": "\n".join(f"${name} = {value!r}" for name, value in _OPTIONS.items()),
    }

    def argv(self, script: Path) -> list[str]:
        return [program("xonsh"), "--no-rc", str(script)]

    def quote(self, text: str) -> str:
        # In subprocess mode, xonsh expands `$NAME` even in quotes.
        escaped = "".join(c if c in _PLAIN else f"\\U{ord(c):08x}" for c in text)
        return f"@('{escaped}')"

    def put(self, name: str, value: str) -> str:
        return f"${name} = {self.quote(value)[1:]}"

    def erase(self, name: str) -> str:
        return f"if ${{...}}.is_manually_set('{name}'): del ${name}"

    def surround(self, name: str, front: str, back: str) -> str:
        return f"${name} = [{self.quote(front)[1:]}] + ${name} + [{self.quote(back)[1:]}]"

    def source(self, script: Path) -> str:
        return f"source {self.quote(str(script))}"

    def dump(self, path: Path) -> str:
        # Programs inherit xonsh's options as variables. xonsh 0.16 cannot redirect output to a path from a
        # Python expression.
        without = " ".join(f"-u {name}" for name in _OPTIONS)
        return f"/usr/bin/env {without} -0 > '{path}'"

    def say(self, text: str) -> str:
        return f"/bin/echo {self.quote(text)}"

    def say_status(self) -> str:
        return (
            "/bin/echo status @($LAST_RETURN_CODE if $XONSH_INTERACTIVE else __xonsh__.history.last_cmd_rtn)"
        )

    def list_names(self) -> str:
        return (
            "print(sorted(globals()), sorted(aliases), sorted(k for k in ${...}.detype()), sorted("
            "__import__('sys').modules), sorted(__xonsh__.completers))"
        )

    def load_hook(self, file: Path) -> str:
        cat = f"['/bin/cat', {self.quote(str(file))[1:]}], env=${{...}}.detype()"
        return f"execx(__import__('subprocess').check_output({cat}).decode())"

    def interactive(self, work: Work) -> list[str]:
        return [program("xonsh"), "--no-rc", "--shell-type=readline", "-i"]

    def start_up(self, code: str) -> list[str]:
        return ["$PROMPT = '#' + '> '", *code.splitlines()]
