"""States: TX-B, pins, fold candidates, and finding the state at a turn."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from contextinfinity.domain import wire
from contextinfinity.domain.ids import BranchId, StateId, new_id, now, to_millis
from contextinfinity.domain.job import Job, JobType, JobTypes
from contextinfinity.domain.session import Branch
from contextinfinity.domain.state import FOLDS, FoldCandidate, State, StateDraft, StateReason, summary_hash
from contextinfinity.domain.turn import Phase, Usage
from contextinfinity.errors import Refused
from contextinfinity.storage.database import Connection, Row, StoreResource, Values, looks, reads, writes
from contextinfinity.storage.invariants import (
    LAST_PLACE,
    check_branch_of,
    check_candidate,
    check_covers,
    check_draft,
    check_fact,
    check_head,
    check_phase,
    drafted_state,
    no_state,
    not_settled,
    remove_pin,
    row_limit,
)
from contextinfinity.storage.ledger.contents import keep_text
from contextinfinity.storage.ledger.jobs import complete_job, enqueue
from contextinfinity.storage.ledger.rows import must, pack, to_state, unpack


def get_state(connection: Connection, state_id: StateId) -> State | None:
    """Return one state."""
    row = connection.one("select_state", (pack(state_id),))
    return None if row is None else to_state(row)


def list_states(connection: Connection, branch_id: BranchId, *, limit: int = 50) -> tuple[State, ...]:
    """Return the chain of states from the head back, newest first, including those of parent branches."""
    values = {"branch_id": pack(branch_id), "limit": row_limit(limit)}
    if limit < 1:
        return ()
    return tuple(map(to_state, connection.many("select_chain", values)))


def newest_of_reasons(
    connection: Connection, branch_id: BranchId, reasons: Collection[StateReason], *, covers: int | None = None
) -> State | None:
    """Return the newest state of the chain with one of these reasons; with ``covers``, one that ends at that turn.

    Folds and unfolds are found by index; for other reasons the chain is walked. Raises ``NotFound`` if the branch
    is unknown.
    """
    head = head_of(connection, branch_id)
    if covers is not None and not 0 <= covers <= LAST_PLACE:
        return None
    return _newest(connection, branch_id, head.state_seq, reasons, covers)


AFTER_COMMIT: frozenset[JobType] = frozenset({"index_turn", "remember_turn"})
"""The jobs that follow the commit of a turn."""


def commit_state(
    connection: Connection,
    draft: StateDraft,
    *,
    expected_head: StateId | None,
    queue: JobTypes = AFTER_COMMIT,
    turn: Row | None = None,
) -> State:
    """TX-B: write the new state, state_after, phase, head and head_seq, and enqueue the jobs that follow.

    ``turn`` is the row of ``select_commit``, if the caller has just read it.
    """
    check_draft(draft)
    return _commit(connection, draft, expected_head, queue, turn)


def propose_fold(connection: Connection, candidate: FoldCandidate) -> FoldCandidate:
    """Store a fold candidate; it replaces the previous one of the branch.

    Raises ``InvalidInput`` if it covers an uncommitted turn, or fewer turns than the summary it continues.
    """
    check_candidate(candidate)
    body = wire.dumps(candidate).decode()
    head = head_of(connection, candidate.branch_id)
    check_covers(candidate.covers_turn_seq, head.turn_seq)
    ids = {"branch_id": pack(candidate.branch_id), "session_id": pack(head.session_id)}
    connection.execute("keep_candidate", {**ids, "body": body, "created_at": to_millis(candidate.created_at)})
    return candidate


def read_proposal(connection: Connection, branch_id: BranchId) -> FoldCandidate | None:
    """Return the branch's fold candidate."""
    row = connection.one("select_candidate", (pack(branch_id),))
    return None if row is None else wire.loads(FoldCandidate, row[0])


def fold(connection: Connection, candidate: FoldCandidate, *, ends: Job | None = None) -> State | None:
    """Commit a fold and complete the job that computed it, in one transaction.

    Returns None and writes nothing if the candidate no longer continues the branch's summary, or if turns were
    deleted after it was computed. Raises ``JobLost`` and writes nothing if another worker now has the job.
    """
    head, branch_id = head_of(connection, candidate.branch_id), candidate.branch_id
    deleted = _newest(connection, branch_id, head.state_seq, {"delete"}, None)
    if not candidate.continues(head) or (deleted is not None and deleted.state_seq > candidate.base_state_seq):
        return None
    draft = StateDraft(
        branch_id=branch_id,
        reason="fold",
        summary=candidate.summary,
        covers_turn_seq=candidate.covers_turn_seq,
        token_count_est=candidate.tokens_after,
    )
    state = commit_state(connection, draft, expected_head=None)
    _keep_spent(connection, state, candidate.spent)
    if ends is not None:
        complete_job(connection, ends.id, ends.owner or "")
    return state


