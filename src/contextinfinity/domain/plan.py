"""What the model saw, kept as an account.

A plan says of one request which sections it had, what each cost, what was left out and why, so that the
exact body can be rebuilt from the ledger. A front is the part of the prompt that stands still; it is
stored once under the hash of its content.
"""

from __future__ import annotations

from msgspec import Struct

from contextinfinity.domain.ids import ChunkId
from contextinfinity.domain.message import Json

LAYOUT_VERSION = 1
"""The order and wording of the prompt; old renderers stay, so that old plans can be rebuilt."""


class Budget(Struct, frozen=True, kw_only=True):
    """How the model's window is shared out, in tokens."""

    model_limit: int
    base_tokens: int
    retrieval_budget: int
    response_reserve: int
    safety_margin: int


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


class Retrieved(Struct, frozen=True, kw_only=True):
    """A chunk placed in the prompt."""

    chunk_id: ChunkId
    similarity: float
    rank: int


class Front(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of the prompt that lasts for an epoch."""

    system: str
    pinned_facts: tuple[str, ...] = ()
    memories: str = ""
    summary: str = ""
    tools: Json = None
    response_format: Json = None


class Plan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The account of one request, or of a question asked back instead of one (``candidates``)."""

    layout: int = LAYOUT_VERSION
    front: str | None = None
    epoch_reason: str | None = None
    budget: Budget | None = None
    sections: tuple[PlanSection, ...] = ()
    retrieved: tuple[Retrieved, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    shrink_steps: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    token_scale: float | None = None
    """What the counts were multiplied with, as far as was learned by then."""
    request_sha256: str | None = None

    @property
    def tokens(self) -> int:
        """What was counted in all."""
        return sum(section.tokens for section in self.sections)
