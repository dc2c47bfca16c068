"""`doctor --fix`: questions, fixes and the report."""

from __future__ import annotations

import os
import re
import sqlite3
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from rocenv.checks import caches, fixes
from rocenv.checks.context import examine_machine
from rocenv.checks.fixes import Dialog, apply
from rocenv.context import Context
from rocenv.core.errors import PrefixError, RocenvError
from rocenv.data.load import load
from rocenv.data.remedies import Texts
from rocenv.data.rows import Matrix
from rocenv.findings import Finding
from rocenv.home import Home
from rocenv.prefix import prefix_of

if TYPE_CHECKING:
    from pathlib import Path

    from rocenv.checks.context import CheckContext
    from tests.mini import Mini

TEXTS = Texts(load(), "findings", "en")
WORK: Any = None  # used by fixes that do not download anything


@dataclass
class Person:
    """A user who answers every question the same way."""

    answer: bool | None
    asked: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    def dialog(self) -> Dialog:
        ask = None if self.answer is None else self._ask
        return Dialog(ask=ask, report=self.messages.append, texts=TEXTS)

    def _ask(self, text: str) -> bool:
        self.asked.append(text)
        return bool(self.answer)


def finding(fix: str, title: str = "Something is wrong") -> Finding:
    return Finding(check="x", code="x", severity="warning", title=title, detail="", fix=fix)


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CheckContext:
    """A machine with an empty home."""
    for name in ("ROCENV_SYSROOT", "ROCENV_TARGET", *("MIOPEN_USER_DB_PATH", "MIOPEN_CUSTOM_CACHE_DIR")):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    return examine_machine(Home(tmp_path / "home"), Matrix())


def incomplete(home: Home, name: str) -> Path:
    """Create what a killed `create` leaves behind."""
    path = home.envs / name
    (path / ".rocenv").mkdir(parents=True)
    (path / "rocm").mkdir()
    (path / "rocm/libamdhip64.so").write_text("half")
    return path


