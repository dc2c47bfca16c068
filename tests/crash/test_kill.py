"""`kill -9` at many points of every command that modifies the home.

Wherever a command is killed, no incomplete env looks complete, the store contains no partial artifacts, and
running the command again completes the work with the same result as an uninterrupted run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crash.lab import Lab, spread, tree
from tests.mini import LIBRARIES

if TYPE_CHECKING:
    from tests.mini import Mini

HIP = f"rocm/{LIBRARIES}/libamdhip64.so.6.4.3"
CREATE = ("create", "demo", "--rocm", "6.4", "--no-verify")


@pytest.fixture
def lab(mini: Mini) -> Lab:
    return Lab(mini)


def kill_create(lab: Lab, points: int, share: int = 0, shares: int = 1) -> None:
    changes = lab.changes(*CREATE)
    assert len(changes) > 100, "the killer did not record the changes"
    expected = lab.envs()
    lab.require_whole("demo")
    killed = 0
    for number in spread(len(changes), points, share, shares):
        lab.put_back()
        killed += lab.killed_at(number, *CREATE)
        told = f"killed at {number} of {len(changes)}: {changes[number - 1]}"
        states = lab.states()
        assert set(states.items()) <= {("demo", "complete"), ("demo", "incomplete")}, told
        lab.require_whole_store()
        again = lab.run(*CREATE)
        if states.get("demo") == "complete":
            assert (again.returncode, "already exists" in again.stderr) == (1, True), told
        else:
            assert again.returncode == 0, f"{told}\n{again.stderr}"
        assert lab.envs() == expected, told
        lab.require_whole_store()
    assert killed >= points // shares * 3 // 4


def test_create_survives_a_kill_at_any_of_a_few_points(lab: Lab) -> None:
    kill_create(lab, 10)


@pytest.mark.parametrize("share", range(6))
def test_create_survives_a_kill_at_any_of_many_points(lab: Lab, share: int) -> None:
    kill_create(lab, 72, share, 6)


POINTS = 14


def test_remove_survives_a_kill_at_any_point(lab: Lab) -> None:
    lab.mini.create("demo", "--rocm", "6.4")
    lab.mini.create("other", "--rocm", "6.4")
    lab.keep()
    changes = lab.changes("remove", "-y", "demo")
    for number in spread(len(changes), POINTS, 0, 1):
        lab.put_back()
        assert lab.killed_at(number, "remove", "-y", "demo")
        told = f"killed at {number} of {len(changes)}: {changes[number - 1]}"
        states = lab.states()
        assert states.pop("other") == "complete", told
        assert set(states.items()) <= {("demo", "complete"), ("demo", "incomplete")}, told
        again = lab.run("remove", "-y", "demo")
        if states:
            assert again.returncode == 0, f"{told}\n{again.stderr}"
        # An empty folder may remain, which is harmless.
        assert not any(name.startswith("demo/") for name in lab.envs()), told
        assert lab.run("clone", "other", "demo").returncode == 0, told
        lab.require_whole_store()


def test_rename_survives_a_kill_at_any_point(lab: Lab) -> None:
    lab.mini.create("old", "--rocm", "6.4")
    (lab.mini.prefix("old") / "mine.txt").write_text("added by hand")
    lab.keep()
    changes = lab.changes("rename", "old", "new")
    expected = lab.envs()
    for number in spread(len(changes), POINTS, 0, 1):
        lab.put_back()
        assert lab.killed_at(number, "rename", "old", "new")
        told = f"killed at {number} of {len(changes)}: {changes[number - 1]}"
        states = lab.states()
        if "old" in states:
            assert states == {"old": "complete"}, told
            assert lab.run("rename", "old", "new").returncode == 0, told
        else:
            assert set(states.items()) <= {("new", "complete"), ("new", "damaged")}, told
            assert lab.run("repair", "new").returncode == 0, told
        assert without_staging(lab) == expected, told
        lab.require_whole("new")


def test_repair_survives_a_kill_at_any_point(lab: Lab) -> None:
    lab.mini.create("demo", "--rocm", "6.4")
    expected = lab.envs()
    root = lab.mini.prefix("demo")
    (root / HIP).chmod(0o644)
    (root / HIP).write_text("also damaged in the store")
    (root / "activate").write_text("exit 1\n")
    (root / "rocm" / "usr" / "bin" / "hipconfig").unlink()
    lab.keep()
    changes = lab.changes("repair", "demo")
    for number in spread(len(changes), POINTS, 0, 1):
        lab.put_back()
        assert lab.killed_at(number, "repair", "demo")
        told = f"killed at {number} of {len(changes)}: {changes[number - 1]}"
        again = lab.run("repair", "demo")
        assert again.returncode == 0, f"{told}\n{again.stderr}"
        assert without_staging(lab) == expected, told
        lab.require_whole("demo")
        lab.require_whole_store()


def test_gc_survives_a_kill_at_any_point(lab: Lab) -> None:
    lab.mini.create("kept", "--rocm", "6.4")
    lab.mini.create("gone", "--rocm", "5.7")
    assert lab.run("remove", "-y", "gone").returncode == 0
    lab.keep()
    changes = lab.changes("gc", "-y")
    left = sorted(path.name for path in (lab.mini.home / "store").iterdir() if path.name != ".staging")
    for number in spread(len(changes), POINTS, 0, 1):
        lab.put_back()
        assert lab.killed_at(number, "gc", "-y")
        told = f"killed at {number} of {len(changes)}: {changes[number - 1]}"
        lab.require_whole_store()
        assert lab.states() == {"kept": "complete"}, told
        assert lab.run("gc", "-y").returncode == 0, told
        store = lab.mini.home / "store"
        assert sorted(path.name for path in store.iterdir() if path.name != ".staging") == left, told
        assert not tree(store / ".staging"), told
        lab.mini.create("gone", "--rocm", "5.7")


def without_staging(lab: Lab) -> dict[str, object]:
    """Return the contents of the envs, except files that a killed process left in staging."""
    return {name: what for name, what in lab.envs().items() if not name.endswith(".new")}
