"""The resolver on random matrices, compared with a brute-force search, and its explanations."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st
from msgspec import structs

from rocenv.core.errors import ResolutionImpossible
from rocenv.data.load import TABLES
from rocenv.data.releases import TorchSet
from rocenv.data.rows import Matrix
from rocenv.resolve import Candidate, resolve
from tests.resolve import matrices
from tests.resolve.commands import asked
from tests.resolve.oracle import best_sets, parts_of

if TYPE_CHECKING:
    from typing import TypeAlias

    from rocenv.core.model import Machine, Rejection, Request, Suggestion

KINDS = {
    "linux": (matrices.linux_requests, matrices.linux_machines),
    "zluda": (matrices.zluda_requests, matrices.windows_machines),
    "windows": (matrices.windows_requests, matrices.windows_machines),
}
PHASES = [Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink]
thorough = settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)


@dataclass(frozen=True)
class Impossible:
    message: str
    rejections: tuple[Rejection, ...]
    suggestions: tuple[Suggestion, ...]


OTHER = matrices.OTHER_TARGET
# Table, row generator, and fields that turn a row into one about a different target.
OTHERS: list[tuple[str, matrices.Make[Any], dict[str, Any]]] = [
    ("rocm", matrices.rocm, {"compiles": (OTHER,), "blas": (OTHER,), "official": (OTHER,), "version": "9.9"}),
    (
        "rocm_wheels",
        matrices.wheels,
        {"targets": (OTHER,), "official": (OTHER,), "ready": (), "version": "9.9"},
    ),
    ("override", matrices.override, {"target": OTHER}),
    ("verdict", matrices.verdict, {"targets": (OTHER,)}),
    ("verdict", matrices.windows_verdict, {"targets": (OTHER,)}),
    ("pack", matrices.pack, {"targets": (OTHER,)}),
    ("good_set", matrices.good_set, {"targets": (OTHER,)}),
    ("torch", matrices.linux_torch, {"targets": (OTHER,)}),
    ("torch", matrices.wheels_torch, {}),
]
Outcome: TypeAlias = "list[Candidate] | Impossible"


def check(data: st.DataObject, kind: str) -> None:
    """Check all properties on one random case."""
    requests, machines = KINDS[kind]
    request, matrix, machine = data.draw(requests), data.draw(matrices.matrices), data.draw(machines)
    found = outcome(request, matrix, machine)
    sets = found if isinstance(found, list) else []
    event(f"{kind}: {'fits' if sets else 'impossible'}")
    assert list(map(parts_of, sets)) == best_sets(request, matrix, machine)
    assert outcome(request, shuffled(matrix, data), machine) == found
    check_rows_of_others(found, outcome(request, with_row_of_another(matrix, data), machine))
    for candidate in sets:
        check_override(candidate, request)
    if isinstance(found, Impossible):
        check_lines(found)
        check_suggestions(found, request, matrix, machine)


def outcome(request: Request, matrix: Matrix, machine: Machine) -> Outcome:
    """Return the parts of a resolution that users see."""
    try:
        return list(resolve(request, matrix, machine))
    except ResolutionImpossible as error:
        return Impossible(error.message, error.rejections, error.suggestions)


def shuffled(matrix: Matrix, data: st.DataObject) -> Matrix:
    """Shuffle the rows in each table."""
    mixer = random.Random(data.draw(st.integers(0, 1 << 16)))
    mixed: dict[str, Any] = {}
    for table in TABLES:
        rows = list(getattr(matrix, table))
        mixer.shuffle(rows)
        mixed[table] = tuple(rows)
    return Matrix(**mixed)


def with_row_of_another(matrix: Matrix, data: st.DataObject) -> Matrix:
    """Add a row about a target that was not requested."""
    table, row, change = data.draw(st.sampled_from(OTHERS))
    more: Any = structs.replace(data.draw(matrices.strategy(row)), **change)
    larger: dict[str, Any] = {table: (*getattr(matrix, table), more)}
    return replace(matrix, **larger)


def check_rows_of_others(before: Outcome, after: Outcome) -> None:
    """Assert that rows about a different target do not affect verdicts, sets or suggestions."""
    if isinstance(before, Impossible):
        assert isinstance(after, Impossible)
        assert after.suggestions == before.suggestions
    else:
        assert isinstance(after, list)
        assert list(map(parts_of, after)) == list(map(parts_of, before))


def check_override(candidate: Candidate, request: Request) -> None:
    """Assert that no override is set if every component supports the target natively."""
    override, torch = candidate.override, candidate.row(TorchSet)
    if override is None:
        assert candidate.runs_as == request.target
        return
    row: Any = candidate.rocm.row
    assert candidate.runs_as == override.runs_as
    own = torch and not torch.channel
    assert request.target not in row.blas or (own and torch and request.target not in torch.targets)
    assert any(override.value in note for note in candidate.warnings)


def check_lines(error: Impossible) -> None:
    """Assert that each line shows the requirement, the actual value and the source."""
    for line in error.rejections:
        assert line.component
        assert line.requirement
        assert line.found
        assert line.source
        assert line.text


def check_suggestions(error: Impossible, request: Request, matrix: Matrix, machine: Machine) -> None:
    """Assert that suggestions are for the same GPU and resolve to the sets that they promise."""
    for suggestion in error.suggestions:
        again = asked(suggestion.command)
        assert again.targets == request.targets
        assert again != request
        assert next(resolve(again, matrix, machine)).versions == suggestion.components


@pytest.mark.parametrize("kind", KINDS)
@thorough
@given(data=st.data())
def test_the_resolver_finds_the_same_sets_as_a_brute_force_search(kind: str, data: st.DataObject) -> None:
    check(data, kind)
