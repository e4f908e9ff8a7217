"""Prompt plans: a stored account of what the model was shown.

A plan records the sections of one request, the tokens of each, and what was left out and why, so that the exact body
can be rebuilt from the ledger. The front is the stable part of the prompt; it is stored once, under its content hash.

A routing decision names the model that answers a request, and why.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from contextinfinity.domain.ids import ChunkId, TurnId
from contextinfinity.domain.memory import MemoryReference
from contextinfinity.domain.message import Json
from contextinfinity.domain.search import ChunkSide

Intent: TypeAlias = Literal["code", "factual", "long_document", "small_talk", "other"]
"""The intent of a message. ``factual``: it asks for a fact that may be newer than a model's training data."""

Need: TypeAlias = Literal["tools", "images", "context"]
"""What a request may require of its model. ``context``: more tokens than the default model's window holds."""


class Considered(Struct, frozen=True, kw_only=True, array_like=True):
    """A model that was considered: the reason for it, and the reason against it, if any."""

    model: str
    by: str
    against: str = ""


class Fallback(Struct, frozen=True, kw_only=True, array_like=True):
    """A fallback model and the size of its context window."""

    model: str
    window: int


class Route(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The model that answers a request, and why.

    ``model`` is None if no model can take the request; ``reason`` then says why each one is excluded.
    """

    model: str | None
    reason: str
    home: str
    """The model of the branch; a rule or a failure changes the model for one request only."""
    intent: Intent = "other"
    """The intent of the message; it is detected in chats, and when a rule depends on it."""
    confidence: float = 0.0
    """How often intents detected in this way were right, from 0 to 1; 0 if no intent was detected."""
    window: int = 0
    """The size of the model's context window."""
    fallbacks: tuple[Fallback, ...] = ()
    """The models to try when it fails, in this order."""
    considered: tuple[Considered, ...] = ()


LAYOUT_VERSION = 5
"""The version of the prompt's order and wording. Old renderers are kept so that old plans can be rebuilt."""


class Budget(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The division of the model's context window, in tokens: the settings, limited by the window.

    ``base_tokens`` is the size of a request without retrieved text; the other figures are upper limits.
    """

    model_limit: int
    base_tokens: int
    retrieval_budget: int
    response_reserve: int
    safety_margin: int
    summary: int = 0
    memories: int = 0
    pins: int = 0
    fold_trigger: int = 0
    verbatim_window: int = 0
    resent: bool = False
    """Whether the client resends the whole conversation: folding starts only when that no longer fits."""
    configured_limit: int = 0
    """The window according to the settings, if ``model_limit`` was learned from a rejected request."""

    @property
    def input_limit(self) -> int:
        """The maximum number of input tokens of a request."""
        return self.model_limit - self.response_reserve - self.safety_margin


class PlanSection(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One section of the prompt: its name, token count and source."""

    name: str
    tokens: int
    source: Json = None


class LeftOut(Struct, frozen=True, kw_only=True):
    """Something that was not included, and the reason."""

    what: str
    reason: str
    tokens: int = 0


class Retrieved(Struct, frozen=True, kw_only=True, array_like=True):
    """Retrieved text in the prompt: characters ``start`` to ``end`` of the chunk's side of its turn."""

    chunk_id: ChunkId
    similarity: float
    rank: int
    start: int = 0
    end: int = 0
    summary: str | None = None
    """The summary that was shown instead, if the text itself was too long."""
    uncut: tuple[TurnId, ChunkSide] | None = None
    """The turn and side, if the turn was not chunked yet: its later chunks may have other boundaries."""
    elsewhere: bool = False
    """Whether it comes from another conversation of the same owner, which the prompt names."""
    superseded_by: int = 0
    """The turn with a newer statement about the same subject, which the prompt names."""


class Shrunk(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The parts removed from one request to make it fit, in the order of the steps; stored turns are not changed."""

    artifacts: int | None = None
    """How many retrieved pieces were kept, best first."""
    slice: int | None = None
    """The number of characters to which the best piece was cut."""
    files: tuple[str, ...] = ()
    """The paths of the open files that were left out, in a workspace."""
    trimmed: tuple[int, ...] = ()
    """Long texts reduced to head and tail: turn, message and block of each, in one flat list."""
    ends: tuple[int, int] | None = None
    """The characters kept at head and tail, if not the default."""
    lines_to: int = 0
    """Turns up to this one are shown as one line each."""
    summary: int | None = None
    """The number of characters to which the summary was cut."""
    memories: int | None = None
    """The number of characters to which the standing memories were cut."""
    thinking: bool = True
    """Whether the model's reasoning in this turn was kept."""
    shortened: tuple[int, ...] = ()
    """Levels of shortening, oldest first: turn, message and share (of 1024) of each, in one flat list."""
    texts_to: int = 0
    """Up to this turn all texts are shortened; after it only tool results."""
    floor: int = 0
    """The minimum number of characters kept of a shortened text."""
    lead: int = 0
    """The share kept of the messages before the one to answer, if they were shortened."""
    rounds_to: int = 0
    """How many messages of this turn's own tool loop are shown as lines."""

    @property
    def touches_front(self) -> bool:
        """Whether anything before the artifacts was changed, so that the prompt cache cannot match it."""
        return (
            bool(self.trimmed or self.shortened or self.lines_to)
            or self.summary is not None
            or self.memories is not None
        )


class Front(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The stable part of the prompt, unchanged for an epoch."""

    system: str
    pinned_facts: tuple[str, ...] = ()
    memories: str = ""
    standing: tuple[MemoryReference, ...] = ()
    """The memories in the front. Their text is not stored with it, so that they can be forgotten."""
    summary: str = ""
    tools: Json = None
    response_format: Json = None
    sent: Json = None
    """What a client sent besides messages (see ``Prompt.sent``)."""
    is_bare: bool = False
    """Whether the caller's system text is used alone, without memories, pinned facts or a summary."""


class AskedBack(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A clarification question: the reference it is about, when it was asked, and the message's attachments."""

    reference: str
    at: datetime
    attached: tuple[ChunkId, ...] = ()


class Plan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The account of one request, or of a clarification question (``candidates``)."""

    layout: int = 1
    """The ``LAYOUT_VERSION`` it was made with; plans of version 1 were stored without it."""
    front: str | None = None
    epoch_reason: str | None = None
    budget: Budget | None = None
    sections: tuple[PlanSection, ...] = ()
    gathered: tuple[int, int] | None = None
    """The first and last earlier turn it was made from; ``shrunk`` says which of them were reduced."""
    retrieved: tuple[Retrieved, ...] = ()
    remembered: tuple[MemoryReference, ...] = ()
    """The memories shown with the question; those of the front are listed there."""
    left_out: tuple[LeftOut, ...] = ()
    bridge: tuple[int, int] | None = None
    """The first turn of the task that the first gathered turn belongs to, and the last turn before that one.

    It is set if the summary covers both: they are then shown before the gathered turns as a bridge (``prompt.tasks``).
    """
    shrunk: Shrunk | None = None
    shrink_steps: tuple[str, ...] = ()
    contextualised: str | None = None
    """The rewritten user message, if one was added to the prompt."""
    candidates: tuple[str, ...] = ()
    """The candidates that a clarification question offers."""
    asked_back: AskedBack | None = None
    route: Route | None = None
    """The model that answered, and why it was chosen."""
    redactions: str | None = None
    """The hash of the stored text that lists the redacted spans."""
    form: str | None = None
    """The hash of the stored text with the provider's request options and wire format."""
    workspace: tuple[str, ...] = ()
    """The hashes of the stored workspace parts (``engine.workspace_parts``)."""
    markers: tuple[int, ...] = ()
    """Where cacheable prefixes end. They move with every turn, which ``form`` does not."""
    token_scale: float | None = None
    """The factor applied to token estimates, as learned so far."""
    request_sha256: str | None = None

    @property
    def artifacts_shown(self) -> int:
        """How many retrieved pieces were in the prompt."""
        most = None if self.shrunk is None else self.shrunk.artifacts
        return len(self.retrieved) if most is None else min(most, len(self.retrieved))

    @property
    def tokens(self) -> int:
        """The estimated number of tokens of all sections."""
        return sum(section.tokens for section in self.sections)
