"""Count the tokens of a prompt by section, and divide the model's context window.

The same counts decide what is sent, shrunk and folded.

The settings are upper limits; small windows get less, so that every window from 2,048 tokens works and folding starts
before shrinking. The same figures decide when turns are folded and what is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.message import Message
from contextinfinity.domain.plan import Budget, PlanSection
from contextinfinity.domain.prompt import ToolSpec, WorkspaceText
from contextinfinity.errors import Refused
from contextinfinity.prompt.layout import current_message, summary_pair, system_texts, tools_of
from contextinfinity.prompt.prompt_sections import RenderCache, Sections, Shown
from contextinfinity.text.tokens import Counter


class Measure:
    """Count tokens for one model; ``tools`` is False if it cannot call tools, so none are sent.

    ``cache`` holds the renderings and counts of earlier requests of the branch.
    """

    def __init__(self, counter: Counter, *, tools: bool = True, cache: RenderCache | None = None) -> None:
        self._counter = counter
        self._cache = cache or RenderCache()
        self._tools = tools
        self.scale = counter.scale

    def text(self, text: str) -> int:
        """Count the tokens of a text."""
        return self._counter.count(text)

    def tools(self, tools: Sequence[ToolSpec]) -> int:
        """Count the tokens of the tool definitions."""
        return self._counter.count(tuple(tools)) if tools and self._tools else 0

    def message(self, message: Message) -> int:
        """Count the tokens of a message, including its framing."""
        return self._counter.count(message)

    def messages(self, messages: Sequence[Message]) -> int:
        """Count the tokens of several messages."""
        return sum(map(self._counter.count, messages))

    def turns(self, turns: Sequence[Shown]) -> int:
        """Count the tokens of earlier turns."""
        return self._cache.tokens(self._counter, turns)

    def sections(self, sections: Sections) -> tuple[PlanSection, ...]:
        """Count the tokens of a prompt by section, in prompt order."""
        front, counted = sections.front, self._counter.count
        instructions, *facts = system_texts(front, sections.layout) or ("",)
        turns = sections.turns
        messages = (*sections.lead, current_message(sections), *sections.begun)
        found = [
            PlanSection(name="system", tokens=counted(instructions)),
            PlanSection(name="pins and memories", tokens=sum(map(counted, facts))),
            PlanSection(name="tools", tokens=self.tools(tools_of(front))),
            PlanSection(name="format", tokens=counted(str(front.response_format)) if front.response_format else 0),
            PlanSection(name="workspace", tokens=self._workspace(sections.workspace)),
            PlanSection(
                name="summary", tokens=self.messages(summary_pair(front.summary)), source=sections.covers or None
            ),
            PlanSection(
                name="turns",
                tokens=self.turns(turns),
                source=[turns[0].turn_seq, turns[-1].turn_seq] if turns else None,
            ),
            PlanSection(name="message", tokens=self.messages(messages), source=sections.turn_seq),
            PlanSection(name="steps", tokens=self.messages(sections.rounds)),
        ]
        return tuple(section for section in found if section.tokens)

    def _workspace(self, workspace: WorkspaceText | None) -> int:
        if workspace is None:
            return 0
        messages = (*chain.from_iterable(workspace.tiers), *workspace.context, *workspace.matches)
        return self.text(workspace.system) + self.messages(messages)

    def total(self, sections: Sections) -> int:
        """Count the tokens of a prompt."""
        return sum(section.tokens for section in self.sections(sections))


SMALLEST_WINDOW = 2048


class Ceilings(Struct, frozen=True, kw_only=True):
    """The limits from the settings, in tokens."""

    reserve: int = 4000
    safety: int = 1500
    retrieval: int = 6000
    summary: int | None = None
    """None: 2% of the window, between 400 and 4,000 tokens."""
    memories: int = 500
    pins: int = 2000
    fold_trigger: int = 24_000
    verbatim_window: int = 4000


@lru_cache(maxsize=64)
def divide_window(limit: int, ceilings: Ceilings, *, base_tokens: int = 0) -> Budget:
    """Divide a window of ``limit`` tokens."""
    reserve = min(ceilings.reserve, limit // 4)
    safety = min(ceilings.safety, limit // 16)
    retrieval = min(ceilings.retrieval, limit // 4)
    rest = limit - reserve - safety - retrieval
    trigger = min(ceilings.fold_trigger, rest * 3 // 4)
    return Budget(
        model_limit=limit,
        base_tokens=base_tokens,
        retrieval_budget=retrieval,
        response_reserve=reserve,
        safety_margin=safety,
        summary=min(_summary(limit) if ceilings.summary is None else ceilings.summary, rest // 8),
        memories=min(ceilings.memories, rest // 8),
        pins=min(ceilings.pins, rest // 8),
        fold_trigger=trigger,
        verbatim_window=min(ceilings.verbatim_window, trigger // 4),
    )


def divide_resent_window(limit: int, ceilings: Ceilings, answer: int | None) -> Budget:
    """Divide a window for a client that sends the whole conversation with every request.

    Its messages and an answer of ``answer`` tokens (at most a quarter of the window) are sent unchanged while they fit;
    only then are turns folded, and half of the input limit stays verbatim.
    """
    reserve = ceilings.reserve if answer is None else answer
    budget = divide_window(limit, replace(ceilings, reserve=reserve))
    return replace(budget, fold_trigger=budget.input_limit, verbatim_window=budget.input_limit // 2, resent=True)


def least_rejected(budget: Budget, answer: int | None) -> int:
    """Return the size of a prompt that a vendor rejects: the answer that was asked for does not fit behind it."""
    return budget.model_limit if answer is None else budget.model_limit - budget.response_reserve + 1


def _summary(limit: int) -> int:
    return max(400, min(limit // 50, 4000))


def check_pins_limit(pinned: Sequence[str], fact: str, counter: Counter, limit: int) -> None:
    """Raise ``Refused`` if a new fact would exceed the token limit of pinned facts."""
    pinned_tokens, more = sum(map(counter.count, pinned)), counter.count(fact)
    if fact not in pinned and pinned_tokens + more > limit:
        raise Refused(
            f"Pinned facts may use {limit} tokens; the existing ones use {pinned_tokens}, this one {more}.",
            hint="Unpin a fact, shorten this one, or raise budget.pins_limit_tokens.",
        )


class BudgetReport(Struct, frozen=True, kw_only=True):
    """The token use of a conversation."""

    history_tokens: int
    max_history_tokens: int
    max_input_tokens: int
    max_output_tokens: int
    remaining: int
    needs_summary: bool


def report(history_tokens: int, budget: Budget, max_output_tokens: int) -> BudgetReport:
    """Report how many tokens a history takes, and whether it needs to be folded."""
    largest = budget.model_limit
    remaining = largest - history_tokens - budget.response_reserve - budget.safety_margin
    return BudgetReport(
        history_tokens=history_tokens,
        max_history_tokens=largest // 16,
        max_input_tokens=largest,
        max_output_tokens=max_output_tokens,
        remaining=max(0, remaining),
        needs_summary=history_tokens > budget.fold_trigger,
    )
