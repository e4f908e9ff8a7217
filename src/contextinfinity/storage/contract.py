"""The storage contract: one protocol per resource, implemented by every backend.

Each method is one transaction. It is atomic, and durable when it returns. These rules apply to all methods:

- **unknown ids**: a read returns None or an empty tuple; a write raises ``NotFound``. Reads never create anything.
- **repeated calls**: ``create`` and ``accept`` take the id of the new object. If it exists with the same content, they
  return it; if it exists with other content, they raise ``AlreadyExists``. ``create`` compares owner, external_id and
  kind; ``accept`` compares branch and message. A turn is committed and indexed once.
- **fencing**: a write to a running turn names its owner. It raises ``TurnLost`` if another worker owns the turn, and
  ``WrongPhase`` if the turn is not in the expected phase; nothing is written then.
- **immutability**: messages never change; database triggers enforce this. The last turn of a branch, if it was recorded
  without an answer, may get one once (``Turns.log``).

The transactions of a turn are called TX-0 (``Turns.accept``), TX-P (``Turns.open_step``), TX-A (``Turns.finalise``),
TX-B (``States.commit``) and TX-C (``Chunks.index``).
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
        """Create a session with one branch and its root state.

        A repeated request with the same idempotency key (``once``) returns the session that it created. Raises
        ``AccessDenied`` if the given ``id`` belonged to another owner, ``AlreadyExists`` if the owner already uses the
        ``external_id``, and ``KeyReused`` if the idempotency key belongs to a different request.
        """
        ...

    async def get(self, session_id: SessionId) -> Session | None:
        """Return one session."""
        ...

    async def find(self, owner: Owner, external_id: str) -> Session | None:
        """Return the owner's session with that external id. Other owners' sessions are never returned."""
        ...

    async def list(self, owner: Owner | None, *, limit: int = 50, after: Position | None = None) -> tuple[Session, ...]:
        """Return the owner's sessions, most recently used first; with ``after``, those that follow this position.

        None lists the sessions of all users: only for callers that have the ledger itself, never over HTTP.
        """
        ...

    async def rename(self, session_id: SessionId, title: str | None) -> Session:
        """Change the title."""
        ...

    async def retain(self, session_id: SessionId, hours: float | None) -> Session:
        """Set the time to live of a session's turns in hours; None keeps them. Raises ``NotFound``."""
        ...

    async def note(self, session_id: SessionId, key: str, value: Json) -> Session:
        """Set one metadata key (no quotes in its name). Other keys and the time of last use do not change."""
        ...

    async def activate(self, session_id: SessionId, branch_id: BranchId) -> Session:
        """Make another branch the active one. Raises ``NotFound`` if it belongs to another session."""
        ...


class Branches(Protocol):
    """Branches of turns. Forking and rolling back neither copy nor delete turns."""

    async def get(self, branch_id: BranchId) -> Branch | None:
        """Return one branch."""
        ...

    async def list(self, session_id: SessionId) -> tuple[Branch, ...]:
        """Return all branches of a session, oldest first."""
        ...

    async def lineage(self, branch_id: BranchId) -> Lineage:
        """Return the branch and its ancestors, with the turns visible of each. Raises ``NotFound`` if it is unknown."""
        ...

    async def fork(
        self, branch_id: BranchId, *, at: int | None = None, state: int | None = None, label: str | None = None
    ) -> Branch:
        """Create a branch after turn ``at``, or from state number ``state``; by default at the end of the branch.

        The parent is the branch that owns the turn; the base is the newest state committed for a turn up to ``at``.
        Pins are copied from the given ``state``, otherwise from ``branch_id``. Raises ``InvalidInput`` if the turn or
        state does not exist.
        """
        ...

    async def rollback(
        self, branch_id: BranchId, *, to: int | None = None, state: int | None = None, label: str | None = None
    ) -> Branch:
        """Fork as ``fork`` does and make the new branch the active one, in one transaction."""
        ...


