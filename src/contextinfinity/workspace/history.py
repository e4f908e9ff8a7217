"""The history of one session in the ledger, read and changed as a list of messages.

It is the session's active branch. It starts with the summary of folded turns and its answer; later messages follow
verbatim. No message is deleted: replacing and clearing the history activate another branch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import TypeVar

import msgspec

from contextinfinity.domain.ids import BranchId, now
from contextinfinity.domain.message import ImageBlock, Message, TextBlock, ToolResultBlock, say
from contextinfinity.domain.plan import Budget
from contextinfinity.domain.session import NewSession, Session
from contextinfinity.domain.state import FoldCandidate, State, StateDraft, summary_hash
from contextinfinity.domain.thread import ROLES, logged
from contextinfinity.domain.turn import Exchange, Turn
from contextinfinity.engine.folding import Fold, Folding, said
from contextinfinity.engine.image_content import with_kept_pictures, with_pictures
from contextinfinity.engine.model_choice import Model
from contextinfinity.engine.running_turn import Broadcast
from contextinfinity.engine.turn_cache import read_back
from contextinfinity.errors import AlreadyExists, OutOfOrder
from contextinfinity.librarian.contract import Task
from contextinfinity.librarian.offline_librarian import OfflineLibrarian
from contextinfinity.prompt.layout import split_summary, summary_pair
from contextinfinity.prompt.measure import Measure
from contextinfinity.prompt.prompt_sections import shown_turns
from contextinfinity.prompt.redact import redact_turns
from contextinfinity.storage.loop_thread import LOOK_SECONDS
from contextinfinity.storage.workspace_registry import Registration, register
from contextinfinity.workspace.history_file import HistoryStore

T = TypeVar("T")

FAR_BACK = 500
"""How many states are searched for one that a branch can fork from."""


@dataclass(frozen=True, kw_only=True)
class CurrentHistory:
    """A snapshot of a history: the state of its branch, and the turns after the summary."""

    branch_id: BranchId = ""
    head: State | None = None
    turns: Sequence[Turn] = ()

    @property
    def summary(self) -> tuple[Message, ...]:
        """The messages that represent the folded turns."""
        return () if self.head is None else summary_pair(self.head.summary)

    @property
    def messages(self) -> tuple[Message, ...]:
        """All messages, oldest first."""
        return *self.summary, *(message for turn in self.turns for message in messages_of(turn))


class WorkspaceHistory:
    """The messages of one session, which is created with the first message."""

    def __init__(self, folding: Folding, model: Model, session: NewSession) -> None:
        self._folding = folding
        self._store = folding.store
        self._new = session
        self._changing = asyncio.Lock()
        self._registered: set[str] = set()
        self.measure = Measure(model.counter)
        self.budget: Budget = model.budget(folding.setup.ceilings)

    async def read(self) -> CurrentHistory:
        """Return the current history; creates nothing."""
        session = await self._find()
        return CurrentHistory() if session is None else await self._current(session.active_branch)

    async def register(self, store: HistoryStore, data_dir: Path) -> None:
        """Record that the current session of a history file repeats this one, so that a deletion finds it."""
        name = store.session_id
        if name and name not in self._registered and (session := await self._find()) is not None:
            register(data_dir, Registration(session.id, store.folder, name))
            self._registered.add(name)

    async def messages(self) -> tuple[Message, ...]:
        """Return all messages, oldest first, with the bytes of their images."""
        return await self.with_images((await self.read()).messages)

    async def with_images(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return messages of the ledger with the bytes of their images."""
        return await with_pictures(self._store.contents, messages)

    async def newest(self, turns: int | None) -> list[Message]:
        """Read the messages of the newest turns (None: of all), folded ones too, oldest first."""
        session = await self._find()
        if session is None:
            return []
        read: Sequence[Turn]
        if turns is not None:
            read = await self._store.turns.history(session.active_branch, limit=turns)
        else:
            branch = await self._store.branches.get(session.active_branch)
            end = 0 if branch is None else branch.last_turn_seq
            read = await read_back(self._store.turns, session.active_branch, after=0, before=end + 1)
        return [message for turn in read for message in messages_of(turn)]

    async def add(self, messages: Sequence[Message], patience: float) -> None:
        """Append one message, or a question and its answer; wait up to ``patience`` seconds for a running turn."""

        kept = await self._kept(messages)

        async def write() -> None:
            branch = (await self._find_or_create()).active_branch
            if len(kept) == 1:
                await self._store.turns.log(branch, kept[0])
            else:
                await self._store.turns.record(branch, exchanges_of(kept))

        async with self._changing:
            await patiently(write, patience)

    async def extend(self, messages: Sequence[Message]) -> None:
        """Append any number of messages."""
        kept = await self._kept(messages)
        async with self._changing:
            branch = (await self._find_or_create()).active_branch
            await self._store.turns.record(branch, exchanges_of(kept))

    async def replace(self, messages: Sequence[Message]) -> None:
        """Continue with these messages only; a concurrent reader sees the old ones or the new ones.

        A summary in front, as ``read`` gives it, becomes the summary of the new branch. The present one also keeps the
        turns it covers where it can, so that they can still be searched and unfolded.
        """
        summary, later = split_summary(messages)
        async with self._changing:
            session = await self._find_or_create()
            covers = await self._covered_by(summary, session.active_branch) if summary else 0
            branch = await self._store.branches.fork(
                session.active_branch, at=covers or None, state=None if covers else 0
            )
            if summary:
                await self._summarise(branch.id, summary, covers)
            await self._store.turns.record(branch.id, exchanges_of(await self._kept(later)))
            await self._store.sessions.activate(session.id, branch.id)

    async def _covered_by(self, summary: str, branch_id: BranchId) -> int:
        """Return the last turn that a summary covers, if it is the branch's own and a branch can begin after that turn.

        It can where a state was committed for that turn; messages that were set together share one state.
        """
        head = await self._store.states.head(branch_id)
        states = await self._store.states.list(branch_id, limit=FAR_BACK) if summary == head.summary else ()
        return head.covers_turn_seq if any(state.turn_seq == head.covers_turn_seq for state in states) else 0

    async def _summarise(self, branch_id: BranchId, summary: str, covers: int) -> None:
        """Set the summary of a new branch."""
        head = await self._store.states.head(branch_id)
        draft = StateDraft(
            branch_id=branch_id,
            reason="fold",
            summary=summary,
            covers_turn_seq=covers,
            token_count_est=self.measure.text(summary),
        )
        await self._store.states.commit(draft, expected_head=head.id)

    async def _kept(self, messages: Sequence[Message]) -> list[Message]:
        """Store the images of messages in the ledger."""
        return [await with_kept_pictures(self._store.contents, message) for message in messages]

    async def clear(self) -> None:
        """Continue without messages; does nothing if there are none."""
        async with self._changing:
            session = await self._find()
            if session is not None and await self._store.turns.history(session.active_branch, limit=1):
                await self._store.branches.rollback(session.active_branch, state=0)

    async def fold(self, events: Broadcast) -> Fold | None:
        """Fold old turns and send events to ``events``; None if nothing can be folded or it would not save tokens."""
        session = await self._find()
        return None if session is None else await replace(self._folding, events=events).fold(session.active_branch)

    async def truncate(self, most: int) -> int:
        """Fold the oldest exchanges until the rest has at most ``most`` tokens; return the number of folded messages.

        They are summarised by rule, because the librarian has failed. The last exchange is kept, and the remaining
        messages start with a question.
        """
        standing = await self.read()
        leaves = self._oldest(standing, most)
        if leaves == 0 or standing.head is None:
            return 0
        leaving = [message for turn in standing.turns[:leaves] for message in messages_of(turn)]
        before = self.measure.messages(standing.messages)
        summary = await self._summary_of(standing.head, standing.turns[: leaves + 1])
        candidate = FoldCandidate(
            branch_id=standing.branch_id,
            base_covers=standing.head.covers_turn_seq,
            base_summary=summary_hash(standing.head.summary),
            covers_turn_seq=standing.turns[leaves - 1].turn_seq,
            summary=summary,
            case="truncate",
            tokens_before=before,
            tokens_after=before - self.measure.messages(leaving) + self.measure.text(summary),
            created_at=now(),
        )
        return 0 if await self._store.states.fold(candidate) is None else len(leaving)

    def _oldest(self, standing: CurrentHistory, most: int) -> int:
        """Return how many of the oldest turns have to be folded, or can be."""
        turns = standing.turns
        last = 0 if standing.head is None else standing.head.turn_seq
        costs = [self.measure.messages(messages_of(turn)) for turn in turns]
        freed = [0, *accumulate(costs)]
        places = [place for place in range(1, len(turns)) if opens(turns[place]) and turns[place - 1].turn_seq <= last]
        enough = [place for place in places if freed[-1] - freed[place] <= most]
        return min(enough, default=max(places, default=0))

    async def _summary_of(self, head: State, turns: Sequence[Turn]) -> str:
        """Fold these turns but the last, which stays, into the summary; within its budget, without a model."""
        shown = redact_turns(shown_turns(turns[:-1], turns[-1]), self._folding.setup.redactor)
        task = Task(
            summary=head.summary,
            said=tuple(one for each in shown for one in said(each)),
            budget=self.budget.summary,
            pinned_facts=head.pinned_facts,
        )
        return (await OfflineLibrarian().summarise(task, self.measure.text)).text

    # --- finding ---

    async def _find(self) -> Session | None:
        return await self._store.sessions.find(self._new.owner, str(self._new.external_id))

    async def _find_or_create(self) -> Session:
        while (session := await self._find()) is None:
            try:
                return await self._store.sessions.create(self._new)
            except AlreadyExists:  # created concurrently: it is found now
                continue
        return session

    async def _current(self, branch_id: BranchId) -> CurrentHistory:
        """Read the summary first, so that a concurrent fold hides no turns."""
        head = await self._store.states.head(branch_id)
        branch = await self._store.branches.get(branch_id)
        end = head.turn_seq if branch is None else branch.last_turn_seq
        turns = await read_back(self._store.turns, branch_id, after=head.covers_turn_seq, before=end + 1)
        return CurrentHistory(branch_id=branch_id, head=head, turns=turns)


