"""An agent of pydantic-ai: two runs, the second one with the messages of the first."""

import sys

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

base, _, model, *said = sys.argv[1:]
agent = Agent(OpenAIChatModel(model, provider=OpenAIProvider(base_url=base, api_key="x")), system_prompt="Be brief.")


@agent.tool_plain
def sh(command: str) -> str:
    """Run a command."""
    return command.removeprefix("echo ")


messages = None
for text in said:
    run = agent.run_sync(text, message_history=messages)
    messages = run.all_messages()
    print(run.output)
