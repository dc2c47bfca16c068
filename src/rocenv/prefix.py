"""A prefix: the self-describing folder of one env.

`.rocenv/record.json` is written last, so a folder without it is an incomplete env: `create` may wipe it and
start over, and every other command rejects it. rocenv never touches a folder without `.rocenv/`.
"""

from __future__ import annotations

import hashlib
import json
import os
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from rocenv import results
from rocenv.context import Context
from rocenv.core.codec import from_plain, to_plain
from rocenv.core.errors import DataError, PrefixError
from rocenv.core.foreign import load_json
from rocenv.core.lock import from_schema_1
from rocenv.core.model import FileEntry, Record
from rocenv.home import require_readable
from rocenv.system import WINDOWS
from rocenv.system.files import (
    is_device,
    is_link_at,
    is_same_folder,
    remove_path,
    remove_tree,
    set_aside,
    write_atomic,
)
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocenv.core.model import Lock, Verification
    from rocenv.home import Home

_COPY, _MOVE = ("copy", "move") if WINDOWS else ("cp", "mv")
RECORD_SCHEMA = 2
# Path and list separators on Linux and Windows, and characters that Windows forbids in file names.
_FORBIDDEN = '/\\:;"<>|*?'
_LONGEST_NAME_BYTES = 200


