"""The slash commands, as one table.

A command is a function of the chat session and of its arguments. It prints its result; an error is printed in words,
and the chat continues. A chat about a repository has commands for its files, its map, fetched pages, cache tiers and
sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, TypeAlias

from contextinfinity.cli.answer_output import NEW, check_model
from contextinfinity.cli.attachments import dragged_file
from contextinfinity.cli.output import local_time, one_line, print_table
from contextinfinity.cli.prompt_commands import print_explained, print_fold, print_pins
from contextinfinity.cli.search_command import print_hits
from contextinfinity.client.references import short
from contextinfinity.domain.session import NewSession
from contextinfinity.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from contextinfinity.cli.chat.chat_session import ChatSession
    from contextinfinity.client.results import ShownBranch
    from contextinfinity.client.workspace_client import WorkspaceConversations

MOST_MOVES = 20
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
    for move in shown["moves"][:MOST_MOVES]:
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
    for one in store.list_sessions(MOST_MOVES):
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
    for one in workspace_of(chat).store.list_sessions(MOST_MOVES):
        yield one["session_id"], f"{one['session_id']}  {one_line(one['preview'], 40)}"


LISTED = 10
"""How many sessions are listed."""

Offer: TypeAlias = tuple[str, str]


def name_of(branch: ShownBranch) -> str:
    """Return the name of a branch for people."""
    return branch.label or short(branch.branch_id)


# --- the conversation ---


def _model(chat: ChatSession, name: str) -> None:
    from contextinfinity.cli.weights_download import prepare

    models = chat.do(chat.client.conversations.models())
    if not name:
        now = chat.how.get("model") or models[0]
        return chat.face.note("\n".join(f"{'*' if model == now else ' '} {model}" for model in models))
    check_model(name, models)
    prepare(chat.options, name, greet=True)
    chat.how["model"] = name
    return chat.face.note(f"{name} answers from now on.")


def _new(chat: ChatSession, _: str) -> None:
    chat.go(NEW)
    chat.face.note("Your next message begins a new conversation; the current one is kept.")


def _sessions(chat: ChatSession, reference: str) -> None:
    if reference:
        chat.go(chat.do(chat.client.threads.find(reference, chat.options.owner)).thread_id)
        return chat.recall()
    found = chat.do(chat.client.threads.list(chat.options.owner, limit=LISTED))
    rows = ((short(one.thread_id), local_time(one.updated_at), str(one.turns), one_line(one.about)) for one in found)
    return print_table(("id", "last", "turns", "title"), rows)


def _retry(chat: ChatSession, _: str) -> None:
    turn = chat.turn()
    if turn.outcome is None:
        raise InvalidInput("The last question is still being answered.", hint="Wait until it is answered.")
    if turn.outcome in ("failed", "incomplete"):
        return chat.ask(turn.user, retry_of=turn.turn_id)
    chat.rewind(turn.turn_seq - 1)
    chat.face.note("Asking again on a new branch; the earlier answer stays on its branch.")
    return chat.ask(turn.user)


def _edit(chat: ChatSession, seq: str) -> None:
    chat.change(chat.turn(_number(seq, "/edit 3") if seq else None))
    chat.face.note("Change the question and send it; it starts a new branch. Ctrl-C cancels.")


# --- its branches ---


def _branches(chat: ChatSession, reference: str) -> None:
    thread, branch = chat.here()
    if reference:
        wanted = chat.do(chat.client.threads.find_branch(thread, reference)).branch_id
        chat.go(thread, chat.do(chat.client.threads.switch(thread, wanted)).branch_id)
        return chat.recall()
    rows = (
        ("*" if one.branch_id == branch or (branch is None and one.active) else "", *_branch_row(one))
        for one in chat.do(chat.client.threads.branches(thread))
    )
    return print_table(("", "branch", "turns", "begins"), rows)


def _branch_row(branch: ShownBranch) -> tuple[str, str, str]:
    origin = f"after turn {branch.fork_seq}" if branch.parent_id else ""
    return name_of(branch), str(branch.last_turn_seq), origin


def _fork(chat: ChatSession, seq: str) -> None:
    thread, branch = chat.here()
    at = _number(seq, "/fork 3") if seq else None
    made = chat.do(chat.client.threads.fork(thread, at=at, branch_id=branch))
    chat.go(thread, made.branch_id)
    chat.face.note(f"On branch {name_of(made)} now, after turn {made.fork_seq}; /branches lists the others.")


def _rollback(chat: ChatSession, seq: str) -> None:
    chat.rewind(_number(seq, "/rollback 3"))
    chat.face.note(f"Back after turn {int(seq)}, on a new branch; later turns stay on the old branch.")


# --- what the model sees ---


def _pin(chat: ChatSession, fact: str) -> None:
    if not fact:
        raise InvalidInput("A pin needs a fact.", hint="Write /pin Answer in German.")
    if chat.thread == NEW:
        chat.go(chat.do(chat.client.threads.create(NewSession(owner=chat.options.owner))).thread_id)
    thread, branch = chat.here()
    print_pins(chat.do(chat.client.pins.add(thread, fact, branch_id=branch)))


def _pins(chat: ChatSession, _: str) -> None:
    thread, branch = chat.here()
    print_pins(chat.do(chat.client.pins.list(thread, branch_id=branch)))


def _unpin(chat: ChatSession, number: str) -> None:
    thread, branch = chat.here()
    print_pins(chat.do(chat.client.pins.remove(thread, _number(number, "/unpin 1"), branch_id=branch)))


def _context(chat: ChatSession, turn: str) -> None:
    turn_id = chat.turn(int(turn) if turn else None).turn_id if not turn or turn.isdecimal() else turn
    print_explained(chat.do(chat.client.conversations.explain(turn_id)))


def _fold(chat: ChatSession, what: str) -> None:
    thread, branch = chat.here()
    folds = chat.client.folds
    if what not in ("", "preview", "undo"):
        raise InvalidInput(f"/fold {what} is not a fold command.", hint="Write /fold, /fold preview or /fold undo.")
    if what == "undo":
        shown = chat.do(folds.undo(thread, branch_id=branch))
    else:
        shown = chat.do(folds.fold(thread, preview=what == "preview", branch_id=branch))
    print_fold(shown, by="/fold", undone_by="/fold undo")


# --- the rest ---


def _help(chat: ChatSession, _: str) -> None:
    names = [f"/{command.name} {command.takes}".rstrip() for command in COMMANDS]
    width = max(map(len, names)) + 2
    between = "\n  " if get_terminal_size().columns < 2 * width else ""  # too narrow for two columns
    lines = [f"{name:{0 if between else width}}{between}{one.says}" for name, one in zip(names, COMMANDS, strict=True)]
    chat.face.note("\n".join([*lines, "", KEYS]))


def _search(chat: ChatSession, words: str) -> None:
    if not words:
        raise InvalidInput("The search query is empty.", hint="Write /search the name of the dog.")
    hits = chat.do(chat.client.past.search(words, user_id=chat.options.user))
    chat.found = tuple(hit.chunk_id for hit in hits.hits)
    print_hits(hits, numbered=True)
    if hits.hits:
        chat.face.note("/attach 1 attaches the first hit to your next message.")


def _attach(chat: ChatSession, what: str) -> None:
    if what and not what.isdecimal():
        return chat.attach(dragged_file(what) or Path(what).expanduser())
    wanted = _number(what, "/attach 1, or /attach notes.md")
    if not 1 <= wanted <= len(chat.found):
        raise InvalidInput(f"There is no hit {wanted}.", hint="/search WORDS lists hits.")
    chat.attached.append(chat.found[wanted - 1])
    return chat.face.note("It is attached to your next message.")


def _editor(chat: ChatSession, begun: str) -> None:
    from contextinfinity.cli.chat.input import written_in_editor

    message = written_in_editor(begun, chat.folder)
    if not message.strip():
        return chat.face.note("The message is empty; nothing was sent.")
    chat.face.note(message)
    return chat.ask(message)


def _rename(chat: ChatSession, title: str) -> None:
    thread, _ = chat.here()
    if not title:
        raise InvalidInput("There is no title.", hint="Write /rename Trip to Basel.")
    renamed = chat.do(chat.client.threads.rename(thread, title))
    chat.face.note(f"This conversation is called {renamed.title!r} now.")


def _copy(chat: ChatSession, number: str) -> None:
    from contextinfinity.cli.output import copy_to_clipboard

    turn = chat.turn(_number(number, "/copy 3") if number else None)
    if not turn.assistant:
        raise InvalidInput(f"Turn {turn.turn_seq} has no answer.", hint="/copy 3 copies the answer of turn 3.")
    copy_to_clipboard(turn.assistant)
    chat.face.note(f"Copied the answer of turn {turn.turn_seq} ({len(turn.assistant):,} characters).")


def _save(chat: ChatSession, name: str) -> None:
    if not name:
        raise InvalidInput("There is no file to save to.", hint="Write /save notes.md or /save everything.cix.jsonl.")
    file = Path(name).expanduser()
    if file.exists():
        raise InvalidInput(f"{file} exists already.", hint="Name a new file.")
    size = chat.save(file)
    chat.face.note(f"Wrote {size:,} bytes to {file}.")


def _quit(chat: ChatSession, _: str) -> None:
    chat.left = True


# --- what Tab offers ---


def _model_names(chat: ChatSession, _: str) -> Iterator[Offer]:
    for name in chat.do(chat.client.conversations.models()):
        yield name, name


def _session_ids(chat: ChatSession, _: str) -> Iterator[Offer]:
    for one in chat.do(chat.client.threads.list(chat.options.owner, limit=LISTED)):
        yield short(one.thread_id), f"{short(one.thread_id)}  {one_line(one.about, 40)}"


def _branch_names(chat: ChatSession, _: str) -> Iterator[Offer]:
    for branch in chat.do(chat.client.threads.branches(chat.here()[0])):
        yield name_of(branch), name_of(branch)


def _fold_words(chat: ChatSession, _: str) -> Iterator[Offer]:
    yield from (("preview", "preview"), ("undo", "undo"))


# --- the table ---


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command: its usage, its line in /help, its function, and its completions."""

    name: str
    takes: str = ""
    says: str
    run: Callable[[ChatSession, str], None]
    offers: Callable[[ChatSession, str], Iterable[Offer]] | None = None
    """Returns what its argument may become; only what begins as it was typed, in any case, is offered."""


