"""The fake Gemini is accepted by Google's own client: what was scripted is what the client gives, types checked."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest

from contextinfinity_testing.vendors import Answer, Call, Cite, FakeVendors, Tokens, Trouble

MODEL = "gemini-3-flash-preview"
WHAT = {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}
LOOK: Any = {"function_declarations": [{"name": "look", "description": "Look.", "parameters_json_schema": WHAT}]}
THINK: Any = {"thinking_config": {"include_thoughts": True, "thinking_level": "low"}}


@pytest.fixture
async def vendors() -> AsyncIterator[FakeVendors]:
    async with FakeVendors(key="goog-key-0123456789") as running:
        yield running


def client(vendors: FakeVendors, key: str = "goog-key-0123456789") -> Any:
    from google import genai

    options: Any = {"base_url": vendors.gemini_url.removesuffix("/v1beta"), "async_client_args": {"verify": False}}
    return genai.Client(api_key=key, vertexai=False, http_options=options).aio


@pytest.fixture
async def gemini(vendors: FakeVendors) -> AsyncIterator[Any]:
    opened = client(vendors)
    yield opened
    await opened.aclose()


@pytest.mark.req("PROVIDER-1")
async def test_generate_content_gives_text_and_usage(vendors: FakeVendors, gemini: Any) -> None:
    vendors.say(Answer(text="Grüezi.", reasoning="A greeting.", usage=Tokens(input=50, output=7, cached=40)))
    reply = await gemini.models.generate_content(
        model=MODEL, contents="Hello", config={**THINK, "system_instruction": "Be kind.", "max_output_tokens": 100}
    )
    assert (reply.text, reply.candidates[0].finish_reason.value) == ("Grüezi.", "STOP")
    thought, *_ = reply.candidates[0].content.parts
    assert (thought.text, thought.thought) == ("A greeting.", True)
    usage = reply.usage_metadata
    assert (usage.prompt_token_count, usage.cached_content_token_count) == (50, 40)
    assert usage.candidates_token_count + usage.thoughts_token_count == 7
    assert (reply.model_version, bool(reply.response_id)) == (MODEL, True)


@pytest.mark.req("PROVIDER-1")
async def test_a_stream_gives_the_same_in_pieces(vendors: FakeVendors, gemini: Any) -> None:
    vendors.say(Answer(pieces=("Grü", "ezi", " 🌊."), citations=(Cite(url="https://a.example", title="A"),)))
    stream = await gemini.models.generate_content_stream(model=MODEL, contents="Hello")
    events = [event async for event in stream]
    assert "".join(event.text or "" for event in events) == "Grüezi 🌊."
    assert [event.candidates[0].finish_reason is not None for event in events] == [False, False, False, True]
    assert events[-1].candidates[0].grounding_metadata.grounding_chunks[0].web.uri == "https://a.example"


@pytest.mark.req("TOOLS-2")
async def test_calls_are_signed_and_the_signature_is_demanded_back(vendors: FakeVendors, gemini: Any) -> None:
    from google.genai.errors import ClientError

    calls = (Call(name="look", arguments={"at": "Zürich"}), Call(name="look", arguments={"at": "🌊"}))
    vendors.say(Answer(tool_calls=calls, reasoning="Two places."), "Both are blue.")
    said: Any = [{"role": "user", "parts": [{"text": "Look at both."}]}]
    reply = await gemini.models.generate_content(model=MODEL, contents=said, config={"tools": [LOOK]})
    answer = reply.candidates[0].content
    assert [call.args for call in reply.function_calls] == [call.arguments for call in calls]
    assert [part.thought_signature is not None for part in answer.parts] == [True, False]
    results = [
        {"function_response": {"id": call.id, "name": call.name, "response": {"output": "blue"}}}
        for call in reply.function_calls
    ]
    after: Any = [*said, answer, {"role": "user", "parts": results}]
    assert (await gemini.models.generate_content(model=MODEL, contents=after, config={"tools": [LOOK]})).text
    unsigned = answer.model_copy(deep=True)
    unsigned.parts[0].thought_signature = None
    forged = answer.model_copy(deep=True)
    forged.parts[0].thought_signature = base64.b64encode(b"not ours")
    for wrong, words in ((unsigned, "missing a thought_signature"), (forged, "Corrupted thought signature")):
        with pytest.raises(ClientError, match=words):
            await gemini.models.generate_content(
                model=MODEL, contents=[*said, wrong, after[-1]], config={"tools": [LOOK]}
            )
    with pytest.raises(ClientError, match="functionResponse"):
        await gemini.models.generate_content(model=MODEL, contents=[*said, answer, *said], config={"tools": [LOOK]})


@pytest.mark.parametrize(
    ("trouble", "code", "status"),
    [
        (Trouble.bad_key(), 400, "INVALID_ARGUMENT"),
        (Trouble.status(429, retry_after=7), 429, "RESOURCE_EXHAUSTED"),
        (Trouble.insufficient_quota(), 429, "RESOURCE_EXHAUSTED"),
        (Trouble.overloaded(), 503, "UNAVAILABLE"),
        (Trouble.size(), 400, "INVALID_ARGUMENT"),
        (Trouble.status(404), 404, "NOT_FOUND"),
    ],
)
async def test_trouble_is_told_in_googles_words(
    vendors: FakeVendors, gemini: Any, trouble: Trouble, code: int, status: str
) -> None:
    from google.genai.errors import APIError

    vendors.say(trouble, trouble)
    with pytest.raises(APIError) as caught:
        await gemini.models.generate_content(model=MODEL, contents="Hello")
    assert (caught.value.code, caught.value.status) == (code, status)
    with pytest.raises(APIError):
        [event async for event in await gemini.models.generate_content_stream(model=MODEL, contents="Hello")]


async def test_a_blocked_prompt_has_no_candidates(vendors: FakeVendors, gemini: Any) -> None:
    vendors.say(Trouble.filter(), Answer(text="Half", stop="filter"))
    reply = await gemini.models.generate_content(model=MODEL, contents="Hello")
    assert (reply.candidates, reply.prompt_feedback.block_reason.value) == (None, "SAFETY")
    reply = await gemini.models.generate_content(model=MODEL, contents="Hello")
    assert (reply.text, reply.candidates[0].finish_reason.value) == ("Half", "SAFETY")


async def test_a_wrong_key_is_refused(vendors: FakeVendors) -> None:
    from google.genai.errors import ClientError

    other = client(vendors, key="another-key")
    with pytest.raises(ClientError, match="API key not valid"):
        await other.models.generate_content(model=MODEL, contents="Hello")
    await other.aclose()
