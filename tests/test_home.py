"""Homes on shared machines: write permissions, and files planted by other users."""

from __future__ import annotations

import errno
import os
import stat
import struct
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from rocenv import config
from rocenv.context import Context
from rocenv.core.errors import DataError, PrefixError
from rocenv.home import Home
from rocenv.prefix import all_prefixes
from tests.users import missing

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mini import Mini

OTHER = 65534


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def writable_by_others(home: Path) -> list[str]:
    """List paths that others can access and write to, according to file modes."""
    paths = [home, *home.rglob("*")]
    return [str(path) for path in paths if not path.is_symlink() and mode_of(path) & 0o022]


def run(mini: Mini, umask: int, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        mini.command(*argv),
        env={**mini.env, **env},
        cwd=mini.root,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        umask=umask,
    )


class TestNewFiles:
    @pytest.mark.parametrize("umask", [0o022, 0o002, 0o000])
    def test_a_new_home_is_private_regardless_of_the_umask(self, mini: Mini, umask: int) -> None:
        done = run(mini, umask, "create", "demo", "--rocm", "5.7", "--no-verify")
        assert done.returncode == 0, done.stderr
        assert run(mini, umask, "config", "set", "defaults.rocm", "5.7").returncode == 0
        assert mode_of(mini.home) == 0o700
        assert mode_of(mini.home / "config.toml") == 0o600
        assert writable_by_others(mini.home) == []
        assert "others could write" not in done.stderr

    @pytest.mark.parametrize(
        ("argv", "makes_it"),
        [
            (("resolve", "--rocm", "5.7"), True),
            (("config", "set", "defaults.rocm", "5.7"), True),
            (("trust",), True),
            (("gc",), True),
            (("list",), False),
        ],
    )
    def test_every_command_creates_a_private_home(
        self, mini: Mini, argv: tuple[str, ...], makes_it: bool
    ) -> None:
        (mini.root / ".rocenv").write_text("demo\n")
        done = run(mini, 0o000, *argv)
        assert done.returncode == 0, done.stderr
        assert mini.home.exists() == makes_it
        if makes_it:
            assert mode_of(mini.home) == 0o700
            assert writable_by_others(mini.home) == []

    def test_the_settings_folder_is_private_too(self, mini: Mini) -> None:
        del mini.env["ROCENV_HOME"]
        settings = mini.root / "user" / ".config" / "rocenv"
        assert run(mini, 0o002, "config", "set", "defaults.rocm", "5.7").returncode == 0
        assert mode_of(settings) == 0o700
        assert mode_of(settings / "config.toml") == 0o600

    @pytest.mark.parametrize("umask", [0o022, 0o002, 0o027, 0o077])
    def test_the_users_programs_run_with_the_users_umask(self, mini: Mini, umask: int) -> None:
        mini.create()
        done = run(mini, umask, "run", "demo", "--", "/bin/sh", "-c", "umask")
        assert int(done.stdout, 8) == umask, done.stderr


