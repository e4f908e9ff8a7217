"""Folding: old turns leave the word-for-word part of the prompt, and the summary covers them from then on.

    weigh      the newest turns are read back until they fill the trigger, or all there are
    cut        the window, the floors, and where a new topic begins (``compaction.policy``)
    summarise  what leaves goes to the librarian a page at a time, however long the branch is
    commit     turns and pins that came meanwhile stay; where another fold came first, nothing is written (TX-B)

A candidate is all that is known before the commit; a preview keeps it, and folding then commits that one. Undoing is
a new state, and holds folding until the branch has grown by another trigger.
"""

from __future__ import annotations

import dataclasses
import logging
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from contextinfinity.compaction.policy import CONFIDENT, choose_cut, is_due, pays
from contextinfinity.domain.events import CompactionCompleted, CompactionFailed, CompactionStarted
from contextinfinity.domain.ids import BranchId, SessionId, now
from contextinfinity.domain.job import Job
from contextinfinity.domain.plan import LAYOUT_VERSION, Budget
from contextinfinity.domain.state import FOLDS, FoldCandidate, summary_hash
from contextinfinity.domain.turn import Usage
from contextinfinity.engine.engine_setup import boundary_offline
from contextinfinity.engine.fold_sizing import PAGE, FoldContext, leaving, look, said
from contextinfinity.engine.lazy_modules import FOR_FOLDS, loaded
from contextinfinity.engine.parts import Parts
from contextinfinity.librarian.contract import Librarian, Summary, Task
from contextinfinity.prompt.cutting import line
from contextinfinity.prompt.redact import hidden
from contextinfinity.settings import OFFLINE
from contextinfinity.telemetry.counters import count

if TYPE_CHECKING:
    from contextinfinity.compaction.boundary import TopicBoundary

log = logging.getLogger(__name__)

NEAR = 8
"""How many pages a model is asked to summarise; of a longer backlog what lies further back is told by rule."""
LISTED = 20
"""How many of the turns that leave, and of those that stay, a preview lists."""


class Fold(msgspec.Struct, frozen=True, kw_only=True):
    """A fold that could be made, or was: the candidate, the summary before it, what leaves and stays, a line a turn."""

    candidate: FoldCandidate
    usage: Usage = Usage()
    """What a model used for it."""
    notice: str = ""
    summary_before: str = ""
    leaves: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()

    @property
    def retired(self) -> tuple[str, ...]:
        """The entries that this summary retires, with the turn that settled each."""
        from contextinfinity.librarian.digest import parse, retired_lines

        before = retired_lines(parse(self.summary_before))
        return tuple(line for line in retired_lines(parse(self.candidate.summary)) if line not in before)


async def fold_to_fit(parts: Parts, branch_id: BranchId, budget: Budget | None = None) -> None:
    """Fold a branch before its next request, because its turns do not fit into one.

    A conversation that was imported or logged arrives without a summary. No model is asked, and the work is not
    throttled: somebody waits for the answer.
    """
    setup = dataclasses.replace(parts.setup, librarian=None, librarian_of=None, find_boundary=boundary_offline)
    await fold(dataclasses.replace(parts, setup=setup, running={}), branch_id, budget=budget)


async def fold(
    parts: Parts,
    branch_id: BranchId,
    *,
    insist: bool = False,
    job: Job | None = None,
    budget: Budget | None = None,
) -> Fold | None:
    """Fold a branch, as previewed if it was, if that is due and pays; ``insist``: whenever anything can leave.

    A fold that is committed ends ``job`` in the same transaction. None when nothing was committed. ``budget``: of the
    request that is being prepared.
    """
    here = await look(parts, branch_id, budget)
    if here is None or not (insist or await is_time(here)):
        return None
    thread_id = here.head.session_id
    parts.folds.tell(CompactionStarted(thread_id=thread_id, branch_id=branch_id))
    try:
        made = await proposed(here) or await work_out(here, insist=insist)
        state = None if made is None else await parts.store.states.fold(made.candidate, ends=job)
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        parts.folds.tell(CompactionFailed(thread_id=thread_id, branch_id=branch_id, message=message))
        raise
    made = None if state is None else made
    parts.folds.tell(completed(thread_id, branch_id, made))
    return made


def completed(thread_id: SessionId, branch_id: BranchId, made: Fold | None) -> CompactionCompleted:
    """Say what came of a fold."""
    if made is None:
        return CompactionCompleted(thread_id=thread_id, branch_id=branch_id, case="none")
    return CompactionCompleted(
        thread_id=thread_id,
        branch_id=branch_id,
        case=made.candidate.case,
        covers_turn_seq=made.candidate.covers_turn_seq,
        tokens_before=made.candidate.tokens_before,
        tokens_after=made.candidate.tokens_after,
        notice=made.notice,
    )


async def preview(parts: Parts, branch_id: BranchId) -> Fold | None:
    """Work out what a fold would do, and keep it: folding then does just that."""
    here = await look(parts, branch_id)
    made = None if here is None else await work_out(here, insist=True)
    if made is not None:
        await parts.store.states.propose(made.candidate)
    return made


async def proposed(here: FoldContext) -> Fold | None:
    """Give the fold that was previewed, if it still goes on from the summary there is."""
    candidate = await here.parts.store.states.proposal(here.branch_id)
    if candidate is None or not candidate.continues(here.head):
        return None
    return Fold(candidate=candidate, summary_before=here.head.summary)


