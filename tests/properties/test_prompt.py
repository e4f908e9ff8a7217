"""Whatever was said and however small the window: the prompt fits, is valid, hides nothing, and is the same again."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from contextinfinity.domain.message import Json, ToolResultBlock, ToolUseBlock
from contextinfinity.domain.plan import Plan, Shrunk
from contextinfinity.domain.prompt import Abilities, Prompt, ProviderRequest
from contextinfinity.domain.wire import dumps, loads
from contextinfinity.errors import ProviderError
from contextinfinity.prompt.assemble import Assembled, Frame, assemble
from contextinfinity.prompt.layout import lay_out
from contextinfinity.prompt.measure import SMALLEST_WINDOW, Ceilings, divide_window
from contextinfinity.prompt.prompt_sections import Sections
from contextinfinity.prompt.shrink import cut, line, shortened, without_thinking
from contextinfinity.providers.contract import write, written_again
from contextinfinity.providers.remote import wire
from contextinfinity.settings import ModelSettings, Settings
from contextinfinity.text.tokens import Counter
from contextinfinity.text.tokens.families import family_of
from contextinfinity.text.tokens.images import rule_of
from contextinfinity_testing.vendors.chat import Compatible, Perplexity
from contextinfinity_testing.vendors.messages import Messages
from contextinfinity_testing.vendors.responses import Responses
from tests.properties.prompts import MARK, Talk, ends, materials, materials_of, talks, turn, user_messages
from tests.sizes import sized
from tests.unit.prompt.material import MEASURE

COUNTER = Counter(family_of("openai", "gpt-5.5"), rule_of("openai", "gpt-5.5"))
ABILITIES = Abilities(context_limit=200_000, images=True, min_cache_tokens=50)
MODELS = {"openai": "gpt-5.5", "anthropic": "claude-sonnet-4-5", "openai_chat": "llama3.1", "perplexity": "sonar-pro"}
RULES: dict[str, Callable[[Json], None]] = {
    "openai": Responses().check,
    "anthropic": Messages().check,
    "openai_chat": Compatible().check,
    "perplexity": Perplexity().check,
}
WIRES = {
    name: wire(ModelSettings(provider=name, model_id=model, base_url="http://127.0.0.1/v1"), Settings())  # type: ignore[arg-type]
    for name, model in MODELS.items()
}
limits = st.sampled_from([SMALLEST_WINDOW, 3000, 4096, 8192, 32_000, 200_000])
calm = settings(max_examples=sized(12, 300), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


def sent(material: Sections, limit: int) -> Assembled:
    frame = Frame(budget=divide_window(limit, Ceilings()), abilities=ABILITIES)
    return assemble(material, frame, MEASURE)


def fitting(material: Sections, limit: int) -> Assembled:
    """Put a prompt together; where nothing fits, there is nothing to look at."""
    try:
        return sent(material, limit)
    except ProviderError as error:
        assume(error.kind != "size")
        raise


def request(name: str, prompt: Prompt) -> ProviderRequest:
    return ProviderRequest(model_id=MODELS[name], prompt=prompt, cache_key="thread")


def body(name: str, prompt: Prompt) -> Json:
    return msgspec.json.decode(write(name, WIRES[name], ABILITIES, request(name, prompt)).body)


# --- size ---


@pytest.mark.req("BUDGET-1", "BUDGET-3", "BUDGET-9")
@given(materials, limits)
@calm
def test_a_prompt_is_never_over_its_budget(material: Sections, limit: int) -> None:
    budget = divide_window(limit, Ceilings())
    told = fitting(material, limit)
    assert told.tokens <= budget.input_limit
    assert COUNTER.prompt(told.prompt) <= limit - budget.response_reserve, "as the whole request is counted"
    assert (told.plan.shrunk is None) == (MEASURE.total(material) <= budget.input_limit)


@pytest.mark.req("BUDGET-3", "BUDGET-9")
@given(materials, limits)
@calm
def test_the_size_error_comes_only_where_the_words_leave_no_room(material: Sections, limit: int) -> None:
    assume(not any(isinstance(block, ToolResultBlock) for block in material.message.blocks))
    front = replace(material.front, summary="", memories="")
    rounds = tuple(map(without_thinking, material.rounds))
    least = MEASURE.total(replace(material, front=front, turns=(), artifacts=(), rounds=rounds))
    assume(least + 300 <= divide_window(limit, Ceilings()).input_limit)
    sent(material, limit)


# --- contents ---


@pytest.mark.req("CTX-3")
@given(materials, limits)
@calm
def test_no_turn_is_lost_from_sight(material: Sections, limit: int) -> None:
    told = fitting(material, limit)
    shrunk = told.plan.shrunk or Shrunk()
    verbatim = [message for shown in material.turns if shown.turn_seq > shrunk.lines_to for message in shown.messages]
    summary = told.prompt.messages[0].rendered_text
    for shown in material.turns:
        if shown.turn_seq <= shrunk.lines_to:
            now = shortened(shown, shrunk)
            assert not shown.messages or line(now, 3) in summary.split("\n") or shrunk.summary is not None
    first = next((place for place, shown in enumerate(material.turns) if shown.turn_seq > shrunk.lines_to), None)
    assert all(shown.turn_seq > shrunk.lines_to for shown in material.turns[first:] if first is not None)
    if not shrunk.shortened:
        pair = len(told.prompt.messages) - len(verbatim) - 1 - len(cut(material, shrunk).rounds)
        assert told.prompt.messages[pair : pair + len(verbatim)] == tuple(verbatim), "in order, word for word"
    if shrunk.lines_to:
        named = f"turns {material.turns[0].turn_seq}–{shrunk.lines_to}"
        assert any(named == left.what for left in told.plan.left_out), "the plan names those that gave way"
    if material.turns:
        assert told.plan.gathered == (material.turns[0].turn_seq, material.turns[-1].turn_seq)


@pytest.mark.req("CTX-3")
@given(materials, limits)
@calm
def test_pins_and_words_are_always_there(material: Sections, limit: int) -> None:
    told = fitting(material, limit)
    for fact in material.front.pinned_facts:
        assert f"\n- {fact}" in told.prompt.system[1]
    lines = 0 if told.plan.shrunk is None else told.plan.shrunk.rounds_to
    place = len(told.prompt.messages) - 1 - (len(material.rounds) - lines)
    said = [block for block in material.message.blocks if not isinstance(block, ToolResultBlock)]
    current = [block for block in told.prompt.messages[place].blocks if block in said]
    assert current == said, "a tool's result may be cut in the middle, the user's words never"
    assert told.prompt.system[0].startswith(material.front.system)


@pytest.mark.req("BUDGET-3", "CTX-8")
@given(materials, limits)
@calm
def test_the_same_material_gives_the_same_plan_and_the_same_bytes(material: Sections, limit: int) -> None:
    before = msgspec.msgpack.encode(material)
    first = fitting(material, limit)
    copied = msgspec.msgpack.decode(before, type=Sections)
    second = sent(copied, limit)
    assert dumps(first.plan) == dumps(second.plan)
    for name in MODELS:
        one = write(name, WIRES[name], ABILITIES, request(name, first.prompt))
        other = write(name, WIRES[name], ABILITIES, request(name, second.prompt))
        assert (one.body, one.sha256) == (other.body, other.sha256)
        assert written_again(one.form, request(name, first.prompt)).body == one.body
    assert msgspec.msgpack.encode(material) == before, "nothing that was gathered is changed"


@pytest.mark.req("CTX-10")
@given(materials, limits)
@calm
def test_a_plan_is_small_and_enough_to_cut_the_same_prompt_again(material: Sections, limit: int) -> None:
    told = fitting(material, limit)
    hashes = {"front": "ab" * 32, "form": "cd" * 32, "redactions": "ef" * 32, "request_sha256": "01" * 32}
    kept = dumps(replace(told.plan, **hashes))
    assert len(kept) <= 2048
    plan = loads(Plan, kept)
    again = lay_out(cut(material, plan.shrunk) if plan.shrunk else material)
    assert again == replace(told.prompt, markers=())


# --- what vendors demand ---


def parts_a_chain(material: Sections, made: Assembled) -> bool:
    """Return whether lines end between a call and the turn, or the message, that brings its results."""
    lines_to = made.plan.shrunk.lines_to if made.plan.shrunk else 0
    first = next((shown.messages for shown in material.turns if shown.turn_seq > lines_to and shown.messages), ())
    following = (first or (material.message,))[0]
    return bool(lines_to) and any(isinstance(block, ToolResultBlock) for block in following.blocks)


@pytest.mark.req("PROVIDER-3", "BUDGET-3")
@given(materials, limits)
@calm
def test_no_result_stands_without_its_call_and_no_call_without_its_result(material: Sections, limit: int) -> None:
    made = fitting(material, limit)
    if parts_a_chain(material, made):
        return  # the last resort, when a chain alone fills the window: its results go out as words
    messages = made.prompt.messages
    waiting: list[str] = []
    for message in messages:
        results = [block.tool_use_id for block in message.blocks if isinstance(block, ToolResultBlock)]
        assert sorted(results) == sorted(waiting), "right after the call, all of them"
        waiting = [block.tool_use_id for block in message.blocks if isinstance(block, ToolUseBlock)]
        assert not waiting or message.role == "assistant"
    assert waiting == []


@pytest.mark.req("PROVIDER-3")
@given(materials, limits)
@calm
def test_every_vendor_takes_what_is_sent(material: Sections, limit: int) -> None:
    bare = replace(material, rounds=tuple(map(without_thinking, material.rounds)))  # only its vendor takes thinking
    prompt = fitting(bare, limit).prompt
    for name in MODELS:
        written = body(name, prompt)
        RULES[name](written)
        if name in ("anthropic", "perplexity"):
            roles = [said["role"] for said in written["messages"] if said["role"] != "system"]
            assert roles[0] == "user"
            assert all(one != other for one, other in pairwise(roles)), "they take turns"


# --- the prefix ---


def readable(name: str, prompt: Prompt) -> str:
    """The prompt as a vendor reads it, tools first, without cache marks."""
    written = body(name, replace(prompt, markers=()))
    parts = [piece for key in ("tools", "system", "messages", "input") for piece in written.get(key, ())]
    return "\n".join(msgspec.json.encode(part, order="deterministic").decode() for part in parts)


@st.composite
def steps_of_a_talk(draw: st.DrawFn) -> tuple[Sections, Talk]:
    """What was gathered for a request, and the same conversation one turn later."""
    talk = draw(talks(most=5))
    answered = draw(ends(talk.now.turn_seq, talk.now))
    then = turn(answered.turn_seq + 1, user_message=draw(user_messages(answered)))
    return draw(materials_of(talk)), talk.later(answered, then)


@pytest.mark.req("FILES-5")
@given(steps_of_a_talk())
@calm
def test_what_stands_before_the_artifacts_begins_the_next_request_too(told: tuple[Sections, Talk]) -> None:
    material, later = told
    assume(later.turns[-1].error is None)  # of a message that was too large only the beginning is shown again
    for name in MODELS:
        before, after = readable(name, lay_out(material)), readable(name, lay_out(later.sections()))
        ends_at = min(place for place in (before.find("<artifact said-by"), before.find(MARK)) if place >= 0)
        assert after[:ends_at] == before[:ends_at]


@pytest.mark.req("FILES-5")
@given(steps_of_a_talk())
@calm
def test_the_steps_of_a_turn_only_append(told: tuple[Sections, Talk]) -> None:
    material, _ = told
    first, then = lay_out(replace(material, rounds=())), lay_out(material)
    assert then.system == first.system
    assert then.messages[: len(first.messages)] == first.messages, "artifacts and words are the same in all of them"
