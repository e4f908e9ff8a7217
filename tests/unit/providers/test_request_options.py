"""Every wish on every wire: what goes over it, and what is said to be left out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextinfinity.domain.message import AssistantItem, Json, MetadataItem, TextBlock, say
from contextinfinity.domain.prompt import Finished, Prompt, ProviderRequest, RequestOptions, ToolSpec
from contextinfinity.domain.turn import Completed, Incomplete
from contextinfinity.providers.catalogue import abilities_of
from contextinfinity.providers.contract import Provider
from contextinfinity.providers.local.gguf import ModelFile
from contextinfinity.providers.local.provider import LocalProvider, LocalRunSettings
from contextinfinity.providers.remote import ProviderFactory
from contextinfinity.providers.request_options import joined
from contextinfinity.providers.scripted import ScriptedProvider, ScriptedReply, ToolCall
from contextinfinity.settings import ModelSettings, OpenAI, Settings, Tools
from contextinfinity_testing.vendors import Answer, Call, FakeVendors, chat_checks, messages_checks, responses_checks
from tests.cases import each

pytestmark = pytest.mark.req("API-7")

TOOL = ToolSpec(name="weather", description="Tells it.", parameters={"type": "object", "properties": {}})
NOTHING: dict[str, Any] = {}
LOCAL = LocalRunSettings(overrides={"tools": True, "reasoning": True})


def remote(provider: str, *, base_url: str | None = None, settings: Settings | None = None) -> Provider:
    told = ModelSettings(provider=provider, base_url=base_url)  # type: ignore[arg-type]
    return ProviderFactory(settings or Settings()).provider(told)


def responses(body: Json) -> None:
    responses_checks.check(body, responses_checks.Issued())


def anything(body: Json) -> None:
    """Accept any request: no other route exists."""


OWN = "http://127.0.0.1:9/v1"
PLACES: dict[str, tuple[Provider, str, Callable[[Json], None]]] = {
    "responses": (remote("openai"), "gpt-4o", responses),
    "responses, reasons": (remote("openai"), "gpt-5.4", responses),
    "chat": (remote("openai_chat"), "gpt-4o", chat_checks.check),
    "chat, reasons": (remote("openai_chat"), "gpt-5", chat_checks.check),
    "own server": (remote("openai_chat", base_url=OWN), "qwen3-8b", chat_checks.check_compatible),
    "perplexity": (remote("perplexity"), "sonar-deep-research", chat_checks.check_perplexity),
    "claude": (remote("anthropic"), "claude-sonnet-4-5", messages_checks.check),
    "new claude": (remote("anthropic"), "claude-opus-5-5", messages_checks.check),
    "no claude": (remote("anthropic", base_url=OWN), "kimi-k3", messages_checks.check),
    "local": (LocalProvider(ModelFile(Path("nowhere.gguf")), LOCAL), "m", chat_checks.check_compatible),
    "scripted": (ScriptedProvider(["hi"]), "echo", anything),
}


def written(place: str, options: Json = None) -> Any:
    """The body of a request with those options, which the vendor has looked at."""
    provider, model_id, check = PLACES[place]
    prompt = Prompt(system=("Be kind.",), messages=(say("user", "hi"),), tools=(TOOL,))
    body = json.loads(provider.write(ProviderRequest(model_id=model_id, prompt=prompt, options=options)).body)
    check(body)
    return body


def added(
    place: str, request_options: RequestOptions, configured: Json = None
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What wishes change in a body, and those that were left out."""
    provider, model_id, _ = PLACES[place]
    options, left_out = provider.options_for(request_options, model_id)
    usual = written(place)
    body = written(place, joined(configured, options))
    if place == "scripted":
        return body.get("options", {}), left_out
    return {key: each for key, each in body.items() if usual.get(key) != each}, left_out


def sent(**body: Any) -> tuple[dict[str, Any], bool]:
    return body, True


LEFT: tuple[dict[str, Any], bool] = (NOTHING, False)
MET: tuple[dict[str, Any], bool] = (NOTHING, True)
"""As it is anyway."""
TAKEN = ("responses", "chat", "own server", "perplexity", "local", "scripted")
"""Where a temperature and the like are taken."""
CHATS = ("chat", "own server", "local", "scripted")


