"""The engine: one ledger, any number of conversations.

``send`` makes a message durable and yields the events of its answer. The turn runs to its end even if the caller stops
reading; ``watch`` joins it at any point. Use the engine as an async context manager: entering it recovers from a crash,
leaving it finishes or interrupts the running turns.

Every look-up of a thread, branch or turn takes the owner that the caller acts for. Objects of another owner raise the
same error as an unknown id. ``owner=None`` finds the objects of every owner; only the command line and the library,
which have direct access to the files, may pass it.

A request with an idempotency key is executed once. Without a key, a message that repeats one that just failed is a
retry: both are stored, and the model is shown one (``prompt.render``).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias, TypedDict, Unpack

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from contextinfinity.domain.events import CompactionEvent, Event, FinishedTurn, TurnStarted
from contextinfinity.domain.ids import BranchId, ChunkId, TurnId, is_id, is_ours, new_id
from contextinfinity.domain.message import ContentBlock, Message, TextBlock, say
from contextinfinity.domain.plan import Budget, Plan, Route
from contextinfinity.domain.prefix_hash import says_the_same
from contextinfinity.domain.search import ChunkSide, ChunkType, Hits, IndexReport, ProgressCallback, Scope
from contextinfinity.domain.session import Branch, CleanupResult, Deleted, IdempotencyKey, NewSession, Owner, Session
from contextinfinity.domain.state import State
from contextinfinity.domain.store_health import StoreHealth
from contextinfinity.domain.turn import NewTurn, Phase, Turn
from contextinfinity.domain.wire import NUL, unicode_only
from contextinfinity.engine.artifacts import owned_chunk
from contextinfinity.engine.explain import Explained, explain
from contextinfinity.engine.folding import Fold
from contextinfinity.engine.image_content import with_kept_pictures
from contextinfinity.engine.job_runner import Throttle
from contextinfinity.engine.lifecycle import Lifecycle
from contextinfinity.engine.model_choice import Model, Models
from contextinfinity.engine.route_preview import RoutePreview
from contextinfinity.engine.running_turn import SendFields, SendOptions, StampedEvent, acting_owner, end_of, watch
from contextinfinity.errors import AlreadyExists, InvalidInput, LedgerAway, NotFound
from contextinfinity.prompt.measure import check_pins_limit
from contextinfinity.prompt.prompt_sections import has_no_output
from contextinfinity.storage.contract import Store
from contextinfinity.storage.invariants import check_id, check_message
from contextinfinity.storage.journal import parse_event_id
from contextinfinity.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from contextinfinity.engine.deleting import Deleting
    from contextinfinity.engine.history_search import HistorySearch
    from contextinfinity.engine.memory_editing import MemoryEditing


class Lookup(Lifecycle):
    """The look-ups of an engine."""

    @property
    def deleting(self) -> Deleting:
        """Deletes turns, conversations, users or everything, with a proof where one is asked for."""
        from contextinfinity.engine.deleting import Deleting

        return Deleting(self.store, self.cleaner, self._stages.caches.forget)

    async def session(self, thread_id: str, owner: Owner | None = None) -> Session:
        """Return a thread by our id or by its owner's name for it; raise ``NotFound`` if there is none.

        Without ``owner``, a name is looked up for the owner ``local``.
        """
        session = await self.store.sessions.get(thread_id) if is_id(thread_id) else None
        if session is None or owner not in (None, session.owner):
            session = await self.store.sessions.find(owner or Owner(), thread_id)
        if session is None:
            raise NotFound(f"There is no conversation {thread_id}.", hint="`cix sessions` lists the conversations.")
        return session

    async def thread(self, thread_id: str, owner: Owner | None) -> Session | None:
        """Return the thread that a message is sent to; None for a name that the owner has not used yet."""
        bearable = () if is_ours(thread_id) else (NotFound,)
        with suppress(*bearable):
            return await self.session(thread_id, owner)
        return None

    async def branch_of(self, session: Session, branch_id: BranchId | None) -> BranchId:
        """Return a branch of the session, or its active one; ``NotFound`` for a branch of another session."""
        if branch_id is None:
            return session.active_branch
        branch = await self.store.branches.get(branch_id) if is_id(branch_id) else None
        if branch is None or branch.session_id != session.id:
            raise NotFound(f"Thread {session.id} has no branch {branch_id}.", hint="`cix branches` lists them.")
        return branch.id

    async def turn(self, turn_id: TurnId, owner: Owner | None = None) -> Turn:
        """Return a turn; raise ``NotFound`` if it does not exist or belongs to another owner."""
        turn = await self.store.turns.get(turn_id) if is_id(turn_id) else None
        if turn is not None and owner is not None:
            session = await self.store.sessions.get(turn.session_id)
            turn = turn if session is not None and session.owner == owner else None
        if turn is None:
            raise NotFound(f"There is no turn {turn_id}.")
        return turn

    def _history_search(self) -> HistorySearch:
        """Return the search of this ledger's messages; its module is slow to import."""
        from contextinfinity.engine.history_search import HistorySearch

        return HistorySearch(store=self.store, retrieval=self.setup.retrieval, redactor=self.setup.redactor)


