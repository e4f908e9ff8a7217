"""A tool loop with litellm; with ``proxy`` as its first word through the litellm proxy."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import litellm

how, base, root, model, *said = sys.argv[1:]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "sh",
            "description": "Run.",
            "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
        },
    }
]
PORT = 43117


def loop(name: str, address: str) -> None:
    """Ask, run the tools, and go on until there are none to run."""
    messages = [{"role": "system", "content": "Be brief."}]
    for text in said:
        messages.append({"role": "user", "content": text})
        while True:
            answer = litellm.completion(model=name, api_base=address, api_key="x", messages=messages, tools=TOOLS)
            message = answer.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                break
            for call in message.tool_calls:
                output = json.loads(call.function.arguments)["command"].removeprefix("echo ")
                messages.append({"role": "tool", "tool_call_id": call.id, "content": output})
        print(message.content)


name, address = (f"anthropic/{model}", root) if model.startswith("claude") else (f"openai/{model}", base)
if how == "sdk":
    loop(name, address)
else:
    params = {"model": name, "api_base": address, "api_key": "x"}
    Path("proxy.json").write_text(json.dumps({"model_list": [{"model_name": "it", "litellm_params": params}]}))
    command = [str(Path(sys.executable).parent / "litellm"), "--config", "proxy.json", "--port", str(PORT)]
    with Path("proxy.log").open("wb") as log:
        allowed = {
            "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }
        settings = {**os.environ, **allowed}
        proxy = subprocess.Popen([*command, "--host", "127.0.0.1"], stdout=log, stderr=log, env=settings)
    try:
        for _ in range(1_200):
            try:
                urlopen(f"http://127.0.0.1:{PORT}/health/liveliness", timeout=1)
                break
            except OSError:
                if proxy.poll() is not None:
                    sys.exit(Path("proxy.log").read_text()[-500:])
                time.sleep(0.2)
        loop("openai/it", f"http://127.0.0.1:{PORT}/v1")
    finally:
        proxy.kill()
