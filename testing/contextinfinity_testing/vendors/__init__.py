"""The vendors, on this machine: a server that speaks OpenAI's and Anthropic's protocols as they do.

    async with FakeVendors() as vendors:
        vendors.say("Hello.", Answer(tool_calls=(Call(name="look", arguments={"at": "sky"}),)), Trouble.overloaded())
        client = AsyncOpenAI(base_url=vendors.openai_url, api_key="any")

It holds requests to the vendors' rules and answers as the script says, or from the prompt. It needs no pytest.
"""

from __future__ import annotations

from contextinfinity_testing.vendors.answers import Answer, Call, Cite, Delivery, Scripted, Tokens, Trouble
from contextinfinity_testing.vendors.server import FakeVendors
from contextinfinity_testing.vendors.wire import Request

__all__ = ["Answer", "Call", "Cite", "Delivery", "FakeVendors", "Request", "Scripted", "Tokens", "Trouble"]
