"""The part of a ContextManager that writes prompts: files, symbols and history in one request, within the window."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from contextinfinity.domain.message import Message
from contextinfinity.engine.model_choice import Model
from contextinfinity.errors import InvalidInput, NotFound, Refused
from contextinfinity.workspace.assembly import ChatMessage, PromptParts, assemble_flat, assemble_tiered
from contextinfinity.workspace.files import FileContext
from contextinfinity.workspace.history_file import HistoryStore
from contextinfinity.workspace.history_sync import messages_of_session, record
from contextinfinity.workspace.repository import SHED_SHARE, Count, Workspace, shed
from contextinfinity.workspace.stability import DEFAULT_TARGET, StabilityTracker
from contextinfinity.workspace.urls import Page, fetch_page

SYSTEM = "You are a helpful assistant. You talk with a developer about a repository."
FOLDER, LEGACY_FOLDER = ".contextinfinity", ".ac-dc"
SYMBOL_CACHE = "symbols.cache"


def history_folder(root: Path) -> Path:
    """Return the folder of a repository's history; one of another tool with the same format is continued."""
    legacy = root / LEGACY_FOLDER
    folder = legacy if (legacy / "history.jsonl").is_file() and not (root / FOLDER).exists() else root / FOLDER
    if folder.is_symlink():
        raise InvalidInput(f"{folder} is a symbolic link.", hint="Replace it by a folder, or remove it.")
    return folder


def cache_target(configured: int | None, min_cache_tokens: int) -> int:
    """Return how large a cache tier should be: as configured, or a little over the model's smallest cached prefix."""
    if configured is not None:
        return configured
    return round(min_cache_tokens * 1.1) if min_cache_tokens else DEFAULT_TARGET


