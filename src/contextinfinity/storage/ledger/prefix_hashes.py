"""Prefix hashes (``domain.prefix_hash``): written by the transactions of turns, looked up for resent conversations.

A prefix hash always covers everything that is stored in front of its turn on the turn's branch, except failed turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from contextinfinity.domain.ids import BranchId, SessionId, TurnId, WorkerId, now, to_millis
from contextinfinity.domain.message import Message
from contextinfinity.domain.prefix_hash import HashedPrefix, PrefixHashEnd, after, alone, beginning
from contextinfinity.domain.session import Owner
from contextinfinity.domain.turn import Exchange, NewTurn, Phase, PrefixHashes, Turn
from contextinfinity.errors import BranchBusy, NotFound
from contextinfinity.storage.database import Connection, Row, StoreResource, Values, looks, writes
from contextinfinity.storage.ledger.rows import maybe_pack, must, pack, unpack
from contextinfinity.storage.ledger.sessions import lineage_of, lineage_ranges

MOST_CANDIDATES = 20
"""Turns with equal content that are compared; more cannot be distinguished."""
MOST_CONTINUATIONS = 3
"""Different continuations are counted up to this number."""


def branch_continued(branch_id: BranchId, turn_seq: int) -> BranchBusy:
    """Return the error for a message whose branch has continued in the meantime."""
    return BranchBusy(f"Branch {branch_id} has continued after turn {turn_seq}.")


def not_on_branch(branch_id: BranchId, turn_id: TurnId) -> NotFound:
    """Return the error for a retry of a turn that is not on the branch."""
    hint = "Name a turn of the branch that the message goes to."
    return NotFound(f"retry_of: there is no turn {turn_id} on branch {branch_id}.", hint=hint)


def find_end(
    connection: Connection, owner: Owner, answered: int, *, session_id: SessionId | None = None
) -> PrefixHashEnd | None:
    """Return the turn whose stored prefix has this hash, and a branch to continue it on.

    A free turn comes first, on the branch made last; a branch that was forked after the turn and has no turn of
    its own comes after those that own it. If none is free: a turn of the newest thread, with its continuations.
    """
    asked = {**_whose(owner, session_id), "number": answered, "limit": 1}
    if (row := connection.one("select_free_after_answer", asked)) is not None:
        return _to_end(row)
    if (row := connection.one("select_after_answer", asked)) is None:
        return None
    followed = connection.many("select_continuations", (answered, MOST_CONTINUATIONS))
    return replace(_to_end(row), continuations=len(followed))


def find_exchanges(
    connection: Connection, owner: Owner, alone: int, *, session_id: SessionId | None = None
) -> tuple[PrefixHashEnd, ...]:
    """Return the turns with exactly this exchange, regardless of what precedes them; free ones first.

    At most ``MOST_CANDIDATES`` + 1. Imported turns are found only at the end of a branch.
    """
    asked = {**_whose(owner, session_id), "number": alone, "limit": MOST_CANDIDATES + 1}
    rows = connection.many("select_free_after_exchange", asked)
    rows += connection.many("select_after_exchange", asked)
    by_turn = dict[TurnId, PrefixHashEnd]()
    for end in map(_to_end, rows):
        by_turn.setdefault(end.turn_id, end)
    return tuple(by_turn.values())[: MOST_CANDIDATES + 1]


def check_place(connection: Connection, new: NewTurn) -> None:
    """Raise ``BranchBusy`` if the branch has continued since the lookup, ``NotFound`` if it lacks the retried turn.

    After the turn that the message follows there may be only failed attempts of the same message; it retries the
    newest of them.
    """
    branch_id, trail = new.branch_id, new.trail
    if trail is not None and trail.follows is not None:
        newest = connection.one("select_newest_after", (pack(branch_id), trail.follows))
        if newest is not None and (unpack(newest[0]) != new.retry_of or newest[1] != Phase.FAILED):
            raise branch_continued(branch_id, trail.follows)
    if new.retry_of is not None:
        row = connection.one("select_place", (pack(new.retry_of),))
        if row is None or lineage_of(connection, branch_id).owner_of(row[1]) != unpack(row[0]):
            raise not_on_branch(branch_id, new.retry_of)


def note_asked(connection: Connection, turn: Turn, trail: PrefixHashes | None) -> None:
    """Write the hashes that came with a message."""
    if trail is not None:
        values = {"turn_id": pack(turn.id), "session_id": pack(turn.session_id), "answered": None}
        said = {"asked": trail.asked, "before": trail.before, "alone": trail.alone, "body": trail.body}
        connection.execute("insert_trail", {**values, **said, "broken_at": 0 if trail.is_open else None})


def asked_by_answer(turn: Turn) -> tuple[str, Values]:
    """Return the statement that ``note_answered`` begins with."""
    return "select_asked_prefix", {"turn_id": pack(turn.id), "session_id": pack(turn.session_id)}


def note_answered(connection: Connection, turn: Turn, phase: Phase, answer: Message | None) -> None:
    """Write the hashes of an answered turn, based on its own ones or on those of the previous turn."""
    if phase is Phase.FAILED:
        return
    if answer is None:
        _set_end(connection, turn, None)
        return
    row = must(connection.one(*asked_by_answer(turn)), "session", turn.session_id)
    user_id, org_id, kind, asked, before, by_itself = row
    owner = Owner(user_id=user_id, org_id=org_id)
    if asked is None:
        before = _answered_before(connection, turn, owner)
        asked = None if before is None else after(before, turn.user_message)
    columns = _columns(turn, asked, alone(turn.user_message, owner) if by_itself is None else by_itself, answer)
    connection.execute("answer_trail", {**columns, "before": before})
    if kind == "thread":
        _set_end(connection, turn, columns)


def note_dead(connection: Connection, worker: WorkerId) -> None:
    """Record that all connections of a dead worker broke."""
    connection.execute("note_dead", {"worker": worker, "now": to_millis(now())})


def placed_here(connection: Connection, branch_id: BranchId, trail: PrefixHashes | None) -> PrefixHashes | None:
    """Drop the prefix hash of a message if its branch now ends with other turns than its sender knew."""
    if trail is None:
        return None
    turn, trail = _newest(connection, branch_id, 2**62), replace(trail, is_open=False)
    is_known = trail.before is not None and (turn is None or turn[0] == trail.before)
    return trail if is_known else replace(trail, asked=None, before=None)


def note_recorded(connection: Connection, turns: Sequence[Turn], exchanges: Sequence[Exchange]) -> None:
    """Write the hashes of those recorded turns that have some, and the end of their branch."""
    owner, is_thread = _owner_of(connection, turns[-1])
    pairs = zip(turns, exchanges, strict=True)
    rows = [_hash_row(turn, one, owner) for turn, one in pairs if one.asked is not None and turn.answer is not None]
    answered = [None, *((row or {}).get("answered") for row in rows)]
    brought = zip(rows, answered, strict=False)
    connection.execute_many(
        "insert_trail", [{**(row or {}), "before": last, "body": None, "broken_at": None} for row, last in brought]
    )
    if is_thread:
        _set_end(connection, turns[-1], _hash_row(turns[-1], exchanges[-1], owner))


def note_logged(connection: Connection, turn: Turn) -> None:
    """Record that a branch ends with a recorded turn that was answered later."""
    owner, is_thread = _owner_of(connection, turn)
    if is_thread:
        _set_end(connection, turn, _hash_row(turn, Exchange(message=turn.user_message), owner))


def _hash_row(turn: Turn, exchange: Exchange, owner: Owner) -> dict[str, object] | None:
    """Return the hashes of a recorded turn; None if it has no answer."""
    if turn.answer is None:
        return None
    by_itself = alone(turn.user_message, owner) if exchange.alone is None else exchange.alone
    return _columns(turn, exchange.asked, by_itself, turn.answer)


def _set_end(connection: Connection, turn: Turn, columns: dict[str, object] | None) -> None:
    """Record that a branch ends with a turn, or with something that cannot be matched."""
    place = {"branch_id": pack(turn.branch_id), "turn_seq": turn.turn_seq}
    connection.execute(("drop_end" if columns is None else "set_end"), {**place, **(columns or {})})


def _owner_of(connection: Connection, turn: Turn) -> tuple[Owner, bool]:
    """Return whose a turn is, and whether it is one of a thread."""
    row = connection.one("select_whose", (pack(turn.session_id),))
    user_id, org_id, kind = must(row, "session", turn.session_id)
    return Owner(user_id=user_id, org_id=org_id), kind == "thread"


def _columns(turn: Turn, asked: int | None, by_itself: int, answer: Message) -> dict[str, object]:
    return {
        "turn_id": pack(turn.id),
        "session_id": pack(turn.session_id),
        "asked": asked,
        "answered": None if asked is None else after(asked, answer),
        "alone": after(by_itself, answer),
    }


def _answered_before(connection: Connection, turn: Turn, owner: Owner) -> int | None:
    """Return the prefix hash in front of a turn; None: it is not known, as behind imported turns."""
    newest = _newest(connection, turn.branch_id, turn.turn_seq)
    return beginning(owner) if newest is None else newest[0]


def _newest(connection: Connection, branch_id: BranchId, before: int) -> Row | None:
    """Return (hash or None,) of the newest turn of a lineage before a turn_seq that did not fail."""
    for branch, first, last in lineage_ranges(connection, branch_id, before):
        place = {"branch_id": pack(branch), "first": first, "last": last}
        if (row := connection.one("select_before", place)) is not None:
            return row
    return None


def _whose(owner: Owner, session_id: SessionId | None) -> dict[str, object]:
    return {"user_id": owner.user_id, "org_id": owner.org_id, "session_id": maybe_pack(session_id)}


def _to_end(row: Row) -> PrefixHashEnd:
    session_id, branch_id, turn_id, turn_seq, free, fresh = row
    return PrefixHashEnd(
        session_id=unpack(session_id),
        branch_id=unpack(branch_id),
        turn_id=unpack(turn_id),
        turn_seq=turn_seq,
        is_free=bool(free),
        is_fresh=bool(fresh),
    )


def note_broken(connection: Connection, turn_id: TurnId) -> None:
    """Record that the connection of a turn's request broke before it was answered.

    ``Workers.take_over`` does the same for all requests of the dead worker that were not marked as answered.
    Unknown turns, and turns without a prefix hash, are ignored.
    """
    broken = {"turn_id": pack(turn_id), "now": to_millis(now())}
    connection.execute("note_broken", broken)


def note_delivered(connection: Connection, turn_ids: Sequence[TurnId]) -> None:
    """Record that the requests of these turns were answered."""
    rows = [(pack(turn_id),) for turn_id in turn_ids]
    connection.execute_many("note_delivered", rows)


def is_broken(connection: Connection, turn_id: TurnId) -> bool:
    """Return whether the connection of a turn's request broke before it was answered."""
    return connection.one("select_broken", (pack(turn_id),)) is not None


