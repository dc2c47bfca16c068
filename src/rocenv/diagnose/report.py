"""Render a finding: its cause, the steps to fix it, and a command that creates a working env."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from rocenv.core.model import Machine, Request
from rocenv.core.versions import series, version_of
from rocenv.data.remedies import MAX_STEPS, Step, filled, hold, steps
from rocenv.diagnose.apps import app_steps
from rocenv.host.gpu import printable
from rocenv.resolve import verdicts
from rocenv.resolve.request import create_command
from rocenv.resolve.suggest import resolved_command

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rocenv.core.language import Language
    from rocenv.data.rows import Matrix
    from rocenv.diagnose import Finding
    from rocenv.diagnose.facts import Facts
    from rocenv.host import Host

_PARTS = ("platform", "driver", "rocm", "zluda", "torch")  # facts that verdicts depend on
_UNKNOWN = "TARGET"
_ENV = "demo"  # the suggested name, unless this machine already has an env with that name


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A finding in the user's language."""

    title: str
    cause: str
    steps: tuple[Step, ...]
    links: tuple[str, ...]

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands of all steps, in order."""
        return tuple(command for step in self.steps for command in step.commands)


def report(finding: Finding, matrix: Matrix, language: Language, machine: Facts | None = None) -> Report:
    """Render a finding, with commands for the GPU and the versions in the log.

    Args:
        finding: The finding.
        matrix: The known sets.
        language: The user's language.
        machine: Facts about the machine that are not in the log.
    """
    rule = finding.rule
    facts = {**(machine or {}), **finding.facts}
    if target := target_of(finding.own, facts, matrix):
        facts["gfx"] = tuple(dict.fromkeys((target, *facts["gfx"])))
    env = facts.get("env", ("",))[0]
    facts.setdefault("another", (f"{env}2" if env else _ENV,))
    values = {name: printable(known[0]) for name, known in facts.items()}
    if rocm := values.get("rocm"):
        values["rocm_minor"] = series(rocm)
    if index := _torch_index(target, matrix):
        facts["torch_index"] = (index,)
        values["torch_index"] = index
    if _needs_no_zluda(facts, matrix):
        facts["native"] = ("yes",)
    command = suggest_env(facts, matrix)
    commands = {"create": command} if command else {}
    values |= commands
    causes = (filled(why.text, values, language) for why in rule.why if hold(why.when, facts))
    first = app_steps(matrix, facts, rule.code, values, language)
    shown = {command for step in first for command in step.commands}
    target = target if target in matrix.targets else _UNKNOWN if not target and "no_gpu" in facts else ""
    then = (
        Step(
            text=step.text,
            commands=tuple(_with_target(each, target) for each in step.commands if each not in shown),
        )
        for step in steps(rule.remedy, facts, values, language, commands=commands)
    )
    found = [*first, *islice(then, max(0, MAX_STEPS - len(first)))]
    return Report(
        title=filled(rule.title, values, language) or rule.code,
        cause=next(filter(None, causes), ""),
        steps=tuple(_with_note(found, *_note(target, machine), matrix, language)),
        links=rule.links,
    )


def _with_target(command: str, target: str) -> str:
    """Add the log's target to a command that would otherwise need a GPU on this machine."""
    if not command.startswith(("rocenv create ", "rocenv resolve ")) or "--target" in command or not target:
        return command
    return f"{command} --target {target}"


def _note(target: str, machine: Facts | None) -> tuple[str, str]:
    """Return the target whose commands need a note, and the note's message; both are "" if none do."""
    here = (machine or {}).get("here", (target,))[0]
    if target == _UNKNOWN:
        return target, "target"
    return (target, "other_gpu") if target and target != here else ("", "")


def _with_note(
    found: Iterable[Step], target: str, message: str, matrix: Matrix, language: Language
) -> Iterator[Step]:
    """Add the note to the first command whose target may not match the user's GPU."""
    explained = not target
    for step in found:
        if not explained and any(f"--target {target}" in each for each in step.commands):
            row = next(row for row in matrix.messages if row.topic == "diagnose")
            space = "" if language == "zh" else " "
            text = filled(row.texts[message], {"gfx": target}, language)
            step = replace(step, text=f"{step.text}{space}{text}")
            explained = True
        yield step


