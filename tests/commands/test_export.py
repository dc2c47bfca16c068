"""Exports of an env, tested with the real Lmod, mksquashfs and squashfuse."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocenv.activate.changes import apply, expand
from rocenv.activate.env import Surroundings, ident
from rocenv.activate.exporters import EXPORTERS
from rocenv.activate.scripts import env_at
from rocenv.core.errors import DataError, PrefixError
from tests.shells.driver import CHANGES, HOSTILE, prepend, program, set_
from tests.users import missing, unprivileged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocenv.core.model import EnvChange
    from tests.mini import Mini

LMOD = Path("/usr/share/lmod/lmod/init/bash")
CACHES = (set_("TORCH_HOME", "{prefix}/cache/torch"), set_("XDG_CACHE_HOME", "{prefix}/cache"))
# Variables that Lmod and bash set for themselves.
_OWN = (
    "_",
    "SHLVL",
    "PWD",
    "OLDPWD",
    "MODULEPATH",
    "MODULESHOME",
    "LOADEDMODULES",
    "FPATH",
    "MANPATH",
    "BASH_ENV",
    "_LMFILES_",
)


def render(kind: str, prefix: Path | str, changes: Sequence[EnvChange], name: str = "demo") -> str:
    env = env_at(name, str(prefix), changes, (), "linux")
    return EXPORTERS[kind](env, Surroundings(base="debian:13"))


def dumped(path: Path) -> dict[str, str]:
    pairs = (item.partition("=") for item in os.fsdecode(path.read_bytes()).split("\0") if item)
    return {
        name: value
        for name, _, value in pairs
        if name not in _OWN and not name.lstrip("_").startswith(("LMOD", "ModuleTable", "BASH_FUNC"))
    }


class Lab:
    """A folder with an env, its module, and a bash that loads it."""

    def __init__(self, folder: Path, name: str = "demo") -> None:
        if not LMOD.exists():
            missing("Lmod is not installed")
        self.folder = folder
        self.prefix = folder / "home" / "envs" / name
        (self.prefix / ".rocenv").mkdir(parents=True)
        (self.prefix / "cache").mkdir()
        (self.prefix / ".rocenv" / "record.json").touch()
        (folder / "modules").mkdir()

    def write(self, changes: Sequence[EnvChange], module: str = "demo") -> None:
        (self.folder / "modules" / f"{module}.lua").write_text(render("lmod", self.prefix, changes))

    def run(
        self, *commands: str, user: Sequence[str] = (), **env: str
    ) -> tuple[dict[str, dict[str, str]], str]:
        """Run commands; `dump NAME` writes the environment."""
        script = [f". {LMOD}", f"module use '{self.folder}/modules'", 'dump() { env -0 >"$1"; }', *commands]
        environ = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "LC_ALL": "C.UTF-8", **env}
        done = subprocess.run(
            [*user, "bash", "--norc", "-c", "\n".join(script)],
            env=environ,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        found = {path.stem: dumped(path) for path in self.folder.glob("*.dump")}
        return found, done.stdout + done.stderr

    def round_trip(self, changes: Sequence[EnvChange], cache: str = "", **env: str) -> None:
        """Assert that loading has the same effect as activation, and that unloading undoes it."""
        self.write(changes)
        steps = (
            "dump before.dump",
            "module load demo",
            "dump loaded.dump",
            "module unload demo",
            "dump after.dump",
        )
        user = unprivileged() if cache else ()
        found, output = self.run(*steps, user=user, **env)
        assert output == ""
        assert found["loaded"] == apply(expand(changes, str(self.prefix), cache), found["before"])
        assert found["after"] == found["before"]


def test_loading_a_module_has_the_effect_of_activation(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.round_trip((*CHANGES, *CACHES))
    set_before = {"ROCM_PATH": "/opt/rocm", "HIP_PATH_57": "x", "LD_LIBRARY_PATH": "/a:/b", "EMPTY": "no"}
    lab.round_trip((*CHANGES, *CACHES), **set_before)


def test_a_module_quotes_hostile_names_and_values(tmp_path: Path) -> None:
    lab = Lab(tmp_path, 'it\'s a $(touch canary) "env" ]] %s \\n 漢字')
    lab.round_trip((*CHANGES, set_("A", HOSTILE), prepend("LIST", "/x y'z\"$HOME")))
    assert not list(tmp_path.rglob("canary"))
    # Lmod passes a line break to the shell unquoted.
    with pytest.raises(DataError, match="control character"):
        render("lmod", lab.prefix, (set_("B", "two\ntouch canary"),))


def test_a_user_who_cannot_write_to_the_env_gets_caches_in_their_own_home(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    (lab.prefix / "cache").chmod(0o555)
    own = f"/rocenv/{ident(str(lab.prefix))}"
    lab.round_trip((*CHANGES, *CACHES), f"{tmp_path}/.cache{own}")
    lab.round_trip((*CHANGES, *CACHES), f"/local/me{own}", XDG_CACHE_HOME="/local/me")


def test_the_modules_of_two_envs_replace_each_other_and_a_removed_env_is_an_error(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.write((set_("A", "1"),))
    lab.write((set_("A", "2"),), "other")
    found, _ = lab.run(
        "module load demo; module load other", "dump loaded.dump", "module unload other", "dump after.dump"
    )
    assert found["loaded"]["A"] == "2"
    assert "A" not in found["after"]
    (lab.prefix / ".rocenv" / "record.json").unlink()
    found, output = lab.run("dump before.dump", "module load demo", "dump loaded.dump")
    assert f"the env at {lab.prefix} no longer exists" in " ".join(output.split())
    assert found["loaded"] == found["before"]


def test_loading_a_module_of_an_unreadable_env_explains_the_problem(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.write((set_("A", "1"),))
    lab.prefix.chmod(0)
    _, output = lab.run("module load demo", user=unprivileged())
    lab.prefix.chmod(0o755)
    assert "or you are not allowed to read it" in " ".join(output.split())


def test_a_container_definition_has_the_effect_of_activation(tmp_path: Path) -> None:
    """The definition's environment section is an sh script. In an image, the env is read-only."""
    changes = (*CHANGES, *CACHES, set_("A", HOSTILE))
    text = render("apptainer", "/opt/rocenv/envs/demo", changes)
    assert "\n    /opt/rocenv/envs/demo /opt/rocenv/envs/demo\n" in text
    section = text.partition("%environment\n")[2].partition("\n%")[0]
    before = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "HIP_PATH_57": "x"}
    done = subprocess.run(["sh", "-c", f"{section}\nenv -0"], env=before, capture_output=True, check=True)
    pairs = (item.partition("=") for item in os.fsdecode(done.stdout).split("\0") if item)
    loaded = {name: value for name, _, value in pairs if name not in ("PWD", "_", "SHLVL", "OLDPWD")}
    cache = f"{tmp_path}/.cache/rocenv/{ident('/opt/rocenv/envs/demo')}"
    assert loaded == apply(expand(changes, "/opt/rocenv/envs/demo", cache), before)
    with pytest.raises(PrefixError, match="Apptainer"):
        render("apptainer", "/opt/my env/envs/demo", CHANGES)
    for value in ("x\n%setup\n    touch canary", "{{ argument }}"):
        with pytest.raises(DataError, match="Apptainer"):
            render("apptainer", "/opt/rocenv/envs/demo", (set_("A", value),))


