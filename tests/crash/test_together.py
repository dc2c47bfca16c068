"""Concurrent and interrupted commands."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from tests.crash.lab import Lab
from tests.debs import file
from tests.loopback import Fault, wait_until
from tests.users import unprivileged

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.mini import Mini


@pytest.fixture
def children() -> Iterator[list[subprocess.Popen[str]]]:
    """The processes that a test starts; they are killed when it ends."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for child in started:
        if child.poll() is None:
            child.kill()
        child.communicate()


def start(mini: Mini, children: list[subprocess.Popen[str]], *argv: str) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        mini.command(*argv),
        env=mini.env,
        cwd=mini.root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    children.append(child)
    return child


def packages(mini: Mini, version: str = "5.7.1-1") -> list[str]:
    """Return the URLs of a set's packages on the server."""
    return [f"/debian/{built.path}" for built in mini.repo.packages if built.version == version]


def hold_back(mini: Mini) -> None:
    """Delay the 5.7 packages by a second, so that other processes find the download in progress."""
    for path in packages(mini):
        mini.server.fail(path, Fault(status=503, headers={"Retry-After": "1"}))


def fetches(mini: Mini) -> list[int]:
    """Return how many times each package in the 5.7 set was sent."""
    return [sum(seen.status == 200 for seen in mini.server.seen(path)) for path in packages(mini)]


def finish(children: Sequence[subprocess.Popen[str]]) -> list[tuple[int, str]]:
    ended = []
    for child in children:
        _out, err = child.communicate(timeout=60)
        ended.append((child.returncode, err))
    return sorted(ended)


class TestConcurrent:
    def test_only_one_of_two_concurrent_creates_gets_the_name(
        self, mini: Mini, children: list[subprocess.Popen[str]]
    ) -> None:
        hold_back(mini)
        for _ in range(2):
            start(mini, children, "create", "demo", "--rocm", "5.7", "--no-verify")
        (won, _), (lost, said) = finish(children)
        assert (won, lost) == (0, 1)
        assert "env `demo` already exists" in said
        assert Lab(mini).states() == {"demo": "complete"}
        assert fetches(mini) == [1, 1]

    def test_concurrent_creates_share_downloads(
        self, mini: Mini, children: list[subprocess.Popen[str]]
    ) -> None:
        hold_back(mini)
        for name in ("one", "two"):
            start(mini, children, "create", name, "--rocm", "5.7", "--no-verify")
        assert [code for code, _ in finish(children)] == [0, 0]
        assert Lab(mini).states() == {"one": "complete", "two": "complete"}
        assert fetches(mini) == [1, 1]
        assert len(list((mini.home / "store").glob("*/manifest.json"))) == 2
        Lab(mini).require_whole_store()

    def test_gc_waits_for_create(self, mini: Mini, children: list[subprocess.Popen[str]]) -> None:
        hold_back(mini)
        start(mini, children, "create", "demo", "--rocm", "5.7", "--no-verify")
        wait_until(lambda: any(mini.server.seen(path) for path in packages(mini)))
        start(mini, children, "gc", "-y")
        start(mini, children, "cache", "clear")
        ended = finish(children)
        assert [code for code, _ in ended] == [0, 0, 0]
        assert sum("waiting for another rocenv" in said for _, said in ended) == 2
        assert Lab(mini).states() == {"demo": "complete"}
        assert len(list((mini.home / "store").glob("*/manifest.json"))) == 2

    def test_concurrent_remove_and_create_leave_no_broken_env(
        self, mini: Mini, children: list[subprocess.Popen[str]]
    ) -> None:
        mini.create()
        for _ in range(3):
            start(mini, children, "remove", "-y", "demo")
            start(mini, children, "create", "demo", "--rocm", "5.7", "--no-verify")
        for code, said in finish(children):
            assert code in (0, 1), said
            assert code == 0 or "already exists" in said or "there is no env" in said, said
        assert set(Lab(mini).states().values()) <= {"complete"}


