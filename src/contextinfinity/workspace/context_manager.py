"""The history of one conversation with a model, kept within its token budget.

    with ContextManager("gpt-4o", repo_root=".", compaction_config={"compaction_trigger_tokens": 24_000}) as context:
        context.add_exchange("Why does the test fail?", "The fixture is closed twice.")
        context.compact_history_if_needed()
        send(context.get_history())

Plain calls, from any OS thread, with or without a running event loop. The history is a session of a ledger and its
compaction is the engine's fold: what leaves the list is covered by the summary in front of it, and stays in the ledger.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Self, TypeAlias, TypeVar

import msgspec

from contextinfinity.dialects.openai_chat.reading import MessageReader
from contextinfinity.dialects.openai_chat.value_checks import InvalidValue
from contextinfinity.domain.events import CompactionEvent
from contextinfinity.domain.message import ContentBlock, ImageBlock, Message, TextBlock, say
from contextinfinity.domain.session import NewSession
from contextinfinity.domain.thread import ROLES, Turn, check_turn
from contextinfinity.engine.folding import Fold
from contextinfinity.engine.running_turn import Broadcast
from contextinfinity.errors import InvalidInput, LedgerClosed, LedgerError, Refused
from contextinfinity.prompt.measure import report
from contextinfinity.settings import Settings, load_settings
from contextinfinity.storage.loop_thread import LOOP_SECONDS, PATIENCE_SECONDS, LoopThread, in_a_loop
from contextinfinity.workspace.history import CurrentHistory, WorkspaceHistory
from contextinfinity.workspace.history_encryption import encrypt_workspace
from contextinfinity.workspace.history_sync import record, repair
from contextinfinity.workspace.ledger_setup import LedgerSetup, open_means, settings_for
from contextinfinity.workspace.prompting import PromptWriter

log = logging.getLogger(__name__)
T = TypeVar("T")

Content: TypeAlias = str | list[dict[str, Any]]
OnEvent: TypeAlias = Callable[[dict[str, Any]], object]


class ContextManager(PromptWriter):
    """Keeps the history of a conversation and its files, and builds requests that fit the model's window.

    ``model_name`` is a model's id, or the NAME of a [models.NAME] of the settings; tokens are counted as it counts.
    With ``repo_root`` the history belongs to that repository: it is kept in the machine's ledger and in the
    repository's own history file, and the next context manager on the same folder continues it. Without, it is kept in
    memory alone. ``cache_target_tokens`` is the size of a cache tier. ``compaction_config`` takes the keys of
    [compaction], and ``detection_model``; None switches compaction off. ``on_event`` is called with events of
    compaction and with warnings, in the thread of the caller. ``settings`` replaces those of the machine.
    """

    def __init__(
        self,
        model_name: str,
        repo_root: str | Path | None = None,
        cache_target_tokens: int | None = None,
        compaction_config: Mapping[str, object] | None = None,
        *,
        on_event: OnEvent | None = None,
        settings: Settings | None = None,
    ) -> None:
        if cache_target_tokens is not None and (type(cache_target_tokens) is not int or cache_target_tokens < 0):
            raise InvalidInput(f"cache_target_tokens is {cache_target_tokens!r}.", hint="Give a number of tokens.")
        self._session, self._kept = _session_of(repo_root), repo_root is not None
        self._machine = load_settings().settings if settings is None else settings
        settings = settings_for(self._machine, model_name, compaction_config)
        self.model_name, self._on_event = model_name, on_event
        self._enabled = settings.compaction.enabled
        self._process = os.getpid()
        self._folding: set[asyncio.Task[None]] = set()
        self._loop = LoopThread("context-manager")
        try:
            self._means, self._history = self._restored(settings)
            encrypt_workspace(repo_root, self._machine.data_dir)
            self._open_files(repo_root, self._means.model, cache_target_tokens)
            self._continue_session()
        except BaseException:
            self._loop.close(_nothing)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the ledger and stop OS threads. Closing twice, or in a forked process, does nothing."""
        if os.getpid() == self._process:
            self._loop.close(self._means.close)

    # --- history ---

    def add_message(self, role: str, content: Content) -> None:
        """Append a message of the user, assistant, system or tool; it is durable when this returns.

        ``content`` is a text, or a list of parts in OpenAI's form (``text``, ``image_url``). Only an assistant's text
        may be empty.
        """
        self._add(_message(role, content))

    def add_exchange(self, user: Content, assistant: Content) -> None:
        """Append a question and its answer atomically."""
        self._add(_message("user", user), _message("assistant", assistant))

    def get_history(self) -> list[dict[str, Any]]:
        """Return a copy of the messages, oldest first; after a fold it starts with the summary and its answer.

        ``content`` is a text, or a list of parts if a message has images.
        """
        messages = self._wait(self._history.messages)
        return [{"role": message.role, "content": _content_of(message)} for message in messages]

    def set_history(self, messages: Iterable[Mapping[str, object]]) -> None:
        """Continue with these messages instead; of each, ``role`` and ``content`` are used.

        A summary that ``get_history`` put in front is taken as the summary, not as a message.
        """
        if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
            raise InvalidInput(f"The messages are of type {type(messages).__name__}.", hint="Give a list of dicts.")
        checked = [*map(_checked, messages)]
        self._replace_history(checked)
        self._begin_session(checked)

    def _replace_history(self, messages: Sequence[Message]) -> None:
        self._wait(lambda: self._history.replace(messages))
        self.reregister_history_items()

    def clear_history(self) -> None:
        """Continue without messages, and remove them from the cache tiers."""
        self._wait(self._history.clear)
        self._begin_session()
        self.reregister_history_items()

    def reregister_history_items(self) -> None:
        """Remove the history from the cache tiers: called whenever it was replaced, cleared or compacted."""
        if self.workspace is not None:
            self.workspace.forget_history()

    def history_token_count(self) -> int:
        """Return the number of tokens of ``get_history``."""
        return self._history.measure.messages(self._read().messages)

    # --- budget ---

    def get_token_budget(self) -> dict[str, Any]:
        """Return how full the model's context window is.

        Keys: history_tokens, max_history_tokens, max_input_tokens, max_output_tokens, remaining, needs_summary.
        """
        model, standing = self._means.model, self._read()
        most = model.provider.abilities(model.model_id).max_output_tokens
        found = report(self._history.measure.messages(standing.messages), self._history.budget, most)
        return {**msgspec.structs.asdict(found), "needs_summary": self._is_due(standing)}

    def should_compact(self) -> bool:
        """Return whether the verbatim part exceeds the trigger; always False if compaction is off."""
        return self._is_due(self._read())

    def get_compaction_status(self) -> dict[str, Any]:
        """Return ``enabled``, the ``trigger`` in tokens, and the size of the verbatim part in percent of it.

        The trigger is the configured one, or less where the model's window is small.
        """
        trigger, used = self._history.budget.fold_trigger, self._verbatim(self._read())
        return {"enabled": self._enabled, "trigger": trigger, "percent": round(100 * used / trigger, 1)}

    def compact_history_if_needed(self) -> dict[str, Any] | None:
        """Fold old messages into the summary if ``should_compact``; return None if there is no need.

        The result has ``case`` (truncate, summarize, or none if nothing can be folded or it would not save tokens),
        messages and tokens before and after, and the summary.
        """
        if not self._is_due(before := self._read()):
            return None
        made = self._with_events(self._history.fold)
        if made is not None:
            self.reregister_history_items()
        case = "none" if made is None else made.candidate.case
        return {"case": case, **_difference(self._history.measure.messages, before, self._read())}

    def init_compactor(self, compaction_config: Mapping[str, object] | None = None) -> None:
        """Enable compaction with these keys of [compaction]; missing keys are taken from the settings."""
        settings = settings_for(self._machine, self.model_name, compaction_config or {})
        messages = () if self._kept else self._wait(self._history.messages)
        self._wait(self._means.close)
        self._means, self._history = self._restored(settings)
        if messages:
            self._wait(lambda: self._history.replace(messages))
        self._enabled = settings.compaction.enabled

    def emergency_truncate(self) -> int:
        """If the history exceeds twice the trigger, fold the oldest exchanges until it is within the trigger.

        Use this after a failed compaction: whole exchanges are summarised without a model. Returns the number of
        messages that were removed.
        """
        trigger = self._history.budget.fold_trigger
        if self._verbatim(self._read()) <= 2 * trigger:
            return 0
        left = self._wait(lambda: self._history.truncate(trigger))
        if left:
            self.reregister_history_items()
        return left

    # --- behind them ---

    def _continue_session(self) -> None:
        """Continue the last session of the history file, and synchronise that file with the ledger."""
        if (store := self.history_store) is None:
            return
        missing, is_other = self._wait(lambda: repair(self._history, store, self._machine.data_dir))
        if missing:
            self._wait(lambda: (self._history.replace if is_other else self._history.extend)(missing))
        if store.session_id is None:
            self._begin_session()

    def _restored(self, settings: Settings) -> tuple[LedgerSetup, WorkspaceHistory]:
        """Open the ledger and continue its history; if that fails, start with an empty one in memory."""
        means, session = None, self._session
        try:
            means = open_means(settings, self.model_name, kept=self._kept)
            history = WorkspaceHistory(means.folding, means.model, session)
            log.info("history of %s: turns loaded %d", session.external_id, len(self._loop.wait(history.read).turns))
            return means, history
        except LedgerError as error:
            log.warning("The history cannot be loaded; it starts empty and is not saved: %s", error)
        if means is not None:
            self._loop.wait(means.close)
        means = open_means(settings, self.model_name, kept=False)
        return means, WorkspaceHistory(means.folding, means.model, session)

    def _wait(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if os.getpid() != self._process:
            raise Refused(
                "This ContextManager belongs to the process that created it.", hint="Create a new one after a fork."
            )
        try:
            return self._loop.wait(work)
        except LedgerClosed as error:
            raise LedgerClosed("This ContextManager is closed.", hint="Create a new one.") from error

    def _read(self) -> CurrentHistory:
        return self._wait(self._history.read)

    def _add(self, *messages: Message) -> None:
        patience = LOOP_SECONDS if in_a_loop() else PATIENCE_SECONDS
        self._wait(lambda: self._history.add(messages, patience))
        if (store := self.history_store) is not None:
            self._wait(lambda: self._history.register(store, self._machine.data_dir))
            record(store, messages, self.files.get_files())

    def _verbatim(self, standing: CurrentHistory) -> int:
        """Return the number of tokens of the verbatim part, which can be folded."""
        count = self._history.measure.messages
        return count(standing.messages) - count(standing.summary)

    def _is_due(self, standing: CurrentHistory) -> bool:
        return self._enabled and self._verbatim(standing) > self._history.budget.fold_trigger

    def _with_events(self, fold: Callable[[Broadcast], Coroutine[Any, Any, Fold | None]]) -> Fold | None:
        """Fold, and call ``on_event`` in the caller's thread, so that it may call this context manager."""
        events: SimpleQueue[CompactionEvent | None] = SimpleQueue()
        done: Future[Fold | None] = Future()

        async def work() -> None:
            try:
                done.set_result(await fold(CompactionQueue(events)))
            except BaseException as error:
                done.set_exception(error)
            finally:
                events.put(None)

        async def begin() -> None:
            task = asyncio.create_task(work())
            self._folding.add(task)  # the loop itself holds tasks weakly
            task.add_done_callback(self._folding.discard)

        self._wait(begin)
        while (event := events.get()) is not None:
            self._notify(_as_dict(event))
        return done.result()

    def _notify(self, event: dict[str, Any]) -> None:
        if self._on_event is None:
            return
        try:
            self._on_event(event)
        except Exception as error:  # a failing callback must not break the fold; its message may hold private text
            log.warning("on_event failed with %s", type(error).__name__)


class CompactionQueue(Broadcast):
    """Puts the events of a fold into a queue."""

    def __init__(self, heard: SimpleQueue[CompactionEvent | None]) -> None:
        super().__init__()
        self._heard = heard

    def notify(self, event: CompactionEvent) -> None:
        """Put an event at the end."""
        self._heard.put(event)


def _difference(
    count: Callable[[Sequence[Message]], int], before: CurrentHistory, after: CurrentHistory
) -> dict[str, Any]:
    """Return what a compaction changed: messages and tokens, and the summary."""
    return {
        "messages_before": len(before.messages),
        "messages_after": len(after.messages),
        "tokens_before": count(before.messages),
        "tokens_after": count(after.messages),
        "summary": "" if after.head is None else after.head.summary,
    }


def _as_dict(event: CompactionEvent) -> dict[str, Any]:
    """Return an event as a dict for ``on_event``."""
    fields = msgspec.structs.asdict(event)
    known = ("case", "tokens_before", "tokens_after", "message")
    return {"type": event.__struct_config__.tag, **{name: fields[name] for name in known if name in fields}}


def _content_of(message: Message) -> Content:
    """Return a message's content: a text, or parts if it has images."""
    if not any(isinstance(block, ImageBlock) for block in message.blocks):
        return message.rendered_text
    return [part for block in message.blocks if (part := _part(block)) is not None]


def _part(block: ContentBlock) -> dict[str, Any] | None:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    if not isinstance(block, ImageBlock):
        return None
    source = dict(block.source)
    data = f"data:{block.media_type};base64,{source.get('data', '')}"
    detail = {"detail": source["detail"]} if "detail" in source else {}
    return {"type": "image_url", "image_url": {"url": source.get("url", data), **detail}}


def _checked(message: Mapping[str, object]) -> Message:
    if not isinstance(message, Mapping):
        raise InvalidInput(f"A message is of type {type(message).__name__}.", hint="Give dicts of role and content.")
    return _message(message.get("role"), message.get("content"))


def _message(role: object, content: object) -> Message:
    """Return a message. Raises an error if role or content is invalid."""
    if not isinstance(role, str):
        raise InvalidInput(f"The role is of type {type(role).__name__}.", hint=f"It may be {', '.join(ROLES)}.")
    if isinstance(content, list) and role in ROLES:
        return Message(role=ROLES[role], blocks=_parts(role, content))
    if not isinstance(content, str):
        raise InvalidInput(f"The content is of type {type(content).__name__}.", hint="Give a text or a list of parts.")
    if not content.strip() and role != "assistant":
        raise InvalidInput(f"The {role} message is empty.", hint="Say something.")
    check_turn(Turn(role=role, content=content))
    return say(ROLES[role], content)


def _parts(role: str, content: list[Any]) -> tuple[ContentBlock, ...]:
    """Decode a list of parts in OpenAI's form; an assistant message cannot have images."""
    read, is_answer = MessageReader(), role == "assistant"
    try:
        read.take({"role": "assistant" if is_answer else "user", "content": content})
    except InvalidValue as wrong:
        raise wrong.error() from None
    if is_answer and not read.messages[0].rendered_text:
        return (TextBlock(text=""),)
    if not read.messages[0].blocks:
        raise InvalidInput("The content has no part with text or an image.", hint="Give a text or an image_url.")
    check_turn(Turn(role="user", content=read.messages[0].rendered_text))
    return read.messages[0].blocks


def _session_of(repo_root: str | Path | None) -> NewSession:
    """Return the session of a folder; different spellings of its path give the same session."""
    if repo_root is None:
        return NewSession(external_id="context-manager")
    root = Path(repo_root).expanduser().resolve()
    if not root.is_dir():
        raise InvalidInput(f"The repo_root {root} is not a folder.", hint="Give the folder of a repository, or none.")
    path = os.fsencode(root)  # a name may hold bytes that are no text
    title = os.fsencode(root.name).decode(errors="replace")
    return NewSession(external_id=f"workspace:{hashlib.sha256(path).hexdigest()}", title=title or None)


async def _nothing() -> None:
    """Do nothing: there is no ledger to close."""
