"""Random requests reach a model of the client's own API key by key as they were sent, and so do the ones that follow.

What is compared is everything but what the engine has to decide: the model's id, that the answer is streamed, and what
names a place here instead of at the vendor (``previous_response_id``, ``conversation``).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, TypeAlias
from uuid import uuid4

import pytest

from contextinfinity_testing.vendors import Answer, Call, Trouble
from contextinfinity_testing.vendors.wire import sign
from tests.doors.v1.upstream import Aside, Desk
from tests.sizes import sized

pytestmark = [pytest.mark.req("API-7", "API-12"), pytest.mark.xdist_group("v1")]

Json: TypeAlias = Any

OURS = {"model", "stream", "stream_options"}
TRIES = sized(15, 2000)
SEED = 20261118
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
PDF = base64.b64encode(b"%PDF-1.4 not much of a file").decode()
BETAS = {"anthropic-beta": "interleaved-thinking-2025-05-14,context-management-2025-06-27"}
MARK = {"cache_control": {"type": "ephemeral"}}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
SAID = [
    "How long is it?",
    " two  spaces ",
    "# Ein Titel\n\n* eins",
    "東京はどこ?",
    '{"city": "Rome"}',
    "😀 e\u0301",
    "0",
]
TEXTS = [*SAID, "\n"]
MORE: list[Json] = [{}, {}, {"future_field": {"a": [1, None, "x"]}}, {"future_text": "How long is it?"}]


@pytest.fixture(scope="module")
def desk(all_vendors: Aside, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A server of its own: what the models report of these requests calibrates how tokens are counted."""
    made = Desk(tmp_path_factory.mktemp("same"), all_vendors)
    yield made
    made.server.stop()


def pick(rng: Random, *choices: Json) -> Json:
    """Return one of several values."""
    return rng.choice(choices)


def some(rng: Random, choices: dict[str, list[Any]]) -> dict[str, Any]:
    """Draw some of the parameters, each with one of its values."""
    return {name: rng.choice(choices[name]) for name in rng.sample(sorted(choices), rng.randint(0, 5))}


def several(rng: Random, make: Callable[[Random], Any], most: int = 3) -> list[Any]:
    """Draw a few values."""
    return [make(rng) for _ in range(rng.randint(1, most))]


# --- chat completions ---

CHAT_OPTIONS: dict[str, list[Any]] = {
    "temperature": [0, 0.7, None],
    "max_tokens": [500, None],
    "max_completion_tokens": [600],
    "response_format": [{"type": "text"}, {"type": "json_object"}],
    "parallel_tool_calls": [True, False],
    "tool_choice": ["auto", "none"],
    "seed": [7],
    "logit_bias": [{"50256": -100}, {}],
    "stop": ["END", ["END", "\n\n"], None],
    "user": [""],
    "metadata": [{"trip": "7"}, {}],
    "store": [True, False],
    "service_tier": ["auto", "flex"],
    "reasoning_effort": ["low"],
    "verbosity": ["low"],
    "future_option": [{"a": [1, {"b": None}]}],
}


def chat_text(rng: Random) -> Json:
    parts = [{"type": "text", "text": rng.choice(TEXTS), **rng.choice(MORE)} for _ in range(rng.randint(1, 2))]
    return rng.choice([rng.choice(TEXTS), parts])


def chat_user(rng: Random) -> list[Json]:
    picture = {"url": rng.choice(["https://example.org/a.png", f"data:image/png;base64,{PNG}"])}
    detail = rng.choice([{}, {"detail": "low"}, {"detail": "auto"}])
    parts = [
        {"type": "text", "text": rng.choice(TEXTS), **rng.choice(MORE)},
        {"type": "image_url", "image_url": {**picture, **detail}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}},
        {"type": "file", "file": {"file_id": "file-1"}},
        {"type": "input_audio", "input_audio": {"data": PNG, "format": "wav"}},
    ]
    content = rng.choice([rng.choice(TEXTS), "", rng.sample(parts, rng.randint(1, 3))])
    return [{"role": "user", "content": content, **pick(rng, {}, {"name": "Ann"}), **rng.choice(MORE)}]


