"""Recognize secrets in commands, so that logs and messages can mask them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocenv.core.logins import mask_logins

if TYPE_CHECKING:
    from collections.abc import Sequence

# `--gradio-auth me:secret`, `--api-key=secret`, `HF_TOKEN=secret`
_SECRET = re.compile(
    r".*(auth|token|passw|secret|(api|access)[-_]?key|ngrok|credential|cookie).*|-*(pass|pwd|key)", re.I
)
# A header or a URL parameter within a word: "Authorization: Bearer x", "?token=x"
_WITHIN = re.compile(
    r"([\w-]*(?:auth|token|key|secret|cookie)[\w-]*: *|[?&][\w-]*(?:token|key|secret|auth|sig)[\w-]*=)[^&]+",
    re.I,
)
_NAME = re.compile(r"[-/]+.+|[A-Za-z_][A-Za-z0-9_]*")  # an option or a variable


def is_secret(name: str) -> bool:
    """Whether an option's or variable's value is secret, judging by its name."""
    return bool(_NAME.fullmatch(name) and _SECRET.fullmatch(name))


def without_secrets(words: Sequence[str], secret_options: Sequence[str]) -> list[str]:
    """Replace secret values with `***`, including those after `secret_options`."""
    masked: list[str] = []
    is_value = False
    for word in words:
        option, equals, _ = word.partition("=")
        has_secret = is_secret(option) or option in secret_options
        joined = next((each for each in secret_options if len(each) == 2 and word.startswith(each)), word)
        if is_value:
            masked.append("***")
        elif not has_secret and joined != word:  # `-pVALUE`
            masked.append(f"{joined}***")
        elif has_secret and equals:
            masked.append(f"{option}=***")
        else:
            masked.append(_WITHIN.sub(r"\1***", mask_logins(word)))
        is_value = has_secret and not equals and option.startswith("-")
    return masked
