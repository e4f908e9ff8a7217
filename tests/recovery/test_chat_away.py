"""``POST /chat`` on a disk that can neither be read nor written: answers go on, and nothing of them is lost."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from contextinfinity.client.local import LocalClient
from contextinfinity.domain.session import Owner
from contextinfinity.engine.engine import Engine
from contextinfinity.server.app import make_app
from contextinfinity.settings import Settings
from contextinfinity_testing.faults import CHANGING, FailingDisk
from tests.recovery.outages import back, engine_on, locked, said


class Desk:
    """A server on an engine, and one caller."""

    def __init__(self, http: httpx2.AsyncClient, engine: Engine) -> None:
        self._http = http
        self.engine = engine

    async def chat(self, query: str, session_id: str, token: str = "", user: str = "") -> dict[str, Any]:
        """Ask, and return the answer."""
        headers = {"X-Api-Key": token} if token else {}
        body = {"query": query, "session_id": session_id, "user_id": user}
        answer = await self._http.post("/chat", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()
        return told

    async def asked(self, session_id: str) -> list[str]:
        """Read what was asked in a session, once the ledger has everything."""
        await back(self.engine)
        return [query for _, query, _ in await said(self.engine, session_id)]


@asynccontextmanager
async def desk_on(folder: Path, disk: FailingDisk) -> AsyncIterator[Desk]:
    """A server whose ledger is on that disk."""
    async with engine_on(folder, vfs=disk.name) as engine:
        app = make_app(Settings(), lambda _: LocalClient(engine))
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost") as http,
        ):
            yield Desk(http, engine)


@pytest.fixture
def disk() -> Any:
    with FailingDisk(counted=(*CHANGING, "read")) as disk:
        yield disk


@pytest.mark.req("CHATMEM-6", "CHATMEM-7", "API-5", "METRICS-3")
async def test_known_and_unknown_sessions_are_answered_and_written_in_order_once(
    tmp_path: Path, disk: FailingDisk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="contextinfinity")
    known, unknown = str(uuid4()), str(uuid4())
    async with desk_on(tmp_path, disk) as desk:
        await desk.chat("before", known)
        disk.break_down("io")
        for session_id in (known, unknown):
            for query in ("first", "second"):
                told = await desk.chat(query, session_id)
                assert (told["session_id"], told["error"], told["metadata"]["degraded"]) == (session_id, None, True)
        disk.repair()
        assert await desk.asked(known) == ["before", "first", "second"]
        assert await desk.asked(unknown) == ["first", "second"]
        told = await desk.chat("after", unknown)
        assert (told["metadata"]["turn_number"], told["metadata"]["degraded"]) == (3, False)
    failures = [vars(record) for record in caplog.records if "operation" in vars(record)]
    assert failures
    assert all({"session_id", "user_id", "operation", "error"} <= set(failure) for failure in failures)
    assert not [record for record in caplog.records if record.levelno == logging.CRITICAL], "it was a short outage"


@pytest.mark.req("CHATMEM-6", "SAFE-5")
async def test_a_session_whose_owner_cannot_be_looked_up_is_never_opened_for_a_token(
    tmp_path: Path, disk: FailingDisk
) -> None:
    mine = str(uuid4())
    async with desk_on(tmp_path, disk) as desk:
        tokens = LocalClient(desk.engine).tokens
        ann, bob = [(await tokens.create(Owner(user_id=user))).token for user in ("ann", "bob")]
        for token in (ann, bob):
            await desk.chat("before", mine if token == ann else str(uuid4()), token)
        disk.break_down("io")
        told = await desk.chat("Let me in", mine, bob)
        assert (told["session_id"] == mine, told["error"]) == (False, None)
        await desk.chat("Mine", mine, ann)
        disk.repair()
        assert "Let me in" not in await desk.asked(mine)


@pytest.mark.req("CHATMEM-6", "TURN-13")
async def test_two_users_who_begin_a_session_under_one_id_in_two_processes_both_keep_their_words(
    tmp_path: Path, disk: FailingDisk
) -> None:
    shared = str(uuid4())
    async with desk_on(tmp_path, disk) as one, desk_on(tmp_path, disk) as two:
        with locked(tmp_path):
            for desk, user in ((one, "ann"), (two, "bob")):
                for number in range(2):
                    told = await desk.chat(f"{user} {number}", shared, user=user)
                    assert (told["session_id"], told["metadata"]["degraded"]) == (shared, True)
        for desk in (one, two):
            await back(desk.engine)
        for desk in (one, two):
            for user in ("ann", "bob"):
                session = await desk.engine.session(shared, Owner(user_id=user))
                turns = await desk.engine.store.turns.history(session.active_branch)
                assert [turn.user_message.rendered_text for turn in turns] == [f"{user} 0", f"{user} 1"]
                assert (session.owner.user_id, session.id == shared) == (user, user == "ann"), (
                    "who was first has the id"
                )
        told = await one.chat("bob 2", shared, user="bob")
        assert told["metadata"]["turn_number"] == 3, "the id leads its user to their own conversation"
    assert list((tmp_path / "ledger.db-spool").iterdir()) == []
