"""A conversation as a client sends it, and how the stored thread it continues is found.

Usually its prefix hashes find the thread. For clients that drop old messages, the sent messages are compared with the
end of a stored branch. Consecutive messages of one side are compared as one (a *side*), after the normalisation of
``domain.prefix_hash``. The sent messages match if they equal the last sides of the branch, one by one. Only the first
sent message may be unknown, only if messages of the branch were dropped, and only before a whole exchange: it is the
client's summary. Everything else is a contradiction.

A client may resend an answer in another form. One that stops an answer sends back the part that it had received,
sometimes with a mark of its own behind it.

Some agents do not send tool calls back as such. They write them into the text of the answer, each in its own syntax
(Python values, JSON, XML tags), and the results into a message of the user. Such a text is recognised by its words,
whatever the syntax: it contains the text of the answer, and for each call the tool's name and every argument.

If no prefix hash matches, the conversation is compared with its owner's most recent threads. Some clients change what
they resend in ways that normalising single messages does not cover:

    cleared tool results        an agent replaces what tools returned long ago by a short note; the rest is identical
    inserted exchanges          an agent adds and moves messages of its own (examples, files, acknowledgements) and
                                strips what it appended to one; every answer given here is still present, in order
    an edited answer            everything is identical up to an answer, which was changed in part
    the client's own summary    an agent had the conversation summarised here and starts again with that summary

Only the newest threads are compared: a client continues its latest conversation. As with trimmed histories, common
phrases are no evidence: the user's side of what matches must have ``MIN_USER_CHARACTERS``, and inserted exchanges are
accepted only around ``MIN_EXCHANGES`` or more that match.

A side request is about a conversation, but not part of it. Chat clients and agents ask for titles, tags, suggestions,
summaries and memories of a conversation, often with the same model and the same messages. Such a request is answered
and stored like any other, but it is not part of the conversation:

    it repeats a stored conversation     it gets a branch of that thread, which never becomes the active one
    it has no history                    it gets a thread of its own, which lists omit

A side request is recognised by its instruction (its system text, or a long last message) and by its shape. A wrong
guess corrects itself: as soon as a person continues from the answer, the branch becomes active and the thread is
listed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from hashlib import blake2b
from itertools import chain

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.ids import TurnId
from contextinfinity.domain.message import Json, Message, Role, ToolResultBlock, ToolUseBlock, joined
from contextinfinity.domain.prefix_hash import after, after_each, alone, beginning, plain_text, says_the_same
from contextinfinity.domain.session import Owner, Session
from contextinfinity.domain.turn import COMPACTION, SIDE, Exchange, Phase, Turn
from contextinfinity.engine.image_content import Blobs, named_by_hash
from contextinfinity.errors import InvalidInput
from contextinfinity.storage.contract import Store

MIN_EXCHANGES = 2
MIN_USER_CHARACTERS = 200
"""The minimum number of matching user characters: common phrases are shorter."""


class TailMatch(Struct, frozen=True, kw_only=True):
    """The sent messages that equal the end of a branch."""

    summary: Message | None
    """The first message, if it is not stored."""
    is_whole: bool
    """Whether they equal the whole branch."""
    exchanges: int
    user_characters: int

    @property
    def is_certain(self) -> bool:
        """Whether enough matches that no other conversation is likely to end the same way."""
        return self.exchanges >= MIN_EXCHANGES and self.user_characters >= MIN_USER_CHARACTERS


def rows_of(messages: Sequence[Message]) -> list[list[Message]]:
    """Group consecutive messages of one side.

    System messages, and messages without content, belong to the row that they precede, or to the last one.
    """
    rows: list[list[Message]] = []
    waiting: list[Message] = []
    is_answer = False  # of the last row
    for message in messages:
        role = message.role
        if role == "system" or not message.blocks:
            waiting.append(message)
        else:
            if not rows or is_answer is not (role == "assistant"):
                rows.append([])
                is_answer = role == "assistant"
            rows[-1] += [*waiting, message] if waiting else (message,)
            waiting = []
    if waiting and rows:
        rows[-1] += waiting
    return rows


def _is_answer(row: Sequence[Message]) -> bool:
    return any(message.role == "assistant" and message.blocks for message in row)


def side_of(row: Sequence[Message]) -> Message:
    """Join the messages of a row into one, without system messages and wire data."""
    only = row[0] if len(row) == 1 else None
    if only is not None and only.blocks and (only.role == "user" or only.role == "assistant"):  # the usual row
        return only if only.wire is None else replace(only, wire=None)
    role: Role = "assistant" if _is_answer(row) else "user"
    messages = (message for message in row if message.role != "system")
    if role == "assistant":
        return Message(role=role, blocks=tuple(block for message in messages for block in message.blocks))
    return Message(role=role, blocks=joined(messages))


def match_tail(sent: Sequence[Message], stored: Sequence[Message]) -> TailMatch | None:
    """Compare the sent messages with a branch; return None if they contradict it.

    ``stored`` is the whole branch, or an end of it that is longer than ``sent``.
    """
    rows, sides = rows_of(sent), [side_of(row) for row in rows_of(stored)]
    first, later = rows[0], rows[1:]
    if len(sides) < len(later):
        return None
    known = sides[len(sides) - len(later) :]
    if not all(says_the_same(side_of(row), side) for row, side in zip(later, known, strict=True)):
        return None
    summary = None
    before = sides[-len(rows)] if len(sides) >= len(rows) else None
    if before is not None and says_the_same(side_of(first), before):
        known = [before, *known]
    elif before is None or len(sides) == len(rows):  # nothing was dropped
        return None
    elif len(first) > 1 and says_the_same(side_of(first[1:]), before):
        known, summary = [before, *known], first[0]
    elif len(first) == 1 and first[0].role == "assistant":
        summary = first[0]
    else:  # it replaces an answered question: an edit, not a summary
        return None
    user_sides = [side for side in known if side.role != "assistant"]
    return TailMatch(
        summary=summary,
        is_whole=summary is None and len(known) == len(sides),
        exchanges=len(user_sides),
        user_characters=sum(len(plain_text(side)) for side in user_sides),
    )


_lines = msgspec.json.Encoder()

MANY = 5_000
"""Conversations with more messages are hashed in a thread, to keep the event loop free."""


class SentConversation(Struct, frozen=True, kw_only=True):
    """A conversation as sent by a client: the history, and the message to answer at the end."""

    messages: tuple[Message, ...]
    form: str = ""
    """The wire format of the client (``domain.sent_form``); empty: messages are compared as blocks."""
    beside: TurnId | None = None
    """The turn that already answers the same message: the new turn gets a branch beside it."""
    end_user: str = ""
    """The end user, if the owner acts for several: their conversations are kept apart."""
    thread_id: str | None = None
    """The thread it belongs to, if the client names one."""
    is_new: bool = False
    """Whether the client asks for a new thread, without matching."""
    body: int = 0
    """A hash of the whole request and its caller (``prefix_hash.number_of``)."""
    key: int | None = None
    """A hash of the request's Idempotency-Key and its caller."""
    follows: TurnId | None = None
    """The turn that the messages follow."""
    appends: bool = False
    """Whether all messages are new: they follow ``follows``, or the end of ``thread_id``."""
    keeps: dict[str, Json] = {}
    """Metadata to store with the turn."""
    background: bool = False
    """Whether the answer goes on when its client disconnects."""
    is_retry: bool = False
    """Whether the client marks it as a retry of an unanswered request."""


