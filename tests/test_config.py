from __future__ import annotations

import os
import string
import tempfile
from pathlib import Path

import pytest
import tomlkit
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rocenv import config
from rocenv.core.errors import DataError

EXAMPLE = """\
# my machine at work
[trusted]
"/home/me/src" = "3b8e7a44c1d94be4f7be0d1f9d8a1b2d2b1e9b2f5a8a8c3f2f40f4b0a6c1d7e9"  # only mine

[mirrors]
# the campus mirror is fast
"https://download.pytorch.org/whl" = "https://mirror.example/whl"
'debian:' = ["https://one.example/debian", "https://two.example/debian"]

[defaults]
rocm = "5.7"   # the card is old
offline = false
"""
TRUSTED = {"/home/me/src": "3b8e7a44c1d94be4f7be0d1f9d8a1b2d2b1e9b2f5a8a8c3f2f40f4b0a6c1d7e9"}


def assign(path: Path, key: str, value: str) -> None:
    config.assign(path, config.parse_key(key), config.parse_value(value))


def unset(path: Path, key: str) -> bool:
    return config.unset(path, config.parse_key(key))


def lookup(path: Path, key: str) -> object:
    return config.lookup(path, config.parse_key(key))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(EXAMPLE)
    return path


def test_every_kind_of_setting_is_read(file: Path) -> None:
    assert config.load(file) == config.Config(
        mirrors=(
            ("https://download.pytorch.org/whl", ("https://mirror.example/whl",)),
            ("debian:", ("https://one.example/debian", "https://two.example/debian")),
        ),
        defaults={"rocm": "5.7", "offline": False},
        trusted=TRUSTED,
    )


def test_a_missing_settings_file_is_treated_as_empty(tmp_path: Path) -> None:
    assert config.load(tmp_path / "none" / "config.toml") == config.Config()


def test_byte_order_marks_and_windows_line_ends_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b'\xef\xbb\xbf[defaults]\r\nrocm = "5.7"\r\n')
    assert config.load(path).defaults == {"rocm": "5.7"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("mirors = 1", "`mirors`"),
        ("[defaults]\nrocm = 5.7", "`defaults.rocm`"),
        ("[defaults.rocm]\nx = 1", "`defaults.rocm`"),
        ("defaults = 1", "`defaults` in"),
        ("[mirrors]\n'https://a.b/' = 1", '`mirrors."https://a.b/"`'),
        ("[mirrors]\n'https://a.b/' = ['https://c/', 2]", '`mirrors."https://a.b/"[1]`'),
        ("[mirrors]\n'https://a.b/' = []", "empty"),
        ("[mirrors]\n'https://a.b/' = 'mirror.example'", "`mirror.example`"),
        ("trusted = '/home'", "`trusted`"),
        ("trusted = ['/home']", "`trusted`"),
        ("[trusted]\n'/a.b' = 1", '`trusted."/a.b"`'),
        ("[trusted]\n'/a' = ''", "not a sha256"),
        (f"[trusted]\n'/a' = '{'A' * 64}'", "not a sha256"),
        (f"[trusted]\n'/a' = '{'a' * 64}\\n'", "not a sha256"),
        ("\n\nx = = 1", "line 3"),
    ],
)
def test_errors_in_settings_show_the_file_and_key(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        config.load(path)
    assert told in caught.value.message
    assert str(path) in caught.value.message


def test_the_error_for_an_unquoted_version_suggests_quotes(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[defaults]\nrocm = 5.7\n")
    with pytest.raises(DataError) as caught:
        config.load(path)
    assert '"5.7"' in caught.value.hints[0]


def test_a_settings_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="UTF-8"):
        config.load(path)
    with pytest.raises(DataError, match="cannot read"):
        config.load(tmp_path)


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        ("defaults.rocm", ("defaults", "rocm")),
        ("trusted", ("trusted",)),
        ("mirrors", ("mirrors",)),
        ("mirrors.https://download.pytorch.org/whl", ("mirrors", "https://download.pytorch.org/whl")),
        ('mirrors."https://download.pytorch.org/"', ("mirrors", "https://download.pytorch.org/")),
        ("mirrors.'https://download.pytorch.org/'", ("mirrors", "https://download.pytorch.org/")),
        ("mirrors.debian:", ("mirrors", "debian:")),
        ('"defaults" . "a\\tb"', ("defaults", "a\tb")),
    ],
)
def test_typed_keys_are_parsed(key: str, parts: tuple[str, ...]) -> None:
    assert config.parse_key(key) == parts


