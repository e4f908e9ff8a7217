"""How people announce text that is not their own words: the vocabulary of ``own_words``, in five languages.

A task hands a text over ("translate this: …"), an attribution says whose words follow ("the file says: …"), fiction
says that nobody real speaks ("Chapter 1."). Every pattern is bounded.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

from contextinfinity.text.vocabulary import patterns

_PATTERNS: Final = patterns("announcements")

Announces: TypeAlias = Literal["task", "document", "person", "reported"]
"""What follows is a text to work on, a document, a person's words, or one reported clause."""

LOOKED_AT = 200
"""Characters of a sentence in which an announcement is looked for."""

_DOCUMENT = (
    r"(?:e-?mails?|mails?|letters?|files?|pages?|web ?sites?|sites?|read-?me(?:\.\w+)?|docs?|documents?|documentation"
    r"|manuals?|leaflets?|articles?|posts?|tweets?|blogs?|papers?|books?|contracts?|lease|clauses?|polic(?:y|ies)|logs?"
    r"|consoles?|terminal|output|errors?|stack ?traces?|tracebacks?|transcripts?|minutes|tickets?|issues?|specs?"
    r"|specification|reports?|reviews?|signs?|plaques?|poems?|songs?|lyrics|stor(?:y|ies)|chapters?|essays?|bios?|cvs?"
    r"|resumes?|abstracts?|drafts?|quotes?|snippets?|code|configs?|chats?|channels?|threads?|recipes?|prompts?|scripts?"
    r"|narrators?|characters?|notice|invoice|advert|texts?|paragraphs?|passages?|sentences?|phrases?|\w+\.(?:md|txt"
    r"|py|pdf|docx?|csv|json|ya?ml|toml|log|html)"
    r"|datei|mails?|e-mails?|brief|schreiben|seite|webseite|handbuch|anleitung|artikel|vertrag|protokoll|ticket|doku"
    r"|bewertung|absatz|satz|text(?:es)?|packungsbeilage"
    r"|archivo|fichero|correo|carta|página|manual|artículo|contrato|informe|reseña|párrafo|frase|texto|aviso|prospecto"
    r"|fichier|courriel|lettre|notice|contrat|texte)"
)
_MESSAGES = r"(?:messages?|notes?|comments?|statements?|lines?|nachricht|notiz|kommentar|mensaje|nota|comentario)"
"""Documents only where somebody else's or pointed at: "one note: …" is said by the user."""
_TEXT = rf"(?:{_DOCUMENT}|{_MESSAGES})"
"""Work that is done on texts alone."""
_HANDS_OVER: Final = _PATTERNS["hands_over"]
_MACHINE = re.compile(r"\b(?:errors?|code|configs?|output|issues?|tickets?|console|stack ?traces?|logs?)$", re.I)
_ABOUT_TEXT: Final = _PATTERNS["about_text"]
_SELF_SAYS: Final = _PATTERNS["self_says"]
"""The user quotes themselves: "as I said: …"."""
_SPEECH: Final = _PATTERNS["speech"]
_BROUGHT: Final = _PATTERNS["brought"]
_OF_DOCUMENT = re.compile(rf"\b{_DOCUMENT}\b|文件|邮件|合同|文章|日志|说明书|手册|通知|信|网页|上写|里写", re.I)
_HEAD: Final = _PATTERNS["head"]
_TOPIC: Final = _PATTERNS["topic"]
"""A heading of the user's own: "About the contract: …"."""
_TRANSLATES: Final = _PATTERNS["translates"]
_ANYWHERE: Final = _PATTERNS["anywhere"]

FICTION: Final = _PATTERNS["fiction"]
"""A scene, a story, a role: nobody real speaks from here on."""

REPORTED: Final = _PATTERNS["reported"]
"""A document's statement without a colon: "the README says you must …"."""


def announces_before_colon(words: str) -> Announces | None:
    """Say what the words before a colon announce; None if the user goes on in their own words."""
    words = words[-LOOKED_AT:]
    if _TRANSLATES.search(words) or (_ANYWHERE.search(words) and _HEAD.search(words)):
        return "task"
    if _SELF_SAYS.search(words):
        return None
    if _SPEECH.search(words):
        return "document" if _OF_DOCUMENT.search(words) else "person"
    return "document" if _HEAD.search(words) and not _TOPIC.search(words) else None


def brings_along(line: str) -> bool:
    """Tell whether a line without a colon ends with what brings somebody's words along ("I got a strange letter.")."""
    return _BROUGHT.search(line[-LOOKED_AT:]) is not None and _SELF_SAYS.search(line[-LOOKED_AT:]) is None


def hands_over(sentence: str, *, closes_line: bool) -> bool:
    """Tell whether a sentence asks for work on a text that is to follow; an error or code begins a line of its own."""
    found = _HANDS_OVER.search(sentence[:LOOKED_AT])
    return found is not None and (closes_line or _MACHINE.search(found[0]) is None)


def points_back(sentence: str) -> bool:
    """Tell whether a sentence, the last of its message, asks for work on what stands before it."""
    return _ABOUT_TEXT.search(sentence[:LOOKED_AT]) is not None
