"""The command line: import a command's module when the command is called, and turn errors into text.

Each command is imported only when it is used, so `rocenv run` does not wait for `create`'s imports.
"""

from __future__ import annotations

import codecs
import errno
import importlib
import os
import re
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

from rocenv import __version__
from rocenv.context import limit_umask
from rocenv.core.errors import Declined, NoSpace, ResolutionImpossible, RocenvError, WrongUsage
from rocenv.core.logins import mask_logins
from rocenv.system.exit_codes import own_exit_code

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from rocenv.core.model import Rejection


_ESCAPE_OR_REPLACE = "rocenv.escape-or-replace"
# Help group -> command -> its module and function in `rocenv.commands`, and its help line.
GROUPS = {
    "Start": {
        "create": ("create.command", "Create an env: resolve, download, install, verify."),
        "run": ("run.command", "Run a command in an env."),
        "launch": ("launch.command", "Start an app in an env, log its output, and explain crashes."),
        "activate": ("activate.activate", "Show how to activate an env, or print the script."),
        "deactivate": ("activate.deactivate", "Show how to deactivate an env."),
        "verify": ("verify.command", "Test an env step by step, up to a matrix multiplication on the GPU."),
    },
    "Environments": {
        "list": ("envs.list_", "List the envs."),
        "show": ("envs.show", "Show the parts of an env and what was verified."),
        "upgrade": ("upgrade.command", "Upgrade an env to the newest set for its request."),
        "repair": ("envs.repair", "Restore changed or missing files in an env."),
        "clone": ("envs.clone", "Create another env with the same set."),
        "rename": ("envs.rename", "Rename an env."),
        "remove": ("envs.remove", "Remove envs."),
        "lock": ("envs.lock", "Print an env's lock."),
        "shim": ("envs.shim", "Show or move the files that replace CUDA libraries."),
        "hook": ("hook.command", "Print the code for a shell's start-up file."),
        "trust": ("trust.command", "Let a folder's `.rocenv` file choose the env."),
    },
    "This machine": {
        "gpus": ("gpus.command", "Show the GPUs on this machine and which one is used."),
        "mem": ("mem.command", "Show GPU memory: how much is free, what uses it, and what fits."),
        "kernels": ("kernels.command", "Compile an app's GPU kernels for a target."),
    },
    "Clusters": {
        "bundle": ("bundle.command", "Write envs to one file for machines without a network."),
        "mirror": ("mirror.command", "Copy the envs' packages to a folder for a web server."),
        "export": ("export.command", "Export an env as a module, a container or an image."),
        "fleet": ("fleet.command", "Verify the nodes of a cluster and compare them."),
    },
    "Troubleshooting": {
        "doctor": ("doctor.command", "Check this machine or an env for known problems."),
        "diagnose": ("diagnose.command", "Find known causes in a log."),
        "explain": ("explain.command", "Explain a GPU, a version, a variable or a code, with sources."),
        "resolve": ("resolve.command", "Show the set that `create` would install."),
        "matrix": ("matrix.command", "Show which releases work together."),
    },
    "Housekeeping": {
        "config": ("config.command", "Read and edit the settings."),
        "gc": ("cache.gc", "List and delete packages that no env needs."),
        "cache": ("cache.cache", "Show and free downloads and other cached files."),
    },
}
COMMANDS = {name: row for group in GROUPS.values() for name, row in group.items()}
ALIASES = {"ls": "list", "rm": "remove"}
# Other tools' names for these commands.
_ELSEWHERE = {
    **dict.fromkeys(("add", "init", "install", "new", "setup", "sync"), "create"),
    **dict.fromkeys(("delete", "del", "uninstall"), "remove"),
    **dict.fromkeys(("clean", "prune", "purge"), "gc"),
    **dict.fromkeys(("envs", "env"), "list"),
    **dict.fromkeys(("info", "inspect"), "show"),
    **dict.fromkeys(("gpu", "devices", "detect", "status"), "gpus"),
    **dict.fromkeys(("check", "test"), "verify"),
    **dict.fromkeys(("log", "logs", "why"), "diagnose"),
    **dict.fromkeys(("plan", "solve"), "resolve"),
    "exec": "run",
    "fix": "repair",
    "freeze": "lock",
    "search": "matrix",
    "settings": "config",
    "start": "launch",
    "update": "upgrade",
    "use": "activate",
}
_EXAMPLES = """\
Examples:
  $ rocenv create --torch                # ROCm and PyTorch for your GPU
  $ rocenv run default -- python3 app.py
  $ rocenv diagnose app.log              # why did it crash?

`rocenv help COMMAND` describes a command.
"""
HIDDEN = {"complete": ("complete.command", "Print candidates for a word.")}  # only for programs


