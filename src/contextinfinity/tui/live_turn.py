"""The turn that is being answered, as lines of the screen that grow.

What is finished is drawn once; only the last Markdown block is drawn again with each frame, so that a frame costs the
same at the start and at the end of a long answer.

The lines of a turn show who spoke, what was said, and how the answer ended.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from rich.console import Console
from rich.text import Text

from contextinfinity.client.results import ShownTurn
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
from contextinfinity.domain.turn import Phase, Usage
from contextinfinity.text.terminal.control_characters import printable
from contextinfinity.text.terminal.streamed_answer import StreamedAnswer

INDENT = 2
USER, MODEL, DIM, WARNING, ERROR = "bold cyan", "bold green", "dim", "bold yellow", "bold red"


@dataclass(frozen=True)
class Look:
    """Display options. ``plain``: words instead of symbols, for screen readers and simple terminals."""

    plain: bool = False
    dark: bool = True


def turn_lines(turn: ShownTurn, width: int, console: Console, look: Look) -> list[Text]:
    """Draw a turn that is over, or as far as it is stored."""
    return [
        *question_lines(turn.user, f"{turn.turn_seq} · {clock(turn.created_at)}", width, console, look),
        heading(turn.model or "answer", tokens(turn.usage), MODEL, look),
        *indented(answer_lines(turn.assistant, width - INDENT, console, look)),
        *indented(_ending(turn, width - INDENT, console)),
        Text(),
    ]


def question_lines(question: str, beside: str, width: int, console: Console, look: Look) -> list[Text]:
    """Draw the user's side of a turn."""
    words = Text(printable(question.strip())).wrap(console, max(width - INDENT, 8), overflow="fold")
    return [heading("You", beside, USER, look), *indented(list(words))]


def answer_lines(text: str, width: int, console: Console, look: Look) -> list[Text]:
    """Draw a whole answer."""
    answer = StreamedAnswer(console, plain=look.plain)
    answer.add(text)
    return answer.lines(width, over=True)[0]


def heading(speaker: str, beside: str, style: str, look: Look) -> Text:
    """Draw the line above a message."""
    if look.plain:
        return Text(printable(f"{speaker}, {beside}:" if beside else f"{speaker}:"))
    return Text.assemble(("▌ ", style), (printable(speaker), style), (f"  {printable(beside)}" if beside else "", DIM))


def outcome_text(turn: ShownTurn) -> tuple[str, str] | None:
    """Describe how an answer ended where its text does not show it: (words, style)."""
    if turn.error is not None and turn.outcome == "incomplete":
        return f"INCOMPLETE: {turn.error.message} Ctrl+R asks again.", WARNING
    if turn.error is not None:
        return f"FAILED: {turn.error.message} {turn.error.hint}".rstrip(), ERROR
    match turn.outcome:
        case "incomplete":
            return 'INCOMPLETE: the provider ended it early. "Go on" continues, Ctrl+R asks again.', WARNING
        case "failed":
            return "FAILED: no answer. Ctrl+R asks again.", ERROR
        case "cancelled":
            return "STOPPED by you; what was shown is kept.", WARNING
        case "paused":
            return "WAITING for tools that the model asked for.", WARNING
        case "clarification":
            return "Clarifying question: answer with a name or a number.", DIM
        case None:
            return "Being answered …", DIM
    return None


def excerpt(text: str, words: str, room: int) -> str:
    """Write a text in one line that begins shortly before the first of the words in it."""
    line = " ".join(printable(text).split())
    folded = line.casefold()
    place = min((at for word in words.casefold().split() if (at := folded.find(word)) >= 0), default=0)
    return line if place < room // 2 else f"…{line[place - room // 4 :]}"


def clock(moment: datetime) -> str:
    """Write a time as short as it can be understood."""
    local = moment.astimezone()
    today = local.date() == datetime.now().astimezone().date()
    return local.strftime("%H:%M" if today else "%Y-%m-%d %H:%M")


def tokens(usage: Usage) -> str:
    """Write what an answer used: tokens read and written, and the cost if it is known."""
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    read = f"{usage.input_tokens:,} in{cached}, " if usage.input_tokens else ""
    cost = "" if usage.cost is None else f", ${usage.cost:.4f}"
    return f"{read}{usage.output_tokens:,} out{cost}" if usage.input_tokens or usage.output_tokens else ""


def _ending(turn: ShownTurn, width: int, console: Console) -> list[Text]:
    ending = outcome_text(turn)
    if ending is None:
        return []
    return list(Text(printable(ending[0]), style=ending[1]).wrap(console, max(width, 8)))


def indented(lines: list[Text]) -> list[Text]:
    """Move lines under the heading they belong to."""
    return [Text.assemble(" " * INDENT, line) for line in lines]


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
