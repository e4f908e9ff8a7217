"""What clients of other vendors need of an engine: a whole conversation goes in, its thread is found, and goes on."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from msgspec.structs import replace

from contextinfinity.domain.ids import now
from contextinfinity.domain.message import Message
from contextinfinity.domain.prompt import ToolSpec
from contextinfinity.domain.session import Owner
from contextinfinity.domain.trail import Walked
from contextinfinity.domain.turn import UNFINISHED, NewTurn, Phase, Trail, Turn
from contextinfinity.engine.continuing import MANY, Coming, Continuing, Said, Spot, Talk, walk, with_call_names
from contextinfinity.engine.engine import QUEUE_LIMIT, Engine
from contextinfinity.engine.parts import Asked
from contextinfinity.engine.pictures import keep_pictures
from contextinfinity.errors import BranchBusy, LedgerError, NotFound, OutOfOrder
from contextinfinity.prompt.measure import Measure

log = logging.getLogger(__name__)

OFF_RECORD = {"off_record": True}
"""Kept with turns of which nothing is to be remembered."""
TRIES = 20
"""How often a place is looked for that others keep taking."""


class Talks:
    """Conversations that are sent whole."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._continuing = Continuing(engine.store)

    async def begin(self, talk: Talk, owner: Owner, asked: Asked) -> tuple[Turn, bool]:
        """Make what is new of a conversation durable and begin to answer it; tell whether its thread was there.

        The same request, sent again while it is answered or as a retry, joins the turn it made.
        """
        self._engine.models.named(asked.model)
        session = None if talk.thread_id is None else await self._engine.thread(talk.thread_id, owner)
        owner = owner if session is None else session.owner
        async with self._continuing.one_at_a_time(owner, talk):
            small = len(talk.messages) < MANY
            said = walk(talk, owner) if small else await asyncio.to_thread(walk, talk, owner)
            made, once = await self._continuing.made_before(talk, said)
            if made is not None and _joins(talk, made):
                return await self.read(made.turn_id), True
            await keep_pictures(self._engine.store.contents, (said.message,), said.blobs)
            message = NewTurn(
                branch_id="",
                message=said.message,
                queue_limit=QUEUE_LIMIT,
                begin=True,
                once=once,
                metadata=None if asked.use_memory else OFF_RECORD,
                trail=Trail(asked=said.asked, body=talk.body, alone=said.alone),
            )
            coming = Coming(
                said=said,
                session=session,
                name=talk.thread_id,
                once=once,
                tried=None if made is None else made.turn_id,
                exact=asked.terms is not None and asked.terms.only_last is not None,
            )
            turn, found = await self._placed(coming, message, _as_sent(asked, said))
        there = "found" if found else "created"
        log.info("thread %s %s, branch %s, turn %d", turn.session_id, there, turn.branch_id, turn.turn_seq)
        return turn, found

    async def _placed(self, coming: Coming, message: NewTurn, asked: Asked) -> tuple[Turn, bool]:
        """Find the place of a message and have it accepted there; where others were quicker, find it again."""
        tries = TRIES
        while True:
            try:
                spot = await self._continuing.find(coming)
                if not spot.is_shared:
                    return await self._accepted(coming, spot, message, asked), spot.branch_id is not None
                async with self._continuing.one_at_a_time(coming.said.owner):
                    spot = await self._continuing.find(coming)
                    return await self._accepted(coming, spot, message, asked), spot.branch_id is not None
            except (BranchBusy, OutOfOrder):
                tries -= 1
                if not tries:
                    raise

    async def _accepted(self, coming: Coming, spot: Spot, message: NewTurn, asked: Asked) -> Turn:
        assert message.trail is not None  # noqa: S101 - what is sent whole always has one
        names = await self._continuing.call_names(spot, coming.said)
        missing = tuple(replace(one, metadata=message.metadata) for one in spot.missing)
        words = message.message if missing else with_call_names(message.message, names)
        if missing:
            missing = (replace(missing[0], message=with_call_names(missing[0].message, names)), *missing[1:])
        place = await self._continuing.make(coming, replace(spot, missing=missing))
        assert place.branch_id is not None  # noqa: S101 - made by now
        trail = replace(message.trail, follows=place.follows)
        new = replace(message, branch_id=place.branch_id, message=words, trail=trail, retry_of=place.retry_of)
        turn = await self._engine.take_on(new, asked)
        self._continuing.hold(turn, trail)
        await self._go_on_there(turn)
        return turn

    async def _go_on_there(self, turn: Turn) -> None:
        """Have the thread stand where it was spoken in last: that is what whoever opens it wants to see."""
        sessions = self._engine.store.sessions
        with suppress(LedgerError, NotFound):  # it is a matter of looks
            session = await sessions.get(turn.session_id)
            if session is not None and session.active_branch != turn.branch_id:
                await sessions.activate(session.id, turn.branch_id)

    async def read(self, turn_id: str) -> Turn:
        """Read a turn that was begun."""
        turn = await self._engine.store.turns.get(turn_id)
        if turn is None:
            raise NotFound(f"There is no turn {turn_id}.")
        return turn

    def count(self, messages: tuple[Message, ...], system: str, tools: tuple[ToolSpec, ...], model: str | None) -> int:
        """Count the tokens of a request as the model counts them, as far as that is known."""
        measure = Measure(self._engine.models.named(model).counter)
        offered = sum(measure.text(f"{tool.name} {tool.description} {tool.parameters}") for tool in tools)
        return measure.text(system) + offered + sum(map(measure.message, messages))


def _joins(talk: Talk, made: Walked) -> bool:
    """Tell whether a request joins the turn it made before: one that runs, or as a retry one that is over.

    Otherwise it was meant to be answered anew, and one that failed is tried again. Who asks the same every day says at
    times that it is a retry: of what was sent a moment ago and never came, not of yesterday's.
    """
    if made.phase in UNFINISHED:
        return True
    return made.phase is not Phase.FAILED and (now() - made.created_at).total_seconds() < talk.tried_within


def _as_sent(asked: Asked, said: Said) -> Asked:
    """Where just what was sent is to be shown, say how much that is."""
    if asked.terms is None or asked.terms.only_last is None:
        return asked
    sent = len(said.exchanges) + (said.greeting is not None)
    return replace(asked, terms=replace(asked.terms, only_last=sent))
