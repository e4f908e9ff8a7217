"""Detect and neutralise prompt injection: instructions, roles and delimiters in untrusted text.

``neutral`` puts a text on one line in which nothing can be mistaken for a role, a delimiter, an entry or a turn number;
it stays readable. ``gives_orders`` detects attempts to instruct the model: such a text may be quoted but is never
recorded as agreed by the user. Ordinary talk about instructions and errors is not matched.
"""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata

_HIDDEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\ufe00-\ufe0e\ufeff\ufff0-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
"""Invisible characters that change how text looks or reads, and lone surrogates."""
_JOINERS = re.compile("(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])")
"""Joiners are meaningful only between letters of other scripts and in emoji."""
_LINE = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")

_ROLES = "system|developer|assistant|user|human|tool|function|ai|bot|model"
_ROLE = re.compile(rf"^([\W_]{{0,8}}(?:#?\d{{1,12}}[\W_]{{1,4}})?(?:{_ROLES})[\W_]{{0,4}}?)\s?[:：]", re.IGNORECASE)
_SPECIAL = re.compile(
    r"[<＜]\s?[|｜]|[|｜]\s?[>＞]|\[\s?/?\s?INST\s?\]|<<\s?/?\s?SYS\s?>>|</?s>|<(?=\s?/?\s?(?:artifact|system|developer|"
    r"assistant|user|human|tool|function|instruction|im_start|im_end|start_of_turn|end_of_turn|antml))",
    re.IGNORECASE,
)
_HEADING = re.compile(r"^\s{0,3}(?:#{1,6}\s+)+(?=\S)")
_MARK = re.compile(r"^[#＃](?=\d{1,12}(?:\D|$))")
_BLANKS = re.compile(r"\s+")
_SUSPICIOUS = re.compile(r"[<|\[#:]")
"""A character without which printable ASCII text contains no delimiter, role, heading or entry."""


def neutral(text: str) -> str:
    """Return a text on one line, with everything neutralised that looks like a role or delimiter. It is idempotent."""
    if text.isascii() and text.isprintable() and not _SUSPICIOUS.search(text):
        return " ".join(text.split())
    text = _JOINERS.sub("", _HIDDEN.sub("", text))
    joined = " ".join(map(_neutralised, _LINE.split(text)))
    return _neutralised(_BLANKS.sub(" ", joined).strip())


def _neutralised(line: str) -> str:
    line = _SPECIAL.sub(_visible_delimiter, line)
    while line != (line := _ROLE.sub(r"\1 –", _HEADING.sub("", line))):
        pass
    return _MARK.sub("no. ", line).strip()


def _visible_delimiter(match: re.Match[str]) -> str:
    """Replace a delimiter by characters that no model interprets."""
    inner = match[0].strip("<>[]＜＞|｜ ")
    if inner:
        return f"({inner})"
    return "›" if match[0][-1] in ">＞" else "‹"


_LOOKALIKES = str.maketrans("аеорсухіјѕԁһɡοαει", "aeopcyxijsdhgoaei")
_ENCODED = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{24,4000}={0,2}")
_MOST_ENCODED = 20

