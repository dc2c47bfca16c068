"""The table of cards in README.md, and commands and links in the docs."""

from __future__ import annotations

import os
import re
import shlex
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import click
import pytest

from rocenv import cli
from tests import forked

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
DOCUMENTS = [README, *sorted((ROOT / "docs").glob("*.md"))]
CODE = re.compile(r"^```.*?^```|^ {4,}\S.*?$|`[^`\n]+`", re.MULTILINE | re.DOTALL)


_LOADER = SourceFileLoader("readme_script", str(ROOT / "scripts" / "readme"))
SCRIPT = ModuleType(_LOADER.name)
SCRIPT.__file__ = _LOADER.path
_LOADER.exec_module(SCRIPT)


@pytest.fixture(scope="module")
def table() -> str:
    return str(SCRIPT.table())


class TestTable:
    def test_the_table_in_the_readme_is_up_to_date(self) -> None:
        assert SCRIPT.main(["--check"]) == 0, "run scripts/readme"

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("| yes: ROCm ", "| yes: ROCm 9"),
            ("| unofficial: ", "| yes: "),
            ("| `rocenv create --torch` |", "| `rocenv create` |"),
            ("| gfx1031 |", "| gfx1030 |"),
        ],
    )
    def test_check_finds_a_changed_table_and_an_update_restores_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, old: str, new: str
    ) -> None:
        monkeypatch.setattr(SCRIPT, "table", lambda: table)
        text = README.read_text(encoding="utf-8")
        copy = tmp_path / "README.md"
        copy.write_text(text.replace(old, new, 1), encoding="utf-8")
        assert copy.read_text(encoding="utf-8") != text
        assert SCRIPT.main(["--check", "--readme", str(copy)]) == 1
        assert copy.read_text(encoding="utf-8") != text, "--check changes nothing"
        assert SCRIPT.main(["--readme", str(copy)]) == 0
        assert copy.read_text(encoding="utf-8") == text

    def test_each_command_in_the_table_resolves_to_the_set_in_its_row(self, tmp_path: Path) -> None:
        seen = set()
        for card, platform, answer, command in rows():
            if (platform, command) in seen:
                continue
            seen.add((platform, command))
            options = shlex.split(command.removeprefix("rocenv create "))
            argv = ["resolve", *options, "--target", card, "--platform", platform]
            environ = {**os.environ, "ROCENV_HOME": str(tmp_path), "ROCENV_OFFLINE": "1", "COLUMNS": "200"}
            done = forked.run_text(argv, env=environ)
            assert done.returncode == 0, (argv, done.stderr)
            assert ("torch" in done.stdout) == ("PyTorch" in answer.partition(":")[2]), argv
            assert ("ZLUDA" in done.stdout) == ("ZLUDA" in answer), argv
        assert {platform for platform, _command in seen} == {"linux", "windows"}


def rows() -> Iterator[tuple[str, str, str, str]]:
    """Yield the first card, platform, answer and command for each answer other than "no"."""
    for line in README.read_text(encoding="utf-8").splitlines():
        cells = [each.strip() for each in line.strip("|").split("|")]
        if len(cells) != 5 or not cells[1].startswith("gfx"):
            continue
        cards, _target, linux, windows, how = cells
        commands = re.findall("`([^`]+)`", how)
        for platform, answer, command in (("linux", linux, commands[0]), ("windows", windows, commands[-1])):
            if answer != "no":
                yield cards.partition(",")[0], platform, answer, command


# ---------------------------------------------------------------- commands in the documents


def commands(text: str) -> Iterator[str]:
    """Yield the rocenv commands in a document's code blocks."""
    for code in CODE.findall(text):
        for line in code.strip("`").splitlines():
            plain = line.partition(" #")[0]
            for part in re.split(r";|&&|\|", plain):
                if part.strip().startswith("rocenv ") and not re.search(r"[…()]|\.\.\.", part):
                    yield part.strip()


def problem(command: str) -> str:
    """Return the unknown word in a command, or "" if there is none."""
    words = command.split()[1:]
    if words[0] == "help" or words[0].startswith("-"):
        words = words[1:] or ["list"]
    if words[0].isupper():
        return ""
    found: click.Command | None = cli.cli
    while words and isinstance(found, click.Group) and not words[0].startswith("-"):
        context = click.Context(found)
        following = found.get_command(context, words[0])
        if following is None:
            break
        found, words = following, words[1:]
    if found is None or found is cli.cli:
        return f"no command `{words[0]}`"
    known = {"--help", *(option for each in found.params for option in (*each.opts, *each.secondary_opts))}
    given = words[: words.index("--")] if "--" in words else words
    unknown = [word for word in given if word.startswith("--") and word.partition("=")[0] not in known]
    return f"no option {', '.join(unknown)}" if unknown else ""


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_all_commands_in_the_docs_exist(document: Path) -> None:
    found = {each: problem(each) for each in commands(document.read_text(encoding="utf-8"))}
    assert {each: text for each, text in found.items() if text} == {}
    assert found or document != README


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`rocenv frob`", "no command `frob`"),
        ("```\nrocenv ls; rocenv frob x  # y\n```", "no command `frob`"),
        ("    rocenv create sd --frob", "no option --frob"),
        ("`rocenv mem model x --frob`", "no option --frob"),
        ("`rocenv run sd -- x --frob`", ""),
    ],
)
def test_a_command_that_does_not_exist_is_found(text: str, expected: str) -> None:
    assert next(filter(None, map(problem, commands(text))), "") == expected


def test_links_to_files_in_the_docs_work() -> None:
    missing = []
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", text):
            if not (document.parent / link).exists():
                missing.append(f"{document.name}: {link}")
    assert missing == []
