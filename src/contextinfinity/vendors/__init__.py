"""One record per vendor, and the names under which config.toml knows them."""

from __future__ import annotations

from typing import Literal, TypeAlias

from contextinfinity.vendors import anthropic, gemini, openai, openai_chat, perplexity
from contextinfinity.vendors.record import Vendor

VENDORS: dict[str, Vendor] = {
    each.name: each for each in (openai.VENDOR, anthropic.VENDOR, gemini.VENDOR, perplexity.VENDOR, openai_chat.VENDOR)
}
"""By name. Where the records of several fit a model, the first one is used."""

ProviderName: TypeAlias = Literal["anthropic", "gemini", "openai", "openai_chat", "perplexity", "local", "scripted"]
"""The vendors, and the two providers that are not on the network."""

__all__ = ["VENDORS", "ProviderName", "Vendor"]
