"""From ``[models.NAME]`` to a provider.

Models at the same address share its connections; each has its own wire, since their settings differ.
"""

from __future__ import annotations

import re

import msgspec

from contextinfinity.domain.message import Json
from contextinfinity.providers.contract import Provider, Wire
from contextinfinity.providers.model_connection import ModelConnection
from contextinfinity.providers.rebuild_request import wire_package
from contextinfinity.providers.remote import RemoteProvider
from contextinfinity.providers.retrying import RetryPolicy
from contextinfinity.providers.transport import Address, VendorConnection
from contextinfinity.settings import ModelSettings, Settings
from contextinfinity.vendors import VENDORS

OVERRIDES = (
    *("context_limit", "max_output_tokens", "tools", "images", "reasoning", "one_system", "min_cache_tokens"),
    *("price_input", "price_output", "price_cached", "price_cache_write"),
)


class ProviderFactory:
    """Opens providers, and gives those at the same address the same connection."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._open: dict[Address, VendorConnection] = {}

    def provider(self, model: ModelSettings) -> Provider:
        """Open the provider of a model on the network; nothing is sent yet."""
        policy = RetryPolicy(attempts=model.attempts)
        return RemoteProvider(
            wire(model, self._settings), self._connection(model), overrides=overrides(model), policy=policy
        )

    def line(self, model: ModelSettings) -> ModelConnection:
        """Open the way to a model that answers in one piece; nothing is sent yet."""
        return ModelConnection(
            self._connection(model), model.model_id or "", policy=RetryPolicy(attempts=model.attempts)
        )

    def _connection(self, model: ModelSettings) -> VendorConnection:
        where = address(model)
        return self._open.setdefault(where, VendorConnection(where))


def address(model: ModelSettings) -> Address:
    """Return where a model is, and which variable holds its key; a server of one's own needs none unless named."""
    auth, base_url = VENDORS[model.provider].auth, model.base_url
    gets_key = base_url is None or auth.hosts is None or re.match(auth.hosts, base_url) is not None
    return Address(
        vendor=model.provider,
        base_url=base_url,
        key_env=model.api_key_env or (auth.key_env if gets_key else None),
        seconds=model.timeout_seconds,
    )


def wire(model: ModelSettings, settings: Settings) -> Wire:
    """Open the wire form of a model, as the settings have it."""
    opened: Wire = wire_package(VENDORS[model.provider].wire).open_wire(model, settings)
    return opened


def overrides(model: ModelSettings) -> dict[str, Json]:
    """Give what the settings say of a model's abilities."""
    said = msgspec.structs.asdict(model)
    return {name: said[name] for name in OVERRIDES if said[name] is not None}