@dataclass(frozen=True, slots=True)
class Prefix:
    """A prefix's path and layout."""

    path: Path

    @property
    def name(self) -> str:
        """The env's name, even after an interrupted removal."""
        return set_aside(self.path.name) or self.path.name

    @property
    def own(self) -> Path:
        """The folder with rocenv's own files about the env."""
        return self.path / ".rocenv"

    @property
    def bin(self) -> Path:
        """Launchers for the env's programs."""
        return self.path / "bin"

    @property
    def lock_file(self) -> Path:
        """The env's lock file."""
        return self.path / "rocenv.lock"

    @property
    def is_link(self) -> bool:
        """Whether the folder is a link or junction."""
        return is_link_at(self.path)

    @property
    def state(self) -> str:
        """One of `absent`, `foreign`, `incomplete`, `complete`.

        A foreign folder has no `.rocenv`, so nothing shows that rocenv created it. A link is foreign unless
        it points to a complete and therefore usable env.
        """
        try:
            content = os.listdir(self.path)
        except FileNotFoundError:
            return "foreign" if self.is_link else "absent"
        except OSError:
            return "foreign"
        is_link = self.is_link
        if not content:  # an empty folder, which a killed `create` may leave behind
            return "foreign" if is_link else "absent"
        if not self.own.is_dir() or is_link_at(self.own):
            return "foreign"
        if is_link:
            return "complete" if os.path.exists(self.own / "record.json") else "foreign"
        if set_aside(self.path.name):
            return "incomplete"
        return "complete" if os.path.exists(self.own / "record.json") else "incomplete"

    def write_record(self, record: Record, files: Mapping[str, FileEntry]) -> Record:
        """Write the file list, then the record, which contains the list's hash and makes the env complete.

        The old list stays until the new record exists, so the record and its list always match.
        """
        text = json.dumps({name: to_plain(files[name]) for name in sorted(files)}, indent=0).encode()
        sha256 = hashlib.sha256(text).hexdigest()
        record = replace(record, name=self.name, files_sha256=sha256, prefix=str(self.path))
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
            PrefixError: The env is missing, incomplete or foreign, or was renamed, moved or copied.
            DataError: The record is damaged or from another version of rocenv.
        """
        self.refuse_second_name(record := self.record_wherever_made())
        if record.name != self.name:
            raise PrefixError(
                f"env `{self.name}` was renamed from `{record.name}` by moving its folder, but its scripts "
                "still use the old path",
                hints=(f"rocenv repair {shell_join(self.name)}",),
                code="env-moved",
            )
        if record.prefix not in ("", str(self.path)) and not is_same_folder(record.prefix, self.path):
            raise self._elsewhere(record.prefix)
        return record

    def refuse_second_name(self, record: Record) -> None:
        """Raise PrefixError if this is a link to another env in the same home.

        An env works only under its own name.
        """
        name = record.name
        if self.is_link and name != self.name and is_same_folder(self.path.parent / name, self.path):
            raise PrefixError(
                f"`{self.path}` is a link to env `{name}`, which works only under that name",
                hints=(f"remove the link: `rocenv remove {shell_join(self.name)}`",),
                code="env-link",
            )

    def _elsewhere(self, made_for: str) -> PrefixError:
        """Return the error for an env that was copied, or moved with its home."""
        from rocenv.resolve.request import rebuild_command  # imported late; see `made_anew`

        here = str(self.path)
        if os.access(self.path / "cache", os.W_OK):  # exported images do not contain a cache folder
            hints = [f"make it work here: `rocenv repair {shell_join(self.name)}`"]
        else:
            rebuild = rebuild_command(self.name, str(self.lock_file))
            hints = [
                f"mount it at that path, as root: `{shell_join('mount', '--bind', here, made_for)}`",
                f"or create your own: `env -u ROCENV_HOME {rebuild}`",
            ]
        return PrefixError(
            f"env `{self.name}` was made for `{made_for}`, but is at `{here}`, so its scripts and its "
            "loader use files in the other folder",
            hints=tuple(hints),
            code="env-moved",
        )

    def record_wherever_made(self) -> Record:
        """Read the record, even if the env was moved or copied; raises the same errors as `record`."""
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
            raise DataError(f"`{path}` was written by a different version of rocenv", hints=self.made_anew)
        try:
            record = from_plain(Record, plain, str(path))
        except DataError as error:
            raise DataError(error.message, hints=self.made_anew) from error
        return replace(record, lock=from_schema_1(record.lock)) if schema == 1 else record

    def files(self, record: Record) -> dict[str, FileEntry]:
        """Read the file list and check it against the record; raise DataError if it was modified."""
        path = self._list_of(record)
        try:
            text = path.read_bytes()
        except OSError as error:
            raise DataError(f"cannot read `{path}`: {error.strerror}", hints=self.made_anew) from error
        if hashlib.sha256(text).hexdigest() != record.files_sha256:
            raise DataError(f"`{path}` was modified", hints=self.made_anew)
        plain: dict[str, Any] = json.loads(text)
        return {name: from_plain(FileEntry, entry, str(path)) for name, entry in plain.items()}

    def verification(self) -> Verification | None:
        """The user's or the env owner's last `verify` result, or None if neither is readable."""
        return results.read(self.own)

    def write_verification(self, verification: Verification) -> None:
        """Save the result of `verify`, in the user's folder if the env is not writable; raises OSError."""
        results.write(self.own, verification)

    @property
    def made_anew(self) -> tuple[str, ...]:
        """The commands that rebuild the env from its lock."""
        from rocenv.resolve.request import rebuild_command  # imported late: needed only for damaged envs

        lock = os.path.join(".", f"{self.name}.lock")
        return (
            f"{_COPY} {shell_join(str(self.lock_file), lock)}",
            f"rocenv remove {shell_join(self.name)}",
            rebuild_command(self.name, lock),
        )

    def wipe(self) -> None:
        """Remove the prefix, complete or not; if it is a link, remove only the link.

        The record is removed first and `.rocenv` last, so an interrupted removal leaves an incomplete env.
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
        """Return a similar unused name: `sd2`."""
        number = 2
        while os.path.lexists(self.path.parent / f"{self.name}{number}"):
            number += 1
        return f"{self.name}{number}"

    def _similar(self) -> tuple[str, ...]:
        """Suggest the env that the user may have meant, or how to create it."""
        import difflib

        try:
            names = [name for name in os.listdir(self.path.parent) if not name.startswith(".")]
        except OSError:
            names = []
        close = difflib.get_close_matches(self.name, names, n=1)
        if close:
            return (f"did you mean `{close[0]}`?",)
        create = f"create it: `rocenv create {shell_join(self.name)} --torch`"
        return ("list the envs: `rocenv list`", create) if names else (create,)

    def foreign_error(self) -> PrefixError:
        """Return the error for a foreign folder, with commands that move it away and rebuild a lost env."""
        from rocenv.resolve.request import rebuild_command  # imported late, as above

        if self.is_link:
            return PrefixError(
                f"`{self.path}` exists, but it is a link that does not point to an env",
                hints=("remove the link or choose another name",),
                code="env-foreign",
            )
        old = Prefix(self.path.parent.parent / f"{self.name}.old")
        away = old.path.with_name(old.free_name()) if os.path.lexists(old.path) else old.path
        hints = [f"move it away: `{_MOVE} {shell_join(str(self.path), str(away))}`"]
        if self.lock_file.exists():
            rebuild = rebuild_command(self.name, str(away / self.lock_file.name))
            hints.append(f"recreate the env: `{rebuild}`; then delete `{away}`")
        return PrefixError(
            f"`{self.path}` exists, but has no readable `.rocenv` folder, so rocenv cannot tell whether it "
            "created the files there, and will not touch them",
            hints=tuple(hints),
            code="env-foreign",
        )

    def require_complete(self) -> None:
        """Raise PrefixError with hints unless the env is complete."""
        match self.state:
            case "absent":
                raise PrefixError(
                    f"there is no env `{self.name}`",
                    hints=self._similar(),
                    code="env-missing",
                )
            case "foreign":
                require_readable(self.path, self.path.parents[1])
                raise self.foreign_error()
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
    """List a set's library folders in search order."""
    return tuple(
        prefix.path / folder
        for component in lock.components
        if component.layout is not None
        for folder in component.layout.library_dirs
    )