def only(places: tuple[str, ...], **body: Any) -> dict[str, Any]:
    return {**dict.fromkeys(PLACES, LEFT), **dict.fromkeys(places, sent(**body))}


NAMED = {"type": "function", "function": {"name": "weather"}}
ONE = {"type": "any", "disable_parallel_tool_use": True}
FORCED = {"thinking": {"type": "disabled"}}
"""A Claude that thinks by a budget cannot be made to call a tool and think."""

TABLE: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"temperature": 0.5}, only((*TAKEN, "no claude"), temperature=0.5)),
    ({"temperature": 1.5}, {**only(TAKEN, temperature=1.5), "no claude": sent(temperature=1)}),
    ({"temperature": 1}, {**dict.fromkeys(PLACES, MET), **dict.fromkeys((*TAKEN, "no claude"), sent(temperature=1))}),
    ({"top_p": 0.9}, only((*TAKEN, "no claude"), top_p=0.9)),
    ({"top_k": 7}, only(("own server", "perplexity", "no claude", "local", "scripted"), top_k=7)),
    # How long an answer may be is part of a request.
    ({"max_output_tokens": 50}, {**dict.fromkeys(PLACES, MET), "scripted": sent(max_output_tokens=50)}),
    ({"seed": 3}, only((*CHATS, "chat, reasons"), seed=3)),
    ({"presence_penalty": 0.1}, only((*CHATS, "perplexity"), presence_penalty=0.1)),
    ({"frequency_penalty": 0.1}, only((*CHATS, "perplexity"), frequency_penalty=0.1)),
    (
        {"stop": ("END",)},
        {
            **only((*CHATS, "perplexity"), stop=["END"]),
            **dict.fromkeys(("claude", "new claude", "no claude"), sent(stop_sequences=["END"])),
        },
    ),
    (
        {"tool_choice": "required"},
        {
            **dict.fromkeys(PLACES, sent(tool_choice="required")),
            "perplexity": LEFT,
            "claude": sent(tool_choice=ONE, **FORCED),
            "new claude": LEFT,
            "no claude": sent(tool_choice=ONE),
        },
    ),
    (
        {"tool_choice": ":weather"},
        {
            **dict.fromkeys(PLACES, sent(tool_choice=NAMED)),
            **dict.fromkeys(
                ("responses", "responses, reasons"), sent(tool_choice={"type": "function", "name": "weather"})
            ),
            "perplexity": LEFT,
            "claude": sent(tool_choice={**ONE, "type": "tool", "name": "weather"}, **FORCED),
            "new claude": LEFT,
            "no claude": sent(tool_choice={**ONE, "type": "tool", "name": "weather"}),
            "local": ({"tool_choice": "required"}, False),
            "scripted": sent(tool_choice=":weather"),
        },
    ),
    (
        {"tool_choice": "none"},
        {
            **dict.fromkeys(PLACES, sent(tool_choice="none")),
            "perplexity": MET,
            **dict.fromkeys(("claude", "new claude", "no claude"), sent(tool_choice={"type": "none"})),
        },
    ),
    ({"parallel_tools": False}, {**dict.fromkeys(PLACES, MET), "scripted": sent(parallel_tools=False)}),
    (
        {"parallel_tools": True},
        {**dict.fromkeys(PLACES, LEFT), "perplexity": MET, "scripted": sent(parallel_tools=True)},
    ),
    (
        {"effort": "high"},
        {
            **dict.fromkeys(PLACES, LEFT),
            "responses, reasons": sent(reasoning={"effort": "high"}),
            **dict.fromkeys(("chat, reasons", "perplexity"), sent(reasoning_effort="high")),
            "claude": sent(thinking={"type": "enabled", "budget_tokens": 16_000}, max_tokens=20_000),
            "new claude": sent(thinking={"type": "adaptive"}, output_config={"effort": "high"}),
            "local": sent(chat_template_kwargs={"reasoning_effort": "high"}),
            "scripted": sent(effort="high"),
        },
    ),
    (
        {"effort": "none"},
        {
            **dict.fromkeys(PLACES, MET),
            "responses, reasons": sent(reasoning={"effort": "none"}),
            **dict.fromkeys(("chat, reasons", "perplexity"), sent(reasoning_effort="minimal")),
            "claude": sent(thinking={"type": "disabled"}),
            "new claude": sent(thinking={"type": "adaptive"}, output_config={"effort": "low"}),
            "local": sent(chat_template_kwargs={"enable_thinking": False}),
            "scripted": sent(effort="none"),
        },
    ),
    (
        {"reasoning_summary": "auto"},
        {
            **dict.fromkeys(PLACES, LEFT),
            "responses, reasons": sent(reasoning={"summary": "auto"}),
            **dict.fromkeys(("claude", "new claude"), MET),
            "scripted": sent(reasoning_summary="auto"),
        },
    ),
    (
        {"thinking_tokens": 3000},
        {
            **dict.fromkeys(PLACES, LEFT),
            "responses, reasons": sent(reasoning={"effort": "low"}),
            **dict.fromkeys(("chat, reasons", "perplexity"), sent(reasoning_effort="low")),
            "claude": sent(thinking={"type": "enabled", "budget_tokens": 3000}),
            "new claude": sent(thinking={"type": "adaptive"}, output_config={"effort": "low"}),
            "local": sent(thinking_budget_tokens=3000),
            "scripted": sent(thinking_tokens=3000),
        },
    ),
]


