from __future__ import annotations

import json
import os
import shlex
import subprocess
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from rocenv.context import Context
from rocenv.core.errors import DataError, PrefixError
from rocenv.core.model import FileEntry, Lock, Record, Request
from rocenv.home import Home
from rocenv.install.build import require_place
from rocenv.install.change import remove
from rocenv.prefix import Prefix, all_prefixes, prefix_of
from rocenv.system.locks import locked

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILES = {"rocm/a": FileEntry(sha256="0" * 64, size_bytes=3), "rocm/l": FileEntry(link="a")}


def record_of(name: str) -> Record:
    lock = Lock(
        request=Request(rocm="5.7"), platform="linux", target="gfx1100", components=(), environment=()
    )
    return Record(
        name=name,
        created="2026-11-20T00:00:00+00:00",
        rocenv_version="1",
        lock=lock,
    )


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def prefix(home: Home) -> Prefix:
    """A complete env."""
    prefix = Prefix(home.envs / "demo")
    prefix.own.mkdir(parents=True)
    prefix.write_record(record_of("demo"), FILES)
    return prefix


REFUSED = {
    "": "empty",
    "a/b": "`/`",
    "/etc": "`/`",
    "..": "dot",
    ".": "dot",
    ".hidden": "dot",
    "../up": "`/`",
    "-rf": "dash",
    "--": "dash",
    "a:b": "`:`",
    "a;b": "`;`",
    "a\\b": "`",
    "a*": r"`\*`",
    "a?": r"`\?`",
    'a"b': '`"`',
    "a<b": "`<`",
    "a|b": r"`\|`",
    "a\nb": "control",
    "a\tb": "control",
    "a\x1b[31m": "control",
    "a\x7f": "control",
    "a\0b": "control",
    "a\u202eb": "invisible",
    "\u200b": "invisible",
    "a\u2028b": "control",
    "caf\udce9": "control",
    "a.": "ends",
    "a ": "ends",
    " a": "begins",
    "n" * 201: "too long",
    "日" * 67: "too long",
    "ΐ" * 100: "too long",  # when case-folded, as in the lock file's name
    "con": "device",
    "NUL": "device",
    "Com1": "device",
    "lpt\u00b9": "device",
    "aux.old": "device",
    "nul .5": "device",
    "CONIN$": "device",
}


@pytest.mark.parametrize(("name", "text"), REFUSED.items(), ids=[ascii(name)[:20] for name in REFUSED])
def test_invalid_env_names_are_rejected(home: Home, name: str, text: str) -> None:
    with pytest.raises(PrefixError, match=text) as caught:
        prefix_of(home, name)
    assert caught.value.code == "env-name"
    assert caught.value.message.isprintable()


@pytest.mark.parametrize(
    "name",
    [
        "demo",
        "rocm-5.7",
        "日本語",
        "it's $HOME `x` (1)",
        "a  b",
        "~",
        "#1",
        "%TEMP%",
        "n" * 200,
        "é",
        "👍",
        "console",
        "com10",
        "nul5",
    ],
)
def test_valid_env_names_are_accepted(home: Home, name: str) -> None:
    prefix = prefix_of(home, name)
    prefix.own.mkdir(parents=True)
    prefix.write_record(record_of(name), FILES)
    assert prefix.record().name == name
    assert [found.name for found in all_prefixes(home)] == [name]
    with locked(home.lock("env", name)):
        pass  # the lock file's name is longer than the env's


def test_all_spellings_of_an_env_name_share_a_lock(home: Home) -> None:
    assert home.lock("env", "SD") == home.lock("env", "sd")
    assert home.lock("env", "STRASSE") == home.lock("env", "straße")
    assert home.lock("env", "sd") != home.lock("env", "sdx")


