"""Checks that every ledger must pass, whatever happened to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw

from contextinfinity.domain.turn import Phase, Turn
from contextinfinity.storage.ledger.rows import pack
from contextinfinity.storage.sqlite.store import SqliteStore
from tests.recovery.conversation import Heard

PHASES = list(Phase)
"""In the order a turn goes through them; a Failed one is past them all."""

BROKEN = {
    "a turn's number is missing or double": """
        SELECT b.uuid FROM branch b LEFT JOIN turn t ON t.branch_id = b.id GROUP BY b.id
        HAVING count(t.turn_seq) <> b.last_turn_seq - b.fork_seq OR min(t.turn_seq) <> b.fork_seq + 1
          OR max(t.turn_seq) <> b.last_turn_seq""",
    "a head is not the end of its chain": """
        SELECT b.uuid FROM branch b LEFT JOIN state s ON s.id = b.head_state
        WHERE s.state_seq IS NOT b.head_seq
          OR EXISTS (SELECT 1 FROM state n WHERE n.branch_id = b.id AND n.state_seq > b.head_seq)""",
    "a state does not follow its parent": """
        SELECT s.uuid FROM state s LEFT JOIN state p ON p.id = s.parent_id
        WHERE (s.state_seq = 0) <> (s.parent_id IS NULL)
          OR (s.state_seq > 0 AND (p.state_seq IS NOT s.state_seq - 1 OR p.turn_seq > s.turn_seq))""",
    "a turn has no message, or somebody else's": """
        SELECT t.uuid FROM turn t LEFT JOIN message m ON m.key = t.user_message WHERE m.role IS NOT 'user'""",
    "a message belongs to no turn": """
        SELECT m.key FROM message m
        WHERE NOT EXISTS (SELECT 1 FROM turn t WHERE t.user_message = m.key OR t.answer = m.key)""",
    "an open turn has an answer, or a final one that was not logged has none": """
        SELECT t.uuid FROM turn t LEFT JOIN message m ON m.key = t.answer WHERE t.phase <> 'Failed'
          AND (((t.phase IN ('Accepted', 'ContextPrepared', 'Responding')) <> (t.outcome IS NULL)
              AND NOT (t.phase = 'Done' AND t.owner IS NULL))
            OR (t.outcome IS NULL) <> (m.key IS NULL))""",
    "a turn is committed without its state, or has a state without being committed": """
        SELECT t.uuid FROM turn t LEFT JOIN state s ON s.id = t.state_after
        WHERE (t.phase IN ('StateCommitted', 'Indexed', 'Done')) <> (s.id IS NOT NULL) OR s.turn_seq < t.turn_seq""",
    "two states commit one turn": """
        SELECT branch_id, turn_seq FROM state WHERE reason = 'turn' GROUP BY branch_id, turn_seq HAVING count(*) > 1""",
    "a turn's steps do not fit its phase": """
        SELECT t.uuid FROM turn t LEFT JOIN step s ON s.turn_id = t.id GROUP BY t.id
        HAVING (t.phase IN ('Accepted', 'ContextPrepared') AND count(s.id) > 0)
          OR (t.phase = 'Responding' AND count(s.id) = count(s.outcome))
          OR (t.phase NOT IN ('Responding') AND count(s.id) <> count(s.outcome))""",
    "a step has no plan, or a plan no step": """
        SELECT s.uuid FROM step s LEFT JOIN plan p USING (turn_id, step_index) WHERE p.body IS NULL
        UNION ALL SELECT p.step_index FROM plan p LEFT JOIN step s USING (turn_id, step_index) WHERE s.id IS NULL""",
    "a turn waits for a job nobody has": """
        SELECT t.uuid FROM turn t WHERE
          (t.phase = 'ResponseFinalized' AND NOT EXISTS
            (SELECT 1 FROM job WHERE turn_id = t.id AND job_type = 'summarize_turn'))
          OR (t.phase = 'StateCommitted' AND NOT EXISTS
            (SELECT 1 FROM job WHERE turn_id = t.id AND job_type = 'index_turn'))""",
    "a job is for a turn that is done": """
        SELECT j.id FROM job j JOIN turn t ON t.id = j.turn_id WHERE t.phase IN ('Done', 'Failed')""",
}


async def check_ledger(path: Path, heard: Heard) -> None:
    """Check that the ledger opens, is consistent, and has everything that was acknowledged, once."""
    store = SqliteStore(path)
    await store.close()
    connection = apsw.Connection(str(path))
    try:
        assert connection.execute("PRAGMA integrity_check").get == "ok"
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        for what, question in BROKEN.items():
            assert connection.execute(question).fetchall() == [], what
        check_acknowledged(connection, heard)
    finally:
        connection.close()


def check_acknowledged(connection: apsw.Connection, heard: Heard) -> None:
    """Check that everything acknowledged is stored once."""
    for turn in heard.turns.values():
        check_turn(connection, turn)
    for branch in heard.branches.values():
        row = rows(connection, "SELECT label, fork_seq FROM branch WHERE id = ?", pack(branch.id))
        assert row == [(branch.label, branch.fork_seq)]
    for state in heard.states.values():
        row = rows(connection, "SELECT state_seq, reason FROM state WHERE id = ?", pack(state.id))
        assert row == [(state.state_seq, state.reason)]
    for chunk in heard.chunks.values():
        assert rows(connection, "SELECT start, end FROM chunk WHERE id = ?", pack(chunk.id)) == [
            (chunk.start, chunk.end)
        ]
    for text in heard.texts:
        assert rows(connection, "SELECT count(*) FROM text WHERE body = ?", text) == [(1,)]
    for job in heard.done:
        left = rows(
            connection, "SELECT 1 FROM job WHERE turn_id = ? AND job_type = ?", pack(job.turn_id or ""), job.job_type
        )
        assert left == [], "a job that is done is gone"


def check_turn(connection: apsw.Connection, turn: Turn) -> None:
    """Check that a turn is at its acknowledged position, in its acknowledged phase or the next one."""
    question = """SELECT t.id, t.turn_seq, t.phase, a.text FROM turn t JOIN message m ON m.key = t.user_message
        LEFT JOIN message a ON a.key = t.answer WHERE m.text = ?"""
    found = rows(connection, question, turn.user_message.rendered_text)
    assert [(row[0], row[1]) for row in found] == [(pack(turn.id), turn.turn_seq)], "said once, kept once"
    assert PHASES.index(Phase(found[0][2])) >= PHASES.index(turn.phase)
    if turn.answer is not None:
        assert found[0][3] == turn.answer.rendered_text


def shape(path: Path) -> dict[str, list[Any]]:
    """Return the contents of a ledger, without the ids and times that differ from run to run."""
    connection = apsw.Connection(str(path))
    questions = {
        "branches": "SELECT label, fork_seq, head_seq, last_turn_seq FROM branch ORDER BY label",
        "turns": """SELECT b.label, t.turn_seq, t.phase, m.text, a.text FROM turn t JOIN branch b ON b.id = t.branch_id
            JOIN message m ON m.key = t.user_message LEFT JOIN message a ON a.key = t.answer ORDER BY m.text""",
        "states": """SELECT b.label, s.state_seq, s.reason, s.turn_seq FROM state s JOIN branch b ON b.id = s.branch_id
            ORDER BY b.label, s.state_seq""",
        "texts": "SELECT body FROM text ORDER BY body",
        "steps": "SELECT t.turn_seq, s.step_index, s.outcome FROM step s JOIN turn t ON t.id = s.turn_id ORDER BY 1, 2",
        "chunks": "SELECT side, start, end FROM chunk ORDER BY start",
        "messages": "SELECT count(*) FROM message",
        "jobs": "SELECT job_type, state, turn_seq FROM job ORDER BY 1, 3",
    }
    found = {what: connection.execute(question).fetchall() for what, question in questions.items()}
    connection.close()
    return found


def rows(connection: apsw.Connection, question: str, *values: Any) -> list[Any]:
    return connection.execute(question, values).fetchall()