def unfold(connection: Connection, branch_id: BranchId) -> State:
    """Restore the summary from before the last fold. Raises ``Refused`` if there is no fold."""
    head = head_of(connection, branch_id)
    folded = _newest(connection, branch_id, head.state_seq, {"fold"}, head.covers_turn_seq)
    before = get_state(connection, folded.parent_id) if folded is not None and folded.parent_id else None
    if before is None or head.covers_turn_seq == 0:
        raise Refused("Nothing is folded on this branch.", hint="`cix show` shows the conversation as it is.")
    draft = StateDraft(
        branch_id=branch_id,
        reason="unfold",
        summary=before.summary,
        covers_turn_seq=before.covers_turn_seq,
        token_count_est=before.token_count_est,
    )
    proposal = read_proposal(connection, branch_id)
    state = commit_state(connection, draft, expected_head=None)
    _keep_spent(connection, state, Usage() if proposal is None else proposal.spent)
    return state


def _keep_spent(connection: Connection, state: State, spent: Usage) -> None:
    """Store the token usage of a branch's summaries in a candidate that continues no summary."""
    if spent != Usage():
        nothing = FoldCandidate(
            branch_id=state.branch_id,
            base_covers=0,
            base_summary=summary_hash(state.id),
            covers_turn_seq=0,
            summary="",
            case="summarize",
            tokens_before=0,
            tokens_after=0,
            created_at=now(),
            spent=spent,
        )
        propose_fold(connection, nothing)


def pin_fact(connection: Connection, branch_id: BranchId, fact: str) -> State:
    """Pin a fact verbatim and commit a state for it. Pinning an existing fact again adds nothing."""
    check_fact(fact)
    head = head_of(connection, branch_id)
    if fact in head.pinned_facts:
        return head
    return _advance(connection, head, branch_id, reason="pin", pinned_facts=(*head.pinned_facts, fact))


def unpin_fact(connection: Connection, branch_id: BranchId, number: int) -> State:
    """Remove the pinned fact with that number (from 1). Raises ``NotFound`` if there is none."""
    head = head_of(connection, branch_id)
    rest = remove_pin(head.pinned_facts, number)
    return _advance(connection, head, branch_id, reason="unpin", pinned_facts=rest)


def head_of(connection: Connection, branch_id: BranchId) -> State:
    """Return the branch's head. Raises ``NotFound`` if the branch is unknown."""
    return to_state(must(connection.one("select_head", (pack(branch_id),)), "branch", branch_id))


def insert_state(connection: Connection, columns: dict[str, Any]) -> None:
    """Write a state's row."""
    connection.execute("insert_state", columns)


def append_state(connection: Connection, state: State) -> None:
    """Write a state and move its branch's head from its parent to it."""
    pins = msgspec.json.encode(state.pinned_facts).decode() if state.pinned_facts else None
    insert_state(
        connection,
        {
            "id": pack(state.id),
            "session_id": pack(state.session_id),
            "branch_id": pack(state.branch_id),
            "state_seq": state.state_seq,
            "parent_id": pack(state.parent_id or ""),
            "turn_seq": state.turn_seq,
            "covers_turn_seq": state.covers_turn_seq,
            "reason": state.reason,
            "summary": keep_text(connection, state.summary or None, pack(state.session_id)),
            "pins": keep_text(connection, pins, pack(state.session_id)),
            "token_count_est": state.token_count_est,
            "created_at": to_millis(state.created_at),
            "schema_version": state.schema_version,
        },
    )
    values = {"state": pack(state.id), "state_seq": state.state_seq, "branch_id": pack(state.branch_id)}
    connection.execute("move_head", {**values, "expected": pack(state.parent_id or "")})


def carry_pins(connection: Connection, origin: BranchId, forked: BranchId) -> None:
    """Copy the pins of the origin to a forked branch; commit a state only if its base has different pins."""
    pins, head = head_of(connection, origin).pinned_facts, head_of(connection, forked)
    if head.pinned_facts != pins:
        _advance(connection, head, forked, reason="pin", pinned_facts=pins)


def numbered_state(connection: Connection, branch: Branch, number: int) -> tuple[tuple[bytes, int], int]:
    """Return ((id, number), turn_seq) of the state with that number in a branch's chain."""
    branch_id = pack(branch.id)
    while 0 <= number <= branch.head_seq:
        base_id, base_turn, base_seq, base_branch = connection.one("select_base", (branch_id,))  # type: ignore[misc]
        if number == base_seq:
            return (base_id, base_seq), base_turn
        if number > base_seq:
            found = connection.one("select_state_by_seq", (branch_id, number))
            state_id, turn_seq, _ = must(found, "state", str(number))
            return (state_id, number), turn_seq
        branch_id = base_branch
    raise no_state(branch, number)