_BEFORE = (
    r"(?:(?:all|any|every|each|of|the|these|those|your|my|our|its|and|previous|previously|prior|preceding|foregoing|"
    r"above|earlier|existing|current|initial|original|former|past|system|safety|given|other|"
    r"alle[nrs]?|die|deine[rn]?|bisherigen?|vorherigen?|obigen?|vorigen?|bestehenden?|"
    r"toutes|tous|les|tes|vos|ces|de|des|du|précédentes?|antérieures?|"
    r"todas?|las|los|tus|sus|estas|anteriores|previas|tutte|le|tue|precedenti|as|suas) ){0,6}"
)
_AFTER = (
    r"(?: (?:above|before|earlier|previously|given|you (?:were|have been) (?:given|told)|from (?:above"
    r"|before)|so far|"
    r"précédentes?|antérieures?|ci-dessus|anteriores|previas|precedenti))?"
)
_SURE = (
    r"(?:previous|prior|preceding|foregoing|above|earlier|existing|current|initial|original|former|past"
    r"|system|safety)"
)
_SET_ASIDE = (
    r"(?:ignor(?:e|ing)|disregard(?:ing)?|forget|overrid(?:e|ing)|bypass(?:ing)?|"
    r"(?:do not|don't|stop) (?:follow|obey)(?:ing)?)"
)
_TALKED_OF = (
    r"(?! (?:engine|file|table|template|class|module|parser|validator|page|section|test|config|document"
    r"|service|list|book"
    r"|editor|library|package|screen|form|field|column|row|id|number|status|history|line|manager|feature|system)s?\b)"
)
"""Words that follow if a rule or a prompt is an object of the user's own work."""
_OF_A_FILE = r"(?! (?:in|of|from|inside) (?:the |my |our |your )?[^\s.]*[./]\w)"
_RULES = r"(?:rules?|guidelines?|orders?|commands?|training|programming|guardrails?)"
_TOLD = r"(?:instructions?|prompts?|rules?|directives?|guidelines?|orders?|commands?|programming|training|guardrails?)"
_SOMEBODY_ELSE = (
    r"(?:dan|(?:ai|assistant|model|chatbot|bot|agent|llm)\b.{0,40}\b(?:without|free|unrestricted|no )|unrestricted|"
    r"jailbroken|unfiltered|uncensored|unbound|evil|in (?:developer|debug|admin|god|root|dan) mode|"
    r"free (?:from|of) (?:all |any |your )?(?:restrictions|rules|limits|filters)|no longer (?:bound|restricted))"
)