def facts_of(host: Host, of_log: Facts) -> Facts:
    """Collect the facts about this machine that are not in a log.

    The result is empty if the log is from another platform. If the log mentions a GPU, the result omits this
    machine's GPU and driver.
    """
    if of_log.get("platform", (host.platform,))[0] != host.platform:
        return {}
    gpu, driver = host.gpu, host.driver
    known = {"platform": host.platform, "kernel": driver.kernel}
    if not of_log.get("gfx") and not of_log.get("gpu"):
        # `no_gpu`: without a usable GPU, `create` needs `--target`.
        known |= {
            "gfx": gpu.target if gpu else "",
            "gpu": gpu.name if gpu else "",
            "no_gpu": "" if gpu else "yes",
            "driver": driver.release,
            "amdgpu": driver.amdgpu,
        }
    return {name: (value,) for name, value in known.items() if value and name not in of_log}


def target_of(own: Facts, facts: Facts, matrix: Matrix) -> str:
    """Choose a log's target, preferring targets in matching lines, and discrete GPUs over APUs."""
    for known in (own.get("gfx", ()), facts.get("gfx", ())):
        targets = [target for target in known if target in matrix.targets]
        if known:
            cards = [target for target in targets if matrix.targets[target].kind != "apu"]
            return next(iter([*cards, *targets, *known]))
    return ""


def suggest_env(facts: Facts, matrix: Matrix) -> str:
    """Build the command that creates the best set for the facts' first target; return "" if there is none.

    Without a target, the command detects the GPU of the machine that runs it. The fact `another` is the new
    env's name.
    """
    name = facts.get("another", (_ENV,))[0]
    target = facts.get("gfx", ("",))[0]
    if target and target not in matrix.targets:
        return ""
    platform = facts.get("platform", ("linux",))[0]
    # On Windows, suggest a set with ZLUDA if the log mentions ZLUDA, and torch for ROCm otherwise.
    zluda = "*" if platform == "windows" and facts.get("zluda") else ""
    torch = "*" if zluda or _may_need_torch(facts, matrix) else ""
    request = Request(platform=platform, target=target, torch=torch, zluda=zluda)
    if not target:
        return create_command(name, request, platform)
    driver = facts.get("driver", ("",))[0] if platform == "windows" else ""
    return resolved_command(name, request, matrix, Machine(platform=platform, driver=driver))


def _torch_index(target: str, matrix: Matrix) -> str:
    """PyTorch's own index with the newest wheels that have kernels for a target; "" if there is none."""
    rows = (row for row in matrix.torch if row.rocm and not row.channel and row.released)
    fitting = [row for row in rows if target in row.targets]
    newest = max(fitting, key=lambda row: (version_of(row.version), version_of(row.rocm)), default=None)
    return newest.index if newest else ""


def _needs_no_zluda(facts: Facts, matrix: Matrix) -> bool:
    """Whether a Windows log is about ZLUDA even though AMD provides PyTorch for its first target."""
    target = facts.get("gfx", ("",))[0]
    if facts.get("platform") != ("windows",) or not facts.get("zluda") or target not in matrix.targets:
        return False
    request = Request(platform="windows", target=target, torch="*")
    return bool(resolved_command(_ENV, request, matrix, Machine(platform="windows")))


def known_combinations(facts: Facts, matrix: Matrix) -> tuple[str, ...]:
    """List the `explain` codes for known combinations whose parts the log mentions."""
    known = {name: values[0] for name, values in facts.items()}
    parts = {name: known.get(name) for name in _PARTS}
    of_log = verdicts.Facts(**parts, target=known.get("gfx"))
    rows = (row for row in matrix.verdict if row.code and row.targets and row.rocm)
    complete = (row for row in rows if all(parts[name] for name in _PARTS if getattr(row, name)))
    return tuple(
        dict.fromkeys(row.code for row in complete if of_log.target and verdicts.applies(row, of_log))
    )


def _may_need_torch(facts: Facts, matrix: Matrix) -> bool:
    """Whether the log's app is unknown or may need torch."""
    without = {row.key for row in matrix.launcher if not row.needs_torch}
    return not set(facts.get("app", ("",))) <= without
