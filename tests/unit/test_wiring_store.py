"""Which store an address means, and which models may help."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from contextinfinity.domain.session import NewSession
from contextinfinity.errors import LedgerFailed, SettingsError, SpoolFull
from contextinfinity.settings import BUILT_IN, Compaction, General, Settings, Storage
from contextinfinity.settings.sections import LibrarianSettings
from contextinfinity.storage.standby.store import StandbyStore
from contextinfinity.wiring import models_of, open_standby, open_store, setup_of
from contextinfinity_testing.builders import exchange


@pytest.mark.req("LEDGER-7")
async def test_the_settings_name_the_ledger_that_is_opened(tmp_path: Path) -> None:
    settings = Settings(general=General(data_dir=str(tmp_path)), storage=Storage(url="sqlite:///mine.db"))
    store = open_store(settings)
    session = await store.sessions.create(NewSession())
    await store.close()
    store = open_store(settings)
    assert await store.sessions.get(session.id) == session
    await store.close()
    assert (tmp_path / "mine.db").is_file()


def test_a_postgresql_server_that_is_away_is_named_without_its_password(tmp_path: Path) -> None:
    url = "postgresql://me:secret@localhost:1/db"
    settings = Settings(general=General(data_dir=str(tmp_path)), storage=Storage(url=url))
    with pytest.raises(LedgerFailed, match=r"postgresql://localhost:1/db cannot be reached") as refused:
        open_store(settings)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("section", ["librarian", "compaction"])
def test_the_built_in_model_is_never_a_helper(tmp_path: Path, section: str) -> None:
    kinds = {"librarian": LibrarianSettings(model=BUILT_IN), "compaction": Compaction(detector_model=BUILT_IN)}
    settings = replace(Settings(general=General(data_dir=str(tmp_path))), **{section: kinds[section]})
    with pytest.raises(SettingsError, match="too small for summaries"):
        setup_of(settings, models_of(settings))


async def test_an_engine_has_a_spool_beside_its_ledger_of_the_size_the_settings_name(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere" / "mine.db"
    settings = Settings(
        general=General(data_dir=str(tmp_path)), storage=Storage(url=f"sqlite:///{elsewhere}", spool_mb=1)
    )
    store = open_standby(settings)
    assert isinstance(store, StandbyStore)
    with store.kept_away():
        session = await store.sessions.create(NewSession())
        with pytest.raises(SpoolFull):
            await store.turns.record(session.active_branch, [exchange("x" * 1_100_000, "too much")])
    assert [path.suffix for path in (tmp_path / "elsewhere" / "mine.db-spool").iterdir()] == [".spool"]
    await store.close()
    assert list((tmp_path / "elsewhere" / "mine.db-spool").iterdir()) == []