COMMANDS = (
    Command(name="help", says="list the commands and keys", run=_help),
    Command(name="model", takes="[NAME]", says="list the models, or choose one", run=_model, offers=_model_names),
    Command(name="new", says="begin a new conversation", run=_new),
    Command(
        name="sessions",
        takes="[ID]",
        says="list the conversations, or continue one",
        run=_sessions,
        offers=_session_ids,
    ),
    Command(name="retry", says="ask the last question again", run=_retry),
    Command(name="edit", takes="[SEQ]", says="change the last question, or an earlier one", run=_edit),
    Command(
        name="branches", takes="[B]", says="list the branches, or continue one", run=_branches, offers=_branch_names
    ),
    Command(name="fork", takes="[SEQ]", says="continue after a turn on a new branch", run=_fork),
    Command(name="rollback", takes="SEQ", says="roll back to a turn on a new branch", run=_rollback),
    Command(name="pin", takes="FACT", says="put a fact into every prompt", run=_pin),
    Command(name="pins", says="list the pinned facts", run=_pins),
    Command(name="unpin", takes="N", says="remove a pinned fact", run=_unpin),
    Command(name="context", takes="[TURN]", says="show what the model saw", run=_context),
    Command(name="fold", takes="[preview|undo]", says="fold old turns now", run=_fold, offers=_fold_words),
    Command(name="search", takes="WORDS", says="search all conversations", run=_search),
    Command(name="attach", takes="N|PATH", says="attach a search hit or a file to the next message", run=_attach),
    Command(name="editor", takes="[TEXT]", says="write a message in $EDITOR", run=_editor),
    Command(name="rename", takes="TITLE", says="give the conversation a title", run=_rename),
    Command(name="copy", takes="[SEQ]", says="copy the last answer, or that of a turn", run=_copy),
    Command(name="save", takes="FILE", says="save the conversation: .md to read, other names to import", run=_save),
    Command(name="add", takes="PATH", says="open a file of the workspace", run=add, offers=paths),
    Command(name="drop", takes="[PATH]", says="close it, or all", run=drop, offers=open_paths),
    Command(name="files", says="list the open files", run=files),
    Command(name="map", takes="[PATH]", says="show the symbols of the repository", run=show_map),
    Command(name="url", takes="ADDRESS", says="show the model a web page, as data", run=url),
    Command(name="tiers", says="show the cache tiers", run=tiers),
    Command(
        name="history",
        takes="[ID]",
        says="list the repository's conversations, or continue one",
        run=history,
        offers=session_ids,
    ),
    Command(name="quit", says="leave; Ctrl-D does too", run=_quit),
)
KEYS = (
    "Enter sends; Alt-Enter, or a backslash at the end, begins a new line. Ctrl-R searches what you typed before, "
    "Tab completes. A message that begins with / is sent with //."
)
MEANT = {"exit": "quit", "q": "quit", "bye": "quit", "regenerate": "retry", "switch": "branches", "undo": "rollback"}


