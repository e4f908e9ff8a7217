"""The input of the router: the request, and the available models."""

from __future__ import annotations

from msgspec import Struct

from contextinfinity.domain.model import Abilities, cost
from contextinfinity.domain.turn import Usage


class RouteQuery(Struct, frozen=True, kw_only=True):
    """A request to route: its text, size, requirements and user.

    Tokens are counted as by the model that would answer without a router.
    """

    text: str
    """The user's own text."""
    default_model: str
    contextualised: str | None = None
    """The contextualised text, if it was rewritten."""
    earlier: tuple[str, ...] = ()
    """The user's earlier messages, newest last; a few are enough."""
    message_tokens: int = 0
    front_tokens: int = 0
    """The tokens of the parts that cannot be shortened: the system text and the pinned facts."""
    context_tokens: int = 0
    """The tokens of the message and everything shown with it."""
    images: bool = False
    """Whether the message contains images."""
    tools: bool = False
    """Whether it contains tool results, or cannot be answered without tool calls."""
    user: str = "local"
    org: str = ""
    asked_for: str | None = None
    """The model that the caller names."""
    labelled: bool = False
    """Whether to detect its intent even if no rule needs it."""
    branch_model: str | None = None
    """The ``home`` of the last turn's route; None if the branch has no turn yet."""


class ModelFacts(Struct, frozen=True, kw_only=True):
    """The properties of a model that matter for routing."""

    name: str
    abilities: Abilities
    input_limit: int
    """The maximum number of input tokens."""
    answer_tokens: int = 0
    """The maximum number of answer tokens."""
    unavailable: str = ""
    """Why it is unavailable, as the end of a sentence: "its key is not set"; empty if it is available."""


def cannot(model: ModelFacts, query: RouteQuery) -> str:
    """Return why a model cannot take a request, or an empty string.

    Earlier turns are no reason, because they are shortened. A rule with ``needs = "context"`` avoids that.
    """
    if query.images and not model.abilities.images:
        return "it does not support images"
    if query.tools and not model.abilities.tools:
        return "it does not support tools"
    least = query.message_tokens + query.front_tokens
    return "the message alone is too long for it" if least > model.input_limit else ""


def is_away(model: ModelFacts) -> str:
    """Return why a model is unavailable now, or an empty string."""
    return f"it is not available now: {model.unavailable}" if model.unavailable else ""


def price_of(model: ModelFacts, query: RouteQuery) -> float | None:
    """Return the maximum cost of a request in US dollars, or None if the prices are unknown."""
    most = Usage(input_tokens=query.context_tokens, output_tokens=model.answer_tokens)
    return cost(model.abilities.prices, most)
