"""The command line: finds the module of a verb when it is called, and turns every error into text.

A verb's module is imported only when that verb is used, so that `rocenv run` does not pay for `create`.
"""

from __future__ import annotations

import codecs
import errno
import importlib
import json
import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

from rocenv import __version__
from rocenv.context import limit_umask
from rocenv.core.errors import ResolutionImpossible, RocenvError
from rocenv.core.logins import mask_logins
from rocenv.core.wrap import reading_width, wrapped
from rocenv.system.exit_codes import own_exit_code

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from rocenv.core.model import Rejection


_ESCAPE_OR_REPLACE = "rocenv.escape-or-replace"
# In the order of the help text: verb -> its module in `rocenv.commands` and one line about it.
COMMANDS = {
    "create": ("create", "Make an env: resolve, fetch, install, verify."),
    "resolve": ("resolve", "Show the set that `create` would take."),
    "list": ("list_envs", "List the envs."),
    "show": ("show", "Show what an env consists of and how far it was proved."),
    "run": ("run", "Run a command in an env."),
    "launch": ("launch", "Start an app in an env, keep its log, and say why it crashed."),
    "activate": ("activate", "Say how to activate an env, or print the script."),
    "deactivate": ("deactivate", "Say how to leave an env."),
    "hook": ("hook", "Print the code for a shell's start-up file."),
    "trust": ("trust", "Let the `.rocenv` file of a folder choose the env there."),
    "verify": ("verify", "Prove an env, rung by rung."),
    "shim": ("shim", "Show the files that stand for CUDA's, or move them."),
    "repair": ("repair", "Put changed or missing files of an env back."),
    "remove": ("remove", "Remove an env."),
    "rename": ("rename", "Give an env another name."),
    "clone": ("clone", "Make a second env of the same set."),
    "lock": ("lock", "Print the lock of an env."),
    "matrix": ("matrix", "Show what goes with what: the rows of the compatibility matrix."),
    "explain": ("explain", "Explain a target, a version, a variable or a code, with sources."),
    "diagnose": ("diagnose", "Find known causes in a log."),
    "doctor": ("doctor", "Check this machine, or an env, for known troubles."),
    "gpus": ("gpus", "Show the GPUs of this machine and which one is used."),
    "mem": ("mem", "Show GPU memory: what is free, who holds it, what fits."),
    "kernels": ("kernels", "Compile an app's GPU kernels for a target."),
    "config": ("config", "Read and change the settings."),
    "gc": ("gc", "Show what no env needs, and free it."),
    "cache": ("cache", "Show what is kept for later, and free it."),
}
HIDDEN = {"complete": ("complete", "Print what a word may become.")}  # what only programs call


