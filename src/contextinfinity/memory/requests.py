""" "Remember that …" and "forget that …": what a user asks for in so many words."""

from __future__ import annotations

import re

from contextinfinity.domain.memory import LONGEST_MEMORY
from contextinfinity.memory.values import Told, Unwanted, key_of
from contextinfinity.memory.wording import of_the_user, sentence
from contextinfinity.text.keywords import terms

_POLITE = (
    r"(?:(?:please|pls|ok|okay|so|hey|and|also|oh|well|now|just|can you|could you|will you|would you"
    r"|you can|you may|you should|i want you to|i need you to|i'd like you to),? )*"
)
_REMEMBER = re.compile(
    rf"^{_POLITE}(?:remember(?! when| the time| how| that time| what| last| our| seeing| being| going)|keep in mind"
    rf"|bear in mind|note down|note(?=:? (?:that )?(?:my|i|i'm|our|we)\b)"
    r"|make a note|don't (?:ever )?forget|do not forget|never forget|take note"
    r"|save(?: this| that)?(?: to memory| for later)?|merke? dir"
    r"|denk dran"
    r"|n'oublie pas|rappelle-toi|recuerda|no olvides)"
    r"(?: for (?:later|me|next time|the future))?(?:,? (?:that|this:|dass|que)|:|(?=,? (?:my |i |i'm |we "
    rf"|our )))\s+(?!you\b|i'm (?:always )?here)(?P<x>.{{3,{LONGEST_MEMORY}}}?)[.!]*$",
    re.I,
)
_FORGET = re.compile(
    rf"^{_POLITE}(?:forget|(?:you )?(?:don't|do not) (?:(?:need|have) to )?remember|stop remembering|never remember"
    r"|(?:don't|do not|never) (?:store|save|keep|memori[sz]e)(?= that (?:i|i'm|my|we|our)\b)|vergiss|oublie|olvida"
    r"|(?:delete|erase|remove)(?=.{0,200}\b(?:memory|memories|remember|know|that i)\b))"
    r"(?: the (?:fact|memory)| your memory| what (?:i|you) (?:said|told you|know))?(?: that| about| of|,? dass"
    r"| que)?\s+(?P<x>.{3,200}?)"
    r"(?: from (?:your )?memory)?[.!]*$",
    re.I,
)
_OF_ME = re.compile(r"\b(?:i|i'm|i've|my|me|mine|we|our|ich|mein\w*|je|mon|ma|mes|mi|mis)\b|^(?:that|about)\b", re.I)
_NO_MEMORY = re.compile(
    r"^(?:it|this|that|what (?:i|you) (?:said|told you|wrote))\b(?! about)|\b(?:earlier|mentioned)\b"
    r"|\b(?:previous|last|earlier|first|other|next) \w+|\b(?:message|question|request|prompt|commit|file|line|order"
    r"|answer|instructions?|command|suggestion)s?\b",
    re.I,
)
"""What one forgets in a talk, not of a person."""
_SORTS = (
    (re.compile(r"^my name\b|^what i'm called", re.I), ("name",)),
    (re.compile(r"^where i live\b|^my (?:home|address|city|home town)\b", re.I), ("home", "my:address")),
    (re.compile(r"^my (?:job|work|profession|employer)\b|^where i work\b|^what i do\b", re.I), ("job", "employer")),
    (re.compile(r"^my age\b|^how old i am\b", re.I), ("age",)),
    (re.compile(r"^my diet\b|^what i eat\b", re.I), ("diet", "eats")),
    (re.compile(r"^my allerg(?:y|ies)\b", re.I), ("allergy",)),
)
_NOT = re.compile(r"\b(?:not|no|never|hate|\w+n't)\b", re.I)
_EVERYTHING = re.compile(
    rf"^{_POLITE}(?:(?:forget|delete|erase|wipe|clear|remove)(?: about)? (?:everything|all|anything|whatever|what)\b"
    r".{0,40}\b(?:about me|about myself|of me|my memories|know of me)"
    r"|(?:wipe|clear|erase|delete) (?:(?:all )?your memor(?:y|ies) (?:of|about) me|my memories)|forget (?:me|who i am))"
    r"(?:,? (?:please|completely|entirely))*[.!]*$",
    re.I,
)
_STOP_ANSWERING = re.compile(
    rf"^{_POLITE}(?:stop (?:answer|reply|respond|writ|speak|talk)ing|(?:don't|do not) (?:answer|reply|respond|write"
    rf"|speak"
    r"|talk))(?: to me| me)? in (?P<x>(?-i:[A-Z])[a-z]{3,20})\b",
    re.I,
)
"""An order that takes back a preference."""
_OFF_RECORD = re.compile(
    r"\boff the record\b|(?<!\bi )(?<!\bwe )\b(?:don't|do not|never|needn't|without) (?:(?:need|have) to )?"
    r"(?:(?:remember|stor|sav|memori[sz]|record)(?:e|ing)? (?:any of )?(?:this|that|it|what i|anything)"
    r"|keep (?:this|that|it) (?:in|on))\b"
    r"(?! (?:file|code|page|document|image|version|name|chat as))",
    re.I,
)
_ORDER = re.compile(
    rf"^{_POLITE}(?:(?:from now on|in (?:the )?future|when(?:ever)? (?:i|we|you|asked)|every time|always|never|only|do"
    rf" not"
    r"|don't|make sure|be sure|stop|avoid|you(?:'re| (?:must|should|shall|have to|need to|are|can|may|will|always|never"
    r"|ought))|your (?:answers?|repl(?:y|ies)|code|responses?|output)|all your)\b"
    r"|(?:use|answer|reply|respond|write|address|include|give|show|format|keep|explain|cite|ask|add|put|start|end|skip"
    r"|translate|speak|mention|assume|check|run|send|suggest|recommend|make|tell|say|be|do|quote|remind|summari[sz]e"
    r"|list"
    r"|convert|mark|sign|spell|stick|delete|remove|execute|obey|follow|ignore|escalate|deploy|commit|call|treat|act"
    r"|begin"
    r"|refuse|return|test|update|fix|transfer|pay|wire|approve|confirm|open|close|turn)\b(?! (?:is|are|was|has"
    r"|costs)\b)"
    r"|(?:ab (?:jetzt|sofort|heute)|künftig|in zukunft|immer|niemals|nie|du (?:musst|sollst|darfst)|verwende|antworte"
    r"|lösche|benutze|nutze|schreibe?|frage?|führe|gib|zeige?|vermeide|sprich|nenne?|mache?|ignoriere|prüfe)\b"
    r"|(?:a partir de ahora|de ahora en adelante|siempre|nunca|debes|tienes que|usa|responde|contesta|escribe|ejecuta"
    r"|evita|borra|elimina|ignora|haz|no (?:uses|borres|escribas|respondas))\b"
    r"|(?:désormais|à partir de maintenant|toujours|jamais|tu dois|utilise|réponds|écris|évite|exécute|supprime)\b"
    r"|(?:以后|从现在|每次|总是|永远|务必|必须|不要|别|你))",
    re.I,
)
_LABELLED = re.compile(r"\s*[:：]\s+|\s[-–—]\s")
_FIRST_PERSON = frozenset(["i", "im", "ive", "my", "me", "mine", "live", "work", "call", "name", "user"])