@pytest.mark.parametrize("key", ["", ".", "mirrors.", "a b", "a = 1\nb", 'mirrors."open', "a # b", '"a\nb"'])
def test_an_invalid_settings_key_is_an_error(key: str) -> None:
    with pytest.raises(DataError):
        config.parse_key(key)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=4))
def test_any_key_written_in_toml_is_read_back(parts: list[str]) -> None:
    assume(parts[0] != "mirrors" or len(parts) < 3)  # everything after `mirrors.` is one URL
    assert config.parse_key(tomlkit.key(parts).as_string()) == tuple(parts)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("false", False),
        ("5", 5),
        ("-12", -12),
        ("5.7", "5.7"),
        ("007", "007"),
        ("True", "True"),
        ("", ""),
        ('["a", "b"]', ["a", "b"]),
        ("https://mirror.example/", "https://mirror.example/"),
    ],
)
def test_typed_values_are_parsed(text: str, value: object) -> None:
    read = config.parse_value(text)
    assert read == value
    assert type(read) is type(value)


def test_a_malformed_array_is_an_error() -> None:
    with pytest.raises(DataError, match="not a valid TOML array"):
        config.parse_value('["a", ')
    with pytest.raises(DataError, match="not a valid TOML array"):
        config.parse_value("[1]\nother = 2")


def test_changing_a_setting_keeps_comments_and_other_settings(file: Path) -> None:
    assign(file, "defaults.rocm", "6.1")
    assign(file, "mirrors.https://repo.radeon.com/", '["https://m.example/amd"]')
    assert unset(file, "mirrors.debian:")
    text = file.read_text()
    for comment in (
        "# my machine at work",
        "# only mine",
        "# the campus mirror is fast",
        "# the card is old",
    ):
        assert comment in text
    assert config.load(file) == config.Config(
        mirrors=(
            ("https://download.pytorch.org/whl", ("https://mirror.example/whl",)),
            ("https://repo.radeon.com/", ("https://m.example/amd",)),
        ),
        defaults={"rocm": "6.1", "offline": False},
        trusted=TRUSTED,
    )


def test_looking_up_a_key_returns_values_and_tables(file: Path) -> None:
    assert lookup(file, "defaults.rocm") == "5.7"
    assert lookup(file, "mirrors.https://download.pytorch.org/whl") == "https://mirror.example/whl"
    assert lookup(file, "defaults") == {"rocm": "5.7", "offline": False}
    assert lookup(file, "defaults.rocm.deeper") is None
    assert lookup(file, "defaults.torch") is None


@pytest.mark.parametrize(
    ("key", "value"), [("mirors.x", "https://a/"), ("mirrors.https://a/", "b"), ("trusted.x", "1")]
)
def test_a_change_that_would_break_the_settings_file_is_rejected(file: Path, key: str, value: str) -> None:
    with pytest.raises(DataError):
        assign(file, key, value)
    assert file.read_text() == EXAMPLE


def test_unset_repairs_invalid_settings(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("mirors = 1 # typo\n[defaults]\nrocm = '5.7'\n")
    with pytest.raises(DataError) as caught:
        config.load(path)
    assert caught.value.hints == ("rocenv config unset mirors",)
    assert unset(path, "mirors")
    assert config.load(path).defaults == {"rocm": "5.7"}
    assert not unset(path, "mirors")
    assert not unset(path, "defaults.rocm.deeper")


def test_the_first_setting_creates_the_folder_and_file(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "config.toml"
    assign(path, "defaults.rocm", "5.7")
    assert config.load(path).defaults == {"rocm": "5.7"}
    assert os.listdir(path.parent) == ["config.toml"]


# Names with every character that must be quoted in TOML, on which tomlkit and rocenv's parser must agree.
NAMES = st.text(string.printable + "äß漢", min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(names=st.lists(NAMES, unique=True, max_size=4), value=st.text(max_size=20), number=st.integers())
def test_any_setting_is_read_back_and_removed_without_a_trace(
    names: list[str], value: str, number: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.toml"
        path.write_text(EXAMPLE)
        for name in names:
            key = tomlkit.key(["defaults", f"x{name}"]).as_string()
            text = f"s{value}"
            assign(path, key, text)
            assert lookup(path, key) == text
            assign(path, key, str(number))
            assert lookup(path, key) == number
        for name in names:
            assert unset(path, tomlkit.key(["defaults", f"x{name}"]).as_string())
        assert path.read_text() == EXAMPLE
