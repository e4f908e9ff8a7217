from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from anthropic.types import Message as SdkMessage
from hypothesis import given, settings
from hypothesis import strategies as st

from contextinfinity.domain.message import (
    AssistantItem,
    Json,
    MetadataItem,
    ReasoningItem,
    TextBlock,
    ToolCallItem,
    UnknownItem,
)
from contextinfinity.domain.prompt import Abilities, Prices, StreamedPiece, TextDelta
from contextinfinity.domain.turn import Completed, Incomplete, Paused, StepOutcome, Usage
from contextinfinity.errors import ProviderError
from contextinfinity.providers.anthropic import AnthropicWire

ABLE = Abilities(prices=Prices(input=3.0, output=15.0, cached=0.3, cache_write=3.75))
WIRE = AnthropicWire()
CITATION = {"type": "char_location", "cited_text": "x", "document_index": 0, "start_char_index": 0, "end_char_index": 1}
THOUGHT = {"type": "thinking", "thinking": "let me see", "signature": "c2ln"}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}


def delta(index: int, kind: str, **fields: Json) -> Json:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def block(index: int, **fields: Json) -> Json:
    return {"type": "content_block_start", "index": index, "content_block": fields}


START = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x-1",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 10,
            "cache_creation_input_tokens": 100,
            "cache_read_input_tokens": 1000,
            "output_tokens": 1,
            "service_tier": "standard",
        },
    },
}
STREAM: list[Json] = [
    START,
    {"type": "ping"},
    block(0, type="thinking", thinking="", signature=""),
    delta(0, "thinking_delta", thinking="let me "),
    delta(0, "thinking_delta", thinking="see"),
    delta(0, "signature_delta", signature="c2ln"),
    {"type": "content_block_stop", "index": 0},
    block(1, type="text", text=""),
    delta(1, "text_delta", text="Grü"),
    block(2, type="tool_use", id="toolu_1", name="weather", input={}),  # blocks may come interleaved: the index counts
    delta(1, "text_delta", text="ße"),
    delta(1, "citations_delta", citation=CITATION),
    delta(2, "input_json_delta", partial_json='{"city": '),
    delta(2, "input_json_delta", partial_json='"Bern"}'),
    {"type": "content_block_stop", "index": 2},
    block(3, **SEARCH),
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 20},
    },
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use"},
        "usage": {"output_tokens": 30, "input_tokens": 12, "cache_read_input_tokens": None},
    },
    {"type": "message_stop"},
]


def accumulate(events: list[Json]) -> tuple[Any, list[str]]:
    accumulator = WIRE.accumulate()
    texts: list[StreamedPiece] = []
    for event in events:
        assert not accumulator.ended
        texts += accumulator.feed(event.get("type", ""), event)
    return accumulator, [piece.text for piece in texts if isinstance(piece, TextDelta)]


def message(*content: Json, stop_reason: Json = "end_turn", **fields: Json) -> dict[str, Json]:
    return {"id": "msg_1", "type": "message", "content": list(content), "stop_reason": stop_reason, **fields}


def text(words: str, **fields: Json) -> dict[str, Json]:
    return {"type": "text", "text": words, **fields}


@pytest.mark.req("PROVIDER-2", "PROVIDER-5", "LEDGER-2", "LEDGER-3")
def test_a_streamed_answer_is_put_together_by_index() -> None:
    accumulator, texts = accumulate(STREAM)
    assert texts == ["Grü", "ße"]
    assert accumulator.ended
    whole = accumulator.assembled()
    SdkMessage.model_validate(whole)
    answer = WIRE.read(whole, ABLE)
    assert answer.items == (
        ReasoningItem(encrypted_content="c2ln", raw=THOUGHT),
        AssistantItem(blocks=(TextBlock(text="Grüße", annotations=(CITATION,)),)),
        ToolCallItem(call_id="toolu_1", name="weather", arguments={"city": "Bern"}),
        UnknownItem(provider="anthropic", raw=SEARCH),
        MetadataItem(key="response_id", value="msg_1"),
        MetadataItem(key="model", value="claude-x-1"),
        MetadataItem(key="stop_reason", value="tool_use"),
        MetadataItem(key="service_tier", value="standard"),
    )
    assert answer.outcome == Paused(reason="tool_use")
    assert answer.response is not None
    assert msgspec.json.decode(answer.response) == whole


