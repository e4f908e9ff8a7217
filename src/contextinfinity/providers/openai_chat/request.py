"""Write a request as the body of POST /chat/completions.

System texts come first, then messages in order. A server that accepts a single system message gets the texts joined. A
model without tool support gets earlier calls and results as text, so that a conversation can move to it.

The request options are those of chat completions, and of llama.cpp's variant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from msgspec import Struct

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
from contextinfinity.domain.sent_form import CHAT, JSON_OBJECT, PARALLEL, all_in_form
from contextinfinity.providers import request_options, wire_values
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
from contextinfinity.providers.tool_results import paired, with_safe_ids

PERPLEXITY = "perplexity"
LIMITS = ("max_tokens", "max_completion_tokens")
OWNED = {
    **request_options.OWNED,
    "functions": request_options.OWNED["tools"],
    "function_call": request_options.OWNED["tools"],
    "parallel_tool_calls": "use tools.allow_parallel or openai.parallel_tool_calls",
    "n": "exactly one answer is requested",
}
SEARCH = {"web_search_options": "it enables the provider's web search; use provider_tools"}
"""Perplexity is exempt: it always searches, and this option configures it."""
OF_TOOLS = ("tool_choice", "parallel_tool_calls")
"""Options that are rejected if no tools are offered."""

TOOL_KEYS = frozenset({"tools", "functions", "function_call", *OF_TOOLS})
"""Parameters that are not sent to a model without tool support."""
CALL_IDS = (
    (re.compile(r"mi[sx]tral|ministral|magistral|devstral|codestral|pixtral"), r"[A-Za-z0-9]{9}", 9),
    (re.compile(""), wire_values.CALL_ID_PATTERN, wire_values.LONGEST_CALL_ID),
)
"""By a pattern of the model id: the call ids it accepts, and their maximum length."""

CALL_EXTRA = "tool_call_extra"
"""The key of unknown fields of a call; they are stored right before it, for the server that sent them."""
REASONING_KEYS = ("reasoning_content", "reasoning", "reasoning_details")
"""The fields in which servers return the model's reasoning."""

PARTS_OF_A_USER = frozenset({"input_audio", "file", "video_url"})
CONTINUED = "[the conversation goes on]"
BETWEEN = "\n\n"
RESULT_IMAGES = "[images in the tool results above]"
IMAGE_BELOW = "[an image, shown below]"


class ChatRequestSettings(Struct, frozen=True, kw_only=True):
    """Settings that apply to every request."""

    vendor: str
    parallel_tools: bool
    provider_tools: tuple[Json, ...]
    max_tokens_name: str
    stream_usage: bool
    text_separator: str
    result_images: bool


def body(request: ProviderRequest, abilities: Abilities, how: ChatRequestSettings) -> dict[str, Json]:
    """Write the body of a request; raise ``ProviderError`` for options that cannot be followed."""
    if (sent := wire_values.sent_to(request, CHAT)) is not None:
        passed = _as_sent(request, how, sent)
        return passed if abilities.tools else {key: each for key, each in passed.items() if key not in TOOL_KEYS}
    prompt = request.prompt
    writer = _Writer(request.model_id, abilities, how)
    tools = ([_tool(tool) for tool in prompt.tools] if writer.tools else []) + list(how.provider_tools)
    written: dict[str, Json] = {
        "model": request.model_id,
        "messages": writer.messages(prompt),
        "stream": True,
        how.max_tokens_name: wire_values.bounded_output(request, abilities),
    }
    if how.stream_usage:
        written["stream_options"] = {"include_usage": True}
    if tools:
        several = how.parallel_tools or wire_values.client_accepts(prompt, PARALLEL)
        written |= {"tools": tools, "parallel_tool_calls": several}
    if prompt.response_format is not None:
        written["response_format"] = _format(prompt)
    owned = OWNED if how.vendor == PERPLEXITY else OWNED | SEARCH
    rules = request_options.Rules(vendor=how.vendor, limits=LIMITS, owned=owned, may_forbid=("parallel_tool_calls",))
    return request_options.with_options(written, request.options, rules, () if tools else OF_TOOLS)


