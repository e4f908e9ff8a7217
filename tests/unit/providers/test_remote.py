"""A provider on the network: what goes over the wire, what comes back, and who may see the key."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from types import TracebackType
from typing import Any

import pytest

from contextinfinity.domain.message import AssistantItem, TextBlock, ToolCallItem, say
from contextinfinity.domain.prompt import Finished, Prompt, ProviderEvent, ProviderRequest, Retry, TextDelta, ToolSpec
from contextinfinity.domain.turn import Completed, Paused
from contextinfinity.errors import ProviderError
from contextinfinity.providers.remote import ProviderFactory, RemoteProvider, address, overrides, wire
from contextinfinity.providers.transport import LARGEST_REPLY, RetryPolicy, VendorConnection
from contextinfinity.settings import ModelSettings, Settings
from contextinfinity_testing.vendors import Answer, FakeVendors, Trouble

KEY = "sk-open-0123456789"
KEYS = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": "sk-ant-0123456789", "PERPLEXITY_API_KEY": "pplx-0123456789"}
KEYS["GEMINI_API_KEY"] = "goog-0123456789"
NAMES = ("openai", "anthropic", "openai_chat", "perplexity", "gemini")
ALL = pytest.mark.parametrize("name", NAMES)
WEATHER = ToolSpec(name="weather", description="Tell the weather.", parameters={"type": "object", "properties": {}})


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, key in KEYS.items():
        monkeypatch.setenv(variable, key)
    return


class Counting(FakeVendors):
    """The vendors, and how often they were called up."""

    connections = 0

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        super()._connected(reader, writer)


@pytest.fixture
async def vendors() -> AsyncIterator[Counting]:
    there = Counting()
    async with there:
        yield there


def model_settings(vendors: FakeVendors, name: str, **more: Any) -> ModelSettings:
    """What config.toml would say of a model at one of the vendors."""
    urls = {
        "openai": vendors.openai_url,
        "anthropic": vendors.anthropic_url,
        "openai_chat": vendors.compatible_url,
        "perplexity": vendors.perplexity_url,
        "gemini": vendors.gemini_url,
    }
    said = {"context_limit": 9000, "base_url": urls[name], **more}
    return ModelSettings(provider=name, model_id="some-model", **said)  # type: ignore[arg-type]


class Server:
    """Answers every request with the same bytes; ``stays`` keeps the line open until the client goes."""

    def __init__(self, reply: bytes, *, stays: bool = False) -> None:
        self.reply = reply
        self.stays = stays
        self.requests: list[bytes] = []
        self.left = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Server:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(self._answer(reader, writer)))

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
            self.requests.append(await reader.readexactly(length))
            writer.write(self.reply)
            await writer.drain()
            if self.stays:
                await reader.read()
        except ConnectionError:
            pass  # the client has gone
        finally:
            self.left.set()
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


def answer(body: bytes | str, kind: str | None = "application/json", status: str = "200 OK", more: str = "") -> bytes:
    """A whole reply in HTTP; where it ends is said by the end of the connection."""
    content = body.encode() if isinstance(body, str) else body
    line = "" if kind is None else f"content-type: {kind}\r\n"
    return f"HTTP/1.1 {status}\r\n{line}{more}connection: close\r\n\r\n".encode() + content


def stream(*events: str) -> bytes:
    return answer("".join(f"data: {event}\n\n" for event in events), "text/event-stream; charset=utf-8")


def chunk(text: str, finish: str | None = None) -> str:
    return json.dumps({"id": "x", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]})


def completion(**message: Any) -> str:
    return json.dumps({"id": "x", "choices": [{"index": 0, "message": {"role": "assistant", **message}}]})


def opened(model: ModelSettings, attempts: int = 1) -> RemoteProvider:
    policy = RetryPolicy(attempts=attempts, first_wait=0.0001)
    connection = VendorConnection(address(model))
    return RemoteProvider(wire(model, Settings()), connection, overrides=overrides(model), policy=policy)


def at(server: Server, name: str = "openai_chat", attempts: int = 1, **more: Any) -> RemoteProvider:
    """A provider that has been told that its vendor is this server."""
    model = ModelSettings(provider=name, model_id="some-model", base_url=server.url, context_limit=9000, **more)  # type: ignore[arg-type]
    return opened(model, attempts)


def request(text: str = "Hello.", model_id: str = "some-model", **more: Any) -> ProviderRequest:
    return ProviderRequest(
        model_id=model_id, prompt=Prompt(system=("Be kind.",), messages=(say("user", text),), **more)
    )


async def heard(provider: RemoteProvider, asked: ProviderRequest | None = None) -> list[ProviderEvent]:
    async with asyncio.timeout(30):
        try:
            return [event async for event in provider.stream(provider.write(asked or request()))]
        finally:
            await provider.close()


async def refused(provider: RemoteProvider) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await heard(provider)
    assert "\n" not in caught.value.message
    assert caught.value.hint
    return caught.value


def text_of(events: list[ProviderEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def last_word(events: list[ProviderEvent]) -> Finished:
    assert isinstance(events[-1], Finished)
    return events[-1]


# --- replies of servers that do as they like

WHOLE = {
    "openai": {
        "id": "r1",
        "status": "completed",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "Hello there."}]}],
    },
    "anthropic": {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "content": [{"type": "text", "text": "Hello there."}],
        "stop_reason": "end_turn",
    },
    "openai_chat": {"id": "c1", "choices": [{"message": {"content": "Hello there."}, "finish_reason": "stop"}]},
    "perplexity": {"id": "c1", "choices": [{"message": {"content": "Hello there."}, "finish_reason": "stop"}]},
    "gemini": {
        "candidates": [{"content": {"role": "model", "parts": [{"text": "Hello there."}]}, "finishReason": "STOP"}]
    },
}


@ALL
@pytest.mark.req("PROVIDER-1")
@pytest.mark.parametrize("kind", ["application/json", "text/plain", None])
async def test_a_server_that_does_not_stream_is_understood(name: str, kind: str | None) -> None:
    async with Server(answer(json.dumps(WHOLE[name]), kind)) as server:
        events = await heard(at(server, name))
    assert events[0] == TextDelta(text="Hello there.")
    finished = last_word(events)
    assert (len(events), finished.outcome) == (2, Completed())
    assert AssistantItem(blocks=(TextBlock(text="Hello there."),)) in finished.items
    assert json.loads(finished.response or "") == WHOLE[name], "the raw reply is kept"


async def test_a_reply_of_tools_alone_says_no_words() -> None:
    body = completion(tool_calls=[{"id": "c1", "function": {"name": "weather", "arguments": "{}"}}])
    async with Server(answer(body)) as server:
        (finished,) = await heard(at(server), request(tools=(WEATHER,)))
    assert isinstance(finished, Finished)
    assert finished.outcome == Paused(reason="tool_use")
    assert ToolCallItem(call_id="c1", name="weather", arguments={}) in finished.items


async def test_an_error_sent_as_if_all_were_well_is_an_error() -> None:
    async with Server(answer('{"error": {"code": "model_not_found", "message": "No such model."}}')) as server:
        error = await refused(at(server))
    assert error.kind == "not_found"
    assert "No such model" in error.message


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (answer("<html><body>Log in to the network</body></html>", "text/html; charset=utf-8"), "text/html: "),
        (answer("<html><body>Log in to the network</body></html>", None), "no content type: "),
        (answer("", "application/json"), "application/json"),
        (answer("[1, 2]"), "no message"),
        (stream("nonsense", "[DONE]"), "nonsense"),
        (stream("[DONE]"), "no message"),
    ],
    ids=["page", "untyped", "empty", "list", "event", "nothing"],
)
async def test_what_is_no_answer_is_told_as_it_came(reply: bytes, said: str) -> None:
    async with Server(reply) as server:
        error = await refused(at(server, attempts=3))
        assert error.kind == "garbled"
        assert said in error.message
        assert len(server.requests) == 1, "the same would come again"


async def test_a_reply_without_end_is_not_read_to_its_end() -> None:
    async with Server(answer(b" " * (LARGEST_REPLY + 1))) as server:
        error = await refused(at(server))
    assert error.kind == "garbled"
    assert str(LARGEST_REPLY) in error.message


async def test_what_a_refusal_says_is_told_wherever_it_says_it() -> None:
    async with Server(answer('{"error": null, "message": "The stars are wrong"}', status="400 Bad Request")) as server:
        error = await refused(at(server))
    assert error.kind == "bad_request"
    assert "The stars are wrong" in error.message


async def test_bytes_that_are_no_text_do_not_cost_the_answer() -> None:
    async with Server(answer(completion(content="caf?").encode().replace(b"?", b"\xe9"))) as server:
        assert text_of(await heard(at(server))) == "caf\ufffd"


async def test_a_stream_may_say_that_it_is_done_and_not_why() -> None:
    async with Server(stream(chunk("Hel"), chunk("lo."), "[DONE]", chunk("after"))) as server:
        events = await heard(at(server))
    assert events[:2] == [TextDelta(text="Hel"), TextDelta(text="lo.")]
    assert (len(events), last_word(events).outcome) == (3, Completed())


async def test_a_stream_may_say_why_it_ends_and_not_that_it_is_done() -> None:
    async with Server(stream(chunk("Hello."), chunk("", "stop"))) as server:
        events = await heard(at(server))
    assert (text_of(events), last_word(events).outcome) == ("Hello.", Completed())


async def test_a_stream_that_says_neither_was_cut() -> None:
    async with Server(stream(chunk("Hel"))) as server:
        assert await heard(at(server, attempts=3)) == [TextDelta(text="Hel")]
        assert len(server.requests) == 1


@pytest.mark.parametrize("reply", [stream(), stream('{"choices": [{"del')], ids=["nothing", "half an event"])
async def test_a_stream_that_was_cut_before_its_first_word_is_asked_for_again(reply: bytes) -> None:
    async with Server(reply) as server:
        provider = at(server, attempts=2)
        error = await refused(provider)
        assert error.kind == "connection"
        assert "cut off" in error.message
        assert len(server.requests) == 2


@pytest.mark.parametrize("ending", [("[DONE]",), ()], ids=["done", "nothing"])
async def test_a_line_that_stays_open_after_the_last_word_keeps_nobody_waiting(ending: tuple[str, ...]) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    said = "".join(f"data: {event}\n\n" for event in (chunk("Hello.", "stop"), *ending))
    async with Server(head + said.encode(), stays=True) as server:
        events = await heard(at(server, timeout_seconds=600))
        assert last_word(events).outcome == Completed()
        async with asyncio.timeout(30):
            await server.left.wait()


# --- what is sent


@ALL
@pytest.mark.req("PROVIDER-1", "PROVIDER-3")
async def test_what_was_written_is_what_is_sent(name: str, vendors: Counting) -> None:
    model = model_settings(vendors, name)
    provider = opened(model)
    written = provider.write(request("Grüße, 漢字 \u2028 </script> 😀", str(model.model_id)))
    events = [event async for event in provider.stream(written)]
    await provider.close()
    assert last_word(events).outcome == Completed()
    (arrived,) = vendors.requests
    assert arrived.raw == written.body, "byte for byte"
    assert (arrived.headers["content-type"], arrived.headers["accept"]) == ("application/json", "text/event-stream")


@ALL
@pytest.mark.parametrize(
    "trouble",
    [Trouble.status(500), Trouble.status(429), Trouble.status(408), Trouble.overloaded(), Trouble.drop()],
    ids=["500", "429", "408", "overloaded", "drop"],
)
async def test_a_request_is_sent_once_for_each_attempt(name: str, vendors: Counting, trouble: Trouble) -> None:
    vendors.say(*[trouble] * 9)
    error = await refused(opened(model_settings(vendors, name)))
    assert (error.retryable, len(vendors.requests)) == (True, 1)
    if trouble.code != 429:  # which says how long to wait
        await refused(opened(model_settings(vendors, name), attempts=3))
        assert len(vendors.requests) == 1 + 3


async def test_a_server_that_wants_to_be_asked_again_is_asked_by_us_alone() -> None:
    busy = answer("{}", status="503 Service Unavailable", more="x-should-retry: true\r\nretry-after-ms: 1\r\n")
    async with Server(busy) as server:
        assert (await refused(at(server))).kind == "overloaded"
        assert len(server.requests) == 1


@pytest.mark.req("PROVIDER-1")
async def test_each_attempt_is_seen(vendors: Counting) -> None:
    vendors.say(Trouble.overloaded(), Trouble.drop(), "Here.")
    events = await heard(opened(model_settings(vendors, "openai"), attempts=3))
    assert [event.attempt for event in events if isinstance(event, Retry)] == [1, 2]
    assert text_of(events) == "Here."


async def test_nobody_at_the_address_is_told_with_the_address() -> None:
    async with Server(b"") as server:
        pass
    error = await refused(at(server))
    assert (error.kind, error.retryable) == ("connection", True)
    assert server.url in error.message


async def test_an_address_that_is_none_is_told() -> None:
    model = ModelSettings(provider="openai", model_id="some-model", base_url="http://a\tb", context_limit=9000)
    error = await refused(opened(model, attempts=3))
    assert error.kind == "connection"
    assert "asked" not in error.message, "it would be wrong the next time, too"


@ALL
async def test_a_server_that_says_nothing_is_waited_for_as_long_as_was_said(name: str) -> None:
    async with Server(b"", stays=True) as server:
        error = await refused(at(server, name, timeout_seconds=0.05))
        assert (error.kind, error.retryable) == ("time_out", True)
        async with asyncio.timeout(30):
            await server.left.wait()


# --- connections


@ALL
async def test_one_connection_serves_request_after_request(name: str, vendors: Counting) -> None:
    provider = opened(model_settings(vendors, name))
    vendors.say("One.", Answer(pieces=("Two", ".")), "Three.")
    for text in ("One.", "Two.", "Three."):
        events = [event async for event in provider.stream(provider.write(request()))]
        assert text_of(events) == text
    await provider.close()
    assert vendors.connections == 1


async def test_models_at_one_address_share_its_connections(vendors: Counting) -> None:
    lines = ProviderFactory(Settings())
    first = lines.provider(model_settings(vendors, "openai", options={"temperature": 0}))
    second = lines.provider(model_settings(vendors, "openai", context_limit=5000))
    for provider in (first, second):
        async for _ in provider.stream(provider.write(request())):
            pass
    assert (len(vendors.requests), vendors.connections) == (2, 1)
    assert (first.context_limit("some-model"), second.context_limit("some-model")) == (9000, 5000), "each is its own"
    await first.close()
    async for _ in second.stream(second.write(request())):  # opens it again
        pass
    assert (len(vendors.requests), vendors.connections) == (3, 2)
    await second.close()


async def test_a_model_is_asked_as_often_as_its_settings_say(vendors: Counting) -> None:
    vendors.say(*[Trouble.status(500)] * 9)
    provider = ProviderFactory(Settings()).provider(model_settings(vendors, "openai", attempts=1))
    with pytest.raises(ProviderError):
        [event async for event in provider.stream(provider.write(request()))]
    await provider.close()
    assert len(vendors.requests) == 1


async def test_other_keys_and_other_waits_are_other_connections(
    vendors: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER_KEY", "sk-other-0123456789")
    lines = ProviderFactory(Settings())
    providers = [
        lines.provider(model_settings(vendors, "openai", **more))
        for more in ({}, {"api_key_env": "OTHER_KEY"}, {"timeout_seconds": 5})
    ]
    for provider in providers:
        async for _ in provider.stream(provider.write(request())):
            pass
    assert vendors.connections == 3
    assert [r.headers["authorization"][-10:] for r in vendors.requests] == ["0123456789"] * 3
    assert ["other" in r.headers["authorization"] for r in vendors.requests] == [False, True, False]
    for provider in providers:
        await provider.close()


@ALL
async def test_closing_twice_does_nothing(name: str, vendors: Counting) -> None:
    provider = opened(model_settings(vendors, name))
    await provider.close()
    assert text_of(await heard(provider))
    await provider.close()
    await provider.close()


async def test_a_stream_that_cannot_be_understood_lets_its_connection_go() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    async with Server(head + b"data: nonsense\n\n", stays=True) as server, asyncio.timeout(30):
        provider = at(server)
        with pytest.raises(ProviderError) as caught:
            async for _ in provider.stream(provider.write(request())):
                pass
        await server.left.wait()
        assert caught.value.kind == "garbled"
        await provider.close()


FIRST_PIECES = {
    "openai": ({"type": "response.output_text.delta", "delta": "One "},),
    "anthropic": (
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "One "}},
    ),
    "openai_chat": (json.loads(chunk("One ")),),
    "perplexity": (json.loads(chunk("One ")),),
    "gemini": ({"candidates": [{"content": {"role": "model", "parts": [{"text": "One "}]}}]},),
}


@ALL
@pytest.mark.parametrize("how", ["cancelled", "left"])
async def test_a_stream_that_nobody_reads_on_lets_its_connection_go(name: str, how: str) -> None:
    said = [f"event: {each.get('type', 'message')}\ndata: {json.dumps(each)}\n\n" for each in FIRST_PIECES[name]]
    head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    async with Server((head + "".join(said)).encode(), stays=True) as server, asyncio.timeout(30):
        provider = at(server, name)
        events = provider.stream(provider.write(request()))
        assert await anext(events) == TextDelta(text="One ")
        assert not server.left.is_set()
        if how == "cancelled":
            waiting = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        else:
            await events.aclose()  # type: ignore[attr-defined]
        await server.left.wait()
        await provider.close()


# --- keys


@pytest.mark.req("SAFE-1")
async def test_whose_account_it_is_at_openai_is_told_to_nobody_else(
    vendors: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-mine")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-mine")
    for name in NAMES:
        await heard(opened(model_settings(vendors, name)))
    told = [{*r.headers.values()} & {"org-mine", "proj-mine"} for r in vendors.requests]
    assert told == [{"org-mine", "proj-mine"}, set(), set(), set(), set()]


@ALL
@pytest.mark.req("SAFE-1")
async def test_a_key_that_was_changed_is_used_by_the_next_request(
    name: str, vendors: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "  sk-first-0123456789\n")
    provider = opened(model_settings(vendors, name, api_key_env="MY_KEY"))
    old = provider.stream(provider.write(request()))
    assert isinstance(await anext(old), TextDelta)
    monkeypatch.setenv("MY_KEY", "sk-second-0123456789")
    assert text_of([event async for event in provider.stream(provider.write(request()))])
    assert [event async for event in old], "what is under way goes on"
    await provider.close()
    sent = [json.dumps(dict(r.headers)) for r in vendors.requests]
    assert ["sk-first-0123456789" in each for each in sent] == [True, False]
    assert ["sk-second-0123456789" in each for each in sent] == [False, True]


@pytest.mark.req("SAFE-1")
@pytest.mark.parametrize("key", ["sk-0123456789\nsk-9876543210", "sk-0123456789é", "sk-0123456789\x7f"])
async def test_what_cannot_be_a_key_is_neither_sent_nor_shown(
    vendors: Counting, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("MY_KEY", key)
    error = await refused(opened(model_settings(vendors, "openai", api_key_env="MY_KEY"), attempts=3))
    assert (error.kind, error.retryable) == ("authentication", False)
    assert "MY_KEY" in error.message
    assert "0123456789" not in f"{error!r} {error.hint}"
    assert not vendors.requests


@pytest.mark.req("SAFE-1")
async def test_no_key_is_sent_to_a_server_of_ones_own_unless_one_is_named(
    vendors: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    await heard(opened(model_settings(vendors, "openai_chat")))
    monkeypatch.setenv("MY_KEY", "sk-mine-0123456789")
    await heard(opened(model_settings(vendors, "openai_chat", api_key_env="MY_KEY")))
    sent = [r.headers["authorization"] for r in vendors.requests]
    assert sent == ["Bearer none", "Bearer sk-mine-0123456789"]


@pytest.mark.req("SAFE-1")
@pytest.mark.parametrize(
    "reply",
    [
        answer(completion(content=f"Your key is {KEY}.")),
        stream(chunk(f"Your key is {KEY}.", "stop"), "[DONE]"),
        stream(chunk(f"Your key is {KEY}.", "stop").replace(KEY, f"\\u0073{KEY[1:]}")),
        stream(chunk(f"Your key is {KEY[:9]}"), chunk(KEY[9:], "stop")),
        answer(f"<p>Your key is {KEY}.</p>", "text/html"),
        answer(f'{{"error": {{"message": "Your key is {KEY}."}}}}', status="400 Bad Request"),
        answer(f'{{"error": {{"message": "Your key is {KEY}."}}}}'),
        stream(f'{{"error": {{"message": "Your key is {KEY}."}}}}'),
        stream(f"Your key is {KEY}."),
    ],
    ids=[
        "whole",
        "stream",
        "escaped",
        "in pieces",
        "page",
        "status",
        "error in a whole",
        "error in a stream",
        "garbage",
    ],
)
async def test_a_key_that_a_server_repeats_is_repeated_to_nobody(reply: bytes) -> None:
    async with Server(reply) as server:
        provider = at(server, api_key_env="OPENAI_API_KEY")
        try:
            told = repr(await heard(provider))
        except ProviderError as error:
            told = f"{error!r} {error.message} {error.hint}"
    assert KEY not in told
    assert "Your key is [key]" in told
