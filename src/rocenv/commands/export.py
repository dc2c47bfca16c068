"""`rocenv export`: export an env as a module, a container or an image for other machines."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocenv.activate.env import OF_USERS, Surroundings
from rocenv.activate.exporters import EXPORTERS
from rocenv.activate.scripts import env_at
from rocenv.commands.options import FILE, env_argument, json_option
from rocenv.commands.output import note, print_json
from rocenv.context import Context
from rocenv.core.errors import PrefixError, RocenvError
from rocenv.prefix import prefix_of
from rocenv.resolve.request import rebuild_command
from rocenv.system import process
from rocenv.system.files import is_same_folder, write_atomic
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocenv.core.model import Record
    from rocenv.prefix import Prefix

_LEVEL = "6"  # for zstd; 9 does not make files smaller, and 15 takes 30 times as long
_SQUASHFS = ("-all-root", "-no-progress", "-noappend", "-comp", "zstd", "-Xcompression-level", _LEVEL)
# Container images whose names differ from the distribution's ID in os-release.
_IMAGES = {"arch": "archlinux", "opensuse-leap": "opensuse/leap", "rocky": "rockylinux"}


@click.command()
@env_argument
@click.option("--to", "kind", type=click.Choice(list(EXPORTERS)), required=True, help="The kind of export.")
@click.option(
    "--at",
    metavar="PATH",
    type=click.Path(),
    required=True,
    help="The env's folder on the machines that will use it.",
)
@click.option(
    "-o",
    "output",
    metavar="FILE",
    type=FILE,
    help="Write it to FILE. If the name ends in `.sif`, build the Apptainer image.",
)
@json_option
def command(name: str, kind: str, at: str, output: Path | None, as_json: bool) -> None:
    """Export the env NAME as a module for Lmod, an Apptainer definition or image, or a SquashFS image.

    The env must have been created for PATH. Modules and definitions are printed. A SquashFS image is written
    to FILE (default: NAME.sqsh), and the commands to mount it are printed.
    """
    prefix = prefix_of(Context().home, name)
    record = prefix.record()
    at = _path_made_for(prefix, record, at)
    if record.lock.platform != "linux":
        raise RocenvError(f"env `{name}` is for {record.lock.platform}, but exports are only for Linux")
    if kind == "squashfs":
        output = output or Path(f"{name}.sqsh")
    surroundings = Surroundings(
        base=_base_image(),
        has_loader=bool(record.loader),
        folders=_folders_outside(prefix, record),
        image=str(output or ""),
    )
    lock = record.lock
    text = EXPORTERS[kind](env_at(name, at, lock.environment, lock.watched, lock.platform), surroundings)
    if output:
        _write_as(kind, output, text, prefix)
    if as_json:
        file = str(output) if output else None
        print_json({"env": name, "to": kind, "at": at, "file": file, "text": text})
    elif output is None or kind == "squashfs":
        click.echo(os.fsencode(text), nl=False)
    if kind != "apptainer":
        for folder in surroundings.folders:
            note(f"the env's Python is in `{folder}`, which must have the same path on other machines")
    if output:
        note(f"wrote `{output}`")


def _write_as(kind: str, output: Path, text: str, prefix: Prefix) -> None:
    _require_folder(output.parent)
    if kind == "squashfs":
        _make_squashfs(prefix, output)
    elif kind == "apptainer" and output.suffix == ".sif":
        _build_apptainer(text, output)
    else:
        _write(output, text)


def _path_made_for(prefix: Prefix, record: Record, at: str) -> str:
    """Return the path for which the env was created; `at` may be a link to it.

    Raises:
        PrefixError: The env was created for another path; the hints show how to create one for `at`.
    """
    path = Path(at)
    if not path.is_absolute():
        raise click.UsageError(f"`--at` needs an absolute path: `{os.path.abspath(at)}`")
    made_for = record.prefix or str(prefix.path)
    if os.path.normpath(at) == made_for or is_same_folder(at, made_for):
        return made_for
    if path.parent.name != "envs" or path.parent.parent == path.parent:
        raise click.UsageError(
            f"env folders have the form ROCENV_HOME/envs/NAME: `--at {path / 'envs' / prefix.name}`"
        )
    lock = f"{prefix.name}.lock"
    create = rebuild_command(path.name, lock)
    raise PrefixError(
        f"env `{prefix.name}` was created for `{made_for}`, so it will not work at `{at}`",
        hints=(
            shell_join("rocenv", "lock", prefix.name, "-o", lock),
            f"then create it there: `{shell_join('env', f'ROCENV_HOME={path.parent.parent}')} {create}`",
        ),
        code="export-elsewhere",
    )


def _base_image() -> str:
    """Return a container image for this machine's distribution."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    ident = release.get("ID", "debian")
    return f"{_IMAGES.get(ident, ident)}:{release.get('VERSION_ID', 'latest')}"


def _folders_outside(prefix: Prefix, record: Record) -> tuple[str, ...]:
    """List the folder of rocenv's own Python (outside the env) if the venv uses that Python."""
    python, pythons = prefix.path / record.lock.python, Context().home.pythons
    if not os.path.lexists(python):
        return ()
    real = Path(os.path.realpath(python))
    for root in (pythons, Path(os.path.realpath(pythons))):
        if root in real.parents:
            return (str(pythons / real.relative_to(root).parts[0]),)
    return ()


def _make_squashfs(prefix: Prefix, image: Path) -> None:
    """Write an image without the env's caches and logs, with all files owned by root."""
    with tempfile.TemporaryDirectory(dir=image.parent, prefix=".rocenv-") as folder:
        made = Path(folder) / "image"
        _run(
            ["mksquashfs", str(prefix.path), str(made), *_SQUASHFS, "-e", *OF_USERS],
            "install squashfs-tools: `sudo apt-get install squashfs-tools`",
        )
        made.replace(image)


def _build_apptainer(text: str, image: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="rocenv-") as folder:
        definition = Path(folder) / "image.def"
        definition.write_bytes(os.fsencode(text))
        squash = shell_join(*_SQUASHFS[3:])
        _run(
            ["apptainer", "build", "--force", "--mksquashfs-args", squash, str(image), str(definition)],
            f"write the definition and build it elsewhere: `-o {shell_join(str(image.with_suffix('.def')))}`",
        )


def _run(argv: Sequence[str], how_to_get: str) -> None:
    if shutil.which(argv[0]) is None:
        raise RocenvError(f"`{argv[0]}` is not installed", hints=(how_to_get,), code="exporter-missing")
    done = process.run([shutil.which(argv[0]) or "", *argv[1:]])
    if not done.ok:
        lines = os.fsdecode(done.stderr).strip().splitlines()[-5:]
        raise RocenvError(f"`{argv[0]}` failed: {' / '.join(lines) or done.problem}", code="export-failed")


def _write(file: Path, text: str) -> None:
    try:
        write_atomic(file.resolve(), os.fsencode(text))
    except OSError as error:
        raise RocenvError(f"cannot write `{file}`: {error.strerror}") from error


def _require_folder(folder: Path) -> None:
    if not folder.is_dir():
        create = f"create it: `{shell_join('mkdir', '-p', str(folder))}`"
        raise RocenvError(f"folder `{folder}` does not exist", hints=(create,))
    if not os.access(folder, os.W_OK):
        raise RocenvError(f"folder `{folder}` is not writable")