def load_command(name: str) -> click.Command:
    """Import a command."""
    module, _, function = {**COMMANDS, **HIDDEN}[name][0].partition(".")
    command: click.Command = getattr(importlib.import_module(f"rocenv.commands.{module}"), function)
    return command


class Commands(click.Group):
    """All commands, which can be listed without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the commands in help order."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command, or return None if it does not exist."""
        cmd_name = ALIASES.get(cmd_name, cmd_name)
        return load_command(cmd_name) if cmd_name in (*COMMANDS, *HIDDEN) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in groups, with all descriptions in the same column."""
        width = max(map(len, COMMANDS))
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, (_, text) in group.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples as they are; click would wrap them."""
        formatter.write(f"\n{_EXAMPLES}")

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete commands and options."""
        from click.shell_completion import CompletionItem

        found = [CompletionItem(name, help=text) for name, (_, text) in COMMANDS.items()]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [each for each in found if each.value.startswith(incomplete)] + options

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or suggest a similar one."""
        if args and args[0] not in (*COMMANDS, *HIDDEN, *ALIASES) and not args[0].startswith("-"):
            import difflib

            close = difflib.get_close_matches(args[0], (*COMMANDS, *_ELSEWHERE), n=1)
            hints = [f"did you mean `rocenv {_ELSEWHERE.get(name, name)}`?" for name in close]
            raise WrongUsage(
                f"there is no command `{args[0]}`", hints=(*hints, "list the commands: `rocenv help`")
            )
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", prog_name="rocenv", message="%(prog)s %(version)s")
def cli() -> None:
    """Install sets of ROCm, PyTorch and ZLUDA that work together on your AMD GPU, and verify them."""


def main(argv: list[str] | None = None) -> NoReturn:
    """Run the command line and exit with its code."""
    argv = sys.argv[1:] if argv is None else argv
    _prepare_streams()
    if argv[:1] != ["verify"] or "--node" not in argv:  # the `--node` watchdog must not access the home
        limit_umask()
    wants_json = "--json" in (argv[: argv.index("--")] if "--" in argv else argv)
    code = _run(argv, wants_json=wants_json)
    if not _flush_output():
        code = code or 1
    sys.exit(own_exit_code(code))


def _flush_output() -> bool:
    """Flush the output, and return whether that worked; a closed pipe is not a failure."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
    except OSError as error:
        _discard_output()
        sys.stderr.write(f"error: cannot write the output: {error.strerror}\n")
        return False
    return True


def _prepare_streams() -> None:
    """Make printing safe with closed streams, and with characters that the terminal cannot display."""
    if sys.stdout is None:  # closed by the caller: `>&-`
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - stays open
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    how = getattr(sys.stdout, "errors", "")
    if how == "strict":
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    elif how == "surrogateescape":  # in the C locale: print the bytes of paths unchanged
        codecs.register_error(_ESCAPE_OR_REPLACE, _escape_or_replace)
        sys.stdout.reconfigure(errors=_ESCAPE_OR_REPLACE)  # type: ignore[union-attr]


def _escape_or_replace(error: UnicodeError) -> tuple[bytes, int]:
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end]
    escaped = (ord(char) - 0xDC00 for char in text)
    return bytes(byte if 0x80 <= byte <= 0xFF else ord("?") for byte in escaped), error.end


def _run(argv: list[str], *, wants_json: bool) -> int:
    if argv[:1] == ["help"]:
        argv = [*_command_words(argv[1:]), "--help"]
    try:
        result = cli.main(args=argv, prog_name="rocenv", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        _show(_wrong_usage(error, argv), wants_json=wants_json)
        return error.exit_code
    except RocenvError as error:
        _show(error, wants_json=wants_json)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        sys.stderr.write("\ninterrupted\n")
        return 130
    except BrokenPipeError:
        _discard_output()
        return 1
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None:
            _discard_output()
            sys.stderr.write("error: cannot write the output: no space left\n")
            return 1
        message = mask_logins(f"{type(error).__name__}: {error}")
        sys.stderr.write(f"error: rocenv failed unexpectedly: {message}\n\n{_write_bug_report(error, argv)}")
        if wants_json:
            from rocenv.commands.output import print_json

            print_json({"error": "internal", "message": message, "hints": []})
        return 3
    return result if isinstance(result, int) else 0


def _command_words(words: list[str]) -> list[str]:
    """Return the leading words that name a command; keep an unknown first word for the error."""
    if not words or words[0] in ("help", *HIDDEN):
        return []
    name = ALIASES.get(words[0], words[0])
    command = load_command(name) if name in COMMANDS else None
    count = 1
    while isinstance(command, click.Group) and words[count:]:
        context = click.Context(command)
        if words[count] not in command.list_commands(context):
            break
        command = command.get_command(context, words[count])
        count += 1
    return words[:count]


def _wrong_usage(error: click.ClickException, argv: list[str]) -> RocenvError:
    """Convert a click error into one that reads like rocenv's own."""
    import difflib

    message = error.format_message()
    hints = []
    if isinstance(error, click.NoSuchOption):
        message = f"there is no option '{error.option_name}'"
        # Dashes would make all names look similar.
        names = [name.lstrip("-") for name in error.possibilities or ()]
        close = difflib.get_close_matches(error.option_name.lstrip("-"), names, n=1)
        hints = [f"did you mean `--{name}`?" for name in close]
    message = re.sub(r"(?<!\w)'([^']*)'(?!\w)", r"`\1`", message.rstrip("."))
    context = getattr(error, "ctx", None)
    named = [each for each in argv[:1] if each in COMMANDS]
    path = context.command_path if context else " ".join(["rocenv", *named])
    if not message[1:2].isupper():  # unlike FILE
        message = message[:1].lower() + message[1:]
    return WrongUsage(message, hints=(*hints, f"see `{path} --help`"))


