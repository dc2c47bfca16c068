"""Windows activation without Windows: how changes are applied, rejected values, and PowerShell's grammar.

`tests/windows/test_cmd.py` tests the cmd script.
"""

from __future__ import annotations

import re
from pathlib import PureWindowsPath
from typing import TYPE_CHECKING

import pytest
import tree_sitter
import tree_sitter_powershell
from hypothesis import given
from hypothesis import strategies as st

from rocenv.activate.changes import apply, entries, require_valid
from rocenv.activate.scripts import activation_script, require_listable, write_activation
from rocenv.activate.shells import SHELLS, powershell
from rocenv.core.errors import DataError, PrefixError
from tests.shells.driver import WATCHED, prepend, set_, unset

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rocenv.core.model import EnvChange

CHANGES = (
    prepend("PATH", r"{prefix}\bin"),
    prepend("LISTED", r"{prefix}\lib"),
    set_("HIP_PATH", "{prefix}\\rocm\\5.7\\"),
    set_("FLAGS", "-x 'y' & $(touch canary) `n {0}"),
    set_("EMPTY", ""),
    unset("ROCM_PATH"),
)
PREFIXES = (
    r"C:\Users\me\envs\sd",
    r"D:\it's \u2018 me\u2019 $HOME $(x) `n {a} @(b) #c".replace(r"\u2018", "\u2018").replace(
        r"\u2019", "\u2019"
    ),
    r"C:\漢字 (é) & co\sd",
)


def test_names_and_entries_are_case_insensitive() -> None:
    before = {"Path": r"C:\Env\BIN;C:\a;;c:\env\bin", "hip_path": "old", "Rocm_Path": "x"}
    changes = [prepend("PATH", r"C:\env\bin"), set_("HIP_PATH", "new"), unset("ROCM_PATH")]
    assert apply(changes, before, "windows") == {"Path": r"C:\env\bin;C:\a;", "hip_path": "new"}
    assert entries([*changes, prepend("Path", "x")], "path", "windows") == (r"C:\env\bin", "x")


def test_windows_variables_cannot_be_empty_and_colons_are_not_separators() -> None:
    before = {"EMPTY": "x", "L": ";;", "PATH": r"C:\a;D:\b"}
    changes = [set_("EMPTY", ""), prepend("L", r"C:\l"), prepend("PATH", r"D:\b")]
    assert apply(changes, before, "windows") == {"L": r"C:\l", "PATH": r"D:\b;C:\a"}


@pytest.mark.parametrize(
    "change",
    [
        set_("A", 'say "x"'),
        set_("A", "100%"),
        set_("A", "a!"),
        set_("A", "a^b"),
        set_("A", "a\nb"),
        set_("A", "\udc80"),
        set_("prompt", "x"),
        set_("ErrorLevel", "x"),
        set_("_rocenv_stack", "x"),
        prepend("PATH", r"C:\a;C:\b"),
    ],
)
def test_values_that_cmd_would_misread_are_rejected(change: EnvChange) -> None:
    with pytest.raises(DataError):
        require_valid([change], "windows")


@pytest.mark.parametrize("char", [*'"%!^;', "\n", "\x1a", "\x7f", "\udc80"])
def test_paths_that_are_invalid_in_batch_files_are_rejected(char: str) -> None:
    with pytest.raises(PrefixError) as refused:
        require_listable(f"C:\\a{char}b", "windows")
    assert refused.value.code == "prefix-unusable"
    assert "ROCENV_HOME" in refused.value.hints[0]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_unusual_but_valid_paths_are_accepted(prefix: str) -> None:
    require_listable(prefix, "windows")


def test_non_ascii_values_are_rejected_except_in_the_prefix() -> None:
    script = activation_script("sd", PREFIXES[2], CHANGES, WATCHED, "cmd", "windows")
    assert script.isascii()
    with pytest.raises(DataError):
        activation_script("sd", PREFIXES[0], [set_("A", "漢字")], WATCHED, "cmd", "windows")


