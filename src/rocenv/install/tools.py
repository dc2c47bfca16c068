"""What puts wheels into a prefix, set up for one home."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocenv.context import Context
    from rocenv.core.model import Component
    from rocenv.sources.interpreter import Interpreter
    from rocenv.sources.wheel_tool import WheelTool


def python_tools(component: Component, context: Context) -> tuple[WheelTool, Interpreter]:
    """Return the tool for wheels that runs here, and the Python that a component's wheels were chosen for."""
    from rocenv.sources.interpreter import find_python
    from rocenv.sources.wheel_tool import choose_tool

    tool = choose_tool(context.home, offline=context.network.is_offline, tell=context.progress.note)
    return tool, find_python(component.python.rpartition(".")[0], tool)