class HashedConversation(Struct, frozen=True, kw_only=True):
    """A conversation with its hashes: the exchanges so far, and the message to answer."""

    is_new: bool
    owner: Owner
    end_user: str
    rows: list[list[Message]]
    """Everything before the message to answer, as sent: consecutive messages of one side are a row."""
    greeting: Message | None
    """A message of the assistant before the first user message."""
    exchanges: tuple[tuple[Message, Message], ...]
    """The questions with their answers."""
    prefix_hashes: tuple[tuple[int, int], ...]
    """The prefix hashes up to each question, and up to each answer."""
    last: tuple[int, ...]
    """Hashes of the last exchange alone: with all consecutive questions, and with the last of them."""
    message: Message
    sent: tuple[Message, ...]
    """The message to answer as sent, with the system messages around it and a prefilled answer."""
    form: str
    """The wire format of the client."""
    before: int
    """The prefix hash of everything before the message."""
    asked: int
    """The prefix hash including the message."""
    alone: int
    """The hash of the message alone."""
    exact: bytes
    """The hash of all messages without normalisation."""
    exact_before: bytes
    """The same without the last answer and the message: what the request before sent."""
    blobs: Blobs
    """The images of the conversation, by hash."""

    @property
    def history(self) -> tuple[Message, ...]:
        """Everything before the message to answer, as sent."""
        return tuple(chain.from_iterable(self.rows))

    @property
    def recorded(self) -> tuple[Exchange, ...]:
        """Everything before the message, as it is recorded in a new thread or branch."""
        greeted = () if self.greeting is None else (Exchange(message=self.greeting),)
        recorded_exchanges = (
            Exchange(message=message, answer=answer, asked=asked, alone=alone(message, self.owner, self.end_user))
            for (message, answer), (asked, _) in zip(self.exchanges, self.prefix_hashes, strict=True)
        )
        return (*greeted, *recorded_exchanges)