def test_env_names_are_not_mistaken_for_placeholders() -> None:
    for word in ("LONGEST", "WHERE", "IDENT", "NAME", "SHOWN", "LABEL"):
        script = activation_script(word, f"C:\\{word}\\sd", CHANGES, WATCHED, "cmd", "windows")
        assert f'_ROCENV_P=C:\\{word}\\sd"' in script
        assert f'no longer at "C:\\{word}\\sd"' in script
        assert f"_ROCENV_V={word}" in script


def test_each_platform_gets_its_own_activation_files(tmp_path: Path) -> None:
    for platform, names in (
        ("linux", {"activate", "Activate.ps1"}),
        (
            "windows",
            {"activate.bat", "bin/deactivate.bat", "Activate.ps1", "activate", ".rocenv/activate.sh"},
        ),
    ):
        folder = tmp_path / platform
        folder.mkdir()
        written = write_activation(folder, "sd", [set_("A", "b")], WATCHED, platform)
        found = {path.relative_to(folder).as_posix() for path in written}
        assert names == found if platform == "windows" else names <= found - {"activate.bat"}
    batch = (tmp_path / "windows" / "activate.bat").read_bytes()
    assert batch.count(b"\n") == batch.count(b"\r\n") > 0
    assert (tmp_path / "windows" / "Activate.ps1").read_bytes().startswith(b"\xef\xbb\xbf# ")


def nodes(script: str) -> Iterator[tree_sitter.Node]:
    """Return every node in the syntax tree, parents before children."""
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_powershell.language()))
    pending = [parser.parse(script.encode()).root_node]
    while pending:
        node = pending.pop()
        yield node
        pending += node.children


def literals(script: str) -> set[str]:
    found = (node for node in nodes(script) if node.type == "verbatim_string_characters")
    return {(node.text or b"").decode() for node in found}


@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_script_and_its_literals_are_valid_powershell(prefix: str) -> None:
    script = activation_script("my env", prefix, CHANGES, WATCHED, "powershell", "windows")
    assert [node for node in nodes(script) if node.is_error or node.is_missing] == []
    expected = [
        f"{PureWindowsPath(prefix)}\\bin",
        f"{prefix}\\rocm\\5.7\\",
        f"{prefix}\\.rocenv\\record.json",
    ]
    assert {powershell.quote(value) for value in expected} < literals(script)


def test_a_broken_powershell_script_is_detected() -> None:
    script = activation_script("my env", PREFIXES[0], CHANGES, WATCHED, "powershell", "windows").replace(
        "Entries = @(", "Entries = @", 1
    )
    assert any(node.is_error for node in nodes(script))


SINGLE = "'\u2018\u2019\u201a\u201b"


@given(
    st.text(st.one_of(st.sampled_from(SINGLE + '$`"()#{}\\ a'), st.characters(codec="utf-8")), max_size=12)
)
def test_no_character_in_a_value_ends_a_powershell_literal(value: str) -> None:
    # Scan like PowerShell: any of five quote characters ends the literal unless another one follows.
    quoted, read, position = powershell.quote(value), "", 1
    whole = not quoted.startswith("(")
    while position < len(quoted) and not whole:
        number = re.match(r"(?: \+ )?\[char\](\d+)", quoted[position:])
        if number:
            read, position = read + chr(int(number[1])), position + number.end()
            continue
        if quoted[position] == ")":
            break
        position += 3 * quoted.startswith(" + ", position) + 1
        text, position = literal(quoted, position)
        read, position = read + text, position + 1
    if whole:
        read, position = literal(quoted, 1)
    assert (read, position) == (value, len(quoted) - 1)


def literal(quoted: str, position: int) -> tuple[str, int]:
    read = ""
    while quoted[position] not in SINGLE or quoted[position + 1 : position + 2] in tuple(SINGLE):
        position += quoted[position] in SINGLE
        read += quoted[position]
        position += 1
    return read, position


def test_every_shell_belongs_to_a_platform() -> None:
    assert {platform for shell in SHELLS.values() for platform in shell.platforms} == {"linux", "windows"}
