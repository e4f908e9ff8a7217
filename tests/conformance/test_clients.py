"""Every client keeps every promise of the contract."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from contextinfinity.client.contract import Client
from contextinfinity.client.remote import RemoteClient
from contextinfinity.domain.session import Owner
from contextinfinity.errors import InvalidInput, Refused, ServerAway
from contextinfinity.server.serving import ServerProcess, address_of, listening
from contextinfinity.settings import Settings
from contextinfinity.wiring import open_client
from contextinfinity_testing.clients import (
    ClientSuite,
    ImportPromises,
    TokenPromises,
    UpkeepPromises,
    suite_settings,
)
from contextinfinity_testing.clients.talking import done, hanging, heard, words
from tests.ledgers import place_ledger


class TestLocalClient(ClientSuite, ImportPromises, TokenPromises, UpkeepPromises):
    @pytest.fixture
    async def client(self, tmp_path: Path) -> AsyncIterator[Client]:
        place_ledger(tmp_path / "ledger.db")
        async with open_client(suite_settings(tmp_path)) as client:
            yield client

    @pytest.mark.req("CTX-9")
    async def test_each_request_logs_where_it_went(self, client: Client, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, logger="contextinfinity.engine.lifecycle")
        first = await client.conversations.ask("new", "one")
        await client.conversations.ask(first.thread_id, "two")
        await client.conversations.ask(first.thread_id, "three")
        thread, branch = first.thread_id, first.branch_id
        assert [record.message for record in caplog.records if record.name == "contextinfinity.engine.lifecycle"] == [
            f"thread {thread} created, branch {branch}, turn 1, turns loaded 0",
            f"thread {thread} found, branch {branch}, turn 2, turns loaded 1",
            f"thread {thread} found, branch {branch}, turn 3, turns loaded 2",
        ]

    async def test_closing_marks_what_does_not_come_to_an_end(self, client: Client, tmp_path: Path) -> None:
        turn_id, _ = await hanging(client)
        await client.close(answer_seconds=0)
        async with open_client(suite_settings(tmp_path)) as later:
            turns = (await later.conversations.show((await later.threads.find("last")).thread_id)).turns
        assert [(turn.turn_id, turn.outcome, turn.assistant) for turn in turns] == [
            (turn_id, "incomplete", "one two three")
        ]


class TestRemoteClient(ClientSuite):
    @pytest.fixture
    async def client(self, tmp_path: Path) -> AsyncIterator[Client]:
        place_ledger(tmp_path / "ledger.db")
        async with serving(suite_settings(tmp_path)) as url, RemoteClient(url) as client:
            yield client

    @pytest.mark.req("API-6")
    async def test_what_is_heard_goes_on_at_a_server_that_was_started_anew(self, tmp_path: Path) -> None:
        settings = suite_settings(tmp_path)
        async with RemoteClient(f"http://127.0.0.1:{(port := free_port())}") as client:
            async with serving(settings, port):
                turn_id, events = await hanging(client)
            async with serving(settings, port):
                rest = await heard(events)
                assert (words(rest), done(rest).outcome, done(rest).turn_id) == ("", "incomplete", turn_id)

    async def test_a_message_is_said_when_the_server_is_there_and_once(self, tmp_path: Path) -> None:
        async with RemoteClient(f"http://127.0.0.1:{(port := free_port())}") as client:
            asking = asyncio.ensure_future(client.conversations.ask("new", "Hello"))
            await asyncio.sleep(0)
            async with serving(suite_settings(tmp_path), port):
                turn = await asking
                assert [one.user for one in (await client.conversations.show(turn.thread_id)).turns] == ["Hello"]

    async def test_what_needs_the_ledger_is_refused_with_where_to_do_it(self, client: Client, tmp_path: Path) -> None:
        for attempt in (
            client.tokens.create(Owner()),
            client.tokens.list(),
            client.tokens.revoke("x"),
            client.tokens.check("x"),
            client.tokens.closed(),
            client.tokens.needed(),
            client.past.complete_index(),
            client.threads.clean_up(),
        ):
            with pytest.raises(Refused, match="--server"):
                await attempt

    @pytest.mark.parametrize("status", [b"418 Teapot", b"200 OK"])
    async def test_a_server_that_is_not_ours_is_named_at_once_and_not_asked_again(self, status: bytes) -> None:
        requests = 0

        async def stranger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal requests
            requests += 1
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 %b\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi" % status)
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(stranger, "127.0.0.1", 0) as other:
            port = other.sockets[0].getsockname()[1]
            async with RemoteClient(f"http://127.0.0.1:{port}") as client:
                attempts = (client.pins.add("x", "a fact"), client.threads.list(), client.conversations.ask("new", "a"))
                for told in await asyncio.gather(*attempts, return_exceptions=True):
                    assert isinstance(told, ServerAway)
                    assert "not a ContextInfinity server" in told.message
        assert requests == len(attempts)

    def test_an_address_or_a_token_that_cannot_be_one_is_refused_and_no_token_is_shown(self) -> None:
        for url in ("localhost:8765", "", "ftp://example.org"):
            with pytest.raises(InvalidInput, match="http://"):
                RemoteClient(url)
        for token in ("", "cix_secret\nX-Evil: 1", "cix_secretü", "Bearer cix_secret"):
            with pytest.raises(InvalidInput) as refused:
                RemoteClient("http://127.0.0.1:1", token=token)
            assert "secret" not in str(refused.value)
        RemoteClient("http://127.0.0.1:1", token=f"{token[-10:]}\n")  # as files end

    async def test_a_server_that_does_well_says_so(self, client: Client) -> None:
        assert ((await client.health()).status, (await client.health()).reasons) == ("ready", ())


def free_port() -> int:
    """A port that no one listens on."""
    with listening("127.0.0.1", 0) as place:
        port: int = place.getsockname()[1]
        return port


@asynccontextmanager
async def serving(settings: Settings, port: int = 0) -> AsyncIterator[str]:
    """A server in this loop, on a real socket."""
    with listening("127.0.0.1", port) as sock:
        quick = replace(settings, server=replace(settings.server, shutdown_seconds=0.05))
        worker = ServerProcess(quick, open_client)
        running = asyncio.ensure_future(worker.serve(sockets=[sock]))
        try:
            yield address_of("127.0.0.1", sock)
        finally:
            worker.end()
            await running


def test_no_promise_of_the_suite_hides_another() -> None:
    names = Counter(name for part in TestLocalClient.__mro__ for name in vars(part) if name.startswith("test_"))
    assert [name for name, times in names.items() if times > 1] == []
