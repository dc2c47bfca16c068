"""Checklist line 31: envs inside and around conda, venv, virtualenv, direnv and mise.

In an order such as `TRrt`, `T` and `t` activate and deactivate the tool, and `R` and `r` the env.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocenv.activate.changes import apply, entries, expand, names
from tests.shells.driver import CHANGES
from tests.shells.neighbours import Conda, Direnv, Mise, Neighbour, Venv, Virtualenv

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.shells.driver import Work

line = pytest.mark.checklist


def _in(work: Work, *tools: type[Neighbour]) -> Iterator[Neighbour]:
    """Create the tools that support the test's shell; fail the test if there are none."""
    serving = [tool for tool in tools if work.driver.name in tool.shells]
    assert serving
    for tool in serving:
        yield tool(work)


class Walk:
    """Activates and deactivates a tool and an env in one order, and dumps the environment after each step.

    The tool runs alone first, to record its own leftovers.
    """

    def __init__(self, tool: Neighbour, order: str, *more: str, **instead: str) -> None:
        work = tool.work
        self.tool, self.order, self.prefix = tool, order, work.env()
        steps = {"T": tool.on(), "t": tool.off(), "R": work.enter(self.prefix), "r": work.driver.leave()}
        code = [*more, tool.before_script(), tool.start()]
        code += [tool.on(), work.dump("tool"), tool.off(), work.dump("base")]
        for number, step in enumerate(order, 1):
            code += [{**steps, **instead}[step], work.dump(order[:number])]
        self.outcome = work.run(*code, environ=tool.environ)
        assert self.outcome.status == 0, self.outcome
        self.dumps = {name: tool.without_own(each) for name, each in self.outcome.dumps.items()}
        assert len(self.dumps) == len(order) + 2, self.outcome
        assert tool.is_on(self.dumps["tool"]) and not tool.is_on(self.dumps["base"])

    def __str__(self) -> str:
        return f"{self.tool.name} {self.order}: {self.outcome}"

    def has_env(self, environ: Mapping[str, str]) -> bool:
        """Whether the env is active in this environment; fail the test if it is partly active."""
        changes = expand(CHANGES, str(self.prefix))
        after = apply(changes, self.dumps["base"])
        acts = set()
        for name in names(changes):
            if own := entries(changes, name):
                acts |= {entry in environ.get(name, "").split(":") for entry in own}
            elif after.get(name) != self.dumps["base"].get(name):
                acts.add(environ.get(name) == after.get(name))
        assert len(acts) == 1, (str(self), environ)
        return acts.pop()

    def assert_apart(self, *, but: tuple[str, ...] = ()) -> None:
        """Assert that the tool and the env are active only between their steps, and leave nothing behind.

        Args:
            but: Steps to exempt.
        """
        expected = {
            (False, False): self.dumps["base"],
            (False, True): self.dumps["tool"],
            (True, False): apply(expand(CHANGES, str(self.prefix)), self.dumps["base"]),
        }
        for number in range(1, len(self.order) + 1):
            step = self.order[:number]
            env, tool = "R" in step and "r" not in step, "T" in step and "t" not in step
            if step in but:
                continue
            dump = self.dumps[step]
            assert (self.has_env(dump), self.tool.is_on(dump)) == (env, tool), (step, str(self))
            if (env, tool) in expected:
                if env and "PS1" in dump:  # venv exports the prompt, including rocenv's label
                    dump["PS1"] = dump["PS1"].removeprefix("(demo) ")
                assert dump == expected[env, tool], (step, str(self))
        # The values of the tool's own variables may differ between runs, but not their names.
        if self.order not in but:
            assert self.outcome.dumps[self.order].keys() == self.outcome.dumps["base"].keys()


def _leave_ours(work: Work) -> str:
    """Deactivate the env in a way that works even if another tool has replaced `deactivate`."""
    return work.driver.call("rocenv", "deactivate")


# ---------------------------------------------------------------- tools that change PATH entry by entry


@line(31)
@pytest.mark.parametrize("order", ["TRrt", "RTtr", "TRtr", "RTrt"])
def test_envs_work_with_conda_and_mise_in_any_order(work: Work, order: str) -> None:
    """conda and mise rebuild PATH from its current value and keep other tools' entries.

    The tests imitate conda's activation, because conda is not available. conda removes its entries wherever
    they are. mise looks for entries that were added to the front of PATH after it was activated.
    """
    for tool in _in(work, Conda, Mise):
        Walk(tool, order).assert_apart()


# ---------------------------------------------------------------- tools that restore PATH


