"""A request to an auxiliary model returns an answer, or raises a ``ProviderError`` with the cause."""

from __future__ import annotations

import asyncio

import pytest

from contextinfinity.domain.prompt import ProviderRequest
from contextinfinity.domain.turn import Incomplete, Problem
from contextinfinity.errors import ProviderError
from contextinfinity.providers.auxiliary_model import AuxiliaryModel
from contextinfinity.providers.scripted import ScriptedProvider, ScriptedReply, ToolCall


def adviser(reply: ScriptedReply | str, seconds: float = 5.0) -> AuxiliaryModel:
    return AuxiliaryModel(provider=ScriptedProvider([reply]), model_id="m", seconds=seconds)


async def test_the_whole_answer_is_given() -> None:
    assert (
        await adviser(ScriptedReply(pieces=("Two", " words", "."))).ask("Be brief.", "Say something.") == "Two words."
    )


async def test_the_question_the_form_and_the_length_reach_the_model() -> None:
    asked: list[ProviderRequest] = []

    def script(request: ProviderRequest) -> str:
        asked.append(request)
        return "{}"

    one = AuxiliaryModel(provider=ScriptedProvider(script), model_id="m", options={"temperature": 0})
    await one.ask("Be brief.", "Say something.", schema={"type": "object"}, max_output_tokens=77)
    (request,) = asked
    assert request.prompt.system == ("Be brief.",)
    assert [message.rendered_text for message in request.prompt.messages] == ["Say something."]
    assert request.prompt.response_format == {"type": "object"}
    assert (request.model_id, request.max_output_tokens, request.options) == ("m", 77, {"temperature": 0})


async def test_thinking_is_no_part_of_the_answer() -> None:
    assert await adviser(ScriptedReply(text="Yes.", thinking="hm")).ask("", "?") == "Yes."


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (ScriptedReply(text="Too la", hang=True), "timeout"),
        (ScriptedReply(hang=True), "timeout"),
        (ScriptedReply(text="one two three", cut_after=1), "interrupted"),
        (ScriptedReply(text=""), "empty"),
        (ScriptedReply(text="  \n "), "empty"),
        (ScriptedReply(text="half", outcome=Incomplete(reason="length")), "incomplete"),
        (ScriptedReply(text="let me look", tools=(ToolCall(name="look"),)), "incomplete"),
        (ScriptedReply(text="o", error=Problem(code="quota", message="No money left.")), "quota"),
    ],
)
async def test_whatever_goes_wrong_is_a_provider_error(reply: ScriptedReply, kind: str) -> None:
    with pytest.raises(ProviderError) as caught:
        await adviser(reply, seconds=0.05).ask("", "?")
    assert caught.value.kind == kind


async def test_giving_up_from_outside_is_not_an_error_of_the_provider() -> None:
    running = asyncio.create_task(adviser(ScriptedReply(hang=True)).ask("", "?"))
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def test_an_adviser_knows_its_window() -> None:
    assert adviser("x").context_limit == 128_000
