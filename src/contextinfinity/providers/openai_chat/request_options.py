"""Request options for chat completions, and for llama.cpp's variant."""

from __future__ import annotations

from contextinfinity.domain.message import Json
from contextinfinity.domain.model import Abilities
from contextinfinity.domain.prompt import RequestOptions
from contextinfinity.providers.request_options import (
    USUAL_EFFORTS,
    AppliedOptions,
    Offer,
    as_option,
    choice_offer,
    converted_options,
    effort_of,
    level_of,
    nearest_level,
    parallel_offer,
)

MOST_STOPS = 4
"""The limit of OpenAI and of compatible servers."""


def for_chat(
    request_options: RequestOptions, able: Abilities, *, vendor: str, parallel: bool, own_server: bool
) -> AppliedOptions:
    """Convert request options to chat completions; ``own_server``: a server that accepts more than OpenAI does."""
    guidance, local = able.guidance, vendor == "local"
    thought = (
        _llama_thought(request_options, able) if local else _named("reasoning_effort", effort_of(request_options, able))
    )
    samples = guidance.sampling or thought == {"reasoning_effort": "none"}
    more = local or vendor == "perplexity" or (own_server and not able.known)
    stops = request_options.stop if more else request_options.stop[:MOST_STOPS]
    offers: dict[str, Offer | None] = {
        "temperature": as_option("temperature") if samples else None,
        "top_p": as_option("top_p") if samples else None,
        "top_k": as_option("top_k") if more else None,
        "presence_penalty": as_option("presence_penalty") if guidance.sampling else None,
        "frequency_penalty": as_option("frequency_penalty") if guidance.sampling else None,
        "seed": None if vendor == "perplexity" else as_option("seed"),
        "stop": (lambda _: {"stop": list(stops)}) if guidance.stop else None,
        "tool_choice": choice_offer(able, "tool_choice", _llama_choice if local else _chat_choice),
        "parallel_tools": parallel_offer(able, parallel),
        "effort": lambda _: thought,
        "thinking_tokens": lambda _: thought,
    }
    in_part = {"stop"} if len(stops) < len(request_options.stop) else set()
    in_part |= {"tool_choice"} if local and _named_tool(request_options) else set()
    return converted_options(request_options, offers, in_part)


def _named(key: str, value: Json) -> dict[str, Json] | None:
    return None if value is None else {key: value}


def _named_tool(request_options: RequestOptions) -> bool:
    return (request_options.tool_choice or "").startswith(":")


def _chat_choice(choice: str) -> Json:
    return {"type": "function", "function": {"name": choice[1:]}} if choice.startswith(":") else choice


def _llama_choice(choice: str) -> Json:
    """Force any call if one tool is named: llama.cpp cannot force a particular tool."""
    return "required" if choice.startswith(":") else choice


def _llama_thought(request_options: RequestOptions, able: Abilities) -> dict[str, Json] | None:
    """Return llama.cpp's reasoning options; the meaning of an effort depends on the model's template."""
    level = level_of(request_options)
    if level is None or not able.reasoning:
        return None
    if level == "none":
        return {"chat_template_kwargs": {"enable_thinking": False}}
    if request_options.thinking_tokens:
        return {"thinking_budget_tokens": request_options.thinking_tokens}
    return {"chat_template_kwargs": {"reasoning_effort": nearest_level(level, USUAL_EFFORTS)}}
