"""`ROCENV_HOME`: the root of everything that rocenv owns, and the layout below it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.core.errors import PrefixError
from rocenv.system import WINDOWS
from rocenv.system.private import keep_others_out, make_private, open_to_others

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
        changes: bool = False,
        shared: Callable[[], bool] = lambda: False,
        report: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """Make sure that nobody can change the programs in this home behind the user's back.

        In the user's own home, take write permission from others. Root may use the home of another user, as
        containers often do. Without `changes`, so may everybody, if only its owner can write to it.

        Args:
            changes: The command changes something in the home.
            shared: Whether the user shares the home on purpose; then its group may write to it.
            report: Receives a line if rocenv removed write permission.

        Raises:
            PrefixError: The home is another user's, or contains something of another user.
        """
        if WINDOWS:
            return
        try:
            info = self.path.stat()
        except OSError:
            return  # absent, or whoever needs it will say why it cannot be used
        open_to_all, is_own = bool(info.st_mode & 0o002), info.st_uid == os.geteuid()
        if is_own and not any(map(open_to_others, (self.path, *(self.path / name for name in _FOLDERS)))):
            return
        if not is_own and not info.st_mode & 0o022 and (not changes or os.geteuid() == 0):
            return
        if shared() and not open_to_all:
            return
        if is_own:
            _tighten(self.path, report)
        elif open_to_all or os.geteuid() != 0:
            raise _not_yours(self.path, info)

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


def _tighten(path: Path, report: Callable[[str], None]) -> None:
    """Take write permission from others; raise PrefixError if another user owns something below.

    Others may have changed what rocenv sealed, so its key is removed: nothing that it sealed counts any more.
    """
    planted = keep_others_out(path)
    if planted is None:
        return  # the file system has no modes
    if planted:
        raise PrefixError(
            f"`{path}` contains `{planted}`, which belongs to another user, so others could write there",
            hints=(f"remove it, or start over with a new home: `mv {path} {path}.old`",),
            code="home-not-yours",
        )
    (path / "key").unlink(missing_ok=True)
    report(f"others could write to `{path}`; rocenv has removed their write permission")
    report(f"to share it: `chmod g+ws {path}`, then `rocenv config set home.shared true`")


def _not_yours(path: Path, info: os.stat_result) -> PrefixError:
    if info.st_mode & 0o002:
        who = "everybody can write to it"
        hint = (
            f"take that right away: `chmod o-w {path}`; on a disk without permissions (NTFS, exFAT) with the "
            "mount option `uid=` and your user number"
        )
    else:
        who = f"it belongs to {_name_of(info.st_uid)}"
        hint = "if you share it on purpose: `env -u ROCENV_HOME rocenv config set home.shared true`"
    return PrefixError(
        f"`{path}` is not yours, and {who}: others could change the programs that you run from there",
        hints=("set ROCENV_HOME to a folder of your own, e.g. `export ROCENV_HOME=$HOME/rocenv`", hint),
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
