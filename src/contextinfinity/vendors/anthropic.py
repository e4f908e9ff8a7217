"""Anthropic: the Messages API."""

from __future__ import annotations

from typing import Any

from contextinfinity.domain.prompt import Abilities, Guidance
from contextinfinity.vendors.record import FROM_LOW_TO_MAX, THREE, Auth, Family, Patches, Vendor, row


def _claude(window: int, output: int, prices: tuple[float, ...] = (), **more: Any) -> Abilities:
    return row(window, output, prices, **{"images": True, "files": True, "reasoning": True, **more})


MODELS: dict[str, Abilities] = {
    "claude-": _claude(200_000, 32_000, min_cache_tokens=4096),
    "claude-fable-5": _claude(1_000_000, 128_000, (10, 50, 1, 12.5), min_cache_tokens=512),
    "claude-fable-5-1": _claude(1_000_000, 128_000, (10, 50)),
    "claude-fable-5-2": _claude(1_000_000, 128_000),
    "claude-mythos-5": _claude(1_000_000, 128_000, (10, 50, 1, 12.5), min_cache_tokens=512),
    "claude-mythos-5-1": _claude(1_000_000, 128_000),
    "claude-mythos-5-2": _claude(1_000_000, 128_000),
    "claude-opus-5": _claude(1_000_000, 128_000, (5, 25, 0.5, 6.25), min_cache_tokens=512),
    "claude-opus-5-5": _claude(1_000_000, 128_000, (4, 20, 0.2, 5)),
    "claude-opus-4-8": _claude(1_000_000, 128_000, (5, 25, 0.5, 6.25)),
    "claude-opus-4-7": _claude(1_000_000, 128_000, (5, 25, 0.5, 6.25), min_cache_tokens=2048),
    "claude-opus-4-6": _claude(1_000_000, 128_000, (5, 25, 0.5, 6.25), min_cache_tokens=4096),
    "claude-opus-4-5": _claude(200_000, 64_000, (5, 25, 0.5, 6.25), min_cache_tokens=4096),
    "claude-opus-4": _claude(200_000, 32_000, (15, 75, 1.5, 18.75)),
    "claude-sonnet-5": _claude(1_000_000, 128_000, (2, 10, 0.2, 2.5)),
    "claude-sonnet-4-6": _claude(1_000_000, 64_000, (3, 15, 0.3, 3.75), min_cache_tokens=2048),
    "claude-sonnet-4": _claude(200_000, 64_000, (3, 15, 0.3, 3.75)),
    "claude-haiku-5-5": _claude(1_000_000, 128_000, (0.1, 0.5), min_cache_tokens=4096),
    "claude-haiku-4-5": _claude(200_000, 64_000, (1, 5, 0.1, 1.25), min_cache_tokens=4096),
    "claude-3-7-sonnet": _claude(200_000, 64_000, (3, 15, 0.3, 3.75)),
    "claude-3-5": _claude(200_000, 8_192, reasoning=False, min_cache_tokens=2048),
    "claude-3": _claude(200_000, 4_096, reasoning=False, files=False, min_cache_tokens=2048),
}

_ADAPTIVE = Guidance(sampling=False, efforts=FROM_LOW_TO_MAX, thinking="adaptive")
_ALWAYS = Guidance(sampling=False, efforts=FROM_LOW_TO_MAX, thinking="adaptive", unthinking="")
_UNFORCED = Guidance(sampling=False, forced_tools=False, efforts=FROM_LOW_TO_MAX, thinking="adaptive", unthinking="")

GUIDANCE: dict[str, Guidance] = {
    "claude-": _UNFORCED,  # one that is not out yet: as the newest
    **dict.fromkeys(("claude-3", "claude-opus-4", "claude-sonnet-4", "claude-haiku-4"), Guidance(prefill=True)),
    "claude-opus-4-5": Guidance(efforts=THREE, prefill=True),
    **dict.fromkeys(("claude-opus-4-6", "claude-sonnet-4-6"), Guidance(efforts=(*THREE, "max"), thinking="adaptive")),
    **dict.fromkeys(("claude-opus-4-7", "claude-opus-4-8", "claude-opus-5", "claude-sonnet-5"), _ADAPTIVE),
    "claude-haiku-5-5": _ADAPTIVE,
    **dict.fromkeys(("claude-fable-5", "claude-mythos-5", "claude-mythos-preview"), _ALWAYS),
    **dict.fromkeys(("claude-opus-5-5", "claude-fable-5-1", "claude-fable-5-2"), _UNFORCED),
    **dict.fromkeys(("claude-mythos-5-1", "claude-mythos-5-2"), _UNFORCED),
    "claude-sonnet-5-5": Guidance(
        sampling=False, forced_tools=False, efforts=FROM_LOW_TO_MAX, thinking="adaptive", unthinking="between_tools"
    ),
}

_TOOL_TOKENS = 346
_LARGE_PICTURES = Patches(28, 4784, longest=2576, extra=4)

VENDOR = Vendor(
    name="anthropic",
    wire="anthropic",
    base_url="https://api.anthropic.com",
    base_url_env="ANTHROPIC_BASE_URL",
    auth=Auth(key_env="ANTHROPIC_API_KEY", header="X-Api-Key", prefix=""),
    headers={"anthropic-version": "2026-10-21"},
    custom_headers_env="ANTHROPIC_CUSTOM_HEADERS",
    models=MODELS,
    guidance=GUIDANCE,
    families=(
        Family(
            r"claude-(instant|v?[123]|(opus|sonnet|haiku)-4(-[0-6])?(-?\d{8}.*|[@:].*)?$)",
            factor=1.15,
            error=0.2,
            tool_tokens=_TOOL_TOKENS,
        ),
        Family(r"claude", factor=1.4, error=0.25, tool_tokens=_TOOL_TOKENS),
    ),
    family=Family("", factor=1.4, error=0.25, tool_tokens=_TOOL_TOKENS),
    picture_rules=(
        (
            r"claude-([123]|(opus|sonnet|haiku)-4(-[0-6])?(-?\d{8}.*|[@:].*)?$)",
            Patches(28, 1568, longest=1568, extra=4),
        ),
        (r"claude", _LARGE_PICTURES),
    ),
    picture_rule=_LARGE_PICTURES,
)
