"""A prefix: the folder of one env, which describes itself.

`.rocenv/record.json` is written last, so a folder without it is an incomplete env: `create` may wipe it and
begin again, every other command refuses it. A folder without `.rocenv/` is not ours and is never touched.
"""

from __future__ import annotations

import hashlib
import json
import os
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from rocenv.context import Context
from rocenv.core.codec import from_plain, to_plain, verification_file, verification_from_plain
from rocenv.core.errors import DataError, PrefixError
from rocenv.core.foreign import load_json
from rocenv.core.lock import from_schema_1
from rocenv.core.model import FileEntry, Record
from rocenv.system import WINDOWS
from rocenv.system.files import is_device, leads_elsewhere, remove_path, remove_tree, set_aside, write_atomic
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocenv.core.model import Lock, Verification
    from rocenv.home import Home

_VERIFIED = "verified.json"
_COPY = "copy" if WINDOWS else "cp"
RECORD_SCHEMA = 2
# What may not stand in a name: separators of paths and of lists of paths, on Linux or on Windows, and what
# Windows forbids in file names.
_FORBIDDEN = '/\\:;"<>|*?'
_LONGEST_NAME_BYTES = 200


@dataclass(frozen=True, slots=True)
class Prefix:
    """A path that knows its own layout."""

    path: Path

    @property
    def name(self) -> str:
        """The env's name, also of what an interrupted removal left of it."""
        return set_aside(self.path.name) or self.path.name

    @property
    def own(self) -> Path:
        """The folder of what rocenv keeps about the env."""
        return self.path / ".rocenv"

    @property
    def bin(self) -> Path:
        """Programs that start others in the env."""
        return self.path / "bin"

    @property
    def lock_file(self) -> Path:
        """The env's lock."""
        return self.path / "rocenv.lock"

    @property
    def is_link(self) -> bool:
        """Whether the folder is elsewhere, behind a link or a junction."""
        return leads_elsewhere(self.path)

    @property
    def state(self) -> str:
        """One of `absent`, `foreign` (not made by rocenv), `incomplete`, `complete`.

        A link is foreign, unless it leads to a complete env, which can then be used.
        """
        try:
            content = os.listdir(self.path)
        except FileNotFoundError:
            return "foreign" if self.is_link else "absent"
        except OSError:
            return "foreign"
        is_link = self.is_link
        if not content:  # an empty folder is nobody's loss, and what a killed `create` may leave
            return "foreign" if is_link else "absent"
        if not self.own.is_dir() or leads_elsewhere(self.own):
            return "foreign"
        if is_link:
            return "complete" if os.path.exists(self.own / "record.json") else "foreign"
        if set_aside(self.path.name):
            return "incomplete"
        return "complete" if os.path.exists(self.own / "record.json") else "incomplete"

    def write_record(self, record: Record, files: Mapping[str, FileEntry]) -> Record:
        """Write the list of files and then the record, which vouches for it and makes the env complete.

        The list of an earlier record stays beside the new one until the new record is there, so that at any
        moment the record has the list it vouches for.
        """
        text = json.dumps({name: to_plain(files[name]) for name in sorted(files)}, indent=0).encode()
        record = replace(record, name=self.name, files_sha256=hashlib.sha256(text).hexdigest())
        new_list = self._list_of(record)
        write_atomic(new_list, text)
        write_atomic(
            self.own / "record.json",
            json.dumps({"schema": RECORD_SCHEMA, **to_plain(record)}, indent=1).encode(),
        )
        for path in self.own.glob("files-*.json"):
            if path != new_list:
                path.unlink()
        return record

    def _list_of(self, record: Record) -> Path:
        return self.own / f"files-{record.files_sha256[:16]}.json"

    def record(self) -> Record:
        """Read the record.

        Raises:
            PrefixError: The env is missing, incomplete or foreign, or was moved here from another name.
            DataError: The record is damaged, or from another version of rocenv.
        """
        record = self.record_wherever_made()
        if record.name != self.name:
            raise PrefixError(
                f"env `{self.name}` was moved here from the name `{record.name}`, and its scripts still name "
                "the old place",
                hints=(f"rocenv repair {shell_join(self.name)}",),
                code="env-moved",
            )
        return record

    def record_wherever_made(self) -> Record:
        """Read the record, also of an env that was moved to another name; raises as `record` does."""
        self.require_complete()
        path = self.own / "record.json"
        try:
            plain = load_json(path)
        except OSError as error:
            raise DataError(f"cannot read `{path}`: {error.strerror}") from error
        except DataError as error:
            raise DataError(error.message, hints=self.made_anew) from error
        schema = plain.pop("schema", None) if isinstance(plain, dict) else None
        if schema not in (1, RECORD_SCHEMA):
            raise DataError(f"`{path}` was written by another version of rocenv", hints=self.made_anew)
        try:
            record = from_plain(Record, plain, str(path))
        except DataError as error:
            raise DataError(error.message, hints=self.made_anew) from error
        return replace(record, lock=from_schema_1(record.lock)) if schema == 1 else record

    def files(self, record: Record) -> dict[str, FileEntry]:
        """Read the list of files that the record vouches for; raise DataError where it was changed."""
        path = self._list_of(record)
        try:
            text = path.read_bytes()
        except OSError as error:
            raise DataError(f"cannot read `{path}`: {error.strerror}", hints=self.made_anew) from error
        if hashlib.sha256(text).hexdigest() != record.files_sha256:
            raise DataError(f"`{path}` was changed", hints=self.made_anew)
        plain: dict[str, Any] = json.loads(text)
        return {name: from_plain(FileEntry, entry, str(path)) for name, entry in plain.items()}

    def verification(self) -> Verification | None:
        """The result of the last `verify`; None if there is none that can be read."""
        try:
            path = self.own / _VERIFIED
            return verification_from_plain(load_json(path), str(path))
        except (OSError, DataError, ValueError, KeyError, TypeError):
            return None

    def write_verification(self, verification: Verification) -> None:
        """Keep the result of `verify`; raises OSError where that is not possible."""
        write_atomic(self.own / _VERIFIED, verification_file(verification))

    @property
    def made_anew(self) -> tuple[str, ...]:
        """The commands that make the env again from its lock."""
        from rocenv.resolve.request import rebuild_command  # late: of no use to envs that are in order

        lock = os.path.join(".", f"{self.name}.lock")
        return (
            f"{_COPY} {shell_join(str(self.lock_file), lock)}",
            f"rocenv remove {shell_join(self.name)}",
            rebuild_command(self.name, lock),
        )

    def wipe(self) -> None:
        """Remove the prefix and all in it, whether complete or not; of a link, nothing but the link.

        First of all it stops being an env and last of all a folder of rocenv, so that what a killed removal
        leaves is an incomplete env.
        """
        if self.is_link:
            remove_path(self.path)
            return
        (self.own / "record.json").unlink(missing_ok=True)
        for child in self.path.iterdir():
            if child != self.own:
                remove_path(child)
        remove_tree(self.own)
        self.path.rmdir()

    def free_name(self) -> str:
        """Find a similar name that no env has: `sd2`."""
        number = 2
        while os.path.lexists(self.path.parent / f"{self.name}{number}"):
            number += 1
        return f"{self.name}{number}"

    def require_complete(self) -> None:
        """Raise PrefixError, with what to do, unless the env is complete."""
        match self.state:
            case "absent":
                raise PrefixError(
                    f"there is no env `{self.name}`",
                    hints=(
                        "`rocenv list` shows the envs",
                        f"rocenv create {shell_join(self.name)} --rocm VERSION",
                    ),
                    code="env-missing",
                )
            case "foreign":
                raise PrefixError(f"`{self.path}` is not an env of rocenv", code="env-foreign")
            case "incomplete":
                raise PrefixError(
                    f"env `{self.name}` is incomplete: its creation was interrupted",
                    hints=(
                        "repeat the `rocenv create` command to complete it",
                        f"rocenv remove {shell_join(self.name)}",
                    ),
                    code="env-incomplete",
                )


