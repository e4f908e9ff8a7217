"""Build the context of a new message in a thread for a model.

    1  the system text                          4  the earlier turns, oldest first
    2  pinned facts and long-term memories      5  the new message in the user's own words, followed by its
    3  the summary of older turns                  rewritten form if that differs

History is read first, and no turn is written. Memories and rewriting are optional stages: one that fails or times out
is left out, and the log and the result record that. An unreadable history is an error, because an answer without it
would be wrong.

Earlier turns from the ledger are what the engine shows: pinned facts, the summary, and every turn after it. If the
turns do not fit, the branch is folded first, without a model. Other backends have no summary: of a very long thread
only the newest turns are returned. Omissions are listed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, TypeAlias

from contextinfinity.compat.ledger_threads import LARGEST_PAGE, LedgerThreads
from contextinfinity.compat.threads import DEFAULT_WINDOW, get_history, get_thread, identity, place, window_start
from contextinfinity.domain.ids import BranchId, is_id
from contextinfinity.domain.memory import ANONYMOUS
from contextinfinity.domain.message import Json, TextBlock
from contextinfinity.domain.plan import Front, LeftOut
from contextinfinity.domain.session import Owner, Session
from contextinfinity.domain.state import State
from contextinfinity.domain.thread import Turn, can_be_a_thread
from contextinfinity.domain.turn import UNFINISHED
from contextinfinity.domain.turn import Turn as LedgerTurn
from contextinfinity.engine.engine_setup import Remembering
from contextinfinity.engine.prompt_material import LONGEST_REWRITING
from contextinfinity.engine.recall import SYSTEM, known_from, placeholder_session, recall_memories
from contextinfinity.errors import LedgerError
from contextinfinity.prompt.layout import CONTEXTUALISED, summary_pair, system_texts
from contextinfinity.prompt.prompt_sections import Shown, shown_turns
from contextinfinity.rewriting import ChosenAntecedent, FollowUp, Rewriter, Rewritten, rewrite
from contextinfinity.storage.contract import Store
from contextinfinity.storage.loop_thread import LoopThread

if TYPE_CHECKING:
    from pathlib import Path

    from contextinfinity.engine.folding import Folding
    from contextinfinity.settings import Settings

WIRING = "contextinfinity.wiring"
"""The package that creates an engine's parts. It is a higher layer, so it is imported by name at run time."""
MOST_CHARACTERS = 96_000
"""About 24,000 tokens; the newest ``DEFAULT_WINDOW`` turns are always included."""
MESSAGE_CHARACTERS = 16
"""The overhead of a message in characters."""
FIRST_LOOK = 64


@dataclass(frozen=True, kw_only=True)
class History:
    """The turns, oldest first, the summary and pins, the omissions, and where they are stored (None: no thread)."""

    turns: tuple[Turn, ...] = ()
    kept_in: str | None = None
    summary: str = ""
    pinned_facts: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


