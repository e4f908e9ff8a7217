"""Compare a resent conversation with its owner's most recent threads, if its prefix hash matches none.

Some clients change what they resend in ways that normalising single messages does not cover:

    cleared tool results        an agent replaces what tools returned long ago by a short note; the rest is identical
    inserted exchanges          an agent adds and moves messages of its own (examples, files, acknowledgements) and
                                strips what it appended to one; every answer given here is still present, in order
    an edited answer            everything is identical up to an answer, which was changed in part
    the client's own summary    an agent had the conversation summarised here and starts again with that summary

Only the newest threads are compared: a client continues its latest conversation. As with trimmed histories, common
phrases are no evidence: the user's side of what matches must have ``MIN_USER_CHARACTERS``, and inserted exchanges are
accepted only around ``MIN_EXCHANGES`` or more that match.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

from msgspec import Struct

from contextinfinity.domain.message import Message, ToolResultBlock, ToolUseBlock
from contextinfinity.domain.prefix_hash import plain_text, says_the_same
from contextinfinity.domain.session import Owner, Session
from contextinfinity.domain.turn import COMPACTION, SIDE, Phase, Turn
from contextinfinity.engine.trimmed_history import MIN_EXCHANGES, MIN_USER_CHARACTERS
from contextinfinity.storage.contract import Store

NEWEST = 8
"""The number of threads that are compared."""
PAGE = 100
MIN_ANSWER_CHARACTERS = 80
"""The minimum total length of the answers and tool calls by which a conversation is recognised."""
MIN_SUMMARY_CHARACTERS = 100
MIN_QUOTED = 12
COMPARED = 4_000
"""The number of characters of two answers that are compared."""
SIMILAR = 0.5
"""The minimum similarity of an edited answer."""

_HIDDEN = re.compile(r"<(analysis|scratchpad|thinking)>.*?</\1>", re.DOTALL)
_TAG = re.compile(r"</?[a-z_]+>")


class RecentThread(Struct, frozen=True, kw_only=True):
    """A recent thread of an owner, with the newest turns of its active branch that did not fail."""

    session: Session
    turns: tuple[Turn, ...]


class EditedAnswer(Struct, frozen=True, kw_only=True):
    """The point where a resent conversation differs from a stored one: an edited answer after turn ``follows``."""

    thread: RecentThread
    follows: int
    exchanges: int
    """The number of sent exchanges that are stored."""
    turn: Turn
    """The stored turn whose answer was edited."""


async def read_recent(store: Store, owner: Owner) -> tuple[RecentThread, ...]:
    """Read an owner's most recent threads, without those of side requests."""
    found = []
    for session in await store.sessions.list(owner, limit=NEWEST):
        if session.kind == "thread" and not session.metadata.get(SIDE):
            turns = await store.turns.history(session.active_branch, limit=PAGE)
            counted = tuple(turn for turn in turns if turn.phase is not Phase.FAILED)
            found.append(RecentThread(session=session, turns=counted))
    return tuple(found)


def is_quoted(text: str, thread: RecentThread) -> bool:
    """Return whether a text contains a message of a thread, or the beginning of an answer."""
    for turn in reversed(thread.turns):
        asked = plain_text(turn.user_message).partition("\n\n")[0].strip()
        answer_text = turn.text[:COMPARED].strip()
        if any(len(said) >= MIN_QUOTED and said in text for said in (asked, answer_text)):
            return True
    return False


def holding_all_answers(
    exchanges: Sequence[tuple[Message, Message]], threads: Sequence[RecentThread]
) -> RecentThread | None:
    """Find the only thread all of whose answers were resent, in order, each after its question."""
    found = [thread for thread in threads if _holds_all(exchanges, thread.turns)]
    return found[0] if len(found) == 1 else None


