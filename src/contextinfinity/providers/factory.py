"""Create providers from ``[models.NAME]``.

Models at the same address share connections; each has its own wire, because their settings differ.
"""

from __future__ import annotations

import re

import msgspec

from contextinfinity.domain.message import Json
from contextinfinity.providers.contract import Provider, Wire, wire_package
from contextinfinity.providers.remote import RemoteProvider
from contextinfinity.providers.transport import Address, ModelConnection, RetryPolicy, VendorConnection
from contextinfinity.settings import ModelSettings, Settings
from contextinfinity.vendors import VENDORS

OVERRIDES = (
    *("context_limit", "max_output_tokens", "tools", "images", "files", "reasoning", "one_system"),
    *("min_cache_tokens", "price_input", "price_output", "price_cached", "price_cache_write"),
)


class ProviderFactory:
    """Creates providers; those at the same address share a connection."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._open: dict[Address, VendorConnection] = {}

    def provider(self, model: ModelSettings) -> Provider:
        """Return the provider of a remote model; nothing is sent yet."""
        policy = RetryPolicy(attempts=model.attempts)
        return RemoteProvider(
            wire(model, self._settings), self._connection(model), overrides=overrides(model), policy=policy
        )

    def line(self, model: ModelSettings) -> ModelConnection:
        """Return a connection for requests with non-streaming replies; nothing is sent yet."""
        return ModelConnection(
            self._connection(model), model.model_id or "", policy=RetryPolicy(attempts=model.attempts)
        )

    def _connection(self, model: ModelSettings) -> VendorConnection:
        where = address(model)
        return self._open.setdefault(where, VendorConnection(where))


def address(model: ModelSettings) -> Address:
    """Return the address of a model and its key variable; a custom server gets no key unless one is configured."""
    auth, base_url = VENDORS[model.provider].auth, model.base_url
    gets_key = base_url is None or auth.hosts is None or re.match(auth.hosts, base_url) is not None
    return Address(
        vendor=model.provider,
        base_url=base_url,
        key_env=model.api_key_env or (auth.key_env if gets_key else None),
        in_keyring=model.api_key_keyring,
        seconds=model.timeout_seconds,
    )


def wire(model: ModelSettings, settings: Settings) -> Wire:
    """Return the wire of a model according to the settings."""
    opened: Wire = wire_package(VENDORS[model.provider].wire).open_wire(model, settings)
    return opened


def overrides(model: ModelSettings) -> dict[str, Json]:
    """Return the capabilities that the settings override."""
    fields = msgspec.structs.asdict(model)
    return {name: fields[name] for name in OVERRIDES if fields[name] is not None}
