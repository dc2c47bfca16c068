"""An index's chain of trust: key, `InRelease`, `Packages`, package."""

from __future__ import annotations

import hashlib
import json
import lzma
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from rocenv.core.codec import to_plain
from rocenv.core.errors import FetchError
from rocenv.net import Network
from rocenv.sources.apt.control import Lists, seconds_of
from rocenv.sources.apt.index import ListFile, Place, State, refresh
from rocenv.sources.apt.mirrors import Settings
from tests.aptrepo import Key, Repo, archive_key, http_date
from tests.loopback import HTML, Fault, Loopback

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

IN_RELEASE = "/debian/dists/mini/InRelease"
BINARY = "/debian/dists/mini/main/binary-amd64"


class World:
    """A mirror with one package, and a client with its cache folder."""

    def __init__(self, folder: Path, server: Loopback) -> None:
        self.server = server
        self.repo = Repo(folder / "www/debian")
        self.folder = folder / "kept"
        self.key = folder / "key"
        self.settings = Settings()
        self.network = Network(pause_s=0.01)
        self.place = Place(
            base=f"{server.url}/debian",
            suite="mini",
            components=("main",),
            keyrings=(archive_key().keyring,),
            fingerprints=(),
            remedy="install the keyring",
            other_mirror="set another mirror",
        )
        self.repo.add("a", "1")
        self.repo.publish()

    def refresh(self, max_age_s: float = 0) -> State:
        return refresh(
            self.place, self.folder, self.network, self.settings, max_age_s=max_age_s, key_file=self.key
        )

    def names(self, state: State) -> list[str]:
        """Return the versions of package `a` in an index."""
        return [package.version for package in self.lists(state).named("a")]

    def lists(self, state: State) -> Lists:
        return Lists("mini", [(self.folder / file.sha256, file.path) for file in state.files])

    def refused(self, code: str, max_age_s: float = 0) -> FetchError:
        with pytest.raises(FetchError) as caught:
            self.lists(self.refresh(max_age_s))
        assert caught.value.code == code, caught.value.message
        return caught.value

    def list_path(self, form: str = ".xz", *, by_hash: bool = True) -> str:
        content = self.repo.read(f"main/binary-amd64/Packages{form}")
        if by_hash:
            return f"{BINARY}/by-hash/SHA256/{hashlib.sha256(content).hexdigest()}"
        return f"{BINARY}/Packages{form}"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Loopback(folder=tmp_path / "www") as server:
        yield World(tmp_path, server)


# ---------------------------------------------------------------- downloading and caching


@pytest.mark.parametrize("forms", [(".xz", ".gz"), (".gz",), ("", ".gz"), ("",)])
@pytest.mark.parametrize("by_hash", [True, False])
def test_lists_are_read_in_every_compression_format(
    world: World, forms: tuple[str, ...], by_hash: bool
) -> None:
    world.repo.publish(forms=forms, by_hash=by_hash)
    state = world.refresh()
    assert world.names(state) == ["1"]
    assert state.base == f"{world.server.url}/debian/"
    assert len(world.server.requests) == 2, "only the smallest format is downloaded"


def test_a_fresh_index_is_used_without_a_request(world: World) -> None:
    state = world.refresh()
    world.server.always("*", Fault(status=500))
    assert world.refresh(max_age_s=60) == state


def test_checking_an_unchanged_index_takes_one_small_request(world: World) -> None:
    first = world.refresh()
    sent = world.server.sent_bytes(IN_RELEASE)
    second = world.refresh()
    assert second == structs.replace(first, checked_s=second.checked_s)
    assert second.checked_s > first.checked_s, "the index is fresh again"
    assert [request.status for request in world.server.seen(IN_RELEASE)] == [200, 304]
    assert world.server.sent_bytes(IN_RELEASE) == sent


def test_a_changed_index_replaces_the_old_one(world: World) -> None:
    world.refresh()
    world.repo.add("a", "2")
    world.repo.publish()
    state = world.refresh()
    assert world.names(state) == ["1", "2"]
    kept = {path.name for path in world.folder.iterdir() if path.name != "InRelease"}
    assert kept == {"state.json", *(file.sha256 for file in state.files)}, "old lists are dropped"


