"""A finding in words: its cause and its cure, for this log and its machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.core.versions import series
from rocenv.diagnose.facts import hold
from rocenv.diagnose.of_apps import steps_of_apps
from rocenv.diagnose.suggest_env import suggest_env, target_of
from rocenv.diagnose.texts import MOST_STEPS, Step, filled, steps
from rocenv.host.gpu import printable

if TYPE_CHECKING:
    from rocenv.core.language import Language
    from rocenv.data.rows import Matrix
    from rocenv.diagnose import Finding
    from rocenv.diagnose.facts import Facts
    from rocenv.host import Host


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A finding in a language."""

    title: str
    cause: str
    steps: tuple[Step, ...]
    links: tuple[str, ...]

    @property
    def commands(self) -> tuple[str, ...]:
        """What can be pasted, in the order of the steps."""
        return tuple(command for step in self.steps for command in step.commands)


def facts_of(host: Host, of_log: Facts) -> Facts:
    """Return what is known of this machine and not said by a log.

    Where the log is of another system, that is nothing; where it names a GPU, this machine's is left out.
    """
    if of_log.get("platform", (host.platform,))[0] != host.platform:
        return {}
    gpu, driver = host.gpu, host.driver
    known = {"platform": host.platform, "kernel": driver.kernel}
    if not of_log.get("gfx") and not of_log.get("gpu"):
        known |= {
            "gfx": gpu.target if gpu else "",
            "gpu": gpu.name if gpu else "",
            "driver": driver.release,
            "amdgpu": driver.amdgpu,
        }
    return {name: (value,) for name, value in known.items() if value and name not in of_log}


def told(finding: Finding, matrix: Matrix, language: Language, machine: Facts | None = None) -> Told:
    """Return a finding in words, with commands for the GPU and the versions that the log names.

    Args:
        finding: What was found.
        matrix: Which sets there are.
        language: Of the texts.
        machine: Facts of the machine that the log is of, for what the log does not say.
    """
    rule = finding.rule
    facts = {**(machine or {}), **finding.facts}
    if target := target_of(finding.own, facts, matrix):
        facts["gfx"] = tuple(dict.fromkeys((target, *facts["gfx"])))
    values = {name: printable(known[0]) for name, known in facts.items()}
    if rocm := values.get("rocm"):
        values["rocm_minor"] = series(rocm)
    if command := suggest_env(facts, matrix):
        values["create"] = command
    causes = (filled(why.text, values, language) for why in rule.why if hold(why.when, facts))
    of_app = steps_of_apps(matrix, facts, rule.code, values, language)
    return Told(
        title=filled(rule.title, values, language) or rule.code,
        cause=next(filter(None, causes), ""),
        steps=(*of_app, *steps(rule.remedy, facts, values, language)[: max(0, MOST_STEPS - len(of_app))]),
        links=rule.links,
    )
