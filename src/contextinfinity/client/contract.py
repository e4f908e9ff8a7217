"""What a door can ask for, by noun.

What all verbs share:

- **thread_id** is one of our ids, or the id its owner gave it. Only talking makes a thread that is not there (``new``,
  or a foreign id nobody has used yet); everything else raises ``NotFound`` for an unknown thread, branch or turn.
- **owner**: a client that acts for an owner (``acting_for``) finds and makes only that owner's things, whatever owner a
  verb is given; everything else does not exist. A client that acts for nobody finds any thread by our id.
- **branch_id** None is the active branch. A branch of another thread is ``NotFound``.
- **durable**: what a verb that changes something returned is on the disk.
- What is wrong with a value is ``InvalidInput``; an answer that fails is no error of the client: its turn says so.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self, Unpack

from contextinfinity.client.results import (
    Committed,
    Conversation,
    Health,
    MadeToken,
    Pins,
    ShownBranch,
    ShownFold,
    ShownMemory,
    ShownThread,
    TurnAccount,
)
from contextinfinity.domain.deletion import CleanupResult, Deleted
from contextinfinity.domain.events import CompactionEvent, FinishedTurn
from contextinfinity.domain.ids import BranchId, MemoryId, Position, TurnId
from contextinfinity.domain.plan import Plan
from contextinfinity.domain.search import Hits, HowFar, RetrievedMessage
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.domain.token import Token, TokenId, TokenScope
from contextinfinity.engine.engine import Content, TurnTarget
from contextinfinity.engine.event_stream import StampedEvent, end_of
from contextinfinity.engine.explain import Explained, Quoted
from contextinfinity.engine.running_turn import SendFields
from contextinfinity.exchange.exporter import ExportFormat
from contextinfinity.exchange.import_progress import Format, Imported, Progress
from contextinfinity.memory.memory_findings import MemoryFinding

__all__ = [
    "LOCAL",
    "Client",
    "Content",
    "Conversations",
    "Explained",
    "ExportFormat",
    "Exports",
    "Folds",
    "HistoryClient",
    "Imports",
    "MemoryClient",
    "PinnedFacts",
    "Quoted",
    "SendFields",
    "StampedEvent",
    "Threads",
    "TokenClient",
    "TurnTarget",
    "end_of",
]

LOCAL = Owner()
"""Whoever sits at this machine."""


class Conversations(Protocol):
    """Talking, and what was said."""

    def send(
        self, thread_id: str, content: Content, *, deltas: bool = True, **how: Unpack[SendFields]
    ) -> AsyncIterator[StampedEvent]:
        """Send a message and yield its events, from ``TurnStarted`` to ``TurnDone``; without ``deltas`` only these two.

        The turn continues when the caller stops iterating. Raises ``InvalidInput`` for an empty message or an unknown
        model before anything is stored.
        """
        ...

    async def ask(self, thread_id: str, content: Content, **how: Unpack[SendFields]) -> FinishedTurn:
        """Send a message and return the finished turn."""
        ...

    def watch(self, turn_id: TurnId, *, after: str | None = None, deltas: bool = True) -> AsyncIterator[StampedEvent]:
        """Yield the events of a running or finished turn, from its first step or after an event id."""
        ...

    async def cancel(self, turn_id: TurnId) -> FinishedTurn:
        """Stop a turn and wait for its end; what was shown is kept. One that is over stays as it is."""
        ...

    async def show(
        self, thread_id: str, *, branch_id: BranchId | None = None, limit: int = 50, before: int | None = None
    ) -> Conversation:
        """Read the newest ``limit`` turns a branch sees (those under turn_seq ``before``), oldest first."""
        ...

    async def turn(self, turn_id: TurnId) -> TurnAccount:
        """Read one turn with the requests it took."""
        ...

    async def explain(
        self, turn_id: TurnId, *, step_index: int | None = None, compare: TurnId | None = None
    ) -> Explained:
        """Write the turn's last request again, and tell how much of it repeats the one before, or another's."""
        ...

    async def context(self, turn_id: TurnId) -> Plan:
        """Give the account of what the model saw."""
        ...

    async def models(self) -> tuple[str, ...]:
        """Name the models that can be asked for, the one that answers by itself first."""
        ...


class Threads(Protocol):
    """Conversations as wholes, and their branches."""

    async def create(self, new: NewSession, *, key: str | None = None) -> ShownThread:
        """Make an empty one; a request that comes again under its ``key`` gives the one it made."""
        ...

    async def list(
        self, owner: Owner = LOCAL, *, limit: int = 50, after: Position | None = None
    ) -> tuple[ShownThread, ...]:
        """Read an owner's threads, the one spoken in last first; ``after``: those that stand behind it.

        From page to page no thread is left out or told twice but one that was spoken in meanwhile: it is in front now.
        """
        ...

    async def get(self, thread_id: str, owner: Owner = LOCAL) -> ShownThread:
        """Read one. A foreign id is looked up within the owner only."""
        ...

    async def find(self, reference: str, owner: Owner = LOCAL) -> ShownThread:
        """Read the one a person means: by an id, by ``last``, or by the first or last 6 or more characters of its id.

        ``InvalidInput`` names them all when several fit.
        """
        ...

    async def rename(self, thread_id: str, title: str | None) -> ShownThread:
        """Give it another title."""
        ...

    async def delete(self, thread_id: str) -> Deleted:
        """Delete it with everything that was made from it; nothing of it comes back.

        ``BranchBusy`` while a turn of it is being answered.
        """
        ...

    async def clean_up(self) -> CleanupResult:
        """Delete what is past its time to live in all threads; what goes wrong is told in the result."""
        ...

    async def branches(self, thread_id: str) -> tuple[ShownBranch, ...]:
        """Read its branches, the oldest first."""
        ...

    async def find_branch(self, thread_id: str, reference: str) -> ShownBranch:
        """Read the branch a person means: by its id, its label, or the first or last 6 or more characters of its id."""
        ...

    async def switch(self, thread_id: str, branch_id: BranchId) -> ShownBranch:
        """Make a branch the active one."""
        ...

    async def fork(
        self, thread_id: str, *, at: int | None = None, state: int | None = None, branch_id: BranchId | None = None
    ) -> ShownBranch:
        """Start a new branch after a turn, or from a state; neither: at the end. The active one stays."""
        ...

    async def rollback(
        self, thread_id: str, *, to: int | None = None, state: int | None = None, branch_id: BranchId | None = None
    ) -> ShownBranch:
        """Go back to a turn or a state on a new branch and make it the active one; the old one stays."""
        ...

    async def commit(self, thread_id: str, *, branch_id: BranchId | None = None, seconds: float = 10.0) -> Committed:
        """Have the answers that wait committed now; wait for that long, and tell how many still do."""
        ...


class PinnedFacts(Protocol):
    """Facts that stand in every prompt, word for word."""

    async def list(self, thread_id: str, *, branch_id: BranchId | None = None) -> Pins:
        """Read them."""
        ...

    async def add(self, thread_id: str, fact: str, *, branch_id: BranchId | None = None) -> Pins:
        """Pin one more and give all. A fact that is there stays once; a blank one is ``InvalidInput``."""
        ...

    async def remove(self, thread_id: str, number: int, *, branch_id: BranchId | None = None) -> Pins:
        """Let go of the fact of that number (from 1) and give the rest. ``NotFound`` if there is none."""
        ...


class Folds(Protocol):
    """Old turns in the summary, visibly: what leaves the word-for-word part can be looked at first, and undone."""

    async def fold(self, thread_id: str, *, preview: bool = False, branch_id: BranchId | None = None) -> ShownFold:
        """Fold now what would fold some day; ``preview``: show it, keep it for the next ``fold``, change nothing.

        Case ``none`` when nothing can leave yet.
        """
        ...

    async def undo(self, thread_id: str, *, branch_id: BranchId | None = None) -> ShownFold:
        """Go back to the summary before the last fold. ``Refused`` when nothing is folded."""
        ...

    def follow(self) -> AsyncIterator[CompactionEvent]:
        """Hear of folds as they go on, from now on."""
        ...


class HistoryClient(Protocol):
    """What was said, found again."""

    async def search(self, q: str, **where: Unpack[TurnTarget]) -> Hits:
        """Find what was said; with a budget, what would be packed into it. A blank question is ``InvalidInput``."""
        ...

    async def chunks(self, turn_id: TurnId) -> Hits:
        """Read the chunks of a turn in the order of the text, without scores; none before it is indexed."""
        ...

    async def bring_in_step(self, *, anew: bool = False, progress: HowFar | None = None) -> RetrievedMessage:
        """Do all that is missing in the index; ``anew``: make all of it again, searchable all the while."""
        ...


class MemoryClient(Protocol):
    """What is remembered of a user across conversations. Whatever is another's is ``NotFound``."""

    async def list(
        self,
        owner: Owner = LOCAL,
        *,
        tag: str | None = None,
        q: str | None = None,
        limit: int = 50,
        after: Position | None = None,
    ) -> tuple[ShownMemory, ...]:
        """Read an owner's memories, the newest first; ``tag`` (``thread:ID``): of that thread alone.

        ``q``: those that matter for a question, the best first. ``after``: those that follow that one.
        """
        ...

    async def find(self, reference: str, owner: Owner = LOCAL) -> ShownMemory:
        """Read the one a person means: by its id, or the first or last 6 or more characters of it."""
        ...

    async def add(self, content: str, *, tags: Sequence[str] = (), owner: Owner = LOCAL) -> ShownMemory:
        """Keep a fact. Tags are ``user:ID`` of the owner and ``thread:ID`` of one of their threads; none: the user's.

        What says nothing or too much, and other tags, are ``InvalidInput``.
        """
        ...

    async def edit(self, memory_id: MemoryId, content: str, *, owner: Owner = LOCAL) -> ShownMemory:
        """Put other words in its place; the old ones are gone for good."""
        ...

    async def forget(self, memory_id: MemoryId, *, owner: Owner = LOCAL) -> None:
        """Remove it for good: no turn that was said before brings it back."""
        ...

    async def export(self, owner: Owner = LOCAL) -> tuple[ShownMemory, ...]:
        """Read all of them, with what was true once."""
        ...

    async def audit(self, owner: Owner = LOCAL) -> tuple[MemoryFinding, ...]:
        """Hold them against what was said, against each other, and against the time."""
        ...


