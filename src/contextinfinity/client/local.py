"""A client of an engine in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from copy import copy
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypedDict, Unpack

from msgspec import to_builtins
from msgspec.structs import replace

from contextinfinity.client.contract import (
    LOCAL,
    Content,
    Conversations,
    ExportFormat,
    Exports,
    Folds,
    HistoryClient,
    Imports,
    MemoryClient,
    PinnedFacts,
    SendFields,
    StampedEvent,
    Threads,
    TokenClient,
    TurnTarget,
)
from contextinfinity.client.drop_in import DropIn, ResponseClient, StoredConversations
from contextinfinity.client.local_resources import (
    ClientResource,
    ImageClient,
    LocalMemories,
    LocalTokens,
    health_of,
    history_status,
)
from contextinfinity.client.references import LAST, fits, only_match
from contextinfinity.client.results import (
    Committed,
    Conversation,
    Health,
    Pins,
    ShownBranch,
    ShownFold,
    ShownThread,
    TurnAccount,
    hits_of,
    shown_branch,
    shown_fold,
    shown_pins,
    shown_summary,
    shown_turn,
    turn_account,
)
from contextinfinity.client.thread_listing import list_threads, read_branch, show_thread
from contextinfinity.domain.events import CompactionEvent, FinishedTurn
from contextinfinity.domain.ids import BranchId, Position, TurnId, is_id
from contextinfinity.domain.plan import Plan
from contextinfinity.domain.search import Hits, IndexReport, ProgressCallback
from contextinfinity.domain.session import Branch, CleanupResult, Deleted, NewSession, Owner, Session
from contextinfinity.domain.turn import Phase, UserSpending
from contextinfinity.engine.deleting import DeletionScan
from contextinfinity.engine.engine import Engine, for_session, request_key
from contextinfinity.engine.explain import Explained
from contextinfinity.engine.job_runner import commit_pending
from contextinfinity.engine.resent_history import ResentHistory
from contextinfinity.errors import LedgerError, NotFound
from contextinfinity.exchange.import_progress import Format, Imported, Progress

if TYPE_CHECKING:
    from contextinfinity.client.workspace_client import WorkspaceConversations

PAGE = 500
"""How many sessions are read at a time when one is looked for by a part of its id."""
LONG_IMPORT = 100
"""Messages of a conversation from which on an import folds it in the background."""


class LocalClient:
    """``Client`` of an engine; ``owner`` None: for those who have the files themselves. Closing it ends the engine."""

    conversations: Conversations
    threads: Threads
    pins: PinnedFacts
    folds: Folds
    past: HistoryClient
    memories: MemoryClient
    imports: Imports
    exports: Exports
    tokens: TokenClient
    drop_in: DropIn
    responses: ResponseClient
    kept_conversations: StoredConversations
    images: ImageClient

    def __init__(self, engine: Engine) -> None:
        self.tokens = LocalTokens(engine)
        self._talks = ResentHistory(engine)
        self._bind(engine, None)

    def _bind(self, engine: Engine, owner: Owner | None) -> None:
        self._engine, self._owner = engine, owner
        self.conversations = LocalConversations(engine, owner)
        self.threads = LocalThreads(engine, owner)
        self.pins = LocalPins(engine, owner)
        self.folds = LocalFolds(engine, owner)
        self.past = LocalHistory(engine, owner)
        self.memories = LocalMemories(engine, owner)
        self.imports = LocalImports(engine, owner)
        self.exports = LocalExports(engine, owner)
        self.drop_in = DropIn(engine, self._talks, owner)
        self.responses = ResponseClient(engine, owner)
        self.kept_conversations = StoredConversations(engine, owner)
        self.images = ImageClient(engine, owner)

    def acting_for(self, owner: Owner) -> LocalClient:
        """Return a client of the same engine that finds and creates only the owner's objects."""
        client = copy(self)
        client._bind(self._engine, owner)
        return client

    @property
    def owner(self) -> Owner | None:
        """The owner whose data it finds; None: every owner's."""
        return self._owner

    def open_workspace(self, root: str | Path, *, model: str | None = None, folder: str = "") -> WorkspaceConversations:
        """Talk about a repository from now on.

        ``model`` decides how large its section may be, ``folder`` where in the repository's own folder the history is.
        """
        from contextinfinity.client.workspace_client import WorkspaceConversations

        workspace = WorkspaceConversations(self._engine, self._owner, root, model=model, folder=folder)
        self.conversations = workspace
        return workspace

    async def history_status(self, thread_id: str) -> dict[str, int | float | bool | str]:
        """Return how full the verbatim part of a conversation is."""
        return await history_status(self._engine, await self._engine.session(thread_id, self._owner))

    async def __aenter__(self) -> Self:
        await self._engine.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def health(self) -> Health:
        """Return the state of the engine; never raises."""
        return await health_of(self._engine)

    async def close(self, *, answer_seconds: float = 5.0) -> None:
        """Close the client. An engine that it owns gives running answers this long, and marks the others."""
        await self._engine.close(answer_seconds=answer_seconds)


