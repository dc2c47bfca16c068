"""The machine's apt configuration, read as apt does."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from rocenv.sources.apt.mirrors import Entry, Settings, all_entries, apt_settings, entries_with, keyring_bytes
from tests.aptrepo import archive_key
from tests.network import cannot_run

if TYPE_CHECKING:
    from pathlib import Path

MIRROR = "http://mirror.example.org/debian"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another machine's empty apt configuration."""
    monkeypatch.setenv("ROCENV_SYSROOT", str(tmp_path))
    folder = tmp_path / "etc/apt"
    (folder / "sources.list.d").mkdir(parents=True)
    return folder


def entry(uri: str = MIRROR, suite: str = "trixie", **fields: object) -> Entry:
    return Entry(uri=uri, suite=suite, **{"components": ("main",), **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"deb {MIRROR} trixie main", [entry()]),
        (f"  deb\t{MIRROR}/   trixie   main contrib # ours", [entry(components=("main", "contrib"))]),
        (f"deb [ arch=amd64,i386 signed-by=/k.gpg ] {MIRROR} trixie main", [entry(signed_by=("/k.gpg",))]),
        (f"deb [signed-by=/a.gpg,/b.gpg] {MIRROR} trixie main", [entry(signed_by=("/a.gpg", "/b.gpg"))]),
        (f"deb [check-valid-until=no] {MIRROR} trixie main", [entry(is_dateless=True)]),
        (f"deb [check-date=no] {MIRROR} trixie main", [entry(is_dateless=True, is_undated=True)]),
        (f"deb [check-valid-until=yes trusted=yes] {MIRROR} trixie main", [entry()]),
        (f"deb [arch=arm64] {MIRROR} trixie main", []),
        (
            "deb https://h.example.org:8443/a/b/ ./",
            [entry("https://h.example.org:8443/a/b", "./", components=())],
        ),
        (f"deb-src {MIRROR} trixie main", []),
        (f"# deb {MIRROR} trixie main", []),
        ("deb cdrom:[Debian GNU/Linux 13 _Trixie_ - Official amd64]/ trixie main", []),
        ("deb mirror+file:/etc/apt/mirrors.txt trixie main", []),
        ("deb file:/srv/debian trixie main", []),
        ("deb", []),
        (f"deb {MIRROR}", []),
        ("", []),
    ],
)
def test_one_line_source_entries_are_read(machine: Path, line: str, expected: list[Entry]) -> None:
    (machine / "sources.list").write_text(f"\n{line}\n")
    assert list(all_entries()) == expected


@pytest.mark.parametrize(
    "uri", ["mirror+file:/etc/apt/mirrors/debian.list", "mirror+file:///etc/apt/mirrors/debian.list"]
)
def test_a_mirror_list_file_is_read(machine: Path, uri: str) -> None:
    """Debian's cloud images use such a file."""
    (machine / "mirrors").mkdir()
    (machine / "mirrors/debian.list").write_text(
        f"# ours\n{MIRROR}/\n\nhttps://b.example.org/d\tpriority:1\n"
    )
    (machine / "sources.list.d/debian.sources").write_text(
        f"Types: deb\nURIs: {uri}\nSuites: trixie\nComponents: main\nSigned-By: /k.gpg\n"
    )
    assert list(all_entries()) == [
        entry(signed_by=("/k.gpg",)),
        entry("https://b.example.org/d", signed_by=("/k.gpg",)),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Types: deb deb-src\nURIs: http://a.example.org/d/ http://b.example.org/d\n"
            "Suites: trixie trixie-updates\nComponents: main contrib\n",
            [
                entry("http://a.example.org/d", "trixie", components=("main", "contrib")),
                entry("http://a.example.org/d", "trixie-updates", components=("main", "contrib")),
                entry("http://b.example.org/d", "trixie", components=("main", "contrib")),
                entry("http://b.example.org/d", "trixie-updates", components=("main", "contrib")),
            ],
        ),
        (
            f"# a comment\ntypes: deb\n# another\nURIs:\n {MIRROR}\n# in between\n file:/srv\n"
            "Suites: trixie\nComponents: main\nSigned-By: /a.gpg /b.gpg\nCheck-Valid-Until: no\n",
            [entry(signed_by=("/a.gpg", "/b.gpg"), is_dateless=True)],
        ),
        (
            f"Enabled: no\nTypes: deb\nURIs: {MIRROR}\nSuites: trixie\nComponents: main\n\n\n \n"
            f"Enabled: yes\nTypes: deb\nURIs: {MIRROR}\nSuites: forky\nComponents: main\n",
            [entry(suite="forky")],
        ),
        (f"Types: deb-src\nURIs: {MIRROR}\nSuites: trixie\nComponents: main\n", []),
        (f"Types: deb\nURIs: {MIRROR}\nSuites: trixie\nComponents: main\nArchitectures: arm64\n", []),
        (
            f"Types: deb\nURIs: {MIRROR}\nSuites: trixie\nComponents: main\nArchitectures: i386 amd64\n",
            [entry()],
        ),
        ("no fields at all\n", []),
        ("", []),
    ],
)
def test_deb822_source_entries_are_read(machine: Path, text: str, expected: list[Entry]) -> None:
    (machine / "sources.list.d/x.sources").write_text(text)
    assert list(all_entries()) == expected


