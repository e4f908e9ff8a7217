"""A conversation as a client sends it, and its prefix hashes, by which the stored thread is found."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from itertools import accumulate, chain

import msgspec
from msgspec import Struct

from contextinfinity.domain.ids import TurnId
from contextinfinity.domain.message import Json, Message
from contextinfinity.domain.prefix_hash import after, alone, beginning
from contextinfinity.domain.session import Owner
from contextinfinity.domain.turn import Exchange
from contextinfinity.engine.image_content import Blobs, named_by_hash
from contextinfinity.engine.trimmed_history import rows_of, side_of
from contextinfinity.errors import InvalidInput

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
    *hashes, asked = accumulate(sides, after, initial=begun)
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
