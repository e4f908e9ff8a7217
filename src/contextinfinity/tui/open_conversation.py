"""The conversation on the screen: where it is, what is selected in it, and what goes with the next message."""

from __future__ import annotations

from collections.abc import Coroutine
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeVar

from contextinfinity.client.references import short
from contextinfinity.client.results import ShownBranch, ShownThread, ShownTurn
from contextinfinity.domain.ids import BranchId
from contextinfinity.domain.search import Hit
from contextinfinity.domain.turn import Phase
from contextinfinity.errors import InvalidInput
from contextinfinity.tui.client_thread import ClientThread
from contextinfinity.tui.turn_scroll import TurnPages

if TYPE_CHECKING:
    from contextinfinity.client.contract import Client, SendFields

T = TypeVar("T")

NEW = "new"


class OpenConversation:
    """One thread and branch, or a conversation that begins with the next message (``thread_id`` None)."""

    def __init__(self, thread: ClientThread) -> None:
        self.thread = thread
        self.model: str | None = None
        """The model that was chosen; None: the router chooses."""
        self.shown: ShownThread | None = None
        self.branch: ShownBranch | None = None
        self.pages: TurnPages | None = None
        self.newest: tuple[ShownTurn, ...] = ()
        self.selected: int | None = None
        """The number of the selected turn; None: the newest one."""
        self.is_opening = True
        """Whether it is being read: panels wait for it."""
        self.attached: list[Hit] = []
        """What was found and goes with the next message."""

    @property
    def client(self) -> Client:
        """The client; its calls are made with ``call``."""
        return self.thread.client

    async def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a call of the client and return its result."""
        return await self.thread.call(coroutine)

    @property
    def thread_id(self) -> str | None:
        """The conversation's id."""
        return None if self.shown is None else self.shown.thread_id

    @property
    def branch_id(self) -> BranchId | None:
        """The branch's id."""
        return None if self.branch is None else self.branch.branch_id

    @property
    def title(self) -> str:
        """The title of the conversation on the screen."""
        return "New conversation" if self.shown is None else self.shown.about or "Untitled"

    async def turn(self) -> ShownTurn | None:
        """Return the turn that panels are about: the selected one, else the newest."""
        if self.selected is not None and self.pages is not None:
            return await self.pages.find(self.selected)
        return self.newest[-1] if self.newest else None

    @property
    def pending(self) -> tuple[ShownTurn, ...]:
        """Turns that are answered and not yet committed."""
        return tuple(turn for turn in self.newest if turn.phase == Phase.RESPONSE_FINALIZED)

    @property
    def running(self) -> ShownTurn | None:
        """The turn at the end that is being answered; of several, the one that was asked first."""
        waiting = [*takewhile(lambda turn: turn.outcome is None, reversed(self.newest))]
        return waiting[-1] if waiting else None

    async def choose(self, model: str | None) -> None:
        """Let a model answer from now on; raises ``InvalidInput`` if there is none of that name."""
        if model is not None and model not in (models := await self.call(self.client.conversations.models())):
            known = ", ".join(sorted(models))
            raise InvalidInput(f"There is no model {model!r}; there are: {known}.", hint="Name it under [models].")
        self.model = model

    async def open(self, thread_id: str | None, branch_id: BranchId | None = None) -> None:
        """Go to a conversation, on its active branch unless another is named; None begins a new one.

        When it cannot be read, nothing changes.
        """
        shown, branch, pages, newest = None, None, None, tuple[ShownTurn, ...]()
        self.is_opening = True
        try:
            if thread_id is not None:
                shown = await self.call(self.client.threads.get(thread_id, self.thread.owner))
                branch, pages, newest = await self._read(shown, branch_id or shown.branch_id, None)
        finally:
            self.is_opening = False
        self.shown, self.selected = shown, None
        self._take(branch, pages, newest)
        self.attached.clear()

    async def refresh(self, *, below: int | None = None) -> bool:
        """Read the branch and its newest turns again; return whether they changed.

        ``below``: the turns before the one that is being answered.
        """
        shown, before = self.shown, (self.branch, self.newest)
        if shown is None:
            return False
        branch, pages, newest = await self._read(shown, self.branch_id, self.pages)
        if self.shown is not shown:  # another conversation was opened meanwhile
            return False
        self._take(branch, pages, newest)
        if below is not None:
            pages.last = min(pages.last, below - 1)
        return before != (branch, newest)

    async def _read(
        self, shown: ShownThread, branch_id: BranchId | None, pages: TurnPages | None
    ) -> tuple[ShownBranch, TurnPages, tuple[ShownTurn, ...]]:
        branches = await self.call(self.client.threads.branches(shown.thread_id))
        branch = next(one for one in branches if one.branch_id == branch_id or (branch_id is None and one.active))
        pages = pages or TurnPages(self._reader(shown.thread_id, branch.branch_id), branch.last_turn_seq)
        return branch, pages, await pages.newest(branch.last_turn_seq)

    def _take(self, branch: ShownBranch | None, pages: TurnPages | None, newest: tuple[ShownTurn, ...]) -> None:
        self.branch, self.pages, self.newest = branch, pages, newest
        if branch is not None and pages is not None:  # a turn that is being answered is drawn as it comes
            pages.last = branch.last_turn_seq if self.running is None else self.running.turn_seq - 1

    def send_fields(self) -> SendFields:
        """Return the options of the next message."""
        fields: SendFields = {"attach": tuple(hit.chunk_id for hit in self.attached)}
        if self.thread.user_id is not None:
            fields["user_id"] = self.thread.user_id
        if self.branch_id is not None:
            fields["branch_id"] = self.branch_id
        if self.model is not None:
            fields["model"] = self.model
        return fields

    def _reader(self, thread_id: str, branch_id: BranchId) -> Any:
        async def read(before: int, limit: int) -> tuple[ShownTurn, ...]:
            shown = self.client.conversations.show(thread_id, branch_id=branch_id, limit=limit, before=before)
            return (await self.call(shown)).turns

        return read


def branch_name(branch: ShownBranch) -> str:
    """Name a branch as people do."""
    return branch.label or short(branch.branch_id)