def test_by_hash_requests_succeed_during_a_mirror_update(world: World) -> None:
    """The mirror is updated after `InRelease` is read, but still has the old list under its hash."""
    signed = world.repo.read("InRelease")
    world.repo.add("a", "2")
    world.repo.publish()
    world.server.fail(IN_RELEASE, Fault(body=signed))
    assert world.names(world.refresh()) == ["1"]
    assert world.names(world.refresh()) == ["1", "2"]


def test_a_mirror_update_between_two_requests_is_detected_without_by_hash(world: World) -> None:
    world.repo.publish(by_hash=False)
    signed = world.repo.read("InRelease")
    world.repo.add("a", "2")
    world.repo.publish(by_hash=False)
    world.server.fail(IN_RELEASE, Fault(body=signed))
    error = world.refused("hash-mismatch")
    assert "try again" in error.hints[0]
    assert world.names(world.refresh()) == ["1", "2"], "the wrong list was not cached"


def test_a_mirror_without_its_promised_by_hash_files_still_works(world: World) -> None:
    world.server.always(world.list_path(), Fault(status=404))
    assert world.names(world.refresh()) == ["1"]


# ---------------------------------------------------------------- rejected files


@pytest.mark.parametrize(
    "fault",
    [Fault(body=HTML), Fault(body=b""), Fault(body=lzma.compress(b"Package: evil\nVersion: 1\n"))],
    ids=["sign-in page", "empty", "another list"],
)
def test_a_list_with_the_wrong_hash_is_refused(world: World, fault: Fault) -> None:
    world.server.always(world.list_path(), fault)
    error = world.refused("hash-mismatch")
    assert world.list_path() in error.message
    assert {path.name for path in world.folder.iterdir()} == set(), "the list is not cached"


def test_a_truncated_list_is_refused(world: World) -> None:
    content = world.repo.read("main/binary-amd64/Packages.xz")
    world.server.always(world.list_path(), Fault(body=content[: len(content) // 2]))
    error = world.refused("hash-mismatch")
    assert f"truncated or a different file: {len(content) // 2} of {len(content)} bytes" in error.message
    world.server.always(world.list_path(), Fault(cut_after=0))
    world.refused("unreachable")


def test_a_download_that_keeps_breaking_fails(world: World) -> None:
    world.server.always(world.list_path(), Fault(cut_after=20))
    world.refresh()


@pytest.mark.parametrize("body", [HTML, b"", b"Suite: mini\n"])
def test_a_web_page_instead_of_the_index_is_refused(world: World, body: bytes) -> None:
    world.server.always(IN_RELEASE, Fault(body=body))
    error = world.refused("signature")
    assert "install the keyring" in error.hints


def test_a_tampered_index_is_refused(world: World) -> None:
    world.refresh()
    evil = world.repo.read("InRelease").replace(b"Packages.xz", b"Packages.zz")
    world.repo.write("InRelease", evil)
    world.refused("signature")
    assert world.names(world.refresh(max_age_s=60)) == ["1"], "the valid index still exists"


def test_an_index_signed_by_a_different_key_is_refused(world: World) -> None:
    world.repo.publish(key=Key.new("stranger"))
    world.refused("signature")


def test_a_list_missing_from_the_index_is_reported(world: World) -> None:
    world.place = replace(world.place, components=("main", "rocm"))
    error = world.refused("index-damaged")
    assert "rocm/binary-amd64/Packages" in error.message


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"Valid-Until": "tomorrow"}, "no valid `Valid-Until` field"),
        ({"SHA256": "\n 00 many main/binary-amd64/Packages.xz"}, "Packages"),
        ({"SHA256": f"\n {'0' * 64} {'9' * 5000} main/binary-amd64/Packages.xz"}, "Packages"),
        ({"SHA256": "\n ../../../etc/passwd 5 main/binary-amd64/Packages.xz"}, "Packages"),
        ({"SHA256": f"\n {'0' * 300} 5 main/binary-amd64/Packages.xz"}, "Packages"),
    ],
)
def test_an_invalid_signed_index_is_refused(world: World, fields: dict[str, str], said: str) -> None:
    world.repo.publish(fields=fields)
    assert said in world.refused("index-damaged").message