@pytest.mark.req("PROVIDER-5")
def test_counts_are_cumulative_and_the_cache_counts_as_input() -> None:
    accumulator, _ = accumulate(STREAM)
    usage = WIRE.read(accumulator.assembled(), ABLE).usage
    tokens = (usage.input_tokens, usage.output_tokens, usage.cached_tokens)
    assert tokens == (12 + 100 + 1000, 30, 1000)
    assert usage.cost == pytest.approx((12 * 3 + 100 * 3.75 + 1000 * 0.3 + 30 * 15) / 1e6)
    assert WIRE.read(accumulator.assembled(), Abilities()).usage.cost is None
    assert WIRE.read(message(), ABLE).usage == Usage(cost=0.0)


@pytest.mark.req("PROVIDER-2")
def test_what_is_not_known_is_kept_and_passed_over() -> None:
    strange: list[Json] = [
        {"type": "new_event", "x": 1},
        delta(1, "new_delta", x=1),
        delta(9, "text_delta", text="of no block"),
        delta(1, "text_delta", text=7),
        {"type": "content_block_start", "index": "one"},
    ]
    accumulator, texts = accumulate([*STREAM[:8], *strange, *STREAM[8:]])
    assert texts == ["Grü", "ße"]
    assert accumulator.assembled()["unknown_events"] == strange
    plain, _ = accumulate(STREAM)
    assert WIRE.read(accumulator.assembled(), ABLE).items == WIRE.read(plain.assembled(), ABLE).items


def test_a_text_that_is_there_when_its_block_begins_is_shown() -> None:
    accumulator, texts = accumulate([START, block(0, **text("Hel")), delta(0, "text_delta", text="lo")])
    assert texts == ["Hel", "lo"]
    assert accumulator.assembled()["content"] == [text("Hello")]
    assert not accumulator.ended


def test_events_are_told_by_their_name_when_the_data_has_none() -> None:
    accumulator = WIRE.accumulate()
    accumulator.feed("message_stop", {})
    assert accumulator.ended


def test_an_input_that_is_no_json_is_kept_as_it_is() -> None:
    begin = block(0, type="tool_use", id="t", name="n", input={})
    cut, _ = accumulate([START, begin, delta(0, "input_json_delta", partial_json='{"a": ')])
    assert WIRE.read(cut.assembled(), ABLE).items[0] == ToolCallItem(call_id="t", name="n", arguments='{"a": ')
    empty, _ = accumulate([START, begin, delta(0, "input_json_delta", partial_json="")])
    assert WIRE.read(empty.assembled(), ABLE).items[0] == ToolCallItem(call_id="t", name="n", arguments={})