def is_order(text: str) -> bool:
    """Tell whether a sentence tells the assistant what to do: it may bind a conversation, but is never a memory."""
    return _ORDER.match(text) is not None


def _orders(words: str) -> bool:
    """Tell whether words are an order, also behind a label ("my rule: always …")."""
    return any(map(is_order, _LABELLED.split(words)))


def request_in(text: str) -> Told | None:
    """Return what a sentence asks to be remembered, as a note in the user's words; None for orders."""
    match = _REMEMBER.match(text)
    if match is None or '"' in match["x"] or len(terms(match["x"])) < 1 or _orders(match["x"]):
        return None
    words = match["x"]
    content = sentence(f"The user said: {of_the_user(words)}")
    if len(content) > LONGEST_MEMORY:
        return None
    about = ""
    if own := re.match(r"(?:my|our|the) ([\w' -]{2,40}?) (?:is|are|was)\b", words, re.I):
        about = f"my:{own[1].lower()}"
    return Told(
        content=content,
        start=match.start("x"),
        end=match.end("x"),
        kind="note",
        about=about or f"note:{key_of(words)}",
        weight=7,
        origin="asked",
        confidence=1.0,
    )


def unwanted_in(text: str) -> tuple[Unwanted, str] | None:
    """Give what a sentence asks to be forgotten, and in which words; "forget it" is no such thing."""
    if _EVERYTHING.match(text):
        return Unwanted(everything=True), ""
    if stopped := _STOP_ANSWERING.match(text):
        return Unwanted(abouts=("answers:language",), only=tuple(terms(stopped["x"]))), ""
    match = _FORGET.match(text)
    if match is None or not _OF_ME.search(text[match.start() : match.end()][6:]):
        return None
    named = match["x"]
    if _NO_MEMORY.search(named):
        return None
    words = tuple(dict.fromkeys(term for term in terms(named) if term not in _FIRST_PERSON))
    abouts: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    for pattern, sorts in _SORTS:
        if found := pattern.search(named):
            abouts, only = sorts, tuple(set(terms(named[found.end() :])) - _FIRST_PERSON)
            break
    unwanted = Unwanted(words=words, abouts=abouts, only=only, denied=_NOT.search(named) is not None)
    return (unwanted, named) if words or abouts else None


def is_off_record(message: str) -> bool:
    """Tell whether somebody asks that what they say is not kept."""
    return _OFF_RECORD.search(message.replace("’", "'")) is not None
