"""Whatever a ledger holds, ``cix`` carries all of it: exported, imported and exported again, it is the same bytes."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from itertools import zip_longest
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextinfinity.domain.ids import new_id, now
from contextinfinity.domain.memory import MemoryKind, NewMemory
from contextinfinity.domain.message import (
    AssistantItem,
    ContentBlock,
    ImageBlock,
    Message,
    TextBlock,
    ToolCallItem,
    ToolOutputItem,
    TranscriptItem,
    blob_source,
    say,
)
from contextinfinity.domain.plan import Plan, PlanSection
from contextinfinity.domain.session import Branch, NewSession, Owner
from contextinfinity.domain.state import StateDraft
from contextinfinity.domain.transfer import ImportedMessage, ImportedTurn
from contextinfinity.domain.turn import (
    UNFINISHED,
    Exchange,
    NewStep,
    NewTurn,
    Paused,
    Problem,
    StepEnd,
    StepOutcome,
    Turn,
    TurnEnd,
)
from contextinfinity.errors import ContextInfinityError
from contextinfinity.exchange.exporter import ExportFormat, export_sessions, sessions_of
from contextinfinity.exchange.importer import import_file
from contextinfinity.storage.contract import Store
from contextinfinity.storage.sqlite.integrity import Inspection
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.builders import WORKER, commit_turn
from tests.ledgers import ledger_url, open_store
from tests.properties.nouns import JSON, values
from tests.sizes import sized

pytestmark = pytest.mark.req("CLI-3")

OWNERS = (Owner(), Owner(user_id="ann\u202eö", org_id="acme"))
ODD = (
    "",
    "\x00\ufeff\u2028\u202e\ufffd\ufffe",
    "👩‍👩‍👧 e\u0301 ﷽",
    "```\n---\n### 1\n> a\r\n",
    '{"sha256":"' + "ab" * 32 + '"}',
    "wörter " * 99,
)
IMAGES = (b"\x89PNG\r\n\x1a\nfirst", bytes(range(256)))

numbers = st.integers(0, 30)
words = st.text(max_size=20) | st.sampled_from(ODD)
plain = words.map(lambda text: (TextBlock(text=text),))
blocks = plain | st.lists(values(ContentBlock) | st.sampled_from(IMAGES), min_size=1, max_size=3)
items = st.lists(values(TranscriptItem), max_size=2).map(tuple)
notes = st.none() | st.dictionaries(st.text(max_size=9), JSON, max_size=2)
subjects = st.sampled_from(["", "home"])


def step(verb: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    return st.tuples(st.just(verb), st.fixed_dictionaries(fields))


OPEN = step(
    "open",
    owner=st.sampled_from(OWNERS),
    title=st.none() | words,
    system=st.none() | words,
    metadata=notes,
    is_chat=st.booleans(),
)
CONVERSE = step(
    "converse",
    branch=numbers,
    said=blocks,
    rounds=st.lists(st.tuples(items, JSON), max_size=2),
    answer=st.none() | blocks,
    end=st.sampled_from(["completed"] * 4 + ["incomplete", "paused", "failed", "cancelled", "clarification", "left"]),
    outcome=values(StepOutcome),
    raw=st.none() | st.binary(max_size=9),
    metadata=notes,
    is_committed=st.sampled_from([True, True, True, False]),
)
STEPS = st.lists(
    CONVERSE
    | step("record", branch=numbers, said=words, answer=st.none() | words)
    | step("fork", branch=numbers, at=numbers, is_rollback=st.booleans())
    | step("fork_from_state", branch=numbers, state=numbers)
    | step("fold", branch=numbers, summary=words, covers=numbers, is_undone=st.booleans())
    | step("pin", branch=numbers, fact=words, unpinned=numbers)
    | step("arrive", branch=numbers, said=st.lists(st.tuples(st.booleans(), blocks), max_size=3), details=notes)
    | step("arrive_in_a_tree", turn=numbers, said=plain, rounds=items)
    | step("remember", owner=st.sampled_from(OWNERS), content=words, kind=values(MemoryKind), about=subjects)
    | step("draw", turn=numbers, content=words, is_local=st.booleans(), about=subjects)
    | step("delete_turn", turn=numbers)
    | step("retry", turn=numbers)
    | OPEN,
    min_size=4,
    max_size=20,
)


class Author:
    """Writes into a ledger what a list of steps says; what the ledger refuses is left out."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.branches: list[Branch] = []
        self.turns: list[Turn] = []

    async def write(self, verb: str, given: dict[str, Any]) -> None:
        with suppress(ContextInfinityError):
            await getattr(self, verb)(**given)

    def branch(self, number: int) -> Branch:
        """One of the branches, the newest ones more often."""
        return self.branches[-1 - number % min(len(self.branches), 1 + number)]

    def turn(self, number: int) -> Turn:
        if not self.turns:
            raise ContextInfinityError("Nothing was said.")
        return self.turns[number % len(self.turns)]

    async def open(self, owner: Owner, title: Any, system: Any, metadata: Any, is_chat: bool) -> None:
        new = NewSession(
            owner=owner,
            title=title,
            system=system,
            metadata=metadata or {},
            external_id=f"name {new_id()}" if title else None,
            kind="chat" if is_chat else "thread",
            ttl_hours=24.5 if is_chat else None,
        )
        session = await self.store.sessions.create(new)
        self.branches += await self.store.branches.list(session.id)

    async def converse(self, branch: int, said: Any, rounds: Any, answer: Any, end: Any, **rest: Any) -> None:
        """Carry a turn through tool calls to any end, or leave it in the middle."""
        turns, message = self.store.turns, Message(role="user", blocks=await self._shown(said))
        new = NewTurn(branch_id=self.branch(branch).id, message=message, owner=WORKER, metadata=rest["metadata"])
        turn = await turns.accept(new)
        self.turns.append(turn)
        await turns.prepare(turn.id, WORKER)
        sha256 = await self.store.contents.keep_text(f"tools of {branch}")
        plan = Plan(sections=(PlanSection(name="tools", tokens=1, source={"sha256": sha256}),), front=sha256)
        step = NewStep(id=new_id(), step_index=0, provider="p", model_id="m", plan=plan, texts=("a text",))
        await turns.open_step(turn.id, WORKER, step)
        for number, (made, output) in enumerate(rounds, 1):
            call = ToolCallItem(call_id=f"c{number}", name="look", arguments=output)
            closes = StepEnd(step_id=step.id, outcome=Paused(reason="tools"), items=(*made, call), response=rest["raw"])
            result = ToolOutputItem(call_id=f"c{number}", output=output, is_error=not output)
            step = msgspec.structs.replace(step, id=new_id(), step_index=number, closes=closes, inputs=(result,))
            await turns.open_step(turn.id, WORKER, step)
        if end == "left":
            return
        reply = None if answer is None else Message(role="assistant", blocks=await self._shown(answer))
        last = () if reply is None else (AssistantItem(blocks=reply.blocks),)
        ended = TurnEnd(
            outcome=end,
            answer=reply,
            step=StepEnd(step_id=step.id, outcome=rest["outcome"], items=last, response=rest["raw"], displayed_bytes=3),
            error=Problem(code="lost", message="ö" * 9) if end == "failed" else None,
            metadata={"more": rest["metadata"]},
            latency_ms={"respond": 1.5},
        )
        await (turns.fail if end == "failed" else turns.finalise)(turn.id, WORKER, ended)
        if end != "failed" and rest["is_committed"]:
            await commit_turn(self.store, turn)
            if branch % 2:
                await self.store.chunks.index(turn.id, ())

    async def retry(self, turn: int) -> None:
        earlier = self.turn(turn)
        new = NewTurn(branch_id=earlier.branch_id, message=earlier.user_message, retry_of=earlier.id)
        self.turns.append(await self.store.turns.accept(new))

    async def record(self, branch: int, said: str, answer: str | None) -> None:
        exchange = Exchange(message=say("user", said), answer=None if answer is None else say("assistant", answer))
        self.turns += await self.store.turns.record(self.branch(branch).id, [exchange])

    async def fork(self, branch: int, at: int, is_rollback: bool) -> None:
        now_there = await self.store.branches.get(self.branch(branch).id)
        assert now_there is not None
        place = at % (now_there.last_turn_seq + 1)
        if is_rollback:
            self.branches.append(await self.store.branches.rollback(now_there.id, to=place))
        else:
            self.branches.append(await self.store.branches.fork(now_there.id, at=place, label=f"{ODD[at % len(ODD)]}"))

    async def fork_from_state(self, branch: int, state: int) -> None:
        head = await self.store.states.head(self.branch(branch).id)
        self.branches.append(await self.store.branches.fork(head.branch_id, state=state % (head.state_seq + 1)))

    async def fold(self, branch: int, summary: str, covers: int, is_undone: bool) -> None:
        head = await self.store.states.head(self.branch(branch).id)
        covered = head.covers_turn_seq + covers % (head.turn_seq - head.covers_turn_seq + 1)
        for reason, text, up_to in (("fold", summary, covered), ("unfold", "", 0))[: 1 + is_undone]:
            draft = StateDraft(branch_id=self.branch(branch).id, reason=reason, summary=text, covers_turn_seq=up_to)  # type: ignore[arg-type]
            await self.store.states.commit(draft, expected_head=None)

    async def pin(self, branch: int, fact: str, unpinned: int) -> None:
        await self.store.states.pin(self.branch(branch).id, fact)
        await self.store.states.unpin(self.branch(branch).id, unpinned)

    async def arrive(self, branch: int, said: Any, details: Any) -> None:
        arrivals = [
            ImportedMessage(
                message=Message(role="user" if asks else "assistant", blocks=await self._shown(given)),
                place=place,
                external_id=f"m{place}" if place % 2 else None,
                created_at=now() - timedelta(days=place),
                details=details,
                model="elsewhere",
            )
            for place, (asks, given) in enumerate(said)
        ]
        await self.store.imports.add(self.branch(branch).id, arrivals)

    async def arrive_in_a_tree(self, turn: int, said: Any, rounds: Any) -> None:
        above, message = self.turn(turn), Message(role="user", blocks=said)
        origin = ImportedMessage(message=message, place=turn, external_id=f"tree {turn}")
        new = ImportedTurn(
            id=new_id(),
            parent=above.id,
            message=message,
            answer=say("assistant", "ö"),
            rounds=rounds,
            messages=(origin,),
        )
        await self.store.imports.add_turns(above.session_id, [new])

    async def remember(self, owner: Owner, content: str, kind: Any, about: str) -> None:
        new = NewMemory(owner=owner, content=content[:400], said_at=now(), kind=kind, about=about, origin="person")
        await self.store.memories.add(new)

    async def draw(self, turn: int, content: str, is_local: bool, about: str) -> None:
        source = await self.store.turns.get(self.turn(turn).id)
        if source is None or source.phase in UNFINISHED:
            return
        session = await self.store.sessions.get(source.session_id)
        assert session is not None
        new = NewMemory(
            owner=session.owner,
            content=content[:400],
            said_at=now(),
            thread=session.id if is_local else None,
            about=about,
            weight=turn,
            confidence=0.25,
            span=(0, 3),
        )
        await self.store.memories.replace_extracted(source.id, [new])

    async def delete_turn(self, turn: int) -> None:
        await self.store.deletions.delete_turn(self.turn(turn).id)

    async def _shown(self, given: Sequence[Any]) -> tuple[ContentBlock, ...]:
        """Return blocks, with those that are bytes as images that the store has."""
        return tuple([await self._image(one) if isinstance(one, bytes) else one for one in given])

    async def _image(self, data: bytes) -> ImageBlock:
        sha256 = await self.store.contents.keep_blob(data, "image/png")
        return ImageBlock(media_type="image/png", source=blob_source(sha256))


