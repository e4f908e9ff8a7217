"""A conversation with a person at a terminal: the current thread and branch, and the handling of each line.

Ctrl-C stops an answer, which is kept as far as it came; at the prompt it clears the line, and leaves when pressed again
within two seconds with nothing typed in between. Notices around the answers show cost, hints and folds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from contextinfinity.cli.answer_output import NEW, Answer, why_incomplete
from contextinfinity.cli.attachments import content_of, dragged_file, read_attachment
from contextinfinity.cli.chat import commands
from contextinfinity.cli.chat.keyboard import InterruptToLeave
from contextinfinity.cli.chat.styles import choose
from contextinfinity.cli.command_options import settings_for
from contextinfinity.cli.output import one_line, print_notice
from contextinfinity.client.references import short
from contextinfinity.domain.events import (
    CompactionCompleted,
    CompactionEvent,
    CompactionFailed,
    CompactionStarted,
    FinishedTurn,
)
from contextinfinity.errors import ContextInfinityError, InvalidInput, NotFound
from contextinfinity.text.plurals import counted, span

if TYPE_CHECKING:
    from pathlib import Path

    from contextinfinity.cli.attachments import Attachment
    from contextinfinity.cli.command_options import CommonOptions
    from contextinfinity.cli.engine_thread import EngineThread
    from contextinfinity.client.contract import SendFields
    from contextinfinity.client.results import ShownTurn
    from contextinfinity.domain.ids import BranchId, ChunkId
    from contextinfinity.domain.turn import Usage

SOON = 1.0
"""The seconds after which a running fold is announced."""


def account(turn: FinishedTurn, seconds: float) -> str | None:
    """Return the cost line of an answer; empty without one."""
    if turn.outcome == "clarification" or (turn.outcome == "failed" and not turn.usage.input_tokens):
        return None
    return ", ".join([*_tokens(turn.usage), turn.model, f"{seconds:.1f} s"])


def _tokens(usage: Usage) -> list[str]:
    """Return tokens read and written and the cost, as far as known."""
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    read = [f"{usage.input_tokens:,} tokens in{cached}"] if usage.input_tokens else []
    parts = [f"{usage.output_tokens:,} out" if read else f"{usage.output_tokens:,} tokens out"]
    cost = [] if usage.cost is None else [f"${usage.cost:.4f}" if usage.cost >= 0.0001 else f"${usage.cost:.6f}"]
    return [*read, *(parts if usage.output_tokens else []), *cost]


def offer(turn: FinishedTurn | ShownTurn) -> str | None:
    """Return what the user can do about a failed or incomplete answer."""
    if turn.outcome is None:
        return "The last question is still being answered, by another process."
    if turn.outcome == "failed" or turn.error is not None:
        return "/retry asks again."
    if turn.outcome == "incomplete":
        return "/retry asks again."
    if turn.outcome == "cancelled":
        return "[stopped]"
    return "The model waits for its tools." if turn.outcome == "paused" else None


async def print_fold_notices(events: AsyncIterator[CompactionEvent]) -> None:
    """Print notices of folds as they happen; a quick one is printed once."""
    begun: dict[str, asyncio.TimerHandle] = {}
    async for event in events:
        if (earlier := begun.pop(event.branch_id, None)) is not None:
            earlier.cancel()
        if isinstance(event, CompactionStarted):
            begin = asyncio.get_running_loop().call_later
            begun[event.branch_id] = begin(
                SOON, print_notice, "(Older turns are being folded into the summary; go on.)"
            )
        elif (notice := _notice(event)) is not None:
            print_notice(notice)


def _notice(event: CompactionEvent) -> str | None:
    """Return the notice of a fold; None for one without effect."""
    if isinstance(event, CompactionFailed):
        return f"(Folding failed and is tried again: {event.message})"
    if isinstance(event, CompactionCompleted) and event.case != "none":
        tokens = f"{event.tokens_before} → {event.tokens_after} tokens"
        verb = "is" if event.covers_turn_seq == 1 else "are"
        notice = f" {event.notice}" if event.notice else ""
        folded = f"{span(1, event.covers_turn_seq, 'Turn')} {verb} in the summary now, {tokens}"
        return f"({folded}; /fold undo undoes it.{notice})"
    return None


T = TypeVar("T")

GREETING = "Enter sends, Alt-Enter begins a new line, Ctrl-C stops an answer, Ctrl-D leaves; /help lists more."
RECALLED = (6, 40)
"""The most lines shown again of the last answer but one, and of the last."""


class ChatSession:
    """A conversation with its current place, and whether it was left (``left``)."""

    def __init__(
        self, work: EngineThread, options: CommonOptions, thread: str, how: SendFields, *, plain: bool
    ) -> None:
        settings = settings_for(options.config, options.data_dir).settings
        self.client = work.client
        self.folder = settings.data_dir
        self.options = options
        self.thread = thread
        self.how = how
        self.left = False
        self.found: tuple[ChunkId, ...] = ()
        """What was searched for last, to be attached by its number."""
        self.attached: list[ChunkId] = []
        """Chunks that go along with the next question."""
        self.files: list[Attachment] = []
        """Files that go along with the next question."""
        self._work = work
        self._changing: ShownTurn | None = None
        self.face = choose(plain=plain, history=settings.data_dir / "chat_history", offers=self._offers)

    def run(self) -> None:
        """Read and handle lines until the user leaves."""
        self.face.note(GREETING)
        self.recall()
        folds = self._work.begin(print_fold_notices(self.client.folds.follow()))
        try:
            self._read_lines()
        finally:
            folds.cancel()
            self._print_how_to_continue()

    def _read_lines(self) -> None:
        leaving = InterruptToLeave()
        while not self.left:
            try:
                line = self.face.read(_as_typed(self._changing.user) if self._changing else "")
                if line is None:
                    return
                leaving.forget()
                if self.thread != NEW:
                    self.face.keep_typed(self.thread)
                try:
                    self._handle_line(line)
                finally:
                    self.face.keep_typed(None if self.thread == NEW else self.thread)
            except KeyboardInterrupt:  # at the prompt, or a moment after an answer it was meant for
                self._changing = None
                if leaving.pressed(typed=self.face.typed):
                    raise
                self.face.note("Press Ctrl-C again, Ctrl-D or type /quit to leave.")
            except ContextInfinityError as error:
                self.face.note(str(error))

    def _handle_line(self, line: str) -> None:
        """Handle a line: a command begins with one slash, a message with anything else, or with two slashes."""
        changing, self._changing = self._changing, None
        if changing is None and not line.startswith("//") and (file := dragged_file(line)) is not None:
            return self.attach(file)
        if line.startswith("/") and not line.startswith("//"):
            return commands.run(self, line)
        if not line.strip():
            return None
        if changing is not None:
            self.rewind(changing.turn_seq - 1)
        return self.ask(line.removeprefix("/"))

    # --- what commands do with it ---

    def do(self, asked: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the engine's loop and wait for it."""
        return self._work.do(asked)

    def ask(self, question: str, **more: Unpack[SendFields]) -> None:
        """Send a message and show the answer with its cost."""
        began = monotonic()
        content = content_of(question, self.files)
        answer = Answer(self._work, self.thread, content, {**self.how, "attach": tuple(self.attached), **more})
        self.attached.clear()
        self.files.clear()
        try:
            with self.face.answering() as on_event:
                turn = answer.wait(on_event)
        finally:
            self.thread = answer.thread_id or self.thread
        if turn.error is not None:
            self.face.note(f"{turn.error.message} {turn.error.hint}".rstrip())
        elif turn.outcome == "incomplete":
            self.face.note(why_incomplete(self._work, turn.turn_id))
        if (notice := offer(turn)) is not None:
            self.face.note(notice)
        if (took := account(turn, monotonic() - began)) is not None:
            self.face.show_cost(took)

    def attach(self, file: Path) -> None:
        """Attach a file to the next question."""
        self.files.append(read_attachment(file))
        self.face.note(f"{file.name} is attached to your next message.")

    def save(self, file: Path) -> int:
        """Export the conversation to a file, in the format that its name ends with; return its size."""
        from contextinfinity.cli.exchange_commands import format_of, write_export

        return write_export(self._work, self.options, file, format_of(None, file), self.here()[0])

    def change(self, turn: ShownTurn) -> None:
        """Put an earlier question into the prompt; the edited message replaces it on a new branch."""
        self._changing = turn

    def here(self) -> tuple[str, BranchId | None]:
        """Return the thread and the branch."""
        if self.thread == NEW:
            raise InvalidInput("This conversation has no turns yet.", hint="Say something first.")
        return self.thread, self.how.get("branch_id")

    def go(self, thread: str, branch: BranchId | None = None) -> None:
        """Switch to another thread or branch."""
        self.thread, self.how["branch_id"] = thread, branch

    def rewind(self, seq: int) -> None:
        """Continue after an earlier turn, on a new branch that becomes the active one."""
        thread, branch = self.here()
        made = self.do(self.client.threads.rollback(thread, to=seq, branch_id=branch))
        self.go(thread, made.branch_id)

    def turn(self, seq: int | None = None) -> ShownTurn:
        """Return a turn of the branch; by default the last one."""
        thread, branch = self.here()
        before = None if seq is None else seq + 1
        shown = self.do(self.client.conversations.show(thread, branch_id=branch, limit=1, before=before)).turns
        if not shown or seq not in (None, shown[-1].turn_seq):
            raise NotFound(
                f"There is no turn {seq} here." if seq is not None else "This conversation has no turns yet."
            )
        return shown[-1]

    def recall(self) -> None:
        """Show the current place and the last exchange."""
        if self.thread == NEW:
            return
        thread, branch = self.here()
        shown = self.do(self.client.conversations.show(thread, branch_id=branch, limit=len(RECALLED)))
        one = self.do(self.client.threads.get(thread, self.options.owner))
        named = next(b for b in self.do(self.client.threads.branches(thread)) if b.branch_id == shown.branch_id)
        turns = counted(named.last_turn_seq, "turn")
        title = f"“{one_line(one.title)}”, " if one.title else ""
        self.face.note(f"Conversation {short(thread)}: {title}{turns}, branch {commands.name_of(named)}.")
        for turn, most in zip(shown.turns, RECALLED[-len(shown.turns) :], strict=False):
            self.face.recall(one_line(turn.user, 400), turn.assistant, most)
        if shown.turns and (notice := offer(shown.turns[-1])) is not None:
            self.face.note(notice if shown.turns[-1].error is None else f"{shown.turns[-1].error.message} {notice}")

    def _offers(self, text: str) -> Iterable[tuple[str, str]]:
        try:
            return list(commands.offers(self, text))
        except ContextInfinityError:
            return ()

    def _print_how_to_continue(self) -> None:
        """Print how to continue later."""
        if self.thread == NEW:
            return
        branch = self.how.get("branch_id")
        option = "" if branch is None else f" --branch {short(branch)}"
        self.face.note(f"Conversation {self.thread}; continue with --session last{option}")


def _as_typed(message: str) -> str:
    """Return a message as it would be typed."""
    return f"/{message}" if message.startswith("/") else message
