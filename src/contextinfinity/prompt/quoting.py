"""Retrieved text as a quotation that nothing in it can leave.

Every line of the text stands behind a bar, whatever sign ended it, so that a line of ours (the opening, the closing)
can never be one of its lines, and no role or heading in it begins a line. What models take for their own borders (tags,
special tokens of the vendors, our own wrapping), also in look-alike signs, as entities or with signs in between that
are not seen, gets a round bracket for its first sign: it stays readable and is no border any more.

The text can be read back, but for those brackets and for signs nobody sees. What this module writes must not change
with other modules: requests of the past are written again with it.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

BAR = "|"

_LINES = re.compile("\r\n|[\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")
_HIDDEN = re.compile(
    "[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e"
    "\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
_JOINERS = re.compile("(?<![^\x00-\x7f])[\u200c\u200d]+|[\u200c\u200d]+(?![^\x00-\x7f])")
"""Joiners mean something between letters of other scripts and in emoji only."""

_OPENING = "<‹〈⟨⟪❮❬❰⦑⧼≺≪«《〈﹤＜˂ᐸ⋖⪡⦓𐀸ᚲ⟬⦗"
_SLASHES = "/⁄∕╱⧸／"
_BARS = "|｜¦ǀ∣│❘︱"
_LETTERS = (
    "аaеeоoрpсcуyхxіiјjѕsԁdһhɡgοoαaεeιiτtκkνvρpυuχxԛqԝwᴀaʙbᴄcᴅdᴇeꜰfɢgʜhɪiᴊjᴋkʟlᴍmɴnᴏoᴘpʀrꜱsᴛtᴜuᴠvᴡwʏyᴢzıiɑaтtкkмmвbнhгr"
)
_ALIKE = str.maketrans(
    _OPENING + _SLASHES + _BARS + _LETTERS[::2],
    "<" * len(_OPENING) + "/" * len(_SLASHES) + "|" * len(_BARS) + _LETTERS[1::2],
)

_ENTITY = r"&(?:lt|#0{0,6}60|#x0{0,6}3c|lang|langle|laquo);?|\\u003c|\\x3c|\\74|%3c"
_BETWEEN = r"[\W_]{0,2}"
_OURS = _BETWEEN.join("artifact")
_SLASH = r"&(?:sol|#0{0,6}47|#x0{0,6}2f);?|\\u002f|\\x2f|%2f"
_UPRIGHT = r"[|]|&(?:vert|verbar|#0{0,6}124|#x0{0,6}7c);?|\\u007c|\\x7c|%7c"
_SIGN = rf"(?:{_ENTITY}|{_SLASH}|[\s\W_])"
_NAMES = (
    "system|developer|assistant|user|human|tools?|tool_\\w+|functions?|function_\\w+|instructions?|thinking|im_\\w+|"
    "antml|start_of_\\w+|end_of_\\w+|begin_of_\\w+|start_header\\w+|end_header\\w+|eot_id|bos|eos"
)
_BORDER = re.compile(
    rf"(?:<|{_ENTITY})(?={_SIGN}{{0,8}}+{_OURS})"  # our own
    rf"|(?<!\w)(?:<|{_ENTITY})(?=\s?/?\s?(?:{_NAMES})(?:[\s>/:=]|&gt|$))"  # roles; after a letter it is List<User>
    rf"|<(?=\s?/\s?(?:{_NAMES})\s?>)"
    rf"|(?:<|{_ENTITY})(?=\s?(?:{_UPRIGHT}))"  # special tokens: ChatML, Llama 3, DeepSeek, Phi, Harmony
    r"|<(?=<\s?/?\s?sys\s?>>|/?s>)"  # Llama 2
    r"|\[(?=\s?/?\s?(?:inst|available_tools|tool_calls|tool_results|system_prompt)\s?\])"  # Llama 2, Mistral
    r"|&(?=(?:amp;){1,4}(?:lt|#0{0,6}60|#x0{0,6}3c);?)",
    re.IGNORECASE,
)


def quote(text: str) -> str:
    """Put every line of a text behind a bar, with nothing in it that passes for a border."""
    return "\n".join(f"{BAR} {line}" if line else BAR for line in _LINES.split(harmless(text)))


def unquote(quoted: str) -> str:
    """Read a quotation back, its lines ended by line feeds."""
    return "\n".join(line[2:] for line in quoted.split("\n"))


def harmless(text: str) -> str:
    """Leave out what is not seen, and open what looks like a border with a round bracket."""
    text = _JOINERS.sub("", _HIDDEN.sub("", text))
    skeleton = text if text.isascii() else text.translate(_table(frozenset(text)))
    found = list(_BORDER.finditer(skeleton))
    if not found:
        return text
    pieces, place = [], 0
    for match in found:
        pieces += [text[place : match.start()], "("]
        place = match.end()
    return "".join([*pieces, text[place:]])


@lru_cache(maxsize=64)
def _table(signs: frozenset[str]) -> dict[int, str]:
    """Say for each sign which plain one it looks like: one for one, so that places stay the same."""
    table = {}
    for sign in signs:
        if not sign.isascii():
            plain = [part for part in unicodedata.normalize("NFKD", sign) if not unicodedata.combining(part)]
            alike = (plain[0] if len(plain) == 1 else sign).lower().translate(_ALIKE)
            if len(alike) == 1:
                table[ord(sign)] = alike
    return table
