"""Folding: old turns leave the verbatim part of the prompt, and the summary covers them from then on.

    measure    read the newest turns until they exceed the trigger, or all of them
    cut        choose the cut by the window, the minimums, and where a new topic begins (``compaction.policy``)
    summarise  pass the folded turns to the librarian, page by page
    commit     keep turns and pins added in the meantime; if another fold was committed first, write nothing (TX-B)

A candidate holds everything that is known before the commit; a preview stores it, and ``fold`` then commits that one.
Undoing a fold creates a new state and suspends folding until the branch has grown by another trigger.
"""

from __future__ import annotations

import dataclasses
import logging
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from contextinfinity.compaction.policy import CONFIDENT, choose_cut, frees_enough, is_due
from contextinfinity.domain.events import CompactionCompleted, CompactionFailed, CompactionStarted
from contextinfinity.domain.ids import BranchId, SessionId, now
from contextinfinity.domain.job import Job
from contextinfinity.domain.plan import LAYOUT_VERSION, Budget
from contextinfinity.domain.state import FOLDS, FoldCandidate, summary_hash
from contextinfinity.domain.turn import Usage
from contextinfinity.engine.engine_setup import boundary_offline
from contextinfinity.engine.fold_sizing import PAGE, FoldContext, leaving, measure_branch, said
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
"""The number of newest pages that a model summarises; older pages of a longer backlog are summarised offline."""
LISTED = 20
"""The number of folded turns, and of remaining ones, that a preview lists."""


class Fold(msgspec.Struct, frozen=True, kw_only=True):
    """A possible or committed fold: the candidate, the previous summary, and one line for each turn folded or kept."""

    candidate: FoldCandidate
    usage: Usage = Usage()
    """The tokens that models used for it."""
    notice: str = ""
    summary_before: str = ""
    leaves: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()

    @property
    def retired(self) -> tuple[str, ...]:
        """The summary entries that this fold retires, each with the turn that settled it."""
        from contextinfinity.librarian.digest import parse, retired_lines

        before = retired_lines(parse(self.summary_before))
        return tuple(line for line in retired_lines(parse(self.candidate.summary)) if line not in before)


async def fold_to_fit(parts: Parts, branch_id: BranchId, budget: Budget | None = None) -> None:
    """Fold a branch before its next request, because its turns do not fit into one.

    This happens to imported or logged conversations, which arrive without a summary. No model is called and the
    work is not throttled: a caller is waiting for the answer.
    """
    setup = dataclasses.replace(parts.setup, librarian=None, librarian_of=None, find_boundary=boundary_offline)
    await fold(dataclasses.replace(parts, setup=setup, running={}), branch_id, budget=budget)


async def fold(
    parts: Parts,
    branch_id: BranchId,
    *,
    force: bool = False,
    job: Job | None = None,
    budget: Budget | None = None,
) -> Fold | None:
    """Fold a branch if it is due and worthwhile; return None if nothing was committed.

    A previewed fold is committed as it is. ``force`` folds whenever any turn can be folded. The commit ends ``job`` in
    the same transaction. ``budget`` is that of the request being prepared. Progress and failures are broadcast as
    compaction events.
    """
    context = await measure_branch(parts, branch_id, budget)
    if context is None or not (force or await is_fold_due(context)):
        return None
    thread_id = context.head.session_id
    parts.folds.notify(CompactionStarted(thread_id=thread_id, branch_id=branch_id))
    try:
        made = await proposed(context) or await prepare_fold(context, force=force)
        state = None if made is None else await parts.store.states.fold(made.candidate, ends=job)
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        parts.folds.notify(CompactionFailed(thread_id=thread_id, branch_id=branch_id, message=message))
        raise
    made = None if state is None else made
    parts.folds.notify(completed(thread_id, branch_id, made))
    return made


def completed(thread_id: SessionId, branch_id: BranchId, made: Fold | None) -> CompactionCompleted:
    """Return the event that reports the result of a fold."""
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
    """Compute a fold and store it, so that ``fold`` commits exactly this one."""
    context = await measure_branch(parts, branch_id)
    made = None if context is None else await prepare_fold(context, force=True)
    if made is not None:
        await parts.store.states.propose(made.candidate)
    return made


async def proposed(here: FoldContext) -> Fold | None:
    """Return the previewed fold, if it is still based on the current summary."""
    candidate = await here.parts.store.states.proposal(here.branch_id)
    if candidate is None or not candidate.continues(here.head):
        return None
    return Fold(candidate=candidate, summary_before=here.head.summary)


async def is_fold_due(here: FoldContext) -> bool:
    """Return whether the verbatim part exceeds the trigger; after an undo, whether it grew by another trigger since."""
    if not is_due(here.pieces, here.limits):
        return False
    last = await here.parts.store.states.newest(here.branch_id, FOLDS)
    held = last.turn_seq if last is not None and last.reason == "unfold" else 0
    return is_due(here.pieces, here.limits, since=held)


async def prepare_fold(here: FoldContext, *, force: bool) -> Fold | None:
    """Choose the cut and have the turns before it summarised; return None if that is not worthwhile."""
    boundary, topic = await topic_begins(here)
    cut = choose_cut(here.pieces, here.limits, topic, most=here.committed)
    if cut is None or not (force or frees_enough(here.pieces, cut, here.limits)):
        return None
    covers = here.turns[cut.leaves - 1].turn_seq
    stays = sum(piece.tokens for piece in here.pieces[cut.leaves :])
    over = boundary if cut.case == "truncate" else None
    summary, left = await summarise(here, covers, over)
    spent = await spent_on(here.parts, here.branch_id) + summary.usage
    if not summary.text:  # the summary budget is too small for any text: keep the turns
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
    """Find the boundary of the newest topic; also return its turn index if it is certain enough to cut there."""
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
    """Return the summary that covers the turns up to ``covers``, and the tokens of the turns it replaces.

    ``over`` is the boundary that ended their topic, if it has ended.
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
        asked = number >= pages - NEAR and not failed  # after a failure every further page would take as long
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
            log.warning("branch %s: the librarian reported a problem: %s", here.branch_id, problem)
    return summary, left


def _librarian(here: FoldContext) -> Librarian | None:
    """Return the librarian of the model that answered the newest turn; None: use the offline one."""
    answered = (model for model in here.parts.models.by_name.values() if model.answered(here.turns[-1]))
    return here.parts.setup.librarian_for(next(answered, None))


def _notice(here: FoldContext, summary: Summary) -> str:
    spending = here.parts.setup.spending
    tokens = summary.usage.input_tokens + summary.usage.output_tokens
    if spending is None or not (tokens or summary.rejected):
        return ""
    return spending.note(tokens, "" if summary.by == OFFLINE else summary.by, summary.rejected)


async def spent_on(parts: Parts, branch_id: BranchId) -> Usage:
    """Return the tokens that models have used for the summaries of a branch."""
    kept = await parts.store.states.proposal(branch_id)
    return Usage() if kept is None else kept.spent
