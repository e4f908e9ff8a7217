"""Folding: old turns leave the verbatim part of the prompt, and the summary covers them from then on.

    measure    read the newest turns until they exceed the trigger, or all of them
    cut        choose the cut by the window, the minimums, and where a new topic begins (``compaction.policy``)
    summarise  pass the folded turns to the librarian, page by page
    commit     keep turns and pins added in the meantime; if another fold was committed first, write nothing (TX-B)

A candidate holds everything that is known before the commit; a preview stores it, and ``fold`` then commits that one.
Undoing a fold creates a new state and suspends folding until the branch has grown by another trigger.

Folding runs in the background and is throttled while turns run. A branch is read page by page, so its length does not
matter.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from contextinfinity.compaction.policy import CONFIDENT, FoldableTurn, FoldLimits, choose_cut, frees_enough, is_due
from contextinfinity.domain.events import CompactionCompleted, CompactionFailed, CompactionStarted
from contextinfinity.domain.ids import BranchId, SessionId, TurnId, now
from contextinfinity.domain.job import Job
from contextinfinity.domain.message import Message, Role, TextBlock, ToolResultBlock, ToolUseBlock
from contextinfinity.domain.plan import LAYOUT_VERSION, Budget
from contextinfinity.domain.state import FOLDS, FoldCandidate, State, summary_hash
from contextinfinity.domain.turn import UNFINISHED, Turn, Usage
from contextinfinity.engine.engine_setup import Setup, boundary_offline
from contextinfinity.engine.job_runner import Throttle
from contextinfinity.engine.lazy_modules import FOR_FOLDS, loaded
from contextinfinity.engine.model_choice import Model, Models
from contextinfinity.engine.running_turn import Broadcast, RunningTurn
from contextinfinity.librarian.contract import Librarian, Pause, Summary, Task, TranscriptMessage
from contextinfinity.prompt.measure import Measure
from contextinfinity.prompt.prompt_sections import Shown, shown_turns
from contextinfinity.prompt.redact import hidden, redact_turns
from contextinfinity.prompt.shrink import line
from contextinfinity.settings import OFFLINE
from contextinfinity.storage.contract import Store
from contextinfinity.telemetry.counters import count

if TYPE_CHECKING:
    from contextinfinity.compaction.boundary import TopicBoundary


MOST_WAITING = 20
"""An upper bound for the turns that wait or run on a branch."""
PAGE = 50
"""The number of turns that are read, measured and summarised at a time."""


@dataclass(frozen=True, kw_only=True)
class FoldContext:
    """A branch that may be folded: its head, its budget, and its newest turns with their sizes."""

    branch_id: BranchId
    head: State
    measure: Measure
    budget: Budget
    min_exchanges: int
    pause: Pause
    turns: list[Turn] = field(default_factory=list)
    shown: list[Shown] = field(default_factory=list)
    pieces: list[FoldableTurn] = field(default_factory=list)

    @property
    def committed(self) -> int:
        """The number of turns up to the head: only committed turns can be folded."""
        return sum(turn.turn_seq <= self.head.turn_seq for turn in self.turns)

    @property
    def limits(self) -> FoldLimits:
        """The limits that decide when and where the branch is folded."""
        return FoldLimits(
            trigger=self.budget.fold_trigger, window=self.budget.verbatim_window, exchanges=self.min_exchanges
        )


def _piece(here: FoldContext, shown: Shown, turn: Turn) -> FoldableTurn:
    return FoldableTurn(
        turn_seq=turn.turn_seq,
        tokens=here.measure.messages(shown.messages),
        messages=sum(message.role in ("user", "assistant") for message in shown.messages),
        joined=any(isinstance(block, ToolResultBlock) for block in turn.user_message.blocks),
        waits=turn.outcome == "paused",
    )


def said(shown: Shown) -> Iterator[TranscriptMessage]:
    """Yield the text of a turn by role; tool calls and their results have the role ``tool``."""
    for message in shown.messages:
        for role, text in _texts_of(message):
            if text.strip():
                yield TranscriptMessage(turn_seq=shown.turn_seq, role=role, text=text, at=shown.at)


def _texts_of(message: Message) -> Iterator[tuple[Role, str]]:
    yield message.role, message.rendered_text
    for block in message.blocks:
        if isinstance(block, ToolUseBlock):
            yield "tool", f"{block.name} {msgspec.json.encode(block.input).decode()}"
        elif isinstance(block, ToolResultBlock):
            yield "tool", "".join(part.text for part in block.content if isinstance(part, TextBlock))


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


@dataclass(frozen=True, kw_only=True)
class Folding:
    """Folds the branches of a ledger."""

    store: Store
    models: Models
    setup: Setup
    running: Mapping[TurnId, RunningTurn] = field(default_factory=dict)
    """The turns that run in this process: background work is throttled meanwhile."""
    events: Broadcast = field(default_factory=Broadcast)
    """Receives the events of folds."""

    async def fold(
        self,
        branch_id: BranchId,
        *,
        force: bool = False,
        job: Job | None = None,
        budget: Budget | None = None,
    ) -> Fold | None:
        """Fold a branch if it is due and worthwhile; return None if nothing was committed.

        A previewed fold is committed as it is. ``force`` folds whenever any turn can be folded. The commit ends
        ``job`` in the same transaction. ``budget`` is that of the request being prepared. Progress and failures are
        broadcast as compaction events.
        """
        context = await self._measure(branch_id, budget)
        if context is None or not (force or await self._is_due(context)):
            return None
        thread_id = context.head.session_id
        self.events.notify(CompactionStarted(thread_id=thread_id, branch_id=branch_id))
        try:
            made = await self._proposed(context) or await self._prepare(context, force=force)
            state = None if made is None else await self.store.states.fold(made.candidate, ends=job)
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
            self.events.notify(CompactionFailed(thread_id=thread_id, branch_id=branch_id, message=message))
            raise
        made = None if state is None else made
        self.events.notify(completed(thread_id, branch_id, made))
        return made

    async def fold_to_fit(self, branch_id: BranchId, budget: Budget | None = None) -> None:
        """Fold a branch before its next request, because its turns do not fit into one.

        This happens to imported or logged conversations, which arrive without a summary. No model is called and the
        work is not throttled: a caller is waiting for the answer.
        """
        setup = dataclasses.replace(self.setup, librarian=None, follow_model=None, find_boundary=boundary_offline)
        await dataclasses.replace(self, setup=setup, running={}).fold(branch_id, budget=budget)

    async def preview(self, branch_id: BranchId) -> Fold | None:
        """Compute a fold and store it, so that ``fold`` commits exactly this one."""
        context = await self._measure(branch_id)
        made = None if context is None else await self._prepare(context, force=True)
        if made is not None:
            await self.store.states.propose(made.candidate)
        return made

    async def _prepare(self, here: FoldContext, *, force: bool) -> Fold | None:
        """Choose the cut and have the turns before it summarised; return None if that is not worthwhile."""
        boundary, topic = await self.topic_begins(here)
        cut = choose_cut(here.pieces, here.limits, topic, most=here.committed)
        if cut is None or not (force or frees_enough(here.pieces, cut, here.limits)):
            return None
        covers = here.turns[cut.leaves - 1].turn_seq
        stays = sum(piece.tokens for piece in here.pieces[cut.leaves :])
        over = boundary if cut.case == "truncate" else None
        summary, left = await self._summarise(here, covers, over)
        spent = await self._spent_on(here.branch_id) + summary.usage
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
            notice=self._notice(here, summary),
            summary_before=here.head.summary,
            leaves=tuple(line(shown, LAYOUT_VERSION) for shown in here.shown[: cut.leaves][-LISTED:]),
            stays=tuple(line(shown, LAYOUT_VERSION) for shown in here.shown[cut.leaves :][-LISTED:]),
        )

    async def _measure(self, branch_id: BranchId, budget: Budget | None = None) -> FoldContext | None:
        """Read turns, newest first, until they exceed the trigger or all are read; return None if there are none to
        fold.

        ``budget`` is that of the request being prepared; by default that of the newest request.
        """
        head = await self.store.states.head(branch_id)
        newest = [
            turn
            for turn in await self.store.turns.history(branch_id, limit=MOST_WAITING)
            if turn.phase not in UNFINISHED
        ]
        if not newest or newest[-1].turn_seq <= head.covers_turn_seq:
            return None
        model, before = await self._model_of(newest[-1]), newest[-1].turn_seq + 1
        measure, budget = Measure(model.counter), budget or await self._budget_of(model, newest[-1])
        here = FoldContext(
            branch_id=branch_id,
            head=head,
            measure=measure,
            budget=budget,
            min_exchanges=self.setup.min_exchanges,
            pause=Throttle(self.running).pause,
        )
        while before - 1 > head.covers_turn_seq and not is_due(here.pieces, here.limits):
            count = min(PAGE, before - 1 - head.covers_turn_seq)
            page = await self.store.turns.history(branch_id, limit=count, before=before)
            turns = [turn for turn in page if turn.phase not in UNFINISHED]
            shown = self._shown(turns, here.turns[0] if here.turns else None)
            pieces = []
            for each, turn in zip(shown, turns, strict=True):
                pieces.append(_piece(here, each, turn))
                await here.pause()
            here.turns[:0], here.shown[:0], here.pieces[:0] = turns, shown, pieces
            before = page[0].turn_seq if page else 0
        return here

    async def _budget_of(self, model: Model, turn: Turn) -> Budget:
        """Return the token budget for the turn's branch.

        For a client that resends the conversation, the trigger is what the front of its last request leaves free.
        """
        plan = await self.store.turns.plan(turn.id)
        if plan is None or plan.budget is None or not plan.budget.resent:
            return model.budget(self.setup.ceilings)
        front = sum(section.tokens for section in plan.sections if section.name not in ("turns", "message", "steps"))
        trigger = max(1, plan.budget.input_limit - front)
        return replace(plan.budget, fold_trigger=trigger, verbatim_window=trigger // 2)

    async def _model_of(self, turn: Turn) -> Model:
        """Return the model the branch stays with, or else the model that answered the turn, or else the default.

        A model that answered a single message, by a rule or as a fallback, is not considered.
        """
        plan = await self.store.turns.plan(turn.id)
        if plan is not None:
            self.models.recall_window(plan)
        if plan is not None and plan.route is not None and plan.route.home in self.models.by_name:
            return self.models.by_name[plan.route.home]
        return self.models.that_answered(turn) or self.models.named(None)

    def _shown(self, turns: Sequence[Turn], after: Turn | None) -> list[Shown]:
        """Render turns as the model sees them, with secrets redacted."""
        return [*redact_turns(shown_turns(turns, after), self.setup.redactor)]

    async def _leaving(self, here: FoldContext, covers: int) -> AsyncIterator[tuple[int, list[Shown]]]:
        """Yield the turns to be folded, oldest first, as (page number, turns)."""
        for number, after in enumerate(range(here.head.covers_turn_seq, covers, PAGE)):
            last = min(after + PAGE, covers)
            # Read one turn more: how a turn is rendered depends on its successor.
            turns = await self.store.turns.history(here.branch_id, limit=last - after + 1, before=last + 2)
            folded = [turn for turn in turns if after < turn.turn_seq <= last]
            then = turns[-1] if turns and turns[-1].turn_seq > last else None
            yield number, self._shown(folded, then)

    async def _proposed(self, here: FoldContext) -> Fold | None:
        """Return the previewed fold, if it is still based on the current summary."""
        candidate = await self.store.states.proposal(here.branch_id)
        if candidate is None or not candidate.continues(here.head):
            return None
        return Fold(candidate=candidate, summary_before=here.head.summary)

    async def _is_due(self, here: FoldContext) -> bool:
        """Return whether the verbatim part exceeds the trigger; after an undo, by another trigger since then."""
        if not is_due(here.pieces, here.limits):
            return False
        last = await self.store.states.newest(here.branch_id, FOLDS)
        held = last.turn_seq if last is not None and last.reason == "unfold" else 0
        return is_due(here.pieces, here.limits, since=held)

    async def topic_begins(self, here: FoldContext) -> tuple[TopicBoundary, int | None]:
        """Find the boundary of the newest topic; also return its turn index if it is certain enough to cut there."""
        places, messages = [], []
        for place, (turn, shown) in enumerate(zip(here.turns, here.shown, strict=True)):
            for message in shown.messages:
                if message.role in ("user", "assistant") and (content := message.rendered_text):
                    places.append(place)
                    messages.append({"role": message.role, "content": content, "created_at": turn.created_at})
        found = await self.setup.following(self.models.that_answered(here.turns[-1])).find_boundary(messages)
        sure = found.boundary_index is not None and found.confidence >= CONFIDENT
        return found, places[found.boundary_index] if found.boundary_index is not None and sure else None

    async def _summarise(self, here: FoldContext, covers: int, over: TopicBoundary | None) -> tuple[Summary, int]:
        """Return the summary that covers the turns up to ``covers``, and the tokens of the turns it replaces.

        ``over`` is the boundary that ended their topic, if it has ended.
        """
        await loaded(*FOR_FOLDS)
        from contextinfinity.librarian.offline_librarian import OfflineLibrarian

        summary, left, failed = Summary(text=here.head.summary), 0, False
        known, by_rule = {piece.turn_seq: piece.tokens for piece in here.pieces}, OfflineLibrarian()
        hide = partial(hidden, redactor=self.setup.redactor)
        pages = -(-(covers - here.head.covers_turn_seq) // PAGE)
        async for number, shown in self._leaving(here, covers):
            task = Task(
                summary=hide(summary.text),
                said=tuple(one for each in shown for one in said(each)),
                budget=here.budget.summary,
                pinned_facts=tuple(map(hide, here.head.pinned_facts)),
                topic_is_over=over is not None,
                topic=over.summary if over else "",
            )
            asked = number >= pages - NEAR and not failed  # after a failure every further page would take as long
            librarian = self._librarian(here) if asked else None
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

    def _librarian(self, here: FoldContext) -> Librarian | None:
        """Return the librarian of the model that answered the newest turn; None: use the offline one."""
        return self.setup.librarian_for(self.models.that_answered(here.turns[-1]))

    def _notice(self, here: FoldContext, summary: Summary) -> str:
        spending = self.setup.spending
        tokens = summary.usage.input_tokens + summary.usage.output_tokens
        if spending is None or not (tokens or summary.rejected):
            return ""
        return spending.note(tokens, "" if summary.by == OFFLINE else summary.by, summary.rejected)

    async def _spent_on(self, branch_id: BranchId) -> Usage:
        """Return the tokens that models have used for the summaries of a branch."""
        kept = await self.store.states.proposal(branch_id)
        return Usage() if kept is None else kept.spent


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
