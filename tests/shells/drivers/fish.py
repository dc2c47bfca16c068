"""fish."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from tests.shells.driver import Driver, Work, program

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_NAMES = """cd hash printf echo source . contains count functions emit type true false string alias unalias
export env setenv unset eval exit isatty block commandline complete math random rocenv"""


class Fish(Driver):
    name = "fish"
    program = "fish"
    suffix = ".fish"
    modes: ClassVar[dict[str, str]] = {"plain": ""}
    oddities: ClassVar[dict[str, str]] = {
        "functions": "\n".join(f"function {name}; /usr/bin/touch canary; end" for name in _NAMES.split()),
        "IFS": "set -g IFS /_Ri",
        "empty IFS": "set -g IFS ''",
        "CDPATH": "set -g CDPATH /usr /",
        "own names": "set -g argv x y; set -g n PATH; set -g name PATH",
    }

    def argv(self, script: Path) -> list[str]:
        return [program("fish"), "--no-config", str(script)]

    def quote(self, text: str) -> str:
        return "'" + "".join("\\" + char if char in "\\'" else char for char in text) + "'"

    def put(self, name: str, value: str) -> str:
        return f"set -gx {name} {self.quote(value)}"

    def erase(self, name: str) -> str:
        return f"set -e {name}; or true"

    def put_own(self, name: str, value: str) -> str:
        return f"set -gu {name} {self.quote(value)}"

    def surround(self, name: str, front: str, back: str) -> str:
        return f"set {name} {self.quote(front)} ${name} {self.quote(back)}"

    def source(self, script: Path) -> str:
        # Bypass a `source` function, because the typed command is not under test.
        return f"builtin source {self.quote(str(script))}"

    def say_status(self) -> str:
        return "echo status $status"

    def list_names(self) -> str:
        return "set --names; functions --all --names; complete; set"

    def load_hook(self, file: Path) -> str:
        return f"/bin/cat {self.quote(str(file))} | source"

    def interactive(self, work: Work) -> list[str]:
        return [program("fish"), "--no-config", "-i"]

    def start_up(self, code: str) -> list[str]:
        prompt = "function fish_prompt; echo -n '#''> '; end"
        return [prompt, *code.splitlines()]

    def talk(
        self,
        work: Work,
        lines: Sequence[str],
        *,
        first: str = "",
        prefix: Sequence[str] = (),
        **environ: str,
    ) -> list[str]:
        shown = super().talk(work, lines, first=first, prefix=prefix, **environ)
        # To handle output that does not end with a newline, fish fills the line and overwrites it.
        return [re.sub(r"⏎ +\r⏎ \r+", "", text) for text in shown]
