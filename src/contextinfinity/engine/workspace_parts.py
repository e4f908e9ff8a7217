"""The parts of the workspace section, stored by hash: an unchanged tier is not stored again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from contextinfinity.domain.message import Message, TextBlock
from contextinfinity.domain.wire import dumps, loads
from contextinfinity.domain.workspace_prompt import WorkspaceText
from contextinfinity.engine.turn_cache import TextCache
from contextinfinity.prompt.redact import Redactor, hidden

TIERS = 3


class _Part(Struct, frozen=True, omit_defaults=True):
    """A system text, the messages of a tier, or the messages behind the tiers with the last turn before them."""

    system: str = ""
    messages: tuple[Message, ...] = ()
    history_to: int = 0


def keep(texts: TextCache, workspace: WorkspaceText | None) -> tuple[str, ...]:
    """Store the parts and return their hashes, which ``restored`` takes."""
    if workspace is None:
        return ()
    parts = (
        _Part(system=workspace.system),
        *(_Part(messages=tier) for tier in workspace.tiers),
        _Part(messages=workspace.context, history_to=workspace.history_to),
        *([_Part(messages=workspace.matches)] if workspace.matches else []),
    )
    return tuple(texts.keep(dumps(part).decode()) for part in parts)


async def restored(
    read: Callable[[str], Awaitable[str | None]], hashes: Sequence[str], removed: list[str]
) -> WorkspaceText | None:
    """Read the parts back; append those that are no longer stored to ``removed``."""
    if not hashes:
        return None
    parts = []
    for sha256 in hashes:
        text = await read(sha256)
        if text is None:
            removed.append("a part of the workspace")
        parts.append(_Part() if text is None else loads(_Part, text))
    first, *tiers, last = parts[: 2 + TIERS]
    return WorkspaceText(
        system=first.system,
        tiers=tuple(tier.messages for tier in tiers),
        context=last.messages,
        history_to=last.history_to,
        matches=parts[-1].messages if len(parts) > 2 + TIERS else (),
    )


def redacted(workspace: WorkspaceText | None, redactor: Redactor | None) -> WorkspaceText | None:
    """Redact secrets in the workspace section."""
    if workspace is None or redactor is None:
        return workspace

    def clean(messages: tuple[Message, ...]) -> tuple[Message, ...]:
        return tuple(
            msgspec.structs.replace(
                message,
                blocks=tuple(
                    replace(block, text=hidden(block.text, redactor)) if isinstance(block, TextBlock) else block
                    for block in message.blocks
                ),
            )
            for message in messages
        )

    return replace(
        workspace,
        system=hidden(workspace.system, redactor),
        tiers=tuple(map(clean, workspace.tiers)),
        context=clean(workspace.context),
        matches=clean(workspace.matches),
        files=tuple(hidden(block, redactor) for block in workspace.files),
    )
