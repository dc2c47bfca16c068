"""Run uv to resolve and install wheels, and to find and download Python interpreters.

uv runs as a child process, without user settings that could change what it selects.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocenv.core.errors import FetchError, PrefixError, RocenvError
from rocenv.core.logins import shown
from rocenv.core.model import Artifact
from rocenv.core.packages import wheel_file_name
from rocenv.sources.encryption import require_encrypted
from rocenv.sources.interpreter import ranking
from rocenv.sources.uv_outcome import Outcome
from rocenv.system.private import make_closed
from rocenv.system.process import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rocenv.context import Context
    from rocenv.sources.interpreter import Interpreter

# An unreachable proxy for http, because uv would otherwise follow links from https to http.
_NOWHERE = "http://127.0.0.1:0"
_LOG = "off,uv_client=debug"  # uv logs each request and redirect; `Outcome` looks for unencrypted ones
# Marks uv's cache while uv may store pages from unencrypted URLs; the mark remains if rocenv is killed.
_UNCHECKED = ".unchecked-"
_OUTPUT_LIMIT_BYTES = 64 << 20  # torch's lock is about 100 kB
# Variables that could affect package selection, the interpreter, or certificate verification.
_DROPPED = re.compile(r"(UV_|PIP_|PYTHON|CONDA_).*|VIRTUAL_ENV|__PYVENV_LAUNCHER__|GIT_SSL_NO_VERIFY")
# Exceptions: variables that only control how uv reaches servers and where interpreters come from.
_KEPT = frozenset(
    {
        "UV_HTTP_CONNECT_TIMEOUT",
        "UV_HTTP_RETRIES",
        "UV_HTTP_TIMEOUT",
        "UV_NATIVE_TLS",
        "UV_PYTHON_CACHE_DIR",
        "UV_PYTHON_DOWNLOADS_JSON_URL",
        "UV_PYTHON_INSTALL_MIRROR",
        "UV_SYSTEM_CERTS",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Uv:
    """How to run uv.

    Attributes:
        cache: uv's cache; uv links its files into venvs.
        pythons: The folder for interpreters that uv downloads.
        environ: The environment variables that uv's are based on.
        offline: Whether connections are forbidden.
        report: Receives a line for each download, and for each deviation from the request.
    """

    cache: Path
    pythons: Path
    environ: Mapping[str, str]
    offline: bool
    report: Callable[[str], None]

    @classmethod
    def for_context(cls, context: Context) -> Uv:
        """Configure uv with a command's folders and network settings."""
        return cls(
            cache=context.home.uv_cache,
            pythons=context.home.pythons,
            environ=os.environ,
            offline=context.network.is_offline,
            report=context.note,
        )

    @property
    def may_fetch_python(self) -> bool:
        """Whether uv is allowed to download an interpreter, which the user's uv settings can forbid."""
        return not self.offline and self.environ.get("UV_PYTHON_DOWNLOADS") not in ("never", "manual")

    def resolve(
        self, requirements: Sequence[str], *, index_url: str, python: Interpreter, dependencies: bool = True
    ) -> tuple[Artifact, ...]:
        """Select wheels from one index and return them sorted by name, each with its sha256.

        If the index does not publish the hash of a wheel, uv downloads the wheel once to compute it. Offline,
        uv uses its cached copy of the index.

        Args:
            requirements: PEP 508, such as `torch==2.5.*`.
            index_url: The only index to use, or "" for uv's default.
            python: The interpreter that the wheels must support.
            dependencies: Whether to include dependencies.

        Raises:
            ResolutionImpossible: The index cannot satisfy the requirements for this interpreter.
            FetchError: The index is unreachable, or a wheel has no hash.
        """
        import tomlkit

        with tempfile.TemporaryDirectory(prefix="rocenv-") as folder:
            wanted = Path(folder) / "requirements.in"
            wanted.write_text("".join(f"{line}\n" for line in requirements), encoding="utf-8")
            outcome = self._ask(
                *("pip", "compile", str(wanted), "--format=pylock.toml", "--only-binary=:all:"),
                *([] if dependencies else ["--no-deps"]),
                f"--python={python.path}",
                index_url=index_url,
            )
        if outcome.code:
            raise outcome.resolution_error(requirements, index_url, python.series, offline=self.offline)
        rank = ranking(python)
        packages = tomlkit.parse(outcome.stdout).unwrap().get("packages", [])
        found = tuple(_artifact(package, rank) for package in packages)  # uv sorts by name
        require_encrypted((each.url for each in found), self.environ, "a wheel")
        return found

    def select(
        self,
        requirements: Sequence[str],
        *,
        index_url: str,
        python: Interpreter,
        page: str = "",
        excluded: Sequence[str] = (),
    ) -> dict[str, str]:
        """Select versions without downloading wheels: project -> version.

        Args:
            requirements: PEP 508. Unknown extras are ignored.
            index_url: The only index to use, or "" for uv's default.
            python: The interpreter that the wheels must support.
            page: The URL of a page with links to more files.
            excluded: Projects to ignore as dependencies.

        Raises:
            ResolutionImpossible: The index cannot satisfy the requirements for this interpreter.
            FetchError: The index is unreachable.
        """
        with tempfile.TemporaryDirectory(prefix="rocenv-") as folder:
            wanted, left_out = Path(folder) / "requirements.in", Path(folder) / "excluded.txt"
            wanted.write_text("".join(f"{line}\n" for line in requirements), encoding="utf-8")
            left_out.write_text("".join(f"{name}\n" for name in excluded), encoding="utf-8")
            outcome = self._ask(
                *("pip", "compile", str(wanted), "--no-header", "--no-annotate", "--only-binary=:all:"),
                *(f"--excludes={left_out}", f"--python={python.path}"),
                index_url=index_url,
                page=page,
            )
        if outcome.code:
            place = page or index_url
            raise outcome.resolution_error(requirements, place, python.series, offline=self.offline)
        lines = (line.partition(";")[0].strip() for line in outcome.stdout.splitlines())
        pins = (line.partition("==") for line in lines if "==" in line)
        return {name.partition("[")[0]: version for name, _, version in pins}

    def listed(self, pins: Sequence[str], *, index_url: str, series: str) -> dict[tuple[str, str, str], str]:
        """List the URLs of all wheels for pins (`project==version`) in an index, for any machine.

        The keys are normalized name, version, and sha256; wheels without a hash are omitted.

        Raises:
            ResolutionImpossible: The index lacks one of the pins for Python `series`.
            FetchError: The index is unreachable.
        """
        import tomlkit

        with tempfile.TemporaryDirectory(prefix="rocenv-") as folder:
            wanted = Path(folder) / "requirements.in"
            wanted.write_text("".join(f"{line}\n" for line in pins), encoding="utf-8")
            outcome = self._ask(
                *("pip", "compile", str(wanted), "--format=pylock.toml", "--only-binary=:all:", "--no-deps"),
                *("--universal", f"--python-version={series}", f"--python={sys.executable}"),
                index_url=index_url,
            )
        if outcome.code:
            raise outcome.resolution_error(pins, index_url, series, offline=self.offline)
        found = {
            (package["name"], package.get("version", ""), wheel.get("hashes", {}).get("sha256", "")): shown(
                wheel["url"].partition("#")[0]
            )
            for package in tomlkit.parse(outcome.stdout).unwrap().get("packages", [])
            for wheel in package.get("wheels", [])
        }
        require_encrypted(found.values(), self.environ, "a wheel")
        return {key: url for key, url in found.items() if key[2]}

    def _ask(self, *arguments: str, index_url: str, page: str = "") -> Outcome:
        """Run uv with an index or a page of links; see `run`.

        Raises:
            FetchError: The index, or a URL that it links to, is not encrypted.
        """
        if not self.offline:
            require_encrypted((index_url, page), self.environ, "the index")
        plain_http = any(address.startswith("http:") for address in (index_url, page))
        if any(self.cache.glob(f"{_UNCHECKED}*")):
            self._discard_cache()
        mark = self.cache / f"{_UNCHECKED}{os.getpid()}"
        if not self.offline and not plain_http and self._has_exceptions():
            with contextlib.suppress(OSError):  # uv reports an unwritable cache
                make_closed(self.cache)
                mark.touch()
        outcome = self.run(*arguments, index_url=index_url, page=page, plain_http=plain_http, retries="0")
        if outcome.may_succeed_later and (plain_http or not outcome.unencrypted):
            outcome = self.run(*arguments, index_url=index_url, page=page, plain_http=plain_http)
        if mark.exists() and outcome.unencrypted:
            self._discard_cache()
        outcome.require_protected(page or index_url, self.environ, plain_http=plain_http)
        with contextlib.suppress(OSError):
            mark.unlink()
        return outcome

    def _discard_cache(self) -> None:
        """Clear uv's cache, which may contain a page from an unencrypted URL, stored under the index's URL.

        If that fails, the `.unchecked-` marks stay, and the next call tries again.
        """
        self.run("cache", "clean", offline=True)

    def _has_exceptions(self) -> bool:
        """Whether NO_PROXY lets uv reach some hosts without a proxy, and therefore without `_NOWHERE`."""
        return any(name.upper() == "NO_PROXY" for name in self._environ(plain_http=False))

    def make_venv(self, venv: Path, python: Interpreter) -> None:
        """Create a venv in a new folder; raise PrefixError if that fails."""
        outcome = self.run("venv", "--no-project", "--relocatable", f"--python={python.path}", str(venv))
        _close_lock(venv)
        if outcome.code:
            raise PrefixError(f"cannot create the venv `{venv}`: {outcome.reason}", code="venv")

    def install(
        self, venv: Path, pins: Iterable[str], places: Iterable[Path], anew: Sequence[str] = ()
    ) -> None:
        """Install exactly these wheels offline, in a way that allows the venv to be renamed later.

        Args:
            venv: The venv to install into.
            pins: `project==version --hash=sha256:...` for each wheel; uv checks the hashes.
            places: The folders that contain the wheels.
            anew: Projects to unpack afresh instead of using the cache, where uv identifies unpacked wheels by
                path and modification time.

        Raises:
            ArchiveError: A wheel is damaged.
            PrefixError: The wheels are not compatible with the interpreter, or the venv is not writable.
        """
        if anew:
            self.run("cache", "clean", *anew, offline=True).require_installed()
        with tempfile.TemporaryDirectory(prefix="rocenv-") as folder:
            requirements = Path(folder) / "requirements.txt"
            requirements.write_text("".join(f"{pin}\n" for pin in pins), encoding="utf-8")
            outcome = self.run(
                *("pip", "install", "--no-index", "--no-deps", "--only-binary=:all:", "--require-hashes"),
                # A reflink if the filesystem supports it, otherwise a hard link or a copy.
                *("--link-mode=clone", f"--python={venv}", f"--requirements={requirements}"),
                *(f"--find-links={place.as_uri()}" for place in places),
                *(f"--reinstall-package={project}" for project in anew),
                offline=True,
            )
        _close_lock(venv)
        outcome.require_installed()

    def run(
        self,
        *arguments: str,
        offline: bool = False,
        index_url: str = "",
        page: str = "",
        plain_http: bool = False,
        retries: str = "",
    ) -> Outcome:
        """Run uv and return its outcome; the caller checks the exit code.

        Args:
            arguments: The uv command.
            offline: Whether connections are forbidden.
            index_url: The only index to use, or "" for uv's default. It may contain a password, so it is not
                passed on the command line, which all users of the machine can read.
            page: The URL of a page with links to more files, also not passed on the command line.
            plain_http: Whether unencrypted connections are allowed.
            retries: How many times uv retries a failed request, or "" for the user's setting or uv's default.
        """
        argv = [_binary(), "--no-config", "--no-progress", "--color=never", f"--cache-dir={self.cache}"]
        if offline or self.offline:
            argv.append("--offline")
        argv += arguments
        if not self.cache.is_dir():
            with contextlib.suppress(OSError):  # uv reports the error
                make_closed(self.cache)
        own = {"UV_DEFAULT_INDEX": index_url, "UV_FIND_LINKS": page.replace(",", "%2C")}
        own |= {"UV_HTTP_RETRIES": retries}
        environ = self._environ(plain_http=plain_http)
        environ |= {name: value for name, value in own.items() if value}
        done = run(argv, environ=environ, limit_bytes=_OUTPUT_LIMIT_BYTES, on_line=self._report_download)
        if done.code is None:
            raise _unusable(f"uv did not run: {done.problem}")
        return Outcome(code=done.code, stdout=done.text, stderr=done.error_text)

    def _report_download(self, line: str) -> None:
        if line.startswith("Downloading "):
            self.report(line.strip())

    def _environ(self, *, plain_http: bool) -> dict[str, str]:
        environ = {
            name: value
            for name, value in self.environ.items()
            if name in _KEPT or not _DROPPED.fullmatch(name)
        }
        environ |= {"UV_PYTHON_DOWNLOADS": "manual", "UV_PYTHON_INSTALL_DIR": str(self.pythons)}
        environ |= {"UV_NO_WRAP": "1", "RUST_LOG": _LOG}  # `Outcome` parses lines
        if bundle := environ.get("REQUESTS_CA_BUNDLE"):
            # Trust the same certificates as rocenv's own connections.
            environ.setdefault("SSL_CERT_FILE", bundle)
        return environ if plain_http else _without_plain_http(environ)


