"""What the model saw, kept as an account.

A plan says of one request which sections it had, what each cost, what was left out and why, so that the
exact body can be rebuilt from the ledger. A front is the part of the prompt that stands still; it is
stored once under the hash of its content.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from contextinfinity.domain.chunk import ChunkSide
from contextinfinity.domain.ids import ChunkId, TurnId
from contextinfinity.domain.memory import MemoryReference
from contextinfinity.domain.message import Json
from contextinfinity.domain.route import Route

LAYOUT_VERSION = 4
"""The order and wording of the prompt; old renderers stay, so that old plans can be rebuilt."""


class Budget(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the model's window is shared out, in tokens: what the settings allow, as far as the window does.

    ``base_tokens`` is what a request took without retrieved text; the other figures are ceilings.
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
    """Whether the client sends the whole conversation itself: nothing folds before that no longer fits."""
    configured_limit: int = 0
    """The window according to the settings, where ``model_limit`` was learned from a size rejection."""

    @property
    def input_limit(self) -> int:
        """The most a request may take."""
        return self.model_limit - self.response_reserve - self.safety_margin


class PlanSection(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One section of the prompt: its name, its cost, and what it was made from."""

    name: str
    tokens: int
    source: Json = None


class LeftOut(Struct, frozen=True, kw_only=True):
    """Something that was not shown, and why."""

    what: str
    reason: str
    tokens: int = 0


class Retrieved(Struct, frozen=True, kw_only=True, array_like=True):
    """A piece placed in the prompt: of the side of the turn that the chunk is of, what stands between two places."""

    chunk_id: ChunkId
    similarity: float
    rank: int
    start: int = 0
    end: int = 0
    summary: str | None = None
    """What stood there instead, where the words themselves were too many."""
    uncut: tuple[TurnId, ChunkSide] | None = None
    """The turn and its side, where that was not cut into chunks yet: it may be cut otherwise."""
    elsewhere: bool = False
    """It was said in another conversation of the same owner, which the prompt names."""
    superseded_by: int = 0
    """The turn with a newer statement about the same thing, which the prompt named."""


class Shrunk(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was taken out of one request to make it fit, in the order of the steps; nothing of it is lost."""

    artifacts: int | None = None
    """How many pieces of retrieved text stayed, the best first."""
    slice: int | None = None
    """To how many characters the best of them was cut."""
    trimmed: tuple[int, ...] = ()
    """Long texts of which head and tail stayed: turn, message and block of each, one after the other."""
    ends: tuple[int, int] | None = None
    """How many characters of each stayed at its head and its tail, where that is not the usual."""
    lines_to: int = 0
    """Turns up to this one stand as a line each."""
    summary: int | None = None
    """To how many characters the summary was cut."""
    memories: int | None = None
    """The same for the standing memories."""
    thinking: bool = True
    """Whether the model's own thinking in this turn stayed."""
    shortened: tuple[int, ...] = ()
    """How far texts are shortened to which share: turn, message and share (of 1024) of each level, oldest first."""
    texts_to: int = 0
    """Up to this turn all texts are shortened, behind it tool results only."""
    floor: int = 0
    """Characters that stay of a shortened text at least."""
    lead: int = 0
    """The share of the messages in front of the one to answer that stayed, where they had to be shortened."""
    rounds_to: int = 0
    """How many messages of this turn's own tool rounds stand as lines."""

    @property
    def touches_front(self) -> bool:
        """Whether something before the artifacts was changed, so that no cache can know it."""
        return (
            bool(self.trimmed or self.shortened or self.lines_to)
            or self.summary is not None
            or self.memories is not None
        )


class Front(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of the prompt that lasts for an epoch."""

    system: str
    pinned_facts: tuple[str, ...] = ()
    memories: str = ""
    standing: tuple[MemoryReference, ...] = ()
    """The memories that are written there. A front that names them is kept without their text: it can be forgotten."""
    summary: str = ""
    tools: Json = None
    response_format: Json = None
    sent: Json = None
    """What a client sent besides messages (``Prompt.sent``)."""
    is_bare: bool = False
    """The system text stands alone: nothing is shown beside what the caller sent."""


class AskedBack(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A question asked back: the words it is about, when it was asked, and what came with the message."""

    reference: str
    at: datetime
    attached: tuple[ChunkId, ...] = ()


class Plan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The account of one request, or of a question asked back instead of one (``candidates``)."""

    layout: int = 1
    """The ``LAYOUT_VERSION`` it was made with; plans of the first version were stored without it."""
    front: str | None = None
    epoch_reason: str | None = None
    budget: Budget | None = None
    sections: tuple[PlanSection, ...] = ()
    gathered: tuple[int, int] | None = None
    """The earlier turns it was made from: the first and the last; ``shrunk`` says which of them gave way."""
    retrieved: tuple[Retrieved, ...] = ()
    remembered: tuple[MemoryReference, ...] = ()
    """The memories that rode with the question; those of the front stand in that."""
    left_out: tuple[LeftOut, ...] = ()
    bridge: tuple[int, int] | None = None
    """The turn that opens the task of the first gathered turn and the last turn before that one, where the summary
    covers both: they stand in front of the others as a bridge (``prompt.tasks``)."""
    shrunk: Shrunk | None = None
    shrink_steps: tuple[str, ...] = ()
    contextualised: str | None = None
    """The user's words made explicit, where that was added to them."""
    candidates: tuple[str, ...] = ()
    """What a question asked back offers."""
    asked_back: AskedBack | None = None
    route: Route | None = None
    """Who answered, and why."""
    redactions: str | None = None
    """The hash of the spans that were blacked out, kept as a text."""
    form: str | None = None
    """The hash of what the provider was told beside the prompt and how it writes; kept as a text."""
    workspace: tuple[str, ...] = ()
    """The hashes of the parts of a workspace (``engine.workspace_parts``), kept as texts."""
    markers: tuple[int, ...] = ()
    """Where the prefixes worth caching end. They move with every turn, which ``form`` does not."""
    token_scale: float | None = None
    """What the counts were multiplied with, as far as was learned by then."""
    request_sha256: str | None = None

    @property
    def artifacts_shown(self) -> int:
        """How many retrieved pieces stood in the prompt."""
        most = None if self.shrunk is None else self.shrunk.artifacts
        return len(self.retrieved) if most is None else min(most, len(self.retrieved))

    @property
    def tokens(self) -> int:
        """What was counted in all."""
        return sum(section.tokens for section in self.sections)
