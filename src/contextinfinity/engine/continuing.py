"""Which thread a whole conversation belongs to: for clients that name none and send everything with every request.

What they send is walked through (``domain.trail``) to the place where the ledger left off. What is not kept yet is
recorded as it came, and the message at the end is accepted there: on the branch that stands there, or on a new one
where the conversation had gone on differently. Nothing is kept twice, and nothing that was kept changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from hashlib import sha256
from itertools import accumulate
from uuid import UUID
from weakref import WeakValueDictionary

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.ids import BranchId, TurnId
from contextinfinity.domain.message import Message, Role, ToolResultBlock, ToolUseBlock
from contextinfinity.domain.session import NewSession, Once, Owner, Session
from contextinfinity.domain.trail import TrailEnd, Walked, after, alone, beginning
from contextinfinity.domain.turn import Exchange, Phase, Trail, Turn
from contextinfinity.engine.again import all_the_same, failed_just_now
from contextinfinity.engine.once import for_session, once_of
from contextinfinity.engine.pictures import Blobs, keep_pictures, named_by_hash
from contextinfinity.errors import AlreadyExists, InvalidInput
from contextinfinity.storage.contract import Store

MANY = 5_000
"""Messages; more are walked through beside the loop, so that others are not kept waiting."""
PAGE = 100
MOST_HELD = 10_000
"""Turns that are remembered because the ledger does not know them yet."""
AT_ONCE = 500
"""How many places of a conversation are looked for at a time, the newest first."""


class Talk(Struct, frozen=True, kw_only=True):
    """A conversation as somebody sends it: what was said, and at its end what is said now."""

    messages: tuple[Message, ...]
    end_user: str = ""
    """Who speaks, where the owner speaks for several: their conversations are never mixed up."""
    thread_id: str | None = None
    """The thread it belongs to, where its sender knows."""
    is_new: bool = False
    """Whether its sender wants a thread of its own for it, whatever was said before."""
    body: int = 0
    """A number that stands for the whole request (``trail.number_of``)."""
    tried_within: float = 0.0
    """How many seconds ago its sender may have sent the same before; 0: it does not say that it did."""


class Said(Struct, frozen=True, kw_only=True):
    """A conversation walked through: exchanges with the trail up to each, and the message that wants an answer."""

    is_new: bool
    owner: Owner
    end_user: str
    greeting: Message | None
    """What the assistant said before anybody else."""
    exchanges: tuple[tuple[Message, Message], ...]
    """Questions and their answers."""
    trails: tuple[tuple[int, int], ...]
    """The trails up to each question, and up to each answer."""
    last: tuple[int, ...]
    """The numbers by which the last exchange alone is known."""
    message: Message
    asked: int
    alone: int
    """The number of the message alone."""
    blobs: Blobs
    """The pictures it brings, by their hashes."""

    def told(self, first: int) -> tuple[Exchange, ...]:
        """Give the exchanges from a place on as they are recorded."""
        return tuple(
            Exchange(message=message, answer=answer, asked=asked, alone=alone(message, self.owner, self.end_user))
            for (message, answer), (asked, _) in zip(self.exchanges[first:], self.trails[first:], strict=True)
        )


class Spot(Struct, frozen=True, kw_only=True):
    """Where a message goes: a branch, or one that is to be begun there, and what is to be recorded on it first."""

    branch_id: BranchId | None = None
    """None: a thread is to be made."""
    follows: int | None = None
    """The turn that the message follows, or what is recorded before it; None: whichever is the last by then."""
    is_fork: bool = False
    missing: tuple[Exchange, ...] = ()
    is_shared: bool = False
    """Whether others could find the same place at the same time, and make something else of it."""
    retry_of: TurnId | None = None
    """The turn that said the same there before, and failed."""


class Coming(Struct, frozen=True, kw_only=True):
    """A conversation that came, and all that decides where its message goes."""

    said: Said
    session: Session | None = None
    """The thread that was named."""
    name: str | None = None
    """What its sender calls it."""
    once: Once
    tried: TurnId | None = None
    """The turn that the same request made before."""
    exact: bool = False
    """Whether just what was sent may stand before the message."""


class Continuing:
    """Finds or makes the branch on which a conversation goes on."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._locks: WeakValueDictionary[tuple[Owner, int | None], asyncio.Lock] = WeakValueDictionary()
        self._held: dict[int, tuple[TurnId, int]] = {}
        """By the trail up to its question: a turn that the ledger did not take yet, and its request."""

    def one_at_a_time(self, owner: Owner, talk: Talk | None = None) -> asyncio.Lock:
        """Give the lock under which a request is placed: the same one, sent twice at once, is placed once.

        Without one it is the lock of all that make branches or record something for this owner.
        """
        return self._locks.setdefault((owner, None if talk is None else talk.body), asyncio.Lock())

    async def made_before(self, talk: Talk, said: Said) -> tuple[Walked | None, Once]:
        """Give the turn that the same request made, and the name of this try."""
        walked = await self._walked_away(talk, said)
        walked = walked or await self._store.trails.walked(said.owner, Trail(asked=said.asked, body=talk.body))
        before = "" if walked is None else walked.turn_id
        return walked, once_of(
            said.owner, f"talk {talk.body} {said.asked} {before}", {"body": talk.body, "after": before}
        )

    def hold(self, turn: Turn, trail: Trail) -> None:
        """Remember where a turn stands while the ledger is away, which would know it."""
        if turn.durability == "local":
            self._held[trail.asked] = (turn.id, trail.body)
            if len(self._held) > MOST_HELD:
                del self._held[next(iter(self._held))]

    async def _held_after(self, asked: int) -> Turn | None:
        """Give the turn that is held for the ledger, by the trail up to its question."""
        turn = None if asked not in self._held else await self._store.turns.get(self._held[asked][0])
        if turn is None or turn.durability == "ledger":
            self._held.pop(asked, None)
            return None
        return turn

    async def _walked_away(self, talk: Talk, said: Said) -> Walked | None:
        """Give the turn that the same request made while the ledger was away."""
        turn = await self._held_after(said.asked)
        if turn is None or self._held[said.asked][1] != talk.body:
            return None
        return Walked(turn_id=turn.id, phase=turn.phase, created_at=turn.created_at)

    async def find(self, coming: Coming) -> Spot:
        """Find where a conversation left off."""
        said, session = coming.said, coming.session
        if said.is_new:
            return _anew(said, None, fork=False)
        exact = coming.exact and bool(said.exchanges or said.greeting)
        async for spot in self._left_off(said, None if session is None else session.id):
            if not exact or await self._is_all(said, spot):
                return await self._past_failures(said, spot)
        is_begun = session is not None and bool(await self._store.turns.history(session.active_branch, limit=1))
        if session is None or exact or not is_begun:
            return await self._tried(said, coming.tried) or _anew(said, session, fork=is_begun)
        again = await failed_just_now(self._store, session.active_branch, said.message)
        return Spot(branch_id=session.active_branch, retry_of=again)

    async def _past_failures(self, said: Said, spot: Spot) -> Spot:
        """Go on past turns that failed: in the place of the same question, else where they are not shown.

        Whoever sends all that was said has taken back what is not in it.
        """
        if spot.is_fork or spot.branch_id is None or spot.follows is None:
            return spot
        newest = await self._store.turns.history(spot.branch_id, limit=1)
        if not newest or newest[0].turn_seq <= spot.follows:
            return spot
        tries = newest[0].turn_seq - spot.follows
        failed = await self._store.turns.history(spot.branch_id, limit=min(tries, PAGE))
        if tries <= PAGE and all_the_same(failed, said.message):
            return replace(spot, retry_of=failed[-1].id)
        return replace(spot, is_fork=True, is_shared=True)

    async def _tried(self, said: Said, tried: TurnId | None) -> Spot | None:
        """Give the place where the same request failed: what began there begins once.

        Half an answer, or what followed, stays on its branch.
        """
        turn = None if tried is None else await self._store.turns.get(tried)
        if turn is None or turn.phase is not Phase.FAILED:
            return None
        spot = Spot(branch_id=turn.branch_id, follows=turn.turn_seq - 1)
        if await failed_just_now(self._store, turn.branch_id, said.message) == turn.id:
            return replace(spot, retry_of=turn.id)
        return replace(spot, is_fork=True, is_shared=True)

    async def _left_off(self, said: Said, within: str | None) -> AsyncIterator[Spot]:
        """Give the places that what was said leads to: by all of it, or else by its last exchange."""
        if (spot := await self._by_trail(said, within)) is not None:
            yield spot
        for number in said.last:
            ends = await self._store.trails.ends_of_exchange(said.owner, number, session_id=within)
            if len(ends) == 1:
                yield _spot(ends[0], ())

    async def make(self, coming: Coming, spot: Spot) -> Spot:
        """Make what is missing there; gives where the message goes then."""
        branch_id = spot.branch_id
        if branch_id is None:
            branch_id = (await self._make(coming)).active_branch
        elif spot.is_fork:
            branch_id = (await self._store.branches.fork(branch_id, at=spot.follows)).id
        if not spot.missing:
            return Spot(branch_id=branch_id, follows=spot.follows, retry_of=spot.retry_of)
        sides = (side for one in spot.missing for side in (one.message, one.answer) if side is not None)
        await keep_pictures(self._store.contents, sides, coming.said.blobs)
        told = [_named(branch_id, place, one) for place, one in enumerate(spot.missing)]
        return Spot(branch_id=branch_id, follows=(await self._store.turns.record(branch_id, told))[-1].turn_seq)

    async def call_names(self, spot: Spot, said: Said) -> dict[str, str]:
        """Tell what the calls before a message are named here, where its sender names them otherwise.

        Some clients name calls anew for each vendor they talk to; what a tool gave is found by the name of its call.
        """
        place = len(said.exchanges) - len(spot.missing) - 1
        sent = () if place < 0 else calls_of(said.exchanges[place][1])
        if not sent or spot.branch_id is None or spot.follows is None:
            return {}
        turns = await self._store.turns.history(spot.branch_id, limit=1, before=spot.follows + 1)
        kept = calls_of(turns[0].answer) if turns and turns[0].answer is not None else ()
        return {one: other for one, other in zip(sent, kept, strict=False) if one != other}

    async def _by_trail(self, said: Said, within: str | None) -> Spot | None:
        asked, answered = said.trails[-1] if said.trails else (0, 0)
        held = await self._held_after(asked)
        if held is not None and held.answer is not None and after(asked, held.answer) == answered:
            return Spot(branch_id=held.branch_id)
        trails = [answered for _, answered in reversed(said.trails)]
        begin, size = 0, 1  # mostly it is the newest
        while begin < len(trails):
            found = await self._store.trails.end(said.owner, trails[begin : begin + size], session_id=within)
            if found is not None:
                place, end = found
                return _spot(end, said.told(len(trails) - begin - place))
            begin, size = begin + size, AT_ONCE
        return None

    async def _is_all(self, said: Said, spot: Spot) -> bool:
        """Tell whether the turns before a spot say what was sent and no more: those of who trimmed stand elsewhere."""
        assert spot.branch_id is not None  # noqa: S101 - a trail leads to a branch
        sent = len(said.exchanges) - len(spot.missing)
        before = None if spot.follows is None else spot.follows + 1
        wanted, turns = sent + (said.greeting is not None), list[Turn]()
        while len(turns) < wanted:
            page = await self._store.turns.history(spot.branch_id, limit=PAGE, before=before)
            if not page:
                return False
            turns[:0] = [turn for turn in page if turn.phase is not Phase.FAILED]
            before = page[0].turn_seq
        number = beginning(said.owner, said.end_user)
        for side in (side for turn in turns[-wanted:] for side in (turn.user_message, turn.answer) if side):
            number = after(number, side)
        return number == said.trails[sent - 1][1]

    async def _make(self, coming: Coming) -> Session:
        new = NewSession(owner=coming.said.owner, external_id=coming.name, once=for_session(coming.once))
        try:
            return await self._store.sessions.create(new)
        except AlreadyExists:  # somebody was quicker
            session = None if coming.name is None else await self._store.sessions.find(coming.said.owner, coming.name)
            if session is None:
                raise
            return session