def join_broken(connection: Connection, owner: Owner, body: int, *, since: datetime) -> TurnId | None:
    """Return the oldest turn of this request whose connection broke since then, and clear the record of it.

    So each broken connection is joined once. Failed and cancelled turns have no answer to share.
    None: there is no such turn.
    """
    asked = {"user_id": owner.user_id, "org_id": owner.org_id, "body": body, "since": to_millis(since)}
    row = connection.one("join_broken", asked)
    return None if row is None else unpack(row[0])


def find_asked(connection: Connection, owner: Owner, asked: int) -> tuple[TurnId, ...]:
    """Return the newest turns whose requests were asked with this prefix hash, at most ``MOST_CANDIDATES``."""
    wanted = {"user_id": owner.user_id, "org_id": owner.org_id, "asked": asked, "limit": MOST_CANDIDATES}
    return tuple(unpack(row[0]) for row in connection.many("select_turns_asked", wanted))


def find_walked(connection: Connection, owner: Owner, trail: PrefixHashes) -> HashedPrefix | None:
    """Find the newest turn that was asked with this prefix hash by this request (``PrefixHashes.body``)."""
    asked = {"user_id": owner.user_id, "org_id": owner.org_id, "asked": trail.asked, "body": trail.body}
    row = connection.one("select_walked", asked)
    if row is None:
        return None
    return HashedPrefix(turn_id=unpack(row[0]), phase=Phase(row[1]))


class PrefixHashStore(StoreResource):
    """Finds stored conversations of one owner by their content; ``session_id`` limits a search to one of them."""

    end = looks(find_end)
    exchanges = looks(find_exchanges)
    asked = looks(find_asked)
    is_broken = looks(is_broken)
    note_broken = writes(note_broken)
    note_delivered = writes(note_delivered)
    join_broken = writes(join_broken)
    walked = looks(find_walked)
