"""Messages and their answers: an answer is a function of its message, so every reader knows the complete text."""

from __future__ import annotations

import asyncio
import random
from typing import Literal, TypeAlias, get_args
from zlib import crc32

from contextinfinity.domain.prompt import ProviderRequest
from contextinfinity.domain.turn import PARAGRAPH, Problem
from contextinfinity.engine.model_choice import Model, Models
from contextinfinity.providers.scripted import ScriptedProvider, ScriptedReply, ToolCall
from contextinfinity.tools.toolbox import Toolbox

Kind: TypeAlias = Literal[
    "plain", "burst", "long", "tools", "silent_tools", "silent", "error", "refused", "cut", "endless"
]
KINDS: tuple[Kind, ...] = get_args(Kind)
ROUNDS: dict[Kind, int] = {"tools": 2, "silent_tools": 1}
"""How often these ask for tools before they answer."""
FAILING: tuple[Kind, ...] = ("error", "refused", "cut")
"""These never come to a last word."""

_WORDS = ("heron ", "lake ", "é漢😀 ", "ba\tck\n", '"quoted" ', "\\ slash ", "\u2028line ")


def message(kind: Kind, name: str, rng: random.Random) -> str:
    """Make a message that no one else says; its first word decides how it is answered."""
    return f"{kind} {name} {''.join(rng.choices(_WORDS, k=rng.randint(1, 6)))}"


IMPORTED = "import"
"""The first word of messages that come from a file; no one answers them here."""


def import_lines(name: str, count: int) -> list[dict[str, str]]:
    """Make the messages of a file that is imported: questions and answers by turns."""
    roles = ("user", "assistant")
    return [{"role": roles[n % 2], "content": f"{IMPORTED} {name} {n}", "thread_id": name} for n in range(count)]


def kind_of(text: str) -> Kind:
    """Return how a message is answered."""
    word = text.split(" ", 1)[0]
    return next(kind for kind in KINDS if kind == word)


def reply_to(text: str, rounds: int = 0) -> ScriptedReply:
    """Return the answer to a message, after so many rounds of tools."""
    kind, rng = kind_of(text), random.Random(crc32(text.encode()))
    pieces = tuple(f"{number} {rng.choice(_WORDS)}" for number in range(rng.randint(3, 9)))
    delay = rng.uniform(0.0, 0.004)
    if rounds < ROUNDS.get(kind, 0):
        tools = tuple(ToolCall(name="look", arguments={"at": text}, call_id=f"{rounds}-{n}") for n in range(2))
        return ScriptedReply(pieces=pieces[rounds : rounds + 1] if kind == "tools" else (), delay=delay, tools=tools)
    match kind:
        case "burst":
            return ScriptedReply(pieces=pieces * 5)
        case "long":
            return ScriptedReply(pieces=tuple(piece * 60 for piece in pieces * 4), delay=delay / 4)
        case "tools":
            return ScriptedReply(pieces=pieces[rounds:], delay=delay)
        case "silent":
            return ScriptedReply(pieces=())
        case "error":
            return ScriptedReply(
                pieces=pieces, delay=delay, error=Problem(code="overloaded", message="Too much to do.")
            )
        case "refused":
            return ScriptedReply(pieces=(), error=Problem(code="refused", message="Not today."))
        case "cut":
            return ScriptedReply(pieces=pieces, delay=delay, cut_after=2)
        case "endless":
            return ScriptedReply(pieces=pieces, delay=delay, hang=True)
    return ScriptedReply(pieces=pieces, delay=delay)


def pieces_of(text: str) -> tuple[str, ...]:
    """Return the pieces in which a message is answered, as far as they come, over all rounds of tools."""
    replies = [reply_to(text, rounds) for rounds in range(ROUNDS.get(kind_of(text), 0) + 1)]
    said: list[str] = []
    for reply in replies:
        pieces = list((reply.pieces or ())[: reply.cut_after])
        if said and pieces:
            pieces[0] = PARAGRAPH + pieces[0]  # texts before and after a tool are separate paragraphs
        said += pieces
    return tuple(said)


def models() -> Models:
    """Return the one model there is."""

    def answer(request: ProviderRequest) -> ScriptedReply:
        messages = request.prompt.messages
        asked = max(place for place, message in enumerate(messages) if message.role == "user")
        rounds = sum(message.role == "tool" for message in messages[asked:])
        return reply_to(messages[asked].rendered_text, rounds)

    model = Model(name="scripted", provider=ScriptedProvider(answer), model_id="torture")
    return Models(by_name={model.name: model}, default=model.name)


def tools() -> Toolbox:
    """Return the one tool there is; it takes a moment, so that processes die while it runs."""

    async def look(at: str) -> str:
        await asyncio.sleep(crc32(at.encode()) % 4 / 1000)
        return f"seen {at}"

    toolbox = Toolbox(mode="enabled", allow_parallel=True)
    toolbox.add(look)
    return toolbox