class LocalConversations(ClientResource):
    """``Conversations`` of an engine."""

    def send(
        self, thread_id: str, content: Content, *, deltas: bool = True, **how: Unpack[SendFields]
    ) -> AsyncIterator[StampedEvent]:
        """Send a message and yield its events, from ``TurnStarted`` to ``TurnDone``."""
        return self._engine.stream(thread_id, content, deltas=deltas, **self._how(how))

    async def ask(self, thread_id: str, content: Content, **how: Unpack[SendFields]) -> FinishedTurn:
        """Send a message and return the finished turn."""
        return await self._engine.ask(thread_id, content, **self._how(how))

    def _how(self, how: SendFields) -> SendFields:
        return how if self._acting is None else {**how, **_names(self._acting)}

    def watch(self, turn_id: TurnId, *, after: str | None = None, deltas: bool = True) -> AsyncIterator[StampedEvent]:
        """Yield the events of a running or finished turn, from its first step or after an event id."""
        events = self._engine.watch(turn_id, after=after, deltas=deltas)
        return events if self._acting is None else self._of_own(turn_id, events)

    async def _of_own(self, turn_id: TurnId, events: AsyncIterator[StampedEvent]) -> AsyncIterator[StampedEvent]:
        await self._check_turns(turn_id)
        async for stamped in events:
            yield stamped

    async def cancel(self, turn_id: TurnId) -> FinishedTurn:
        """Cancel a turn and wait for its end; the text shown so far is kept. A finished turn does not change."""
        await self._check_turns(turn_id)
        return await self._engine.cancel(turn_id)

    async def show(
        self, thread_id: str, *, branch_id: BranchId | None = None, limit: int = 50, before: int | None = None
    ) -> Conversation:
        """Return the newest ``limit`` turns of a branch, oldest first; with ``before``, only lower turn_seqs."""
        session, branch = await self._place(thread_id, branch_id)
        turns = await self._engine.store.turns.history(branch, limit=limit, before=before)
        return Conversation(thread_id=session.id, branch_id=branch, turns=tuple(map(shown_turn, turns)))

    async def turn(self, turn_id: TurnId) -> TurnAccount:
        """Return one turn with its provider requests."""
        turn = await self._turn(turn_id)
        return turn_account(turn, await self._engine.store.turns.steps(turn_id))

    async def explain(
        self, turn_id: TurnId, *, step_index: int | None = None, compare: TurnId | None = None
    ) -> Explained:
        """Rebuild the turn's last request, and return how much of it repeats the previous one, or another turn's."""
        await self._check_turns(turn_id, compare)
        return await self._engine.explain(turn_id, step_index=step_index, compare=compare)

    async def context(self, turn_id: TurnId) -> Plan:
        """Return the plan of the turn's prompt."""
        await self._check_turns(turn_id)
        return await self._engine.context(turn_id)

    async def models(self) -> tuple[str, ...]:
        """Return the available models, the default first."""
        return self._engine.models.names

    async def spending(self, owner: Owner = LOCAL) -> UserSpending:
        """Return what the models of a user's turns cost, and the limits."""
        return await self._engine.setup.dollars.spending(self._store, self._acting_owner(owner))


