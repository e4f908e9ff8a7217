"""What whoever asks wishes for, in the words of each wire.

In go wishes that name no vendor, and what a model can do; out come options of the wire, and the names of those wishes
that this model cannot be told there. Nothing is sent that the vendor would refuse: an answer that is a little
different is better than none, and what was left out is said. A wish that is met anyway is never left out.

How long an answer may be is part of a request, and no option of a wire.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from contextinfinity.domain.message import Json
from contextinfinity.domain.model import Abilities
from contextinfinity.domain.prompt import Wishes
from contextinfinity.providers.options import joined
from contextinfinity.vendors.efforts import LEVELS

USUAL_EFFORTS = ("low", "medium", "high")
"""What a model that thinks can be told where nobody says more of it."""
BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8000, "high": 16_000, "xhigh": 32_000, "max": 64_000}
"""About as many tokens to think with as each effort comes to."""
LEAST_BUDGET = BUDGETS["minimal"]
"""Anthropic refuses a smaller one."""
MOST_STOPS = 4
"""Of OpenAI, and of those who keep to its words."""

MET_ANYWAY = frozenset(
    {
        *(("temperature", 1), ("top_p", 1), ("presence_penalty", 0), ("frequency_penalty", 0)),
        *(("tool_choice", "auto"), ("tool_choice", "none"), ("parallel_tools", False)),
        *(("effort", "none"), ("thinking_tokens", 0)),
    }
)
"""Wishes that a model meets of itself where it cannot be told them."""


class Wished(NamedTuple):
    """Wishes as options of a wire. ``left_out`` names those that are not met, or only in part."""

    options: dict[str, Json]
    left_out: tuple[str, ...] = ()


Offer: TypeAlias = Callable[[Any], Mapping[str, Json] | None]
"""Puts what is wished for into options; None where that cannot be said."""


def for_chat(wishes: Wishes, able: Abilities, *, vendor: str, parallel: bool, own_server: bool) -> Wished:
    """Wish in the words of chat completions; ``own_server``: one that takes more than OpenAI does."""
    guidance, local = able.guidance, vendor == "local"
    thought = _llama_thought(wishes, able) if local else _named("reasoning_effort", _effort(wishes, able))
    samples = guidance.sampling or thought == {"reasoning_effort": "none"}
    more = local or vendor == "perplexity" or (own_server and not able.known)
    stops = wishes.stop if more else wishes.stop[:MOST_STOPS]
    offers: dict[str, Offer | None] = {
        "temperature": as_option("temperature") if samples else None,
        "top_p": as_option("top_p") if samples else None,
        "top_k": as_option("top_k") if more else None,
        "presence_penalty": as_option("presence_penalty") if guidance.sampling else None,
        "frequency_penalty": as_option("frequency_penalty") if guidance.sampling else None,
        "seed": None if vendor == "perplexity" else as_option("seed"),
        "stop": (lambda _: {"stop": list(stops)}) if guidance.stop else None,
        "tool_choice": choice_offer(able, "tool_choice", _llama_choice if local else _chat_choice),
        "parallel_tools": _parallel(able, parallel),
        "effort": lambda _: thought,
        "thinking_tokens": lambda _: thought,
    }
    in_part = {"stop"} if len(stops) < len(wishes.stop) else set()
    in_part |= {"tool_choice"} if local and _named_tool(wishes) else set()
    return wished_options(wishes, offers, in_part)


def for_responses(wishes: Wishes, able: Abilities, *, parallel: bool) -> Wished:
    """Wish in the words of OpenAI's Responses, which know no stop texts, no seed and no penalties."""
    effort = _effort(wishes, able)
    thought = None if effort is None else {"reasoning": {"effort": effort}}
    samples = able.guidance.sampling or effort == "none"
    offers: dict[str, Offer | None] = {
        "temperature": as_option("temperature") if samples else None,
        "top_p": as_option("top_p") if samples else None,
        "tool_choice": choice_offer(able, "tool_choice", _responses_choice),
        "parallel_tools": _parallel(able, parallel),
        "effort": lambda _: thought,
        "reasoning_summary": (lambda value: {"reasoning": {"summary": value}}) if able.reasoning else None,
        "thinking_tokens": lambda _: thought,
    }
    return wished_options(wishes, offers)


def for_messages(wishes: Wishes, able: Abilities, *, parallel: bool) -> Wished:
    """Wish in the words of Anthropic's Messages.

    The API of today takes a temperature and the like from no Claude. Servers of other models on this wire do, though
    not while the model thinks.
    """
    forced = _forces(wishes.tool_choice) and able.tools and able.guidance.forced_tools
    thought = _claude_thought(wishes, able, forced=forced)
    thinks = "budget_tokens" in (thought or {}).get("thinking", {})
    samples = not able.known and able.guidance.sampling and not thinks
    stops = [text for text in wishes.stop if text.strip()]  # mere white space is refused
    offers: dict[str, Offer | None] = {
        "temperature": (lambda value: {"temperature": min(value, 1)}) if samples else None,
        "top_p": as_option("top_p") if samples else None,
        "top_k": as_option("top_k") if samples else None,
        "stop": (lambda _: {"stop_sequences": stops}) if stops else None,
        "tool_choice": choice_offer(able, "tool_choice", _messages_choice),
        "parallel_tools": _parallel(able, parallel, {"tool_choice": {"disable_parallel_tool_use": True}}),
        "effort": lambda _: thought,
        "reasoning_summary": (lambda _: {}) if able.reasoning else None,  # thinking always comes in words
        "thinking_tokens": lambda _: thought,
    }
    in_part = {"stop"} if len(stops) < len(wishes.stop) else set()
    if not (forced and able.reasoning and able.guidance.thinking == "budget"):
        return wished_options(wishes, offers, in_part)
    # A tool that has to be called leaves no time to think: the vendor refuses both at once.
    options, left_out = wished_options(wishes, offers, in_part)
    return Wished(joined(options, {"thinking": {"type": "disabled"}}), left_out)