async def check_references(
    store: Store, owner: Owner, session: Session | None, attach: Sequence[ChunkId], retry_of: TurnId | None
) -> None:
    """Raise ``NotFound`` for chunks of another owner, and for a retried turn that is not one of ``session``.

    ``session`` None: the thread is new. While the ledger cannot be read nothing is checked here; attached chunks are
    checked again when they are fetched.
    """
    with suppress(LedgerAway):
        for chunk_id in attach:
            await owned_chunk(store, owner, chunk_id)
        if retry_of is None:
            return
        turn = None if session is None else await store.turns.get(retry_of)
        if session is None or turn is None or turn.session_id != session.id:
            raise NotFound(f"retry_of: the thread has no turn {retry_of}.", hint="Leave retry_of out.")


LONGEST_KEY = 255

_canonical = msgspec.json.Encoder(order="sorted")


def request_key(owner: Owner, key: str, asked: Mapping[str, object]) -> IdempotencyKey:
    """Return the idempotency key of a request: hashes of caller and key, and of the request's content.

    Raise ``InvalidInput`` if the caller's key is empty, too long or not printable.
    """
    if not 1 <= len(key) <= LONGEST_KEY or not key.isprintable():
        raise InvalidInput(f"A key has 1 to {LONGEST_KEY} visible characters.")
    return IdempotencyKey(key=_hash((owner, key)), asked=_hash(asked))


def for_message(sending: SendOptions, thread_id: str, content: object) -> IdempotencyKey | None:
    """Return the idempotency key of a message, or None without a key; metadata is not part of the content hash."""
    if sending.key is None:
        return None
    how = msgspec.to_builtins(sending)
    how = {name: value for name, value in how.items() if name not in ("metadata", "terms")}  # only /v1 sets terms
    return request_key(sending.owner, sending.key, {"thread_id": thread_id, "content": content, "how": how})


def for_session(once: IdempotencyKey) -> IdempotencyKey:
    """Derive the key of the session that such a request creates."""
    return IdempotencyKey(key=_hash(("session", once.key)), asked=once.asked)


def _hash(value: object) -> str:
    with unicode_only():
        return sha256(_canonical.encode(value)).hexdigest()


async def failed_just_now(store: Store, branch_id: BranchId, message: Message) -> TurnId | None:
    """Return the newest turn of a branch if it failed with the same message; None if not, or if the ledger is away."""
    with suppress(LedgerAway):
        newest = await store.turns.history(branch_id, limit=1)
        return newest[-1].id if newest and is_same(newest[-1], message) else None
    return None


def is_same(turn: Turn, message: Message) -> bool:
    """Return whether a turn with the same message failed without any text."""
    return turn.phase is Phase.FAILED and has_no_output(turn) and says_the_same(turn.user_message, message)


def are_retries(turns: Sequence[Turn], message: Message) -> bool:
    """Return whether consecutive turns are all retries of one message, so that the next retry hides all of them."""
    is_row = all(later.retry_of == earlier.id for earlier, later in pairwise(turns))
    return is_row and all(is_same(turn, message) for turn in turns)


Content: TypeAlias = str | tuple[ContentBlock, ...]

MOST_ATTACHED = 6
MOST_HITS = 10
"""The default number of search hits."""


