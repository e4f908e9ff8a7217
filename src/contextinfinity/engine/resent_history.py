"""Handle clients that resend the whole conversation with every request: find the stored thread and continue it.

Messages are compared after normalisation (``domain.prefix_hash``), so a client's messages may differ from the stored
ones: in reminder blocks, white space, ids. The model is shown the client's version. A turn stores the messages of its
request that the prompt would otherwise show differently; later requests inherit them, so that only changes are stored.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from difflib import SequenceMatcher
from itertools import groupby

from msgspec.structs import replace

from contextinfinity.domain.ids import TurnId, now
from contextinfinity.domain.message import Json, Message, ToolResultBlock, with_reasoning
from contextinfinity.domain.prefix_hash import normalised, number_of, plain_text
from contextinfinity.domain.prompt import ToolSpec
from contextinfinity.domain.sent_form import all_in_form
from contextinfinity.domain.session import Owner
from contextinfinity.domain.turn import COMPACTION, CONTINUES, SIDE, UNFINISHED, NewTurn, Phase, PrefixHashes, Turn
from contextinfinity.engine.engine import Engine, request_key
from contextinfinity.engine.image_content import keep_pictures
from contextinfinity.engine.running_turn import SendOptions
from contextinfinity.engine.sent_conversation import (
    MANY,
    PURPOSE_SUMMARY,
    HashedConversation,
    SentConversation,
    SideRequest,
    hash_conversation,
    is_resent_as,
    is_stopped_part,
    side_of,
    side_request_of,
)
from contextinfinity.engine.thread_matching import (
    SUMMARY,
    IncomingConversation,
    MatchTarget,
    ThreadMatching,
    with_call_names,
)
from contextinfinity.errors import BranchBusy, LedgerError, NotFound, OutOfOrder
from contextinfinity.prompt.measure import Measure
from contextinfinity.prompt.prompt_sections import MESSAGE, as_sent_field, has_no_output, message_of, shown_turns
from contextinfinity.storage.contract import Store
from contextinfinity.storage.database import maintenance_context

PAGE = 100
MOST_KNOWN = 10_000
"""The number of requests whose hashes are kept in memory."""


class SentMessages:
    """Finds the messages of a request that the prompt would not show as they were sent."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[TurnId, bytes] = OrderedDict()
        """The exact hash of all messages of a request, by the turn that this process accepted for it."""

    async def differing(self, target: MatchTarget, conversation: HashedConversation, kept: Message) -> dict[str, Json]:
        """Compare the sent messages with the branch; return the metadata field that stores the differences.

        ``kept`` is the new message as stored. Turns are read backwards and only as far as needed: if the
        previous request of this process sent the same messages, only the newest turn is compared.
        """
        rows = conversation.rows
        assert target.branch_id is not None  # noqa: S101 - set by ``make``
        turns, place = list[Turn](), None if target.follows is None else target.follows + 1
        while rows and (target.is_rearranged or len(_stored_rows(turns)) <= len(rows)):
            limit = PAGE if turns else 1
            page = await self._store.turns.history(target.branch_id, limit=limit, before=place)
            if not page:
                break
            turns[:0] = page
            place = page[0].turn_seq
            if (
                len(turns) == 1
                and not target.is_rearranged
                and self._known.get(turns[0].id) == conversation.exact_before
            ):
                rows = rows[-2:]
                break
        lead: tuple[Message, ...] = ()
        if target.is_rearranged:
            found, lead = rearranged_turns(turns, rows, kept, conversation.form)
        else:
            found = differing_turns(turns, rows, kept, conversation.form)
        if lead or not _alike((kept,), conversation.sent, conversation.form):
            found[MESSAGE] = (*lead, *conversation.sent)
        stored = {turn.id: (turn.user_message, *(() if turn.answer is None else (turn.answer,))) for turn in turns}
        return as_sent_field(found, {**stored, MESSAGE: (kept,)})

    async def appended(self, target: MatchTarget, conversation: HashedConversation, kept: Message) -> dict[str, Json]:
        """Do the same for a request whose messages are all new, as its client does not send the earlier ones.

        Failed turns before it are hidden: the client got an error and no answer. The model is shown its
        reasoning before the tool calls whose results ``kept`` contains.
        """
        assert target.branch_id is not None  # noqa: S101 - set by ``make``
        found: dict[str, tuple[Message, ...]] = {}
        stored: dict[str, tuple[Message, ...]] = {MESSAGE: (kept,)}
        before = None if target.follows is None else target.follows + 1
        while page := await self._store.turns.history(target.branch_id, limit=1, before=before):
            turn, before = page[0], page[0].turn_seq
            if turn.phase is Phase.FAILED and has_no_output(turn):
                found[turn.id] = ()
                continue
            if any(isinstance(block, ToolResultBlock) for block in kept.blocks) and turn.answer is not None:
                steps = await self._store.turns.steps(turn.id)
                blocks = with_reasoning(steps[-1].items, turn.answer.blocks) if steps else turn.answer.blocks
                if blocks != turn.answer.blocks:
                    lead, message, _ = message_of(turn)
                    found[turn.id] = (*lead, message, Message(role="assistant", blocks=blocks))
                    stored[turn.id] = (turn.user_message, turn.answer)
            break
        if not _alike((kept,), conversation.sent, conversation.form):
            found[MESSAGE] = conversation.sent
        return as_sent_field(found, stored)

    def note(self, turn_id: TurnId, conversation: HashedConversation) -> None:
        """Store the hash of the messages that a turn's request sent."""
        self._known[turn_id] = conversation.exact
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)


