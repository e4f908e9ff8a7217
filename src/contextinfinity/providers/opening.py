"""From ``[models.NAME]`` to a provider.

Models at the same address share its connections; each has its own wire, since each may be told other things.
"""

from __future__ import annotations

import re

import msgspec

from contextinfinity.domain.message import Json
from contextinfinity.providers.contract import Provider, Wire
from contextinfinity.providers.line import Line
from contextinfinity.providers.remote import RemoteProvider
from contextinfinity.providers.retrying import RetryPolicy
from contextinfinity.providers.sdk import Address, Connection
from contextinfinity.settings import ModelSettings, Settings

REMOTE = frozenset({"openai", "anthropic", "openai_chat", "perplexity"})
KEYS = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "perplexity": "PERPLEXITY_API_KEY",
    "openai_chat": "OPENAI_API_KEY",
}
PERPLEXITY_URL = "https://api.perplexity.ai"
AT_OPENAI = re.compile(r"https://([\w-]+\.)?api\.openai\.com([:/]|$)")
OVERRIDES = (
    *("context_limit", "max_output_tokens", "tools", "images", "reasoning", "one_system", "min_cache_tokens"),
    *("price_input", "price_output", "price_cached", "price_cache_write"),
)


class Lines:
    """Opens providers, and gives those at the same address the same connection."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._open: dict[Address, Connection] = {}

    def provider(self, model: ModelSettings) -> Provider:
        """Open the provider of a model on the network; nothing is sent yet."""
        policy = RetryPolicy(attempts=model.attempts)
        return RemoteProvider(
            wire(model, self._settings), self._connection(model), overrides=overrides(model), policy=policy
        )

    def line(self, model: ModelSettings) -> Line:
        """Open the way to a model that answers in one piece; nothing is sent yet."""
        return Line(self._connection(model), model.model_id or "", policy=RetryPolicy(attempts=model.attempts))

    def _connection(self, model: ModelSettings) -> Connection:
        where = address(model)
        return self._open.setdefault(where, Connection(where))


def address(model: ModelSettings) -> Address:
    """Tell where a model is and which variable holds its key; a server of one's own needs none unless it is named."""
    own_server = model.provider == "openai_chat" and not _at_openai(model)
    return Address(
        sdk="anthropic" if model.provider == "anthropic" else "openai",
        vendor=model.provider,
        base_url=model.base_url or (PERPLEXITY_URL if model.provider == "perplexity" else None),
        key_env=model.api_key_env or (None if own_server else KEYS[model.provider]),
        seconds=model.timeout_seconds,
    )


def wire(model: ModelSettings, settings: Settings) -> Wire:
    """Choose the form in which a model is asked."""
    parallel, own_tools = settings.tools.allow_parallel, model.provider_tools or ()
    if model.provider == "anthropic":
        from contextinfinity.providers.anthropic import AnthropicWire

        several = parallel or not settings.anthropic.disable_parallel_tool_use
        return AnthropicWire(parallel_tools=several, provider_tools=own_tools)
    several = parallel or settings.openai.parallel_tool_calls
    if model.provider == "openai":
        from contextinfinity.providers.openai_responses import ResponsesWire

        return ResponsesWire(
            truncation=settings.openai.truncation,
            store=settings.openai.store,
            parallel_tools=several,
            provider_tools=own_tools,
            allow_upstream_state=settings.openai.provider_conversations,
        )
    from contextinfinity.providers.openai_chat import ChatWire

    return ChatWire(
        vendor=model.provider,
        parallel_tools=several,
        provider_tools=own_tools,
        max_tokens_name="max_completion_tokens" if _at_openai(model) else "max_tokens",
        stream_usage=model.provider != "perplexity",
    )


def _at_openai(model: ModelSettings) -> bool:
    """Tell whether chat completions are asked of OpenAI itself."""
    return model.provider == "openai_chat" and (model.base_url is None or bool(AT_OPENAI.match(model.base_url)))


def overrides(model: ModelSettings) -> dict[str, Json]:
    """Give what the settings say of a model's abilities."""
    said = msgspec.structs.asdict(model)
    return {name: said[name] for name in OVERRIDES if said[name] is not None}
