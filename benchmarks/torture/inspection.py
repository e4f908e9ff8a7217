"""What must hold in a ledger after recovery, looked up in the file itself and compared with the observations.

What is promised of an answer that was cut off: a piece is shown only after it was handed to the system, so whatever
any reader saw is kept, and what is kept is a beginning of what the model said. If the journal holds the model's
last word, the answer is whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import msgspec
from msgspec import Struct

from benchmarks.torture.kill_points import slices
from benchmarks.torture.observations import Fault, Observations, Violation
from benchmarks.torture.script import FAILING, IMPORTED, ROUNDS, kind_of, pieces_of
from contextinfinity.domain.message import TextBlock, ToolCallItem, blocks_of
from contextinfinity.domain.turn import PARAGRAPH
from contextinfinity.storage.encryption import protection_of
from contextinfinity.storage.journal import JournalFolder
from contextinfinity.storage.ledger.rows import to_inputs, to_items, to_message
from contextinfinity.storage.sqlite.connection import open_database

TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'worker'"

TURNS = """
SELECT t.uuid, b.uuid, t.turn_seq, t.phase, t.outcome, t.error, t.state_after IS NOT NULL, u.role, u.text, u.blocks,
  a.role, a.text, a.blocks,
  (SELECT count(*) FROM state s WHERE s.branch_id = t.branch_id AND s.turn_seq = t.turn_seq AND s.reason = 'turn'),
  (SELECT json_group_array(json_array(s.uuid, s.inputs, s.items) ORDER BY s.step_index) FROM step s
   WHERE s.turn_id = t.id),
  (SELECT count(*) FROM step s WHERE s.turn_id = t.id AND s.outcome IS NULL),
  (SELECT json_group_array(json_array(c.side, c.start, c.end) ORDER BY c.side = 'assistant', c.start)
   FROM chunk c WHERE c.turn_id = t.id)
FROM turn t JOIN branch b ON b.id = t.branch_id JOIN message u ON u.key = t.user_message
  LEFT JOIN message a ON a.key = t.answer ORDER BY b.uuid, t.turn_seq
"""
CHAIN = """
SELECT 'state ' || s.uuid || ' does not follow from the one before it' FROM state s LEFT JOIN state p
  ON p.id = s.parent_id WHERE s.state_seq > 0 AND (p.state_seq IS NOT s.state_seq - 1 OR p.turn_seq > s.turn_seq)
UNION ALL
SELECT 'the head of branch ' || b.uuid || ' is not the end of its chain' FROM branch b
  LEFT JOIN state s ON s.id = b.head_state WHERE s.state_seq IS NOT b.head_seq
  OR EXISTS (SELECT 1 FROM state n WHERE n.branch_id = b.id AND n.state_seq > b.head_seq)
UNION ALL
SELECT 'a message is of no turn: ' || coalesce(m.text, m.blocks) FROM message m
  WHERE NOT EXISTS (SELECT 1 FROM turn t WHERE t.user_message = m.key OR t.answer = m.key)
"""
DOUBLED = """
SELECT 'state number ' || state_seq FROM state GROUP BY branch_id, state_seq HAVING count(*) > 1
UNION ALL
SELECT 'the commit of turn ' || turn_seq FROM state WHERE reason = 'turn' GROUP BY branch_id, turn_seq
  HAVING count(*) > 1
