"""``cix migrate-store`` moves every conversation between SQLite and PostgreSQL, and can be run again."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from contextinfinity.cli.main import app
from contextinfinity.domain.ids import now
from contextinfinity.domain.memory import NewMemory
from contextinfinity.domain.message import say
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.exchange.cix_format import write_cix
from contextinfinity.exchange.store_migration import migrate_store
from contextinfinity.storage.contract import Store
from contextinfinity.storage.postgres.store import PostgresStore
from contextinfinity_testing.builders import exchange
from tests.ledgers import open_store
from tests.postgres import empty_database

COUNTS = ("copied", "there_before", "updated", "deleted", "memories", "changing", "only_there")
NOTHING: dict[str, object] = {**dict.fromkeys(COUNTS, 0), "different": []}

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
    assert there == NOTHING | {"copied": 2}
    again = await asyncio.to_thread(move, f"sqlite:///{first}", url)
    assert again == NOTHING | {"there_before": 2}
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


def silent(done: int, total: int) -> None: ...


@pytest.fixture(params=["to postgresql", pytest.param("to sqlite", marks=pytest.mark.proof)])
async def ledgers(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[tuple[Store, Store]]:
    """Where conversations are, and where they are to be."""
    stores: list[Store] = [open_store(tmp_path / "ledger.db"), PostgresStore(empty_database(), tmp_path)]
    yield tuple(stores if request.param == "to postgresql" else reversed(stores))  # type: ignore[misc]
    for store in stores:
        await store.close()


async def test_a_ledger_is_moved_while_it_is_written_to(ledgers: tuple[Store, Store]) -> None:
    source, target = ledgers
    sessions = await fill(source)
    branches = [(await source.sessions.get(name)).active_branch for name in sessions]  # type: ignore[union-attr]
    copying = asyncio.Event()

    async def speak() -> None:
        for number in count():
            await copying.wait()
            copying.clear()
            for branch_id in branches:
                await source.turns.record(branch_id, [exchange(f"and then {number}")])

    speaking = asyncio.create_task(speak())
    report = await migrate_store(source, target, lambda done, total: copying.set())
    speaking.cancel()
    await asyncio.wait({speaking})
    assert (report.copied, report.different) == (2, ())
    assert report.changing, "they were written to all the time"
    for branch_id in branches:
        await source.turns.record(branch_id, [exchange("and the last word")])
    last = await migrate_store(source, target, silent)
    assert (last.updated, last.changing, last.different) == (2, 0, ())
    assert await written(target, sessions) == await written(source, sessions)


async def test_what_was_changed_or_deleted_since_it_was_moved_is_changed_or_deleted_there(
    ledgers: tuple[Store, Store],
) -> None:
    source, target = ledgers
    first, second = await fill(source)
    ada = Owner(user_id="ada")
    branch = (await source.sessions.get(first)).active_branch  # type: ignore[union-attr]
    turns = await source.turns.history(branch)
    old = await source.memories.add(NewMemory(owner=ada, content="Ada likes herons.", said_at=now()))
    await migrate_store(source, target, silent)
    await source.turns.record(branch, [exchange("one more")])
    await source.deletions.delete_turn(turns[1].id)
    await source.sessions.rename(first, "Storks")
    await source.memories.edit(ada, old.id, NewMemory(owner=ada, content="Ada likes storks.", said_at=now()))
    while (await source.deletions.delete(second)).more:
        pass
    report = await migrate_store(source, target, silent)
    assert (report.copied, report.updated, report.deleted, report.different) == (0, 1, 1, ())
    assert await written(target, [first]) == await written(source, [first])
    assert await target.sessions.get(second) is None
    assert [each.content for each in await target.memories.list(ada)] == ["Ada likes storks."]
    again = await migrate_store(source, target, silent)
    assert (again.there_before, again.updated, again.changing) == (1, 0, 0)


async def test_what_was_said_in_the_target_is_not_replaced(ledgers: tuple[Store, Store]) -> None:
    source, target = ledgers
    first, _ = await fill(source)
    await migrate_store(source, target, silent)
    for store, words in ((source, "said here"), (target, "said there")):
        await store.turns.record((await store.sessions.get(first)).active_branch, [exchange(words)])  # type: ignore[union-attr]
    expected = await written(target, [first])
    report = await migrate_store(source, target, silent)
    assert (report.different, report.there_before) == ((first,), 1)
    assert await written(target, [first]) == expected


async def test_an_interrupted_migration_goes_on_where_it_was(ledgers: tuple[Store, Store]) -> None:
    source, target = ledgers
    sessions = [name for _ in range(3) for name in await fill(source)]

    def stop(done: int, total: int) -> None:
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await migrate_store(source, target, stop)
    report = await migrate_store(source, target, silent)
    assert (report.copied, report.there_before, report.changing, report.different) == (2, 4, 0, ())
    assert await written(target, sessions) == await written(source, sessions)


@pytest.mark.proof
def test_a_migration_that_is_killed_again_and_again_ends_with_everything_while_the_source_is_written_to(
    tmp_path: Path,
) -> None:
    """Ten kills, in both directions."""
    file, url, last = tmp_path / "ledger.db", empty_database(), tmp_path / "back.db"
    names = asyncio.run(_many(open_store(file)))
    for start, end in ((f"sqlite:///{file}", url), (url, f"sqlite:///{last}")):
        command = [sys.executable, "-m", "contextinfinity", "migrate-store", "--from", start, "--to", end]
        for seconds in (0.6, 0.9, 1.2, 1.5, 2.0):
            process = subprocess.Popen([*command, "--data-dir", str(tmp_path)], stderr=subprocess.DEVNULL)
            asyncio.run(_speak(PostgresStore(url, tmp_path) if start == url else open_store(file), names))
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=seconds)
            process.kill()
            process.wait()
        done = subprocess.run([*command, "--data-dir", str(tmp_path), "--json"], capture_output=True, check=True)
        report = json.loads(done.stdout)
        assert (report["different"], report["changing"]) == ([], 0)
    there, back = PostgresStore(url, tmp_path), open_store(last)

    async def compare() -> None:
        assert await written(there, names) == await written(back, names)
        await there.close()
        await back.close()

    asyncio.run(compare())


async def _many(store: Store) -> list[str]:
    names = [name for _ in range(40) for name in await fill(store)]
    await store.close()
    return names


async def _speak(store: Store, names: list[str]) -> None:
    """Go on with some conversations."""
    for name in random.sample(names, 20):
        session = await store.sessions.get(name)
        assert session is not None
        await store.turns.record(session.active_branch, [exchange("and then?")])
    await store.close()
