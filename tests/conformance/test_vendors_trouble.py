"""The fake vendors fail as vendors and networks do, and the SDKs raise what they raise for the real ones."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from contextinfinity_testing.vendors import Answer, Call, Delivery, FakeVendors, Trouble

KEY = "sk-live-0123456789"
HELLO: Any = [{"role": "user", "content": "Hello"}]
PROTOCOLS = ["responses", "chat", "messages"]


class Asking:
    """One question to each protocol, through the vendors' SDKs."""

    def __init__(self, vendors: FakeVendors, openai: Any, claude: Any) -> None:
        self.vendors = vendors
        self._openai = openai
        self._claude = claude

    async def ask(self, protocol: str, *, stream: bool = False) -> Any:
        more: Any = {"stream": True} if stream else {}
        if protocol == "responses":
            return await self._openai.responses.create(model="gpt-5", input=HELLO, **more)
        if protocol == "chat":
            return await self._openai.chat.completions.create(model="gpt-5", messages=HELLO, **more)
        return await self._claude.messages.create(model="claude-x", max_tokens=500, messages=HELLO, **more)

    async def pieces(self, protocol: str, said: list[str]) -> None:
        """Stream an answer into a list, so that what came before an error is kept."""
        async with await self.ask(protocol, stream=True) as stream:
            async for event in stream:
                said.append(_delta(protocol, event))


def _delta(protocol: str, event: Any) -> str:
    if protocol == "chat":
        return (event.choices and event.choices[0].delta.content) or ""
    delta = getattr(event, "delta", "")
    return getattr(delta, "text", "") if protocol == "messages" else delta if isinstance(delta, str) else ""


def plain() -> Any:
    import httpx2

    return httpx2.AsyncClient(verify=False)


@pytest.fixture
async def asking() -> AsyncIterator[Asking]:
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI

    async with FakeVendors(key=KEY) as vendors, contextlib.AsyncExitStack() as clients:
        options: Any = {"api_key": KEY, "max_retries": 0}
        openai = AsyncOpenAI(base_url=vendors.openai_url, http_client=plain(), **options)
        claude = AsyncAnthropic(base_url=vendors.anthropic_url, http_client=plain(), **options)
        yield Asking(vendors, await clients.enter_async_context(openai), await clients.enter_async_context(claude))


async def failure(asking: Asking, protocol: str, trouble: Trouble, *, stream: bool = False) -> Any:
    import anthropic
    import openai

    asking.vendors.say(trouble)
    with pytest.raises((openai.APIError, anthropic.APIError)) as caught:
        await (asking.pieces(protocol, []) if stream else asking.ask(protocol))
    return caught.value


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("trouble", "names"),
    [
        (Trouble.status(429, retry_after=1), ("RateLimitError", "RateLimitError")),
        (Trouble.status(500), ("InternalServerError", "InternalServerError")),
        (Trouble.status(404), ("NotFoundError", "NotFoundError")),
        (Trouble.overloaded(), ("InternalServerError", "OverloadedError")),
        (Trouble.insufficient_quota(), ("RateLimitError", "BadRequestError")),
        (Trouble.bad_key(), ("AuthenticationError", "AuthenticationError")),
        (Trouble.filter(), ("BadRequestError", "BadRequestError")),
        (Trouble.page(502), ("InternalServerError", "InternalServerError")),
        (Trouble.drop(), ("APIConnectionError", "APIConnectionError")),
    ],
    ids=lambda value: value.kind if isinstance(value, Trouble) else "",
)
async def test_the_sdk_raises_its_own_error(
    asking: Asking, protocol: str, stream: bool, trouble: Trouble, names: tuple[str, str]
) -> None:
    raised = await failure(asking, protocol, trouble, stream=stream)
    assert type(raised).__name__ == names[protocol == "messages"]


async def test_a_rate_limit_says_when_to_come_back(asking: Asking) -> None:
    for protocol in PROTOCOLS:
        raised = await failure(asking, protocol, Trouble.status(429, retry_after=7))
        assert raised.response.headers["retry-after"] == "7"


