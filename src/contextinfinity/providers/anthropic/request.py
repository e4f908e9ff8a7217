"""Write a prompt as the JSON of Anthropic's Messages API.

System texts come first; user and assistant messages alternate, starting with the user. Tool results come first in the
user message right after their calls. Apart from that, no part depends on later parts: a longer conversation starts with
the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct

from contextinfinity.domain.message import Json, TextBlock
from contextinfinity.domain.prompt import Abilities, Prompt, ProviderRequest, ToolSpec
from contextinfinity.domain.sent_form import MESSAGES, PARALLEL, all_in_form
from contextinfinity.providers import request_options, wire_values
from contextinfinity.providers.anthropic.blocks import CARRIERS, PROVIDER, THINKING, PlacedBlock, pieces_of, text_piece
from contextinfinity.providers.tool_results import NOWHERE, paired, with_safe_ids

MOST_MARKERS = 4
LEAST_BUDGET = 1024
"""The smallest thinking budget that Anthropic accepts."""

TOOL_KEYS = frozenset({"tools", "tool_choice"})
"""Parameters that are not sent to a model without tool support."""
GO_ON = "[go on]"
BEGINNING = "[the conversation begins here]"

RULES = request_options.Rules(
    vendor=PROVIDER,
    limits=("max_tokens",),
    owned={**request_options.OWNED, "system": request_options.OWNED["messages"]},
)
NO_TOOL: Json = {"name": "no_tool", "description": "Not available.", "input_schema": {"type": "object"}}
"""Declared if earlier messages contain calls but no tools are offered now; constant, for prompt caches."""


class Choices(Struct, frozen=True, kw_only=True):
    """Options of the model rather than of the request."""

    parallel_tools: bool = False
    provider_tools: tuple[Json, ...] = ()


class OutgoingMessage(NamedTuple):
    """One message in alternating order."""

    role: str
    pieces: list[PlacedBlock]

    def holds(self, kind: str) -> bool:
        """Return whether it contains a block of that type."""
        return any(piece.block["type"] == kind for piece in self.pieces)


def body(request: ProviderRequest, abilities: Abilities, choices: Choices) -> dict[str, Json]:
    """Write the whole request; raise ``ProviderError`` for options that cannot be followed."""
    if (sent := wire_values.sent_to(request, MESSAGES)) is not None:
        passed = _as_sent(request, sent)
        return passed if abilities.tools else {key: each for key, each in passed.items() if key not in TOOL_KEYS}
    prompt = request.prompt
    asked = request_options.table_of(request.options, PROVIDER)
    system = [text_piece(place, text) for place, text in enumerate(prompt.system) if text.strip()]
    conversation = _conversation(_pieces(prompt, abilities), prefill=_may_prefill(prompt, abilities, asked))
    everything = [*system, *(piece for said in conversation for piece in said.pieces)]
    _mark(everything, prompt.markers, MOST_MARKERS - ("cache_control" in asked))
    tools = _tools(prompt.tools if abilities.tools else (), choices.provider_tools)
    written: dict[str, Json] = {
        "model": request.model_id,
        "max_tokens": wire_values.bounded_output(request, abilities),
        "stream": True,
        **_tools_and_choice(
            tools, conversation, choices.parallel_tools or wire_values.client_accepts(prompt, PARALLEL)
        ),
        **({"system": [piece.block for piece in system]} if system else {}),
        "messages": [{"role": said.role, "content": [piece.block for piece in said.pieces]} for said in conversation],
    }
    if prompt.response_format is not None:
        written["output_config"] = {"format": {"type": "json_schema", "schema": prompt.response_format}}
    passed_over = [] if tools else ["tool_choice"]
    if not _may_think(asked.get("thinking"), conversation):
        passed_over.append("thinking")
    return _fitted(request_options.with_options(written, asked, RULES, passed_over), abilities)


def _as_sent(request: ProviderRequest, sent: dict[str, Json]) -> dict[str, Json]:
    """Write the client's own messages, tools and parameters, plus the texts that we add."""
    prompt = request.prompt
    system, tools = prompt.sent.get("system"), prompt.sent.get("tools")
    if added := [{"type": "text", "text": text} for text in prompt.system[1:]]:
        own = [{"type": "text", "text": system}] if isinstance(system, str) and system.strip() else system
        system = [*(own or ()), *added]
    return {
        **wire_values.configured(request),
        **wire_values.dict_of(sent.get("params")),
        "model": request.model_id,
        "max_tokens": request.max_output_tokens,
        **({"system": system} if system else {}),
        **({"tools": tools} if tools is not None else {}),
        "messages": all_in_form(MESSAGES, prompt.messages),
        "stream": True,
    }


