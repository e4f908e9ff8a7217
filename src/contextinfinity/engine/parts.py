"""What answering a turn needs, put together once: the ledger, the journals, the models, and who we are."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.ids import ChunkId, StepId, TurnId, WorkerId
from contextinfinity.domain.message import Json
from contextinfinity.domain.model import Abilities
from contextinfinity.domain.plan import Budget, Plan
from contextinfinity.domain.prompt import Finished, ToolSpec, Wishes
from contextinfinity.domain.search import Scope
from contextinfinity.domain.turn import NewStep, Step, Turn, TurnEnd
from contextinfinity.domain.work import Job
from contextinfinity.embedders.choice import Embedders
from contextinfinity.engine.caches import MOST_BYTES, Caches
from contextinfinity.engine.fold_spending import Spending
from contextinfinity.engine.lazy_modules import FOR_FOLDS, FOR_MEMORIES, loaded
from contextinfinity.engine.news import Broadcast, News
from contextinfinity.engine.observed import Away, LearnedWindow
from contextinfinity.errors import InvalidInput
from contextinfinity.librarian.contract import Librarian
from contextinfinity.prompt.budget import Ceilings, share_out, share_out_resent
from contextinfinity.prompt.redact import Redactor
from contextinfinity.prompt.sections import Artifact
from contextinfinity.providers.contract import Provider
from contextinfinity.providers.options import joined
from contextinfinity.settings import Router
from contextinfinity.storage.contract import Store
from contextinfinity.storage.copies import Copies
from contextinfinity.storage.journal import Journal, JournalFolder
from contextinfinity.telemetry.turns import note_turn
from contextinfinity.text.tokens import Counter
from contextinfinity.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from contextinfinity.compaction.boundary import TopicBoundary
    from contextinfinity.memory.values import Drawn
    from contextinfinity.rewriting.contract import FollowUp, Rewritten

log = logging.getLogger(__name__)

AT_ONCE = 200
"""Characters of a message from which memories are extracted on the event loop: about a millisecond."""
THINKING_TOKENS = 25_000
"""The least a model that thinks gets for its answer: its thinking counts, and must not eat all of it."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model under the name people use for it."""

    name: str
    provider: Provider
    model_id: str
    reserve: int = 4000
    """Tokens that are kept free for its answer."""
    options: Json = None
    """What is passed on to the provider as it is."""
    window: LearnedWindow = field(default_factory=LearnedWindow)

    @property
    def abilities(self) -> Abilities:
        """What it can do; its context window is the real one, as far as size rejections have shown it."""
        abilities = self.provider.abilities(self.model_id)
        limit = self.window.limit(abilities.context_limit)
        return abilities if limit == abilities.context_limit else replace(abilities, context_limit=limit)

    @property
    def configured_window(self) -> int:
        """The context window according to the settings or the catalogue."""
        return self.provider.context_limit(self.model_id)

    @property
    def max_output_tokens(self) -> int:
        """How long its answer may be: as long as was reserved, as far as its window and its vendor allow."""
        abilities = self.abilities
        wanted = max(self.reserve, THINKING_TOKENS if abilities.reasoning else 1)
        return min(wanted, abilities.context_limit // 4, abilities.max_output_tokens)

    def options_with(self, wishes: Wishes) -> Json:
        """Put what a caller wishes for over what is configured."""
        wished = self.provider.options_for(wishes, self.model_id).options
        return joined(self.options, wished) if wished else self.options

    def answered(self, turn: Turn) -> bool:
        """Tell whether it was this model that answered a turn."""
        return (self.provider.name, self.model_id) == (turn.provider, turn.model)

    def answers_in(self, step: Step) -> bool:
        """Tell whether it is this model that is asked in a step."""
        return (self.provider.name, self.model_id) == (step.provider, step.model_id)

    @property
    def counter(self) -> Counter:
        """What counts tokens as this model does."""
        return self.provider.counter(self.model_id)

    def learn(self, plan: Plan, finished: Finished | None) -> None:
        """Compare what we counted with what the provider says it was."""
        if finished is not None and finished.usage.input_tokens:
            self.counter.learn(plan.tokens, finished.usage.input_tokens)

    def learn_window(self, tokens: int, answer: int, named: int) -> None:
        """Learn from a rejected request with room for an answer of that many tokens; see ``LearnedWindow``.

        An answer that is longer than what we reserve is counted: the vendor may have rejected the sum.
        """
        tokens += max(0, answer - self.max_output_tokens) if tokens else 0
        self.window.rejected(self.configured_window, tokens, named)


@dataclass(frozen=True, kw_only=True)
class Models:
    """The models there are, and the one that answers where none is named."""

    by_name: Mapping[str, Model]
    default: str
    away: Away = field(default_factory=Away)

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, the default's first."""
        return (self.default, *sorted(name for name in self.by_name if name != self.default))

    def named(self, name: str | None) -> Model:
        """Give a model by its name; None: the default."""
        wanted = self.default if name is None else name
        if wanted not in self.by_name:
            known = ", ".join(sorted(self.by_name))
            raise InvalidInput(f"There is no model {wanted!r}; there are: {known}.", hint="Name it under [models].")
        return self.by_name[wanted]

    def recall_window(self, plan: Plan) -> None:
        """Take over the window that a request of an earlier process was planned with."""
        model = None if plan.route is None else self.by_name.get(plan.route.model or "")
        if model is not None:
            model.window.recall(model.configured_window, plan.budget)

    async def close(self) -> None:
        """Let go of what their providers hold."""
        for model in self.by_name.values():
            try:
                await model.provider.close()
            except Exception:  # one that cannot be closed must not keep the others open
                log.warning("%s could not be closed", model.provider.name, exc_info=True)


class Terms(Struct, frozen=True, kw_only=True):
    """What a caller decides who brings their own instructions, tools and wishes; calls of tools are theirs to run."""

    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    response_format: Json = None
    wishes: Wishes = Wishes()
    only_last: int | None = None
    """Show so many earlier turns and nothing else: the caller wants just what they sent."""


class Asked(Struct, frozen=True, kw_only=True):
    """How a message is to be answered."""

    model: str | None = None
    """The model that the caller names."""
    use_memory: bool = True
    use_rewriter: bool = True
    may_ask_back: bool = True
    attach: tuple[ChunkId, ...] = ()
    terms: Terms | None = None


async def _no_text(*_: object) -> str | None:
    return None


@dataclass(frozen=True, kw_only=True)
class Need:
    """What a turn's prompt needs of the past: what is asked, and what stands in it anyway."""

    turn: Turn
    explicit: str | None
    first_shown: int
    """The first turn that stands there word for word; all after it do."""
    room: int
    """Tokens that retrieved text may take at most."""
    window: int
    """The context window of the branch's model."""
    attached: tuple[ChunkId, ...] = ()
    terms: tuple[str, ...] = ()
    """Words of the conversation that the message leaves out; the search uses them where no explicit form is certain."""
    scope: Scope | None = None
    """Where to look instead of the turns that the branch sees."""


@dataclass(frozen=True, kw_only=True)
class Helpers:
    """What makes a prompt better and is never needed for it; each may fail."""

    retrieve: Callable[[Turn, str | None], Awaitable[tuple[Artifact, ...]]] | None = None
    """Brings back what was said before and matters now, the best first; None: what the index finds."""
    memories: Callable[[Turn], Awaitable[str | None]] = _no_text
    """Gives what is known of the user, at most 2,000 characters."""


class Cancellation(asyncio.Event):
    """Set when somebody wants a turn stopped; ``stops`` is the work that is cancelled by it."""

    def __init__(self) -> None:
        super().__init__()
        self.stops: asyncio.Task[Any] | None = None

    def set(self) -> None:
        """Ask for the turn to be stopped."""
        if self.stops is not None and not self.is_set():
            self.stops.cancel()
        super().set()


class Running:
    """A turn that is being answered in this process, as its watchers see it."""

    def __init__(self, turn: Turn, asked: Asked | None = None) -> None:
        self.turn = turn
        self.asked = asked or Asked()
        self.steps: list[StepId] = []
        self.opened: list[NewStep] = []
        """The calls that are durable, the one under way among them."""
        self.rounds = 0
        """How often its model was asked again after tools were run."""
        self.has_spoken = False
        """Whether an earlier step said something in words."""
        self.tools_ran = False
        """Whether tools ran since the last words."""
        self.notes: dict[str, Json] = {}
        """What is added to the turn's metadata when it ends."""
        self.latency_ms: dict[str, float] = {}
        self.journal: Journal | None = None
        self.cancelled = Cancellation()
        self.news = News()
        self.ended = False

    def move(self, turn: Turn) -> None:
        """Note where the turn stands now."""
        if self.turn.outcome is None:
            note_turn(turn)
        self.turn = turn
        self.news.tell()

    def noted(self, end: TurnEnd) -> TurnEnd:
        """Add what was noted and measured here to the end of the turn."""
        return replace(end, metadata=self.notes, latency_ms=dict(self.latency_ms))

    def end(self) -> None:
        """Say that nothing more will come."""
        self.ended = True
        self.news.tell()


FindBoundary: TypeAlias = Callable[[Sequence[Mapping[str, object]]], Awaitable["TopicBoundary"]]
"""Finds where the newest topic of a conversation begins, from messages with role, content and created_at."""


async def boundary_offline(messages: Sequence[Mapping[str, object]]) -> TopicBoundary:
    """Find it without a model, and without holding up the answers."""
    await loaded(*FOR_FOLDS)
    from contextinfinity.compaction.boundary import find_topic_boundary

    return await asyncio.to_thread(find_topic_boundary, messages)


@dataclass(frozen=True, kw_only=True)
class Retrieval:
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
    from contextinfinity.rewriting import Offline  # loaded by then, see ``lazy_modules``

    return await Offline().rewrite(follow_up)


@dataclass(frozen=True, kw_only=True)
class Rewriting:
    """How follow-ups are made explicit."""

    rewrite: Callable[[FollowUp], Awaitable[Rewritten]] = rewrite_offline
    seconds: float = 5.0
    """How long that may take; then the user's own words go on."""
    asks_back: bool = True
    """Whether a message that may mean several things is answered by asking which."""


async def draw_offline(message: str, said_at: datetime) -> Drawn:
    """Draw memories from what a user said, without a model."""
    await loaded(*FOR_MEMORIES)
    from contextinfinity.memory.drawing import draw
    from contextinfinity.retrieval.dates import told_of

    if len(message) <= AT_ONCE:
        return draw(message, said_at, told_of)
    return await asyncio.to_thread(draw, message, said_at, told_of)


@dataclass(frozen=True, kw_only=True)
class Remembering:
    """How facts are kept across conversations."""

    draw: Callable[[str, datetime], Awaitable[Drawn]] = draw_offline
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
    helpers: Helpers = field(default_factory=Helpers)
    ceilings: Ceilings = field(default_factory=Ceilings)
    redactor: Redactor | None = None
    remembering: Remembering | None = None
    """None: nothing is remembered across conversations."""
    rewriting: Rewriting | None = None
    """None: messages are taken as they are."""
    router: Router = field(default_factory=Router)
    retrieval: Retrieval | None = None
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


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The means to answer."""

    store: Store
    journals: JournalFolder
    models: Models
    worker: WorkerId
    caches: Caches
    setup: Setup = field(default_factory=Setup)
    running: Mapping[TurnId, Running] = field(default_factory=dict)
    """The turns that are being answered here."""
    taken_over: dict[TurnId, None] = field(default_factory=dict)
    """Turns of dead workers that are ours now and not brought to an end yet, oldest first."""
    recovering: asyncio.Lock = field(default_factory=asyncio.Lock)
    branches: News = field(default_factory=News)
    """Told whenever a turn ends: a branch may be free."""
    folds: Broadcast = field(default_factory=Broadcast)
    """Told of folding, as it goes on."""
    run_job: Callable[[Job], None] | None = None
    """Runs a job that this worker has claimed; None: jobs are left to other processes."""
    look_seconds: float = 0.05
    """How often to look for what other processes do."""

    def budget_of(self, model: Model, terms: Terms | None = None) -> Budget:
        """Share out a model's real window; ``terms``: of a client that sends the whole conversation."""
        limit, configured = model.abilities.context_limit, model.configured_window
        ceilings = replace(self.setup.ceilings, reserve=model.max_output_tokens)
        if terms is None:
            budget = share_out(limit, ceilings)
        else:
            budget = share_out_resent(limit, ceilings, terms.wishes.max_output_tokens)
        return budget if limit == configured else replace(budget, configured_limit=configured)
