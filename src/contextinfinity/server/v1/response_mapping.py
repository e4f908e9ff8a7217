"""Write a turn as a vendor's response: whole, or as a stream.

A connection that breaks before its answer was sent is recorded, so that a marked retry can join the turn.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

import msgspec
from fastapi import Request
from msgspec.structs import replace
from starlette.background import BackgroundTask
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from contextinfinity.client.contract import StampedEvent
from contextinfinity.client.drop_in import UPSTREAM, Answered
from contextinfinity.dialects.contract import AnswerView, Dialect, IncomingRequest, SseWriter, Stop
from contextinfinity.domain.events import CallStreamed, Delta, FinishedTurn, Reasoned, TurnDone
from contextinfinity.domain.message import Json, kept_block
from contextinfinity.domain.turn import Problem, Turn, Usage
from contextinfinity.errors import ContextInfinityError, Ending
from contextinfinity.server.app_state import AppState, app_state_of
from contextinfinity.server.problems import problem_of
from contextinfinity.server.streams import KEEP_ALIVE, EventStream, event_batches, last
from contextinfinity.server.v1.request_mapping import MappedRequest
from contextinfinity.server.v1.vendors import vendor_error_fields

T = TypeVar("T")

log = logging.getLogger(__name__)

STATUSES = {
    "rate_limit": 429,
    "quota": 429,
    "spending_limit": 429,
    "overloaded": 503,
    "time_out": 504,
    "bad_request": 400,
    "size": 400,
    "filter": 400,
    "tool_rounds": 400,
    "cancelled": 409,
}
"""HTTP statuses by the error code of a turn; any other error is the upstream model's (502)."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,80}")
"""Names of a client's parameters, parts and tools that may be put into a header."""
STOPS: dict[str, Stop] = {"length": "length", "max_tokens": "length", "filter": "filter", "content_filter": "filter"}


class UnansweredRequest(ContextInfinityError):
    """A failed turn as an HTTP error."""

    def __init__(self, problem: Problem, upstream: Json = None) -> None:
        super().__init__(problem.message, hint=problem.hint)
        self.problem = problem
        self.upstream: dict[str, Json] = upstream if isinstance(upstream, dict) else {}
        status = self.upstream.get("status")
        self.status = status if isinstance(status, int) else STATUSES.get(problem.code, 502)

    @property
    def headers(self) -> dict[str, str]:
        """Headers that say when the client may try again."""
        if self.problem.code == "spending_limit":
            return {"x-should-retry": "false"}  # for the SDKs of OpenAI and Anthropic
        wait = self.upstream.get("retry_after")
        return {"retry-after": str(wait)} if wait else {}


def answer_view(answered: Answered, named: str) -> AnswerView:
    """Return an answer as dialects take it; raise ``UnansweredRequest`` if the turn failed."""
    turn = answered.turn
    if turn.error is not None or turn.outcome in ("failed", "cancelled", None):
        stopped = Problem(code="cancelled", message="The answer was stopped.")
        upstream = turn.metadata.get(UPSTREAM) if isinstance(turn.metadata, dict) else None
        raise UnansweredRequest(turn.error or stopped, upstream)
    stop: Stop = "tools" if turn.outcome == "paused" else "end"
    return replace(
        partly(answered, named),
        ended_at=answered.ended_at,
        stop=STOPS.get(answered.reason, "length") if turn.outcome == "incomplete" else stop,
        usage=turn.usage,
    )


def partly(answered: Answered, named: str) -> AnswerView:
    """Return the text and calls of an answer, also of one that failed."""
    return replace(begun(answered.turn, named), blocks=answered.blocks)


def begun(turn: Turn, named: str) -> AnswerView:
    """Return the fields of an answer that are known when it starts."""
    return AnswerView(id=turn.id, model=named, created_at=turn.created_at)