async def is_time(here: FoldContext) -> bool:
    """Tell whether the word-for-word part is too long; after an undoing, whether it grew by as much since."""
    if not is_due(here.pieces, here.limits):
        return False
    last = await here.parts.store.states.newest(here.branch_id, FOLDS)
    held = last.turn_seq if last is not None and last.reason == "unfold" else 0
    return is_due(here.pieces, here.limits, since=held)


async def work_out(here: FoldContext, *, insist: bool) -> Fold | None:
    """Find where to cut, and let the librarian summarise what leaves; None when that would not pay."""
    boundary, topic = await topic_begins(here)
    cut = choose_cut(here.pieces, here.limits, topic, most=here.committed)
    if cut is None or not (insist or pays(here.pieces, cut, here.limits)):
        return None
    covers = here.turns[cut.leaves - 1].turn_seq
    stays = sum(piece.tokens for piece in here.pieces[cut.leaves :])
    over = boundary if cut.case == "truncate" else None
    summary, left = await summarise(here, covers, over)
    spent = await spent_on(here.parts, here.branch_id) + summary.usage
    if not summary.text:  # the budget is too small for a word: what cannot be covered stays
        return None
    candidate = FoldCandidate(
        branch_id=here.branch_id,
        base_covers=here.head.covers_turn_seq,
        base_summary=summary_hash(here.head.summary),
        base_state_seq=here.head.state_seq,
        covers_turn_seq=covers,
        summary=summary.text,
        case=cut.case,
        boundary_reason=over.boundary_reason if over else "",
        tokens_before=here.measure.text(here.head.summary) + left + stays,
        tokens_after=here.measure.text(summary.text) + stays,
        created_at=now(),
        by=summary.by,
        spent=spent,
    )
    return Fold(
        candidate=candidate,
        usage=summary.usage,
        notice=_notice(here, summary),
        summary_before=here.head.summary,
        leaves=tuple(line(shown, LAYOUT_VERSION) for shown in here.shown[: cut.leaves][-LISTED:]),
        stays=tuple(line(shown, LAYOUT_VERSION) for shown in here.shown[cut.leaves :][-LISTED:]),
    )


async def topic_begins(here: FoldContext) -> tuple[TopicBoundary, int | None]:
    """Find the turn with which the newest topic begins; gives its place too, if it is sure enough to cut there."""
    places, messages = [], []
    for place, (turn, shown) in enumerate(zip(here.turns, here.shown, strict=True)):
        for message in shown.messages:
            if message.role in ("user", "assistant") and (content := message.rendered_text):
                places.append(place)
                messages.append({"role": message.role, "content": content, "created_at": turn.created_at})
    found = await here.parts.setup.find_boundary(messages)
    sure = found.boundary_index is not None and found.confidence >= CONFIDENT
    return found, places[found.boundary_index] if found.boundary_index is not None and sure else None


async def summarise(here: FoldContext, covers: int, over: TopicBoundary | None) -> tuple[Summary, int]:
    """Give the summary that covers the turns up to one, and what those that leave for it took.

    ``over``: what they were about is over.
    """
    await loaded(*FOR_FOLDS)
    from contextinfinity.librarian.offline_librarian import OfflineLibrarian

    summary, left, failed = Summary(text=here.head.summary), 0, False
    known, by_rule = {piece.turn_seq: piece.tokens for piece in here.pieces}, OfflineLibrarian()
    hide = partial(hidden, redactor=here.parts.setup.redactor)
    pages = -(-(covers - here.head.covers_turn_seq) // PAGE)
    async for number, shown in leaving(here, covers):
        task = Task(
            summary=hide(summary.text),
            said=tuple(one for each in shown for one in said(each)),
            budget=here.budget.summary,
            pinned_facts=tuple(map(hide, here.head.pinned_facts)),
            topic_is_over=over is not None,
            topic=over.summary if over else "",
        )
        asked = number >= pages - NEAR and not failed  # one that failed would take as long for every page
        librarian = _librarian(here) if asked else None
        made = await (librarian or by_rule).summarise(task, here.measure.text, here.pause)
        summary = msgspec.structs.replace(
            made, usage=summary.usage + made.usage, rejected=summary.rejected or made.rejected
        )
        count("summaries_made")
        count("summaries_refused", len(summary.problems))
        failed = failed or (bool(summary.problems) and summary.by == OFFLINE)
        for each in shown:
            left += known.get(each.turn_seq) or here.measure.messages(each.messages)
            await here.pause()
        for problem in summary.problems:
            log.warning("branch %s: the librarian had trouble: %s", here.branch_id, problem)
    return summary, left


def _librarian(here: FoldContext) -> Librarian | None:
    """Choose who writes: the librarian that the settings name, or that of the model that answered the newest turn."""
    setup = here.parts.setup
    if setup.librarian is None and setup.librarian_of is None:
        return None
    if setup.spending is not None and not setup.spending.allows():
        return None
    if setup.librarian is not None or setup.librarian_of is None:
        return setup.librarian
    answered = (model for model in here.parts.models.by_name.values() if model.answered(here.turns[-1]))
    model = next(answered, None)
    return None if model is None else setup.librarian_of(model)


def _notice(here: FoldContext, summary: Summary) -> str:
    spending = here.parts.setup.spending
    tokens = summary.usage.input_tokens + summary.usage.output_tokens
    if spending is None or not (tokens or summary.rejected):
        return ""
    return spending.note(tokens, "" if summary.by == OFFLINE else summary.by, summary.rejected)


async def spent_on(parts: Parts, branch_id: BranchId) -> Usage:
    """Return what models used for the summaries of a branch so far."""
    kept = await parts.store.states.proposal(branch_id)
    return Usage() if kept is None else kept.spent
