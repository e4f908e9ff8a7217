"""The rules that the Gemini API holds requests to, as its documentation and its error messages state them."""

from __future__ import annotations

import base64
import re
from collections.abc import Collection
from typing import Any

from contextinfinity.domain.message import Json
from contextinfinity_testing.vendors.wire import Refused, is_base64

FIELDS = frozenset(
    {
        *("contents", "systemInstruction", "tools", "toolConfig", "safetySettings", "generationConfig"),
        *("cachedContent", "labels", "serviceTier"),
    }
)
CONFIG = {
    **dict.fromkeys(("temperature", "topP", "presencePenalty", "frequencyPenalty"), (int, float)),
    **dict.fromkeys(("topK", "seed", "candidateCount", "maxOutputTokens", "logprobs"), (int,)),
    **dict.fromkeys(("stopSequences", "responseModalities"), (list,)),
    **dict.fromkeys(("thinkingConfig", "speechConfig", "responseSchema", "responseJsonSchema"), (dict,)),
    **dict.fromkeys(("responseMimeType", "mediaResolution"), (str,)),
    "responseLogprobs": (bool,),
}
KINDS = frozenset(
    {
        *("text", "inlineData", "fileData", "functionCall", "functionResponse"),
        *("executableCode", "codeExecutionResult", "toolCall", "toolResponse"),
    }
)
BESIDE = frozenset({"thought", "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata"})
FILES = frozenset({"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif", "application/pdf"})
TOOLS = frozenset({"functionDeclarations", "googleSearch", "codeExecution", "urlContext", "googleMaps", "fileSearch"})
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}")
MODES = frozenset({"AUTO", "ANY", "NONE", "VALIDATED"})
LEVELS = frozenset({"minimal", "low", "medium", "high"})
SKIPPED = frozenset({"skip_thought_signature_validator", "context_engineering_is_the_way_to_go"})
MOST_STOPS = 5


def gemini_error(code: int, status: str, message: str, details: Collection[Json] = ()) -> Json:
    """Return an error in Google's JSON."""
    told = {"code": code, "message": message, "status": status}
    return {"error": {**told, "details": [*details]} if details else told}


def check(body: Json, model: str = "") -> None:
    """Raise ``Refused`` where a request breaks a rule; ``model`` decides which signatures are required."""
    _known(body, FIELDS, "")
    contents = body.get("contents")
    if not isinstance(contents, list) or not contents:
        raise _bad("contents is not specified")
    for place, content in enumerate(contents):
        _content(content, f"contents[{place}]")
    if "systemInstruction" in body:
        _parts_of(body["systemInstruction"], "system_instruction", {"text"})
    _turns(contents)
    if re.match(r"gemini-([3-9]|\d\d)", model):
        _signed(contents)
    names = _tools(body.get("tools", []))
    _tool_config(body.get("toolConfig"), names)
    _config(body.get("generationConfig", {}))


def _bad(message: str) -> Refused:
    return Refused(400, gemini_error(400, "INVALID_ARGUMENT", message))


def _known(told: Json, known: Collection[str], where: str) -> None:
    if not isinstance(told, dict):
        raise _bad(f"Invalid JSON payload received. {where or 'Root element'} must be a message.")
    for key in told:
        if key not in known:
            place = f" at '{where}'" if where else ""
            raise _bad(f'Invalid JSON payload received. Unknown name "{key}"{place}: Cannot find field.')


def _content(content: Json, where: str) -> None:
    _known(content, {"role", "parts"}, where)
    if content.get("role") not in ("user", "model"):
        raise _bad(f"{where}.role has to be user or model.")
    _parts_of(content, where, KINDS)


def _parts_of(content: Json, where: str, kinds: Collection[str]) -> None:
    parts = content.get("parts")
    if not isinstance(parts, list) or not parts:
        raise _bad(f"{where}.parts must not be empty.")
    for place, part in enumerate(parts):
        _part(part, f"{where}.parts[{place}]", kinds)


def _part(part: Json, where: str, kinds: Collection[str]) -> None:
    _known(part, KINDS | BESIDE, where)
    held = KINDS & part.keys()
    if len(held) != 1 or not held <= set(kinds):
        raise _bad(
            f"* GenerateContentRequest.{where}.data: required oneof field 'data' must have one initialized field"
        )
    (kind,) = held
    if "thoughtSignature" in part and not _is_bytes(part["thoughtSignature"]):
        raise _bad(f"Invalid value at '{where}.thought_signature' (TYPE_BYTES), Base64 decoding failed")
    value = part[kind]
    if kind == "text":
        if not isinstance(value, str):
            raise _bad(f"Invalid value at '{where}.text' (TYPE_STRING)")
        return
    _known(value, _INSIDE.get(kind, value), f"{where}.{kind}")
    if kind == "inlineData" and not (value.get("mimeType") in FILES and is_base64(value.get("data"))):
        raise _bad(f"Unsupported MIME type: {value.get('mimeType')}")
    if kind == "fileData" and not str(value.get("fileUri", "")).startswith("http"):
        raise _bad(f"Invalid or unsupported file uri: {value.get('fileUri')}")
    if kind in ("functionCall", "functionResponse"):
        inner = value.get("args" if kind == "functionCall" else "response", {})
        if not NAME.fullmatch(str(value.get("name"))):
            raise _bad(f"{where}.{kind}.name: invalid function name.")
        if not isinstance(inner, dict):
            raise _bad(f"Invalid value at '{where}.{kind}' (type.googleapis.com/google.protobuf.Struct)")