def differing(one: list[bytes], other: list[bytes]) -> list[tuple[bytes | None, bytes | None]]:
    return [pair for pair in zip_longest(one, other) if pair[0] != pair[1]]


@asynccontextmanager
async def written(first: Any, steps: Any) -> AsyncIterator[Store]:
    store = SqliteStore(None)
    try:
        author = Author(store)
        await author.write(*first)
        for verb, fields in steps:
            await author.write(verb, fields)
        yield store
    finally:
        await store.close()


async def check_copy(store: Store, sessions: Sequence[str], owner: Owner, *, is_alone: bool) -> None:
    """Import what a ledger exports into an empty one, and compare what both export."""

    async def out(of: Store, form: ExportFormat) -> list[bytes]:
        pieces = export_sessions(of, sessions, form, owner=None if is_alone else owner)
        return b"".join([piece async for piece in pieces]).split(b"\n")

    with tempfile.TemporaryDirectory() as folder:
        file, ledger = Path(folder) / "out.cix.jsonl", Path(folder) / "ledger.db"
        file.write_bytes(b"\n".join(exported := await out(store, "cix")))
        copy = open_store(ledger)
        done = await import_file(copy, file, owner=owner)
        assert [bad for one in done.sessions for bad in one.bad] == []
        assert await sessions_of(copy, owner) == list(sessions)
        for form in get_args(ExportFormat):
            assert differing(await out(copy, form), await out(store, form)) == []
        again = await import_file(copy, file, owner=owner)
        assert sum(one.added for one in again.sessions) == 0
        assert await out(copy, "cix") == exported
        await copy.close()
        if ledger_url(ledger) is not None:  # the inspection reads a SQLite file
            return
        with Inspection(ledger) as inspection:
            found = list(inspection.violations(dead=(), progress=lambda *_: None))
        assert not found, found


@given(first=OPEN, steps=STEPS)
@settings(max_examples=sized(40, 1_000))
def test_a_ledger_that_imported_an_export_exports_the_same(first: Any, steps: Any) -> None:
    async def moved() -> None:
        async with written(first, steps) as store:
            for owner in OWNERS:
                sessions = await sessions_of(store, owner)
                await check_copy(store, sessions, owner, is_alone=False)
                if len(sessions) > 1:
                    await check_copy(store, sessions[-1:], owner, is_alone=True)

    asyncio.run(moved())
