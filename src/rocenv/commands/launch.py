"""`rocenv launch`: check an app and its env, start it, log its output, and explain failures."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocenv.commands import candidates
from rocenv.commands.findings_text import texts_for
from rocenv.commands.options import FOLDER, env_argument, text_option
from rocenv.commands.output import color, note, print_text
from rocenv.commands.run import tool_hints
from rocenv.context import Context
from rocenv.core.errors import PrefixError, RocenvError
from rocenv.core.progress import sanitized

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from click.shell_completion import CompletionItem

    from rocenv.apps.context import LaunchContext
    from rocenv.apps.start import Start
    from rocenv.data.remedies import Texts
    from rocenv.findings import Finding


_COLORS = {"error": "red", "warning": "yellow", "info": "cyan"}

# The options that may follow NAME, and whether each needs a value.
_OPTIONS = {"--app": True, "--write-shortcut": False}
MARK = "rem made by rocenv launch --write-shortcut"
_PLAIN = re.compile(r"[A-Za-z0-9_\-./\\:+@]+")


class _Launch(click.Command):
    """A command whose options may also follow NAME. The app's command starts after them.

    This lets `launch sd webui.bat --medvram` work without `--`, even if rocenv has an option by that name.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Move our options to the front, and hide the app's command from the parser."""
        start = _count_own(args)
        name, rest = args[start : start + 1], args[start + 1 :]
        if not name or name[0].startswith("-"):
            return super().parse_args(ctx, args)
        own = _count_own(rest)
        if rest[own : own + 1] and rest[own] in (
            *ctx.help_option_names,
            *_OPTIONS,
        ):  # `--help`, or an option that lacks its value
            return super().parse_args(ctx, rest[own : own + 1])
        words = rest[own + 1 :] if rest[own : own + 1] == ["--"] else rest[own:]
        return super().parse_args(ctx, [*args[:start], *rest[:own], "--", *name, *words])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete options, except within the app's command."""
        return [] if ctx.params.get("argv") else super().shell_complete(ctx, incomplete)


def _count_own(words: Sequence[str]) -> int:
    """Count the leading words that are our options and their values."""
    count = 0
    while count < len(words) and words[count].partition("=")[0] in _OPTIONS:
        option, equals, _ = words[count].partition("=")
        value = words[count + 1 : count + 2]
        if _OPTIONS[option] and not equals and not value:
            break
        takes = bool(value) and not equals and (_OPTIONS[option] or not value[0].startswith("-"))
        count += 2 if takes else 1
    return count


@click.command(cls=_Launch)
@env_argument
@text_option(
    "--app", "APP", candidates.apps, help="The app. Default: detected from its program, files or env."
)
@click.option(
    "--write-shortcut",
    "shortcut_folder",
    metavar="[DIR]",
    is_flag=False,
    flag_value=".",
    type=FOLDER,
    help="Windows: write NAME.cmd, which starts the app when double-clicked, and exit.",
)
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[-- CMD…]")
def command(name: str, app: str, shortcut_folder: Path | None, argv: tuple[str, ...]) -> int:
    """Start an app in the env NAME, log its output, and explain failures.

    In the folder of a known app, CMD can be omitted or contain only arguments. The exit code is the app's.
    """
    from rocenv.apps.arguments import adapt_arguments
    from rocenv.apps.context import LaunchContext
    from rocenv.host import detect
    from rocenv.launch.run import prepare, with_changes_noted, with_kernels

    context = Context()
    try:
        start = prepare(context, name, app, argv)
    except PrefixError as error:
        if error.code == "env-missing" and any(row.key == name for row in context.matrix.launcher):
            error.hints = (f"create it: `rocenv create --app {name}`",)
        raise
    if start.wrapper:
        os.chdir(start.folder)  # as the wrapper does
    if shortcut_folder is not None:
        _write_shortcut(start, shortcut_folder, argv)
        return 0
    with tool_hints(start.prefix, start.record, context):
        texts = texts_for(context)
        launch = LaunchContext(
            start=start, host=detect(context.matrix), matrix=context.matrix, language=texts.language
        )
        launch = with_kernels(with_changes_noted(launch), context.home)
        with context.progress.wait(launch.message("checking", app=start.title)):
            launch = adapt_arguments(launch)
        return _run(launch, _check(launch, context, texts))


def _check(launch: LaunchContext, context: Context, texts: Texts) -> list[Finding]:
    """Report pre-launch problems; raise PrefixError if starting the app would be pointless or harmful."""
    from rocenv.checks.run import run_before_start

    findings = run_before_start(launch, context.home, texts.language)
    worst = findings[0] if findings and findings[0].severity == "error" else None
    for finding in findings:
        if finding is not worst:
            _report(finding, texts)
    if worst is not None:
        raise PrefixError(_sentence(worst, texts), hints=tuple(_hints(worst, texts)), code=worst.code)
    for line in launch.start.notes:
        note(line)
    return findings


