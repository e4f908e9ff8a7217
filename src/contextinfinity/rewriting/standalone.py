"""Call a rewriter safely: a failure never affects more than the rewriting."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

from contextinfinity.domain.thread import Turn
from contextinfinity.rewriting.contract import FollowUp, Rewriter, Rewritten

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 60.0
"""The time limit of any rewriter; ``rewriter.timeout_seconds`` is that of the configured one."""
WIRING = "contextinfinity.wiring"
"""The package that opens models from settings. It is a higher layer, so it is imported by name at run time."""


class ChosenAntecedent:
    """The ``Rewriter`` that the settings name: offline, or the model of ``rewriter.model``."""

    async def rewrite(self, follow_up: FollowUp) -> Rewritten:
        """Call the configured rewriter; connections are opened per message, because there is no signal to close
        them.
        """
        rewriting, close = import_module(WIRING).open_rewriting()
        try:
            async with asyncio.timeout(rewriting.seconds):
                result: Rewritten = await rewriting.rewrite(follow_up)
            return result
        finally:
            await close()


async def rewrite(
    rewriter: Rewriter,
    follow_up: FollowUp,
    *,
    patience: float = PATIENCE_SECONDS,
    on_failure: Callable[[Exception], None] | None = None,
) -> Rewritten:
    """Call a rewriter; return the original message if it fails, returns nothing or times out.

    ``on_failure`` is called with the error.
    """
    original = Rewritten(query=follow_up.latest_user_message)
    try:
        async with asyncio.timeout(patience):
            rewritten = await rewriter.rewrite(follow_up)
        return rewritten if rewritten.query.strip() else original
    except Exception as error:  # any failure; its text is not logged, it may quote messages
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
    """Rewrite a message, given the turns before it and the memories.

    A turn is a ``Turn``, or a mapping with ``role`` and ``content``. If the history is None or malformed, the
    message is returned unchanged.
    """
    turns = _turns(recent_history)
    if turns is None:
        log.warning("thread %r: the history is not a list of turns; the message is not rewritten", thread_id)
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
    """Parse a history; return None if it is not a list of turns."""
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
