"""Sending messages through a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, Unpack, get_args
from uuid import uuid4

import msgspec
from msgspec import Struct

from contextinfinity.client.contract import Content, Explained, SendFields, StampedEvent, end_of
from contextinfinity.client.remote.server_connection import LOCAL, WAITS, ServerConnection, Unreachable, path
from contextinfinity.client.results import Conversation, MessagePage, ModelNames, ShownMessage, ShownTurn, TurnAccount
from contextinfinity.domain.events import Clarification, Event, FinishedTurn, TurnDone, TurnFailed, TurnStarted
from contextinfinity.domain.ids import BranchId, SessionId, TurnId
from contextinfinity.domain.plan import Plan
from contextinfinity.domain.session import Owner
from contextinfinity.domain.turn import Usage, UserSpending
from contextinfinity.errors import Ending, LedgerAway, LedgerBusy

ANY = "-"
PAGE = 500
OUTLINE = (TurnStarted, Clarification, TurnFailed, TurnDone)
"""The events of a turn that are sent without its deltas."""
KINDS: dict[str, Any] = {str(kind.__struct_config__.tag): kind for kind in get_args(Event)}


class _Planned(Struct, frozen=True, kw_only=True):
    plan: Plan


class RemoteConversations:
    """``Conversations`` at a server."""

    def __init__(self, line: ServerConnection) -> None:
        self._line = line

    def send(
        self, thread_id: str, content: Content, *, deltas: bool = True, **how: Unpack[SendFields]
    ) -> AsyncGenerator[StampedEvent]:
        """Send a message and yield its events, from ``TurnStarted`` to ``TurnDone``."""
        return _filtered(self._send(thread_id, content, how), deltas)

    async def _send(self, thread_id: str, content: Content, how: SendFields) -> AsyncGenerator[StampedEvent]:
        owner, body, key = _message(content, how)
        place, turn_id = path("threads", thread_id, "messages", "stream"), ""
        after: str | None = None
        for wait in (*WAITS, None):
            try:
                async with self._line.blocks("POST", place, owner=owner, body=body, key=key) as blocks:
                    async for stamped in _stamped(blocks):
                        if isinstance(stamped.event, TurnStarted):
                            turn_id = stamped.event.turn_id
                        after = stamped.id or after
                        yield stamped
                        if isinstance(stamped.event, TurnDone):
                            return
                    break  # handed over: the server ended
            except (Unreachable, Ending, LedgerBusy):
                if turn_id:
                    break
                if wait is None:
                    raise
                await asyncio.sleep(wait)
        async with aclosing(self._watch(turn_id, after, owner)) as rest:
            async for stamped in rest:
                yield stamped

    async def ask(self, thread_id: str, content: Content, **how: Unpack[SendFields]) -> FinishedTurn:
        """Send a message and return the finished turn."""
        async with aclosing(self._send(thread_id, content, how)) as events:
            return await end_of(events)

    def watch(self, turn_id: TurnId, *, after: str | None = None, deltas: bool = True) -> AsyncGenerator[StampedEvent]:
        """Yield the events of a running or finished turn, from its first step or after an event id."""
        return _filtered(self._watch(turn_id, after), deltas)

    async def _watch(self, turn_id: TurnId, after: str | None, owner: Owner = LOCAL) -> AsyncGenerator[StampedEvent]:
        place, tries = path("threads", ANY, "turns", turn_id, "stream"), 0
        while True:
            try:
                async with self._line.blocks("GET", place, owner=owner, after=after) as blocks:
                    async for stamped in _stamped(blocks):
                        tries, after = 0, stamped.id or after
                        yield stamped
                        if isinstance(stamped.event, TurnDone):
                            return
            except (Unreachable, LedgerAway, LedgerBusy):
                if tries == len(WAITS):
                    raise
            await asyncio.sleep(WAITS[min(tries, len(WAITS) - 1)])
            tries += 1

    async def cancel(self, turn_id: TurnId) -> FinishedTurn:
        """Cancel a turn and wait for its end; the text shown so far is kept. A finished turn does not change."""
        return await self._line.send("POST", path("threads", ANY, "turns", turn_id, "cancel"), FinishedTurn, {})

    async def show(
        self, thread_id: str, *, branch_id: BranchId | None = None, limit: int = 50, before: int | None = None
    ) -> Conversation:
        """Return the newest ``limit`` turns of a branch, oldest first; with ``before``, only lower turn_seqs."""
        sides: list[ShownMessage] = []
        place: str | None = None if before is None else str(before)
        while True:
            wanted = max(1, min(PAGE, 2 * limit - len(sides)))
            where = path("threads", thread_id, "messages")
            page = await self._line.get(where, MessagePage, limit=wanted, before=place, branch_id=branch_id)
            sides[:0] = page.messages
            place = page.before
            if place is None or len(sides) >= 2 * limit:
                break
        turns = [_turn(page.thread_id, *pair) for pair in zip(sides[::2], sides[1::2], strict=True)]
        return Conversation(
            thread_id=page.thread_id, branch_id=page.branch_id, turns=tuple(turns[-limit:] if limit > 0 else ())
        )

    async def turn(self, turn_id: TurnId) -> TurnAccount:
        """Return one turn with its provider requests."""
        return await self._line.get(path("threads", ANY, "turns", turn_id), TurnAccount)

    async def explain(
        self, turn_id: TurnId, *, step_index: int | None = None, compare: TurnId | None = None
    ) -> Explained:
        """Rebuild the turn's last request, and return how much of it repeats the previous one, or another turn's."""
        place = path("threads", ANY, "turns", turn_id, "context")
        return await self._line.get(place, Explained, step=step_index, compare=compare)

    async def context(self, turn_id: TurnId) -> Plan:
        """Return the plan of the turn's prompt."""
        return (await self._line.get(path("threads", ANY, "turns", turn_id, "context"), _Planned)).plan

    async def models(self) -> tuple[str, ...]:
        """Return the available models, the default first."""
        return (await self._line.get("/models", ModelNames)).models

    async def spending(self, owner: Owner = LOCAL) -> UserSpending:
        """Return what the models of a user's turns cost, and the limits."""
        return await self._line.get("/spending", UserSpending, owner=owner)