class TestInterruptedRemoval:
    """A removal that was interrupted on Windows, where rocenv renames a folder before it removes it."""

    @pytest.fixture
    def left(self, home: Home, prefix: Prefix) -> Path:
        left = home.envs / ".demo.4711.removing"
        prefix.path.rename(left)
        return left

    def test_an_env_whose_removal_was_interrupted_is_listed_as_incomplete(
        self, home: Home, left: Path
    ) -> None:
        assert [(found.name, found.path, found.state) for found in all_prefixes(home)] == [
            ("demo", left, "incomplete")
        ]
        assert prefix_of(home, "demo").state == "absent"

    def test_removing_the_env_again_completes_the_removal(self, home: Home, left: Path) -> None:
        remove(home, "demo")
        assert not left.exists()
        with pytest.raises(PrefixError, match="there is no env `demo`"):
            remove(home, "demo")

    def test_creating_an_env_with_the_same_name_completes_the_removal(self, home: Home, left: Path) -> None:
        anew = Prefix(home.envs / "demo")
        anew.own.mkdir(parents=True)
        anew.write_record(record_of("demo"), FILES)
        remove(home, "demo")
        assert list(home.envs.iterdir()) == []

    @pytest.mark.parametrize(
        "name",
        [".demo.removing", ".demo.x.removing", ".demo.4711", "demo.4711.removing", ".other.4711.removing"],
    )
    def test_similarly_named_folders_are_kept(self, home: Home, left: Path, name: str) -> None:
        similar = left.rename(home.envs / name)
        with pytest.raises(PrefixError, match="there is no env `demo`"):
            remove(home, "demo")
        assert (similar / ".rocenv" / "record.json").exists()

    def test_a_folder_that_rocenv_did_not_create_is_kept(self, home: Home) -> None:
        theirs = home.envs / ".demo.4711.removing"
        theirs.mkdir(parents=True)
        (theirs / "data").write_text("mine")
        with pytest.raises(PrefixError, match="there is no env `demo`"):
            remove(home, "demo")
        assert (theirs / "data").exists()


@pytest.mark.parametrize("name", ["a;b", "a:b", "a\nb", "x$ORIGIN", "${LIB}", "$PLATFORM-1"])
def test_a_home_path_that_would_break_envs_is_rejected(tmp_path: Path, name: str) -> None:
    """Loaders and shells would misread or split such a path."""
    home = Home(tmp_path / name)
    with pytest.raises(PrefixError, match=r"dynamic loader|PATH|control characters") as caught:
        require_place(prefix_of(home, "demo"), Context(home))
    assert caught.value.code == "prefix-unusable"
    assert "set ROCENV_HOME to a different folder" in caught.value.hints[0]
    assert not home.path.exists(), "rocenv rejects the path before it creates or downloads anything"


@pytest.mark.parametrize("name", ["a b", "$HOME", "it's", "日本", "$LOCAL"])
def test_unusual_home_paths_are_accepted(tmp_path: Path, name: str) -> None:
    home = Home(tmp_path / name)
    require_place(prefix_of(home, "demo"), Context(home))


class TestState:
    def test_each_state_of_an_env_is_detected(self, home: Home, prefix: Prefix) -> None:
        assert prefix.state == "complete"
        assert prefix_of(home, "other").state == "absent"
        (prefix.own / "record.json").unlink()
        assert prefix.state == "incomplete"

    def test_an_empty_folder_is_not_an_env(self, home: Home) -> None:
        (home.envs / "empty").mkdir(parents=True)
        assert prefix_of(home, "empty").state == "absent"

    @pytest.mark.parametrize("kind", ["folder", "file", "link to nowhere", "marker that is a file"])
    def test_folders_that_rocenv_did_not_create_are_not_listed_as_envs(self, home: Home, kind: str) -> None:
        place = home.envs / "theirs"
        home.envs.mkdir(parents=True)
        if kind == "file":
            place.write_text("x")
        elif kind == "link to nowhere":
            place.symlink_to("/no/where")
        else:
            place.mkdir()
            (place / (".rocenv" if kind == "marker that is a file" else "data")).write_text("x")
        assert [(each.name, each.state) for each in all_prefixes(home)] == [("theirs", "foreign")]
        with pytest.raises(PrefixError, match=r"`\.rocenv`|does not point to an env") as caught:
            prefix_of(home, "theirs").record()
        assert caught.value.code == "env-foreign"
        assert caught.value.hints

    def test_the_list_of_envs_omits_hidden_folders(self, home: Home, prefix: Prefix) -> None:
        prefix.path.rename(home.envs / ".trash")
        assert all_prefixes(home) == []
        assert all_prefixes(Home(home.path / "nowhere")) == []


