"""Build a prefix from a lock: download and verify everything, install it, and write the record last."""

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

# The loader splits `--library-path` at `;` as well as `:`, and expands `$ORIGIN` etc. Source: ld.so(8)
_LOADER_SYNTAX = re.compile(r";|\$\{?(?:ORIGIN|LIB|PLATFORM)\}?")


def build(name: str, lock: Lock, context: Context) -> Record:
    """Create the env `name` from a plan or lock, and return its record.

    The prefix is not changed until every file in the lock is downloaded and verified. If this is interrupted,
    the env is incomplete, and the same call completes it; downloads and unpacked packages are kept.

    Raises:
        PrefixError: The env already exists, or its folder exists but was not created by rocenv.
        RocenvError: See `ensure_available`.
    """
    home = context.home
    prefix = Prefix(home.envs / name)
    require_place(prefix, context)
    with env_locked(home, name, uses_store=True):
        require_free(prefix)
        lock = with_pins(lock, context)
        require_room(lock, home, context.bundled)
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
    """Hold the envs' locks and, with `uses_store`, keep `gc` from changing the store.

    Raises:
        PrefixError: The home belongs to another user (see `Home.require_own`), or a disk error occurred.
    """
    Context(home).require_own_home(changes=True)
    locks = {home.lock("env", name): name for name in names}
    with contextlib.ExitStack() as stack:
        stack.enter_context(storage_errors(home.path))
        if uses_store:
            stack.enter_context(locked(home.in_use, shared=True, waiting="waiting for `rocenv gc` to finish"))
        for path in sorted(locks):  # sorted, so that processes that need the same locks cannot deadlock
            waiting = f"waiting for another rocenv process that is using env `{locks[path]}`"
            stack.enter_context(locked(path, waiting=waiting))
        yield


def require_place(prefix: Prefix, context: Context) -> None:
    """Raise PrefixError before any download if an env cannot be created or used at this path."""
    require_listable(str(prefix.path), "windows" if WINDOWS else "linux")
    found = None if WINDOWS else _LOADER_SYNTAX.search(str(prefix.path))
    if found:
        does = "splits paths at" if found[0] == ";" else "expands"
        raise unusable(str(prefix.path), f"the dynamic loader {does} `{found[0]}`")
    context.require_home()
    require_free(prefix)
    require_short_home(context.home.path)


def require_free(prefix: Prefix) -> None:
    """Raise PrefixError if the prefix is complete or was not created by rocenv."""
    match prefix.state:
        case "complete":
            raise PrefixError(
                f"env `{prefix.name}` already exists",
                hints=(
                    f"choose a different name: `{prefix.free_name()}`",
                    f"or upgrade it to a newer set: `rocenv upgrade {shell_join(prefix.name)}`",
                    f"or remove it: `rocenv remove {shell_join(prefix.name)}`",
                ),
                code="env-exists",
            )
        case "foreign":
            raise prefix.foreign_error()
