"""A follow-up through the door: it lands in its thread, and the model sees what was said.

On every store there is, in process and through a real server.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from contextinfinity.client.contract import Client
from contextinfinity.client.local import LocalClient
from contextinfinity.client.remote import RemoteClient
from contextinfinity.compat.ledger_threads import LedgerThreads
from contextinfinity.domain.events import TurnStarted
from contextinfinity.domain.prompt import Prompt, ProviderRequest
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.model_choice import Model, Models
from contextinfinity.providers.scripted import ScriptedProvider
from contextinfinity.server.serving import ServerProcess, address_of, listening
from contextinfinity.settings import Server as ServerSettings
from contextinfinity.settings import Settings
from contextinfinity.storage.contract import Store
from contextinfinity.storage.journal import JournalFolder
from contextinfinity.storage.postgres.store import PostgresStore
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity.threads import Turn
from tests.ledgers import open_store
from tests.postgres import ON_POSTGRES, empty_database

pytestmark = pytest.mark.req("CTX-12")

WHO = "Who is Donald Trump?"
FOLLOW_UP = "who are his children"
IS = "Donald Trump is the 45th and 47th president of the United States."
CHILDREN = "Donald Trump has five children: Donald Jr., Ivanka, Eric, Tiffany and Barron."
LOST = "Do you mean John Doe or John Smith?"


class Attentive:
    """A model that knows whose children are meant only if it was shown; it keeps what it saw."""

    def __init__(self) -> None:
        self.saw: list[Prompt] = []

    def __call__(self, request: ProviderRequest) -> str:
        self.saw.append(request.prompt)
        *earlier, current = [message.rendered_text for message in request.prompt.messages]
        if FOLLOW_UP not in current:
            return IS
        return CHILDREN if any(WHO in text for text in earlier) and any(IS in text for text in earlier) else LOST


@pytest.fixture(params=["sqlite", "in_memory", ON_POSTGRES])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "postgresql":
        return PostgresStore(empty_database(), tmp_path)
    return open_store(tmp_path / "ledger.db") if request.param == "sqlite" else SqliteStore(None)


@pytest.fixture
def model() -> Attentive:
    return Attentive()


@pytest.fixture
def log(store: Store) -> Iterator[LedgerThreads]:
    """The small log on the same ledger; it goes after the client, and the ledger is closed once more then."""
    log = LedgerThreads(store)
    yield log
    log.close()


@pytest.fixture(params=["in process", "over HTTP"])
async def client(
    request: pytest.FixtureRequest, store: Store, log: LedgerThreads, model: Attentive, tmp_path: Path
) -> AsyncIterator[Client]:
    named = Model(name="built-in", provider=ScriptedProvider(model), model_id="attentive")
    engine = Engine(store, JournalFolder(tmp_path / "streams"), Models(by_name={"built-in": named}, default="built-in"))
    async with LocalClient(engine) if request.param == "in process" else served(LocalClient(engine)) as client:
        yield client


@asynccontextmanager
async def served(client: LocalClient) -> AsyncIterator[RemoteClient]:
    """A client of a real server on a socket, which has that one behind it."""
    settings = Settings(server=ServerSettings(shutdown_seconds=0.05))
    with listening("127.0.0.1", 0) as sock:
        worker = ServerProcess(settings, lambda _: client)
        running = asyncio.ensure_future(worker.serve(sockets=[sock]))
        async with RemoteClient(address_of("127.0.0.1", sock)) as remote:
            yield remote
        worker.end()
        await running


@pytest.mark.req("CTX-1", "CTX-2", "CTX-4", "THREAD-1", "THREAD-11")
async def test_the_prompt_of_a_follow_up_shows_both_earlier_turns(
    client: Client, model: Attentive, log: LedgerThreads
) -> None:
    first = await client.conversations.ask("my-chat", WHO)
    second = await client.conversations.ask("my-chat", FOLLOW_UP)

    assert (first.text, second.text) == (IS, CHILDREN)
    assert "John" not in second.text
    assert len(model.saw) == 2
    shown = [(message.role, message.rendered_text) for message in model.saw[1].messages]
    assert shown[:2] == [("user", WHO), ("assistant", IS)]
    assert len(shown) == 3
    assert shown[-1][0] == "user"
    assert FOLLOW_UP in shown[-1][1]

    assert log.history("my-chat", 20) == [
        Turn("user", WHO),
        Turn("assistant", IS),
        Turn("user", FOLLOW_UP),
        Turn("assistant", CHILDREN),
    ]


@pytest.mark.req("CTX-9", "THREAD-1", "THREAD-9")
async def test_a_follow_up_lands_in_the_same_thread_and_the_log_says_so(
    client: Client, model: Attentive, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="contextinfinity.engine")

    async def said(thread_id: str, text: str) -> TurnStarted:
        events = [stamped.event async for stamped in client.conversations.send(thread_id, text)]
        assert isinstance(events[0], TurnStarted)
        return events[0]

    first = await said("new", WHO)
    second = await said(first.thread_id, FOLLOW_UP)
    third = await said(first.thread_id, FOLLOW_UP)
    other = await said("new", FOLLOW_UP)

    assert {second.thread_id, third.thread_id} == {first.thread_id}
    assert {second.branch_id, third.branch_id} == {first.branch_id}
    assert [(turn.found, turn.turns_loaded) for turn in (first, second, third)] == [(False, 0), (True, 1), (True, 2)]
    assert other.thread_id != first.thread_id
    assert [len(prompt.messages) for prompt in model.saw] == [1, 3, 5, 1]
    assert len(await client.threads.list()) == 2

    lines = [record.message for record in caplog.records if f"thread {first.thread_id}" in record.message]
    assert len(lines) == 3
    for line, (there, loaded) in zip(lines, [("created", 0), ("found", 1), ("found", 2)], strict=True):
        assert there in line
        assert first.branch_id in line
        assert f"turns loaded {loaded}" in line
    assert WHO not in caplog.text
    assert FOLLOW_UP not in caplog.text
