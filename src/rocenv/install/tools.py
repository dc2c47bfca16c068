"""What puts wheels into a prefix, set up for one home."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocenv.context import Context
    from rocenv.core.model import Component
    from rocenv.sources.interpreter import Interpreter
    from rocenv.sources.uv import Uv


def python_tools(component: Component, context: Context) -> tuple[Uv, Interpreter]:
    """Set up uv, and find the Python that a component's wheels were selected for."""
    from rocenv.sources.interpreter import find_python
    from rocenv.sources.uv import Uv

    uv = Uv.for_context(context)
    return uv, find_python(component.python.rpartition(".")[0], uv)