def hash_conversation(sent: SentConversation, owner: Owner) -> HashedConversation:
    """Hash a conversation message by message; consecutive messages of one side are joined.

    Raise ``InvalidInput`` if there is no user message.
    """
    messages, blobs = named_by_hash(sent.messages)
    rows = rows_of(messages)
    begun_answer: list[Message] = []
    if len(rows) > 1 and side_of(rows[-1]).role == "assistant":
        begun_answer = rows.pop()
    if not rows or side_of(rows[-1]).role == "assistant":
        raise InvalidInput("There is no user message.", hint="Send a user message or tool results.")
    sides = [side_of(row) for row in rows]
    last = _last_exchange(rows, owner, sent.end_user)
    greeting = sides.pop(0) if sides[0].role == "assistant" else None
    begun = beginning(owner, sent.end_user)
    begun = begun if greeting is None else after(begun, greeting)
    *hashes, asked = after_each(begun, sides)
    exact_before, exact = _exact_hashes(rows[:-2], (*chain.from_iterable(rows[-2:]), *begun_answer))
    return HashedConversation(
        is_new=sent.is_new,
        owner=owner,
        end_user=sent.end_user,
        rows=rows[:-1],
        greeting=greeting,
        exchanges=tuple(zip(sides[:-1:2], sides[1::2], strict=True)),
        prefix_hashes=tuple(zip(hashes[1::2], hashes[2::2], strict=True)),
        last=last,
        message=sides[-1],
        sent=(*rows[-1], *begun_answer),
        form=sent.form,
        before=hashes[-1],
        asked=asked,
        alone=alone(sides[-1], owner, sent.end_user),
        exact=exact,
        exact_before=exact_before,
        blobs=blobs,
    )


def _exact_hashes(earlier: Iterable[list[Message]], later: Iterable[Message]) -> tuple[bytes, bytes]:
    """Hash the messages of some rows, and those with the later ones, in one pass."""
    said = blake2b(_lines.encode_lines([*chain.from_iterable(earlier)]), digest_size=16)
    before = said.digest()
    said.update(_lines.encode_lines(later))
    return before, said.digest()


def _last_exchange(rows: list[list[Message]], owner: Owner, end_user: str) -> tuple[int, ...]:
    """Hash the last exchange: with all consecutive questions, and with the last one only (a summary may precede it)."""
    if len(rows) < 3:
        return ()
    questions = (side_of(rows[-3]), side_of(rows[-3][-1:]))
    return tuple(dict.fromkeys(after(alone(asked, owner, end_user), side_of(rows[-2])) for asked in questions))


_UNICODE_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_ESCAPE = re.compile(r"\\+[nrtbf]?")
"""A backslash with the letter that it escapes. It is removed on both sides, so that raw and escaped text are equal."""
_WORD = re.compile(r"\w+")


def is_resent_as(stored: Message, sent: Message) -> bool:
    """Return whether a sent message is a stored one: equal after normalisation, or with its calls as text."""
    return says_the_same(stored, sent) or renders_calls(stored, sent)


def is_stopped_part(stored: Message, sent: Message) -> bool:
    """Return whether ``sent`` is the beginning of a stopped answer, or all of it with something behind it."""
    shown, said = plain_text(stored), plain_text(sent)
    return bool(shown and said) and (shown.startswith(said) or said.startswith(shown))


def renders_calls(stored: Message, sent: Message) -> bool:
    """Return whether ``sent`` is a text that contains the text and all tool calls of the answer ``stored``."""
    calls = [block for block in stored.blocks if isinstance(block, ToolUseBlock)]
    if not calls or sent.role != "assistant" or any(isinstance(block, ToolUseBlock) for block in sent.blocks):
        return False
    text = _normalised(plain_text(sent))
    expected = [plain_text(stored), *(part for call in calls for part in (call.name, *_values(call.input)))]
    return all(_normalised(part) in text for part in expected)