def chat_answer(rng: Random) -> list[Json]:
    content = rng.choice([rng.choice(TEXTS), "", [{"type": "text", "text": rng.choice(TEXTS)}]])
    extra: Json = rng.choice([{}, {"refusal": None, "annotations": [], "audio": None}, {"reasoning_content": "Hm."}])
    refused = {"role": "assistant", "content": None, "refusal": "I cannot."}
    return [rng.choice([{"role": "assistant", "content": content, **extra}, refused])]


def chat_round(rng: Random) -> list[Json]:
    calls, results = [], []
    for number in range(rng.randint(1, 3)):
        written = rng.choice(['{"city": "Rome"}', '{"city":"Oslo"}', "{}", '{ "n" : 1.0 }'])
        call_id = f"call_{uuid4().hex[:8]}_{number}"
        calls.append({"id": call_id, "type": "function", "function": {"name": "weather", "arguments": written}})
        result = {"role": "tool", "tool_call_id": call_id, "content": chat_text(rng)}
        results.append(rng.choice([result, {**result, "name": "weather"}]))
    content = rng.choice([None, "", "Let me see."])
    results = rng.sample(results, len(results))
    return [{"role": "assistant", "content": content, "tool_calls": calls, **rng.choice(MORE)}, *results]


def chat_told(rng: Random) -> list[Json]:
    return [{"role": rng.choice(["system", "developer"]), "content": chat_text(rng)}]


def chat(rng: Random) -> Json:
    kinds = (chat_user, chat_answer, chat_round, chat_told)
    rest = [message for kind in rng.choices(kinds, k=rng.randint(1, 6)) for message in kind(rng)]
    first = [] if rng.random() < 0.5 else chat_told(rng)
    user = {"role": "user", "content": f"{rng.choice(SAID)} {uuid4()}"}
    tools = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA, **rng.choice(MORE)}}]
    return {"messages": [*first, *rest, user], "tools": tools, **some(rng, CHAT_OPTIONS), **rng.choice(MORE)}


# --- Anthropic's messages ---

MESSAGES_OPTIONS: dict[str, list[Any]] = {
    "stop_sequences": [["END"], []],
    "metadata": [{"user_id": ""}, {}],
    "thinking": [{"type": "adaptive"}, {"type": "disabled"}, {"type": "adaptive", "display": "omitted"}],
    "tool_choice": [{"type": "auto"}, {"type": "auto", "disable_parallel_tool_use": True}, {"type": "none"}],
    "service_tier": ["auto"],
    "system": ["Be brief.", [{"type": "text", "text": "Be brief.", **MARK}, {"type": "text", "text": "Use metres."}]],
    "output_config": [{"effort": "low"}],
    "container": ["box"],
    "future_option": [{"a": [1, {"b": None}]}],
}


def block_text(rng: Random) -> Json:
    return {"type": "text", "text": rng.choice(SAID), **rng.choice(MORE)}


def block_of_user(rng: Random) -> Json:
    image = [
        {"type": "base64", "media_type": "image/png", "data": PNG},
        {"type": "url", "url": "https://example.org/a"},
    ]
    image.append({"type": "file", "file_id": "file_1"})
    document: list[Json] = [
        {"type": "base64", "media_type": "application/pdf", "data": PDF},
        {"type": "text", "media_type": "text/plain", "data": rng.choice(SAID)},
        {"type": "content", "content": [block_text(rng)]},
        {"type": "content", "content": rng.choice(SAID)},
        {"type": "file", "file_id": "file_2"},
    ]
    titled: Json = rng.choice([{}, {"title": "A file", "context": "Old."}, {"citations": {"enabled": True}}])
    found = {"type": "search_result", "source": "https://example.org", "title": "T", "content": [block_text(rng)]}
    blocks = [
        block_text(rng),
        {"type": "image", "source": rng.choice(image)},
        {"type": "document", "source": rng.choice(document), **titled},
        found,
    ]
    return {**rng.choice(blocks), **rng.choice(MORE)}


