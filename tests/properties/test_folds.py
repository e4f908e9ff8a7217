"""Whatever happens to a conversation, each of its turns is verbatim in the prompt or covered by the summary."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextinfinity.domain.prompt import Prompt, ProviderRequest
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.engine_setup import Setup
from contextinfinity.engine.model_choice import Model, Models
from contextinfinity.errors import NotFound, Refused
from contextinfinity.prompt.measure import Ceilings
from contextinfinity.providers.scripted import ScriptedProvider
from contextinfinity.storage.journal import JournalFolder
from contextinfinity.storage.sqlite.store import SqliteStore
from tests.sizes import sized

CEILINGS = Ceilings(fold_trigger=240, verbatim_window=60, summary=120)
Step = tuple[str, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "ask", "ask", "fold", "preview", "undo", "pin", "unpin", "fork", "rollback"]),
        st.integers(1, 60),
    ),
    min_size=8,
    max_size=30,
)


@dataclass
class Talk:
    """A conversation, what the model was shown last, and what it should have been shown."""

    folder: Path
    prompts: list[Prompt] = field(default_factory=list)
    thread: str = "new"
    count: int = 0

    def __post_init__(self) -> None:
        model = Model(name="m", provider=ScriptedProvider(self._script), model_id="m")
        setup = Setup(ceilings=CEILINGS, fold_pause=timedelta())
        store, journals = SqliteStore(None), JournalFolder(self.folder / "streams")
        self.engine = Engine(store, journals, Models(by_name={"m": model}, default="m"), setup)

    def _script(self, request: ProviderRequest) -> str:
        self.prompts.append(request.prompt)
        return f"Answer {self.count}, we decided on plan {self.count}."

    async def do(self, step: Step) -> None:
        what, size = step
        if what == "ask" or self.thread == "new":
            await self.ask(size)
            return
        states = self.engine.store.states
        branch = (await self.engine.session(self.thread)).active_branch
        last = (await states.head(branch)).turn_seq
        try:
            match what:
                case "fold":
                    await self.engine.fold(self.thread)
                case "preview":
                    await self.engine.preview_fold(self.thread)
                case "undo":
                    await self.engine.unfold(self.thread)
                case "pin":
                    await self.engine.pin(self.thread, f"Fact {size}.")
                case "unpin":
                    await self.engine.unpin(self.thread, size % 3)
                case "fork":
                    made = await self.engine.fork(self.thread, at=size % (last + 1))
                    await self.engine.store.sessions.activate(made.session_id, made.id)
                case "rollback":
                    await self.engine.rollback(self.thread, to=size % (last + 1))
        except (Refused, NotFound):
            pass  # nothing to undo, no such pin

    async def ask(self, size: int) -> None:
        self.count += 1
        turn = await self.engine.ask(self.thread, f"Question {self.count}: " + "word " * size)
        self.thread = turn.thread_id
        await self.check(turn.turn_id, turn.branch_id, turn.turn_seq or 0)
        assert await self.engine.job_runner.drain(100, folds=True)

    async def check(self, turn_id: str, branch_id: str, seq: int) -> None:
        """Hold what was shown against the ledger."""
        plan, prompt = await self.engine.context(turn_id), self.prompts[-1]
        covers = next((int(part.source or 0) for part in plan.sections if part.name == "summary"), 0)
        earlier = await self.engine.store.turns.history(branch_id, limit=1000, before=seq)
        words = [message.rendered_text for message in prompt.messages]
        shown = [
            text for turn in earlier if turn.turn_seq > covers for text in (turn.user_message.rendered_text, turn.text)
        ]
        assert plan.shrunk is None
        assert words[2 if covers else 0 : -1] == shown, "each later turn stands word for word, in order, once"
        if covers:
            assert words[0].strip(), "the summary stands for the others"
            assert plan.budget is not None
            summary = next(part.tokens for part in plan.sections if part.name == "summary")
            assert summary <= plan.budget.summary + 40, "the summary keeps to its budget, its borders aside"
        pins = (await self.engine.store.states.head(branch_id)).pinned_facts
        assert all(any(f"- {pin}" in text for text in prompt.system) for pin in pins)


@pytest.mark.req("CTX-3", "TURN-10", "LIBRARIAN-1", "COMPACT-3")
@given(steps=STEPS)
@settings(deadline=None, max_examples=sized(12, 200))
def test_no_turn_is_ever_in_a_blind_spot(steps: list[Step]) -> None:
    async def live(folder: Path) -> None:
        async with (talk := Talk(folder)).engine:
            for step in steps:
                await talk.do(step)
            await talk.ask(1)

    with TemporaryDirectory() as folder:
        asyncio.run(live(Path(folder)))