@pytest.mark.parametrize(
    "content",
    [
        b"Package: a\nVersion: 1\nSize: huge\n",
        b"Package: a\nDepends: b\n",
        b"Package: a\nVersion: 1\nDepends: )\n",
    ],
)
def test_an_invalid_signed_list_is_refused(world: World, content: bytes) -> None:
    path = world.folder / hashlib.sha256(content).hexdigest()
    world.folder.mkdir()
    path.write_bytes(content)
    with pytest.raises(FetchError, match="the index of `mini` is damaged"):
        Lists("mini", [(path, "main/binary-amd64/Packages")]).named("a")


# ---------------------------------------------------------------- expired indexes


def test_an_expired_index_is_refused(world: World) -> None:
    limit = http_date(-3600)
    world.repo.publish(fields={"Valid-Until": limit})
    error = world.refused("index-expired")
    day = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds_of(limit)))
    assert f" expired on {day}; this machine's clock says {time.gmtime().tm_year}-" in error.message
    assert "timedatectl" in error.hints[0]
    assert world.place.other_mirror in error.hints[1]


def test_a_still_valid_index_is_accepted(world: World) -> None:
    world.repo.publish(fields={"Valid-Until": http_date(3600)})
    assert not world.refresh().has_expired


def test_an_expired_index_is_accepted_if_apt_accepts_it(world: World) -> None:
    world.repo.publish(fields={"Valid-Until": http_date(-3600)})
    world.settings = Settings(check_valid_until=False)
    assert world.refresh().has_expired


def test_apt_can_accept_expired_indexes_from_a_single_mirror(world: World) -> None:
    world.repo.publish(fields={"Valid-Until": http_date(-3600)})
    world.place = replace(world.place, dateless=("http://other.example.org/debian/",))
    world.refused("index-expired")
    world.place = replace(world.place, dateless=(f"{world.server.url}/debian/",))
    assert world.names(world.refresh()) == ["1"]


def test_a_stale_mirror_cannot_return_not_modified_forever(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.repo.publish(fields={"Valid-Until": http_date(600)})
    assert world.refresh().valid_until_s > 0
    later = time.time() + 1200
    monkeypatch.setattr(time, "time", lambda: later)
    world.refused("index-expired")
    world.refused("index-expired", max_age_s=3600)
    assert world.server.seen(IN_RELEASE)[-1].status == 304


# ---------------------------------------------------------------- suites and dates


@pytest.mark.parametrize(
    "fields",
    [
        {"Suite": "stable", "Codename": "mini"},
        {"Suite": "mini", "Codename": "rc-buggy"},
        {"Suite": "mini", "Codename": ""},
        {"Suite": "", "Codename": "mini"},
    ],
)
def test_an_index_can_use_either_name_for_its_suite(world: World, fields: dict[str, str]) -> None:
    """Debian's `trixie` is also the `stable` suite; AMD uses the same value for both fields."""
    world.repo.publish(fields=fields)
    assert world.names(world.refresh()) == ["1"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"Suite": "stable", "Codename": "trixie"}, "`stable` or `trixie`"),
        ({"Suite": "mini-security", "Codename": "mini-security"}, "`mini-security`"),
        ({"Suite": "mini-updates", "Codename": "MINI"}, "`MINI`"),
        ({"Suite": "", "Codename": ""}, "an unnamed suite"),
    ],
)
def test_an_index_for_a_different_suite_is_refused(world: World, fields: dict[str, str], said: str) -> None:
    """One key signs all suites, so a valid signature does not rule out a different suite."""
    world.refresh()
    world.repo.publish(fields=fields)
    error = world.refused("index-suite")
    assert said in error.message and "not for `mini`" in error.message
    assert IN_RELEASE in error.message
    assert world.place.other_mirror in error.hints
    assert world.names(world.refresh(max_age_s=60)) == ["1"], "the cached index still exists"


def test_a_nested_suite_can_have_its_parent_suites_name(tmp_path: Path, world: World) -> None:
    """Debian's `buster/updates` is an example."""
    world.place = replace(world.place, suite="mini/updates")
    repo = Repo(tmp_path / "www/debian", suite="mini/updates")
    repo.add("a", "3")
    repo.publish(fields={"Suite": "oldstable", "Codename": "mini"})
    assert world.names(world.refresh()) == ["3"]
    world.place = replace(world.place, suite="updates/mini")
    Repo(tmp_path / "www/debian", suite="updates/mini").publish(fields={"Suite": "mini", "Codename": "mini"})
    world.refused("index-suite")


