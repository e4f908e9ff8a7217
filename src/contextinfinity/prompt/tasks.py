"""Tasks: a message that a person wrote, and every tool round that follows it, whoever runs the tools.

A client that runs its own tools sends their results as messages, so that one task spans many turns. Folding and
shrinking treat it as one unit, and the opening message of the running task stays word for word. Where older rounds of
a task left the prompt, a *bridge* stands for them: the opening message, and the last answer that left, because the
results of its calls follow.
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
    """Tell whether one of the messages was written by a person: it holds more than tool results and reminders."""
    return any(message.role == "user" and _is_written(message) for message in messages)


def _is_written(message: Message) -> bool:
    if plain_text(message):
        return True
    return bool(message.blocks) and not message.rendered_text and not _brings_results(message)


def _brings_results(message: Message) -> bool:
    return any(isinstance(block, ToolResultBlock) for block in message.blocks)


def opens_task(shown: Shown) -> bool:
    """Tell whether a turn begins with a message that a person wrote."""
    return is_by_a_person(words_of(shown))


def words_of(shown: Shown) -> tuple[Message, ...]:
    """Return what stands before the first answer in a turn."""
    first = next((place for place, one in enumerate(shown.messages) if one.role == "assistant"), len(shown.messages))
    return shown.messages[:first]


def running_from(turns: Sequence[Shown], message: Message) -> int:
    """Return the place of the turn with which the running task begins; the number of turns if ``message`` begins it."""
    if is_by_a_person((message,)):
        return len(turns)
    return next((place for place in range(len(turns) - 1, -1, -1) if opens_task(turns[place])), 0)


def goes_on(message: Message) -> bool:
    """Tell whether a message belongs to a task that began before it: it brings results, and no words of a person."""
    return _brings_results(message) and not is_by_a_person((message,))


def bridge(left: Sequence[Shown]) -> Shown | None:
    """Stand for the turns of a task that leave the prompt before its end; None where none of them opens a task."""
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
    """Render turns as ``shown_turns`` does, behind a bridge for a task that began before them.

    ``opening`` holds the turn that opens the task and the last one before ``turns``, which may be the same; it is empty
    where no task goes on.
    """
    shown = shown_turns([*opening, *turns], then, layout, cache=cache)
    if not opening:
        return shown
    stands = bridge(shown[: len(opening)])
    return (*(() if stands is None else (stands,)), *shown[len(opening) :])