class TestInterrupted:
    def test_ctrl_c_interrupts_a_stalled_download(
        self, mini: Mini, children: list[subprocess.Popen[str]]
    ) -> None:
        stalled = packages(mini)[0]
        mini.server.always(stalled, Fault(stall_after=100))
        child = start(mini, children, "create", "demo", "--rocm", "5.7", "--no-verify")
        wait_until(lambda: mini.server.sent_bytes(stalled) >= 100)
        begin = time.monotonic()
        child.send_signal(signal.SIGINT)
        ((code, said),) = finish(children)
        assert time.monotonic() - begin < 5
        assert (code, "interrupted" in said, "Traceback" in said) == (130, True, False), said
        assert Lab(mini).states() == {}
        mini.server.always(stalled, Fault())
        mini.create()
        assert Lab(mini).states() == {"demo": "complete"}

    def test_ctrl_c_while_unpacking_leaves_no_partial_files(
        self, mini: Mini, children: list[subprocess.Popen[str]]
    ) -> None:
        mini.repo.remove("mini5-blas")
        large = [file(f"./usr/share/{number}", bytes(1 << 20)) for number in range(500)]
        mini.repo.add("mini5-blas", "5.7.1-2", large, fields={"Installed-Size": "512000"})
        mini.repo.publish()
        child = start(mini, children, "create", "demo", "--rocm", "5.7", "--no-verify")
        wait_until(lambda: any((mini.home / "store" / ".staging").glob("*/tree/usr/share/*")))
        child.send_signal(signal.SIGINT)
        ((code, said),) = finish(children)
        assert (code, "interrupted" in said, "Traceback" in said) == (130, True, False), said
        assert not any((mini.home / "store" / ".staging").iterdir()), "partial files must be removed"
        assert Lab(mini).states() == {}
        Lab(mini).require_whole_store()

    def test_ctrl_c_ends_the_wait_for_another_process(
        self, mini: Mini, children: list[subprocess.Popen[str]]
    ) -> None:
        stalled = packages(mini)[0]
        mini.server.always(stalled, Fault(stall_after=100))
        start(mini, children, "create", "demo", "--rocm", "5.7", "--no-verify")
        wait_until(lambda: mini.server.sent_bytes(stalled) >= 100)
        waiting = start(mini, children, "remove", "-y", "demo")
        ended = waiting.communicate(timeout=30)
        assert waiting.returncode == 1, "there is no env yet: " + ended[1]
        waiting = start(mini, children, "gc")
        assert waiting.stderr is not None
        assert "waiting for another rocenv" in waiting.stderr.readline()
        waiting.send_signal(signal.SIGINT)
        waiting.communicate(timeout=30)
        assert waiting.returncode == 130


class TestUnwritableHome:
    def run(self, mini: Mini, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*unprivileged(), *mini.command(*argv)],
            env=mini.env,
            cwd=mini.root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def test_a_home_that_cannot_be_created_is_an_error(self, mini: Mini) -> None:
        mini.home.parent.chmod(0o555)
        try:
            done = self.run(mini, "create", "demo", "--rocm", "5.7", "--json")
        finally:
            mini.home.parent.chmod(0o755)
        assert done.returncode == 1
        assert json.loads(done.stdout)["error"] == "home-unwritable"
        assert f"cannot write to `{mini.home}`: Permission denied" in done.stderr
        assert "hint: set ROCENV_HOME" in done.stderr
        assert mini.server.requests == [], "rocenv must detect this before it sends a request"

    @pytest.mark.parametrize("kind", ["file", "below a file"])
    def test_a_home_that_is_a_file_is_an_error(self, mini: Mini, kind: str) -> None:
        place = mini.root / "odd"
        place.write_text("x")
        home = str(place if kind == "file" else place / "home")
        for argv in (
            ("create", "demo", "--rocm", "5.7"),
            ("gc",),
            ("cache", "clear"),
            ("remove", "-y", "demo"),
        ):
            done = mini.run(*argv, ROCENV_HOME=home)
            assert done.returncode == 1, (argv, done.stderr)
            assert "error: " in done.stderr
        assert mini.run("list", ROCENV_HOME=home).returncode == 0

    def test_a_read_only_home_is_an_error(self, mini: Mini) -> None:
        mini.create()
        folders = [
            path for path in (mini.home, *mini.home.rglob("*")) if path.is_dir() and not path.is_symlink()
        ]
        files = [path for path in mini.home.rglob("*") if path.is_file() and not path.is_symlink()]
        for path in (*folders, *files):
            path.chmod(stat.S_IMODE(path.stat().st_mode) & ~0o222)
        try:
            reading = {
                ("list",): "demo",
                ("show", "demo"): "gfx1100",
                ("lock", "demo"): "sha256",
                ("run", "demo", "--", "hipconfig"): "hipconfig of the env",
                ("verify", "demo", "--upto", "files"): "passed",
                ("cache",): "artifacts",
                ("config", "path"): "config.toml",
            }
            for argv, expected in reading.items():
                done = self.run(mini, *argv)
                assert (done.returncode, expected in done.stdout) == (0, True), (argv, done.stderr)
            for argv in (
                ("create", "new", "--rocm", "5.7"),
                ("remove", "-y", "demo"),
                ("rename", "demo", "new"),
                ("clone", "demo", "new"),
                ("repair", "demo"),
                ("gc", "-y"),
                ("cache", "clear"),
                ("config", "set", "defaults.rocm", "5.7"),
            ):
                done = self.run(mini, *argv)
                assert done.returncode == 1, (argv, done.stderr)
                assert "Permission denied" in done.stderr, (argv, done.stderr)
                assert "Traceback" not in done.stderr
        finally:
            for path in folders:
                path.chmod(0o755)
        assert Lab(mini).states() == {"demo": "complete"}


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs"])
def test_a_home_on_a_network_share_is_refused(mini: Mini, kind: str) -> None:
    mounts = mini.sysroot / "proc/self/mountinfo"
    point = str(mini.root).replace(" ", "\\040")
    mounts.write_text(f"{mounts.read_text()}50 22 0:9 / {point} rw shared:1 - {kind} server:/x rw\n")
    done = mini.run("create", "demo", "--rocm", "5.7", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"] == "network-home"
    assert f"is on {kind} (server:/x)" in done.stderr
    assert "hint: set ROCENV_HOME" in done.stderr
    assert not mini.home.exists()