def _holds_all(exchanges: Sequence[tuple[Message, Message]], turns: Sequence[Turn]) -> bool:
    answered = [turn for turn in turns if turn.provider and turn.answer is not None]
    if not answered or answered[-1] is not turns[-1]:
        return False
    if sum(len(turn.text) + _call_characters(turn) for turn in answered) < MIN_ANSWER_CHARACTERS:
        return False
    left = iter(exchanges)
    if not all(any(_is_same(turn, *one) for one in left) for turn in answered):
        return False
    resent = [turn for turn in turns if turn.provider or any(_is_same(turn, *one) for one in exchanges)]
    whole = {text for message, _ in exchanges for text in _results(message)}
    returned = sum(len(text) for turn in resent for text in _results(turn.user_message) if text in whole)
    return len(resent) >= MIN_EXCHANGES and _user_characters(resent) + returned >= MIN_USER_CHARACTERS


def _results(message: Message) -> list[str]:
    """Return the texts of the tool results in a message."""
    results = (block for block in message.blocks if isinstance(block, ToolResultBlock))
    return [plain_text(Message(role="tool", blocks=result.content)) for result in results]


def _user_characters(turns: Iterable[Turn]) -> int:
    return sum(len(plain_text(turn.user_message)) for turn in turns)


def _call_characters(turn: Turn) -> int:
    """Return the length of the tool calls in an answer: they identify it as well as its text."""
    calls = () if turn.answer is None else (one for one in turn.answer.blocks if isinstance(one, ToolUseBlock))
    return sum(len(call.name) + len(str(call.input)) for call in calls)


def _is_same(turn: Turn, message: Message, answer: Message) -> bool:
    """Return whether an exchange equals a turn, except for paragraphs stripped from the end of the message, and for
    what tools returned.
    """
    if turn.answer is None or not says_the_same(turn.answer, answer):
        return False
    if says_the_same(turn.user_message, message):
        return True
    sent, stored = plain_text(message), plain_text(turn.user_message)
    if results := _results(message):
        return sent == stored and len(results) == len(_results(turn.user_message))
    return bool(sent) and stored.startswith(f"{sent}\n\n")


def with_edited_answer(
    exchanges: Sequence[tuple[Message, Message]], threads: Sequence[RecentThread]
) -> EditedAnswer | None:
    """Find the only thread that a conversation repeats from its beginning up to an edited answer."""
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
            is_certain = _user_characters(thread.turns[: place + 1]) >= MIN_USER_CHARACTERS
            is_edit = is_certain and bool(turn.provider) and _are_similar(turn.answer, answer)
            return EditedAnswer(thread=thread, follows=follows, exchanges=place, turn=turn) if is_edit else None
        follows = turn.turn_seq
    return None


def _are_similar(one: Message, other: Message) -> bool:
    first, second = (plain_text(message)[:COMPARED].split() for message in (one, other))
    return bool(first and second) and SequenceMatcher(None, first, second, autojunk=False).ratio() >= SIMILAR


async def continued_from(
    store: Store, messages: Sequence[Message], threads: Sequence[RecentThread]
) -> tuple[RecentThread, Turn] | None:
    """Find the thread whose summary, made here for the client, starts the conversation; also return the summary's
    turn.
    """
    texts = [message.rendered_text for message in messages if message.role == "user"]
    for thread in threads:
        if (turn_id := thread.session.metadata.get(COMPACTION)) is None:
            continue
        turn = await store.turns.get(str(turn_id))
        if turn is not None and any(_begins_with_summary(text, turn.text) for text in texts):
            return thread, turn
    return None


def _begins_with_summary(text: str, summary: str) -> bool:
    """Return whether a text contains nearly all lines of a summary; clients remove its tags and reasoning."""
    lines = [line.strip() for line in _TAG.sub("\n", _HIDDEN.sub("", summary)).splitlines()]
    whole = sum(map(len, lines))
    return whole >= MIN_SUMMARY_CHARACTERS and sum(len(line) for line in lines if line in text) >= 0.9 * whole
