"""OpenAI: the Responses API.

Prices: see ``catalogue.py``.
"""

from __future__ import annotations

from typing import Any

from contextinfinity.domain.prompt import Abilities, Guidance
from contextinfinity.vendors.record import FOUR, FROM_LOW_TO_MAX, THREE, Auth, Family, Patches, Tiles, Vendor, row


def _openai(window: int, output: int, prices: tuple[float, ...] = (), **more: Any) -> Abilities:
    usual = {"images": True, "files": True, "reasoning": True, "encoding": "o200k_base"}
    return row(window, output, prices, **{**usual, **more})


def _plain(window: int, output: int, prices: tuple[float, ...] = (), **more: Any) -> Abilities:
    return _openai(window, output, prices, **{"reasoning": False, **more})


_SHORT = {"reasoning": False, "images": False, "encoding": "cl100k_base"}

_OF_1M, _OF_400K = 922_000, 272_000
"""OpenAI splits the windows of 1,050,000 and 400,000 tokens: 128,000 are for the answer alone, this is the rest."""

MODELS: dict[str, Abilities] = {
    "gpt-6": _openai(_OF_1M, 128_000),
    "gpt-6-astra": _openai(_OF_1M, 128_000, (10, 50, 1, 12.5)),
    "gpt-6-sol": _openai(_OF_1M, 128_000, (2, 10, 0.2, 2.5)),
    "gpt-6-luna": _openai(_OF_1M, 128_000, (0.1, 0.5, 0.01, 0.125)),
    "gpt-6.1-sol": _openai(_OF_1M, 128_000, (2, 10, 0.1)),
    "gpt-6.1-terra": _openai(_OF_1M, 128_000, (1, 5, 0.05, 1.25)),
    "gpt-5.6": _openai(_OF_1M, 128_000),
    "gpt-5.6-sol": _openai(_OF_1M, 128_000, (4, 20, 0.4)),
    "gpt-5.6-terra": _openai(_OF_1M, 128_000, (2, 12, 0.2)),
    "gpt-5.6-luna": _openai(_OF_1M, 128_000, (0.2, 1.2, 0.02)),
    "gpt-5.5": _openai(_OF_1M, 128_000, (5, 30, 0.5)),
    "gpt-5.5-pro": _openai(_OF_1M, 128_000, (30, 180)),
    "gpt-5.4": _openai(_OF_1M, 128_000, (2.5, 15, 0.25)),
    "gpt-5.4-pro": _openai(_OF_1M, 128_000, (30, 180)),
    "gpt-5.4-mini": _openai(_OF_400K, 128_000, (0.75, 4.5, 0.075)),
    "gpt-5.4-nano": _openai(_OF_400K, 128_000, (0.2, 1.25, 0.02)),
    "gpt-5.3-codex": _openai(_OF_400K, 128_000, (1.75, 14, 0.175)),
    "gpt-5.3-codex-spark": _openai(128_000, 32_000),
    "gpt-5.3-chat": _plain(128_000, 16_384, (1.75, 14, 0.175)),
    "gpt-5.2": _openai(_OF_400K, 128_000, (1.75, 14, 0.175)),
    "gpt-5.2-pro": _openai(_OF_400K, 128_000, (21, 168)),
    "gpt-5.2-chat": _openai(128_000, 16_384, (1.75, 14, 0.175)),
    "gpt-5.1": _openai(_OF_400K, 128_000, (1.25, 10, 0.125)),
    "gpt-5.1-codex-mini": _openai(_OF_400K, 128_000, (0.25, 2, 0.025)),
    "gpt-5.1-chat": _openai(128_000, 16_384, (1.25, 10, 0.125)),
    "gpt-5.": _openai(_OF_400K, 128_000),
    "gpt-5": _openai(_OF_400K, 128_000, (1.25, 10, 0.125)),
    "gpt-5-mini": _openai(_OF_400K, 128_000, (0.25, 2, 0.025)),
    "gpt-5-nano": _openai(_OF_400K, 128_000, (0.05, 0.4, 0.005)),
    "gpt-5-pro": _openai(_OF_400K, 272_000, (15, 120)),
    "gpt-5-chat": _plain(128_000, 16_384, (1.25, 10, 0.125), tools=False),
    "gpt-4.1": _plain(1_047_576, 32_768, (2, 8, 0.5)),
    "gpt-4.1-mini": _plain(1_047_576, 32_768, (0.4, 1.6, 0.1)),
    "gpt-4.1-nano": _plain(1_047_576, 32_768, (0.1, 0.4, 0.025)),
    "gpt-4o": _plain(128_000, 16_384, (2.5, 10, 1.25)),
    "gpt-4o-2024-05-13": _plain(128_000, 4_096, (5, 15)),
    "gpt-4o-mini": _plain(128_000, 16_384, (0.15, 0.6, 0.075)),
    "chatgpt-4o": _plain(128_000, 16_384, tools=False),
    "o4-mini": _openai(200_000, 100_000, (1.1, 4.4, 0.275)),
    "o4-mini-deep-research": _openai(200_000, 100_000, (2, 8, 0.5), tools=False),
    "o3": _openai(200_000, 100_000, (2, 8, 0.5)),
    "o3-pro": _openai(200_000, 100_000, (20, 80)),
    "o3-mini": _openai(200_000, 100_000, (1.1, 4.4, 0.55), images=False, files=False),
    "o3-deep-research": _openai(200_000, 100_000, (10, 40, 2.5), tools=False),
    "o1": _openai(200_000, 100_000, (15, 60, 7.5)),
    "o1-pro": _openai(200_000, 100_000, (150, 600)),
    "gpt-4": row(8_192, 4_096, (30, 60), **_SHORT),
    "gpt-4-turbo": row(128_000, 4_096, (10, 30), **{**_SHORT, "images": True}),
    "gpt-3.5-turbo": row(16_385, 4_096, (0.5, 1.5), **_SHORT),
}