def database(path: Path, *, whole: bool) -> Path:
    """Create a database like MIOpen's, intact or only half written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    opened = sqlite3.connect(path)
    opened.execute("CREATE TABLE kern_db (id INTEGER PRIMARY KEY, kernel_blob BLOB)")
    opened.executemany("INSERT INTO kern_db (kernel_blob) VALUES (?)", [(b"x" * 500,)] * 200)
    opened.commit()
    opened.close()
    if not whole:
        data = bytearray(path.read_bytes())
        data[4096:12288] = b"\xff" * 8192
        path.write_bytes(data)
    return path


class TestAsking:
    def test_answering_no_changes_nothing(self, context: CheckContext) -> None:
        path = incomplete(context.home, "demo")
        person = Person(answer=False)
        outcome = apply(
            [finding("remove-incomplete", "Env `demo` is incomplete")], context, WORK, person.dialog()
        )
        assert (outcome.done, outcome.left, outcome.failed) == (0, 1, 0)
        assert (path / "rocm/libamdhip64.so").exists()
        assert person.asked == ["Env `demo` is incomplete: remove the incomplete env `demo`?"]
        assert person.messages == ["Skipped: remove the incomplete env `demo`"]

    def test_without_a_terminal_no_fix_is_offered_or_applied(self, context: CheckContext) -> None:
        path = incomplete(context.home, "demo")
        person = Person(answer=None)
        outcome = apply([finding("remove-incomplete")], context, WORK, person.dialog())
        assert (outcome.done, outcome.left) == (0, 1)
        assert path.exists()
        assert "without a terminal" in person.messages[0]

    def test_doctor_fixes_only_findings_that_have_a_fix(self, context: CheckContext) -> None:
        path = incomplete(context.home, "demo")
        person = Person(answer=True)
        outcome = apply([finding(""), finding("format-the-disk")], context, WORK, person.dialog())
        assert outcome.done == 0
        assert path.exists()
        assert not person.asked
        assert len(person.messages) == 1

    def test_a_healthy_machine_has_no_instructions_to_follow(self, context: CheckContext) -> None:
        person = Person(answer=True)
        apply([], context, WORK, person.dialog())
        assert person.messages == []

    def test_a_snapshot_of_a_machine_is_not_fixed(self, context: CheckContext) -> None:
        path = incomplete(context.home, "demo")
        with pytest.raises(RocenvError, match="snapshot of a machine"):
            apply(
                [finding("remove-incomplete")],
                replace(context, elsewhere=True),
                WORK,
                Person(answer=True).dialog(),
            )
        assert path.exists()

    def test_a_failed_fix_does_not_stop_the_others(
        self, context: CheckContext, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        incomplete(context.home, "demo")

        def fails(_item: str, _context: CheckContext, _work: object) -> None:
            raise PrefixError("the disk is full", hints=("rocenv gc",))

        def is_denied(_item: str, _context: CheckContext, _work: object) -> None:
            raise PermissionError(13, "Permission denied", "/x")

        table = {
            "repair": fixes.Fix(lambda _context: ["sd"], fails),
            "miopen-database": fixes.Fix(lambda _context: ["/x"], is_denied),
            "remove-incomplete": fixes.FIXES["remove-incomplete"],
        }
        monkeypatch.setattr(fixes, "FIXES", table)
        person = Person(answer=True)
        outcome = apply([finding(name) for name in table], context, WORK, person.dialog())
        assert (outcome.done, outcome.failed) == (1, 2)
        told = "\n".join(person.messages)
        assert "Failed to restore env `sd` from its record: the disk is full\nrocenv gc" in told
        assert "Permission denied" in told
        assert "Done: remove the incomplete env `demo`" in told

    def test_doctor_asks_once_for_findings_with_the_same_fix(
        self, context: CheckContext, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        done: list[str] = []
        fix = fixes.Fix(lambda _context: ["sd"], lambda item, _context, _work: done.append(item))
        monkeypatch.setattr(fixes, "FIXES", {"repair": fix})
        person = Person(answer=True)
        apply([finding("repair", "One"), finding("repair", "Two")], context, WORK, person.dialog())
        assert (done, len(person.asked)) == (["sd"], 1)

    def test_each_fix_has_messages(self) -> None:
        for name in fixes.FIXES:
            assert "`demo`" in TEXTS(name, item="demo")
            assert re.search("[一-龥]", Texts(load(), "findings", "zh")(name, item="demo"))

    def test_rows_refer_to_existing_fixes(self) -> None:
        named = {row.fix for row in load().advice if row.fix}
        assert named <= set(fixes.FIXES)
        assert "repair" in named


class TestIncomplete:
    def test_only_the_incomplete_env_is_removed(self, context: CheckContext) -> None:
        path = incomplete(context.home, "demo")
        foreign = context.home.envs / "mine"
        foreign.mkdir()
        (foreign / "thesis.txt").write_text("x")
        whole = incomplete(context.home, "whole")
        (whole / ".rocenv/record.json").write_text("{}")
        outcome = apply([finding("remove-incomplete")], context, WORK, Person(answer=True).dialog())
        assert outcome.done == 1
        assert not path.exists()
        assert (foreign / "thesis.txt").exists()
        assert (whole / "rocm/libamdhip64.so").exists()

    def test_only_the_requested_env_is_removed(self, context: CheckContext) -> None:
        path, other = incomplete(context.home, "demo"), incomplete(context.home, "other")
        named = examine_machine(context.home, Matrix(), name="demo")
        person = Person(answer=True)
        apply([finding("remove-incomplete")], named, WORK, person.dialog())
        assert not path.exists()
        assert other.exists()

    def test_an_env_that_was_completed_in_the_meantime_is_kept(self, context: CheckContext) -> None:
        """A running `create` still holds the lock, so its env must survive."""
        path = incomplete(context.home, "demo")

        def completes(_text: str) -> bool:
            (path / ".rocenv/record.json").write_text("{}")
            return True

        told: list[str] = []
        dialog = Dialog(ask=completes, report=told.append, texts=TEXTS)
        outcome = apply([finding("remove-incomplete")], context, WORK, dialog)
        assert (outcome.done, outcome.failed) == (0, 1)
        assert (path / "rocm/libamdhip64.so").exists()
        assert "complete now" in told[0]

    def test_a_fixed_finding_is_reported_as_fixed(self, context: CheckContext) -> None:
        person = Person(answer=True)
        apply([finding("remove-incomplete", "Env is incomplete")], context, WORK, person.dialog())
        assert person.messages == ["Already fixed: Env is incomplete"]


class TestDatabase:
    def test_only_malformed_cache_databases_are_renamed(self, context: CheckContext, tmp_path: Path) -> None:
        broken = database(tmp_path / "user/.cache/miopen/3.3.0/gfx1030_30.ukdb", whole=False)
        whole = database(tmp_path / "user/.config/miopen/gfx1100_48.ukdb", whole=True)
        empty = tmp_path / "user/.config/miopen/new.ukdb"
        empty.touch()
        text = tmp_path / "user/.config/miopen/gfx1030_30.HIP.fdb.txt"
        text.write_text("find results")
        person = Person(answer=True)
        outcome = apply([finding("miopen-database")], context, WORK, person.dialog())
        assert outcome.done == 1
        assert str(broken) in person.asked[0]
        assert [path.name for path in broken.parent.iterdir()] == ["gfx1030_30.ukdb.broken"]
        assert whole.exists()
        assert empty.exists()
        assert text.exists()

    def test_a_file_that_is_not_a_database_is_renamed(self, tmp_path: Path) -> None:
        path = tmp_path / "gfx906.ukdb"
        path.write_bytes(b"\0" * 4096)
        assert caches.damaged_databases({"MIOPEN_USER_DB_PATH": str(tmp_path)}) == (path,)
        assert caches.set_aside(path).name == "gfx906.ukdb.broken"
        path.write_bytes(b"\0" * 4096)
        assert caches.set_aside(path).name == "gfx906.ukdb.broken2", (
            "a database that was renamed earlier is kept"
        )

    def test_a_journal_is_renamed_with_its_database(self, tmp_path: Path) -> None:
        """SQLite would replay the journal into the new database."""
        path = database(tmp_path / "gfx906.ukdb", whole=False)
        path.with_name("gfx906.ukdb-journal").write_text("half")
        caches.set_aside(path)
        assert sorted(each.name for each in tmp_path.iterdir()) == [
            "gfx906.ukdb.broken",
            "gfx906.ukdb.broken-journal",
        ]

    def test_a_database_that_a_program_has_open_is_kept(self, tmp_path: Path) -> None:
        path = database(tmp_path / "gfx906.ukdb", whole=True)
        writer = sqlite3.connect(path, isolation_level=None)
        writer.execute("BEGIN EXCLUSIVE")
        try:
            assert caches.damaged_databases({"MIOPEN_USER_DB_PATH": str(tmp_path)}) == ()
        finally:
            writer.close()

    def test_links_are_not_followed(self, tmp_path: Path) -> None:
        broken = database(tmp_path / "elsewhere/a.ukdb", whole=False)
        (tmp_path / "db").mkdir()
        (tmp_path / "db/a.ukdb").symlink_to(broken)
        (tmp_path / "db/folder").symlink_to(tmp_path / "elsewhere")
        assert caches.damaged_databases({"MIOPEN_USER_DB_PATH": str(tmp_path / "db")}) == ()

    def test_missing_and_relative_folders_are_skipped(self, tmp_path: Path) -> None:
        assert caches.damaged_databases({"HOME": str(tmp_path / "none")}) == ()
        assert caches.damaged_databases({"HOME": "relative", "MIOPEN_USER_DB_PATH": "."}) == ()


class TestRepair:
    def test_repair_restores_a_missing_file(self, mini: Mini, monkeypatch: pytest.MonkeyPatch) -> None:
        assert mini.create().returncode == 0
        for name, value in mini.env.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("ROCENV_SYSROOT")
        context = Context()
        library = next(path for path in mini.prefix("demo").rglob("libamdhip64*") if not path.is_symlink())
        before = library.read_bytes()
        os.unlink(library)
        checked = examine_machine(context.home, Matrix(), name="demo")
        person = Person(answer=True)
        outcome = apply([finding("repair")], checked, context, person.dialog())
        assert outcome.done == 1, person.messages
        assert library.read_bytes() == before
        assert person.messages == ["Done: restore env `demo` from its record"]

    def test_without_an_env_name_only_moved_envs_are_repaired(
        self, mini: Mini, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert mini.create().returncode == 0
        for name, value in mini.env.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("ROCENV_SYSROOT")
        context = Context()
        checked = examine_machine(context.home, Matrix())
        person = Person(answer=True)
        assert apply([finding("repair")], checked, context, person.dialog()).done == 0
        mini.prefix("demo").rename(mini.prefix("other"))
        assert apply([finding("repair")], checked, context, person.dialog()).done == 1
        assert prefix_of(Context().home, "other").record().name == "other"
