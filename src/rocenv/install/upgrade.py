"""Replace an env's set with a newer one, and roll back.

The newer set is a separate, complete env, `NAME~new`, until the swap renames it; the older one is then
`NAME~old`. If the swap is interrupted, `settle` completes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.core.errors import PrefixError
from rocenv.install.build import env_locked
from rocenv.install.change import move
from rocenv.integrity import installed_packages
from rocenv.prefix import prefix_of
from rocenv.system.files import move as move_path
from rocenv.system.files import remove_path, require_unused
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from pathlib import Path

    from rocenv.core.model import Record
    from rocenv.home import Home
    from rocenv.prefix import Prefix

# Env name suffixes for the set to switch to, and for the set to roll back to.
NEWER, OLDER = "~new", "~old"
# Subfolders of `cache` with files compiled for one set; the others contain downloads, usable by any set.
_COMPILED = ("miopen", "torch/kernels", "torch_extensions", "inductor", "triton", "comgr", "numba")
_CACHE = "cache"
_OF_VENV = frozenset({"pip", "setuptools", "wheel"})


def newer(home: Home, name: str) -> Prefix:
    """Return the env that an upgrade builds."""
    return prefix_of(home, f"{name}{NEWER}")


def older(home: Home, name: str) -> Prefix:
    """Return the env that the last upgrade replaced."""
    return prefix_of(home, f"{name}{OLDER}")


def settle(home: Home, name: str) -> None:
    """Complete a swap if one was interrupted between its two renames."""
    with env_locked(home, *_names(name)):
        if prefix_of(home, name).state == "absent" and older(home, name).state == "complete":
            if newer(home, name).state == "complete":
                _put_in(home, newer(home, name), name)
            else:
                move(older(home, name), home, name)


def swap_in(home: Home, name: str) -> None:
    """Replace an env with `NAME~new`, and keep the old one as `NAME~old`, replacing any earlier one.

    Downloads, logs, and the user's files in the env's folder move to the new env.

    Raises:
        PrefixError: A program in one of the envs is running, or one of the envs is incomplete.
    """
    with env_locked(home, *_names(name)):
        current, new, old = prefix_of(home, name), newer(home, name), older(home, name)
        current.require_complete()
        new.require_complete()
        _require_unused(current, new, old)
        if old.state != "absent":
            old.wipe()
        move(current, home, old.name)
        _put_in(home, new, name)


def roll_back(home: Home, name: str) -> None:
    """Swap an env with the one that its last upgrade replaced.

    Raises:
        PrefixError: There is no previous env to roll back to, or a program in one of the envs is running.
    """
    with env_locked(home, *_names(name)):
        current, new, old = prefix_of(home, name), newer(home, name), older(home, name)
        if old.state != "complete":
            raise PrefixError(
                f"there is nothing to roll back: env `{name}` has no previous version",
                hints=(f"rocenv show {shell_join(name)}",),
                code="env-missing",
            )
        _require_unused(current, new, old)
        if new.state != "absent":
            new.wipe()
        current.require_complete()
        move(current, home, new.name)
        _carry(new, old)
        move(old, home, name)
        move(new, home, old.name)


def _require_unused(*envs: Prefix) -> None:
    """Raise PrefixError if a program in one of the envs is running, because a later rename would fail."""
    for prefix in envs:
        if prefix.state != "absent":
            require_unused(prefix.path)


def added_packages(prefix: Prefix, record: Record) -> list[str]:
    """List the Python packages that the user installed in the env, sorted by name."""
    found: set[str] = set()
    for part in record.lock.components:
        if part.is_wheels and part.layout is not None:
            found |= installed_packages(prefix.path / part.layout.site_packages).keys()
    return sorted(found - {each.name for each in record.lock.artifacts} - _OF_VENV)


def _names(name: str) -> tuple[str, ...]:
    return name, f"{name}{NEWER}", f"{name}{OLDER}"


def _put_in(home: Home, new: Prefix, name: str) -> None:
    _carry(older(home, name), new)  # before NAME exists again, so that `settle` repeats it if interrupted
    move(new, home, name)


def _carry(source: Prefix, target: Prefix) -> None:
    """Move files that are not part of the set to another env: downloads, logs, and the user's files."""
    record = source.record_wherever_made()
    own = {path.partition("/")[0] for path in source.files(record)}
    for path in list(source.path.iterdir()):
        if path.name == _CACHE:
            _merge(path, target.path / _CACHE, tuple(_COMPILED))
        elif path.name == "logs":
            _merge(path, target.path / "logs", ())
        elif path.name not in own and not (target.path / path.name).exists():
            move_path(path, target.path / path.name)


def _merge(source: Path, target: Path, left: tuple[str, ...]) -> None:
    """Move a folder's contents into another, replacing existing paths but skipping the paths in `left`."""
    if not source.is_dir() or source.is_symlink():
        return
    target.mkdir(exist_ok=True)
    for path in list(source.iterdir()):
        below = tuple(each.partition("/")[2] for each in left if each.startswith(f"{path.name}/"))
        if below:
            _merge(path, target / path.name, below)
        elif path.name not in left:
            remove_path(target / path.name)
            move_path(path, target / path.name)