def plain(wishes: Wishes) -> Wished:
    """Wish in our own words, the length too, for a provider that has no wire."""
    return Wished(msgspec.json.decode(msgspec.json.encode(wishes)))


def wished_options(wishes: Wishes, offers: Mapping[str, Offer | None], in_part: Collection[str] = ()) -> Wished:
    """Apply each offer to its wish; name the wishes that are not met, or only in part (``in_part``)."""
    options: dict[str, Json] = {}
    left_out = []
    for name, value in msgspec.structs.asdict(wishes).items():
        if name == "max_output_tokens" or value is None or value == ():
            continue
        offer = offers.get(name)
        said = None if offer is None else offer(value)
        options = joined(options, said or {})
        if name in in_part or (said is None and (name, value) not in MET_ANYWAY):
            left_out.append(name)
    return Wished(options, tuple(left_out))


def as_option(key: str) -> Offer:
    """Offer a wish under that name, as it is."""
    return lambda value: {key: value}


def _named(key: str, value: Json) -> dict[str, Json] | None:
    return None if value is None else {key: value}


def _forces(choice: str | None) -> bool:
    return choice is not None and choice not in ("auto", "none")


def _named_tool(wishes: Wishes) -> bool:
    return (wishes.tool_choice or "").startswith(":")


def choice_offer(able: Abilities, key: str, write: Callable[[str], Json]) -> Offer | None:
    """Offer a choice of tools, unless the model knows none, or cannot be made to call one."""

    def offer(choice: str) -> dict[str, Json] | None:
        possible = able.guidance.forced_tools or not _forces(choice)
        return {key: write(choice)} if possible else None

    return offer if able.tools else None


def _chat_choice(choice: str) -> Json:
    return {"type": "function", "function": {"name": choice[1:]}} if choice.startswith(":") else choice


def _responses_choice(choice: str) -> Json:
    return {"type": "function", "name": choice[1:]} if choice.startswith(":") else choice


def _messages_choice(choice: str) -> Json:
    if choice.startswith(":"):
        return {"type": "tool", "name": choice[1:]}
    return {"type": {"required": "any"}.get(choice, choice)}


def _llama_choice(choice: str) -> Json:
    """Ask llama.cpp for some call where one tool is named: it knows no more."""
    return "required" if choice.startswith(":") else choice


def _parallel(able: Abilities, allowed: bool, one: Mapping[str, Json] | None = None) -> Offer | None:
    """Offer one call at a time; several only where the settings allow it."""
    ask = one or {"parallel_tool_calls": False}

    def offer(several: bool) -> Mapping[str, Json] | None:
        if several:
            return {} if allowed or not able.tools else None
        return ask

    return offer


def level_of(wishes: Wishes) -> str | None:
    """Tell how much thinking is wished for; None: nobody said, or in a word that is not known."""
    if wishes.effort is not None:
        return wishes.effort if wishes.effort in LEVELS else None
    if wishes.thinking_tokens is None:
        return None
    fitting = [level for level, tokens in BUDGETS.items() if tokens <= wishes.thinking_tokens]
    return fitting[-1] if fitting else ("minimal" if wishes.thinking_tokens > 0 else "none")


def nearest_level(level: str, levels: Sequence[str]) -> str:
    """Choose among the levels that a model takes; of two that are as near, the one nearer to the middle."""
    wanted, middle = LEVELS.index(level), LEVELS.index("medium")
    places = [LEVELS.index(each) for each in levels]
    return LEVELS[min(places, key=lambda place: (abs(place - wanted), abs(place - middle)))]


def _effort(wishes: Wishes, able: Abilities) -> str | None:
    level = level_of(wishes)
    if level is None or not able.reasoning:
        return None
    return nearest_level(level, able.guidance.efforts or USUAL_EFFORTS)


def _llama_thought(wishes: Wishes, able: Abilities) -> dict[str, Json] | None:
    """Tell llama.cpp; what an effort means is up to the template of the model."""
    level = level_of(wishes)
    if level is None or not able.reasoning:
        return None
    if level == "none":
        return {"chat_template_kwargs": {"enable_thinking": False}}
    if wishes.thinking_tokens:
        return {"thinking_budget_tokens": wishes.thinking_tokens}
    return {"chat_template_kwargs": {"reasoning_effort": nearest_level(level, USUAL_EFFORTS)}}


def _claude_thought(wishes: Wishes, able: Abilities, *, forced: bool) -> dict[str, Json] | None:
    """Tell a Claude: older ones by tokens, newer ones by effort. That a budget fits its answer is seen to later."""
    guidance, level = able.guidance, level_of(wishes)
    if level is None or not able.reasoning:
        return None
    if level == "none" and guidance.unthinking:
        return {"thinking": {"type": guidance.unthinking}}
    told: dict[str, Json] = {}
    if guidance.efforts:
        told["output_config"] = {"effort": nearest_level(level, guidance.efforts)}
    if guidance.thinking == "adaptive":
        return told if forced else {"thinking": {"type": "adaptive"}, **told}
    if forced or able.max_output_tokens <= LEAST_BUDGET:
        return None
    tokens = wishes.thinking_tokens or BUDGETS[level]
    return {"thinking": {"type": "enabled", "budget_tokens": max(tokens, LEAST_BUDGET)}, **told}
