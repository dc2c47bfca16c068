"""`rocenv mirror`: another machine uses the folder through a web server and has no other network."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

from tests.webserver import serving

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mini import Mini


def update(mini: Mini, *options: str) -> dict[str, Any]:
    done = mini.run("mirror", "mirror", "--json", *options)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_another_machine_plans_and_creates_from_the_mirror(mini: Mini) -> None:
    mini.create("lab")
    answer = update(mini)
    assert answer["mirrors"] == [{"prefix": "debian:", "folder": "debian"}]
    assert answer["problems"] == []
    before = len(mini.server.requests)
    shutil.rmtree(mini.sysroot / "etc/apt")  # the other machine's apt has no mirror
    home = str(mini.root / "elsewhere")
    with serving(mini.root / "mirror") as url:
        config = mini.run("config", "set", "mirrors.debian:", f"{url}/debian/", ROCENV_HOME=home)
        assert config.returncode == 0, config.stderr
        mini.create("lab", ROCENV_HOME=home)
    assert len(mini.server.requests) == before
    assert mini.run("run", "lab", "--", "hipconfig", ROCENV_HOME=home).stdout == "hipconfig of the env\n"


def test_a_second_run_adds_new_files_and_removes_none(mini: Mini) -> None:
    mini.create("lab")
    update(mini)
    first = contents(mini.root / "mirror")
    assert update(mini)["added"] == []
    mini.run("remove", "lab", "-y")
    mini.create("new", "--rocm", "6.4")
    update(mini)
    second = contents(mini.root / "mirror")
    assert first.items() <= second.items()
    assert {path.rpartition("/")[2].partition("_")[0] for path in second.keys() - first.keys()} == {
        "libc6",
        "mini6-hip",
        "mini6-blas",
    }


def test_sets_that_upgrades_leave_are_not_mirrored(mini: Mini) -> None:
    mini.create("lab")
    update(mini)
    for name in ("lab~new", "lab~old"):
        mini.create(name, "--rocm", "6.4")
    assert update(mini)["added"] == []


def test_an_index_that_is_newer_than_an_env_is_reported(mini: Mini) -> None:
    """With the newer index, clients would select packages that the mirror does not contain."""
    mini.create("lab")
    for name in ("mini5-hip", "mini5-blas"):
        mini.repo.remove(name)
    mini.add_set("mini5", "5.7.2", "2.17", {})
    mini.repo.publish()
    assert update(mini)["problems"] == [], "the env's own index is used as long as it is cached"
    mini.run("cache", "clear", "indices")
    (problem,) = update(mini)["problems"]
    command = ("upgrade", "lab")
    assert f"`rocenv {' '.join(command)}`" in problem
    done = mini.run(*command, "-y", "--no-verify")
    assert done.returncode == 0, done.stderr
    assert update(mini)["problems"] == []


def test_the_printed_commands_set_the_mirror(mini: Mini) -> None:
    mini.create("lab")
    done = mini.run("mirror", "mirror")
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert line.startswith("rocenv config set mirrors.debian: http://")
    assert line.endswith("/debian/")


def test_a_home_without_envs_is_an_error(mini: Mini) -> None:
    done = mini.run("mirror", "mirror", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"] == "env-missing"


def test_an_unwritable_folder_is_an_error(mini: Mini) -> None:
    mini.create("lab")
    (mini.root / "mirror").write_text("a file")
    done = mini.run("mirror", "mirror/sub")
    assert done.returncode == 1
    assert "mirror/sub" in done.stderr
