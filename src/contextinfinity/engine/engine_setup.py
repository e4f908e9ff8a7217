"""The configuration of an engine besides its ledger and its models: stages of a turn, folding, clean-up.

The default of every stage works offline, without a model; ``wiring`` replaces it according to the settings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeAlias

from contextinfinity.domain.turn import Turn
from contextinfinity.embedders.choice import Embedders
from contextinfinity.embedders.contract import Embedder
from contextinfinity.engine.deleting import RetentionLimits
from contextinfinity.engine.lazy_modules import FOR_FOLDS, FOR_MEMORIES, loaded
from contextinfinity.engine.model_choice import Model
from contextinfinity.engine.spending import DollarLimits, Spending
from contextinfinity.engine.turn_cache import MOST_BYTES
from contextinfinity.librarian.contract import Librarian
from contextinfinity.prompt.measure import Ceilings
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
"""Messages up to this many characters are processed on the event loop (about one millisecond)."""


async def _no_text(*_: object) -> str | None:
    return None


@dataclass(frozen=True, kw_only=True)
class AuxiliaryModels:
    """Optional stages that improve a prompt; a request is sent even if they fail."""

    retrieve: Callable[[Turn, str | None], Awaitable[tuple[Artifact, ...]]] | None = None
    """Retrieves relevant earlier text, best first; None: the built-in search."""
    memories: Callable[[Turn], Awaitable[str | None]] = _no_text
    """Returns what is known about the user, at most 2,000 characters."""


FindBoundary: TypeAlias = Callable[[Sequence[Mapping[str, object]]], Awaitable["TopicBoundary"]]
"""Finds where the newest topic begins, in messages with role, content and created_at."""


async def boundary_offline(messages: Sequence[Mapping[str, object]]) -> TopicBoundary:
    """Find the boundary without a model, in a thread."""
    await loaded(*FOR_FOLDS)
    from contextinfinity.compaction.boundary import find_topic_boundary

    return await asyncio.to_thread(find_topic_boundary, messages)


@dataclass
class Placing:
    """The embedder whose vectors are searched, as it was looked up last; None if it is not available."""

    embedder: Embedder | None = None
    until: float = 0.0
    """When it is looked up again, in seconds of the monotonic clock."""
    opened: set[str] = field(default_factory=set)
    """The vector namespaces that this process has opened."""


@dataclass(frozen=True, kw_only=True)
class RetrievalParts:
    """The configuration of retrieval."""

    embedders: Embedders
    top_k: int = 6
    overfetch_k: int = 16
    threshold: float = 0.72
    recency_boost: float = 0.10
    mmr: bool = True
    target: int | None = None
    """The target size of retrieved text in tokens; None: a share of the model's window."""
    placing: Placing = field(default_factory=Placing)

    def target_of(self, window: int) -> int:
        """Return the packing target for a model with a context window of ``window`` tokens."""
        return min(max(window * 3 // 200, 400), 2_000) if self.target is None else self.target


async def rewrite_offline(follow_up: FollowUp) -> Rewritten:
    """Rewrite a message without a model."""
    from contextinfinity.rewriting import OfflineRewriter  # imported by then, see ``lazy_modules``

    return await OfflineRewriter().rewrite(follow_up)


@dataclass(frozen=True, kw_only=True)
class Rewriting:
    """The configuration of query rewriting."""

    rewrite: Callable[[FollowUp], Awaitable[Rewritten]] = rewrite_offline
    seconds: float = 5.0
    """The time limit; after it the message is used unchanged."""
    asks_back: bool = True
    """Whether an ambiguous message is answered with a clarification."""


async def extract_offline(message: str, said_at: datetime) -> ExtractedMemories:
    """Extract memories from a user's message without a model."""
    await loaded(*FOR_MEMORIES)
    from contextinfinity.memory.extraction import extract_facts
    from contextinfinity.retrieval.dates import dates_mentioned

    if len(message) <= AT_ONCE:
        return extract_facts(message, said_at, dates_mentioned)
    return await asyncio.to_thread(extract_facts, message, said_at, dates_mentioned)


@dataclass(frozen=True, kw_only=True)
class Remembering:
    """The configuration of memories across conversations."""

    extract: Callable[[str, datetime], Awaitable[ExtractedMemories]] = extract_offline
    asks_model: bool = False
    """Whether ``extract`` calls a model."""
    expiry: timedelta = timedelta(days=90)
    """How long a memory is kept after it was last stated or shown."""
    most: int = 2000
    """The maximum number of characters of the memories in the front."""
    other_branches: bool = False
    """Whether memories from other branches of the conversation are used."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """The configuration of an engine besides its ledger and its models."""

    tools: Toolbox = field(default_factory=Toolbox)
    helpers: AuxiliaryModels = field(default_factory=AuxiliaryModels)
    ceilings: Ceilings = field(default_factory=Ceilings)
    redactor: Redactor | None = None
    remembering: Remembering | None = None
    """None: no memories are extracted."""
    rewriting: Rewriting | None = None
    """None: messages are used unchanged."""
    router: Router = field(default_factory=Router)
    retrieval: RetrievalParts | None = None
    """None: nothing is retrieved, and no vectors are computed."""
    folds: bool = True
    """Whether old turns are folded into the summary."""
    fold_pause: timedelta = timedelta(milliseconds=500)
    """The delay between an answer and the fold."""
    min_exchanges: int = 2
    """The number of newest exchanges that a fold never covers."""
    librarian: Librarian | None = None
    """Writes all summaries; None: the offline one."""
    follow_model: Callable[[Setup, Model], Setup] | None = None
    """Returns the setup with that model in the stages whose setting is ``auto``; None: no stage has it."""
    dollars: DollarLimits = field(default_factory=DollarLimits)
    """What models may cost a user."""
    spending: Spending | None = None
    """Limits the tokens spent on summaries; None: no limit."""
    find_boundary: FindBoundary = boundary_offline
    keep_journals: timedelta = timedelta(hours=1)
    clean_up_every: timedelta = timedelta(hours=6)
    retention: RetentionLimits = field(default_factory=RetentionLimits)
    """How long turns are kept at the most."""
    cached_bytes: int = MOST_BYTES
    """The maximum size of the turn cache (``TurnCache``)."""
    copies: Copies | None = None
    """Files outside the ledger from which deleted text is removed; None: only the journals."""

    def librarian_for(self, model: Model | None) -> Librarian | None:
        """Return the librarian for a branch whose newest turn this model answered; None: the offline librarian."""
        if self.spending is not None and not self.spending.allows():
            return None
        return self.following(model).librarian

    def following(self, model: Model | None) -> Setup:
        """Return the setup for a conversation that this model answers."""
        return self if self.follow_model is None or model is None else self.follow_model(self, model)
