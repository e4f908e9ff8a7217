"""Fake vendors: a local server that speaks the protocols of OpenAI, Anthropic, Gemini and Perplexity.

    async with FakeVendors() as vendors:
        vendors.say("Hello.", Answer(tool_calls=(Call(name="look", arguments={"at": "sky"}),)), Trouble.overloaded())
        client = AsyncOpenAI(base_url=vendors.openai_url, api_key="any")

It checks requests by the vendors' rules, and answers from a script or from the prompt. It does not need pytest.
"""

from __future__ import annotations

from contextinfinity_testing.vendors.answers import Answer, Call, Cite, Delivery, Scripted, Tokens, Trouble
from contextinfinity_testing.vendors.server import FakeVendors
from contextinfinity_testing.vendors.wire import Request

__all__ = ["Answer", "Call", "Cite", "Delivery", "FakeVendors", "Request", "Scripted", "Tokens", "Trouble"]
