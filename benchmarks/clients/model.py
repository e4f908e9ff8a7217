"""The model behind the clients: it calls the client's shell twice for each request of the user, then answers."""

from __future__ import annotations

import json
import re
from typing import Any

from contextinfinity_testing.vendors import Answer, Call

ROUNDS = 2
SHELLS = {
    "Bash": "command",
    "bash": "command",
    "run_shell_command": "command",
    "run_commands": "commands",
    "exec_command": "cmd",
    "sh": "command",
}
"""The shells of the clients, with the name of the argument that takes the command."""
TOWN = {"name": "Bonn", "people": 330_000}
SUMMARY = """<summary>
1. The user asked for herons to be echoed, several of them, one after the other.
2. They were echoed with the shell, and all commands succeeded.
3. Nothing is left to do but to wait for the next request of the user.
</summary>"""


def answer(body: Any) -> Answer:
    """Answer one request."""
    tools = [tool.get("name") or tool.get("function", {}).get("name") for tool in body.get("tools") or []]
    text = json.dumps(body)
    last = json.dumps((body.get("messages") or body.get("input") or [""])[-1])
    if "Town" in tools:
        return Answer(tool_calls=(Call(name="Town", arguments=TOWN),))
    if "Which town" in text:
        written = json.dumps(TOWN)
        return Answer(text=f"```json\n{written}\n```" if "markdown" in text else written)
    if "create a detailed summary" in last or (not tools and "snapshot" in text):
        return Answer(text=SUMMARY)
    return _aside(text) if not tools else _step(body, tools)


def _aside(text: str) -> Answer:
    """Answer a request without tools: an edit of aider, a commit message, a title."""
    if "SEARCH/REPLACE" in text:
        value = int(re.findall(r"x = (\d+)", text)[-1])
        blocks = f"<<<<<<< SEARCH\nx = {value}\n=======\nx = {value + 1}\n>>>>>>> REPLACE"
        return Answer(text=f"I raise x.\n\na.py\n```python\n{blocks}\n```\n")
    if "commit message" in text:
        return Answer(text="feat: raise x")
    return Answer(text='{"title": "Echoing herons", "isNewTopic": true}')


def _step(body: Any, tools: list[str]) -> Answer:
    done = _results(body)
    shell = next((name for name in SHELLS if name in tools), None)
    thinks = (body.get("thinking") or {}).get("type") not in (None, "disabled")
    if shell is None or done >= ROUNDS:
        if "final_answer" in tools:
            return Answer(tool_calls=(Call(name="final_answer", arguments={"answer": "The herons were echoed."}),))
        return Answer(text=f"The herons were echoed in {done} rounds.", reasoning="That was all." if thinks else None)
    command = f"echo heron{done}"
    arguments: dict[str, Any] = {SHELLS[shell]: [command] if SHELLS[shell] == "commands" else command}
    if shell == "run_shell_command":
        arguments["is_background"] = False
    if shell.lower() == "bash":
        arguments["description"] = "Echo a heron"
    thought = f"I echo heron {done}." if thinks else None
    return Answer(text=f"Round {done}.", reasoning=thought, tool_calls=(Call(name=shell, arguments=arguments),))


def _results(body: Any) -> int:
    """Count the tool results since the last request of the user; some clients write them as text."""
    count = 0
    for message in reversed(body.get("messages") or body.get("input") or []):
        text = json.dumps(message)
        if message.get("role") == "tool" or message.get("type") == "function_call_output":
            count += 1
        elif '"tool_result"' in text or ("Observation:" in text and message.get("role") == "user"):
            if "New task:" in text:
                break
            count += 1
        elif message.get("role") == "user" and not _is_reminder(message):
            break
    return count


def _is_reminder(message: Any) -> bool:
    blocks = message["content"] if isinstance(message["content"], list) else [{"text": message["content"]}]
    return all("<system-reminder>" in str(block.get("text")) for block in blocks)
