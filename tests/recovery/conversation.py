"""A short conversation that records every acknowledgement, for tests that break the disk under it.

Every verb that writes is in it, two at a time where two can be, so that they share a commit. With ``again`` a
verb that fails is asked for once more: after a fault that happened once, that has to succeed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import apsw

from contextinfinity.domain.ids import BranchId, new_id
from contextinfinity.domain.job import Job
from contextinfinity.domain.message import say
from contextinfinity.domain.search import Chunk
from contextinfinity.domain.session import Branch, NewSession
from contextinfinity.domain.state import State
from contextinfinity.domain.turn import NewStep, NewTurn, Turn
from contextinfinity.errors import LedgerError
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.builders import (
    WORKER,
    broken_off,
    commit_turn,
    exchange,
    new_step,
    new_turn,
    slice_of,
    turn_end,
)

T = TypeVar("T")
Verb = Callable[[], Awaitable[T]]

TOO_LONG = 20.0
"""Seconds after which a verb hangs. None of them takes a hundredth of that."""


@dataclass
class Heard:
    """What the store acknowledged, each thing in its newest form, and the errors that reached the caller."""

    turns: dict[str, Turn] = field(default_factory=dict)
    branches: dict[str, Branch] = field(default_factory=dict)
    states: dict[str, State] = field(default_factory=dict)
    chunks: dict[str, Chunk] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    done: list[Job] = field(default_factory=list)
    errors: list[LedgerError] = field(default_factory=list)


class Conversation:
    """What a worker and a few users do with a ledger."""

    def __init__(self, store: SqliteStore, *, again: bool = False, vfs: str | None = None, rounds: int = 1) -> None:
        self.heard = Heard()
        self._store = store
        self._again = again
        self._vfs = vfs
        self._rounds = rounds

    async def talk(self) -> Heard:
        """Run the conversation to its end, or to the first error."""
        new = NewSession(id=new_id(), title="A talk")
        session = await self.ask(lambda: self._store.sessions.create(new))
        for number in range(1, self._rounds + 1):
            await self._round(session.active_branch, number)
        return self.heard

    async def ask(self, verb: Verb[T]) -> T:
        """Ask the store for something; note an error, and perhaps ask again."""
        try:
            async with asyncio.timeout(TOO_LONG):
                return self._note(await verb())
        except LedgerError as error:
            self.heard.errors.append(error)
            if not self._again:
                raise
        async with asyncio.timeout(TOO_LONG):
            return self._note(await verb())

    async def at_once(self, *verbs: Verb[Any]) -> list[Any]:
        """Ask for two things that are written in one commit: the writer is held until both wait."""
        release = threading.Event()
        held = self._store.database.writing(lambda _: release.wait(TOO_LONG))
        asked = [asyncio.ensure_future(self.ask(verb)) for verb in verbs]
        await asyncio.sleep(0)
        release.set()
        results = await asyncio.gather(*asked, return_exceptions=True)
        with suppress(LedgerError):
            await asyncio.wrap_future(held)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return results

    def _note(self, told: T) -> T:
        match told:
            case Turn():
                self.heard.turns[told.id] = told
            case Branch():
                self.heard.branches[told.id] = told
            case State():
                self.heard.states[told.id] = told
            case Chunk():
                self.heard.chunks[told.id] = told
            case tuple():
                for each in told:
                    self._note(each)
        return told

    async def _round(self, branch: BranchId, number: int) -> None:
        store = self._store
        what = new_turn_with_id(branch, f"What is the code word of round {number}?")
        who = new_turn_with_id(branch, f"And who knows the code word of round {number}?")
        accepted = await self.at_once(lambda: store.turns.accept(what), lambda: store.turns.accept(who))
        turn, later = sorted(accepted, key=lambda turn: turn.turn_seq)  # one that failed alone came in after the other
        await self._answer(turn, number)
        self._checkpoint(store.database.path)
        fork = await self.ask(lambda: store.branches.fork(branch, at=turn.turn_seq, label=f"fork {number}"))
        await self._finish(turn)
        said = [exchange(f"{name} asks in round {number}", "and is answered") for name in ("Ada", "Bob")]
        await self.at_once(
            lambda: store.turns.record(fork.id, said), lambda: store.turns.fail(later.id, WORKER, broken_off())
        )
        await self.ask(lambda: store.turns.log(fork.id, say("user", f"Who is logged in round {number}?")))
        await self.ask(lambda: store.turns.log(fork.id, say("assistant", "Everybody.")))

    async def _answer(self, turn: Turn, number: int) -> None:
        """Prepare, open a step, finalise; a fact is pinned and a text kept on the way."""
        store, step = self._store, new_step()
        await self.ask(lambda: store.turns.prepare(turn.id, WORKER))
        await self.at_once(
            lambda: store.turns.open_step(turn.id, WORKER, step),
            lambda: store.states.pin(turn.branch_id, f"The code word of round {number} is heron {number}."),
        )
        body = f"a text worth keeping in round {number}"
        await self.at_once(lambda: self._finalise(turn, step), lambda: store.contents.keep_text(body))
        self.heard.texts.append(body)

    async def _finalise(self, turn: Turn, step: NewStep) -> Turn:
        return await self._store.turns.finalise(turn.id, WORKER, turn_end(step, "It is heron, and heron it stays."))

    async def _finish(self, turn: Turn) -> None:
        """Do the turn's jobs: commit it, index it, remember it."""
        store = self._store
        slices = [slice_of(turn.user_message.rendered_text, "code word")]
        work: dict[str, Verb[object]] = {
            "summarize_turn": lambda: commit_turn(store, turn),
            "index_turn": lambda: store.chunks.index(turn.id, slices),
            "remember_turn": lambda: store.jobs.backlog(),
        }
        for _ in work:
            job = await self.ask(lambda: store.jobs.claim(WORKER))
            assert job is not None, "each step of a turn leaves the job for the next"
            await self.ask(work[job.job_type])
            await self.ask(lambda job=job: store.jobs.complete(job.id, WORKER))  # type: ignore[misc]
            self.heard.done.append(job)

    def _checkpoint(self, path: Path) -> None:
        """Checkpoint the write-ahead log, as another process on the ledger does; the disk may refuse that."""
        with suppress(apsw.Error):
            other = apsw.Connection(str(path), vfs=self._vfs)
            with suppress(apsw.Error):
                other.wal_checkpoint()
            other.close()


def new_turn_with_id(branch: BranchId, text: str) -> NewTurn:
    """Make a message that can be sent twice and arrives once."""
    plain = new_turn(branch, text)
    return NewTurn(branch_id=branch, message=plain.message, owner=plain.owner, id=new_id())
