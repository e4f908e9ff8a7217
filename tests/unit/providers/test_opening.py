"""From [models.NAME] to a provider: where it is, how it is asked, and what the settings say of it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, get_args

import pytest

from contextinfinity.domain.message import Message, TextBlock, say
from contextinfinity.domain.prompt import SENT, Abilities, Prompt, ProviderRequest, ToolSpec
from contextinfinity.domain.sent_form import CHAT
from contextinfinity.errors import ProviderError
from contextinfinity.providers.contract import Provider
from contextinfinity.providers.remote import ProviderFactory, address, overrides, wire
from contextinfinity.settings import ModelSettings, Settings
from contextinfinity.settings.sections import Anthropic, OpenAI, Tools
from contextinfinity.vendors import VENDORS, ProviderName

NAMES = sorted(VENDORS)
ALL = pytest.mark.parametrize("name", NAMES)
LOOK = ToolSpec(name="look", description="Look.", parameters={"type": "object", "properties": {}})


def model(provider: str, **more: Any) -> ModelSettings:
    return ModelSettings(provider=provider, model_id="some-model", **more)  # type: ignore[arg-type]


def body(said: ModelSettings, settings: Settings | None = None, **more: Any) -> dict[str, Any]:
    """What a request with a tool looks like on the wire."""
    prompt = Prompt(system=(), messages=(say("user", "Hello."),), tools=(LOOK,))
    request = ProviderRequest(model_id="some-model", prompt=prompt, **more)
    return wire(said, settings or Settings()).write(request, Abilities())


def opened(said: ModelSettings) -> Provider:
    return ProviderFactory(Settings()).provider(said)


# --- where it is


@pytest.mark.req("PROVIDER-1")
@pytest.mark.parametrize(
    ("name", "url", "key"),
    [
        ("openai", "https://api.openai.com/v1", "OPENAI_API_KEY"),
        ("anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY"),
        ("gemini", "https://generativelanguage.googleapis.com/v1beta", "GEMINI_API_KEY"),
        ("perplexity", "https://api.perplexity.ai", "PERPLEXITY_API_KEY"),
        ("openai_chat", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    ],
)
def test_a_vendor_is_known_by_its_name(name: str, url: str, key: str) -> None:
    found = address(model(name))
    assert (VENDORS[name].base_url, found.base_url, found.key_env, found.vendor) == (url, None, key, name)
    assert found.seconds == 600


def test_every_vendor_can_be_named_in_the_settings() -> None:
    assert {*VENDORS, "local", "scripted"} == {*get_args(ProviderName)}
    assert all(name == vendor.name for name, vendor in VENDORS.items())


@ALL
def test_what_the_settings_say_goes_before(name: str) -> None:
    found = address(model(name, base_url="https://proxy.example/v1", api_key_env="MY_KEY", timeout_seconds=5))
    assert (found.base_url, found.key_env, found.seconds) == ("https://proxy.example/v1", "MY_KEY", 5)


@pytest.mark.req("SAFE-1")
@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("http://localhost:11434/v1", None),
        ("https://example.org/api.openai.com/v1", None),
        ("https://api.openai.com.example.org/v1", None),
        ("http://api.openai.com/v1", None),
        ("https://api.openai.com/v1", "OPENAI_API_KEY"),
        ("https://eu.api.openai.com", "OPENAI_API_KEY"),
    ],
)
def test_the_key_of_openai_goes_to_openai_alone_unless_it_is_named(url: str, key: str | None) -> None:
    assert address(model("openai_chat", base_url=url)).key_env == key
    assert address(model("openai_chat", base_url=url, api_key_env="OPENAI_API_KEY")).key_env == "OPENAI_API_KEY"


@ALL
def test_a_vendors_own_key_is_needed_behind_a_proxy_too(name: str) -> None:
    found = address(model(name, base_url="https://proxy.example/v1"))
    assert (found.key_env is None) == (name == "openai_chat")


# --- how it is asked


@pytest.mark.req("PROVIDER-1")
def test_each_provider_is_asked_in_its_own_form() -> None:
    assert {name: wire(model(name), Settings()).path("some-model") for name in NAMES} == {
        "openai": "/responses",
        "anthropic": "/v1/messages",
        "gemini": "/models/some-model:streamGenerateContent?alt=sse",
        "openai_chat": "/chat/completions",
        "perplexity": "/chat/completions",
    }


def one_at_a_time(written: dict[str, Any]) -> bool:
    if "tool_choice" in written:
        return written["tool_choice"].get("disable_parallel_tool_use") is True
    return written.get("parallel_tool_calls") is False


@pytest.mark.parametrize("name", ["openai", "anthropic", "openai_chat"])
def test_tools_are_called_one_at_a_time_unless_the_settings_say_otherwise(name: str) -> None:
    assert one_at_a_time(body(model(name)))
    assert not one_at_a_time(body(model(name), Settings(tools=Tools(allow_parallel=True))))
    own = Settings(openai=OpenAI(parallel_tool_calls=True))
    assert one_at_a_time(body(model(name), own)) == (name == "anthropic")
    own = Settings(anthropic=Anthropic(disable_parallel_tool_use=False))
    assert one_at_a_time(body(model(name), own)) == (name != "anthropic")


@ALL
@pytest.mark.req("PROVIDER-1")
def test_the_providers_own_tools_are_asked_for_as_they_are_written(name: str) -> None:
    search = {"type": "web_search", "max_uses": 3}
    assert search in body(model(name, provider_tools=(search,)))["tools"]
    assert search not in body(model(name)).get("tools", [])


def test_openai_is_asked_as_the_settings_say() -> None:
    written = body(model("openai"))
    assert (written["truncation"], written["store"]) == ("disabled", False)
    written = body(model("openai"), Settings(openai=OpenAI(truncation="auto", store=True)))
    assert (written["truncation"], written["store"]) == ("auto", True)


@pytest.mark.req("PROVIDER-4")
def test_chat_completions_of_openai_are_not_stored_where_the_operator_forbids_it() -> None:
    """OpenAI stores them by default for some accounts; other servers may not know the field."""
    forbidden, own_server = Settings(openai=OpenAI(client_store=False)), "http://localhost:11434/v1"
    sent = ProviderRequest(
        model_id="some-model",
        prompt=Prompt(system=(), messages=(say("user", "Hello."),), sent={"form": CHAT}),
        options={SENT: {"params": {"store": True}}},
    )
    assert wire(model("openai_chat"), Settings()).write(sent, Abilities())["store"] is True
    assert wire(model("openai_chat"), forbidden).write(sent, Abilities())["store"] is False
    assert body(model("openai_chat"), forbidden)["store"] is False
    assert "store" not in body(model("openai_chat"))
    assert "store" not in body(model("openai_chat", base_url=own_server), forbidden)


def test_state_that_openai_keeps_is_named_only_where_that_is_allowed() -> None:
    options = {"previous_response_id": "resp_1"}
    allowed = Settings(openai=OpenAI(provider_conversations=True))
    assert body(model("openai"), allowed, options=options)["previous_response_id"] == "resp_1"
    with pytest.raises(ProviderError, match="previous_response_id"):
        body(model("openai"), options=options)


@pytest.mark.parametrize(
    ("said", "name", "usage"),
    [
        (model("openai_chat"), "max_completion_tokens", True),
        (model("openai_chat", base_url="https://api.openai.com/v1"), "max_completion_tokens", True),
        (model("openai_chat", base_url="http://localhost:11434/v1"), "max_tokens", True),
        (model("perplexity"), "max_tokens", False),
    ],
    ids=["openai", "openai named", "own", "perplexity"],
)
def test_chat_completions_are_asked_in_the_words_of_the_server(said: ModelSettings, name: str, usage: bool) -> None:
    written = body(said)
    assert {"max_tokens", "max_completion_tokens"} & written.keys() == {name}
    assert ("stream_options" in written) == usage


# --- what it can do


@pytest.mark.req("PROVIDER-1")
def test_the_settings_change_what_they_name_and_nothing_else() -> None:
    assert overrides(model("openai")) == {}
    said: dict[str, Any] = {"context_limit": 9000, "max_output_tokens": 100, "tools": False, "images": True}
    said |= {"reasoning": False, "one_system": True, "min_cache_tokens": 1}
    said |= {"price_input": 1.0, "price_output": 0.0, "price_cached": 0.5, "price_cache_write": 2.0}
    assert overrides(model("openai", **said)) == said
    able = opened(model("openai", **said)).abilities("some-model")
    assert (able.context_limit, able.max_output_tokens, able.min_cache_tokens) == (9000, 100, 1)
    assert (able.tools, able.images, able.reasoning, able.one_system) == (False, True, False, True)
    assert able.prices is not None
    assert (able.prices.input, able.prices.output, able.prices.cached, able.prices.cache_write) == (1.0, 0.0, 0.5, 2.0)


@pytest.mark.req("PROVIDER-1")
def test_a_provider_knows_its_models_and_believes_the_settings_first() -> None:
    known = opened(ModelSettings(provider="anthropic", model_id="claude-sonnet-4-5"))
    told = opened(ModelSettings(provider="anthropic", model_id="claude-sonnet-4-5", context_limit=9000, images=False))
    assert known.name == "anthropic"
    assert known.context_limit("claude-sonnet-4-5") >= 200_000
    assert known.abilities("claude-sonnet-4-5").images
    assert told.context_limit("claude-sonnet-4-5") == 9000
    assert not told.abilities("claude-sonnet-4-5").images
    assert told.abilities("claude-sonnet-4-5").prices == known.abilities("claude-sonnet-4-5").prices


@pytest.mark.req("PROVIDER-1")
def test_a_prompt_is_counted_before_it_is_sent() -> None:
    provider = opened(ModelSettings(provider="openai", model_id="gpt-5.5"))
    short, long = (
        ProviderRequest(model_id="gpt-5.5", prompt=Prompt(system=(), messages=(message,)))
        for message in (say("user", "Hello."), Message(role="user", blocks=(TextBlock(text="word " * 1000),)))
    )
    assert 1 <= provider.estimate_prompt_tokens(short) < 20
    assert 1000 <= provider.estimate_prompt_tokens(long) < 1030


def test_opening_providers_loads_no_http_client() -> None:
    code = (
        "import sys\n"
        "from contextinfinity.providers.remote import ProviderFactory\n"
        "from contextinfinity.vendors import VENDORS\n"
        "from contextinfinity.settings import ModelSettings, Settings\n"
        "factory = ProviderFactory(Settings())\n"
        "[factory.provider(ModelSettings(provider=name, model_id='m', context_limit=9000)) for name in VENDORS]\n"
        "sys.exit(str({'openai', 'anthropic', 'httpx2'} & sys.modules.keys() or ''))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stderr.strip() == ""
