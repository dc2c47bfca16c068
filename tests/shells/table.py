"""A pytest plugin for `scripts/test-shells` that prints the activation checklist as a table.

A cell is `ok` or `FAIL` if tests for that line ran in that shell, `-` if the line does not apply to the shell
(the reasons are below the table), `read` if the shell is not available and the code was only reviewed, and
`?` if a test is missing or did not run. A `?` is also a failure, except with `-k`, which selects tests.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.shells import test_powershell
from tests.shells.conftest import EVERY_SHELL, lines_of, shell_of
from tests.shells.drivers import DRIVERS
from tests.windows import test_cmd

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

LINES: Mapping[int, str] = {
    1: "strict shells: exit code 0, no output",
    2: "the same on deactivation, and with no active env",
    3: "path with a space",
    4: "path with '",
    5: 'path with "',
    6: "path with $VAR",
    7: "path with a backtick",
    8: "path with $(cmd), even in the prompt",
    9: "path with ;&|<>",
    10: "path with *?[]",
    11: "path with a backslash",
    12: "path with !",
    13: "path with %",
    14: "path with CJK, even under LANG=C",
    15: "path with a leading - or ~",
    16: "separator or control character: refused by create",
    17: "cmd: no incorrect .bat is ever written",
    18: "values are preserved byte for byte",
    19: "placeholders in a path are unchanged",
    20: "a name is never code in the prompt",
    21: "first in PATH, and only once",
    22: "activating twice",
    23: "unset stays unset",
    24: "empty stays empty",
    25: "the old value is restored",
    26: "even if it equals ours",
    27: "edits to lists are kept",
    28: "empty or unset lists: no empty entry",
    29: "a changed variable is kept and reported",
    30: "A, then B, back to A",
    31: "with conda, venv, mise, direnv in any order",
    32: "rocenv leaves nothing behind",
    33: "the last exit code is kept",
    34: "the prompt is neither lost nor exported",
    35: "the prompt label can be disabled",
    36: "the user's aliases, functions, options",
    37: "executed instead of sourced",
    38: "a child shell",
    39: "env moved or deleted",
    40: "reordered PATH is repaired",
    41: "two terminals",
    42: "PowerShell: strict mode, quotes, policy",
    43: "cmd: (x86), code page, PROMPT",
    44: "Git-Bash, MSYS, Cygwin",
    45: "no process",
    46: "the hook prints nothing",
    47: "previously set variables are reported",
    48: "a .rocenv file must be trusted first",
}
# Lines that apply only to one shell.
ONLY = {17: "cmd", 42: "powershell", 43: "cmd", 44: "bash"}
SHELLS = (*DRIVERS, "cmd", "powershell")


def reasons() -> dict[str, Mapping[int, str]]:
    """Map each shell to the lines that do not apply to it, with the reasons."""
    return {
        **{name: driver.not_applicable for name, driver in DRIVERS.items()},
        "cmd": test_cmd.NOT_APPLICABLE,
        "powershell": test_powershell.NOT_APPLICABLE,
    }


class Table:
    def __init__(self) -> None:
        self.seen: dict[tuple[int, str], bool] = {}

    def add(self, lines: tuple[int, ...], shell: str, *, passed: bool) -> None:
        """Record one test; a line's worst result wins."""
        for line in lines:
            for name in SHELLS if shell == EVERY_SHELL else (shell,):
                if line in reasons()[name]:
                    continue
                self.seen[line, name] = self.seen.get((line, name), True) and passed

    def cell(self, line: int, shell: str) -> str:
        """Return a cell's text."""
        if ONLY.get(line, shell) != shell:
            return ""
        if (line, shell) in self.seen:
            return "ok" if self.seen[line, shell] else "FAIL"
        if line in reasons()[shell]:
            return "-"
        return "read" if shell == "powershell" and line in test_powershell.REVIEWED else "?"

    def bad(self, *, part: bool) -> list[tuple[int, str]]:
        """Return the cells that failed, including untested ones unless only a `part` ran."""
        bad = ("FAIL",) if part else ("FAIL", "?")
        return [(line, shell) for line in LINES for shell in SHELLS if self.cell(line, shell) in bad]

    def text(self) -> str:
        """Return the table, and the reasons for omitted lines."""
        width = max(map(len, LINES.values()))
        rows = [f"{'':{width + 3}} " + " ".join(f"{shell[:6]:>6}" for shell in SHELLS)]
        for line, about in LINES.items():
            cells = " ".join(f"{self.cell(line, shell):>6}" for shell in SHELLS)
            rows.append(f"{line:2} {about:{width}} {cells}".rstrip())
        rows.append("")
        for shell, apart in reasons().items():
            for line, reason in sorted(apart.items()):
                if ONLY.get(line, shell) == shell:
                    rows.append(f"{shell}, line {line}: {reason}")
        rows.append(
            "powershell: the code was parsed and reviewed but not run, because the tests have no PowerShell"
        )
        return "\n".join(rows)


class _Plugin:
    def __init__(self) -> None:
        self.table = Table()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """With --collect-only, count every existing test as passed, so that the table shows missing ones."""
        if session.config.option.collectonly:
            for item in session.items:
                self.table.add(lines_of(item), shell_of(item), passed=True)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == "checklist" and not report.skipped and (report.when == "call" or not report.passed):
                lines, shell = json.loads(str(value))
                self.table.add(tuple(lines), shell, passed=report.passed)

    def pytest_terminal_summary(self, terminalreporter: object) -> None:
        write = terminalreporter.write_line  # type: ignore[attr-defined]
        write("")
        for row in self.table.text().splitlines():
            write(row)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        part = bool(session.config.option.keyword)
        if not hasattr(session.config, "workerinput") and not exitstatus and self.table.bad(part=part):
            session.exitstatus = 1


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Plugin(), "checklist-table")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Attach a test's checklist lines to its report; the test may run in another process."""
    if lines := lines_of(item):
        item.user_properties.append(("checklist", json.dumps([lines, shell_of(item)])))
