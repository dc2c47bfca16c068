"""Full and nearly full disks, simulated with small filesystems in a mount namespace."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests import forked
from tests.debs import file
from tests.users import missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.mini import Mini


@cache
def namespace() -> tuple[str, ...]:
    """Return a command prefix that lets a command mount filesystems."""
    if shutil.which("unshare") is not None:
        for options in (("-m",), ("-rm",)):
            command = ["unshare", *options, "mount", "-t", "tmpfs", "none", "/mnt"]
            if subprocess.run(command, capture_output=True, timeout=20).returncode == 0:
                return ("unshare", *options)
    return ()


@dataclass
class Disk:
    """The simulated machine's home on its own disk, which other processes cannot see."""

    mini: Mini

    def mount(self, options: str) -> None:
        """Mount an empty disk, replacing any previous one."""
        self._change('umount -q "$ROCENV_HOME" || true')
        self._change(f'mount -t tmpfs -o {options} none "$ROCENV_HOME"')

    def resize(self, size: str) -> None:
        self._change(f'mount -o remount,{size} "$ROCENV_HOME"')

    def run(self, *argv: str, first: str = "") -> subprocess.CompletedProcess[str]:
        """Run a shell script and then `rocenv ARGV...` on that disk."""
        env, cwd = self.mini.env, self.mini.root
        return forked.run_text(argv, env=env, cwd=cwd, timeout_s=120, within=namespace(), first=first)

    def create(self, version: str, *argv: str) -> subprocess.CompletedProcess[str]:
        return self.run("create", "demo", "--rocm", version, *argv)

    def _change(self, script: str) -> None:
        done = self.run("--version", first=script)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def disk(mini: Mini) -> Iterator[Disk]:
    if not namespace():
        missing("cannot mount a small disk without root or user namespaces")
    mini.home.mkdir()
    made = Disk(mini)
    yield made
    made.run("--version", first='umount "$ROCENV_HOME"')


def fetched(mini: Mini) -> list[str]:
    return [request.path for request in mini.server.requests if request.path.endswith(".deb")]


def add_large_set(mini: Mini, *, megabytes: int, stated_kilobytes: int) -> None:
    """Add two packages to the 6.4 set that are small to download but unpack to the given size."""
    mini.repo.remove("mini6-blas")
    large = [file(f"./usr/share/large/{number}", bytes(1 << 20)) for number in range(megabytes)]
    half = megabytes // 2
    mini.repo.add("mini6-data", "6.4.3-1", large[:half], fields={"Installed-Size": "1"})
    mini.repo.add(
        "mini6-blas",
        "6.4.3-1",
        [*large[half:], file("./usr/lib/x86_64-linux-gnu/librocblas.so.6", "x")],
        fields={"Installed-Size": str(stated_kilobytes)},
        depends="mini6-hip, mini6-data",
    )
    mini.repo.publish()


def test_too_little_space_is_an_error_before_any_download(disk: Disk) -> None:
    add_large_set(disk.mini, megabytes=1, stated_kilobytes=3_000_000)
    disk.mount("size=200m")
    done = disk.create("6.4", "--no-verify", "--json")
    assert done.returncode == 1, done.stderr
    assert '"error": "no-space"' in done.stdout
    assert "3.1 GB" in done.stderr
    assert str(disk.mini.home) in done.stderr
    assert fetched(disk.mini) == []


def test_the_error_for_a_full_disk_suggests_commands_that_help_on_this_machine(disk: Disk) -> None:
    """The hints say how much each command frees, and suggest another disk that has enough space."""
    add_large_set(disk.mini, megabytes=1, stated_kilobytes=100_000)
    disk.mount("size=100m")
    assert disk.create("5.7", "--no-verify").returncode == 0
    megabytes = "dd if=/dev/zero bs=1M count=2 of="
    fill = f'cd "$ROCENV_HOME"; mkdir -p store/{"0" * 64}/tree; {megabytes}store/{"0" * 64}/tree/unused'
    done = disk.run("create", "more", "--rocm", "6.4", "--no-verify", first=fill)
    hints = " ".join(done.stderr.split()).split("hint: ")[1:]
    assert re.match(r"free \d+\.\d MB more: `rocenv gc -y` frees up to 2\.1 MB", hints[0])
    assert hints[1].startswith("remove envs that you no longer need")
    user = disk.mini.root / "user"
    command = f"`export ROCENV_HOME='{user}/rocenv'`"
    assert command in hints[2] and hints[2].endswith("existing envs stay where they are")
    disk.mini.env["HOME"] = str(disk.mini.home)
    assert command not in disk.run("create", "more", "--rocm", "6.4", "--no-verify").stderr


def test_a_dry_run_fails_for_lack_of_space_if_the_real_run_would(disk: Disk) -> None:
    add_large_set(disk.mini, megabytes=1, stated_kilobytes=3_000_000)
    disk.mount("size=2m")
    done = disk.create("6.4", "--dry-run")
    assert done.returncode == 1
    assert "Plan for" in done.stdout
    assert "of disk space" in done.stderr


def test_create_recovers_after_running_out_of_space_while_unpacking(disk: Disk) -> None:
    add_large_set(disk.mini, megabytes=90, stated_kilobytes=1)
    disk.mount("size=80m")
    done = disk.create("6.4", "--no-verify")
    assert (done.returncode, done.stdout) == (1, "")
    assert "error: no space left" in done.stderr
    assert "hint: free some space" in done.stderr
    assert "Traceback" not in done.stderr
    count = 'find "$ROCENV_HOME/store/.staging" "$ROCENV_HOME/envs" -type f | grep -c large || true'
    listed = disk.run("list", first=count)
    assert (listed.returncode, listed.stdout.splitlines()[0]) == (0, "0"), "partial files must be removed"
    disk.resize("size=300m")
    done = disk.create("6.4", "--no-verify")
    assert done.returncode == 0, done.stderr
    assert "files    passed" in disk.run("verify", "demo", "--upto", "files").stdout
    packages = fetched(disk.mini)
    assert len(packages) == len(set(packages)), "finished downloads must be reused"


@pytest.mark.parametrize("share", [0, 1])
def test_create_recovers_after_running_out_of_inodes(disk: Disk, share: int) -> None:
    """The first failure may be in an index, a lock, a package, a folder, a link, a script or the record."""
    for count in range(3 + 6 * share, 150, 12):
        disk.mount(f"size=200m,nr_inodes={count}")
        done = disk.create("5.7", "--no-verify")
        if done.returncode == 0:
            assert count > 40, done.stdout
            break
        told = f"{count} files: {done.stdout}\n{done.stderr}"
        assert done.returncode == 1, told
        assert "no space left" in done.stderr.lower(), told
        assert '"complete"' not in disk.run("list", "--json").stdout, told
        disk.resize("nr_inodes=10k")
        again = disk.create("5.7", "--no-verify")
        assert again.returncode == 0, f"{told}\n{again.stderr}"
        assert disk.run("verify", "demo", "--upto", "files").returncode == 0, told
    else:
        pytest.fail("the command needs more than 150 inodes, so it never succeeded")


def test_files_on_the_simulated_disk_do_not_appear_in_the_real_home(disk: Disk) -> None:
    disk.mount("size=2m")
    assert disk.run("config", "set", "defaults.rocm", "5.7").returncode == 0
    assert os.listdir(disk.mini.home) == []
