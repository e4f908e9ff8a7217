"""Count the tokens of a prompt by section. The same counts decide what is sent, shrunk and folded."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from contextinfinity.domain.message import Message
from contextinfinity.domain.plan import PlanSection
from contextinfinity.domain.prompt import ToolSpec
from contextinfinity.domain.workspace_prompt import WorkspaceText
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
