from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.pagination import SyncPage
from openai.types import CreateEmbeddingResponse, Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from contextinfinity.dialects.contract import AnswerView, Dialect
from contextinfinity.dialects.openai_chat import OpenAIChat, read_embeddings, write_embeddings
from contextinfinity.domain.message import REFUSAL, ContentBlock, ReasoningBlock, TextBlock, ToolUseBlock
from contextinfinity.domain.turn import Problem, Usage
from contextinfinity.errors import InvalidInput

pytestmark = pytest.mark.req("API-7")

BEGUN = AnswerView(id="0199", model="gpt-4.1", created_at=datetime(2025, 1, 2, 3, 4, 5, 600_000, UTC))
USAGE = Usage(input_tokens=100, output_tokens=7, cached_tokens=80)
CALL = ToolUseBlock(tool_use_id="call_1", name="weather", input={"city": "Rome"})
OTHER = ToolUseBlock(tool_use_id="call_2", name="time", input=None)


def spoken(*blocks: ContentBlock, **fields: Any) -> AnswerView:
    return replace(BEGUN, blocks=blocks, usage=USAGE, **fields)


def whole(answer: AnswerView) -> ChatCompletion:
    return ChatCompletion.model_validate(OpenAIChat().write_answer(answer), strict=True)


def stream(answer: AnswerView, *pieces: str, with_usage: bool = False) -> list[Any]:
    """Return the data of a stream's events, without the last one, which ends the stream."""
    writer = OpenAIChat().writer(BEGUN, with_usage=with_usage)
    written = b"".join([writer.begin(), *map(writer.text, pieces), writer.end(answer)])
    *events, last, rest = written.decode().split("\n\n")
    assert (last, rest) == ("data: [DONE]", "")
    return [json.loads(event.removeprefix("data: ")) for event in events]


def put_together(events: list[Any]) -> ChatCompletion:
    state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
    for event in events:
        state.handle_chunk(ChatCompletionChunk.model_validate(event, strict=True))
    return state.current_completion_snapshot


def test_it_is_a_dialect() -> None:
    dialect: Dialect = OpenAIChat()
    assert dialect.models([]) == {"object": "list", "data": []}


def test_an_answer_is_written_as_openai_writes_it() -> None:
    assert OpenAIChat().write_answer(
        spoken(TextBlock(text="Hello "), ReasoningBlock(raw={}), TextBlock(text="there."))
    ) == {
        "id": "chatcmpl-0199",
        "object": "chat.completion",
        "created": 1735787045,
        "model": "gpt-4.1",
        "system_fingerprint": None,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello there.", "refusal": None, "annotations": []},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 7,
            "total_tokens": 107,
            "prompt_tokens_details": {"cached_tokens": 80},
        },
    }