class Verbs(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order of the help text."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a verb, or None for an unknown one."""
        known = {**COMMANDS, **HIDDEN}
        if cmd_name not in known:
            return None
        module = importlib.import_module(f"rocenv.commands.{known[cmd_name][0]}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of verbs without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(verb, text) for verb, (_, text) in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the verbs, without importing them, and the options."""
        from click.shell_completion import CompletionItem

        found = [CompletionItem(verb, help=text) for verb, (_, text) in COMMANDS.items()]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [each for each in found if each.value.startswith(incomplete)] + options

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb, and name similar ones where there is no such verb."""
        if args and args[0] not in (*COMMANDS, *HIDDEN) and not args[0].startswith("-"):
            import difflib

            close = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean `{close[0]}`?" if close else ""
            raise click.UsageError(f"There is no command `{args[0]}`.{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="rocenv", message="%(prog)s %(version)s")
def cli() -> None:
    """Matched ROCm and PyTorch sets for AMD GPUs, in prefixes of their own, proved to work."""


def main(argv: list[str] | None = None) -> NoReturn:
    """Run the command line and exit with its code."""
    argv = sys.argv[1:] if argv is None else argv
    _make_streams()
    limit_umask()
    wants_json = "--json" in (argv[: argv.index("--")] if "--" in argv else argv)
    code = _run(argv, wants_json=wants_json)
    if _output_fails():
        code = code or 1
    sys.exit(own_exit_code(code))


def _output_fails() -> bool:
    """Say that what was printed cannot be written, if so; that its reader has gone is no failure."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_stdout()
    except OSError as error:
        _forget_stdout()
        sys.stderr.write(f"error: cannot write the output: {error.strerror}\n")
        return True
    return False


def _make_streams() -> None:
    """See to it that printing neither fails for want of characters nor for want of a stream.

    A name, or a line of a log, may hold what the terminal has no characters for.
    """
    if sys.stdout is None:  # closed by who started this, `>&-`
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - as long as the process
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    how = getattr(sys.stdout, "errors", "")
    if how == "strict":
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    elif how == "surrogateescape":  # of the C locale: bytes of a path are to come out as they are
        codecs.register_error(_ESCAPE_OR_REPLACE, _escape_or_replace)
        sys.stdout.reconfigure(errors=_ESCAPE_OR_REPLACE)  # type: ignore[union-attr]


def _escape_or_replace(error: UnicodeError) -> tuple[bytes, int]:
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end]
    escaped = (ord(char) - 0xDC00 for char in text)
    return bytes(byte if 0x80 <= byte <= 0xFF else ord("?") for byte in escaped), error.end


def _run(argv: list[str], *, wants_json: bool) -> int:
    try:
        result = cli.main(args=argv, prog_name="rocenv", standalone_mode=False)
    except click.ClickException as error:
        if wants_json:
            _print_json({"error": "usage", "message": error.format_message(), "hints": []})
        error.show()
        return error.exit_code
    except RocenvError as error:
        _show(error, wants_json=wants_json)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        sys.stderr.write("\ninterrupted\n")
        return 130
    except BrokenPipeError:
        _forget_stdout()
        return 1
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None:
            _forget_stdout()
            sys.stderr.write("error: cannot write: no space is left on a disk, or where the output goes\n")
            return 1
        from rocenv.commands.report import write_report

        sys.stderr.write(write_report(error, argv))
        if wants_json:
            _print_json(
                {"error": "internal", "message": mask_logins(f"{type(error).__name__}: {error}"), "hints": []}
            )
        return 3
    return result if isinstance(result, int) else 0


def _forget_stdout() -> None:
    """Let what is still to be printed go nowhere: its reader has gone, and Python would complain at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _show(error: RocenvError, *, wants_json: bool) -> None:
    lines = [f"error: {error.message}"]
    if isinstance(error, ResolutionImpossible):
        lines += _reasons(error.rejections)
    if error.hints:
        lines += ["", *(f"hint: {hint}" for hint in error.hints)]
    from rocenv.core.progress import sanitized

    sys.stderr.write(sanitized("\n".join(lines)) + "\n")
    if wants_json:
        _print_json(error_json(error))


def _reasons(rejections: tuple[Rejection, ...]) -> list[str]:
    """Return the lines of an explanation, each with its source."""
    if not rejections:
        return []
    width = reading_width()
    lines = [
        "",
        "These requirements conflict; no set meets all of them:" if rejections[1:] else "why:",
    ]
    for each in rejections:
        lines += wrapped(each.text, width, "  - ", "    ")
        lines += wrapped(f"[{each.source.partition(';')[0].strip()}]", width, "    ", "     ")
    return lines


def error_json(error: RocenvError) -> dict[str, Any]:
    """Return an error as `--json` prints it."""
    told: dict[str, Any] = {
        "error": error.code,
        "message": error.message,
        "hints": list(error.hints),
    }
    if isinstance(error, ResolutionImpossible):
        told["conflict"] = [
            {
                "component": each.component,
                "requirement": each.requirement,
                "found": each.found,
                "source": each.source,
            }
            for each in error.rejections
        ]
        told["suggestions"] = [
            {
                "command": each.command,
                "components": [{"kind": kind, "version": version} for kind, version in each.components],
            }
            for each in error.suggestions
        ]
    return told


def _print_json(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document, indent=1) + "\n")