def test_an_error_inside_the_stream_is_told() -> None:
    accumulator, _ = accumulate(STREAM[:9])
    with pytest.raises(ProviderError, match="anthropic: it is overloaded") as caught:
        accumulator.feed("error", {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    assert caught.value.retryable


OUTCOMES: list[tuple[Json, StepOutcome]] = [
    ("end_turn", Completed()),
    ("stop_sequence", Completed()),
    ("tool_use", Paused(reason="tool_use")),
    ("pause_turn", Paused(reason="pause_turn")),
    ("max_tokens", Incomplete(reason="length")),
    ("model_context_window_exceeded", Incomplete(reason="length")),
    ("refusal", Incomplete(reason="filter")),
    ("something_new", Completed()),
    (None, Completed()),
    (["x"], Completed()),
]


@pytest.mark.req("PROVIDER-5")
@pytest.mark.parametrize(("reason", "outcome"), OUTCOMES)
def test_every_stop_reason_has_its_outcome_and_is_noted(reason: Json, outcome: StepOutcome) -> None:
    answer = WIRE.read(message(text("a"), stop_reason=reason), ABLE)
    assert answer.outcome == outcome
    noted = MetadataItem(key="stop_reason", value=str(reason)) in answer.items
    assert noted == isinstance(reason, str)


def test_why_it_refused_is_noted() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "It could do harm."}
    notes = WIRE.read(message(stop_reason="refusal", stop_details=details), ABLE).items
    assert MetadataItem(key="refusal_explanation", value="It could do harm.") in notes
    assert MetadataItem(key="refusal_category", value="cyber") in notes


@pytest.mark.req("LEDGER-3")
def test_words_side_by_side_are_one_item_and_order_is_kept() -> None:
    call = {"type": "tool_use", "id": "t", "name": "n", "input": {}}
    sealed = {"type": "redacted_thinking", "data": "abc"}
    whole = message(text("a"), text(""), text("b"), call, text("c"), sealed, "odd", {"type": "text"})
    items = WIRE.read(whole, ABLE).items
    assert items[:-2] == (
        AssistantItem(blocks=(TextBlock(text="a"), TextBlock(text="b"))),
        ToolCallItem(call_id="t", name="n", arguments={}),
        AssistantItem(blocks=(TextBlock(text="c"),)),
        ReasoningItem(encrypted_content="abc", raw=sealed),
        UnknownItem(provider="anthropic", raw="odd"),
        UnknownItem(provider="anthropic", raw={"type": "text"}),
    )


@pytest.mark.parametrize("whole", [None, [], "x", {}, {"content": "x"}, {"choices": []}])
def test_a_reply_of_another_shape_is_garbled(whole: Json) -> None:
    with pytest.raises(ProviderError) as caught:
        WIRE.read(whole, ABLE)
    assert caught.value.kind == "garbled"


def test_an_error_in_place_of_a_reply_is_told() -> None:
    with pytest.raises(ProviderError) as caught:
        WIRE.read({"type": "error", "error": {"type": "authentication_error", "message": "no"}}, ABLE)
    assert caught.value.kind == "authentication"


NAMES = "type index delta content_block message usage content text thinking signature partial_json input id name error"
KINDS = (
    "message_start content_block_start content_block_delta message_delta message_stop text_delta input_json_delta "
    "thinking_delta signature_delta citations_delta text tool_use thinking error"
)
VALUES = st.sampled_from([*KINDS.split(), "1", "{"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | VALUES | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*NAMES.split(), "stop_reason", "citations", "citation"]), inner, max_size=5)
    ),
    max_leaves=12,
)
EVENTS = JSON | st.builds(
    lambda kind, fields: {**fields, "type": kind},
    VALUES,
    st.fixed_dictionaries({"index": st.integers(0, 2) | JSON, "delta": JSON, "content_block": JSON, "message": JSON}),
)


@contextmanager
def refused() -> Iterator[list[ProviderError]]:
    """Allow what a provider may say is wrong, and nothing else."""
    errors: list[ProviderError] = []
    try:
        yield errors
    except ProviderError as error:
        errors.append(error)


@pytest.mark.req("PROVIDER-2")
@settings(deadline=None)
@given(st.lists(EVENTS, max_size=8))
def test_any_events_give_values_or_say_what_is_wrong(events: list[Json]) -> None:
    accumulator = WIRE.accumulate()
    with refused() as error:
        for event in events:
            for piece in accumulator.feed("", event):
                assert not isinstance(piece, TextDelta) or piece.text
        WIRE.read(accumulator.assembled(), ABLE)
    assert all(each.message.startswith("anthropic: ") for each in error)


@settings(deadline=None)
@given(JSON | st.builds(lambda content: {"content": content}, st.lists(JSON)))
def test_any_reply_gives_values_or_is_garbled(whole: Json) -> None:
    with refused() as error:
        msgspec.json.encode(WIRE.read(whole, ABLE))
    assert all(each.kind == "garbled" or whole["type"] == "error" for each in error)
