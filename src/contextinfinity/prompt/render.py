"""How an earlier turn stands in a later prompt: always as a pair, so that roles stay valid for every provider.

| how it ended                                  | what the model reads                                        |
| --------------------------------------------- | ----------------------------------------------------------- |
| answered, cut short by length, waits for tools | both sides as they are                                      |
| stopped by a person, with text                | the words, the text shown, ``[stopped here]``                |
| cut by a crash, with text                     | the words, the text shown, ``[cut off here]``                |
| no text at all                                | the words, ``[no answer]``; nothing if the next is its retry |
| too large to be sent                          | the first 200 characters and a note                          |
| a question asked back                         | the question, as the answer                                  |

A tool call whose result never came gets a constant "not run" result here, never in the record.
"""

from __future__ import annotations

from collections.abc import Sequence

from contextinfinity.domain.message import ContentBlock, Message, TextBlock, ToolResultBlock, ToolUseBlock, say
from contextinfinity.domain.turn import Phase, Turn

STOPPED = "[stopped here]"
CUT_OFF = "[cut off here]"
NO_ANSWER = "[no answer]"
NOT_RUN = "[not run]"
TOO_LARGE = "[the rest of this message was too large to be sent]"
KEPT_OF_TOO_LARGE = 200


def render(turns: Sequence[Turn], then: Turn | None = None) -> tuple[Message, ...]:
    """Write earlier turns, oldest first, as the messages a model reads before the turn ``then``."""
    messages: list[Message] = []
    for turn, following in zip(turns, [*turns[1:], then], strict=False):
        messages.extend(render_turn(turn, following))
    return tuple(messages)


def render_turn(turn: Turn, following: Turn | None) -> tuple[Message, ...]:
    """Write one turn; ``following`` is the turn after it, the one being answered included."""
    answer = _answer(turn)
    if answer is None:
        if following is not None and following.retry_of == turn.id:
            return ()
        return _words(turn), say("assistant", NO_ANSWER)
    return _words(turn), answer, *_not_run(answer, following)


def _words(turn: Turn) -> Message:
    """What the user said, or its beginning when it was too large to be sent."""
    if turn.error is None or turn.error.code != "size":
        return turn.user_message
    return say("user", f"{turn.user_message.rendered_text[:KEPT_OF_TOO_LARGE]}\n{TOO_LARGE}")


def _answer(turn: Turn) -> Message | None:
    """What the model said, with a mark where it did not end by itself; None when it said nothing."""
    if turn.answer is None or not _says_something(turn.answer.blocks):
        return None
    if turn.outcome == "cancelled":
        return _marked(turn.answer, STOPPED)
    if turn.phase is Phase.FAILED:
        return _marked(turn.answer, CUT_OFF)
    return turn.answer


def _says_something(blocks: Sequence[ContentBlock]) -> bool:
    return any(isinstance(block, ToolUseBlock) or (isinstance(block, TextBlock) and block.text) for block in blocks)


def _marked(message: Message, mark: str) -> Message:
    return Message(role=message.role, blocks=(*message.blocks, TextBlock(text=f"\n{mark}")))


def _not_run(answer: Message, following: Turn | None) -> tuple[Message, ...]:
    """Constant results for the calls whose results the next turn does not bring."""
    brought = {
        block.tool_use_id
        for block in (following.user_message.blocks if following else ())
        if isinstance(block, ToolResultBlock)
    }
    missing = tuple(
        ToolResultBlock(tool_use_id=block.tool_use_id, content=(TextBlock(text=NOT_RUN),), is_error=True)
        for block in answer.blocks
        if isinstance(block, ToolUseBlock) and block.tool_use_id not in brought
    )
    return (Message(role="tool", blocks=missing),) if missing else ()
