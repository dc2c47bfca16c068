"""`rocenv upgrade`: replacing an env's set with the newest that matches its request, and rolling back."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from rocenv.home import Home
from rocenv.install import upgrade
from rocenv.install.change import move
from rocenv.prefix import prefix_of
from rocenv.system.quoting import shell_join
from tests.debs import file, symlink
from tests.mini import LIBRARIES, add_row

if TYPE_CHECKING:
    from tests.mini import Mini


def publish_newer(mini: Mini, version: str = "5.7.2") -> None:
    """Publish a newer release that matches `--rocm 5.7`."""
    mini.add_set("mini57", version, "2.17", {})
    mini.repo.publish()
    add_row(mini.root / "profiles", "mini57", version)
    assert mini.run("cache", "clear", "indices").returncode == 0


def version_of(mini: Mini, name: str = "demo") -> str:
    shown = json.loads(mini.run("show", name, "--json").stdout)
    return str(next(part["version"] for part in shown["components"] if part["kind"] == "rocm"))


def names(mini: Mini) -> set[str]:
    return {path.name for path in (mini.home / "envs").iterdir()}


def result(mini: Mini, *argv: str) -> dict[str, Any]:
    done = mini.run("upgrade", "demo", "--json", "--no-verify", *argv)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_an_env_with_the_newest_set_is_not_upgraded(mini: Mini) -> None:
    mini.create()
    before = (mini.prefix("demo") / ".rocenv" / "record.json").read_bytes()
    done = mini.run("upgrade", "demo")
    assert done.returncode == 0
    assert "already has the newest set for its request" in done.stderr
    assert (mini.prefix("demo") / ".rocenv" / "record.json").read_bytes() == before
    assert result(mini)["changed"] is False


def test_a_dry_run_shows_the_change_and_creates_nothing(mini: Mini) -> None:
    mini.create()
    publish_newer(mini)
    done = mini.run("upgrade", "demo", "--dry-run")
    assert "rocm: 5.7.1 from mini -> 5.7.2 from mini" in done.stdout, done.stderr
    assert names(mini) == {"demo"}
    assert version_of(mini) == "5.7.1"


def test_a_dry_run_fails_like_the_real_run(mini: Mini) -> None:
    mini.create()
    publish_newer(mini)
    library = file(f"./{LIBRARIES}/librocblas.so.5", "x")
    huge = {"Installed-Size": str(10**12)}
    mini.repo.add("mini57-blas", "5.7.2-9", [library], fields=huge, depends="mini57-hip")
    mini.repo.publish()
    assert mini.run("cache", "clear", "indices").returncode == 0
    for option in ("--dry-run", "-y"):
        done = mini.run("upgrade", "demo", option)
        assert (done.returncode, "of disk space in" in done.stderr) == (1, True), done.stderr


def test_a_newer_set_replaces_the_old_one_and_can_be_rolled_back(mini: Mini) -> None:
    mini.create()
    cache = mini.prefix("demo") / "cache"
    for path in ("huggingface/model", "torch/hub/weights", "torch/kernels/old", "miopen/db/old"):
        (cache / path).parent.mkdir(parents=True)
        (cache / path).write_text(path)
    (mini.prefix("demo") / "webui").mkdir()
    (mini.prefix("demo") / "webui" / "own.py").write_text("mine")
    publish_newer(mini)
    assert [each["to"] for each in result(mini)["changes"]] == ["5.7.2 from mini"]
    assert names(mini) == {"demo", "demo~old"}
    assert (version_of(mini), version_of(mini, "demo~old")) == ("5.7.2", "5.7.1")
    for back in (False, True):
        if back:
            done = mini.run("upgrade", "demo", "--rollback")
            assert done.returncode == 0, done.stderr
            assert (version_of(mini), version_of(mini, "demo~old")) == ("5.7.1", "5.7.2")
        assert (cache / "huggingface" / "model").exists()
        assert (cache / "torch" / "hub" / "weights").exists()
        assert (mini.prefix("demo") / "webui" / "own.py").read_text() == "mine"
        assert (cache / "miopen" / "db" / "old").exists() is back, (
            "the cached kernels were compiled for a different set"
        )
        assert (cache / "torch" / "kernels" / "old").exists() is back
        seen = mini.run("run", "demo", "--", "sh", "-c", "echo $ROCM_PATH")
        assert seen.stdout.startswith(str(mini.prefix("demo"))), seen.stderr
        assert mini.run("repair", "demo").stderr.rstrip().endswith("there was nothing to restore")


def test_a_new_build_of_the_same_release_is_an_upgrade(mini: Mini) -> None:
    mini.create()
    library = mini.prefix("demo") / "rocm" / LIBRARIES / "librocblas.so.5.7.1"
    before = library.read_bytes()
    entries = [
        file(f"./{LIBRARIES}/librocblas.so.5.7.1", b"a newer build\n"),
        symlink(f"./{LIBRARIES}/librocblas.so.5", "librocblas.so.5.7.1"),
    ]
    mini.repo.add("mini5-blas", "5.7.1-2", entries, depends="mini5-hip (>= 5.7.1), libc6 (>= 2.17)")
    mini.repo.publish()
    mini.run("cache", "clear", "indices")
    done = mini.run("upgrade", "demo", "--no-verify")
    assert "the same version; some of its packages are newer" in done.stderr
    assert library.read_bytes() == b"a newer build\n" != before


def test_a_set_that_does_not_work_on_this_machine_is_not_used(mini: Mini) -> None:
    mini.create()
    publish_newer(mini)  # the libraries are text files, which the loader rejects
    done = mini.run("upgrade", "demo", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"] == "upgrade-broken"
    assert f"rocenv verify {shell_join('demo~new')}" in done.stderr
    assert names(mini) == {"demo", "demo~new"}
    assert version_of(mini) == "5.7.1"


def test_the_previous_set_is_kept_until_the_next_upgrade(mini: Mini) -> None:
    mini.create()
    publish_newer(mini)
    result(mini)
    publish_newer(mini, "5.7.3")
    assert mini.run("upgrade", "demo", "--dry-run").returncode == 0
    assert version_of(mini, "demo~old") == "5.7.1"
    result(mini)
    assert (version_of(mini), version_of(mini, "demo~old")) == ("5.7.3", "5.7.2")
    assert names(mini) == {"demo", "demo~old"}


def test_rollback_without_an_upgrade_is_an_error(mini: Mini) -> None:
    mini.create()
    done = mini.run("upgrade", "demo", "--rollback")
    assert (done.returncode, "nothing to roll back" in done.stderr) == (1, True)
    assert mini.run("upgrade", "demo", "--rollback", "--dry-run").returncode == 2


class TestKilledSwap:
    """Upgrades killed at any rename; the next command completes them without losing a set."""

    @pytest.fixture
    def both(self, mini: Mini) -> Mini:
        mini.create()
        mini.create("demo~new", "--rocm", "6.4")
        cache = mini.prefix("demo") / "cache"
        cache.mkdir(exist_ok=True)
        (cache / "model").write_text("x")
        return mini

    @pytest.mark.parametrize("moves", [0, 1, 2])
    @pytest.mark.parametrize("back", [False, True])
    def test_the_next_command_completes_an_interrupted_upgrade(
        self, both: Mini, monkeypatch: pytest.MonkeyPatch, moves: int, back: bool
    ) -> None:
        home = Home(both.home)
        if back:
            upgrade.swap_in(home, "demo")
        done = 0

        def killed(*arguments: Any) -> None:
            nonlocal done
            if done == moves:
                raise KeyboardInterrupt
            done += 1
            move(*arguments)

        change = upgrade.roll_back if back else upgrade.swap_in
        monkeypatch.setattr("rocenv.install.upgrade.move", killed)
        with contextlib.suppress(KeyboardInterrupt):
            change(home, "demo")
        monkeypatch.undo()
        upgrade.settle(home, "demo")
        prefix = prefix_of(home, "demo")
        assert prefix.state == "complete"
        prefix.record()
        assert (prefix.path / "cache" / "model").read_text() == "x"
        versions = {version_of(both, name) for name in names(both)}
        assert versions == {"5.7.1", "6.4.3"}, "both sets still exist"
