"""The fake vendors are accepted by the vendors' own SDKs: what was scripted is what the SDK gives, types checked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from contextinfinity_testing.vendors import Answer, Call, Cite, FakeVendors, Tokens

WHAT = {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"], "additionalProperties": False}
LOOK: Any = {"type": "function", "name": "look", "description": "Look.", "parameters": WHAT, "strict": True}
CHAT_LOOK: Any = {"type": "function", "function": {"name": "look", "description": "Look.", "parameters": WHAT}}
CLAUDE_LOOK: Any = {"name": "look", "description": "Look.", "input_schema": WHAT}
HELLO: Any = [{"role": "user", "content": "Hello"}]
BOTH = (Call(name="look", arguments={"at": "Zürich"}), Call(name="look", arguments={"at": "🌊"}))
LONG = "A prompt that is long enough to be cached. " * 200


@pytest.fixture
async def vendors() -> AsyncIterator[FakeVendors]:
    async with FakeVendors() as running:
        yield running


def strict() -> Any:
    import httpx2

    plain = httpx2.AsyncClient(verify=False)
    return {"api_key": "sk-test", "max_retries": 0, "_strict_response_validation": True, "http_client": plain}


@pytest.fixture
async def openai(vendors: FakeVendors) -> AsyncIterator[Any]:
    from openai import AsyncOpenAI

    async with AsyncOpenAI(base_url=vendors.openai_url, **strict()) as client:
        yield client


@pytest.fixture
async def claude(vendors: FakeVendors) -> AsyncIterator[Any]:
    from anthropic import AsyncAnthropic

    async with AsyncAnthropic(base_url=vendors.anthropic_url, **strict()) as client:
        yield client


@pytest.mark.req("PROVIDER-4")
async def test_responses_create_gives_text_and_usage(vendors: FakeVendors, openai: Any) -> None:
    vendors.say(Answer(text="Grüezi.", usage=Tokens(input=50, output=7, cached=40)))
    reply = await openai.responses.create(model="gpt-5", input="Hello", store=False, truncation="disabled")
    assert (reply.output_text, reply.status) == ("Grüezi.", "completed")
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.total_tokens) == (50, 7, 57)
    assert reply.usage.input_tokens_details.cached_tokens == 40
    assert (reply.store, reply.truncation) == (False, "disabled")


@pytest.mark.req("PROVIDER-4")
async def test_responses_stream_gives_deltas_and_the_same_reply(vendors: FakeVendors, openai: Any) -> None:
    vendors.say(Answer(pieces=("Grü", "ezi", " 🌊."), reasoning="They greet."))
    options: Any = {"reasoning": {"effort": "low", "summary": "auto"}, "include": ["reasoning.encrypted_content"]}
    async with openai.responses.stream(model="gpt-5", input="Hello", store=False, **options) as stream:
        events = [event async for event in stream]
        reply = await stream.get_final_response()
    assert [event.delta for event in events if event.type == "response.output_text.delta"] == ["Grü", "ezi", " 🌊."]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    thought, message = reply.output
    assert (thought.summary[0].text, bool(thought.encrypted_content)) == ("They greet.", True)
    assert message.content[0].text == "Grüezi 🌊."


@pytest.mark.req("PROVIDER-4")
async def test_responses_events_are_valid_and_in_the_vendors_order(vendors: FakeVendors, openai: Any) -> None:
    from openai.types.responses import ResponseStreamEvent
    from pydantic import TypeAdapter

    vendors.say(
        Answer(text="One moment.", reasoning="Hm.", tool_calls=BOTH[:1], citations=(Cite(url="https://a.example"),))
    )
    options: Any = {"tools": [LOOK], "reasoning": {"summary": "auto"}, "stream": True}
    kinds = []
    async for event in await openai.responses.create(model="gpt-5", input="Hello", **options):
        TypeAdapter(ResponseStreamEvent).validate_python(event.to_dict())
        kinds.append(event.type.removeprefix("response."))
    assert kinds == [
        "created",
        "in_progress",
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.annotation.added",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]


@pytest.mark.req("PROVIDER-4")
@pytest.mark.parametrize("streams", [False, True])
async def test_responses_call_tools_and_take_the_results(vendors: FakeVendors, openai: Any, streams: bool) -> None:
    vendors.say(Answer(reasoning="Look twice.", tool_calls=BOTH), "It is wet.")
    asked: list[Any] = [{"role": "user", "content": "How is it?"}]
    options: Any = {"model": "gpt-5", "tools": [LOOK], "include": ["reasoning.encrypted_content"], "store": False}
    if streams:
        async with openai.responses.stream(input=asked, **options) as stream:
            reply = await stream.get_final_response()
    else:
        reply = await openai.responses.create(input=asked, **options)
    calls = [item for item in reply.output if item.type == "function_call"]
    assert [json.loads(call.arguments)["at"] for call in calls] == ["Zürich", "🌊"]
    asked += [item.to_dict() for item in reply.output]
    for call in asked:
        call.pop("parsed_arguments", None)
    asked += [{"type": "function_call_output", "call_id": call.call_id, "output": "rain"} for call in calls]
    assert (await openai.responses.create(input=asked, **options)).output_text == "It is wet."


@pytest.mark.req("PROVIDER-4")
@pytest.mark.parametrize("streams", [False, True])
async def test_responses_refuse_and_stop_early(vendors: FakeVendors, openai: Any, streams: bool) -> None:
    vendors.say(Answer(refusal="I would rather not."), Answer(text="Half", stop="filter"), "word " * 100)

    async def ask(**options: Any) -> Any:
        if not streams:
            return await openai.responses.create(model="gpt-5", input="Hello", **options)
        last = None
        async for event in await openai.responses.create(model="gpt-5", input="Hello", stream=True, **options):
            last = event
        assert last is not None
        return last.response

    assert (await ask()).output[0].content[0].refusal == "I would rather not."
    filtered, cut = await ask(), await ask(max_output_tokens=16)
    assert (filtered.status, filtered.incomplete_details.reason) == ("incomplete", "content_filter")
    assert (cut.status, cut.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert len(cut.output_text) == 64


@pytest.mark.req("PROVIDER-4")
async def test_chat_create_gives_text_tools_and_refusals(vendors: FakeVendors, openai: Any) -> None:
    vendors.say("Hello.", Answer(tool_calls=BOTH), Answer(refusal="No."), Answer(text="Ha", stop="length"))
    ask = openai.chat.completions.create
    said = (await ask(model="gpt-5", messages=HELLO)).choices[0]
    called = (await ask(model="gpt-5", messages=HELLO, tools=[CHAT_LOOK])).choices[0]
    refused, cut = [(await ask(model="gpt-5", messages=HELLO)).choices[0] for _ in "ab"]
    assert (said.message.content, said.finish_reason) == ("Hello.", "stop")
    assert (called.message.content, called.finish_reason) == (None, "tool_calls")
    assert [json.loads(call.function.arguments)["at"] for call in called.message.tool_calls] == ["Zürich", "🌊"]
    assert (refused.message.refusal, cut.finish_reason) == ("No.", "length")


@pytest.mark.req("PROVIDER-4")
async def test_chat_stream_gives_deltas_by_index_and_usage_last(vendors: FakeVendors, openai: Any) -> None:
    from openai.types.chat import ChatCompletionChunk

    vendors.say(Answer(text="One moment.", tool_calls=BOTH, usage=Tokens(input=9, output=5)))
    options: Any = {"tools": [CHAT_LOOK], "stream": True, "stream_options": {"include_usage": True}}
    chunks = [chunk async for chunk in await openai.chat.completions.create(model="gpt-5", messages=HELLO, **options)]
    for chunk in chunks:
        ChatCompletionChunk.model_validate(chunk.to_dict(), strict=True)
    *said, stop, usage = chunks
    assert said[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in said) == "One moment."
    calls = [call for chunk in said for call in chunk.choices[0].delta.tool_calls or []]
    assert [call.index for call in calls] == [0, 0, 0, 1, 1, 1]
    assert json.loads("".join(call.function.arguments for call in calls[3:])) == {"at": "🌊"}
    assert (stop.choices[0].finish_reason, stop.usage) == ("tool_calls", None)
    assert (usage.choices, usage.usage.prompt_tokens, usage.usage.completion_tokens) == ([], 9, 5)


@pytest.mark.req("PROVIDER-4")
async def test_the_chat_streaming_helper_puts_the_same_completion_together(vendors: FakeVendors, openai: Any) -> None:
    vendors.say(Answer(text="One moment.", tool_calls=BOTH), Answer(refusal="Not today."))
    async with openai.chat.completions.stream(model="gpt-5", messages=HELLO, tools=[CHAT_LOOK]) as stream:
        called = (await stream.get_final_completion()).choices[0].message
    async with openai.chat.completions.stream(model="gpt-5", messages=HELLO) as stream:
        refused = (await stream.get_final_completion()).choices[0].message
    assert (called.content, len(called.tool_calls)) == ("One moment.", 2)
    assert refused.refusal == "Not today."


@pytest.mark.req("PROVIDER-5")
async def test_messages_create_gives_blocks_and_a_stop_reason(vendors: FakeVendors, claude: Any) -> None:
    vendors.say(
        "Hello.", Answer(reasoning="Look.", tool_calls=BOTH), Answer(refusal="Too risky."), Answer(text="w" * 99)
    )
    ask = claude.messages.create
    said = await ask(model="claude-x", max_tokens=50, messages=HELLO)
    called = await ask(model="claude-x", max_tokens=50, messages=HELLO, tools=[CLAUDE_LOOK])
    refused = await ask(model="claude-x", max_tokens=50, messages=HELLO)
    cut = await ask(model="claude-x", max_tokens=10, messages=HELLO)
    assert (said.content[0].text, said.stop_reason) == ("Hello.", "end_turn")
    assert [block.type for block in called.content] == ["thinking", "tool_use", "tool_use"]
    assert (called.content[0].thinking, called.content[2].input, called.stop_reason) == (
        "Look.",
        {"at": "🌊"},
        "tool_use",
    )
    assert (refused.stop_reason, refused.stop_details.explanation) == ("refusal", "Too risky.")
    assert (cut.stop_reason, len(cut.content[0].text)) == ("max_tokens", 40)


@pytest.mark.req("PROVIDER-5")
async def test_messages_stream_gives_blocks_by_index(vendors: FakeVendors, claude: Any) -> None:
    vendors.say(Answer(pieces=("Grü", "ezi"), reasoning="Greet.", tool_calls=BOTH[:1], usage=Tokens(input=9, output=5)))
    options: Any = {"tools": [CLAUDE_LOOK], "thinking": {"type": "adaptive"}}
    async with claude.messages.stream(model="claude-x", max_tokens=50, messages=HELLO, **options) as stream:
        kinds = [event.type async for event in stream]
        reply = await stream.get_final_message()
    thought, said, call = reply.content
    assert (thought.thinking, bool(thought.signature), said.text) == ("Greet.", True, "Grüezi")
    assert (call.input, reply.stop_reason) == ({"at": "Zürich"}, "tool_use")
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (9, 5)
    assert (kinds[0], kinds[-2:]) == ("message_start", ["message_delta", "message_stop"])


@pytest.mark.req("PROVIDER-5")
async def test_messages_events_are_valid_and_in_the_vendors_order(vendors: FakeVendors, claude: Any) -> None:
    from anthropic.types import RawMessageStreamEvent
    from pydantic import TypeAdapter

    vendors.say(Answer(text="Hi there", reasoning="Hm.", redacted=True, tool_calls=BOTH[:1]))
    kinds = []
    async for event in await claude.messages.create(model="claude-x", max_tokens=50, messages=HELLO, stream=True):
        TypeAdapter(RawMessageStreamEvent).validate_python(event.to_dict())
        kinds.append((event.type, getattr(event, "index", None)))
    assert kinds == [
        ("message_start", None),
        ("content_block_start", 0),
        ("content_block_stop", 0),
        ("content_block_start", 1),
        ("content_block_delta", 1),
        ("content_block_delta", 1),
        ("content_block_stop", 1),
        ("content_block_start", 2),
        *[("content_block_delta", 2)] * 3,
        ("content_block_stop", 2),
        ("message_delta", None),
        ("message_stop", None),
    ]


@pytest.mark.req("PROVIDER-5")
@pytest.mark.parametrize("display", ["summarized", "omitted"])
async def test_thinking_comes_back_with_its_signature(vendors: FakeVendors, claude: Any, display: str) -> None:
    vendors.say(Answer(reasoning="Look.", tool_calls=BOTH), "Wet.")
    options: Any = {"model": "claude-x", "max_tokens": 2000, "tools": [CLAUDE_LOOK]}
    options["thinking"] = {"type": "enabled", "budget_tokens": 1024, "display": display}
    asked: list[Any] = list(HELLO)
    async with claude.messages.stream(messages=asked, **options) as stream:
        reply = await stream.get_final_message()
    assert reply.content[0].thinking == ("Look." if display == "summarized" else "")
    results = [{"type": "tool_result", "tool_use_id": block.id, "content": "rain"} for block in reply.content[1:]]
    asked += [reply.to_param(), {"role": "user", "content": results}]
    assert (await claude.messages.create(messages=asked, **options)).content[0].text == "Wet."


async def test_openai_counts_the_longest_earlier_prefix_as_cached(vendors: FakeVendors, openai: Any) -> None:
    asked: list[Any] = [{"role": "user", "content": LONG}]
    first = await openai.responses.create(model="gpt-5", input=asked)
    asked += [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": "And now?"}]
    second = await openai.responses.create(model="gpt-5", input=asked)
    other = await openai.responses.create(model="gpt-5-mini", input=asked)
    assert first.usage.input_tokens_details.cached_tokens == 0
    assert second.usage.input_tokens_details.cached_tokens == len(LONG) // 4 // 128 * 128 > 1024
    assert other.usage.input_tokens_details.cached_tokens == 0


async def test_anthropic_caches_up_to_its_markers(vendors: FakeVendors, claude: Any) -> None:
    marked = {"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}
    options: Any = {"model": "claude-x", "max_tokens": 50, "messages": HELLO}
    first = (await claude.messages.create(system=[marked], **options)).usage
    second = (await claude.messages.create(system=[marked], **options)).usage
    unmarked = (await claude.messages.create(system=LONG, **options)).usage
    size = -(-len(LONG) // 4)
    assert (first.cache_creation_input_tokens, first.cache_read_input_tokens, first.input_tokens) == (size, 0, 2)
    assert (second.cache_creation_input_tokens, second.cache_read_input_tokens, second.input_tokens) == (0, size, 2)
    assert (unmarked.cache_read_input_tokens, unmarked.input_tokens) == (0, size + 2)


async def test_perplexity_adds_citations_to_every_chunk(vendors: FakeVendors) -> None:
    from openai import AsyncOpenAI

    vendors.say(*[Answer(text="So they say [1].", citations=(Cite(url="https://a.example", title="A"),))] * 2)
    async with AsyncOpenAI(base_url=vendors.perplexity_url, api_key="pplx", max_retries=0) as client:
        whole: Any = await client.chat.completions.create(model="sonar", messages=HELLO)
        stream: Any = await client.chat.completions.create(model="sonar", messages=HELLO, stream=True)
        chunks = [chunk async for chunk in stream]
    assert (whole.citations, whole.search_results[0]["title"]) == (["https://a.example"], "A")
    assert all(chunk.citations == ["https://a.example"] and chunk.usage for chunk in chunks)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "So they say [1]."


async def test_a_server_for_open_models_takes_any_key_and_shows_its_reasoning(vendors: FakeVendors) -> None:
    from openai import AsyncOpenAI

    vendors.key = "another"
    vendors.say(*[Answer(text="Four.", reasoning="Two and two.")] * 2)
    extra: Any = {"extra_body": {"top_k": 3}}
    async with AsyncOpenAI(base_url=vendors.compatible_url, api_key="unused", max_retries=0) as client:
        whole: Any = await client.chat.completions.create(model="qwen3-8b", messages=HELLO, **extra)
        stream: Any = await client.chat.completions.create(model="qwen3-8b", messages=HELLO, stream=True, **extra)
        thoughts = [getattr(chunk.choices[0].delta, "reasoning_content", "") async for chunk in stream]
    assert whole.choices[0].message.reasoning_content == "".join(thoughts) == "Two and two."


async def test_both_vendors_list_their_models(openai: Any, claude: Any) -> None:
    assert "gpt-5" in [model.id async for model in openai.models.list()]
    assert "claude-opus-4-5" in [model.id async for model in claude.models.list()]
    assert (await openai.models.retrieve("gpt-5")).id == "gpt-5"


@pytest.mark.parametrize("place", ["system", "message", "tool result"])
async def test_without_a_script_it_answers_from_what_it_was_shown(claude: Any, place: str) -> None:
    fact = "By the way: the code word for the vault is Heron."
    question = {"role": "user", "content": "What is the code word for the vault?"}
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": fact}]}
    shown: dict[str, Any] = {
        "system": {"system": fact, "messages": [question]},
        "message": {"messages": [{"role": "user", "content": fact}, {"role": "assistant", "content": "Ah."}, question]},
        "tool result": {"messages": [question, call, result]},
    }
    reply = await claude.messages.create(model="claude-x", max_tokens=50, **shown[place])
    assert reply.content[0].text == "Heron"


async def test_the_newest_mention_wins_and_the_unknown_is_unknown(openai: Any) -> None:
    facts = "The code word for the vault is Heron. No: the code word for the vault is Egret."
    ask = openai.responses.create
    assert (await ask(model="gpt-5", instructions=facts, input="Code word for the vault?")).output_text == "Egret"
    unknown = await ask(model="gpt-5", instructions=facts, input="What is the code word for the shed?")
    assert unknown.output_text == "I do not know the code word for the shed."
    assert (await ask(model="gpt-5", input="Just talk.")).output_text == "You said: Just talk."


async def test_every_request_is_kept_as_it_came(vendors: FakeVendors, openai: Any) -> None:
    await openai.responses.create(model="gpt-5", input="Grüezi")
    (request,) = vendors.requests
    assert (request.method, request.path, request.headers["authorization"]) == (
        "POST",
        "/v1/responses",
        "Bearer sk-test",
    )
    assert request.body == json.loads(request.raw) == {"model": "gpt-5", "input": "Grüezi"}