async def _filtered(events: AsyncGenerator[StampedEvent], deltas: bool) -> AsyncGenerator[StampedEvent]:
    """Yield all events, or only the first and the last."""
    async with aclosing(events):
        async for stamped in events:
            if deltas or isinstance(stamped.event, OUTLINE):
                yield stamped


def _message(content: Content, how: SendFields) -> tuple[Owner, dict[str, Any], str]:
    """Split the options of a message into query, body and headers."""
    rest: dict[str, Any] = dict(how)
    key = rest.pop("key", None)
    user, org = rest.pop("user_id", None), rest.pop("org_id", None)
    body = {"content": content, **{name: value for name, value in rest.items() if value is not None}}
    return Owner(user_id=user or LOCAL.user_id, org_id=org or ""), body, uuid4().hex if key is None else key


async def _stamped(blocks: AsyncIterator[tuple[str, bytes, str | None]]) -> AsyncIterator[StampedEvent]:
    """Parse the events of a turn; unknown events of a newer release are skipped."""
    async for name, data, event_id in blocks:
        if name == "done":
            yield StampedEvent(event=TurnDone(turn=msgspec.json.decode(data, type=FinishedTurn)), id=event_id)
        elif (kind := KINDS.get(name)) is not None:
            fields = msgspec.json.decode(data)
            yield StampedEvent(event=msgspec.convert({**fields, "type": name}, kind), id=event_id)


def _turn(thread_id: SessionId, asked: ShownMessage, answer: ShownMessage) -> ShownTurn:
    return ShownTurn(
        thread_id=thread_id,
        branch_id=answer.branch_id,
        turn_id=answer.turn_id,
        turn_seq=answer.turn_seq,
        phase=answer.phase,
        outcome=answer.outcome,
        text=answer.content,
        usage=answer.usage or Usage(),
        model=answer.model or "",
        created_at=answer.created_at,
        error=answer.error,
        user=asked.content,
        assistant=answer.content,
        latency_ms=answer.latency_ms or {},
        images=asked.images,
        tool_calls=answer.tool_calls,
    )