class TestHomeWritableByOthers:
    def test_write_permissions_are_removed_with_one_note(self, mini: Mini) -> None:
        mini.create()
        below = mini.home / "store" / "older"
        below.mkdir()
        for each, mode in ((mini.home, 0o775), (mini.home / "envs", 0o2775), (below, 0o777)):
            each.chmod(mode)
        outside = mini.root / "outside"
        outside.mkdir()
        outside.chmod(0o777)
        (mini.home / "link").symlink_to(outside)
        done = mini.create("second")
        assert (
            f"others could write to `{mini.home}`; rocenv has removed their write permission" in done.stderr
        )
        assert "`rocenv verify demo` shows whether that env was modified" in done.stderr
        assert "rocenv config set home.shared true" in done.stderr
        assert mode_of(mini.home) == 0o755
        assert mode_of(mini.home / "envs") == 0o2755
        assert writable_by_others(mini.home) == []
        assert mode_of(outside) == 0o777
        assert "others could write" not in mini.create("third").stderr

    @pytest.mark.parametrize(
        "argv",
        [
            ("run", "demo", "--", "true"),
            ("repair", "demo"),
            ("rename", "demo", "new"),
            ("gc",),
            ("cache", "clear"),
        ],
    )
    def test_every_command_that_uses_the_home_removes_write_permissions(
        self, mini: Mini, argv: tuple[str, ...]
    ) -> None:
        mini.create()
        mini.home.chmod(0o775)
        done = mini.run(*argv)
        assert done.returncode == 0, done.stderr
        assert "rocenv has removed their write permission" in done.stderr
        assert mode_of(mini.home) == 0o755

    def test_a_world_writable_folder_is_made_private_and_the_key_replaced(self, mini: Mini) -> None:
        mini.create()
        key = (mini.home / "key").read_bytes()
        (mini.home / "envs").chmod(0o775)
        assert "has removed their write permission" in mini.create("second").stderr
        assert mode_of(mini.home / "envs") == 0o755
        assert (mini.home / "key").read_bytes() != key

    def test_another_users_file_is_reported_until_it_is_removed(self, mini: Mini) -> None:
        if sys.platform == "win32" or os.geteuid() != 0:
            missing("only root can create another user's file")
        mini.create()
        planted = mini.home / "store" / "planted"
        planted.write_text("x")
        os.chown(planted, OTHER, OTHER)
        (mini.home / "store").chmod(0o775)
        for _ in range(2):
            done = mini.run("run", "demo", "--", "true")
            assert done.returncode == 1
            assert f"contains `{planted}`, which another user owns" in done.stderr
            assert f"mv {mini.home} {mini.home}.old" in done.stderr
        assert not (mini.home / "key").exists()
        planted.unlink()
        done = mini.run("run", "demo", "--", "true")
        assert (done.returncode, "has removed their write permission" in done.stderr) == (0, True)
        assert mini.run("run", "demo", "--", "true").stderr == ""

    def test_an_interrupted_permission_change_is_repeated(
        self, mini: Mini, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        mini.create()
        below = mini.home / "store" / "older"
        below.mkdir()
        for each in (mini.home, below):
            each.chmod(0o775)

        def killed(*_: object) -> str:
            raise KeyboardInterrupt

        monkeypatch.setattr("rocenv.home.close_below", killed)
        with pytest.raises(KeyboardInterrupt):
            Home(mini.home).require_own()
        assert mode_of(mini.home) == 0o755
        monkeypatch.undo()
        Home(mini.home).require_own()
        assert mode_of(below) == 0o755

    def test_an_env_that_others_can_write_to_is_made_private(self, mini: Mini) -> None:
        mini.create()
        (mini.prefix("demo") / "rocm").chmod(0o777)
        mini.prefix("demo").chmod(0o777)
        assert "has removed their write permission" in mini.run("run", "demo", "--", "true").stderr
        assert mode_of(mini.prefix("demo") / "rocm") == 0o755

    def test_links_that_point_outside_the_home_are_not_followed(self, mini: Mini) -> None:
        mini.create()
        private = mini.root / "private"
        private.write_text("x")
        private.chmod(0o666)
        (mini.home / "store" / "link").symlink_to(private)
        mini.home.chmod(0o775)
        assert mini.run("run", "demo", "--", "true").returncode == 0
        assert mode_of(private) == 0o666

    @pytest.mark.skipif(sys.platform != "linux", reason="tests Linux ACLs")
    def test_write_permissions_from_default_acls_are_removed_once(self, mini: Mini) -> None:
        mini.create()
        # Tag, permissions and user of each entry: owner, user 65534, group, mask, others.
        entries = [(1, 7, -1), (2, 7, OTHER), (4, 5, -1), (0x10, 7, -1), (0x20, 5, -1)]
        acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *each) for each in entries)
        for folder in (mini.home, mini.home / "envs"):
            os.setxattr(folder, "system.posix_acl_default", acl)
        mini.home.chmod(0o775)
        assert "removed" in mini.create("second").stderr
        assert writable_by_others(mini.home) == []
        assert mini.run("run", "second", "--", "true").stderr == ""

    def test_read_permissions_are_kept(self, mini: Mini) -> None:
        mini.create()
        mini.home.chmod(0o755)
        assert "others" not in mini.create("second").stderr
        assert mode_of(mini.home) == 0o755

    @pytest.mark.parametrize("error", [None, errno.EROFS, errno.EPERM])
    def test_a_read_only_filesystem_or_one_without_modes_is_accepted(
        self, mini: Mini, monkeypatch: pytest.MonkeyPatch, error: int | None
    ) -> None:
        """On Windows drives in WSL, for example, all modes are 0777 and chmod has no effect."""
        mini.create()
        key = (mini.home / "key").read_bytes()
        (mini.home / "envs").chmod(0o777)

        def keeps(*_: object) -> None:
            if error:
                raise OSError(error, "no")

        monkeypatch.setattr(os, "fchmod", keeps)
        said: list[str] = []
        Home(mini.home).require_own(report=said.append)
        assert said == []
        assert (mini.home / "key").read_bytes() == key

    def test_an_intentionally_shared_home_is_unchanged(self, mini: Mini) -> None:
        mini.home.mkdir()
        mini.home.chmod(0o2775)
        assert mini.run("config", "set", "home.shared", "true").returncode == 0
        done = run(mini, 0o002, "create", "demo", "--rocm", "5.7", "--no-verify")
        assert done.returncode == 0, done.stderr
        assert mode_of(mini.home) == 0o2775
        assert "others could" not in done.stderr
        assert mode_of(mini.home / "envs") & 0o070 == 0o070, "the group can create envs"
        assert mode_of(mini.home / "locks") & 0o777 == 0o770
        assert mode_of(mini.home / "config.toml") == 0o644, "the group can also read it"

    def test_the_setting_for_a_shared_home_must_be_a_boolean(self, mini: Mini) -> None:
        file = mini.home / "config.toml"
        assert mini.run("config", "set", "home.shared", "yes").returncode == 1
        assert "must be a boolean" in mini.run("config", "set", "home.shared", "yes").stderr
        assert "the only setting is `home.shared`" in mini.run("config", "set", "home.place", "x").stderr
        assert not file.exists()
        with pytest.raises(DataError, match="unknown name"):
            config.assign(file, ("home", "x"), True)


