"""Find a set's packages in its repositories, on any mirror."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rocenv.core.errors import FetchError, NotAvailable
from rocenv.home import Home
from rocenv.net import Network
from rocenv.sources.apt.mirrors import Settings
from rocenv.system.machine import glibc_version
from tests.apt.test_signature import FORGER, SHA1_FINGERPRINT, SHA1_KEY
from tests.aptrepo import Key, Repo, archive_key, http_date
from tests.loopback import HTML, Fault, Loopback
from tests.mini import FUTURE_GLIBC
from tests.network import cannot_run
from tests.stores import change_sealed

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from tests.apt.conftest import Amd, Inside

IN_RELEASE = "/debian/dists/mini/InRelease"


def refused(inside: Inside, channel: str = "mini") -> FetchError:
    with pytest.raises(FetchError) as caught:
        inside.find(channel)
    return caught.value


def own_glibc() -> str:
    version = glibc_version()
    assert version is not None
    return f"{version[0]}.{version[1]}"


def test_a_set_uses_the_systems_c_library_if_possible(inside: Inside) -> None:
    found = inside.find()
    assert [artifact.name for artifact in found.artifacts] == ["mini5-blas", "mini5-hip"]
    assert (found.version, found.glibc, found.own_glibc) == ("5.7.1", "2.17", False)
    hip = found.artifacts[1]
    assert hip.url == f"{inside.mini.server.url}/debian/{hip.path}"
    content = (inside.mini.repo.folder / hip.path).read_bytes()
    assert (hip.repo, hip.version, hip.size_bytes) == ("mini", "5.7.1-1", len(content))


def test_a_set_that_needs_a_newer_c_library_includes_it(inside: Inside) -> None:
    found = inside.find(version="6.4.3")
    assert [artifact.name for artifact in found.artifacts] == ["libc6", "mini6-blas", "mini6-hip"]
    assert (found.glibc, found.own_glibc) == (FUTURE_GLIBC, True)


def test_an_equal_c_library_version_is_new_enough(inside: Inside) -> None:
    repo = inside.mini.repo
    repo.remove("mini5-blas")
    repo.add("mini5-blas", "5.7.2-1", depends=f"libc6 (>= {own_glibc()})")
    repo.publish()
    assert not inside.find().own_glibc


def test_the_closure_is_cached_while_the_index_is_unchanged(inside: Inside) -> None:
    first = inside.find()
    (answer,) = (inside.home.indices / "closures").iterdir()
    change_sealed(answer, inside.home, version="5.7.9")
    assert inside.find().version == "5.7.9", "the closure was not recomputed"
    answer.write_bytes(b"{")
    assert inside.find() == first
    inside.mini.repo.remove("mini5-blas")
    inside.mini.repo.add("mini5-blas", "5.7.1-2")
    inside.mini.repo.publish()
    assert inside.find().artifacts[0].version == "5.7.1-2"


def test_a_planted_closure_file_is_ignored_and_recomputed(inside: Inside) -> None:
    """The planted file lists forged packages and has the right name, which anyone can compute."""
    first = inside.find()
    (answer,) = (inside.home.indices / "closures").iterdir()
    whole = answer.read_bytes()
    forged = whole.replace(first.artifacts[0].sha256.encode(), b"6" * 64)
    for content in (forged, forged.partition(b"\n")[2]):
        answer.write_bytes(content)
        assert inside.find() == first
        assert answer.read_bytes() == whole


def test_offline_the_error_explains_an_index_cached_by_an_older_rocenv(inside: Inside) -> None:
    inside.find()
    (state,) = inside.home.indices.glob("*/state.json")
    state.write_bytes(state.read_bytes().partition(b"\n")[2])
    done = inside.mini.run("create", "demo", "--rocm", "5.7", "--offline")
    assert done.returncode == 1
    assert "was cached by an older rocenv" in printed(done)
    assert "run the command once without `--offline`" in printed(done)


@pytest.mark.parametrize("fields", [{"SHA256": ""}, {"SHA256": "../../../etc/passwd"}, {"Filename": ""}])
def test_a_package_without_a_hash_is_refused(inside: Inside, fields: dict[str, str]) -> None:
    inside.mini.repo.remove("mini5-hip")
    inside.mini.repo.add("mini5-hip", "5.7.1-2", fields=fields)
    inside.mini.repo.publish()
    with pytest.raises(NotAvailable, match=r"not contain a sha256 or file name for mini5-hip 5\.7\.1-2"):
        inside.find()


def test_a_package_missing_from_the_index_is_reported(inside: Inside) -> None:
    inside.mini.repo.remove("mini5-hip")
    inside.mini.repo.publish()
    with pytest.raises(NotAvailable, match="`mini5-hip`, required by the set itself, is not available"):
        inside.find()


# ---------------------------------------------------------------- mirrors


def test_the_error_about_a_missing_mirror_has_a_hint(inside: Inside) -> None:
    inside.write_sources("")
    error = refused(inside)
    assert error.code == "no-mirror"
    assert "set it as `mirrors.debian:`" in error.hints[0]


def test_the_users_mirror_comes_before_apts_mirrors(inside: Inside, tmp_path: Path) -> None:
    with Loopback(folder=inside.mini.root / "www") as other:
        inside.network = replace(inside.network, mirrors=(("debian:", (f"{other.url}/debian",)),))
        assert inside.find().artifacts[0].url.startswith(other.url)
        other.always("*", Fault(status=404))
        assert inside.find().artifacts[0].url.startswith(inside.mini.server.url), "apt's comes next"


def test_a_newly_configured_mirror_takes_effect_at_once(inside: Inside) -> None:
    """The user may be replacing a broken mirror."""
    inside.find()
    with Loopback(folder=inside.mini.root / "www") as other:
        inside.network = replace(inside.network, mirrors=(("debian:", (f"{other.url}/debian",)),))
        assert inside.find(max_age_s=3600).artifacts[0].url.startswith(other.url)


def test_the_second_mirror_is_used_if_the_first_fails(inside: Inside) -> None:
    url = inside.mini.server.url
    inside.write_sources(f"Types: deb\nURIs: {url}/gone {url}/debian\nSuites: mini\nComponents: main\n")
    found = inside.find()
    assert found.artifacts[0].url.startswith(f"{url}/debian/")
    assert inside.mini.server.seen("/gone/dists/mini/InRelease")[0].status == 404
    assert any("/gone/" in note and "404" in note for note in found.notes), "every fallback is reported"


@pytest.mark.parametrize("form", ["path", "inline", "fingerprint"])
def test_a_different_archive_with_the_same_suite_is_not_a_mirror(inside: Inside, form: str) -> None:
    """Many vendors use the distribution's suite names; their keys must not authenticate its packages."""
    vendor, url = Key.new("vendor"), inside.mini.server.url
    (inside.mini.sysroot / "usr/share/keyrings/vendor.gpg").write_bytes(vendor.keyring)
    inline = "".join(f"\n {line or '.'}" for line in vendor.armoured.decode().strip().splitlines())
    signed_by = {
        "path": "/usr/share/keyrings/vendor.gpg",
        "inline": inline,
        "fingerprint": vendor.fingerprint,
    }
    inside.write_sources(
        f"Types: deb\nURIs: {url}/vendor\nSuites: mini\nComponents: main\nSigned-By: {signed_by[form]}\n\n"
        f"Types: deb\nURIs: {url}/debian\nSuites: mini\nComponents: main\n"
    )
    assert inside.find().artifacts[0].url.startswith(f"{url}/debian/")
    assert inside.mini.server.seen("/vendor/dists/mini/InRelease") == []
    inside.mini.repo.publish(key=vendor)
    assert refused(inside).code == "signature"


