"""`rocenv lock`: what an env consists of, to build it again anywhere."""

from __future__ import annotations

from pathlib import Path

import click

from rocenv.commands import candidates
from rocenv.commands.output import note
from rocenv.context import Context
from rocenv.core.errors import RocenvError
from rocenv.prefix import prefix_of
from rocenv.system.files import write_atomic
from rocenv.system.quoting import shell_join


@click.command()
@click.argument("name", shell_complete=candidates.env_names)
@click.option("-o", "output", metavar="FILE", type=click.Path(path_type=Path), help="Write it there.")
@click.option("--json", is_flag=True, expose_value=False, help="Print errors as JSON too; the lock is JSON.")
def command(name: str, output: Path | None) -> None:
    """Print the lock of the env NAME: every file with its address, sha256 and size."""
    from rocenv.core.lock import lock_text

    text = lock_text(prefix_of(Context().home, name).record().lock)
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        if output.exists() and not output.is_file():
            output.write_text(text)  # a pipe or a device, like `/dev/stdout`
        else:
            write_atomic(output.resolve(), text.encode())
    except OSError as error:
        raise RocenvError(f"cannot write `{output}`: {error.strerror}") from error
    note(f"`rocenv create NEW --from {shell_join(str(output))}` builds the same set")
