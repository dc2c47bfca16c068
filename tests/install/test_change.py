"""Removing, renaming and repairing real envs without affecting others."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocenv.system.files import break_link, clone_file, remove_tree
from tests.mini import LIBRARIES
from tests.stores import manifest_in
from tests.users import missing, unprivileged

if TYPE_CHECKING:
    from tests.mini import Mini

HIP = f"rocm/{LIBRARIES}/libamdhip64.so.5.7.1"
LINK = f"rocm/{LIBRARIES}/libamdhip64.so.5"
KERNELS = f"rocm/{LIBRARIES}/rocblas/library/kernels.dat"
TOOL = "rocm/usr/bin/hipconfig"


def differences(mini: Mini, name: str = "demo") -> str:
    """Return the detail of the `files` check, or "" if it passes."""
    done = mini.run("verify", name, "--upto", "files", "--json")
    assert done.returncode in (0, 1), done.stderr
    (rung,) = json.loads(done.stdout)["rungs"]
    return "" if rung["status"] == "passed" else str(rung["detail"])


def content(place: Path) -> dict[str, object]:
    """Return all paths below a folder with their contents."""
    found: dict[str, object] = {}
    for path in sorted(place.rglob("*")):
        info = path.lstat()
        name = str(path.relative_to(place))
        if stat.S_ISLNK(info.st_mode):
            found[name] = os.readlink(path)
        elif stat.S_ISREG(info.st_mode):
            found[name] = (bool(info.st_mode & 0o100), path.read_bytes())
        else:
            found[name] = None
    return found


def without_notes(found: dict[str, object]) -> dict[str, object]:
    """Remove rocenv's own records of the env from a result of `content`."""
    return {name: what for name, what in found.items() if not name.startswith(".rocenv/")}


def store_is_whole(mini: Mini) -> bool:
    """Whether every file in the store matches its manifest and is read-only."""
    for place in (mini.home / "store").iterdir():
        if place.name == ".staging":
            continue
        for name, entry in manifest_in(place).items():
            path = place / "tree" / name
            if "link" in entry:
                continue
            info = path.stat()
            if (info.st_size, stat.S_IMODE(info.st_mode) & 0o222) != (entry.get("size_bytes", 0), 0):
                return False
    return True


