"""The tables inside ``[router]``: rules, and preferred models."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, structs

from contextinfinity.domain.plan import Intent, Need
from contextinfinity.settings.field_types import ChatModel, Price, Text, Tokens

Reason = Annotated[str, Meta(min_length=1, max_length=200, extra={"form": "a string of 1 to 200 characters"})]


class Rule(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A kind of request and the model that answers it. All conditions besides `model` and `reason` must hold."""

    model: Annotated[ChatModel, Meta(description="The model that answers.")]
    reason: Annotated[Reason | None, Meta(description="The reason, in your words; it is stored with the turn.")] = None
    intent: Annotated[Intent | None, Meta(description="The intent of the message.")] = None
    needs: Annotated[
        Need | None,
        Meta(
            description="images: there are pictures; tools: the request is about calls of tools; context: the "
            "prompt, unshortened, does not fit the window of the model that would otherwise answer."
        ),
    ] = None
    min_tokens: Annotated[Tokens | None, Meta(description="The minimum number of tokens of the message.")] = None
    max_tokens: Annotated[Tokens | None, Meta(description="The maximum number of tokens of the message.")] = None
    min_context_tokens: Annotated[
        Tokens | None, Meta(description="The minimum number of tokens of the whole prompt.")
    ] = None
    max_context_tokens: Annotated[
        Tokens | None, Meta(description="The maximum number of tokens of the whole prompt.")
    ] = None
    user: Annotated[Text | None, Meta(description="Who asks.")] = None
    org: Annotated[Text | None, Meta(description="The organisation of the user.")] = None
    max_price: Annotated[
        Price | None,
        Meta(
            description="US dollars that the request may cost with `model`, calculated without caching and with the "
            "longest answer; without a known price the rule does not match."
        ),
    ] = None

    @property
    def depends_on_prompt_size(self) -> bool:
        """Whether the rule depends on the size of the whole prompt."""
        bounds = (self.min_context_tokens, self.max_context_tokens, self.max_price)
        return self.needs == "context" or bounds != (None, None, None)

    def complaint(self) -> str:
        """Return why the rule is invalid, or an empty string."""
        if all(value is None for name, value in structs.asdict(self).items() if name not in ("model", "reason")):
            return "has no condition; name one, or set general.default_model"
        for what in ("tokens", "context_tokens"):
            least, most = getattr(self, f"min_{what}"), getattr(self, f"max_{what}")
            if least is not None and most is not None and least > most:
                return f"never holds: min_{what} is {least} and max_{what} is {most}"
        return ""


class Preference(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model that new conversations of a user or an organisation use."""

    model: Annotated[ChatModel, Meta(description="The model.")]


Rules = Annotated[tuple[Rule, ...], Meta(extra={"form": "tables, each written as [[router.rules]]"})]
Preferences = dict[str, Preference]
