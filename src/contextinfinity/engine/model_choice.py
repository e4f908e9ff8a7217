"""Choose the model that answers: build the router's input and apply its result.

The router itself works on plain values (``routing``). A model that failed recently is skipped for a while if another
one can answer.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from contextinfinity.domain.message import ContentBlock, ImageBlock, Json, ToolResultBlock
from contextinfinity.domain.route import Route
from contextinfinity.domain.session import Owner
from contextinfinity.prompt.measure import Measure
from contextinfinity.prompt.prompt_sections import shown_turns
from contextinfinity.providers.failures import KINDS
from contextinfinity.telemetry.counters import count

if TYPE_CHECKING:
    from contextinfinity.domain.session import Session
    from contextinfinity.domain.turn import Problem, Turn
    from contextinfinity.engine.configured_models import Model
    from contextinfinity.engine.parts import Parts
    from contextinfinity.engine.prompt_material import PromptMaterial
    from contextinfinity.engine.recall import PriorContext
    from contextinfinity.engine.running_turn import SendOptions
    from contextinfinity.routing.router_inputs import ModelFacts, RouteQuery

log = logging.getLogger(__name__)

EARLIER = 3
"""The number of the user's previous messages used to classify a new one."""


def home_of(parts: Parts, asked: SendOptions, owner: Owner, branch_model: str | None) -> Model:
    """Return the model that answers if no rule matches."""
    from contextinfinity.routing.router import home_of  # slow to import: word lists

    query = _query(parts, asked, owner, branch_model, text="")
    return parts.models.by_name[home_of(query, parts.models.by_name, parts.setup.router)]


def choose(parts: Parts, turn: Turn, asked: SendOptions, material: PromptMaterial) -> Route:
    """Return the router's choice; if no model can take the request, return the branch's own model.

    Results of tool calls go to the model that made the calls.
    """
    from contextinfinity.routing.router import route

    home = material.recalled.home
    if asked.model is None and (caller := _caller(parts, turn, material.recalled.earlier)) is not None:
        return Route(model=caller.name, reason=f"{caller.name} called the tools, so it answers.", home=home.name)
    models = [_facts(parts, model, home) for model in parts.models.by_name.values()]
    chosen = route(_described(parts, turn, asked, material), models, parts.setup.router)
    if chosen.model is None:
        chosen = replace(chosen, model=home.name, reason=f"{chosen.reason} {home.name} is used anyway.")
    log.info("turn %s: %s", turn.id, chosen.reason)
    return chosen


def asked_back(turn: Turn, recalled: PriorContext) -> Route:
    """Return the route of a clarification; in a chat it has an intent label as well."""
    from contextinfinity.routing.intent import UNKNOWN, intent_of
    from contextinfinity.routing.router import labels

    is_chat, text = recalled.session.kind == "chat", turn.user_message.rendered_text
    purpose = intent_of(text, _said_before(recalled)) if is_chat else UNKNOWN
    return Route(model=None, reason="A clarifying question was asked.", home=recalled.home.name, **labels(purpose))


def chat_notes(session: Session, route: Route, artifacts: int) -> dict[str, Json]:
    """Return the metadata of a chat turn: its intent label and the number of retrieved passages."""
    if session.kind != "chat":
        return {}
    return {"intent": route.intent, "confidence": route.confidence, "result_count": artifacts}


def _said_before(recalled: PriorContext) -> tuple[str, ...]:
    return tuple(one.user_message.rendered_text for one in recalled.earlier[-EARLIER:])


def next_fallback(parts: Parts, route: Route, failed: Model, problem: Problem) -> Route | None:
    """Return the fallback route after a failure, or None; the failed model is skipped for a while."""
    from contextinfinity.routing.router import next_after

    kind = problem.code if problem.code in KINDS else "provider"
    parts.models.away.note(failed.name, kind)
    chosen = next_after(route, failed.name, kind)
    if chosen is not None:
        count("models_replaced")
        log.info("%s failed (%s): %s", failed.name, problem.code, problem.message)
    return chosen


def _caller(parts: Parts, turn: Turn, earlier: Sequence[Turn]) -> Model | None:
    """Return the model whose tool calls this message answers, or None."""
    if not (earlier and earlier[-1].outcome == "paused" and has(turn.user_message.blocks, ToolResultBlock)):
        return None
    before = earlier[-1]
    answered = (model for model in parts.models.by_name.values() if model.answered(before))
    return next(answered, None)


def _described(parts: Parts, turn: Turn, asked: SendOptions, material: PromptMaterial) -> RouteQuery:
    """Describe the request to the router; the whole context is counted only if a rule depends on it."""
    recalled, message = material.recalled, turn.user_message
    measure = Measure(recalled.home.counter, cache=recalled.rendered)
    alone, front = measure.message(message), measure.text("\n".join((recalled.system, *recalled.state.pinned_facts)))
    shown = alone + front
    if any(rule.depends_on_prompt_size for rule in parts.setup.router.rules):
        shown += measure.turns(shown_turns(recalled.earlier, turn, cache=recalled.rendered))
        shown += measure.text(recalled.state.summary) + measure.text(recalled.memories)
        shown += sum(artifact.tokens for artifact in material.artifacts)
    return _query(
        parts,
        asked,
        recalled.session.owner,
        recalled.branch_model,
        text=message.rendered_text,
        contextualised=material.explicit,
        earlier=_said_before(recalled),
        message_tokens=alone,
        front_tokens=front,
        context_tokens=shown,
        labelled=recalled.session.kind == "chat",
        images=has(message.blocks, ImageBlock),
        tools=has(message.blocks, ToolResultBlock) or _has_to_call(asked),
    )


def _has_to_call(asked: SendOptions) -> bool:
    """Return whether the caller requires a tool call."""
    choice = None if asked.terms is None else asked.terms.request_options.tool_choice
    return choice is not None and (choice == "required" or choice.startswith(":"))


def _query(parts: Parts, asked: SendOptions, owner: Owner, branch_model: str | None, **more: object) -> RouteQuery:
    from contextinfinity.routing.router_inputs import RouteQuery

    return RouteQuery(
        default_model=parts.models.default,
        user=owner.user_id,
        org=owner.org_id,
        asked_for=asked.model,
        branch_model=branch_model,
        **more,  # type: ignore[arg-type]
    )


def _facts(parts: Parts, model: Model, home: Model) -> ModelFacts:
    """Describe a model to the router; the branch's model is marked unavailable only if fallbacks are configured."""
    from contextinfinity.routing.router_inputs import ModelFacts

    may_go = model.name != home.name or parts.setup.router.fallbacks
    why_not = model.provider.missing or parts.models.away.why(model.name)
    return ModelFacts(
        name=model.name,
        abilities=model.abilities,
        input_limit=parts.budget_of(model).input_limit,
        answer_tokens=model.max_output_tokens,
        unavailable=why_not if may_go else "",
    )


def has(blocks: tuple[ContentBlock, ...], kind: type[ContentBlock]) -> bool:
    """Return whether the blocks, including those inside tool results, contain a block of that type."""
    return any(
        isinstance(block, kind) or (isinstance(block, ToolResultBlock) and has(block.content, kind)) for block in blocks
    )