@pytest.mark.parametrize(
    ("protocol", "words"),
    [
        ("responses", "exceeds the context window of this model"),
        ("chat", "Input tokens exceed the configured limit of 200000 tokens. Your messages resulted in 250000 tokens."),
        ("messages", "prompt is too long: 250000 tokens > 200000 maximum"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_that_is_too_long_is_refused_in_the_vendors_words(
    asking: Asking, protocol: str, words: str, stream: bool
) -> None:
    raised = await failure(asking, protocol, Trouble.size(), stream=stream)
    assert words in str(raised)
    assert protocol == "messages" or raised.code == "context_length_exceeded"


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_standing_limit_refuses_every_longer_prompt(asking: Asking, protocol: str) -> None:
    import anthropic
    import openai

    asking.vendors.limit = 1
    with pytest.raises((openai.BadRequestError, anthropic.BadRequestError)):
        await asking.ask(protocol)
    asking.vendors.limit = 2
    assert await asking.ask(protocol)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_wrong_key_is_refused_without_being_shown(asking: Asking, protocol: str) -> None:
    asking.vendors.key = "another"
    raised = await failure(asking, protocol, Trouble.status(500))
    assert (type(raised).__name__, KEY in str(raised.body)) == ("AuthenticationError", False)
    asking.vendors.key = KEY
    asking.vendors.script.clear()
    rude = await failure(asking, protocol, Trouble.bad_key(echo_key=True))
    assert KEY in str(rude.body)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "delivery",
    [Delivery(slow=True), Delivery(split=True), Delivery(unknown=True)],
    ids=["slow", "split", "unknown"],
)
async def test_an_answer_survives_how_it_travels(asking: Asking, protocol: str, delivery: Delivery) -> None:
    asking.vendors.say(Answer(text="Grüße, 世界 🌊!", delivery=delivery))
    said: list[str] = []
    await asking.pieces(protocol, said)
    assert "".join(said) == "Grüße, 世界 🌊!"


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("how", [Delivery(cut_after_pieces=2), Delivery(cut_after_pieces=2, slow=True)])
async def test_a_cut_stream_is_an_error_after_what_was_said(asking: Asking, protocol: str, how: Delivery) -> None:
    import httpx2
    import openai

    asking.vendors.say(Answer(text="one two three four", delivery=how))
    said: list[str] = []
    with pytest.raises((httpx2.RemoteProtocolError, openai.APIConnectionError)):
        await asking.pieces(protocol, said)
    assert "".join(said) == "one two"


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_tidy_cut_ends_without_the_last_word(asking: Asking, protocol: str) -> None:
    asking.vendors.say(Answer(text="one two three", delivery=Delivery(cut_after_pieces=1, tidy=True)))
    said: list[str] = []
    await asking.pieces(protocol, said)
    assert "".join(said) == "one"


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("size", [0, 1, 40, 400])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_cut_after_some_bytes_is_an_error(asking: Asking, protocol: str, size: int, stream: bool) -> None:
    import anthropic
    import httpx2
    import openai

    asking.vendors.say(Answer(text="word " * 100, delivery=Delivery(cut_after_bytes=size)))
    with pytest.raises((httpx2.RemoteProtocolError, openai.APIError, anthropic.APIError)):
        await (asking.pieces(protocol, []) if stream else asking.ask(protocol))


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_an_error_in_the_middle_of_a_stream_is_raised_there(asking: Asking, protocol: str) -> None:
    import anthropic
    import openai

    asking.vendors.say(Answer(text="one two three", delivery=Delivery(error=Trouble.overloaded(), error_after=2)))
    said: list[str] = []
    with pytest.raises((openai.APIError, anthropic.APIStatusError), match=r"[Oo]verloaded"):
        await asking.pieces(protocol, said)
    assert "".join(said) == "one two"


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_gate_holds_the_rest_back(asking: Asking, protocol: str) -> None:
    gate = asyncio.Event()
    asking.vendors.say(Answer(text="one two three", delivery=Delivery(gate=gate, hold_after=1)))
    said: list[str] = []
    reading = asyncio.create_task(asking.pieces(protocol, said))
    while "".join(said) != "one":
        await asyncio.sleep(0)
    for _ in range(200):  # more than enough for the rest, if it were not held back
        await asyncio.sleep(0)
    assert "".join(said) == "one"
    gate.set()
    await reading
    assert "".join(said) == "one two three"


async def test_garbage_is_no_answer(asking: Asking) -> None:
    asking.vendors.say(Trouble.garbage())
    headers = {"authorization": f"Bearer {KEY}"}
    async with plain() as client:
        body = {"model": "gpt-5", "input": "Hello"}
        reply = await client.post(f"{asking.vendors.openai_url}/responses", json=body, headers=headers)
    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/json")
    with pytest.raises(ValueError, match=r"JSON|char|Expecting"):
        reply.json()


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_client_may_leave_in_the_middle(asking: Asking, protocol: str) -> None:
    asking.vendors.say(Answer(text="word " * 20_000, tool_calls=(Call(name="look"),)), "Still here.")
    with contextlib.suppress(StopAsyncIteration):
        async with await asking.ask(protocol, stream=True) as stream:
            await anext(aiter(stream))
    said: list[str] = []
    await asking.pieces(protocol, said)
    assert "".join(said) == "Still here."


async def test_closing_does_not_wait_for_a_held_answer() -> None:
    async with FakeVendors() as vendors:
        vendors.say(Answer(text="never", delivery=Delivery(gate=asyncio.Event())))
        host, port = vendors.anthropic_url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        body = b'{"model":"gpt-5","input":"Hello"}'
        head = b"POST /v1/responses HTTP/1.1\r\nauthorization: Bearer x\r\ncontent-length: %d\r\n\r\n" % len(body)
        writer.write(head + body)
        while not vendors.requests:
            await asyncio.sleep(0)
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()


async def test_each_byte_of_a_slow_answer_arrives_on_its_own() -> None:
    async with FakeVendors() as vendors:
        vendors.say(Answer(text="ü", delivery=Delivery(slow=True)))
        host, port = vendors.anthropic_url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        body = b'{"model":"gpt-5","input":"Hello"}'
        head = b"POST /v1/responses HTTP/1.1\r\nauthorization: Bearer x\r\ncontent-length: %d\r\n\r\n" % len(body)
        writer.write(head + body)
        await reader.readuntil(b"\r\n\r\n")
        reads = [await reader.read(65536) for _ in range(200)]
        assert max(map(len, reads)) < 8
        writer.close()
        await writer.wait_closed()
