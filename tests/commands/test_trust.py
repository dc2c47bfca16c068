"""`.rocenv` files: valid contents, and the trust that they require."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocenv import config
from rocenv.commands import trust
from tests.commands.lab import words
from tests.users import unprivileged

if TYPE_CHECKING:
    from pathlib import Path

    from tests.commands.lab import Lab

ODD_FOLDERS: dict[str, bytes] = {
    "space": b"a b",
    "quotes": b'it\'s "x"',
    "code": b"$(touch canary)`touch canary`;touch canary&|<>*?[a]",
    "dash": b"-n",
    "tilde": b"~root",
    "percent": b"100%25;%A;",
    "backslash": b"a\\nb\\",
    "dots": b"a.b.[c]",
    "letters": "漢字 é".encode(),
    "newline": b"a\nrocenv: all is well\n[mirrors]",
    "tab": b"a\tb",
    "escape": b"\x1b[31m\x07\x7f",
    "not text": b"\xff\xfe\x80",
    "unseen": "a\u202eb\u200b".encode(),
}
ODD_NAMES = [
    "demo",
    "my env",
    "it's",
    "$(touch canary)",
    "`x`",
    "漢字",
    "a.b",
    "%n",
    "#x",
    "!!",
    "a=b",
    "[a]",
]


def folder_with(lab: Lab, content: bytes, name: str = "there") -> Path:
    folder = lab.root / name
    folder.mkdir(exist_ok=True)
    (folder / ".rocenv").write_bytes(content)
    return folder


def assert_refused(lab: Lab, folder: Path | bytes, *parts: str) -> str:
    """Assert that `--check` rejects a folder with one or two printable lines; return them."""
    done = lab.run("trust", "--check", os.fsencode(folder))
    assert (done.returncode, done.stdout) == (1, b""), done
    text = done.stderr.decode()
    assert 1 <= len(text.splitlines()) <= 2, text
    assert text.replace("\n", "").isprintable()
    for word in ("Traceback", "unexpected", "Usage"):
        assert word not in text
    assert text.startswith("rocenv: ")
    for part in parts:
        assert part in text
    return text


def assert_accepted(lab: Lab, folder: Path | bytes, name: str) -> None:
    done = lab.run("trust", "--check", os.fsencode(folder))
    assert (done.returncode, words(done.stdout), done.stderr) == (0, f"{name}\n", b"")


class TestUse:
    def test_a_file_takes_effect_only_if_it_is_trusted_and_unchanged(self, lab: Lab) -> None:
        lab.env("demo")
        lab.env("other")
        there = folder_with(lab, b"demo\n")
        assert_refused(lab, there, "`demo`", "you have not trusted it", f"rocenv trust {there}")
        done = lab.run("trust", str(there))
        assert (done.returncode, done.stdout) == (0, b"")
        assert str(there / ".rocenv") in done.stderr.decode() and "`demo`" in done.stderr.decode()
        assert_accepted(lab, there, "demo")
        for changed in (b"other\n", b"demo", b"demo\n\n", b" demo\n", b"demo\r\n"):
            folder_with(lab, changed)
            assert_refused(lab, there, "it changed since you trusted it", f"rocenv trust {there}")
        folder_with(lab, b"demo\n")
        assert_accepted(lab, there, "demo")
        folder_with(lab, b"other\n")
        assert lab.run("trust", str(there)).returncode == 0
        assert_accepted(lab, there, "other")
        done = lab.run("trust", "--forget", str(there))
        assert (done.returncode, done.stdout) == (0, b"")
        assert "no longer trusted" in done.stderr.decode()
        assert_refused(lab, there, "you have not trusted it")
        assert "was not trusted" in lab.run("trust", "--forget", str(there)).stderr.decode()

    def test_trust_defaults_to_this_folder_or_the_nearest_parent(self, lab: Lab) -> None:
        lab.env("demo")
        there = folder_with(lab, b"demo\n")
        deep = there / "a" / "b"
        deep.mkdir(parents=True)
        assert lab.run("trust", cwd=deep).returncode == 0
        assert list(config.load(lab.config).trusted) == [str(there)]
        done = lab.run("trust", "--check", cwd=deep)
        assert (done.returncode, done.stdout) == (0, b"demo\n")
        # rocenv does not search the parents of a folder that the user names, so a typo cannot make it trust a
        # different file.
        done = lab.run("trust", str(deep))
        assert (done.returncode, done.stdout) == (1, b"")
        assert f"there is no `.rocenv` file in `{deep}`" in done.stderr.decode()
        inner = folder_with(lab, b"demo\n", "there/a")
        assert lab.run("trust", cwd=deep).returncode == 0
        assert set(config.load(lab.config).trusted) == {str(there), str(inner)}

    def test_a_folder_is_identified_by_its_real_path(self, lab: Lab) -> None:
        lab.env("demo")
        there = folder_with(lab, b"demo\n")
        link = lab.root / "link"
        link.symlink_to(there)
        assert lab.run("trust", str(link)).returncode == 0
        assert_accepted(lab, there, "demo")
        assert_accepted(lab, link, "demo")
        link.unlink()
        link.symlink_to(folder_with(lab, b"demo\n", "elsewhere"))
        assert_refused(lab, link, "you have not trusted it")

    def test_a_file_that_names_a_missing_or_incomplete_env_is_rejected(self, lab: Lab) -> None:
        there = folder_with(lab, b"my env")
        done = lab.run("trust", str(there))
        assert done.returncode == 0
        assert "rocenv create 'my env'" in done.stderr.decode()
        assert_refused(lab, there, "does not exist", "rocenv create 'my env'")
        record = lab.env("my env") / ".rocenv" / "record.json"
        assert_accepted(lab, there, "my env")
        record.unlink()
        assert_refused(lab, there, "incomplete", "rocenv create 'my env'")

    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_unusual_env_names_are_accepted(self, lab: Lab, name: str) -> None:
        lab.env(name)
        there = folder_with(lab, b"\xef\xbb\xbf \t" + name.encode() + b" \r\n\n \n")
        text = assert_refused(lab, there, f"`{name}`")
        assert_runs(lab, text.splitlines()[1].strip())
        assert_accepted(lab, there, name)
        assert not list(lab.root.rglob("canary*"))

    @pytest.mark.parametrize("odd", ODD_FOLDERS.values(), ids=ODD_FOLDERS)
    def test_unusual_folder_names_are_accepted(self, lab: Lab, odd: bytes) -> None:
        lab.env("demo")
        there = os.fsencode(lab.root) + b"/" + odd
        os.mkdir(there)
        with open(there + b"/.rocenv", "wb") as file:
            file.write(b"demo\n")
        text = assert_refused(lab, there, "you have not trusted it", "rocenv trust")
        done = lab.run("trust", cwd=there)
        assert (done.returncode, done.stdout) == (0, b"")
        assert len(done.stderr.splitlines()) == 1
        assert_accepted(lab, there, "demo")
        settings = config.load(lab.config)
        assert settings.mirrors == ()
        assert [os.fsencode(trust.folder_of(key)) for key in settings.trusted] == [there]
        answer = json.loads(lab.run("trust", "--list", "--json").stdout)
        assert [os.fsencode(each["folder"]) for each in answer["trusted"]] == [there]
        listed = lab.run("trust", "--list")
        assert len(listed.stdout.decode().splitlines()) == 2
        assert listed.stdout.decode().replace("\n", "").isprintable()
        assert lab.run("trust", "--forget", cwd=there).returncode == 0
        assert_refused(lab, there, "you have not trusted it")
        command = text.splitlines()[1].strip()
        if os.fsdecode(odd).isprintable():
            assert_runs(lab, command)
            assert_accepted(lab, there, "demo")
        else:
            assert command == "rocenv trust  (in that folder)"
        assert not list(lab.root.rglob("canary*"))


def assert_runs(lab: Lab, command: str) -> None:
    """Assert that a printed command works when it is pasted into a shell."""
    words = f"rocenv() {{ printf '%s\\0' \"$@\"; }}\n{command}"
    shell = subprocess.run(["sh", "-c", words], cwd="/", capture_output=True, timeout=60, check=True)
    done = lab.run(*shell.stdout.split(b"\0")[:-1], cwd="/")
    assert (shell.stderr, done.returncode, done.stdout) == (b"", 0, b""), done


FILES: dict[str, bytes] = {
    "empty": b"",
    "blank": b" \n\t\r\n",
    "only a BOM": b"\xef\xbb\xbf",
    "late": b"\ndemo\n",
    "two lines": b"demo\nother\n",
    "two names": b"demo\rother\n",
    "code": b"demo\n$(touch canary)\n",
    "NUL": b"demo\0\n",
    "NULs": b"\0" * 4000,
    "not text": b"\xff\xfed\0e\0",
    "latin": "dém".encode("latin-1"),
    "surrogate": b"\xed\xb2\x80",
    "escape": b"\x1b[31mdemo\x1b[0m",
    "bell": b"demo\x07",
    "right-to-left": "demo\u202e".encode(),
    "separators": "demo\u2028x\x0bother\x0cx\x85".encode(),
    "path": b"../demo",
    "absolute": b"/etc",
    "dot": b".",
    "dots": b"..",
    "option": b"--help",
    "aside": b".demo.1.removing",
    "long name": b"a" * 250,
    "long line": b"a" * 4096,
    "huge": b"demo\n" + b" " * 4092,
    "sparse": b"demo\n" + b"\n" * 5000,
    "program": b"\x7fELF" + bytes(range(256)) * 3,
}


class TestHostileFiles:
    @pytest.mark.parametrize("content", FILES.values(), ids=FILES)
    def test_an_invalid_file_is_refused(self, lab: Lab, content: bytes) -> None:
        lab.env("demo")
        there = folder_with(lab, content)
        assert_refused(
            lab,
            there,
            f"`{there / '.rocenv'}` does not contain the name of an env",
            "a single line with the name of an env",
        )
        done = lab.run("trust", str(there))
        assert (done.returncode, done.stdout) == (1, b"")
        assert b"Traceback" not in done.stderr and b"unexpected" not in done.stderr
        assert not lab.config.exists()
        assert not list(lab.root.rglob("canary*"))

    @pytest.mark.parametrize(
        "kind", ["folder", "fifo", "fifo behind a link", "socket", "device", "loop", "dangling", "missing"]
    )
    def test_only_regular_files_are_opened(self, lab: Lab, kind: str) -> None:
        lab.env("demo")
        there = lab.root / "there"
        there.mkdir()
        path = there / ".rocenv"
        server = socket.socket(socket.AF_UNIX)
        match kind:
            case "folder":
                path.mkdir()
            case "fifo":
                os.mkfifo(path)
            case "fifo behind a link":
                os.mkfifo(there / "pipe")
                path.symlink_to("pipe")
            case "socket":
                os.chdir(there)
                server.bind(".rocenv")
            case "device":
                path.symlink_to("/dev/zero")
            case "loop":
                path.symlink_to(path)
            case "dangling":
                path.symlink_to("nowhere")
        with server:
            assert_refused(lab, there, "there is no `.rocenv` file")
            assert lab.run("trust", str(there)).returncode == 1
            # rocenv also finds the file in a parent folder.
            folder_with(lab, b"demo\n", ".")
            assert lab.run("trust", cwd=there).returncode == 0
        assert list(config.load(lab.config).trusted) == [str(lab.root)]

    def test_a_link_to_a_rocenv_file_is_accepted(self, lab: Lab) -> None:
        lab.env("demo")
        there = lab.root / "there"
        there.mkdir()
        (there / "name").write_text("demo")
        (there / ".rocenv").symlink_to("name")
        assert lab.run("trust", str(there)).returncode == 0
        assert_accepted(lab, there, "demo")
        (there / "name").write_text("other")
        assert_refused(lab, there, "it changed since you trusted it")

    def test_an_unreadable_file_is_an_error(self, lab: Lab) -> None:
        there = folder_with(lab, b"demo\n")
        (there / ".rocenv").chmod(0)
        done = lab.run("trust", "--check", str(there), before=unprivileged())
        assert (done.returncode, done.stdout) == (1, b"")
        assert b"cannot read" in done.stderr and len(done.stderr.splitlines()) == 2
        there.chmod(0)
        done = lab.run("trust", "--check", str(there), before=unprivileged())
        there.chmod(0o700)
        assert (done.returncode, done.stdout) == (1, b"")
        assert len(done.stderr.splitlines()) == 2

    @pytest.mark.parametrize("folder", ["gone", "file", "loop", "a/../../..", "x" * 300, "y/" * 3000])
    def test_a_path_that_is_not_a_folder_is_an_error(self, lab: Lab, folder: str) -> None:
        (lab.root / "file").touch()
        (lab.root / "loop").symlink_to("loop")
        done = lab.run("trust", "--check", folder)
        assert done.returncode == (2 if folder == "file" else 1)
        assert done.stdout == b""
        assert b"Traceback" not in done.stderr and b"unexpected" not in done.stderr

    def test_a_deleted_current_folder_is_an_error(self, lab: Lab) -> None:
        code = 'mkdir gone && cd gone && rmdir ../gone && "$@"'
        for option in ((), ("--check",), ("--forget",)):
            done = lab.run("trust", *option, before=["sh", "-c", code, "sh"])
            assert (done.returncode, done.stdout) == (1, b"")
            assert b"current folder" in done.stderr and b"unexpected" not in done.stderr

    @pytest.mark.parametrize(
        "text", ["trusted = []", "[trusted]\n'/x' = 1", "x = = 1", "\x00", "[other]\na = 1", "\ud800"]
    )
    def test_broken_settings_are_an_error(self, lab: Lab, text: str) -> None:
        lab.env("demo")
        there = folder_with(lab, b"demo\n")
        lab.config.write_text(text, errors="surrogatepass")
        assert_refused(lab, there, str(lab.config))
        done = lab.run("trust", str(there))
        assert (done.returncode, done.stdout) == (1, b"")
        assert b"unexpected" not in done.stderr
        assert lab.config.read_text(errors="surrogatepass") == text

    def test_a_folder_name_that_the_locale_cannot_represent_is_rejected(self, lab: Lab) -> None:
        there = folder_with(lab, "漢字".encode())
        # In a new process, because Python reads these variables when it starts.
        locale = ("LC_ALL=C", "PYTHONUTF8=0", "PYTHONCOERCECLOCALE=0")
        done = lab.run("trust", "--check", str(there), before=["env", *locale])
        assert (done.returncode, done.stdout) == (1, b"")
        assert b"this locale cannot represent the name" in done.stderr


class TestOutput:
    def test_trusted_folders_are_listed_as_json(self, lab: Lab) -> None:
        lab.env("demo")
        one, two, three = (folder_with(lab, b"demo", name) for name in ("one", "two", "three"))
        done = lab.run("trust", "--check", "--json", str(one))
        assert (done.returncode, json.loads(done.stdout)["error"]) == (1, "folder-untrusted")
        for each in (one, two, three):
            answer = json.loads(lab.run("trust", "--json", str(each)).stdout)
            assert answer == {"folder": str(each), "env": "demo"}
        assert json.loads(lab.run("trust", "--check", "--json", str(one)).stdout) == answer | {
            "folder": str(one)
        }
        (two / ".rocenv").write_text("other")
        (three / ".rocenv").unlink()
        assert json.loads(lab.run("trust", "--list", "--json").stdout) == {
            "trusted": [
                {"folder": str(one), "state": "trusted", "env": "demo"},
                {"folder": str(three), "state": "gone", "env": None},
                {"folder": str(two), "state": "changed", "env": "other"},
            ]
        }
        answer = json.loads(lab.run("trust", "--json", str(three)).stdout)
        assert answer["error"] == "folder-file"
        (three / ".rocenv").write_text("nope")
        assert lab.run("trust", str(three)).returncode == 0
        done = lab.run("trust", "--check", "--json", str(three))
        assert json.loads(done.stdout)["error"] == "env-missing"

    def test_a_list_without_trusted_folders_is_empty(self, lab: Lab) -> None:
        done = lab.run("trust", "--list")
        assert (done.returncode, done.stdout, done.stderr) == (
            0,
            b"",
            b"you have not trusted any folders yet\n",
        )

    def test_comments_in_the_settings_are_kept(self, lab: Lab) -> None:
        lab.home.mkdir()
        lab.config.write_text("# mine\n[defaults]\nrocm = '5.7' # old card\n")
        there = folder_with(lab, b"demo\n")
        assert lab.run("trust", str(there)).returncode == 0
        text = lab.config.read_text()
        assert "# mine" in text and "# old card" in text
        assert config.load(lab.config).defaults == {"rocm": "5.7"}


def test_the_check_at_each_prompt_imports_only_the_modules_that_it_needs(lab: Lab) -> None:
    lab.env("demo")
    there = folder_with(lab, b"demo\n")
    assert lab.run("trust", str(there)).returncode == 0
    lab.config.write_text(f"{lab.config.read_text()}\n[mirrors]\n'https://a/' = ['https://b/']\n")
    imported = lab.modules("trust", "--check", str(there))
    assert "rocenv.commands.trust" in imported
    assert not imported & {"tomlkit", "requests", "platformdirs", "rich", "rocenv.data"}


@given(st.text(max_size=40) | st.binary(max_size=40).map(os.fsdecode))
def test_a_settings_key_decodes_to_its_folder(folder: str) -> None:
    key = trust.key_of(folder)
    assert trust.folder_of(key) == folder
    assert key.isprintable()


@given(st.text(max_size=20))
def test_any_handwritten_settings_key_decodes_to_a_folder(key: str) -> None:
    assert isinstance(trust.folder_of(key), str)


def test_the_settings_keys_of_different_folders_differ(lab: Lab) -> None:
    assert len({trust.key_of(name) for name in ("\udcff", "%DCFF;", "%25;DCFF;", "\\xff", "ÿ")}) == 5


def test_a_settings_key_that_contains_nul_is_not_a_folder(lab: Lab) -> None:
    lab.home.mkdir()
    lab.config.write_text(f"[trusted]\n'/%0;' = '{'a' * 64}'\n\"/\\u0000\" = '{'b' * 64}'\n")
    done = lab.run("trust", "--list")
    assert done.returncode == 0
    assert done.stdout.count(b"gone") == 2
