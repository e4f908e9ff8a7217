"""Render an earlier turn in a later prompt, with roles that are valid for every provider.

| how it ended                                   | what the model reads                                             |
| ---------------------------------------------- | ---------------------------------------------------------------- |
| answered, length limit, waits for tools        | both messages unchanged                                          |
| cancelled by a user, with text                 | the message, the text shown, ``[stopped here]``                  |
| interrupted by a crash, with text              | the message, the text shown, ``[cut off here]``                  |
| no text at all                                 | the message, ``[no answer]``; nothing if the next is its retry   |
| too large to be sent                           | the first 200 characters, and a note if that is not all          |
| a clarification question                       | the question, as the answer                                      |
| logged, by the assistant or as a system text   | that message alone                                               |
| logged, by a tool, without the call            | ``[a tool gave back]`` and its text, as a user message           |

Tool calls and results are shown between message and answer. A call without a result gets a constant result in the
prompt, never in the ledger. Reasoning is shown only to the model that produced it, and only during its turn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby

from msgspec.structs import replace

from contextinfinity.domain.message import (
    ContentBlock,
    Message,
    TextBlock,
    ToolOutputItem,
    ToolResultBlock,
    ToolUseBlock,
    TranscriptItem,
    blocks_of,
    is_kept,
    kept_block,
    say,
)
from contextinfinity.domain.plan import LAYOUT_VERSION
from contextinfinity.domain.turn import Phase, Turn

STOPPED = "[stopped here]"
CUT_OFF = "[cut off here]"
NO_ANSWER = "[no answer]"
NOT_RUN = "[not run]"
INTERRUPTED = "[interrupted; it may have run]"
FROM_A_TOOL = "[a tool gave back]"
TOO_LARGE = "[the rest of this message was too large to be sent]"
KEPT_OF_TOO_LARGE = 200


def render_turn(turn: Turn, following: Turn | None, layout: int = LAYOUT_VERSION) -> tuple[Message, ...]:
    """Render one turn; ``following`` is the turn after it, which may be the current one.

    ``layout`` is the layout version of the plan.
    """
    between = render_rounds(turn.rounds)
    if turn.answer is None or not _has_content(turn.answer.blocks):
        if following is not None and _is_omitted(turn, following):
            return ()
        if turn.phase is Phase.DONE and turn.outcome is None:
            return _unanswered(turn, following, layout)
        mark = _mark(turn) if turn.text else None
        return *_user_messages(turn, layout), *between, say("assistant", mark or NO_ANSWER)
    return *_user_messages(turn, layout), *between, *_answer(turn, turn.answer, following)


def render_rounds(items: Iterable[TranscriptItem], *, running: bool = False) -> tuple[Message, ...]:
    """Render the messages of a tool loop; reasoning is included only if the turn is ``running``."""
    messages = []
    for is_output, group in groupby(items, lambda item: isinstance(item, ToolOutputItem)):
        blocks = tuple(block for item in group for block in _blocks(item, running))
        if blocks:
            messages.append(Message(role="tool" if is_output else "assistant", blocks=blocks))
    return tuple(messages)


def _blocks(item: TranscriptItem, running: bool) -> tuple[ContentBlock, ...]:
    return (kept_block(item),) if running and is_kept(item) else blocks_of((item,))


def has_no_output(turn: Turn) -> bool:
    """Return whether a turn ended without text and calls, so that its retry may replace it."""
    return not turn.text and (turn.answer is None or not _has_content(turn.answer.blocks))


def _is_omitted(turn: Turn, following: Turn) -> bool:
    """Return whether a turn without an answer can be omitted: the next one retries it with the same tool results."""
    return (
        following.retry_of == turn.id
        and has_no_output(turn)
        and _call_ids_with_results(turn) <= _call_ids_with_results(following)
    )


def _call_ids_with_results(turn: Turn) -> set[str]:
    """Return the ids of the calls whose results a turn's message contains."""
    return {block.tool_use_id for block in turn.user_message.blocks if isinstance(block, ToolResultBlock)}