def _as_sent(request: ProviderRequest, how: ChatRequestSettings, sent: dict[str, Json]) -> dict[str, Json]:
    """Write the client's own messages, tools and parameters, plus the texts that we add."""
    prompt, params = request.prompt, wire_values.dict_of(sent.get("params"))
    limit = next((name for name in reversed(LIMITS) if params.get(name) is not None), None)
    added = [_say("system", text) for text in prompt.system[1:]]
    tools = prompt.sent.get("tools")
    return {
        **wire_values.configured(request),
        **params,
        **({} if limit is None else {limit: request.max_output_tokens}),
        **({"tools": tools} if tools else {}),
        "model": request.model_id,
        "messages": [*prompt.sent.get("system", ()), *added, *all_in_form(CHAT, prompt.messages)],
        "stream": True,
        **({"stream_options": {"include_usage": True}} if how.stream_usage else {}),
    }


def _tool(tool: ToolSpec) -> Json:
    fields = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": fields}


def _format(prompt: Prompt) -> Json:
    if wire_values.client_accepts(prompt, JSON_OBJECT):
        return {"type": "json_object"}
    schema = prompt.response_format
    strict = wire_values.can_be_strict(schema)
    return {"type": "json_schema", "json_schema": {"name": wire_values.FORMAT_NAME, "schema": schema, "strict": strict}}


class _Writer:
    def __init__(self, model_id: str, abilities: Abilities, how: ChatRequestSettings) -> None:
        self._model_id = model_id.lower()
        self._abilities = abilities
        self._vendor = how.vendor
        self._separator = how.text_separator
        self._result_images = how.result_images and abilities.images
        self._alternate = how.vendor == PERPLEXITY
        self._late_system = "user" if abilities.one_system or self._alternate else "system"
        self._names: dict[str, str] = {}
        self.tools = abilities.tools and not self._alternate

    def messages(self, prompt: Prompt) -> list[Json]:
        """Write all messages of a prompt."""
        pattern, longest = next((rule, most) for model, rule, most in CALL_IDS if model.search(self._model_id))
        said = [each.message for each in paired(with_safe_ids(prompt.messages, pattern=pattern, longest=longest))]
        running = wire_values.loop_start(said)
        first = next((place for place, message in enumerate(said) if message.role != "system"), len(said))
        system = [*prompt.system, *(message.rendered_text for message in said[:first])]
        if self._abilities.one_system and system:
            system = [BETWEEN.join(system)]
        placed = enumerate(said[first:], first)
        written = [message for place, each in placed for message in self._message(each, running=place >= running)]
        return [_say("system", text) for text in system] + (_alternating(written) if self._alternate else written)

    def _message(self, message: Message, *, running: bool) -> Iterator[dict[str, Json]]:
        if message.role == "system":
            yield _say(self._late_system, message.rendered_text)
        elif message.role == "assistant":
            yield from self._answer(message, running=running)
        elif message.role == "tool":
            results = [block for block in message.blocks if isinstance(block, ToolResultBlock)]
            yield from map(self._result, results)
            pictures = [one for result in results for one in result.content if isinstance(one, ImageBlock)]
            if pictures and self._result_images:
                yield _say("user", [{"type": "text", "text": RESULT_IMAGES}, *self._parts(pictures)])
        else:
            parts = list(self._parts(message.blocks))
            if parts:
                yield _say("user", self._plain(parts))

    def _answer(self, message: Message, *, running: bool) -> Iterator[dict[str, Json]]:
        calls = list(self._calls(message, running=running))
        texts = list(self._texts(message.blocks))
        written = _say("assistant", self._joined(texts) or None)
        if calls and self.tools:
            written["tool_calls"] = calls
        if not texts and "tool_calls" not in written:
            return
        for block in message.blocks:
            if isinstance(block, ReasoningBlock):
                written |= _reasoning(block.raw)
        yield written

    def _calls(self, message: Message, *, running: bool) -> Iterator[Json]:
        """Yield calls, with their server's extra fields while the tool loop runs."""
        extra: dict[str, Json] = {}
        for block in message.blocks:
            if isinstance(block, UnknownBlock) and block.provider == self._vendor and running:
                extra = wire_values.dict_of(wire_values.dict_of(block.raw).get(CALL_EXTRA))
            elif isinstance(block, ToolUseBlock):
                self._names[block.tool_use_id] = block.name
                yield _call(block, extra)
                extra = {}

    def _texts(self, blocks: Iterable[ContentBlock]) -> Iterator[str]:
        """Yield the separate texts of an answer: annotated blocks are joined with the text around them."""
        written, is_piece = "", False
        for block in blocks:
            words = self._words(block)
            if not words:
                continue
            annotated = isinstance(block, TextBlock) and bool(block.annotations)
            if written and not (annotated or is_piece):
                yield written
                written = ""
            written, is_piece = written + words, annotated
        if written:
            yield written

    def _joined(self, texts: Sequence[str]) -> str:
        """Join separate texts; no separator is added if there is white space already."""
        pieces = list(texts[:1])
        for before, text in pairwise(texts):
            pieces += ("", text) if before[-1].isspace() or text[0].isspace() else (self._separator, text)
        return "".join(pieces)

    def _plain(self, parts: list[dict[str, Json]]) -> Json:
        """Return text-only content as a string: many servers accept nothing else."""
        if all(part["type"] == "text" for part in parts):
            return self._joined([part["text"] for part in parts])
        return parts

    def _words(self, block: ContentBlock) -> str:
        if isinstance(block, TextBlock):
            return block.text
        if isinstance(block, ToolUseBlock) and not self.tools:
            return f"[called {block.name} with {wire_values.arguments_text(block.input)}]"
        return wire_values.IMAGE_NOTE if isinstance(block, ImageBlock) else ""

    def _result(self, result: ToolResultBlock) -> dict[str, Json]:
        text = (wire_values.ERROR_MARK if result.is_error else "") + self._joined(
            list(filter(None, _texts(result.content, IMAGE_BELOW if self._result_images else wire_values.IMAGE_NOTE)))
        )
        if self.tools:
            return {"role": "tool", "tool_call_id": result.tool_use_id, "content": text}
        return _say("user", f"[{self._names.get(result.tool_use_id, 'the tool')} gave back] {text}")

    def _parts(self, blocks: Iterable[ContentBlock]) -> Iterator[dict[str, Json]]:
        for block in blocks:
            if isinstance(block, TextBlock):
                if block.text:
                    yield {"type": "text", "text": block.text}
            elif isinstance(block, ImageBlock):
                url = wire_values.image_url(block, self._abilities)
                yield (
                    {"type": "text", "text": wire_values.IMAGE_NOTE}
                    if url is None
                    else {"type": "image_url", "image_url": {"url": url}}
                )
            elif isinstance(block, UnknownBlock):
                own = wire_values.is_own(block, self._vendor, PARTS_OF_A_USER)
                yield wire_values.without_nulls(block.raw) if own else _file(block, self._abilities)


