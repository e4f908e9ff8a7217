from __future__ import annotations

from typing import Any

import pytest
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from contextinfinity.domain.message import (
    ContentBlock,
    ImageBlock,
    Json,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    blob_source,
    say,
)
from contextinfinity.domain.prompt import Abilities, Prompt, ProviderRequest, ToolSpec
from contextinfinity.errors import ProviderError
from contextinfinity.providers.anthropic import AnthropicWire
from contextinfinity.providers.contract import canonical

ABLE = Abilities(max_output_tokens=8000, images=True, reasoning=True)
SPEC = ToolSpec(name="weather", description="Tells it.", parameters={"properties": {"city": {"type": "string"}}})
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "sig"}
SCHEMA = TypeAdapter(MessageCreateParamsStreaming)
ENABLED = {"thinking": {"type": "enabled", "budget_tokens": 2000}}


def write(
    *messages: Message,
    wire: AnthropicWire | None = None,
    able: Abilities = ABLE,
    options: Json = None,
    **prompt: Any,
) -> dict[str, Any]:
    asked = Prompt(system=prompt.pop("system", ("Be kind.",)), messages=messages, **prompt)
    request = ProviderRequest(model_id="claude-x", prompt=asked, options=options)
    body = (wire or AnthropicWire()).write(request, able)
    SCHEMA.validate_python(body)
    assert_valid(body)
    return body