@pytest.mark.parametrize("form", ["path", "inline", "fingerprint"])
def test_a_mirrors_apt_entry_can_specify_the_distributions_key_in_any_form(inside: Inside, form: str) -> None:
    (inside.mini.sysroot / "usr/share/keyrings/copy.gpg").write_bytes(archive_key().armoured)
    inline = "".join(f"\n {line or '.'}" for line in archive_key().armoured.decode().strip().splitlines())
    signed_by = {
        "path": "/usr/share/keyrings/copy.gpg",
        "inline": inline,
        "fingerprint": archive_key().fingerprint,
    }
    inside.write_sources(
        f"Types: deb\nURIs: {inside.mini.server.url}/debian\nSuites: mini\nComponents: main\n"
        f"Signed-By: {signed_by[form]}\n"
    )
    assert inside.find().artifacts


def test_a_missing_distribution_keyring_is_reported(inside: Inside) -> None:
    (inside.mini.sysroot / "usr/share/keyrings/mini.gpg").unlink()
    error = refused(inside)
    assert error.code == "signature"
    assert "install the keyring: /usr/share/keyrings/mini.gpg" in error.hints


def test_a_third_party_archive_with_the_suites_name_is_not_a_mirror(inside: Inside) -> None:
    """Browser archives, for example, often call their suite `stable` and do not use `Signed-By`."""
    (inside.mini.sysroot / "usr/share/keyrings/mini.gpg").unlink()
    url = inside.mini.server.url
    inside.write_sources(f"Types: deb\nURIs: {url}/vendor\nSuites: mini\nComponents: main\n")
    assert refused(inside).code == "no-mirror"
    assert inside.mini.server.seen("/vendor/dists/mini/InRelease") == []


