"""Search in what was said, by meaning and by words; what is found can go along with the next message."""

from __future__ import annotations

from asyncio import sleep
from collections.abc import Iterable
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input, OptionList

from contextinfinity.domain.search import Hit
from contextinfinity.tui.live_turn import clock, excerpt
from contextinfinity.tui.panels.panel import ListPanel

TYPING_SECONDS = 0.2
MOST = 30
LONGEST = 400


class SearchPanel(ListPanel):
    """Chunks that fit what was typed; with nothing typed, those of the selected turn."""

    NAME = "search"
    TITLE = "Search and chunks"
    KEYS = "Enter attaches to the next message · o opens the turn · s this or all conversations"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("o", "open_place", "Open"), Binding("s", "toggle_scope", "Scope")]
    _everywhere = True
    _hits: tuple[Hit, ...] = ()

    class ChunkAttached(Message):
        """A chunk was attached to the next message, or taken off again."""

        def __init__(self, hit: Hit) -> None:
            super().__init__()
            self.hit = hit

    def body(self) -> Iterable[Input | OptionList]:  # type: ignore[override]
        """Return a field above the list."""
        yield Input(placeholder="Search in all conversations", id="search-words", select_on_focus=True)
        yield OptionList(classes="panel-list", markup=False)

    async def load(self) -> None:
        """Search for what is typed, or list the chunks of the selected turn."""
        words = self.query_one(Input).value.strip()
        if not words:
            return await self._browse()
        await sleep(TYPING_SECONDS)
        past, thread = self.conversation.client.past, self.conversation.thread
        where = None if self._everywhere else self.conversation.thread_id
        found = await self.conversation.call(past.search(words, limit=MOST, user_id=thread.user_id, thread_id=where))
        self._hits = found.hits
        self._fill(f"Nothing found for {words}.")
        for missing in found.missing:
            self.notify(f"Not searched: {missing}", severity="warning")
        return None

    async def _browse(self) -> None:
        self._hits = ()
        turn = await self.conversation.turn()
        if turn is None:
            return self.show_nothing("Type to search the conversations.")
        self._hits = (await self.conversation.call(self.conversation.client.past.chunks(turn.turn_id))).hits
        return self._fill(f"Turn {turn.turn_seq} has no chunks yet. Type to search.")

    def _fill(self, nothing: str) -> None:
        if not self._hits:
            return self.show_nothing(nothing)
        words = self.query_one(Input).value
        attached = {hit.chunk_id for hit in self.conversation.attached}
        return self.show_lines(_line(hit, words, hit.chunk_id in attached) for hit in self._hits)

    @on(Input.Changed, "#search-words")
    def _typed(self) -> None:
        self.reload()

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        hit = self._hits[event.option_index]
        attached = self.conversation.attached
        if hit in attached:
            attached.remove(hit)
        else:
            attached.append(hit)
        self._fill("")
        self.post_message(self.ChunkAttached(hit))

    def action_open_place(self) -> None:
        """Go to the turn of the highlighted chunk."""
        if self._hits and self.chosen is not None:
            hit = self._hits[self.chosen]
            self.post_message(self.TurnChosen(hit.turn_seq, hit.thread_id))

    def action_toggle_scope(self) -> None:
        """Search in this conversation only, or in all."""
        self._everywhere = not self._everywhere
        where = "all conversations" if self._everywhere else "this conversation"
        self.query_one(Input).placeholder = f"Search in {where}"
        self.notify(f"Searching in {where}.")
        self.reload()


def _line(hit: Hit, words: str, attached: bool) -> Text:
    score = f"{hit.score:.2f} " if hit.score else ""
    return Text.assemble(
        ("attached  " if attached else "", "bold cyan"),
        (f"{score}{hit.type}, {hit.role}, turn {hit.turn_seq}, {clock(hit.created_at)}\n", "dim"),
        excerpt(hit.text, words, LONGEST)[:LONGEST],
        "\n",
    )
