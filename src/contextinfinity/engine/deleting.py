"""Delete a turn, a conversation, a user or everything, and prove it.

With ``scan``, the result lists each place that was searched for what was deleted. ``rows``: every table, by ids.
``files``: also the bytes of every file, for samples of the text that are taken before the deletion. What files contain
says something about all users, so only a caller with direct access to them may ask for that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Literal, TypeAlias

import msgspec

from contextinfinity.domain.deletion import Deleted, ScannedPlace
from contextinfinity.domain.ids import Position, SessionId
from contextinfinity.domain.session import Owner, Session
from contextinfinity.domain.transfer import MessageTransfer
from contextinfinity.domain.turn import Turn
from contextinfinity.engine.cleanup import Cleaner
from contextinfinity.errors import BranchBusy, NotFound
from contextinfinity.storage.contract import Store
from contextinfinity.storage.deletion_scan import MOST_SAMPLES, samples_of
from contextinfinity.text.plurals import counted

PAGE = 200

DeletionScan: TypeAlias = Literal["rows", "files"]
"""What is searched for deleted text."""


class Deleting:
    """The deletions of an engine; ``forget`` clears what it holds in memory."""

    def __init__(self, store: Store, cleaner: Cleaner, forget: Callable[[], None]) -> None:
        self._store = store
        self._cleaner = cleaner
        self._forget = forget

    async def conversation(self, session: Session, *, scan: DeletionScan | None = None) -> Deleted:
        """Delete a conversation with everything derived from it."""
        samples = await self._samples(session.id) if scan == "files" else None
        turns = await self._cleaner.delete(session.id)
        self._forget()
        places = await self._cleaner.scan(samples, (session.id,)) if scan else ()
        remaining = await self._cleaner.remaining()
        return Deleted(thread_id=session.id, conversations=1, turns=turns, remaining=remaining, places=places)

    async def turn(self, turn: Turn, *, scan: DeletionScan | None = None) -> Deleted:
        """Delete one finished turn with everything derived from it; later turns stay."""
        texts = [turn.user_message.rendered_text, *([turn.answer.rendered_text] if turn.answer else [])]
        await self._cleaner.delete_turn(turn)
        self._forget()
        places = (
            await self._cleaner.scan(samples_of(texts) if scan == "files" else None, (), (turn.id,)) if scan else ()
        )
        remaining = await self._cleaner.remaining()
        return Deleted(thread_id=turn.session_id, turn_id=turn.id, turns=1, remaining=remaining, places=places)

    async def user(self, owner: Owner, *, scan: DeletionScan | None = None) -> Deleted:
        """Delete all conversations and memories of a user; those with a running answer stay and are named."""
        deleted = await self._users((owner,), scan=scan)
        return msgspec.structs.replace(deleted, user_id=owner.user_id)

    async def everything(self, *, scan: DeletionScan | None = None) -> Deleted:
        """Delete all conversations and memories of all users."""
        return await self._users(await self._store.transfers.owners(), scan=scan)

    async def _users(self, owners: Sequence[Owner], *, scan: DeletionScan | None) -> Deleted:
        samples: list[str] = []
        deleted: list[SessionId] = []
        busy: list[str] = []
        turns = memories = 0
        for owner in owners:
            async for session in self._sessions(owner):
                if scan == "files" and len(samples) < MOST_SAMPLES:
                    samples += await self._samples(session.id)
                try:
                    turns += await self._cleaner.delete(session.id)
                    deleted.append(session.id)
                except BranchBusy as error:
                    busy.append(error.message)
                except NotFound:  # another process deleted it meanwhile
                    continue
            async for said in self._forgotten(owner):
                memories += 1
                samples += samples_of((said,)) if scan == "files" and len(samples) < MOST_SAMPLES else ()
        await self._cleaner.sweep()
        self._forget()
        places = await self._scanned(owners, samples if scan == "files" else None, deleted) if scan else ()
        return Deleted(
            conversations=len(deleted),
            turns=turns,
            memories=memories,
            remaining=(*busy, *await self._cleaner.remaining()),
            places=places,
        )

    async def _scanned(
        self, owners: Sequence[Owner], samples: Sequence[str] | None, gone: Sequence[SessionId]
    ) -> tuple[ScannedPlace, ...]:
        whose = {owner.user_id for owner in owners}
        tokens = [one for one in await self._store.tokens.list() if one.owner.user_id in whose]
        note = "Tokens hold no text; `cix token revoke ID` ends them." if tokens else ""
        listed = ScannedPlace(place="tokens", scanned=counted(len(tokens), "token"), note=note)
        return (*await self._cleaner.scan(samples, gone), listed)

    async def _sessions(self, owner: Owner) -> AsyncIterator[Session]:
        after: Position | None = None
        while page := await self._store.sessions.list(owner, limit=PAGE, after=after):
            after = page[-1].position
            for session in page:
                yield session

    async def _forgotten(self, owner: Owner) -> AsyncIterator[str]:
        """Forget all memories of a user, and yield what they said."""
        while page := await self._store.memories.list(owner, superseded=True, limit=PAGE):
            if not await self._store.memories.forget(owner, [memory.id for memory in page]):
                return
            for memory in page:
                yield memory.content

    async def _samples(self, session_id: SessionId) -> list[str]:
        page = await self._store.transfers.turns(session_id, limit=PAGE)
        said = (_text(message) for turn in page for message in (turn.question, turn.answer) if message is not None)
        return samples_of(said)


def _text(message: MessageTransfer) -> str:
    """Return a message's text, or the longest text of its blocks."""
    if message.text is not None:
        return message.text
    found = [""]
    waiting = [message.blocks]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list | tuple):
            waiting.extend(value)
    return max(found, key=len)
