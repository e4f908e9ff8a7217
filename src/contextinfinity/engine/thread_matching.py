"""Find the thread of a resent conversation, for clients that send all messages and no thread id.

    everything sent is stored             continue the branch, or fork it if something else follows; tool calls may
                                          be resent as text, a stopped answer in part (``resent_answers``)
    a prefix that no model here answered  start a new thread for each question: it is a few-shot prompt
    the end of exactly one branch         continue that branch: the client dropped old messages (``trimmed_history``)
    all answers of a recent thread        continue that thread, or a branch of it (``recent_threads``)
    anything else                         start a new thread with everything that was sent

For a named thread the same rules apply within it, but the matching end may be short, and a conversation that
contradicts all of its branches becomes a branch from its beginning. A single message to a named thread continues it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from hashlib import sha256
from typing import TypeAlias
from uuid import UUID
from weakref import WeakValueDictionary

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.ids import BranchId, SessionId, TurnId
from contextinfinity.domain.message import Json, Message, ToolResultBlock, ToolUseBlock
from contextinfinity.domain.prefix_hash import HashedPrefix, PrefixHashEnd, after, alone
from contextinfinity.domain.session import IdempotencyKey, NewSession, Session
from contextinfinity.domain.turn import SIDE, UNFINISHED, Exchange, Phase, PrefixHashes, Turn
from contextinfinity.engine.engine import are_retries, failed_just_now, for_session
from contextinfinity.engine.image_content import keep_pictures
from contextinfinity.engine.sent_conversation import (
    SUMMARY_WITHIN,
    HashedConversation,
    SideRequest,
    TailMatch,
    continued_from,
    holding_all_answers,
    is_quoted,
    is_stopped_part,
    match_tail,
    purpose_of,
    read_recent,
    renders_calls,
    rows_of,
    with_edited_answer,
)
from contextinfinity.errors import AlreadyExists, NotFound
from contextinfinity.prompt.prompt_sections import WHOLE, as_sent_field
from contextinfinity.prompt.tasks import continues_task
from contextinfinity.storage.contract import Store
from contextinfinity.storage.ledger.prefix_hashes import MOST_CANDIDATES, MOST_CONTINUATIONS

StopLeft: TypeAlias = Callable[[TurnId], Awaitable[bool]]
"""Ends a running turn if its client disconnected, and returns whether it did."""
PAGE = 100
MOST_HELD = 10_000
"""The maximum number of spooled turns that are remembered."""
SUMMARY = "client_summary"
"""The metadata field that stores a client's own summary of messages it no longer sends."""


class MatchTarget(Struct, frozen=True, kw_only=True):
    """The destination of a message (a branch, a fork or a new thread) and the turns to record there before it."""

    branch_id: BranchId | None = None
    """None: a thread must be created."""
    follows: int | None = None
    """The number of the turn before the message and ``missing``; None: the last turn of the branch."""
    is_fork: bool = False
    missing: tuple[Exchange, ...] = ()
    is_shared: bool = False
    """Whether concurrent requests could choose the same position."""
    is_whole: bool = True
    """Whether the stored history equals the sent one; only then is its prefix hash recorded."""
    summary: Message | None = None
    """A client's summary to store with the turn."""
    retry_of: TurnId | None = None
    """The turn that failed there with the same message."""
    side: str = ""
    """The purpose of a side request; its branch or thread is not part of the conversation."""
    about: SessionId | None = None
    """The thread that a side request quotes."""
    continues: BranchId | None = None
    """The branch whose summary starts the conversation."""
    is_rearranged: bool = False
    """Whether messages were reordered or others inserted between them."""


class IncomingConversation(Struct, frozen=True, kw_only=True):
    """A received conversation with everything that determines its position."""

    conversation: HashedConversation
    session: Session | None = None
    """The thread that the client named."""
    name: str | None = None
    """The client's name for the thread."""
    once: IdempotencyKey | None = None
    body: int = 0
    beside: Turn | None = None
    """The turn that answers the same message; the new turn gets a branch beside it."""
    exact: bool = False
    """Whether only the sent messages may precede the message."""
    appends: bool = False
    """Whether all messages are new."""
    follows: Turn | None = None
    """The turn that it follows; None: the last one of ``session``."""
    keeps: dict[str, Json] = {}
    """Metadata to store with the turn."""
    side: SideRequest | None = None
    """The side request that it looks like."""


