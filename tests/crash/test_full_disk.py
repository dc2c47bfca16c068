"""Disks that are too small, or full up at some point: small ones made for the test, in a mount namespace."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.debs import file
from tests.users import missing

if TYPE_CHECKING:
    from tests.mini import Mini

pytestmark = pytest.mark.slow


@cache
def namespace() -> tuple[str, ...]:
    """Return the start of a command line that runs the rest where it may mount things."""
    if shutil.which("unshare") is not None:
        for options in (("-m",), ("-rm",)):
            command = ["unshare", *options, "mount", "-t", "tmpfs", "none", "/mnt"]
            if subprocess.run(command, capture_output=True, timeout=20).returncode == 0:
                return ("unshare", *options)
    return ()


def on_small_disk(mini: Mini, options: str, script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script in which the home is a disk of its own; `rocenv` and `resize` are commands there."""
    if not namespace():
        missing("no small disk can be made here: neither root nor user namespaces")
    mini.home.mkdir(exist_ok=True)
    program = shlex.join(mini.command())
    head = f"""
        rocenv() {{ {program} "$@"; }}
        resize() {{ mount -o "remount,$1" "$ROCENV_HOME"; }}
        mount -t tmpfs -o {options} none "$ROCENV_HOME" || exit 99
    """
    return subprocess.run(
        [*namespace(), "sh", "-c", head + script],
        env=mini.env,
        cwd=mini.root,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def fetched(mini: Mini) -> list[str]:
    return [request.path for request in mini.server.requests if request.path.endswith(".deb")]


def add_large_set(mini: Mini, *, megabytes: int, stated_kilobytes: int) -> None:
    """Let the set of 6.4 take so much once unpacked; its packages stay small."""
    mini.repo.remove("mini6-blas")
    mini.repo.add(
        "mini6-blas",
        "6.4.3-1",
        [
            *(file(f"./usr/share/large/{number}", bytes(1 << 20)) for number in range(megabytes)),
            file("./usr/lib/x86_64-linux-gnu/librocblas.so.6", "x"),
        ],
        fields={"Installed-Size": str(stated_kilobytes)},
        depends="mini6-hip",
    )
    mini.repo.publish()


def test_too_little_space_is_refused_before_anything_is_fetched(mini: Mini) -> None:
    add_large_set(mini, megabytes=1, stated_kilobytes=3_000_000)
    done = on_small_disk(mini, "size=200m", "rocenv create demo --rocm 6.4 --no-verify --json")
    assert done.returncode == 1, done.stderr
    assert '"error": "no-space"' in done.stdout
    assert "3.1 GB" in done.stderr
    assert str(mini.home) in done.stderr
    assert fetched(mini) == []


def test_a_dry_run_needs_no_space(mini: Mini) -> None:
    add_large_set(mini, megabytes=1, stated_kilobytes=3_000_000)
    assert on_small_disk(mini, "size=2m", "rocenv create demo --rocm 6.4 --dry-run").returncode == 0


def test_space_that_runs_out_while_unpacking(mini: Mini) -> None:
    add_large_set(mini, megabytes=90, stated_kilobytes=1)
    script = """
        rocenv create demo --rocm 6.4 --no-verify
        echo "== $?"
        rocenv list
        find "$ROCENV_HOME/store" "$ROCENV_HOME/envs" -type f | grep -c large
        resize size=300m
        rocenv create demo --rocm 6.4 --no-verify || exit 1
        rocenv verify demo --upto files
    """
    done = on_small_disk(mini, "size=80m", script)
    assert done.returncode == 0, done.stderr
    first, _, rest = done.stdout.partition("== 1\n")
    assert (first, rest.splitlines()[0]) == ("", "0"), "nothing half may stay: " + done.stdout
    assert "error: no space left" in done.stderr
    assert "hint: free some: `rocenv gc`" in done.stderr
    assert "Traceback" not in done.stderr
    assert "files    passed" in done.stdout
    assert len(fetched(mini)) == len(set(fetched(mini))), "what was fetched is not fetched again"


@pytest.mark.parametrize("share", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_disk_that_can_hold_no_more_files(mini: Mini, share: int) -> None:
    """Whatever cannot be made first: an index, a lock, a package, a folder, a link, a script, the record."""
    for count in range(3 + 6 * share, 150, 12):
        script = """
            rocenv create demo --rocm 5.7 --no-verify
            echo "== $?"
            rocenv list --json | grep state
            resize nr_inodes=10k
            rocenv create demo --rocm 5.7 --no-verify || { echo "again $?"; exit 1; }
            rocenv verify demo --upto files
        """
        done = on_small_disk(mini, f"size=200m,nr_inodes={count}", script)
        if "== 0" in done.stdout:
            assert count > 40, done.stdout
            break
        told = f"{count} files: {done.stdout}\n{done.stderr}"
        assert "== 1\n" in done.stdout, told
        assert "No space left" in done.stderr or "no space left" in done.stderr, told
        assert '"complete"' not in done.stdout, told
        assert done.returncode == 0, told
    else:
        pytest.fail("even 150 files were not enough, so the end was never reached")


def test_the_namespaces_leave_nothing_behind(mini: Mini) -> None:
    on_small_disk(mini, "size=2m", "rocenv config set defaults.rocm 5.7")
    assert os.listdir(mini.home) == []