def _thinks(*efforts: str) -> Guidance:
    """Describe a model that reasons: it takes an effort in place of a temperature and of stop sequences."""
    return Guidance(sampling=False, stop=False, efforts=efforts)


GUIDANCE: dict[str, Guidance] = {
    **dict.fromkeys(("o1", "o3", "o4-mini"), _thinks(*THREE)),
    "gpt-5": _thinks("minimal", *THREE),
    "gpt-5-codex": _thinks(*THREE),
    "gpt-5-pro": _thinks("high"),
    "gpt-5.1": _thinks("none", *THREE),
    "gpt-5.1-codex": _thinks(*THREE),
    "gpt-5.1-codex-max": _thinks(*FOUR),
    "gpt-5.": _thinks("none", *FOUR),
    **dict.fromkeys(("gpt-5.2-codex", "gpt-5.3-codex"), _thinks(*FOUR)),
    **dict.fromkeys(("gpt-5.2-pro", "gpt-5.4-pro", "gpt-5.5-pro"), _thinks("medium", "high", "xhigh")),
    **dict.fromkeys(("gpt-5.1-chat", "gpt-5.2-chat"), _thinks("medium")),
    **dict.fromkeys(("gpt-5-chat", "gpt-5.3-chat"), Guidance()),
    "gpt-5.6": _thinks("none", *FROM_LOW_TO_MAX),
    "gpt-6": _thinks("none", *FROM_LOW_TO_MAX),
}

_START = r"(?:^|[/:.@])"
"""An id may come with a vendor or a region before it: "openai/gpt-4o", "us.anthropic.claude-opus-5"."""

VENDOR = Vendor(
    name="openai",
    wire="openai_responses",
    base_url="https://api.openai.com/v1",
    base_url_env="OPENAI_BASE_URL",
    auth=Auth(key_env="OPENAI_API_KEY"),
    headers_env={"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"},
    custom_headers_env="OPENAI_CUSTOM_HEADERS",
    models=MODELS,
    guidance=GUIDANCE,
    families=(
        Family(_START + r"gpt-(4|3\.?5)(?![\w.])", encoding="cl100k_base", exact=True, error=0),
        Family(_START + r"(gpt-(4|[5-9]|\d\d|oss)|chatgpt|o\d(?!\w)|codex)", exact=True, error=0),
    ),
    family=Family("", error=0.1),
    picture_rules=(
        (r"gpt-4o-mini", Tiles(2833, 5667)),
        (r"gpt-(4\.1|5(\.\d)?)-mini", Patches(32, 1536, 1.62)),
        (r"gpt-(4\.1|5(\.\d)?)-nano", Patches(32, 1536, 2.46)),
        (r"o4-mini|codex-mini", Patches(32, 1536, 1.72)),
        (r"gpt-5\.[23]", Patches(32, 1536, 1.2)),
        (r"gpt-5\.4", Patches(32, 2500, 1.2)),
        (r"gpt-5\.[5-9]", Patches(32, 10_000, 1.2)),
        (r"gpt-([6-9]|\d\d)", Patches(32, 16_384, 1.2)),
        (r"gpt-5", Tiles(70, 140)),
        (r"(^|[/:.])o[13]", Tiles(75, 150)),
        (r"gpt-|chatgpt", Tiles(85, 170)),
    ),
    embeddings=True,
)