class ThreadMatching:
    """Finds or creates the branch on which a conversation continues."""

    def __init__(self, store: Store, stop_left: StopLeft) -> None:
        self._store = store
        self._stop_left = stop_left
        self._locks: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()
        self._held: dict[int, tuple[TurnId, int]] = {}
        """Turns that are spooled because the ledger is away, with their requests, by the prefix hash of the
        question.
        """

    def lock(self, *name: Hashable) -> asyncio.Lock:
        """Return a lock by name; it serialises requests with the same key, and those that create branches."""
        return self._locks.setdefault(name, asyncio.Lock())

    async def made_under(self, request: int, conversation: HashedConversation) -> HashedPrefix | None:
        """Return the newest turn of a request; ``request`` is the hash of its Idempotency-Key and body."""
        held = await self._held_after(conversation.asked)
        if held is not None and self._held[conversation.asked][1] == request:
            return HashedPrefix(turn_id=held.id, phase=held.phase)
        return await self._store.prefix_hashes.walked(
            conversation.owner, PrefixHashes(asked=conversation.asked, body=request)
        )

    def hold(self, turn: Turn, trail: PrefixHashes) -> None:
        """Remember the position of a turn that is spooled while the ledger is away."""
        if turn.durability == "local" and trail.asked is not None:
            self._held[trail.asked] = (turn.id, trail.body)
            if len(self._held) > MOST_HELD:
                del self._held[next(iter(self._held))]

    async def _held_after(self, asked: int) -> Turn | None:
        """Return the spooled turn with that prefix hash, if it is not in the ledger yet."""
        turn = None if asked not in self._held else await self._store.turns.get(self._held[asked][0])
        if turn is None or turn.durability == "ledger":
            self._held.pop(asked, None)
            return None
        return turn

    async def find(self, incoming: IncomingConversation) -> MatchTarget:
        """Return the position of a message."""
        conversation, session = incoming.conversation, incoming.session
        if incoming.appends:
            return await self._appended(incoming)
        if incoming.beside is not None:
            return MatchTarget(branch_id=incoming.beside.branch_id, follows=incoming.beside.turn_seq - 1, is_fork=True)
        if conversation.is_new:
            return _new_record(conversation, None)
        if (target := await self._by_prefix(incoming) or await self._by_tail(incoming)) is not None:
            return await self._with_side_branch(incoming, await _past_failures(self._store, conversation, target))
        is_begun = session is not None and bool(await self._store.turns.history(session.active_branch, limit=1))
        if session is not None and is_begun and not conversation.rows:
            again = await failed_just_now(self._store, session.active_branch, conversation.message)
            return MatchTarget(branch_id=session.active_branch, retry_of=again, is_whole=False)
        if (target := await self._failed_first(incoming)) is not None:
            return await self._with_side_branch(incoming, target)
        found = await _by_recent(self._store, incoming) if session is None and not incoming.exact else None
        if found is None:
            return _new_record(conversation, session, fork=is_begun)
        return await self._with_side_branch(incoming, await _past_failures(self._store, conversation, found))

    async def _with_side_branch(self, incoming: IncomingConversation, target: MatchTarget) -> MatchTarget:
        """Return a side request a branch of its own; its tool rounds stay on that branch."""
        if (
            target.branch_id is None
            or target.follows is None
            or not (incoming.side or continues_task(incoming.conversation.message))
        ):
            return target
        if target.retry_of is not None:
            before = [await self._store.turns.get(target.retry_of)]
        else:
            before = [*await self._store.turns.history(target.branch_id, limit=1, before=target.follows + 1)]
        last = before[-1] if before else None
        purpose = purpose_of(last)
        if target.retry_of is not None or continues_task(incoming.conversation.message):
            return replace(target, side=purpose or "")
        if purpose is not None or incoming.side is None or incoming.session is not None:
            return target  # the whole conversation has this instruction, or the client names the thread
        return replace(target, is_fork=True, is_shared=True, side=incoming.side.purpose)

    async def _appended(self, incoming: IncomingConversation) -> MatchTarget:
        """Return the position of messages that are all new: after a turn, or at the end of a thread.

        It is a fork if something else followed the turn, or if several messages are sent. Raise ``NotFound`` if
        there is no such thread.
        """
        conversation, session, turn = incoming.conversation, incoming.session, incoming.follows
        if turn is None:
            if session is None:
                raise NotFound("There is no such conversation.", hint="It may have been deleted.")
            again = (
                None
                if conversation.rows
                else await failed_just_now(self._store, session.active_branch, conversation.message)
            )
            return MatchTarget(
                branch_id=session.active_branch, missing=conversation.recorded, retry_of=again, is_whole=False
            )
        target = MatchTarget(branch_id=turn.branch_id, follows=turn.turn_seq, is_whole=False)
        if conversation.rows:
            return replace(target, is_fork=True, missing=conversation.recorded)
        return await _past_failures(self._store, conversation, target)

    async def _by_prefix(self, incoming: IncomingConversation) -> MatchTarget | None:
        """Find the branch with exactly the sent history."""
        conversation, session = incoming.conversation, incoming.session
        if not conversation.prefix_hashes:
            return None
        asked, answered = conversation.prefix_hashes[-1]
        held = await self._held_after(asked)
        if held is not None and held.answer is not None and after(asked, held.answer) == answered:
            return MatchTarget(branch_id=held.branch_id)
        within = None if session is None else session.id
        end = await self._store.prefix_hashes.end(conversation.owner, answered, session_id=within)
        if end is None and (stored := await _resent_otherwise(self._store, conversation, self._stop_left)) is not None:
            end = await self._store.prefix_hashes.end(conversation.owner, after(asked, stored), session_id=within)
        if end is None:
            return None
        if session is None and await self._is_opening(incoming, end):
            return (
                await self._failed_first(incoming)
                or await self._asked_again(incoming)
                or _new_record(conversation, None)
            )
        return _spot(end)

    async def _is_opening(self, incoming: IncomingConversation, end: PrefixHashEnd) -> bool:
        """Return whether the history is a prefix shared by many conversations, such as few-shot examples.

        Either many different messages followed it, or no model here answered it and another message followed.
        """
        if end.is_free or incoming.side is not None:
            return False
        if end.continuations >= MOST_CONTINUATIONS:
            return True
        turns = await self._store.turns.history(end.branch_id, limit=2, before=end.turn_seq + 2)
        return not turns[0].provider and bool(turns[-1].provider)

    async def _asked_again(self, incoming: IncomingConversation) -> MatchTarget | None:
        """Return a fork beside the turn of an identical request, or None."""
        made = PrefixHashes(asked=incoming.conversation.asked, body=incoming.body)
        walked = await self._store.prefix_hashes.walked(incoming.conversation.owner, made)
        turn = None if walked is None else await self._store.turns.get(walked.turn_id)
        if turn is None:
            return None
        return MatchTarget(branch_id=turn.branch_id, follows=turn.turn_seq - 1, is_fork=True, is_shared=True)

    async def _by_tail(self, incoming: IncomingConversation) -> MatchTarget | None:
        """Find the only branch that ends with the sent messages."""
        conversation, session = incoming.conversation, incoming.session
        within = None if session is None else session.id
        found = [
            end
            for number in conversation.last
            for end in await self._store.prefix_hashes.exchanges(conversation.owner, number, session_id=within)
        ]
        if len(found) > MOST_CANDIDATES:
            return None
        read = [(end, *await _matched(self._store, conversation, end)) for end in found]
        matches = [(end, match, kept) for end, match, kept in read if match is not None]
        matches = [one for one in matches if one[1].summary is None] or matches
        for end, match, _ in matches:
            if match.is_whole:
                return _spot(end)
        if incoming.exact or len(matches) != 1:
            return None
        end, match, kept = matches[0]
        if not end.is_free or not (match.is_certain or session is not None):
            return None
        summary = None if match.summary is None or match.summary.rendered_text in kept else match.summary
        return replace(_spot(end), is_whole=False, summary=summary)

    async def _failed_first(self, incoming: IncomingConversation) -> MatchTarget | None:
        """Find where the same request failed before: its retries share one thread.

        A partial answer and its successors stay on their branch.
        """
        conversation = incoming.conversation
        made = await self._store.prefix_hashes.walked(
            conversation.owner, PrefixHashes(asked=conversation.asked, body=incoming.body)
        )
        turn = None if made is None or made.phase is not Phase.FAILED else await self._store.turns.get(made.turn_id)
        if turn is None or turn.phase is not Phase.FAILED:
            return None
        first = turn
        while first.retry_of is not None and (before := await self._store.turns.get(first.retry_of)) is not None:
            first = before
        target = MatchTarget(branch_id=turn.branch_id, follows=first.turn_seq - 1)
        if await failed_just_now(self._store, turn.branch_id, conversation.message) == turn.id:
            return replace(target, retry_of=turn.id)
        return replace(target, is_fork=True, is_shared=True)

    async def make(self, incoming: IncomingConversation, target: MatchTarget) -> MatchTarget:
        """Create the thread or fork, record the missing exchanges, and return the final position."""
        branch_id = target.branch_id
        if branch_id is None:
            branch_id = (await self._make(incoming, target.side)).active_branch
        elif target.is_fork:
            branch_id = (await self._store.branches.fork(branch_id, at=target.follows)).id
        if not target.missing:
            return replace(target, branch_id=branch_id)
        sides = (side for one in target.missing for side in (one.message, one.answer) if side is not None)
        await keep_pictures(self._store.contents, sides, incoming.conversation.blobs)
        if incoming.appends:  # identical messages may be appended again
            recorded_exchanges = _with_sent(target.missing, incoming.conversation.rows)
        else:
            recorded_exchanges = [_named(branch_id, place, one) for place, one in enumerate(target.missing)]
        last = (await self._store.turns.record(branch_id, recorded_exchanges))[-1]
        follows = None if incoming.appends and not target.is_fork else last.turn_seq
        return replace(target, branch_id=branch_id, follows=follows)

    async def call_names(self, target: MatchTarget, conversation: HashedConversation) -> dict[str, str]:
        """Map the client's ids of the last tool calls to the stored ones.

        Some clients rename tool calls for each vendor, but a result refers to the id of its call.
        """
        sent = calls_of(conversation.exchanges[-1][1]) if conversation.exchanges and not target.missing else ()
        if not sent or target.branch_id is None or target.follows is None:
            return {}
        turns = await self._store.turns.history(target.branch_id, limit=1, before=target.follows + 1)
        kept = calls_of(turns[0].answer) if turns and turns[0].answer is not None else ()
        return {one: other for one, other in zip(sent, kept, strict=False) if one != other}

    async def _make(self, incoming: IncomingConversation, side: str) -> Session:
        once = None if incoming.once is None else for_session(incoming.once)
        metadata: dict[str, Json] = {SIDE: side} if side else {}
        new = NewSession(owner=incoming.conversation.owner, external_id=incoming.name, once=once, metadata=metadata)
        try:
            return await self._store.sessions.create(new)
        except AlreadyExists:  # another request created it first
            session = (
                None
                if incoming.name is None
                else await self._store.sessions.find(incoming.conversation.owner, incoming.name)
            )
            if session is None:
                raise
            return session


