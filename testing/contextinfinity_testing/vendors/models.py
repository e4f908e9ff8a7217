"""The lists of models, as each vendor gives them."""

from __future__ import annotations

from contextinfinity.domain.message import Json
from contextinfinity_testing.vendors.wire import BORN, Vendor

OPENAI = ("gpt-5", "gpt-5-mini", "gpt-4.1")
COMPATIBLE = ("qwen3-8b",)
ANTHROPIC = ("claude-opus-4-5", "claude-sonnet-4-5", "claude-haiku-4-5")


def models(vendor: Vendor, path: str) -> Json:
    """Return the list, or one model of it; None where there is no such thing."""
    path = path.removeprefix("/compatible")
    listed = {"openai": [_openai(name) for name in OPENAI], "anthropic": [_anthropic(name) for name in ANTHROPIC]}
    listed["compatible"] = [_openai(name) for name in COMPATIBLE]
    found = listed.get(vendor, [])
    if path == "/v1/models":
        ends = {"first_id": found[0]["id"], "last_id": found[-1]["id"], "has_more": False}
        return {"data": found, **ends} if vendor == "anthropic" else {"object": "list", "data": found}
    return next((model for model in found if path == f"/v1/models/{model['id']}"), None)


def _openai(name: str) -> Json:
    return {"id": name, "object": "model", "created": BORN, "owned_by": "system"}


def _anthropic(name: str) -> Json:
    return {
        "id": name,
        "type": "model",
        "display_name": name.replace("-", " ").title(),
        "created_at": "2025-10-01T00:00:00Z",
        "lifecycle": "active",
    }