def test_an_expired_index_is_used_with_a_note_if_apt_allows_it(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside.mini.repo.publish(fields={"Valid-Until": http_date(-86400)})
    assert refused(inside).code == "index-expired"
    monkeypatch.setattr("rocenv.sources.apt.apt_settings", lambda: Settings(check_valid_until=False))
    (note,) = inside.find().notes
    assert re.fullmatch(
        r"the index of mini expired on \d{4}-\d\d-\d\d, .*apt does not check the date either", note
    )
    inside.network = Network(offline=True)
    assert "rocenv is offline" in inside.find().notes[0]


# ---------------------------------------------------------------- an archive with AMD's layout


def test_amds_packages_get_their_dependencies_from_the_systems_distribution(amd: Amd) -> None:
    found = amd.find()
    assert [(artifact.name, artifact.repo) for artifact in found.artifacts] == [
        ("hip-runtime-amd", "amd"),
        ("libdrm2", "host"),
    ]
    assert found.artifacts[0].url.startswith(f"{amd.inside.mini.server.url}/rocm/apt/5.7.1/pool/")


def test_amds_key_is_fetched_once(amd: Amd) -> None:
    amd.find()
    amd.find()
    assert len(amd.inside.mini.server.seen(amd.key_path)) == 1


@pytest.mark.parametrize("content", [Key.new("evil").armoured, HTML, b""], ids=["other key", "page", "empty"])
def test_an_unexpected_key_is_refused(amd: Amd, content: bytes) -> None:
    amd.inside.mini.server.fail(amd.key_path, Fault(body=content))
    error = refused(amd.inside, "amd")
    assert error.code == "signature"
    assert amd.repo.key.fingerprint in error.message
    assert amd.find().artifacts, "a wrong key is not cached"


def test_only_the_pinned_key_is_trusted_in_a_downloaded_keyring(amd: Amd) -> None:
    evil = Key.new("evil")
    amd.serve_key(amd.repo.key.keyring + evil.keyring)
    assert amd.find().artifacts
    amd.repo.publish(key=evil)
    assert refused(amd.inside, "amd").code == "signature"


def test_an_unavailable_key_is_reported_once(amd: Amd) -> None:
    amd.inside.mini.server.always(amd.key_path, Fault(status=404))
    error = refused(amd.inside, "amd")
    assert error.code == "gone"
    assert error.message.count(amd.key_path) == 1, "each cause is reported once"


def test_a_mirror_of_amds_archive_is_used(amd: Amd) -> None:
    url = amd.inside.mini.server.url
    with Loopback(folder=amd.inside.mini.root / "www") as other:
        amd.inside.network = replace(amd.inside.network, mirrors=((f"{url}/rocm", (f"{other.url}/rocm",)),))
        found = amd.find()
        assert len(other.seen(amd.key_path)) == len(other.seen("/rocm/apt/5.7.1/dists/jammy/InRelease")) == 1
        assert found.artifacts[0].url.startswith(f"{url}/rocm/apt/5.7.1/"), "a lock works on any machine"


def test_amds_packages_resolve_if_apt_tracks_stable(amd: Amd) -> None:
    profile = amd.inside.mini.root / "profiles/amd.toml"
    host = 'base = "host:"\n'
    profile.write_text(profile.read_text().replace(host, f'{host}suites_known = ["stable"]\n'))
    amd.inside.write_sources(
        f"Types: deb\nURIs: {amd.inside.mini.server.url}/debian\nSuites: stable\nComponents: main\n"
    )
    assert [artifact.name for artifact in amd.find().artifacts] == ["hip-runtime-amd", "libdrm2"]


def test_amds_packages_require_debian_or_ubuntu(amd: Amd) -> None:
    (amd.inside.mini.sysroot / "etc/os-release").write_text('ID=fedora\nVERSION_CODENAME=""\n')
    error = refused(amd.inside, "amd")
    assert error.code == "no-mirror"
    assert "Debian or Ubuntu release" in error.message
    assert error.hints == (), "no mirror of AMD would help"


# ---------------------------------------------------------------- command line


def test_a_package_that_was_removed_from_the_pool_is_an_error(inside: Inside) -> None:
    mini = inside.mini
    mini.create("first")
    mini.repo.remove("mini5-blas")
    blas = mini.repo.add("mini5-blas", "5.7.1-2")
    (mini.repo.folder / blas.path).unlink()
    mini.repo.publish()
    done = mini.run("create", "second", "--rocm", "5.7", "--no-verify")
    assert done.returncode == 0, "the cached index still lists the cached package"
    for path in (mini.home / "cache/indices").glob("*/state.json"):
        change_sealed(path, Home(mini.home), checked_s=1)
    done = mini.run("create", "third", "--rocm", "5.7", "--no-verify")
    assert done.returncode == 1
    assert "mini5-blas 5.7.1-2" in done.stderr
    assert "404" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (mini.prefix("third")).exists()


def test_a_set_is_planned_again_if_the_mirror_replaced_a_package(inside: Inside) -> None:
    """The cached index is hours old and the mirror has changed, so rocenv plans again and says so."""
    mini = inside.mini
    assert mini.run("resolve", "--rocm", "5.7").returncode == 0
    mini.repo.remove("mini5-blas")
    mini.repo.add("mini5-blas", "5.7.1-2")
    mini.repo.publish()
    done = mini.create("demo")
    assert "the mirror has changed" in done.stderr
    assert "mini5-blas_5.7.1-2" in (mini.prefix("demo") / "rocenv.lock").read_text()


def test_indexes_and_packages_are_downloaded_through_apts_proxy(inside: Inside) -> None:
    """A proxy may be configured only in apt's settings."""
    if shutil.which("apt-config") is None:
        cannot_run("apt-config is not installed")
    mini = inside.mini
    folder = mini.sysroot / "etc/apt/apt.conf.d"
    folder.mkdir()
    (folder / "proxy").write_text(f'Acquire::http::Proxy "{mini.server.url}";\n')
    inside.write_sources("Types: deb\nURIs: http://mirror.invalid/debian\nSuites: mini\nComponents: main\n")
    mini.create("demo")
    packages = [seen for seen in mini.server.requests if seen.path.endswith(".deb")]
    assert len(packages) == 2
    assert all(seen.proxied for seen in packages)


def printed(done: subprocess.CompletedProcess[str]) -> str:
    """Return a command's output without line breaks."""
    return " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"Suite": "stable", "Codename": "trixie"}, "is the index for `stable` or `trixie`, not for `mini`"),
        ({"Date": http_date(7200)}, "but this machine's clock says"),
        ({"Date": ""}, "no valid `Date` field"),
    ],
)
def test_a_signed_index_for_a_different_suite_is_refused(
    inside: Inside, fields: dict[str, str], said: str
) -> None:
    mini = inside.mini
    mini.repo.publish(fields=fields)
    assert said in printed(mini.run("resolve", "--rocm", "5.7"))
    done = mini.run("create", "demo", "--rocm", "5.7", "--no-verify")
    assert done.returncode == 1
    assert said in printed(done)
    assert "Traceback" not in done.stderr
    assert not mini.prefix("demo").exists()


