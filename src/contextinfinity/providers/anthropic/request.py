"""From a neutral prompt to the JSON of Anthropic's Messages API.

System texts stand on top, user and assistant alternate, the user begins. Results of tools come first in the user
message right after their calls; a call without a result gets a constant one, a result without a call is left out.
Nothing depends on what stands behind it except that: a longer conversation begins with the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct

from contextinfinity.domain.message import Json
from contextinfinity.domain.model import Abilities
from contextinfinity.domain.prompt import ProviderRequest, ToolSpec
from contextinfinity.providers.anthropic.blocks import CARRIERS, THINKING, Piece, pieces_of, text_piece
from contextinfinity.providers.call_ids import with_safe_ids

ID_PATTERN = r"[a-zA-Z0-9_-]+"
LONGEST_ID = 64
MOST_MARKERS = 4

NOT_RUN = "[not run]"
GO_ON = "[go on]"
BEGINNING = "[the conversation begins here]"

OURS = frozenset({"model", "system", "messages", "tools", "stream"})
"""What options cannot replace: it is the prompt, or decided elsewhere."""

_NOWHERE = -1  # the place of what we add: no marker points to it


class Choices(Struct, frozen=True, kw_only=True):
    """What is decided per model and not per request."""

    parallel_tools: bool = False
    provider_tools: tuple[Json, ...] = ()
    cache_ttl: str | None = None


class Said(NamedTuple):
    """One side's message on the way to the wire."""

    role: str
    pieces: list[Piece]

    def holds(self, kind: str) -> bool:
        """Tell whether a block of that type is in it."""
        return any(piece.block["type"] == kind for piece in self.pieces)


def body(request: ProviderRequest, abilities: Abilities, choices: Choices) -> dict[str, Json]:
    """Write the whole request."""
    prompt = request.prompt
    options = request.options if isinstance(request.options, dict) else {}
    messages = with_safe_ids(prompt.messages, pattern=ID_PATTERN, longest=LONGEST_ID)
    first = len(prompt.system)
    system = [text_piece(place, text) for place, text in enumerate(prompt.system) if text.strip()]
    conversation = _conversation(
        [piece for place, message in enumerate(messages, first) for piece in pieces_of(message, place, abilities)]
    )
    everything = [*system, *(piece for said in conversation for piece in said.pieces)]
    _mark(everything, prompt.markers, MOST_MARKERS - ("cache_control" in options), choices.cache_ttl)
    tools = _tools(prompt.tools if abilities.tools else (), choices.provider_tools)
    written: dict[str, Json] = {
        "model": request.model_id,
        "max_tokens": max(1, min(request.max_output_tokens, abilities.max_output_tokens)),
        "stream": True,
        **_tools_and_choice(tools, conversation, choices.parallel_tools),
        **({"system": [piece.block for piece in system]} if system else {}),
        "messages": [{"role": said.role, "content": [piece.block for piece in said.pieces]} for said in conversation],
    }
    if prompt.response_format is not None:
        written["output_config"] = {"format": {"type": "json_schema", "schema": prompt.response_format}}
    return _with_options(written, options, conversation, abilities)


def _conversation(pieces: Iterable[Piece]) -> list[Said]:
    """Put blocks into messages that alternate, each call followed by its result."""
    runs = _without_half_of_a_pair(_runs(pieces))
    out: list[Said] = []
    for run in runs:
        found = _answering(out, run.pieces) if run.role == "user" else _spoken(run.pieces)
        _append(out, run.role, found)
    if out and out[-1].role == "assistant":
        _append(out, "user", _answering(out, []))
    if not out or (out[-1].role == "assistant" and not _paused(out[-1])):
        _append(out, "user", [text_piece(_NOWHERE, GO_ON)])
    if out[0].role == "assistant":
        out.insert(0, Said("user", [text_piece(_NOWHERE, BEGINNING)]))
    return out


def _runs(pieces: Iterable[Piece]) -> list[Said]:
    runs: list[Said] = []
    for piece in pieces:
        _append(runs, piece.role, [piece])
    return runs


def _append(out: list[Said], role: str, pieces: list[Piece]) -> None:
    if not pieces:
        return
    if out and out[-1].role == role:
        out[-1].pieces.extend(pieces)
    else:
        out.append(Said(role, list(pieces)))


def _answering(out: list[Said], pieces: list[Piece]) -> list[Piece]:
    """Put the results of the calls just made in front, in the order of the calls."""
    results: dict[str, Piece] = {}
    others: list[Piece] = []
    for piece in pieces:
        if piece.block["type"] == "tool_result":
            results.setdefault(piece.block["tool_use_id"], piece)
        else:
            others.append(piece)
    calls = out[-1].pieces if out and out[-1].role == "assistant" else []
    asked = [call.block["id"] for call in calls if call.block["type"] == "tool_use"]
    return [results.get(call_id) or _not_run(call_id) for call_id in asked] + others


