"""Envs for apps: requirements, packages, and how their programs start."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.debs import file, symlink
from tests.mini import LIBRARIES

if TYPE_CHECKING:
    from tests.mini import Mini

_KNOWN = 'status = "tested"\nsource = "tests"\nchecked = "2026-11-22"\n'
PROFILE = f"""schema = 1
[[launcher]]
key = "painter"
title = "The Painter"
programs = ["painter"]
platforms = ["linux"]
{_KNOWN}
[[launcher]]
key = "modern"
title = "Modern"
programs = ["modern"]
{_KNOWN}
[[app_release]]
app = "modern"
versions = ">=2"
platform = "linux"
rocm = ">=6"
{_KNOWN}
[[launcher]]
key = "wise"
title = "Wise"
needs_torch = true
{_KNOWN}
[[launcher]]
key = "render"
title = "Render"
programs = ["render"]
{_KNOWN}
[[app_release]]
app = "render"
versions = "<4"
platform = "linux"
rocm = "<6"
{_KNOWN}
[[app_release]]
app = "render"
versions = ">=4,<4.2"
platform = "linux"
rocm = "<6"
{_KNOWN}
[[app_release]]
app = "render"
versions = ">=5,<6"
platform = "linux"
rocm = ">=6.3"
{_KNOWN}
[[app_release]]
app = "render"
versions = ">=4.2,<5"
platform = "linux"
rocm = ">=6,<6.2"
{_KNOWN}
[[app_release]]
app = "render"
versions = ">=9"
platform = "windows"
rocm = ">=9"
{_KNOWN}
[[launcher]]
key = "sill"
title = "Sill"
platforms = ["windows"]
{_KNOWN}
[[app_packages]]
app = "painter"
channels = ["mini"]
names = ["painter", "painter-python3"]
program = "usr/bin/painter"
library_dirs = ["usr/lib/painter"]
links = {{ "usr/bin" = "usr/lib/painter/*.so" }}
{_KNOWN}
[[app_packages.programs]]
path = "usr/bin/painter*"
environment = {{ PAINTER_HOME = "{{tree}}/usr/share/painter" }}
[[app_packages.programs]]
path = "usr/lib/painter/brush"
names = ["brush", "brush-1"]
arguments = ["-c", 'printf "%s|" "$0" "$@"', "{{bin}}"]
not_before = "-"
[[keep_out]]
pattern = "*-python3"
reason = "the machine's own is used"
{_KNOWN}
[[environment]]
change = {{ action = "prepend", name = "PATH", value = "{{prefix}}/bin" }}
when = "always"
reason = "starters"
{_KNOWN}"""


@pytest.fixture
def world(mini: Mini) -> Mini:
    """The simulated machine, with an app in its archive and a home whose path shells must quote."""
    (mini.root / "profiles" / "zz.toml").write_text(
        PROFILE
    )  # applied last, so that the env's scripts come first on PATH
    printenv, shell = (Path(shutil.which(name) or "").read_bytes() for name in ("printenv", "sh"))
    mini.repo.add(
        "painter",
        "3.1-2",
        [
            file("./usr/bin/painter", printenv, mode=0o755),
            file(
                "./usr/bin/painter-script",
                "#!/bin/sh\necho script $PAINTER_HOME ${LD_LIBRARY_PATH-}\n",
                mode=0o755,
            ),
            file("./usr/lib/painter/brush", shell, mode=0o755),
            file("./usr/lib/painter/plugin.so", "a plugin\n"),
            file("./usr/share/painter/colours", "red\n"),
            # The file is named like the program but is not executable.
            file("./usr/bin/painter.1", "a page of the manual\n"),
            symlink("./usr/bin/painter-gone", "../lib/painter/not-there"),
            symlink("./usr/bin/painter-machine", "/etc/alternatives/painter"),
        ],
        depends="libc6 (>= 2.17), libpaint",
    )
    mini.repo.add("libpaint", "1.0-1", [file(f"./{LIBRARIES}/libpaint.so.1", "paint\n")])
    mini.repo.add("painter-python3", "1.0-1", [file("./usr/lib/python3/dist-packages/painter.py", "")])
    mini.repo.publish()
    mini.env["ROCENV_HOME"] = str(mini.root / "a home, $HOME's")
    return mini


def prefix(world: Mini, name: str) -> Path:
    return Path(world.env["ROCENV_HOME"]) / "envs" / name


def told(done: subprocess.CompletedProcess[str]) -> str:
    """Return the output without line breaks, because rocenv wraps notes."""
    return " ".join((done.stdout + done.stderr).split())


def plan(world: Mini, *argv: str) -> dict[str, Any]:
    done = world.run("resolve", "--json", *argv)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


# ---------------------------------------------------------------- dependencies


def test_an_app_is_installed_with_its_dependencies(world: Mini) -> None:
    bare = plan(world, "--rocm", "5.7")
    found = plan(world, "--rocm", "5.7", "--app", "painter")
    names = {each["name"] for each in found["components"][0]["artifacts"]}
    assert names - {each["name"] for each in bare["components"][0]["artifacts"]} == {
        "painter",
        "libpaint",
        "painter-python3",  # requested by name, so no pattern excludes it
    }
    said = next(text for text in found["notes"] if text.startswith("adds painter 3.1-2 from mini"))
    assert "3 packages including its dependencies" in said
    assert "kB unpacked" in said
    assert found["request"]["app"] == "painter"


@pytest.mark.parametrize("rocm", ["5.7", "6.4"])
def test_the_programs_of_an_app_can_be_started_by_name(world: Mini, rocm: str) -> None:
    """The programs start even if the set has its own C library and no env is active."""
    world.create("art", "--rocm", rocm, "--app", "painter")
    home = f"{prefix(world, 'art')}/rocm/usr/share/painter"
    assert world.run("run", "art", "--", "painter", "PAINTER_HOME").stdout == f"{home}\n"
    argv = [str(prefix(world, "art") / "bin" / "brush-1"), "one two", "$x"]
    done = subprocess.run(argv, env={"PATH": os.defpath}, capture_output=True, text=True, check=True)
    assert done.stdout == f"{prefix(world, 'art')}/bin|one two|$x|"
    done = world.run("run", "art", "--", "brush", "-c", "echo by itself")
    assert done.stdout == "by itself\n"
    there = {path.name for path in (prefix(world, "art") / "bin").iterdir()}
    wrappers = {"rocm-exec", "python", "python3"} if rocm == "6.4" else set()
    assert there == {"painter", "painter-script", "brush", "brush-1"} | wrappers


def test_scripts_from_packages_run_in_the_systems_shell(world: Mini) -> None:
    """The system's shell would not start with another system's C library in LD_LIBRARY_PATH."""
    world.create("art", "--rocm", "6.4", "--app", "painter")
    starter = str(prefix(world, "art") / "bin" / "painter-script")
    home = f"{prefix(world, 'art')}/rocm/usr/share/painter"
    for argv in ([starter], world.command("run", "art", "--", "painter-script")):
        done = subprocess.run(argv, env=world.env, capture_output=True, text=True, check=False)
        assert done.stdout.split() == ["script", *home.split()], done.stderr
    world.create("old", "--rocm", "5.7", "--app", "painter")
    libraries = f"{prefix(world, 'old')}/rocm/{LIBRARIES}"
    assert libraries in world.run("run", "old", "--", "painter-script").stdout


def test_links_are_created_where_the_app_looks_for_files(world: Mini) -> None:
    world.create("art", "--app", "painter")
    tree = prefix(world, "art") / "rocm"
    link = tree / "usr/bin/plugin.so"
    assert link.is_symlink()
    assert link.read_text() == "a plugin\n"
    link.unlink()
    (prefix(world, "art") / "bin" / "painter").write_text("something else\n")
    broken = world.run("verify", "art", "--upto", "files")
    assert "rocm/usr/bin/plugin.so" in broken.stdout
    assert "bin/painter" in broken.stdout
    assert world.run("repair", "art").returncode == 0
    assert world.run("verify", "art", "--upto", "files").returncode == 0
    assert link.read_text() == "a plugin\n"


def test_the_env_records_its_app(world: Mini) -> None:
    """`show` displays the app, which survives locking, cloning, creating from the lock, and renaming."""
    world.create("art", "--app", "painter")
    assert "The Painter (painter)" in world.run("show", "art").stdout
    assert json.loads(world.run("show", "art", "--json").stdout)["app"] == "painter"
    lock = world.root / "art.lock"
    lock.write_text(world.run("lock", "art").stdout)
    assert world.run("clone", "art", "cloned").returncode == 0
    assert world.run("create", "rebuilt", "--from", str(lock), "--no-verify").returncode == 0
    assert world.run("rename", "art", "renamed").returncode == 0
    for name in ("cloned", "rebuilt", "renamed"):
        assert json.loads(world.run("show", name, "--json").stdout)["app"] == "painter"
        done = world.run("run", name, "--", "painter", "PAINTER_HOME")
        assert done.stdout == f"{prefix(world, name)}/rocm/usr/share/painter\n"


def test_the_lock_of_an_env_without_an_app_uses_the_old_format(world: Mini) -> None:
    """The lock omits the app fields, so that older versions of rocenv can read it."""
    world.create("plain")
    text = world.run("lock", "plain").stdout
    assert "app" not in json.loads(text)["request"]
    assert not {"programs", "links"} & set(json.loads(text)["components"][0]["layout"])
    assert json.loads(world.run("show", "plain", "--json").stdout)["app"] is None


def test_packages_removed_from_the_channel_are_reported(world: Mini) -> None:
    profile = world.root / "profiles" / "zz.toml"
    profile.write_text(PROFILE.replace('names = ["painter",', 'names = ["easel",'))
    done = world.run("create", "art", "--rocm", "5.7", "--app", "painter", "--no-verify")
    assert done.returncode == 1
    assert "`easel`, required by the set itself, is not available" in told(done)


def test_an_app_program_missing_from_the_packages_is_reported(world: Mini) -> None:
    profile = world.root / "profiles" / "zz.toml"
    profile.write_text(PROFILE.replace("usr/bin/painter*", "usr/bin/easel"))
    done = world.run("create", "art", "--rocm", "5.7", "--app", "painter", "--no-verify")
    assert done.returncode == 1
    assert "contain the program `rocm/usr/bin/easel`" in told(done)
    assert "(incomplete)" in world.run("list").stdout


@pytest.mark.parametrize("path", ["usr/bin/painter.1", "usr/bin/painter-gone", "usr/bin/painter-m*"])
def test_an_app_program_that_is_not_executable_is_reported(world: Mini, path: str) -> None:
    (world.root / "profiles" / "zz.toml").write_text(PROFILE.replace("usr/bin/painter*", path))
    done = world.run("create", "art", "--rocm", "6.4", "--app", "painter", "--no-verify")
    assert done.returncode == 1
    assert f"contain the program `rocm/{path}`: `rocm/usr/bin/painter" in told(done)
    assert "is not executable" in told(done)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("./usr/lib/painter/tools/python3", "envs have a wrapper with that name"),
        (f"./usr/lib/painter/tools/{'x' * 250}", "it has 250 characters"),
        ("./usr/lib/painter/tools/painter", "two programs in the set have the same name: `painter`"),
    ],
)
def test_an_unusable_program_name_is_reported(world: Mini, path: str, said: str) -> None:
    text = PROFILE.replace("usr/lib/painter/brush", "usr/lib/painter/tools/*")
    (world.root / "profiles" / "zz.toml").write_text(text.replace('names = ["brush", "brush-1"]\n', ""))
    world.repo.add("libpaint", "1.1-1", [file(path, "#!/bin/sh\n", mode=0o755)])
    world.repo.publish()
    done = world.run("create", "art", "--rocm", "6.4", "--app", "painter", "--no-verify")
    assert done.returncode == 1
    assert said in told(done)


# ---------------------------------------------------------------- files that the user must provide


def test_the_first_note_says_that_an_app_is_not_included(world: Mini) -> None:
    """Users must know this before they run `create`."""
    said = "Modern is not included: no channel has packages for it, so install it yourself"
    assert plan(world, "--rocm", "6.4", "--app", "modern")["notes"][0] == said
    shown = world.run("resolve", "--rocm", "6.4", "--app", "modern").stdout.splitlines()
    assert shown[1].strip("! ") == said
    assert "!" not in world.run("resolve", "--app", "painter").stdout, (
        "nothing is missing, so there is no note"
    )


OTHER_CHANNEL = f"""schema = 1
[[channel]]
name = "other"
title = "Another archive"
by = "distribution"
repos = ["mini"]
only_named = true
{_KNOWN}
[[rocm]]
version = "5.7.1"
channel = "other"
packages = ["mini5-hip"]
compiles = ["gfx1100"]
blas = ["gfx1100"]
{_KNOWN}[rocm.layout]
root = "usr"
library_dirs = ["{LIBRARIES}"]
libraries = {{ hip = "libamdhip64.so.5" }}
"""


def add_channel(world: Mini) -> None:
    """Add an opt-in channel that contains the painter and only ROCm 5.7."""
    (world.root / "profiles" / "other.toml").write_text(OTHER_CHANNEL)
    profile = world.root / "profiles" / "zz.toml"
    profile.write_text(PROFILE.replace('channels = ["mini"]', 'channels = ["other"]'))


def test_the_suggested_command_includes_the_app(world: Mini) -> None:
    """The command repeats the request, and rocenv has checked that it resolves."""
    add_channel(world)
    done = world.run("create", "my art", "--rocm", "5.7", "--app", "painter", "--dry-run")
    assert "channel mini has no packages for it, so install it yourself. Another" in told(done)
    line = next(line for line in done.stdout.splitlines() if "rocenv create" in line)
    argv = shlex.split(line.split("`")[1])
    assert argv[:3] == ["rocenv", "create", "my art"]
    again = world.run(*argv[1:], "--dry-run")
    assert again.returncode == 0
    assert "adds painter 3.1-2 from other" in again.stdout
    assert "install it yourself" not in again.stdout


def test_a_plan_from_a_lock_also_notes_a_missing_app(world: Mini) -> None:
    add_channel(world)
    world.create("art", "--rocm", "5.7", "--app", "painter")
    lock = world.root / "art.lock"
    lock.write_text(world.run("lock", "art").stdout)
    shown = world.run("create", "my art", "--from", str(lock), "--dry-run").stdout
    assert "channel mini has no packages for it" in shown
    assert "`rocenv create 'my art' --rocm 5.7" in shown


def test_an_unsuitable_channel_is_not_suggested(world: Mini) -> None:
    add_channel(world)
    notes = plan(world, "--rocm", "6.4", "--app", "painter")["notes"]
    assert "The channels that have it do not satisfy your other requirements" in notes[0]
    assert not any("--channel" in text for text in notes)


def test_a_note_lists_the_app_releases_that_a_set_supports(world: Mini) -> None:
    """The env is for the newest app release, and the note explains how to get one for older releases."""
    found = plan(world, "--app", "render")
    assert found["components"][0]["version"] == "6.4.3"
    newest = "Render 5 needs ROCm >=6.3, so rocenv considers only that; `--rocm` overrides this"
    assert newest in found["notes"]
    assert (
        "ROCm 6.4.3 works with Render 5 or newer; for 4 or newer, before 4.2: `--rocm '<6'`" in found["notes"]
    )
    own = plan(world, "--app", "render", "--rocm", "<6")
    assert own["components"][0]["version"] == "5.7.1"
    assert (
        "ROCm 5.7.1 works with Render 4 or newer, before 4.2; for 5 or newer: `--rocm '>=6.3'`"
        in own["notes"]
    )
    assert not any("Render 5 works with" in text for text in own["notes"])


# ---------------------------------------------------------------- requirements


def test_an_apps_requirements_apply_to_versions_that_the_user_does_not_specify(world: Mini) -> None:
    found = plan(world, "--app", "modern")
    assert found["components"][0]["version"] == "6.4.3"
    assert any("Modern 2 needs ROCm >=6" in text for text in found["notes"])
    own = plan(world, "--app", "modern", "--rocm", "5.7")
    assert own["components"][0]["version"] == "5.7.1"
    assert not any("Modern 2 needs ROCm" in text for text in own["notes"])


def test_an_apps_unmet_requirement_is_reported(world: Mini) -> None:
    profile = world.root / "profiles" / "zz.toml"
    profile.write_text(PROFILE.replace('rocm = ">=6"\n', 'rocm = ">=9"\n'))
    done = world.run("resolve", "--app", "modern")
    assert done.returncode == 1
    assert "Modern 2 needs ROCm >=9" in told(done)
    commands = [line for line in done.stderr.splitlines() if "rocenv resolve" in line]
    assert commands
    assert all("--app modern" in line for line in commands), "the suggested command must be for the same app"


def test_torch_is_requested_if_the_app_needs_it(world: Mini) -> None:
    done = world.run("resolve", "--app", "wise", "--json")
    assert done.returncode == 1, "this small matrix contains no torch"
    said = json.loads(done.stdout)
    assert any("Wise needs torch" in text for text in said["hints"])
    without = plan(world, "--app", "wise", "--no-torch")
    assert [part["kind"] for part in without["components"]] == ["rocm"]
    assert any("with `--no-torch`, it must include its own" in text for text in without["notes"])


def test_app_names_are_case_insensitive(world: Mini) -> None:
    assert plan(world, "--app", "WISE", "--no-torch") == plan(world, "--app", "wise", "--no-torch")


def test_an_unknown_app_is_an_error(world: Mini) -> None:
    for verb in (("resolve",), ("create", "art")):
        done = world.run(*verb, "--app", "paintr")
        assert done.returncode == 2
        assert "unknown app `paintr`" in done.stderr
        assert "modern, painter, render, sill, wise" in done.stderr


def test_an_app_for_a_different_system_is_an_error(world: Mini) -> None:
    done = world.run("resolve", "--app", "sill", "--target", "gfx1100:xnack-")
    assert done.returncode == 2
    assert "Sill is only known to work on Windows" in told(done)
    assert "`rocenv resolve --platform windows --target gfx1100:xnack- --app sill`" in told(done)
    done = world.run("resolve", "--app", "sill", "--json")
    assert json.loads(done.stdout)["error"] == "app-platform"
    any_program = f'schema = 1\n[[launcher]]\nkey = "generic"\ntitle = "any"\n{_KNOWN}'
    (world.root / "profiles" / "generic.toml").write_text(any_program)
    world.create("art")
    launched = world.run("launch", "art", "--app", "sill", "--", "true")
    assert launched.returncode == done.returncode == 2


def test_an_app_cannot_be_combined_with_a_lock(world: Mini) -> None:
    done = world.run("create", "art", "--from", "x.lock", "--app", "painter")
    assert done.returncode == 2
    assert "--from specifies the whole set" in done.stderr


def test_app_names_are_completed(world: Mini) -> None:
    done = world.run("complete", "create", "art", "--app", "")
    assert "painter" in done.stdout.split()


# ---------------------------------------------------------------- hostile locks


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"path": "../../x"}, "points outside the env"),
        ({"names": ["../x"]}, "is not a valid program name"),
        ({"names": ["-c"]}, "is not a valid program name"),
        ({"names": ["x" * 300], "path": "rocm/usr/bin/painter"}, "it has 300 characters"),
        ({"names": ["rocm-exec"], "path": "rocm/usr/bin/painter"}, "envs have a wrapper with that name"),
        ({"names": ["python3"], "path": "rocm/usr/bin/painter"}, "envs have a wrapper with that name"),
        ({"names": ["one"]}, "`rocm/usr/bin/painter*` in"),
        ({"path": "usr/bin/\x1b[2Jx"}, "unprintable character"),
        ({"path": "usr/bin/\ud800"}, "unprintable character"),
        ({"path": f"usr/bin/{'x' * 300}"}, "too long for a file path"),
        ({"path": "/".join(["x"] * 3000)}, "too long for a file path"),
        ({"environment": {"X; touch evil": ""}}, "is not a valid variable name"),
        ({"environment": {"X": "a\nb"}}, "unprintable character"),
        ({"arguments": ["a\x1b[2J"]}, "unprintable character"),
        ({"not_before": "\n"}, "unprintable character"),
    ],
)
def test_a_lock_with_invalid_programs_is_rejected(world: Mini, change: dict[str, object], said: str) -> None:
    world.create("art", "--app", "painter")
    plain = json.loads(world.run("lock", "art").stdout)
    plain["components"][0]["layout"]["programs"][0].update(change)
    lock = world.root / "x.lock"
    lock.write_text(json.dumps(plain))
    done = world.run("create", "evil", "--from", str(lock), "--no-verify")
    assert done.returncode == 1
    assert said in told(done)


@pytest.mark.parametrize(
    ("links", "said"),
    [
        ({"/tmp": "usr/lib/painter/*.so"}, "points outside the env"),
        ({"usr/bin": "../../x/*"}, "points outside the env"),
        ({"usr/\nbin": "usr/lib/painter/*.so"}, "unprintable character"),
        ({"usr/bin": "usr/lib/painter/\x07*"}, "unprintable character"),
        ({"rocm/usr/bin/painter": "rocm/usr/lib/painter/*.so"}, "but rocenv needs a folder for links"),
        ({"rocm/usr/bin/painter/deep": "rocm/usr/lib/painter/*.so"}, "but rocenv needs a folder for links"),
        ({"bin": "rocm/usr/lib/painter/*.so"}, "is outside the component's folder `rocm`"),
        ({"x" * 300: "usr/lib/painter/*.so"}, "too long for a file path"),
    ],
)
def test_a_lock_with_invalid_links_is_rejected(world: Mini, links: dict[str, str], said: str) -> None:
    world.create("art", "--app", "painter")
    plain = json.loads(world.run("lock", "art").stdout)
    plain["components"][0]["layout"]["links"] = links
    lock = world.root / "x.lock"
    lock.write_text(json.dumps(plain))
    done = world.run("create", "evil", "--from", str(lock), "--no-verify")
    assert done.returncode == 1
    assert said in told(done)


def test_values_from_a_lock_are_never_run_as_code(world: Mini) -> None:
    world.create("art", "--app", "painter")
    plain = json.loads(world.run("lock", "art").stdout)
    evil = "'; touch evil; echo $(touch evil) `touch evil`"
    plain["components"][0]["layout"]["programs"][0]["environment"] = {"PAINTER_HOME": evil}
    lock = world.root / "x.lock"
    lock.write_text(json.dumps(plain))
    untrusted = world.run("create", "evil-env", "--from", str(lock), "--no-verify", "-y")
    assert (untrusted.returncode, "PAINTER_HOME" in untrusted.stderr) == (1, True)
    trusted = world.run("create", "evil-env", "--from", str(lock), "--no-verify", "--trust-lock")
    assert trusted.returncode == 0
    assert world.run("run", "evil-env", "--", "painter", "PAINTER_HOME").stdout == f"{evil}\n"
    assert not (world.root / "evil").exists()


def test_the_closest_set_for_a_lock_from_an_opt_in_channel_is_from_that_channel(world: Mini) -> None:
    """rocenv uses the closest set if the mirror no longer has the packages in the lock."""
    add_channel(world)
    world.create("art", "--app", "painter", "--channel", "other")
    lock = world.root / "art.lock"
    lock.write_text(world.run("lock", "art").stdout)
    shutil.rmtree(world.env["ROCENV_HOME"])
    world.repo.remove("libpaint")
    world.repo.add("libpaint", "1.0-2", [file(f"./{LIBRARIES}/libpaint.so.1", "fresh paint\n")])
    world.repo.publish()
    done = world.run("create", "new", "--from", str(lock), "--json")
    said = json.loads(done.stdout)
    assert said["error"] == "left-the-mirror"
    assert "the closest available set is ROCm 5.7.1 from other" in said["hints"][0]
    argv = shlex.split(said["hints"][0].split("`")[1])
    assert argv[1:3] == ["create", "new"]
    assert world.run(*argv[1:], "--no-verify").returncode == 0
    assert "adds painter 3.1-2 from other" in told(world.run("resolve", *argv[3:]))


def test_a_link_from_a_lock_never_replaces_a_file(world: Mini) -> None:
    profile = world.root / "profiles" / "zz.toml"
    text = PROFILE.replace('"usr/lib/painter/*.so"', '"usr/share/painter/*"').replace(
        '{ "usr/bin" =', '{ "usr/lib/clash" ='
    )
    profile.write_text(text)
    world.repo.add("libpaint", "1.1-1", [file("./usr/lib/clash/colours", "blue\n")])
    world.repo.publish()
    done = world.run("create", "art", "--rocm", "5.7", "--app", "painter", "--no-verify")
    assert done.returncode == 1
    assert "a package contains the file `rocm/usr/lib/clash/colours`" in told(done)
