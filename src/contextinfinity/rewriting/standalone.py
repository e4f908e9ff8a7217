"""Asking a rewriter, so that a failure never costs more than the rewriting."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

from contextinfinity.domain.thread import Turn
from contextinfinity.rewriting.contract import FollowUp, Rewriter, Rewritten

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 60.0
"""How long any rewriter may take; ``rewriter.timeout_seconds`` is the limit of the one that is chosen."""
WIRING = "contextinfinity.wiring"
"""Who opens models by their settings. It stands above this module, so it is named, not imported."""


class ChosenAntecedent:
    """``Rewriter`` that the machine's settings name: offline, or the model of ``rewriter.model``."""

    async def rewrite(self, follow_up: FollowUp) -> Rewritten:
        """Ask it; a model's connections last for one message, since nobody says when the last one comes."""
        rewriting, close = import_module(WIRING).open_rewriting()
        try:
            async with asyncio.timeout(rewriting.seconds):
                told: Rewritten = await rewriting.rewrite(follow_up)
            return told
        finally:
            await close()


async def rewrite(
    rewriter: Rewriter,
    follow_up: FollowUp,
    *,
    patience: float = PATIENCE_SECONDS,
    on_failure: Callable[[Exception], None] | None = None,
) -> Rewritten:
    """Ask a rewriter; return the original words if it fails, says nothing or takes too long.

    ``on_failure`` is called with the error.
    """
    original = Rewritten(query=follow_up.latest_user_message)
    try:
        async with asyncio.timeout(patience):
            rewritten = await rewriter.rewrite(follow_up)
        return rewritten if rewritten.query.strip() else original
    except Exception as error:  # whatever it is; its text is not logged, it may hold what was said
        log.warning("thread %r: the rewriter was left out after %s", follow_up.thread_id, type(error).__name__)
        if on_failure is not None:
            on_failure(error)
        return original


async def rewrite_query(
    latest_user_message: str,
    recent_history: Sequence[Turn | Mapping[str, str]] | None,
    memory_snippet: str | None = None,
    *,
    thread_id: str | None = None,
    user_id: str | None = None,
) -> str:
    """Make a message explicit in view of the turns before it and of what is remembered.

    A turn is a ``Turn``, or a mapping with ``role`` and ``content``. With a history that is None or malformed, the
    message is returned as it is.
    """
    turns = _turns(recent_history)
    if turns is None:
        log.warning("thread %r: the history is no list of turns, the message stays as it is", thread_id)
        return latest_user_message
    follow_up = FollowUp(
        latest_user_message=latest_user_message,
        recent_history=turns,
        memory_snippet=memory_snippet,
        thread_id=thread_id,
        user_id=user_id,
    )
    return (await rewrite(ChosenAntecedent(), follow_up)).query


def _turns(history: object) -> tuple[Turn, ...] | None:
    """Read a history; None if it is not a list of turns."""
    if not isinstance(history, Sequence) or isinstance(history, str | bytes):
        return None
    turns = []
    for one in history:
        role, content = (one.get("role"), one.get("content")) if isinstance(one, Mapping) else (None, None)
        turn = one if isinstance(one, Turn) else None
        if isinstance(role, str) and isinstance(content, str):
            turn = Turn(role, content)
        if turn is None:
            return None
        turns.append(turn)
    return tuple(turns)