@each(("wish", "expected", "place"), [(*row, place) for row in TABLE for place in PLACES])
def test_a_wish_is_said_in_the_words_of_the_wire_or_named_as_left_out(
    wish: dict[str, Any], expected: dict[str, tuple[dict[str, Any], bool]], place: str
) -> None:
    body, whole = expected[place]
    assert added(place, RequestOptions(**wish)) == (body, () if whole else tuple(wish))


def test_every_wish_is_in_the_table() -> None:
    assert {name for wish, _ in TABLE for name in wish} == set(RequestOptions.__struct_fields__)


@pytest.mark.parametrize("place", PLACES)
@settings(deadline=None)
@given(
    request_options=st.builds(
        RequestOptions,
        temperature=st.none() | st.floats(0, 2),
        top_p=st.none() | st.floats(0, 1),
        top_k=st.none() | st.integers(1, 99),
        stop=st.lists(st.sampled_from(["a", "\n", " ", "END", "b", "c"]), unique=True).map(tuple),
        tool_choice=st.sampled_from([None, "auto", "none", "required", ":weather"]),
        parallel_tools=st.none() | st.booleans(),
        effort=st.sampled_from([None, "none", "minimal", "low", "medium", "high", "xhigh", "max", "huge"]),
        thinking_tokens=st.none() | st.sampled_from([0, 1, 1024, 5000, 100_000]),
    )
)
def test_whatever_is_wished_for_together_no_vendor_refuses_it(place: str, request_options: RequestOptions) -> None:
    added(place, request_options)


@pytest.mark.parametrize(
    ("place", "stops", "expected"),
    [
        ("claude", ("\n\n", "END"), {"stop_sequences": ["END"]}),
        ("claude", ("\n\n",), NOTHING),
        ("chat", ("a", "b", "c", "d", "e"), {"stop": ["a", "b", "c", "d"]}),
    ],
)
def test_stop_texts_that_a_vendor_would_refuse_are_not_sent_and_named(
    place: str, stops: tuple[str, ...], expected: dict[str, Any]
) -> None:
    assert added(place, RequestOptions(stop=stops)) == (expected, ("stop",))
    five = ("a", "b", "c", "d", "e")
    assert added("own server", RequestOptions(stop=five)) == ({"stop": list(five)}, ())