def _not_run(call_id: str) -> Piece:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": NOT_RUN, "is_error": True}
    return Piece("user", _NOWHERE, block)


def _spoken(pieces: list[Piece]) -> list[Piece]:
    """Leave out thinking that leads to nothing: an assistant's message may not end with it."""
    end = len(pieces)
    while end and pieces[end - 1].block["type"] in THINKING:
        end -= 1
    return pieces[:end]


def _without_half_of_a_pair(runs: list[Said]) -> list[Said]:
    """Leave out calls of Anthropic's own tools without a result, and the reverse; the last answer's may still run."""
    blocks = [piece.block for run in runs for piece in run.pieces]
    called = {str(block.get("id")) for block in blocks if _server_call(block)}
    answered = {str(block.get("tool_use_id")) for block in blocks if _server_result(block)}
    last = max((place for place, run in enumerate(runs) if run.role == "assistant"), default=-1)

    def stays(block: dict[str, Json], place: int) -> bool:
        if _server_call(block):
            return place == last or str(block.get("id")) in answered
        return not _server_result(block) or str(block.get("tool_use_id")) in called

    return [Said(run.role, [p for p in run.pieces if stays(p.block, place)]) for place, run in enumerate(runs)]


def _server_call(block: dict[str, Json]) -> bool:
    return str(block["type"]).endswith("_tool_use")


def _server_result(block: dict[str, Json]) -> bool:
    return str(block["type"]).endswith("_tool_result")


def _paused(said: Said) -> bool:
    """Tell an answer that Anthropic paused and goes on with when it gets it back as it was."""
    return any(_server_call(piece.block) or _server_result(piece.block) for piece in said.pieces)


def _mark(pieces: list[Piece], markers: tuple[int, ...], most: int, ttl: str | None) -> None:
    """Say which prefixes are worth caching, on the last block of a marked piece that can carry it."""
    control = {"type": "ephemeral"} if ttl is None else {"type": "ephemeral", "ttl": ttl}
    places = sorted({place for place in markers if place >= 0})[-most:]
    last = {piece.place: piece for piece in pieces if piece.block["type"] in CARRIERS}
    for place in places:
        if place in last:
            last[place].block["cache_control"] = control


def _tools(specs: tuple[ToolSpec, ...], provider_tools: tuple[Json, ...]) -> list[Json]:
    tools: list[Json] = []
    for spec in specs:
        schema = spec.parameters if isinstance(spec.parameters, dict) else {}
        described = {"description": spec.description} if spec.description else {}
        tools.append({"name": spec.name, **described, "input_schema": {"type": "object", **schema}})
    return [*tools, *provider_tools]


def _tools_and_choice(tools: list[Json], conversation: list[Said], parallel: bool) -> dict[str, Json]:
    """Offer tools. Calls made earlier need a tool of that name to be there, so without tools they get empty ones."""
    if tools:
        choice = {} if parallel else {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}
        return {"tools": tools, **choice}
    blocks = [piece.block for said in conversation for piece in said.pieces]
    names = dict.fromkeys(block["name"] for block in blocks if block["type"] == "tool_use")
    if not names:
        return {}
    stubs = [{"name": name, "input_schema": {"type": "object"}} for name in names]
    return {"tools": stubs, "tool_choice": {"type": "none"}}


def _with_options(
    written: dict[str, Json], options: dict[str, Json], conversation: list[Said], abilities: Abilities
) -> dict[str, Json]:
    for name, value in options.items():
        if name in OURS or (name == "tool_choice" and written.get("tool_choice", {}).get("type") == "none"):
            continue
        if name == "tool_choice" and "tools" not in written:
            continue
        if name == "thinking" and not _may_think(value, conversation):
            continue
        if name == "output_config" and isinstance(value, dict):
            value = {**value, **written.get(name, {})}
        if name == "max_tokens" and isinstance(value, int):
            value = max(1, min(value, abilities.max_output_tokens))
        written[name] = value
    return written


def _may_think(thinking: Json, conversation: list[Said]) -> bool:
    """Tell whether thinking can be asked for now.

    With a fixed budget (``enabled``) the API refuses a running tool loop whose first message does not begin with
    thinking, as one does that another provider began. ``adaptive`` takes it.
    """
    if not isinstance(thinking, dict) or thinking.get("type") != "enabled":
        return True
    at = len(conversation) - 1
    while at > 0 and conversation[at].role == "user" and conversation[at].holds("tool_result"):
        at -= 2
    loop = conversation[at + 1 :]
    return not loop or loop[0].pieces[0].block["type"] in THINKING
