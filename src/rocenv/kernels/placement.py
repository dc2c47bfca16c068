"""Place a kernel where Blender finds it, and remove it later.

The default location is an overlay: a folder of links to Blender's resources, with a real folder for the
kernels, and a script that starts Blender with these resources. An overlay works whether or not Blender ships
with kernels, and does not change the installation. With `--place in-place`, the kernel replaces a file in the
installation, and rocenv backs up the original.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rocenv.activate.loader import MARK
from rocenv.activate.shells.posix import quote
from rocenv.core.errors import PrefixError, RocenvError
from rocenv.core.versions import allows
from rocenv.kernels import APP
from rocenv.kernels import placed as records
from rocenv.kernels.installation import RESOURCES, absolute_path, start_command
from rocenv.kernels.placed import Placed, PlaceName, own_folder
from rocenv.system.files import move, remove_tree, storage_errors, write_atomic
from rocenv.system.locks import locked
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rocenv.home import Home
    from rocenv.kernels.installation import Installation
    from rocenv.kernels.recipe import Job

_ZSTD_LEVEL = 19  # as in Blender's own build
_START = "rocenv-start"  # the folder with the start script, next to the resources
_MAX_HINTS = 5


def check_place(job: Job, place: PlaceName) -> None:
    """Raise RocenvError with alternatives if a kernel cannot be placed there. Call this before compiling."""
    if job.installation.program is None:
        raise RocenvError(
            f"`{job.installation.root}` contains no Blender program that could load the kernel",
            hints=("specify the program with `--blender`", "or only compile the kernel with `--output`"),
            code="kernels-no-app",
        )
    if place == "in-place":
        file = _installed_file(job)
        if file.is_symlink():
            raise _not_writable(f"`{file}` is a link, so another tool manages this installation")
        folder = file.parent if file.parent.exists() else file.parent.parent
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            raise _not_writable(f"cannot write `{file}`")
    elif not allows(job.recipe.overlay, job.version):
        raise RocenvError(
            f"Blender {job.version} finds its resources only next to its program, so it cannot use an"
            f" overlay; only versions `{job.recipe.overlay}` can",
            hints=("replace the file in the installation: `--place in-place`; `--undo` restores it",),
            code="kernels-no-overlay",
        )


def put(job: Job, content: bytes, place: PlaceName, home: Home, env: str) -> Placed:
    """Place a kernel and record it.

    Args:
        job: The compiled job; `check_place` must have accepted it.
        content: The kernel.
        place: Where to place it.
        home: The home for records, backups and overlays.
        env: The chosen or active env; "" if none.

    Raises:
        RocenvError: The installation is not writable.
        PrefixError: The disk is full, or the home is not writable.
    """
    installation = job.installation
    if job.compressed:
        import zstandard

        content = zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(content)
    placed = Placed(
        kind=job.recipe.kind,
        version=job.version,
        target=job.target,
        place=place,
        file=str(_installed_file(job)),
        sha256=_sha256(content),
        source=str(installation.source),
        source_hash=job.source_hash,
        program=str(installation.program),
        include=str(job.include or ""),
        env=env,
    )
    with storage_errors(home.path), locked(home.lock("kernels", APP)):
        if place == "overlay":
            return _put_into_overlay(placed, content, installation, home)
        return _put_in_place(placed, content, home)


def undo(
    home: Home,
    report: Callable[[str], None],
    *,
    path: str = "",
    kind: str = "",
    target: str = "",
    place: str = "",
    env: str = "",
) -> list[tuple[Placed, str]]:
    """Remove kernels and restore the originals, except for files that other programs have changed.

    Args:
        home: The home with the records.
        report: Receives messages for the user.
        path: Blender's path. This and the following arguments select the kernels to remove.
        kind: The kind of kernel.
        target: The GPU target.
        place: A `PlaceName`.
        env: The env that was chosen or active during the build, or that contains Blender.

    Returns:
        Each removed kernel, with a message for the user.

    Raises:
        RocenvError: There is no such kernel, or one could not be removed; the others are still removed.
    """
    done: list[tuple[Placed, str]] = []
    failed: RocenvError | None = None
    with storage_errors(home.path), locked(home.lock("kernels", APP)):
        for record in records.records(home):
            if records.read(home, record) is None:
                report(f"ignoring `{record}`: it is damaged or from a different home")
        found: Iterable[Placed] = records.all_placed(home)
        if path:
            found = records.of_program(home, absolute_path(path))
        for each in found:
            in_env = each.env == env or Path(each.program).is_relative_to(home.envs / env)
            wanted = {"kind": kind, "target": target, "place": place}
            if (env and not in_env) or any(
                value and getattr(each, name) != value for name, value in wanted.items()
            ):
                continue
            try:
                message = _remove_from_overlay(each, home) if each.start else _restore(each, home)
            except RocenvError as error:
                failed = failed or error
                continue
            records.forget(home, each)
            done.append((each, message))
            report(message)
    if failed is not None:
        raise failed
    if not done:
        raise _nothing_to_undo(home)
    return done


def _nothing_to_undo(home: Home) -> RocenvError:
    others = records.all_placed(home)
    message = "rocenv has not placed any kernels for Blender"
    if others:
        first = f" (the first {_MAX_HINTS} of {len(others)})" if len(others) > _MAX_HINTS else ""
        message = f"no Blender kernel matches; these commands remove the existing ones{first}"
    hints = tuple(shell_join(*each.undo_words()) for each in others[:_MAX_HINTS])
    return RocenvError(message, hints=hints, code="kernels-not-placed")


# The installation itself


def _installed_file(job: Job) -> Path:
    return job.installation.precompiled / job.file_name


def _put_in_place(placed: Placed, content: bytes, home: Home) -> Placed:
    file = Path(placed.file)
    before = next((each for each in records.all_placed(home) if each.key == placed.key), None)
    present = _read(file)
    if before is not None and present is not None and _sha256(present) == before.sha256:
        placed = replace(placed, original=before.original, original_sha256=before.original_sha256)
    elif present is not None:
        backup = _backup(placed, home)
        backup.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(backup, present)
        with contextlib.suppress(OSError):
            shutil.copystat(file, backup)
        placed = replace(placed, original=str(backup), original_sha256=_sha256(present))
    # Write the record first, so that `--undo` finds the original even if rocenv is killed.
    records.write(home, placed)
    try:
        with storage_errors(file):
            _write_readable(file, content)
    except (OSError, PrefixError) as error:
        if before is None:
            _remove_backup(placed, home)
            records.forget(home, placed)
        else:
            records.write(home, before)
        if isinstance(error, PrefixError) and error.code == "home-unwritable":
            raise _not_writable(error.message) from error
        raise
    return placed


def _restore(placed: Placed, home: Home) -> str:
    """Restore the original, unless something else (such as an upgrade) has changed the file."""
    file = Path(placed.file)
    with storage_errors(file):
        present = _read(file)
        if present is None:
            is_ours = records.is_current(placed)
        else:
            is_ours = _sha256(present) in (placed.sha256, placed.original_sha256)
        if not is_ours:
            kept = f"; the original is still at `{placed.original}`" if placed.original else ""
            changed = "removed" if present is None else "changed"
            return f"skipped `{file}`: an upgrade or another program has {changed} it{kept}"
        if not placed.original:
            file.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # it still contains other kernels
                file.parent.rmdir()
            return f"`{file}` was already gone" if present is None else f"removed `{file}`"
        original = _read(Path(placed.original))
        if original is None or _sha256(original) != placed.original_sha256:
            raise RocenvError(
                f"the backup of `{file}` is damaged or missing (`{placed.original}`)",
                hints=("reinstall Blender",),
                code="kernels-no-original",
            )
        file.parent.mkdir(exist_ok=True)
        write_atomic(file, original)
        with contextlib.suppress(OSError):
            shutil.copystat(placed.original, file)
    _remove_backup(placed, home)
    return f"restored the original `{file}`"


def _backup(placed: Placed, home: Home) -> Path:
    return own_folder(home) / "originals" / placed.key / Path(placed.file).name


def _remove_backup(placed: Placed, home: Home) -> None:
    backup = _backup(placed, home)
    if placed.original == str(backup):
        backup.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            backup.parent.rmdir()


def _not_writable(why: str) -> RocenvError:
    return RocenvError(
        why,
        hints=(
            "leave the installation unchanged: `--place overlay`",
            "or run rocenv as the folder's owner",
        ),
        code="kernels-unwritable",
    )


# An overlay


def _put_into_overlay(placed: Placed, content: bytes, installation: Installation, home: Home) -> Placed:
    resources, program = installation.resources, Path(placed.program)
    overlay = own_folder(home) / "overlays" / _sha256(os.fsencode(resources))[:12]
    copy = overlay / resources.name
    kernels = installation.precompiled.relative_to(resources)
    file = copy / kernels / Path(placed.file).name
    start = overlay / _START / program.name
    placed = replace(placed, file=str(file), start=str(start), resources=str(copy))
    overlay.parent.mkdir(parents=True, exist_ok=True)
    # Not a TemporaryDirectory: its cleanup can chmod the targets of symlinks.
    room = Path(tempfile.mkdtemp(dir=overlay.parent, prefix="."))
    try:
        fresh = room / "new"
        fresh.mkdir()
        _mirror(resources, fresh / copy.name, kernels.parts)
        for name, each in {**_other_kernels(placed, home), file.name: content}.items():
            _write_readable(fresh / copy.name / kernels / name, each)
        script = fresh / _START / program.name
        script.parent.mkdir()
        write_atomic(script, os.fsencode(_start_script(installation, copy)))
        script.chmod(0o755)
        # Replace the overlay instead of updating it: after an upgrade, a link may have to replace a folder.
        if os.path.lexists(overlay):
            move(overlay, room / "old")
        move(fresh, overlay)
    finally:
        with contextlib.suppress(OSError):
            remove_tree(room)
    records.write(home, placed)
    return placed


def _mirror(source: Path, copy: Path, own: tuple[str, ...]) -> None:
    """Link everything in a folder, but create real folders along the path `own`."""
    copy.mkdir()
    for entry in os.scandir(source) if source.is_dir() else ():
        if entry.name not in (*own[:1], "__pycache__"):  # Python writes to it
            (copy / entry.name).symlink_to(source / entry.name)
    if own:
        _mirror(source / own[0], copy / own[0], own[1:])


def _other_kernels(placed: Placed, home: Home) -> dict[str, bytes]:
    """Read an overlay's other kernels, except those that other programs have changed."""
    found = {}
    for each in records.all_placed(home):
        content = _read(Path(each.file)) if each.start == placed.start and each.key != placed.key else None
        if content is not None and _sha256(content) == each.sha256:
            found[Path(each.file).name] = content
    return found


