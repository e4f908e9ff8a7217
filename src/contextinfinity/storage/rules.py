"""What every store checks in the same words, on plain values.

A store reads the rows a rule needs, asks the rule, and writes: the rules themselves know no storage.
"""

from __future__ import annotations

from contextinfinity.domain.chunk import Embedding
from contextinfinity.domain.ids import is_id, new_id, now
from contextinfinity.domain.session import Branch, NewSession
from contextinfinity.domain.state import State, StateDraft
from contextinfinity.domain.turn import OPEN_PHASES, Phase, TurnEnd
from contextinfinity.errors import HeadMoved, InvalidInput, NotFound, OutOfOrder, TurnLost, WrongPhase

LONGEST_NAME = 128
STEPLESS = frozenset({"clarification", "cancelled"})
INDEXABLE = frozenset({Phase.STATE_COMMITTED, Phase.INDEXED, Phase.DONE, Phase.FAILED})


def check_id(identifier: str | None) -> None:
    """Refuse an id that is not a UUID in canonical form; none at all is fine."""
    if identifier is not None and not is_id(identifier):
        raise InvalidInput(f"{identifier!r} is not a UUID in lower case with hyphens.")


def check_new_session(new: NewSession) -> None:
    """Refuse a session whose names break the rules."""
    check_id(new.id)
    _check_name("user_id", new.owner.user_id, least=1)
    _check_name("org_id", new.owner.org_id, least=0)
    if new.external_id is not None:
        _check_name("external_id", new.external_id, least=1)


def _check_name(field: str, value: str, *, least: int) -> None:
    if not least <= len(value) <= LONGEST_NAME:
        raise InvalidInput(f"{field} has {len(value)} characters; it may have {least} to {LONGEST_NAME}.")


def check_place(branch: Branch, at: int | None, state: int | None) -> None:
    """Refuse a fork at a place the branch does not have."""
    if at is not None and state is not None:
        raise InvalidInput("A fork starts after a turn or from a state, not both.")
    if at is not None and not 0 <= at <= branch.last_turn_seq:
        raise InvalidInput(f"Branch {branch.id} has no turn {at}; its turns are 1 to {branch.last_turn_seq}.")


def check_rollback(to: int | None, state: int | None) -> None:
    """Refuse to roll back to nowhere in particular."""
    if to is None and state is None:
        raise InvalidInput("A rollback needs a place: a turn to go back to, or the number of a state.")


def no_state(branch: Branch, number: int) -> InvalidInput:
    """Say that a branch has no state of that number."""
    return InvalidInput(f"Branch {branch.id} has no state {number}; its states are 0 to {branch.head_seq}.")


def check_fact(fact: str) -> None:
    """Refuse to pin nothing."""
    if not fact.strip():
        raise InvalidInput("A pinned fact cannot be blank.")


def remove_pin(facts: tuple[str, ...], number: int) -> tuple[str, ...]:
    """Take the fact of that number (from 1) out."""
    if not 1 <= number <= len(facts):
        raise NotFound(f"There is no pinned fact {number}; there are {len(facts)}.")
    return facts[: number - 1] + facts[number:]


def check_owner(turn_id: str, owner: str | None, asking: str) -> None:
    """Discard a write to a turn that another worker owns."""
    if owner != asking:
        raise TurnLost(f"Turn {turn_id} belongs to {owner or 'nobody'}, not to {asking}; nothing was written.")


def check_phase(turn_id: str, phase: Phase, allowed: frozenset[Phase]) -> None:
    """Refuse a step the turn's phase does not allow."""
    if phase not in allowed:
        wanted = " or ".join(sorted(allowed))
        raise WrongPhase(f"Turn {turn_id} is {phase}; this needs {wanted}.")


def check_finalising(turn_id: str, phase: Phase, end: TurnEnd) -> None:
    """Refuse to make a turn final out of turn: after a step, or without one a question asked back or a stop."""
    check_phase(turn_id, phase, OPEN_PHASES)
    if phase is Phase.CONTEXT_PREPARED and (end.outcome not in STEPLESS or end.step is not None):
        raise WrongPhase(f"Turn {turn_id} is {phase}: without a step only a question asked back or a stop is final.")
    if phase is Phase.RESPONDING and end.step is None:
        raise InvalidInput(f"Turn {turn_id} is {phase}: its last step has to be closed with it.")


def check_span(start: int, end: int, text: str | None) -> None:
    """Refuse a span that does not lie within its message."""
    if text is None:
        raise InvalidInput("The turn has no answer to take a chunk from.")
    if not 0 <= start < end <= len(text):
        raise InvalidInput(f"The span {start} to {end} does not lie within a message of {len(text)} characters.")


def check_vector(embedding: Embedding, dim: int) -> None:
    """Refuse a vector of another size than its model's others."""
    if embedding.dim != dim or len(embedding.values) != 2 * dim:
        raise InvalidInput(
            f"A vector of {embedding.model} has {dim} dimensions of 2 bytes each; "
            f"this one has {embedding.dim} in {len(embedding.values)} bytes."
        )


def check_branch_of(turn_id: str, is_of: str, asked: str) -> None:
    """Refuse to commit a turn on a branch that is not its own."""
    if is_of != asked:
        raise InvalidInput(f"Turn {turn_id} is a turn of branch {is_of}, not of {asked}.")


def check_head(branch_id: str, head: str, expected: str | None) -> None:
    """Refuse to build on a state that is not the head; None: on whatever is."""
    if expected not in (None, head):
        raise HeadMoved(f"The head of branch {branch_id} is {head}, not {expected}.", head=head)


def not_settled(turn_seq: int, phase: str) -> OutOfOrder:
    """Say which turn has to be settled first."""
    return OutOfOrder(f"Turn {turn_seq} of the branch is {phase}: it has to be settled first.")


def drafted_state(draft: StateDraft, head: State, turn_seq: int) -> State:
    """Build the state that follows the head: what the draft leaves open, and the pins, are the head's."""
    summary = head.summary if draft.summary is None else draft.summary
    inherited = head.token_count_est if draft.summary is None else len(summary) // 4
    covers = head.covers_turn_seq if draft.covers_turn_seq is None else draft.covers_turn_seq
    if not 0 <= covers <= turn_seq:
        raise InvalidInput(f"A state at turn {turn_seq} cannot cover turn {covers}.")
    return State(
        id=new_id(),
        session_id=head.session_id,
        branch_id=draft.branch_id,
        state_seq=head.state_seq + 1,
        parent_id=head.id,
        turn_seq=turn_seq,
        covers_turn_seq=covers,
        reason=draft.reason,
        summary=summary,
        pinned_facts=head.pinned_facts,
        token_count_est=inherited if draft.token_count_est is None else draft.token_count_est,
        created_at=now(),
    )
