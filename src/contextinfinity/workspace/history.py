"""A history in the ledger: what was said in one session, read and changed as a list of messages.

It is the session's active branch. What a fold covers stands as a summary and its answer in front, everything later
word for word. Nothing that was said is deleted: replacing and clearing make another branch the active one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TypeVar

import msgspec

from contextinfinity.domain.ids import BranchId, now
from contextinfinity.domain.message import Message, ToolResultBlock, say
from contextinfinity.domain.plan import Budget
from contextinfinity.domain.session import NewSession, Session
from contextinfinity.domain.state import FoldCandidate, State
from contextinfinity.domain.turn import Exchange, Turn
from contextinfinity.engine import folding
from contextinfinity.engine.news import Broadcast
from contextinfinity.engine.recall import read_back
from contextinfinity.engine.weighing import said
from contextinfinity.errors import AlreadyExists, OutOfOrder
from contextinfinity.librarian.contract import Task
from contextinfinity.librarian.offline import OfflineLibrarian
from contextinfinity.prompt.layout import summary_pair
from contextinfinity.prompt.measure import Measure
from contextinfinity.prompt.redact import redact_turns
from contextinfinity.prompt.sections import shown_turns
from contextinfinity.threads.ledger import LOOK_SECONDS, logged
from contextinfinity.threads.values import ROLES
from contextinfinity.workspace.opening import Means

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A history at one moment: the state of its branch, and the turns after the summary; empty before it began."""

    branch_id: BranchId = ""
    head: State | None = None
    turns: Sequence[Turn] = ()

    @property
    def summary(self) -> tuple[Message, ...]:
        """What stands for the turns that were folded."""
        return () if self.head is None else summary_pair(self.head.summary)

    @property
    def messages(self) -> tuple[Message, ...]:
        """All of it, oldest first."""
        return *self.summary, *(message for turn in self.turns for message in messages_of(turn))


class History:
    """The messages of one session, which is made when the first of them is added."""

    def __init__(self, means: Means, session: NewSession) -> None:
        self._parts = means.parts
        self._store = means.parts.store
        self._new = session
        self._changing = asyncio.Lock()
        self.measure = Measure(means.model.counter)
        self.budget: Budget = means.parts.budget_of(means.model)

    async def read(self) -> Standing:
        """Read what there is; nothing is made."""
        session = await self._find()
        return Standing() if session is None else await self._stands(session.active_branch)

    async def add(self, messages: Sequence[Message], patience: float) -> None:
        """Append one message, or a question and its answer together; wait that long for a turn that is answered."""

        async def write() -> None:
            branch = (await self._find_or_create()).active_branch
            if len(messages) == 1:
                await self._store.turns.log(branch, messages[0])
            else:
                await self._store.turns.record(branch, exchanges_of(messages))

        async with self._changing:
            await _patiently(write, patience)

    async def replace(self, messages: Sequence[Message]) -> None:
        """Go on with these messages only; whoever reads meanwhile sees the old ones, then the new."""
        async with self._changing:
            session = await self._find_or_create()
            branch = await self._store.branches.fork(session.active_branch, state=0)
            await self._store.turns.record(branch.id, exchanges_of(messages))
            await self._store.sessions.activate(session.id, branch.id)

    async def clear(self) -> None:
        """Go on with no messages; where there are none, nothing changes."""
        async with self._changing:
            session = await self._find()
            if session is not None and await self._store.turns.history(session.active_branch, limit=1):
                await self._store.branches.rollback(session.active_branch, state=0)

    async def fold(self, folds: Broadcast) -> folding.Fold | None:
        """Fold what is too long, telling ``folds`` of it; None: nothing can leave, or it would not pay."""
        session = await self._find()
        return None if session is None else await folding.fold(replace(self._parts, folds=folds), session.active_branch)

    async def truncate(self, most: int) -> int:
        """Let the oldest exchanges leave until the others take ``most`` tokens; tell how many messages left.

        What leaves is summarised by rule, whatever the librarian: it has failed. The last exchange stays, and what
        stays begins with a question.
        """
        standing = await self.read()
        leaves = self._oldest(standing, most)
        if leaves == 0 or standing.head is None:
            return 0
        leaving = [message for turn in standing.turns[:leaves] for message in messages_of(turn)]
        before = self.measure.messages(standing.messages)
        summary = await self._told(standing.head, standing.turns[: leaves + 1])
        candidate = FoldCandidate(
            branch_id=standing.branch_id,
            base_covers=standing.head.covers_turn_seq,
            base_summary=folding.fingerprint(standing.head.summary),
            covers_turn_seq=standing.turns[leaves - 1].turn_seq,
            summary=summary,
            case="truncate",
            tokens_before=before,
            tokens_after=before - self.measure.messages(leaving) + self.measure.text(summary),
            created_at=now(),
        )
        return 0 if await folding.commit(self._parts, candidate) is None else len(leaving)

    def _oldest(self, standing: Standing, most: int) -> int:
        """Tell how many of the oldest turns have to leave, or can."""
        turns = standing.turns
        last = 0 if standing.head is None else standing.head.turn_seq
        costs = [self.measure.messages(messages_of(turn)) for turn in turns]
        gone = [0, *accumulate(costs)]
        places = [place for place in range(1, len(turns)) if opens(turns[place]) and turns[place - 1].turn_seq <= last]
        enough = [place for place in places if gone[-1] - gone[place] <= most]
        return min(enough, default=max(places, default=0))

    async def _told(self, head: State, turns: Sequence[Turn]) -> str:
        """Fold these turns but the last, which stays, into the summary; within its budget, without a model."""
        shown = redact_turns(shown_turns(turns[:-1], turns[-1]), self._parts.setup.redactor)
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
            except AlreadyExists:  # somebody was quicker: it is found now
                continue
        return session

    async def _stands(self, branch_id: BranchId) -> Standing:
        """Read the summary first: a fold that is committed meanwhile hides nothing."""
        head = await self._store.states.head(branch_id)
        branch = await self._store.branches.get(branch_id)
        end = head.turn_seq if branch is None else branch.last_turn_seq
        turns = await read_back(self._parts, branch_id, after=head.covers_turn_seq, before=end + 1)
        return Standing(branch_id=branch_id, head=head, turns=turns)


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
    """Give what was said in a turn, each by who said it, in words."""
    return [say(ROLES[one.role], one.content) for one in logged(turn)]


def opens(turn: Turn) -> bool:
    """Tell whether a turn can be read without the one before."""
    first = turn.user_message
    return first.role == "user" and not any(isinstance(block, ToolResultBlock) for block in first.blocks)


async def _patiently(write: Callable[[], Awaitable[T]], seconds: float) -> T:
    """Write once the engine is done with a turn of the same branch: a matter of moments, as a rule."""
    clock = asyncio.get_running_loop().time
    end = clock() + seconds
    while True:
        try:
            return await write()
        except OutOfOrder:
            if clock() > end:
                raise
        await asyncio.sleep(LOOK_SECONDS)
