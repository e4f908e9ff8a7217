"""``cix migrate-store`` moves every conversation between SQLite and PostgreSQL, and can be run again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from contextinfinity.cli.main import app
from contextinfinity.domain.message import say
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.exchange.cix_format import write_cix
from contextinfinity.storage.contract import Store
from contextinfinity.storage.postgres.store import PostgresStore
from contextinfinity_testing.builders import exchange
from tests.ledgers import open_store
from tests.postgres import empty_database

pytestmark = [pytest.mark.xdist_group("postgres"), pytest.mark.req("LEDGER-10")]


async def fill(store: Store) -> list[str]:
    """Write conversations of two users, with a branch, a pin and text that PostgreSQL cannot hold as it is."""
    made = []
    for user in ("ada", "grace"):
        session = await store.sessions.create(NewSession(owner=Owner(user_id=user), title="Herons", system="Be brief."))
        await store.turns.record(session.active_branch, [exchange(f"{user} asks {n} \x00") for n in range(5)])
        fork = await store.branches.fork(session.active_branch, at=2)
        await store.turns.log(fork.id, say("user", "and in winter?"))
        made.append(session.id)
    return made


async def written(store: Store, session_ids: list[str]) -> bytes:
    return b"".join([piece async for piece in write_cix(store, session_ids)])


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        app([*words], prog_name="cix")
    return int(ended.value.code or 0)


async def test_conversations_move_to_postgresql_and_back_without_a_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, (first, last) = empty_database(), (tmp_path / "first.db", tmp_path / "last.db")
    source = open_store(first)
    sessions = await fill(source)
    expected = await written(source, sessions)
    await source.close()

    def move(start: str, end: str) -> dict[str, object]:
        words = ("migrate-store", "--from", start, "--to", end, "--data-dir", str(tmp_path), "--json")
        assert run(*words) == 0, capsys.readouterr().err
        report: dict[str, object] = json.loads(capsys.readouterr().out)
        return report

    there = await asyncio.to_thread(move, f"sqlite:///{first}", url)
    assert there == {"copied": 2, "there_before": 0, "memories": 0, "different": []}
    again = await asyncio.to_thread(move, f"sqlite:///{first}", url)
    assert again == {"copied": 0, "there_before": 2, "memories": 0, "different": []}
    await asyncio.to_thread(move, url, f"sqlite:///{last}")
    moved = open_store(last)
    assert await written(moved, sessions) == expected
    await moved.close()
    target = PostgresStore(url, tmp_path)
    assert await written(target, sessions) == expected
    await target.close()


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [
        ("sqlite:///nowhere.db", "sqlite:///b.db", "There is no ledger"),
        ("sqlite:///a.db", "sqlite:///a.db", "the same ledger"),
        ("a.db", "sqlite:///b.db", "not the address of a ledger"),
    ],
)
def test_a_move_that_makes_no_sense_is_refused_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], start: str, end: str, said: str
) -> None:
    assert run("migrate-store", "--from", start, "--to", end, "--data-dir", str(tmp_path)) != 0
    assert said in capsys.readouterr().err
    assert not list(tmp_path.glob("*.db"))
