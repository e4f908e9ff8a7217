"""A turn as lines of the screen: who spoke, what was said, and how the answer ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from rich.console import Console
from rich.text import Text

from contextinfinity.client.results import ShownTurn
from contextinfinity.domain.turn import Usage
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
