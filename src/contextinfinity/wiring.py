"""Where the parts are put together: the only place that names concrete stores and providers."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from contextinfinity.errors import SettingsError

if TYPE_CHECKING:
    from contextinfinity.client.contract import Client
    from contextinfinity.engine.engine import Engine
    from contextinfinity.engine.parts import Model, Models
    from contextinfinity.settings import ModelSettings, Settings
    from contextinfinity.storage.contract import Store


def open_engine(settings: Settings | None = None, *, data_dir: str | Path | None = None) -> Engine:
    """Put an engine together, to be used with ``async with``; without settings those of the machine count.

    This is ``contextinfinity.open``.
    """
    from contextinfinity.engine.engine import Engine
    from contextinfinity.settings import load_settings
    from contextinfinity.storage.journal import JournalFolder

    if settings is None:
        settings = load_settings(data_dir=None if data_dir is None else Path(data_dir)).settings
    stream = settings.stream
    models = models_of(settings)
    journals = JournalFolder(
        settings.data_dir / "streams",
        flush_ms=stream.flush_ms,
        flush_bytes=stream.flush_bytes,
        fsync_ms=stream.fsync_ms,
    )
    keep = timedelta(minutes=stream.keep_journal_minutes)
    return Engine(open_store(settings), journals, models, keep_journals=keep)


def open_client(settings: Settings) -> Client:
    """Put together what a door talks to: a client of an engine of its own, to be used with ``async with``."""
    from contextinfinity.client.local import LocalClient

    return LocalClient(open_engine(settings))


def open_store(settings: Settings) -> Store:
    """Open the ledger that the settings name; whoever opens it closes it."""
    path = settings.ledger_path
    if path is None:
        raise SettingsError(
            "storage.url names a PostgreSQL database, and this release has no PostgreSQL store yet.",
            hint="Set it to sqlite:///… or leave it out.",
        )
    from contextinfinity.storage.sqlite.store import SqliteStore

    return SqliteStore(path)


def models_of(settings: Settings) -> Models:
    """Give every model the settings name, and the built-in one."""
    from contextinfinity.engine.parts import Model, Models
    from contextinfinity.providers.scripted import ScriptedProvider, echo
    from contextinfinity.settings import BUILT_IN

    built_in = Model(name=BUILT_IN, provider=ScriptedProvider(echo), model_id="echo")
    named = {name: _model(name, one) for name, one in settings.models.items() if one.provider == "scripted"}
    default = settings.general.default_model
    if default != BUILT_IN and default not in named:
        provider = settings.models[default].provider
        raise SettingsError(
            f"general.default_model is {default!r}, a model of {provider}; this release has no such provider yet.",
            hint="Leave it out, or name a model whose provider is scripted.",
        )
    return Models(by_name={BUILT_IN: built_in, **named}, default=default)


def _model(name: str, settings: ModelSettings) -> Model:
    from contextinfinity.engine.parts import Model
    from contextinfinity.providers.scripted import ScriptedProvider, echo

    script = echo if settings.path is None else Path(settings.path)
    return Model(name=name, provider=ScriptedProvider(script), model_id=settings.model_id or name)
