"""`ROCENV_HOME`: the root of everything rocenv owns, and where things lie in it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from rocenv.core.errors import PrefixError
from rocenv.system import WINDOWS

# Folders only: whoever needs one makes it.
#   envs/NAME/            a prefix
#   store/SHA256/         an unpacked artifact: manifest.json and tree/
#   cache/artifacts/      fetched files, named by their hash
#   cache/indices/        verified package indices
#   cache/uv/             uv's own cache
#   cache/kernels/        compiled kernels of apps, by source, flags and compiler
#   cache/matrix.pickle   the matrix as it is read quickly
#   kernels/APP/          what was placed of them where, originals, and copies made of links
#   pythons/              interpreters that uv fetched, where the machine had none that fits
#   locks/                lock files
#   pins.json             hashes of files that nobody publishes one of


@dataclass(frozen=True, slots=True)
class Home:
    """A path that knows its own layout."""

    path: Path

    @classmethod
    def default(cls) -> Home:
        """Return the home that `ROCENV_HOME` names, else the platform's folder for user data."""
        chosen = os.environ.get("ROCENV_HOME")
        if chosen:
            return cls(Path(os.path.abspath(Path(chosen).expanduser())))
        return cls.usual()

    @classmethod
    def usual(cls) -> Home:
        """Return the home that is used where `ROCENV_HOME` names none."""
        if folder := _xdg_folder("XDG_DATA_HOME", ".local/share"):
            return cls(folder)
        import platformdirs

        return cls(platformdirs.user_data_path("rocenv", appauthor=False))

    @property
    def envs(self) -> Path:
        """The folder of the prefixes."""
        return self.path / "envs"

    @property
    def store(self) -> Path:
        """The folder of the unpacked artifacts."""
        return self.path / "store"

    @property
    def artifacts(self) -> Path:
        """The folder of the fetched files."""
        return self.path / "cache" / "artifacts"

    @property
    def indices(self) -> Path:
        """The folder of the package indices."""
        return self.path / "cache" / "indices"

    @property
    def compiled_matrix(self) -> Path:
        """The file of the matrix in its compiled form."""
        return self.path / "cache" / "matrix.pickle"

    @property
    def own_profiles(self) -> Path:
        """The folder of the user's own rows of the matrix: `profiles` beside `config.toml`."""
        return self.config_file.parent / "profiles"

    @property
    def pins(self) -> Path:
        """The file of the hashes that first fetches recorded."""
        return self.path / "pins.json"

    @property
    def uv_cache(self) -> Path:
        """The folder that uv keeps its wheels in."""
        return self.path / "cache" / "uv"

    @property
    def kernels(self) -> Path:
        """The folder of compiled kernels of apps."""
        return self.path / "cache" / "kernels"

    @property
    def pythons(self) -> Path:
        """The folder of interpreters that uv fetched."""
        return self.path / "pythons"

    @property
    def in_use(self) -> Path:
        """Lock held shared by whoever reads the store, exclusively by whoever frees parts of it."""
        return self.path / "locks" / "home.lock"

    def lock(self, kind: str, name: str) -> Path:
        """Return the lock file of one thing, say `("env", "demo")`.

        Names that differ only in case have one lock, since for Windows they are one name.
        """
        return self.path / "locks" / f"{kind}-{name.casefold()}.lock"

    @property
    def config_file(self) -> Path:
        """`config.toml`: the one in `ROCENV_HOME`, else the one in the platform's folder for settings."""
        own = self.path / "config.toml"
        if os.environ.get("ROCENV_HOME") or own.exists():
            return own
        if folder := _xdg_folder("XDG_CONFIG_HOME", ".config"):
            return folder / "config.toml"
        import platformdirs

        return platformdirs.user_config_path("rocenv", appauthor=False) / "config.toml"

    def require_usable(self) -> None:
        """Make the home; raise PrefixError where envs cannot work: not writable, or on a network share."""
        from rocenv.system.machine import NETWORK_FILESYSTEMS, mount_of

        hint = "set ROCENV_HOME to a folder on a local disk, e.g. `export ROCENV_HOME=/var/tmp/$USER/rocenv`"
        mount = mount_of(self.path)
        if mount is not None and mount.kind in NETWORK_FILESYSTEMS:
            raise PrefixError(
                f"`{self.path}` is on {mount.kind} ({mount.device}): locks and kernel caches on a network "
                "share end as memory faults",
                hints=(hint,),
                code="network-home",
            )
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            probe = self.path / f".write-{os.getpid()}"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise PrefixError(
                f"cannot write to `{self.path}`: {error.strerror}", hints=(hint,), code="home-unwritable"
            ) from error


def _xdg_folder(variable: str, usual: str) -> Path | None:
    """Return our folder in one of a user's, as platformdirs says it, which is asked where this is None.

    Importing that takes longer than all else that is done while somebody waits for a prompt, or for the
    completion of a word.
    """
    chosen, home = os.environ.get(variable, ""), os.environ.get("HOME", "")
    if WINDOWS or not os.path.isabs(chosen or home):
        return None
    return Path(chosen or os.path.join(home, usual)) / "rocenv"
