"""Write a prompt as the body of ``streamGenerateContent``.

System texts go into ``systemInstruction``. Contents alternate between ``user`` and ``model`` and start and end with
``user``. All results of an answer's calls are in the content right after it, before anything else. The model's name is
in the path, not in the body.

A thought signature belongs to the part it came with, a call or a text. It is stored as a reasoning block right before
that part, and written back into it while the tool loop runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from contextinfinity.domain.message import (
    ContentBlock,
    ImageBlock,
    Json,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)
from contextinfinity.domain.prompt import Abilities, Prompt, ProviderRequest, RequestOptions, ToolSpec
from contextinfinity.providers import request_options, wire_values
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
from contextinfinity.providers.tool_results import paired, with_safe_ids

PROVIDER = "gemini"
SIGNATURE = "thoughtSignature"
NO_SIGNATURE = "skip_thought_signature_validator"
"""Google's documented placeholder for calls of other models: a signature is required, and they have none."""
GO_ON = "[go on]"
BEGINNING = "[the conversation begins here]"
UNSHOWN_IMAGES = frozenset({"image/gif"})
"""Media types that other vendors accept and Gemini does not."""
OWN_PARTS = frozenset({"executableCode", "codeExecutionResult", "toolCall", "toolResponse"})
"""Parts of an answer that Gemini accepts back unchanged."""

GENERATION = frozenset(
    [
        "temperature",
        "topP",
        "topK",
        "stopSequences",
        "seed",
        "presencePenalty",
        "frequencyPenalty",
        "maxOutputTokens",
        "thinkingConfig",
        "responseLogprobs",
        "logprobs",
        "responseModalities",
        "mediaResolution",
        "speechConfig",
    ]
)
"""Options that belong in ``generationConfig``; they may be given with or without it."""
CONFIG_RULES = request_options.Rules(
    vendor=PROVIDER,
    limits=("maxOutputTokens",),
    owned={
        "candidateCount": "exactly one answer is requested",
        "responseJsonSchema": "the engine sets the response format",
        "responseSchema": "the engine sets the response format",
    },
)
RULES = request_options.Rules(
    vendor=PROVIDER,
    limits=(),
    owned={
        **request_options.OWNED,
        "contents": request_options.OWNED["messages"],
        "systemInstruction": request_options.OWNED["messages"],
        "cachedContent": "it makes the answer depend on state that the provider stores",
    },
)


def body(request: ProviderRequest, abilities: Abilities, provider_tools: tuple[Json, ...]) -> dict[str, Json]:
    """Write the whole request; raise ``ProviderError`` for options that cannot be followed."""
    prompt = request.prompt
    given = request_options.table_of(request.options, PROVIDER)
    given_config = {**wire_values.dict_of(given.pop("generationConfig", None))}
    given_config |= {key: given.pop(key) for key in [*given] if key in GENERATION}
    config: dict[str, Json] = {"maxOutputTokens": wire_values.bounded_output(request, abilities)}
    if prompt.response_format is not None:
        config |= {"responseMimeType": "application/json", "responseJsonSchema": prompt.response_format}
    tools = [*_tools(prompt.tools if abilities.tools else ()), *provider_tools]
    system = [{"text": text} for text in prompt.system if text.strip()]
    written: dict[str, Json] = {
        **({"systemInstruction": {"parts": system}} if system else {}),
        "contents": _contents(prompt, abilities),
        **({"tools": tools} if tools else {}),
        "generationConfig": request_options.with_options(config, given_config, CONFIG_RULES),
    }
    return request_options.with_options(written, given, RULES, () if tools else ("toolConfig",))


def _tools(specs: tuple[ToolSpec, ...]) -> list[Json]:
    declared = [{"name": spec.name, "description": spec.description, **_parameters(spec.parameters)} for spec in specs]
    return [{"functionDeclarations": declared}] if declared else []


def _parameters(schema: Json) -> dict[str, Json]:
    """Return a schema; Gemini requires that one without properties is omitted."""
    return {"parametersJsonSchema": schema} if wire_values.dict_of(schema).get("properties") else {}


def _contents(prompt: Prompt, abilities: Abilities) -> list[Json]:
    named = with_safe_ids(prompt.messages, pattern=wire_values.CALL_ID_PATTERN, longest=wire_values.LONGEST_CALL_ID)
    messages = [each.message for each in paired(named)]
    running = wire_values.loop_start(messages)
    names: dict[str, str] = {}
    contents: list[dict[str, Json]] = []
    for place, message in enumerate(messages):
        if message.role == "assistant":
            _append(contents, "model", list(_answer(message, abilities, names, running=place >= running)))
        else:
            _append(contents, "user", list(_message_parts(message, abilities, names)))
    if not contents or contents[-1]["role"] == "model":
        _append(contents, "user", [{"text": GO_ON}])
    if contents[0]["role"] == "model":
        contents.insert(0, {"role": "user", "parts": [{"text": BEGINNING}]})
    return [{**content, "parts": _results_first(content["parts"])} for content in contents]