def differing_turns(
    turns: Sequence[Turn], rows: Sequence[list[Message]], message: Message, form: str = ""
) -> dict[str, tuple[Message, ...]]:
    """Return the sent messages of those turns that the prompt would show differently.

    The last row matches the end of the last turn. Turns before the first row are not compared; a failed turn after
    it, which was not sent, is hidden.
    """
    groups = _stored_rows(turns)
    wanted: dict[TurnId, list[Message]] = {}
    count = min(len(groups), len(rows))
    for group, row in zip(groups[len(groups) - count :], rows[len(rows) - count :], strict=True):
        stored = side_of([side for _, side in group])
        is_stopped = stored.role == "assistant" and group[-1][0].outcome == "cancelled"
        same = is_stopped_part if is_stopped else is_resent_as
        sent = next((part for part in (row, row[1:]) if part and same(stored, side_of(part))), None)
        if sent is None:  # the client's own summary of dropped messages
            continue
        if not wanted and group[0][1].role == "assistant" and (first := group[0][0]).answer is not None:
            wanted[first.id] = [first.user_message]
        for turn, _ in group:
            wanted.setdefault(turn.id, [])
        owner = group[0][0] if stored.role == "assistant" else group[-1][0]
        wanted[owner.id].extend(sent)
    return _shown_otherwise(turns, wanted, message, form)


def rearranged_turns(
    turns: Sequence[Turn], rows: Sequence[list[Message]], message: Message, form: str
) -> tuple[dict[str, tuple[Message, ...]], tuple[Message, ...]]:
    """Do the same if rows were added, moved or dropped; also return the rows after the last stored one.

    A row that is not stored is shown with the next stored one. A stored row that was not sent is hidden.
    """
    groups, sides = _stored_rows(turns), [side_of(row) for row in rows]
    keys: list[object] = [(side.role == "assistant", plain_text(side) or place) for place, side in enumerate(sides)]
    by_content = {normalised(side): key for side, key in zip(reversed(sides), reversed(keys), strict=True)}
    starts = {
        text: key for side, key in zip(sides, keys, strict=True) if side.role == "user" and (text := plain_text(side))
    }
    stored: list[object] = [_key_of(side_of([one for _, one in group]), by_content, starts) for group in groups]
    wanted: dict[TurnId, list[Message]] = {turn.id: [] for turn in turns}
    place, owner = 0, 0
    for block in SequenceMatcher(None, stored, keys, autojunk=False).get_matching_blocks():
        for number in range(block.size):
            group, row = groups[block.a + number], block.b + number
            turn = group[0][0] if group[0][1].role == "assistant" else group[-1][0]
            owner = max(owner, turn.turn_seq)
            holder = next(one.id for one in turns if one.turn_seq == owner)
            wanted[holder] += [one for added in rows[place : row + 1] for one in added]
            place = row + 1
    lead = tuple(one for added in rows[place:] for one in added)
    return _shown_otherwise(turns, wanted, message, form), lead


def _key_of(stored: Message, by_content: Mapping[bytes, object], starts: Mapping[str, object]) -> object:
    """Return the key of the sent row with the same content, or with only final paragraphs stripped."""
    if (key := by_content.get(normalised(stored))) is not None or stored.role == "assistant":
        return key
    text = plain_text(stored)
    return next((key for start, key in starts.items() if text.startswith(f"{start}\n\n")), None)


def _shown_otherwise(
    turns: Sequence[Turn], wanted: Mapping[TurnId, Sequence[Message]], message: Message, form: str
) -> dict[str, tuple[Message, ...]]:
    """Return the wanted messages of turns that the prompt would show differently."""
    if not wanted:
        return {}
    first_sent = next(number for number, turn in enumerate(turns) if turn.id in wanted)
    behind = replace(turns[-1], id="", user_message=message, answer=None, retry_of=None, metadata=None)
    shown = shown_turns(turns, behind)
    return {
        turn.id: tuple(wanted.get(turn.id, ()))
        for turn, now in zip(turns[first_sent:], shown[first_sent:], strict=True)
        if not _alike(now.messages, wanted.get(turn.id, ()), form)
    }


def _alike(stored: Sequence[Message], sent: Sequence[Message], form: str) -> bool:
    """Return whether stored and sent messages look the same to a model."""
    if tuple(stored) == tuple(sent):
        return True
    return bool(form) and all_in_form(form, stored) == all_in_form(form, sent)


def _stored_rows(turns: Sequence[Turn]) -> list[list[tuple[Turn, Message]]]:
    """Group the messages of turns that did not fail by side, each with its turn."""
    rows = [
        (turn, side)
        for turn in turns
        if turn.phase is not Phase.FAILED
        for side in (turn.user_message, turn.answer)
        if side is not None and side.blocks
    ]
    return [list(group) for _, group in groupby(rows, key=lambda one: one[1].role == "assistant")]


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
