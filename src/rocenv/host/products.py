"""Find the targets that users mean when they type a target, a product, a code name or a PCI ID."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocenv.core.errors import RocenvError
from rocenv.host.gpu import is_target, split_target
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from rocenv.data.knowledge import UnsupportedGpu
    from rocenv.data.rows import Matrix

_MAKER = ("amd", "radeon")  # words that many product names share


def target_meant(text: str, matrix: Matrix) -> str:
    """Return the target that a string stands for: `gfx1031`, `1031`, `RX 6750 XT`, `6750xt`, `strix halo`.

    A well-formed target is accepted even if rocenv has no data about it.

    Raises:
        RocenvError: The string does not match any target, or it matches products with different targets.
    """
    name, features = split_target(text.casefold())
    if is_target(name) and features:
        raise RocenvError(
            f"`{text}` is not a target",
            hints=(f"leave out `{features}`: `--target {name}`",),
            code="target-unknown",
        )
    if is_target(name):
        return name
    if f"gfx{name}" in matrix.targets:
        return f"gfx{name}"
    found = targets_of_product(text, matrix)
    if len(found) == 1:
        return found[0]
    if found:
        rows = (matrix.targets[name] for name in found if name in matrix.targets)
        raise RocenvError(
            f"`{text}` matches several targets",
            hints=tuple(f"`--target {row.name}`: {row.products}" for row in rows),
            code="target-unknown",
        )
    if row := unsupported(text, matrix):
        raise RocenvError(
            f"no set works on `{text}`: {row.why}",
            hints=(row.instead, f"for details: `rocenv explain {shell_join(text)}`"),
            code="gpu-unsupported",
        )
    raise RocenvError(
        f"`{text}` is not a known target or product",
        hints=(
            *_similar(text, matrix),
            'specify a target (`--target gfx1100`) or a product (`--target "RX 7900 XT"`)',
        ),
        code="target-unknown",
    )


def targets_of_product(text: str, matrix: Matrix) -> list[str]:
    """List the targets for a product, code name or PCI ID, sorted.

    If there is an exact match, it is the only result; otherwise, all products that contain the words match.
    """
    device = text.strip().casefold().removeprefix("1002:")
    found = {row.target for row in matrix.pci if row.device == device}
    words = _words(text)
    if found or not words:
        return sorted(found)
    known = [(_words(product), row.target) for row in matrix.pci for product in row.products]
    known += [(_words(name), row.name) for row in matrix.targets.values() for name in row.codename.split("/")]
    joined = "".join(words)
    found = {target for product, target in known if "".join(product) == joined and len(joined) > 2}
    if found or len(joined) < (3 if any(map(str.isdigit, joined)) else 4):  # `MI8`, `halo`, but not `RX`
        return sorted(found)
    found = {target for product, target in known if set(words) <= set(product)}
    found = found or {target for product, target in known if "".join(product).endswith(joined)}
    text = " ".join(words)
    found = found or {row.target for row in matrix.gpu_name if re.search(row.pattern, text, re.IGNORECASE)}
    texts = [(_words(row.products), row.name) for row in matrix.targets.values()]
    return sorted(found or {name for product, name in texts if set(words) <= set(product)})


def unsupported(text: str, matrix: Matrix) -> UnsupportedGpu | None:
    """Find the row for a product or PCI ID that ROCm does not support."""
    device = text.strip().casefold().removeprefix("1002:")
    name = " ".join(_words(text))
    for row in matrix.unsupported_gpu:
        if re.fullmatch(row.device, device) or re.search(row.pattern, name, re.IGNORECASE):
            return row
    return None


def _words(text: str) -> list[str]:
    """Split a product's name into the words that distinguish it: `AMD Radeon(TM) 780M` is `780m`."""
    plain = re.sub(r"\((?:tm|r)\)", " ", text.casefold())
    return [word for word in re.split(r"[\s,/()-]+", plain) if word and word not in _MAKER]


def _similar(text: str, matrix: Matrix) -> list[str]:
    """Suggest the most similar target or product."""
    import difflib

    names = {name: name for name in matrix.targets}
    names |= {"".join(_words(product)): product for row in matrix.pci for product in row.products}
    joined = "".join(_words(text))
    longer = [name for name in names if joined and any(map(str.isdigit, joined)) and name.startswith(joined)]
    close = longer or difflib.get_close_matches(joined, names, n=3, cutoff=0.75)
    # Product names have similar letters, so the digits decide.
    digits = sorted(filter(str.isdigit, joined))
    fitting = [name for name in close if sorted(filter(str.isdigit, name)) == digits]
    return [f"did you mean `{names[name]}`?" for name in fitting[:1] if digits]
