"""The prompt: Enter sends, Alt-Enter or a backslash at the end continues in the next line.

Pasted text stays one message, arrows and Ctrl-R search the history, Tab completes slash commands. Output of other
threads appears above the line being typed.

The history of typed lines is kept in ``{data_dir}/chat_history``; only this prompt writes to it. A line is written once
its conversation is known, and is deleted with it. If the file cannot be written, only the next start's history is
missing.

``/editor`` opens the user's own editor for a long message.
"""

from __future__ import annotations

import asyncio
import os
import select
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus
from prompt_toolkit.history import History
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.shortcuts import CompleteStyle
from prompt_toolkit.styles import Style

from contextinfinity.cli.chat.styles import PROMPT, Offers
from contextinfinity.cli.command_options import Terminated
from contextinfinity.cli.engine_thread import ENDING
from contextinfinity.domain.ids import SessionId, is_id, now
from contextinfinity.errors import InvalidInput
from contextinfinity.storage import typed_lines

MOST = 1000
LONGEST = 10_000
"""The characters of an entry up to which it is kept: a pasted file is in the ledger anyway."""


class KeptHistory(History):
    """``History`` in a file; the newest thousand entries are kept."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file
        self._typed: list[str] = []

    def load_history_strings(self) -> Iterable[str]:
        """Return the stored lines, newest first."""
        lines: list[typed_lines.TypedLine] = []
        with suppress(OSError):
            lines = typed_lines.read(self._file)
        if len(lines) > MOST:
            lines = lines[-MOST:]
            with suppress(OSError):
                typed_lines.keep_last(self._file, MOST)
        return [line.text for line in reversed(lines) if line.text]

    def store_string(self, string: str) -> None:
        """Remember a line; ``keep`` writes it."""
        if len(string) <= LONGEST:
            self._typed.append(string)

    def keep(self, session: SessionId | None) -> None:
        """Write the lines typed since the last call, with their conversation."""
        moment, known = now(), session if session is not None and is_id(session) else None
        lines = [typed_lines.TypedLine(text, known, moment) for text in self._typed]
        self._typed.clear()
        if lines:
            with suppress(OSError):
                typed_lines.append(self._file, lines)


_LOOKS = Style.from_dict({"": "bold", "prompt": "nobold ansicyan"})


class _Output(Vt100_Output):
    """Keeps bracketed paste on between two prompts, so that a paste while an answer streams is one message too."""

    def disable_bracketed_paste(self) -> None:
        pass


class Input:
    """A prompt with its key bindings."""

    def __init__(self, history: Path, offers: Offers) -> None:
        self.typed = False
        """Whether anything was typed at the last prompt."""
        self._history = KeptHistory(history)
        self._session: PromptSession[str] = PromptSession(
            [("class:prompt", PROMPT)],
            multiline=True,
            prompt_continuation=" " * len(PROMPT),
            key_bindings=_keys(),
            history=self._history,
            completer=_Completions(offers),
            complete_while_typing=False,
            complete_style=CompleteStyle.READLINE_LIKE,
            reserve_space_for_menu=0,
            enable_suspend=True,
            style=_LOOKS,
            output=_Output.from_pty(sys.stdout, os.environ.get("TERM"), ColorDepth.from_env()),
        )
        self._session.default_buffer.on_text_changed += lambda _: self._set_typed(True)

    def keep_typed(self, thread: str | None) -> None:
        """Store what was typed since the last call, with its conversation."""
        self._history.keep(thread)

    def read(self, words: str = "") -> str | None:
        """Read a message, starting with this text; None at the end (Ctrl-D), ``KeyboardInterrupt`` at Ctrl-C."""
        handlers = {number: signal.getsignal(number) for number in ENDING}
        try:
            with patch_stdout(raw=True):
                return self._session.prompt(default=words, pre_run=self._begin)
        except EOFError:
            return None
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    @contextmanager
    def reading_ahead(self) -> Iterator[None]:
        """Read keys for the next prompt while none is shown: a full input queue would block Ctrl-C."""
        woken, wake = os.pipe()
        reader = Thread(target=self._read_ahead, args=(woken,), daemon=True)
        reader.start()
        try:
            yield
        finally:
            os.close(wake)
            reader.join()
            os.close(woken)

    def _read_ahead(self, woken: int) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, *ENDING))  # they are the main thread's
        keyboard = self._session.app.input
        while not keyboard.closed and woken not in select.select((keyboard.fileno(), woken), (), ())[0]:
            store_typeahead(keyboard, keyboard.read_keys())

    def _begin(self) -> None:
        self._set_typed(False)
        _forward_sigterm()

    def _set_typed(self, typed: bool) -> None:
        self.typed = typed


def _forward_sigterm() -> None:
    """Deliver SIGTERM to the prompt, which then restores the terminal."""
    app, loop = get_app(), asyncio.get_running_loop()
    for number in ENDING:
        loop.add_signal_handler(number, lambda: app.exit(exception=Terminated()))


def _keys() -> KeyBindings:
    keys, typing = KeyBindings(), has_focus(DEFAULT_BUFFER)

    @keys.add("enter", filter=typing)
    def _send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.is_cursor_at_the_end and buffer.text.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter", filter=typing)
    def _insert_new_line(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    return keys


class _Completions(Completer):
    def __init__(self, offers: Offers) -> None:
        self._offers = offers

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        for word, shown in self._offers(text):
            _, space, argument = text.partition(" ")
            yield Completion(word, start_position=-len(argument if space else text), display=shown)


EDITORS = ("VISUAL", "EDITOR")


def written_in_editor(text: str, data_dir: Path) -> str:
    """Open an editor with a text and return what was written; the file is private, and removed afterwards.

    Where the data_dir is encrypted, it is kept in memory. Raises ``InvalidInput`` if the editor cannot be started.
    """
    from contextinfinity.storage.encryption.protection import scratch_folder

    command = next((os.environ[name] for name in EDITORS if os.environ.get(name)), "vi")
    descriptor, name = tempfile.mkstemp(prefix="chat_history.", suffix=".md", dir=scratch_folder(data_dir))
    file = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        if (code := _run([*shlex.split(command), name], command)) != 0:
            raise InvalidInput(f"The editor {command!r} ended with code {code}; nothing is sent.")
        return file.read_text(encoding="utf-8", errors="replace").rstrip("\n")
    finally:
        for left in file.parent.glob(f"{file.name}*"):  # and the editor's own copies
            left.unlink(missing_ok=True)


def _run(arguments: list[str], command: str) -> int:
    from contextinfinity.cli.chat.keyboard import keyboard_of_readline

    try:
        with keyboard_of_readline():
            return subprocess.run(arguments, check=False).returncode  # noqa: S603 - the user's own editor
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"The editor {command!r} cannot be started ({error}).", hint="Set EDITOR to the one you use."
        ) from error
