"""Gather the material of a turn's prompts: recall the context, fold it if it does not fit, rewrite, retrieve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from contextinfinity.domain.plan import LeftOut
from contextinfinity.domain.session import Session
from contextinfinity.domain.turn import Turn
from contextinfinity.engine.artifacts import Need, attachments
from contextinfinity.engine.clarify import ClarificationRequest, understand
from contextinfinity.engine.deleting import Cleaner, expire_before_use
from contextinfinity.engine.engine_setup import Setup
from contextinfinity.engine.folding import Folding
from contextinfinity.engine.lazy_modules import FOR_A_TURN, FOR_FOLDS, loaded
from contextinfinity.engine.model_choice import Models
from contextinfinity.engine.optional_stage import run_optional
from contextinfinity.engine.prompt_material import PromptMaterial
from contextinfinity.engine.recall import ContextReader, PriorContext, session_of
from contextinfinity.engine.running_turn import RunningTurn
from contextinfinity.engine.turn_cache import length
from contextinfinity.prompt.measure import Measure
from contextinfinity.prompt.prompt_sections import Artifact, shown_turns
from contextinfinity.storage.contract import Store
from contextinfinity.telemetry.stage_times import timed

if TYPE_CHECKING:
    from contextinfinity.engine.history_search import HistorySearch


@dataclass(frozen=True, kw_only=True)
class Gathering:
    """Gathers what the prompts of a turn are made of."""

    store: Store
    setup: Setup
    models: Models
    reader: ContextReader
    folding: Folding

    async def gather(self, running: RunningTurn) -> PromptMaterial | ClarificationRequest:
        """Recall the context of a message, fold it if it does not fit, and gather the prompt material."""
        await loaded(*FOR_A_TURN)
        session: Session | None = running.session or await session_of(self.store, running.turn)
        if session is not None:
            await self.setup.dollars.check(self.store, session.owner)  # helper models cost too
        if session is not None and session.ttl_hours is not None:
            await expire_before_use(Cleaner(self.store, self.setup.copies), session.id)
            session = None
        recalled = await self.reader.read(running, session)
        if self.setup.folds and await self._needs_fold(recalled, running.turn):
            missing: list[LeftOut] = []
            terms = running.asked.terms
            budget = None if terms is None else recalled.home.budget(self.setup.ceilings, terms)
            await run_optional("fold", missing, lambda: self.folding.fold_to_fit(running.turn.branch_id, budget))
            recalled = await self.reader.read(running)
            recalled.missing.extend(missing)
        return await self.gather_from(running, recalled)

    async def gather_from(self, running: RunningTurn, recalled: PriorContext) -> PromptMaterial | ClarificationRequest:
        """Rewrite the message and retrieve passages for it; return a clarification if it is ambiguous."""
        resolved = await understand(self.setup, self.store.turns, running, recalled)
        if resolved.doubt is not None:
            return ClarificationRequest(recalled=recalled, doubt=resolved.doubt)
        with timed("search"):
            found = await self.retrieve(running, recalled, resolved.explicit, resolved.terms)
        return PromptMaterial(recalled=recalled, explicit=resolved.explicit, artifacts=found)

    async def _needs_fold(self, recalled: PriorContext, turn: Turn) -> bool:
        """Return whether turns must be folded before this request: some were not read, or they do not fit.

        A fold by a model is left to the background, and the prompt is shrunk until then; imported turns always fold
        here.
        """
        if recalled.terms is not None and recalled.terms.only_last is not None:
            return False
        if recalled.unread(turn) is not None:
            return True
        if not recalled.earlier or self._fit(recalled, turn):
            return False
        await loaded(*FOR_FOLDS)
        return not recalled.earlier[-1].provider or self.setup.librarian_for(recalled.home) is None

    def _fit(self, recalled: PriorContext, turn: Turn) -> bool:
        """Return whether the turns fit into a request to the branch's model.

        If a rule depends on the size, they may fit into one to any model.
        """
        by_context = any(rule.depends_on_prompt_size for rule in self.setup.router.rules)
        models = self.models.by_name.values() if by_context else (recalled.home,)
        terms, earlier = recalled.terms, recalled.earlier
        limit = max(model.budget(self.setup.ceilings, terms).input_limit for model in models)
        characters = sum(map(length, (*earlier, turn)))
        if characters < limit and not any(each.rounds for each in earlier):  # a token has at least one character
            return True
        measure, state = Measure(recalled.home.counter, cache=recalled.rendered), recalled.state
        front = measure.text("\n".join((recalled.system, *state.pinned_facts, state.summary)))
        front += 0 if terms is None else measure.tools(terms.tools)
        turns = measure.turns(shown_turns(earlier, turn, cache=recalled.rendered))
        return front + turns + measure.message(turn.user_message) <= limit

    async def retrieve(
        self, running: RunningTurn, recalled: PriorContext, explicit: str | None, terms: tuple[str, ...] = ()
    ) -> tuple[Artifact, ...]:
        """Return the attachments, then the relevant earlier passages, then those of other conversations.

        The budget is that of the branch's model; a fallback model may get fewer of them.
        """
        turn, missing = running.turn, recalled.missing
        if recalled.is_as_sent or (recalled.terms is not None and recalled.continues_task):
            return ()
        attached = await attachments(self.store, turn.session_id, running.asked.attach, self.setup.redactor)
        budget = recalled.home.budget(self.setup.ceilings)
        need = Need(
            turn=turn,
            explicit=explicit,
            first_shown=max(recalled.first_shown(turn), recalled.lines_to + 1),
            room=budget.retrieval_budget - sum(artifact.tokens for artifact in attached),
            window=budget.model_limit,
            attached=running.asked.attach,
            terms=terms,
        )
        from contextinfinity.engine.history_search import HistorySearch  # slow to import: word lists
        from contextinfinity.engine.other_conversations import OtherConversations

        search = HistorySearch(store=self.store, retrieval=self.setup.retrieval, redactor=self.setup.redactor)
        found = await run_optional("retrieval", missing, lambda: self._retrieved(search, need, missing)) or ()
        others = OtherConversations(store=self.store, search=search, remembering=self.setup.remembering)
        return (*attached, *found, *await others.passages(recalled, need, missing))

    async def _retrieved(self, search: HistorySearch, need: Need, missing: list[LeftOut]) -> tuple[Artifact, ...]:
        """Retrieve relevant earlier passages; return none while the whole conversation is shown verbatim."""
        if (found := self.setup.helpers.retrieve) is not None:
            return tuple(sorted(await found(need.turn, need.explicit), key=lambda artifact: -artifact.score))
        if self.setup.retrieval is None or need.first_shown <= 1 or need.room <= 0:
            return ()
        return await search.retrieve(need, missing)
