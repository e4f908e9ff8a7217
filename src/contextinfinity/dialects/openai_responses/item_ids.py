"""Ids of the Responses API, derived from the ids of the ledger.

    resp_<turn>          the response of a turn
    conv_<session>       the conversation of a session
    msg_<turn><place>    an item of a turn: input items from place 0 on, output items from ``OUTPUT`` on

They are not stored: an id is decoded to its row; an id in any other form is unknown.
"""

from __future__ import annotations

import re

from contextinfinity.domain.ids import SessionId, TurnId, is_id

OUTPUT = 0x8000
"""The position of a turn's first output item."""
RESPONSE, CONVERSATION = "resp_", "conv_"
ITEM_PREFIXES = {
    "message": "msg_",
    "function_call": "fc_",
    "function_call_output": "fco_",
    "custom_tool_call": "ctc_",
    "custom_tool_call_output": "ctco_",
    "reasoning": "rs_",
}
_ITEM = re.compile(r"[a-z]{2,8}_([0-9a-f]{32})([0-9a-f]{4})")
_HEX = re.compile(r"[0-9a-f]{32}")


def response_id(turn_id: TurnId) -> str:
    """Return the response id of a turn."""
    return RESPONSE + turn_id.replace("-", "")


def conversation_id(session_id: SessionId) -> str:
    """Return the conversation id of a session."""
    return CONVERSATION + session_id.replace("-", "")


def item_id(kind: str, turn_id: TurnId, place: int) -> str:
    """Return the id of an item of a turn."""
    return f"{ITEM_PREFIXES.get(kind, 'item_')}{turn_id.replace('-', '')}{place:04x}"


def turn_of(text: str) -> TurnId | None:
    """Return the turn of a response id, or None if it is none."""
    return _uuid(text.removeprefix(RESPONSE)) if text.startswith(RESPONSE) else None


def session_of(text: str) -> SessionId | None:
    """Return the session of a conversation id or session id, or None if it is neither."""
    if is_id(text):
        return text
    return _uuid(text.removeprefix(CONVERSATION)) if text.startswith(CONVERSATION) else None


def place_of(text: str) -> tuple[TurnId, int] | None:
    """Return the turn and position of an item id, or None if it is none."""
    found = _ITEM.fullmatch(text)
    turn_id = None if found is None else _uuid(found[1])
    return None if found is None or turn_id is None else (turn_id, int(found[2], 16))


def _uuid(text: str) -> str | None:
    if not _HEX.fullmatch(text):
        return None
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
