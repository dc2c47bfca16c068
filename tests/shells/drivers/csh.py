"""tcsh."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tests.shells.driver import Driver, Work, program

if TYPE_CHECKING:
    from pathlib import Path

# Keywords (`set`, `if`) are omitted, because an alias for a keyword breaks every script.
_NAMES = "cd echo source unset setenv unsetenv eval exit shift repeat hash printf test env rocenv".split()


class Tcsh(Driver):
    name = "tcsh"
    program = "tcsh"
    suffix = ".csh"
    modes: ClassVar[dict[str, str]] = {
        "plain": "",
        # tcsh can enable this mode only with a command-line option.
        "errexit": "if ($?T_STRICT == 0) then\nsetenv T_STRICT 1\nexec tcsh -ef $0:q\nendif",
    }
    oddities: ClassVar[dict[str, str]] = {
        "aliases": "\n".join(f"alias {name} 'touch canary; false'" for name in _NAMES),
        "histchars": "set histchars='%,'",
        "no histchars": "set histchars=''",
        "backslash_quote": "set backslash_quote",
        "noglob": "set noglob noclobber nonomatch compat_expr echo_style=sysv",
        "own variables": "set LD_LIBRARY_PATH=(a b) HIP_PATH=1 EMPTY=() ROCM_PATH",
    }

    def argv(self, script: Path) -> list[str]:
        return [program("tcsh"), "-f", str(script)]

    def quote(self, text: str) -> str:
        parts = text.replace("!", "\\!").replace("\n", "\\\n").split("'")
        return "'" + "'\"'\"'".join(parts) + "'"

    def put(self, name: str, value: str) -> str:
        return f"''setenv {name} {self.quote(value)}"

    def erase(self, name: str) -> str:
        return f"''unsetenv {name}"

    def put_own(self, name: str, value: str) -> str:
        return f"set {name}={self.quote(value)}"

    def surround(self, name: str, front: str, back: str) -> str:
        return f"''setenv {name} {self.quote(front)}:${{{name}:q}}:{self.quote(back)}"

    def source(self, script: Path) -> str:
        # Bypass a `source` alias, because the typed command is not under test.
        return f"''source {self.quote(str(script))}"

    def dump(self, path: Path) -> str:
        return f"/usr/bin/env -0 >! {self.quote(str(path))}"

    def say_status(self) -> str:
        return "echo status $status"

    def list_names(self) -> str:
        return "set; alias; complete"

    def load_hook(self, file: Path) -> str:
        return f'eval "`/bin/cat {self.quote(str(file))}`"'

    def interactive(self, work: Work) -> list[str]:
        return [program("tcsh"), "-f"]

    def start_up(self, code: str) -> list[str]:
        return ["set prompt='#> '", *code.splitlines()]