def test_an_old_signed_index_from_a_different_mirror_is_not_used(inside: Inside, tmp_path: Path) -> None:
    """Outdated mirrors serve old indexes, and so do attackers who want to reintroduce a vulnerability."""
    mini = inside.mini
    (old,) = (each for each in mini.repo.packages if each.name == "mini5-blas")
    with Loopback(folder=tmp_path / "old") as mirror:
        shutil.copytree(mini.root / "www", tmp_path / "old")
        mini.repo.remove("mini5-blas")
        mini.repo.add("mini5-blas", "5.7.1-2")
        mini.repo.publish()
        assert mini.run("resolve", "--rocm", "5.7").returncode == 0
        lagging = Repo(tmp_path / "old/debian", packages=[*mini.repo.packages[:-1], old])
        lagging.publish(fields={"Date": http_date(-86400)})
        assert mini.run("config", "set", "mirrors.debian:", f"{mirror.url}/debian").returncode == 0
        done = mini.run("resolve", "--rocm", "5.7")
        assert done.returncode == 0, done.stderr
        assert f"`{mirror.url}/debian/` offers the index of `mini` in `debian:` from " in printed(done)
        assert "rocenv keeps using the newer index" in printed(done)
        for path in (mini.home / "cache/indices").glob("mini-*/*"):
            if len(path.name) == 64:
                path.unlink()
        done = mini.run("create", "demo", "--rocm", "5.7", "--no-verify")
        assert done.returncode == 1
        assert "older than the index from" in printed(done)
        assert "to accept the older index, run `rocenv cache clear indices`" in printed(done)
        assert not mini.prefix("demo").exists()
        assert mini.run("cache", "clear", "indices").returncode == 0
        mini.create("demo")


@pytest.mark.parametrize("path", ["", ":{}", ".:{}"])
def test_a_gpgv_in_the_current_folder_is_not_used(amd: Amd, path: str) -> None:
    """A cloned project contains a `gpgv`, and PATH contains an empty entry."""
    mini = amd.inside.mini
    profile = mini.root / "profiles/amd.toml"
    profile.write_text(profile.read_text().replace(amd.repo.key.fingerprint, SHA1_FINGERPRINT))
    amd.serve_key(SHA1_KEY)
    for name in ("gpgv", "apt-config"):
        (mini.root / name).write_text(FORGER)
        (mini.root / name).chmod(0o755)
    path = path.format(os.environ["PATH"])
    done = mini.run("create", "demo", "--rocm", "5.7.1", "--channel", "amd", "--no-verify", PATH=path)
    assert done.returncode == 1
    assert "the signature of the index of `jammy`" in printed(done)
    assert not (mini.root / "asked").exists()
