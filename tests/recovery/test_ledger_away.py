"""The ledger goes away and comes back: locked by another process, failing, stopped in the middle of a request."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import UNSET

from contextinfinity.domain.events import TurnStarted
from tests.recovery.outages import back, engine_on, locked, said


@pytest.mark.req("CHATMEM-6")
async def test_while_another_process_holds_the_ledger_messages_are_answered_and_land_later_in_order(
    tmp_path: Path,
) -> None:
    async with engine_on(tmp_path) as engine:
        thread = (await engine.ask("new", "before")).thread_id
        with locked(tmp_path):
            events = [event async for event in engine.send(thread, "first")]
            started, finished = events[0], events[-1].turn  # type: ignore[union-attr]
            assert isinstance(started, TurnStarted)
            assert (started.turn_seq, started.durability) == (None, "local")
            assert (finished.turn_seq, finished.durability, finished.outcome) == (None, "local", "completed")
            second = await engine.ask(thread, "second")
            assert (second.turn_seq, second.durability) == (None, "local")
            assert engine.health().status == "degraded"
        await back(engine)
        after = await engine.ask(thread, "after")
        assert (after.turn_seq, after.durability) == (4, UNSET)
        assert [(seq, asked) for seq, asked, _ in await said(engine, thread)] == [
            (1, "before"),
            (2, "first"),
            (3, "second"),
            (4, "after"),
        ]
        assert list((tmp_path / "spool").iterdir()) == []