def test_a_future_dated_index_is_refused(world: World) -> None:
    world.repo.publish(fields={"Date": http_date(3600)})
    error = world.refused("index-future")
    assert "but this machine's clock says" in error.message
    assert "timedatectl" in error.hints[0]
    assert {path.name for path in world.folder.iterdir()} == set(), "its date was not recorded as the newest"
    world.repo.publish(fields={"Date": http_date(600)})
    assert world.names(world.refresh()) == ["1"], "clocks always differ slightly"


def test_a_future_dated_index_is_accepted_if_apt_accepts_it(world: World) -> None:
    world.repo.publish(fields={"Date": http_date(3600)})
    world.place = replace(world.place, undated=("http://other.example.org/debian/",))
    world.refused("index-future")
    settings, world.settings = world.settings, Settings(check_date=False, check_valid_until=False)
    assert world.names(world.refresh()) == ["1"]
    world.settings = settings
    world.place = replace(world.place, undated=(f"{world.server.url}/debian/",))
    assert world.names(world.refresh()) == ["1"]


@pytest.mark.parametrize(
    "date", ["", "today", "Mon, 99 Foo 2026 00:00:00 UTC", "Sat, 01 Jan 10000 00:00:00 UTC"]
)
def test_an_index_without_a_date_is_rejected(world: World, date: str) -> None:
    world.repo.publish(fields={"Date": date})
    assert "Date" in world.refused("index-damaged").message


def published(world: World, version: str, seconds: float, **fields: str) -> None:
    """Serve an index with this date and one version of `a`."""
    world.repo.remove("a")
    world.repo.add("a", version)
    world.repo.publish(fields={"Date": http_date(seconds), **fields})


def test_a_newer_cached_index_is_used_instead_of_the_mirrors_older_one(world: World) -> None:
    published(world, "2", -3600)
    newer = world.refresh()
    published(world, "1", -86400)
    for _ in range(2):
        state = world.refresh()
        assert world.names(state) == ["2"]
        assert state.date_s == newer.date_s
        assert "older than the index from" in state.older
    assert "older than the index from" in world.refresh(max_age_s=60).older, "even while it is fresh"
    published(world, "3", -60)
    state = world.refresh()
    assert (world.names(state), state.older) == (["3"], "")


def test_an_index_with_the_date_of_the_cached_one_is_accepted(world: World) -> None:
    date = http_date(-60)
    world.repo.publish(fields={"Date": date})
    world.refresh()
    world.repo.add("a", "2")
    world.repo.publish(fields={"Date": date})
    assert world.names(world.refresh()) == ["1", "2"]


def test_the_mirrors_expired_index_does_not_replace_the_valid_cached_one(world: World) -> None:
    published(world, "2", -60)
    world.refresh()
    published(world, "1", -86400, **{"Valid-Until": http_date(-3600)})
    assert world.names(world.refresh()) == ["2"]