async def _matched(
    store: Store, conversation: HashedConversation, end: PrefixHashEnd
) -> tuple[TailMatch | None, set[str]]:
    """Compare the sent messages with the branch up to a turn; also return the client summaries stored there."""
    sides, read, place = len(conversation.rows), list[Turn](), end.turn_seq + 1
    while len(rows_of(_messages_of(read))) <= sides:
        turns = await store.turns.history(end.branch_id, limit=min(sides // 2 + 2, PAGE), before=place)
        if not turns:
            break
        read[:0] = turns
        place = turns[0].turn_seq
    stored = _messages_of(read)
    kept = {str(turn.metadata.get(SUMMARY)) for turn in read if isinstance(turn.metadata, dict)}
    return match_tail(conversation.history, stored) if stored else None, kept


async def _past_failures(store: Store, conversation: HashedConversation, target: MatchTarget) -> MatchTarget:
    """Skip failed turns: as a retry if the message is the same, otherwise on a fork that hides them.

    A client that resends the conversation without them has dropped them.
    """
    if target.is_fork or target.branch_id is None or target.follows is None:
        return target
    newest = await store.turns.history(target.branch_id, limit=1)
    if not newest or newest[0].turn_seq <= target.follows:
        return target
    tries = newest[0].turn_seq - target.follows
    failed = await store.turns.history(target.branch_id, limit=min(tries, PAGE))
    if tries <= PAGE and are_retries(failed, conversation.message):
        return replace(target, retry_of=failed[-1].id)
    return replace(target, is_fork=True, is_shared=True)


async def _resent_otherwise(store: Store, conversation: HashedConversation, stop_left: StopLeft) -> Message | None:
    """Return the stored answer to the last question if the client resends it with its calls as text, or in part.

    A client that goes on from a part of an answer has stopped it, so a turn that still writes it ends.
    """
    asked, sent = conversation.prefix_hashes[-1][0], conversation.exchanges[-1][1]
    for turn_id in await store.prefix_hashes.asked(conversation.owner, asked):
        turn = await store.turns.get(turn_id)
        if turn is not None and turn.phase in UNFINISHED and await stop_left(turn_id):
            turn = await store.turns.get(turn_id)
        if turn is None or turn.answer is None:
            continue
        if renders_calls(turn.answer, sent) or (turn.outcome == "cancelled" and is_stopped_part(turn.answer, sent)):
            return turn.answer
    return None


async def _by_recent(store: Store, incoming: IncomingConversation) -> MatchTarget | None:
    """Find the position of a message in or beside one of the recent threads."""
    conversation, side = incoming.conversation, incoming.side
    if side is not None and not conversation.rows:
        if not side.needs_quote:
            return MatchTarget(side=side.purpose)
        text = conversation.message.rendered_text
        quoted = [one for one in await read_recent(store, conversation.owner) if is_quoted(text, one)]
        about = [one for one in quoted if await _is_of(store, conversation, one.turns[-1])]
        return MatchTarget(side=side.purpose, about=about[0].session.id) if about else None
    if not conversation.rows:
        return None
    threads = await read_recent(store, conversation.owner)
    begun = (*conversation.history[:SUMMARY_WITHIN], conversation.message)
    if (link := await continued_from(store, begun, threads)) is not None and await _is_of(store, conversation, link[1]):
        target = _new_record(conversation, link[0].session, fork=True)
        return replace(target, is_shared=True, continues=link[0].session.active_branch)
    all_of = holding_all_answers(conversation.exchanges, threads)
    if all_of is not None and await _is_of(store, conversation, all_of.turns[-1]):
        place = MatchTarget(branch_id=all_of.session.active_branch, follows=all_of.turns[-1].turn_seq)
        return replace(place, is_shared=True, is_whole=False, is_rearranged=True)
    edit = None if conversation.greeting is not None else with_edited_answer(conversation.exchanges, threads)
    if edit is not None and await _is_of(store, conversation, edit.turn):
        target = MatchTarget(branch_id=edit.thread.session.active_branch, follows=edit.follows, is_fork=True)
        return replace(target, is_shared=True, missing=conversation.recorded[edit.exchanges :])
    return None


async def _is_of(store: Store, conversation: HashedConversation, turn: Turn) -> bool:
    """Return whether a turn belongs to the same end user, whose name is part of its hashes."""
    if turn.answer is None:
        return False
    number = after(alone(turn.user_message, conversation.owner, conversation.end_user), turn.answer)
    ends = await store.prefix_hashes.exchanges(conversation.owner, number, session_id=turn.session_id)
    return any(end.turn_id == turn.id for end in ends)


def calls_of(message: Message) -> tuple[str, ...]:
    """List the ids of the tool calls in an answer."""
    return tuple(block.tool_use_id for block in message.blocks if isinstance(block, ToolUseBlock))


def with_call_names(message: Message, names: dict[str, str]) -> Message:
    """Replace the ids of calls in tool results."""
    blocks = (
        replace(block, tool_use_id=names.get(block.tool_use_id, block.tool_use_id))
        if isinstance(block, ToolResultBlock)
        else block
        for block in message.blocks
    )
    return replace(message, blocks=tuple(blocks)) if names else message


def _messages_of(turns: Sequence[Turn]) -> list[Message]:
    """Return the messages of turns that did not fail."""
    counted = (turn for turn in turns if turn.phase is not Phase.FAILED)
    return [side for turn in counted for side in (turn.user_message, turn.answer) if side is not None]


def _spot(end: PrefixHashEnd) -> MatchTarget:
    """Continue the branch if nothing follows the turn, otherwise fork it."""
    return MatchTarget(
        branch_id=end.branch_id,
        follows=end.turn_seq,
        is_fork=not end.is_free,
        is_shared=not end.is_free or end.is_fresh,
    )


def _new_record(conversation: HashedConversation, session: Session | None, *, fork: bool = False) -> MatchTarget:
    """Record the whole conversation in a new thread, or on a branch from the beginning of the named one."""
    branch_id = None if session is None else session.active_branch
    return MatchTarget(
        branch_id=branch_id,
        follows=0,
        is_fork=fork,
        missing=conversation.recorded,
        is_shared=bool(conversation.rows),
    )


def _with_sent(exchanges: Sequence[Exchange], rows: list[list[Message]]) -> list[Exchange]:
    """Keep the messages of exchanges as they were sent, because no later request sends them again."""
    left, kept = iter(rows), list[Exchange]()
    for exchange in exchanges:
        sides = (exchange.message,) if exchange.answer is None else (exchange.message, exchange.answer)
        sent = [message for _ in sides for message in next(left)]
        field = as_sent_field({WHOLE: sent}, {WHOLE: sides})
        kept.append(replace(exchange, asked=None, metadata={**(exchange.metadata or {}), **field}))
    return kept


def _named(branch_id: BranchId, place: int, exchange: Exchange) -> Exchange:
    """Return a recorded exchange an id derived from its position, so that recording is idempotent."""
    name = f"{branch_id} {place} {exchange.asked}".encode()
    turn_id = str(UUID(bytes=sha256(name).digest()[:16], version=5))
    return replace(exchange, id=turn_id)
