"""The size of the verbatim part of a conversation, relative to the fold trigger."""

from __future__ import annotations

from contextinfinity.domain.session import Session
from contextinfinity.engine.engine import Engine
from contextinfinity.engine.turn_cache import read_back
from contextinfinity.prompt.measure import Measure
from contextinfinity.workspace.history import messages_of


async def history_status(engine: Engine, session: Session) -> dict[str, int | float | bool | str]:
    """Return the tokens and messages that are shown verbatim, and the trigger of compaction."""
    store, model = engine.store, engine.models.named(None)
    branch_id = session.active_branch
    head, branch = await store.states.head(branch_id), await store.branches.get(branch_id)
    end = head.turn_seq if branch is None else branch.last_turn_seq
    turns = await read_back(store.turns, branch_id, after=head.covers_turn_seq, before=end + 1)
    messages = [message for turn in turns for message in messages_of(turn)]
    tokens, trigger = Measure(model.counter).messages(messages), engine.budget_of(model).fold_trigger
    return {
        "session_id": session.id,
        "message_count": len(messages),
        "history_tokens": tokens,
        "trigger": trigger,
        "percent": round(100 * tokens / max(1, trigger), 1),
        "enabled": engine.setup.folds,
    }