def test_one_call_at_a_time_can_be_wished_for_where_several_are_allowed_but_not_the_reverse() -> None:
    prompt = Prompt(system=(), messages=(say("user", "hi"),), tools=(TOOL,))
    allowed = Settings(tools=Tools(allow_parallel=True), openai=OpenAI(parallel_tool_calls=True))
    for name, model_id in (("openai", "gpt-4o"), ("openai_chat", "gpt-4o"), ("anthropic", "claude-opus-5")):
        provider = remote(name, settings=allowed)
        assert provider.options_for(RequestOptions(parallel_tools=True), model_id) == ({}, ())
        options, left_out = provider.options_for(RequestOptions(parallel_tools=False), model_id)
        body = json.loads(provider.write(ProviderRequest(model_id=model_id, prompt=prompt, options=options)).body)
        one = {"type": "auto", "disable_parallel_tool_use": True}
        assert (body["tool_choice"] == one) if name == "anthropic" else (body["parallel_tool_calls"] is False)
        assert left_out == ()
        bare = Prompt(system=(), messages=(say("user", "hi"),))
        none = json.loads(provider.write(ProviderRequest(model_id=model_id, prompt=bare, options=options)).body)
        assert not none.keys() & {"tool_choice", "parallel_tool_calls"}


def test_a_model_that_is_told_not_to_think_takes_a_temperature_again() -> None:
    request_options = RequestOptions(temperature=0.2, effort="none")
    assert added("responses, reasons", request_options) == ({"temperature": 0.2, "reasoning": {"effort": "none"}}, ())
    assert added("chat, reasons", request_options) == ({"reasoning_effort": "minimal"}, ("temperature",))


def test_a_tool_that_has_to_be_called_goes_before_thinking() -> None:
    request_options = RequestOptions(tool_choice="required", effort="high")
    assert added("claude", request_options) == ({"tool_choice": ONE, **FORCED}, ("effort",))
    configured = {"thinking": {"type": "enabled", "budget_tokens": 2000}}
    assert added("claude", RequestOptions(tool_choice="required"), configured) == ({"tool_choice": ONE, **FORCED}, ())


@pytest.mark.parametrize(
    ("model", "effort", "told"),
    [
        ("o3", "max", "high"),
        ("gpt-5-pro", "low", "high"),
        ("gpt-5.1", "minimal", "low"),
        ("gpt-5.2-2026-01-01", "max", "xhigh"),
        ("gpt-5.6-terra", "max", "max"),
        ("gpt-6.1-sol", "none", "none"),
    ],
)
def test_an_effort_that_a_model_does_not_know_becomes_the_nearest(model: str, effort: str, told: str) -> None:
    assert remote("openai").options_for(RequestOptions(effort=effort), model) == ({"reasoning": {"effort": told}}, ())


@pytest.mark.parametrize(
    ("model", "effort", "expected"),
    [
        ("claude-opus-4-5", "xhigh", {"effort": "high", "type": "enabled", "budget_tokens": 32_000}),
        ("claude-sonnet-4-6", "xhigh", {"effort": "high", "type": "adaptive"}),
        ("claude-opus-4-8", "xhigh", {"effort": "xhigh", "type": "adaptive"}),
        ("claude-opus-4-8", "none", {"type": "disabled"}),
        ("claude-sonnet-5-5", "none", {"type": "between_tools"}),
        ("claude-fable-5", "none", {"effort": "low", "type": "adaptive"}),
        ("claude-of-tomorrow-9", "minimal", {"effort": "low", "type": "adaptive"}),
    ],
)
def test_each_claude_is_told_how_much_to_think_in_its_own_way(
    model: str, effort: str, expected: dict[str, Any]
) -> None:
    options, left_out = remote("anthropic").options_for(RequestOptions(effort=effort), model)
    assert ({**options.get("output_config", {}), **options["thinking"]}, left_out) == (expected, ())


@pytest.mark.parametrize(
    ("model", "samples", "forced"),
    [
        ("gpt-4o", True, True),
        ("gpt-5-chat-latest", True, True),
        ("gpt-5-mini", False, True),
        ("o4-mini", False, True),
        ("anthropic/claude-sonnet-4.5", True, True),
        ("anthropic/claude-opus-4.7", False, True),
        ("anthropic/claude-opus-5.5", False, False),
        ("llama-3.3-70b", True, True),
    ],
)
def test_what_a_model_takes_is_known_wherever_it_is_asked(model: str, samples: bool, forced: bool) -> None:
    guidance = abilities_of("openai_chat", model).guidance
    assert (guidance.sampling, guidance.forced_tools) == (samples, forced)


