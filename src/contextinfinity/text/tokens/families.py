"""Which tokenizer a model has, as far as that is public.

OpenAI's are public, so texts for its models are counted exactly. The others are estimated: tokens in
o200k_base times a factor. ``error`` is how far the estimate may be off, as a share of itself, for English
prose and code; other scripts and long columns of digits can be further off, until usage has been reported.
"""

from __future__ import annotations

import re

from msgspec import Struct


class Family(Struct, frozen=True):
    """Models that share a tokenizer."""

    pattern: str
    """A regular expression that finds its models' ids, in small letters."""
    error: float
    factor: float = 1.0
    encoding: str = "o200k_base"
    exact: bool = False
    tool_tokens: int = 0
    """What the vendor adds to a request that offers tools."""


_START = r"(?:^|[/:.@])"
"""An id may come with a vendor or a region before it: "openai/gpt-4o", "us.anthropic.claude-opus-5"."""

_CLAUDE_TOOLS = 346

FAMILIES = (
    Family(_START + r"gpt-(4|3\.?5)(?![\w.])", encoding="cl100k_base", exact=True, error=0),
    Family(_START + r"(gpt-(4|[5-9]|\d\d|oss)|chatgpt|o\d(?!\w)|codex)", exact=True, error=0),
    Family(
        r"claude-(instant|v?[123]|(opus|sonnet|haiku)-4(-[0-6])?(-?\d{8}.*|[@:].*)?$)",
        factor=1.15,
        error=0.2,
        tool_tokens=_CLAUDE_TOOLS,
    ),
    Family(r"claude", factor=1.4, error=0.25, tool_tokens=_CLAUDE_TOOLS),
    Family(r"llama-?2|codellama|mistral-(7b|tiny)|mi[sx]tral-8x|mixtral|codestral", factor=1.3, error=0.3),
    Family(r"llama", factor=1.02, error=0.1),
    Family(r"sonar", factor=1.02, error=0.2),
    Family(r"qwen|qwq", factor=1.06, error=0.15),
    Family(r"mistral|ministral|magistral|devstral|pixtral", factor=1.1, error=0.15),
)
"""The first that fits is taken. How the figures came about: docs/decisions/0006-token-counting.md."""

BY_PROVIDER = {
    "openai": Family("", error=0.1),
    "anthropic": Family("", factor=1.4, error=0.25, tool_tokens=_CLAUDE_TOOLS),
    "perplexity": Family("", factor=1.02, error=0.2),
}
"""For ids that no family knows."""

UNKNOWN = Family("", factor=1.1, error=0.25)


def family_of(provider: str, model_id: str) -> Family:
    """Find the family of a model."""
    model = model_id.lower()
    for family in FAMILIES:
        if re.search(family.pattern, model):
            return family
    return BY_PROVIDER.get(provider, UNKNOWN)
