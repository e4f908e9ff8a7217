"""Types that several settings share.

The bounds in the ``Meta`` of a type decide what is accepted; ``extra`` holds the rest:

    form      what is allowed, in words, if a pattern would not be understood
    model_or  the value names a [models.NAME], or is this word or one of these; of a list, each of its values
    path      a relative path starts from the folder of the file it is in
    hidden    never repeat the value in a message: users may paste a key here by mistake

The tables inside ``[router]`` are here too: rules, and preferred models.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, structs

from contextinfinity.domain.plan import Intent, Need

BUILT_IN = "built-in"
MINILM = "minilm"
STATIC = "static"
OFFLINE = "offline"
AUTO = "auto"
SQLITE = "sqlite:///"

Tokens = Annotated[int, Meta(ge=0, le=1_000_000)]
Table = Annotated[dict[str, Any], Meta(extra={"form": "a table", "hidden": True})]
Tables = Annotated[tuple[dict[str, Any], ...], Meta(extra={"form": "a list of tables", "hidden": True})]
Text = Annotated[str, Meta(min_length=1, extra={"form": "a string that is not empty"})]
Names = Annotated[tuple[Text, ...], Meta(extra={"form": "a list of names"})]
Patterns = Annotated[tuple[str, ...], Meta(extra={"form": "a list of regular expressions"})]
EntryPoint = Annotated[
    str, Meta(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", extra={"form": 'a function, written as "module:function"'})
]
Price = Annotated[float, Meta(ge=0, le=1_000_000)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Hours = Annotated[float, Meta(gt=0, le=87_600)]
FilePath = Annotated[str, Meta(pattern=r"^[^\x00]+$", extra={"form": "a path", "path": True})]
EnvironmentName = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", extra={"form": "the name of an environment variable", "hidden": True}),
]
ChatModel = Annotated[Text, Meta(extra={"form": f'"{BUILT_IN}" or the NAME of a [models.NAME]', "model_or": BUILT_IN})]
Models = Annotated[
    tuple[Text, ...],
    Meta(extra={"form": f'a list of the NAMEs of [models.NAME], "{BUILT_IN}" among them', "model_or": BUILT_IN}),
]
HelperModel = Annotated[
    Text,
    Meta(
        extra={
            "form": f'"{AUTO}", "{OFFLINE}" or the NAME of a [models.NAME]',
            "model_or": (AUTO, OFFLINE),
        }
    ),
]
WebUrl = Annotated[
    str, Meta(pattern=r"^https?://[^/]", extra={"form": "an address that begins with http:// or https://"})
]
StoreUrl = Annotated[
    str,
    Meta(
        pattern=r"^(sqlite:///|postgresql://)[^\x00]+$",
        extra={"form": "an address that begins with sqlite:/// or postgresql://"},
    ),
]
PostgresUrl = Annotated[
    str, Meta(pattern=r"^postgresql://[^\x00]+$", extra={"form": "an address that begins with postgresql://"})
]
RedisUrl = Annotated[
    str,
    Meta(
        pattern=r"^(redis|rediss|unix)://.",
        extra={"form": "an address that begins with redis://, rediss:// or unix://"},
    ),
]


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
