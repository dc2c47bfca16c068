"""Wheel index pages cached for offline use."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rocenv.core.errors import FetchError
from rocenv.net import Network
from rocenv.sources.simple_index import SimpleIndex
from tests.loopback import Loopback

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE = '<a href="x-1.0-py3-none-any.whl#sha256={}">x</a>'


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback({"/whl/x/": PAGE.format("1" * 64).encode()}) as loopback:
        yield loopback


def test_a_planted_page_in_the_cache_is_not_read(server: Loopback, tmp_path: Path) -> None:
    online = SimpleIndex(
        url=f"{server.url}/whl/",
        network=Network(pause_s=0.01),
        kept=tmp_path / "kept",
        key_file=tmp_path / "key",
        rank=lambda _name: 1,
    )

    def offline() -> SimpleIndex:
        return replace(online, network=Network(offline=True), pages={})

    assert online.newest("x", lambda _version: True).sha256 == "1" * 64
    assert offline().newest("x", lambda _version: True).sha256 == "1" * 64
    (page,) = (tmp_path / "kept").iterdir()
    forged = page.read_text().replace("1" * 64, "6" * 64)
    for content in (forged, forged.partition("\n")[2]):
        page.write_text(content)
        with pytest.raises(FetchError) as caught:
            offline().newest("x", lambda _version: True)
        assert caught.value.code == "offline"
