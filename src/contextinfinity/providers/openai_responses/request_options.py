"""Request options for OpenAI's Responses API."""

from __future__ import annotations

from contextinfinity.domain.message import Json
from contextinfinity.domain.model import Abilities
from contextinfinity.domain.prompt import RequestOptions
from contextinfinity.providers.request_options import (
    AppliedOptions,
    Offer,
    as_option,
    choice_offer,
    converted_options,
    effort_of,
    parallel_offer,
)


def for_responses(request_options: RequestOptions, able: Abilities, *, parallel: bool) -> AppliedOptions:
    """Convert request options to the Responses API, which has no stop sequences, seed or penalties."""
    effort = effort_of(request_options, able)
    thought = None if effort is None else {"reasoning": {"effort": effort}}
    samples = able.guidance.sampling or effort == "none"
    offers: dict[str, Offer | None] = {
        "temperature": as_option("temperature") if samples else None,
        "top_p": as_option("top_p") if samples else None,
        "tool_choice": choice_offer(able, "tool_choice", _responses_choice),
        "parallel_tools": parallel_offer(able, parallel),
        "effort": lambda _: thought,
        "reasoning_summary": (lambda value: {"reasoning": {"summary": value}}) if able.reasoning else None,
        "thinking_tokens": lambda _: thought,
    }
    return converted_options(request_options, offers)


def _responses_choice(choice: str) -> Json:
    return {"type": "function", "name": choice[1:]} if choice.startswith(":") else choice
