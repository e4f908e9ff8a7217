"""Where the parts are put together: the only place that says which store a ledger's address means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contextinfinity.errors import SettingsError

if TYPE_CHECKING:
    from contextinfinity.settings import Settings
    from contextinfinity.storage.contract import Store


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
