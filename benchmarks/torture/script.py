"""What is said and what is answered: the answer follows from the message alone, so anyone can tell what is whole."""

from __future__ import annotations

import random
from typing import Literal, TypeAlias, get_args
from zlib import crc32

from contextinfinity.domain.prompt import ProviderRequest
from contextinfinity.domain.turn import Problem
from contextinfinity.engine.parts import Model, Models
from contextinfinity.providers.scripted import Reply, ScriptedProvider, ToolCall

Kind: TypeAlias = Literal[
    "plain", "burst", "long", "tools", "silent_tools", "silent", "error", "refused", "cut", "endless"
]
KINDS: tuple[Kind, ...] = get_args(Kind)
FAILING: tuple[Kind, ...] = ("error", "refused", "cut")
"""These never come to a last word."""

_WORDS = ("heron ", "lake ", "é漢😀 ", "ba\tck\n", '"quoted" ', "\\ slash ", "\u2028line ")


def message(kind: Kind, name: str, rng: random.Random) -> str:
    """Make a message that nobody else says; its first word decides how it is answered."""
    return f"{kind} {name} {''.join(rng.choices(_WORDS, k=rng.randint(1, 6)))}"


def kind_of(text: str) -> Kind:
    """Tell how a message is answered."""
    word = text.split(" ", 1)[0]
    return next(kind for kind in KINDS if kind == word)


def reply_to(text: str) -> Reply:
    """Give the answer to a message."""
    kind, rng = kind_of(text), random.Random(crc32(text.encode()))
    pieces = tuple(f"{number} {rng.choice(_WORDS)}" for number in range(rng.randint(3, 9)))
    tools = (ToolCall(name="look", arguments={"at": text}),)
    delay = rng.uniform(0.0, 0.004)
    match kind:
        case "burst":
            return Reply(pieces=pieces * 5)
        case "long":
            return Reply(pieces=tuple(piece * 60 for piece in pieces * 4), delay=delay / 4)
        case "tools":
            return Reply(pieces=pieces, delay=delay, tools=tools)
        case "silent_tools":
            return Reply(pieces=(), tools=tools)
        case "silent":
            return Reply(pieces=())
        case "error":
            return Reply(pieces=pieces, delay=delay, error=Problem(code="overloaded", message="Too much to do."))
        case "refused":
            return Reply(pieces=(), error=Problem(code="refused", message="Not today."))
        case "cut":
            return Reply(pieces=pieces, delay=delay, cut_after=2)
        case "endless":
            return Reply(pieces=pieces, delay=delay, hang=True)
    return Reply(pieces=pieces, delay=delay)


def pieces_of(text: str) -> tuple[str, ...]:
    """Give the pieces in which a message is answered, as far as they come."""
    reply = reply_to(text)
    return (reply.pieces or ())[: reply.cut_after]


def models() -> Models:
    """Give the one model there is."""

    def answer(request: ProviderRequest) -> Reply:
        return reply_to(request.prompt.messages[-1].rendered_text)

    model = Model(name="scripted", provider=ScriptedProvider(answer), model_id="torture")
    return Models(by_name={model.name: model}, default=model.name)
