"""Answers as Anthropic's clients read them: by the SDK itself, which checks each field."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import anthropic
import httpx2
import msgspec
import pytest
from anthropic.types import Message as SdkMessage
from pydantic import BaseModel

from contextinfinity.dialects.anthropic import AnthropicMessages
from contextinfinity.dialects.contract import AnswerView, Dialect, SseWriter, Stop
from contextinfinity.domain.message import ReasoningBlock, TextBlock, ToolUseBlock, UnknownBlock
from contextinfinity.domain.turn import Problem, Usage
from tests.cases import each

pytestmark = pytest.mark.req("API-7")

DIALECT = AnthropicMessages()
ID = "0199a0b1-0000-7000-8000-00000000002a"
BEGUN = AnswerView(id=ID, model="claude-x", created_at=datetime(2026, 1, 1, tzinfo=UTC), usage=Usage(input_tokens=7))
LOOK = ToolUseBlock(tool_use_id="toolu_1", name="look", input={"city": "Zürich", "days": [1, 2]})
BARE = ToolUseBlock(tool_use_id="toolu_2", name="now", input=None)


def spoken(*blocks: Any, stop: Stop = "end", stopped_by: str | None = None, usage: Usage | None = None) -> AnswerView:
    return msgspec.structs.replace(
        BEGUN, blocks=blocks, stop=stop, stopped_by=stopped_by, usage=usage or Usage(input_tokens=10, output_tokens=3)
    )


def client(answer: Callable[[httpx2.Request], httpx2.Response]) -> anthropic.Anthropic:
    return anthropic.Anthropic(
        api_key="none",
        base_url="http://127.0.0.1",
        max_retries=0,
        http_client=httpx2.Client(transport=httpx2.MockTransport(answer)),
        _strict_response_validation=True,
    )


ASKED: dict[str, Any] = {"model": "claude-x", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}


def heard_whole(said: AnswerView) -> SdkMessage:
    with client(lambda request: httpx2.Response(200, json=DIALECT.write_answer(said))) as sdk:
        heard: SdkMessage = sdk.messages.create(**ASKED)
    return heard


def stream_of(pieces: Sequence[str], said: AnswerView) -> bytes:
    writer: SseWriter = DIALECT.writer(BEGUN, with_usage=False)
    return b"".join([writer.begin(), *map(writer.text, pieces), writer.end(said)])


def heard_stream(data: bytes) -> SdkMessage:
    headers = {"content-type": "text/event-stream"}
    with (
        client(lambda request: httpx2.Response(200, content=data, headers=headers)) as sdk,
        sdk.messages.stream(**ASKED) as out,
    ):
        return SdkMessage.model_validate(out.get_final_message().model_dump())


def events(data: bytes) -> list[tuple[str, Any]]:
    out = []
    for frame in data.decode().removesuffix("\n\n").split("\n\n"):
        name, told = frame.split("\n")
        out.append((name.removeprefix("event: "), msgspec.json.decode(told.removeprefix("data: "))))
    return out


def test_it_is_a_dialect() -> None:
    dialect: Dialect = DIALECT
    assert dialect.models(["a"])


def test_a_message_is_written_as_anthropic_writes_it() -> None:
    assert DIALECT.write_answer(spoken(TextBlock(text="It rains."), LOOK, stop="tools")) == {
        "id": "msg_0199a0b1000070008000" + "00000000002a",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": [
            {"type": "text", "text": "It rains."},
            {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"city": "Zürich", "days": [1, 2]}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "stop_details": None,
        "usage": {
            "input_tokens": 10,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 3,
        },
    }


@pytest.mark.parametrize(
    ("stop", "stopped_by", "reason"),
    [
        ("end", None, "end_turn"),
        ("length", None, "max_tokens"),
        ("filter", None, "refusal"),
        ("tools", None, "tool_use"),
        ("stop", "END", "stop_sequence"),
        ("stop", None, "stop_sequence"),
    ],
)
def test_the_sdk_hears_why_an_answer_ended(stop: Stop, stopped_by: str | None, reason: str) -> None:
    said = spoken(TextBlock(text="Yes"), stop=stop, stopped_by=stopped_by)
    for heard in (heard_whole(said), heard_stream(stream_of(["Yes"], said))):
        assert (heard.stop_reason, heard.stop_sequence) == (reason, stopped_by)
        assert (heard.stop_details is None) == (reason != "refusal")


def test_the_sdk_hears_the_same_in_one_piece_and_as_a_stream() -> None:
    said = spoken(TextBlock(text="It "), TextBlock(text="rains 🌧."), LOOK, BARE, stop="tools")
    whole, streamed = heard_whole(said), heard_stream(stream_of(["It ", "", "rains", " 🌧."], said))
    assert streamed == whole
    assert [block.type for block in whole.content] == ["text", "tool_use", "tool_use"]
    assert whole.id.startswith("msg_")


@pytest.mark.parametrize("blocks", [(), (LOOK,), (TextBlock(text=""), BARE)])
def test_an_answer_without_words_has_no_text(blocks: tuple[Any, ...]) -> None:
    said = spoken(*blocks, stop="tools" if blocks else "end")
    assert heard_whole(said) == heard_stream(stream_of([""], said))
    assert all(block.type == "tool_use" for block in heard_whole(said).content)


def test_only_words_and_calls_are_written() -> None:
    said = spoken(ReasoningBlock(summary="hm"), UnknownBlock(provider="x", raw={}), TextBlock(text="Yes"))
    assert [block.type for block in heard_whole(said).content] == ["text"]


@pytest.mark.parametrize("given", ["not json", 3, ["a"]])
def test_arguments_that_are_no_object_become_one(given: Any) -> None:
    said = spoken(ToolUseBlock(tool_use_id="1", name="look", input=given), stop="tools")
    for heard in (heard_whole(said), heard_stream(stream_of([], said))):
        assert heard.content[0].model_dump()["input"] == {"arguments": given}


def test_tokens_from_a_cache_are_counted_apart() -> None:
    said = spoken(usage=Usage(input_tokens=100, cached_tokens=80, output_tokens=5, cost=0.1))
    for heard in (heard_whole(said), heard_stream(stream_of([], said))):
        used = heard.usage
        assert (used.input_tokens, used.cache_read_input_tokens, used.output_tokens) == (20, 80, 5)
        assert used.cache_creation_input_tokens == 0
    odd = spoken(usage=Usage(input_tokens=1, cached_tokens=2))
    assert heard_whole(odd).usage.input_tokens == 0


def test_a_stream_has_anthropics_events_in_their_order() -> None:
    said = spoken(TextBlock(text="ab"), LOOK, stop="tools")
    told = events(stream_of(["a", "b"], said))
    assert [(name, data.get("index")) for name, data in told] == [
        ("message_start", None),
        ("ping", None),
        ("content_block_start", 0),
        ("content_block_delta", 0),
        ("content_block_delta", 0),
        ("content_block_stop", 0),
        ("content_block_start", 1),
        ("content_block_delta", 1),
        ("content_block_stop", 1),
        ("message_delta", None),
        ("message_stop", None),
    ]
    assert all(name == data["type"] for name, data in told)
    begun = told[0][1]["message"]
    assert (begun["content"], begun["stop_reason"], begun["usage"]["input_tokens"]) == ([], None, 7)
    assert told[7][1]["delta"] == {"type": "input_json_delta", "partial_json": '{"city":"Zürich","days":[1,2]}'}
    assert set(told[9][1]["delta"]) == {"stop_reason", "stop_sequence", "stop_details"}


def test_line_breaks_in_a_text_do_not_break_the_stream() -> None:
    text = "a\n\nevent: error\r\ndata: {}\u2028\n\n"
    said = spoken(TextBlock(text=text))
    heard = heard_stream(stream_of([text], said))
    assert heard.content == heard_whole(said).content


def test_a_stream_that_fails_is_an_error_for_the_sdk() -> None:
    writer = DIALECT.writer(BEGUN)
    problem = Problem(code="overloaded", message="It is overloaded.", hint="Try again.")
    data = writer.begin() + writer.text("Once") + writer.fail(problem, 503, {})
    with pytest.raises(anthropic.APIStatusError) as caught:
        heard_stream(data)
    assert caught.value.body == {
        "type": "error",
        "error": {
            "type": "overloaded_error",
            "message": "It is overloaded. Try again.",
            "details": {"error_code": "overloaded"},
        },
        "request_id": "req_0199a0b100007000800000000000002a",
    }


@each(
    ("status", "code", "kind", "raised"),
    [
        (400, "invalid_input", "invalid_request_error", anthropic.BadRequestError),
        (401, "token_needed", "authentication_error", anthropic.AuthenticationError),
        (403, "not_yours", "permission_error", anthropic.PermissionDeniedError),
        (404, "not_found", "not_found_error", anthropic.NotFoundError),
        (409, "refused", "conflict_error", anthropic.ConflictError),
        (413, "too_large", "request_too_large", anthropic.APIStatusError),
        (415, "wrong_form", "invalid_request_error", anthropic.APIStatusError),
        (422, "invalid_input", "invalid_request_error", anthropic.UnprocessableEntityError),
        (429, "too_many", "rate_limit_error", anthropic.RateLimitError),
        (500, "internal", "api_error", anthropic.InternalServerError),
        (503, "authentication", "api_error", anthropic.InternalServerError),
        (503, "rate_limit", "rate_limit_error", anthropic.InternalServerError),
        (503, "time_out", "timeout_error", anthropic.InternalServerError),
        (529, "anything", "overloaded_error", anthropic.InternalServerError),
    ],
)
def test_errors_have_anthropics_shape(
    status: int, code: str, kind: str, raised: type[anthropic.APIStatusError]
) -> None:
    body = DIALECT.error(Problem(code=code, message="Broken.", hint="Repair it."), status, {}, request_id="req_1")
    assert (body["type"], body["request_id"]) == ("error", "req_1")
    with client(lambda request: httpx2.Response(status, json=body)) as sdk, pytest.raises(raised) as caught:
        sdk.messages.create(**ASKED)
    assert (caught.value.type, caught.value.api_message, caught.value.error_code) == (kind, "Broken. Repair it.", code)


@pytest.mark.parametrize("names", [["auto", "claude-x"], []])
def test_the_sdk_lists_the_models(names: list[str]) -> None:
    with client(lambda request: httpx2.Response(200, json=DIALECT.models(names))) as sdk:
        assert [model.id for model in sdk.models.list()] == names


def test_the_sdk_reads_one_model() -> None:
    with client(lambda request: httpx2.Response(200, json=DIALECT.model("auto"))) as sdk:
        assert sdk.models.retrieve("auto").display_name == "auto"


def test_the_sdk_reads_a_count_of_tokens() -> None:
    with client(lambda request: httpx2.Response(200, json=DIALECT.counted(42))) as sdk:
        assert sdk.messages.count_tokens(model="m", messages=ASKED["messages"]).input_tokens == 42


def test_what_the_sdk_heard_and_sends_back_is_what_was_said() -> None:
    said = spoken(TextBlock(text="I will look."), LOOK, stop="tools")
    bodies: list[bytes] = []

    def answered(request: httpx2.Request) -> httpx2.Response:
        bodies.append(request.read())
        return httpx2.Response(200, json=DIALECT.write_answer(said))

    with client(answered) as sdk:
        heard = sdk.messages.create(**ASKED)
        again = [*ASKED["messages"], heard.to_param(), {"role": "user", "content": "Go on."}]
        sdk.messages.create(**{**ASKED, "messages": again})
    assert DIALECT.read(bodies[0]).messages == DIALECT.read(bodies[1]).messages[:1]
    assert DIALECT.read(bodies[1]).messages[1].blocks == said.blocks


class Weather(BaseModel):
    city: str


def test_the_sdks_structured_output_is_read_and_heard() -> None:
    bodies: list[bytes] = []

    def answered(request: httpx2.Request) -> httpx2.Response:
        bodies.append(request.read())
        return httpx2.Response(200, json=DIALECT.write_answer(spoken(TextBlock(text='{"city": "Bern"}'))))

    with client(answered) as sdk:
        assert sdk.messages.parse(**ASKED, output_format=Weather).parsed_output == Weather(city="Bern")
    incoming = DIALECT.read(bodies[0])
    assert incoming.response_format["properties"].keys() == {"city"}
    assert incoming.ignored == ()
