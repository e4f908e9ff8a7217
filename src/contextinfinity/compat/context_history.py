"""Read the earlier turns of a thread for a model.

From the ledger they are what the engine shows: pinned facts, the summary, and every turn after it. If the turns do not
fit, the branch is folded first, without a model. Other backends have no summary: of a very long thread only the newest
turns are returned. Omissions are listed.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module

from contextinfinity.compat.ledger_threads import LARGEST_PAGE, LedgerThreads
from contextinfinity.compat.thread_log import DEFAULT_WINDOW, window_start
from contextinfinity.compat.threads import get_history, get_thread, identity, place
from contextinfinity.domain.ids import BranchId
from contextinfinity.domain.message import TextBlock
from contextinfinity.domain.plan import LeftOut
from contextinfinity.domain.session import Session
from contextinfinity.domain.state import State
from contextinfinity.domain.thread import Turn, can_be_a_thread
from contextinfinity.domain.turn import UNFINISHED
from contextinfinity.domain.turn import Turn as LedgerTurn
from contextinfinity.engine.folding import fold
from contextinfinity.errors import LedgerError
from contextinfinity.prompt.prompt_sections import Shown, shown_turns
from contextinfinity.storage.contract import Store

log = logging.getLogger(__name__)

WIRING = "contextinfinity.wiring"
"""The package that creates an engine's parts. It is a higher layer, so it is imported by name at run time."""
MOST_CHARACTERS = 96_000
"""About 24,000 tokens; the newest ``DEFAULT_WINDOW`` turns are always included."""
MESSAGE_CHARACTERS = 16
"""The overhead of a message in characters."""
FIRST_LOOK = 64


@dataclass(frozen=True, kw_only=True)
class History:
    """The turns, oldest first, the summary and pins, the omissions, and where they are stored (None: no thread)."""

    turns: tuple[Turn, ...] = ()
    kept_in: str | None = None
    summary: str = ""
    pinned_facts: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


def load_history(thread_id: str) -> History:
    """Read the earlier turns. No turn is written; a long thread in the ledger may be folded."""
    if can_be_a_thread(thread_id) and isinstance(log_in_use := place(), LedgerThreads):
        return log_in_use.read(thread_id, _from_ledger) or History()
    most = FIRST_LOOK
    turns = get_history(thread_id, most)
    while len(turns) >= most and (size := sum(map(_size, turns))) <= MOST_CHARACTERS:
        most = max(2 * most, len(turns) * MOST_CHARACTERS // size + DEFAULT_WINDOW)  # estimated from the average size
        turns = get_history(thread_id, most)
    shown = turns[_start(turns) :]
    is_cut = len(shown) < len(turns) or len(turns) >= most
    thread = get_thread(thread_id) if is_cut else None
    older = 0 if thread is None else len(thread.turns) - len(shown)
    left_out = _too_many(1, older) if older > 0 else ()
    return History(turns=tuple(shown), kept_in=identity(thread_id), left_out=left_out)


# --- in the ledger ---


async def _from_ledger(store: Store, session: Session) -> History:
    """Read what the engine would show; fold the branch first if it does not fit."""
    branch = session.active_branch
    state, turns = await _after_summary(store, branch)
    if sum(map(_characters, turns)) > MOST_CHARACTERS:
        await _fold(store, branch)
        state, turns = await _after_summary(store, branch)
    running = [turn.turn_seq for turn in turns if turn.phase in UNFINISHED]
    shown = shown_turns([turn for turn in turns if turn.phase not in UNFINISHED], None)
    numbered = [(each.turn_seq, said) for each in shown for said in _plain(each)]
    start = _start([said for _, said in numbered])
    first = numbered[start][0] if numbered else 0
    older = await store.turns.history(branch, limit=1, before=first) if first > state.covers_turn_seq + 1 else ()
    is_cut = any(turn.turn_seq > state.covers_turn_seq for turn in older)  # otherwise the turns in between were deleted
    missing = _too_many(state.covers_turn_seq + 1, first - 1) if is_cut else ()
    return History(
        turns=tuple(said for _, said in numbered[start:]),
        kept_in=f"branch {branch}",
        summary=state.summary,
        pinned_facts=state.pinned_facts,
        left_out=(*missing, *_not_plain(shown), *_unanswered(running)),
    )


async def _after_summary(store: Store, branch_id: BranchId) -> tuple[State, list[LedgerTurn]]:
    """Read the state of a branch and the turns after its summary, back to the size limit."""
    state = await store.states.head(branch_id)
    turns: list[LedgerTurn] = []
    room, size = MOST_CHARACTERS, FIRST_LOOK
    while room >= 0:
        page = await store.turns.history(branch_id, limit=size, before=turns[0].turn_seq if turns else None)
        later = [turn for turn in page if turn.turn_seq > state.covers_turn_seq]
        turns[:0] = later
        if len(later) < size:
            break
        room, size = room - sum(map(_characters, later)), min(2 * size, LARGEST_PAGE)
    return state, turns


async def _fold(store: Store, branch_id: BranchId) -> None:
    """Fold a branch without a model, as the engine does if the turns do not fit; a failure is only logged."""
    try:
        parts = import_module(WIRING).parts_without_models(store)
        if parts.setup.folds:
            await fold(parts, branch_id)
    except LedgerError as error:
        log.warning("branch %s could not be folded; its oldest turns are left out: %s", branch_id, error)


def _plain(shown: Shown) -> list[Turn]:
    """Return the text messages of a turn."""
    return [Turn(one.role, one.rendered_text) for one in shown.messages if one.rendered_text]


def _not_plain(shown: Sequence[Shown]) -> tuple[LeftOut, ...]:
    """List the turns with more than text: tool calls, tool results, images."""
    seqs = [
        each.turn_seq
        for each in shown
        if any(not isinstance(block, TextBlock) for message in each.messages for block in message.blocks)
    ]
    if not seqs:
        return ()
    return (LeftOut(what=f"tool calls, results and pictures of {_turns(seqs)}", reason="messages here are plain text"),)


def _unanswered(seqs: Sequence[int]) -> tuple[LeftOut, ...]:
    return (LeftOut(what=_turns(seqs), reason="still being answered"),) if seqs else ()


def _turns(seqs: Sequence[int]) -> str:
    return f"turn {seqs[0]}" if len(seqs) == 1 else f"{len(seqs)} turns from {seqs[0]} to {seqs[-1]}"


def _characters(turn: LedgerTurn) -> int:
    return len(turn.user_message.rendered_text) + len(turn.text) + 2 * MESSAGE_CHARACTERS


# --- in any backend ---


def _too_many(first: int, last: int) -> tuple[LeftOut, ...]:
    reason = f"only the newest turns are shown, up to {MOST_CHARACTERS:,} characters"
    return (LeftOut(what=f"turns {first}–{last}", reason=reason),)


def _start(turns: Sequence[Turn]) -> int:
    """Return the index of the first turn to show: a question, such that the rest stays within the limit."""
    room, count = MOST_CHARACTERS, 0
    for turn in reversed(turns):
        room -= _size(turn)
        if room < 0:
            break
        count += 1
    return window_start(turns, max(count, DEFAULT_WINDOW), whole=True) or 0


def _size(turn: Turn) -> int:
    return len(turn.content) + MESSAGE_CHARACTERS