def _newest(
    connection: Connection, branch_id: BranchId, last: int, reasons: Collection[StateReason], covers: int | None
) -> State | None:
    """Search each branch of the chain, from its end or from the fork point of its child."""
    sql = "select_newest_fold" if FOLDS.issuperset(reasons) else "select_newest"
    asked = {"reasons": msgspec.json.encode(list(reasons)).decode(), "covers": covers}
    branch, before = pack(branch_id), b""
    while branch != before:
        found = connection.one(sql, {**asked, "branch_id": branch, "last": last})
        if found is not None:
            return to_state(connection.one("select_state", found))
        before = branch
        _, _, last, branch = connection.one("select_base", (branch,))  # type: ignore[misc]
    return None


def newest_state(connection: Connection, branch: Branch, at: int) -> tuple[bytes, int]:
    """Return (id, number) of the newest state in a branch's chain that was committed for a turn up to ``at``.

    Costs a few look-ups on each branch of the chain, however long the branches are.
    """
    branch_id, last = pack(branch.id), branch.head_seq
    while True:
        base_id, base_turn, base_seq, base_branch = connection.one("select_base", (branch_id,))  # type: ignore[misc]
        if base_turn <= at:
            break
        branch_id, last = base_branch, base_seq
    later = connection.one("select_next_commit", {"branch_id": branch_id, "at": at, "last": last})
    number = last if later is None else later[0] - 1
    while number > base_seq:  # repeats only if turns after ``at`` were deleted, whose states remain
        found = must(connection.one("select_state_by_seq", (branch_id, number)), "state", str(number))
        if found[1] <= at:
            break
        number -= 1
    if number == base_seq:
        return base_id, base_seq
    state_id, _, _ = must(connection.one("select_state_by_seq", (branch_id, number)), "state", str(number))
    return state_id, number


def _commit(
    connection: Connection, draft: StateDraft, expected_head: StateId | None, queue: JobTypes, turn: Row | None
) -> State:
    head = head_of(connection, draft.branch_id)
    turn_seq = head.turn_seq
    if draft.turn_id is not None:
        turn = turn or connection.one("select_commit", (pack(draft.turn_id),))
        phase, branch_id, turn_seq, state_after = must(turn, "turn", draft.turn_id)
        check_branch_of(draft.turn_id, unpack(branch_id), draft.branch_id)
        if state_after is not None:
            return to_state(connection.one("select_state", (state_after,)))
        check_phase(draft.turn_id, Phase(phase), frozenset({Phase.RESPONSE_FINALIZED}))
    check_head(draft.branch_id, head.id, expected_head)
    state = drafted_state(draft, head, turn_seq)
    if draft.turn_id is not None:
        _commit_turn(connection, draft, state, queue)
    append_state(connection, state)
    if draft.reason in FOLDS:
        connection.execute("delete_candidate", (pack(draft.branch_id),))
    return state


def _commit_turn(connection: Connection, draft: StateDraft, state: State, queue: JobTypes) -> None:
    refuse_unsettled(connection, draft.branch_id, before=state.turn_seq)
    turn_id = pack(draft.turn_id or "")
    values = {"state": pack(state.id), "turn_id": turn_id, "now": to_millis(state.created_at)}
    connection.execute("commit_turn", values)
    for job_type in sorted(queue):  # index_turn first
        enqueue(connection, job_type, pack(draft.branch_id), turn_id)


def refuse_unsettled(connection: Connection, branch_id: BranchId, *, before: int) -> None:
    """Raise ``OutOfOrder`` if an earlier turn is neither committed nor failed."""
    row = connection.one(*settled_before(pack(branch_id), before))
    if row is not None:
        raise not_settled(row[0], row[1])


def settled_before(branch_id: bytes, before: int) -> tuple[str, Values]:
    """Return the statement that ``refuse_unsettled`` runs."""
    return "select_unsettled", {"branch_id": branch_id, "before": before}


def _advance(connection: Connection, head: State, branch_id: BranchId, **changes: Any) -> State:
    state = msgspec.structs.replace(
        head,
        id=new_id(),
        branch_id=branch_id,
        state_seq=head.state_seq + 1,
        parent_id=head.id,
        created_at=now(),
        **changes,
    )
    append_state(connection, state)
    return state


class States(StoreResource):
    """Checkpoints. The head of a branch is the only source of committed state."""

    get = reads(get_state)
    head = looks(head_of)
    list = reads(list_states)
    newest = reads(newest_of_reasons)

    async def commit(self, draft: StateDraft, *, expected_head: StateId | None) -> State:
        """TX-B: write the new state, state_after, phase, head and head_seq. Pins are read in the same transaction.

        A turn that is already committed returns its existing state. A fold or unfold removes the branch's fold
        candidate. Raises ``HeadMoved`` if the head is not ``expected_head`` (None, for drafts that only inherit,
        accepts any head), and ``OutOfOrder`` while an earlier turn of the branch is neither committed nor failed.
        """
        return await self._database.write(
            lambda connection: commit_state(connection, draft, expected_head=expected_head)
        )

    fold = writes(fold)
    unfold = writes(unfold)
    propose = writes(propose_fold)
    proposal = reads(read_proposal)
    pin = writes(pin_fact)
    unpin = writes(unpin_fact)