@pytest.fixture
def theirs(mini: Mini) -> Mini:
    """Another user's home."""
    if sys.platform == "win32" or os.geteuid() != 0:
        missing("only root can create another user's home")
    mini.home.mkdir()
    os.chown(mini.home, OTHER, OTHER)
    mini.home.chmod(0o755)
    return mini


class TestAnotherUsersHome:
    def refused(self, home: Home, monkeypatch: pytest.MonkeyPatch, user: int) -> PrefixError:
        monkeypatch.setattr(os, "geteuid", lambda: user)
        with pytest.raises(PrefixError) as caught:
            home.require_usable()
        assert caught.value.code == "home-not-yours"
        assert "set ROCENV_HOME to a folder of your own" in caught.value.hints[0]
        return caught.value

    def test_another_users_home_is_an_error(self, theirs: Mini, monkeypatch: pytest.MonkeyPatch) -> None:
        error = self.refused(Home(theirs.home), monkeypatch, 4711)
        assert error.message.endswith(
            "belongs to the user `nobody`, so rocenv will not change anything there"
        )

    @pytest.mark.parametrize("user", [0, 4711])
    def test_a_world_writable_home_is_an_error_even_for_root(
        self, theirs: Mini, monkeypatch: pytest.MonkeyPatch, user: int
    ) -> None:
        for mode in (0o777, 0o1777):
            theirs.home.chmod(mode)
            error = self.refused(Home(theirs.home), monkeypatch, user)
            assert f"everyone can write to `{theirs.home}`" in error.message

    @pytest.mark.parametrize(
        "argv", [("run", "demo", "--", "true"), ("repair", "demo"), ("remove", "-y", "demo")]
    )
    def test_nothing_runs_from_a_world_writable_home(self, theirs: Mini, argv: tuple[str, ...]) -> None:
        theirs.home.chmod(0o777)
        done = theirs.run(*argv)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"and everyone can write to `{theirs.home}`, so others could change" in done.stderr
        assert f"chmod o-w {theirs.home}" in done.stderr

    @pytest.mark.parametrize(
        ("mode", "user", "changes", "shared", "allowed"),
        [
            (0o755, 4711, False, False, True),  # an admin's envs
            (0o755, 4711, True, False, False),
            (0o755, 4711, True, True, True),
            (0o755, 0, True, False, True),
            (0o775, 4711, False, False, False),
            (0o775, 4711, False, True, True),
            (0o775, 4711, True, True, True),
            (0o775, 0, True, False, True),
            (0o777, 4711, False, True, False),
            (0o777, 0, False, True, False),
        ],
    )
    def test_a_home_that_only_its_owner_can_change_is_accepted(
        self,
        theirs: Mini,
        monkeypatch: pytest.MonkeyPatch,
        mode: int,
        user: int,
        changes: bool,
        shared: bool,
        allowed: bool,
    ) -> None:
        theirs.home.chmod(mode)
        monkeypatch.setattr(os, "geteuid", lambda: user)
        home = Home(theirs.home)
        if allowed:
            home.require_own(changes=changes, shared=lambda: shared)
        else:
            with pytest.raises(PrefixError, match="belongs to the user `nobody`"):
                home.require_own(changes=changes, shared=lambda: shared)
        assert mode_of(theirs.home) == mode

    @pytest.mark.parametrize("user", [0, 4711])
    @pytest.mark.parametrize("shared", [False, True])
    def test_a_home_with_a_world_writable_folder_is_an_error(
        self, theirs: Mini, monkeypatch: pytest.MonkeyPatch, user: int, shared: bool
    ) -> None:
        envs = theirs.home / "envs"
        envs.mkdir()
        os.chown(envs, OTHER, OTHER)
        envs.chmod(0o777)
        monkeypatch.setattr(os, "geteuid", lambda: user)
        with pytest.raises(PrefixError, match=f"everyone can write to `{envs}`"):
            Home(theirs.home).require_own(shared=lambda: shared)

    @pytest.mark.parametrize("user", [0, 4711])
    def test_an_env_owned_by_a_third_user_is_an_error(
        self, theirs: Mini, monkeypatch: pytest.MonkeyPatch, user: int
    ) -> None:
        env = theirs.home / "envs" / "demo"
        env.mkdir(parents=True)
        os.chown(env.parent, OTHER, OTHER)
        os.chown(env, 54321, 54321)
        monkeypatch.setattr(os, "geteuid", lambda: user)
        with pytest.raises(PrefixError, match="to user ID 54321, so others could change"):
            Home(theirs.home).require_own(env=env)

    def test_an_unreadable_home_is_an_error(self, theirs: Mini, monkeypatch: pytest.MonkeyPatch) -> None:
        (theirs.home / "envs").mkdir()

        def refused(path: object) -> list[str]:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(os, "listdir", refused)
        with pytest.raises(PrefixError, match="cannot read"):
            all_prefixes(Home(theirs.home))

    def test_an_unknown_owner_is_shown_by_user_id(
        self, theirs: Mini, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        os.chown(theirs.home, 54321, 54321)
        assert "user ID 54321" in self.refused(Home(theirs.home), monkeypatch, 4711).message

    def test_root_can_use_another_users_home(self, theirs: Mini) -> None:
        theirs.create()
        assert mode_of(theirs.home) == 0o755

    def test_settings_of_the_homes_owner_are_ignored(self, theirs: Mini) -> None:
        file = theirs.home / "config.toml"
        config.assign(file, ("home", "shared"), True)
        os.chown(file, OTHER, OTHER)
        theirs.home.chmod(0o777)
        done = theirs.run("create", "demo", "--rocm", "5.7", "--json")
        assert '"error": "home-not-yours"' in done.stdout
        assert theirs.server.requests == []

    def test_the_users_own_settings_apply(self, theirs: Mini, monkeypatch: pytest.MonkeyPatch) -> None:
        theirs.home.chmod(0o775)
        env = {name: value for name, value in theirs.env.items() if name != "ROCENV_HOME"}
        command = theirs.command("config", "set", "home.shared", "true")
        subprocess.run(command, env=env, check=True, capture_output=True)
        theirs.create()
        assert mode_of(theirs.home) == 0o775
        theirs.home.chmod(0o777)
        refused = theirs.run("create", "second", "--rocm", "5.7", "--json")
        assert '"error": "home-not-yours"' in refused.stdout, "the home is shared with everybody"
        own = theirs.root / "user" / ".config" / "rocenv" / "config.toml"
        monkeypatch.setenv("HOME", str(theirs.root / "user"))
        monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
        assert Context(Home(theirs.home)).shares_home
        own.chmod(0o666)
        assert not Context(Home(theirs.home)).shares_home, "anyone could have written the setting"


class TestPlantedLinks:
    """Links that another user planted before the home became private."""

    @pytest.fixture
    def precious(self, mini: Mini) -> Path:
        path = mini.root / "precious"
        path.write_text("precious")
        return path

    def test_links_in_place_of_settings_are_not_followed(self, mini: Mini, precious: Path) -> None:
        mini.home.mkdir()
        for name in ("config.toml", ".config.toml.new", ".write-1", "config.toml.new"):
            (mini.home / name).symlink_to(precious)
        done = mini.run("config", "set", "defaults.rocm", "5.7")
        assert precious.read_text() == "precious", done.stderr

    def test_create_does_not_write_through_links(self, mini: Mini, precious: Path) -> None:
        mini.create()
        files = [path for path in mini.home.rglob("*") if path.is_file() and not path.is_symlink()]
        # Exclude envs (removed completely) and lock files (must not be links: tests/system/test_locks.py).
        files = [path for path in files if mini.home / "envs" not in path.parents and path.suffix != ".lock"]
        assert {mini.home / "key"} < set(files)
        assert any(path.parent == mini.home / "cache" / "artifacts" for path in files)
        assert mini.run("remove", "demo", "-y").returncode == 0
        for path in files:
            path.unlink()
            for name in (path.name, f"{path.name}.part", f"{path.name}.part.json"):
                path.with_name(name).symlink_to(precious)
        done = mini.run("create", "demo", "--rocm", "5.7", "--no-verify")
        assert "was damaged and has been removed\n\nhint: run the command again" in done.stderr
        mini.create()
        assert precious.read_text() == "precious"

    def test_a_linked_staging_folder_is_not_followed(self, mini: Mini) -> None:
        mini.create()
        outside = mini.root / "outside"
        outside.mkdir()
        (outside / "mine").write_text("x")
        hashes = [path.name for path in (mini.home / "store").iterdir() if len(path.name) == 64]
        mini.run("remove", "demo", "-y")
        for name in hashes:
            for each in (mini.home / "store" / name, mini.home / "store" / ".staging" / name):
                subprocess.run(["rm", "-rf", str(each)], check=True)
            (mini.home / "store" / ".staging" / name).symlink_to(outside)
        mini.create()
        assert [path.name for path in outside.iterdir()] == ["mine"]

    def test_a_lock_is_written_through_a_link_given_by_the_user(self, mini: Mini, precious: Path) -> None:
        mini.create()
        link = mini.root / "link.lock"
        link.symlink_to(precious)
        assert mini.run("lock", "demo", "-o", str(link)).returncode == 0
        assert link.is_symlink()
        assert precious.read_text().startswith("{")


class TestLinksInEnvs:
    @pytest.fixture
    def outside(self, mini: Mini) -> Path:
        """A complete env outside the home."""
        mini.create()
        folder = mini.root / "outside"
        mini.prefix("demo").rename(folder)
        return folder

    def test_removing_a_linked_env_deletes_only_the_link(self, mini: Mini, outside: Path) -> None:
        mini.prefix("demo").symlink_to(outside)
        before = sorted(outside.rglob("*"))
        assert mini.run("run", "demo", "--", "true").returncode == 0
        done = mini.run("remove", "demo", "-y")
        assert done.returncode == 0, done.stderr
        assert f"`{outside}` still exists" in done.stderr
        assert not mini.prefix("demo").is_symlink()
        assert sorted(outside.rglob("*")) == before

    @pytest.mark.parametrize("inside", ["complete", "incomplete", "empty", "marked", "nothing"])
    def test_create_writes_nothing_through_a_link(self, mini: Mini, outside: Path, inside: str) -> None:
        if inside != "complete":
            (outside / ".rocenv" / "record.json").unlink()
        place = mini.root / "elsewhere"
        if inside == "marked":
            place.mkdir()
            (place / "mine").write_text("x")
            (place / ".rocenv").symlink_to(outside / ".rocenv")
        elif inside == "empty":
            place.mkdir()
        elif inside != "nothing":
            place = outside
        before = sorted(mini.root.glob("elsewhere/**/*")), sorted(outside.rglob("*"))
        mini.prefix("demo").symlink_to(place)
        done = mini.run("create", "demo", "--rocm", "5.7", "--no-verify", "--json")
        assert done.returncode == 1
        assert ('"env-exists"' if inside == "complete" else '"env-foreign"') in done.stdout
        assert (sorted(mini.root.glob("elsewhere/**/*")), sorted(outside.rglob("*"))) == before
        assert mini.prefix("demo").is_symlink()

    def test_a_folder_whose_marker_is_a_link_is_not_an_env(self, mini: Mini, outside: Path) -> None:
        mini.prefix("demo").mkdir()
        (mini.prefix("demo") / "mine").write_text("x")
        (mini.prefix("demo") / ".rocenv").symlink_to(outside / ".rocenv")
        for argv in (("create", "demo", "--rocm", "5.7"), ("remove", "demo", "-y"), ("rename", "demo", "b")):
            done = mini.run(*argv, "--json") if argv[0] == "create" else mini.run(*argv)
            assert done.returncode == 1, argv
        assert (outside / ".rocenv" / "record.json").exists()
        assert (mini.prefix("demo") / "mine").exists()

    def test_rename_rejects_links_as_source_and_target(self, mini: Mini, outside: Path) -> None:
        record = (outside / ".rocenv" / "record.json").read_bytes()
        mini.prefix("demo").symlink_to(outside)
        done = mini.run("rename", "demo", "other")
        assert done.returncode == 1
        assert f"is a link to `{outside}`" in done.stderr
        mini.create("second")
        empty = mini.root / "empty"
        empty.mkdir()
        mini.prefix("third").symlink_to(empty)
        for target in ("demo", "third"):
            assert mini.run("rename", "second", target).returncode == 1
        assert list(empty.iterdir()) == []
        assert (outside / ".rocenv" / "record.json").read_bytes() == record

    def test_a_junction_counts_as_a_link(self, mini: Mini, monkeypatch: pytest.MonkeyPatch) -> None:
        """Windows junctions look like folders unless their reparse tag is checked."""
        from rocenv.prefix import prefix_of
        from rocenv.system import files

        mini.create()
        prefix = prefix_of(Home(mini.home), "demo")
        monkeypatch.setattr(files, "is_link", lambda info: stat.S_ISDIR(info.st_mode))
        monkeypatch.setattr(files, "WINDOWS", True)
        assert prefix.is_link
        with pytest.raises(OSError, match="not empty"):  # rmdir removes a junction
            prefix.wipe()
        assert (prefix.own / "record.json").exists()