class Imports(Protocol):
    """Conversations from elsewhere."""

    async def load(
        self,
        path: Path,
        *,
        form: Format = "auto",
        thread_id: str | None = None,
        owner: Owner = LOCAL,
        progress: Progress | None = None,
    ) -> Imported:
        """Import a file of messages; importing it again adds only what is new in it.

        ``thread_id``: where messages go that name no conversation of their own; None: to the file's own. Records that
        are no messages are told in the result; a file of nothing else is ``InvalidInput``.
        """
        ...


class Exports(Protocol):
    """Conversations as files for elsewhere."""

    async def open(
        self, form: ExportFormat, *, thread_id: str | None = None, owner: Owner = LOCAL
    ) -> AsyncIterator[bytes]:
        """Return the pieces of an export of one conversation, or of all that an owner has.

        They are read as they are asked for, in bounded memory. ``NotFound`` for an unknown thread.
        """
        ...


class TokenClient(Protocol):
    """Who may use a server."""

    async def create(
        self, owner: Owner, *, scope: TokenScope = "user", expires_at: datetime | None = None
    ) -> MadeToken:
        """Create one; its text is shown this once and kept as a hash. ``expires_at`` None: it does not expire."""
        ...

    async def list(self) -> tuple[Token, ...]:
        """Read those there ever were, the oldest first."""
        ...

    async def revoke(self, token_id: TokenId) -> Token:
        """Revoke one, at once and everywhere. ``NotFound`` for an unknown one."""
        ...

    async def check(self, text: str) -> Token:
        """Return the valid token of that text; ``TokenNeeded`` says whether it is missing, unknown or over."""
        ...

    async def closed(self) -> bool:
        """Return whether there were tokens and none is valid any more: then a server refuses every request."""
        ...

    async def needed(self) -> bool:
        """Return whether there ever was one: from then on every request needs a valid one."""
        ...


class Client(Protocol):
    """All of it. Use it with ``async with``, or close it yourself."""

    conversations: Conversations
    threads: Threads
    pins: PinnedFacts
    folds: Folds
    past: HistoryClient
    memories: MemoryClient
    imports: Imports
    exports: Exports
    tokens: TokenClient

    def acting_for(self, owner: Owner) -> Client:
        """Return a client of the same engine that finds and makes only what is the owner's."""
        ...

    async def health(self) -> Health:
        """Tell how the engine does; never an error."""
        ...

    async def __aenter__(self) -> Self:
        """Begin."""
        ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        ...

    async def close(self, *, answer_seconds: float = 5.0) -> None:
        """Let go. An engine that ends with the client gives running answers that long, and marks the others."""
        ...
