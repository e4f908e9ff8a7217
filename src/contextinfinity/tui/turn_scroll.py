"""A long list of turns of which only what is in view is read and drawn.

Ten thousand turns are one widget: a line of the screen is looked up in a ``LineMap`` and drawn from the turn it belongs
to. When turns above the view are measured, the view moves with them, so that what a person reads stays where it is.

The turns of a branch are read page by page as they come into view. A page holds ``PAGE`` consecutive turn numbers. The
most recently used pages are kept; the others are read again when they are needed.

The ``LineMap`` says which line belongs to which item, when most items were never drawn. Only the heights of items that
were drawn are kept; every other item is taken to have their mean height. Items are numbered from 1.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from itertools import accumulate
from typing import TypeAlias

from rich.style import Style
from rich.text import Text
from textual import events, work
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from contextinfinity.client.results import ShownTurn
from contextinfinity.errors import ContextInfinityError
from contextinfinity.tui.live_turn import LiveTurn, Look, turn_lines

GUESS = 8
"""The height of an item as long as none was measured."""


class LineMap:
    """The heights of ``count`` items, and the line each of them begins at."""

    def __init__(self, count: int) -> None:
        self.count = count
        """The number of items."""
        self._heights: dict[int, int] = {}
        self._index: tuple[list[int], list[int], int] | None = None

    @property
    def total(self) -> int:
        """The number of lines."""
        return self.top(self.count + 1)

    def measure(self, item: int, height: int) -> None:
        """Set the height of an item."""
        if self._heights.get(item) != height:
            self._heights[item] = height
            self._index = None

    def resize(self, count: int) -> None:
        """Change the number of items; those that stay keep their heights."""
        if count < self.count:
            self._heights = {item: height for item, height in self._heights.items() if item <= count}
        self.count, self._index = count, None

    def forget(self) -> None:
        """Forget all heights: the width has changed."""
        self._heights.clear()
        self._index = None

    def top(self, item: int) -> int:
        """Return the first line of an item."""
        measured, sums, guess = self._sums()
        before = bisect_left(measured, item)
        return sums[before] + (item - 1 - before) * guess

    def item_at(self, line: int) -> int:
        """Return the item that holds a line, or the nearest one; 0 where there are none."""
        return max(bisect_right(range(1, self.count + 1), line, key=self.top), min(self.count, 1))

    def _sums(self) -> tuple[list[int], list[int], int]:
        """Return the measured items in order, the sums of the heights before each, and the height of the others."""
        if self._index is None:
            items = sorted(self._heights)
            sums = [*accumulate((self._heights[item] for item in items), initial=0)]
            self._index = items, sums, max(round(sums[-1] / len(items)), 1) if items else GUESS
        return self._index


PAGE = 50
MOST_PAGES = 24

ReadTurns: TypeAlias = Callable[[int, int], Awaitable[tuple[ShownTurn, ...]]]
"""Reads the newest turns below a turn number: (before, limit)."""


class TurnPages:
    """A cache of turns by their number, from 1 to ``last``."""

    def __init__(self, read: ReadTurns, last: int) -> None:
        self.last = last
        self._read = read
        self._pages: OrderedDict[int, dict[int, ShownTurn]] = OrderedDict()

    def get(self, seq: int) -> ShownTurn | None:
        """Return a turn if its page is loaded and it exists."""
        page = self._pages.get((seq - 1) // PAGE)
        return None if page is None else page.get(seq)

    def is_loaded(self, seq: int) -> bool:
        """Return whether the page of a turn is loaded; a turn that is not in it was deleted."""
        return (seq - 1) // PAGE in self._pages

    def pages_missing(self, first: int, last: int) -> list[int]:
        """Return the pages of these turns that are not loaded, and mark the others as used."""
        wanted = range((max(first, 1) - 1) // PAGE, (min(last, self.last) - 1) // PAGE + 1)
        for page in wanted:
            if page in self._pages:
                self._pages.move_to_end(page)
        return [page for page in wanted if page not in self._pages]

    async def load(self, page: int) -> None:
        """Read a page."""
        first = page * PAGE + 1
        turns = await self._read(first + PAGE, PAGE)
        self._pages[page] = {turn.turn_seq: turn for turn in turns if first <= turn.turn_seq < first + PAGE}
        self._pages.move_to_end(page)
        while len(self._pages) > MOST_PAGES:
            self._pages.popitem(last=False)

    async def newest(self, last: int) -> tuple[ShownTurn, ...]:
        """Read the turns up to ``last`` again, a page of them, and return them, oldest first."""
        if last and not self.is_loaded(last):
            await self.load((last - 1) // PAGE)
        turns = await self._read(last + 1, PAGE)
        for turn in turns:
            if (page := self._pages.get((turn.turn_seq - 1) // PAGE)) is not None:
                page[turn.turn_seq] = turn
        return turns

    async def find(self, seq: int) -> ShownTurn | None:
        """Return a turn, reading its page if necessary."""
        if not 1 <= seq <= self.last:
            return None
        if not self.is_loaded(seq):
            await self.load((seq - 1) // PAGE)
        return self.get(seq)


FRAME_SECONDS = 1 / 20
MOST_DRAWN = 1000
"""How many drawn lines are kept, besides the turns in view."""


class TurnScroll(ScrollView, can_focus=True):
    """Reads, measures and draws the turns in view, and below them the one that is being answered."""

    def __init__(self, look: Look, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self.look = look
        self.selected: int | None = None
        self._pages: TurnPages | None = None
        self._map = LineMap(0)
        self._drawn: OrderedDict[int, tuple[ShownTurn | None, list[Strip]]] = OrderedDict()
        self._live: LiveTurn | None = None
        self._live_strips: list[Strip] = []
        self._live_finished = 0
        self._live_version = 0
        self._loading: set[int] = set()
        self._failed: set[int] = set()
        """Pages of ``_loading`` that could not be read; they are tried again when the branch can be read."""
        self._settling = False
        self._follows = True
        self._base = Style()

    def on_mount(self) -> None:
        """Draw the running answer at a fixed rate, however fast its words come."""
        self.set_interval(FRAME_SECONDS, self._draw_live)

    def redraw(self, look: Look | None = None) -> None:
        """Draw everything again, for example in other colours; what a person reads stays in view."""
        top, total, rows = int(self.scroll_y), self._map.total, max(len(self._live_strips), 1)
        unplaced = None if self._drawn else self.selected  # selected while nothing could be drawn, under a panel
        reading = unplaced or self._map.item_at(top)
        self.look = look or self.look
        self._drawn.clear()
        self._live_strips, self._live_finished = [], 0
        if self._live is not None:
            self._live.is_dirty = True
        self._map.forget()
        self._draw_answer()
        if not self._follows:
            self._apply_size()
            begin = self._map.top(reading)
            if unplaced is None and top >= total:  # in the answer that comes: as far down in it as before
                begin = self._map.total + (top - total) * len(self._live_strips) // rows
            self._scroll_to_line(begin)
        self._settle()

    # --- drawing ---

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw lines of the screen; their common style takes longer to find than a line to draw."""
        self._base = self.rich_style
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen."""
        line = y + self.scroll_offset.y
        base = self._base
        strip = self._strip_at(line).apply_style(base)
        if line < self._map.total and self.selected is not None and self._map.item_at(line) == self.selected:
            strip = strip.extend_cell_length(self.size.width).apply_style(Style(bgcolor=self._selected_colour()))
        if (marked := self.text_selection) is not None and (span := marked.get_span(line)) is not None:
            start, end = span
            style = self.screen.get_component_rich_style("screen--selection")
            parts = strip.divide([start, len(strip.text) if end == -1 else end, strip.cell_length])
            strip = Strip.join([parts[0], parts[1].apply_style(style), *parts[2:]]) if len(parts) > 1 else strip
        return strip.crop_extend(0, self.size.width, base).apply_offsets(0, line)

    def _selected_colour(self) -> str:
        return "#2b3a4a" if self.look.dark else "#dfe8f2"

    def _strip_at(self, line: int) -> Strip:
        if line >= self._map.total:
            place = line - self._map.total
            return self._live_strips[place] if place < len(self._live_strips) else Strip.blank(0)
        seq = self._map.item_at(line)
        drawn = self._drawn.get(seq)
        place = line - self._map.top(seq)
        if drawn is None:
            waiting = not self._pages or not self._pages.is_loaded(seq)
            return self._strips([Text(f"  turn {seq} …" if place == 0 and waiting else "", style="dim")])[0]
        return drawn[1][place] if place < len(drawn[1]) else Strip.blank(0)

    def _strips(self, lines: list[Text]) -> list[Strip]:
        console = self.app.console
        for line in lines:
            line.truncate(self._width, overflow="ellipsis")
        return [Strip([part for part in line.render(console) if part.text != "\n"]) for line in lines]

    def _draw_live(self) -> None:
        if self._live is not None and self._live.is_dirty and self._width:
            self._draw_answer()
            self._settle()

    def _draw_answer(self) -> None:
        live = self._live
        if live is None or not self._width:
            return
        finished, tail = live.lines(self._width)
        kept = self._live_strips[: self._live_finished]
        if self._live_version != live.version:
            kept, self._live_version = [], live.version
        strips = [*kept, *self._strips(finished[len(kept) :])]
        self._live_finished = len(strips)
        self._live_strips = [*strips, *self._strips(tail)]

    # --- layout ---

    @property
    def _width(self) -> int:
        return max(self.scrollable_content_region.width - 1, 0)

    def _bottom(self) -> int:
        return int(self.scroll_y) + max(self.scrollable_content_region.height - 1, 0)

    def on_resize(self, event: events.Resize) -> None:
        """Draw everything for the new width."""
        self.redraw()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Read and draw what comes into view."""
        super().watch_scroll_y(old_value, new_value)
        if not self._settling:
            self._follows = new_value >= self.max_scroll_y
            self._settle()

    def action_scroll_home(self) -> None:
        """Go to the first turn at once: turns that are measured on the way would stop a gliding view."""
        self._scroll_to_line(0)

    def action_scroll_end(self) -> None:
        """Go to the end at once."""
        self._scroll_to_line(self.max_scroll_y)

    def action_page_up(self) -> None:
        """Go up by the height of the view."""
        self._scroll_to_line(self.scroll_y - self.scrollable_content_region.height)

    def action_page_down(self) -> None:
        """Go down by the height of the view."""
        self._scroll_to_line(self.scroll_y + self.scrollable_content_region.height)

    def _settle(self) -> None:
        """Measure what is in view, keep what a person reads in its place, and read what is missing."""
        if self._settling or not self.is_attached or not self._width:
            return
        self._settling = True
        try:
            self._apply_size()
            for _ in range(6):
                if not self._measure_view():
                    break
        finally:
            self._settling = False
        self.refresh()
        self._read_missing()

    def _apply_size(self) -> None:
        self.virtual_size = Size(self._width, self._map.total + len(self._live_strips))
        if self._follows:
            self._scroll_to_line(self.max_scroll_y)

    def _scroll_to_line(self, line: float) -> None:
        self.scroll_to(y=line, animate=False, immediate=True, force=True)

    def _measure_view(self) -> bool:
        """Draw the turns in view that were not drawn yet; return whether that moved something."""
        if self._pages is None or not self._map.count:
            return False
        first, last = self._map.item_at(int(self.scroll_y)), self._map.item_at(self._bottom())
        anchor = next((seq for seq in range(first, last + 1) if seq in self._drawn), first)
        row = self._map.top(anchor) - int(self.scroll_y)
        missing = [seq for seq in range(first, last + 1) if seq not in self._drawn and self._pages.is_loaded(seq)]
        for seq in missing:
            turn = self._pages.get(seq)
            lines = turn_lines(turn, self._width, self.app.console, self.look) if turn is not None else []
            self._drawn[seq] = turn, self._strips(lines)
            self._map.measure(seq, len(lines))
        self._forget_far(first, last)
        if missing:
            self._apply_size()
            if not self._follows:
                self._scroll_to_line(self._map.top(anchor) - row)
        return bool(missing)

    def _forget_far(self, first: int, last: int) -> None:
        """Forget the turns drawn first and not in view, beyond the number of lines that are kept."""
        lines = sum(len(strips) for _, strips in self._drawn.values())
        for seq in [seq for seq in self._drawn if not first <= seq <= last]:
            if lines <= MOST_DRAWN:
                break
            lines -= len(self._drawn.pop(seq)[1])

    def _read_missing(self) -> None:
        if self._pages is None or not self._map.count:
            return
        first, last = self._map.item_at(int(self.scroll_y)), self._map.item_at(self._bottom())
        for page in self._pages.pages_missing(first - 10, last + 10):
            if page not in self._loading:
                self._loading.add(page)
                self._load(self._pages, page)

    @work(group="pages", exit_on_error=False)
    async def _load(self, pages: TurnPages, page: int) -> None:
        try:
            await pages.load(page)
        except ContextInfinityError as error:
            self.notify(str(error), severity="error")
            self._failed.add(page)
            return
        if pages is self._pages:
            self._loading.discard(page)
            self._settle()
