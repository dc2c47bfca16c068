"""The context of one command: the home, its settings, the network, the matrix and the progress display."""

from __future__ import annotations

import contextlib
import copy
import os
from functools import cached_property
from typing import TYPE_CHECKING

from rocenv.core.errors import DataError, RocenvError
from rocenv.home import Home
from rocenv.system import WINDOWS
from rocenv.system.private import add_to_umask

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocenv.config import Config
    from rocenv.core.progress import Progress
    from rocenv.data.rows import Matrix
    from rocenv.install.store import Section
    from rocenv.net import Network

FRESH_S = 6 * 3600.0  # package indexes newer than this are used without contacting the server


class Context:
    """Objects that a command's stages share, created on first use unless the caller passes them in.

    Args:
        home: The root of rocenv's files; by default the one that `ROCENV_HOME` specifies.
        matrix: Replaces rocenv's data and the user's rows.
        network: Replaces the network that uses the mirrors in `config.toml`.
        progress: Replaces the display on stderr.
        offline: Never open a connection.
        max_age_s: Refetch package indexes that are older than this.
    """

    def __init__(
        self,
        home: Home | None = None,
        *,
        matrix: Matrix | None = None,
        network: Network | None = None,
        progress: Progress | None = None,
        offline: bool = False,
        max_age_s: float = FRESH_S,
    ) -> None:
        self.home = home or Home.default()
        self.max_age_s = max_age_s
        self._offline = offline
        self.bundled: Mapping[str, Section] = {}  # files in `create`'s bundle: sha256 -> section
        self.proven: frozenset[str] = frozenset()  # hashes of that bundle's files that signed indexes list
        self.index_pages: dict[str, tuple[str, str]] = {}  # Python package indexes read by this command
        given = {"matrix": matrix, "network": network, "progress": progress}
        self.__dict__.update({name: part for name, part in given.items() if part is not None})

    @cached_property
    def config(self) -> Config:
        """The user's settings."""
        from rocenv import config

        return config.load(self.home.config_file)

    @cached_property
    def shares_home(self) -> bool:
        """Whether the user's or root's settings declare the home shared."""
        from rocenv.config import shares_home

        return any(map(shares_home, {self.home.config_file, Home.settings_of_user()}))

    def require_home(self) -> None:
        """Create the home, or check that an env can be created in it."""
        self.home.require_usable(shared=lambda: self.shares_home, report=self.note)

    def require_own_home(self, *, env: Path | None = None, changes: bool = False) -> None:
        """Ensure that nobody else can change files in the home; raises the same errors as `require_own`."""
        self.home.require_own(env=env, changes=changes, shared=lambda: self.shares_home, report=self.note)

    @cached_property
    def network(self) -> Network:
        """Connections to mirrors and servers."""
        from rocenv.net import Network

        return Network(
            mirrors=self.config.mirrors,
            configured=tuple(prefix for prefix, _ in self.config.mirrors),
            offline=self._offline,
            known_mirrors=self._known_mirrors,
        )

    def _known_mirrors(self) -> Mapping[str, str]:
        from rocenv.data.mirrors import known_mirrors

        with contextlib.suppress(DataError):  # must not hide the error about to be shown
            return known_mirrors(self.matrix)
        return {}

    @cached_property
    def matrix(self) -> Matrix:
        """The rows in `profiles/` and the user's own rows."""
        from rocenv.data.load import load_cached

        return load_cached(self.home.compiled_matrix, self.home.own_profiles, self.home.key)

    @cached_property
    def progress(self) -> Progress:
        """The progress display that all stages of the command share."""
        from rocenv.core.progress import Progress

        return Progress()

    def refreshing(self) -> Context:
        """Return a copy of this context that ignores cached package indexes."""
        fresh = copy.copy(self)
        fresh.max_age_s = 0
        return fresh

    def note(self, text: str) -> None:
        """Print a line on stderr."""
        self.progress.note(text)


def limit_umask() -> None:
    """Keep other users from writing to new files; in an intentionally shared home, the group can."""
    if WINDOWS:
        return
    before = add_to_umask(0o022)
    home = Home.default()
    with contextlib.suppress(OSError, RocenvError):
        if home.path.stat().st_mode & 0o022 == 0o020 and Context(home).shares_home:
            os.umask(before & ~0o020 | 0o002)