def load_history(thread_id: str) -> History:
    """Read the earlier turns. No turn is written; a long thread in the ledger may be folded."""
    if can_be_a_thread(thread_id) and isinstance(log_in_use := place(), LedgerThreads):
        return log_in_use.read(thread_id, _from_ledger) or History()
    most = FIRST_LOOK
    turns = get_history(thread_id, most)
    while len(turns) >= most and (size := sum(map(_size, turns))) <= MOST_CHARACTERS:
        most = max(2 * most, len(turns) * MOST_CHARACTERS // size + DEFAULT_WINDOW)  # estimated from the average size
        turns = get_history(thread_id, most)
    shown = turns[_start(turns) :]
    is_cut = len(shown) < len(turns) or len(turns) >= most
    thread = get_thread(thread_id) if is_cut else None
    older = 0 if thread is None else len(thread.turns) - len(shown)
    left_out = _too_many(1, older) if older > 0 else ()
    return History(turns=tuple(shown), kept_in=identity(thread_id), left_out=left_out)


# --- in the ledger ---


async def _from_ledger(store: Store, session: Session) -> History:
    """Read what the engine would show; fold the branch first if it does not fit."""
    branch = session.active_branch
    state, turns = await _after_summary(store, branch)
    if sum(map(_characters, turns)) > MOST_CHARACTERS:
        await _fold(store, branch)
        state, turns = await _after_summary(store, branch)
    running = [turn.turn_seq for turn in turns if turn.phase in UNFINISHED]
    shown = shown_turns([turn for turn in turns if turn.phase not in UNFINISHED], None)
    numbered = [(each.turn_seq, said) for each in shown for said in _plain_turns(each)]
    start = _start([said for _, said in numbered])
    first = numbered[start][0] if numbered else 0
    older = await store.turns.history(branch, limit=1, before=first) if first > state.covers_turn_seq + 1 else ()
    is_cut = any(turn.turn_seq > state.covers_turn_seq for turn in older)  # otherwise the turns in between were deleted
    missing = _too_many(state.covers_turn_seq + 1, first - 1) if is_cut else ()
    return History(
        turns=tuple(said for _, said in numbered[start:]),
        kept_in=f"branch {branch}",
        summary=state.summary,
        pinned_facts=state.pinned_facts,
        left_out=(*missing, *_not_plain(shown), *_unanswered(running)),
    )


async def _after_summary(store: Store, branch_id: BranchId) -> tuple[State, list[LedgerTurn]]:
    """Read the state of a branch and the turns after its summary, back to the size limit."""
    state = await store.states.head(branch_id)
    turns: list[LedgerTurn] = []
    room, size = MOST_CHARACTERS, FIRST_LOOK
    while room >= 0:
        page = await store.turns.history(branch_id, limit=size, before=turns[0].turn_seq if turns else None)
        later = [turn for turn in page if turn.turn_seq > state.covers_turn_seq]
        turns[:0] = later
        if len(later) < size:
            break
        room, size = room - sum(map(_characters, later)), min(2 * size, LARGEST_PAGE)
    return state, turns


async def _fold(store: Store, branch_id: BranchId) -> None:
    """Fold a branch without a model, as the engine does if the turns do not fit; a failure is only logged."""
    try:
        folding: Folding = import_module(WIRING).folding_without_models(store)
        if folding.setup.folds:
            await folding.fold(branch_id)
    except LedgerError as error:
        log.warning("branch %s could not be folded; its oldest turns are left out: %s", branch_id, error)


def _plain_turns(shown: Shown) -> list[Turn]:
    """Return the text messages of a turn."""
    return [Turn(one.role, one.rendered_text) for one in shown.messages if one.rendered_text]


def _not_plain(shown: Sequence[Shown]) -> tuple[LeftOut, ...]:
    """List the turns with more than text: tool calls, tool results, images."""
    seqs = [
        each.turn_seq
        for each in shown
        if any(not isinstance(block, TextBlock) for message in each.messages for block in message.blocks)
    ]
    if not seqs:
        return ()
    return (LeftOut(what=f"tool calls, results and pictures of {_turns(seqs)}", reason="messages here are plain text"),)


def _unanswered(seqs: Sequence[int]) -> tuple[LeftOut, ...]:
    return (LeftOut(what=_turns(seqs), reason="still being answered"),) if seqs else ()


def _turns(seqs: Sequence[int]) -> str:
    return f"turn {seqs[0]}" if len(seqs) == 1 else f"{len(seqs)} turns from {seqs[0]} to {seqs[-1]}"


def _characters(turn: LedgerTurn) -> int:
    return len(turn.user_message.rendered_text) + len(turn.text) + 2 * MESSAGE_CHARACTERS


# --- in any backend ---


def _too_many(first: int, last: int) -> tuple[LeftOut, ...]:
    reason = f"only the newest turns are shown, up to {MOST_CHARACTERS:,} characters"
    return (LeftOut(what=f"turns {first}–{last}", reason=reason),)


def _start(turns: Sequence[Turn]) -> int:
    """Return the index of the first turn to show: a question, such that the rest stays within the limit."""
    room, count = MOST_CHARACTERS, 0
    for turn in reversed(turns):
        room -= _size(turn)
        if room < 0:
            break
        count += 1
    return window_start(turns, max(count, DEFAULT_WINDOW), whole=True) or 0


def _size(turn: Turn) -> int:
    return len(turn.content) + MESSAGE_CHARACTERS


LONGEST_SNIPPET = 2000


class SnippetSource(Protocol):
    """Returns facts about users and threads."""

    async def snippet(self, question: str, *, thread_id: str, user_id: str | None, org_id: str | None) -> str | None:
        """Return relevant facts, one per line, at most ``LONGEST_SNIPPET`` characters; None if there are none."""
        ...


class LedgerSnippets:
    """A ``SnippetSource`` on a ledger: the user's memories, and those of the thread if it is theirs."""

    def __init__(self, store: Store, remembering: Remembering | None = None) -> None:
        self._store = store
        self._remembering = remembering or Remembering()

    async def snippet(self, question: str, *, thread_id: str, user_id: str | None, org_id: str | None) -> str | None:
        """Return the facts relevant to a question first, then the permanent ones; None if there are none."""
        owner = Owner(user_id=user_id or ANONYMOUS, org_id=org_id or "")
        session = await self._session(thread_id, owner)
        recalled = await recall_memories(
            self._store.memories, self._remembering, session, session.active_branch, question
        )
        return (await known_from(recalled, question, self._remembering.most)).text or None

    async def _session(self, thread_id: str, owner: Owner) -> Session:
        """Return the thread if it belongs to the owner, otherwise a placeholder session."""
        session = await self._store.sessions.get(thread_id) if is_id(thread_id) else None
        session = session or await self._store.sessions.find(owner, thread_id)
        return session if session is not None and session.owner == owner else placeholder_session(owner)


class ChosenMemories:
    """A ``SnippetSource`` on the configured ledger; it returns nothing while that ledger does not exist.

    The ledger stays open for the next question, on a private event loop, because callers may have different loops.
    It is reopened if the settings name another file, the file was replaced, or the process was forked.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._key: tuple[object, ...] = ()
        self._loop: LoopThread | None = None
        self._store: Store | None = None

    async def snippet(self, question: str, *, thread_id: str, user_id: str | None, org_id: str | None) -> str | None:
        """Return the facts of the configured ledger."""

        def ask() -> str | None:
            chosen = import_module(WIRING).remembered()
            if chosen is None:
                return None
            settings, remembering = chosen
            loop, store = self._open(settings, settings.ledger_path)
            memories = LedgerSnippets(store, remembering)
            return loop.wait(lambda: memories.snippet(question, thread_id=thread_id, user_id=user_id, org_id=org_id))

        return await asyncio.to_thread(ask)

    def _open(self, settings: Settings, path: Path) -> tuple[LoopThread, Store]:
        """Return the open ledger of these settings; close the one that was open before."""
        file = path.stat()
        key = (os.getpid(), path, file.st_dev, file.st_ino)
        with self._lock:
            if self._loop is None or self._store is None or key != self._key:
                if self._loop is not None and self._store is not None and self._key[0] == os.getpid():
                    self._loop.close(self._store.close)
                self._loop = self._store = None
                store = import_module(WIRING).open_store(settings)
                self._key, self._loop, self._store = key, LoopThread("memories"), store
            return self._loop, self._store


CHOSEN = ChosenMemories()
"""The instance that all builders share unless they are given another."""


def shortened(snippet: str | None) -> str | None:
    """Truncate a snippet that is too long, between two facts if possible; return None if it is blank."""
    if snippet is None or not snippet.strip():
        return None
    if len(snippet) <= LONGEST_SNIPPET:
        return snippet
    cut = snippet[: LONGEST_SNIPPET + 1]
    return cut[: cut.rfind("\n")] if "\n" in cut else cut[:LONGEST_SNIPPET]


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
