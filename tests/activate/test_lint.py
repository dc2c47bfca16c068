"""Lint every script with its shell's own check or a linter, both as a resource file and after rendering."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from rocenv.activate.env import RESOURCES, Place, fill
from rocenv.activate.scripts import activation_files
from rocenv.activate.shells import HOOKS
from rocenv.activate.shells.powershell import library
from tests.activate.test_windows import nodes
from tests.shells.driver import CHANGES, HOSTILE, WATCHED, program, set_

if TYPE_CHECKING:
    from pathlib import Path

PLACE = Place(program="/opt/it's/rocenv", envs="/home/me/$x `y`/envs")
PLACEHOLDER = "__[A-Z]+(_[A-Z]+)*__"
# shellcheck rules that do not apply to scripts for several shells or to code for `eval`.
SHELLCHECK_EXCLUDES = {
    "SC1003": "a path can look like a quoting mistake",
    "SC1090": "the sourced file is known only at run time",
    "SC1091": "as SC1090",
    "SC2016": "code for `eval` is in single quotes",
    "SC2034": "a different file uses the variables",
    "SC2147": "as SC1003",
    "SC2153": "as SC2034",
    "SC2154": "a different file defines the variables",
    "SC2195": "rocenv replaces the placeholder with patterns",
    "SC2296": "`${(t)NAME}` is used only in zsh",
    "SC3028": "OSTYPE and FUNCNAME are empty in other shells",
    "SC3034": "`$(<FILE)` is used only in zsh",
    "SC3054": "only bash uses the array of aliases",
    "SC3043": "dash, bash and zsh have `local`; ksh has its own function",
}


def shellcheck(file: Path, dialect: str) -> str:
    excludes = ",".join(SHELLCHECK_EXCLUDES)
    return run("shellcheck", f"--shell={dialect}", f"--exclude={excludes}", "--format=gcc", str(file))


def run(*argv: str) -> str:
    """Run a command that may fail, and return all its output."""
    done = subprocess.run(
        [program(argv[0]), *argv[1:]], capture_output=True, check=False, timeout=60, stdin=subprocess.DEVNULL
    )
    return os.fsdecode(done.stdout + done.stderr)


def nushell(file: Path) -> str:
    lines = run("nu", "--no-config-file", "--ide-check", "100", str(file)).splitlines()
    found = [json.loads(line) for line in lines]
    return "\n".join(each["message"] for each in found if each["type"] == "diagnostic")


def powershell(file: Path) -> str:
    faults = [node for node in nodes(file.read_text("utf-8-sig")) if node.is_error or node.is_missing]
    return "\n".join(str(node.start_point) for node in faults)


def python(file: Path) -> str:
    ast.parse(file.read_text())
    return ""


def complaints(file: Path, shell: str) -> str:
    """Return the problems that the shell's linter finds in a file."""
    if shell in ("sh", "dash", "ksh", "zsh", "bash", "tcsh"):
        flags = {"zsh": "-fn", "tcsh": "-fn"}.get(shell, "-n")
        said = run("dash" if shell == "sh" else shell, flags, str(file))
        if shell == "ksh":  # ksh mistakes lines in a long string for an unclosed quote
            said = re.sub(r".*warning: line \d+: ' quote may be missing\n", "", said)
        return said + (shellcheck(file, shell) if shell in ("sh", "bash") else "")
    checks = {"nu": nushell, "powershell": powershell, "xonsh": python}
    if shell in checks:
        return checks[shell](file)
    return run(shell, {"fish": "--no-execute", "elvish": "-compileonly"}[shell], str(file))