def said_by_user(rng: Random) -> list[Json]:
    content = rng.choice(SAID) if rng.random() < 0.5 else several(rng, block_of_user)
    return [{"role": "user", "content": content}]


def said_by_assistant(rng: Random) -> list[Json]:
    searched = f"srvtoolu_{uuid4().hex[:8]}"
    hosted = [
        {"type": "server_tool_use", "id": searched, "name": "web_search", "input": {"query": "Rome"}},
        {"type": "web_search_tool_result", "tool_use_id": searched, "content": []},
    ]
    cited = {"citations": [{"type": "char_location", "cited_text": "x", "document_index": 0}]}
    blocks = [{"type": "thinking", "thinking": "Hm.", "signature": sign("Hm.")}, *hosted, block_text(rng)]
    skipped = rng.choice([0, 1, 3])
    blocks = [*blocks[skipped:], {**block_text(rng), **pick(rng, {}, cited)}]
    return [{"role": "assistant", "content": rng.choice(SAID) if rng.random() < 0.5 else blocks}]


def round_of_blocks(rng: Random) -> list[Json]:
    calls, results = [], []
    for number in range(rng.randint(1, 3)):
        call_id = f"toolu_{uuid4().hex[:8]}_{number}"
        calls.append({"type": "tool_use", "id": call_id, "name": "weather", "input": rng.choice([{}, {"n": 1}])})
        content: Json = rng.choice([{}, {"content": rng.choice(SAID)}, {"content": [block_of_user(rng)]}])
        is_error: Json = rng.choice([{}, {"is_error": False}, {"is_error": True}])
        results.append({"type": "tool_result", "tool_use_id": call_id, **content, **is_error})
    redacted = {"type": "redacted_thinking", "data": sign("Hidden.")}
    before = rng.choice([[], [redacted], [block_text(rng)]])
    behind = rng.choice([[], [block_text(rng)]])
    answers = [{"role": "assistant", "content": [*before, *calls]}]
    return [*answers, {"role": "user", "content": [*results, *behind]}]


def messages(rng: Random) -> Json:
    kinds = (said_by_user, said_by_assistant, round_of_blocks)
    rest = [message for kind in rng.choices(kinds, k=rng.randint(1, 6)) for message in kind(rng)]
    first = {"role": "user", "content": f"{rng.choice(SAID)} {uuid4()}"}
    last = {"role": "user", "content": [{**block_text(rng), **MARK}]}
    tools: list[Json] = [{"name": "weather", "input_schema": SCHEMA, **rng.choice(MORE)}]
    tools += rng.choice([[], [{"type": "web_search_20250305", "name": "web_search", "max_uses": 2}]])
    asked = {"max_tokens": 500, "messages": [first, *rest, last], "tools": tools}
    return {**asked, **some(rng, MESSAGES_OPTIONS), **rng.choice(MORE)}


# --- Responses ---

RESPONSES_OPTIONS: dict[str, list[Any]] = {
    "instructions": ["Be brief."],
    "max_output_tokens": [500, None],
    "parallel_tool_calls": [True, False],
    "tool_choice": ["auto", "none", {"type": "function", "name": "weather"}, {"type": "custom", "name": "patch"}],
    "store": [True, False, None],
    "include": [["reasoning.encrypted_content"], ["message.output_text.logprobs"], []],
    "reasoning": [{"effort": "low"}, {"summary": "auto"}, {}],
    "text": [{"verbosity": "low"}, {"format": {"type": "json_object"}}, {"format": {"type": "text"}}],
    "truncation": ["auto", "disabled"],
    "metadata": [{"trip": "7"}, {}],
    "prompt_cache_key": ["mine"],
    "safety_identifier": [""],
    "service_tier": ["flex"],
    "max_tool_calls": [3],
    "top_logprobs": [2],
    "prompt": [{"id": "pmpt_1", "variables": {"city": "Rome"}}],
    "context_management": [[{"type": "compaction", "compact_threshold": 1000}]],
    "future_option": [{"a": [1, {"b": None}]}],
}
CUSTOM = {"type": "custom", "name": "patch", "format": {"type": "grammar", "syntax": "lark", "definition": "start: X"}}
SPACE = {"type": "namespace", "name": "maps", "tools": [{"type": "function", "name": "route", "parameters": SCHEMA}]}


