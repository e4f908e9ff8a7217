"""Request options for the Gemini API."""

from __future__ import annotations

from contextinfinity.domain.message import Json
from contextinfinity.domain.model import Abilities
from contextinfinity.domain.prompt import RequestOptions
from contextinfinity.providers.request_options import (
    BUDGETS,
    USUAL_EFFORTS,
    AppliedOptions,
    Offer,
    as_option,
    choice_offer,
    converted_options,
    level_of,
    nearest_level,
)

MOST_STOPS = 5
LEAST_BUDGET = 512
"""The smallest thinking budget that every model accepts."""


def for_gemini(request_options: RequestOptions, able: Abilities) -> AppliedOptions:
    """Convert request options to ``generationConfig`` and ``toolConfig``.

    Gemini has no option to disable parallel tool calls.
    """
    thought = _thinking(request_options, able)
    stops = request_options.stop[:MOST_STOPS]
    offers: dict[str, Offer | None] = {
        "temperature": as_option("temperature"),
        "top_p": as_option("topP"),
        "top_k": as_option("topK"),
        "presence_penalty": as_option("presencePenalty"),
        "frequency_penalty": as_option("frequencyPenalty"),
        "seed": as_option("seed"),
        "stop": lambda _: {"stopSequences": list(stops)},
        "tool_choice": choice_offer(able, "toolConfig", _tool_config),
        "parallel_tools": lambda several: {} if several else None,
        "effort": lambda _: thought,
        "reasoning_summary": (lambda _: {"thinkingConfig": {"includeThoughts": True}}) if able.reasoning else None,
        "thinking_tokens": lambda _: thought,
    }
    in_part = {"stop"} if len(stops) < len(request_options.stop) else set()
    in_part |= {"parallel_tools"} if request_options.parallel_tools is False and able.tools else set()
    return converted_options(request_options, offers, in_part)


def _tool_config(choice: str) -> Json:
    if choice.startswith(":"):
        return {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [choice[1:]]}}
    return {"functionCallingConfig": {"mode": {"required": "ANY"}.get(choice, choice.upper())}}


def _thinking(request_options: RequestOptions, able: Abilities) -> dict[str, Json] | None:
    """Return a thinking level for models that accept one, and a token budget for older ones."""
    level = level_of(request_options)
    if level is None or not able.reasoning:
        return None
    guidance = able.guidance
    if guidance.thinking == "adaptive":
        return {"thinkingConfig": {"thinkingLevel": nearest_level(level, guidance.efforts or USUAL_EFFORTS)}}
    if level == "none":
        return {"thinkingConfig": {"thinkingBudget": 0 if guidance.unthinking else LEAST_BUDGET}}
    wanted = request_options.thinking_tokens or BUDGETS[level]
    return {"thinkingConfig": {"thinkingBudget": max(LEAST_BUDGET, min(wanted, able.max_output_tokens // 2))}}
