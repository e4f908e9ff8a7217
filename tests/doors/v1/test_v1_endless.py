"""A client that resends everything never passes a small window, and what was said at the beginning is still known."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.resending import WINDOW, resend

pytestmark = pytest.mark.req("API-7")


async def test_a_conversation_of_twice_the_window_goes_on_and_its_beginning_can_be_quoted(tmp_path: Path) -> None:
    """The small version of what ``make endurance`` does with 3,000 turns."""
    resent = await resend(tmp_path, 30, characters=4_800)
    assert resent.sent > 2 * WINDOW
    assert WINDOW / 2 < resent.largest <= WINDOW, str(resent)
    assert resent.answer == "marmalade", "the fact of turn 5"
    assert (len(resent.threads), resent.kept) == (1, 30)
