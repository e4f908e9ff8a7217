"""What the protocols share: a request as it came, its parts, ids, and the refusal of a request."""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from contextinfinity.domain.message import Json
from contextinfinity_testing.vendors.answers import Answer, Delivery, Tokens, Trouble

Vendor: TypeAlias = Literal["openai", "anthropic", "gemini", "perplexity", "compatible"]

SECRET = b"the fake signs with this, and knows its own hand by it"
IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
"""The pictures that vendors take."""
BORN = 1_760_000_000
"""The fake's clock: the second at which it says that everything was made."""


class Request(Struct, frozen=True, kw_only=True):
    """A request as it came. ``body`` is its JSON, None where there was none."""

    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes
    body: Json = None


class Part(Struct, frozen=True, kw_only=True):
    """A part of a prompt: who says it, the words, the exact form for the cache, and a marker if one ends here."""

    role: str
    said: str
    form: bytes
    marker: str | None = None


class Frame(Struct, frozen=True, kw_only=True):
    """Bytes of a stream; ``piece`` where they carry a delta."""

    data: bytes
    piece: bool = False


class Told(Protocol):
    """Something that is sent, and may carry a delta."""

    @property
    def piece(self) -> bool:
        """Whether it carries a delta."""
        ...


T = TypeVar("T", bound=Told)


class Refused(Exception):
    """A request that breaks a rule of the vendor: the status and the JSON to answer with."""

    def __init__(self, status: int, body: Json) -> None:
        super().__init__(f"{status}: {body}")
        self.status = status
        self.body = body


class Ids:
    """Unique ids in a vendor's format, the same in every run."""

    def __init__(self) -> None:
        self._count = itertools.count(1)

    def new(self, prefix: str) -> str:
        """Make the next id."""
        return f"{prefix}{next(self._count):024x}"


class Asked(Struct, frozen=True, kw_only=True):
    """A request that passed: its JSON, what its parts cost, and where ids come from."""

    body: Json
    tokens: Tokens
    ids: Ids


class Wire(Protocol):
    """One protocol of one vendor."""

    vendor: Vendor
    late: bool
    """Whether a stream has begun before the vendor sees that a request is too long."""

    def check(self, body: Json) -> None:
        """Raise ``Refused`` where a request breaks a rule."""
        ...

    def parts(self, body: Json) -> list[Part]:
        """Return everything that the model is shown, in order."""
        ...

    def room(self, body: Json) -> int | None:
        """Return how many tokens the answer may have."""
        ...

    def whole(self, asked: Asked, answer: Answer) -> Json:
        """Return the reply in one piece."""
        ...

    def frames(self, asked: Asked, answer: Answer) -> Iterator[Frame]:
        """Return the reply as a stream."""
        ...

    def size(self, trouble: Trouble) -> Refused:
        """Return the error for a request that is too long."""
        ...


def encode(value: Json) -> bytes:
    """Write JSON as the vendors do: UTF-8, nothing escaped that need not be."""
    return msgspec.json.encode(value)


def event(name: str | None, data: Json, *, piece: bool = False) -> Frame:
    """Write one server-sent event."""
    head = b"" if name is None else b"event: " + name.encode() + b"\n"
    return Frame(data=head + b"data: " + encode(data) + b"\n\n", piece=piece)


def part(role: str, said: str, form: Json, marker: str | None = None) -> Part:
    """Make a part; its form leaves the marker out, which is no part of what is cached."""
    bare = {key: value for key, value in form.items() if key != "cache_control"} if isinstance(form, dict) else form
    return Part(role=role, said=said, form=encode([role, bare]), marker=marker)


def sign(text: str, salt: str = "") -> str:
    """Sign a text, so that it can be verified when it comes back."""
    seal = hmac.digest(SECRET, f"{salt}\0{text}".encode(), hashlib.sha256)[:16]
    return base64.b64encode(seal + text.encode()).decode()


def unsealed(signature: str, salt: str = "") -> str | None:
    """Return the signed text; None if the signature is not ours."""
    try:
        text = base64.b64decode(signature, validate=True)[16:].decode()
    except ValueError:
        return None
    return text if hmac.compare_digest(sign(text, salt), signature) else None


def is_base64(data: Json) -> bool:
    """Return whether a text is base64, and of something."""
    try:
        return bool(base64.b64decode(data, validate=True))
    except (ValueError, TypeError):
        return False


def arguments(value: Json) -> str:
    """Write a call's arguments as the model would; a text goes out as it is, broken or not."""
    return value if isinstance(value, str) else encode(value).decode()


def halves(text: str) -> Sequence[str]:
    """Split a text in two, to be sent as two deltas."""
    middle = (len(text) + 1) // 2
    return [half for half in (text[:middle], text[middle:]) if half]


def before_error(told: Iterable[T], how: Delivery) -> Iterator[T]:
    """Return what comes before the error, if there is to be one."""
    pieces = 0
    for one in told:
        if how.error is not None and pieces == how.error_after:
            return
        pieces += one.piece
        yield one


def names(text: str) -> frozenset[str]:
    """Read a set of names."""
    return frozenset(text.split())
