"""What the router goes by: the request, and the models there are."""

from __future__ import annotations

from msgspec import Struct

from contextinfinity.domain.model import Abilities, cost
from contextinfinity.domain.turn import Usage


class RouteQuery(Struct, frozen=True, kw_only=True):
    """A request that wants a model: what was said, how long it is, what it needs, and who asks.

    Tokens are as the model counts that would answer if there were no router.
    """

    text: str
    """The user's own words."""
    default_model: str
    contextualised: str | None = None
    """The same made explicit, where that was needed."""
    earlier: tuple[str, ...] = ()
    """What the user said before, the newest last; a few are enough."""
    message_tokens: int = 0
    front_tokens: int = 0
    """Of what stands in front of every message and cannot give way: the system text and the pinned facts."""
    context_tokens: int = 0
    """Of the message and all that would be shown with it."""
    images: bool = False
    """Whether the message brings pictures."""
    tools: bool = False
    """Whether it brings results of tools, or cannot be answered without calling any."""
    user: str = "local"
    org: str = ""
    asked_for: str | None = None
    """The model that the caller names."""
    labelled: bool = False
    """Whether its intent is wanted even where no rule asks for it."""
    branch_model: str | None = None
    """The ``home`` of the last turn's route; None where the branch has no turn yet."""


class ModelFacts(Struct, frozen=True, kw_only=True):
    """A model as far as choosing it goes."""

    name: str
    abilities: Abilities
    input_limit: int
    """The most tokens that a request may have, its answer not counted."""
    answer_tokens: int = 0
    """The most that its answer may have."""
    unavailable: str = ""
    """Why it cannot be asked now, as the end of a sentence: "its key is not set"; empty: it can."""


def cannot(model: ModelFacts, query: RouteQuery) -> str:
    """Say why a model cannot take a request; empty where it can.

    Earlier turns are no reason: they are shortened to what fits. A rule with ``needs = "context"`` spares them that.
    """
    if query.images and not model.abilities.images:
        return "it cannot see pictures"
    if query.tools and not model.abilities.tools:
        return "it cannot call tools"
    least = query.message_tokens + query.front_tokens
    return "the message alone is too long for it" if least > model.input_limit else ""


def is_away(model: ModelFacts) -> str:
    """Say what keeps a model from answering at this time; empty where nothing does."""
    return f"it cannot be asked now: {model.unavailable}" if model.unavailable else ""


def price_of(model: ModelFacts, query: RouteQuery) -> float | None:
    """Tell what a request costs at most with a model, in US dollars; None where its prices are not known."""
    most = Usage(input_tokens=query.context_tokens, output_tokens=model.answer_tokens)
    return cost(model.abilities.prices, most)
