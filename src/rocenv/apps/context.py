"""The context of a launch, shared by adapters, checks and the outcome."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rocenv.apps.query import program_path
from rocenv.apps.recognition import GENERIC
from rocenv.core.model import Machine
from rocenv.core.template import fill_all
from rocenv.data.remedies import Texts, filled
from rocenv.resolve.suggest import suggest_env
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from rocenv.apps.arguments import Choice
    from rocenv.apps.blas import State
    from rocenv.apps.devices import Devices, Named
    from rocenv.apps.options import Options
    from rocenv.apps.start import Start
    from rocenv.core.language import Language
    from rocenv.data.apps import Flag
    from rocenv.data.rows import Matrix
    from rocenv.data.rules import Text
    from rocenv.host import Host


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The memory available to a model."""

    layers: int | None = None  # how many layers fit; None if unknown
    hidden_mib: int | None = None  # reported to the program as free, but used by others; None if unknown
    why: str = ""  # how `layers` was determined, or why it is unknown, in the user's language
    integrated: bool = False  # the GPU uses system memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """The proposals and findings of an app's adapter."""

    flags: tuple[Flag, ...] = ()  # to add if this version has them
    reasons: Mapping[str, str] = field(default_factory=dict)  # first word of a flag -> why, for the user
    # Arguments from the program's own file, repeated because added ones would replace them.
    own_arguments: tuple[str, ...] = ()
    blas: State = "unknown"  # whether the env's rocBLAS works for the target
    around_blas: tuple[str, ...] = ()  # arguments that make some versions work without rocBLAS
    # Argument -> programs; the app runs the first one that exists. `$NAME` is a variable.
    tools: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    room: Room | None = None  # for a model's layers
    layers: str = ""  # the argument that sets the number of layers, if it is among `flags`
    model: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptation:
    """What the program reports about itself, and the arguments chosen accordingly."""

    is_unknown: bool = False  # rocenv does not know whether the program accepts the app's arguments
    options: Options | None = None  # from its help; None if the help was not read
    devices: Devices | None = None  # None if the program did not list them
    named: Named | None = None  # devices that the user specified
    is_for_others: bool = False  # it lists GPUs, but not the env's
    choice: Choice | None = None  # None if nothing had to be added
    tuning: Tuning = field(default_factory=Tuning)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchContext:
    """An app that is about to start, the machine, the data, and the user's language."""

    start: Start
    host: Host
    matrix: Matrix
    adaptation: Adaptation = Adaptation()
    language: Language = "en"

    @property
    def devices(self) -> Devices | None:
        """The GPUs that the program listed, or None if it was not run."""
        return self.adaptation.devices

    @property
    def env(self) -> str:
        """The env's name, quoted for a command."""
        return shell_join(self.start.prefix.name)

    @property
    def app(self) -> str:
        """The app for which to suggest a different env, or "" if unknown."""
        key = self.start.launcher.key
        return self.start.record.lock.request.app if key == GENERIC else key

    @property
    def machine(self) -> Machine:
        """The machine, for suggesting a different set."""
        return Machine(platform=self.host.platform, driver=self.host.driver.release)

    @property
    def needs_gpu(self) -> bool:
        """Whether the launch is pointless without a GPU, unlike a launch that only opens a window."""
        return self.start.is_gpu_work or not self.start.launcher.gpu_work

    def command(self, template: str) -> str:
        """Fill in a profile's command; return "" if a value is unknown."""
        prefix, lock = self.start.prefix, self.start.record.lock
        program, model = self.start.made_for or program_path(self.start), self.adaptation.tuning.model
        values = {
            "name": self.env,
            "another": shell_join(prefix.free_name()),
            "target": shell_join(lock.target),
            "code_target": shell_join(lock.code_target),
            "program": shell_join(str(program)) if program else "",
            "model": shell_join(str(model)) if model else "",
        }
        return fill_all(template, values) or ""

    def text(self, text: Text | None, /, **values: str) -> str:
        """Fill in a message in the user's language; return "" if there is none, or if a value is unknown."""
        return filled(text, values, self.language) or "" if text else ""

    def message(self, name: str, /, **values: str) -> str:
        """Fill in one of `launch`'s messages in the user's language."""
        return Texts(self.matrix, "launch", self.language)(name, **values)

    def noting(self, *notes: str) -> LaunchContext:
        """Add notes about the start, for the user."""
        return replace(self, start=replace(self.start, notes=(*self.start.notes, *notes)))

    def another(self, zluda: str = "") -> str:
        """The command that creates a better env next to this one, or "" if no set is better."""
        lock, name = self.start.record.lock, self.start.prefix.free_name()
        return suggest_env(lock, self.matrix, self.machine, name=name, zluda=zluda, app=self.app)

    def fallbacks(self, codes: Collection[str]) -> Iterator[str]:
        """Yield the app profile's suggestions for these causes, in the profile's order."""
        for row in self.start.launcher.fallbacks:
            if row.code in codes:
                text, command = (
                    self.text(row.text, target=self.start.record.lock.target),
                    self.command(row.command),
                )
                yield (
                    self.message("with_command", text=text.rstrip(".。"), command=command)
                    if command
                    else text
                )
