"""Messages of a resent conversation that differ in bytes from the stored ones they were matched with.

Messages are compared after a normalisation (``domain.trail``), so a client's own messages may differ from the stored
ones: in reminder blocks, white space, ids. The model is shown the client's. A turn keeps the messages of its request
that the prompt would otherwise show differently; requests that follow it inherit them, so that only changes are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from hashlib import blake2b
from itertools import groupby

import msgspec
from msgspec.structs import replace

from contextinfinity.domain.ids import TurnId
from contextinfinity.domain.message import Json, Message
from contextinfinity.domain.prefix_hash import plain_text, says_the_same
from contextinfinity.domain.sent_form import all_in_form
from contextinfinity.domain.turn import Phase, Turn
from contextinfinity.engine.thread_matching import HashedConversation, MatchTarget
from contextinfinity.engine.trimmed_history import rows_of, side_of
from contextinfinity.prompt.prompt_sections import THIS, as_sent_field, shown_turns
from contextinfinity.storage.contract import Store

PAGE = 100
MOST_KNOWN = 10_000
"""Requests of which is remembered what they sent."""

_lines = msgspec.json.Encoder()


class SentMessages:
    """Finds which messages of a request the prompt would not show as they were sent."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[TurnId, bytes] = OrderedDict()
        """By a turn that this process accepted: the exact hash of all messages of its request."""

    async def differing(self, target: MatchTarget, said: HashedConversation, kept: Message) -> dict[str, Json]:
        """Compare what was sent with the branch up to the turn that it follows; ``kept``: the message as it is stored.

        Return the metadata field that keeps what differs.

        Turns are read backwards, only as far as needed: what an earlier request sent and this one repeats is shown as
        it was sent.
        """
        rows = rows_of(said.history)
        before = _hash([message for row in rows[:-1] for message in row])
        assert target.branch_id is not None  # noqa: S101 - made by now
        turns, place = list[Turn](), None if target.follows is None else target.follows + 1
        while rows and (target.is_rearranged or len(_stored_rows(turns)) <= len(rows)):
            limit = PAGE if turns else 1
            page = await self._store.turns.history(target.branch_id, limit=limit, before=place)
            if not page:
                break
            turns[:0] = page
            place = page[0].turn_seq
            if len(turns) == 1 and not target.is_rearranged and self._known.get(turns[0].id) == before:
                rows = rows[-2:]
                break
        lead: tuple[Message, ...] = ()
        if target.is_rearranged:
            found, lead = rearranged_turns(turns, rows, kept, said.form)
        else:
            found = differing_turns(turns, rows, kept, said.form)
        if lead or not _alike((kept,), said.sent, said.form):
            found[THIS] = (*lead, *said.sent)
        stored = {turn.id: (turn.user_message, *(() if turn.answer is None else (turn.answer,))) for turn in turns}
        return as_sent_field(found, {**stored, THIS: (kept,)})

    def note(self, turn_id: TurnId, said: HashedConversation) -> None:
        """Remember what the request of a turn sent."""
        self._known[turn_id] = _hash([message for row in rows_of([*said.history, *said.sent]) for message in row])
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)


def differing_turns(
    turns: Sequence[Turn], rows: Sequence[list[Message]], message: Message, form: str = ""
) -> dict[str, tuple[Message, ...]]:
    """Return the turns that the prompt would show differently from the rows that were sent, with what was sent.

    The last row is the end of the last turn. Turns in front of the first row are left as they are; a failed turn
    behind it, which was not sent, is not shown.
    """
    groups = _stored_rows(turns)
    wanted: dict[TurnId, list[Message]] = {}
    count = min(len(groups), len(rows))
    for group, row in zip(groups[len(groups) - count :], rows[len(rows) - count :], strict=True):
        stored = side_of([side for _, side in group])
        sent = next((part for part in (row, row[1:]) if part and says_the_same(side_of(part), stored)), None)
        if sent is None:  # a client's own summary of what it dropped
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
    """Do the same where rows were added, moved or dropped; also return the rows behind the last stored one.

    A row that is not stored is shown with the next one that is. A stored one that was not sent is not shown.
    """
    groups, sides = _stored_rows(turns), [side_of(row) for row in rows]
    sent = [(side.role == "assistant", plain_text(side), side) for side in sides]
    keys: list[object] = [(is_answer, text or place) for place, (is_answer, text, _) in enumerate(sent)]
    stored: list[object] = [_key_of(side_of([one for _, one in group]), sent, keys) for group in groups]
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


def _key_of(stored: Message, sent: Sequence[tuple[bool, str, Message]], keys: Sequence[object]) -> object:
    """Return the key of the sent row that says the same, or the same without paragraphs at its end."""
    is_answer, text = stored.role == "assistant", plain_text(stored)
    for (other, start, side), key in zip(sent, keys, strict=True):
        if other is is_answer and says_the_same(side, stored):
            return key
        if not is_answer and not other and start and text.startswith(f"{start}\n\n"):
            return key
    return None


def _shown_otherwise(
    turns: Sequence[Turn], wanted: Mapping[TurnId, Sequence[Message]], message: Message, form: str
) -> dict[str, tuple[Message, ...]]:
    """Return the messages of those turns, from the first wanted one on, that the prompt would show differently."""
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
    """Tell whether a model is shown the same for what is stored as for what was sent."""
    if tuple(stored) == tuple(sent):
        return True
    return bool(form) and all_in_form(form, stored) == all_in_form(form, sent)


def _stored_rows(turns: Sequence[Turn]) -> list[list[tuple[Turn, Message]]]:
    """Group the messages of turns that did not fail by the side that says them; each with its turn."""
    said = [
        (turn, side)
        for turn in turns
        if turn.phase is not Phase.FAILED
        for side in (turn.user_message, turn.answer)
        if side is not None and side.blocks
    ]
    return [list(group) for _, group in groupby(said, key=lambda one: one[1].role == "assistant")]


def _hash(messages: Sequence[Message]) -> bytes:
    """Hash messages exactly, without a normalisation."""
    return blake2b(_lines.encode_lines(messages), digest_size=16).digest()
