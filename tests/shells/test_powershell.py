"""PowerShell is not available to the tests, so its script and hook are parsed and reviewed instead.

`REVIEWED` explains how the code satisfies each checklist line. The table from `scripts/test-shells` marks
these lines as read, not passed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from rocenv.activate.changes import apply, entries
from rocenv.activate.env import Place
from rocenv.activate.scripts import activation_script, write_activation
from rocenv.activate.shells import HOOKS, powershell
from rocenv.activate.shells.powershell import library
from tests.activate.test_windows import literals, nodes
from tests.shells.driver import CHANGES, WATCHED

if TYPE_CHECKING:
    from pathlib import Path

SHELL = "powershell"
NOT_APPLICABLE: dict[int, str] = {
    17: "about cmd",
    34: "PowerShell's prompt is a function, and functions cannot be exported",
    43: "about cmd",
    44: "only about bash on Windows",
}
# The functions named below are in `powershell-library.ps1` and in the hook.
REVIEWED: dict[int, str] = {
    1: "variables are set before use, or checked with Test-Path if they may be absent; nothing is printed",
    2: "_RocenvLeave sets its own preferences; if no env is active, the hook calls the program",
    3: "each value is a literal in single quotes",
    4: "a single quote is doubled, as are the four typographic ones",
    5: "a double quote is not special within single quotes",
    6: "nothing is expanded within single quotes, and _RocenvPut passes the text to .NET",
    7: "a backtick is not an escape character within single quotes",
    8: "values never become code; the prompt uses Write-Host to print a label free of special characters",
    9: "nothing within single quotes is an operator",
    10: ".NET tests for files; wildcards in command paths are escaped (powershell.to_run)",
    11: "a backslash is not special",
    12: "an exclamation mark is not special",
    13: "a percent sign is not special; there are no format strings",
    14: "Activate.ps1 begins with a byte order mark, and the hook is ASCII; the locale does not affect .NET",
    15: "paths are only in .NET calls and within quotes, never in place of a parameter",
    16: "refused by create, as for all shells",
    18: "control characters are [char] numbers; _RocenvPut and _RocenvIsNow compare without a culture",
    19: "the script is assembled from parts, and placeholders are replaced before values are inserted",
    20: "the label contains only letters, digits and a few other characters, and Write-Host expands nothing",
    21: "_RocenvPrepend puts the entry before the entries that _RocenvWithout returns",
    22: "_RocenvEnter deactivates an env that is already active (_RocenvPop) and activates it again",
    23: "Old is $null for an unset variable, and _RocenvPut removes the variable with [NullString]",
    24: "PowerShell 7.5 can set empty strings; in older versions, _RocenvPop reports such variables",
    25: "_RocenvPop restores Old if _RocenvIsNow still finds New",
    26: "Old is saved whether or not it equals New",
    27: "_RocenvTakeOut removes the env's entries from a changed list",
    28: "_RocenvWithout returns nothing for an empty list",
    29: "_RocenvPop does not touch a variable that is no longer New, and _RocenvSay reports it",
    30: "$_RocenvStack is a list, and _RocenvPop takes the last entry",
    31: "_RocenvOffer does not replace another tool's deactivate; _RocenvCleanVenv cleans PATH",
    32: "_RocenvEnd removes each function and variable by name, and restores the prompt",
    33: "prompts preserve $? for the user's prompt with Write-Error; _RocenvHookAsk restores $LASTEXITCODE",
    35: "if ROCENV_DISABLE_PROMPT is set, _RocenvEnter sets no label and does not call _RocenvShow",
    36: "cmdlets are called with their module; _RocenvEnter and _RocenvLeave set the preferences",
    37: "a script that is run instead of dot-sourced also activates the env, because its functions and "
    "state are global; -File Activate.ps1 affects only its own process, like any script",
    38: "functions are not inherited; the program's own `rocenv deactivate` explains what to do",
    39: "[IO.File]::Exists checks the marker before anything is defined; deactivation needs no file",
    40: "_RocenvPrepend moves an existing entry to the front",
    41: "all state is in process variables; no files are written",
    42: "strict mode: see 1; quotes: see 4; arguments, constrained language and disabled scripts are handled",
    45: "only functions, cmdlets and .NET are called",
    46: "loading the hook defines functions, registers a completer, and assigns one variable",
    47: "_RocenvReport reports them for the first env, with the same messages as in other shells",
    48: "_RocenvHookLook runs `rocenv trust --check` if the file's path or first line has changed; envs "
    "that the user activates or deactivates no longer belong to the hook (_RocenvHookDisown)",
}
PREFIXES = ("/home/me/envs/sd", '/o\u2018d $d/`x`/it\'s [1]*/"q"(a)\N{GRINNING FACE}')
PLACES = (
    Place(program="/usr/bin/rocenv", envs="/home/me/.local/share/rocenv/envs"),
    Place(program="rocenv", envs="C:\\__PROGRAM__ %x% 'a'\\envs"),
    Place(program="C:\\\N{GRINNING FACE} [1]\\it\u2019s\\rocenv.exe", envs="C:\\漢\\envs"),
)


def linux(prefix: str) -> str:
    return activation_script("my env", prefix, CHANGES, WATCHED, SHELL)


def errors(script: str) -> list[object]:
    return [(node.start_point, node.text) for node in nodes(script) if node.is_error or node.is_missing]


def test_every_applicable_line_is_reviewed() -> None:
    assert sorted([*REVIEWED, *NOT_APPLICABLE]) == list(range(1, 49))
    code = library("linux") + "".join(HOOKS[SHELL].render(place) for place in PLACES)
    for number, text in REVIEWED.items():
        for name in re.findall(r"_Rocenv\w+", text):
            assert f"function global:{name}" in code or f"$global:{name} = " in code, (number, name)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_script_for_linux_matches_the_grammar(prefix: str) -> None:
    script = linux(prefix)
    assert errors(script) == []
    assert {powershell.quote(f"{prefix}/bin"), powershell.quote(f"{prefix}/rocm")} < literals(script)


@pytest.mark.parametrize("place", PLACES)
def test_the_hook_is_ascii_and_matches_the_grammar(place: Place) -> None:
    hook = HOOKS[SHELL].render(place)
    assert errors(hook) == []
    assert hook.isascii()
    assert "__PROGRAM__" not in hook.replace(place.envs.replace("'", "''"), "")
    assert "Invoke-Expression" in HOOKS[SHELL].line


@pytest.mark.parametrize(
    "code", [library("linux"), library("windows"), *map(HOOKS[SHELL].render, PLACES), linux(PREFIXES[0])]
)
def test_commands_that_users_can_redefine_are_called_by_their_full_name(code: str) -> None:
    own = set(re.findall(r"function global:([\w-]+)", code)) | {"_RocenvEnter"}
    # The library defines this function before the hook calls it.
    own |= {"_RocenvLeave"}
    for node in nodes(code):
        if node.type == "command_name":
            name = (node.text or b"").decode()
            assert name in own or name.startswith("Microsoft.PowerShell."), name


@pytest.mark.parametrize("code", [library("linux"), *map(HOOKS[SHELL].render, PLACES)])
def test_every_variable_is_set_before_use(code: str) -> None:
    """This detects misspelled names, and names that absorb the letters after them in a string."""
    known = {"_", "args", "input", "null", "true", "false", "?", "host", "executioncontext", "myinvocation"}
    known |= {"global:lastexitcode", "function:prompt", "function:deactivate"}
    known |= {name.lower() for name in re.findall(r"\$((?:global:)?\w+)(?:, \$\w+)* =", code)}
    known |= {name.lower() for name in re.findall(r"\$(\w+)(?= = \$\w+ =|, \$\w+ =)", code)}
    known |= {name.lower() for name in re.findall(r", \$(\w+) =", code)}
    known |= {name.lower() for name in re.findall(r"foreach \(\$(\w+) in", code)}
    known |= {name.lower() for name in re.findall(r"for \(\$(\w+) =", code)}
    for parameters in re.findall(r"(?:function global:\w+|param)\(([^)]*)\)", code):
        known |= {name.lower() for name in re.findall(r"\$(\w+)", parameters)}
    read = {
        (node.text or b"").decode() for node in nodes(code) if node.type in ("variable", "braced_variable")
    }
    names = {name.strip("$@{}").lower() for name in read}
    # The library defines this variable, and the hook checks for it with Test-Path.
    assert names - known <= {"global:_rocenvstack"}, names - known


def test_the_script_differs_between_platforms_as_in_the_oracle() -> None:
    posix, windows = library("linux"), library("windows")
    assert ".Split(':')" in posix and "-join ':'" in posix and "OrdinalIgnoreCase" not in posix
    assert ".Split(';')" in windows and "-join ';'" in windows and "OrdinalIgnoreCase" in windows
    assert not re.search("__[A-Z]+__", posix + windows)
    assert apply(CHANGES, {})["EMPTY"] == "" and entries(CHANGES, "PATH")


def test_text_that_powershell_cannot_represent_is_rejected(tmp_path: Path) -> None:
    prefix = tmp_path / "n\udce9"
    prefix.mkdir()
    write_activation(prefix, "sd", CHANGES, WATCHED)
    script = (prefix / "Activate.ps1").read_text("utf-8-sig")
    assert script.startswith("throw 'rocenv: ")
    assert errors(script) == []
    assert (prefix / "Activate.ps1").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a\nb", "('a' + [char]10 + 'b')"),
        ("\r\n", "('' + [char]13 + [char]10)"),
        ("it's\t", "('it''s' + [char]9)"),
        ("plain", "'plain'"),
    ],
)
def test_the_script_contains_no_control_characters(text: str, code: str) -> None:
    assert powershell.quote(text) == code


def test_wildcards_in_typed_commands_are_escaped() -> None:
    assert powershell.source(r"C:\a [1]\Activate.ps1") == r". 'C:\a `[1`]\Activate.ps1'"
    assert powershell.source(r"C:\a`b\Activate.ps1") == r". 'C:\a`b\Activate.ps1'"
