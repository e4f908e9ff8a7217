"""Conversations of OpenAI's Python SDK, and of its agents, with nothing changed but the address."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from contextinfinity_testing.vendors import Answer, Call
from tests.doors.v1.upstream import WIRES, Desk, somebody

pytestmark = [pytest.mark.req("API-7"), pytest.mark.xdist_group("v1")]
wires = pytest.mark.parametrize("model", WIRES)


@pytest.fixture
def client(desk: Desk) -> Iterator[OpenAI]:
    with OpenAI(base_url=desk.openai_url, api_key="not needed", max_retries=0) as made:
        yield made


def told(client: OpenAI, conversation_id: str, **how: Any) -> list[tuple[str, str]]:
    """Read the messages of a conversation, the oldest first."""
    items = client.conversations.items.list(conversation_id, **{"order": "asc", **how})
    return [(item.role, item.content[0].text) for item in items if item.type == "message"]  # type: ignore[union-attr]


@wires
def test_a_conversation_goes_on_from_request_to_request(desk: Desk, client: OpenAI, model: str) -> None:
    desk.say("Noted.", "It is gull.")
    conversation = client.conversations.create(metadata={"topic": "birds"})
    assert client.conversations.retrieve(conversation.id).metadata == {"topic": "birds"}
    first = client.responses.create(model=model, input="The word is gull.", conversation=conversation.id)
    assert first.conversation is not None
    assert first.conversation.id == conversation.id
    second = client.responses.create(model=model, input="Which is it?", conversation={"id": conversation.id})
    assert second.output_text == "It is gull."
    assert "The word is gull." in desk.shown
    said = [
        ("user", "The word is gull."),
        ("assistant", "Noted."),
        ("user", "Which is it?"),
        ("assistant", "It is gull."),
    ]
    assert told(client, conversation.id) == said
    assert told(client, conversation.id, limit=1) == said
    assert told(client, conversation.id, limit=3, order="desc") == said[::-1]


@wires
def test_items_are_added_read_and_deleted(desk: Desk, client: OpenAI, model: str) -> None:
    said: Any = [
        {"role": "developer", "content": "Speak as a pirate."},
        {"role": "user", "content": "My name is Ann."},
        {"role": "assistant", "content": "Hello Ann."},
        {"role": "user", "content": "I live in Bonn."},
    ]
    conversation = client.conversations.create(items=said)
    added = client.conversations.items.create(conversation.id, items=[{"role": "assistant", "content": "Nice."}])
    assert [item.type for item in added.data] == ["message"]
    assert told(client, conversation.id) == [
        (one["role"], one["content"]) for one in [*said, {"role": "assistant", "content": "Nice."}]
    ]
    items = list(client.conversations.items.list(conversation.id, order="asc"))
    assert client.conversations.items.retrieve(items[1].id, conversation_id=conversation.id) == items[1]  # type: ignore[arg-type]
    client.conversations.items.delete(items[2].id, conversation_id=conversation.id)  # type: ignore[arg-type]
    desk.say("Ann of Bonn.")
    client.responses.create(model=model, input="Who am I?", conversation=conversation.id)
    assert "Hello Ann." not in desk.shown
    assert all(text in desk.shown for text in ("Speak as a pirate.", "My name is Ann.", "I live in Bonn.", "Nice."))
    assert ("assistant", "Hello Ann.") not in told(client, conversation.id)


def test_metadata_are_replaced_and_a_deleted_conversation_is_gone(desk: Desk, client: OpenAI) -> None:
    desk.say("One.")
    conversation = client.conversations.create(metadata={"a": "1"})
    made = client.responses.create(model="gpt", input="Hi", conversation=conversation.id)
    assert client.conversations.update(conversation.id, metadata={"b": "2"}).metadata == {"b": "2"}
    client.conversations.delete(conversation.id)
    for attempt in (
        lambda: client.conversations.retrieve(conversation.id),
        lambda: client.conversations.items.list(conversation.id),
        lambda: client.responses.create(model="gpt", input="Hi", conversation=conversation.id),
        lambda: client.responses.retrieve(made.id),
        lambda: client.responses.create(model="gpt", input="Hi", previous_response_id=made.id),
    ):
        with pytest.raises(openai.NotFoundError):
            attempt()


def test_the_end_user_of_a_conversation_is_in_its_metadata(desk: Desk, client: OpenAI) -> None:
    desk.say("One.")
    user = somebody()
    conversation = client.conversations.create(metadata={"user_id": user})
    client.responses.create(model="gpt", input="Hi", conversation=conversation.id, user=user)
    with pytest.raises(openai.NotFoundError):
        client.conversations.retrieve(conversation.id)
    assert client.conversations.retrieve(conversation.id, extra_query={"user_id": user}).id == conversation.id


@wires
async def test_an_agent_keeps_its_session_in_a_conversation(desk: Desk, model: str) -> None:
    from agents import (  # here, because it takes long and one worker needs it
        Agent,
        OpenAIConversationsSession,
        OpenAIResponsesModel,
        Runner,
        function_tool,
        set_tracing_disabled,
    )

    @function_tool
    def weather(city: str) -> str:
        """Tell the weather."""
        return f"rain in {city}"

    set_tracing_disabled(True)
    call = Answer(tool_calls=(Call(name="weather", arguments={"city": "Bonn"}),))
    desk.say(call, "It rains in Bonn.", "You asked about Bonn.")
    async with AsyncOpenAI(base_url=desk.openai_url, api_key="not needed", max_retries=0) as client:
        agent = Agent(name="a", tools=[weather], model=OpenAIResponsesModel(model, client))
        session = OpenAIConversationsSession(openai_client=client)
        first = await Runner.run(agent, "How is it in Bonn?", session=session)
        assert first.final_output == "It rains in Bonn."
        second = await Runner.run(agent, "What did I ask about?", session=session)
        assert second.final_output == "You asked about Bonn."
        assert "rain in Bonn" in desk.shown
        kinds = [item.get("type") for item in await session.get_items()]
        assert kinds == ["message", "function_call", "function_call_output", "message", "message", "message"]
        popped: Any = await session.pop_item()
        assert popped["content"][0]["text"] == "You asked about Bonn."
        assert len(await session.get_items()) == 5
        await session.clear_session()