def test_a_newer_cached_index_is_not_used_after_it_expires(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(world, "2", -60, **{"Valid-Until": http_date(600)})
    world.refresh()
    published(world, "1", -86400)
    later = time.time() + 1200
    monkeypatch.setattr(time, "time", lambda: later)
    world.refused("index-expired")


def test_an_index_older_than_a_deleted_cached_one_is_rejected(world: World) -> None:
    published(world, "2", -3600)
    (newest,) = world.refresh().files
    (world.folder / newest.sha256).unlink()
    published(world, "1", -86400)
    error = world.refused("index-older")
    assert "older than the index from" in error.message
    assert any("`rocenv cache clear indices`" in hint for hint in error.hints)
    world.refused("index-older")
    published(world, "3", -60)
    assert world.names(world.refresh()) == ["3"]


def test_an_index_older_than_the_cached_one_is_rejected_from_any_mirror(world: World) -> None:
    published(world, "2", -3600)
    world.place = replace(world.place, mirrors=("http://one.example.org/debian/dists/",))
    world.refresh()
    world.place = replace(world.place, mirrors=("http://two.example.org/debian/dists/",))
    published(world, "1", -86400)
    state = world.refresh(max_age_s=3600)
    assert world.names(state) == ["2"]
    assert state.mirrors == world.place.mirrors, "packages come from the current mirror"


def test_an_old_index_is_accepted_for_an_old_release(world: World) -> None:
    """AMD has never re-signed ROCm 5.7."""
    published(world, "1", -900 * 86400.0)
    assert world.names(world.refresh()) == ["1"]


def test_an_old_index_is_refused_for_a_rolling_suite(world: World) -> None:
    world.place = replace(world.place, max_age_s=14 * 86400.0)
    published(world, "1", -13 * 86400.0)
    assert world.names(world.refresh()) == ["1"]
    world.place = replace(world.place, max_age_s=12 * 86400.0)
    published(world, "1", -12.5 * 86400, **{"Valid-Until": http_date(3600)})
    world.refused("index-expired")
    world.settings = Settings(check_valid_until=False)
    assert world.refresh().has_expired


def test_an_oversized_index_is_not_read_completely(world: World) -> None:
    world.server.always(IN_RELEASE, Fault(body=world.repo.read("InRelease") + b"x" * (2 << 20)))
    error = world.refused("too-large")
    assert IN_RELEASE in error.message


# ---------------------------------------------------------------- offline use and damaged files


def test_offline_the_cached_index_is_used_regardless_of_its_age(world: World) -> None:
    state = world.refresh()
    world.network = Network(offline=True)
    before = len(world.server.requests)
    assert world.refresh(max_age_s=0) == state
    assert len(world.server.requests) == before


def test_offline_without_an_index_is_an_error(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCENV_OFFLINE", "1")
    error = world.refused("offline")
    assert IN_RELEASE in error.message
    assert "unset ROCENV_OFFLINE" in error.hints
    assert world.server.requests == []


@pytest.mark.parametrize("damage", ["cut", "changed", "gone"])
def test_a_damaged_cached_list_is_downloaded_again(world: World, damage: str) -> None:
    state = world.refresh()
    path = world.folder / state.files[0].sha256
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(content[:20] if damage == "cut" else content[:-1] + b"\x00")
        error = world.refused("index-damaged", max_age_s=60)
        assert "run the command again" in error.hints[0]
    assert world.names(world.refresh(max_age_s=60)) == ["1"]


@pytest.mark.parametrize("state", [b"", b"{", b"[]", b'{"base": 1}', b'{"files": []}', b"\xff"])
def test_a_damaged_state_file_is_ignored(world: World, state: bytes) -> None:
    world.refresh()
    (world.folder / "state.json").write_bytes(state)
    assert world.names(world.refresh(max_age_s=60)) == ["1"]


def test_a_planted_state_file_is_ignored(world: World) -> None:
    """The planted state file lists an unsigned file, which is stored under the right hash."""
    signed = world.refresh()
    forged = b"Package: a\nVersion: 666\nFilename: a.deb\nSHA256: " + b"6" * 64 + b"\n"
    sha256 = hashlib.sha256(forged).hexdigest()
    (world.folder / sha256).write_bytes(forged)
    file = ListFile(path="main/binary-amd64/Packages", sha256=sha256, size_bytes=len(forged))
    plain = json.dumps(to_plain(structs.replace(signed, files=(file,)))).encode()
    state = world.folder / "state.json"
    seal = state.read_bytes().partition(b"\n")[0]
    for content in (plain, seal + b"\n" + plain):
        state.write_bytes(content)
        assert world.names(world.refresh(max_age_s=60)) == ["1"]


def test_a_list_that_another_process_just_replaced_is_an_error(world: World) -> None:
    state = world.refresh()
    (world.folder / state.files[0].sha256).unlink()
    with pytest.raises(FetchError, match="cannot read the cached index") as caught:
        world.lists(state)
    assert "run the command again" in caught.value.hints[0]


# ---------------------------------------------------------------- package lookup


def test_packages_are_found_by_name_and_provided_name(world: World) -> None:
    world.repo.add("b", "1", provides="a (= 7), mail-agent")
    world.repo.add("a", "2", depends="x", description="first\n Package: c\n Provides: mail-agent")
    world.repo.add("ab", "1", provides="z")
    world.repo.publish()
    lists = world.lists(world.refresh())
    assert [package.version for package in lists.named("a")] == ["1", "2"]
    assert [str(package) for package in lists.providing("a")] == ["b 1"]
    assert [str(package) for package in lists.providing("mail-agent")] == ["b 1"]
    assert lists.named("c") == []
    assert lists.named("A") == []


def test_an_empty_package_list_is_valid(world: World) -> None:
    world.repo.remove("a")
    world.repo.publish()
    assert world.lists(world.refresh()).named("a") == []
