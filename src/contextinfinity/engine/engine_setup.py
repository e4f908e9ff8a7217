"""How an engine is set up beside its ledger and its models: the stages of a turn, the folds, the clean-up.

Every stage has an offline form that asks no model; ``wiring`` puts another in its place where the settings say so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeAlias

from contextinfinity.domain.turn import Turn
from contextinfinity.embedders.choice import Embedders
from contextinfinity.engine.configured_models import Model
from contextinfinity.engine.fold_spending import Spending
from contextinfinity.engine.lazy_modules import FOR_FOLDS, FOR_MEMORIES, loaded
from contextinfinity.engine.turn_cache import MOST_BYTES
from contextinfinity.librarian.contract import Librarian
from contextinfinity.prompt.budget import Ceilings
from contextinfinity.prompt.prompt_sections import Artifact
from contextinfinity.prompt.redact import Redactor
from contextinfinity.settings import Router
from contextinfinity.storage.copies import Copies
from contextinfinity.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from contextinfinity.compaction.boundary import TopicBoundary
    from contextinfinity.memory.memory_findings import ExtractedMemories
    from contextinfinity.rewriting.contract import FollowUp, Rewritten

AT_ONCE = 200
"""Characters of a message from which memories are extracted on the event loop: about a millisecond."""


async def _no_text(*_: object) -> str | None:
    return None


@dataclass(frozen=True, kw_only=True)
class AuxiliaryModels:
    """What makes a prompt better and is never needed for it; each may fail."""

    retrieve: Callable[[Turn, str | None], Awaitable[tuple[Artifact, ...]]] | None = None
    """Brings back what was said before and matters now, the best first; None: what the index finds."""
    memories: Callable[[Turn], Awaitable[str | None]] = _no_text
    """Gives what is known of the user, at most 2,000 characters."""


FindBoundary: TypeAlias = Callable[[Sequence[Mapping[str, object]]], Awaitable["TopicBoundary"]]
"""Finds where the newest topic of a conversation begins, from messages with role, content and created_at."""


async def boundary_offline(messages: Sequence[Mapping[str, object]]) -> TopicBoundary:
    """Find it without a model, and without holding up the answers."""
    await loaded(*FOR_FOLDS)
    from contextinfinity.compaction.boundary import find_topic_boundary

    return await asyncio.to_thread(find_topic_boundary, messages)


@dataclass(frozen=True, kw_only=True)
class RetrievalParts:
    """How the past is found and brought back."""

    embedders: Embedders
    top_k: int = 6
    overfetch_k: int = 16
    threshold: float = 0.72
    recency_boost: float = 0.10
    mmr: bool = True
    target: int | None = None
    """Tokens of retrieved text to aim for; None: a share of the model's window."""
    opened: set[str] = field(default_factory=set)
    """Namespaces that this process made sure of."""

    def target_of(self, window: int) -> int:
        """Return the packing target for a model with a window of so many tokens."""
        return min(max(window * 3 // 200, 400), 2_000) if self.target is None else self.target


async def rewrite_offline(follow_up: FollowUp) -> Rewritten:
    """Make a message explicit without a model."""
    from contextinfinity.rewriting import OfflineRewriter  # loaded by then, see ``lazy_modules``

    return await OfflineRewriter().rewrite(follow_up)


@dataclass(frozen=True, kw_only=True)
class Rewriting:
    """How follow-ups are made explicit."""

    rewrite: Callable[[FollowUp], Awaitable[Rewritten]] = rewrite_offline
    seconds: float = 5.0
    """How long that may take; then the user's own words go on."""
    asks_back: bool = True
    """Whether a message that may mean several things is answered by asking which."""


async def draw_offline(message: str, said_at: datetime) -> ExtractedMemories:
    """Draw memories from what a user said, without a model."""
    await loaded(*FOR_MEMORIES)
    from contextinfinity.memory.extraction import draw
    from contextinfinity.retrieval.dates import told_of

    if len(message) <= AT_ONCE:
        return draw(message, said_at, told_of)
    return await asyncio.to_thread(draw, message, said_at, told_of)


@dataclass(frozen=True, kw_only=True)
class Remembering:
    """How facts are kept across conversations."""

    draw: Callable[[str, datetime], Awaitable[ExtractedMemories]] = draw_offline
    asks_model: bool = False
    """Whether ``draw`` waits for a model."""
    expiry: timedelta = timedelta(days=90)
    """How long a memory lives after it was said or shown."""
    most: int = 2000
    """Characters that standing memories may take."""
    other_branches: bool = False
    """Whether what was learned on lines that were left is used."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """How an engine is set up beside its ledger and its models."""

    tools: Toolbox = field(default_factory=Toolbox)
    helpers: AuxiliaryModels = field(default_factory=AuxiliaryModels)
    ceilings: Ceilings = field(default_factory=Ceilings)
    redactor: Redactor | None = None
    remembering: Remembering | None = None
    """None: nothing is remembered across conversations."""
    rewriting: Rewriting | None = None
    """None: messages are taken as they are."""
    router: Router = field(default_factory=Router)
    retrieval: RetrievalParts | None = None
    """None: nothing is brought back by itself, and nothing is placed."""
    folds: bool = True
    """Whether old turns are folded into the summary."""
    fold_pause: timedelta = timedelta(milliseconds=500)
    """How long after an answer that begins."""
    min_exchanges: int = 2
    """The last exchanges that a fold leaves."""
    librarian: Librarian | None = None
    """Writes all summaries; None: ``librarian_of`` chooses."""
    librarian_of: Callable[[Model], Librarian | None] | None = None
    """Returns the librarian for a branch whose newest turn that model answered; None: summaries are made by rule."""
    spending: Spending | None = None
    """Limits what models may use for summaries; None: no limit."""
    find_boundary: FindBoundary = boundary_offline
    keep_journals: timedelta = timedelta(hours=1)
    clean_up_every: timedelta = timedelta(hours=6)
    cached_bytes: int = MOST_BYTES
    """How much of the turns used last is kept in memory (``TurnCache``)."""
    copies: Copies | None = None
    """Files outside the ledger from which deleted text is removed; None: the journals alone."""
