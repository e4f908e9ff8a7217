"""From a turn to a vendor's answer: in one piece, or piece by piece as it comes."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import msgspec
from msgspec.structs import replace
from starlette.responses import Response

from contextinfinity.client.contract import Stamped
from contextinfinity.client.drop_in import Answered
from contextinfinity.dialects.contract import Dialect, Incoming, Spoken, Stop, Writer
from contextinfinity.domain.events import Delta, FinishedTurn, TurnDone
from contextinfinity.domain.message import TextBlock, ToolUseBlock
from contextinfinity.domain.turn import Problem, Turn, Usage
from contextinfinity.errors import ContextInfinityError, Ending
from contextinfinity.server.door import Door
from contextinfinity.server.problems import problem_of
from contextinfinity.server.streams import KEEP_ALIVE, EventStream, handfuls, last
from contextinfinity.server.v1.asking import Question

log = logging.getLogger(__name__)

STATUSES = {
    "rate_limit": 429,
    "quota": 429,
    "overloaded": 503,
    "time_out": 504,
    "bad_request": 400,
    "size": 400,
    "filter": 400,
    "tool_rounds": 400,
    "cancelled": 409,
}
"""By what kept a turn from being answered; whatever else it was lies with who was asked."""
STOPS: dict[str, Stop] = {"length": "length", "max_tokens": "length", "filter": "filter", "content_filter": "filter"}


class Unanswered(ContextInfinityError):
    """A turn that came to nothing, as an answer of HTTP tells it."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message, hint=problem.hint)
        self.problem = problem
        self.status = STATUSES.get(problem.code, 502)


def spoken_of(answered: Answered, named: str) -> Spoken:
    """Give an answer as dialects write it; ``Unanswered`` for one that failed."""
    turn = answered.turn
    if turn.error is not None or turn.outcome in ("failed", "cancelled", None):
        stopped = Problem(code="cancelled", message="The answer was stopped.")
        raise Unanswered(turn.error or stopped)
    blocks = () if turn.answer is None else turn.answer.blocks
    stop: Stop = "tools" if turn.outcome == "paused" else "end"
    return replace(
        begun(turn, named),
        blocks=tuple(block for block in blocks if isinstance(block, TextBlock | ToolUseBlock)),
        stop=STOPS.get(answered.reason, "length") if turn.outcome == "incomplete" else stop,
        usage=turn.usage,
    )


def begun(turn: Turn, named: str) -> Spoken:
    """Give what is known of an answer when it begins."""
    return Spoken(id=turn.id, model=named, created_at=turn.created_at)


async def answer(door: Door, dialect: Dialect, incoming: Incoming, question: Question) -> Response:
    """Have a request answered, whole or as a stream."""
    if incoming.stream:
        close = door.streams.take(question.owner)  # first: what is refused is not asked of a model
        try:
            return await _streamed(door, dialect, incoming, question, close)
        except BaseException:
            close()
            raise
    turn, _ = await door.drop_in.begin(question.talk, question.owner, question.asked)
    await last(door, door.drop_in.watch(turn.id, words=False))
    spoken = spoken_of(await door.drop_in.answered(turn.id), incoming.model)
    headers = await _headers(door, incoming, question, turn)
    return Response(msgspec.json.encode(dialect.whole(spoken)), headers=headers, media_type="application/json")


async def _streamed(
    door: Door, dialect: Dialect, incoming: Incoming, question: Question, close: Callable[[], None]
) -> EventStream:
    turn, _ = await door.drop_in.begin(question.talk, question.owner, question.asked)
    content = pieces(door, dialect, incoming, turn)
    first = await anext(content)  # before the status is sent: a failure is a status, and can be tried again
    headers = await _headers(door, incoming, question, turn)
    whole = _from(first, content)
    return EventStream(whole, close=close, stall_seconds=door.server.stall_seconds, headers=headers)


async def _headers(door: Door, incoming: Incoming, question: Question, turn: Turn) -> dict[str, str]:
    """Say where an answer is kept, and what of its request is not followed by the model that gives it."""
    headers = {"x-thread-id": turn.session_id, "x-turn-id": turn.id}
    ignored = (*incoming.ignored, *await door.drop_in.left_out(turn.id, question.asked))
    return headers | ({"x-ignored-parameters": ", ".join(ignored)} if ignored else {})


async def _from(first: bytes, rest: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    async with aclosing(rest):
        yield first
        async for piece in rest:
            yield piece


async def pieces(door: Door, dialect: Dialect, incoming: Incoming, turn: Turn) -> AsyncGenerator[bytes]:
    """Write an answer as it comes, from its first word on; a comment goes out where nothing comes for a while.

    What goes wrong before anything was written is raised, what goes wrong later is written.
    """
    writer: Writer | None = None
    done: FinishedTurn | None = None
    try:
        async with aclosing(handfuls(door, door.drop_in.watch(turn.id))) as coming:
            async for handful in coming:
                done = _end_in(handful) or done
                texts = [one.event.text for one in handful if isinstance(one.event, Delta)]
                if texts and writer is not None:
                    yield b"".join(map(writer.text, texts))
                elif texts or not handful:
                    head, writer = (b"", writer) if writer else await _begin(door, dialect, incoming, turn)
                    yield head + b"".join(map(writer.text, texts)) or KEEP_ALIVE
        if done is None:
            raise Ending("The server is ending, and the answer is not there yet.")
        spoken = spoken_of(await door.drop_in.answered(turn.id), incoming.model)
        head, writer = (b"", writer) if writer else await _begin(door, dialect, incoming, turn)
        yield head + writer.end(spoken)
    except Exception as error:
        if writer is None:
            raise
        yield writer.fail(*_told(error))


async def _begin(door: Door, dialect: Dialect, incoming: Incoming, turn: Turn) -> tuple[bytes, Writer]:
    """Begin to write; by then it is known how large the request is, as far as that can be told."""
    size = await door.drop_in.size_of(turn.id) if dialect.counts_first else 0
    spoken = replace(begun(turn, incoming.model), usage=Usage(input_tokens=size))
    writer = dialect.writer(spoken, with_usage=incoming.with_usage)
    return writer.begin(), writer


def _told(error: Exception) -> tuple[Problem, int]:
    """Say what went wrong in the middle of a stream, where the status is gone."""
    if isinstance(error, Unanswered):
        return error.problem, error.status
    if isinstance(error, ContextInfinityError):
        told = problem_of(error)
        return Problem(code=told.code, message=told.detail, hint=told.hint), told.status
    log.error("a stream broke off", exc_info=error)
    return Problem(code="error", message="The stream broke off.", hint="Send it again."), 500


def _end_in(handful: list[Stamped]) -> FinishedTurn | None:
    return next((one.event.turn for one in handful if isinstance(one.event, TurnDone)), None)