def calls_of(message: Message) -> tuple[str, ...]:
    """Name the calls of tools in an answer."""
    return tuple(block.tool_use_id for block in message.blocks if isinstance(block, ToolUseBlock))


def with_call_names(message: Message, names: dict[str, str]) -> Message:
    """Have results of tools name their calls as they are named here."""
    blocks = (
        replace(block, tool_use_id=names.get(block.tool_use_id, block.tool_use_id))
        if isinstance(block, ToolResultBlock)
        else block
        for block in message.blocks
    )
    return replace(message, blocks=tuple(blocks)) if names else message


def walk(talk: Talk, owner: Owner) -> Said:
    """Walk through a conversation: who spoke several times in a row said one thing."""
    messages, blobs = named_by_hash(talk.messages)
    sides = _sides(messages)
    if not sides or sides[-1].role != "user":
        raise InvalidInput(
            "The last message is not the user's.", hint="End with a message of the user, or with results of tools."
        )
    greeting = sides.pop(0) if sides[0].role == "assistant" else None
    begun = beginning(owner, talk.end_user)
    begun = begun if greeting is None else after(begun, greeting)
    *trails, asked = accumulate(sides, after, initial=begun)
    return Said(
        is_new=talk.is_new,
        owner=owner,
        end_user=talk.end_user,
        greeting=greeting,
        exchanges=tuple(zip(sides[:-1:2], sides[1::2], strict=True)),
        trails=tuple(zip(trails[1::2], trails[2::2], strict=True)),
        last=_last(messages, sides, owner, talk.end_user),
        message=sides[-1],
        asked=asked,
        alone=alone(sides[-1], owner, talk.end_user),
        blobs=blobs,
    )