class LocalThreads(ClientResource):
    """``Threads`` of an engine."""

    async def create(self, new: NewSession, *, key: str | None = None) -> ShownThread:
        """Create an empty conversation; a repeated request with the same idempotency ``key`` returns it."""
        new = replace(new, owner=self._acting_owner(new.owner))
        if key is not None:
            new = replace(new, once=for_session(request_key(new.owner, key, to_builtins(new))))
        return await self._shown(await self._store.sessions.create(new))

    async def list(
        self, owner: Owner = LOCAL, *, limit: int = 50, after: Position | None = None
    ) -> tuple[ShownThread, ...]:
        """Return an owner's conversations, most recently used first."""
        return await list_threads(self._store, self._acting_owner(owner), limit, after)

    async def get(self, thread_id: str, owner: Owner = LOCAL) -> ShownThread:
        """Return one conversation. An external id is looked up within the owner only."""
        return await self._shown(await self._session(thread_id, owner))

    async def find(self, reference: str, owner: Owner = LOCAL) -> ShownThread:
        """Return a conversation by its id, ``last``, or the first or last 6 or more characters of its id."""
        if reference == LAST:
            return await self._last(owner)
        try:
            return await self.get(reference, owner)
        except NotFound:
            if is_id(reference):
                raise
        fitting = [session.id async for session in self._all(owner) if fits(session.id, reference)]
        return await self.get(
            only_match("conversation", reference, fitting, hint="`cix sessions` lists the conversations."), owner
        )

    async def rename(self, thread_id: str, title: str | None) -> ShownThread:
        """Change the title."""
        session = await self._session(thread_id)
        return await self._shown(await self._store.sessions.rename(session.id, title))

    async def retain(self, thread_id: str, hours: float | None) -> ShownThread:
        """Set how long its turns are kept."""
        session = await self._session(thread_id)
        return await self._shown(await self._store.sessions.retain(session.id, hours))

    async def delete(self, thread_id: str, *, scan: bool = False) -> Deleted:
        """Delete it with everything derived from it."""
        return await self._engine.deleting.conversation(await self._session(thread_id), scan=self._scan(scan))

    async def delete_turn(self, thread_id: str, turn_id: TurnId, *, scan: bool = False) -> Deleted:
        """Delete one turn."""
        session, turn = await self._session(thread_id), await self._engine.turn(turn_id)
        if turn.session_id != session.id:
            raise NotFound(f"Thread {session.id} has no turn {turn_id}.")
        if turn.phase == Phase.RESPONSE_FINALIZED:
            await self.commit(session.id, branch_id=turn.branch_id)
        return await self._engine.deleting.turn(turn, scan=self._scan(scan))

    async def delete_all(self, owner: Owner | None = LOCAL, *, scan: bool = False) -> Deleted:
        """Delete all conversations and memories of a user, or of all users."""
        if owner is None and self._acting is None:
            return await self._engine.deleting.everything(scan=self._scan(scan))
        return await self._engine.deleting.user(self._acting_owner(owner or LOCAL), scan=self._scan(scan))

    def _scan(self, scan: bool) -> DeletionScan | None:
        """Return what is searched: for an acting owner never the files, which hold the text of all users."""
        if not scan:
            return None
        return "files" if self._acting is None else "rows"

    async def clean_up(self) -> CleanupResult:
        """Delete expired turns of all conversations; errors are reported in the result."""
        return await self._engine.clean_up()

    async def branches(self, thread_id: str) -> tuple[ShownBranch, ...]:
        """Return the branches, oldest first."""
        session = await self._session(thread_id)
        return tuple(shown_branch(one, session.active_branch) for one in await self._store.branches.list(session.id))

    async def find_branch(self, thread_id: str, reference: str) -> ShownBranch:
        """Return a branch by its id, its label, or the first or last 6 or more characters of its id."""
        branches = {branch.branch_id: branch for branch in await self.branches(thread_id)}
        labelled = [branch.branch_id for branch in branches.values() if branch.label == reference]
        fitting = labelled or [name for name in branches if name == reference or fits(name, reference)]
        return branches[only_match("branch", reference, fitting, hint="`cix branches` lists the branches.")]

    async def switch(self, thread_id: str, branch_id: BranchId) -> ShownBranch:
        """Make a branch the active one."""
        session, branch = await self._place(thread_id, branch_id)
        session = await self._store.sessions.activate(session.id, branch)
        return shown_branch(await self._branch(branch), session.active_branch)

    async def fork(
        self, thread_id: str, *, at: int | None = None, state: int | None = None, branch_id: BranchId | None = None
    ) -> ShownBranch:
        """Create a branch after a turn, or from a state; by default at the end. The active branch does not change."""
        session = await self._session(thread_id)
        branch = await self._engine.fork(session.id, at=at, state=state, branch_id=branch_id)
        return shown_branch(branch, (await self._session(session.id)).active_branch)

    async def rollback(
        self, thread_id: str, *, to: int | None = None, state: int | None = None, branch_id: BranchId | None = None
    ) -> ShownBranch:
        """Go back to a turn or a state on a new branch and make it active; the old branch is kept."""
        session = await self._session(thread_id)
        branch = await self._engine.rollback(session.id, to=to, state=state, branch_id=branch_id)
        return shown_branch(branch, branch.id)

    async def commit(self, thread_id: str, *, branch_id: BranchId | None = None, seconds: float = 10.0) -> Committed:
        """Commit pending answers now; wait up to ``seconds`` and return how many are still pending."""
        session, branch = await self._place(thread_id, branch_id)
        left = await commit_pending(self._store, self._engine.job_runner, branch, seconds=seconds)
        now = await self._branch(branch)
        return Committed(
            thread_id=session.id, branch_id=branch, state=now.head_seq, head_state=now.head_state, pending=left
        )

    async def _shown(self, session: Session) -> ShownThread:
        return await show_thread(self._store, session)

    async def _branch(self, branch_id: BranchId) -> Branch:
        return await read_branch(self._store, branch_id)

    async def _last(self, owner: Owner) -> ShownThread:
        newest = await self.list(owner, limit=1)
        if not newest:
            raise NotFound("There are no conversations yet.", hint='Begin one with `cix ask "…"` or `cix chat`.')
        return newest[0]

    async def _all(self, owner: Owner) -> AsyncIterator[Session]:
        after: Position | None = None
        while page := await self._store.sessions.list(self._acting_owner(owner), limit=PAGE, after=after):
            for session in page:
                yield session
            after = page[-1].position


