"""`rocenv launch`: an app in an env, looked after: checks before, a log, and an explanation of a bad end."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocenv.commands import candidates
from rocenv.commands.output import colour, note
from rocenv.commands.told import label, spoken
from rocenv.context import Context
from rocenv.core.errors import PrefixError, RocenvError
from rocenv.prefix import prefix_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from click.shell_completion import CompletionItem

    from rocenv.core.language import Language
    from rocenv.findings import Finding
    from rocenv.launch.context import LaunchContext
    from rocenv.launch.start import Start

_COLOURS = {"error": "red", "warning": "yellow", "info": "cyan"}

# The options that may follow NAME, and whether a value has to follow them.
_OPTIONS = {"--app": True, "--write-shortcut": False}


class _Launch(click.Command):
    """A command whose options may stand behind NAME too; from the first other word on all is the app's.

    So `launch sd webui.bat --medvram` needs no `--`, and an option that an app shares with us is its own
    behind its name.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put our options first, and keep the rest from being read."""
        start = _own(args)
        name, rest = args[start : start + 1], args[start + 1 :]
        if not name or name[0].startswith("-"):
            return super().parse_args(ctx, args)
        own = _own(rest)
        if rest[own : own + 1] and rest[own] in (*ctx.help_option_names, *_OPTIONS):  # or without its value
            return super().parse_args(ctx, rest[own : own + 1])
        words = rest[own + 1 :] if rest[own : own + 1] == ["--"] else rest[own:]
        return super().parse_args(ctx, [*args[:start], *rest[:own], "--", *name, *words])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the options, but behind a word of the app."""
        return [] if ctx.params.get("argv") else super().shell_complete(ctx, incomplete)


def _own(words: Sequence[str]) -> int:
    """Return how many of the first words are options of ours and their values."""
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
@click.argument("name", shell_complete=candidates.env_names)
@click.option(
    "--app",
    metavar="APP",
    default="",
    shell_complete=candidates.apps,
    help="Which app it is. Default: recognised by its program or its files, or what the env is for.",
)
@click.option(
    "--write-shortcut",
    "shortcut_folder",
    metavar="[DIR]",
    is_flag=False,
    flag_value=".",
    type=click.Path(file_okay=False, path_type=Path),
    help="Windows: write NAME.cmd, which a double-click starts the app by, and stop.",
)
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[-- CMD…]")
def command(name: str, app: str, shortcut_folder: Path | None, argv: tuple[str, ...]) -> int:
    """Start an app in the env NAME, keep what it prints in a log, and say why it ended badly.

    In the folder of a known app no CMD is needed, or only arguments. The exit code is the app's own.
    """
    context = Context()
    start = _start(context, name, app, argv)
    if start.wrapper:
        os.chdir(start.folder)  # as that script does
    if shortcut_folder is not None:
        _write_shortcut(start, shortcut_folder, argv)
        return 0
    from rocenv.commands.launch_kernels import with_kernels
    from rocenv.host import detect
    from rocenv.launch.context import LaunchContext
    from rocenv.launch.fitted import fit_start

    view = LaunchContext(
        start=with_kernels(context, start), host=detect(context.matrix), matrix=context.matrix
    )
    with context.progress.wait(f"Checking what {start.title} supports on this machine"):
        view = fit_start(view)
    return _run(view, _check(view, context, spoken(None)))


def _start(context: Context, name: str, app: str, words: tuple[str, ...]) -> Start:
    from rocenv.launch.start import choose, plan_start
    from rocenv.launch.streams import is_piped, terminal_columns

    prefix = prefix_of(context.home, name)
    record = prefix.record()
    chosen = choose(
        tuple(context.matrix.launcher),
        app,
        words,
        Path.cwd(),
        platform=record.lock.platform,
        own=record.lock.request.app,
    )
    columns = terminal_columns()
    return plan_start(
        prefix,
        record,
        chosen,
        words,
        os.environ,
        is_piped=is_piped(),
        columns=columns,
        is_named=bool(app),
    )


def _check(view: LaunchContext, context: Context, language: Language) -> list[Finding]:
    """Report what is wrong before the start; raise PrefixError if starting the app is useless or harmful."""
    from rocenv.checks.run import run_before_start

    findings = run_before_start(view, context.home, language)
    worst = findings[0] if findings and findings[0].severity == "error" else None
    for finding in findings:
        if finding is not worst:
            _report(finding, language)
    if worst is not None:
        raise PrefixError(_sentence(worst, language), hints=tuple(_hints(worst)), code=worst.code)
    for line in view.start.notes:
        note(line)
    return findings


def _report(finding: Finding, language: Language) -> None:
    heading = f"{label(finding.severity, language)}: "
    click.echo(colour(heading, _COLOURS[finding.severity], err=True), err=True, nl=False)
    hints = (f"hint: {hint}" for hint in _hints(finding))
    note("\n  ".join((_sentence(finding, language), *finding.evidence, *hints)))


def _sentence(finding: Finding, language: Language) -> str:
    """The title and the reason in one line."""
    full_stop = "。" if language == "zh" else ". "
    return f"{finding.title}{full_stop}{finding.detail}"


def _hints(finding: Finding) -> Iterator[str]:
    """What to do, each step with its commands."""
    for step in finding.steps:
        commands = ", ".join(f"`{command}`" for command in step.commands)
        yield f"{step.text.rstrip('.。')}: {commands}" if commands else step.text


def _run(view: LaunchContext, findings: list[Finding]) -> int:
    from rocenv.launch.run import run

    def tell(text: str) -> None:
        try:
            note(text)
        except OSError:  # nobody reads it; the app goes on, and its exit code counts
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # or Python would complain at its end

    last = view.start.prefix.verification()
    done = run(view, findings, last.level if last else "", tell)
    if done.explanation is not None:
        tell("\n" + "\n".join(done.explanation.lines()))
    return done.code


def _write_shortcut(start: Start, folder: Path, words: tuple[str, ...]) -> None:
    from rocenv.launch.shortcut import MARK, shortcut_text
    from rocenv.system.files import storage_errors, write_atomic
    from rocenv.system.quoting import shell_join

    name = start.prefix.name
    if start.record.lock.platform != "windows":
        raise RocenvError(
            f"`{name}` is an env for {start.record.lock.platform}, and shortcuts are for Windows",
            hints=(f"an alias does it: alias {name}='rocenv launch {shell_join(name)}'",),
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
                f"`{path}` is there already, and rocenv did not write it",
                hints=("name another folder: `--write-shortcut DIR`",),
                code="shortcut",
            )
        write_atomic(path, text)
    click.echo(str(path))
