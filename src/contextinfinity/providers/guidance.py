"""How each model can be told to answer, as its vendor documents it: what it takes, and what it refuses.

A row holds for every model whose name begins with its key; the longest key wins. It holds wherever the model is
asked. What a wire cannot say at all is no matter of these rows.
"""

from __future__ import annotations

from contextinfinity.domain.model import Guidance

LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""How much a model can think, the least first."""


def _thinks(*efforts: str) -> Guidance:
    """Make a row of OpenAI's models that reason: they take an effort in place of a temperature and of stop texts."""
    return Guidance(sampling=False, stop=False, efforts=efforts)


_THREE = ("low", "medium", "high")
_FOUR = (*_THREE, "xhigh")
_ALL = (*_FOUR, "max")

OPENAI: dict[str, Guidance] = {
    **dict.fromkeys(("o1", "o3", "o4-mini"), _thinks(*_THREE)),
    "gpt-5": _thinks("minimal", *_THREE),
    "gpt-5-codex": _thinks(*_THREE),
    "gpt-5-pro": _thinks("high"),
    "gpt-5.1": _thinks("none", *_THREE),
    "gpt-5.1-codex": _thinks(*_THREE),
    "gpt-5.1-codex-max": _thinks(*_FOUR),
    "gpt-5.": _thinks("none", *_FOUR),
    **dict.fromkeys(("gpt-5.2-codex", "gpt-5.3-codex"), _thinks(*_FOUR)),
    **dict.fromkeys(("gpt-5.2-pro", "gpt-5.4-pro", "gpt-5.5-pro"), _thinks("medium", "high", "xhigh")),
    **dict.fromkeys(("gpt-5.1-chat", "gpt-5.2-chat"), _thinks("medium")),
    **dict.fromkeys(("gpt-5-chat", "gpt-5.3-chat"), Guidance()),
    "gpt-5.6": _thinks("none", *_ALL),
    "gpt-6": _thinks("none", *_ALL),
}

_ADAPTIVE = Guidance(sampling=False, efforts=_ALL, thinking="adaptive")
_ALWAYS = Guidance(sampling=False, efforts=_ALL, thinking="adaptive", unthinking="")
_UNFORCED = Guidance(sampling=False, forced_tools=False, efforts=_ALL, thinking="adaptive", unthinking="")

ANTHROPIC: dict[str, Guidance] = {
    "claude-": _UNFORCED,  # one that is not out yet: as the newest
    "claude-3": Guidance(),
    **dict.fromkeys(("claude-opus-4", "claude-sonnet-4", "claude-haiku-4"), Guidance()),
    "claude-opus-4-5": Guidance(efforts=_THREE),
    **dict.fromkeys(("claude-opus-4-6", "claude-sonnet-4-6"), Guidance(efforts=(*_THREE, "max"), thinking="adaptive")),
    **dict.fromkeys(("claude-opus-4-7", "claude-opus-4-8", "claude-opus-5", "claude-sonnet-5"), _ADAPTIVE),
    "claude-haiku-5-5": _ADAPTIVE,
    **dict.fromkeys(("claude-fable-5", "claude-mythos-5", "claude-mythos-preview"), _ALWAYS),
    **dict.fromkeys(("claude-opus-5-5", "claude-fable-5-1", "claude-fable-5-2"), _UNFORCED),
    **dict.fromkeys(("claude-mythos-5-1", "claude-mythos-5-2"), _UNFORCED),
    "claude-sonnet-5-5": Guidance(
        sampling=False, forced_tools=False, efforts=_ALL, thinking="adaptive", unthinking="between_tools"
    ),
}

OTHERS: dict[str, Guidance] = {
    **dict.fromkeys(("sonar-reasoning", "sonar-deep-research"), Guidance(efforts=("minimal", *_THREE))),
    "grok-4.3": Guidance(stop=False),
}

ROWS: dict[str, Guidance] = OPENAI | ANTHROPIC | OTHERS
