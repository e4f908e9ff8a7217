"""From a thread and a new message to what a model should see.

    1  the system text                          3  the earlier turns, oldest first
    2  long-term memories, where there are any  4  the new message: the user's own words, and beside them
                                                   their explicit form where it says something else

History is read first and nothing is written. Memories and rewriting are there to help: what fails or takes too long
is left out, and the log says so. That history cannot be read is an error, because an answer without it would be wrong.
"""

from __future__ import annotations

import asyncio
import logging

from contextinfinity.context.history import History, load_history
from contextinfinity.context.memories import ChosenMemories, Memories, shortened
from contextinfinity.context.result import ContextualMessagesResult, PlainMessage
from contextinfinity.engine.preparing import LONGEST_REWRITING
from contextinfinity.engine.recall import SYSTEM
from contextinfinity.prompt.layout import CONTEXTUALISED, MEMORIES
from contextinfinity.rewriting import Chosen, FollowUp, Rewriter, Rewritten, rewrite

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 10.0


class ContextBuilder:
    """Builds contexts with these memories and this rewriter; each gets ``patience`` seconds."""

    def __init__(
        self,
        *,
        memories: Memories | None = None,
        rewriter: Rewriter | None = None,
        system: str = SYSTEM,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._memories = memories or ChosenMemories()
        self._rewriter = rewriter or Chosen()
        self._system = system
        self._patience = patience

    async def build(
        self,
        thread_id: str,
        latest_user_message: str,
        user_id: str | None = None,
        org_id: str | None = None,
        use_memory: bool = True,
        use_query_rewriter: bool = True,
    ) -> ContextualMessagesResult:
        """Put the context of a message together."""
        history = await asyncio.to_thread(load_history, thread_id)
        _tell(thread_id, history)
        snippet = await self._remember(latest_user_message, thread_id, user_id, org_id) if use_memory else None
        rewritten = None
        if use_query_rewriter:
            follow_up = FollowUp(
                latest_user_message=latest_user_message,
                recent_history=history.turns,
                memory_snippet=snippet,
                thread_id=thread_id,
                user_id=user_id,
            )
            rewritten = await rewrite(self._rewriter, follow_up, patience=self._patience)
        return self._result(latest_user_message, history, snippet, rewritten)

    async def _remember(self, question: str, thread_id: str, user_id: str | None, org_id: str | None) -> str | None:
        try:
            async with asyncio.timeout(self._patience):
                found = await self._memories.snippet(question, thread_id=thread_id, user_id=user_id, org_id=org_id)
            return shortened(found)
        except Exception as error:  # whatever it is; its text is not logged, it may hold what was said
            log.warning("thread %r: memories were left out after %s", thread_id, type(error).__name__)
            return None

    def _result(
        self, words: str, history: History, snippet: str | None, rewritten: Rewritten | None
    ) -> ContextualMessagesResult:
        messages = [_message("system", self._system)]
        if snippet is not None:
            messages.append(_message("system", f"{MEMORIES}\n{snippet}"))
        messages += _plain(history)
        explicit = words if rewritten is None else rewritten.query
        is_clear = explicit.strip() == words.strip() or len(explicit) > LONGEST_REWRITING
        beside = "" if is_clear else f"\n\n{CONTEXTUALISED}\n{explicit}"
        messages.append(_message("user", words + beside))
        result = ContextualMessagesResult(messages=messages, memory_snippet=snippet, short_term_history=_plain(history))
        if rewritten is not None:
            result.rewritten_query = rewritten.query
            result.entities = list(rewritten.entities)
            result.is_ambiguous = rewritten.is_ambiguous
            result.disambiguation_data = rewritten.disambiguation_data
        return result


def _tell(thread_id: str, history: History) -> None:
    if history.kept_in is None:
        log.info("thread %r not there yet, turns loaded 0", thread_id)
        return
    older = ", older ones left out" if history.is_cut else ""
    log.info("thread %r found, %s, turns loaded %d%s", thread_id, history.kept_in, len(history.turns), older)


def _plain(history: History) -> list[PlainMessage]:
    return [_message(turn.role, turn.content) for turn in history.turns]


def _message(role: str, content: str) -> PlainMessage:
    return {"role": role, "content": content}


_builder = ContextBuilder()


def use(builder: ContextBuilder | None) -> None:
    """Let ``build_contextual_messages`` build with that one; None: as the machine's settings say."""
    global _builder
    _builder = builder or ContextBuilder()


async def build_contextual_messages(
    thread_id: str,
    latest_user_message: str,
    user_id: str | None = None,
    org_id: str | None = None,
    use_memory: bool = True,
    use_query_rewriter: bool = True,
) -> ContextualMessagesResult:
    """Give what a model should see of a thread and a new message, which is not part of the thread yet.

    Read-only: say what was asked and answered with ``contextinfinity.threads.add_turn``.
    """
    return await _builder.build(thread_id, latest_user_message, user_id, org_id, use_memory, use_query_rewriter)
