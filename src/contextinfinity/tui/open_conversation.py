"""The conversation on the screen: where it is, what is selected in it, and what goes with the next message."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from contextinfinity.client.references import short
from contextinfinity.client.results import ShownBranch, ShownThread, ShownTurn
from contextinfinity.domain.ids import BranchId
from contextinfinity.domain.search import Hit
from contextinfinity.domain.turn import Phase
from contextinfinity.tui.client_thread import ClientThread
from contextinfinity.tui.turn_pages import TurnPages

if TYPE_CHECKING:
    from contextinfinity.client.contract import Client, SendFields

T = TypeVar("T")

NEW = "new"


class OpenConversation:
    """One thread and branch, or a conversation that begins with the next message (``thread_id`` None)."""

    def __init__(self, thread: ClientThread, *, model: str | None = None) -> None:
        self.thread = thread
        self.model = model
        """The model that was chosen; None: the router chooses."""
        self.shown: ShownThread | None = None
        self.branch: ShownBranch | None = None
        self.pages: TurnPages | None = None
        self.newest: tuple[ShownTurn, ...] = ()
        self.selected: int | None = None
        """The number of the selected turn; None: the newest one."""
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
        """What the conversation is called on the screen."""
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
        """The turn that is being answered."""
        return next((turn for turn in reversed(self.newest) if turn.outcome is None), None)

    async def open(self, thread_id: str | None, branch_id: BranchId | None = None) -> None:
        """Go to a conversation, on its active branch unless another is named; None begins a new one."""
        self.selected, self.newest, self.pages, self.branch, self.shown = None, (), None, None, None
        self.attached.clear()
        if thread_id is not None:
            self.shown = await self.call(self.client.threads.get(thread_id, self.thread.owner))
            await self.refresh(branch_id or self.shown.branch_id)

    async def refresh(self, branch_id: BranchId | None = None, *, below: int | None = None) -> None:
        """Read the branch and its newest turns again; ``below``: the turns before the one that is being answered."""
        shown = self.shown
        if shown is None:
            return
        wanted = branch_id or self.branch_id
        branches = await self.call(self.client.threads.branches(shown.thread_id))
        if self.shown is not shown:  # another conversation was opened meanwhile
            return
        branch = next(one for one in branches if one.branch_id == wanted or (wanted is None and one.active))
        if self.pages is None or self.branch_id != branch.branch_id:
            self.pages = TurnPages(self._reader(shown.thread_id, branch.branch_id), branch.last_turn_seq)
        self.branch, pages = branch, self.pages
        pages.last = branch.last_turn_seq if below is None else min(branch.last_turn_seq, below - 1)
        await pages.find(pages.last)
        newest = await pages.newest()
        if self.pages is pages:
            self.newest = newest

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
