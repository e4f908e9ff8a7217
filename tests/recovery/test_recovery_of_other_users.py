"""Under row-level security, what a user's request starts for all users reaches the rows of all users."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import contextinfinity
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.domain.turn import Phase
from contextinfinity.engine.recovery import Recovery
from contextinfinity.errors import LedgerReadOnly
from contextinfinity.storage.database import act_for
from contextinfinity.storage.journal import JournalFolder
from contextinfinity.storage.postgres.store import PostgresStore
from contextinfinity.storage.standby.held_branches import Bounds
from contextinfinity.storage.standby.store import StandbyStore
from contextinfinity_testing.builders import current, exchange, final_turn, new_branch, new_turn
from tests.postgres import secured_database, server_url

pytestmark = [pytest.mark.xdist_group("postgres"), pytest.mark.req("CHATMEM-9")]

ALICE, BOB = Owner(user_id="alice"), Owner(user_id="bob")
SOON = Bounds(first_pause=0.05, longest_pause=0.1)


@pytest.fixture
def urls() -> tuple[str, str]:
    """The URLs of an empty ledger: of the role that owns it, and of the serving role."""
    return secured_database("other_users")


@pytest.fixture
async def store(urls: tuple[str, str], tmp_path: Path) -> AsyncIterator[StandbyStore]:
    store = opened(urls, tmp_path)
    yield store
    act_for(None)
    await store.close()


def opened(urls: tuple[str, str], folder: Path) -> StandbyStore:
    owner, serving = urls
    return StandbyStore(PostgresStore(owner, folder, serving_url=serving), folder / "spool", SOON)


def administer(sql: str) -> None:
    with psycopg.connect(server_url(), autocommit=True) as connection:
        connection.execute(sql.encode())


async def test_a_recovery_that_a_request_starts_ends_the_turns_of_all_users_of_a_dead_worker(
    store: StandbyStore, tmp_path: Path
) -> None:
    hers, his = [await new_branch(store, NewSession(owner=owner)) for owner in (ALICE, BOB)]
    turns = [await store.turns.accept(new_turn(branch.id, "Hello?", owner="gone")) for branch in (hers, his)]
    journals = JournalFolder(tmp_path / "streams")
    recovery = Recovery(store=store, journals=journals, worker=(await store.workers.enter()).id)
    act_for(BOB)
    assert await recovery.recover(("gone",)) == 2
    assert await store.turns.get(turns[0].id) is None, "recovery must not leave the caller with the rights of others"
    act_for(None)
    assert [(await current(store, turn)).phase for turn in turns] == [Phase.FAILED, Phase.FAILED]
    journals.close()


async def test_jobs_that_a_request_starts_once_the_ledger_can_be_written_are_done_for_all_users(
    urls: tuple[str, str], store: StandbyStore, tmp_path: Path
) -> None:
    hers, his = [await new_branch(store, NewSession(owner=owner)) for owner in (ALICE, BOB)]
    turn = await final_turn(store, hers.id, "My heron is called Ada.")
    (tmp_path / "script.json").write_text('{"replies": ["Yes."], "loop": true}')
    (tmp_path / "config.toml").write_text(
        '[general]\ndefault_model = "script"\n[models.script]\nprovider = "scripted"\npath = "script.json"\n'
        f'[storage]\nurl = "{urls[0]}"\nserving_url = "{urls[1]}"\n'
    )
    administer("ALTER DATABASE other_users SET default_transaction_read_only = on")
    async with contextinfinity.open(data_dir=tmp_path) as engine:
        act_for(BOB)
        with pytest.raises(LedgerReadOnly):
            await engine.ask(his.session_id, "Is it writable?", user_id="bob")
        administer("ALTER DATABASE other_users RESET default_transaction_read_only")
        administer("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'other_users'")
        assert (await engine.ask(his.session_id, "And now?", user_id="bob")).text == "Yes."
        act_for(None)
        assert await engine.job_runner.drain(20)
        assert (await current(engine.store, turn)).phase is Phase.DONE


async def test_what_a_process_spooled_for_one_user_is_replayed_by_a_request_of_another(
    urls: tuple[str, str], store: StandbyStore, tmp_path: Path
) -> None:
    his = await new_branch(store, NewSession(owner=BOB))
    ended = opened(urls, tmp_path)
    act_for(ALICE)
    with ended.kept_away():
        hers = await ended.sessions.create(NewSession(owner=ALICE, system="Speak of the kingfisher."))
        await ended.turns.record(hers.active_branch, [exchange("It nests in May.", "Noted.")])
        await ended.contents.keep_text("Only Alice says this.")
        await ended.close()
    act_for(BOB)
    assert await store.turns.history(his.id) == ()
    assert await store.sessions.get(hers.id) is None, "a replay must not leave the caller with the rights of others"
    assert [path.suffix for path in (tmp_path / "spool").iterdir()] == [".spool"], "none was refused"
    act_for(ALICE)
    (turn,) = await store.turns.history(hers.active_branch)
    assert (turn.user_message.rendered_text, turn.text) == ("It nests in May.", "Noted.")
    assert (await store.sessions.get(hers.id) or hers).system == "Speak of the kingfisher."
    with psycopg.connect(urls[0]) as connection:
        asked = "SELECT count(*) FROM contextinfinity.text AS t, contextinfinity.session AS s "
        found: Any = connection.execute(asked + "WHERE s.user_id = 'bob' AND t.tenant = s.tenant").fetchall()
    assert found == [(0,)]
