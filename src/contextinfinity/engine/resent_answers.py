"""Recognise an answer that the client resends in another form.

A client that stops an answer sends back the part that it had received, sometimes with a mark of its own behind it.

Some agents do not send tool calls back as such. They write them into the text of the answer, each in its own syntax
(Python values, JSON, XML tags), and the results into a message of the user. Such a text is recognised by its words,
whatever the syntax: it contains the text of the answer, and for each call the tool's name and every argument.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from contextinfinity.domain.message import Json, Message, ToolUseBlock
from contextinfinity.domain.prefix_hash import plain_text, says_the_same

_UNICODE_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_ESCAPE = re.compile(r"\\+[nrtbf]?")
"""A backslash with the letter that it escapes. It is removed on both sides, so that raw and escaped text are equal."""
_WORD = re.compile(r"\w+")


def is_resent_as(stored: Message, sent: Message) -> bool:
    """Return whether a sent message is a stored one: equal after normalisation, or with its calls as text."""
    return says_the_same(stored, sent) or renders_calls(stored, sent)


def is_stopped_part(stored: Message, sent: Message) -> bool:
    """Return whether ``sent`` is the beginning of a stopped answer, or all of it with something behind it."""
    shown, said = plain_text(stored), plain_text(sent)
    return bool(shown and said) and (shown.startswith(said) or said.startswith(shown))


def renders_calls(stored: Message, sent: Message) -> bool:
    """Return whether ``sent`` is a text that contains the text and all tool calls of the answer ``stored``."""
    calls = [block for block in stored.blocks if isinstance(block, ToolUseBlock)]
    if not calls or sent.role != "assistant" or any(isinstance(block, ToolUseBlock) for block in sent.blocks):
        return False
    text = _normalised(plain_text(sent))
    expected = [plain_text(stored), *(part for call in calls for part in (call.name, *_values(call.input)))]
    return all(_normalised(part) in text for part in expected)


def _values(value: Json) -> Iterator[str]:
    """Yield the strings, numbers and booleans of a JSON value; null has no common notation."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _values(one)
    elif value is not None:
        yield value if isinstance(value, str) else json.dumps(value)


def _normalised(text: str) -> str:
    """Return the words of a text, each between single spaces, without escape sequences and in lower case."""
    text = _ESCAPE.sub(" ", _UNICODE_ESCAPE.sub(lambda match: chr(int(match[1], 16)), text))
    return " ".join(("", *_WORD.findall(text), "")).casefold()