def test_an_env_created_for_another_path_is_not_exported(mini: Mini) -> None:
    mini.create("demo", "--rocm", "6.4")
    done = mini.run("export", "demo", "--to", "lmod", "--at", "/opt/rocenv/envs/rocm", "--json")
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    assert answer["error"] == "export-elsewhere"
    assert answer["hints"][0] == "rocenv lock demo -o demo.lock"
    assert "env ROCENV_HOME=/opt/rocenv rocenv create rocm --from demo.lock" in answer["hints"][1]
    done = mini.run("export", "demo", "--to", "lmod", "--at", "opt/rocenv")
    assert done.returncode == 2 and "absolute" in done.stderr


def test_a_link_to_the_env_is_accepted(mini: Mini) -> None:
    """The module uses the env's own path, which also works on machines without the link."""
    mini.create("demo", "--rocm", "6.4")
    (mini.root / "link").symlink_to(mini.home, target_is_directory=True)
    direct = mini.run("export", "demo", "--to", "lmod", "--at", str(mini.prefix("demo")))
    linked = mini.run("export", "demo", "--to", "lmod", "--at", str(mini.root / "link/envs/demo"))
    assert (linked.returncode, linked.stdout) == (0, direct.stdout), linked.stderr


def test_the_command_prints_or_writes_a_module(mini: Mini) -> None:
    mini.create("demo", "--rocm", "6.4")
    at = str(mini.prefix("demo"))
    printed = mini.run("export", "demo", "--to", "lmod", "--at", at)
    assert printed.returncode == 0 and "prepend_path" in printed.stdout
    refused = mini.run("export", "demo", "--to", "lmod", "--at", at, "-o", "new/demo.lua")
    assert (refused.returncode, "`mkdir -p new`" in refused.stderr) == (1, True)
    written = mini.run("export", "demo", "--to", "lmod", "--at", at, "-o", "demo.lua", "--json")
    assert (mini.root / "demo.lua").read_text() == printed.stdout
    assert json.loads(written.stdout) == {
        "env": "demo", "to": "lmod", "at": at, "file": "demo.lua", "text": printed.stdout
    }  # fmt: skip


