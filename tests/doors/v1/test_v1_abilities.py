"""What a client asks for and a model cannot do: the response says so, whichever model answers in the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import OpenAI

from contextinfinity_testing.vendors import Trouble
from tests.doors.v1.upstream import Aside, Desk, somebody

pytestmark = [pytest.mark.req("API-7"), pytest.mark.xdist_group("v1")]

MORE = """
[models.plain]
provider = "openai_chat"
model_id = "no-tools"
base_url = "{compatible}"
attempts = 1
tools = false
[[router.rules]]
intent = "code"
model = "{rule}"
"""
CODE = "Fix this: `def f(x): retrun x` raises SyntaxError"
WISHES: dict[str, Any] = {"temperature": 0.5, "seed": 7, "stop": ["END"]}
TOOL: Any = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
FORM: Any = {
    "type": "json_schema",
    "json_schema": {
        "name": "answer",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"yes": {"type": "boolean"}},
            "required": ["yes"],
            "additionalProperties": False,
        },
    },
}


@pytest.fixture(scope="module", params=["sonnet", "open"])
def ruled(
    request: pytest.FixtureRequest, all_vendors: Aside, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Desk]:
    more = MORE.format(compatible=all_vendors.compatible_url, rule=request.param)
    made = Desk(tmp_path_factory.mktemp("ruled"), all_vendors, more=more)
    yield made
    made.server.stop()


@pytest.fixture
def instead(request: pytest.FixtureRequest, ruled: Desk) -> str:
    """The model that the rule does not name."""
    return "open" if "sonnet" in request.node.callspec.params.values() else "sonnet"


@pytest.fixture
def client(ruled: Desk) -> Iterator[OpenAI]:
    ruled.say()
    with OpenAI(base_url=ruled.openai_url, api_key="not needed", max_retries=0) as made:
        yield made


def ignored(answer: Any) -> set[str]:
    return set(answer.headers.get("x-ignored-parameters", "").split(", ")) - {""}


def test_wishes_are_said_to_the_model_that_answers_in_the_words_it_knows(
    ruled: Desk, client: OpenAI, instead: str
) -> None:
    """The one that a rule names fails, and the branch's own answers instead: once in one piece, once as a stream."""
    stream = instead == "sonnet"
    ruled.say("Hello.", Trouble.overloaded(), "Return it.")
    messages: list[Any] = [{"role": "user", "content": "Hi"}]
    asked: Any = {"user": somebody(), **WISHES}
    first = client.chat.completions.with_raw_response.create(model=instead, messages=messages, **asked)
    messages += [{"role": "assistant", "content": "Hello."}, {"role": "user", "content": CODE}]
    headers: Any = client.chat.completions.with_raw_response.create(
        model="auto", messages=messages, stream=stream, **asked
    )
    told = headers.parse()
    heard = (chunk.choices[0].delta.content or "" for chunk in told) if stream else [told.choices[0].message.content]
    assert "".join(heard) == "Return it."
    failed, answered = (request.body for request in ruled.vendors.requests[-2:])
    assert failed["model"] != answered["model"]
    said = {"stop" if name == "stop_sequences" else name for name in answered}
    assert ignored(headers) == set(WISHES) - said, "what is not said is named"
    assert ("seed" in said, "stop" in said) == (instead == "open", True)
    assert ignored(headers) == ignored(first)


def test_tools_that_a_model_cannot_call_are_named_and_not_sent(ruled: Desk, client: OpenAI) -> None:
    asked: Any = {"messages": [{"role": "user", "content": "Look."}], "tools": [TOOL], "user": somebody()}
    answer = client.chat.completions.with_raw_response.create(model="plain", **asked)
    assert ignored(answer) == {"tools"}
    assert "tools" not in ruled.asked
    assert not ignored(client.chat.completions.with_raw_response.create(model="open", **asked))
    assert "tools" in ruled.asked


def test_a_form_that_a_vendor_refuses_is_told_and_the_conversation_goes_on(ruled: Desk, client: OpenAI) -> None:
    ruled.say("Hello.", Trouble.status(400), "Yes.")
    messages: list[Any] = [{"role": "user", "content": "Hi"}]
    asked: Any = {"model": "open", "user": somebody()}
    client.chat.completions.create(messages=messages, **asked)
    messages += [{"role": "assistant", "content": "Hello."}, {"role": "user", "content": "Is it so?"}]
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(messages=messages, response_format=FORM, **asked)
    assert "response_format" in ruled.asked
    done = client.chat.completions.create(messages=messages, **asked)
    assert done.choices[0].message.content == "Yes."
    assert "response_format" not in ruled.asked
    assert ruled.shown.count("Is it so?") == 1