_TELL = ("ignor", "disregard", "forget", "overrid", "bypass", "follow", "obey")
_SHOW = ("prompt", "instruction", "message")
_ODD = ("dan", "unrestricted", "jailb", "without", "free", "unfiltered", "uncensored", "unbound", "evil", "mode", "no ")
_ORDERS: tuple[tuple[frozenset[str], re.Pattern[str]], ...] = tuple(
    (frozenset(needed), re.compile(pattern))
    for needed, pattern in (
        (
            _TELL,
            rf"\b{_SET_ASIDE} {_BEFORE}{_SURE} (?:\w+ ){{0,2}}(?:instructions?|prompts?|directives?)\b{_TALKED_OF}",
        ),
        (_TELL, rf"\b{_SET_ASIDE} {_BEFORE}{_SURE} (?:\w+ ){{0,2}}{_RULES}\b{_TALKED_OF}{_OF_A_FILE}"),
        (
            _TELL,
            r"\b(?:ignore|disregard|forget) (?:whatever|everything|anything|all|what) (?:that )?the user\b",
        ),
        (
            ("no attention",),
            rf"\bpay no attention to {_BEFORE}(?:\w+ ){{0,2}}{_TOLD}\b{_TALKED_OF}",
        ),
        (
            ("summar", "compress", "condens", "compact"),
            r"\b(?:when|while|whenever|if|after|before)(?: you(?:['’]re| are)?)? (?:summari[sz]|compress"
            r"|condens|compact)\w{0,4}\b.{0,80}"
            r"\b(?:you must|you should|you have to|you will|must|always|write|include|record|state|add|say|note)\b",
        ),
        (
            ("summar",),
            r"\bsummar(?:y|ies)\b.{0,30}\b(?:must|should|shall|has to|have to|needs? to|will)\b.{0,80}"
            r"\b(?:the )?user (?:is|has|was|agreed|approved|wants|may|can|must|authori[sz]ed)\b",
        ),
        (
            ("notice", "message", "alert", "update", "note"),
            r"\b(?:system|admin(?:istrator)?|developer|operator) (?:notice|message|alert|update|note) ?[:–-].{0,100}"
            r"\b(?:you must|must be answered|must (?:now )?(?:answer|reply|respond|obey)|(?:reply|respond"
            r"|answer)(?:ed)? (?:only )?with)\b",
        ),
        (
            ("later", "future", "further", "following", "subsequent"),
            r"\b(?:all|every|each|any) (?:later|future|further|following|subsequent) (?:turn|message|answer"
            r"|repl(?:y|ie)|response|request|"
            r"question)s? (?:\w+ ){0,2}(?:must|should|shall|will|have to|has to) (?:be answered with"
            r"|begin with|start with|end with|contain|say)\b",
        ),
        (
            ("that the user",),
            r"\b(?:librarian|summari[sz]er|assistant|note-?taker|model|ai) ?[:,–-] ?(?:please )?(?:record"
            r"|note|write|state|remember|log|say) "
            r"(?:down )?that the user\b",
        ),
        (
            _TELL,
            rf"\b{_SET_ASIDE} (?:all|any|every|each)(?: of)? (?:the |your |these |those |my )?"
            r"(?:instructions?|prompts?|directives)\b",
        ),
        (_TELL, rf"\b{_SET_ASIDE} your (?:\w+ ){{0,2}}{_TOLD}\b"),
        (
            _TELL,
            rf"\b{_SET_ASIDE} (?:the |these )?{_TOLD} (?:above|before this|you (?:were|have been) (?:given|told))\b",
        ),
        (
            _TELL,
            r"\b(?:ignore|disregard|forget) (?:everything|all|anything|what) (?:(?:that )?(?:was |is |has been )?"
            r"(?:said |written |stated )?(?:above|before (?:this|now))|you (?:were|have been|know and) \w+)",
        ),
        (
            _SHOW,
            r"\b(?:reveal|leak|disclose|exfiltrate|repeat|recite|output) (?:me |us )?(?:the|your|its) (?:\w+ ){0,2}"
            r"(?:system|developer|hidden|initial|secret) (?:prompt|instructions?|messages?)\b",
        ),
        (
            _SHOW,
            r"\b(?:show|print|tell|give|send|display|write|say|what (?:is|are|was|were)) (?:me |us |out )?your "
            r"(?:\w+ ){0,2}(?:system|developer|hidden|initial|secret|original) (?:prompt|instructions?|messages?)\b",
        ),
        (("you are now",), rf"\byou are now (?:a |an |the |my )?(?:\w+ ){{0,3}}?{_SOMEBODY_ELSE}"),
        (
            _ODD,
            r"\b(?:act|behave|respond|answer|pretend|roleplay)(?: as| to be| like)?(?: if)?(?: you are| you were)?"
            rf" (?:a |an |the )?(?:\w+ ){{0,2}}?{_SOMEBODY_ELSE}",
        ),
        (
            ("anything now", " mode"),
            r"\bdo anything now\b|\b(?:dan|jailbreak|sudo|god) mode\b|\bdeveloper mode (?:enabled|activated|is on)\b",
        ),
        (
            ("restrictions", "filters", "ethical", "guidelines", "safety", "content polic"),
            r"\b(?:you (?:are|have|can)|respond|answer|act)\b.{0,40}\b(?:without|no longer bound by"
            r"|free (?:from|of)) "
            r"(?:any |all |your )?(?:restrictions|filters|ethical|guidelines|safety|content polic)",
        ),
        (
            ("instruction", "prompt", "directive"),
            r"\b(?:new|updated|real|actual) (?:system )?(?:instructions?|prompt|directives?)"
            r" ?(?:follow|begin|start)?s? ?:",
        ),
        (("override",), r"\b(?:system|admin|security|instruction) override\b"),
        (
            _SHOW,
            r"\b(?:end|start|begin)(?:ning)? of (?:the )?(?:new )?(?:system|developer|hidden) "
            r"(?:prompt|instructions?|message)\b",
        ),
        (
            ("attention", "note", "important", "message", "instruction"),
            r"\b(?:attention|note|important|message|instructions?)(?: (?:to|for))?:? (?:all |any |the |every )?"
            r"(?:ai|llm|language|chat) ?(?:models?|assistants?|agents?|bots?)\b",
        ),
        (("if you are a",), r"\bif you are an? (?:ai|llm|language model|chatbot)\b"),
        (
            ("ignorier", "vergiss", "vergesst", "missachte", "übergehe"),
            rf"\b(?:ignoriere?|vergiss|vergesst|missachte|übergehe) {_BEFORE}"
            r"(?:anweisung(?:en)?|instruktionen|regeln|befehle?|vorgaben|systemprompts?)\b",
        ),
        (
            ("systemprompt", "system-prompt", "systemanw", "systemnach"),
            r"\b(?:zeige?|verrate|nenne?|gib)\b.{0,20}\b(?:deinen?|den|deine) "
            r"(?:system-?prompt|systemanweisung|systemnachricht)",
        ),
        (
            ("ignor", "oublie", "compte"),
            rf"\b(?:ignore[rz]?|oublie[rz]?|ne (?:tiens|tenez) (?:pas|plus) compte) {_BEFORE}"
            rf"(?:instructions?|consignes?|règles|directives|ordres){_AFTER}",
        ),
        (
            ("ignor", "olvid", "omiso", "omite"),
            rf"\b(?:ignor[ae]|olvid[ae]|haz caso omiso de|omite) {_BEFORE}"
            r"(?:instrucciones|órdenes|reglas|indicaciones|directrices)\b",
        ),
        (
            ("ignor", "dimentica", "esque"),
            rf"\b(?:ignor[ae]|dimentica|esque[çc]a) {_BEFORE}(?:istruzioni|regole|instruções|regras|ordens)\b",
        ),
        (
            ("忽", "无视", "無視", "忘", "不要理会"),
            r"(?:忽略|无视|忘记|忘掉|不要理会|忽視|無視).{0,8}(?:之前|以上|上面|先前|前面|此前|所有|系统|原有).{0,6}"
            r"(?:指令|指示|提示|规则|命令|設定|设定)",
        ),
        (
            ("無視", "忘れ"),
            r"(?:以前|これまで|上記|前|すべて|全て).{0,6}(?:指示|命令|指令|ルール|プロンプト).{0,4}(?:無視|忘れ)",
        ),
        (
            ("игнорируй", "забудь"),
            r"(?:игнорируй|игнорируйте|забудь|забудьте|проигнорируй)\b.{0,30}\b(?:инструкци|указани|правил|команд)",
        ),
        (
            ("提示", "指令"),
            r"(?:输出|显示|泄露|告诉我).{0,6}(?:你的|系统)(?:系统)?(?:提示词|提示语|指令)",
        ),
    )
)
"""Patterns of prompt injection, each with substrings of which one must occur.

Most texts contain none of them, and searching for substrings is fast.
"""


