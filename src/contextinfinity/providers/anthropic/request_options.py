"""Request options for Anthropic's Messages API."""

from __future__ import annotations

from contextinfinity.domain.message import Json
from contextinfinity.domain.prompt import Abilities, RequestOptions
from contextinfinity.providers.request_options import (
    BUDGETS,
    AppliedOptions,
    Offer,
    as_option,
    choice_offer,
    converted_options,
    forces_call,
    joined,
    level_of,
    nearest_level,
    parallel_offer,
)

LEAST_BUDGET = BUDGETS["minimal"]
"""The smallest thinking budget that Anthropic accepts."""


def for_messages(request_options: RequestOptions, able: Abilities, *, parallel: bool) -> AppliedOptions:
    """Convert request options to those of Anthropic's Messages API.

    Claude models no longer accept sampling options such as a temperature. Other models served on this API do, except
    while they think.
    """
    forced = forces_call(request_options.tool_choice) and able.tools and able.guidance.forced_tools
    thought = _claude_thought(request_options, able, forced=forced)
    thinks = "budget_tokens" in (thought or {}).get("thinking", {})
    samples = not able.known and able.guidance.sampling and not thinks
    stops = [text for text in request_options.stop if text.strip()]  # Anthropic rejects white space only
    offers: dict[str, Offer | None] = {
        "temperature": (lambda value: {"temperature": min(value, 1)}) if samples else None,
        "top_p": as_option("top_p") if samples else None,
        "top_k": as_option("top_k") if samples else None,
        "stop": (lambda _: {"stop_sequences": stops}) if stops else None,
        "tool_choice": choice_offer(able, "tool_choice", _messages_choice),
        "parallel_tools": parallel_offer(able, parallel, {"tool_choice": {"disable_parallel_tool_use": True}}),
        "effort": lambda _: thought,
        "reasoning_summary": (lambda _: {}) if able.reasoning else None,  # thinking is always returned as text
        "thinking_tokens": lambda _: thought,
    }
    in_part = {"stop"} if len(stops) < len(request_options.stop) else set()
    if not (forced and able.reasoning and able.guidance.thinking == "budget"):
        return converted_options(request_options, offers, in_part)
    # The vendor rejects thinking together with a forced tool call.
    options, left_out = converted_options(request_options, offers, in_part)
    return AppliedOptions(joined(options, {"thinking": {"type": "disabled"}}), left_out)


def _messages_choice(choice: str) -> Json:
    if choice.startswith(":"):
        return {"type": "tool", "name": choice[1:]}
    return {"type": {"required": "any"}.get(choice, choice)}


def _claude_thought(request_options: RequestOptions, able: Abilities, *, forced: bool) -> dict[str, Json] | None:
    """Return the thinking options of a Claude: a token budget for older models, an effort for newer ones.

    The budget is fitted to the answer's limit later.
    """
    guidance, level = able.guidance, level_of(request_options)
    if level is None or not able.reasoning:
        return None
    if level == "none" and guidance.unthinking:
        return {"thinking": {"type": guidance.unthinking}}
    effort_option: dict[str, Json] = {}
    if guidance.efforts:
        effort_option["output_config"] = {"effort": nearest_level(level, guidance.efforts)}
    if guidance.thinking == "adaptive":
        return effort_option if forced else {"thinking": {"type": "adaptive"}, **effort_option}
    if forced or able.max_output_tokens <= LEAST_BUDGET:
        return None
    tokens = request_options.thinking_tokens or BUDGETS[level]
    return {"thinking": {"type": "enabled", "budget_tokens": max(tokens, LEAST_BUDGET)}, **effort_option}