class Turns(Protocol):
    """Messages and their answers."""

    async def accept(self, new: NewTurn) -> Turn:
        """TX-0: write the turn, its message and its position in the branch.

        With ``begin``, also move the turn to ContextPrepared unless it has to wait for an earlier one. With
        ``creates``, also create its session; this raises the errors of ``Sessions.create``. A repeated request with the
        same idempotency key (``once``) returns the turn that it created, in its current phase.

        Raises ``QueueFull`` if ``queue_limit`` turns already wait in Accepted, ``WorkerLost`` if the owner was declared
        dead, and ``KeyReused`` if the idempotency key belongs to a different request. Nothing is written then.
        """
        ...

    async def prepare(self, turn_id: TurnId, owner: WorkerId) -> Turn:
        """Move a turn from Accepted to ContextPrepared. Raises ``BranchBusy`` while an earlier turn is not final."""
        ...

    async def open_step(self, turn_id: TurnId, owner: WorkerId, step: NewStep) -> Turn:
        """TX-P: write a step and its plan before the provider is called; ContextPrepared → Responding.

        For a later step the turn stays in Responding, and the previous step (``closes``) is ended in the same
        transaction. Raises ``AlreadyExists`` for a repeated ``step_index``.
        """
        ...

    async def finalise(self, turn_id: TurnId, owner: WorkerId, end: TurnEnd) -> Turn:
        """TX-A: write the answer, the last step, phase ResponseFinalized and the job that commits the turn."""
        ...

    async def finalise_and_claim(self, turn_id: TurnId, owner: WorkerId, end: TurnEnd) -> tuple[Turn, Job | None]:
        """TX-A, and claim the job for the owner in the same transaction.

        The job is None while another job of the branch runs.
        """
        ...

    async def fail(self, turn_id: TurnId, owner: WorkerId, end: TurnEnd) -> Turn:
        """End a turn as Failed, with the part of the answer that was shown."""
        ...

    async def cancel(self, turn_id: TurnId) -> Turn:
        """Request cancellation from the turn's owner, which may be another process. A final turn does not change."""
        ...

    async def record(self, branch_id: BranchId, exchanges: Sequence[Exchange]) -> tuple[Turn, ...]:
        """Append turns that were finished elsewhere: in phase Done, without an owner, with one state for all of them.

        A turn whose id exists is returned unchanged. Raises ``OutOfOrder`` while turns of the branch are neither
        committed nor failed, ``AlreadyExists`` if an id exists on another branch, and ``Gone`` if it was deleted.
        """
        ...

    async def log(self, branch_id: BranchId, message: Message, *, metadata: Json = None) -> Turn:
        """Append one message from elsewhere with its own state, and return the turn that contains it.

        An assistant message becomes the answer of the newest turn, if that was recorded without an answer and no turn,
        fork or summary followed it; the turn keeps its own ``metadata``. Any other message starts a turn without an
        answer, as ``record`` does. Raises ``OutOfOrder`` while turns of the branch are neither committed nor failed.
        """
        ...

    async def get(self, turn_id: TurnId) -> Turn | None:
        """Return one turn."""
        ...

    async def history(self, branch_id: BranchId, *, limit: int = 20, before: int | None = None) -> tuple[Turn, ...]:
        """Return the newest ``limit`` turns of the lineage, oldest first; with ``before``, only lower turn_seqs."""
        ...

    async def digest(self, branch_id: BranchId, *, first: int, last: int) -> tuple[int, int] | None:
        """Return the number of turns of the lineage from ``first`` to ``last``, and the sum of their update times.

        Times are in milliseconds. The digest changes when one of these turns changes, expires or is deleted, so that a
        copy of finished turns can be checked. None while the branch continues outside of the ledger.
        """
        ...

    async def steps(self, turn_id: TurnId, *, first: int = 0) -> tuple[Step, ...]:
        """Return a turn's provider calls in order, starting at step_index ``first``."""
        ...

    async def answered(self, turn_id: TurnId, *, earlier: int) -> AnsweredTurn | None:
        """Return a turn with its session, plan and origins, and the ``earlier`` turns before it."""
        ...

    async def plan(self, turn_id: TurnId) -> Plan | None:
        """Return the plan of the turn's last request, or of its clarifying question."""
        ...