def _start_script(installation: Installation, copy: Path) -> str:
    """Write the script that starts the program with the overlay's resources.

    If an env has a start script for the program, that script sets the variable itself, so copy its other
    lines instead of calling it.
    """
    prefix, program = installation.prefix, installation.program
    lines = [f'exec {" ".join(map(quote, start_command(installation)))} "$@"']
    if prefix is not None and program is not None:
        with contextlib.suppress(OSError):
            text = (prefix.bin / program.name).read_text(errors="surrogateescape")
            if MARK in text:
                lines = [
                    each for each in text.splitlines() if not each.startswith(("#", f"export {RESOURCES}="))
                ]
    head = [
        "#!/bin/sh",
        f"# {MARK}: starts a program with kernels from rocenv",
        f"export {RESOURCES}={quote(str(copy))}",
    ]
    return "\n".join([*head, *lines]) + "\n"


def _remove_from_overlay(placed: Placed, home: Home) -> str:
    """Remove a kernel from its overlay, and the overlay if that was its last kernel."""
    file, overlay = Path(placed.file), Path(placed.start).parents[1]
    with storage_errors(overlay):
        if not any(
            each.start == placed.start and each.key != placed.key for each in records.all_placed(home)
        ):
            remove_tree(overlay)
            return f"removed `{overlay}`"
        present = _read(file)
        if present is not None and _sha256(present) == placed.sha256:
            file.unlink()
            shipped = Path(placed.source).parent / file.parent.name / file.name
            if shipped.is_file():
                file.symlink_to(shipped)
    return f"removed `{file}`"


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _write_readable(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, content)
    path.chmod(0o644)