async def answer(request: Request, dialect: Dialect, incoming: IncomingRequest, question: MappedRequest) -> Response:
    """Answer a request with a whole response or a stream."""
    app_state = app_state_of(request)
    if incoming.stream:
        close = app_state.streams.take(question.acting.owner)  # before the model is called: the request may be rejected
        try:
            return await _streamed(request, dialect, incoming, question, close)
        except BaseException:
            close()
            raise
    turn, others = await _begun_turns(incoming, question)
    answers = []
    for one in (turn, *others):
        events = question.drop_in.watch(one.id, deltas=False)
        await _while_connected(request, question, one, last(app_state, events, question.acting.check))
        answered = await question.drop_in.answered(one.id, reasoning=dialect.shows_reasoning)
        answers.append(answer_view(answered, incoming.model))
    headers = await headers_of(incoming, question, turn)
    written = msgspec.json.encode(dialect.write_answer(replace(answers[0], others=tuple(answers[1:]))))
    noted = BackgroundTask(_note_sent, question, turn, app_state)
    return Response(written, headers=headers, media_type="application/json", background=noted)


async def _begun_turns(incoming: IncomingRequest, question: MappedRequest) -> tuple[Turn, list[Turn]]:
    """Start a turn for each prompt of a request, with a sibling for each further answer (``n``)."""
    own = replace(question.talk, key=None, is_retry=False)
    turns = list[Turn]()
    for talk in (question.talk, *(replace(own, messages=(prompt,)) for prompt in incoming.more_prompts)):
        turn, _ = await question.drop_in.begin(talk, question.asked)
        beside = replace(talk, beside=turn.id, key=None)
        turns += [
            turn,
            *[(await question.drop_in.begin(beside, question.asked))[0] for _ in range(incoming.choices - 1)],
        ]
    return turns[0], turns[1:]


async def _streamed(
    request: Request, dialect: Dialect, incoming: IncomingRequest, question: MappedRequest, close: Callable[[], None]
) -> EventStream:
    app_state = app_state_of(request)
    turn, others = await _begun_turns(incoming, question)
    content, is_sent = pieces(app_state, dialect, incoming, question, turn, others), asyncio.Event()
    # before the status is sent, so that a failure is a status and the client can retry
    first = await _while_connected(request, question, turn, content.__anext__())
    headers = await headers_of(incoming, question, turn)
    whole = _from(first, content, is_sent)
    stream = EventStream(whole, close=close, stall_seconds=app_state.server.stall_seconds, headers=headers)
    stream.background = BackgroundTask(_note_sent, question, turn, app_state, is_sent)
    return stream


async def _while_connected(request: Request, question: MappedRequest, turn: Turn, waiting: Coroutine[Any, Any, T]) -> T:
    """Wait for an answer; if the client disconnects or the server ends first, record the request as not answered."""
    drop_in = question.drop_in
    answer, gone = asyncio.ensure_future(waiting), asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait((answer, gone), return_when="FIRST_COMPLETED")
        if gone.done():
            await _note_left(question, turn, app_state_of(request))
            raise ClientDisconnect
        return answer.result()
    except Ending:
        await drop_in.note_broken(turn.id)
        raise
    finally:
        for task in (answer, gone):
            task.cancel()
        await asyncio.gather(answer, gone, return_exceptions=True)


