"""A function agent of llama-index: two runs with one memory."""

import asyncio
import sys

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike

base, _, model, *said = sys.argv[1:]


def sh(command: str) -> str:
    """Run a command."""
    return command.removeprefix("echo ")


async def main() -> None:
    """Run the agent."""
    chat = {"is_chat_model": True, "is_function_calling_model": True, "context_window": 100_000}
    llm = OpenAILike(model=model, api_base=base, api_key="x", **chat)
    agent = FunctionAgent(tools=[FunctionTool.from_defaults(sh)], llm=llm, system_prompt="Be brief.")
    memory = ChatMemoryBuffer.from_defaults(token_limit=50_000)
    for text in said:
        print(await agent.run(text, memory=memory))


asyncio.run(main())
