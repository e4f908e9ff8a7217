"""An agent of LangGraph: two requests of the user in one thread."""

import sys

from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import MemorySaver
from langgraph.prebuilt import create_react_agent

base, root, model, *said = sys.argv[1:]


@tool
def sh(command: str) -> str:
    """Run a command."""
    return command.removeprefix("echo ")


if model.startswith("claude"):
    chat = ChatAnthropic(model_name=model, base_url=root, api_key="x")
else:
    chat = ChatOpenAI(model=model, base_url=base, api_key="x")
agent = create_react_agent(chat, [sh], prompt="Be brief.", checkpointer=MemorySaver())
for text in said:
    out = agent.invoke({"messages": [("user", text)]}, {"configurable": {"thread_id": "1"}})
    print(out["messages"][-1].text)