def _pieces(prompt: Prompt, abilities: Abilities) -> list[PlacedBlock]:
    """Return all blocks of the conversation, with results next to their calls."""
    first = len(prompt.system)
    named = with_safe_ids(prompt.messages, pattern=wire_values.CALL_ID_PATTERN, longest=wire_values.LONGEST_CALL_ID)
    return [
        piece
        for place, message in paired(named)
        for piece in pieces_of(message, NOWHERE if place == NOWHERE else first + place, abilities)
    ]


def _conversation(pieces: Iterable[PlacedBlock], *, prefill: bool) -> list[OutgoingMessage]:
    """Group blocks into alternating messages; ``prefill``: the last may be the beginning of the answer."""
    out: list[OutgoingMessage] = []
    for run in _without_half_of_a_pair(_runs(pieces)):
        _append(out, run.role, run.pieces if run.role == "user" else _without_trailing_thinking(run.pieces))
    if not out or (out[-1].role == "assistant" and not (prefill or _paused(out[-1]))):
        _append(out, "user", [text_piece(NOWHERE, GO_ON)])
    elif prefill and out[-1].role == "assistant":  # the API rejects one that ends with white space
        out[-1].pieces[-1].block["text"] = out[-1].pieces[-1].block["text"].rstrip()
    if out[0].role == "assistant":
        out.insert(0, OutgoingMessage("user", [text_piece(NOWHERE, BEGINNING)]))
    return out


def _may_prefill(prompt: Prompt, abilities: Abilities, asked: dict[str, Json]) -> bool:
    """Return whether the prompt ends with the beginning of an answer that the model can continue."""
    last = prompt.messages[-1] if prompt.messages else None
    if last is None or last.role != "assistant" or not all(isinstance(block, TextBlock) for block in last.blocks):
        return False
    return abilities.guidance.prefill and prompt.response_format is None and "thinking" not in asked


def _runs(pieces: Iterable[PlacedBlock]) -> list[OutgoingMessage]:
    runs: list[OutgoingMessage] = []
    for piece in pieces:
        _append(runs, piece.role, [piece])
    return runs


def _append(out: list[OutgoingMessage], role: str, pieces: list[PlacedBlock]) -> None:
    if not pieces:
        return
    if out and out[-1].role == role:
        out[-1].pieces.extend(pieces)
    else:
        out.append(OutgoingMessage(role, list(pieces)))


def _without_trailing_thinking(pieces: list[PlacedBlock]) -> list[PlacedBlock]:
    """Remove trailing thinking: an assistant message must not end with it."""
    end = len(pieces)
    while end and pieces[end - 1].block["type"] in THINKING:
        end -= 1
    return pieces[:end]


def _without_half_of_a_pair(runs: list[OutgoingMessage]) -> list[OutgoingMessage]:
    """Remove calls of Anthropic's own tools without a result, and results without a call, except in the last answer."""
    blocks = [piece.block for run in runs for piece in run.pieces]
    called = {str(block.get("id")) for block in blocks if _server_call(block)}
    answered = {str(block.get("tool_use_id")) for block in blocks if _server_result(block)}
    last = max((place for place, run in enumerate(runs) if run.role == "assistant"), default=-1)

    def stays(block: dict[str, Json], place: int) -> bool:
        if _server_call(block):
            return place == last or str(block.get("id")) in answered
        return not _server_result(block) or str(block.get("tool_use_id")) in called

    return [
        OutgoingMessage(run.role, [p for p in run.pieces if stays(p.block, place)]) for place, run in enumerate(runs)
    ]


