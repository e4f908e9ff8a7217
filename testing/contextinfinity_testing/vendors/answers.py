"""Scripted answers of the fake vendors: content, delivery, and errors.

Plain values without vendor specifics. Each protocol encodes them, so one script serves all vendors.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.message import Json

Stop: TypeAlias = str
"""``length``, ``filter`` or ``pause``, or a vendor's own word, sent as it is."""


class Call(Struct, frozen=True, kw_only=True):
    """A tool call of the model. Without an id it gets one in the vendor's format."""

    name: str
    arguments: Json = {}
    id: str | None = None


class Cite(Struct, frozen=True, kw_only=True):
    """A page that the answer cites."""

    url: str
    title: str = ""


class Tokens(Struct, frozen=True, kw_only=True):
    """The reported token usage; fields that are None are counted."""

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    written: int | None = None
    reasoning: int | None = None


class Trouble(Struct, frozen=True, kw_only=True):
    """A failure of a vendor or network instead of an answer. Create it with the class methods."""

    kind: Literal["code", "overloaded", "quota", "bad_key", "size", "filter", "garbage", "page", "drop"]
    code: int | None = None
    retry_after: float | None = None
    tokens: int | None = None
    limit: int | None = None
    echo_key: bool = False

    @classmethod
    def status(cls, code: int, *, retry_after: float | None = None) -> Trouble:
        """Answer with that HTTP status, as the vendor words it: 429 is a rate limit, 500 an error of the server."""
        return cls(kind="code", code=code, retry_after=retry_after)

    @classmethod
    def overloaded(cls, *, retry_after: float | None = None) -> Trouble:
        """Be too busy: 503 or 529."""
        return cls(kind="overloaded", retry_after=retry_after)

    @classmethod
    def insufficient_quota(cls) -> Trouble:
        """The account has no money left."""
        return cls(kind="quota")

    @classmethod
    def bad_key(cls, *, echo_key: bool = False) -> Trouble:
        """Refuse the key; rudely, with the key in the message, if asked."""
        return cls(kind="bad_key", echo_key=echo_key)

    @classmethod
    def size(cls, *, tokens: int = 250_000, limit: int = 200_000) -> Trouble:
        """Return the error for a request that is too long."""
        return cls(kind="size", tokens=tokens, limit=limit)

    @classmethod
    def filter(cls) -> Trouble:
        """Refuse what was asked, for what it says."""
        return cls(kind="filter")

    @classmethod
    def garbage(cls) -> Trouble:
        """Answer 200 with something that is no JSON and no event stream."""
        return cls(kind="garbage")

    @classmethod
    def page(cls, code: int = 502) -> Trouble:
        """Answer with the HTML page of a proxy."""
        return cls(kind="page", code=code)

    @classmethod
    def drop(cls) -> Trouble:
        """Hang up without a word."""
        return cls(kind="drop")


class Delivery(Struct, frozen=True, kw_only=True):
    """How an answer is delivered.

    A piece is a delta of text, refusal, thinking or arguments. ``gate`` holds everything after ``hold_after`` pieces
    back until it is set (of an answer that does not stream: all). ``cut_after_*`` ends the connection there; ``tidy``
    ends the HTTP reply properly, but without the vendor's last word. ``error`` comes as an event of the stream after
    ``error_after`` pieces. ``slow`` writes each byte on its own, ``split`` parts every character that has more than
    one. ``unknown`` mixes in events and items that no client knows.
    """

    slow: bool = False
    split: bool = False
    unknown: bool = False
    gate: asyncio.Event | None = None
    hold_after: int = 0
    cut_after_bytes: int | None = None
    cut_after_pieces: int | None = None
    tidy: bool = False
    error: Trouble | None = None
    error_after: int = 0


class Answer(Struct, frozen=True, kw_only=True):
    """What the model says.

    ``pieces`` are its deltas when it streams (default: a word at a time). What a vendor does not show, such as
    reasoning over chat completions, is only counted. ``redacted`` reasoning comes without its words (Anthropic).
    ``hosted`` are items or blocks of tools that the vendor runs itself.
    ``stopped_by`` is the text that the request wanted it to stop at.
    """

    text: str = ""
    pieces: tuple[str, ...] | None = None
    tool_calls: tuple[Call, ...] = ()
    reasoning: str | None = None
    redacted: bool = False
    hosted: tuple[Json, ...] = ()
    refusal: str | None = None
    citations: tuple[Cite, ...] = ()
    stop: Stop | None = None
    stopped_by: str | None = None
    usage: Tokens = Tokens()
    delivery: Delivery = Delivery()

    @property
    def said(self) -> str:
        """The whole text."""
        return self.text if self.pieces is None else "".join(self.pieces)


Scripted: TypeAlias = Answer | Trouble | str


def token_logprobs(text: str, most: int) -> list[Json]:
    """Return invented log probabilities of the words of a text, each with ``most`` alternatives."""

    def told(token: str, number: int) -> dict[str, Json]:
        return {"token": token, "logprob": -0.25 * (number + 1), "bytes": list(token.encode())}

    return [{**told(one, 0), "top_logprobs": [told(f"{one}{k or ''}", k) for k in range(most)]} for one in words(text)]


def words(text: str) -> tuple[str, ...]:
    """Part a text into words, nothing lost."""
    return tuple(re.findall(r"\s*\S+|\s+$", text))


def within(answer: Answer, max_tokens: int | None) -> Answer:
    """Stop an answer where its token limit is, as a model does."""
    room = None if max_tokens is None else max_tokens * 4
    if room is None or len(answer.said) <= room:
        return answer
    return replace(_cut(answer, room), stop="length", stopped_by=None)


def before(answer: Answer, stops: Sequence[str]) -> Answer:
    """Stop an answer before the first of these texts."""
    found = [(answer.said.index(text), text) for text in stops if text and text in answer.said]
    if not found:
        return answer
    place, text = min(found)
    return replace(_cut(answer, place), stop=None, stopped_by=text)


def _cut(answer: Answer, room: int) -> Answer:
    cut: list[str] = []
    for piece in answer.pieces if answer.pieces is not None else words(answer.text):
        cut.append(piece[:room])
        room -= len(cut[-1])
    return replace(answer, text="", pieces=tuple(piece for piece in cut if piece), tool_calls=(), refusal=None)