class TurnTarget(TypedDict, total=False):
    """The keyword arguments of ``search``: the scope and the number of results.

    Without ``thread_id`` all conversations of the user are searched; with ``branch_id`` only the turns that branch
    sees.
    """

    thread_id: str | None
    branch_id: BranchId | None
    user_id: str | None
    org_id: str | None
    budget: int | None
    limit: int
    types: tuple[ChunkType, ...]
    roles: tuple[ChunkSide, ...]
    since: datetime | None
    until: datetime | None


class Engine(Lookup):
    """Answers messages and stores them."""

    @property
    def tools(self) -> Toolbox:
        """The tools that models may call; ``engine.tools.add`` registers one."""
        return self.setup.tools

    def health(self) -> StoreHealth:
        """Return ``degraded`` with the reason and the spooled data while the ledger is unavailable."""
        return self.store.health()

    # --- messages ---

    async def send(self, thread_id: str, content: Content, **how: Unpack[SendFields]) -> AsyncIterator[Event]:
        """Send a message and yield its events; the first one is yielded once the message is durable."""
        async for stamped in self.stream(thread_id, content, **how):
            yield stamped.event

    async def stream(
        self, thread_id: str, content: Content, *, deltas: bool = True, **how: Unpack[SendFields]
    ) -> AsyncIterator[StampedEvent]:
        """Do the same as ``send``, with event ids from which ``watch`` can resume."""
        turn, found = await self.accept(thread_id, content, **how)
        started = TurnStarted(
            thread_id=turn.session_id,
            branch_id=turn.branch_id,
            turn_id=turn.id,
            turn_seq=turn.turn_seq if turn.has_place else None,
            found=found,
            turns_loaded=turn.turn_seq - 1,
            durability=UNSET if turn.durability == "ledger" else turn.durability,
        )
        yield StampedEvent(event=started)
        async for stamped in self.watch(turn.id, deltas=deltas):
            yield stamped

    async def ask(self, thread_id: str, content: Content, **how: Unpack[SendFields]) -> FinishedTurn:
        """Send a message and wait for the complete answer."""
        return await end_of(self.stream(thread_id, content, deltas=False, **how))

    async def accept(self, thread_id: str, content: Content, **how: Unpack[SendFields]) -> tuple[Turn, bool]:
        """Make a message durable (TX-0) and start to answer it; also return whether its thread existed."""
        sending = _checked(self.models, content, how)
        once = for_message(sending, thread_id, content)
        known = None if thread_id == "new" else await self.thread(thread_id, sending.acting)
        owner = sending.owner if known is None else known.owner
        await check_references(self.store, owner, known, sending.attach, sending.retry_of)
        if known is None and sending.branch_id is not None:
            raise NotFound(f"A new thread has no branch {sending.branch_id}.", hint="Leave branch_id out.")
        message = await with_kept_pictures(self.store.contents, _message(content))
        try:
            turn = await self._accept_in(known, thread_id, message, sending, once)
        except AlreadyExists:  # another request created the thread in the meantime
            if known is not None or thread_id == "new":
                raise
            known = await self.session(thread_id, owner)
            turn = await self._accept_in(known, thread_id, message, sending, once)
        return turn, known is not None

    async def _accept_in(
        self, known: Session | None, thread_id: str, message: Message, sending: SendOptions, once: IdempotencyKey | None
    ) -> Turn:
        """Accept a message in a thread, or create its thread with it (``known`` is None)."""
        creates, retry_of = None, sending.retry_of
        if known is None:
            branch_id = new_id()
            external_id = None if thread_id == "new" else thread_id
            key = None if once is None or external_id is not None else for_session(once)
            creates = NewSession(
                owner=sending.owner, id=new_id(), external_id=external_id, branch_id=branch_id, once=key
            )
        else:
            branch_id = await self.branch_of(known, sending.branch_id)
            retry_of = retry_of or await failed_just_now(self.store, branch_id, message)
        new = NewTurn(
            branch_id=branch_id,
            message=message,
            retry_of=retry_of,
            metadata=sending.metadata,
            once=once,
            creates=creates,
        )
        return await self.accept_turn(new, sending, found=known is not None, session=known)

    async def route(self, thread_id: str, content: Content, **how: Unpack[SendFields]) -> Route:
        """Return which model would answer a message, and why; nothing is sent or stored."""
        sending = _checked(self.models, content, how)
        preview = RoutePreview(store=self.store, gathering=self._stages.gathering, choice=self._stages.choice)
        session = None if thread_id == "new" else await self.thread(thread_id, sending.acting)
        if session is None:
            return await preview.first_message(sending.owner, _message(content), sending)
        branch = await self.branch_of(session, sending.branch_id)
        return await preview.next_message(session, branch, _message(content), sending)

    def watch(
        self, turn_id: TurnId, *, after: str | None = None, deltas: bool = True, reasoning: bool = False
    ) -> AsyncIterator[StampedEvent]:
        """Yield the events of a turn, running or finished, from its start or after an event id.

        Without ``deltas`` only the end of the turn is yielded. ``reasoning`` adds the model's reasoning and
        tool calls while they are streamed.
        """
        place = (0, 0) if after is None else parse_event_id(after)
        if place is None:
            raise InvalidInput(f"{after!r} is no event id.")
        running, kinds = self._running.get(turn_id), {"deltas": deltas, "reasoning": reasoning}
        return watch(self.store.turns, self._journals, turn_id, running, place, **kinds)

    def is_watched(self, turn_id: TurnId) -> bool:
        """Return whether a turn that runs in this process has readers."""
        running = self._running.get(turn_id)
        return running is not None and running.readers > 0

    def has_shown_text(self, turn_id: TurnId) -> bool:
        """Return whether a turn that runs in this process has shown a part of its answer."""
        running = self._running.get(turn_id)
        return running is not None and running.journal is not None and running.journal.durability().displayed > 0

    async def cancel(self, turn_id: TurnId) -> FinishedTurn:
        """Cancel a turn, in whatever process it runs, and wait for its end."""
        if (running := self._running.get(turn_id)) is not None:
            running.cancelled.set()  # first, so that the turn stops here even if the ledger cannot be written
        turn = await self.store.turns.cancel(turn_id)
        return await end_of(self.watch(turn.id, deltas=False))

    async def context(self, turn_id: TurnId) -> Plan:
        """Return the plan of a turn's last request: what the model was shown, and why."""
        if (plan := await self.store.turns.plan(turn_id)) is None:
            raise NotFound(f"There is no plan of a turn {turn_id}.")
        return plan

    async def explain(
        self, turn_id: TurnId, *, step_index: int | None = None, compare: TurnId | None = None
    ) -> Explained:
        """Rebuild a past request section by section and compare it with the hash of what was sent."""
        return await explain(self.store, turn_id, step_index, compare)

    # --- branches and pins ---

    async def fork(
        self, thread_id: str, *, at: int | None = None, state: int | None = None, branch_id: BranchId | None = None
    ) -> Branch:
        """Create a branch from another one (default: the active one); the active branch does not change."""
        branch = await self._branch(thread_id, branch_id)
        return await self.store.branches.fork(branch, at=at, state=state)

    async def rollback(
        self, thread_id: str, *, to: int | None = None, state: int | None = None, branch_id: BranchId | None = None
    ) -> Branch:
        """Create a branch at an earlier turn or state and make it the active one."""
        branch = await self._branch(thread_id, branch_id)
        return await self.store.branches.rollback(branch, to=to, state=state)

    async def pin(self, thread_id: str, fact: str, *, branch_id: BranchId | None = None) -> State:
        """Pin a fact, so that every prompt shows it verbatim; raise an error beyond ``budget.pins_limit_tokens``."""
        branch = await self._branch(thread_id, branch_id)
        pinned = (await self.store.states.head(branch)).pinned_facts
        model = self.models.named(None)
        check_pins_limit(pinned, fact, model.counter, model.budget(self.setup.ceilings).pins)
        return await self.store.states.pin(branch, fact)

    async def unpin(self, thread_id: str, number: int, *, branch_id: BranchId | None = None) -> State:
        """Remove the pinned fact with that number."""
        return await self.store.states.unpin(await self._branch(thread_id, branch_id), number)

    def budget_of(self, model: Model) -> Budget:
        """Return the token budget for a model's context window."""
        return model.budget(self.setup.ceilings)

    # --- folding ---

    async def fold(self, thread_id: str, *, branch_id: BranchId | None = None) -> Fold | None:
        """Fold the branch now, as previewed if there is a preview; return None if nothing can be folded yet."""
        return await self._stages.folding.fold(await self._branch(thread_id, branch_id), force=True)

    async def preview_fold(self, thread_id: str, *, branch_id: BranchId | None = None) -> Fold | None:
        """Compute the next fold and store it for ``fold``; the branch does not change."""
        return await self._stages.folding.preview(await self._branch(thread_id, branch_id))

    async def unfold(self, thread_id: str, *, branch_id: BranchId | None = None) -> State:
        """Undo the last fold; automatic folding resumes when the branch has grown by another trigger."""
        return await self.store.states.unfold(await self._branch(thread_id, branch_id))

    def compactions(self) -> AsyncIterator[CompactionEvent]:
        """Yield the fold events of this process from now on."""
        return self._fold_events.follow()

    # --- search and memories ---

    async def search(self, q: str, **where: Unpack[TurnTarget]) -> Hits:
        """Search stored messages, best first; with a budget, return the passages that a prompt would get."""
        if not q.strip():
            raise InvalidInput("The search query is empty.", hint="Give some words or a question.")
        budget, limit = where.get("budget"), where.get("limit", MOST_HITS)
        if limit < 1 or (budget is not None and budget < 1):
            raise InvalidInput("A budget and a limit are at least 1.")
        acting = acting_owner(where.get("user_id"), where.get("org_id"))
        thread_id, branch_id = where.get("thread_id"), where.get("branch_id")
        if branch_id is not None and thread_id is None:
            raise InvalidInput("A branch is one of a thread; name that too.")
        session = None if thread_id is None else await self.session(thread_id, acting)
        scope = Scope(
            owner=(acting or Owner()) if session is None else None,
            session_id=None if session is None else session.id,
            branch_id=None if session is None or branch_id is None else await self.branch_of(session, branch_id),
            sides=where.get("roles", ()),
            types=where.get("types", ()),
            since=where.get("since"),
            until=where.get("until"),
        )
        return await self._history_search().search(q, scope, budget=budget, limit=limit)

    async def complete_index(self, *, rebuild: bool = False, progress: ProgressCallback | None = None) -> IndexReport:
        """Index everything that is missing; ``rebuild`` rebuilds the index, which stays searchable meanwhile."""
        indexer = self._indexer()
        await indexer.reconcile()
        brought = await indexer.complete(rebuild=rebuild, progress=progress)
        if not rebuild or self.setup.remembering is None:
            return brought
        from contextinfinity.engine.memory_jobs import remember_again  # slow to import: phrase lists

        pause = Throttle(self._running).pause
        made = await remember_again(self.store, self.setup, self.models, progress, pause)
        return replace(brought, memories=made)

    @property
    def memories(self) -> MemoryEditing:
        """The memories of users: list, find, add, edit and delete them."""
        from contextinfinity.engine.memory_editing import MemoryEditing

        return MemoryEditing(self.store, self.setup.remembering)

    # --- deleting ---

    async def delete(self, thread_id: str) -> Deleted:
        """Delete a conversation with everything derived from it; this cannot be undone."""
        return await self.deleting.conversation(await self.session(thread_id))

    async def clean_up(self) -> CleanupResult:
        """Delete what has expired now; the engine also does this every few hours."""
        result = await self.cleaner.clean_up()
        self._stages.caches.forget()
        return result

    # --- lookup ---

    async def _branch(self, thread_id: str, branch_id: BranchId | None) -> BranchId:
        return await self.branch_of(await self.session(thread_id), branch_id)


def _checked(models: Models, content: Content, how: SendFields) -> SendOptions:
    """Validate the arguments of ``send`` before anything is stored; raise ``InvalidInput``."""
    sending = SendOptions(**how)
    if len(sending.attach) > MOST_ATTACHED:
        raise InvalidInput(f"{len(sending.attach)} attachments are too many; the maximum is {MOST_ATTACHED}.")
    message = _message(content)
    if not any(not isinstance(block, TextBlock) or block.text.strip() for block in message.blocks):
        raise InvalidInput("The message is empty.", hint="Say something.")
    if any(isinstance(block, TextBlock) and NUL in block.text for block in message.blocks):
        raise InvalidInput("The message holds a NUL character, which is not allowed.", hint="Leave it out.")
    check_message(message)
    check_id(sending.retry_of)
    models.named(sending.model)
    return sending


def _message(content: Content) -> Message:
    return say("user", content) if isinstance(content, str) else Message(role="user", blocks=content)