class States(Protocol):
    """Checkpoints. The head of a branch is the only source of committed state."""

    async def get(self, state_id: StateId) -> State | None:
        """Return one state."""
        ...

    async def head(self, branch_id: BranchId) -> State:
        """Return the branch's head. Raises ``NotFound`` if the branch is unknown."""
        ...

    async def list(self, branch_id: BranchId, *, limit: int = 50) -> tuple[State, ...]:
        """Return the chain of states from the head back, newest first, including those of parent branches."""
        ...

    async def newest(
        self, branch_id: BranchId, reasons: Collection[StateReason], *, covers: int | None = None
    ) -> State | None:
        """Return the newest state of the chain with one of these reasons; with ``covers``, one that ends at that turn.

        Folds and unfolds are found by index; for other reasons the chain is walked. Raises ``NotFound`` if the branch
        is unknown.
        """
        ...

    async def commit(self, draft: StateDraft, *, expected_head: StateId | None) -> State:
        """TX-B: write the new state, state_after, phase, head and head_seq. Pins are read in the same transaction.

        A turn that is already committed returns its existing state. A fold or unfold removes the branch's fold
        candidate. Raises ``HeadMoved`` if the head is not ``expected_head`` (None, for drafts that only inherit,
        accepts any head), and ``OutOfOrder`` while an earlier turn of the branch is neither committed nor failed.
        """
        ...

    async def fold(self, candidate: FoldCandidate, *, ends: Job | None = None) -> State | None:
        """Commit a fold and complete the job that computed it, in one transaction.

        Returns None and writes nothing if the candidate no longer continues the branch's summary, or if turns were
        deleted after it was computed. Raises ``JobLost`` and writes nothing if another worker now has the job.
        """
        ...

    async def unfold(self, branch_id: BranchId) -> State:
        """Restore the summary from before the last fold. Raises ``Refused`` if there is no fold."""
        ...

    async def propose(self, candidate: FoldCandidate) -> FoldCandidate:
        """Store a fold candidate; it replaces the previous one of the branch.

        Raises ``InvalidInput`` if it covers an uncommitted turn, or fewer turns than the summary it continues.
        """
        ...

    async def proposal(self, branch_id: BranchId) -> FoldCandidate | None:
        """Return the branch's fold candidate."""
        ...

    async def pin(self, branch_id: BranchId, fact: str) -> State:
        """Pin a fact verbatim and commit a state for it. Pinning an existing fact again adds nothing."""
        ...

    async def unpin(self, branch_id: BranchId, number: int) -> State:
        """Remove the pinned fact with that number (from 1). Raises ``NotFound`` if there is none."""
        ...


class Chunks(Protocol):
    """Chunks: the searchable pieces of turns."""

    async def index(self, turn_id: TurnId, chunks: Sequence[NewChunk]) -> tuple[Chunk, ...]:
        """TX-C: write chunks, vectors and phase Indexed; return all chunks of the turn.

        Idempotent: equal text of one type is stored once per turn regardless of its span, and existing vectors are
        kept. Raises ``WrongPhase`` before the turn is committed, and ``InvalidInput`` for a span outside its message or
        a vector whose dimension differs from its namespace.
        """
        ...

    async def get(self, chunk_id: ChunkId) -> Chunk | None:
        """Return one chunk."""
        ...

    async def of_turn(self, turn_id: TurnId) -> tuple[Chunk, ...]:
        """Return a turn's chunks, ordered by position."""
        ...


