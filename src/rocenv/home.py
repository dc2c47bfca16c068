"""`ROCENV_HOME`: the root of all files that rocenv owns, and its layout."""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.core.errors import PrefixError
from rocenv.system import WINDOWS
from rocenv.system.private import close_below, close_folder, is_exposed, make_private, open_own

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Home:
    """The root folder and its layout; callers create the subfolders that they need."""

    path: Path

    @classmethod
    def default(cls) -> Home:
        """Return the home that `ROCENV_HOME` specifies, or else `usual()`."""
        chosen = os.environ.get("ROCENV_HOME")
        if chosen:
            return cls(Path(os.path.abspath(Path(chosen).expanduser())))
        return cls.usual()

    @classmethod
    def usual(cls) -> Home:
        """Return the home in the platform's user data folder."""
        if folder := user_folder("XDG_DATA_HOME", ".local/share"):
            return cls(folder)
        import platformdirs

        return cls(platformdirs.user_data_path("rocenv", appauthor=False))

    @property
    def envs(self) -> Path:
        """The prefixes, by env name."""
        return self.path / "envs"

    @property
    def store(self) -> Path:
        """Unpacked artifacts, by sha256; each has a `tree/` and a sealed `manifest.json`."""
        return self.path / "store"

    @property
    def artifacts(self) -> Path:
        """Downloaded files, by sha256."""
        return self.path / "cache" / "artifacts"

    @property
    def indices(self) -> Path:
        """Verified package indexes, and a list of unreachable ones."""
        return self.path / "cache" / "indices"

    @property
    def compiled_matrix(self) -> Path:
        """The matrix in a form that loads quickly."""
        return self.path / "cache" / "matrix.msgpack"

    @property
    def uv_cache(self) -> Path:
        """The cache folder that uv uses."""
        return self.path / "cache" / "uv"

    @property
    def kernels(self) -> Path:
        """Compiled app kernels, by source, flags and compiler."""
        return self.path / "cache" / "kernels"

    @property
    def pythons(self) -> Path:
        """Interpreters that uv downloaded because none on the machine matched."""
        return self.path / "pythons"

    @property
    def pins(self) -> Path:
        """Hashes recorded at the first download of files whose publishers provide none."""
        return self.path / "pins.json"

    @property
    def fleet_record(self) -> Path:
        """The nodes that rocenv drained, and how many GPUs each node had."""
        return self.path / "fleet.json"

    @property
    def key(self) -> Path:
        """The key for `rocenv.system.seal`."""
        return self.path / "key"

    @property
    def own_profiles(self) -> Path:
        """The folder with the user's own rows: `profiles` next to `config.toml`."""
        return self.config_file.parent / "profiles"

    @property
    def in_use(self) -> Path:
        """Lock file for the store: shared by readers, exclusive for deletion."""
        return self.path / "locks" / "home.lock"

    def lock(self, kind: str, name: str) -> Path:
        """Return the lock file for one object, such as `("env", "demo")`.

        Names that differ only in case share a lock, because Windows treats them as the same name.
        """
        return self.path / "locks" / f"{kind}-{name.casefold()}.lock"

    @property
    def config_file(self) -> Path:
        """The `config.toml` in `ROCENV_HOME`, or else the one in the platform's settings folder."""
        own = self.path / "config.toml"
        if os.environ.get("ROCENV_HOME") or own.exists():
            return own
        return self.settings_of_user()

    @classmethod
    def settings_of_user(cls) -> Path:
        """The `config.toml` in the platform's settings folder, whichever home is in use."""
        if folder := user_folder("XDG_CONFIG_HOME", ".config"):
            return folder / "config.toml"
        import platformdirs

        return platformdirs.user_config_path("rocenv", appauthor=False) / "config.toml"

    def unused_name(self, name: str) -> str:
        """Return an unused env name: `name`, or else `name2` and so on."""
        unused, number = name, 2
        while os.path.lexists(self.envs / unused):
            unused, number = f"{name}{number}", number + 1
        return unused

    def require_own(
        self,
        *,
        env: Path | None = None,
        changes: bool = False,
        shared: Callable[[], bool] = lambda: False,
        report: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """Make sure that other users cannot change the programs in this home.

        In the user's own home, remove other users' write permission. Another user's home is used read-only,
        and rejected if anyone else can write to it. Root may use it, as is common in containers, unless
        everyone can write to it.

        Args:
            env: The folder of the env in use.
            changes: Whether the command changes files in the home.
            shared: Whether the home is intentionally shared, so that its group is allowed to write to it.
            report: Receives a message if rocenv removes write permissions.

        Raises:
            PrefixError: Others can change files in the home, or the command would change another user's home.
        """
        if WINDOWS:
            return
        try:
            owner, user = self.path.stat().st_uid, os.geteuid()
        except OSError:
            return  # missing or unusable; the command that needs it reports that
        folders = [self.path, *(self.path / name for name in _FOLDERS), *([env] if env else [])]
        mask = 0o022 if owner == user or user else 0o002
        exposed = [each for each in folders if is_exposed(each, {0, user, owner}, mask)]
        unfinished = owner == user and self._closing.exists()
        if not exposed and not unfinished and (owner == user or not changes or not user):
            return
        if shared():
            mask = 0o002
            exposed = [each for each in folders if each.exists() and each.stat().st_mode & mask]
            if not exposed:
                return
        if owner != user:
            raise _not_yours(self.path, exposed)
        self._close(folders if unfinished else exposed, mask, report)

    @property
    def _closing(self) -> Path:
        """The marker for an unfinished removal of write permissions, which must be repeated."""
        return self.path / ".closing"

    def _close(self, exposed: list[Path], mask: int, report: Callable[[str], None]) -> None:
        """Remove the permissions in `mask`; raise PrefixError if another user owns a file in the home.

        Others may have changed sealed files, so the key is removed, which invalidates the seals.
        """
        self._mark_closing()
        closed = [each for each in exposed if close_folder(each, mask)]
        self._mark_closing()  # until now, others could remove the marker
        planted = [str(each) for each in exposed if is_exposed(each, {0, os.geteuid()}, 0)]
        try:
            if closed:
                self.key.unlink(missing_ok=True)
            planted += filter(None, (close_below(each, mask) for each in closed))
            if not planted:
                self._closing.unlink(missing_ok=True)
        except OSError as error:
            if error.errno == errno.EROFS:
                return
            raise PrefixError(
                f"cannot remove other users' write permissions in `{self.path}`: {error.strerror}",
                hints=(f"chmod -R go-w {self.path}",),
                code="home-unwritable",
            ) from error
        if planted:
            raise PrefixError(
                f"`{self.path}` contains `{planted[0]}`, which another user owns and can change",
                hints=(f"remove it, or start over with a new home: `mv {self.path} {self.path}.old`",),
                code="home-not-yours",
            )
        if closed:  # otherwise, the filesystem does not support modes
            report(f"others could write to `{closed[0]}`; rocenv has removed their write permission")
            from rocenv.system.quoting import shell_join

            for name in self.env_names()[:_MAX_NAMED]:
                verify, repair = (shell_join("rocenv", verb, name) for verb in ("verify", "repair"))
                report(f"`{verify}` shows whether that env was modified, and `{repair}` restores it")
            report(f"to share the home: `chmod g+ws {self.path}`, then `rocenv config set home.shared true`")

    def env_names(self) -> list[str]:
        """List the folders of envs, complete or not, by name."""
        try:
            return sorted(name for name in os.listdir(self.envs) if not name.startswith("."))
        except OSError:
            return []

    def _mark_closing(self) -> None:
        with contextlib.suppress(OSError):  # read-only, or full
            os.close(open_own(self._closing, os.O_WRONLY | os.O_CREAT))

    def require_usable(
        self,
        *,
        shared: Callable[[], bool] = lambda: False,
        report: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """Create the home, accessible only to this user, or check that an env can be created in it.

        Args:
            shared: As in `require_own`.
            report: As in `require_own`.

        Raises:
            PrefixError: The home is on a network share or not writable, or `require_own` fails.
        """
        from rocenv.system.files import beside
        from rocenv.system.machine import NETWORK_FILESYSTEMS, mount_of

        hint = "set ROCENV_HOME to a folder on a local disk, e.g. `export ROCENV_HOME=/var/tmp/$USER/rocenv`"
        mount = mount_of(self.path)
        if mount is not None and mount.kind in NETWORK_FILESYSTEMS:
            raise PrefixError(
                f"`{self.path}` is on {mount.kind} ({mount.device}); on a network share, file locks and "
                "kernel caches fail, which causes memory faults",
                hints=(hint,),
                code="network-home",
            )
        try:
            make_private(self.path)
            self.require_own(changes=True, shared=shared, report=report)
            probe = beside(self.path / "home", "test")
            probe.open("xb").close()
            probe.unlink()
        except OSError as error:
            raise PrefixError(
                f"cannot write to `{self.path}`: {error.strerror}", hints=(hint,), code="home-unwritable"
            ) from error


_MAX_NAMED = 3  # envs in a report
_FOLDERS = ("envs", "store", "cache", "locks", "pythons", "profiles")


def require_readable(folder: Path, home: Path) -> None:
    """Raise PrefixError if a folder in a home exists but this user cannot read it."""
    from rocenv.system.quoting import shell_join

    try:
        os.listdir(folder)
    except PermissionError as error:
        raise PrefixError(
            f"cannot read `{folder}`: {error.strerror}",
            hints=(
                f"its owner can let others use it: `{shell_join('chmod', 'go+rx', str(home))}`",
                "or set ROCENV_HOME to a folder of your own, e.g. `export ROCENV_HOME=$HOME/rocenv`",
            ),
            code="home-not-yours",
        ) from error
    except OSError:
        pass


def _not_yours(path: Path, exposed: list[Path]) -> PrefixError:
    hint = "set ROCENV_HOME to a folder of your own, e.g. `export ROCENV_HOME=$HOME/rocenv`"
    owner = _name_of(path.stat().st_uid)
    if not exposed:
        message = f"`{path}` belongs to {owner}, so rocenv will not change anything there"
        return PrefixError(message, hints=(hint,), code="home-not-yours")
    folder, info = exposed[0], exposed[0].stat()
    if info.st_mode & 0o002:
        who = f"everyone can write to `{folder}`"
        more = (
            f"remove that permission: `chmod o-w {folder}`; on a disk that does not store permissions (NTFS, "
            "exFAT), use the `uid=` mount option with your user ID"
        )
    else:
        is_group = info.st_mode & 0o020
        who = f"its group can write to `{folder}`" if is_group else f"`{folder}` to {_name_of(info.st_uid)}"
        more = "if you share it intentionally: `env -u ROCENV_HOME rocenv config set home.shared true`"
    return PrefixError(
        f"`{path}` belongs to {owner}, and {who}, so others could change the programs that you run from it",
        hints=(hint, more),
        code="home-not-yours",
    )


def _name_of(user: int) -> str:
    import pwd

    try:
        return f"the user `{pwd.getpwuid(user).pw_name}`"
    except KeyError:
        return f"user ID {user}"


def user_folder(variable: str, usual: str) -> Path | None:
    """Return the same user folder as platformdirs, or None if only platformdirs can determine it.

    Prompts and completions call this, so it avoids importing platformdirs, which would take longer than the
    rest of their work.
    """
    chosen, home = os.environ.get(variable, ""), os.environ.get("HOME", "")
    if WINDOWS or not os.path.isabs(chosen or home):
        return None
    return Path(chosen or os.path.join(home, usual)) / "rocenv"
