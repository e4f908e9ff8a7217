"""Build the context of a new message in a thread for a model.

    1  the system text                          4  the earlier turns, oldest first
    2  pinned facts and long-term memories      5  the new message in the user's own words, followed by its
    3  the summary of older turns                  rewritten form if that differs

History is read first, and no turn is written. Memories and rewriting are optional stages: one that fails or times out
is left out, and the log and the result record that. An unreadable history is an error, because an answer without it
would be wrong.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TypeAlias

from contextinfinity.compat.context_history import History, load_history
from contextinfinity.compat.memory_snippets import CHOSEN, SnippetSource, shortened
from contextinfinity.domain.message import Json
from contextinfinity.domain.plan import Front, LeftOut
from contextinfinity.engine.prompt_material import LONGEST_REWRITING
from contextinfinity.engine.recall import SYSTEM
from contextinfinity.prompt.layout import CONTEXTUALISED, summary_pair, system_texts
from contextinfinity.rewriting import ChosenAntecedent, FollowUp, Rewriter, Rewritten, rewrite

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 10.0
NOT_WANTED = "it was not requested"

PlainMessage: TypeAlias = dict[str, str]
"""``role`` and ``content``."""


@dataclass(kw_only=True)
class ContextualMessagesResult:
    """The messages for the model and their sources; each request gets a new object.

    ``rewritten_query`` is the rewritten message, or the original one if nothing had to change; None if rewriting
    was disabled. ``short_term_history`` are the earlier turns among the messages. ``left_out`` lists omissions,
    each as ``{"what": …, "reason": …}``: older turns, tool results, a stage that failed or was disabled.
    """

    messages: list[PlainMessage]
    rewritten_query: str | None = None
    memory_snippet: str | None = None
    short_term_history: list[PlainMessage] = field(default_factory=list)
    entities: list[Json] = field(default_factory=list)
    is_ambiguous: bool = False
    disambiguation_data: Json = None
    left_out: list[Json] = field(default_factory=list)


class ContextBuilder:
    """Builds contexts with the given memories and rewriter; each has ``patience`` seconds."""

    def __init__(
        self,
        *,
        memories: SnippetSource | None = None,
        rewriter: Rewriter | None = None,
        system: str = SYSTEM,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._memories = memories or CHOSEN
        self._rewriter = rewriter or ChosenAntecedent()
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
        """Build the context of a message."""
        history = await asyncio.to_thread(load_history, thread_id)
        _log_history(thread_id, history)
        left_out = [*history.left_out]
        snippet = None
        if use_memory:
            snippet = await self._remember(latest_user_message, thread_id, user_id, org_id, left_out)
        else:
            left_out.append(LeftOut(what="memory", reason=NOT_WANTED))
        rewritten = None
        if not use_query_rewriter:
            left_out.append(LeftOut(what="rewriting", reason=NOT_WANTED))
        else:
            follow_up = FollowUp(
                latest_user_message=latest_user_message,
                recent_history=history.turns,
                memory_snippet=snippet,
                thread_id=thread_id,
                user_id=user_id,
            )
            rewritten = await rewrite(
                self._rewriter,
                follow_up,
                patience=self._patience,
                on_failure=lambda error: left_out.append(_failed("rewriting", error)),
            )
        result = self._result(latest_user_message, history, snippet, rewritten)
        result.left_out = [{"what": one.what, "reason": one.reason} for one in left_out]
        return result

    async def _remember(
        self, question: str, thread_id: str, user_id: str | None, org_id: str | None, left_out: list[LeftOut]
    ) -> str | None:
        try:
            async with asyncio.timeout(self._patience):
                found = await self._memories.snippet(question, thread_id=thread_id, user_id=user_id, org_id=org_id)
            return shortened(found)
        except Exception as error:  # any failure; its text is not logged, it may quote messages
            log.warning("thread %r: memories were left out after %s", thread_id, type(error).__name__)
            left_out.append(_failed("memory", error))
            return None

    def _result(
        self, words: str, history: History, snippet: str | None, rewritten: Rewritten | None
    ) -> ContextualMessagesResult:
        front = Front(system=self._system, pinned_facts=history.pinned_facts, memories=snippet or "")
        instructions, *facts = system_texts(front)
        messages = [_message("system", instructions if history.summary else self._system)]  # a summary is data
        messages += [_message("system", text) for text in facts]
        messages += [_message(one.role, one.rendered_text) for one in summary_pair(history.summary)]
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


def _log_history(thread_id: str, history: History) -> None:
    if history.kept_in is None:
        log.info("thread %r not there yet, turns loaded 0", thread_id)
        return
    older = ", older ones left out" if any(one.what.startswith("turns") for one in history.left_out) else ""
    log.info("thread %r found, %s, turns loaded %d%s", thread_id, history.kept_in, len(history.turns), older)


def _plain(history: History) -> list[PlainMessage]:
    return [_message(turn.role, turn.content) for turn in history.turns]


def _failed(stage: str, error: Exception) -> LeftOut:
    """Describe a stage that failed, without the error's text, which may quote messages."""
    return LeftOut(what=stage, reason=f"it failed: {type(error).__name__}")


def _message(role: str, content: str) -> PlainMessage:
    return {"role": role, "content": content}


_builder = ContextBuilder()


def use(builder: ContextBuilder | None) -> None:
    """Set the builder that ``build_contextual_messages`` uses; None: the one from the settings."""
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
    """Return the context of a new message, which is not part of the thread yet.

    No turn is written: record the question and the answer with ``contextinfinity.threads.add_turn``. A long thread
    in the ledger is folded first if its turns do not fit, as in the engine.
    """
    return await _builder.build(thread_id, latest_user_message, user_id, org_id, use_memory, use_query_rewriter)