def prefix_of(home: Home, name: str) -> Prefix:
    """Return the prefix of an env, which need not exist; on Windows, with the capitalization of its folder.

    Raises:
        PrefixError: The name is invalid, or other users could change the programs in the home.
    """
    reason = _against_name(name)
    if reason:
        raise PrefixError(
            f"`{name.encode('unicode_escape').decode()}` is not a valid env name: {reason}",
            hints=("use a short name such as `sd` or `rocm-5.7`",),
            code="env-name",
        )
    path = home.envs / (_as_spelled(home.envs, name) if WINDOWS else name)
    Context(home).require_own_home(env=path)
    return Prefix(path)


def _as_spelled(folder: Path, name: str) -> str:
    """Return an existing folder's name as spelled on disk, because on Windows its case may differ."""
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
        return "it contains a control or invisible character"
    if name[0] in ".- " or name[-1] in ". ":
        return "it begins with a dot, a dash or a space, or ends with a dot or a space"
    if max(len(name.encode()), len(name.casefold().encode())) > _LONGEST_NAME_BYTES:
        return "it is too long"
    if is_device(name):
        return "Windows reserves it for a device, so the env's lock would not work there"
    return ""


def all_prefixes(home: Home) -> list[Prefix]:
    """List the prefixes in a home by name, including incomplete, partly removed and foreign ones.

    Raises:
        PrefixError: The home cannot be read.
    """
    require_readable(home.envs, home.path)
    if not home.envs.is_dir():
        return []
    paths = (path for path in home.envs.iterdir() if not path.name.startswith(".") or set_aside(path.name))
    found = sorted(map(Prefix, paths), key=lambda prefix: prefix.name)
    return [prefix for prefix in found if prefix.state in _listed(prefix)]


def _listed(prefix: Prefix) -> tuple[str, ...]:
    """Return the states in which a prefix is listed: not `foreign` if its env was removed."""
    usual = ("complete", "incomplete")
    return usual if set_aside(prefix.path.name) else (*usual, "foreign")