def test_a_key_embedded_in_an_entry_is_read(machine: Path) -> None:
    key = archive_key().armoured.decode()
    folded = "".join(f"\n {line or '.'}" for line in key.strip().splitlines())
    (machine / "sources.list.d/x.sources").write_text(
        f"Types: deb\nURIs: {MIRROR}\nSuites: trixie\nComponents: main\nSigned-By:{folded}\n"
    )
    (found,) = all_entries()
    assert found.signed_by == (key.strip(),)


def test_files_that_apt_ignores_are_ignored(machine: Path) -> None:
    line = f"deb {MIRROR} trixie main\n"
    for name in ("a.list.disabled", "b.sources.save", "c.txt"):
        (machine / "sources.list.d" / name).write_text(line)
    (machine / "sources.list.d/folder.list").mkdir()
    (machine / "sources.list.d/z.list").write_text(line.replace("trixie", "z"))
    (machine / "sources.list.d/b.list").write_text(line.replace("trixie", "b"))
    (machine / "sources.list").write_text(line)
    assert [found.suite for found in all_entries()] == ["trixie", "b", "z"], "apt's order"


def test_a_machine_without_apt_has_no_source_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCENV_SYSROOT", str(tmp_path / "nowhere"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert all_entries() == ()
    assert apt_settings() == Settings()
    assert keyring_bytes("/usr/share/keyrings/debian-archive-keyring.gpg") is None


def test_a_distributions_mirrors_are_found(machine: Path) -> None:
    (machine / "sources.list").write_text(
        "deb http://one.example.org/debian bookworm main\n"
        "deb http://one.example.org/debian forky main\n"
        "deb http://security.example.org/debian bookworm-security main\n"
        "deb http://vendor.example.org/apt bookworm stable\n"
        "deb http://two.example.org/debian sid main\n"
    )
    found = entries_with(frozenset({"bookworm", "forky", "sid"}))
    assert [each.uri for each in found] == ["http://one.example.org/debian", "http://two.example.org/debian"]


@pytest.mark.parametrize(
    ("conf", "expected"),
    [
        ("", Settings()),
        ('Acquire::Check-Valid-Until "false";', Settings(check_valid_until=False)),
        ('Acquire { Check-Valid-Until "0"; };', Settings(check_valid_until=False)),
        ('Acquire::Check-Date "no";', Settings(check_valid_until=False, check_date=False)),
        ('Acquire::Check-Valid-Until "true";', Settings()),
        (
            'Acquire::http::Proxy "http://p.example.org:3142";',
            Settings(http_proxy="http://p.example.org:3142"),
        ),
        ('Acquire::http { Proxy "DIRECT"; };', Settings()),
    ],
)
def test_apt_settings_are_read_from_the_inspected_machine(
    machine: Path, conf: str, expected: Settings
) -> None:
    if shutil.which("apt-config") is None:
        cannot_run("apt-config is not installed")
    (machine / "apt.conf.d").mkdir()
    (machine / "apt.conf.d/50own").write_text(conf + "\n")
    assert apt_settings() == expected
