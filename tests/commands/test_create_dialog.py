"""Questions that `create` and `remove` ask at a terminal, and what they do without one."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest

from tests.debs import file
from tests.mini import add_row

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mini import Mini


def ask(mini: Mini, *argv: str, answers: str, cwd: str | None = None) -> tuple[int, str]:
    """Run rocenv at a terminal with typed answers; return the exit code and the terminal output."""
    ours, theirs = pty.openpty()
    shown = bytearray()

    def read() -> None:
        while True:
            try:
                shown.extend(os.read(ours, 4096))
            except OSError:  # the program closed the terminal
                return

    reader = threading.Thread(target=read)
    reader.start()
    os.write(ours, answers.encode())
    environ = {**mini.env, "TERM": "dumb", "COLUMNS": "100"}
    try:
        done = subprocess.run(
            mini.command(*argv), env=environ, stdin=theirs, stdout=theirs, stderr=theirs, timeout=60, cwd=cwd
        )
    finally:
        os.close(theirs)
        reader.join(timeout=10)
        os.close(ours)
    return done.returncode, shown.decode().replace("\r\n", "\n")


@pytest.fixture
def without_64(mini: Mini) -> Mini:
    """A machine whose best set, 6.4, does not exist on the mirror."""
    path = mini.root / "profiles/mini.toml"
    path.write_text(path.read_text().replace('"mini6-hip"', '"gone-hip"'))
    return mini


@pytest.fixture
def far_64(mini: Mini) -> Mini:
    """A machine that cannot reach the channel of the best set, 6.4."""
    path = mini.root / "profiles/mini.toml"
    before, middle, after = path.read_text().rpartition('version = "6.4.3"\nchannel = "mini"')
    moved = middle.replace("mini", "far")
    keyring = "/usr/share/keyrings/mini.gpg"
    repo = f'name = "far"\nbase = "http://127.0.0.1:9/"\nsuite = "mini"\nkeyrings = ["{keyring}"]\n'
    channel = 'name = "far"\ntitle = "A far archive"\nby = "distribution"\nrepos = ["far"]\n'
    path.write_text(f"{before}{moved}{after}\n[[repo]]\n{repo}{ROW}\n[[channel]]\n{channel}{ROW}")
    return mini


def other_channel(mini: Mini, blas: str = '["gfx1100"]') -> None:
    """Add a channel that offers the packages from 5.7.1 as 6.4.0."""
    add_row(mini.root / "profiles", "mini5", "6.4.0")
    path = mini.root / "profiles/mini5-6.4.0.toml"
    text = path.read_text().replace('channel = "mini"', 'channel = "other"')
    text = text.replace('blas = ["gfx1100"]', f"blas = {blas}").replace(".so.6", ".so.5")
    channel = 'name = "other"\ntitle = "Another archive"\nby = "distribution"\nrepos = ["mini"]\n'
    path.write_text(f"{text}\n[[channel]]\n{channel}{ROW}")


ROW = 'status = "tested"\nsource = "rocenv:tests/commands/test_create_dialog.py"\nchecked = "2026-11-23"\n'
APPS = f"""schema = 1
[[launcher]]
key = "generic"
title = "any app"
{ROW}
[[launcher]]
key = "paint"
title = "Paint"
signs = ["paint.py"]
{ROW}"""


@pytest.fixture
def with_apps(mini: Mini) -> Mini:
    """A machine whose data contains an app."""
    (mini.root / "profiles/apps.toml").write_text(APPS)
    return mini


class TestName:
    def test_the_env_is_called_default_if_no_name_is_given(self, mini: Mini) -> None:
        done = mini.run("create", "--rocm", "5.7", "--no-verify")
        assert done.returncode == 0, done.stderr
        assert (mini.prefix("default") / ".rocenv/record.json").exists()
        assert "rocenv run default -- python3" in done.stderr

    def test_with_an_app_the_env_is_named_after_it(self, with_apps: Mini) -> None:
        done = with_apps.run("create", "--app", "paint", "--rocm", "5.7", "--no-verify")
        assert done.returncode == 0, done.stderr
        assert (with_apps.prefix("paint") / ".rocenv/record.json").exists()

    def test_a_name_in_use_is_rejected_even_by_a_dry_run(self, mini: Mini) -> None:
        assert mini.run("create", "--rocm", "5.7", "--no-verify").returncode == 0
        done = mini.run("create", "--rocm", "5.7", "--dry-run")
        assert done.returncode == 1
        assert "env `default` already exists" in done.stderr


class TestAnswers:
    def test_answering_no_changes_nothing(self, mini: Mini) -> None:
        code, shown = ask(mini, "create", "demo", "--rocm", "5.7", answers="n\n")
        assert code == 1
        assert "Continue? [Y/n]: " in shown
        assert shown.endswith("Nothing was changed.\n")
        assert not mini.prefix("demo").exists()

    def test_too_little_disk_space_is_an_error_before_the_question(self, mini: Mini) -> None:
        files = [file("./usr/lib/x86_64-linux-gnu/librocblas.so.6", "x")]
        mini.repo.remove("mini6-blas")
        mini.repo.add(
            "mini6-blas", "6.4.3-1", files, fields={"Installed-Size": str(10**12)}, depends="mini6-hip"
        )
        mini.repo.publish()
        code, shown = ask(mini, "create", "demo", "--rocm", "6.4", answers="y\n")
        assert (code, "Continue?" in shown) == (1, False), shown
        assert re.findall(r"\d+\.\d GB", shown)[:2] == ["1024000.0 GB"] * 2, (
            "the plan and the error show the same size"
        )

    def test_json_output_reports_the_answer_no(self, mini: Mini) -> None:
        code, shown = ask(mini, "create", "demo", "--rocm", "5.7", "--json", answers="n\n")
        assert code == 1
        assert '"error": "declined"' in shown

    def test_create_asks_no_questions_without_stdin(self, mini: Mini) -> None:
        argv = [
            "sh",
            "-c",
            'exec "$@" <&-',
            "sh",
            *mini.command("create", "demo", "--rocm", "5.7", "--no-verify"),
        ]
        done = subprocess.run(argv, env=mini.env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr

    def test_ctrl_d_interrupts_create(self, mini: Mini) -> None:
        code, shown = ask(mini, "create", "demo", "--rocm", "5.7", answers="\x04")
        assert (code, "interrupted" in shown) == (130, True)

    def test_a_set_with_poor_support_for_the_card_is_not_the_default(self, mini: Mini) -> None:
        argv = ("create", "demo", "--rocm", "5.7", "--target", "gfx1030", "--no-verify")
        code, shown = ask(mini, *argv, answers="\n")
        assert code == 1
        assert "warning: the rocBLAS of ROCm 5.7.1 from mini has no kernels for gfx1030" in shown
        assert shown.index("warning:") < shown.index("Plan for gfx1030")
        assert "Continue? [y/N]: " in shown
        assert ask(mini, *argv, answers="y\n")[0] == 0

    def test_answering_no_to_gc_frees_nothing(self, mini: Mini) -> None:
        assert mini.run("create", "demo", "--rocm", "5.7", "--no-verify").returncode == 0
        assert mini.run("remove", "-y", "demo").returncode == 0
        code, shown = ask(mini, "gc", answers="n\n")
        assert (code, shown.endswith("Nothing was changed.\n")) == (1, True), shown
        assert json.loads(mini.run("gc", "--json").stdout)["packages"], "nothing was freed"

    def test_answering_no_to_every_fix_changes_nothing(self, mini: Mini) -> None:
        assert mini.run("create", "demo", "--rocm", "5.7", "--no-verify").returncode == 0
        (mini.prefix("demo") / ".rocenv/record.json").unlink()
        del mini.env["ROCENV_SYSROOT"], mini.env["ROCENV_PROFILES"]
        code, shown = ask(mini, "doctor", "demo", "--fix", "--check", "env_unusable", answers="n\n")
        assert (code, shown.endswith("Nothing was changed.\n")) == (1, True), shown
        assert mini.prefix("demo").exists()

    def test_remove_asks_once_for_several_envs(self, mini: Mini) -> None:
        for name in ("one", "two"):
            assert mini.run("create", name, "--rocm", "5.7", "--no-verify").returncode == 0
        done = mini.run("remove", "one", "two")
        assert done.returncode == 2
        assert "hint: rocenv remove -y one two" in done.stderr
        assert ask(mini, "rm", "one", "two", answers="n\n")[0] == 1
        assert mini.prefix("one").exists()
        assert ask(mini, "rm", "one", "two", answers="y\n")[0] == 0
        assert not mini.prefix("one").exists()
        assert not mini.prefix("two").exists()

    def test_remove_changes_nothing_if_one_of_several_envs_does_not_exist(self, mini: Mini) -> None:
        assert mini.run("create", "one", "--rocm", "5.7", "--no-verify").returncode == 0
        done = mini.run("remove", "-y", "one", "onne")
        assert done.returncode == 1
        assert "did you mean `one`?" in done.stderr
        assert mini.prefix("one").exists()


class TestFallback:
    def test_a_worse_set_is_refused_unless_confirmed(self, far_64: Mini) -> None:
        for more in ((), ("-y",), ("--dry-run",)):
            done = far_64.run("create", "demo", "--no-verify", *more)
            assert done.returncode == 1
            assert "error: ROCm 6.4.3 fits best, but cannot be downloaded now; only ROCm 5.7.1" in done.stderr
            assert "`127.0.0.1` refused the connection" in done.stderr, "the user learns what to fix"
            assert "--accept-fallback" in done.stderr
        answer = json.loads(far_64.run("create", "demo", "-y", "--json").stdout)
        assert answer["error"] == "fallback"
        assert not far_64.prefix("demo").exists()

    def test_a_worse_set_can_be_accepted_by_an_option_or_at_the_prompt(self, far_64: Mini) -> None:
        code, shown = ask(far_64, "create", "demo", "--no-verify", answers="\n")
        assert (code, "Install this set instead? [y/N]: " in shown) == (1, True)
        code, shown = ask(far_64, "create", "demo", "--no-verify", answers="y\n")
        assert (code, shown.count("[y/N]")) == (0, 1), shown
        assert far_64.run("create", "two", "-y", "--no-verify", "--accept-fallback").returncode == 0

    def test_a_better_set_that_does_not_exist_causes_no_question(self, without_64: Mini) -> None:
        done = without_64.run("create", "demo", "-y", "--no-verify")
        assert done.returncode == 0, done.stderr
        assert "there is no complete ROCm 6.4.3 from mini: `gone-hip`" in " ".join(done.stderr.split())
        assert "rocm 5.7.1 from mini" in done.stderr

    def test_the_same_rocm_series_from_a_different_channel_needs_no_confirmation(
        self, without_64: Mini
    ) -> None:
        other_channel(without_64)
        done = without_64.run("create", "demo", "-y", "--no-verify")
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("there is no complete ROCm 6.4.3") == 1
        assert "rocm 6.4.0 from other" in done.stderr

    def test_the_same_rocm_series_without_blas_kernels_needs_a_confirmation(self, without_64: Mini) -> None:
        other_channel(without_64, blas="[]")
        done = without_64.run("create", "demo", "--rocm", "6.4", "-y", "--no-verify")
        assert done.returncode == 1
        assert "ROCm 6.4.3 from mini fits best" in done.stderr
        assert "only ROCm 6.4.0 from other can be installed; the rocBLAS of" in done.stderr

    @pytest.mark.parametrize(
        ("answers", "code", "exists"), [("", 1, False), ("y\nn\n", 1, False), ("y\ny\n", 0, True)]
    )
    def test_a_worse_set_needs_a_confirmation_even_if_only_a_package_is_missing(
        self, mini: Mini, answers: str, code: int, exists: bool
    ) -> None:
        """The cached package lists still contain the best set, but the mirror no longer serves it."""
        assert mini.run("resolve").returncode == 0
        mini.repo.remove("mini6-hip")
        mini.repo.publish()
        if answers:
            found, shown = ask(mini, "create", "demo", "--no-verify", answers=answers)
            assert shown.index("Continue? [Y/n]") < shown.index("Install this set instead? [y/N]")
        else:
            done = mini.run("create", "demo", "--no-verify", "-y")
            found, shown = done.returncode, done.stderr
            assert "hint: to install it: add `--accept-fallback`" in shown
        assert found == code, shown
        assert "only ROCm 5.7.1" in shown
        assert mini.prefix("demo").exists() is exists

    def test_accepting_a_fallback_cannot_be_combined_with_a_lock(self, mini: Mini, tmp_path: Path) -> None:
        mini.create()
        assert mini.run("lock", "demo", "-o", str(tmp_path / "x.lock")).returncode == 0
        done = mini.run("create", "new", "--from", str(tmp_path / "x.lock"), "--accept-fallback")
        assert done.returncode == 2
        assert "omit the options that change it" in done.stderr
        assert not mini.prefix("new").exists()

    def test_resolve_shows_that_a_better_set_is_unreachable(self, far_64: Mini) -> None:
        done = far_64.run("resolve")
        assert done.returncode == 0
        assert "ROCm 6.4.3 from far would fit better" in done.stdout


class TestGuide:
    def test_create_offers_sets_that_work_on_this_machine(self, with_apps: Mini) -> None:
        code, shown = ask(with_apps, "create", answers="q\n")
        assert code == 1
        assert "  -  No ROCm and PyTorch combination works on gfx1100" in shown
        assert "  1  ROCm without PyTorch: ROCm 6.4.3 (The mini archive)\n" in shown, (
            "PyTorch has no set for this GPU"
        )
        assert "To undo this: `rocenv remove default`." in shown
        assert not with_apps.prefix("default").exists()

    def test_an_app_in_the_current_folder_is_offered_first(self, with_apps: Mini, tmp_path: Path) -> None:
        (tmp_path / "paint.py").touch()
        _, shown = ask(with_apps, "create", answers="\n", cwd=str(tmp_path))
        assert "  1  the set for Paint in this folder: ROCm 6.4.3 (The mini archive)\n" in shown
        assert (with_apps.prefix("paint") / ".rocenv/record.json").exists()

    def test_one_confirmation_creates_and_verifies_an_env(self, with_apps: Mini) -> None:
        _, shown = ask(with_apps, "create", answers="1\n")
        assert shown.count("]: ") == 1, "create asks no second question"
        assert shown.count("target gfx1100: ") == 1
        assert (with_apps.prefix("default") / ".rocenv/record.json").exists()
        assert "rocenv run default -- python3" in shown

    def test_a_second_env_gets_a_different_name(self, with_apps: Mini) -> None:
        for name in ("default", "default2"):
            ask(with_apps, "create", answers="1\n")
            assert (with_apps.prefix(name) / ".rocenv/record.json").exists()

    def test_without_a_gpu_create_suggests_the_next_step(self, with_apps: Mini) -> None:
        with_apps.env["ROCENV_TARGET"] = ""
        code, shown = ask(with_apps, "create", answers="")
        assert code == 1
        assert "found no GPU to create an env for" in shown
        assert "--target" in shown
