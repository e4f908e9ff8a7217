"""What is built on the vendors' SDKs: LangChain, OpenAI's agents and ``llm``, each told nothing but the address.

Tests import them where they use them: it takes two seconds, and one worker runs these tests.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from openai import AsyncOpenAI
from pydantic import BaseModel, Field, SecretStr

from contextinfinity_testing.vendors import Answer, Call
from tests.doors.v1.upstream import WIRES, Desk, somebody

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage

pytestmark = [pytest.mark.req("API-7"), pytest.mark.xdist_group("v1")]
wires = pytest.mark.parametrize("model", WIRES)
both = pytest.mark.parametrize("maker", ["openai", "anthropic"])

LLM_MODELS = """\
- model_id: endless
  model_name: {model}
  api_base: "{url}"
  supports_tools: true
  supports_schema: true
"""


class Town(BaseModel):
    """A town."""

    name: str = Field(description="What it is called.")
    people: int = Field(description="How many live there.")


def langchain(desk: Desk, maker: str, model: str) -> BaseChatModel:
    """Make LangChain's model of a vendor, as its users do."""
    from langchain_anthropic import ChatAnthropic
    from langchain_openai import ChatOpenAI

    key = SecretStr("not needed")
    if maker == "openai":
        return ChatOpenAI(model=model, base_url=desk.openai_url, api_key=key, max_retries=0)
    return ChatAnthropic(
        model_name=model, base_url=desk.anthropic_url, api_key=key, max_retries=0, timeout=30, stop=None
    )


@wires
@both
def test_langchain_talks_and_streams(desk: Desk, maker: str, model: str) -> None:
    from langchain_core.messages import HumanMessage, SystemMessage

    desk.say("Hello.", "Hello again, and again.")
    chat = langchain(desk, maker, model)
    said: list[BaseMessage] = [SystemMessage("Speak as a pirate."), HumanMessage("Hi")]
    answer = chat.invoke(said)
    assert answer.text == "Hello."
    assert answer.usage_metadata is not None
    assert answer.usage_metadata["output_tokens"] > 0
    pieces = list(chat.stream([*said, answer, HumanMessage("And?")]))
    assert "".join(piece.text for piece in pieces) == "Hello again, and again."
    assert all(text in desk.shown for text in ("Speak as a pirate.", '"Hello."', '"And?"'))


@wires
@both
def test_langchain_binds_tools(desk: Desk, maker: str, model: str) -> None:
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    from langchain_core.tools import tool

    @tool
    def weather(city: str) -> str:
        """Tell the weather of a city."""
        return f"rain in {city}"

    desk.say(Answer(tool_calls=(Call(name="weather", arguments={"city": "Bonn"}),)), "It rains in Bonn.")
    chat = langchain(desk, maker, model).bind_tools([weather])
    said: list[BaseMessage] = [HumanMessage("How is it in Bonn?")]
    asked = chat.invoke(said)
    assert isinstance(asked, AIMessage)
    ((call),) = asked.tool_calls
    assert (call["name"], call["args"]) == ("weather", {"city": "Bonn"})
    given = weather.invoke(call)
    assert isinstance(given, ToolMessage)
    assert chat.invoke([*said, asked, given]).text == "It rains in Bonn."
    assert "rain in Bonn" in desk.shown


@wires
@both
def test_langchain_gets_structured_output(desk: Desk, maker: str, model: str) -> None:
    chat = langchain(desk, maker, model)
    desk.say('{"name": "Bonn", "people": 330000}')
    assert chat.with_structured_output(Town, method="json_schema").invoke("Which town?") == Town(
        name="Bonn", people=330000
    )
    desk.say(Answer(tool_calls=(Call(name="Town", arguments={"name": "Bonn", "people": 330000}),)))
    assert chat.with_structured_output(Town, method="function_calling").invoke("Which?") == Town(
        name="Bonn", people=330000
    )


@both
async def test_langchain_is_asynchronous_too(desk: Desk, maker: str) -> None:
    from langchain_openai import ChatOpenAI

    desk.say("Hello.", "Hello again.")
    chat = langchain(desk, maker, "sonnet")
    assert (await chat.ainvoke("Hi")).text == "Hello."
    assert "".join([piece.text async for piece in chat.astream("Hi there")]) == "Hello again."
    await (chat.root_async_client if isinstance(chat, ChatOpenAI) else chat._async_client).close()  # type: ignore[attr-defined]


@wires
async def test_agents_of_openai_run_their_tools(desk: Desk, model: str) -> None:
    from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled

    @function_tool
    def town_of(person: str) -> str:
        """Tell where a person lives."""
        return f"{person} lives in Bonn"

    set_tracing_disabled(True)
    desk.say(Answer(tool_calls=(Call(name="town_of", arguments={"person": "Ann"}),)), "In Bonn.", "You are welcome.")
    async with AsyncOpenAI(base_url=desk.openai_url, api_key="any", max_retries=0) as client:
        chat = OpenAIChatCompletionsModel(model=model, openai_client=client)
        agent = Agent(name="Guide", instructions="Answer in three words.", model=chat, tools=[town_of])
        who = somebody()
        done = await Runner.run(agent, f"Where does Ann live, asks {who}?")
        assert done.final_output == "In Bonn."
        assert "Ann lives in Bonn" in desk.shown
        assert "Answer in three words." in desk.shown
        streamed = Runner.run_streamed(agent, [*done.to_input_list(), {"role": "user", "content": "Thanks."}])
        kinds = {event.type async for event in streamed.stream_events()}
        assert "raw_response_event" in kinds
        assert streamed.final_output == "You are welcome."
        assert f"asks {who}" in desk.shown


async def test_an_agent_answers_in_a_form(desk: Desk) -> None:
    from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled

    set_tracing_disabled(True)
    desk.say('{"name": "Bonn", "people": 330000}')
    async with AsyncOpenAI(base_url=desk.openai_url, api_key="any", max_retries=0) as client:
        chat = OpenAIChatCompletionsModel(model="sonnet", openai_client=client)
        done = await Runner.run(Agent(name="Guide", model=chat, output_type=Town), f"Which town, {somebody()}?")
    assert done.final_output == Town(name="Bonn", people=330000)


@pytest.fixture
def llm(desk: Desk, tmp_path: Path) -> Callable[..., str]:
    """The command ``llm``, in a folder of its own."""

    def run(*arguments: str, model: str = "gpt") -> str:
        (tmp_path / "extra-openai-models.yaml").write_text(LLM_MODELS.format(model=model, url=desk.openai_url))
        done = subprocess.run(
            [sys.executable, "-m", "llm", *arguments],
            env={"LLM_USER_PATH": str(tmp_path), "PATH": "/usr/bin:/bin", "OPENAI_API_KEY": "any"},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


def test_llm_talks_and_goes_on(desk: Desk, llm: Callable[..., str]) -> None:
    what = f"the code word for {somebody()}"
    assert llm("-m", "endless", "-s", "Be brief.", f"Now {what} is heron.").startswith("You said")
    assert llm("-c", f"What is {what}?", model="sonnet") == "heron"
    assert "Be brief." in desk.shown


def test_llm_gets_what_fits_a_schema(desk: Desk, llm: Callable[..., str]) -> None:
    desk.say('{"name": "Bonn", "people": 3}')
    told = llm("-m", "endless", "--no-stream", "--schema", "name, people int", "Which town?")
    assert Town.model_validate_json(told) == Town(name="Bonn", people=3)