def _mounted(steps: str, *words: object, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    argv = ["unshare", "-rm", "sh", "-ec", steps, "sh", *map(str, words)]
    return subprocess.run(argv, env=dict(env), capture_output=True, text=True, check=False, timeout=120)


def test_an_image_is_mounted_without_root_and_its_env_works(mini: Mini) -> None:
    """squashfuse mounts the image, and a bind mount in a user namespace makes it appear at its path."""
    for name in ("mksquashfs", "squashfuse", "unshare"):
        program(name)
    if not os.access("/dev/fuse", os.W_OK):
        missing("/dev/fuse is not accessible")
    mini.create("demo", "--rocm", "6.4")
    prefix, image = mini.prefix("demo"), mini.root / "demo.sqsh"
    (prefix / "cache" / "secret").write_text("x" * 1000)
    done = mini.run("export", "demo", "--to", "squashfs", "--at", str(prefix))
    assert done.returncode == 0, done.stderr
    assert f"squashfuse -o ro demo.sqsh {prefix}" in done.stdout
    there = mini.root / "mnt"
    there.mkdir()
    shutil.rmtree(prefix)
    prefix.mkdir()
    subprocess.run(["squashfuse", image, there], check=True, capture_output=True, timeout=60)
    env = {**os.environ, **mini.env}
    try:
        assert not (there / "cache").exists()
        python = mini.command()[0]
        steps = """
            mount --bind "$1" "$2"
            "$3" -m rocenv verify demo --upto files
            "$3" -m rocenv run demo -- true
            "$2/bin/rocm-exec" true
            "$3" -m rocenv show demo"""
        done = _mounted(steps, there, prefix, python, env=env)
        assert done.returncode == 0, done.stderr
        assert "up to `files`" in done.stdout
        # Mounted elsewhere, the env fails with an explanation.
        home = mini.root / "elsewhere" / "envs"
        home.mkdir(parents=True)
        (home / "demo").symlink_to(there)
        refused = mini.run("run", "demo", "--", "true", ROCENV_HOME=str(home.parent))
        assert refused.returncode == 1 and "mount --bind" in refused.stderr
    finally:
        subprocess.run(["umount", there], check=True)