class LocalPins(ClientResource):
    """``PinnedFacts`` of an engine."""

    async def list(self, thread_id: str, *, branch_id: BranchId | None = None) -> Pins:
        """Return the pinned facts."""
        _, branch = await self._place(thread_id, branch_id)
        return shown_pins(await self._store.states.head(branch), branch)

    async def add(self, thread_id: str, fact: str, *, branch_id: BranchId | None = None) -> Pins:
        """Pin a fact and return all; an existing one is not added again. Raises ``InvalidInput`` for a blank fact."""
        session, branch = await self._place(thread_id, branch_id)
        return shown_pins(await self._engine.pin(session.id, fact, branch_id=branch), branch)

    async def remove(self, thread_id: str, number: int, *, branch_id: BranchId | None = None) -> Pins:
        """Remove the fact with that number (from 1) and return the rest. Raises ``NotFound`` if there is none."""
        session, branch = await self._place(thread_id, branch_id)
        return shown_pins(await self._engine.unpin(session.id, number, branch_id=branch), branch)


class LocalFolds(ClientResource):
    """``Folds`` of an engine."""

    async def fold(self, thread_id: str, *, preview: bool = False, branch_id: BranchId | None = None) -> ShownFold:
        """Fold old turns now; with ``preview``, only return the fold and keep it for the next ``fold``."""
        session, branch = await self._place(thread_id, branch_id)
        work = self._engine.preview_fold if preview else self._engine.fold
        made = await work(session.id, branch_id=branch)
        if made is None:
            return shown_summary(await self._engine.store.states.head(branch), branch)
        return shown_fold(made, session.id, committed=not preview)

    async def undo(self, thread_id: str, *, branch_id: BranchId | None = None) -> ShownFold:
        """Restore the summary from before the last fold. Raises ``Refused`` if there is no fold."""
        session, branch = await self._place(thread_id, branch_id)
        before = await self._engine.store.states.head(branch)
        return shown_summary(await self._engine.unfold(session.id, branch_id=branch), branch, before=before)

    def follow(self) -> AsyncIterator[CompactionEvent]:
        """Yield compaction events from now on."""
        events = self._engine.compactions()
        return events if self._acting is None else self._own(events)

    async def _own(self, events: AsyncIterator[CompactionEvent]) -> AsyncIterator[CompactionEvent]:
        async for event in events:
            with suppress(NotFound, LedgerError):  # the thread was deleted, or the ledger cannot be read now
                await self._session(event.thread_id)
                yield event


