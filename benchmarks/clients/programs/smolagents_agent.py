"""A tool calling agent of smolagents: two tasks, the second one without a reset."""

import sys

from smolagents import OpenAIServerModel, ToolCallingAgent, tool

base, _, model, *said = sys.argv[1:]


@tool
def sh(command: str) -> str:
    """Run a command.

    Args:
        command: the command
    """
    return command.removeprefix("echo ")


chat = OpenAIServerModel(model_id=model, api_base=base, api_key="x")
agent = ToolCallingAgent(tools=[sh], model=chat, max_steps=5, verbosity_level=0)
for number, text in enumerate(said):
    print(agent.run(text, reset=not number))
