"""Compare a resent conversation with the threads that its owner talked in last, where its prefix hash leads nowhere.

Some clients change what they resend in ways that no normalisation of single messages covers:

    own exchanges in between    an agent adds and moves messages of its own (examples, files, acknowledgements) and
                                strips what it appended to one; every answer given here is still there, in order
    an edited answer            everything is the same up to an answer, which was changed in part
    its own summary             an agent had the conversation summarised here and begins again with that summary

Only the newest threads are compared: a client goes on with what it talked about last.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from msgspec import Struct

from contextinfinity.domain.message import Message
from contextinfinity.domain.prefix_hash import plain_text, says_the_same
from contextinfinity.domain.session import Owner, Session
from contextinfinity.domain.turn import COMPACTION, SIDE, Phase, Turn
from contextinfinity.storage.contract import Store

NEWEST = 8
"""Threads that are compared."""
PAGE = 100
MIN_ANSWER_CHARACTERS = 80
"""What the answers given here have in all before a conversation is recognised by them."""
MIN_SUMMARY_CHARACTERS = 100
MIN_QUOTED = 12
COMPARED = 4_000
"""Characters of two answers that are compared."""
SIMILAR = 0.5
"""The share of an answer that is left where it was edited."""

_HIDDEN = re.compile(r"<(analysis|scratchpad|thinking)>.*?</\1>", re.DOTALL)
_TAG = re.compile(r"</?[a-z_]+>")


class RecentThread(Struct, frozen=True, kw_only=True):
    """A thread that its owner talked in lately, with the newest turns of its active branch that did not fail."""

    session: Session
    turns: tuple[Turn, ...]


class EditedAnswer(Struct, frozen=True, kw_only=True):
    """Where a resent conversation leaves a stored one: behind ``follows``, with an answer that was edited."""

    thread: RecentThread
    follows: int
    exchanges: int
    """How many exchanges of the sent conversation are stored."""
    turn: Turn
    """The stored turn with the answer that was edited."""


async def read_recent(store: Store, owner: Owner) -> tuple[RecentThread, ...]:
    """Read the threads that an owner talked in last; those of side requests are left out."""
    found = []
    for session in await store.sessions.list(owner, limit=NEWEST):
        if session.kind == "thread" and not session.metadata.get(SIDE):
            turns = await store.turns.history(session.active_branch, limit=PAGE)
            counted = tuple(turn for turn in turns if turn.phase is not Phase.FAILED)
            found.append(RecentThread(session=session, turns=counted))
    return tuple(found)


def is_quoted(text: str, thread: RecentThread) -> bool:
    """Tell whether a text holds a message of a thread, or the beginning of an answer."""
    for turn in reversed(thread.turns):
        asked = plain_text(turn.user_message).partition("\n\n")[0].strip()
        told = turn.text[:COMPARED].strip()
        if any(len(said) >= MIN_QUOTED and said in text for said in (asked, told)):
            return True
    return False


def holding_all_answers(
    exchanges: Sequence[tuple[Message, Message]], threads: Sequence[RecentThread]
) -> RecentThread | None:
    """Find the one thread of which every answer that was given here was resent, in order, behind its question."""
    found = [thread for thread in threads if _holds_all(exchanges, thread.turns)]
    return found[0] if len(found) == 1 else None


def _holds_all(exchanges: Sequence[tuple[Message, Message]], turns: Sequence[Turn]) -> bool:
    answered = [turn for turn in turns if turn.provider and turn.answer is not None]
    if not answered or answered[-1] is not turns[-1]:
        return False
    if sum(len(turn.text) for turn in answered) < MIN_ANSWER_CHARACTERS:
        return False
    left = iter(exchanges)
    return all(any(_is_same(turn, *one) for one in left) for turn in answered)


def _is_same(turn: Turn, message: Message, answer: Message) -> bool:
    """Tell whether an exchange is a turn, from whose message paragraphs at the end may have been stripped."""
    if turn.answer is None or not says_the_same(turn.answer, answer):
        return False
    if says_the_same(turn.user_message, message):
        return True
    sent = plain_text(message)
    return bool(sent) and plain_text(turn.user_message).startswith(f"{sent}\n\n")


def with_edited_answer(
    exchanges: Sequence[tuple[Message, Message]], threads: Sequence[RecentThread]
) -> EditedAnswer | None:
    """Find the one thread that a conversation repeats from its beginning up to an answer that was edited."""
    found = [place for thread in threads if (place := _edited(exchanges, thread)) is not None]
    return found[0] if len(found) == 1 else None


def _edited(exchanges: Sequence[tuple[Message, Message]], thread: RecentThread) -> EditedAnswer | None:
    if not thread.turns or thread.turns[0].turn_seq != 1:
        return None
    follows = 0
    for place, (turn, (message, answer)) in enumerate(zip(thread.turns, exchanges, strict=False)):
        if turn.answer is None or not says_the_same(turn.user_message, message):
            return None
        if not says_the_same(turn.answer, answer):
            is_edit = bool(turn.provider) and _are_similar(turn.answer, answer)
            return EditedAnswer(thread=thread, follows=follows, exchanges=place, turn=turn) if is_edit else None
        follows = turn.turn_seq
    return None


def _are_similar(one: Message, other: Message) -> bool:
    first, second = (plain_text(message)[:COMPARED].split() for message in (one, other))
    return bool(first and second) and SequenceMatcher(None, first, second, autojunk=False).ratio() >= SIMILAR


async def continued_from(
    store: Store, messages: Sequence[Message], threads: Sequence[RecentThread]
) -> tuple[RecentThread, Turn] | None:
    """Find the thread whose summary, which its client asked for here, begins a conversation; also return that turn."""
    texts = [message.rendered_text for message in messages if message.role == "user"]
    for thread in threads:
        if (turn_id := thread.session.metadata.get(COMPACTION)) is None:
            continue
        turn = await store.turns.get(str(turn_id))
        if turn is not None and any(_begins_with_summary(text, turn.text) for text in texts):
            return thread, turn
    return None


def _begins_with_summary(text: str, summary: str) -> bool:
    """Tell whether a text holds nearly all lines of a summary; clients take out its tags and what it reasoned."""
    lines = [line.strip() for line in _TAG.sub("\n", _HIDDEN.sub("", summary)).splitlines()]
    whole = sum(map(len, lines))
    return whole >= MIN_SUMMARY_CHARACTERS and sum(len(line) for line in lines if line in text) >= 0.9 * whole
