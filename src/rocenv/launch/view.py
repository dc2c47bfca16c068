"""What the checks before a start look at, and what they find."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rocenv.core.model import Machine
from rocenv.core.template import fill, places
from rocenv.launch.recognition import GENERIC
from rocenv.resolve.suggest import suggest_env
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from rocenv.data.rows import Matrix
    from rocenv.host import Host
    from rocenv.launch.devices import Devices
    from rocenv.launch.start import Start


@dataclass(frozen=True, slots=True, kw_only=True)
class Concern:
    """Something that a check found."""

    code: str
    severity: Literal["error", "warning", "note"]
    text: str  # one sentence
    remedy: str = ""  # a command, or what to do


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What the checks look at."""

    start: Start
    host: Host
    matrix: Matrix
    devices: Devices | None = None  # that the program lists; None = it was not asked
    concerns: tuple[Concern, ...] = ()  # of making the start fit this machine

    @property
    def env(self) -> str:
        """The env's name, as a command has it."""
        return shell_join(self.start.prefix.name)

    def filled(self, text: str) -> str:
        """Return a text of a profile with the env, its targets and the app's program in it."""
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

    @property
    def app(self) -> str:
        """The app that another env would be for; "" = none that is known."""
        key = self.start.launcher.key
        return self.start.record.lock.request.app if key == GENERIC else key

    @property
    def machine(self) -> Machine:
        """What another set would have to live with."""
        return Machine(platform=self.host.platform, driver=self.host.driver.release)

    def another(self, zluda: str = "") -> str:
        """Return the command that makes a better env beside this one; "" where there is none."""
        lock, name = self.start.record.lock, self.start.prefix.free_name()
        return suggest_env(lock, self.matrix, self.machine, name=name, zluda=zluda, app=self.app)