def _unanswered(turn: Turn, following: Turn | None, layout: int) -> tuple[Message, ...]:
    """Render a logged turn without an answer; ``[no answer]`` is added unless the log continues with one."""
    message = turn.user_message
    if message.role == "assistant":
        return _answer(turn, message, following) if _has_content(message.blocks) else ()
    if message.role == "system" or (following is not None and _continues_answer(following)):
        return _user_messages(turn, layout)
    return *_user_messages(turn, layout), say("assistant", NO_ANSWER)


def _continues_answer(following: Turn) -> bool:
    """Return whether a logged turn continues the answer to the message before it."""
    role = following.user_message.role
    return role in ("assistant", "tool") or (role == "system" and following.answer is not None)


def _user_messages(turn: Turn, layout: int) -> tuple[Message, ...]:
    """Return the user's message, or its beginning if it was too large to send; each call keeps a result.

    Layout 1 added the note to short messages as well, although they were complete.
    """
    message = turn.user_message
    results = [block for block in message.blocks if isinstance(block, ToolResultBlock)]
    if (
        turn.error is not None
        and turn.error.code == "size"
        and (layout == 1 or _length(message.blocks) > KEPT_OF_TOO_LARGE)
    ):
        begins = TextBlock(text=f"{message.rendered_text[:KEPT_OF_TOO_LARGE]}\n{TOO_LARGE}")
        cut = (replace(result, content=(TextBlock(text=TOO_LARGE),)) for result in results)
        return (Message(role=message.role, blocks=(*cut, begins)),)
    if message.role == "system" and not message.rendered_text.strip():
        return ()
    if message.role == "tool" and not results:
        return (say("user", f"{FROM_A_TOOL}\n{message.rendered_text}"),)
    return (message,)


def _length(blocks: Sequence[ContentBlock]) -> float:
    """Count the characters of a message and of its tool results; an image is infinitely large."""
    length = 0.0
    for block in blocks:
        if isinstance(block, ToolResultBlock):
            length += _length(block.content)
        else:
            length += len(block.text) if isinstance(block, TextBlock) else math.inf
    return length


def _answer(turn: Turn, answer: Message, following: Turn | None) -> tuple[Message, ...]:
    """Render the answer, the results of its calls, and a mark if it was cancelled or interrupted."""
    blocks = tuple(block for block in answer.blocks if not isinstance(block, ToolResultBlock))
    results = _results(turn, answer, following)
    mark = _mark(turn)
    if mark is not None and not results:
        blocks = (*blocks, TextBlock(text=f"\n{mark}"))
    messages: tuple[Message, ...] = (Message(role=answer.role, blocks=blocks),)
    if results:
        messages += (Message(role="tool", blocks=results),)
        messages += (say("assistant", mark),) if mark is not None else ()
    return messages


def _mark(turn: Turn) -> str | None:
    """Return the mark for a cancelled or interrupted answer."""
    if turn.outcome == "cancelled":
        return STOPPED
    return CUT_OFF if turn.phase is Phase.FAILED else None


def _has_content(blocks: Sequence[ContentBlock]) -> bool:
    return any(isinstance(block, ToolUseBlock) or (isinstance(block, TextBlock) and block.text) for block in blocks)


def _results(turn: Turn, answer: Message, following: Turn | None) -> tuple[ToolResultBlock, ...]:
    """Return the results of an answer's calls; calls without a result in the next turn get a constant one."""
    calls = [block for block in answer.blocks if isinstance(block, ToolUseBlock)]
    if not calls:  # fast path: each prompt renders hundreds of turns
        return ()
    came = {block.tool_use_id: block for block in answer.blocks if isinstance(block, ToolResultBlock)}
    brought = _call_ids_with_results(following) if following else set()
    interrupted = turn.error is not None and turn.error.code == "interrupted"
    missing = (TextBlock(text=INTERRUPTED if interrupted else NOT_RUN),)
    return tuple(
        came.get(call.tool_use_id) or ToolResultBlock(tool_use_id=call.tool_use_id, content=missing, is_error=True)
        for call in calls
        if call.tool_use_id not in brought
    )
