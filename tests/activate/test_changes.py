from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocenv.activate.changes import apply, expand, reduced, require_valid
from rocenv.core.errors import DataError
from rocenv.core.model import EnvChange
from tests.shells.driver import prepend, set_, unset

ENTRY = st.text(alphabet="abc/ .", min_size=1, max_size=4)
ACTION = st.sampled_from(["set", "prepend", "unset"])


def test_expand_replaces_the_prefix_placeholder_only_once() -> None:
    (change,) = expand([set_("A", "{prefix}/x:{other}:$HOME:{prefix}")], "/a/{prefix}/b")
    assert change.value == "/a/{prefix}/b/x:{other}:$HOME:/a/{prefix}/b"


@pytest.mark.parametrize("before", [{}, {"L": ""}])
def test_prepending_to_an_unset_list_adds_no_empty_entry(before: dict[str, str]) -> None:
    assert apply([prepend("L", "/own")], before) == {"L": "/own"}


def test_prepending_an_existing_entry_moves_it_to_the_front() -> None:
    assert apply([prepend("L", "/own")], {"L": "/a:/own:/b:/own"})["L"] == "/own:/a:/b"


def test_changes_apply_in_order_and_do_not_modify_the_original() -> None:
    before = {"A": "1", "B": "2"}
    after = apply(
        [set_("A", "x"), prepend("A", "y"), unset("B"), prepend("C", "2"), prepend("C", "1")], before
    )
    assert after == {"A": "y:x", "C": "1:2"}
    assert before == {"A": "1", "B": "2"}


@given(st.lists(ENTRY, max_size=5), st.lists(ENTRY, min_size=1, max_size=3))
def test_prepended_entries_come_first_without_duplicates_and_others_keep_their_order(
    old: list[str], new: list[str]
) -> None:
    changes = [prepend("L", entry) for entry in new]
    after = apply(changes, {"L": ":".join(old)})["L"].split(":")
    own = list(dict.fromkeys(reversed(new)))
    assert after == [*own, *(entry for entry in old if entry not in own)]
    assert apply(changes, {"L": ":".join(after)})["L"].split(":") == after


@given(st.lists(st.builds(EnvChange, action=ACTION, name=st.sampled_from("AB"), value=ENTRY), max_size=5))
def test_reducing_a_list_of_changes_keeps_its_effect(changes: list[EnvChange]) -> None:
    for platform in ("linux", "windows"):
        few = reduced(changes, platform)
        for before in ({}, {"A": "a"}, {"A": "x:y;z", "B": ""}):
            assert apply(few, before, platform) == apply(changes, before, platform)
        kinds = {(change.name, change.action) for change in few}
        assert len(kinds) == len({name for name, _ in kinds}), "each variable has only one kind of change"


@pytest.mark.parametrize(
    "change",
    [
        set_("A;touch canary", "x"),
        set_("A\n", "x"),
        set_("", "x"),
        set_("1A", "x"),
        set_("IFS", "x"),
        set_("_ROCENV_STACK", "x"),
        set_("A", "x\0y"),
        prepend("A", ""),
        prepend("A", "/x:/y"),
    ],
)
def test_changes_that_a_shell_cannot_apply_are_rejected(change: EnvChange) -> None:
    with pytest.raises(DataError):
        require_valid([change])
