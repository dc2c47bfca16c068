"""Hints shown when a disk is full."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from rocenv.commands.no_space import space_hints
from rocenv.context import Context
from rocenv.core.errors import NoSpace
from rocenv.core.model import Artifact, Component, Lock, Request
from rocenv.home import Home
from rocenv.install import fetch

if TYPE_CHECKING:
    from pathlib import Path

WANTED, STALE, UNPACKED = ("a" * 64, "b" * 64, "c" * 64)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("ROCENV_HOME", str(tmp_path / "home"))
    home = Home.default()
    for path, megabytes in (
        (home.artifacts / STALE, 3),
        (home.uv_cache / "wheel", 2),
        (home.store / UNPACKED / "tree/lib", 40),
        (home.store / STALE / "tree/lib", 7),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * megabytes * 1_000_000)
    return home


def hints(home: Home, needed_bytes: int) -> tuple[str, ...]:
    keep = frozenset((WANTED, UNPACKED))
    return space_hints(NoSpace("full", str(home.path), needed_bytes=needed_bytes, keep=keep))


def test_the_hints_do_not_suggest_deleting_files_that_the_next_attempt_needs(home: Home) -> None:
    all_, *_ = hints(home, 10_000_000)
    assert (
        all_
        == "free 10.0 MB more: `rocenv gc -y` frees up to 7.0 MB, `rocenv cache clear` frees up to 5.0 MB"
    )
    (home.artifacts / f"{WANTED}.part").write_bytes(b"x" * 5_000_000)
    some, not_enough, *_ = hints(home, 10_000_000)
    assert some.endswith("frees up to 7.0 MB, `rocenv cache clear wheels` frees up to 2.0 MB")
    assert not_enough.startswith("this is not enough")


def test_a_disk_that_becomes_full_is_an_error_with_the_missing_amount(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = Artifact(
        name="x", version="1", kind="deb", url="https://x.example/x", sha256=WANTED, size_bytes=10**9
    )
    part = Component(kind="rocm", name="rocm", version="1", channel="x", why="", artifacts=(artifact,))
    lock = Lock(
        request=Request(platform="linux"),
        platform="linux",
        target="",
        components=(part,),
        environment=(),
    )

    def full(*_args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(fetch, "_download_and_unpack", full)
    monkeypatch.setattr(fetch, "free_bytes", lambda _path: 5_000_000)
    with pytest.raises(NoSpace, match=r"but only 5\.0 MB is free") as caught:
        fetch.ensure_available(lock, Context(home))
    assert caught.value.needed_bytes > 10**9
    assert caught.value.keep == {WANTED}
