"""What comes back from servers that speak chat completions, in one piece and streamed."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion

from contextinfinity.domain.message import AssistantItem, ReasoningItem, TextBlock, ToolCallItem, UnknownItem
from contextinfinity.domain.prompt import Abilities, Finished, Prices, TextDelta
from contextinfinity.domain.turn import Completed, Incomplete, Paused, Usage
from contextinfinity.errors import ProviderError
from contextinfinity.providers.openai_chat import ChatWire

ABLE = Abilities(prices=Prices(input=1, output=2, cached=0.5))
WIRE = ChatWire()
USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


def completion(message: dict[str, Any], finish: str | None = "stop", **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": None, **message}, "finish_reason": finish}
    top = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "any-1"}
    return {**top, "choices": [choice], **more}


def call(arguments: str = '{"city": "Rome"}', call_id: str = "call_1", name: str = "weather") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def read(message: dict[str, Any], finish: str | None = "stop", **more: Any) -> Finished:
    return WIRE.read(completion(message, finish, **more), ABLE)


def items(finished: Finished) -> list[Any]:
    return [item for item in finished.items if type(item).__name__ != "MetadataItem"]


def chunk(delta: Any = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": {} if delta is None else delta, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "any-1", "choices": [choice], **more}


def streamed(*chunks: Any, wire: ChatWire = WIRE) -> tuple[str, Any, bool]:
    """Take chunks and return the words shown, the whole, and whether it ended."""
    accumulator = wire.accumulate()
    pieces = [piece for each in chunks for piece in accumulator.feed("", each)]
    shown = [piece.text for piece in pieces if isinstance(piece, TextDelta)]
    return "".join(shown), accumulator.assembled(), accumulator.ended


def piece(arguments: Any = None, **more: Any) -> dict[str, Any]:
    name = more.pop("name", None)
    return chunk({"tool_calls": [{**more, "function": {"name": name, "arguments": arguments}}]})


def calls_of(*chunks: Any) -> list[tuple[str, Any]]:
    _, whole, _ = streamed(*chunks, chunk(finish="tool_calls"))
    made = [item for item in items(WIRE.read(whole, ABLE)) if isinstance(item, ToolCallItem)]
    assert len({item.call_id for item in made}) == len(made)
    return [(item.name, item.arguments) for item in made]


@pytest.mark.req("LEDGER-3", "PROVIDER-2")
def test_thinking_words_calls_and_what_is_unknown_come_out() -> None:
    message: dict[str, Any] = {
        "content": "I look.",
        "reasoning_content": "hm",
        "tool_calls": [call()],
        "audio": {"id": "a1"},
        "annotations": [{"type": "url_citation", "url_citation": {"url": "https://example.org"}}],
    }
    assert items(read(message)) == [
        ReasoningItem(raw={"reasoning_content": "hm"}),
        AssistantItem(blocks=(TextBlock(text="I look.", annotations=tuple(message["annotations"])),)),
        ToolCallItem(call_id="call_1", name="weather", arguments={"city": "Rome"}),
        UnknownItem(provider="openai_chat", raw={"audio": {"id": "a1"}}),
    ]


@pytest.mark.parametrize(
    ("finish", "outcome"),
    [
        ("stop", Completed()),
        (None, Completed()),
        ("length", Incomplete(reason="length")),
        ("content_filter", Incomplete(reason="filter")),
        ("abort", Incomplete(reason="abort")),
    ],
)
def test_the_finish_reason_tells_how_it_ended(finish: str | None, outcome: Any) -> None:
    assert read({"content": "Hi"}, finish).outcome == outcome


def test_calls_are_waited_for_even_where_the_server_says_stop() -> None:
    assert read({"tool_calls": [call()]}, "stop").outcome == Paused(reason="tool_use")
    assert read({"tool_calls": [call()]}, "tool_calls").outcome == Paused(reason="tool_use")
    assert read({"tool_calls": [call('{"ci')]}, "length").outcome == Incomplete(reason="length")
    assert read({"content": "none after all"}, "tool_calls").outcome == Completed()


@pytest.mark.req("LEDGER-2")
def test_a_refusal_is_marked_on_its_words() -> None:
    (item,) = items(read({"refusal": "I will not."}))
    assert item.blocks == (TextBlock(text="I will not.", annotations=({"type": "refusal"},)),)


def test_citations_of_perplexity_stand_on_the_words_in_their_order() -> None:
    found = [{"title": "B", "url": "https://b.org"}, {"title": "A", "url": "https://a.org", "date": "2026-01-01"}]
    cited: dict[str, Any] = {"citations": ["https://a.org", "https://b.org", "https://c.org"], "search_results": found}
    (item,) = items(read({"content": "So it is [1]."}, **cited))
    assert [(each["type"], each["url"], each["title"]) for each in item.blocks[0].annotations] == [
        ("citation", "https://a.org", "A"),
        ("citation", "https://b.org", "B"),
        ("citation", "https://c.org", ""),
    ]
    (item,) = items(read({"content": "So."}, search_results=found))
    assert [each["url"] for each in item.blocks[0].annotations] == ["https://b.org", "https://a.org"]


def test_tokens_and_their_cost_are_counted_cached_ones_included() -> None:
    usage = read({"content": "Hi"}, usage={**USAGE, "prompt_tokens_details": {"cached_tokens": 40}}).usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == (100, 10, 40)
    assert usage.cost == pytest.approx((60 * 1 + 40 * 0.5 + 10 * 2) / 1_000_000)
    assert read({"content": "Hi"}, usage={**USAGE, "prompt_cache_hit_tokens": 7}).usage.cached_tokens == 7
    assert read({"content": "Hi"}).usage == Usage()


@pytest.mark.req("PROVIDER-2")
def test_the_raw_reply_and_its_notes_are_kept() -> None:
    finished = read({"content": "Hi"}, system_fingerprint="fp_1", service_tier="default", timings={"ms": 3})
    assert json.loads(finished.response or "")["timings"] == {"ms": 3}
    notes = {item.key: item.value for item in finished.items if type(item).__name__ == "MetadataItem"}  # type: ignore[union-attr]
    assert notes == {
        "response_id": "chatcmpl-1",
        "model": "any-1",
        "stop_reason": "stop",
        "service_tier": "default",
        "system_fingerprint": "fp_1",
    }


def test_a_stream_becomes_the_completion_that_would_have_come_in_one_piece() -> None:
    shown, whole, ended = streamed(
        chunk({"role": "assistant", "content": None}, created=1, usage=None),
        chunk({"reasoning": "h"}),
        chunk({"reasoning": "m", "content": ""}),
        chunk({"content": "Hel"}, citations=["https://a.org"]),
        chunk({"content": "lo"}, system_fingerprint="fp_1"),
        chunk({}, "stop"),
        {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [], "usage": USAGE},
    )
    assert (shown, ended) == ("Hello", True)
    ChatCompletion.model_validate(whole)
    assert whole == completion(
        {"content": "Hello", "reasoning": "hm"}, citations=["https://a.org"], system_fingerprint="fp_1", usage=USAGE
    )


SIGNED = {"extra_content": {"google": {"thought_signature": "sig"}}}


@pytest.mark.req("LEDGER-3", "PROVIDER-2")
def test_what_a_server_gives_its_calls_is_kept_right_before_them() -> None:
    signed = {**call(), **SIGNED, "function": {**call()["function"], "strict": True}}
    _, put_together, _ = streamed(
        chunk({"tool_calls": [{**call("", "call_0"), "index": 0}]}),
        chunk({"tool_calls": [{**call('{"city":'), "index": 1, **SIGNED}]}),
        chunk({"tool_calls": [{"index": 1, "function": {"arguments": ' "Rome"}', "strict": True}}]}),
        chunk(finish="tool_calls"),
    )
    kept = UnknownItem(provider="openai_chat", raw={"tool_call_extra": {**SIGNED, "function": {"strict": True}}})
    for whole in (put_together, completion({"tool_calls": [call("", "call_0"), signed]}, "tool_calls")):
        bare, *others = items(WIRE.read(whole, ABLE))
        assert bare.call_id == "call_0"
        assert others == [kept, ToolCallItem(call_id="call_1", name="weather", arguments={"city": "Rome"})]


def test_what_comes_in_very_many_pieces_is_put_together_without_being_copied_each_time() -> None:
    accumulator = WIRE.accumulate()
    began = time.process_time()
    for number in range(60_000):
        accumulator.feed("", chunk({"reasoning_details": [{"type": "reasoning.text", "text": str(number)}]}))
    first = accumulator.assembled()
    assert time.process_time() - began < 5
    accumulator.feed("", chunk({"reasoning_details": [{}]}))
    assert len(first["choices"][0]["message"]["reasoning_details"]) == 60_000, "what was given does not change"


def test_only_the_first_choice_is_read() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "no"}}, {"index": 0, "delta": {"content": "yes"}}]}
    assert streamed(other)[0] == "yes"


def test_usage_in_every_chunk_counts_once() -> None:
    counted = [{**USAGE, "completion_tokens": count} for count in (1, 2)]
    _, whole, _ = streamed(chunk({"content": "a"}, usage=counted[0]), chunk({"content": "b"}, "stop", usage=counted[1]))
    assert WIRE.read(whole, ABLE).usage.output_tokens == 2


def test_perplexity_repeats_the_message_in_each_chunk_and_it_is_shown_once() -> None:
    first, second = chunk({"content": "Hel"}), chunk({"content": "lo"}, "stop")
    first["choices"][0]["message"] = {"role": "assistant", "content": "Hel"}
    second["choices"][0]["message"] = {"role": "assistant", "content": "Hello"}
    last = chunk(finish="stop")
    last["choices"][0] = {"index": 0, "message": second["choices"][0]["message"], "finish_reason": "stop"}
    shown, whole, _ = streamed(first, second, last, wire=ChatWire(vendor="perplexity"))
    assert shown == whole["choices"][0]["message"]["content"] == "Hello"


def test_a_server_that_sends_the_whole_message_in_one_chunk_is_understood() -> None:
    shown, whole, ended = streamed(completion({"content": "Hi", "tool_calls": [call()]}))
    assert (shown, ended) == ("Hi", True)
    assert WIRE.read(whole, ABLE).outcome == Paused(reason="tool_use")


def test_content_in_parts_is_shown_and_the_other_parts_are_kept() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    shown, whole, _ = streamed(chunk({"content": [thinking]}), chunk({"content": [{"type": "text", "text": "Hi"}]}))
    assert shown == "Hi"
    assert UnknownItem(provider="openai_chat", raw={"content_parts": [thinking]}) in WIRE.read(whole, ABLE).items


ROME, OSLO = ("weather", {"city": "Rome"}), ("weather", {"city": "Oslo"})


@pytest.mark.parametrize(
    ("chunks", "made"),
    [
        pytest.param(
            [
                piece("", index=0, id="a", name="weather"),
                piece('{"city": ', index=0),
                piece("", index=1, id="b", name="weather"),
                piece('{"city": "Oslo"}', index=1),
                piece('"Rome"}', index=0),
            ],
            [ROME, OSLO],
            id="as OpenAI does",
        ),
        pytest.param(
            [piece('{"city": "Rome"}', id="a", name="weather"), piece('{"city": "Oslo"}', id="b", name="weather")],
            [ROME, OSLO],
            id="no index",
        ),
        pytest.param(
            [piece('{"city": "Rome"}', name="weather"), piece('{"city": "Oslo"}', name="weather")],
            [ROME, OSLO],
            id="neither index nor id",
        ),
        pytest.param([piece('{"city": ', name="weather"), piece('"Rome"}')], [ROME], id="pieces without index or id"),
        pytest.param(
            [
                piece('{"city": "Rome"}', index=0, id="a", name="weather"),
                piece('{"city": "Oslo"}', index=0, id="b", name="weather"),
            ],
            [ROME, OSLO],
            id="one index for all",
        ),
        pytest.param(
            [
                piece('{"city": "Rome"}', index=0, id="a", name="weather"),
                piece('{"city": "Oslo"}', index=1, id="a", name="weather"),
            ],
            [ROME, OSLO],
            id="one id for all",
        ),
        pytest.param(
            [
                piece('{"city": "Rome"}', index=0, id="a", name="weather"),
                piece('{"city": "Oslo"}', index=0, id="a", name="weather"),
            ],
            [ROME, OSLO],
            id="one index and one id for all",
        ),
        pytest.param(
            [piece('{"city": ', index=0, id="a", name="weather"), piece('"Rome"}', index=0, id="a", name="weather")],
            [ROME],
            id="id and name in every piece",
        ),
        pytest.param(
            [piece(None, index=0, id="a", name="time"), piece('{"city": "Oslo"}', index=0, id="b", name="weather")],
            [("time", {}), OSLO],
            id="one index for all, the first without arguments",
        ),
        pytest.param(
            [piece(None, name="time"), piece('{"city": "Oslo"}', name="weather")],
            [("time", {}), OSLO],
            id="neither index nor id, the first without arguments",
        ),
        pytest.param([piece({"city": "Rome"}, index=0, id="a", name="weather")], [ROME], id="arguments as an object"),
        pytest.param([piece(None, index=0, id="a", name="weather")], [("weather", {})], id="no arguments"),
        pytest.param([piece('{"ci', index=0, id="a", name="weather")], [("weather", '{"ci')], id="arguments cut"),
    ],
)
def test_calls_are_put_together_whatever_the_server_leaves_out(chunks: list[Any], made: list[Any]) -> None:
    assert calls_of(*chunks) == made


@pytest.mark.parametrize(
    "said",
    [
        {"error": {"message": "Slow down.", "code": "rate_limit_exceeded"}},
        {"object": "error", "message": "Slow down.", "code": 429},
        {"error": {"message": "Slow down.", "code": 429}, "choices": []},
    ],
)
def test_an_error_in_the_stream_is_raised_as_what_it_is(said: dict[str, Any]) -> None:
    with pytest.raises(ProviderError, match="Slow down") as caught:
        streamed(chunk({"content": "Hel"}), said)
    assert caught.value.kind == "rate_limit"


@pytest.mark.parametrize("whole", [None, [], "x", {}, {"choices": []}, {"choices": [{"message": 3}]}])
def test_a_reply_that_makes_no_sense_is_garbled(whole: Any) -> None:
    with pytest.raises(ProviderError) as caught:
        WIRE.read(whole, ABLE)
    assert caught.value.kind == "garbled"


def test_a_stream_without_an_answer_is_garbled() -> None:
    _, whole, ended = streamed({"id": "x", "choices": []}, {"usage": USAGE})
    assert not ended
    with pytest.raises(ProviderError):
        WIRE.read(whole, ABLE)


def test_an_error_that_comes_in_place_of_a_reply_is_raised_as_what_it_is() -> None:
    with pytest.raises(ProviderError, match="no credit") as caught:
        WIRE.read({"error": {"message": "no credit", "code": "insufficient_quota"}}, ABLE)
    assert caught.value.kind == "quota"


# Whatever a strange server sends is values or a ProviderError, never a crash.

NAMES = """
choices index delta message content text type refusal reasoning reasoning_content reasoning_details tool_calls function
name arguments id finish_reason usage prompt_tokens prompt_tokens_details cached_tokens citations search_results url
title annotations error object audio role stop
"""
WORDS = st.sampled_from(NAMES.split())
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
LEAVES = st.none() | st.booleans() | NUMBERS | WORDS | st.text()
ANY = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=6))
OBJECTS = st.dictionaries(WORDS, ANY, max_size=5)
CALLS = st.lists(st.fixed_dictionaries({}, optional={"index": ANY, "id": ANY, "function": OBJECTS | ANY}), max_size=3)
MESSAGES = st.fixed_dictionaries({}, optional={"content": ANY, "refusal": ANY, "tool_calls": CALLS | ANY, "audio": ANY})
CHOICES = st.fixed_dictionaries(
    {}, optional={"index": st.just(0) | ANY, "delta": MESSAGES | ANY, "message": MESSAGES | ANY}
)
WHOLES = st.fixed_dictionaries(
    {"choices": st.lists(CHOICES | ANY, max_size=2) | ANY}, optional={"usage": OBJECTS | ANY}
)


@given(WHOLES | ANY)
@example(
    {"choices": [{"message": {"content": [3, {"type": "text"}], "tool_calls": [None, {"function": {"name": 3}}]}}]}
)
@example({"choices": [{"message": {}, "finish_reason": ["x"]}], "citations": [{}], "search_results": [3, {"url": []}]})
def test_any_json_as_a_whole_reply_is_read_or_refused(whole: Any) -> None:
    with contextlib.suppress(ProviderError):
        assert isinstance(WIRE.read(whole, ABLE), Finished)


@given(st.lists(WHOLES | ANY, max_size=5))
@example([{"choices": [{"delta": {"tool_calls": [{"index": [], "id": {}, "function": {"arguments": 3}}, 7]}}]}])
def test_any_json_as_chunks_is_put_together_or_refused(chunks: list[Any]) -> None:
    accumulator = WIRE.accumulate()
    with contextlib.suppress(ProviderError):
        for each in chunks:
            pieces = accumulator.feed("", each)
            assert all(isinstance(piece.text, str) for piece in pieces if isinstance(piece, TextDelta))
        assert isinstance(WIRE.read(accumulator.assembled(), ABLE), Finished)