def _report(finding: Finding, texts: Texts) -> None:
    heading = texts(finding.severity) + texts.mark(":")
    hints = (texts("hint") + texts.mark(":") + hint for hint in _hints(finding, texts))
    text = sanitized("\n  ".join((_sentence(finding, texts), *finding.evidence, *hints)))
    print_text(color(heading, _COLORS[finding.severity], err=True) + text, err=True)


def _sentence(finding: Finding, texts: Texts) -> str:
    return f"{finding.title}{texts.mark('.')}{finding.detail}"


def _hints(finding: Finding, texts: Texts) -> Iterator[str]:
    """Yield each step with its commands."""
    for step in finding.steps:
        commands = texts.mark(",").join(f"`{command}`" for command in step.commands)
        yield step.text.rstrip(".。") + texts.mark(":") + commands if commands else step.text


def _run(launch: LaunchContext, findings: Sequence[Finding]) -> int:
    from rocenv.launch.run import run

    def report(text: str) -> None:
        try:
            note(text)
        except OSError:  # stderr is closed, but the app keeps running, and its exit code matters
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # otherwise, Python prints an error at exit

    last = launch.start.prefix.verification()
    lines = [f"{each.severity}: {each.title}" for each in findings]
    code, explanation = run(launch, lines, last.level if last else "", report)
    if explanation is not None:
        report("\n" + "\n".join(explanation.lines))
    return code


def _write_shortcut(start: Start, folder: Path, words: tuple[str, ...]) -> None:
    from rocenv.system.files import storage_errors, write_atomic
    from rocenv.system.quoting import shell_join

    name = start.prefix.name
    if start.record.lock.platform != "windows":
        raise RocenvError(
            f"shortcuts work only on Windows, but `{name}` is an env for {start.record.lock.platform}",
            hints=(f"use an alias: alias {name}='rocenv launch {shell_join(name)}'",),
            code="shortcut",
        )
    command = [sys.executable, "-m", "rocenv", "launch", name, "--app", start.launcher.key]
    command += ["--", *words] if words else []
    home = os.environ.get("ROCENV_HOME")
    text = shortcut_text(command, str(Path.cwd()), {"ROCENV_HOME": home} if home else {})
    path = folder / f"{name}.cmd"
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if path.exists() and MARK.encode() not in path.read_bytes():
            raise RocenvError(
                f"`{path}` already exists and was not written by rocenv",
                hints=("choose a different folder with `--write-shortcut`",),
                code="shortcut",
            )
        write_atomic(path, text)
    click.echo(str(path))


def shortcut_text(command: Sequence[str], folder: str, variables: Mapping[str, str]) -> bytes:
    """Return a batch file that runs a command in a folder and waits for a key if it fails.

    If a word is not ASCII, the file switches the console to UTF-8 while the command runs.

    Args:
        command: The command to run.
        folder: The folder to run it in.
        variables: Variables to set for this file only.

    Raises:
        RocenvError: A word contains a quotation mark or line break, which a batch file cannot pass to a
            program.
    """
    words = [*command, folder, *variables.values()]
    lines = ["@echo off", MARK, "setlocal disabledelayedexpansion"]
    foreign = any(not word.isascii() for word in words)
    if foreign:
        # "Active code page: 850"; the text before the colon is localized
        lines += ['for /f "tokens=2 delims=:." %%p in (\'chcp\') do set "_CODE_PAGE=%%p"', "chcp 65001 >nul"]
    lines += [f'set "{name}={_inner(value)}"' for name, value in variables.items()]
    lines.append(f'cd /d "{_inner(folder)}"')
    lines.append(" ".join(map(_word, command)))
    lines.append('set "_ENDED=%errorlevel%"')
    if foreign:
        lines.append("chcp %_CODE_PAGE% >nul")
    lines += ['if not "%_ENDED%"=="0" pause', "exit /b %_ENDED%"]
    return "".join(f"{line}\r\n" for line in lines).encode()


def _word(word: str) -> str:
    if _PLAIN.fullmatch(word):
        return word
    # A backslash before the closing quotation mark would escape it.
    # Source: the rules of CommandLineToArgvW
    ending = "\\" * (len(word) - len(word.rstrip("\\")))
    return f'"{_inner(word)}{ending}"'


def _inner(word: str) -> str:
    bad = next((char for char in word if char == '"' or not char.isprintable()), "")
    if bad:
        raise RocenvError(
            f"a batch file cannot pass the {bad!r} in `{word.encode('unicode_escape').decode()}`",
            hints=("use the app's own settings for such arguments",),
            code="shortcut",
        )
    return word.replace("%", "%%")
