"""elvish."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from tests.shells.driver import Driver, Work, program
from tests.shells.terminal import PROMPT, Terminal

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# elvish compiles a whole script before running it, so the script must declare names that evaluated code
# defines.
_DECLARED = "fn {} {{|@_| }}; "
_DECLARED_ONCE = "fn {} {{|@_| }}\n"
# All builtins except those that the tests type.
_BUILTINS = re.findall(
    r"\S+",
    "all cd conj e each echo eq exit external fail get-env has-env has-key has-value keys kind-of nop not "
    "not-eq ns print put resolve rocenv src unset-env use-mod",
)


class Elvish(Driver):
    name = "elvish"
    program = "elvish"
    suffix = ".elv"
    not_applicable: ClassVar[dict[int, str]] = {
        33: "elvish does not store the last command's exit code; a failing command throws an exception",
    }
    modes: ClassVar[dict[str, str]] = {"plain": "", "pragma": "pragma unknown-command = disallow"}
    oddities: ClassVar[dict[str, str]] = {
        "functions": "\n".join(
            f"fn {name} {{|@_ &on-end=$nil &ns=$nil| /usr/bin/touch canary }}" for name in _BUILTINS
        ),
        "variables": "var own caller after-chdir paths pwd ok = 1 2 [] [] / no",
        "namespaces": "var builtin: path: str: edit: = (ns [&]) (ns [&]) (ns [&]) (ns [&])",
        "constants": "var true false nil _ = 0 1 2 3",
    }

    def argv(self, script: Path) -> list[str]:
        return [program("elvish"), "-norc", str(script)]

    def script(self, code: Sequence[str]) -> str:
        # Declare each name once, because a second declaration creates another variable for the whole script.
        text = super().script(code)
        names = dict.fromkeys(re.findall(r"fn (\w+) \{\|@_\| \}; ", text))
        return "".join(_DECLARED_ONCE.format(name) for name in names) + _undeclared(text)

    def quote(self, text: str) -> str:
        return "'" + text.replace("'", "''") + "'"

    def put(self, name: str, value: str) -> str:
        return f"set-env {name} {self.quote(value)}"

    def erase(self, name: str) -> str:
        return f"unset-env {name}"

    def put_own(self, name: str, value: str) -> str:
        return f"var {name} = {self.quote(value)}"

    def surround(self, name: str, front: str, back: str) -> str:
        return f"set-env {name} {self.quote(front + ':')}$E:{name}{self.quote(':' + back)}"

    def source(self, script: Path) -> str:
        return f"{_DECLARED.format('deactivate')}eval (slurp < {self.quote(str(script))})"

    def load_hook(self, file: Path) -> str:
        return f"{_DECLARED.format('rocenv')}eval (slurp < {self.quote(str(file))})"

    def call(self, *words: str) -> str:
        return self.attempt(super().call(*words))

    def attempt(self, code: str) -> str:
        if code.startswith("var status"):
            return code
        status = "try { set status = $e[reason][exit-status] } catch _ { set status = 1 }"
        return f"var status = 0; try {{ {code} }} catch e {{ {status}; show $e >&2 }}"

    def say_status(self) -> str:
        return "echo status $status"

    def list_names(self) -> str:
        """Print the names of all variables and functions, and the lists of callbacks.

        This driver declares `deactivate`, which must not contain rocenv code after deactivation.
        """
        return (
            "eval &on-end={|ns| keys $ns | each {|n| if (not-eq $n deactivate~) { echo $n } } } ''\n"
            "try { echo $deactivate~[body] } catch e { echo a builtin }\n"
            "echo $before-chdir $after-chdir (count $after-chdir) $paths\n"
            "/usr/bin/env"
        )

    def interactive(self, work: Work) -> list[str]:
        rc = work.folder / "rc.elv"
        rc.write_text("set edit:prompt = { put (print '#')'> ' }; set edit:rprompt = { }\n")
        # Do not start a history daemon, which would outlive this test and affect others.
        return [program("elvish"), "-rc", str(rc), "-db", "/dev/null/none", "-sock", "/dev/null/none"]

    def start_up(self, code: str) -> list[str]:
        return code.splitlines()

    def talk(
        self,
        work: Work,
        lines: Sequence[str],
        *,
        first: str = "",
        prefix: Sequence[str] = (),
        **environ: str,
    ) -> list[str]:
        argv = [*prefix, *self.interactive(work)]
        with _LineEditor(argv, work.folder, {**work.environ, "TERM": "dumb", **environ}) as terminal:
            terminal.settle(PROMPT)
            shown = [terminal.type(_undeclared(line)) for line in [*self.start_up(first), *lines]]
        return shown[-len(lines) :]


class _LineEditor(Terminal):
    """elvish at a terminal.

    Every keystroke redraws the line, so the output never contains the complete line.
    """

    def settle(self, marker: str = "", after: str = "") -> str:
        shown = more = super().settle()
        while more and marker and not re.search(re.escape(marker.rstrip()) + r"[\s?>]*$", shown):
            more = super().settle()
            shown += more
        return shown


def _undeclared(code: str) -> str:
    """Remove declarations, which are useless at a prompt, where elvish compiles each line separately."""
    return re.sub(r"fn \w+ \{\|@_\| \}; ", "", code)