def _file(block: UnknownBlock, abilities: Abilities) -> dict[str, Json]:
    """Return a file of any vendor's client, or a note; this API accepts no URLs of files."""
    document = wire_values.readable_file(block, abilities, urls=False)
    if document is None:
        return {"type": "text", "text": wire_values.UNKNOWN_NOTE}
    text = wire_values.file_text(document)
    return (
        {"type": "file", "file": wire_values.named_file(document)} if text is None else {"type": "text", "text": text}
    )


def _say(role: str, content: Json) -> dict[str, Json]:
    return {"role": role, "content": content}


def _call(call: ToolUseBlock, extra: dict[str, Json]) -> Json:
    fields = {"name": wire_values.safe_name(call.name), "arguments": wire_values.arguments_text(call.input)}
    fields = {**wire_values.dict_of(extra.get("function")), **fields}
    return {**extra, "id": call.tool_use_id, "type": "function", "function": fields}


def _texts(blocks: Iterable[ContentBlock], image: str) -> Iterator[str]:
    """Yield the texts of a tool result; this API accepts no images and files in results, so a note replaces each."""
    for block in blocks:
        if isinstance(block, TextBlock):
            yield block.text
        elif isinstance(block, ImageBlock):
            yield image
        elif isinstance(block, ToolResultBlock):
            yield from _texts(block.content, image)
        elif isinstance(block, UnknownBlock):
            document = wire_values.readable_file(block, wire_values.NO_FILES)
            yield wire_values.UNKNOWN_NOTE if document is None else wire_values.file_text(document) or ""


def _reasoning(raw: Json) -> dict[str, Json]:
    fields = wire_values.dict_of(raw)
    return {} if "type" in fields else {key: fields[key] for key in REASONING_KEYS if fields.get(key)}


def _alternating(messages: list[dict[str, Json]]) -> list[dict[str, Json]]:
    """Make user and assistant messages alternate, starting with the user."""
    out: list[dict[str, Json]] = []
    for message in messages:
        if out and out[-1]["role"] == message["role"]:
            out[-1] = {**out[-1], "content": _joined(out[-1]["content"], message["content"])}
        else:
            out.append(message)
    return [_say("user", CONTINUED), *out] if out and out[0]["role"] == "assistant" else out


def _joined(first: Json, second: Json) -> Json:
    if isinstance(first, str) and isinstance(second, str):
        return first + BETWEEN + second
    return [*_listed(first), *_listed(second)]


def _listed(content: Json) -> list[Json]:
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


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