def _write_bug_report(error: BaseException, argv: list[str]) -> str:
    """Write a bug report to a file and return a hint that names it; if that fails, return the report."""
    import datetime
    import platform
    import tempfile
    import traceback

    now = datetime.datetime.now(datetime.timezone.utc)
    report = mask_logins(
        f"""\
## What I did
`rocenv {" ".join(argv)}`

## What happened
```
{"".join(traceback.format_exception(error)).rstrip()}
```

## Versions
- rocenv {__version__}
- Python {sys.version.splitlines()[0]}
- {platform.platform()}
- {now.isoformat(timespec="seconds")}
"""
    )
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="rocenv-report-", suffix=".md", delete=False, encoding="utf-8"
        ) as out:
            out.write(report)
    except OSError:
        return report
    return f"hint: this is a bug in rocenv; please report it with `{out.name}`\n"


def _discard_output() -> None:
    """Redirect stdout to the null device, because Python prints an error at exit if a pipe is closed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _show(error: RocenvError, *, wants_json: bool) -> None:
    from rocenv.commands.output import hint, note, print_json

    if isinstance(error, NoSpace):
        from rocenv.commands.no_space import space_hints

        error.hints = space_hints(error)
    note("Nothing was changed." if isinstance(error, Declined) else f"error: {error.message}")
    if isinstance(error, ResolutionImpossible) and error.rejections:
        note("\n".join(_reasons(error.rejections)))
    if error.hints:
        note("")
    for text in error.hints:
        hint(text)
    if wants_json:
        print_json(error_json(error))


def _reasons(rejections: tuple[Rejection, ...]) -> list[str]:
    """List the reasons why no set meets a request, with sources."""
    lines = ["", "These requirements conflict; no set meets all of them:" if rejections[1:] else "why:"]
    for each in rejections:
        lines += [f"  - {each.text}", f"    [{each.source.partition(';')[0].strip()}]"]
    return lines


def error_json(error: RocenvError) -> dict[str, Any]:
    """Convert an error to JSON, as `--json` prints it."""
    from rocenv.commands.output import fields

    answer: dict[str, Any] = {
        "error": error.code,
        "message": error.message,
        "hints": list(error.hints),
    }
    if isinstance(error, ResolutionImpossible):
        names = ("component", "requirement", "found", "source")
        answer["conflict"] = [fields(each, *names) for each in error.rejections]
        answer["suggestions"] = [
            {
                "command": each.command,
                "components": [{"kind": kind, "version": version} for kind, version in each.components],
            }
            for each in error.suggestions
        ]
    return answer