def run(chat: ChatSession, line: str) -> None:
    """Run a slash command."""
    name, _, rest = line[1:].strip().partition(" ")
    for command in COMMANDS:
        if command.name == name:
            return command.run(chat, rest.strip())
    near = [MEANT[name]] if name in MEANT else get_close_matches(name, [one.name for one in COMMANDS], n=1)
    suggestion = f" Did you mean /{near[0]}?" if near else ""
    raise InvalidInput(
        f"There is no command /{one_line(name, 40)}.{suggestion}",
        hint="/help lists them; // sends a message beginning with /.",
    )


def offers(chat: ChatSession, text: str) -> Iterator[Offer]:
    """Return the completions of a line: of a command's name, or of its argument, which may contain blanks."""
    name, space, rest = text.removeprefix("/").partition(" ")
    if not text.startswith("/") or "\n" in text:
        return
    if not space:
        fitting = [one for one in COMMANDS if one.name.startswith(name)]
        yield from ((f"/{one.name} " if one.takes else f"/{one.name}", f"/{one.name}") for one in fitting)
        return
    for command in COMMANDS:
        if command.name == name and command.offers is not None:
            typed = rest.casefold()
            yield from (offer for offer in command.offers(chat, rest) if offer[0].casefold().startswith(typed))


def _number(text: str, example: str) -> int:
    if not text.isdecimal():
        raise InvalidInput("A number is needed.", hint=f"Write {example}.")
    return int(text)
