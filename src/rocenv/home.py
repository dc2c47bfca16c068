"""`ROCENV_HOME`: the root of everything that rocenv owns, and the layout below it."""

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
    """A folder that knows its own layout. Whoever needs one of its folders creates it."""

    path: Path

    @classmethod
    def default(cls) -> Home:
        """The home that `ROCENV_HOME` names, else `usual()`."""
        chosen = os.environ.get("ROCENV_HOME")
        if chosen:
            return cls(Path(os.path.abspath(Path(chosen).expanduser())))
        return cls.usual()

    @classmethod
    def usual(cls) -> Home:
        """The home in the platform's folder for user data."""
        if folder := _xdg_folder("XDG_DATA_HOME", ".local/share"):
            return cls(folder)
        import platformdirs

        return cls(platformdirs.user_data_path("rocenv", appauthor=False))

    @property
    def envs(self) -> Path:
        """Prefixes, by name."""
        return self.path / "envs"

    @property
    def store(self) -> Path:
        """Unpacked artifacts, by sha256: each a `tree/` and a sealed `manifest.json`."""
        return self.path / "store"

    @property
    def artifacts(self) -> Path:
        """Downloaded files, by sha256."""
        return self.path / "cache" / "artifacts"

    @property
    def indices(self) -> Path:
        """Verified package indices, and which of them are unreachable."""
        return self.path / "cache" / "indices"

    @property
    def compiled_matrix(self) -> Path:
        """The data in a form that loads quickly (a file)."""
        return self.path / "cache" / "matrix.msgpack"

    @property
    def uv_cache(self) -> Path:
        """What uv keeps."""
        return self.path / "cache" / "uv"

    @property
    def kernels(self) -> Path:
        """Compiled kernels of apps, by source, flags and compiler."""
        return self.path / "cache" / "kernels"

    @property
    def pythons(self) -> Path:
        """Interpreters that uv downloaded because the machine had none that fits."""
        return self.path / "pythons"

    @property
    def pins(self) -> Path:
        """The hashes that first downloads recorded, of files that nobody publishes a hash of (a file)."""
        return self.path / "pins.json"

    @property
    def key(self) -> Path:
        """The key of `rocenv.system.seal` (a file)."""
        return self.path / "key"

    @property
    def own_profiles(self) -> Path:
        """The user's own rows of data: `profiles` beside `config.toml`."""
        return self.config_file.parent / "profiles"

    @property
    def in_use(self) -> Path:
        """The lock that readers of the store share, and that whoever deletes from it holds alone."""
        return self.path / "locks" / "home.lock"

    def lock(self, kind: str, name: str) -> Path:
        """The lock file of one thing, say `("env", "demo")`.

        Names that differ only in case share one lock, since Windows takes them for one name.
        """
        return self.path / "locks" / f"{kind}-{name.casefold()}.lock"

    @property
    def config_file(self) -> Path:
        """`config.toml`: the one in `ROCENV_HOME`, else the one in the platform's folder for settings."""
        own = self.path / "config.toml"
        if os.environ.get("ROCENV_HOME") or own.exists():
            return own
        return self.settings_of_user()

    @classmethod
    def settings_of_user(cls) -> Path:
        """The `config.toml` in the platform's folder for settings, whatever home is in use."""
        if folder := _xdg_folder("XDG_CONFIG_HOME", ".config"):
            return folder / "config.toml"
        import platformdirs

        return platformdirs.user_config_path("rocenv", appauthor=False) / "config.toml"

    def require_own(
        self,
        *,
        env: Path | None = None,
        changes: bool = False,
        shared: Callable[[], bool] = lambda: False,
        report: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """Make sure that others cannot change the programs in this home behind the user's back.

        In the user's own home, take write permission from others. In the home of another user, allow what
        changes nothing if only that user can write to it. Root may use it, as containers often do, unless
        everybody can write to it.

        Args:
            env: The folder of the env that is used.
            changes: The command changes something in the home.
            shared: Whether the user shares the home on purpose; then its group may write to it.
            report: Receives lines if rocenv removed write permission.

        Raises:
            PrefixError: Others can change something in the home, or the command would in another user's.
        """
        if WINDOWS:
            return
        try:
            owner, user = self.path.stat().st_uid, os.geteuid()
        except OSError:
            return  # absent, or whoever needs it will say why it cannot be used
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
        """There while write permission is taken from others, so that an interrupted command is repeated."""
        return self.path / ".closing"

    def _close(self, exposed: list[Path], mask: int, report: Callable[[str], None]) -> None:
        """Take the permissions in `mask`; raise PrefixError if another user owns something in there.

        Others may have changed what rocenv sealed, so its key is removed: nothing that it sealed counts now.
        """
        self._mark_closing()
        closed = [each for each in exposed if close_folder(each, mask)]
        self._mark_closing()  # until now, others could have removed it
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
                f"cannot take write permission from others in `{self.path}`: {error.strerror}",
                hints=(f"chmod -R go-w {self.path}",),
                code="home-unwritable",
            ) from error
        if planted:
            raise PrefixError(
                f"`{self.path}` contains `{planted[0]}` of another user, so others could write there",
                hints=(f"remove it, or start over with a new home: `mv {self.path} {self.path}.old`",),
                code="home-not-yours",
            )
        if closed:  # else the file system has no modes
            report(f"others could write to `{closed[0]}`; rocenv has removed their write permission")
            report("`rocenv verify NAME` shows if an env was changed, and `rocenv repair NAME` restores it")
            report(f"to share the home: `chmod g+ws {self.path}`, then `rocenv config set home.shared true`")

    def _mark_closing(self) -> None:
        with contextlib.suppress(OSError):  # read-only, or full
            os.close(open_own(self._closing, os.O_WRONLY | os.O_CREAT))

    def require_usable(
        self,
        *,
        shared: Callable[[], bool] = lambda: False,
        report: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """Create the home for this user alone, or check that an env can be made in it.

        Args:
            shared: As in `require_own`.
            report: As in `require_own`.

        Raises:
            PrefixError: The home is on a network share or not writable, or as `require_own` raises.
        """
        from rocenv.system.files import beside
        from rocenv.system.machine import NETWORK_FILESYSTEMS, mount_of

        hint = "set ROCENV_HOME to a folder on a local disk, e.g. `export ROCENV_HOME=/var/tmp/$USER/rocenv`"
        mount = mount_of(self.path)
        if mount is not None and mount.kind in NETWORK_FILESYSTEMS:
            raise PrefixError(
                f"`{self.path}` is on {mount.kind} ({mount.device}); on a network share, file locks and "
                "kernel caches fail with memory faults",
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


_FOLDERS = ("envs", "store", "cache", "locks", "pythons", "profiles")


def _not_yours(path: Path, exposed: list[Path]) -> PrefixError:
    hint = "set ROCENV_HOME to a folder of your own, e.g. `export ROCENV_HOME=$HOME/rocenv`"
    owner = _name_of(path.stat().st_uid)
    if not exposed:
        message = f"`{path}` belongs to {owner}, so rocenv changes nothing there"
        return PrefixError(message, hints=(hint,), code="home-not-yours")
    folder, info = exposed[0], exposed[0].stat()
    if info.st_mode & 0o002:
        who = f"everybody can write to `{folder}`"
        more = (
            f"take that right away: `chmod o-w {folder}`; on a disk without permissions (NTFS, exFAT), with "
            "the mount option `uid=` and your user number"
        )
    else:
        is_group = info.st_mode & 0o020
        who = f"its group can write to `{folder}`" if is_group else f"`{folder}` to {_name_of(info.st_uid)}"
        more = "if you share it on purpose: `env -u ROCENV_HOME rocenv config set home.shared true`"
    return PrefixError(
        f"`{path}` belongs to {owner}, and {who}: others could change the programs that you run from there",
        hints=(hint, more),
        code="home-not-yours",
    )


def _name_of(user: int) -> str:
    import pwd

    try:
        return f"the user `{pwd.getpwuid(user).pw_name}`"
    except KeyError:
        return f"user number {user}"


def _xdg_folder(variable: str, usual: str) -> Path | None:
    """The folder that platformdirs would choose; None where only platformdirs knows it.

    Importing platformdirs takes longer than everything else that happens before a prompt appears, or before a
    word is completed.
    """
    chosen, home = os.environ.get(variable, ""), os.environ.get("HOME", "")
    if WINDOWS or not os.path.isabs(chosen or home):
        return None
    return Path(chosen or os.path.join(home, usual)) / "rocenv"
