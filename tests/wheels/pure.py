"""PyTorch's dependencies, except GPU libraries, as minimal wheels."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# Name -> version and dependencies.
PURE: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "filelock": ("3.16.1", ()),
    "fsspec": ("2024.10.0", ()),
    "jinja2": ("3.1.4", ("MarkupSafe>=2.0",)),
    "markupsafe": ("3.0.2", ()),
    "mpmath": ("1.3.0", ()),
    "networkx": ("3.4.2", ()),
    "numpy": ("2.1.2", ()),
    "pillow": ("11.0.0", ()),
    "setuptools": ("80.9.0", ()),
    "sympy": ("1.13.3", ("mpmath<1.4,>=1.1.0",)),
    "typing-extensions": ("4.12.2", ()),
}
TORCH_REQUIRES = (
    "filelock",
    "typing-extensions>=4.10.0",
    'setuptools; python_version >= "3.12"',
    "sympy>=1.13.3",
    "networkx",
    "jinja2",
    "fsspec",
)