def _append(contents: list[dict[str, Json]], role: str, parts: list[Json]) -> None:
    if contents and contents[-1]["role"] == role:
        contents[-1]["parts"] += parts
    elif parts:
        contents.append({"role": role, "parts": parts})


def _results_first(parts: list[Json]) -> list[Json]:
    return sorted(parts, key=lambda part: "functionResponse" not in part)


def _message_parts(message: Message, abilities: Abilities, names: Mapping[str, str]) -> Iterator[Json]:
    for block in message.blocks:
        if isinstance(block, ToolResultBlock):
            yield from _result(block, abilities, names)
        else:
            yield from _parts((block,), abilities)


def _result(block: ToolResultBlock, abilities: Abilities, names: Mapping[str, str]) -> Iterator[Json]:
    """Yield a tool result: its text in the response, its images after it."""
    parts = list(_parts(block.content, abilities))
    text = "".join(part["text"] for part in parts if "text" in part)
    response = {"error" if block.is_error else "output": text}
    name = names.get(block.tool_use_id, wire_values.safe_name(""))
    yield {"functionResponse": {"id": block.tool_use_id, "name": name, "response": response}}
    yield from (part for part in parts if "text" not in part)


def _parts(blocks: Iterable[ContentBlock], abilities: Abilities) -> Iterator[dict[str, Json]]:
    for block in blocks:
        if isinstance(block, TextBlock):
            if block.text:
                yield {"text": block.text}
        elif isinstance(block, ImageBlock):
            yield _image(block, abilities)
        elif isinstance(block, ToolResultBlock):
            yield from _parts(block.content, abilities)
        elif isinstance(block, UnknownBlock):
            yield _file(block, abilities)


def _image(block: ImageBlock, abilities: Abilities) -> dict[str, Json]:
    found = wire_values.picture(block, abilities)
    if found is None or found.get("media_type") in UNSHOWN_IMAGES:
        return {"text": wire_values.IMAGE_NOTE}
    if "url" in found:
        return {"fileData": {"mimeType": block.media_type, "fileUri": found["url"]}}
    return {"inlineData": {"mimeType": found["media_type"], "data": found["data"]}}


def _file(block: UnknownBlock, abilities: Abilities) -> dict[str, Json]:
    document = wire_values.readable_file(block, abilities)
    if document is None:
        return {"text": wire_values.UNKNOWN_NOTE}
    if (text := wire_values.file_text(document)) is not None:
        return {"text": text}
    if document.url:
        return {"fileData": {"mimeType": document.media_type, "fileUri": document.url}}
    return {"inlineData": {"mimeType": document.media_type, "data": document.data}}


def _answer(message: Message, abilities: Abilities, names: dict[str, str], *, running: bool) -> Iterator[Json]:
    """Yield the parts of an answer. In a running tool loop its first call needs a signature if the model signs."""
    needs_signature = running and abilities.guidance.thinking == "adaptive"
    signature = ""
    for block in message.blocks:
        if isinstance(block, ReasoningBlock):
            signature = wire_values.text_of(wire_values.dict_of(block.raw).get(SIGNATURE)) or signature
            continue
        part = _answered(block, names, running=running)
        if part is None:
            continue
        if "functionCall" in part:
            signature = signature or (NO_SIGNATURE if needs_signature else "")
            needs_signature = False
        yield {**part, SIGNATURE: signature} if signature else part
        signature = ""
    if signature:
        yield {"text": "", SIGNATURE: signature}


def _answered(block: ContentBlock, names: dict[str, str], *, running: bool) -> dict[str, Json] | None:
    if isinstance(block, TextBlock):
        return {"text": block.text} if block.text else None
    if isinstance(block, ImageBlock):
        return {"text": wire_values.IMAGE_NOTE}
    if isinstance(block, ToolUseBlock):
        names[block.tool_use_id] = _name(block.name)
        arguments = wire_values.arguments_object(block.input)
        return {"functionCall": {"id": block.tool_use_id, "name": names[block.tool_use_id], "args": arguments}}
    if isinstance(block, UnknownBlock) and running and block.provider == PROVIDER:
        raw = wire_values.dict_of(block.raw)
        return raw if not OWN_PARTS.isdisjoint(raw) else None
    return None


def _name(name: str) -> str:
    """Make a tool name start with a letter or underscore, as Gemini requires."""
    safe = wire_values.safe_name(name)
    return safe if re.match(r"[A-Za-z_]", safe) else f"_{safe}"[: wire_values.LONGEST_NAME]


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