class PromptWriter(ABC):
    """Writes the requests of a conversation about files. ``workspace`` and the sessions need a ``repo_root``."""

    workspace: Workspace | None
    files: FileContext
    history_store: HistoryStore | None
    cache_target_tokens: int
    _count: Count
    _window: int
    _min_cache_tokens: int

    @abstractmethod
    def get_history(self) -> list[dict[str, Any]]:
        """Return the messages so far."""

    @abstractmethod
    def _replace_history(self, messages: Sequence[Message]) -> None:
        """Continue with these messages, which are a session of the history file."""

    @abstractmethod
    def clear_history(self) -> None:
        """Continue with no messages."""

    @abstractmethod
    def _notify(self, event: dict[str, Any]) -> None:
        """Notify the listener."""

    @property
    def tracker(self) -> StabilityTracker | None:
        """The cache tiers; only with a ``repo_root``."""
        return None if self.workspace is None else self.workspace.tracker

    # --- requests ---

    def assemble_messages(self, message: str, *, images: Sequence[str] = (), system: str = SYSTEM) -> list[ChatMessage]:
        """Write a request in the flat order, without cache markers. ``images`` are data URIs."""
        history = self._earlier(message)
        if self.workspace is None:
            shown = self.files.format_for_prompt()
            return assemble_flat(
                PromptParts(system=system, message=message, images=images, files=shown, history=history)
            )
        self.workspace.refresh()
        return assemble_flat(self.workspace.flat_parts(system, message, history, images))

    def assemble_tiered_messages(
        self, message: str, *, images: Sequence[str] = (), system: str = SYSTEM
    ) -> list[ChatMessage]:
        """Write a request in cache tiers, with a marker on each; in the flat order without a ``repo_root``.

        Call ``response_received`` after its response: items that stay unchanged climb from tier to tier.
        """
        if self.workspace is None:
            return self.assemble_messages(message, images=images, system=system)
        history = self._earlier(message)
        self.workspace.prepare(history)
        parts = self.workspace.parts(system, message, history, images)
        return assemble_tiered(parts, count=self._count, min_cache_tokens=self._min_cache_tokens)

    def add_url(self, url: str, *, allow_private: bool = False) -> Page:
        """Fetch a page and show it in later requests as untrusted data; ``Refused`` if it must not be fetched."""
        if self.workspace is None:
            raise Refused("Pages need a workspace.", hint="Give a repo_root.")
        page = fetch_page(url, allow_private=allow_private)
        self.workspace.pages[page.url] = page.text
        return page

    def response_received(self) -> None:
        """Note that the last request was answered."""
        if self.workspace is not None:
            self.workspace.answered()

    def estimate_prompt_tokens(self, message: str = "", *, system: str = SYSTEM) -> int:
        """Count the tokens that a request with this message would take."""
        return self._size(self.assemble_messages(message, system=system))

    def shed_files_if_needed(self, message: str = "", *, system: str = SYSTEM) -> list[str]:
        """Drop open files, the largest first, until a request takes at most 90% of the window.

        Returns the dropped paths; the listener gets a warning to be shown in the chat.
        """
        limit = int(self._window * SHED_SHARE)
        tokens = self.estimate_prompt_tokens(message, system=system)
        dropped = shed(self.files, self._count, tokens, limit)
        if dropped:
            named = ", ".join(dropped)
            text = f"The prompt would take {tokens} tokens, more than {limit}. Dropped from the context: {named}."
            self._notify({"type": "files_shed", "message": text, "files": dropped})
        return dropped

    def get_context_breakdown(self, *, system: str = SYSTEM) -> dict[str, Any]:
        """Return the tokens of the next request, of each open file, and what is in each cache tier."""
        counted = {"total": self.estimate_prompt_tokens(system=system), "window": self._window}
        if self.workspace is None:
            return {**counted, "files": self.files.get_tokens_by_file(self._count), "tiers": {}}
        return {**counted, **self.workspace.breakdown()}

    # --- sessions ---

    def list_sessions(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Return the sessions of the repository, newest first; none without a ``repo_root``."""
        return [] if self.history_store is None else self.history_store.list_sessions(limit)

    def new_session(self) -> str | None:
        """Begin a session without messages, and return its id."""
        self.clear_history()
        return None if self.history_store is None else self.history_store.session_id

    def load_session(self, session_id: str) -> dict[str, Any]:
        """Continue a session; return its id and its messages with their images as data URIs."""
        store = self.history_store
        messages = [] if store is None else messages_of_session(store, session_id)
        if store is None or not messages:
            raise NotFound(f"There is no conversation {session_id}.", hint="list_sessions lists them.")
        self._replace_history(messages)
        store.continue_session(session_id)
        shown = store.get_session_messages(session_id)
        return {"session_id": session_id, "message_count": len(shown), "messages": shown}

    def search_history(self, query: str, role: str | None = None, limit: int | None = 50) -> list[dict[str, Any]]:
        """Return the newest messages that contain a text in any case, from the file or else from the history."""
        found = [] if self.history_store is None else self.history_store.search(query, role, limit)
        needle = query.casefold()
        if found or not needle.strip():
            return found
        text_messages = [one for one in self.get_history() if isinstance(one["content"], str)]
        matches = [one for one in text_messages if needle in one["content"].casefold() and role in (None, one["role"])]
        return matches[::-1][:limit]

    def get_current_state(self) -> dict[str, Any]:
        """Return the session, its messages and the open files."""
        return {
            "session_id": None if self.history_store is None else self.history_store.session_id,
            "messages": self.get_history(),
            "selected_files": self.files.get_files(),
        }

    # --- behind them ---

    def _open_files(self, repo_root: str | Path | None, model: Model, target: int | None) -> None:
        """Open the files, cache tiers and history file of a repository."""
        abilities = model.provider.abilities(model.model_id)
        self._count = model.counter.count
        self._window, self._min_cache_tokens = abilities.context_limit, abilities.min_cache_tokens
        self.cache_target_tokens = cache_target(target, abilities.min_cache_tokens)
        if repo_root is None:
            self.workspace, self.history_store, self.files = None, None, FileContext()
            return
        root = Path(repo_root).expanduser().resolve()
        self.history_store = HistoryStore(history_folder(root))
        self.workspace = Workspace(
            root,
            self._count,
            window=self._window,
            target=self.cache_target_tokens,
            cache=self.history_store.folder / SYMBOL_CACHE,
        )
        self.files = self.workspace.files

    def _begin_session(self, messages: Sequence[Message] = ()) -> None:
        """Begin a session of the history file; one that cannot be written is left behind with a warning."""
        if self.history_store is None:
            return
        self.history_store.new_session()
        record(self.history_store, messages)

    def _earlier(self, message: str) -> list[ChatMessage]:
        """Return the history without the message that is about to be answered, if it was added before the call."""
        history = self.get_history()
        last = history[-1] if history else None
        return history[:-1] if last is not None and last == {"role": "user", "content": message} else history

    def _size(self, messages: Sequence[ChatMessage]) -> int:
        texts = (one["content"] if isinstance(one["content"], str) else str(one["content"]) for one in messages)
        return sum(map(self._count, texts)) + 4 * len(messages)
