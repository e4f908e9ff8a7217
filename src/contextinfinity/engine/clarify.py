"""Rewrite a message as an explicit question, or ask the user which of several referents they mean.

A clarification is an ordinary turn. Its plan stores the candidates, so any process can match the next message of the
branch against them, for five minutes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from contextinfinity.domain.ids import ChunkId, now
from contextinfinity.domain.message import ImageBlock, TextBlock, say
from contextinfinity.domain.plan import AskedBack, LeftOut, Plan
from contextinfinity.domain.thread import Turn as Said
from contextinfinity.domain.turn import Turn, TurnEnd
from contextinfinity.engine.engine_setup import Rewriting, Setup
from contextinfinity.engine.finaliser import Finaliser
from contextinfinity.engine.lazy_modules import FOR_FOLDS, loaded
from contextinfinity.engine.model_choice import asked_back, chat_notes
from contextinfinity.engine.optional_stage import run_if_enabled
from contextinfinity.engine.recall import PriorContext
from contextinfinity.engine.running_turn import RunningTurn
from contextinfinity.storage.ledger.turns import Turns

if TYPE_CHECKING:
    from contextinfinity.rewriting.contract import FollowUp, Rewritten

TURNS = 30
"""The number of newest turns passed to the rewriter; the first shown turn is always among them."""


@dataclass(frozen=True, kw_only=True)
class ClarificationNeeded:
    """An ambiguous reference, the question to ask about it, and the candidates."""

    question: str
    reference: str
    candidates: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ResolvedMessage:
    """The explicit form of a message (None: unchanged), or the clarification that it needs."""

    explicit: str | None = None
    terms: tuple[str, ...] = ()
    """Words of the conversation that the message omits; used for search only."""
    doubt: ClarificationNeeded | None = None


@dataclass(frozen=True, kw_only=True)
class ClarificationRequest:
    """A clarification to ask, and the context it was derived from."""

    recalled: PriorContext
    doubt: ClarificationNeeded


async def understand(setup: Setup, turns: Turns, running: RunningTurn, recalled: PriorContext) -> ResolvedMessage:
    """Resolve what a message means; if rewriting fails or times out, the message is used unchanged."""
    if setup.follow_model is not None:
        await loaded(*FOR_FOLDS)  # a model that writes summaries brings their modules
    rewriting, turn = setup.following(recalled.home).rewriting, running.turn
    if rewriting is None or not _in_words(turn) or not (recalled.earlier or recalled.memories):
        return ResolvedMessage()
    asked, before = running.asked, _without_unanswered(recalled.earlier)
    if asked.use_query_rewriter and (answered := await _answered(turns, turn, before)) is not None:
        explicit, attached = answered
        running.asked = replace(asked, attach=tuple(dict.fromkeys((*attached, *asked.attach))))
        return ResolvedMessage(explicit=explicit)
    resolved = await run_if_enabled(
        asked.use_query_rewriter, "rewriting", recalled.missing, lambda: _resolve(rewriting, turn, recalled, before)
    )
    if resolved is None:
        return ResolvedMessage()
    if resolved.doubt and not (rewriting.asks_back and asked.may_ask_back and not _has_asked(before)):
        return ResolvedMessage(explicit=resolved.explicit, terms=resolved.terms)
    return resolved


async def ask_back(finaliser: Finaliser, running: RunningTurn, asking: ClarificationRequest) -> None:
    """End the turn with a clarification as its answer (TX-A); no model is called."""
    recalled, doubt = asking.recalled, asking.doubt
    route = asked_back(running.turn, recalled)
    running.notes |= chat_notes(recalled.session, route, 0)
    plan = Plan(
        candidates=doubt.candidates,
        asked_back=AskedBack(reference=doubt.reference, at=now(), attached=running.asked.attach),
        route=route,
        left_out=tuple(recalled.missing),
    )
    end = running.noted(TurnEnd(outcome="clarification", answer=say("assistant", doubt.question), plan=plan))
    await finaliser.finalise(running, end)


async def _resolve(rewriting: Rewriting, turn: Turn, recalled: PriorContext, before: Sequence[Turn]) -> ResolvedMessage:
    text = turn.user_message.rendered_text
    async with asyncio.timeout(rewriting.seconds):
        rewritten = await rewriting.rewrite(_follow_up(turn, recalled, before))
    if rewritten.dropped:
        recalled.missing.append(LeftOut(what="rewriter.model", reason=rewritten.dropped))
    explicit = rewritten.query.strip()
    explicit.encode()  # raises for text that cannot be encoded as UTF-8
    shown = explicit if explicit and explicit != text.strip() else None
    return ResolvedMessage(explicit=shown, terms=rewritten.terms, doubt=_doubt(rewritten))


async def _answered(turns: Turns, turn: Turn, before: Sequence[Turn]) -> tuple[str, tuple[ChunkId, ...]] | None:
    """If the message answers a clarification, return the completed original question and its attachments."""
    from contextinfinity.rewriting.clarification import UnmatchedReply, filled_in, is_open, reply_to

    plan = await turns.plan(before[-1].id) if _has_asked(before) else None
    question = None if plan is None else plan.asked_back
    if plan is None or question is None or not is_open(question.at, turn.created_at):
        return None
    chosen = reply_to([{"name": name} for name in plan.candidates], turn.user_message.rendered_text)
    if chosen is None or isinstance(chosen, UnmatchedReply):
        return None
    return filled_in(before[-1].user_message.rendered_text, question.reference, chosen), question.attached


def _without_unanswered(earlier: Sequence[Turn]) -> list[Turn]:
    """Drop trailing turns without an answer: the message may be a retry of them."""
    turns = [*earlier]
    while turns and not turns[-1].text:
        turns.pop()
    return turns


def _follow_up(turn: Turn, recalled: PriorContext, before: Sequence[Turn]) -> FollowUp:
    """Build the rewriter's input; clarification turns are left out."""
    from contextinfinity.rewriting.contract import FollowUp

    earlier = [one for one in before if one.outcome != "clarification"]
    near = earlier if len(earlier) <= TURNS else [earlier[0], *earlier[1 - TURNS :]]
    return FollowUp(
        latest_user_message=turn.user_message.rendered_text,
        recent_history=tuple(said for one in near for said in _sides_of(one)),
        memory_snippet=recalled.memories or None,
        thread_id=turn.session_id,
        user_id=recalled.session.owner.user_id,
    )


def _sides_of(turn: Turn) -> Iterator[Said]:
    yield Said("user", turn.user_message.rendered_text)
    if turn.text:
        yield Said("assistant", turn.text)


def _doubt(rewritten: Rewritten) -> ClarificationNeeded | None:
    data = rewritten.disambiguation_data
    if not rewritten.is_ambiguous or not isinstance(data, dict):
        return None
    names = tuple(str(candidate["name"]) for candidate in data["candidates"])
    if len(names) < 2 or not str(data["question"]).strip():
        return None
    return ClarificationNeeded(question=str(data["question"]), reference=str(data["reference"]), candidates=names)


def _has_asked(earlier: Sequence[Turn]) -> bool:
    """Return whether the previous turn was a clarification; the engine never asks twice in a row."""
    return bool(earlier) and earlier[-1].outcome == "clarification"


def _in_words(turn: Turn) -> bool:
    """Return whether a person wrote the message; tool results are never rewritten."""
    return all(isinstance(block, TextBlock | ImageBlock) for block in turn.user_message.blocks)
