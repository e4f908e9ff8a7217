"""What every store can do, by noun.

A verb is one transaction: whole or not at all, and durable once it returns. What all verbs share:

- **unknown**: reading by an id that does not exist gives None or an empty tuple; writing to one raises
  ``NotFound``. Reading never creates anything.
- **repeated**: a verb that is given the id of what it makes (``create``, ``accept``) and finds it already
  made in the same words returns what is there; in other words it raises ``AlreadyExists``. Compared are for
  ``create`` owner, external_id and kind, for ``accept`` branch and message. A turn is committed and indexed once.
- **fenced**: a write to a running turn names its owner. When another worker owns the turn by now the write
  is discarded with ``TurnLost``; when its phase is not the expected one, with ``WrongPhase``.
- **immutable**: what was said never changes; the database itself refuses. A turn that was recorded without an
  answer may get one, once, while it is the last thing said (``Turns.log``).

The transactions of a turn have their names: TX-0 ``Turns.accept``, TX-P ``Turns.open_step``, TX-A
``Turns.finalise``, TX-B ``States.commit``, TX-C ``Chunks.index``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Protocol

from contextinfinity.domain.chunk import Chunk, NewChunk
from contextinfinity.domain.health import StoreHealth
from contextinfinity.domain.ids import BranchId, ChunkId, Position, SessionId, StateId, TurnId, WorkerId
from contextinfinity.domain.job import (
    AnsweredTurn,
    Backlog,
    Job,
    JobResult,
    JobType,
    JobTypes,
    TakenOver,
    Took,
    Worker,
)
from contextinfinity.domain.message import Json, Message
from contextinfinity.domain.plan import Plan
from contextinfinity.domain.search import Namespace, Scope, VectorHit
from contextinfinity.domain.session import Branch, Lineage, NewSession, Owner, Session
from contextinfinity.domain.state import FoldCandidate, State, StateDraft, StateReason
from contextinfinity.domain.token import NewToken, Token, TokenId
from contextinfinity.domain.turn import Exchange, NewStep, NewTurn, Step, Turn, TurnEnd
from contextinfinity.storage.deletions import Deletions
from contextinfinity.storage.imports import ImportStore
from contextinfinity.storage.index import Index
from contextinfinity.storage.memories import Memories
from contextinfinity.storage.prefix_hashes import PrefixHashStore
from contextinfinity.storage.replay import ReplayStore
from contextinfinity.storage.transfers import TransferStore


class Sessions(Protocol):
    """Conversations."""

    async def create(self, new: NewSession) -> Session:
        """Make a session with one branch and its root state.

        A given ``id`` is kept (``AccessDenied``: it was another owner's); an ``external_id`` is unique within its owner
        (``AlreadyExists``). A request that comes again with its ``once`` is given what it made; or ``KeyReused``.
        """
        ...

    async def get(self, session_id: SessionId) -> Session | None:
        """Read one."""
        ...

    async def find(self, owner: Owner, external_id: str) -> Session | None:
        """Read the owner's session of that foreign id; nobody else's."""
        ...

    async def list(self, owner: Owner, *, limit: int = 50, after: Position | None = None) -> tuple[Session, ...]:
        """Read the owner's sessions, the one spoken in last first; ``after``: those that stand behind it."""
        ...

    async def rename(self, session_id: SessionId, title: str | None) -> Session:
        """Give it another title."""
        ...

    async def note(self, session_id: SessionId, key: str, value: Json) -> Session:
        """Set one key of its metadata (a name without quotes); other keys stay, and it counts as no use of it."""
        ...

    async def activate(self, session_id: SessionId, branch_id: BranchId) -> Session:
        """Make another of its branches the active one. ``NotFound`` for a branch of another session."""
        ...


class Branches(Protocol):
    """Lines of turns. Forking and rolling back copy nothing and delete nothing."""

    async def get(self, branch_id: BranchId) -> Branch | None:
        """Read one."""
        ...

    async def list(self, session_id: SessionId) -> tuple[Branch, ...]:
        """Read all of a session, the oldest first."""
        ...

    async def lineage(self, branch_id: BranchId) -> Lineage:
        """Tell whose turns it sees. ``NotFound`` if there is no such branch."""
        ...

    async def fork(
        self, branch_id: BranchId, *, at: int | None = None, state: int | None = None, label: str | None = None
    ) -> Branch:
        """Start a new branch after turn ``at``, or from the state of number ``state``; neither: at the end.

        Its parent is the branch that owns that turn; its base the newest state committed for a turn up to ``at``. With
        ``state`` it has that state's pins, else those of ``branch_id``. ``InvalidInput`` for an unknown place.
        """
        ...

    async def rollback(
        self, branch_id: BranchId, *, to: int | None = None, state: int | None = None, label: str | None = None
    ) -> Branch:
        """Fork there and make the new branch the active one, in one transaction."""
        ...


class Turns(Protocol):
    """Messages and their answers."""

    async def accept(self, new: NewTurn) -> Turn:
        """TX-0: the turn, its message and its place in the branch become durable together.

        ``QueueFull`` when ``queue_limit`` turns already wait in Accepted, before anything is written. With ``begin``
        it goes on to ContextPrepared in the same transaction, unless it has to wait. ``WorkerLost`` for an owner that
        was declared dead. With ``once`` a request that comes again is given the turn it made, wherever that stands
        now; ``KeyReused`` when the key named a request for something else. With ``creates`` its session is created in
        the same transaction, with the errors of ``Sessions.create``.
        """
        ...

    async def prepare(self, turn_id: TurnId, owner: WorkerId) -> Turn:
        """Accepted → ContextPrepared. ``BranchBusy`` while an earlier turn of the branch is not final."""
        ...

    async def open_step(self, turn_id: TurnId, owner: WorkerId, step: NewStep) -> Turn:
        """TX-P: step and plan are durable before the provider is heard; ContextPrepared → Responding.

        A later step of the same turn keeps it in Responding, and ends the one it goes on from (``closes``) in the
        same transaction. A repeated ``step_index`` is ``AlreadyExists``.
        """
        ...

    async def finalise(self, turn_id: TurnId, owner: WorkerId, end: TurnEnd) -> Turn:
        """TX-A: answer, last step and phase ResponseFinalized, and the job that commits the turn."""
        ...

    async def finalise_and_claim(self, turn_id: TurnId, owner: WorkerId, end: TurnEnd) -> tuple[Turn, Job | None]:
        """TX-A, and claim that job for the owner in the same transaction; None while another job of the branch runs."""
        ...

    async def fail(self, turn_id: TurnId, owner: WorkerId, end: TurnEnd) -> Turn:
        """End a turn before its answer was final: Failed, with what was shown of the answer."""
        ...

    async def cancel(self, turn_id: TurnId) -> Turn:
        """Ask the turn's owner, wherever it is, to stop. It stays asked; a turn that is final stays as it is."""
        ...

    async def record(self, branch_id: BranchId, exchanges: Sequence[Exchange]) -> tuple[Turn, ...]:
        """Append turns that were finished elsewhere: Done at once, nobody's, with one state for all of them.

        ``OutOfOrder`` while turns of the branch are not settled. Nothing given: nothing done. What is there already, by
        its id, is given as it is: ``AlreadyExists`` on another branch, ``Gone`` where it was deleted.
        """
        ...

    async def log(self, branch_id: BranchId, message: Message, *, metadata: Json = None) -> Turn:
        """Append one message that was said elsewhere, with a state of its own; gives the turn it stands in.

        An assistant's message answers the branch's newest turn, if that was recorded without an answer and nothing
        came after it: no turn, no fork, no summary. The turn keeps its ``metadata``. Any other message opens a turn:
        recorded as ``record`` does it, without an answer. ``OutOfOrder`` while turns of the branch are not settled.
        """
        ...

    async def get(self, turn_id: TurnId) -> Turn | None:
        """Read one."""
        ...

    async def history(self, branch_id: BranchId, *, limit: int = 20, before: int | None = None) -> tuple[Turn, ...]:
        """Read the newest ``limit`` turns of the lineage (those under turn_seq ``before``), oldest first."""
        ...

    async def digest(self, branch_id: BranchId, *, first: int, last: int) -> tuple[int, int] | None:
        """Return the number of turns of the lineage from ``first`` to ``last``, and the sum of their update times.

        Times are in milliseconds. The digest changes when one of these turns changes, expires or is deleted, so that a
        copy of settled turns can be checked. None while the branch continues outside of the ledger.
        """
        ...

    async def steps(self, turn_id: TurnId, *, first: int = 0) -> tuple[Step, ...]:
        """Read a turn's provider calls in order, from that step_index on."""
        ...

    async def answered(self, turn_id: TurnId, *, earlier: int) -> AnsweredTurn | None:
        """Read a turn with its session, its plan, its origins and so many turns before it."""
        ...

    async def plan(self, turn_id: TurnId) -> Plan | None:
        """Read the account of the turn's last request, or of the question it asked back."""
        ...


class States(Protocol):
    """Checkpoints. The head of a branch is the only source of committed state."""

    async def get(self, state_id: StateId) -> State | None:
        """Read one."""
        ...

    async def head(self, branch_id: BranchId) -> State:
        """Read the branch's head. ``NotFound`` if there is no such branch."""
        ...

    async def list(self, branch_id: BranchId, *, limit: int = 50) -> tuple[State, ...]:
        """Read the chain from the head back, the newest first, across the branches it runs through."""
        ...

    async def newest(
        self, branch_id: BranchId, reasons: Collection[StateReason], *, covers: int | None = None
    ) -> State | None:
        """Read the newest state of the chain made for one of these reasons; ``covers``: that covers just that turn.

        Folds and unfolds are found at once however long the chain is; for other reasons it is walked back to the state.
        ``NotFound`` if there is no such branch.
        """
        ...

    async def commit(self, draft: StateDraft, *, expected_head: StateId | None) -> State:
        """TX-B: new state, state_after, phase, head and head_seq together; pins are read inside.

        ``HeadMoved`` when the head is not ``expected_head`` (None: whatever it is, for a draft that only inherits);
        ``OutOfOrder`` while an earlier turn of the branch is not settled. A turn that is committed already gives
        the state it was committed with. A fold or unfold removes the branch's candidate in the same transaction.
        """
        ...

    async def fold(self, candidate: FoldCandidate, *, ends: Job | None = None) -> State | None:
        """Commit a fold and end the job that worked it out, in one transaction.

        None, and nothing is written, when the candidate does not continue the branch's summary any more, or turns were
        deleted since its turns were read. ``JobLost``: the job is another worker's by now, and nothing is written.
        """
        ...

    async def unfold(self, branch_id: BranchId) -> State:
        """Return to the summary before the last fold. ``Refused`` when nothing is folded."""
        ...

    async def propose(self, candidate: FoldCandidate) -> FoldCandidate:
        """Keep a fold that could be committed, one a branch: a newer one replaces it.

        ``InvalidInput`` when it covers a turn that is not committed, or less than the summary it goes on from.
        """
        ...

    async def proposal(self, branch_id: BranchId) -> FoldCandidate | None:
        """Read the branch's candidate."""
        ...

    async def pin(self, branch_id: BranchId, fact: str) -> State:
        """Add a pinned fact word for word: a state of its own, at once. A fact that is there stays once."""
        ...

    async def unpin(self, branch_id: BranchId, number: int) -> State:
        """Take the fact of that number (from 1) away. ``NotFound`` if there is none."""
        ...


class Chunks(Protocol):
    """Slices of turns that can be found again."""

    async def index(self, turn_id: TurnId, chunks: Sequence[NewChunk]) -> tuple[Chunk, ...]:
        """TX-C: chunks, vectors and phase Indexed together; gives all chunks of the turn.

        The same words of one type are stored once a turn, wherever they stand (the span does not count) and however
        often this runs; a vector of the same namespace replaces nothing. ``WrongPhase`` before the turn is committed;
        ``InvalidInput`` for a span outside its message, or a vector of another size than its namespace's others.
        """
        ...

    async def get(self, chunk_id: ChunkId) -> Chunk | None:
        """Read one."""
        ...

    async def of_turn(self, turn_id: TurnId) -> tuple[Chunk, ...]:
        """Read a turn's chunks in the order of their place."""
        ...


class Contents(Protocol):
    """Texts and blobs by their SHA-256 (in hex): system texts, tool schemas, images, files; each kept once."""

    async def keep_text(self, body: str) -> str:
        """Keep a text and give its hash. What is there already is kept anew: it counts as young again."""
        ...

    async def text(self, sha256: str) -> str | None:
        """Read a text."""
        ...

    async def keep_blob(self, body: bytes, media_type: str) -> str:
        """Keep bytes and give their hash. A message refers to them with an image source ``blob_source(hash)``.

        A message that refers to a blob that is not there is refused with ``InvalidInput``.
        """
        ...

    async def blob(self, sha256: str) -> tuple[bytes, str] | None:
        """Read bytes and their media type."""
        ...

    async def collect(self, *, older_than: timedelta = timedelta(hours=1)) -> int:
        """Remove what nothing refers to and nobody kept for that long; tell how many. Never what is referred to."""
        ...


class Jobs(Protocol):
    """Durable work. A turn's jobs are made by the transactions that call for them."""

    async def enqueue(
        self, job_type: JobType, branch_id: BranchId, turn_id: TurnId | None = None, *, after: timedelta = timedelta()
    ) -> Job:
        """Ask for a job, due ``after`` that time: at most a minute, else ``InvalidInput``.

        One of a kind waits for a turn (or, without a turn, for a branch): asking again gives it, due at the earlier of
        both times; one that waits to be tried again keeps its time. A job that had failed is queued afresh; a branch's
        job that runs already will run once more.
        """
        ...

    async def claim(self, worker: WorkerId, kinds: Collection[JobType] | None = None) -> Job | None:
        """Take the next job that is due, of these kinds (None: of any), and count the attempt.

        Never one behind an earlier waiting job of its kind on its branch. Of a branch at most one fold_branch and at
        most one other job run at a time. ``WorkerLost`` for a worker that was declared dead.
        """
        ...

    async def complete(
        self,
        job_id: int,
        worker: WorkerId,
        *,
        result: JobResult | None = None,
        then: JobTypes = (),
        took: Took | None = None,
    ) -> Job | None:
        """Write the result and delete the job. The last of a turn's index_turn and remember_turn makes the turn Done.

        With a state (TX-B), chunks (TX-C) and memories in the result one transaction does all of it. A part that is
        missing, that an earlier turn of the branch still waits for, or whose memories were reconciled with others
        than there are now, is queued as a job of its own. ``then``: claim the next of these. ``took`` is kept with
        the turn. ``JobLost``, here and below: not its job.
        """
        ...

    async def release(self, job_id: int, worker: WorkerId) -> None:
        """Give it back untried: it is due at once and the attempt does not count."""
        ...

    async def retry(self, job_id: int, worker: WorkerId, *, error: str, after: timedelta) -> None:
        """Queue it again for later. For index_turn the turn is marked degraded until an attempt succeeds."""
        ...

    async def give_up(self, job_id: int, worker: WorkerId, *, error: str) -> None:
        """Keep it as failed, to be seen. A turn that only waited for it is Done, degraded."""
        ...

    async def claimed(self, worker: WorkerId) -> frozenset[int]:
        """Return the jobs that a worker has claimed and not ended."""
        ...

    async def list(self, *, limit: int = 50, branch_id: BranchId | None = None) -> tuple[Job, ...]:
        """Read the jobs there are, the oldest first; with ``branch_id`` those of that branch."""
        ...

    async def backlog(self) -> Backlog:
        """Tell what waits."""
        ...

    async def due_in(self, kinds: Collection[JobType] | None = None) -> timedelta | None:
        """Tell how long until the next job of these kinds (None: of any) can be taken: zero or less is now.

        None when none is queued that could be taken if its time had come.
        """
        ...


class Workers(Protocol):
    """Processes at work. Who is dead is known at once where a lock tells it, elsewhere by a heart that stands still."""

    async def enter(self) -> Worker:
        """Register this process as a worker."""
        ...

    async def beat(self, worker: WorkerId) -> None:
        """Count a heartbeat. ``WorkerLost`` when it was declared dead: it must enter again, its turns are gone."""
        ...

    async def leave(self, worker: WorkerId) -> None:
        """Say goodbye. Unknown or repeated: nothing happens."""
        ...

    async def list(self) -> tuple[Worker, ...]:
        """Read who is registered, the oldest first."""
        ...

    async def dead(self) -> tuple[WorkerId, ...]:
        """Name the workers known to be dead: registered ones whose lock is free, and owners nobody registered."""
        ...

    async def take_over(self, dead: WorkerId, *, by: WorkerId) -> TakenOver:
        """Declare a worker dead: its unfinished turns become the taker's, its running jobs are queued again.

        Whatever the dead one still writes is discarded, and it can take on nothing new. Jobs wait a little longer each
        time their worker dies, and but for summarize_turn fail at the fifth. Taking over twice takes nothing.
        """
        ...


class Vectors(Protocol):
    """Vectors of chunks: one a chunk and namespace, and the nearest of them.

    A namespace holds the vectors of one embedder. The current one is searched; a changed embedder fills another one
    beside it, which becomes current when it is complete: a search never returns nothing meanwhile, and never compares
    vectors of two embedders. Vectors are bytes, as ``domain.vectors`` packs them.
    """

    async def near(self, vector: bytes, namespace: str, scope: Scope, *, most: int = 128) -> tuple[VectorHit, ...]:
        """Find the chunks whose vectors are nearest, the nearest first. ``InvalidInput`` for another dimension."""
        ...

    async def bodies(self, namespace: str, chunk_ids: Sequence[ChunkId]) -> tuple[bytes | None, ...]:
        """Read the vectors of chunks; None for one that has none there."""
        ...

    async def namespaces(self) -> tuple[Namespace, ...]:
        """Tell which namespaces there are, the current one first."""
        ...

    async def open(self, name: str, dim: int) -> Namespace:
        """Make sure there is one of that name: the first is current at once, any other has to be filled.

        A generation that was current before and is outdated is filled again. ``InvalidInput`` for another dimension.
        """
        ...

    async def unplaced(self, namespace: str, *, limit: int = 256) -> tuple[Chunk, ...]:
        """Read chunks that have no vector there, the oldest first."""
        ...

    async def place(self, namespace: str, vectors: Sequence[tuple[ChunkId, bytes]]) -> None:
        """Add vectors; a chunk that has one there keeps it, one that is gone is passed over."""
        ...

    async def switch(self, namespace: str) -> bool:
        """Make it the current one, unless chunks are unplaced there; the one before is old from then on."""
        ...

    async def drop_old(self, *, limit: int = 1000) -> int:
        """Remove vectors of old namespaces, some at a time; tell how many."""
        ...

    async def build(self) -> bool:
        """Make what a search in very many vectors is quicker by, where it is due; tell whether anything was made.

        It may take minutes, beside everything else; a search never waits for it and never needs it.
        """
        ...


class Tokens(Protocol):
    """Who may use a server. What a token says is never kept, only its hash."""

    async def create(self, new: NewToken) -> Token:
        """Keep one. ``AlreadyExists`` for a hash that is there; ``InvalidInput`` for what is no hash."""
        ...

    async def find(self, sha256: str) -> Token | None:
        """Read the token of that hash, also a revoked or expired one."""
        ...

    async def list(self, *, limit: int = 1000) -> tuple[Token, ...]:
        """Read those there ever were, the oldest first."""
        ...

    async def revoke(self, token_id: TokenId) -> Token:
        """Revoke it, from now on and in every process. A second time changes nothing."""
        ...

    async def any(self) -> bool:
        """Tell whether there ever was one, revoked or not."""
        ...


class Store(Protocol):
    """A ledger. Open it once a process, close it at the end; both are quick at any size."""

    sessions: Sessions
    branches: Branches
    turns: Turns
    arrivals: ImportStore
    states: States
    chunks: Chunks
    index: Index
    vectors: Vectors
    memories: Memories
    contents: Contents
    jobs: Jobs
    workers: Workers
    tokens: Tokens
    trails: PrefixHashStore
    landings: ReplayStore
    deletions: Deletions
    transfers: TransferStore

    def held_up(self, *, reading: bool = False) -> float:
        """Tell for how many seconds another process has kept this one from writing (or reading); 0: none does."""
        ...

    def health(self) -> StoreHealth:
        """Say whether all that was said is kept where it belongs."""
        ...

    async def close(self) -> None:
        """Finish what was asked for, then let go of the files. Closing twice does nothing."""
        ...