def _server_call(block: dict[str, Json]) -> bool:
    return str(block["type"]).endswith("_tool_use")


def _server_result(block: dict[str, Json]) -> bool:
    return str(block["type"]).endswith("_tool_result")


def _paused(said: OutgoingMessage) -> bool:
    """Return whether Anthropic paused this answer; it continues when it gets it back unchanged."""
    return any(_server_call(piece.block) or _server_result(piece.block) for piece in said.pieces)


def _mark(pieces: list[PlacedBlock], markers: tuple[int, ...], most: int) -> None:
    """Set cache markers, each on the last block of a marked position that can carry one."""
    places = sorted({place for place in markers if place >= 0})[-most:]
    last = {piece.place: piece for piece in pieces if piece.block["type"] in CARRIERS}
    for place in places:
        if place in last:
            last[place].block["cache_control"] = {"type": "ephemeral"}


def _tools(specs: tuple[ToolSpec, ...], provider_tools: tuple[Json, ...]) -> list[Json]:
    tools: list[Json] = []
    for spec in specs:
        schema = spec.parameters if isinstance(spec.parameters, dict) else {}
        described = {"description": spec.description} if spec.description else {}
        tools.append({"name": spec.name, **described, "input_schema": {"type": "object", **schema}})
    return [*tools, *provider_tools]


def _tools_and_choice(tools: list[Json], conversation: list[OutgoingMessage], parallel: bool) -> dict[str, Json]:
    """Return tools and tool choice; if earlier calls exist but no tools do, declare a constant placeholder tool."""
    if tools:
        return {"tools": tools, **({} if parallel else {"tool_choice": {"disable_parallel_tool_use": True}})}
    if not any(piece.block["type"] == "tool_use" for said in conversation for piece in said.pieces):
        return {}
    return {"tools": [NO_TOOL], "tool_choice": {"type": "none"}}


def _fitted(body: dict[str, Json], abilities: Abilities) -> dict[str, Json]:
    """Adjust the tool choice and the thinking budget from the options so that the API accepts them."""
    choice = wire_values.dict_of(body.get("tool_choice"))
    if choice:
        kept = {"type": "auto", **choice}
        body["tool_choice"] = {"type": "none"} if kept["type"] == "none" else kept
    thinking = wire_values.dict_of(body.get("thinking"))
    budget, room = thinking.get("budget_tokens"), body["max_tokens"]
    if thinking.get("type") != "enabled" or type(budget) is not int or budget < room:
        return body
    body["max_tokens"] = min(budget + room, abilities.max_output_tokens)
    lowered = min(budget, max(body["max_tokens"] - room, LEAST_BUDGET))
    if lowered >= body["max_tokens"]:
        raise request_options.refused(
            PROVIDER, f"the option thinking needs more than the {room} tokens that an answer may have"
        )
    body["thinking"] = {**thinking, "budget_tokens": lowered}
    return body


def _may_think(thinking: Json, conversation: list[OutgoingMessage]) -> bool:
    """Return whether thinking can be requested now.

    With a fixed budget (``enabled``) the API rejects a running tool loop whose first message does not start with
    thinking, for example one that another provider started. ``adaptive`` accepts it.
    """
    if not isinstance(thinking, dict) or thinking.get("type") != "enabled":
        return True
    at = len(conversation) - 1
    while at > 0 and conversation[at].role == "user" and conversation[at].holds("tool_result"):
        at -= 2
    loop = conversation[at + 1 :]
    return not loop or loop[0].pieces[0].block["type"] in THINKING
