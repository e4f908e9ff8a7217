"""Commands of a chat about a repository: its files, its map, fetched pages, cache tiers and sessions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from contextinfinity.cli.output import local_time, one_line, print_table
from contextinfinity.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from contextinfinity.cli.chat.chat_session import ChatSession
    from contextinfinity.client.workspace_client import WorkspaceConversations

LISTED = 20
PRIVATE = "private"


def workspace_of(chat: ChatSession) -> WorkspaceConversations:
    """Return the workspace of a chat."""
    from contextinfinity.client.workspace_client import WorkspaceConversations

    if not isinstance(chat.client.conversations, WorkspaceConversations):
        raise InvalidInput("This chat has no workspace.", hint="Start it with `cix chat --workspace DIR`.")
    return chat.client.conversations


def add(chat: ChatSession, path: str) -> None:
    """Open a file, or attach an image."""
    workspace = workspace_of(chat)
    if not path:
        raise InvalidInput("No file is named.", hint="Write /add src/main.py.")
    if not workspace.add(path):
        raise NotFound(f"There is no file {path} in {workspace.workspace.root}.", hint="Tab completes paths.")
    is_open = workspace.workspace.files.has_file(path)
    chat.face.note(f"{path} goes with your next message{'s' if is_open else ''}.")


def drop(chat: ChatSession, path: str) -> None:
    """Close a file or a page, or all of them."""
    workspace = workspace_of(chat).workspace
    if not path:
        workspace.files.clear()
        workspace.pages.clear()
        return chat.face.note("No file is open now.")
    if workspace.pages.pop(path, None) is None and not workspace.files.remove_file(path):
        raise NotFound(f"{path} is not open.", hint="/files lists the open ones.")
    return chat.face.note(f"{path} is closed.")


def files(chat: ChatSession, _: str) -> None:
    """List the open files."""
    shown = workspace_of(chat).workspace.breakdown()
    rows = [*map(_row, shown["files"].items()), *map(_row, shown["urls"].items())]
    if not rows:
        return chat.face.note("No file is open. /add opens one.")
    return print_table(("file", "tokens"), rows)


def _row(counted: tuple[str, int]) -> tuple[str, str]:
    return counted[0], str(counted[1])


def show_map(chat: ChatSession, path: str) -> None:
    """Print the symbols of the repository, or of files whose path begins so."""
    workspace = workspace_of(chat).workspace
    workspace.refresh()
    chosen = [one for one in sorted(workspace.symbols.files) if one.startswith(path)] if path else []
    shown = "\n\n".join(filter(None, map(workspace.symbols.render, chosen))) if path else workspace.symbol_map()
    chat.face.note(shown or "No symbols were found.")


def url(chat: ChatSession, address: str) -> None:
    """Fetch a page and show it to the model as data; ``private`` before it allows addresses of the own network."""
    from contextinfinity.workspace.urls import fetch_page

    workspace = workspace_of(chat).workspace
    if not address:
        raise InvalidInput("No address is named.", hint="Write /url https://example.com/page.")
    first, _, rest = address.partition(" ")
    page = fetch_page(rest.strip(), allow_private=True) if first == PRIVATE else fetch_page(address)
    workspace.pages[page.url] = page.text
    chat.face.note(f"{page.title or page.url}: {len(page.text)} characters go with your next messages, as data.")


def tiers(chat: ChatSession, _: str) -> None:
    """Show what is in each cache tier, and what moved last."""
    shown = workspace_of(chat).workspace.breakdown()
    rows = (
        (name, str(len(tier["items"])), str(tier["tokens"]), one_line(" ".join(tier["items"]), 60))
        for name, tier in shown["tiers"].items()
    )
    print_table(("tier", "items", "tokens", "what"), rows)
    for move in shown["moves"][:LISTED]:
        chat.face.note(f"{move['key']}: {move['source'] or '–'} → {move['target'] or '–'}, {move['reason']}")


def history(chat: ChatSession, session_id: str) -> None:
    """List the sessions of the repository, or continue one."""
    store = workspace_of(chat).store
    if session_id:
        found = [one["session_id"] for one in store.list_sessions() if one["session_id"].startswith(session_id)]
        if len(found) != 1:
            raise NotFound(f"There is no conversation {session_id}.", hint="/history lists them.")
        chat.go(store.continue_session(found[0]))
        return chat.face.note(f"Continuing conversation {found[0]}.")
    rows = []
    for one in store.list_sessions(LISTED):
        when = local_time(datetime.fromisoformat(one["timestamp"]))
        rows.append((one["session_id"], when, str(one["message_count"]), one_line(one["preview"])))
    return print_table(("session", "last", "messages", "begins"), rows)


def paths(chat: ChatSession, typed: str) -> Iterator[tuple[str, str]]:
    """Return what is in the folder that is being typed, as completions; the folder is kept as it was typed."""
    from contextinfinity.workspace.files import resolve_inside
    from contextinfinity.workspace.listing import names_in

    root = workspace_of(chat).workspace.root
    folder, slash, _ = typed.rpartition("/")
    real = resolve_inside(root, folder + slash)
    for path in names_in(root, "" if real == root else real.relative_to(root).as_posix()):
        name = path[path.rfind("/", 0, -1) + 1 :]
        yield f"{folder}{slash}{name}", name


def open_paths(chat: ChatSession, _: str) -> Iterator[tuple[str, str]]:
    """Return the open files and pages, as completions."""
    workspace = workspace_of(chat).workspace
    yield from ((path, path) for path in (*workspace.files.get_files(), *sorted(workspace.pages)))


def session_ids(chat: ChatSession, _: str) -> Iterator[tuple[str, str]]:
    """Return the sessions of the repository, as completions."""
    for one in workspace_of(chat).store.list_sessions(LISTED):
        yield one["session_id"], f"{one['session_id']}  {one_line(one['preview'], 40)}"