class Contents(Protocol):
    """Content-addressed storage of system texts, tool schemas, images and files, by SHA-256 in hex."""

    async def keep_text(self, body: str) -> str:
        """Store a text and return its hash. Storing an existing text again restarts its age for ``collect``."""
        ...

    async def text(self, sha256: str) -> str | None:
        """Return a text."""
        ...

    async def keep_blob(self, body: bytes, media_type: str) -> str:
        """Store bytes and return their hash. A message refers to them with the image source ``blob_source(hash)``.

        Writing a message that refers to an unknown blob raises ``InvalidInput``.
        """
        ...

    async def blob(self, sha256: str) -> tuple[bytes, str] | None:
        """Return a blob's bytes and media type."""
        ...

    async def collect(self, *, older_than: timedelta = timedelta(hours=1)) -> int:
        """Delete unreferenced texts and blobs that were last stored longer ago than this; return how many."""
        ...


class Jobs(Protocol):
    """The durable job queue. The transactions of a turn enqueue that turn's jobs."""

    async def enqueue(
        self, job_type: JobType, branch_id: BranchId, turn_id: TurnId | None = None, *, after: timedelta = timedelta()
    ) -> Job:
        """Enqueue a job that is due after a delay. Raises ``InvalidInput`` for a delay of more than a minute.

        At most one job of a type is queued per turn (or, without a turn, per branch). Enqueueing it again returns it,
        due at the earlier of both times; a job that waits for a retry keeps its time. A failed job is queued again. A
        branch's job that is running runs once more.
        """
        ...

    async def claim(self, worker: WorkerId, kinds: Collection[JobType] | None = None) -> Job | None:
        """Claim the next due job of these types (None: any type) and count the attempt.

        Jobs of one type on one branch are claimed in order. At most one fold_branch job and one other job of a branch
        run at a time. Raises ``WorkerLost`` if the worker was declared dead.
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
        """Write the result and delete the job; with ``then``, claim and return the next job of these types.

        State (TX-B), chunks (TX-C) and memories of the result are written in one transaction. A part is queued as a
        separate job if it is missing, if an earlier turn of the branch still waits for it, or if the owner's memories
        changed since they were reconciled. The turn is Done after the last of its index_turn and remember_turn jobs.
        ``took`` is stored with the turn. This and the following methods raise ``JobLost`` if the worker does not hold
        the job.
        """
        ...

    async def release(self, job_id: int, worker: WorkerId) -> None:
        """Return a job to the queue. It is due at once, and the attempt is not counted."""
        ...

    async def retry(self, job_id: int, worker: WorkerId, *, error: str, after: timedelta) -> None:
        """Queue a job again with a delay. For index_turn, the turn is degraded until an attempt succeeds."""
        ...

    async def give_up(self, job_id: int, worker: WorkerId, *, error: str) -> None:
        """Mark a job as failed and keep it. A turn that waited for this job only becomes Done and degraded."""
        ...

    async def claimed(self, worker: WorkerId) -> frozenset[int]:
        """Return the ids of the jobs that a worker has claimed and not ended."""
        ...

    async def list(self, *, limit: int = 50, branch_id: BranchId | None = None) -> tuple[Job, ...]:
        """Return jobs, oldest first; with ``branch_id``, only those of that branch."""
        ...

    async def backlog(self) -> Backlog:
        """Return the number of jobs by state and type, and the creation time of the oldest."""
        ...

    async def due_in(self, kinds: Collection[JobType] | None = None) -> timedelta | None:
        """Return the time until the next job of these types (None: any type) is due; zero or less means now.

        None if no queued job could be claimed even if it were due.
        """
        ...


class Workers(Protocol):
    """Worker processes. A dead worker is detected by its free lock at once, otherwise by missed heartbeats."""

    async def enter(self) -> Worker:
        """Register this process as a worker."""
        ...

    async def beat(self, worker: WorkerId) -> None:
        """Write a heartbeat. Raises ``WorkerLost`` if the worker was declared dead: it must register again."""
        ...

    async def leave(self, worker: WorkerId) -> None:
        """Unregister a worker. Unknown workers are ignored."""
        ...

    async def list(self) -> tuple[Worker, ...]:
        """Return the registered workers, oldest first."""
        ...

    async def dead(self) -> tuple[WorkerId, ...]:
        """Return the workers known to be dead, and owners of turns or jobs that are not registered."""
        ...

    async def take_over(self, dead: WorkerId, *, by: WorkerId) -> TakenOver:
        """Declare a worker dead, assign its unfinished turns to ``by`` and queue its running jobs again.

        Later writes of the dead worker are rejected, and it cannot claim new work. A job is delayed longer each time
        its worker dies, and fails at the fifth death, except summarize_turn. A second take-over does nothing.
        """
        ...


class Vectors(Protocol):
    """Vectors of chunks, at most one per chunk and namespace, and nearest-neighbour search.

    A namespace holds the vectors of one embedder. Searches use the current namespace. After a change of the embedder a
    second namespace is filled and becomes current when it is complete, so searches keep working and never compare
    vectors of two embedders. Vectors are bytes, as ``domain.vectors`` packs them.
    """

    async def near(self, vector: bytes, namespace: str, scope: Scope, *, most: int = 128) -> tuple[VectorHit, ...]:
        """Return the chunks with the nearest vectors, nearest first. Raises ``InvalidInput`` for a wrong dimension."""
        ...

    async def bodies(self, namespace: str, chunk_ids: Sequence[ChunkId]) -> tuple[bytes | None, ...]:
        """Return the vectors of chunks; None for a chunk without a vector in the namespace."""
        ...

    async def namespaces(self) -> tuple[Namespace, ...]:
        """Return all namespaces, the current one first."""
        ...

    async def open(self, name: str, dim: int) -> Namespace:
        """Return the namespace with that name; create it if needed.

        The first namespace is current at once; any other has to be filled first, also one that was current before.
        Raises ``InvalidInput`` if it exists with another dimension.
        """
        ...

    async def unplaced(self, namespace: str, *, limit: int = 256) -> tuple[Chunk, ...]:
        """Return chunks without a vector in the namespace, oldest first."""
        ...

    async def place(self, namespace: str, vectors: Sequence[tuple[ChunkId, bytes]]) -> None:
        """Add vectors. Existing vectors are kept, and deleted chunks are skipped."""
        ...

    async def switch(self, namespace: str) -> bool:
        """Make a namespace current and mark the previous one as old; return False if it still lacks vectors."""
        ...

    async def drop_old(self, *, limit: int = 1000) -> int:
        """Delete a batch of vectors of old namespaces; return how many."""
        ...

    async def build(self) -> bool:
        """Build the nearest-neighbour index of large namespaces where it is due; return whether one was built.

        This may take minutes and runs in the background. Searches work without the index and never wait for it.
        """
        ...


class Tokens(Protocol):
    """API tokens of a server. Only the hash of a token's secret is stored."""

    async def create(self, new: NewToken) -> Token:
        """Store a token. Raises ``AlreadyExists`` for a known hash and ``InvalidInput`` for a malformed one."""
        ...

    async def find(self, sha256: str) -> Token | None:
        """Return the token with that hash, also if it is revoked or expired."""
        ...

    async def list(self, *, limit: int = 1000) -> tuple[Token, ...]:
        """Return all tokens, including revoked and expired ones, oldest first."""
        ...

    async def revoke(self, token_id: TokenId) -> Token:
        """Revoke a token, effective at once in every process. Revoking it again changes nothing."""
        ...

    async def any(self) -> bool:
        """Return whether any token exists, revoked or not."""
        ...


class Store(Protocol):
    """A ledger. Open it once per process and close it at the end; both are fast at any size."""

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
        """Return for how many seconds another process has blocked writes (or reads) of this one; 0 if none does."""
        ...

    def health(self) -> StoreHealth:
        """Return whether the ledger is available and has everything that was acknowledged."""
        ...

    async def close(self) -> None:
        """Finish pending writes, then close the files. Closing twice does nothing."""
        ...
