"""An answer as it comes: what is drawn of it, and how much of it is said to be durable."""

from __future__ import annotations

import pytest
from rich.console import Console
from rich.text import Text

from contextinfinity.domain.events import Delta, Durability, Retrying, StepStarted, ToolCalled
from contextinfinity.tui.live_turn import LiveTurn, Look
from contextinfinity.tui.status_header import durability_of

STEP = StepStarted(step_id="s", step_index=0, provider="scripted", model="demo")


def live_turn(look: Look | None = None) -> LiveTurn:
    live = LiveTurn("Why?", Console(width=80), look or Look())
    live.take(STEP)
    return live


def text_of(lines: list[Text]) -> str:
    return "\n".join(line.plain for line in lines)


@pytest.mark.req("STREAM-2", "TUI-1")
def test_output_is_marked_while_it_is_only_buffered() -> None:
    live, look = live_turn(), Look()
    live.take(Delta(text="één"))
    assert durability_of(live, look)[0] == "shown 5 B", "nothing is known of a journal that another process writes"
    live.take(Durability(displayed=5, durable=0))
    assert durability_of(live, look) == ("◌ BUFFERED, durable 0/5 B", "bold yellow")
    assert text_of(live.lines(60)[1]).rstrip().endswith("◌")
    live.take(Durability(displayed=5, durable=5))
    assert durability_of(live, look) == ("● durable 5/5 B", "green")
    assert text_of(live.lines(60)[1]).rstrip().endswith("●")
    assert durability_of(live, Look(plain=True))[0] == "durable 5/5 B"


def test_a_frame_draws_only_the_last_block_again() -> None:
    live = live_turn()
    before: list[Text] = []
    for number in range(5000):
        live.take(Delta(text=f"word{number} " if number % 25 else "\n\n"))
        if number % 10 == 9:
            finished, changing = live.lines(60)
            assert all(one is other for one, other in zip(before[3:], finished[3:], strict=False))
            assert len(changing) <= 8, "the rest of a frame does not grow with the answer"
            before = finished
    assert len(before) > 600


def test_tools_and_retries_are_noted_between_what_is_said() -> None:
    live = live_turn()
    live.lines(60)
    live.take(Delta(text="Let me look."))
    live.take(ToolCalled(call_id="1", name="tide_table", arguments={"harbour": "Tornby"}))
    live.take(ToolCalled(call_id="1", name="tide_table", output="06:42"))
    live.take(Retrying(attempt=1, reason="overloaded\x1b[2J", wait_seconds=1.0))
    live.take(Delta(text="Low water is at 06:42."))
    finished, changing = live.lines(60)
    drawn = text_of([*finished, *changing])
    places = [
        drawn.index(part) for part in ("Why?", "demo", "Let me look", "[tool tide_table {", "finished]", "06:42.")
    ]
    assert places == sorted(places)
    assert "\x1b" not in drawn


def test_an_answer_whose_connection_is_lost_is_kept_and_not_called_durable() -> None:
    live = live_turn()
    live.take(Delta(text="Half an ans"))
    live.take(Durability(displayed=11, durable=11))
    live.lines(60)
    live.lose("Disconnected", "DISCONNECTED: No server answers.")
    finished, changing = live.lines(60)
    drawn = text_of([*finished, *changing])
    assert "Half an ans" in drawn
    assert "[DISCONNECTED: No server answers." in drawn
    assert durability_of(live, Look())[0] == "shown 11 B"


def test_another_width_draws_the_same_words() -> None:
    live = live_turn()
    live.take(Delta(text="one two three " * 20))
    wide = text_of(live.lines(100)[1]).split()
    assert text_of(live.lines(30)[1]).split() == wide
