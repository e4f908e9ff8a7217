"""The client contract: one protocol per resource.

These rules apply to all methods:

- **thread_id** is one of our ids, or the id its owner gave it. Only talking makes a thread that is not there (``new``,
  or an external id that is not used yet); everything else raises ``NotFound`` for an unknown thread, branch or turn.
- **owner**: a client that acts for an owner (``acting_for``) finds and makes only that owner's things, whatever owner a
  verb is given; everything else does not exist. A client without a user finds any thread by its id.
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
from contextinfinity.domain.events import CompactionEvent, FinishedTurn
from contextinfinity.domain.ids import BranchId, MemoryId, Position, TurnId
from contextinfinity.domain.plan import Plan
from contextinfinity.domain.search import Hits, IndexReport, ProgressCallback
from contextinfinity.domain.session import CleanupResult, Deleted, NewSession, Owner
from contextinfinity.domain.token import Token, TokenId, TokenScope
from contextinfinity.domain.turn import UserSpending
from contextinfinity.engine.engine import Content, TurnTarget
from contextinfinity.engine.explain import Explained, Quoted
from contextinfinity.engine.running_turn import SendFields, StampedEvent, end_of
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
"""The local user of this machine."""


class Conversations(Protocol):
    """Sending messages and reading conversations."""

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
        """Cancel a turn and wait for its end; the text shown so far is kept. A finished turn does not change."""
        ...

    async def show(
        self, thread_id: str, *, branch_id: BranchId | None = None, limit: int = 50, before: int | None = None
    ) -> Conversation:
        """Return the newest ``limit`` turns of a branch, oldest first; with ``before``, only lower turn_seqs."""
        ...

    async def turn(self, turn_id: TurnId) -> TurnAccount:
        """Return one turn with its provider requests."""
        ...

    async def explain(
        self, turn_id: TurnId, *, step_index: int | None = None, compare: TurnId | None = None
    ) -> Explained:
        """Rebuild the turn's last request, and return how much of it repeats the previous one, or another turn's."""
        ...

    async def context(self, turn_id: TurnId) -> Plan:
        """Return the plan of the turn's prompt."""
        ...

    async def models(self) -> tuple[str, ...]:
        """Return the available models, the default first."""
        ...

    async def spending(self, owner: Owner = LOCAL) -> UserSpending:
        """Return what the models of a user's turns cost, and the limits."""
        ...


class Threads(Protocol):
    """Conversations and their branches."""

    async def create(self, new: NewSession, *, key: str | None = None) -> ShownThread:
        """Create an empty conversation; a repeated request with the same idempotency ``key`` returns it."""
        ...

    async def list(
        self, owner: Owner = LOCAL, *, limit: int = 50, after: Position | None = None
    ) -> tuple[ShownThread, ...]:
        """Return an owner's conversations, most recently used first; with ``after``, those that follow this position.

        Paging neither skips nor repeats conversations, except those used in the meantime, which move to the front.
        """
        ...

    async def get(self, thread_id: str, owner: Owner = LOCAL) -> ShownThread:
        """Return one conversation. An external id is looked up within the owner only."""
        ...

    async def find(self, reference: str, owner: Owner = LOCAL) -> ShownThread:
        """Return a conversation by its id, ``last``, or the first or last 6 or more characters of its id.

        Raises ``InvalidInput`` with the candidates if several match.
        """
        ...

    async def rename(self, thread_id: str, title: str | None) -> ShownThread:
        """Change the title."""
        ...

    async def retain(self, thread_id: str, hours: float | None) -> ShownThread:
        """Set how many hours turns of a conversation are kept; None keeps them as long as the settings allow."""
        ...

    async def delete(self, thread_id: str, *, scan: bool = False) -> Deleted:
        """Delete a conversation and everything derived from it, permanently; ``scan``: list what was searched for it.

        Raises ``BranchBusy`` while one of its turns is being answered.
        """
        ...

    async def delete_turn(self, thread_id: str, turn_id: TurnId, *, scan: bool = False) -> Deleted:
        """Delete one finished turn and everything derived from it, permanently; later turns stay."""
        ...

    async def delete_all(self, owner: Owner | None = LOCAL, *, scan: bool = False) -> Deleted:
        """Delete all conversations and memories of a user, permanently; None: of all users, on this machine only."""
        ...

    async def clean_up(self) -> CleanupResult:
        """Delete expired turns of all conversations; errors are reported in the result."""
        ...

    async def branches(self, thread_id: str) -> tuple[ShownBranch, ...]:
        """Return the branches, oldest first."""
        ...

    async def find_branch(self, thread_id: str, reference: str) -> ShownBranch:
        """Return a branch by its id, its label, or the first or last 6 or more characters of its id."""
        ...

    async def switch(self, thread_id: str, branch_id: BranchId) -> ShownBranch:
        """Make a branch the active one."""
        ...

    async def fork(
        self, thread_id: str, *, at: int | None = None, state: int | None = None, branch_id: BranchId | None = None
    ) -> ShownBranch:
        """Create a branch after a turn, or from a state; by default at the end. The active branch does not change."""
        ...

    async def rollback(
        self, thread_id: str, *, to: int | None = None, state: int | None = None, branch_id: BranchId | None = None
    ) -> ShownBranch:
        """Go back to a turn or a state on a new branch and make it active; the old branch is kept."""
        ...

    async def commit(self, thread_id: str, *, branch_id: BranchId | None = None, seconds: float = 10.0) -> Committed:
        """Commit pending answers now; wait up to ``seconds`` and return how many are still pending."""
        ...


