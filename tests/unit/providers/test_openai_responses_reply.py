"""What comes back from OpenAI's Responses, in one piece and streamed."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from openai.types.responses import Response

from contextinfinity.domain.message import AssistantItem, ReasoningItem, TextBlock, ToolCallItem, UnknownItem
from contextinfinity.domain.prompt import Abilities, Finished, Prices, TextDelta
from contextinfinity.domain.turn import Completed, Incomplete, Paused, Usage
from contextinfinity.errors import ProviderError
from contextinfinity.providers.openai_responses import ResponsesWire

ABLE = Abilities(prices=Prices(input=2, output=10, cached=0.2, cache_write=2.5))
WIRE = ResponsesWire()

CITED = {"type": "url_citation", "start_index": 0, "end_index": 5, "url": "https://example.org", "title": "Example"}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "secret"}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "weather",
    "arguments": '{"city": "Rome"}',
    "status": "completed",
}


def message(*parts: Any, **more: Any) -> dict[str, Any]:
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [*parts], **more}


def text(words: str, *annotations: Any) -> dict[str, Any]:
    return {"type": "output_text", "text": words, "annotations": [*annotations]}


def response(*output: Any, **more: Any) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "gpt-6-astra-2026",
        "output": [*output],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "service_tier": "default",
        "usage": {
            "input_tokens": 100,
            "input_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 20},
            "output_tokens": 10,
            "output_tokens_details": {"reasoning_tokens": 3},
            "total_tokens": 110,
        },
        **more,
    }


def read(*output: Any, **more: Any) -> Finished:
    whole = response(*output, **more)
    Response.model_validate(whole)
    return WIRE.read(whole, ABLE)


def items(finished: Finished) -> list[Any]:
    return [item for item in finished.items if type(item).__name__ != "MetadataItem"]


def streamed(*events: dict[str, Any]) -> tuple[str, Any, bool]:
    """Take events and return the words shown, the whole, and whether it ended."""
    accumulator = WIRE.accumulate()
    pieces = [piece for event in events for piece in accumulator.feed(event["type"], event)]
    shown = [piece.text for piece in pieces if isinstance(piece, TextDelta)]
    return "".join(shown), accumulator.assembled(), accumulator.ended


def delta(kind: str, words: str, output_index: int, **more: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}.delta", "delta": words, "output_index": output_index, "item_id": "x", **more}


@pytest.mark.req("PROVIDER-4", "LEDGER-3", "PROVIDER-2")
def test_typed_items_come_out_in_the_order_of_the_reply() -> None:
    read_items = items(
        read(THOUGHT, SEARCH, message(text("Sunny", CITED)), message(text(".")), CALL, message(text("Bye.")))
    )
    assert read_items == [
        ReasoningItem(encrypted_content="secret", raw=THOUGHT),
        UnknownItem(provider="openai", raw=SEARCH),
        AssistantItem(blocks=(TextBlock(text="Sunny", annotations=(CITED,)), TextBlock(text="."))),
        ToolCallItem(call_id="call_1", name="weather", arguments={"city": "Rome"}),
        AssistantItem(blocks=(TextBlock(text="Bye."),)),
    ]


@pytest.mark.req("LEDGER-2")
def test_a_refusal_and_a_phase_are_marked_on_the_words() -> None:
    refused = message({"type": "refusal", "refusal": "I will not."}, phase="final_answer")
    (item,) = items(read(refused))
    assert item.blocks[0].text == "I will not."
    assert item.blocks[0].annotations == ({"type": "refusal"}, {"type": "phase", "phase": "final_answer"})


@pytest.mark.req("PROVIDER-4")
@pytest.mark.parametrize(
    ("more", "outcome"),
    [
        ({}, Completed()),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, Incomplete(reason="length")),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, Incomplete(reason="filter")),
        ({"status": "incomplete", "incomplete_details": {"reason": "steered"}}, Incomplete(reason="steered")),
        ({"status": "cancelled"}, Incomplete(reason="cancelled")),
    ],
)
def test_the_status_tells_how_it_ended(more: dict[str, Any], outcome: Any) -> None:
    assert read(message(text("Hi")), **more).outcome == outcome


@pytest.mark.req("PROVIDER-4")
def test_a_reply_with_calls_waits_for_them_unless_it_was_cut() -> None:
    assert read(CALL).outcome == Paused(reason="tool_use")
    cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    assert read({**CALL, "arguments": '{"ci'}, **cut).outcome == Incomplete(reason="length")


def test_arguments_that_are_not_json_stay_the_text_they_are() -> None:
    made = [items(read({**CALL, "arguments": each}))[0].arguments for each in ('{"ci', "", "[1]")]
    assert made == ['{"ci', {}, [1]]


def test_tokens_and_their_cost_are_counted_cached_ones_included() -> None:
    spent = (40 * 2 + 40 * 0.2 + 20 * 2.5 + 10 * 10) / 1_000_000
    usage = read(message(text("Hi"))).usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == (100, 10, 40)
    assert usage.cost == pytest.approx(spent)
    assert WIRE.read({"output": []}, ABLE).usage == Usage()


@pytest.mark.req("PROVIDER-2")
def test_the_raw_reply_and_its_notes_are_kept() -> None:
    finished = read(message(text("Hi")))
    assert json.loads(finished.response or "") == response(message(text("Hi")))
    notes = {item.key: item.value for item in finished.items if type(item).__name__ == "MetadataItem"}  # type: ignore[union-attr]
    assert notes == {
        "response_id": "resp_1",
        "model": "gpt-6-astra-2026",
        "stop_reason": "completed",
        "service_tier": "default",
    }


def test_calls_without_an_id_of_their_own_get_one() -> None:
    made = items(WIRE.read({"output": [CALL, CALL, {**CALL, "call_id": None}]}, ABLE))
    assert made[0].call_id == "call_1"
    assert len({call.call_id for call in made}) == 3


@pytest.mark.req("PROVIDER-4")
def test_the_last_event_carries_the_whole() -> None:
    whole = response(message(text("Hello there")))
    shown, got, ended = streamed(
        {"type": "response.created", "response": {**whole, "output": [], "status": "in_progress"}},
        delta("output_text", "Hello ", 0, content_index=0),
        delta("output_text", "there", 0, content_index=0),
        {"type": "response.completed", "response": whole},
    )
    assert (shown, got, ended) == ("Hello there", whole, True)


@pytest.mark.req("PROVIDER-4")
def test_pieces_are_put_together_by_index_where_the_last_event_brings_no_output() -> None:
    shown, whole, ended = streamed(
        {"type": "response.output_item.added", "output_index": 1, "item": {**CALL, "arguments": ""}},
        {"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "id": "rs_1"}},
        delta("function_call_arguments", '{"city": ', 1),
        delta("output_text", "B", 2, content_index=1),
        delta("output_text", "A", 2, content_index=0),
        {"type": "response.output_text.annotation.added", "output_index": 2, "content_index": 0, "annotation": CITED},
        delta("refusal", "No.", 3, content_index=0),
        delta("function_call_arguments", '"Rome"}', 1),
        delta("reasoning_summary_text", "hm", 0, summary_index=0),
        {"type": "response.output_item.done", "output_index": 0, "item": THOUGHT},
        {"type": "response.incomplete", "response": {"incomplete_details": {"reason": "max_output_tokens"}}},
    )
    finished = WIRE.read(whole, ABLE)
    assert (shown, ended) == ("BANo.", True)
    assert finished.outcome == Incomplete(reason="length")
    assert items(finished) == [
        ReasoningItem(encrypted_content="secret", raw=THOUGHT),
        ToolCallItem(call_id="call_1", name="weather", arguments={"city": "Rome"}),
        AssistantItem(
            blocks=(
                TextBlock(text="A", annotations=(CITED,)),
                TextBlock(text="B"),
                TextBlock(text="No.", annotations=({"type": "refusal"},)),
            )
        ),
    ]


def test_a_text_that_comes_without_pieces_is_shown_once() -> None:
    done = {"type": "response.output_text.done", "output_index": 0, "content_index": 0, "text": "Hi"}
    assert streamed(done)[0] == "Hi"
    assert streamed(delta("output_text", "Hi", 0, content_index=0), done)[0] == "Hi"


@pytest.mark.req("PROVIDER-2")
def test_an_unknown_event_is_logged_kept_and_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="contextinfinity")
    strange = {"type": "response.telepathy", "thought": "private words"}
    shown, whole, ended = streamed(strange, {"type": "response.web_search_call.searching", "output_index": 0})
    assert (shown, ended) == ("", False)
    assert whole["unknown_events"] == [strange]
    assert "response.telepathy" in caplog.text
    assert "private words" not in caplog.text


@pytest.mark.parametrize(
    "event",
    [
        {"type": "error", "code": "rate_limit_exceeded", "message": "Slow down.", "param": None},
        {"type": "error", "error": {"type": "requests", "code": "rate_limit_exceeded", "message": "Slow down."}},
        {
            "type": "response.failed",
            "response": {"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "Slow down."}},
        },
    ],
)
def test_an_error_in_the_stream_is_raised_as_what_it_is(event: dict[str, Any]) -> None:
    with pytest.raises(ProviderError, match="Slow down") as caught:
        streamed(event)
    assert caught.value.kind == "rate_limit"


@pytest.mark.req("PROVIDER-4")
@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        ({"code": "rate_limit_exceeded", "message": "Slow down."}, "rate_limit", True),
        ({"code": "server_error", "message": "Sorry."}, "server", True),
        ({"code": "invalid_prompt", "message": "No."}, "filter", False),
        ({"code": "invalid_image", "message": "No."}, "bad_request", False),
        (None, "server", True),
    ],
)
def test_a_failed_answer_is_told_by_the_table_of_failures(error: Any, kind: str, retryable: bool) -> None:
    with pytest.raises(ProviderError, match=r"^openai: ") as caught:
        WIRE.read({"id": "resp_1", "object": "response", "status": "failed", "error": error, "output": []}, ABLE)
    assert (caught.value.kind, caught.value.retryable, bool(caught.value.hint)) == (kind, retryable, True)


@pytest.mark.parametrize("whole", [None, [], "hello", 7, {}, {"output": "x"}])
def test_a_reply_that_makes_no_sense_is_garbled(whole: Any) -> None:
    with pytest.raises(ProviderError) as caught:
        WIRE.read(whole, ABLE)
    assert caught.value.kind == "garbled"


def test_an_error_that_comes_in_place_of_a_reply_is_raised_as_what_it_is() -> None:
    with pytest.raises(ProviderError, match="no credit") as caught:
        WIRE.read({"error": {"message": "no credit", "code": "insufficient_quota"}}, ABLE)
    assert caught.value.kind == "quota"


# Whatever a strange server sends is values or a ProviderError, never a crash.

NAMES = """
response output item type content text refusal delta output_index content_index message output_text function_call name
arguments call_id reasoning summary status incomplete_details reason error usage input_tokens_details annotations phase
id model response.completed response.output_item.added response.output_item.done response.output_text.delta
response.output_text.done response.output_text.annotation.added response.created failed input_tokens
"""
WORDS = st.sampled_from(NAMES.split())
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
LEAVES = st.none() | st.booleans() | NUMBERS | WORDS | st.text()
ANY = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=6))


@given(ANY)
@example({"output": [{"type": "message", "content": [None, {"type": "output_text", "text": 5}]}, 7, None]})
@example({"status": "completed", "usage": {"input_tokens": -1, "input_tokens_details": 3, "output_tokens": 2.5}})
@example({"output": [], "status": ["failed"], "incomplete_details": [], "error": "x"})
@example({"output": [{"type": ["message"]}, {"type": "function_call", "name": "f", "arguments": {"a": 1}}]})
def test_any_json_as_a_whole_reply_is_read_or_refused(whole: Any) -> None:
    with contextlib.suppress(ProviderError):
        assert isinstance(WIRE.read(whole, ABLE), Finished)


@given(st.lists(st.tuples(WORDS, ANY | st.fixed_dictionaries({"type": WORDS}, optional={"delta": ANY, "item": ANY}))))
@example([("", {"type": "response.output_item.added", "output_index": "x", "item": {"content": 3}})])
@example([("", {"type": ["x"], "response": 3}), ("response.completed", None)])
def test_any_json_as_events_is_put_together_or_refused(events: list[tuple[str, Any]]) -> None:
    accumulator = WIRE.accumulate()
    with contextlib.suppress(ProviderError):
        for name, data in events:
            pieces = accumulator.feed(name, data)
            assert all(isinstance(piece.text, str) for piece in pieces if isinstance(piece, TextDelta))
        assert isinstance(WIRE.read(accumulator.assembled(), ABLE), Finished)
