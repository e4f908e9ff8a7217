"""A spool whose turns wait for an interrupted turn of the same dead process is replayed all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from contextinfinity.domain.ids import new_id
from contextinfinity.domain.session import NewSession
from contextinfinity.domain.turn import Phase
from contextinfinity.storage.replay import ReplayedTurn
from contextinfinity.storage.standby.spool import Spool, written
from contextinfinity_testing.builders import new_branch, new_step, new_turn, turn_end
from tests.ledgers import open_store
from tests.recovery.outages import engine_on


@pytest.mark.req("TURN-13", "CHATMEM-6")
async def test_an_interrupted_turn_that_is_in_no_spool_does_not_hold_up_those_that_are(tmp_path: Path) -> None:
    gone, store = new_id(), open_store(tmp_path / "ledger.db")
    branch = await new_branch(store, NewSession(external_id="thread"))
    first = await store.turns.accept(new_turn(branch.id, "one", gone))
    await store.turns.prepare(first.id, gone)
    second = await store.turns.accept(new_turn(branch.id, "two", gone))
    await store.close()
    step = new_step()
    spool = Spool(tmp_path / "ledger.db-spool", gone)
    await spool.append([written(ReplayedTurn(turn_id=second.id, steps=(step,), end=turn_end(step, "kept")))])
    spool.close()
    async with engine_on(tmp_path) as engine:
        await engine.ask("thread", "three")
        one, two = [await engine.store.turns.get(turn.id) for turn in (first, second)]
        assert one is not None
        assert two is not None
        assert one.phase is Phase.FAILED, "its end was written nowhere"
        assert (two.outcome, two.text) == ("completed", "kept")
    assert not spool.path.exists()
