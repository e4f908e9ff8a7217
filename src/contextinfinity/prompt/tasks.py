"""Tasks: a message that a person wrote, and all tool rounds that follow it.

A client that runs its own tools sends their results as messages, so one task may span many turns. Folding and shrinking
treat a task as one unit, and the opening message of the current task stays verbatim. When older rounds of a task were
removed from the prompt, a *bridge* replaces them: the opening message and the last removed answer, because the results
of its calls follow.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from contextinfinity.domain.message import Message, ToolResultBlock
from contextinfinity.domain.plan import LAYOUT_VERSION
from contextinfinity.domain.prefix_hash import plain_text
from contextinfinity.domain.turn import Turn
from contextinfinity.prompt.prompt_sections import RenderCache, Shown, shown_turns


def is_by_a_person(messages: Sequence[Message]) -> bool:
    """Return whether a person wrote one of the messages: it contains more than tool results and reminders."""
    return any(message.role == "user" and _is_written(message) for message in messages)


def _is_written(message: Message) -> bool:
    if plain_text(message):
        return True
    return bool(message.blocks) and not message.rendered_text and not _brings_results(message)


def _brings_results(message: Message) -> bool:
    return any(isinstance(block, ToolResultBlock) for block in message.blocks)


def opens_task(shown: Shown) -> bool:
    """Return whether a turn starts with a message that a person wrote."""
    return is_by_a_person(words_of(shown))


def words_of(shown: Shown) -> tuple[Message, ...]:
    """Return the messages of a turn before its first answer."""
    said = shown.messages
    first = next((place for place, one in enumerate(said) if one.role == "assistant" and one.blocks), len(said))
    return said[:first]


def running_from(turns: Sequence[Shown], message: Message) -> int:
    """Return the index of the turn that starts the current task; the number of turns if ``message`` starts it."""
    if is_by_a_person((message,)):
        return len(turns)
    return next((place for place in range(len(turns) - 1, -1, -1) if opens_task(turns[place])), 0)


def continues_task(message: Message) -> bool:
    """Return whether a message continues a task: it has tool results and no text by a person."""
    return _brings_results(message) and not is_by_a_person((message,))


def bridge(left: Sequence[Shown]) -> Shown | None:
    """Return a bridge for the removed turns of a task, or None if none of them opens a task."""
    said = [shown for shown in left if shown.messages]
    opening = next((shown for shown in reversed(said) if opens_task(shown)), None)
    if opening is None:
        return None
    last = said[-1]
    return replace(last, messages=(*words_of(opening), *last.messages[len(words_of(last)) :]))


def shown_with_opening(
    opening: Sequence[Turn],
    turns: Sequence[Turn],
    then: Turn | None,
    layout: int = LAYOUT_VERSION,
    *,
    cache: RenderCache | None = None,
) -> tuple[Shown, ...]:
    """Render turns as ``shown_turns`` does, after a bridge for a task that started before them.

    ``opening`` holds the turn that opens the task and the last turn before ``turns``, which may be the same; it is
    empty if no task continues.
    """
    shown = shown_turns([*opening, *turns], then, layout, cache=cache)
    if not opening:
        return shown
    bridged = bridge(shown[: len(opening)])
    return (*(() if bridged is None else (bridged,)), *shown[len(opening) :])
