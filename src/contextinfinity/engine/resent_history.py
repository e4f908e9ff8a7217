"""Handle clients that resend the whole conversation with every request: find the stored thread and continue it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta

from msgspec.structs import replace

from contextinfinity.domain.ids import TurnId, now
from contextinfinity.domain.message import Json, Message
from contextinfinity.domain.prefix_hash import number_of
from contextinfinity.domain.prompt import ToolSpec
from contextinfinity.domain.session import Owner
from contextinfinity.domain.turn import COMPACTION, CONTINUES, SIDE, UNFINISHED, NewTurn, Phase, PrefixHashes, Turn
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.image_content import keep_pictures
from contextinfinity.engine.repeated_requests import request_key
from contextinfinity.engine.running_turn import SendOptions
from contextinfinity.engine.sent_conversation import MANY, HashedConversation, SentConversation, hash_conversation
from contextinfinity.engine.sent_messages import SentMessages
from contextinfinity.engine.side_requests import PURPOSE_SUMMARY, SideRequest, side_request_of
from contextinfinity.engine.thread_matching import (
    SUMMARY,
    IncomingConversation,
    MatchTarget,
    ThreadMatching,
    with_call_names,
)
from contextinfinity.errors import BranchBusy, LedgerError, NotFound, OutOfOrder
from contextinfinity.prompt.measure import Measure
from contextinfinity.storage.acting_owner import maintenance_context

OFF_RECORD = {"off_record": True}
"""The metadata of turns from which no memories are extracted."""
TRIES = 20
"""The maximum number of attempts to find a position while other requests take it."""
DELIVERED_SECONDS = 1.0
"""How long delivered requests are collected before they are recorded together."""
RETRIED_WITHIN = timedelta(minutes=5)
"""How long after a broken connection a retry may join the request; SDKs retry within a minute."""


class ResentHistory:
    """Accepts conversations that are resent with every request."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._continuing = ThreadMatching(engine.store, self._stop_if_left)
        self._sent = SentMessages(engine.store)
        self._delivered: list[TurnId] = []
        self._noting: asyncio.Task[None] | None = None
        self._left = set[asyncio.Task[None]]()

    async def begin(self, sent: SentConversation, owner: Owner, asked: SendOptions) -> tuple[Turn, bool]:
        """Store the new messages of a conversation and start to answer; also return whether its thread existed.

        Every request gets its own turn, with two exceptions: requests with the same Idempotency-Key share one,
        and a marked retry joins an identical request whose connection broke before it was answered.
        """
        self._engine.models.named(asked.model)
        session = None if sent.thread_id is None else await self._engine.thread(sent.thread_id, owner)
        small = len(sent.messages) < MANY
        conversation = (
            hash_conversation(sent, owner) if small else await asyncio.to_thread(hash_conversation, sent, owner)
        )
        request = sent.body if sent.key is None else number_of(f"{sent.key} {sent.body}".encode())
        incoming = IncomingConversation(
            conversation=conversation,
            session=session,
            name=sent.thread_id,
            body=request,
            beside=None if sent.beside is None else await self.read(sent.beside),
            exact=asked.terms is not None and asked.terms.only_last is not None,
            appends=sent.appends,
            follows=None if sent.follows is None else await self._engine.turn(sent.follows, owner),
            keeps=sent.keeps,
            side=_side_request(sent, asked),
        )
        if sent.key is None:
            if sent.is_retry and (broken := await self._broken(owner, sent.body)) is not None:
                return broken, True
            return await self._begin(incoming, asked)
        async with self._continuing.lock(owner, sent.key):
            made = await self._continuing.made_under(request, conversation)
            if made is not None and made.phase is not Phase.FAILED:
                return await self.read(made.turn_id), True
            after = "" if made is None else made.turn_id  # a failed turn may be repeated
            once = request_key(owner, f"v1 {sent.key} {after}", {"body": sent.body})
            return await self._begin(replace(incoming, once=once), asked)

    async def note_broken(self, turn_id: TurnId) -> None:
        """Record that the connection of a turn's request broke before the answer was delivered."""
        with suppress(LedgerError):  # without the record a retry gets its own turn
            await self._engine.store.prefix_hashes.note_broken(turn_id)

    def stop_when_left(self, turn_id: TurnId, owner: Owner, sent: SentConversation, seconds: float) -> None:
        """Cancel a turn whose client disconnected, after a grace period, unless a retry joined it or it has
        readers.

        With an Idempotency-Key or in the background it is not: the client will ask for the answer again.
        """
        if sent.key is None and not sent.background:
            task = asyncio.create_task(self._stop_left(turn_id, owner, sent.body, seconds), name="left")
            self._left.add(task)
            task.add_done_callback(self._left.discard)

    async def _stop_left(self, turn_id: TurnId, owner: Owner, body: int, seconds: float) -> None:
        await asyncio.sleep(seconds)
        with suppress(LedgerError, NotFound):  # the turn continues
            turn = await self.read(turn_id)
            if turn.phase not in UNFINISHED or self._engine.is_watched(turn_id):
                return
            left = await self._engine.store.prefix_hashes.join_broken(owner, body, since=now() - RETRIED_WITHIN)
            if left == turn_id:  # joined like a retry, so that no retry can join it any more
                await self._engine.cancel(left)
            elif left is not None:  # another, identical request that still has readers
                await self.note_broken(left)

    async def _stop_if_left(self, turn_id: TurnId) -> bool:
        """Stop a turn at once if its client disconnected after it had read a part of the answer."""
        if self._engine.is_watched(turn_id) or not (
            self._engine.has_shown_text(turn_id) or await self._engine.store.prefix_hashes.is_broken(turn_id)
        ):
            return False
        await self._engine.cancel(turn_id)
        return True

    def note_delivered(self, turn_id: TurnId) -> None:
        """Record that a turn's request was answered, in a transaction shared with others of the same second."""
        self._delivered.append(turn_id)
        if self._noting is None or self._noting.done():
            self._noting = asyncio.create_task(self._note_delivered(), name="delivered", context=maintenance_context())

    async def _note_delivered(self) -> None:
        await asyncio.sleep(DELIVERED_SECONDS)
        delivered, self._delivered = self._delivered, []
        with suppress(LedgerError):
            await self._engine.store.prefix_hashes.note_delivered(delivered)

    async def _broken(self, owner: Owner, body: int) -> Turn | None:
        """Return the turn of an identical request whose connection broke recently."""
        with suppress(LedgerError):
            turn_id = await self._engine.store.prefix_hashes.join_broken(owner, body, since=now() - RETRIED_WITHIN)
            return None if turn_id is None else await self.read(turn_id)
        return None

    async def _begin(self, incoming: IncomingConversation, asked: SendOptions) -> tuple[Turn, bool]:
        conversation = incoming.conversation
        await keep_pictures(self._engine.store.contents, (conversation.message,), conversation.blobs)
        message = NewTurn(
            branch_id="",
            message=conversation.message,
            once=incoming.once,
            metadata=None if asked.use_memory else OFF_RECORD,
        )
        return await self._placed(incoming, message, _as_sent(asked, conversation))

    async def _placed(self, incoming: IncomingConversation, message: NewTurn, asked: SendOptions) -> tuple[Turn, bool]:
        """Find the position of a message and accept it there; search again if another request took the position."""
        tries = TRIES
        while True:
            try:
                target = await self._continuing.find(incoming)
                if not target.is_shared:
                    return await self._accepted(incoming, target, message, asked), target.branch_id is not None
                async with self._continuing.lock(incoming.conversation.owner):
                    target = await self._continuing.find(incoming)
                    return await self._accepted(incoming, target, message, asked), target.branch_id is not None
            except (BranchBusy, OutOfOrder):
                tries -= 1
                if not tries:
                    raise

    async def _accepted(
        self, incoming: IncomingConversation, target: MatchTarget, message: NewTurn, asked: SendOptions
    ) -> Turn:
        conversation = incoming.conversation
        words = with_call_names(message.message, await self._continuing.call_names(target, conversation))
        link: dict[str, Json] = {} if target.continues is None else {CONTINUES: target.continues}
        missing = tuple(replace(one, metadata={**link, **(message.metadata or {})} or None) for one in target.missing)
        place = await self._continuing.make(incoming, replace(target, missing=missing))
        assert place.branch_id is not None  # noqa: S101 - set by ``make``
        trail = PrefixHashes(
            asked=conversation.asked if place.is_whole else None,
            before=conversation.before
            if place.is_whole and not place.side
            else None,  # a side request is not a continuation
            body=incoming.body,
            alone=conversation.alone,
            follows=place.follows,
        )
        metadata = {**incoming.keeps, **link, **(message.metadata or {})}
        if place.side or incoming.side is not None:
            metadata |= {SIDE: place.side} | (OFF_RECORD if place.side else {})
        if place.summary is not None:
            metadata[SUMMARY] = place.summary.rendered_text
        if incoming.appends:
            metadata |= await self._sent.appended(place, conversation, words)
        else:
            metadata |= await self._sent.differing(place, conversation, words)
        new = replace(
            message,
            branch_id=place.branch_id,
            message=words,
            metadata=metadata or None,
            trail=trail,
            retry_of=place.retry_of,
        )
        turn = await self._engine.accept_turn(new, asked, found=target.branch_id is not None)
        self._continuing.hold(turn, trail)
        if not incoming.appends:
            self._sent.note(turn.id, conversation)
        if place.side:
            await self._note_compaction(turn, place)
        elif incoming.beside is None:
            await self._activate_branch(turn)
        return turn

    async def _activate_branch(self, turn: Turn) -> None:
        """Activate the branch of the newest message, which people expect to see when they open the thread."""
        sessions = self._engine.store.sessions
        with suppress(LedgerError, NotFound):  # only affects the display
            session = await sessions.get(turn.session_id)
            if session is not None and session.active_branch != turn.branch_id:
                await sessions.activate(session.id, turn.branch_id)
            if session is not None and session.metadata.get(SIDE):
                await sessions.note(session.id, SIDE, None)

    async def _note_compaction(self, turn: Turn, place: MatchTarget) -> None:
        """Record that the client had a thread summarised: a conversation that starts with the summary continues it."""
        if place.side == PURPOSE_SUMMARY and (place.about or place.is_fork):
            with suppress(LedgerError, NotFound):  # without the record it becomes a thread of its own
                await self._engine.store.sessions.note(place.about or turn.session_id, COMPACTION, turn.id)

    async def read(self, turn_id: str) -> Turn:
        """Return a turn; raise ``NotFound`` if there is none."""
        turn = await self._engine.store.turns.get(turn_id)
        if turn is None:
            raise NotFound(f"There is no turn {turn_id}.")
        return turn

    def count(self, messages: tuple[Message, ...], system: str, tools: tuple[ToolSpec, ...], model: str | None) -> int:
        """Estimate the tokens of a request with the model's counter."""
        measure = Measure(self._engine.models.named(model).counter)
        offered = sum(measure.text(f"{tool.name} {tool.description} {tool.parameters}") for tool in tools)
        return measure.text(system) + offered + sum(map(measure.message, messages))


def _side_request(sent: SentConversation, asked: SendOptions) -> SideRequest | None:
    """Return the side request, if it is one; None if the client says where the message belongs."""
    if asked.terms is None or sent.thread_id is not None or sent.is_new or sent.appends or sent.beside is not None:
        return None
    return side_request_of(asked.terms.system, sent.messages, has_tools=bool(asked.terms.tools))


def _as_sent(asked: SendOptions, conversation: HashedConversation) -> SendOptions:
    """If only the sent messages may be shown, set ``only_last`` to the number of sent exchanges."""
    if asked.terms is None or asked.terms.only_last is None:
        return asked
    sent = len(conversation.exchanges) + (conversation.greeting is not None)
    return replace(asked, terms=replace(asked.terms, only_last=sent))