def test_an_answer_of_calls_alone_has_no_content() -> None:
    message = whole(spoken(CALL, OTHER, stop="tools")).choices[0].message
    assert message.content is None
    assert message.model_dump()["tool_calls"] == [
        {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Rome"}'}},
        {"id": "call_2", "type": "function", "function": {"name": "time", "arguments": "{}"}},
    ]


def test_arguments_that_were_no_json_come_back_as_they_were() -> None:
    (call,) = whole(spoken(replace(CALL, input="{broken"))).choices[0].message.tool_calls or []
    assert call.model_dump()["function"]["arguments"] == "{broken"


def test_a_refusal_is_no_content() -> None:
    message = whole(spoken(TextBlock(text="No.", annotations=(REFUSAL,)))).choices[0].message
    assert (message.content, message.refusal) == (None, "No.")


def test_an_empty_answer_is_an_empty_text() -> None:
    assert whole(spoken()).choices[0].message.content == ""


@pytest.mark.parametrize(
    ("blocks", "stop", "reason"),
    [
        ((), "end", "stop"),
        ((), "stop", "stop"),
        ((), "length", "length"),
        ((), "filter", "content_filter"),
        ((CALL,), "tools", "tool_calls"),
        ((CALL,), "end", "tool_calls"),
        ((CALL,), "length", "length"),
    ],
)
def test_why_it_ended_is_said_alike_in_one_piece_and_in_many(blocks: Any, stop: Any, reason: str) -> None:
    answer = spoken(*blocks, stop=stop)
    assert whole(answer).choices[0].finish_reason == reason
    assert stream(answer)[-1]["choices"][0]["finish_reason"] == reason


def test_a_stream_says_who_speaks_then_the_words_then_why_it_ended() -> None:
    events = stream(spoken(TextBlock(text="Hello")), "Hel", "", "lo")
    assert [(event["choices"][0]["delta"], event["choices"][0]["finish_reason"]) for event in events] == [
        ({"role": "assistant", "content": "", "refusal": None}, None),
        ({"content": "Hel"}, None),
        ({"content": "lo"}, None),
        ({}, "stop"),
    ]
    assert not any("usage" in event for event in events)
    shell = {"id": "chatcmpl-0199", "object": "chat.completion.chunk", "created": 1735787045, "model": "gpt-4.1"}
    assert all(event.items() >= shell.items() for event in events)


def test_the_count_of_tokens_comes_last_and_only_where_it_was_asked_for() -> None:
    *events, last = stream(spoken(), "Hi", with_usage=True)
    assert all(event["usage"] is None and event["choices"] for event in events)
    assert last["choices"] == []
    assert last["usage"]["total_tokens"] == 107


def test_the_sdk_puts_a_stream_together_into_what_one_piece_says() -> None:
    text = TextBlock(text="Let me see.")
    answer = spoken(text, CALL, OTHER, stop="tools")
    made = put_together(stream(answer, "Let me", " see.", with_usage=True))
    assert made.choices[0].message.content == "Let me see."
    calls = [json.loads(call.model_dump_json()) for call in made.choices[0].message.tool_calls or []]
    whole_calls = whole(answer).choices[0].message.tool_calls or []
    assert [(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in calls] == [
        (call.id, call.function.name, call.function.arguments) for call in whole_calls if call.type == "function"
    ]
    assert made.choices[0].finish_reason == "tool_calls"
    assert made.usage == whole(answer).usage


def test_what_we_wrote_is_read_back_as_what_was_said() -> None:
    answer = spoken(TextBlock(text="Let me see."), CALL, stop="tools")
    for message in (
        OpenAIChat().write_answer(answer)["choices"][0]["message"],
        put_together(stream(answer, "Let me see.")).choices[0].message.model_dump(exclude_none=True),
    ):
        asked = OpenAIChat().read(json.dumps({"model": "m", "messages": [message]}).encode())
        assert [one.blocks for one in asked.messages] == [answer.blocks]


def test_no_sign_in_a_text_can_end_a_line_of_the_stream() -> None:
    text = "a\n\nb\r\x0b\x0c\x1c\x85\u2028\u2029data: x"
    writer = OpenAIChat().writer(replace(BEGUN, model="m\u2028"), with_usage=False)
    written = writer.text(text).decode()
    assert len(written.splitlines()) == 2
    assert json.loads(written.removeprefix("data: "))["choices"][0]["delta"]["content"] == text


def test_an_error_in_the_middle_of_a_stream_is_one_the_sdk_raises() -> None:
    writer = OpenAIChat().writer(BEGUN, with_usage=True)
    written = writer.fail(Problem(code="overloaded", message="It is overloaded.", hint="Try again."), 503, {})
    assert written.startswith(b"data: ")
    assert written.endswith(b"\n\n")
    assert json.loads(written.removeprefix(b"data: ")) == {
        "error": {
            "message": "It is overloaded. Try again.",
            "type": "server_error",
            "param": None,
            "code": "overloaded",
        }
    }


@pytest.mark.parametrize(
    ("code", "status", "kind", "named"),
    [
        ("token_needed", 401, "invalid_request_error", "invalid_api_key"),
        ("size", 400, "invalid_request_error", "context_length_exceeded"),
        ("too_many", 429, "requests", "rate_limit_exceeded"),
        ("quota", 429, "insufficient_quota", "insufficient_quota"),
        ("internal", 500, "server_error", "internal"),
    ],
)
def test_errors_have_the_names_that_clients_look_for(code: str, status: int, kind: str, named: str) -> None:
    told = OpenAIChat().error(Problem(code=code, message="x"), status, {})["error"]
    assert (told["type"], told["code"]) == (kind, named)


def test_an_error_of_reading_names_its_parameter() -> None:
    with pytest.raises(InvalidInput) as caught:
        OpenAIChat().read(b'{"model":"m","messages":[{"role":"user","content":[{"type":"x"}]}]}')
    error = caught.value
    problem = Problem(code=error.code, message=error.message, hint=error.hint)
    assert OpenAIChat().error(problem, 400, {})["error"]["param"] == "messages[0].content[0].type"


def test_models_are_listed_as_the_sdk_reads_them() -> None:
    listed = SyncPage[Model].model_validate(OpenAIChat().models(["auto", "small"]))
    assert [model.id for model in listed.data] == ["auto", "small"]
    assert Model.model_validate(OpenAIChat().model("auto"), strict=True) == listed.data[0]


def asked(**parameters: Any) -> bytes:
    return json.dumps({"model": "e", "input": "a", **parameters}).encode()


def test_vectors_are_written_as_numbers_or_packed_as_asked() -> None:
    rows = np.array([[0.5, -1.0], [0.1, 0.0]], dtype=np.float32)
    plain = write_embeddings(read_embeddings(asked(input=["a", "b"])), rows, 3)
    packed = write_embeddings(read_embeddings(asked(input=["a", "b"], encoding_format="base64")), rows, 3)
    made = CreateEmbeddingResponse.model_validate(plain, strict=True)
    assert [one.embedding for one in made.data] == rows.tolist()
    assert (made.model, made.usage.prompt_tokens, [one.index for one in made.data]) == ("e", 3, [0, 1])
    raw = [np.frombuffer(base64.b64decode(one["embedding"]), dtype="<f4") for one in packed["data"]]
    assert np.array_equal(np.array(raw), rows)


@pytest.mark.req("API-12")
def test_shorter_vectors_are_the_beginning_of_the_whole_ones_at_length_one() -> None:
    rows = np.array([[0.6, 0.0, 0.8]], dtype=np.float32)
    told = write_embeddings(read_embeddings(asked(dimensions=2)), rows, 1)
    assert told["data"][0]["embedding"] == [1.0, 0.0]
    with pytest.raises(InvalidInput, match="vectors have 3"):
        write_embeddings(read_embeddings(asked(dimensions=4)), rows, 1)


def test_one_text_is_a_list_of_one() -> None:
    assert read_embeddings(asked(user="u", dimensions=None)).texts == ("a",)


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"dimensions": 0}, "dimensions: expected an integer"),
        ({"input": [1, 2]}, r"input\[0\]: .*check_embedding_ctx_length"),
        ({"input": [[1, 2]]}, r"input\[0\]: .*check_embedding_ctx_length"),
        ({"input": ["a", ""]}, r"input\[1\]: expected a string that is not empty"),
        ({"input": []}, "input: expected"),
        ({"input": None}, "input: expected"),
        ({"input": ["a"] * 2049}, "input: expected .* 2048"),
        ({"encoding_format": "int8"}, "encoding_format: expected one of float, base64"),
        ({"model": 1}, "model: "),
    ],
)
def test_what_cannot_be_placed_is_refused_by_name(parameters: Any, told: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{told}"):
        read_embeddings(asked(**parameters))
