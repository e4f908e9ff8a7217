"""An agent of openai-agents whose session is a conversation of the server."""

import asyncio
import sys

from agents import (
    Agent,
    OpenAIConversationsSession,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

base, _, model, *said = sys.argv[1:]
set_tracing_disabled(True)


@function_tool
def sh(command: str) -> str:
    """Run a command."""
    return command.removeprefix("echo ")


async def main() -> None:
    """Run the agent."""
    client = AsyncOpenAI(base_url=base, api_key="x")
    session = OpenAIConversationsSession(openai_client=client)
    agent = Agent(name="a", instructions="Be brief.", tools=[sh], model=OpenAIResponsesModel(model, client))
    for text in said:
        print((await Runner.run(agent, text, session=session)).final_output)


asyncio.run(main())