def test_resource_files_pass_the_linters(tmp_path: Path) -> None:
    shells = {
        ".sh": ("sh", "ksh"),
        ".zsh": ("zsh",),
        ".fish": ("fish",),
        ".csh": ("tcsh",),
        ".elv": ("elvish",),
        ".xsh": ("xonsh",),
        ".ps1": ("powershell",),
        ".nu": ("nu",),
    }
    # Tests run the exporters' files; there are no linters for batch files.
    unchecked = (".bat", ".cmd", ".def", ".lua")
    # Fragments that are valid only after other code, in a module, or once rendered.
    whole = {
        "powershell.ps1",
        "elvish-shared.elv",
        "elvish-library.elv",
        "elvish-hook.elv",
        "nu.nu",
        "nu-hook.nu",
    }
    for file in sorted(path for path in RESOURCES.rglob("*") if path.is_file()):
        if file.suffix in unchecked or file.name in whole:
            continue
        names = ("bash",) if file.name == "bash-hook.sh" else shells[file.suffix]
        if file.name in ("posix.sh", "posix-library.sh", "posix-hook.sh"):
            names = (*names, "zsh")
        for shell in names:
            assert complaints(file, shell) == "", (file.name, shell)
    shared = "var own caller = [&] (ns [&])\n" + fill("elvish-shared.elv", {})
    for piece in ("elvish-library.elv", "elvish-hook.elv"):
        (tmp_path / piece).write_text(shared + fill(piece, {}))
        assert complaints(tmp_path / piece, "elvish") == "", piece


def test_batch_files_define_all_labels() -> None:
    files = activation_files("sd", r"C:\Users\me\sd", CHANGES[3:], WATCHED, "windows")
    texts = [files["activate.bat"].decode(), files["bin/deactivate.bat"].decode(), HOOKS["cmd"].render(PLACE)]
    for text in texts:
        assert all(line.startswith(("@", ":")) for line in text.splitlines()), text
        labels = re.findall(r"^:(\w+)", text, re.MULTILINE)
        assert len(labels) == len(set(labels)), "each once"
        assert set(re.findall(r"(?:goto|call) :?(\w+)", text)) <= {*labels, "_rocenv"}, labels
        assert not re.search(PLACEHOLDER, text)


RENDERED = {
    "activate": ("sh", "ksh", "zsh", "bash"),
    ".rocenv/activate.sh": ("sh", "ksh", "zsh", "bash"),
    "activate.fish": ("fish",),
    "activate.csh": ("tcsh",),
    "activate.elv": ("elvish",),
    "activate.nu": ("nu",),
    "activate.xsh": ("xonsh",),
    "Activate.ps1": ("powershell",),
}


# Even in check mode, tcsh expands `!` to history entries.
@pytest.mark.parametrize("prefix", ["/home/me/env", f"/{HOSTILE}".replace("!", "")])
def test_rendered_scripts_pass_the_linters(tmp_path: Path, prefix: str) -> None:
    files = activation_files("my env", prefix, (*CHANGES, set_("A", prefix)), WATCHED, "linux")
    assert files.keys() == {*RENDERED, ".rocenv/activate.nuon"}
    for name, shells in RENDERED.items():
        file = tmp_path / name.replace("/", "_")
        file.write_bytes(files[name])
        assert not re.search(PLACEHOLDER, os.fsdecode(files[name])), name
        for shell in shells:
            assert complaints(file, shell) == "", (name, shell)


def test_rendered_hooks_pass_the_linters(tmp_path: Path) -> None:
    for shell, hook in HOOKS.items():
        if shell == "cmd":
            continue
        file = tmp_path / f"hook.{shell}"
        file.write_text(hook.render(PLACE))
        assert not re.search(PLACEHOLDER, file.read_text()), shell
        assert complaints(file, shell) == "", shell


@pytest.mark.parametrize("platform", ["linux", "windows"])
def test_the_functions_are_valid_powershell(platform: str) -> None:
    assert [node for node in nodes(library(platform)) if node.is_error or node.is_missing] == []


BROKEN = {
    "sh": "if true; then\n",
    "bash": "if true; then\n",
    "ksh": "if true; then\n",
    "zsh": "if true; then\n",
    "fish": "if true\n",
    "tcsh": "set x='a\n",
    "elvish": "nop $nothing\n",
    "nu": "def x [] {\n",
    "powershell": "function x {\n",
}


def test_every_check_detects_a_broken_script(tmp_path: Path) -> None:
    for shell, text in BROKEN.items():
        (tmp_path / "broken").write_text(text)
        assert complaints(tmp_path / "broken", shell) != "", shell
    with pytest.raises(SyntaxError):
        python(tmp_path / "broken")
