"""What is deleted together with a turn, inside the caller's transaction and under a row of ``deletion``.

``remove_turns`` is the one place that knows which tables are made from turns: a table that is added and holds
something of a turn is emptied here. ``forget_in_states`` sees to the branches that saw the turns.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import NamedTuple

from contextinfinity.domain.ids import now, to_millis
from contextinfinity.domain.message import blobs_of
from contextinfinity.domain.session import Lineage
from contextinfinity.domain.state import State, StateDraft
from contextinfinity.storage.database import Connection
from contextinfinity.storage.index import BORROWED_FROM
from contextinfinity.storage.ledger.jobs import enqueue
from contextinfinity.storage.ledger.rows import pack, pack_hash, to_branch, to_message
from contextinfinity.storage.ledger.sessions import lineage_of
from contextinfinity.storage.ledger.states import append_state, head_of
from contextinfinity.storage.rules import LAST_PLACE, drafted_state

MADE_FROM_TURNS = (
    "delete_retrievals",
    "delete_responses",
    "delete_plans",
    "delete_steps",
    "delete_jobs",
    "delete_chunks_of_turns",
    "delete_origins",
    "delete_ends",
    "delete_trails",
    "delete_turns",
    "delete_messages",
)
"""What is emptied, each before what it refers to."""


class Doomed(NamedTuple):
    """A turn that is to be deleted: its place, its messages, and when it last changed."""

    id: bytes
    branch_id: bytes
    turn_seq: int
    question: int
    answer: int | None
    updated_at: int

    @property
    def messages(self) -> tuple[int, ...]:
        """The keys of what was said in it."""
        return (self.question,) if self.answer is None else (self.question, self.answer)


def remove_turns(connection: Connection, session_id: bytes, turns: Sequence[Doomed], *, whole: bool) -> None:
    """Delete turns with all that was made from them, and leave tombstones; ``whole``: the session goes too."""
    if not turns:
        return
    keys = [key for turn in turns for key in turn.messages]
    values = {
        "turns": json.dumps([turn.id.hex() for turn in turns]),
        "messages": json.dumps(keys),
        "now": to_millis(now()),
        "whole": whole,
        "session_id": session_id,
    }
    connection.execute("bury_turns", values)
    connection.execute("loosen_plan_texts", values)
    chunks = [row[0] for row in connection.many("select_chunk_keys_of_turns", values)]
    connection.search.drop_vectors(connection, chunks)
    connection.execute("uncount_chunks", {"count": len(chunks)})
    _unsay(connection, session_id, turns, values["messages"])
    for statement in MADE_FROM_TURNS:
        connection.execute(statement, values)


def _unsay(connection: Connection, session_id: bytes, turns: Sequence[Doomed], messages: object) -> None:
    """Take back what messages have brought elsewhere: counts of words, and blobs."""
    last_said = {key: turn.updated_at for turn in turns for key in turn.messages}
    said: list[tuple[int, str]] = []
    for key, *columns in connection.many("select_said", {"messages": messages}):
        message = to_message(*columns)
        said.append((key, message.rendered_text))
        for sha256 in blobs_of(message.blocks):
            blob = pack_hash(sha256)
            connection.execute("delete_blob_use", (blob, key))
            connection.execute("delete_blob", {"hash": blob, "shown_at": last_said[key]})
    connection.search.forget_words(connection, session_id, said)


def forget_in_states(connection: Connection, session_id: bytes, turns: Sequence[Doomed]) -> None:
    """Replace heads whose summaries cover deleted turns, so that no branch continues from such a summary.

    The turns of those summaries that still exist are shown word for word until the next fold. Words that the next turns
    borrowed are removed, too.
    """
    branches = [to_branch(row) for row in connection.many("select_branches", (session_id,))]
    seen = [(branch, lineage_of(connection, branch.id)) for branch in branches]
    hit = [(branch, lineage, first) for branch, lineage in seen if (first := _first_gone(lineage, turns)) is not None]
    heads = {branch.id: head_of(connection, branch.id) for branch, _, _ in hit}
    for branch, lineage, first in hit:
        _return_words(connection, pack(branch.id), [turn.turn_seq for turn in turns])
        gone = _all_gone(connection, lineage, branch.last_turn_seq)
        values = {"session_id": session_id, "branch_id": pack(branch.id), "first": first, "gone": gone}
        connection.execute("loosen_fronts", values)
        connection.execute("loosen_summaries", values)
        connection.execute("blank_states", values)
        connection.execute("delete_branch_candidate", (pack(branch.id),))
        _move_head(connection, branch.id, heads[branch.id], first, gone)


def _return_words(connection: Connection, branch_id: bytes, gone: Sequence[int]) -> None:
    """Remove the words that turns borrowed from deleted ones: their chunks are made again from what is left."""
    values = {"branch_id": branch_id, "gone": json.dumps(gone), "limit": BORROWED_FROM}
    for question, answer in connection.many("select_borrowers", values):
        connection.execute("delete_borrowed", {"question": question, "answer": answer})
        connection.execute("cut_anew", (question,))


def _move_head(connection: Connection, branch_id: str, head: State, first: int, gone: int) -> None:
    draft = StateDraft(branch_id=branch_id, reason="delete")
    if head.covers_turn_seq >= first:
        covers = min(head.covers_turn_seq, gone)
        draft = StateDraft(branch_id=branch_id, reason="delete", summary="", covers_turn_seq=covers)
        enqueue(connection, "fold_branch", pack(branch_id), None)
    append_state(connection, drafted_state(draft, head, head.turn_seq))


def _first_gone(lineage: Lineage, turns: Collection[Doomed]) -> int | None:
    """Return the first of the turns that a branch has seen; None: it has seen none of them."""
    ends = {pack(part.branch_id): (part.first, part.last or LAST_PLACE) for part in lineage.stretches}
    seen = ((turn.turn_seq, *ends.get(turn.branch_id, (1, 0))) for turn in turns)
    return min((place for place, first, last in seen if first <= place <= last), default=None)


def _all_gone(connection: Connection, lineage: Lineage, last_seq: int) -> int:
    """Return the place up to which a branch has no turns any more."""
    for part in lineage.stretches:
        first = connection.one("select_first", (pack(part.branch_id), part.first, part.last or LAST_PLACE))
        if first is not None and first[0] is not None:
            return int(first[0]) - 1
    return last_seq
