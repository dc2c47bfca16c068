"""Build a prefix from a lock: fetch and check everything, link it together, write the record last."""

from __future__ import annotations

import contextlib
import datetime
import re
from typing import TYPE_CHECKING

from rocenv import __version__
from rocenv.activate.scripts import require_listable, unusable
from rocenv.context import Context
from rocenv.core.errors import PrefixError
from rocenv.core.model import Record
from rocenv.install.fetch import ensure_available, require_room
from rocenv.install.path_length import require_short_home
from rocenv.install.pin import with_pins
from rocenv.install.place import complete, own_loader, place_all
from rocenv.prefix import Prefix
from rocenv.system import WINDOWS
from rocenv.system.files import storage_errors
from rocenv.system.locks import locked
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.core.model import Lock
    from rocenv.home import Home

# Separates the folders of `--library-path`, as `:` does, or is replaced in them. Source: ld.so(8)
_LOADER_SYNTAX = re.compile(r";|\$\{?(?:ORIGIN|LIB|PLATFORM)\}?")


def build(name: str, lock: Lock, context: Context) -> Record:
    """Make the env `name` from a plan or lock, and return its record.

    Nothing of the prefix is touched before every file of the lock is downloaded and checked. If this is
    interrupted in any way, the env is not complete, and the same call completes it; what was downloaded and
    unpacked is kept.

    Raises:
        PrefixError: The env exists already or is not ours.
        RocenvError: As `ensure_available` raises.
    """
    home = context.home
    prefix = Prefix(home.envs / name)
    require_place(prefix, context)
    with env_locked(home, name, uses_store=True):
        require_free(prefix)
        lock = with_pins(lock, context)
        require_room(lock, home)
        lock, wheels = ensure_available(lock, context)
        if prefix.state == "incomplete":
            prefix.wipe()
        prefix.own.mkdir(parents=True)
        files = place_all(prefix, lock, wheels, context)
        record = Record(
            name=name,
            created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            rocenv_version=__version__,
            lock=lock,
            loader=own_loader(lock, files),
        )
        return complete(prefix, record, files)


@contextlib.contextmanager
def env_locked(home: Home, *names: str, uses_store: bool = False) -> Iterator[None]:
    """Hold the locks of envs and, with `uses_store`, keep `gc` away from the store.

    Raises:
        PrefixError: The home is another user's (see `Home.require_own`), or the disk has a problem.
    """
    Context(home).require_own_home(changes=True)
    locks = {home.lock("env", name): name for name in names}
    with contextlib.ExitStack() as stack:
        stack.enter_context(storage_errors(home.path))
        if uses_store:
            stack.enter_context(locked(home.in_use, shared=True, waiting="waiting for `rocenv gc` to end"))
        for path in sorted(locks):  # two that want the same ones never wait for each other
            waiting = f"waiting for another rocenv that works on env `{locks[path]}`"
            stack.enter_context(locked(path, waiting=waiting))
        yield


def require_place(prefix: Prefix, context: Context) -> None:
    """Raise PrefixError, before anything is fetched, where an env could not be made or not be used."""
    require_listable(str(prefix.path), "windows" if WINDOWS else "linux")
    found = None if WINDOWS else _LOADER_SYNTAX.search(str(prefix.path))
    if found:
        does = "splits paths at" if found[0] == ";" else "replaces"
        raise unusable(str(prefix.path), f"the program loader {does} `{found[0]}`")
    context.require_home()
    require_free(prefix)
    require_short_home(context.home.path)


def require_free(prefix: Prefix) -> None:
    """Raise PrefixError if the prefix is complete or was not created by rocenv."""
    match prefix.state:
        case "complete":
            raise PrefixError(
                f"env `{prefix.name}` exists already",
                hints=(
                    f"rocenv show {shell_join(prefix.name)}",
                    f"rocenv remove {shell_join(prefix.name)}",
                    "or choose another name",
                ),
                code="env-exists",
            )
        case "foreign":
            raise PrefixError(
                f"`{prefix.path}` exists and was not made by rocenv; it is left alone",
                hints=("move it away, or choose another name",),
                code="env-foreign",
            )
