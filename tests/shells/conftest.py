"""Run each test of the checklist in every shell to which it applies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.shells.driver import Work
from tests.shells.drivers import DRIVERS

if TYPE_CHECKING:
    from pathlib import Path


EVERY_SHELL = "every shell"  # for tests that do not need a shell


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a checklist test in each shell."""
    if "work" in metafunc.fixturenames:
        metafunc.parametrize("work", DRIVERS, indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests for checklist lines that do not apply to a shell; the driver lists why."""
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        shell = shell_of(item)
        apart = DRIVERS[shell].not_applicable if shell in DRIVERS else {}
        lines = lines_of(item)
        needs = item.get_closest_marker("own_variables") and not DRIVERS[shell].has_own_variables
        (left_out if needs or (lines and all(n in apart for n in lines)) else kept).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left_out)


@pytest.fixture
def work(request: pytest.FixtureRequest, tmp_path: Path) -> Work:
    """The folder in which this test's shell runs."""
    folder = tmp_path / "work"
    folder.mkdir()
    return Work(DRIVERS[request.param], folder)


def lines_of(item: pytest.Item) -> tuple[int, ...]:
    """Return the checklist lines that a test covers."""
    return tuple(sorted({n for marker in item.iter_markers("checklist") for n in marker.args}))


def shell_of(item: pytest.Item) -> str:
    """Return the shell that a checklist test runs in."""
    callspec = getattr(item, "callspec", None)
    if callspec and "work" in callspec.params:
        return str(callspec.params["work"])
    return str(getattr(getattr(item, "module", None), "SHELL", EVERY_SHELL))
