"""What a user takes back is gone, what they correct is corrected, and what only a lost correction denied holds."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from contextinfinity.domain.ids import TurnId, now
from contextinfinity.domain.memory import ANONYMOUS, NewMemory
from contextinfinity.domain.session import NewSession, Owner
from contextinfinity.prompt.layout import MEMORIES
from contextinfinity_testing.builders import exchange, new_branch
from tests.scenarios.desk import Desk
from tests.scenarios.test_memories import LOCAL, desk_in, front, known, tell

LEEDS = f"{MEMORIES}\nThe user lives in Leeds."


@pytest.mark.req("MEMORY-3", "MEMORY-4")
async def test_of_several_corrections_in_one_epoch_the_last_rides(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        await tell(desk, "I live in Leeds.")
        await tell(desk, "Hello.")
        here = desk.thread
        await tell(desk, "I moved to York.", "I moved to Bonn.")
        desk.thread = here
        turn = await desk.ask("Thanks.")
        assert (front(desk), (await desk.plan(turn)).epoch_reason) == (LEEDS, None)
        assert "The user lives in Bonn." in desk.shown[-1][1]
        assert "York" not in desk.shown[-1][1]
        assert (await desk.engine.explain(turn)).matches


@pytest.mark.req("MEMORY-5")
async def test_a_correction_that_is_forgotten_takes_the_old_line_out_of_the_front(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        await tell(desk, "I live in Leeds.")
        await tell(desk, "Hello.")
        here = desk.thread
        await tell(desk, "I moved to York.")
        (york,) = await desk.engine.memories.list(LOCAL)
        await desk.engine.memories.forget(LOCAL, york.id)
        desk.thread = here
        turn = await desk.ask("Thanks.")
        assert (front(desk), (await desk.plan(turn)).epoch_reason) == ("", "memory")
        await desk.ask("Thanks again.")
        assert front(desk) == ""


@pytest.mark.req("MEMORY-4", "CHATMEM-4")
async def test_deleting_the_conversation_with_a_correction_leaves_what_was_said_before(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        await tell(desk, "I live in Leeds.")
        await tell(desk, "Hello.")
        here = desk.thread
        await tell(desk, "I moved to York.")
        await desk.engine.delete(desk.thread)
        assert await known(desk) == ["The user lives in Leeds."]
        desk.thread = here
        await desk.ask("Thanks.")
        assert front(desk) == LEEDS
        assert "York" not in desk.shown[-1][1]
        await desk.engine.complete_index(rebuild=True)
        assert await known(desk) == ["The user lives in Leeds."]


@pytest.mark.req("MEMORY-4")
async def test_a_correction_on_a_line_that_was_left_does_not_count_elsewhere(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        await tell(desk, "I live in Leeds.")
        await tell(desk, "Hello.")
        await desk.ask("I moved to York.")
        await desk.settle()
        await desk.engine.rollback(desk.thread, to=1)
        await tell(desk, "Good morning.")
        assert front(desk) == LEEDS


@pytest.mark.req("MEMORY-4", "MEMORY-5")
async def test_what_a_person_wrote_down_is_corrected_by_what_they_say(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        memories = desk.engine.memories
        kept = await memories.add(LOCAL, "The user lives in Leeds.")
        await tell(desk, "I moved to York.")
        assert await known(desk) == ["The user lives in York."]
        await memories.edit(LOCAL, kept.id, "I live in Bonn.")
        assert await known(desk) == ["I live in Bonn."]
        await memories.edit(LOCAL, kept.id, "The user is left-handed.")
        await tell(desk, "I moved to Rome.")
        assert sorted(await known(desk)) == ["The user is left-handed.", "The user lives in Rome."]


@pytest.mark.req("MEMORY-6")
async def test_a_stranger_takes_back_only_what_was_said_in_their_own_thread(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        strangers, threads = Owner(user_id=ANONYMOUS), []
        for _ in range(2):
            await tell(desk, "I live in Leeds.", user_id=ANONYMOUS)
            threads.append(desk.thread)
        desk.thread = threads[0]
        await desk.ask("Forget everything you know about me.", user_id=ANONYMOUS)
        await desk.settle()
        assert await known(desk, strangers, thread=threads[0]) == []
        assert await known(desk, strangers, thread=threads[1]) == ["The user lives in Leeds."]
        await desk.engine.complete_index(rebuild=True)
        assert await known(desk, strangers, thread=threads[0]) == []
        assert await known(desk, strangers, thread=threads[1]) == ["The user lives in Leeds."]


async def recorded(desk: Desk, words: str, moment: datetime) -> TurnId:
    """Keep a turn from elsewhere that says when it was."""
    branch = await new_branch(desk.engine.store, NewSession(owner=LOCAL))
    (turn,) = await desk.engine.store.turns.record(branch.id, [replace(exchange(words, "Fine."), created_at=moment)])
    return turn.id


@pytest.mark.req("MEMORY-5")
async def test_drawing_again_keeps_what_was_said_long_ago_and_is_still_shown(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        memories, long_ago = desk.engine.store.memories, now() - timedelta(days=99)
        turn = await recorded(desk, "I live in Leeds.", long_ago)
        new = NewMemory(owner=LOCAL, content="The user lives in Leeds.", said_at=long_ago)
        (kept,) = await memories.replace_extracted(turn, [new])
        await memories.placed(LOCAL, [kept.id], now())
        await desk.engine.complete_index(rebuild=True)
        assert await known(desk) == ["The user lives in Leeds."]


@pytest.mark.req("MEMORY-4")
async def test_a_turn_that_claims_to_be_of_the_future_can_be_corrected(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        await recorded(desk, "I live in Leeds.", now() + timedelta(days=999))
        await desk.engine.complete_index(rebuild=True)
        assert await known(desk) == ["The user lives in Leeds."]
        await tell(desk, "I moved to York.")
        assert await known(desk) == ["The user lives in York."]


@pytest.mark.sqlite_file("it reads the file")
@pytest.mark.req("MEMORY-5")
async def test_what_is_forgotten_or_edited_is_gone_from_the_files_at_once(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        memories = desk.engine.memories
        first = await memories.add(LOCAL, "The user keeps the zorblax in a shed.")
        second = await memories.add(LOCAL, "The user keeps the quibble in a shed.")
        await memories.forget(LOCAL, first.id)
        await memories.edit(LOCAL, second.id, "The user keeps nothing in a shed.")
        files = b"".join(file.read_bytes() for file in desk.path.parent.rglob("*") if file.is_file()).lower()
        assert b"nothing in a shed" in files
        assert b"zorblax" not in files
        assert b"quibble" not in files