async def _disconnected(request: Request) -> None:
    """Wait until the client disconnects; the body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _note_sent(
    question: MappedRequest, turn: Turn, app_state: AppState, is_sent: asyncio.Event | None = None
) -> None:
    """Record whether the answer was delivered; the client of a stream may have disconnected."""
    if is_sent is None or is_sent.is_set():
        question.drop_in.note_delivered(turn.id)
    else:
        await _note_left(question, turn, app_state)


async def _note_left(question: MappedRequest, turn: Turn, app_state: AppState) -> None:
    """Record that the client disconnected; generation stops unless it comes back."""
    await question.drop_in.note_broken(turn.id)
    question.drop_in.stop_when_left(turn.id, question.talk, app_state.server.leave_seconds)


async def headers_of(incoming: IncomingRequest, question: MappedRequest, turn: Turn) -> dict[str, str]:
    """Return the headers with the thread, the turn, and the parameters that the model ignores."""
    headers = {"x-thread-id": turn.session_id, "x-turn-id": turn.id}
    left_out = await question.drop_in.left_out(turn.id, question.asked, incoming.ignored, incoming.messages)
    names = [incoming.option_names.get(name, name) for name in left_out]
    plain = [name for name in names if _PLAIN_NAME.fullmatch(name)]
    return headers | ({"x-ignored-parameters": ", ".join(plain)} if plain else {})


async def _from(first: bytes, rest: AsyncGenerator[bytes], is_sent: asyncio.Event) -> AsyncGenerator[bytes]:
    async with aclosing(rest):
        yield first
        async for piece in rest:
            yield piece
    is_sent.set()


async def pieces(
    app_state: AppState,
    dialect: Dialect,
    incoming: IncomingRequest,
    question: MappedRequest,
    turn: Turn,
    others: Sequence[Turn] = (),
) -> AsyncGenerator[bytes]:
    """Stream an answer as it is generated, with keep-alive comments.

    Further answers to the same request are generated concurrently and written after the first, each as a whole. An
    error before the first byte is raised, a later one is written.
    """
    writer: SseWriter | None = None
    answers: list[AnswerView] = []
    try:
        kinds = (
            Delta,
            *([Reasoned] if dialect.shows_reasoning else ()),
            *([CallStreamed] if dialect.streams_calls else ()),
        )
        for one in (turn, *others):
            done: FinishedTurn | None = None
            events = question.drop_in.watch(one.id, reasoning=len(kinds) > 1)
            async with aclosing(event_batches(app_state, events, check=question.acting.check)) as coming:
                async for handful in coming:
                    done = _end_in(handful) or done
                    said = [stamped.event for stamped in handful if one is turn and isinstance(stamped.event, kinds)]
                    if said or not handful:
                        head, writer = (b"", writer) if writer else await _begin(question, dialect, incoming, turn)
                        yield head + b"".join(_written(writer, event) for event in said) or KEEP_ALIVE
            if done is None:
                raise Ending("The server is shutting down, and the answer is not complete yet.")
            answered = await question.drop_in.answered(one.id, reasoning=dialect.shows_reasoning)
            answers.append(answer_view(answered, incoming.model))
        head, writer = (b"", writer) if writer else await _begin(question, dialect, incoming, turn)
        yield head + writer.end(replace(answers[0], others=tuple(answers[1:])))
    except Exception as error:
        is_size = isinstance(error, UnansweredRequest) and error.problem.code == "size"
        if writer is None and not (is_size and dialect.streams_size_errors):
            raise
        head, writer = (b"", writer) if writer else await _begin(question, dialect, incoming, turn)
        if isinstance(error, Ending):
            await question.drop_in.note_broken(turn.id)
        problem, status, upstream = _problem_of_error(error)
        yield head + writer.fail(problem, status, vendor_error_fields(dialect, problem, upstream))


def _written(writer: SseWriter, event: Delta | Reasoned | CallStreamed) -> bytes:
    if isinstance(event, Delta):
        return writer.text(event.text, event.logprobs)
    if isinstance(event, CallStreamed):
        return writer.call(event.piece)
    return writer.reasoning(kept_block(event.item))


async def _begin(
    question: MappedRequest, dialect: Dialect, incoming: IncomingRequest, turn: Turn
) -> tuple[bytes, SseWriter]:
    """Write the start of the answer, with the input tokens as far as they are known by then."""
    size = await question.drop_in.size_of(turn.id) if dialect.counts_first else 0
    spoken = replace(begun(turn, incoming.model), usage=Usage(input_tokens=size))
    writer = dialect.writer(spoken, with_usage=incoming.with_usage)
    return writer.begin(), writer


def _problem_of_error(error: Exception) -> tuple[Problem, int, dict[str, Json]]:
    """Return the problem of an error within a stream, its status, and what the model's vendor sent."""
    if isinstance(error, UnansweredRequest):
        return error.problem, error.status, error.upstream
    if isinstance(error, ContextInfinityError):
        details = problem_of(error)
        return Problem(code=details.code, message=details.detail, hint=details.hint), details.status, {}
    log.error("a stream was cut off", exc_info=error)
    return Problem(code="error", message="The stream was cut off.", hint="Send it again."), 500, {}


def _end_in(handful: list[StampedEvent]) -> FinishedTurn | None:
    return next((one.event.turn for one in handful if isinstance(one.event, TurnDone)), None)
