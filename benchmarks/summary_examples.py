"""Write ``docs/explanation/summaries.md``: ``python -m benchmarks.summary_examples``.

The conversations in ``examples`` were written for this page: five fields, two languages. Each is folded in two steps,
as it would be while it goes on, and the page shows the summary as it comes out.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path

from contextinfinity.domain.message import Role
from contextinfinity.librarian.contract import Task, TranscriptMessage
from contextinfinity.librarian.offline_librarian import OfflineLibrarian
from contextinfinity.text.tokens import counter_of

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "explanation" / "summaries.md"
FIELDS = {
    "coding": "Work on code",
    "travel": "A journey",
    "health": "Care after an operation",
    "support": "A customer and a shop",
    "haushalt": "A move, in German",
}
BUDGET = 400
INTRODUCTION = f"""\
# What a summary looks like

When a conversation grows too long for the model's window, its oldest turns leave the verbatim part of the prompt, and
a summary covers them. This page shows five summaries as the offline librarian writes them, within {BUDGET} tokens, of
conversations that were written for it. `python -m benchmarks.summary_examples` writes the page.

- **Decisions, Constraints, Preferences, Open questions** are statements in the speaker's own words, with the turn they
  come from and who made them. They outlive ordinary notes.
- **Settled or replaced** lists what no longer holds, and the turn that settled it.
- **Topics** are ranges of turns that together cover everything that was folded: days, the rarest words, and for the
  newest ones what was asked, what came of it and what is open. Older lines merge. Below each line are the sentences
  that are most likely to be asked for later, of both sides.
- **Last exchange** quotes how the folded part ended.

A model writes summaries in the same form by default (`librarian.model = "auto"`); it may phrase freely, but its
answer is checked. If it lost a binding entry (a constraint, an open question, an identifier in use) or states
something that no turn contains, the model is called once more with the errors, and after that the rules write the
summary. The budget is 2% of the model's window, 400 to 4,000 tokens, unless `compaction.summary_budget_tokens` says
otherwise. Why it is built this way is in [the decision record](../decisions/0023-layered-summaries.md).
"""


def conversation(name: str) -> list[TranscriptMessage]:
    """Read an example: a date, then lines of the user (>) and of the assistant (<)."""
    said: list[TranscriptMessage] = []
    at, turn = datetime(2026, 1, 1), 0
    for line in (HERE / "examples" / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith((">", "<")):
            at = datetime.fromisoformat(line)
            continue
        role: Role = "user" if line[0] == ">" else "assistant"
        turn += role == "user"
        said.append(TranscriptMessage(turn_seq=turn, role=role, text=line[2:], at=at))
    return said


async def summary(name: str) -> str:
    """Fold an example in two steps."""
    said, text = conversation(name), ""
    middle = said[-1].turn_seq * 2 // 3
    for part in ([one for one in said if one.turn_seq <= middle], [one for one in said if one.turn_seq > middle]):
        task = Task(summary=text, said=tuple(part), budget=BUDGET)
        text = (await OfflineLibrarian().summarise(task, counter_of("scripted", "examples").count)).text
    return text


async def page() -> str:
    """Write the page."""
    parts = [INTRODUCTION]
    for name, title in FIELDS.items():
        turns = conversation(name)[-1].turn_seq
        parts.append(f"## {title}\n\n{turns} turns.\n\n```text\n{await summary(name)}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(asyncio.run(page()), encoding="utf-8")