def _without_plain_http(environ: Mapping[str, str]) -> dict[str, str]:
    """Change environment variables so that uv cannot follow a link or redirect to an unencrypted URL.

    Behind an https proxy, uv still reaches the hosts in `NO_PROXY` directly, so `_ask` checks uv's log.
    """
    kept = {name: value for name, value in environ.items() if name.upper() != "HTTP_PROXY"}
    if not {"HTTPS_PROXY", "ALL_PROXY"} & {name.upper() for name, value in kept.items() if value}:
        # Without an https proxy, NO_PROXY would only bypass the unreachable http proxy.
        kept = {name: value for name, value in kept.items() if name.upper() != "NO_PROXY"}
    return kept | {"http_proxy": _NOWHERE}


def _artifact(package: dict[str, Any], rank: Callable[[str], int | None]) -> Artifact:
    """Select a package's best wheel from uv's lock, which lists all compatible ones."""
    name, version = package["name"], package.get("version", "")
    wheels = package.get("wheels", [])
    if not wheels:
        raise FetchError(f"the index has no {name} {version} wheel")
    # uv also lists compatible wheels with tags that `packaging` does not support.
    ranks = [rank(wheel_file_name(wheel["url"])) for wheel in wheels]
    wheel = wheels[min(range(len(wheels)), key=lambda at: (ranks[at] is None, ranks[at]))]
    sha256 = wheel.get("hashes", {}).get("sha256", "")
    if not sha256:
        raise FetchError(f"the index does not publish a sha256 for {shown(wheel['url'])}")
    return Artifact(
        kind="wheel",
        name=name,
        version=version,
        url=shown(wheel["url"].partition("#")[0]),
        sha256=sha256,
        size_bytes=wheel.get("size", 0),
    )


def _close_lock(folder: Path) -> None:
    """Restrict access to uv's lock file in a folder; uv ignores the umask and gives everyone access."""
    with contextlib.suppress(OSError):
        (folder / ".lock").chmod(0o660 if folder.stat().st_mode & stat.S_IWGRP else 0o600)


def _binary() -> str:
    try:
        import uv

        return uv.find_uv_bin()
    except (ImportError, FileNotFoundError) as error:
        raise _unusable("uv, which rocenv uses to install wheels, is not installed") from error


def _unusable(message: str) -> RocenvError:
    return RocenvError(message, hints=("python -m pip install --force-reinstall uv",), code="uv-missing")