def test_a_wish_stands_over_what_is_configured_key_by_key() -> None:
    configured = {"temperature": 0.9, "reasoning": {"summary": "auto", "effort": "high"}, "stop": ["X"], "user": "u"}
    convert_options = {"temperature": 0.1, "reasoning": {"effort": "low"}, "stop": ["Y"]}
    assert joined(configured, convert_options) == {
        "temperature": 0.1,
        "reasoning": {"summary": "auto", "effort": "low"},
        "stop": ["Y"],
        "user": "u",
    }
    assert configured["temperature"] == 0.9, "what is configured stays as it is"
    named = {"tool_choice": {"type": "tool", "name": "a"}}
    assert joined(named, {"tool_choice": {"type": "any"}}) == {"tool_choice": {"type": "any"}}
    assert joined(named, {"tool_choice": {"type": "tool", "name": "b"}})["tool_choice"]["name"] == "b"
    both = joined(named, {"tool_choice": {"disable_parallel_tool_use": True}})
    assert both == {"tool_choice": {"type": "tool", "name": "a", "disable_parallel_tool_use": True}}
    assert joined(None, {}) == {}


async def heard(provider: Provider, model_id: str, request_options: RequestOptions) -> Finished:
    """Ask with these options, and return the last event."""
    options, _ = provider.options_for(request_options, model_id)
    prompt = Prompt(system=(), messages=(say("user", "hi"),), tools=(TOOL,))
    asked = ProviderRequest(model_id=model_id, prompt=prompt, options=options)
    events = [event async for event in provider.stream(provider.write(asked))]
    assert isinstance(events[-1], Finished)
    return events[-1]


def told(finished: Finished) -> tuple[str, dict[str, Any]]:
    """The words of an answer, and why it ended."""
    blocks = [block for item in finished.items if isinstance(item, AssistantItem) for block in item.blocks]
    notes = {item.key: item.value for item in finished.items if isinstance(item, MetadataItem)}
    return "".join(block.text for block in blocks if isinstance(block, TextBlock)), notes


async def test_a_script_stops_where_it_is_wished_to() -> None:
    reply = ScriptedReply(text="one two END three", tools=(ToolCall(name="weather"),))
    stopped = await heard(ScriptedProvider([reply]), "echo", RequestOptions(stop=("three", "END")))
    assert told(stopped) == ("one two ", {"stop_reason": "stop_sequence", "stop_sequence": "END"})
    assert stopped.outcome == Completed()
    short = await heard(ScriptedProvider([reply]), "echo", RequestOptions(stop=("END",), max_output_tokens=1))
    assert (told(short)[0], short.outcome) == ("one ", Incomplete(reason="length"))
    whole = await heard(ScriptedProvider(["all of it"]), "echo", RequestOptions(stop=("no such text",)))
    assert told(whole) == ("all of it", {})


@pytest.mark.parametrize(
    ("name", "model_id", "reason"),
    [("anthropic", "claude-sonnet-4-5", "stop_sequence"), ("openai_chat", "gpt-4o", "stop")],
)
async def test_the_vendor_hears_a_wish_and_stops(
    name: str, model_id: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(variable, "any")
    async with FakeVendors() as vendors:
        url = vendors.anthropic_url if name == "anthropic" else vendors.openai_url
        provider = remote(name, base_url=url)
        vendors.say(Answer(text="one two END three", tool_calls=(Call(name="weather"),)))
        said, notes = told(await heard(provider, model_id, RequestOptions(stop=("END",), temperature=0.3)))
        await provider.close()
    assert (said, notes["stop_reason"]) == ("one two ", reason)
    (request,) = vendors.requests
    assert (request.body.get("stop") or request.body.get("stop_sequences")) == ["END"]
    assert ("temperature" in request.body) is (name == "openai_chat")
