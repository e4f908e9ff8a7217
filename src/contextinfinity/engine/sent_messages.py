"""Messages of a resent conversation that differ in bytes from the stored messages they match.

Messages are compared after normalisation (``domain.prefix_hash``), so a client's messages may differ from the stored
ones: in reminder blocks, white space, ids. The model is shown the client's version. A turn stores the messages of its
request that the prompt would otherwise show differently; later requests inherit them, so that only changes are stored.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from itertools import groupby

from msgspec.structs import replace

from contextinfinity.domain.ids import TurnId
from contextinfinity.domain.message import Json, Message, ToolResultBlock, with_reasoning
from contextinfinity.domain.prefix_hash import normalised, plain_text
from contextinfinity.domain.sent_form import all_in_form
from contextinfinity.domain.turn import Phase, Turn
from contextinfinity.engine.resent_answers import is_resent_as, is_stopped_part
from contextinfinity.engine.sent_conversation import HashedConversation
from contextinfinity.engine.thread_matching import MatchTarget
from contextinfinity.engine.trimmed_history import side_of
from contextinfinity.prompt.prompt_sections import MESSAGE, as_sent_field, message_of, shown_turns
from contextinfinity.prompt.render import has_no_output
from contextinfinity.storage.contract import Store

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
