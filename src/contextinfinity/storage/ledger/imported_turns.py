"""Imported conversations with branches: each turn once, on the branch of its parent.

Consecutive turns are written together, with one state for all of them. A branch is created in the same transaction as
its first turn, so that a killed import leaves no empty branches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from contextinfinity.domain import wire
from contextinfinity.domain.ids import BranchId, SessionId, TurnId, new_id, to_millis
from contextinfinity.domain.message import ToolOutputItem, TranscriptItem
from contextinfinity.domain.transfer import ImportCounts, ImportedTurn
from contextinfinity.domain.turn import Completed, Exchange, Paused, Turn
from contextinfinity.storage.database import Connection
from contextinfinity.storage.ledger.imports import hash_of, kept_hash, origin_columns
from contextinfinity.storage.ledger.recording import append, settled_head
from contextinfinity.storage.ledger.rows import inputs_column, items_column, must, pack, unpack
from contextinfinity.storage.ledger.sessions import existing_branch, fork_branch

PROVIDER = "import"


def add_turns(connection: Connection, session_id: SessionId, turns: Sequence[ImportedTurn]) -> ImportCounts:
    """Add the turns that the session does not have yet; parents must precede their children."""
    key = pack(session_id)
    must(connection.one("select_session", (key,)), "session", session_id)
    added, clashing = 0, list[int]()
    for run in _runs(connection, turns):
        branch_id = _branch_after(connection, key, run[0].parent)
        if branch_id is None:
            clashing += [each.place for turn in run for each in turn.messages]
            continue
        added += _append(connection, key, branch_id, run)
    if added:
        begun = min((turn.created_at for turn in turns if turn.created_at is not None), default=None)
        connection.execute("date_session", {"id": key, "begun": None if begun is None else to_millis(begun)})
    names = {each.external_id for turn in turns for each in turn.messages}
    return ImportCounts(added=added, skipped=len(names) - added - len(clashing), clashing=tuple(clashing))


def _is_there(connection: Connection, turn_id: TurnId) -> bool:
    """Return whether the turn exists or was deleted."""
    key = (pack(turn_id),)
    return connection.one("select_place", key) is not None or connection.one("select_buried_turn", key) is not None


def _runs(connection: Connection, turns: Sequence[ImportedTurn]) -> Iterator[list[ImportedTurn]]:
    """Yield new turns in runs of consecutive ones."""
    run: list[ImportedTurn] = []
    for turn in turns:
        is_new = not _is_there(connection, turn.id)
        if run and (not is_new or turn.parent != run[-1].id):
            yield run
            run = []
        if is_new:
            run.append(turn)
    if run:
        yield run


def _branch_after(connection: Connection, session_id: bytes, parent: TurnId | None) -> BranchId | None:
    """Return a branch that ends with the parent, forking if needed; None if the parent is unknown."""
    if parent is None:
        place = (must(connection.one("select_main_branch", (session_id,)), "session", unpack(session_id))[0], 0)
    elif (found := connection.one("select_place", (pack(parent),))) is not None:
        place = found
    else:
        return None
    branch = existing_branch(connection, unpack(place[0]))
    if branch.last_turn_seq == place[1]:
        return branch.id
    return fork_branch(connection, branch.id, at=place[1]).id


def _append(connection: Connection, session_id: bytes, branch_id: BranchId, run: Sequence[ImportedTurn]) -> int:
    """Append consecutive turns; return how many of their messages are on no other branch."""
    exchanges = [
        Exchange(id=turn.id, message=turn.message, answer=turn.answer, created_at=turn.created_at, model=turn.model)
        for turn in run
    ]
    made = append(connection, branch_id, settled_head(connection, branch_id), exchanges)
    place = {"branch_id": pack(branch_id), "first": made[0].turn_seq, "last": made[-1].turn_seq}
    keys = connection.many("select_message_keys", place)
    added = 0
    for turn, imported, (question, answer) in zip(made, run, keys, strict=True):
        added += _insert_origins(connection, session_id, imported, question, answer)
        if imported.rounds:
            _insert_steps(connection, session_id, turn, imported.rounds)
    return added


def _insert_origins(
    connection: Connection, session_id: bytes, turn: ImportedTurn, question: int, answer: int | None
) -> int:
    """Write the origins of a turn's messages and return how many; one that another branch has is written once.

    All replies of a turn belong to its answer, if it has one.
    """
    sides = [(question, 0), *[(question, 0) if answer is None else (answer, 1)] * (len(turn.messages) - 1)]
    rows = [
        origin_columns(key, answers, session_id, each, hash_of(each))
        for (key, answers), each in zip(sides, turn.messages, strict=True)
        if kept_hash(connection, session_id, each, hash_of(each)) is None
    ]
    connection.execute_many("insert_origin", rows)
    return len(rows)


def _insert_steps(connection: Connection, session_id: bytes, turn: Turn, rounds: Sequence[TranscriptItem]) -> None:
    """Write the tool rounds of a turn as steps, each with its tool outputs and its response."""
    steps: list[tuple[list[ToolOutputItem], list[TranscriptItem]]] = [([], [])]
    for item in rounds:
        if isinstance(item, ToolOutputItem):
            if steps[-1][1]:
                steps.append(([], []))
            steps[-1][0].append(item)
        else:
            steps[-1][1].append(item)
    if steps[-1][1]:
        steps.append(([], []))
    last = len(steps) - 1
    moment = to_millis(turn.created_at)
    rows = [
        {
            "id": pack(new_id()),
            "session_id": session_id,
            "turn_id": pack(turn.id),
            "step_index": index,
            "provider": PROVIDER,
            "model_id": turn.model,
            "inputs": inputs_column(tuple(inputs)),
            "items": items_column(tuple(items), None),
            "outcome": wire.dumps(Completed() if index == last else Paused(reason="tool_use")).decode(),
            "now": moment,
        }
        for index, (inputs, items) in enumerate(steps)
    ]
    connection.execute_many("insert_recorded_step", rows)
    connection.execute("count_steps", {"id": pack(turn.id), "steps": len(steps)})
