"""Files of our own format: written while conversations change, and read when they are damaged."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from contextinfinity.domain.session import Branch, NewSession, Owner
from contextinfinity.domain.state import StateDraft
from contextinfinity.domain.turn import TurnEnd
from contextinfinity.exchange.cix_format import write_cix
from contextinfinity.exchange.import_progress import Imported
from contextinfinity.exchange.importer import import_file
from contextinfinity.storage.contract import Store
from contextinfinity.storage.sqlite.integrity import Inspection
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.builders import WORKER, answer_turn, new_branch, new_turn, said
from tests.ledgers import open_store

pytestmark = pytest.mark.req("CLI-3")


async def goes_on(store: Store, branch: Branch) -> None:
    await answer_turn(store, branch.id, "meanwhile")


async def is_folded(store: Store, branch: Branch) -> None:
    draft = StateDraft(branch_id=branch.id, reason="fold", summary="meanwhile", covers_turn_seq=2)
    await store.states.commit(draft, expected_head=None)


async def is_forked(store: Store, branch: Branch) -> None:
    fork = await store.branches.fork(branch.id, at=1)
    await answer_turn(store, fork.id, "meanwhile")


async def loses_a_turn(store: Store, branch: Branch) -> None:
    turns = await store.turns.history(branch.id)
    await store.deletions.delete_turn(turns[0].id)


async def is_deleted(store: Store, branch: Branch) -> None:
    await store.deletions.delete(branch.session_id)


async def imported(file: Path, ledger: Path) -> tuple[Imported, list[str]]:
    """Import a file into a new ledger; return the report, and what the integrity checks find."""
    copy = open_store(ledger)
    done = await import_file(copy, file, owner=Owner())
    await copy.close()
    with Inspection(ledger) as inspection:
        return done, [one.code for one in inspection.violations(dead=(), progress=lambda *_: None)]


@pytest.mark.parametrize("event", [goes_on, is_folded, is_forked, loses_a_turn, is_deleted])
async def test_a_conversation_that_changes_during_its_export_is_whole_where_it_is_imported(
    event: Callable[[Store, Branch], Awaitable[None]], tmp_path: Path
) -> None:
    at, is_over = 0, False
    while not is_over:
        store = SqliteStore(None)
        branch, other = await new_branch(store), await new_branch(store)
        for number in range(3):
            await answer_turn(store, branch.id, f"question {number}")
        await is_folded(store, branch)
        await answer_turn(store, other.id, "quiet")
        pieces: list[bytes] = []
        async for piece in write_cix(store, [branch.session_id, other.session_id]):
            if len(pieces) == at:
                await event(store, branch)
            pieces.append(piece)
        await store.close()
        at, is_over = at + 1, at >= len(pieces)
        file = tmp_path / "out.cix"
        file.write_bytes(b"".join(pieces))
        done, violations = await imported(file, tmp_path / f"{at}.db")
        assert ([bad for one in done.sessions for bad in one.bad], violations) == ([], []), at
        assert other.session_id in {one.thread_id for one in done.sessions}
    assert at > 5


async def test_a_chat_with_a_cancelled_turn_and_one_that_waits_comes_whole(tmp_path: Path) -> None:
    store = SqliteStore(None)
    branch = await new_branch(store, NewSession(kind="chat", ttl_hours=1.5))
    await answer_turn(store, branch.id, "first")
    cancelled = await store.turns.accept(new_turn(branch.id, "stop"))
    await store.turns.prepare(cancelled.id, WORKER)
    await store.turns.finalise(cancelled.id, WORKER, TurnEnd(outcome="cancelled"))
    await store.turns.accept(new_turn(branch.id, "waits"))
    file = tmp_path / "out.cix"
    file.write_bytes(b"".join([piece async for piece in write_cix(store, [branch.session_id])]))
    await store.close()
    done, violations = await imported(file, tmp_path / "copy.db")
    assert ([bad for one in done.sessions for bad in one.bad], violations) == ([], [])
    copy = open_store(tmp_path / "copy.db")
    assert await said(copy, branch.id) == ["first", "stop", "waits"]
    session = await copy.sessions.get(branch.session_id)
    assert session is not None
    assert (session.kind, session.ttl_hours) == ("chat", 1.5)
    waits = (await copy.turns.history(branch.id))[-1]
    assert waits.error is not None
    assert waits.error.code == "interrupted"
    await copy.close()


def _ruined(turn: dict[str, Any], part: str) -> None:
    if part == "error":
        turn["error"] = {"code": "x"}
    elif part == "plan":
        turn["plans"][0]["body"] = [1]
    elif part == "outcome":
        turn["steps"][0]["outcome"] = {"v": 1, "is": {"type": "hologram"}}
    elif part == "items":
        turn["steps"][0]["items"] = "?"
    elif part == "response":
        turn["steps"][0]["response"] = "AAAA"
    elif part == "message":
        turn["question"] = {"role": "user", "blocks": [{"type": 7}]}


@pytest.mark.parametrize("part", ["error", "plan", "outcome", "items", "response", "message"])
async def test_a_turn_that_cannot_be_read_is_reported_and_the_other_conversations_are_imported(
    part: str, tmp_path: Path
) -> None:
    store = SqliteStore(None)
    first, second = await new_branch(store), await new_branch(store)
    await answer_turn(store, first.id, "damaged")
    await answer_turn(store, second.id, "whole")
    pieces = [piece async for piece in write_cix(store, [first.session_id, second.session_id])]
    await store.close()
    lines = [json.loads(line) for line in b"".join(pieces).splitlines()]
    _ruined(next(line["turn"] for line in lines if "turn" in line), part)
    file = tmp_path / "out.cix"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    done, violations = await imported(file, tmp_path / "copy.db")
    (whole,) = done.sessions
    assert (whole.thread_id, whole.added, violations) == (second.session_id, 2, [])
    (bad,) = whole.bad
    assert "cannot be read" in bad.reason or "damaged" in bad.reason or "form of" in bad.reason
