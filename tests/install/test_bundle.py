"""Bundles: equal bytes, no network, damage found by name, hostile files refused."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mini import Mini


@pytest.fixture
def bundle(mini: Mini) -> Path:
    """A bundle of two envs that share packages."""
    mini.create("lab")
    mini.create("other")
    return write(mini, "lab", "other")


def write(mini: Mini, *names: str, to: str = "lab.tar") -> Path:
    done = mini.run("bundle", *names, "-o", to)
    assert done.returncode == 0, done.stderr
    return mini.root / to


def test_try(mini, bundle):
    print(bundle.stat().st_size)
    with tarfile.open(bundle) as t: print(t.getnames())
    d=mini.run("create","lab","--from","lab.tar","--no-verify",ROCENV_HOME=str(mini.root/"h2"),ROCENV_OFFLINE="1")
    print(d.stdout,d.stderr)
    d=mini.run("create","lab","--from","lab.tar","--no-verify","--trust-lock",ROCENV_HOME=str(mini.root/"h2"),ROCENV_OFFLINE="1")
    print(d.stdout,d.stderr)
    assert 0
