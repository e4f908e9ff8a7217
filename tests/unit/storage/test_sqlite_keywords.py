"""Words in SQLite: there with their message or not at all, kept in step, bounded however common they are."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from contextinfinity.domain.message import ImageBlock, Message, blob_source
from contextinfinity.domain.search import Scope, TextPosition
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.domain.turn import Exchange
from contextinfinity.errors import InvalidInput, LedgerFull
from contextinfinity.storage.sqlite.connection import connect
from contextinfinity.storage.sqlite.migrate import migrate, migrations
from contextinfinity.storage.sqlite.named_sql import SqliteConnection
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.text.keywords import VERSION, among, containing, terms
from contextinfinity_testing.builders import exchange, new_branch, slice_of
from tests.ledgers import open_store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = open_store(tmp_path / "ledger.db")
    yield store
    await store.close()


def rows(store: SqliteStore, sql: str) -> list[tuple[object, ...]]:
    return store.database.reading(lambda connection: connection.raw.execute(sql).fetchall()).result()


async def found(store: SqliteStore, word: str, scope: Scope | None = None) -> list[TextPosition]:
    return [hit.place for hit in (await store.index.find_words(terms(word), scope or Scope())).hits]


@pytest.mark.req("RETRIEVE-2")
async def test_a_message_is_there_exactly_if_its_words_are(store: SqliteStore) -> None:
    branch = await new_branch(store)
    (turn,) = await store.turns.record(branch.id, [exchange("heron one")])
    lost = ImageBlock(source=blob_source("0" * 64), media_type="image/png")
    with pytest.raises(InvalidInput):
        await store.turns.record(
            branch.id, [exchange("heron two"), Exchange(message=Message(role="user", blocks=(lost,)))]
        )

    def dies(connection: SqliteConnection) -> None:
        connection.raw.execute("UPDATE word_state SET messages = 99")
        raise apsw.FullError("the disk is full")

    with pytest.raises(LedgerFull):
        await store.database.write(dies)
    assert await found(store, "heron") == [TextPosition(turn.id, "user")]
    assert rows(store, "SELECT id / 4 FROM keyword_docsize") == rows(store, "SELECT key FROM message") == [(1,)]
    assert (await store.index.state()).messages == 1


@pytest.mark.req("RETRIEVE-2")
async def test_a_ledger_from_before_the_index_is_filled_turn_by_turn(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    store = open_store(path)
    branch = await new_branch(store)
    turns = await store.turns.record(branch.id, [exchange("heron one", "yes"), exchange("heron two")])
    await store.close()
    store = open_store(as_it_was_before(path))
    assert await found(store, "heron") == []
    state = await store.index.state()
    assert (state.messages, state.indexed, state.uncut, state.version) == (3, 0, 2, VERSION)
    assert await store.index.uncut() == turns
    await store.index.fill([(turns[0].id, [slice_of("heron one", "heron one")])])
    assert await found(store, "heron") == [TextPosition(turns[0].id, "user")]
    await store.index.replace([(turn.id, []) for turn in await store.index.turns(after=turns[0].id)])
    state = await store.index.state()
    assert (state.messages, state.indexed, state.uncut) == (3, 3, 1), "words alone: it is still to be cut"
    assert len(await found(store, "heron", Scope(session_id=branch.session_id))) == 2
    await store.close()


def as_it_was_before(path: Path) -> Path:
    """Copy a ledger into one of the shape that it had before there were words."""
    old = path.with_name("before.db")
    connection = connect(str(old))
    migrate(connection, str(old), migrations()[:6])
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute("ATTACH ? AS newer", (str(path),))
    tables = connection.execute("SELECT name FROM main.sqlite_schema WHERE type = 'table'").fetchall()
    for (table,) in tables:
        if table in ("session", "branch", "state", "message", "turn", "text"):
            columns = ", ".join(row[1] for row in connection.execute(f"PRAGMA main.table_info({table})"))
            connection.execute(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM newer.{table}")
    connection.close()
    return old


async def test_words_of_another_version_are_made_anew_across_restarts(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    store = open_store(path)
    branch = await new_branch(store)
    turns = await store.turns.record(branch.id, [exchange(f"heron {n}", "yes") for n in range(5)])
    await store.database.write(lambda c: c.raw.execute("UPDATE word_state SET version = 0").fetchall())
    assert (await store.index.state()).version == 0
    await store.index.replace([(turn.id, []) for turn in turns[:2]])
    await store.close()
    store = open_store(path)
    await store.turns.record(branch.id, [exchange("heron while it runs")])
    assert rows(store, "SELECT renewing, made FROM word_state") == [(VERSION, 3)]
    await store.index.replace([(turns[4].id, [])])  # out of turn: it does not count yet
    assert (await store.index.state()).version == 0
    await store.index.replace([(turn.id, []) for turn in turns[2:]])
    state = await store.index.state()
    assert (state.version, state.messages, state.indexed) == (VERSION, 11, 11)
    assert len(await found(store, "heron")) == 6
    await store.close()


async def test_a_message_that_is_deleted_takes_its_words(store: SqliteStore) -> None:
    branch = await new_branch(store)
    await store.turns.record(branch.id, [exchange("heron one", "heron two")])

    def delete(given: SqliteConnection) -> None:
        connection = given.raw
        connection.execute("INSERT INTO deletion SELECT id, 'asked for', 0 FROM session")
        connection.execute("DELETE FROM message WHERE key = 2")
        connection.execute("DELETE FROM deletion")

    await store.database.write(delete)
    assert rows(store, "SELECT id FROM keyword_docsize") == [(4,)]
    assert rows(store, "SELECT messages, indexed, places FROM word_state") == [(1, 1, 1)]
    hits = await store.index.find_words(["heron"], Scope(session_id=branch.session_id))
    assert (len(hits.hits), hits.counts, hits.total) == (1, (1,), 1)


async def made_large(store: SqliteStore) -> None:
    """Say one word everywhere, one often and one seldom; one owner says too much to be looked up alone."""
    rng = random.Random(1)
    branches = [await new_branch(store, NewSession(owner=Owner(user_id=name))) for name in ("one", "other")]
    for number in range(26):
        said = [
            f"everywhere {'common' if rng.random() < 0.5 else 'other'}" + " seldom" * (at % 500 == 7)
            for at in range(1000)
        ]
        await store.turns.record(branches[number % 10 == 3].id, [exchange(text) for text in said])


@pytest.mark.req("RETRIEVE-5")
async def test_in_a_large_ledger_rare_words_lead_and_common_ones_are_read_from_the_text(store: SqliteStore) -> None:
    await made_large(store)
    words = ["everywher", "common", "seldom"]
    hits = await store.index.find_words(words, Scope())
    entries = await store.index.read([hit.place for hit in hits.hits])
    assert (hits.total, hits.counts[2], len(hits.hits)) == (26_000, 52, 128)
    assert 0.8 < hits.counts[0] / 26_000 < 1.2
    assert ["seldom" in entry.text for entry in entries] == [True] * 52 + [False] * 76
    for hit, entry in zip(hits.hits, entries, strict=True):
        assert hit.own == sum((word in terms(entry.text)) << at for at, word in enumerate(words))
    both = (await store.index.find_words(words[:2], Scope())).hits
    assert [hit.own for hit in both] == [0b11] * 128
    for user in ("one", "other"):
        hits = await store.index.find_words(words, Scope(owner=Owner(user_id=user)))
        entries = await store.index.read([hit.place for hit in hits.hits])
        (session,) = [await store.sessions.get(name) for name in {entry.session_id for entry in entries}]
        assert session is not None
        assert (len(hits.hits), session.owner.user_id) == (128, user)


@pytest.mark.parametrize(
    "text",
    [
        "Walking in cities' parks, don't stop!",
        "getUserName get_user_name user_names_of",
        "__init__ x_y_z's _a a_ get__it",
        "d['user_name'] os.environ['DB_HOST'] foo__bar_baz __init__user_name",
        "snake_case’s • walks → parks … don’t",
        "A1 b-2 c'd",
        "Über die Brücken",
        "x" * 90,
    ],
)
def test_terms_among_a_text_are_those_it_is_made_of(text: str) -> None:
    made = terms(text)
    asked = [*made, "nothing", "walkin", "cit", "park", "username", "xy", "case"]
    assert among(text, asked) == set(made)
    found = {pair for pair in containing(["park", text, "Ünder parks"], asked) if pair[0] == 1}
    assert found == {(1, term) for term in made}
