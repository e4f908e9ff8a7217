"""The keyboard of a chat at a terminal: what is typed between two prompts, and when Ctrl-C leaves.

Between two prompts nothing is echoed and no line is consumed: keys and pastes stay in the terminal's queue until the
next prompt reads them. Bracketed paste stays on, so a paste is one message whenever it happens. Ctrl-C still raises
``KeyboardInterrupt``.
"""

from __future__ import annotations

import os
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic

PASTE_ON, PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"
SECONDS_TO_LEAVE = 2.0


@contextmanager
def keyboard_held() -> Iterator[Callable[[], None]]:
    """Set the terminal up for the prompts of a chat; yields a function that restores it, which may be called early."""
    with _keyboard_set(cooked=False) as restore:

        def release() -> None:
            restore()
            keep_pastes_whole(PASTE_OFF)

        keep_pastes_whole()
        try:
            yield release
        finally:
            release()


@contextmanager
def keyboard_of_readline() -> Iterator[None]:
    """Set the terminal up for readline, which echoes only where the terminal did, and switches bracketed paste off."""
    with _keyboard_set(cooked=True):
        try:
            yield
        finally:
            keep_pastes_whole()


@contextmanager
def _keyboard_set(*, cooked: bool) -> Iterator[Callable[[], None]]:
    """Switch echo and line mode on or off; yields the function that restores them."""
    keyboard = sys.stdin.fileno()
    before, modes = termios.tcgetattr(keyboard), termios.tcgetattr(keyboard)
    modes[3] |= termios.NOFLSH  # a Ctrl-C must not take half a paste out of the queue
    for place, flags in ((0, termios.ICRNL), (3, termios.ECHO | termios.ICANON)):
        modes[place] = modes[place] | flags if cooked else modes[place] & ~flags

    def restore() -> None:
        with suppress(termios.error):  # the terminal may be gone
            termios.tcsetattr(keyboard, termios.TCSANOW, before)

    termios.tcsetattr(keyboard, termios.TCSANOW, modes)
    try:
        yield restore
    finally:
        restore()


def is_dumb() -> bool:
    """Return whether the terminal understands no escape sequences."""
    return os.environ.get("TERM", "") in ("", "dumb", "unknown")


def keep_pastes_whole(sequence: str = PASTE_ON) -> None:
    """Switch bracketed paste on, or off."""
    if not is_dumb():
        with suppress(OSError):  # the terminal may be gone
            sys.stdout.write(sequence)
            sys.stdout.flush()


class InterruptToLeave:
    """Decides whether a Ctrl-C leaves: the second one does, within two seconds and with nothing typed in between."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._last: float | None = None

    def pressed(self, *, typed: bool = False) -> bool:
        """Record a Ctrl-C and return whether it leaves; ``typed``: something was typed since the one before."""
        now, last = self._clock(), self._last
        self._last = now
        return not typed and last is not None and now - last <= SECONDS_TO_LEAVE

    def forget(self) -> None:
        """Forget the last Ctrl-C, because a message was sent since."""
        self._last = None
