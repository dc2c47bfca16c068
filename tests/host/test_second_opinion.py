"""Detection, compared with AMD's own tool, `rocm-bootstrap`."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import pytest

from rocenv.host.gpu import target_name
from tests.host.roots import NODES, Root

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocenv.host import Host

if importlib.util.find_spec("rocm_bootstrap") is None:
    pytest.skip("rocm-bootstrap is not installed", allow_module_level=True)


def test_rocenv_and_rocm_bootstrap_map_kernel_numbers_to_the_same_targets() -> None:
    bootstrap: Any = importlib.import_module("rocm_bootstrap")
    # `gfx1250-strict` is a build mode for gfx1250 with the same number.
    named = {each.name: each.gfx_target_version for each in bootstrap.ALL_TARGETS if "-" not in each.name}
    assert len(named) > 20
    assert {name: target_name(version) for name, version in named.items()} == {name: name for name in named}


def test_rocenv_and_rocm_bootstrap_find_the_same_gpus(
    root: Root, look: Callable[[], Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    root.kernel().cpu().gpu(1, 0x164E, 100306).gpu(2, 0x744C, 110000).gpu(3, 0x74A1, 90402)
    platform: Any = importlib.import_module("rocm_bootstrap._platform")
    bootstrap: Any = importlib.import_module("rocm_bootstrap")
    monkeypatch.setattr(platform, "KFD_TOPOLOGY", root.path / NODES)
    theirs = [(gpu.node_id, gpu.target.name) for gpu in bootstrap.detect_gpus()]
    assert [(gpu.node, gpu.target) for gpu in look().gpus] == theirs