def named(rng: Random, prefix: str) -> dict[str, Json]:
    ids = [{}, {"id": f"{prefix}{uuid4().hex}"}, {"id": f"{prefix}{uuid4().hex}", "status": "completed"}]
    return {**rng.choice(ids), **rng.choice(MORE)}


def part_in(rng: Random) -> Json:
    address = rng.choice(["https://example.org/a.png", f"data:image/png;base64,{PNG}"])
    parts: list[Json] = [
        {"type": "input_text", "text": rng.choice(TEXTS)},
        {"type": "input_text", "text": rng.choice(TEXTS)},
        {"type": "input_image", "image_url": address, "detail": rng.choice(["low", "auto", "original"])},
        {"type": "input_image", "image_url": address},
        {"type": "input_image", "file_id": "file-1", "detail": "high"},
        {"type": "input_file", "file_id": "file-1"},
        {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
        {"type": "input_file", "file_url": "https://example.org/a.pdf"},
    ]
    return {**rng.choice(parts), **rng.choice(MORE)}


def item_of_user(rng: Random) -> list[Json]:
    content = rng.choice([*TEXTS, ""]) if rng.random() < 0.5 else several(rng, part_in)
    kind = rng.choice([{}, {"type": "message"}])
    return [{**kind, "role": "user", "content": content, **named(rng, "msg_")}]


def item_told(rng: Random) -> list[Json]:
    role = rng.choice(["system", "developer"])
    content = rng.choice([rng.choice(TEXTS), [{"type": "input_text", "text": rng.choice(TEXTS)}]])
    return [{"type": "message", "role": role, "content": content, **rng.choice(MORE)}]


def item_of_assistant(rng: Random) -> list[Json]:
    logged: Json = rng.choice([{}, {"logprobs": []}])
    parts: list[Json] = [{"type": "output_text", "text": rng.choice(TEXTS), "annotations": [], **logged}]
    parts += rng.choice([[], [{"type": "refusal", "refusal": "I cannot."}], parts])
    content = rng.choice([rng.choice(TEXTS), parts])
    phase = rng.choice([{}, {"phase": "commentary"}])
    return [{"type": "message", "role": "assistant", "content": content, **phase, **named(rng, "msg_")}]


def item_hosted(rng: Random) -> list[Json]:
    sealed = f"rs_{uuid4().hex}"
    thought = {"type": "reasoning", "id": sealed, "summary": [], "encrypted_content": sign("Hm.", sealed)}
    hosted: list[list[Json]] = [
        [{"type": "web_search_call", "id": f"ws_{uuid4().hex}", "status": "completed", "action": {"type": "search"}}],
        [{"type": "code_interpreter_call", "id": "ci_1", "code": "1", "container_id": "c", "outputs": None}],
        [thought, *item_of_assistant(rng)],
        [
            {
                "type": "local_shell_call",
                "id": "lsh_1",
                "call_id": "c1",
                "action": {"type": "exec"},
                "status": "completed",
            },
            {"type": "local_shell_call_output", "id": "lsh_2", "output": rng.choice(TEXTS)},
        ],
        [
            {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "s", "name": "n", "arguments": "{}"},
            {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
        ],
        [{"type": "compaction", "id": "cmp_1", "encrypted_content": "abc"}],
    ]
    return list(rng.choice(hosted))


def items_of_round(rng: Random) -> list[Json]:
    calls: list[Json] = []
    results: list[Json] = []
    for number in range(rng.randint(1, 3)):
        call_id = f"call_{uuid4().hex[:8]}_{number}"
        arguments = rng.choice(['{"city": "Rome"}', '{"city":"Oslo"}', "{}", '{ "n" : 1.0 }'])
        inside = rng.choice([{"name": "weather"}, {"name": "route", "namespace": "maps"}])
        output = rng.choice(TEXTS) if rng.random() < 0.5 else several(rng, part_in, 2)
        if rng.random() < 0.5:
            call = {"type": "function_call", "call_id": call_id, "arguments": arguments, **inside, **named(rng, "fc_")}
            kind = "function_call_output"
        else:
            call = {"type": "custom_tool_call", "call_id": call_id, "name": "patch", "input": rng.choice(TEXTS)}
            kind = "custom_tool_call_output"
        calls.append(call)
        results.append({"type": kind, "call_id": call_id, "output": output, **rng.choice(MORE)})
    if rng.random() < 0.5:  # one call after the other's result, or all of them first
        return [item for pair in zip(calls, results, strict=True) for item in pair]
    return [*calls, *rng.sample(results, len(results))]


def responses(rng: Random) -> Json:
    kinds = (item_of_user, item_of_assistant, item_told, items_of_round, item_hosted)
    rest = [item for kind in rng.choices(kinds, k=rng.randint(1, 6)) for item in kind(rng)]
    last = {"role": "user", "content": f"{rng.choice(SAID)} {uuid4()}"}
    tools = [
        {"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False, **rng.choice(MORE)},
        CUSTOM,
        SPACE,
    ]
    tools += rng.choice([[], [{"type": "web_search"}]])
    given = last["content"] if rng.choice([True, False, False, False]) else [*rest, last]
    return {"input": given, "tools": tools, **some(rng, RESPONSES_OPTIONS), **rng.choice(MORE)}


# --- the promises ---


def ask(desk: Desk, path: str, model: str, user: str, body: Json) -> Json:
    """Send a request; check what the vendor was asked, and return the answer."""
    answer = desk.server.http.post(path, json={"model": model, **body}, params={"user_id": user}, headers=BETAS)
    assert answer.status_code == 200, answer.text
    if path == "/v1/messages":
        assert BETAS.items() <= dict(desk.vendors.requests[-1].headers).items()
    assert "x-ignored-parameters" not in answer.headers
    assert {name: value for name, value in desk.asked.items() if name not in OURS} == body
    return answer.json()


def test_chat_completions_ask_the_vendor_for_the_same(desk: Desk) -> None:
    for number in range(TRIES):
        rng, user = Random(SEED + number), str(uuid4())
        body = chat(rng)
        desk.say("Fine.", Answer(tool_calls=(Call(name="weather", arguments={"city": "Rome"}),)), "Well.")
        for _ in range(3):
            said = ask(desk, "/v1/chat/completions", "open", user, body)["choices"][0]["message"]
            ids = [call["id"] for call in said.get("tool_calls", ())]
            results = [{"role": "tool", "tool_call_id": call_id, "content": "1"} for call_id in ids]
            body = {**body, "messages": [*body["messages"], said, *(results or chat_user(rng))]}


def test_messages_ask_the_vendor_for_the_same(desk: Desk) -> None:
    for number in range(TRIES):
        rng, user = Random(SEED + number), str(uuid4())
        body = messages(rng)
        called = Answer(reasoning="Let me see.", tool_calls=(Call(name="weather", arguments={"city": "Rome"}),))
        desk.say("Fine.", called, "Well.")
        for _ in range(3):
            content = ask(desk, "/v1/messages", "sonnet", user, body)["content"]
            ids = [block["id"] for block in content if block["type"] == "tool_use"]
            results = [{"type": "tool_result", "tool_use_id": call_id, "content": "1"} for call_id in ids]
            told = [{"role": "user", "content": results}] if results else said_by_user(rng)
            body = {**body, "messages": [*body["messages"], {"role": "assistant", "content": content}, *told]}


def test_responses_ask_the_vendor_for_the_same(desk: Desk) -> None:
    calls = (Call(name="weather", arguments={"city": "Rome"}), Call(name="patch", arguments={"input": '"a"\n😀'}))
    for number in range(TRIES):
        rng, user = Random(SEED + number), str(uuid4())
        body = responses(rng)
        searched = {"type": "web_search_call", "id": f"ws_{number}", "status": "completed", "action": {"query": "a"}}
        desk.say("Fine.", Answer(hosted=(searched,), text="Let me see.", tool_calls=calls), "Well.")
        for _ in range(3):
            output = ask(desk, "/v1/responses", "gpt", user, body)["output"]
            calls_made = [item for item in output if item["type"].endswith("_call") and "call_id" in item]
            results = [
                {"type": f"{item['type']}_output", "call_id": item["call_id"], "output": "1"} for item in calls_made
            ]
            body = {**body, "input": [*as_items(body["input"]), *output, *(results or item_of_user(rng))]}


def several_items(rng: Random) -> list[Json]:
    """Return a message of the user, often after other items that no request sent before."""
    kinds = rng.choices((item_of_user, item_of_assistant, items_of_round), k=rng.randint(0, 3))
    return [item for kind in (*kinds, item_of_user) for item in kind(rng)]


def as_items(given: Json) -> list[Json]:
    """Return an input as a list of items, as it is when others come before it."""
    return given if isinstance(given, list) else [{"role": "user", "content": given}]


def test_a_conversation_of_items_sends_them_in_their_places_and_nothing_else(desk: Desk) -> None:
    for number in range(TRIES):
        rng, user = Random(SEED + number), {"user_id": str(uuid4())}
        kinds = (item_of_user, item_of_assistant, item_told, items_of_round)
        items = [item for kind in rng.choices(kinds, k=rng.randint(1, 5)) for item in kind(rng)]
        made = desk.server.http.post("/v1/conversations", json={"items": items}, params=user).json()
        desk.say("Fine.", "Well.")
        for _ in range(2):
            given = rng.choice(["And now?", [*item_told(rng), *several_items(rng)], several_items(rng)])
            body = {"model": "gpt", "input": given, "conversation": made["id"]}
            answer = desk.server.http.post("/v1/responses", json=body, params=user)
            assert answer.status_code == 200, answer.text
            assert desk.asked["input"] == [*items, *as_items(given)]
            said = "".join(part["text"] for part in answer.json()["output"][0]["content"])
            items = [*items, *as_items(given), {"role": "assistant", "content": said}]


def test_a_request_that_goes_on_from_a_response_adds_its_items_to_what_was_sent_before(desk: Desk) -> None:
    for number in range(TRIES):
        rng, user = Random(SEED + number), {"user_id": str(uuid4())}
        body = {**responses(rng), "model": "gpt"}
        body = {name: value for name, value in body.items() if name not in ("store", "prompt")}
        sent: list[Json] = []
        desk.say("Fine.", Trouble.status(500), "Well.", "Done.")
        for _ in range(4):
            answer = desk.server.http.post("/v1/responses", json=body, params=user)
            given = as_items(body["input"])
            assert as_items(desk.asked["input"]) == [*sent, *given]
            if answer.status_code == 500:  # what failed was not answered, and is no part of the conversation
                continue
            sent += [*given, {"role": "assistant", "content": answer.json()["output"][0]["content"][0]["text"]}]
            told = [*item_told(rng), *several_items(rng)]
            body |= {"previous_response_id": answer.json()["id"], "input": rng.choice(["And?", told])}