def assert_valid(body: dict[str, Any]) -> None:
    """The API's own rules that its types do not show."""
    messages = body["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"] * (len(messages) // 2) + ["user"] * (
        len(messages) % 2
    )
    asked: list[str] = []
    seen: set[str] = set()
    for message in messages:
        kinds = [block["type"] for block in message["content"]]
        assert kinds
        results = [block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"]
        assert results == asked
        assert kinds[: len(results)] == ["tool_result"] * len(results)
        asked = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        assert not seen & set(asked)
        seen |= set(asked)
        assert all(block["text"].strip() for block in message["content"] if block["type"] == "text")
        assert kinds[-1] != "thinking"
    assert not asked
    assert canonical(body).count(b'"cache_control"') <= 4


def call(call_id: str = "c1", name: str = "weather", given: Json = None) -> ToolUseBlock:
    return ToolUseBlock(tool_use_id=call_id, name=name, input={} if given is None else given)


def result(call_id: str = "c1", *content: ContentBlock, is_error: bool = False) -> ToolResultBlock:
    return ToolResultBlock(tool_use_id=call_id, content=content or (TextBlock(text="sunny"),), is_error=is_error)


def said(role: Any, *blocks: ContentBlock) -> Message:
    return Message(role=role, blocks=blocks)


def pairs(body: dict[str, Any]) -> list[tuple[str, str]]:
    """Read a body back into who said what."""
    found = [("system", block["text"]) for block in body.get("system", ())]
    for message in body["messages"]:
        found += [(message["role"], block["text"]) for block in message["content"] if block["type"] == "text"]
    return found


@pytest.mark.req("PROVIDER-3", "PROVIDER-5")
def test_what_was_built_is_what_is_sent() -> None:
    body = write(
        say("user", "hello"),
        say("assistant", "hi"),
        say("user", "who?"),
        say("user", "me"),
        say("system", "be brief"),
        system=("One.", "Two."),
    )
    assert pairs(body) == [
        ("system", "One."),
        ("system", "Two."),
        ("user", "hello"),
        ("assistant", "hi"),
        ("user", "who?"),
        ("user", "me"),
        ("user", "be brief"),
    ]
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert body["model"] == "claude-x"
    assert body["stream"] is True
    assert "tools" not in body
    assert "tool_choice" not in body


def test_the_answer_is_bounded_by_what_the_model_can_say() -> None:
    assert write(say("user", "x"))["max_tokens"] == 4000
    assert write(say("user", "x"), able=Abilities(max_output_tokens=100))["max_tokens"] == 100
    assert write(say("user", "x"), options={"max_tokens": 10**6})["max_tokens"] == 4000
    assert write(say("user", "x"), options={"max_tokens": 50})["max_tokens"] == 50


@pytest.mark.req("PROVIDER-5")
def test_results_come_first_and_right_after_their_calls() -> None:
    body = write(
        say("user", "weather?"),
        said("assistant", TextBlock(text="I look."), call("c1"), call("c2")),
        said("tool", result("c2", TextBlock(text="rain"))),
        said("user", TextBlock(text="quick!"), result("c1", is_error=True)),
    )
    assert [(b["type"], b.get("tool_use_id")) for b in body["messages"][2]["content"]] == [
        ("tool_result", "c1"),
        ("tool_result", "c2"),
        ("text", None),
    ]
    assert body["messages"][2]["content"][0]["is_error"] is True
    assert body["messages"][2]["content"][1]["content"] == [{"type": "text", "text": "rain"}]


@pytest.mark.req("PROVIDER-5", "TOOLS-2")
def test_a_call_without_a_result_gets_a_constant_one_and_a_result_without_a_call_is_told_in_words() -> None:
    body = write(
        say("user", "weather?"),
        said("assistant", call("c1")),
        said("user", result("lost"), TextBlock(text="never mind")),
        said("assistant", call("c2")),
    )
    content = [{"type": "text", "text": "[not run]"}]
    not_run = {"type": "tool_result", "tool_use_id": "c1", "content": content, "is_error": True}
    told = {"type": "text", "text": "[result of a tool call that is no longer shown] sunny\n"}
    assert body["messages"][2]["content"] == [not_run, told, {"type": "text", "text": "never mind"}]
    assert body["messages"][4]["content"] == [{**not_run, "tool_use_id": "c2"}]


def test_ids_and_names_of_other_vendors_are_made_to_fit() -> None:
    body = write(
        say("user", "x"),
        said("assistant", call("functions.x:0", "web.search", "not json"), call("functions.x:0", "b", [1])),
        said("tool", result("functions.x:0"), result("functions.x:0", TextBlock(text="two"))),
        say("user", "thanks"),
    )
    first, second = body["messages"][1]["content"]
    assert first["id"] != second["id"]
    assert (first["name"], first["input"], second["input"]) == (
        "web_search",
        {"arguments": "not json"},
        {"arguments": [1]},
    )


def test_a_failed_result_holds_text_and_nothing_else() -> None:
    picture = ImageBlock(media_type="image/png", source={"type": "base64", "data": "aGk="})
    body = write(
        say("user", "x"),
        said("assistant", call("c1"), call("c2"), call("c3")),
        said("tool", result("c1", picture, is_error=True), result("c2", TextBlock(text=" "), is_error=True)),
        said("tool", result("c3", result("deep", picture, TextBlock(text="in")))),
    )
    first, second, third = body["messages"][2]["content"]
    assert [block["type"] for block in first["content"]] == ["text"]
    assert second["content"][0]["text"].strip()
    assert [block["type"] for block in third["content"]] == ["image", "text"]


@pytest.mark.req("PROVIDER-5", "TOOLS-1")
def test_tools_are_offered_one_at_a_time_unless_asked_otherwise() -> None:
    body = write(say("user", "x"), tools=(SPEC,))
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    assert body["tools"] == [{"name": "weather", "description": "Tells it.", "input_schema": schema}]
    assert body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    assert "tool_choice" not in write(say("user", "x"), tools=(SPEC,), wire=AnthropicWire(parallel_tools=True))
    assert "tools" not in write(say("user", "x"), tools=(SPEC,), able=Abilities(tools=False))


def test_calls_made_earlier_have_a_constant_tool_where_none_is_offered() -> None:
    body = write(say("user", "x"), said("assistant", call()), said("tool", result()), say("user", "y"))
    assert body["tools"] == [{"name": "no_tool", "description": "Not available.", "input_schema": {"type": "object"}}]
    assert body["tool_choice"] == {"type": "none"}


@pytest.mark.req("PROVIDER-8")
def test_a_tool_of_the_provider_is_asked_for_only_where_it_is_configured() -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    with pytest.raises(ProviderError, match=r"tools cannot be set here: .*use provider_tools"):
        write(say("user", "x"), options={"tools": [search]})
    assert "tool_choice" not in write(say("user", "x"), options={"tool_choice": {"type": "any"}})
    body = write(say("user", "x"), tools=(SPEC,), wire=AnthropicWire(provider_tools=(search,)))
    assert [tool["name"] for tool in body["tools"]] == ["weather", "web_search"]


@pytest.mark.req("PROVIDER-1")
def test_options_are_passed_on_but_never_over_the_prompt() -> None:
    options = {"temperature": 0.5, "output_config": {"effort": "low", "format": None}}
    body = write(say("user", "x"), options=options, response_format={"type": "object"})
    assert body["temperature"] == 0.5
    assert body["output_config"] == {
        "effort": "low",
        "format": {"type": "json_schema", "schema": {"type": "object"}},
    }
    for name in ("model", "messages", "system", "stream", "tools", "container"):
        with pytest.raises(ProviderError, match=f"^anthropic: the option {name} ") as caught:
            write(say("user", "x"), options={name: "x"})
        assert caught.value.kind == "bad_request"
    with pytest.raises(ProviderError, match=r"^anthropic: the options are not a table"):
        write(say("user", "x"), options="oops")


def test_a_choice_of_tools_leaves_calls_one_at_a_time() -> None:
    for choice in ({"type": "any"}, {"type": "any", "disable_parallel_tool_use": False}):
        body = write(say("user", "x"), tools=(SPEC,), options={"tool_choice": choice})
        assert body["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
    none = write(say("user", "x"), tools=(SPEC,), options={"tool_choice": {"type": "none"}})
    assert none["tool_choice"] == {"type": "none"}


@pytest.mark.req("PROVIDER-5")
@pytest.mark.parametrize(
    ("most", "asked", "max_tokens", "budget"),
    [(8000, 2000, 4000, 2000), (64_000, 32_000, 36_000, 32_000), (8000, 32_000, 8000, 4000), (3000, 9000, 3000, 1024)],
)
def test_thinking_has_room_beside_the_answer(most: int, asked: int, max_tokens: int, budget: int) -> None:
    options = {"thinking": {"type": "enabled", "budget_tokens": asked}}
    body = write(say("user", "x"), able=Abilities(max_output_tokens=most), options=options)
    assert (body["max_tokens"], body["thinking"]["budget_tokens"]) == (max_tokens, budget)
    with pytest.raises(ProviderError, match="thinking"):
        write(say("user", "x"), able=Abilities(max_output_tokens=1000), options=options)


def test_markers_stand_on_the_last_block_that_can_carry_one() -> None:
    messages = (
        say("user", "a"),
        said("assistant", ReasoningBlock(raw=THOUGHT), TextBlock(text="b"), call(), TextBlock(text=" ")),
        said("tool", result()),
        say("user", "c"),
    )
    body = write(*messages, system=("One.", "Two."), markers=(1, 3, 4, 99))
    marked = [
        (message["role"], block["type"])
        for message in [{"role": "system", "content": body["system"]}, *body["messages"]]
        for block in message["content"]
        if "cache_control" in block
    ]
    assert marked == [("system", "text"), ("assistant", "tool_use"), ("user", "tool_result")]
    assert "cache_control" not in body["system"][0]
    assert THOUGHT == {"type": "thinking", "thinking": "hm", "signature": "sig"}


def test_a_marker_passes_over_blocks_that_cannot_carry_it_and_leaves_them_as_they_came() -> None:
    searched = said("assistant", TextBlock(text="a"), unknown(SEARCH), unknown(FOUND))
    thought = said("assistant", TextBlock(text="b"), ReasoningBlock(raw=THOUGHT))
    body = write(say("user", "x"), searched, thought, said("assistant", call()), markers=(2, 3))
    marked = [block.get("text") for block in body["messages"][1]["content"] if "cache_control" in block]
    assert marked == ["a", "b"]
    assert "cache_control" not in {**SEARCH, **FOUND, **THOUGHT}


def test_at_most_four_markers_are_set() -> None:
    messages = [say("user" if n % 2 == 0 else "assistant", str(n)) for n in range(9)]
    body = write(*messages, markers=tuple(range(10)))
    assert canonical(body).count(b'"cache_control":{"type":"ephemeral"}') == 4
    assert "cache_control" in body["messages"][-1]["content"][-1]
    automatic = write(*messages, markers=tuple(range(10)), options={"cache_control": {"type": "ephemeral"}})
    assert canonical(automatic).count(b'"cache_control"') == 4


@pytest.mark.req("PROVIDER-3")
def test_a_longer_conversation_begins_with_the_same_bytes() -> None:
    messages = [
        say("user", "a"),
        said("assistant", TextBlock(text="b"), call("x.1")),
        said("tool", result("x.1")),
        say("assistant", "c"),
        say("user", "d"),
        say("assistant", "e"),
        say("user", "f"),
    ]
    short, long = write(*messages[:5], tools=(SPEC,)), write(*messages, tools=(SPEC,))
    assert long["messages"][: len(short["messages"])] == short["messages"]
    assert list(short) == list(long)


@pytest.mark.parametrize("source", [blob_source("0" * 64), None, "x", {"type": "base64"}, {"type": "url", "url": 1}])
def test_an_image_that_cannot_be_shown_is_named(source: Json) -> None:
    body = write(said("user", ImageBlock(media_type="image/png", source=source)))
    assert pairs(body)[1:] == [("user", "[an image that cannot be shown here]")]


def test_images_are_shown_to_models_that_see() -> None:
    inline = ImageBlock(media_type="image/png", source={"type": "base64", "data": "aGk="})
    linked = ImageBlock(media_type="image/png", source={"type": "url", "url": "https://example.org/a.png"})
    body = write(said("user", inline, linked))
    assert [block["source"]["type"] for block in body["messages"][0]["content"]] == ["base64", "url"]
    blind = write(said("user", inline, linked), able=Abilities())
    assert [block["type"] for block in blind["messages"][0]["content"]] == ["text", "text"]


@pytest.mark.req("LEDGER-2")
def test_what_a_person_sent_and_anthropic_cannot_show_is_named_and_never_replaced() -> None:
    body = write(say("user", "x"), say("assistant", "y"), said("user", unknown({"type": "input_audio"}, "openai")))
    assert pairs(body)[-1] == ("user", "[something that cannot be shown here]")
    late = write(say("user", "x"), say("assistant", "y"), said("user", result("gone")))
    assert pairs(late)[-1] == ("user", "[result of a tool call that is no longer shown] sunny\n")


@pytest.mark.req("PROVIDER-5")
def test_only_anthropics_own_thinking_is_given_back() -> None:
    sealed = {"type": "redacted_thinking", "data": "abc"}
    foreign = {"type": "reasoning", "id": "rs_1", "encrypted_content": "zzz"}
    thoughts = [ReasoningBlock(raw=raw) for raw in (THOUGHT, sealed, foreign, None, {"type": "thinking"})]
    body = write(say("user", "x"), said("assistant", *thoughts, call()), said("tool", result()), options=ENABLED)
    assert body["messages"][1]["content"][:2] == [THOUGHT, sealed]
    assert len(body["messages"][1]["content"]) == 3
    assert body["thinking"] == ENABLED["thinking"]


def test_thinking_waits_while_a_tool_loop_runs_that_began_without_it() -> None:
    loop = (say("user", "x"), said("assistant", TextBlock(text="y"), call()), said("tool", result()))
    assert "thinking" not in write(*loop, options=ENABLED)
    assert "thinking" in write(*loop, options={"thinking": {"type": "adaptive"}})
    assert "thinking" in write(*loop, say("assistant", "done"), say("user", "next"), options=ENABLED)
    begun = said("assistant", ReasoningBlock(raw=THOUGHT), call())
    later = (said("assistant", call("c2")), said("tool", result("c2")))
    assert "thinking" in write(say("user", "x"), begun, said("tool", result()), *later, options=ENABLED)


def test_thinking_that_leads_to_nothing_is_left_out() -> None:
    body = write(say("user", "x"), said("assistant", ReasoningBlock(raw=THOUGHT)), say("user", "y"))
    assert [message["role"] for message in body["messages"]] == ["user"]


SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}


def unknown(raw: Json, provider: str = "anthropic") -> UnknownBlock:
    return UnknownBlock(provider=provider, raw=raw)


def test_what_anthropics_own_tools_said_is_given_back_and_others_is_not() -> None:
    answer = said(
        "assistant", unknown(SEARCH), unknown(FOUND), unknown(FOUND, "openai"), unknown(7), TextBlock(text="so")
    )
    body = write(say("user", "x"), answer, say("user", "y"))
    assert body["messages"][1]["content"] == [SEARCH, FOUND, {"type": "text", "text": "so"}]


def test_half_of_a_search_is_left_out_unless_it_still_runs() -> None:
    body = write(
        say("user", "x"),
        said("assistant", unknown(SEARCH), TextBlock(text="a")),
        say("user", "y"),
        said("assistant", unknown({**FOUND, "tool_use_id": "srvtoolu_9"}), TextBlock(text="b")),
        say("user", "z"),
    )
    assert [len(message["content"]) for message in body["messages"]] == [1, 1, 1, 1, 1]
    paused = write(say("user", "x"), said("assistant", TextBlock(text="a"), unknown(SEARCH)))
    assert paused["messages"][-1] == {"role": "assistant", "content": [{"type": "text", "text": "a"}, SEARCH]}


def test_the_assistant_never_has_the_first_or_the_last_word() -> None:
    body = write(say("assistant", "hello"))
    assert [role for role, _ in pairs(body)] == ["system", "user", "assistant", "user"]
    assert [message["role"] for message in write(say("user", " "))["messages"]] == ["user"]
    assert [message["role"] for message in write()["messages"]] == ["user"]


BLOCKS = st.one_of(
    st.builds(TextBlock, text=st.sampled_from(["", " ", "a", "b\n"])),
    st.builds(call, st.sampled_from(["1", "2", "a b"]), st.sampled_from(["t", "ü.x", ""]), st.sampled_from([None, 1])),
    st.builds(result, st.sampled_from(["1", "2", "a b", "9"]), is_error=st.booleans()),
    st.builds(ReasoningBlock, raw=st.sampled_from([None, THOUGHT, {"type": "thinking"}, 3])),
    st.builds(unknown, st.sampled_from([SEARCH, FOUND, {"type": "text"}, {"type": 1}, {}, {"type": "x_tool_use"}])),
    st.builds(ImageBlock, media_type=st.just("image/png"), source=st.sampled_from([None, {"type": "base64"}])),
)
MESSAGES = st.lists(
    st.builds(
        lambda role, blocks: said(role, *blocks),
        st.sampled_from(["user", "assistant", "system", "tool"]),
        st.lists(BLOCKS, max_size=4),
    ),
    max_size=8,
)


@pytest.mark.req("PROVIDER-5", "TOOLS-2", "LEDGER-2")
@settings(deadline=None)
@given(MESSAGES, st.lists(st.integers(-1, 12), max_size=6), st.sampled_from([None, ENABLED]))
def test_any_conversation_becomes_a_valid_request(messages: list[Message], markers: list[int], options: Json) -> None:
    prompt = Prompt(system=("s",), messages=tuple(messages), tools=(SPEC,), markers=tuple(markers))
    body = AnthropicWire().write(ProviderRequest(model_id="m", prompt=prompt, options=options), ABLE)
    assert_valid(body)
    canonical(body)
    shown = [block.text for m in messages for block in m.blocks if isinstance(block, TextBlock) and block.text.strip()]
    assert [text for _, text in pairs(body)[1:] if not text.startswith("[")] == shown
