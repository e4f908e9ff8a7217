"""The turn that is being answered, as lines of the screen that grow.

What is finished is drawn once; only the last Markdown block is drawn again with each frame, so that a frame costs the
same at the start and at the end of a long answer.
"""

from __future__ import annotations

import json

from rich.console import Console
from rich.text import Text

from contextinfinity.domain.events import (
    Clarification,
    Delta,
    Durability,
    Event,
    Retrying,
    StepStarted,
    ToolCalled,
    TurnStarted,
)
from contextinfinity.domain.ids import TurnId
from contextinfinity.domain.turn import Phase
from contextinfinity.text.terminal.control_characters import printable
from contextinfinity.text.terminal.streamed_answer import StreamedAnswer
from contextinfinity.tui.turn_view import DIM, INDENT, MODEL, WARNING, Look, heading, indented, question_lines

NOTE_CHARACTERS = 240


class LiveTurn:
    """A question, the answer so far, and how much of it is durable."""

    def __init__(self, question: str, console: Console, look: Look) -> None:
        self.question = question
        self.turn_id: TurnId | None = None
        self.seq: int | None = None
        self.phase = "Sending"
        self.displayed = 0
        """Bytes of the current step's answer that came."""
        self.durable: int | None = None
        """Bytes of them that would survive a power cut; None: unknown, because another process writes them."""
        self.is_dirty = True
        self.version = 0
        """Changes whenever finished lines have to be drawn again."""
        self._console = console
        self._look = look
        self._model = ""
        self._pieces: list[Delta | str] = []
        self._width = 0
        self._heading = Text()
        self._answer = StreamedAnswer(console, plain=look.plain)
        self._finished: list[Text] = []
        self._head: list[Text] = []

    @property
    def is_buffered(self) -> bool:
        """Whether some of what is shown is not durable yet, as far as it is known."""
        return self.durable is not None and self.durable < self.displayed

    def take(self, event: Event) -> None:
        """Add what happened."""
        self.is_dirty = True
        if isinstance(event, TurnStarted):
            self.turn_id, self.seq, self.phase = event.turn_id, event.turn_seq, Phase.ACCEPTED.value
        elif isinstance(event, StepStarted):
            self._model, self.phase = event.model, Phase.RESPONDING.value
            self.displayed, self.durable = 0, None
        elif isinstance(event, Delta):
            self.displayed += len(event.text.encode("utf-8", "replace"))
            self._add(event)
        elif isinstance(event, Durability):
            self.durable = min(event.durable, self.displayed)
        elif isinstance(event, Clarification):
            choices = "\n".join(f"{one.id}. {one.name}" for one in event.candidates)
            self._add(Delta(text=f"{event.question}\n\n{choices}"))
        elif isinstance(event, ToolCalled | Retrying):
            self._add(_note(event))

    def lose(self, phase: str, why: str) -> None:
        """Mark the answer as not read back from the ledger yet: it is not known how much of it is there."""
        self.phase, self.durable, self.is_dirty = phase, None, True
        self._add(_line(f"[{why} The stored answer is shown as soon as it can be read.]"))

    def lines(self, width: int) -> tuple[list[Text], list[Text]]:
        """Return the finished lines and those that can still change."""
        if width != self._width:
            self._restart(width)
            for piece in self._pieces:
                self._draw(piece)
        more, tail = self._answer.lines(width - INDENT)
        self._finished += indented(more)
        model = heading(self._model or "answer", "" if self._pieces else f"{self.phase} …", MODEL, self._look)
        if model != self._heading:
            self._heading = model
            self.version += 1
        mark = self._mark()
        if tail:
            tail[-1] = Text.assemble(tail[-1], mark)
        self.is_dirty = False
        return [*self._head, model, *self._finished], [*indented(tail), Text()]

    def _mark(self) -> tuple[str, str]:
        if self._look.plain or not self.displayed:
            return "", ""
        return (" ◌", WARNING) if self.is_buffered else (" ●", DIM)

    def _add(self, piece: Delta | str) -> None:
        self._pieces.append(piece)
        self._draw(piece)

    def _draw(self, piece: Delta | str) -> None:
        if isinstance(piece, Delta):
            self._answer.add(piece.text)
        elif self._width:
            self._finished += indented(self._answer.lines(self._width - INDENT, over=True)[0])
            note = Text(piece, style=DIM).wrap(self._console, max(self._width - INDENT, 8), overflow="fold")
            self._finished += indented(list(note))

    def _restart(self, width: int) -> None:
        self._width = width
        self._heading = Text()
        self.version += 1
        self._answer = StreamedAnswer(self._console, plain=self._look.plain)
        self._finished = []
        self._head = question_lines(self.question, "now", width, self._console, self._look)


def _note(event: ToolCalled | Retrying) -> str:
    """Describe in one line what goes on beside the answer."""
    if isinstance(event, Retrying):
        note = f"[asking again: {event.reason}]"
    elif event.output is None:
        note = f"[tool {event.name} {json.dumps(event.arguments, ensure_ascii=False)}]"
    else:
        note = f"[tool {event.name} {'failed' if event.is_error else 'finished'}]"
    return _line(note)


def _line(note: str) -> str:
    note = " ".join(printable(note).split())
    return note if len(note) <= NOTE_CHARACTERS else f"{note[:NOTE_CHARACTERS]}…"
