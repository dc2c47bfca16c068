"""An app that is about to start, its machine, and what its program answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rocenv.core.model import Machine
from rocenv.core.template import fill, places
from rocenv.launch.layers import Packed
from rocenv.launch.recognition import GENERIC
from rocenv.resolve.suggest import suggest_env
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from rocenv.data.rows import Matrix
    from rocenv.host import Host
    from rocenv.launch.devices import Devices, Named
    from rocenv.launch.flags import Choice
    from rocenv.launch.layers import Room
    from rocenv.launch.options import Given, Options
    from rocenv.launch.start import Start


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptation:
    """What was found out while the arguments of a start were adapted, for the checks."""

    devices: Devices | None = None  # the GPUs that the program lists; None = it was not asked
    is_unknown: bool = False  # the program is not known to take the app's arguments, so none were added
    options: Options | None = None  # from the program's help; None = it was not asked
    named: Named | None = None  # the GPUs that the user named
    is_for_others: bool = False  # the program lists GPUs, and none of the env's target
    choice: Choice | None = None  # the arguments that were chosen; None = none were to be
    given: Given | None = None  # the user's arguments, behind those in the program's own file
    packed: Packed = field(default_factory=Packed)
    room: Room | None = None
    blas: str = "unknown"  # whether the env's BLAS works: `works`, `fails`, `unknown`


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchContext:
    """An app that is about to start."""

    start: Start
    host: Host
    matrix: Matrix
    adaptation: Adaptation = Adaptation()

    @property
    def devices(self) -> Devices | None:
        """The GPUs that the program lists; None if it was not asked."""
        return self.adaptation.devices

    @property
    def env(self) -> str:
        """The env's name, quoted for a command."""
        return shell_join(self.start.prefix.name)

    @property
    def app(self) -> str:
        """The app that another env would be for; "" = none that is known."""
        key = self.start.launcher.key
        return self.start.record.lock.request.app if key == GENERIC else key

    @property
    def machine(self) -> Machine:
        """The machine that another env would be for."""
        return Machine(platform=self.host.platform, driver=self.host.driver.release)

    @property
    def needs_gpu(self) -> bool:
        """Whether the start is useless without a GPU; an app may also open a window or run a script."""
        return self.start.is_gpu_work or not self.start.launcher.gpu_work

    def filled(self, text: str) -> str:
        """Fill a text of a profile with the env, its targets and the app's program."""
        from rocenv.launch.app_version import program_path

        prefix, lock = self.start.prefix, self.start.record.lock
        values = {
            "name": self.env,
            "another": shell_join(prefix.free_name()),
            "target": shell_join(lock.target),
            "code_target": shell_join(lock.code_target),
        }
        if "program" in places(text):
            program = self.start.made_for or program_path(self.start)
            values["program"] = shell_join(str(program)) if program else "PATH"
        return fill(text, values)

    def another(self, zluda: str = "") -> str:
        """The command that creates a better env beside this one; "" if there is none."""
        lock, name = self.start.record.lock, self.start.prefix.free_name()
        return suggest_env(lock, self.matrix, self.machine, name=name, zluda=zluda, app=self.app)
