"""How events become a stream: together where they come together, and never far ahead of who reads them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from contextinfinity.client.contract import StampedEvent
from contextinfinity.client.local import LocalClient
from contextinfinity.domain.events import Delta
from contextinfinity.errors import NotFound
from contextinfinity.server.app_state import AppState, Metrics
from contextinfinity.server.streams import KEEP_ALIVE, READ_AHEAD, frames
from contextinfinity.settings import Retention, Server


@pytest.fixture
async def door() -> AppState:
    server = Server(keep_alive_seconds=0.01)
    client, nowhere = cast(LocalClient, None), Path("/nonexistent")
    return AppState(client=client, server=server, figures=Metrics(), retention=Retention(), data_dir=nowhere)


async def test_what_comes_at_once_is_sent_at_once(door: AppState) -> None:
    async def words() -> AsyncIterator[StampedEvent]:
        for number in range(10):
            yield StampedEvent(event=Delta(text=str(number)), id=f"0-{number}")

    written = [chunk async for chunk in frames(door, None, words())]
    assert len(written) == 2
    assert [written[1].count(b"id: 0-%d\n" % number) for number in range(10)] == [1] * 10


async def test_no_more_than_a_handful_is_read_ahead_of_a_slow_reader(door: AppState) -> None:
    read = 0

    async def words() -> AsyncIterator[StampedEvent]:
        nonlocal read
        while read < 5 * READ_AHEAD:
            read += 1
            yield StampedEvent(event=Delta(text="word"))

    stream = frames(door, None, words())
    heard = 0
    await anext(stream)
    async for chunk in stream:
        words_now = chunk.count(b"event: delta")
        assert words_now <= READ_AHEAD
        heard += words_now
        for _ in range(10):
            await asyncio.sleep(0)
        assert read <= heard + READ_AHEAD
    assert heard == 5 * READ_AHEAD


async def test_silence_is_kept_alive_and_ends_with_the_server(door: AppState) -> None:
    async def silence() -> AsyncIterator[StampedEvent]:
        await asyncio.Event().wait()
        yield StampedEvent(event=Delta(text="never"))

    stream = frames(door, None, silence())
    await anext(stream)
    assert await anext(stream) == KEEP_ALIVE
    door.ending.set()
    assert [chunk async for chunk in stream] == []


async def test_a_refusal_in_the_middle_is_told_after_what_was_said(door: AppState) -> None:
    async def broken() -> AsyncIterator[StampedEvent]:
        yield StampedEvent(event=Delta(text="so far"))
        raise NotFound("It is gone.")

    written = b"".join([chunk async for chunk in frames(door, None, broken())])
    assert written.index(b"so far") < written.index(b"It is gone.")