# Damage -> a command that causes it in the prefix; one affected file; its reported state
DAMAGE = {
    "missing file": ("rm $HIP", HIP, "missing"),
    "missing link": ("rm $LINK", LINK, "missing"),
    "missing folder": ("rm -r rocm/usr/lib", KERNELS, "missing"),
    "missing tree": ("rm -r rocm", TOOL, "missing"),
    "another link": ("ln -sfn x $LINK", LINK, "changed"),
    "a file for a link": ("rm $LINK; echo x >$LINK", LINK, "changed"),
    "a link for a file": ("ln -sf x $HIP", HIP, "changed"),
    "a folder for a file": ("rm $HIP; mkdir -p $HIP/in", HIP, "not a file"),
    "a pipe for a file": ("rm $HIP; mkfifo $HIP", HIP, "not a file"),
    "a file for a folder": ("rm -r rocm/usr/lib; echo x >rocm/usr/lib", KERNELS, "missing"),
    "replaced": ("rm $HIP; echo mine >$HIP", HIP, "changed"),
    "emptied": ("rm $HIP; : >$HIP", HIP, "changed"),
    "executable bit lost in the shared file": ("chmod a-x $TOOL", TOOL, "changed"),
    "activation changed": ("echo exit >activate", "activate", "changed"),
    "activation gone": ("rm activate", "activate", "missing"),
    "a folder in place of the activation script": ("rm activate; mkdir activate", "activate", "not a file"),
    "lock changed": ("echo {} >rocenv.lock", "rocenv.lock", "changed"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_repair_restores_each_kind_of_damage(mini: Mini, damage: str) -> None:
    script, path, what = DAMAGE[damage]
    mini.create()
    root = mini.prefix("demo")
    (root / "rocm" / "mine.txt").write_text("added by hand")
    before = content(root)
    places = {"HIP": HIP, "LINK": LINK, "TOOL": TOOL, "PATH": os.environ["PATH"]}
    subprocess.run(["sh", "-ec", script], cwd=root, env=places, check=True, timeout=20)
    assert path in differences(mini) or "more" in differences(mini)
    done = mini.run("repair", "demo", "--json")
    assert done.returncode == 0, done.stderr
    repaired = {each["path"]: each["what"] for each in json.loads(done.stdout)["repaired"]}
    assert what in repaired[path]
    if "tree" in damage:
        del before["rocm/mine.txt"]
    after = content(root)
    assert without_notes(after) == without_notes(before)
    assert differences(mini) == ""
    assert store_is_whole(mini)


def test_repair_refuses_a_link_to_another_env(mini: Mini) -> None:
    mini.create()
    root = mini.prefix("demo")
    before = content(root)
    root.with_name("other").symlink_to("demo", target_is_directory=True)
    done = mini.run("repair", "other")
    assert done.returncode == 1
    assert "is a link to env `demo`, which works only under that name" in done.stderr
    assert "is a link to env `demo`" in mini.run("run", "other", "--", "true").stderr
    assert content(root) == before
    assert mini.run("remove", "other", "-y").returncode == 0
    assert content(root) == before


def test_repair_of_many_files_lists_only_the_first(mini: Mini) -> None:
    mini.create()
    for path in mini.prefix("demo").iterdir():
        if path.name != ".rocenv":
            subprocess.run(["rm", "-r", str(path)], check=True, timeout=20)
    done = mini.run("repair", "demo", "--json")
    left = len(json.loads(done.stdout)["repaired"]) - 10
    lines = [line for line in done.stderr.splitlines() if line.startswith("restored ")]
    assert lines[10:] == [f"restored {left} more files; use `--json` to list them all"]
    assert mini.run("repair", "demo").stderr.endswith("there was nothing to restore\n")


def test_repair_also_fixes_the_store_if_a_shared_file_is_damaged(mini: Mini) -> None:
    mini.create()
    mini.create("sibling")
    shared = mini.prefix("demo") / HIP
    assert shared.stat().st_nlink == 3
    right = shared.read_bytes()
    # Root can write to the file, and so can its owner after changing the mode.
    shared.chmod(0o644)
    shared.write_bytes(b"damaged everywhere at once")
    assert mini.run("repair", "demo").returncode == 0
    assert shared.read_bytes() == right
    assert stat.S_IMODE(shared.stat().st_mode) == 0o444
    assert differences(mini) == ""
    # The other env keeps the damaged file until it, too, is repaired.
    assert HIP in differences(mini, "sibling")
    assert mini.run("repair", "sibling").returncode == 0
    assert differences(mini, "sibling") == ""
    assert shared.stat().st_nlink == 3, "the envs share the file again"


def test_repair_keeps_packages_that_it_cannot_download_again(mini: Mini) -> None:
    mini.create()
    shutil.rmtree(mini.home / "cache" / "artifacts")
    shared = mini.prefix("demo") / HIP
    right = shared.read_bytes()
    shared.chmod(0o644)
    shared.write_bytes(b"damaged in the store too")
    (mini.prefix("demo") / "activate").unlink()
    assert mini.run("repair", "demo", ROCENV_OFFLINE="1").returncode == 1
    shared.write_bytes(right)  # for example from a backup
    assert mini.run("repair", "demo", ROCENV_OFFLINE="1").returncode == 0
    assert differences(mini) == ""


@pytest.mark.quick
def test_repair_works_with_an_empty_cache(mini: Mini) -> None:
    mini.create()
    shutil.rmtree(mini.home / "store")
    shutil.rmtree(mini.home / "cache" / "artifacts")
    (mini.prefix("demo") / HIP).unlink()
    assert mini.run("repair", "demo").returncode == 0
    assert differences(mini) == ""
    assert store_is_whole(mini)


def test_repair_never_follows_a_planted_link(mini: Mini, tmp_path: Path) -> None:
    mini.create()
    mine = tmp_path / "mine"
    folder = mini.prefix("demo") / LIBRARIES.join(("rocm/", "/rocblas"))
    shutil.move(folder, mine)
    folder.symlink_to(mine)
    (mine / "library" / "kernels.dat").unlink()
    (mine / "library" / "kernels.dat").write_text("my own build")
    assert KERNELS in differences(mini)
    assert mini.run("repair", "demo").returncode == 0
    assert differences(mini) == ""
    assert (mine / "library" / "kernels.dat").read_text() == "my own build"
    assert not folder.is_symlink()


@pytest.mark.parametrize("name", ["record.json", "files-"])
def test_the_error_about_a_damaged_record_has_a_hint(mini: Mini, name: str) -> None:
    mini.create()
    (path,) = (mini.prefix("demo") / ".rocenv").glob(f"{name}*")
    path.write_text("{}")
    for argv in (("repair", "demo"), ("verify", "demo"), ("show", "demo"), ("rename", "demo", "new")):
        done = mini.run(*argv)
        assert done.returncode == 1
        assert name in done.stderr
        assert "hint: rocenv remove demo" in done.stderr
    assert mini.run("remove", "-y", "demo").returncode == 0
    assert not mini.prefix("demo").exists()


class TestRename:
    @pytest.mark.quick
    def test_a_renamed_env_keeps_its_files_and_works(self, mini: Mini) -> None:
        mini.create("old", "--rocm", "6.4")
        (mini.prefix("old") / "mine.txt").write_text("added by hand")
        inode = (mini.prefix("old") / f"rocm/{LIBRARIES}/libc.so.6").stat().st_ino
        done = mini.run("rename", "old", "new it's")
        assert done.returncode == 0, done.stderr
        root = mini.prefix("new it's")
        assert not mini.prefix("old").exists()
        assert (root / "mine.txt").read_text() == "added by hand"
        assert (root / f"rocm/{LIBRARIES}/libc.so.6").stat().st_ino == inode
        assert differences(mini, "new it's") == ""
        script = f". {shlex.quote(str(root / 'activate'))}"
        shell = subprocess.run(
            ["sh", "-c", f'{script} && echo "$ROCM_PATH" && hipconfig && python3 -c "print(7)"'],
            env=mini.env,
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert shell.stdout == f"{root}/rocm/usr\nhipconfig of the env\n7\n", shell.stderr
        run = mini.run("run", "new it's", "--", "sh", "-c", "echo $ROCM_PATH")
        assert run.stdout == f"{root}/rocm/usr\n"
        for path in root.rglob("*"):
            if path.is_file() and path.parent != root / ".rocenv":
                assert str(mini.prefix("old")).encode() + b"/" not in path.read_bytes(), path

    @pytest.mark.parametrize("there", ["complete", "foreign", "itself"])
    def test_rename_rejects_a_name_in_use(self, mini: Mini, there: str) -> None:
        mini.create("old")
        new = "old" if there == "itself" else "new"
        if there == "complete":
            mini.create("new", "--rocm", "6.4")
        elif there == "foreign":
            mini.prefix("new").mkdir()
            (mini.prefix("new") / "data").write_text("mine")
        before = content(mini.home / "envs")
        done = mini.run("rename", "old", new)
        assert done.returncode == 1
        assert "exists" in done.stderr
        assert content(mini.home / "envs") == before

    @pytest.mark.parametrize("there", ["incomplete", "empty"])
    def test_rename_replaces_an_incomplete_env(self, mini: Mini, there: str) -> None:
        mini.create("old")
        mini.prefix("new").mkdir()
        if there == "incomplete":
            (mini.prefix("new") / ".rocenv").mkdir()
            (mini.prefix("new") / "rocm").mkdir()
        assert mini.run("rename", "old", "new").returncode == 0
        assert differences(mini, "new") == ""

    def test_a_manually_moved_env_is_detected_and_repaired(self, mini: Mini) -> None:
        mini.create("old")
        mini.prefix("old").rename(mini.prefix("new"))
        listed = json.loads(mini.run("list", "--json").stdout)["envs"]
        assert [(env["name"], env["state"]) for env in listed] == [("new", "damaged")]
        for argv in (("run", "new", "--", "true"), ("verify", "new"), ("activate", "new"), ("show", "new")):
            done = mini.run(*argv)
            assert done.returncode == 1
            assert "hint: rocenv repair new" in done.stderr
        assert mini.run("repair", "new").returncode == 0
        assert differences(mini, "new") == ""
        assert str(mini.prefix("old")) not in (mini.prefix("new") / "activate").read_text()

    def test_repair_works_after_the_home_was_moved(self, mini: Mini, tmp_path: Path) -> None:
        mini.create("demo", "--rocm", "6.4")
        moved = tmp_path / "moved home"
        mini.home.rename(moved)
        environ = {**mini.env, "ROCENV_HOME": str(moved)}
        done = mini.run("repair", "demo", ROCENV_HOME=str(moved))
        assert done.returncode == 0, done.stderr
        script = f'. "{moved}/envs/demo/activate" && python3 -c "print(7)"'
        shell = subprocess.run(["sh", "-c", script], env=environ, capture_output=True, text=True, timeout=30)
        assert shell.stdout == "7\n", shell.stderr


class TestRemove:
    def test_remove_deletes_an_incomplete_env(self, mini: Mini) -> None:
        (mini.prefix("demo") / ".rocenv").mkdir(parents=True)
        (mini.prefix("demo") / "rocm" / "x").mkdir(parents=True)
        assert mini.run("remove", "-y", "demo").returncode == 0
        assert not mini.prefix("demo").exists()

    def test_remove_keeps_files_shared_with_other_envs(self, mini: Mini) -> None:
        mini.create()
        mini.create("sibling")
        before = content(mini.prefix("sibling"))
        assert mini.run("remove", "-y", "demo").returncode == 0
        assert content(mini.prefix("sibling")) == before
        assert differences(mini, "sibling") == ""
        assert store_is_whole(mini)

    @pytest.mark.parametrize("verb", ["remove", "repair", "run", "rename", "create"])
    def test_a_folder_that_rocenv_did_not_create_is_never_touched(self, mini: Mini, verb: str) -> None:
        place = mini.prefix("theirs")
        place.mkdir(parents=True)
        (place / "data").write_text("mine")
        argv = {
            "run": ("theirs", "--", "true"),
            "rename": ("theirs", "new"),
            "create": ("theirs", "--rocm", "5.7"),
        }
        done = mini.run(verb, *argv.get(verb, ("theirs",)))
        assert done.returncode == 1
        assert str(place) in done.stderr
        assert content(place) == {"data": (False, b"mine")}

    def test_the_commands_for_an_env_without_its_record_folder_move_and_recreate_it(self, mini: Mini) -> None:
        mini.create()
        before = content(mini.prefix("demo"))
        shutil.rmtree(mini.prefix("demo") / ".rocenv")
        assert "`rocenv show demo`" in mini.run("list").stdout
        for argv in (("show", "demo"), ("repair", "demo"), ("remove", "-y", "demo"), ("create", "demo")):
            done = mini.run(*argv)
            assert done.returncode == 1
        commands = re.findall("`(mv [^`]*|rocenv create [^`]*)`", done.stderr)
        assert len(commands) == 2
        assert subprocess.run(commands[0], shell=True, timeout=30).returncode == 0
        done = mini.run(*shlex.split(commands[1])[1:], "--no-verify")
        assert done.returncode == 0, done.stderr
        assert content(mini.prefix("demo")).keys() >= before.keys() - {".rocenv/verified.json"}

    def test_removing_a_missing_env_creates_nothing(self, mini: Mini) -> None:
        for argv in (("remove", "nosuch"), ("rename", "nosuch", "new"), ("repair", "nosuch")):
            done = mini.run(*argv)
            assert done.returncode == 1
            assert "there is no env `nosuch`" in done.stderr
        assert not mini.home.exists()


class TestSharedFiles:
    def test_unsharing_a_file_does_not_affect_the_store_or_other_envs(self, mini: Mini) -> None:
        mini.create()
        mini.create("sibling")
        ours, theirs = (mini.prefix(name) / HIP for name in ("demo", "sibling"))
        before = theirs.read_bytes()
        assert os.path.samefile(ours, theirs)
        break_link(ours)
        ours.write_bytes(b"changed here only")
        assert theirs.read_bytes() == before
        assert differences(mini, "sibling") == ""
        assert store_is_whole(mini)
        assert HIP in differences(mini)

    def test_unsharing_an_unshared_file_or_a_symbolic_link_does_nothing(self, tmp_path: Path) -> None:
        single, link = tmp_path / "single", tmp_path / "link"
        single.write_text("x")
        single.chmod(0o555)
        link.symlink_to(single)
        break_link(link)
        assert link.is_symlink()
        assert stat.S_IMODE(single.stat().st_mode) == 0o555
        break_link(single)
        assert stat.S_IMODE(single.stat().st_mode) == 0o755
        assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "single"]

    def test_files_are_copied_across_devices(self, tmp_path: Path) -> None:
        other = Path("/dev/shm")
        if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev:
            missing("this machine has no second filesystem")
        source = tmp_path / "source"
        source.write_text("content")
        source.chmod(0o555)
        destination = other / f"rocenv-test-{os.getpid()}"
        try:
            assert clone_file(source, destination) == "copy"
            assert destination.read_text() == "content"
            assert stat.S_IMODE(destination.stat().st_mode) == 0o555
            with pytest.raises(FileExistsError):
                clone_file(source, destination)
        finally:
            destination.unlink()

    def test_an_env_on_a_different_device_than_the_store_is_complete(self, mini: Mini) -> None:
        other = Path("/dev/shm") / f"rocenv-test-{os.getpid()}"
        if not other.parent.is_dir() or other.parent.stat().st_dev == mini.root.stat().st_dev:
            missing("this machine has no second filesystem")
        other.mkdir()
        try:
            mini.home.mkdir()
            (mini.home / "store").symlink_to(other)
            mini.create()
            assert (mini.prefix("demo") / HIP).stat().st_nlink == 1
            assert differences(mini) == ""
        finally:
            remove_tree(other)


class TestRemovingTrees:
    def test_removing_a_tree_does_not_change_the_modes_of_shared_files(self, tmp_path: Path) -> None:
        store, env = tmp_path / "store", tmp_path / "env"
        store.mkdir()
        (env / "locked" / "deeper").mkdir(parents=True)
        (store / "file").write_text("x")
        (store / "file").chmod(0o444)
        outside = tmp_path / "outside"
        outside.mkdir()
        outside.chmod(0o755)
        for place in (env, env / "locked", env / "locked" / "deeper"):
            (place / "file").hardlink_to(store / "file")
            (place / "link").symlink_to(outside)
        (env / "locked" / "deeper").chmod(0)
        (env / "locked").chmod(0o500)
        code = "import sys, pathlib, rocenv.system.files as f; f.remove_tree(pathlib.Path(sys.argv[1]))"
        command = [*unprivileged(), sys.executable, "-c", code, str(env)]
        subprocess.run(command, check=True, timeout=30)
        assert not env.exists()
        assert stat.S_IMODE((store / "file").stat().st_mode) == 0o444
        assert stat.S_IMODE(outside.stat().st_mode) == 0o755
