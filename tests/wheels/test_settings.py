"""Machine settings that determine where wheels come from, and an unusable uv."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from rocenv.core.errors import DataError, RocenvError
from rocenv.net import Network
from rocenv.sources.general_index import general_indices

if TYPE_CHECKING:
    from pathlib import Path

    from rocenv.config import Mirrors
    from rocenv.sources.uv import Uv

PIP = "https://p.invalid/simple"
UV = "https://u.invalid/simple?a=b"


def test_mirrors_take_precedence_over_uvs_index_and_uvs_over_pips() -> None:
    mirrors: Mirrors = (("pypi:", ("https://m.invalid/simple/", "https://n.invalid/simple/")),)
    none = {"PIP_CONFIG_FILE": os.devnull}
    cases: list[tuple[dict[str, str], str]] = [
        ({}, ""),
        ({"PIP_INDEX_URL": PIP}, PIP),
        ({"PIP_INDEX_URL": PIP, "UV_INDEX_URL": UV}, UV),
        ({"PIP_INDEX_URL": PIP, "UV_DEFAULT_INDEX": f"corp={UV}"}, UV),
    ]
    for environ, expected in cases:
        assert general_indices(none | environ, Network()) == (expected,), environ
        assert general_indices(none | environ, Network(mirrors=mirrors)) == (*mirrors[0][1], expected)


@pytest.mark.skipif(sys.platform == "win32", reason="the paths are for Linux")
def test_pips_configuration_files_are_read_as_in_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    chosen, config = tmp_path / "a.conf", tmp_path / "home" / ".config" / "pip"
    chosen.write_text("[global]\nindex-url = https://a.invalid\n[install]\nindex_url = https://i.invalid\n")
    config.mkdir(parents=True)
    (config / "pip.conf").write_text("\ufeff[global]\nindex-url=https://u.invalid/%2B\n", encoding="utf-8")
    environ = {"HOME": str(tmp_path / "home")}
    assert general_indices(environ, Network()) == ("https://u.invalid/%2B",)
    environ["PIP_CONFIG_FILE"] = str(chosen)
    assert general_indices(environ, Network()) == ("https://i.invalid",)
    assert general_indices({**environ, "PIP_INDEX_URL": PIP}, Network()) == (PIP,)
    chosen.write_text("")
    assert "u.invalid" not in general_indices(environ, Network())[0], (
        "PIP_CONFIG_FILE replaces the user's file"
    )
    chosen.write_text("index-url = https://a.invalid\n")
    with pytest.raises(DataError, match=r"cannot read pip's configuration `.*a\.conf`"):
        general_indices(environ, Network())


@pytest.mark.skipif(sys.platform == "win32", reason="Windows reports a different error for a folder")
def test_a_missing_or_broken_uv_is_an_error_with_a_suggested_command(
    uv: Uv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import uv as package

    monkeypatch.setattr(package, "find_uv_bin", lambda: str(tmp_path))
    with pytest.raises(
        RocenvError, match=r"uv did not run: .* cannot be started: Permission denied"
    ) as caught:
        uv.run("--version")
    assert caught.value.code == "uv-missing"
    monkeypatch.setitem(sys.modules, "uv", None)
    with pytest.raises(
        RocenvError, match="uv, which rocenv uses to install wheels, is not installed"
    ) as caught:
        uv.run("--version")
    assert caught.value.code == "uv-missing"
    assert caught.value.hints == ("python -m pip install --force-reinstall uv",)