def _values(value: Json) -> Iterator[str]:
    """Yield the strings, numbers and booleans of a JSON value; null has no common notation."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _values(one)
    elif value is not None:
        yield value if isinstance(value, str) else json.dumps(value)


def _normalised(text: str) -> str:
    """Return the words of a text, each between single spaces, without escape sequences and in lower case."""
    text = _ESCAPE.sub(" ", _UNICODE_ESCAPE.sub(lambda match: chr(int(match[1], 16)), text))
    return " ".join(("", *_WORD.findall(text), "")).casefold()


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


PURPOSE_SUMMARY = "summary"
SUMMARY_WITHIN = 4
"""The number of messages at the beginning of a conversation that may contain a summary."""
INSTRUCTION_CHARACTERS = 400
"""Only a last message of at least this length is read as an instruction: people write shorter ones."""
SYSTEM_LOOKED_AT, MESSAGE_LOOKED_AT = 600, 2_000
"""The number of characters of an instruction that are read: its purpose comes first."""

_MAKE = (
    r"(?:generat|creat|writ|produc|provid|suggest|captur|summari[sz]|extract|analy[sz]|determin|identif|output|"
    r"name|find|condens)\w*"
)
_ABOUT = r"(?:conversation|chat|dialogue|discussion|session|thread|transcript|message history|messages)s?"
_NEAR = r"[^.\n]{0,120}"
_BRIEF = r"(?:titles?|topics?|tags?|kebab-case name|branch name|follow-?ups?)"
_LONG = r"(?:summary|summari[sz]es?|recap|memor(?:y|ies)|state[_ ]snapshot|commit messages?)"

_SHORT_ANSWERS = (
    re.compile(rf"\b{_MAKE}\b{_NEAR}\b{_BRIEF}\b{_NEAR}\b{_ABOUT}\b"),
    re.compile(r"\b(?:title|tag|topic) (?:generator|classifier|detector)\b"),
    re.compile(rf"\b{_ABOUT}\b{_NEAR}\bsearch quer|\bnew conversation topic\b"),
)
_LONG_ANSWERS = (
    re.compile(rf"\b{_LONG}\b{_NEAR}\b{_ABOUT}\b"),
    re.compile(rf"\b{_MAKE}\b{_NEAR}\b(?:commit messages?|state[_ ]snapshot)\b"),
    re.compile(r"\bsuggest\w*\b[^.\n]{0,40}\bthe user might\b"),
    re.compile(rf"\b{_ABOUT}\b{_NEAR}\bupdat\w*\b[^.\n]{{0,40}}\bmemor"),
    re.compile(r"\b(?:memory|fact)s? extract\w*|\bextract\w* (?:\w+ ){0,4}(?:memor(?:y|ies)|facts)\b"),
)


class SideRequest(Struct, frozen=True, kw_only=True):
    """The purpose of a request that is not part of a conversation."""

    purpose: str
    """``title`` for all short answers about a conversation, ``summary`` for longer ones."""

    @property
    def needs_quote(self) -> bool:
        """Whether it must quote a conversation to be a side request: people also have other texts summarised."""
        return self.purpose == PURPOSE_SUMMARY


def side_request_of(system: str, messages: Sequence[Message], *, has_tools: bool) -> SideRequest | None:
    """Recognise a side request by its instruction; the caller must find the conversation it belongs to.

    With tools only a long last message can be the instruction: an agent's system text covers many subjects.
    """
    spoken = [message for message in messages if message.role != "system" and message.blocks]
    if not spoken or spoken[-1].role == "assistant":
        return None
    if not has_tools and (purpose := _purpose(system[:SYSTEM_LOOKED_AT])):
        return SideRequest(purpose=purpose)
    last = spoken[-1].rendered_text
    if len(last) >= INSTRUCTION_CHARACTERS and (purpose := _purpose(last[:MESSAGE_LOOKED_AT])):
        return SideRequest(purpose=purpose)
    return None


def _purpose(instruction: str) -> str:
    text = instruction.lower()
    if any(pattern.search(text) for pattern in _SHORT_ANSWERS):
        return "title"
    return PURPOSE_SUMMARY if any(pattern.search(text) for pattern in _LONG_ANSWERS) else ""


def purpose_of(turn: Turn | None) -> str | None:
    """Return the purpose of a turn's side request; empty if it only looked like one; None if it did not."""
    if turn is None or not isinstance(turn.metadata, dict) or SIDE not in turn.metadata:
        return None
    return str(turn.metadata[SIDE])