@line(31)
@pytest.mark.parametrize("order", ["TRrt", "RTtr"])
def test_envs_nest_with_direnv_and_venv(work: Work, order: str) -> None:
    """direnv and venv restore the PATH that they saved when they were activated.

    A venv keeps its own `deactivate`, and activating an env on top of it prints the command that deactivates
    the env. A venv on top of an env replaces rocenv's `deactivate`. `rocenv deactivate` always deactivates
    the env.
    """
    for tool in _in(work, Venv, Virtualenv, Direnv):
        if not tool.same_name:
            walk = Walk(tool, order)
        else:
            walk = Walk(tool, order, work.hook(), r=_leave_ours(work))
            told = "to deactivate this env" in walk.outcome.stderr
            assert told == (order == "TRrt" and work.driver.name != "nu"), str(walk)
        walk.assert_apart()


@line(31)
def test_envs_and_direnv_or_venv_can_be_deactivated_in_any_order(work: Work) -> None:
    """If the user deactivates the env first, direnv or venv later restores a PATH that contains the env.

    venv stores the old PATH and prompt in shell variables, so rocenv removes the env from these variables.
    Deactivating a venv while an env on top of it is active removes the env's programs from PATH, as with
    direnv.

    rocenv cannot change the PATH that direnv stores in DIRENV_DIFF, so PATH contains the env's programs
    again, without the env's other variables, until the shell exits. If the user enters the folder first and
    leaves it while the env is active, the env's programs disappear from PATH; activating the env again
    restores them, and the env can then be deactivated as usual.

    In nushell, a virtualenv is an overlay, and deactivating it reverts all later changes. This deactivates
    envs that were activated after the virtualenv, and reactivates those that were deactivated after it.
    """
    for tool in _in(work, Venv, Virtualenv, Direnv):
        if tool.name == "direnv":
            _assert_crossed_with_direnv(tool)
        elif work.driver.name == "nu":
            _assert_crossed_with_an_overlay(tool)
        else:
            Walk(tool, "RTrt", work.hook(), r=_leave_ours(work)).assert_apart()
            walk = Walk(tool, "TRtr", work.hook(), r=_leave_ours(work))
            walk.assert_apart(but=("TRt",))
            base = walk.dumps["base"]
            left = {**apply(expand(CHANGES, str(walk.prefix)), base), "PATH": base["PATH"]}
            assert {**walk.dumps["TRt"], "PS1": ""} == {**left, "PS1": ""}, str(walk)
            if tool.name == "venv" or work.driver.name not in Venv.shells:
                _assert_prompts_come_apart(tool)


def _assert_prompts_come_apart(tool: Neighbour) -> None:
    """Assert that deactivating an env and a venv on top of it in either order restores the prompt."""
    work = tool.work
    enter, leave = work.enter(work.env()), _leave_ours(work)
    shown = work.driver.talk(
        work,
        [enter, tool.on(), tool.off(), leave, enter, tool.on(), leave, tool.off()],
        first=f"{work.hook()}\n{tool.start()}",
    )
    prompts = [text.rstrip().splitlines()[-1].split("\r")[-1] for text in shown]
    assert ["(demo)" in prompt for prompt in prompts[:2]] == [True, True], (tool.name, prompts)
    assert (prompts[3], prompts[7]) == ("#>", "#>"), (tool.name, prompts)


def _assert_crossed_with_direnv(tool: Neighbour) -> None:
    walk = Walk(tool, "TRtRr")
    base, path, entry = walk.dumps["base"], walk.dumps["base"]["PATH"], f"{walk.prefix}/bin"
    assert walk.dumps["TRt"] == {**walk.dumps["TRtR"], "PATH": path}
    assert walk.dumps["TRtR"]["PATH"] == f"{entry}:{path}"
    assert walk.dumps["TRtRr"] == base
    Walk(tool, "TRtr").assert_apart(but=("TRt",))
    walk = Walk(tool, "RTrt")
    walk.assert_apart(but=("RTrt",))
    assert walk.dumps["RTrt"] == {**base, "PATH": f"{entry}:{path}"}


def _assert_crossed_with_an_overlay(tool: Neighbour) -> None:
    hook, leave, hide = tool.work.hook(), _leave_ours(tool.work), "overlay hide activate"
    walk = Walk(tool, "TRtr", hook, r=leave, t=hide)
    walk.assert_apart(but=("TRt",))
    assert walk.dumps["TRt"] == walk.dumps["base"]
    assert "no env is active" in walk.outcome.stderr
    walk = Walk(tool, "RTrtr", hook, r=leave)
    walk.assert_apart(but=("RTrt",))
    assert walk.dumps["RTrt"] == walk.dumps["R"]