class PinnedFacts(Protocol):
    """Pinned facts, which every prompt contains verbatim."""

    async def list(self, thread_id: str, *, branch_id: BranchId | None = None) -> Pins:
        """Return the pinned facts."""
        ...

    async def add(self, thread_id: str, fact: str, *, branch_id: BranchId | None = None) -> Pins:
        """Pin a fact and return all; an existing one is not added again. Raises ``InvalidInput`` for a blank fact."""
        ...

    async def remove(self, thread_id: str, number: int, *, branch_id: BranchId | None = None) -> Pins:
        """Remove the fact with that number (from 1) and return the rest. Raises ``NotFound`` if there is none."""
        ...


class Folds(Protocol):
    """Folds of old turns into the summary, with preview and undo."""

    async def fold(self, thread_id: str, *, preview: bool = False, branch_id: BranchId | None = None) -> ShownFold:
        """Fold old turns now; with ``preview``, only return the fold and keep it for the next ``fold``.

        The case is ``none`` if nothing can be folded yet.
        """
        ...

    async def undo(self, thread_id: str, *, branch_id: BranchId | None = None) -> ShownFold:
        """Restore the summary from before the last fold. Raises ``Refused`` if there is no fold."""
        ...

    def follow(self) -> AsyncIterator[CompactionEvent]:
        """Yield compaction events from now on."""
        ...


class HistoryClient(Protocol):
    """Search and the search index."""

    async def search(self, q: str, **where: Unpack[TurnTarget]) -> Hits:
        """Search messages; with a budget, return what fits into it. Raises ``InvalidInput`` for a blank query."""
        ...

    async def chunks(self, turn_id: TurnId) -> Hits:
        """Return the chunks of a turn in the order of the text, without scores; none before it is indexed."""
        ...

    async def complete_index(self, *, rebuild: bool = False, progress: ProgressCallback | None = None) -> IndexReport:
        """Complete the index; with ``rebuild``, rebuild it while searches keep working."""
        ...


class MemoryClient(Protocol):
    """A user's memories. Memories of other users raise ``NotFound``."""

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
        """Return a memory by its id, or by its first or last 6 or more characters."""
        ...

    async def add(self, content: str, *, tags: Sequence[str] = (), owner: Owner = LOCAL) -> ShownMemory:
        """Keep a fact. Tags are ``user:ID`` of the owner and ``thread:ID`` of one of their threads; none: the user's.

        What says nothing or too much, and other tags, are ``InvalidInput``.
        """
        ...

    async def edit(self, memory_id: MemoryId, content: str, *, owner: Owner = LOCAL) -> ShownMemory:
        """Replace the text of a memory; the old text is deleted permanently."""
        ...

    async def forget(self, memory_id: MemoryId, *, owner: Owner = LOCAL) -> None:
        """Delete a memory permanently; earlier turns cannot restore it."""
        ...

    async def export(self, owner: Owner = LOCAL) -> tuple[ShownMemory, ...]:
        """Return all memories, including superseded ones."""
        ...

    async def audit(self, owner: Owner = LOCAL) -> tuple[MemoryFinding, ...]:
        """Find memories that their turn does not support, duplicates, and expired ones."""
        ...


class Imports(Protocol):
    """Import of conversations."""

    async def load(
        self,
        path: Path,
        *,
        form: Format = "auto",
        thread_id: str | None = None,
        owner: Owner = LOCAL,
        progress: Progress | None = None,
    ) -> Imported:
        """Import a file of messages; importing it again adds only new messages.

        ``thread_id``: where messages go that name no conversation of their own; None: to the file's own. Records that
        are not messages are listed in the result; a file of nothing else is ``InvalidInput``.
        """
        ...


class Exports(Protocol):
    """Export of conversations."""

    async def open(
        self, form: ExportFormat, *, thread_id: str | None = None, owner: Owner = LOCAL
    ) -> AsyncIterator[bytes]:
        """Return the pieces of an export of one conversation, or of all that an owner has.

        They are read as they are asked for, in bounded memory. ``NotFound`` for an unknown thread.
        """
        ...

    async def owners(self) -> tuple[Owner, ...]:
        """Return all users that have conversations or memories; only where the ledger is."""
        ...


class TokenClient(Protocol):
    """The API tokens of a server."""

    async def create(
        self, owner: Owner, *, scope: TokenScope = "user", expires_at: datetime | None = None
    ) -> MadeToken:
        """Create a token and return its text once; only its hash is stored. ``expires_at`` None: it does not expire."""
        ...

    async def list(self) -> tuple[Token, ...]:
        """Return all tokens, including revoked and expired ones, oldest first."""
        ...

    async def revoke(self, token_id: TokenId) -> Token:
        """Revoke a token, effective at once in every process. Raises ``NotFound`` if it is unknown."""
        ...

    async def check(self, text: str) -> Token:
        """Return the valid token with that text. Raises ``TokenNeeded`` if it is missing, unknown or expired."""
        ...

    async def closed(self) -> bool:
        """Return whether tokens exist and none is valid: then a server rejects every request."""
        ...

    async def needed(self) -> bool:
        """Return whether any token exists: then every request needs a valid one."""
        ...


class Client(Protocol):
    """A client. Use it with ``async with``, or call ``close``."""

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
        """Return a client of the same engine that finds and creates only the owner's objects."""
        ...

    async def health(self) -> Health:
        """Return the state of the engine; never raises."""
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
        """Close the client. An engine that it owns gives running answers this long, and marks the others."""
        ...