class TestRecord:
    def test_a_written_record_is_read_back_unchanged(self, prefix: Prefix) -> None:
        record = prefix.record()
        assert replace(record, files_sha256="") == replace(record_of("demo"), prefix=str(prefix.path))
        assert prefix.files(record) == FILES

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            (lambda plain: plain.update(colour="red"), "unknown key `colour`"),
            (lambda plain: plain["lock"].update(more=1), r"unknown key `lock\.more`"),
            (lambda plain: plain.pop("created"), "`created` is missing"),
            (lambda plain: plain.update(created=5), "`created`"),
            (lambda plain: plain.update(schema=99), "a different version"),
            (lambda plain: plain.pop("schema"), "a different version"),
        ],
    )
    def test_invalid_values_in_a_record_are_errors(
        self, prefix: Prefix, change: Callable[[dict[str, object]], object], text: str
    ) -> None:
        path = prefix.own / "record.json"
        plain = json.loads(path.read_text())
        change(plain)
        path.write_text(json.dumps(plain))
        with pytest.raises(DataError, match=text) as caught:
            prefix.record()
        assert str(path) in caught.value.message
        assert caught.value.hints == prefix.made_anew

    @pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b'"text"', b"null"])
    def test_a_damaged_record_is_an_error_with_hints(self, prefix: Prefix, content: bytes) -> None:
        (prefix.own / "record.json").write_bytes(content)
        with pytest.raises(DataError, match=r"record\.json") as caught:
            prefix.record()
        assert caught.value.hints

    def test_the_hints_back_up_the_lock_before_removing_the_env(self, home: Home) -> None:
        # The commands must work when they are pasted into a shell.
        prefix = Prefix(home.envs / "it's demo")
        prefix.own.mkdir(parents=True)
        prefix.lock_file.write_text("the lock")
        fake = home.path / "bin"
        fake.mkdir()
        (fake / "rocenv").write_text(
            f'#!/bin/sh\n[ "$1" = create ] || exec rm -r {shlex.quote(str(prefix.path))}\ncat "$4"\n'
        )
        (fake / "rocenv").chmod(0o755)
        script = "set -e\n" + "\n".join(prefix.made_anew)
        environ = {"PATH": f"{fake}:{os.environ['PATH']}"}
        done = subprocess.run(
            ["sh", "-c", script], cwd=home.path, env=environ, capture_output=True, timeout=20
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"the lock", b"")
        assert not prefix.path.exists()

    @pytest.mark.parametrize("damage", ["changed", "deleted"])
    def test_a_modified_file_list_is_an_error(self, prefix: Prefix, damage: str) -> None:
        (path,) = prefix.own.glob("files-*.json")
        record = prefix.record()
        if damage == "deleted":
            path.unlink()
        else:
            path.write_text(path.read_text().replace("0000", "0001"))
        with pytest.raises(DataError, match=path.name):
            prefix.files(record)

    def test_a_new_record_replaces_the_old_record_and_its_file_list(self, prefix: Prefix) -> None:
        files = FILES | {"rocm/b": FileEntry(sha256="1" * 64, size_bytes=1)}
        prefix.write_record(record_of("demo"), files)
        assert prefix.files(prefix.record()) == files
        assert len(list(prefix.own.iterdir())) == 2

    def test_a_manually_moved_env_is_detected(self, home: Home, prefix: Prefix) -> None:
        moved = prefix_of(home, "moved")
        prefix.path.rename(moved.path)
        with pytest.raises(PrefixError, match="renamed from `demo`") as caught:
            moved.record()
        assert caught.value.hints == ("rocenv repair moved",)
        assert moved.record_wherever_made().name == "demo"


class TestWipe:
    def test_wiping_an_env_removes_only_its_prefix(self, prefix: Prefix, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "mine").write_text("x")
        (prefix.path / "link").symlink_to(outside)
        (prefix.path / "deep" / "er").mkdir(parents=True)
        (prefix.path / "deep" / "er" / "file").write_text("x")
        (prefix.path / "deep" / "er").chmod(0o555)
        (prefix.path / "file").write_text("x")
        prefix.wipe()
        assert not prefix.path.exists()
        assert (outside / "mine").read_text() == "x"

    def test_wiping_a_linked_env_removes_only_the_link(self, home: Home, prefix: Prefix) -> None:
        elsewhere = home.path / "large disk"
        prefix.path.rename(elsewhere)
        prefix.path.symlink_to(elsewhere)
        prefix.wipe()
        assert prefix.state == "absent"
        assert (elsewhere / ".rocenv" / "record.json").exists()
