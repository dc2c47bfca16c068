"""nushell."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tests.shells.driver import Driver, Work, program

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# All names that the scripts call or define, and names that users often redefine.
_NAMES = (
    "cd hash printf echo ls open default describe do each exit first get hide-env length lines load-env "
    "merge print skip rocenv text entries field now with active left say look enter leave deactivate "
    "which zip"
).split()
_LONG_NAMES = (
    "error make|from nuon|path dirname|path exists|path expand|path type|split row|str join|str trim|to json"
).split("|")
_ALL_NAMES = (*_NAMES, *_LONG_NAMES)


class Nu(Driver):
    name = "nu"
    program = "nu"
    suffix = ".nu"
    modes: ClassVar[dict[str, str]] = {
        "plain": "",
        "PATH as a text": "$env.PATH = ($env.PATH | str join ':')",
    }
    oddities: ClassVar[dict[str, str]] = {
        "aliases": "\n".join(f"alias '{name}' = ^/usr/bin/touch canary" for name in _ALL_NAMES),
        "commands": "\n".join(
            f"def --wrapped '{name}' [...words] {{ ^/usr/bin/touch canary }}" for name in _ALL_NAMES
        ),
        "variables": "let data = 1; let active = 2; let plan = 3; const program = 'touch'",
        "modules": "module new { export def enter [] {} }; module old {}; module rocenv-activation {}",
    }
    has_own_variables = False

    def argv(self, script: Path) -> list[str]:
        return [program("nu"), "--no-config-file", "--no-std-lib", str(script)]

    def quote(self, text: str) -> str:
        return f"r######'{text}'######"

    def put(self, name: str, value: str) -> str:
        return f"$env.{name} = {self.quote(value)}"

    def erase(self, name: str) -> str:
        return f"hide-env --ignore-errors {name}"

    def surround(self, name: str, front: str, back: str) -> str:
        front, back = self.quote(front), self.quote(back)
        if name == "PATH":
            return f"$env.PATH = [{front} ...$env.PATH {back}]"
        return f"$env.{name} = $'({front}):($env.{name}):({back})'"

    def source(self, script: Path) -> str:
        return f"source {self.quote(str(script))}"

    def call(self, *words: str) -> str:
        # A failing program ends a script, but the tests check what happens after `rocenv` fails.
        code = super().call(*words)
        return self.attempt(code) if words[0] == "rocenv" else f"^{code}"

    def dump(self, path: Path) -> str:
        # nushell passes the exit code of the last program to the next one in an environment variable.
        return f"^/usr/bin/env -u LAST_EXIT_CODE -0 o> {self.quote(str(path))}"

    def say(self, text: str) -> str:
        # Without --raw, nushell asks `tput` for the terminal size.
        return f"print --raw {self.quote(text)}"

    def say_status(self) -> str:
        return "print --raw $'status ($env.LAST_EXIT_CODE? | default 0)'"

    def attempt(self, code: str) -> str:
        return f"try {{ {code} }} catch {{|why| print --stderr $why.msg }}"

    def list_names(self) -> str:
        """Print only the names of variables, because nushell cannot remove definitions at runtime.

        Two definitions remain: the module's name, and a `deactivate` that reports that no env is active.
        """
        return "print ...($env | columns)"

    def interactive(self, work: Work) -> list[str]:
        return [program("nu"), "--no-config-file", "--no-std-lib", "--no-history"]

    def start_up(self, code: str) -> list[str]:
        prompt = (
            "$env.PROMPT_COMMAND = {|| '' }; $env.PROMPT_COMMAND_RIGHT = ''; $env.PROMPT_INDICATOR = '#> '"
        )
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
        # nushell redraws the line at each keystroke; command output follows the complete line.
        shown = super().talk(work, lines, first=first, prefix=prefix, **environ)
        return ["\n" + text.split(f"{line}\r\n", 1)[-1] for line, text in zip(lines, shown, strict=True)]