_INSIDE: dict[str, Collection[str]] = {
    "inlineData": ("mimeType", "data"),
    "fileData": ("mimeType", "fileUri"),
    "functionCall": ("id", "name", "args"),
    "functionResponse": ("id", "name", "response", "parts", "willContinue", "scheduling"),
}


def _is_bytes(text: Json) -> bool:
    try:
        return isinstance(text, str) and bool(base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True))
    except ValueError:
        return False


def _turns(contents: list[Any]) -> None:
    """Check the order of calls and results: results follow in the next content, one for each call."""
    before: Json = None
    for content in contents:
        calls, results = _named(content, "functionCall"), _named(content, "functionResponse")
        if before is not None and content["role"] == before["role"]:
            raise _bad("contents have to alternate between user and model.")
        if calls and (content["role"] != "model" or before is None):
            raise _bad("a functionCall has to be in a model content right after a user content.")
        asked = _named(before, "functionCall") if before is not None else []
        if results and not asked:
            raise _bad("a functionResponse has to be right after the content with its functionCall.")
        if sorted(_keys(asked)) != sorted(_keys(results)):
            raise _bad("every functionCall needs one functionResponse in the next content.")
        before = content
    if contents[0]["role"] != "user" or before["role"] != "user":
        raise _bad("contents have to begin and end with user.")
    if _named(before, "functionCall"):
        raise _bad("a functionCall has to be followed by its functionResponse.")


def _named(content: Json, kind: str) -> list[Any]:
    return [part[kind] for part in content["parts"] if kind in part]


def _keys(calls: list[Any]) -> list[tuple[str, str]]:
    return [(call["name"], call.get("id", "")) for call in calls]


def _signed(contents: list[Any]) -> None:
    """Require the signature of the first call of every answer since the last user message."""
    spoken = [i for i, content in enumerate(contents) if content["role"] == "user" and _says(content)]
    for place, content in enumerate(contents[max(spoken, default=-1) + 1 :], max(spoken, default=-1) + 1):
        calls = [part for part in content["parts"] if "functionCall" in part]
        if calls and "thoughtSignature" not in calls[0]:
            name = calls[0]["functionCall"]["name"]
            raise _bad(f"the functionCall {name} in contents[{place}] is missing a thought_signature.")


def _says(content: Json) -> bool:
    return any("functionResponse" not in part for part in content["parts"])


def _tools(tools: Json) -> set[str]:
    names: list[str] = []
    for place, tool in enumerate(tools):
        _known(tool, TOOLS, f"tools[{place}]")
        for declared in tool.get("functionDeclarations", []):
            known = {"name", "description", "parameters", "parametersJsonSchema", "response", "behavior"}
            _known(declared, known, f"tools[{place}].function_declarations")
            names.append(str(declared.get("name")))
            if not NAME.fullmatch(names[-1]):
                raise _bad(f"tools[{place}]: {names[-1]} is no valid function name.")
            if "parameters" in declared and "parametersJsonSchema" in declared:
                raise _bad("parameters and parameters_json_schema are mutually exclusive.")
    if len(set(names)) < len(names):
        raise _bad("Duplicate function declaration found.")
    return set(names)


def _tool_config(config: Json, names: set[str]) -> None:
    if config is None:
        return
    _known(config, {"functionCallingConfig", "retrievalConfig"}, "tool_config")
    calling = config.get("functionCallingConfig", {})
    _known(calling, {"mode", "allowedFunctionNames"}, "tool_config.function_calling_config")
    if calling.get("mode", "AUTO") not in MODES:
        raise _bad(f"Invalid value at 'tool_config.function_calling_config.mode': {calling.get('mode')}")
    if not names or not names >= {*calling.get("allowedFunctionNames", [])}:
        raise _bad("Function calling config is set without function_declarations.")


def _config(config: Json) -> None:
    _known(config, CONFIG, "generation_config")
    for key, value in config.items():
        if not isinstance(value, CONFIG[key]) or (isinstance(value, bool) and bool not in CONFIG[key]):
            raise _bad(f"Invalid value at 'generation_config.{key}': {value!r}")
    if config.get("maxOutputTokens", 1) < 1:
        raise _bad("max_output_tokens must be positive.")
    if len(config.get("stopSequences", [])) > MOST_STOPS:
        raise _bad("stop_sequences must have at most 5 entries.")
    if "responseJsonSchema" in config and config.get("responseMimeType") != "application/json":
        raise _bad("response_json_schema requires response_mime_type application/json.")
    thinking = config.get("thinkingConfig", {})
    _known(thinking, {"includeThoughts", "thinkingBudget", "thinkingLevel"}, "generation_config.thinking_config")
    if {"thinkingBudget", "thinkingLevel"} <= thinking.keys():
        raise _bad("thinking_budget and thinking_level exclude each other.")
    if str(thinking.get("thinkingLevel", "low")).lower() not in LEVELS:
        raise _bad(f"Invalid thinking level: {thinking.get('thinkingLevel')}")