def _last(messages: Sequence[Message], sides: Sequence[Message], owner: Owner, end_user: str) -> tuple[int, ...]:
    """Give the numbers of the last exchange: of all that was asked in a row, and of its last message.

    Clients put summaries of what they leave out before a question.
    """
    if len(sides) < 3:
        return ()
    answered = next(place for place in reversed(range(len(messages))) if messages[place].role == "assistant")
    asked = (message for message in reversed(messages[:answered]) if message.role != "assistant" and message.blocks)
    questions = (sides[-3], next(asked, sides[-3]))
    return tuple(dict.fromkeys(after(alone(question, owner, end_user), sides[-2]) for question in questions))


def _sides(messages: Sequence[Message]) -> list[Message]:
    """Join what one side said in a row; a message without content is nothing."""
    sides: list[Message] = []
    row: list[Message] = []
    for message in messages:
        if not message.blocks:
            continue
        if row and (row[0].role == "assistant") is not (message.role == "assistant"):
            sides.append(_side(row))
            row = []
        row.append(message)
    return [*sides, _side(row)] if row else sides


def _side(row: Sequence[Message]) -> Message:
    role: Role = "assistant" if row[0].role == "assistant" else "user"
    if len(row) == 1 and row[0].role == role:
        return row[0]
    return Message(role=role, blocks=tuple(block for message in row for block in message.blocks))


def _spot(end: TrailEnd, missing: tuple[Exchange, ...]) -> Spot:
    """Go on where nothing follows; else, or where something is to be recorded first, on a new branch."""
    is_fork = bool(missing) or not end.is_free
    return Spot(
        branch_id=end.branch_id,
        follows=end.turn_seq,
        is_fork=is_fork,
        missing=missing,
        is_shared=is_fork or end.is_fresh,
    )


def _anew(said: Said, session: Session | None, *, fork: bool = False) -> Spot:
    """Record all that was sent: in a thread of its own, or at the beginning of the one that was named."""
    greeted = () if said.greeting is None else (Exchange(message=said.greeting),)
    missing = (*greeted, *said.told(0))
    branch_id = None if session is None else session.active_branch
    return Spot(branch_id=branch_id, follows=0, is_fork=fork, missing=missing, is_shared=bool(missing))


def _named(branch_id: BranchId, place: int, exchange: Exchange) -> Exchange:
    """Give an exchange the id that it has on this branch whoever brings it."""
    said = f"{branch_id} {place} {exchange.asked}".encode()
    turn_id = str(UUID(bytes=sha256(said).digest()[:16], version=5))
    return replace(exchange, id=turn_id)
