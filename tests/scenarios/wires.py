"""An engine whose models are at vendors, fake ones, reached through the real adapters."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from contextinfinity.domain.events import Event
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.engine_setup import Rewriting, Setup
from contextinfinity.engine.model_choice import Model, Models
from contextinfinity.providers.remote import RemoteProvider, address, overrides, wire
from contextinfinity.providers.transport import RetryPolicy, VendorConnection
from contextinfinity.settings import ModelSettings, Settings
from contextinfinity.storage.journal import JournalFolder
from contextinfinity.tools.toolbox import Toolbox
from contextinfinity_testing.vendors import FakeVendors
from tests.ledgers import open_store

AT_ONCE = RetryPolicy(attempts=3, first_wait=0.0001)
KEYS = {
    "OPENAI_API_KEY": "sk-open-0123456789",
    "ANTHROPIC_API_KEY": "sk-ant-0123456789",
    "PERPLEXITY_API_KEY": "pplx-01234",
    "GEMINI_API_KEY": "goog-0123456789",
}
NAMES = ("openai", "anthropic", "openai_chat", "perplexity", "gemini")


def model_settings(vendors: FakeVendors, name: str, **more: Any) -> ModelSettings:
    """Return the settings of a model at one of the vendors."""
    ids = {"openai": "gpt-5.5", "anthropic": "claude-sonnet-4-5", "openai_chat": "llama3.1", "perplexity": "sonar-pro"}
    ids["gemini"] = "gemini-3-flash-preview"
    urls = {
        "openai": vendors.openai_url,
        "anthropic": vendors.anthropic_url,
        "openai_chat": vendors.compatible_url,
        "perplexity": vendors.perplexity_url,
        "gemini": vendors.gemini_url,
    }
    return ModelSettings(provider=name, model_id=ids[name], base_url=urls[name], **more)  # type: ignore[arg-type]


def engine_at(
    vendors: FakeVendors,
    folder: Path,
    settings: Settings | None = None,
    *,
    tools: Toolbox | None = None,
    rewriting: Rewriting | None = None,
    fold_pause: timedelta = timedelta(milliseconds=500),
    **more: Any,
) -> Engine:
    """Return an engine with a model at each vendor; the waits between attempts are short."""
    by_name = {}
    for name in NAMES:
        said = model_settings(vendors, name, **more)
        provider = RemoteProvider(
            wire(said, settings or Settings()),
            VendorConnection(address(said)),
            overrides=overrides(said),
            policy=AT_ONCE,
        )
        by_name[name] = Model(name=name, provider=provider, model_id=str(said.model_id), options=said.options)
    models = Models(by_name=by_name, default="openai")
    router = (settings or Settings()).router
    setup = Setup(tools=tools or Toolbox(), rewriting=rewriting, router=router, fold_pause=fold_pause)
    return Engine(open_store(folder / "ledger.db"), JournalFolder(folder / "streams"), models, setup)


async def events_of(engine: Engine, thread: str, text: str, model: str) -> list[Event]:
    """Send a message and return all events."""
    return [event async for event in engine.send(thread, text, model=model)]