_PIECES = frozenset[str]().union(*(needed for needed, _ in _ORDERS))
_FORBIDDEN = re.compile(r"(?:\b(?:never|not|cannot|nobody may)|n't) \Z")
"""What precedes a phrase that is not an instruction: "never output the system prompt"."""


def gives_orders(text: str) -> bool:
    """Return whether a text tries to instruct the model: ignore its instructions, reveal them, take another role."""
    plain = _deobfuscated(text)
    return _contains_command(plain) or any(map(_contains_command, _decoded(text)))


def _contains_command(plain: str) -> bool:
    if _commands_in(plain):
        return True
    latin = plain.translate(_LOOKALIKES) if not plain.isascii() else plain
    return latin != plain and _commands_in(latin)


def _commands_in(plain: str) -> bool:
    present = [piece for piece in _PIECES if piece in plain]
    return bool(present) and any(
        not _FORBIDDEN.search(plain, max(0, at.start() - 20), at.start())
        for needed, order in _ORDERS
        if not needed.isdisjoint(present)
        for at in order.finditer(plain)
    )


def _deobfuscated(text: str) -> str:
    """Undo obfuscation: full-width letters, invisible characters, capitals, odd spaces, marks inside a phrase."""
    text = unicodedata.normalize("NFKC", _HIDDEN.sub("", text)).replace("\u200c", "").replace("\u200d", "")
    return " ".join(text.casefold().replace("’", "'").replace("*", "").replace("_", " ").split())


def _decoded(text: str) -> list[str]:
    """Decode base64 and hex strings that contain text."""
    found = []
    for match in _ENCODED.findall(text)[:_MOST_ENCODED]:
        body = match.rstrip("=")
        for read in (_from_base64, _from_hex):
            if words := read(body):
                found.append(_deobfuscated(words))
    return found


def _from_base64(body: str) -> str:
    try:
        return base64.b64decode(
            body[: len(body) // 4 * 4 + (0 if len(body) % 4 == 1 else len(body) % 4)] + "==="
        ).decode()
    except (binascii.Error, ValueError):
        return ""


def _from_hex(body: str) -> str:
    try:
        return bytes.fromhex(body).decode()
    except ValueError:
        return ""
