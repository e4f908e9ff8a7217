"""Quote retrieved text so that it cannot break out of the quotation.

Every line of the text gets a leading bar, whatever its line separator, so that none of its lines can be mistaken for
our opening or closing tag, or start with a role or heading. Anything that a model could take for a delimiter (role
tags, special tokens of the vendors, our own tags), even if written with look-alike characters, entities or invisible
characters, gets a round bracket as its first character: it stays readable but is no longer a delimiter.

``unquote`` restores the text except for those brackets and invisible characters. Past requests are rebuilt with this
module, so its output for a given layout never changes: layout 2 adds ``canonical_text`` to what layout 1 does.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from contextinfinity.domain.plan import LAYOUT_VERSION
from contextinfinity.prompt.canonical_text import canonical_form

BAR = "|"

_LINES = re.compile("\r\n|[\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")
_HIDDEN = re.compile(
    "[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e"
    "\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
_JOINERS = re.compile("(?<![^\x00-\x7f])[\u200c\u200d]+|[\u200c\u200d]+(?![^\x00-\x7f])")
"""Joiners are meaningful only between letters of other scripts and in emoji."""

_OPENING = "<‹〈⟨⟪❮❬❰⦑⧼≺≪«《〈﹤＜˂ᐸ⋖⪡⦓𐀸ᚲ⟬⦗"
_SLASHES = "/⁄∕╱⧸／"
_BARS = "|｜¦ǀ∣│❘︱"
_LETTERS = (
    "аaеeоoрpсcуyхxіiјjѕsԁdһhɡgοoαaεeιiτtκkνvρpυuχxԛqԝwᴀaʙbᴄcᴅdᴇeꜰfɢgʜhɪiᴊjᴋkʟlᴍmɴnᴏoᴘpʀrꜱsᴛtᴜuᴠvᴡwʏyᴢzıiɑaтtкkмmвbнhгr"
    "ƒfꓮaꓚcꓰeꓝfꓲiꓡlꓟmꓠnꓳoꓣrꓢsꓔtꓴuꓬyᗅaᗩaᑕcᖴfᖇr"
)
_ALIKE = str.maketrans(
    _OPENING + _SLASHES + _BARS + _LETTERS[::2],
    "<" * len(_OPENING) + "/" * len(_SLASHES) + "|" * len(_BARS) + _LETTERS[1::2],
)
_BOXED = ((0x1F150, 26), (0x1F170, 26), (0x1F1E6, 26))
"""The first code points of circled, boxed and regional-indicator alphabets."""
_MARK = "\u0301"
"""Represents all combining marks and joiners."""

_ENTITY = (
    r"&(?:amp;){0,4}(?:lt|#0{0,6}60|#x0{0,6}3c|lang|langle|laquo);?|\\u(?:0000)?003c|\\u\{0{0,4}3c\}|\\x3c|\\0?74"
    r"|[%=](?:25){0,4}3c|\+ADw-"
)
_CODE = r"&#\w{2,8};?|\\u00\w\w|\\x\w\w|%(?:25){0,4}\w\w"
"""A letter written as a numeric reference."""
_BETWEEN = rf"(?:{_MARK}*+(?:&#?\w{{2,8}};|[\W_])){{0,2}}{_MARK}*+"
_OURS = _BETWEEN.join(rf"(?:{letter}|{_CODE})" for letter in "artifact")
_NOT_OURS = r"</?artifactid>|<\s?artifact\w{1,40}+[.;,)\[]"
"""Maven element names, and comparisons with a variable."""
_SLASH = r"&(?:sol|#0{0,6}47|#x0{0,6}2f);?|\\u002f|\\x2f|%2f"
_UPRIGHT = r"[|]|&(?:vert|verbar|#0{0,6}124|#x0{0,6}7c);?|\\u007c|\\x7c|%7c"
_SIGN = rf"(?:{_ENTITY}|{_SLASH}|(?!{_CODE})[\W_])"
_END = r"\s{0,3}/?\s?(?:>|&gt|&#62|\\u003e|\\x3e)"
_NAMES = (
    r"(?:(?:system|developer|assistant|user|human|model)(?:[_-](?:prompt|message|reminder|instructions?|query|input|"
    r"request|response|reply|turn|notice|context|info))?|(?:\w{1,20}[:_])?(?:tools?|tool[_-]?calls?|tool[_-]\w+|functions?|"
    r"function_\w+|invoke|think|thinking|bos|eos)|instructions?|thought|reasoning|scratchpad|im_\w+|antml|"
    r"(?:start|end|begin)_of_\w+|(?:start|end)_header\w+|eot_id)"
)
_TOKENS = (
    r"(?:/?s|unk|pad|sop|eop|eot|eod|extra_id_\d+|reserved_\d+|unused\d+|ctrl\d+|special_\d+|fim_\w+|0x[\da-f]{2})>"
)
_BRACKETED = r"inst|available_tools|tool_calls|tool_results|tool_content|system_prompt|call_id|think|gmask"
_BORDER = re.compile(
    rf"(?!{_NOT_OURS})(?:<|{_ENTITY})(?={_SIGN}{{0,8}}+{_MARK}*+{_OURS})"  # our own tags
    # roles and calls; after a letter it is List<User>, after another one a shift, between blanks a comparison
    rf"|(?<!\w)(?:(?<!<)<|<(?!\s)|{_ENTITY})(?=\s{{0,2}}/?\s{{0,2}}{_NAMES}(?:{_END}|\s{{1,3}}[\w-]{{1,20}}\s?=\s?[\"']))"
    rf"|(?<!\w)(?:<|{_ENTITY})(?=/?{_NAMES}(?:[:=/]|\s[^<>;&|(){{}}]{{0,200}}>|\s{{0,3}}(?:\n|$)))"
    r"|(?<=\w)<(?=(?-i:system|developer|assistant|human|SYSTEM|DEVELOPER|ASSISTANT|HUMAN)\s?>)"
    rf"|<(?=\s?/\s?{_NAMES}\s?>)"
    # special tokens: ChatML, Llama 3, DeepSeek, Phi, Harmony; "f <| g x" and "<|>" are code
    rf"|(?:<|{_ENTITY})(?=\s?(?:{_UPRIGHT})(?:[^\s>)]|\s?\w{{1,40}}\s?(?:{_UPRIGHT})))|<(?=\w{{1,30}}\|>)"
    rf"|<(?=<\s?/?\s?sys\s?>>|{_TOKENS}|role>(?:system|human|assistant|observation)<)"  # Llama 2, T5, Baichuan, Ling
    rf"|(?<!\w)\[(?=\s?(?:{_BRACKETED})\s?\])|\[(?=\s?/\s?(?:{_BRACKETED})\s?\]|(?-i:INST)\])"  # Llama 2, Mistral, GLM
    r"|\[(?=\|\w{1,30}\|\])|\](?=~!?b[\[\]])",  # Exaone, MiniMax
    re.IGNORECASE,
)


def quote(text: str, layout: int = LAYOUT_VERSION) -> str:
    """Prefix every line of a text with a bar, and neutralise everything that looks like a delimiter."""
    return "\n".join(f"{BAR} {line}" if line else BAR for line in _LINES.split(harmless(text, layout)))


def unquote(quoted: str) -> str:
    """Restore the text of a quotation, with line feeds as line separators."""
    return "\n".join(line[2:] for line in quoted.split("\n"))


def harmless(text: str, layout: int = LAYOUT_VERSION) -> str:
    """Remove invisible characters, and replace the first character of anything like a delimiter by a round bracket."""
    text = _JOINERS.sub("", _HIDDEN.sub("", text))
    text = _with_round_brackets(text, [found.span() for found in _BORDER.finditer(_skeleton(text))])
    if layout == 1 or (plain := canonical_form(text, _skeleton)) is None:
        return text
    found = _BORDER.finditer(plain.text)
    return _with_round_brackets(text, [plain.source(match.start(), match.end()) for match in found])


def _skeleton(text: str) -> str:
    return text if text.isascii() else text.translate(_table(frozenset(text)))


def _with_round_brackets(text: str, borders: list[tuple[int, int]]) -> str:
    """Replace each of the spans by a round bracket."""
    pieces, place = [], 0
    for start, end in borders:
        pieces += [text[place:start], "("]
        place = end
    return "".join([*pieces, text[place:]])


@lru_cache(maxsize=64)
def _table(signs: frozenset[str]) -> dict[int, str]:
    """Map each character to the ASCII character that it looks like, one to one, so that offsets are preserved."""
    return {ord(sign): _ascii_lookalike(sign) for sign in signs if not sign.isascii()}


def _ascii_lookalike(sign: str) -> str:
    for first, many in _BOXED:
        if first <= ord(sign) < first + many:
            return chr(ord("a") + ord(sign) - first)
    if unicodedata.category(sign) in ("Mn", "Me", "Cf"):
        return _MARK
    parts = [part for part in unicodedata.normalize("NFKD", sign) if not unicodedata.combining(part)]
    alike = (parts[0] if len(parts) == 1 else sign).lower().translate(_ALIKE)
    return alike if len(alike) == 1 else sign