UNION ALL SELECT 'the chunk at ' || start FROM chunk GROUP BY turn_id, side, start HAVING count(*) > 1
UNION ALL SELECT 'a vector' FROM vector GROUP BY chunk_key, namespace_key HAVING count(*) > 1
"""
LEFT_OVER = """
SELECT 'job ' || job_type || ' ' || state || ': ' || coalesce(last_error, '') FROM job
UNION ALL SELECT 'worker ' || id FROM worker WHERE dead_at IS NULL
"""


class Kept(Struct, frozen=True, kw_only=True):
    """A turn as it is in the file."""

    turn_id: str
    branch_id: str
    turn_seq: int
    phase: str
    outcome: str | None
    error: str | None
    committed: bool
    text: str
    final: str
    """What the last step said."""
    answer: str
    """What all of them said."""
    commits: int
    steps: tuple[str, ...]
    unanswered: list[str]
    """Calls of a step whose results the next request lacked, or results without a call."""
    open_steps: int
    chunks: list[list[Any]]

    def __str__(self) -> str:
        return f"turn {self.turn_seq} of {self.branch_id} ({self.phase}, {self.outcome}): {self.text!r}"


def connect(folder: Path) -> apsw.Connection:
    """Open the ledger of a folder to read."""
    return open_database(folder / "ledger.db", flags=apsw.SQLITE_OPEN_READONLY)


def kept_turns(connection: apsw.Connection) -> list[Kept]:
    """Read all turns that were answered here, in the order of their branches."""
    turns = [_kept(row) for row in connection.execute(TURNS)]
    return [turn for turn in turns if not turn.text.startswith(f"{IMPORTED} ")]


def _kept(row: tuple[Any, ...]) -> Kept:
    final = "" if row[10] is None else to_message(*row[10:13]).rendered_text
    steps = [(name, to_inputs(inputs), items) for name, inputs, items in msgspec.json.decode(row[14])]
    earlier = [to_items(items, None) for _, _, items in steps[:-1]]
    said = ["".join(block.text for block in blocks_of(items) if isinstance(block, TextBlock)) for items in earlier]
    return Kept(
        turn_id=row[0],
        branch_id=row[1],
        turn_seq=row[2],
        phase=row[3],
        outcome=row[4],
        error=row[5],
        committed=bool(row[6]),
        text=to_message(*row[7:10]).rendered_text,
        final=final,
        answer=PARAGRAPH.join(filter(None, [*said, final])),
        commits=row[13],
        steps=tuple(name for name, _, _ in steps),
        unanswered=[
            wrong
            for items, (_, inputs, _) in zip(earlier, steps[1:], strict=True)
            for wrong in {call.call_id for call in items if isinstance(call, ToolCallItem)}
            ^ {given.call_id for given in inputs}
        ],
        open_steps=row[15],
        chunks=msgspec.json.decode(row[16]),
    )


def violations(folder: Path, observed: Observations) -> Iterator[Violation]:
    """Compare a ledger with what was acknowledged to its callers."""
    connection = connect(folder)
    try:
        turns = kept_turns(connection)
        gone = set(observed.deleting) - _threads(connection)
        yield from _messages(turns, observed, gone)
        yield from _imports(connection, observed)
        yield from _deletions(connection, observed, gone)
        for turn in turns:
            yield from (Violation("broken", f"{turn}: {what}") for what in _phase(turn))
            yield from _answer(turn, observed, JournalFolder(folder / "streams"))
        yield from _branches(connection, observed)
        yield from (Violation("doubled", what) for (what,) in connection.execute(DOUBLED))
        yield from (Violation("broken", what) for (what,) in connection.execute(CHAIN))
        yield from (Violation("broken", f"left over: {what}") for (what,) in connection.execute(LEFT_OVER))
    finally:
        connection.close()


def _threads(connection: apsw.Connection) -> set[str]:
    return {uuid for (uuid,) in connection.execute("SELECT uuid FROM session")}


def _imports(connection: apsw.Connection, observed: Observations) -> Iterator[Violation]:
    """Every message of a file that was imported to its end is there once, in its order."""
    said = "SELECT text FROM message WHERE text GLOB ? ORDER BY key"
    for path, texts in observed.imports.items():
        name = texts[0].rpartition(" ")[0]
        there = [text for (text,) in connection.execute(said, (f"{name} *",))]
        if sorted(there) != sorted(texts):
            fault: Fault = "doubled" if len(there) > len(set(there)) else "lost"
            yield Violation(fault, f"{path}: {len(there)} of {len(texts)} messages, {len(set(there))} different ones")
        elif there != list(texts):
            yield Violation("broken", f"{path}: its messages are not in their order")


def _deletions(connection: apsw.Connection, observed: Observations, gone: set[str]) -> Iterator[Violation]:
    """A deletion that was acknowledged is done, and none is left half done."""
    for thread in observed.deleted - gone:
        yield Violation("broken", f"thread {thread} is there, and its deletion was acknowledged")
    for (thread,) in connection.execute("SELECT s.uuid FROM deletion d JOIN session s ON s.id = d.session_id"):
        yield Violation("broken", f"the deletion of thread {thread} is left half done")


def remains(folder: Path, observed: Observations) -> Iterator[Violation]:
    """Look through the bytes of all files for what was deleted; those looked for before are left out."""
    connection = connect(folder)
    gone = {thread: marker for thread, marker in observed.deleting.items() if thread not in observed.checked}
    for thread in _threads(connection):
        gone.pop(thread, None)
    connection.close()
    for path in folder.rglob("*") if gone else ():
        content = path.read_bytes() if path.is_file() else b""
        for thread, marker in gone.items():
            if marker.encode() in content:
                yield Violation("broken", f"{path.name} holds text of thread {thread}, which is deleted")


def readable(folder: Path, observed: Observations) -> Iterator[Violation]:
    """Look through the bytes of all files of an encrypted data_dir for what was said last."""
    if not protection_of(folder / "ledger.db").is_on:
        return
    said = [turn.text.encode() for turn in list(observed.accepted.values())[-20:]]
    for path in folder.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        if any(text in content for text in said):
            yield Violation("broken", f"{path.name} is readable, and the data_dir is encrypted")


def _messages(turns: list[Kept], observed: Observations, gone: set[str]) -> Iterator[Violation]:
    """Every acknowledged message is there once, verbatim, in its place, and there is no other."""
    there = {turn.turn_id: turn for turn in turns}
    for text, count in Counter(turn.text for turn in turns).items():
        if count > 1:
            yield Violation("doubled", f"{count} times: {text!r}")
        if text not in observed.sent:
            yield Violation("broken", f"nobody said {text!r}")
    last: dict[tuple[str, str], int] = {}
    for accepted in observed.accepted.values():
        if accepted.thread_id in gone:
            continue
        turn = there.get(accepted.turn_id)
        if turn is None:
            yield Violation("lost", f"turn {accepted.turn_seq} of {accepted.branch_id}: {accepted.text!r}")
            continue
        place = turn.turn_seq if accepted.turn_seq is None else accepted.turn_seq
        if (turn.branch_id, turn.turn_seq, turn.text) != (accepted.branch_id, place, accepted.text):
            yield Violation("broken", f"{turn} was acknowledged as {accepted}")
        line = accepted.branch_id, observed.acknowledged_by.get(accepted.turn_id, "")
        if place <= last.get(line, 0):
            yield Violation("broken", f"{turn} was acknowledged after turn {last[line]}")
        last[line] = place


def _phase(turn: Kept) -> Iterator[str]:
    """A settled turn is Done with its one state and its chunks, or Failed with a reason and without a state."""
    if turn.phase not in ("Done", "Failed"):
        yield "it is not settled"
    if turn.open_steps or len(turn.steps) > 1 + ROUNDS.get(kind_of(turn.text), 0):
        yield f"{turn.open_steps} of its {len(turn.steps)} steps are open"
    if turn.unanswered:
        yield f"calls and results do not fit: {turn.unanswered}"
    done = turn.phase == "Done"
    if (turn.committed, turn.commits) != (done, int(done)):
        yield f"{turn.commits} states commit it"
    if done != (turn.error is None):
        yield f"its error is {turn.error}"
    wanted = slices({"user": turn.text, "assistant": turn.final}) if done else []
    if turn.chunks != [[chunk.side, chunk.start, chunk.end] for chunk in wanted]:
        yield f"its {len(turn.chunks)} chunks are not the {len(wanted)} that were made"


def _answer(turn: Kept, observed: Observations, journals: JournalFolder) -> Iterator[Violation]:
    """What was shown is kept; what is kept was said; what is whole is called whole and nothing else."""
    pieces, shown = pieces_of(turn.text), observed.shown.get(turn.turn_id, "")
    if not turn.answer.startswith(shown):
        yield Violation("lost", f"{turn}: {shown!r} was shown, {turn.answer!r} is kept")
    if turn.answer not in {"".join(pieces[:count]) for count in range(len(pieces) + 1)}:
        yield Violation("broken", f"{turn}: {turn.answer!r} was never said")
    ended = observed.ended.get(turn.turn_id)
    if ended is not None and (ended.outcome, ended.text) != (turn.outcome, turn.answer):
        yield Violation("broken", f"{turn}: its end was reported as {ended.outcome}, {ended.text!r}")
    if (what := _wrong_outcome(turn, observed)) is not None:
        yield Violation("broken", f"{turn}: {what}")
    entries = [entry for step in turn.steps for entry in journals.read(step)]
    texts = [entry.payload for entry in entries if entry.event_type == "text"]
    said = "".join(PARAGRAPH + one["text"] if one.get("new_paragraph") else one["text"] for one in texts)
    if said != turn.answer:
        yield Violation("lost", f"{turn}: the journals hold {said!r}, the answer is {turn.answer!r}")
    journaled = [entry.event_type for entry in (journals.read(turn.steps[-1]) if turn.steps else ())]
    if "finished" in journaled and "call" not in journaled and turn.phase != "Done":
        yield Violation("lost", f"{turn}: the journal holds the last word")


def _wrong_outcome(turn: Kept, observed: Observations) -> str | None:
    """Return what is wrong with the recorded end of a turn."""
    kind, whole = kind_of(turn.text), turn.answer == "".join(pieces_of(turn.text))
    match turn.outcome:
        case "completed" | "paused":
            paused = turn.outcome == "paused"
            if paused and (kind not in ROUNDS or len(turn.steps) > ROUNDS[kind]):
                return "nobody asked for that"
            if not paused and (not whole or kind in FAILING or kind == "endless"):
                return "it is called whole and is not"
        case "incomplete":
            if turn.phase != "Failed" or not (turn.answer or kind in ROUNDS):
                return "what was cut off stands as if it counted"
        case "failed":
            if turn.answer:
                return "it has an answer and says it has none"
        case "cancelled":
            if turn.turn_id not in observed.stopping:
                return "nobody stopped it"
        case _:
            return "that is no end"
    return None


def _branches(connection: apsw.Connection, observed: Observations) -> Iterator[Violation]:
    """Forks and pins that were acknowledged are there."""
    forks = _pairs(connection, "SELECT uuid, fork_seq FROM branch")
    for fork in observed.forks:
        if forks.get(fork.branch_id) != fork.fork_seq:
            yield Violation("lost", f"{fork}")
    heads = _pairs(
        connection,
        "SELECT b.uuid, t.body FROM branch b JOIN state s ON s.id = b.head_state JOIN text t ON t.key = s.pins",
    )
    states = _pairs(connection, "SELECT uuid, state_seq FROM state")
    for pin in observed.pins:
        facts = msgspec.json.decode(heads.get(pin.branch_id, "[]"), type=list[str])
        if facts.count(pin.fact) != 1 or states.get(pin.state_id) != pin.state_seq:
            yield Violation("doubled" if facts.count(pin.fact) > 1 else "lost", f"{pin}")


def _pairs(connection: apsw.Connection, question: str) -> dict[Any, Any]:
    return {row[0]: row[1] for row in connection.execute(question)}


def contents(folder: Path) -> dict[str, object]:
    """Everything that is stored: the rows of every table, who is at work left out, and every journal."""
    connection = connect(folder)
    tables = [name for (name,) in connection.execute(TABLES)]
    found: dict[str, object] = {
        name: sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for name in tables
    }
    connection.close()
    return found | {path.name: path.read_bytes() for path in (folder / "streams").glob("*")}
