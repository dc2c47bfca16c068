"""Write bundles reproducibly: the same envs from the same home always produce a byte-identical file.

Members are sorted by name, have no owner, and have the same date. The manifest can come first, because the
hashes of all files are known before the first byte is written; each file is hashed again while being copied.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv import __version__
from rocenv.core.codec import to_plain
from rocenv.core.errors import PrefixError, RocenvError
from rocenv.core.lock import lock_text
from rocenv.core.progress import size_text
from rocenv.core.versions import series
from rocenv.install.build import env_locked
from rocenv.install.bundle import BUNDLE_SCHEMA, MANIFEST, Manifest, Member, artifact_member
from rocenv.install.fetch import download
from rocenv.install.pin import with_pins
from rocenv.sources.apt.mirrors import relocated
from rocenv.sources.interpreter import fetch_archive
from rocenv.sources.uv import Uv
from rocenv.system.files import beside, file_chunks, move, sha256_of
from rocenv.system.machine import free_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from io import BufferedWriter

    from rocenv.context import Context
    from rocenv.core.model import Artifact, Lock

_DATE_S = 315532800  # 1980-01-01; tar warns about 1970
_END = bytes(2 * tarfile.BLOCKSIZE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The result of writing a bundle."""

    sha256: str
    size_bytes: int
    artifacts: int
    pythons: tuple[str, ...]


def write_bundle(
    output: Path, locks: Mapping[str, Lock], others: Mapping[str, bytes | Path], context: Context
) -> Written:
    """Write the envs' locks and all their files, downloading missing files; replace `output` at the end.

    Args:
        output: The path of the bundle.
        locks: Env name -> lock.
        others: Other members: name -> content.
        context: The cache and the network.

    Raises:
        FetchError: A file is not in the cache and cannot be downloaded.
        PrefixError: The disk is full.
        RocenvError: `output` cannot be written.
    """
    with env_locked(context.home, uses_store=True):
        locks = {name: with_pins(lock, context) for name, lock in locks.items()}
        artifacts = {
            each.sha256: each for lock in locks.values() for each in _files(relocated(lock, context))
        }
        with closing(download(list(artifacts.values()), context)) as fetched:
            paths = {artifact.sha256: path for artifact, path in fetched}
        texts = {name: lock_text(lock).encode() for name, lock in locks.items()}
        envs = {
            name: f"locks/{hashlib.sha256(text).hexdigest()}.lock" for name, text in sorted(texts.items())
        }
        pythons = dict(_pythons(locks.values(), context))
        contents: dict[str, bytes | Path] = {
            **{envs[name]: text for name, text in texts.items()},
            **pythons,
            **others,
        }
        files = {name: _member(content) for name, content in contents.items()}
        for each in artifacts.values():
            member = artifact_member(each)
            contents[member] = paths[each.sha256]
            files[member] = Member(sha256=each.sha256, size_bytes=each.size_bytes)
        manifest = Manifest(rocenv=__version__, envs=envs, files=dict(sorted(files.items())))
        plain = {"schema": BUNDLE_SCHEMA, **to_plain(manifest)}
        contents[MANIFEST] = (json.dumps(plain, indent=1) + "\n").encode()

        def again(sha256: str) -> None:
            if sha256 not in artifacts:
                raise RocenvError("a file changed while being read", hints=("run the command again",))
            paths[sha256].unlink(missing_ok=True)
            context.note(f"the cached file for {artifacts[sha256].name} is damaged; downloading it again")
            for _file in download([artifacts[sha256]], context):
                pass

        sha256, size_bytes = _write(output, contents, files, again, context)
    return Written(
        sha256=sha256, size_bytes=size_bytes, artifacts=len(artifacts), pythons=tuple(map(_key_in, pythons))
    )


def _files(lock: Lock) -> list[Artifact]:
    return [each for each in lock.artifacts if each.kind != "folder"]


def _pythons(locks: Iterable[Lock], context: Context) -> Iterable[tuple[str, Path]]:
    """Yield an interpreter for each Python version that wheels need; note any that are missing."""
    wanted = sorted({series(part.python) for lock in locks for part in lock.components if part.python})
    for version in wanted:
        try:
            key, path = fetch_archive(version, Uv.for_context(context))
        except RocenvError as error:
            context.note(
                f"the bundle will not contain Python {version}, so the other machine has to provide it: "
                f"{error.message}"
            )
        else:
            yield f"pythons/{key}.tar.gz", path


def _key_in(member: str) -> str:
    return member.removeprefix("pythons/").removesuffix(".tar.gz")


def _member(content: bytes | Path) -> Member:
    if isinstance(content, Path):
        return Member(sha256=sha256_of(content), size_bytes=content.stat().st_size)
    return Member(sha256=hashlib.sha256(content).hexdigest(), size_bytes=len(content))


def _write(
    output: Path,
    contents: Mapping[str, bytes | Path],
    files: Mapping[str, Member],
    again: Callable[[str], None],
    context: Context,
) -> tuple[str, int]:
    """Write the tar file under a temporary name, rename it, and return its hash and size."""
    total = sum(each.size_bytes for each in files.values())
    _require_room(output, total)
    fresh = beside(output, "new")
    try:
        with fresh.open("xb") as out, context.progress.stage("Writing the bundle", total) as stage:
            whole = hashlib.sha256()
            for name in sorted(contents):  # "MANIFEST.json" sorts before all lowercase names
                content = contents[name]
                known = files.get(name) or _member(content)
                start, before = out.tell(), whole.copy()
                if _append(out, name, content, known, whole.update, stage.advance) != known.sha256:
                    again(known.sha256)
                    out.seek(start)
                    out.truncate()
                    whole = before
                    if _append(out, name, content, known, whole.update, lambda _size: None) != known.sha256:
                        raise RocenvError(f"`{content!s}` keeps changing; the disk may be failing")
            out.write(_END)
            whole.update(_END)
            size_bytes = out.tell()
        move(fresh, output)
    except OSError as error:
        hint = "use `-o` to write the bundle to a different folder"
        raise RocenvError(f"cannot write `{output}`: {error.strerror}", hints=(hint,)) from error
    finally:
        fresh.unlink(missing_ok=True)
    return whole.hexdigest(), size_bytes


def _append(
    out: BufferedWriter,
    name: str,
    content: bytes | Path,
    known: Member,
    hashed: Callable[[bytes], None],
    advance: Callable[[int], None],
) -> str:
    """Append a member, and return the hash of its contents."""
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = known.size_bytes, _DATE_S, 0o644
    head = info.tobuf(tarfile.GNU_FORMAT)  # supports files of 8 GiB or more
    digest, written = hashlib.sha256(), 0
    out.write(head)
    hashed(head)
    for data in file_chunks(content) if isinstance(content, Path) else [content]:
        digest.update(data)
        hashed(data)
        out.write(data)
        advance(len(data))
        written += len(data)
    padding = bytes(-written % tarfile.BLOCKSIZE)
    out.write(padding)
    hashed(padding)
    return digest.hexdigest() if written == known.size_bytes else ""


def _require_room(output: Path, needed: int) -> None:
    free = free_bytes(output.parent)
    if free < needed:
        raise PrefixError(
            f"the bundle requires {size_text(needed)} of disk space, but only {size_text(free)} is free in "
            f"`{output.parent}`",
            hints=("use `-o` to write it to a different disk",),
            code="no-space",
        )