def exchanges_of(messages: Sequence[Message]) -> list[Exchange]:
    """Put each answer to what it answers, as a log of single messages would have it."""
    exchanges: list[Exchange] = []
    for message in messages:
        last = exchanges[-1] if exchanges else None
        if message.role == "assistant" and last and last.answer is None and last.message.role != "assistant":
            exchanges[-1] = msgspec.structs.replace(last, answer=message)
        else:
            exchanges.append(Exchange(message=message))
    return exchanges


def messages_of(turn: Turn) -> list[Message]:
    """Return the messages of a turn, including the images of the question."""
    question, *answer = (say(ROLES[one.role], one.content) for one in logged(turn))
    blocks = turn.user_message.blocks
    if any(isinstance(block, ImageBlock) for block in blocks):
        shown = tuple(block for block in blocks if isinstance(block, TextBlock | ImageBlock))
        question = Message(role=question.role, blocks=shown)
    return [question, *answer]


def opens(turn: Turn) -> bool:
    """Return whether a turn can be read without the previous one."""
    first = turn.user_message
    return first.role == "user" and not any(isinstance(block, ToolResultBlock) for block in first.blocks)


async def patiently(write: Callable[[], Awaitable[T]], seconds: float) -> T:
    """Retry a write for up to ``seconds`` while the engine answers a turn of the same branch."""
    clock = asyncio.get_running_loop().time
    end = clock() + seconds
    while True:
        try:
            return await write()
        except OutOfOrder:
            if clock() > end:
                raise
        await asyncio.sleep(LOOK_SECONDS)