class LocalHistory(ClientResource):
    """``HistoryClient`` of an engine."""

    async def search(self, q: str, **where: Unpack[TurnTarget]) -> Hits:
        """Search messages; with a budget, return what fits into it. Raises ``InvalidInput`` for a blank query."""
        return await self._engine.search(q, **(where if self._acting is None else {**where, **_names(self._acting)}))

    async def chunks(self, turn_id: TurnId) -> Hits:
        """Return the chunks of a turn in the order of the text, without scores; none before it is indexed."""
        turn = await self._turn(turn_id)
        return hits_of(turn, await self._store.chunks.of_turn(turn_id))

    async def complete_index(self, *, rebuild: bool = False, progress: ProgressCallback | None = None) -> IndexReport:
        """Complete the index; with ``rebuild``, rebuild it while searches keep working."""
        return await self._engine.complete_index(rebuild=rebuild, progress=progress)


class LocalImports(ClientResource):
    """``Imports`` into an engine's ledger."""

    async def load(
        self,
        path: Path,
        *,
        form: Format = "auto",
        thread_id: str | None = None,
        owner: Owner = LOCAL,
        progress: Progress | None = None,
    ) -> Imported:
        """Import a file of messages; importing it again adds only new messages."""
        from contextinfinity.exchange.importer import import_file

        whose = self._acting_owner(owner)
        imported = await import_file(self._store, path, owner=whose, form=form, thread_id=thread_id, progress=progress)
        with suppress(LedgerError):  # what is not folded now is folded before its first answer, if it does not fit
            for one in imported.sessions:
                session = await self._store.sessions.get(one.thread_id) if one.added >= LONG_IMPORT else None
                if session is not None:
                    await self._store.jobs.enqueue("fold_branch", session.active_branch)
            self._engine.job_runner.wake()
        return imported


class LocalExports(ClientResource):
    """``Exports`` of an engine's ledger."""

    async def open(
        self, form: ExportFormat, *, thread_id: str | None = None, owner: Owner = LOCAL
    ) -> AsyncIterator[bytes]:
        """Return the pieces of an export of one conversation, or of all that an owner has."""
        from contextinfinity.exchange.exporter import export_sessions, sessions_of

        if thread_id is not None:
            return export_sessions(self._store, [(await self._session(thread_id, owner)).id], form)
        whose = self._acting_owner(owner)
        return export_sessions(self._store, await sessions_of(self._store, whose), form, owner=whose)

    async def owners(self) -> tuple[Owner, ...]:
        """Return all users; for an acting owner only that one."""
        return await self._store.transfers.owners() if self._acting is None else (self._acting,)


class _OwnerNames(TypedDict):
    user_id: str
    org_id: str


def _names(owner: Owner) -> _OwnerNames:
    """Return an owner as the options of ``send`` and ``search`` name it."""
    return {"user_id": owner.user_id, "org_id": owner.org_id}