def library_folders(prefix: Prefix, lock: Lock) -> tuple[Path, ...]:
    """List the folders of a set's libraries in search order."""
    return tuple(
        prefix.path / folder
        for component in lock.components
        if component.layout is not None
        for folder in component.layout.library_dirs
    )


def prefix_of(home: Home, name: str) -> Prefix:
    """Locate the prefix of an env, which need not exist; on Windows in the spelling of its folder.

    Raises:
        PrefixError: The name is invalid, or others could change the programs in the home.
    """
    reason = _against_name(name)
    if reason:
        raise PrefixError(
            f"`{name.encode('unicode_escape').decode()}` cannot be the name of an env: {reason}",
            hints=("take a short plain name, like `sd` or `rocm-5.7`",),
            code="env-name",
        )
    path = home.envs / (_as_spelled(home.envs, name) if WINDOWS else name)
    Context(home).require_own_home(env=path)
    return Prefix(path)


def _as_spelled(folder: Path, name: str) -> str:
    """Spell a name as the folder does, where Windows finds it there in another spelling."""
    try:
        wanted, names = (folder / name).lstat(), os.listdir(folder)
    except OSError:
        return name
    if name in names:
        return name
    alike = (each for each in names if each.casefold() == name.casefold())
    return next((each for each in alike if os.path.samestat((folder / each).lstat(), wanted)), name)


def _against_name(name: str) -> str:
    if not name:
        return "it is empty"
    found = next((char for char in name if char in _FORBIDDEN), "")
    if found:
        return f"it contains `{found}`"
    if any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in name):
        return "it contains a control character, or one that cannot be seen"
    if name[0] in ".- " or name[-1] in ". ":
        return "it begins with a dot, a dash or a space, or ends with a dot or a space"
    if max(len(name.encode()), len(name.casefold().encode())) > _LONGEST_NAME_BYTES:
        return "it is too long"
    if is_device(name):
        return "it is the name of a device on Windows, where its lock could not be used"
    return ""


def all_prefixes(home: Home) -> list[Prefix]:
    """List the prefixes of a home that rocenv made, sorted by name: complete, incomplete, half removed."""
    try:
        if not home.envs.is_dir():
            return []
        os.listdir(home.envs)
    except PermissionError as error:
        raise PrefixError(
            f"cannot read `{home.envs}`: {error.strerror}",
            hints=("set ROCENV_HOME to a folder of your own, e.g. `export ROCENV_HOME=$HOME/rocenv`",),
            code="home-not-yours",
        ) from error
    paths = (path for path in home.envs.iterdir() if not path.name.startswith(".") or set_aside(path.name))
    found = sorted(map(Prefix, paths), key=lambda prefix: prefix.name)
    return [prefix for prefix in found if prefix.state in ("complete", "incomplete")]


def to_remove(home: Home, name: str) -> list[Prefix]:
    """List what exists of an env: its prefix, and what interrupted removals left.

    Raises:
        PrefixError: There is nothing, or the folder there is not rocenv's.
    """
    prefix = prefix_of(home, name)
    found = [each for each in all_prefixes(home) if each.name == prefix.name]
    if not found or prefix.state == "foreign":
        prefix.require_complete()
    return found
