"""Which paragraphs of a message somebody says to the assistant, and which they only show it.

A mail, a page, a list, a text to be worked on is pasted: whoever wrote it, its "I" is nobody we know, and what it asks
for is not asked by the user. What is doubtful is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_FENCED = re.compile(r"^ {0,3}(`{3,}|~{3,})[^\n]*\n.*?(?:^ {0,3}\1[`~]* *$|\Z)", re.M | re.S)
_QUOTED_LINE = re.compile(r"^[ \t]*[>＞][^\n]*$", re.M)
_BLANK = re.compile(r"\n[ \t]*\n\s*")
TEXT = (
    r"(?:texts?|e-?mails?|mails?|messages?|letters?|pages?|sentences?|paragraphs?|passages?|essays?|stor(?:y|ies)"
    r"|poems?"
    r"|reviews?|articles?|posts?|quotes?|tweets?|comments?|notes?|transcripts?|documents?|bios?|resumes?|cvs?|lines?"
    r"|lyrics|snippets?|abstracts?|drafts?|paragraphs?|phrases?|statements?)"
)
_WORK = (
    r"(?:translate|rewrite|rephrase|proof-?read|summari[sz]e|paraphrase|edit|improve|correct|fix|polish|shorten|review"
    r"|analy[sz]e|grade|convert|check|spell-?check|classify|expand|complete|continue)"
)
_POINTS_BACK = re.compile(
    rf"\b(?:the|this|text|all)? ?above\b(?! all)|\bof these {TEXT}|\b{_WORK} (?:it|this|that|these|those|my (?:english"
    rf"|grammar|spelling|{TEXT}))\b|\bwhich (?:of these|one) (?:is|are|{TEXT})\b"
    rf"|\b(?:polish|check|grade|improve) (?:the|this|my) {TEXT}\b",
    re.I,
)
"""The whole message is about a text that may be any part of it."""
_ABOUT_IT = re.compile(r"\b(?:above|this|that|these|those|text|it)\b", re.I)
"""What follows is about what came before."""
_LETTER = re.compile(
    r"^[ \t]*(?:(?:subject|from|to|cc|date|re|fwd?|betreff|von|an):|dear\b|sehr geehrte|cher |estimad"
    r"|(?:(?:kind |best |warm )?regards|best(?: wishes)?|sincerely|yours(?: \w+)?|cheers|bye|love|thanks|many thanks"
    r"|mit freundlichen|viele grüße|cordialement|saludos),?(?: \w+)?[ \t]*$"
    r"|(?:hi|hello|hey) (?!there|all|again|claude|gpt|chatgpt|assistant|bot|friend|you|everyone)\w+(?: \w+)?,[ \t]*$)",
    re.I | re.M,
)
_CODE_LINE = re.compile(
    r"[{}\\]|<\/?\w+[^>\n]{0,60}>|=>|==|\w\(\w*\)|;\s*$|^\s*(?:(?:def|class|import|from \w+ import|return|SELECT"
    r"|INSERT)\b|\$ |//|--|/\*|#|\|)",
    re.M,
)
_BULLET = re.compile(r"^[ \t]*(?:[-*+•–]|\d{1,3}[.)])[ \t]", re.M)
_GREETING = re.compile(
    r"^\W*(?:hi|hello|hey|hiya|good (?:morning|evening|afternoon|day)|hallo|salut|hola|thanks|thank you|ok|okay)"
    r"(?:[ ,]+(?:there|again|all|everyone|you|so much|claude|assistant|friend))*\W*$",
    re.I,
)
_OF_SELF = re.compile(
    r"\b(?:i|i'm|i've|my|me|we|we're|our|ich|mein\w*|je|j'\w+|mon|ma|vivo|me|mi|soy|always|never|please|remember|forget"
    r"|don't|call|keep|from now on)\b",
    re.I,
)
_TELLS = re.compile(r"\b(?:texted|wrote|writes|said|says|sent|reads|replied|posted|told|tells|got)\b", re.I)
_JOKE = re.compile(
    r"(?<!no )(?<!not )(?<!n't )\b(?:kidding|joking|jk|just testing|this is (?:just |only )?a test)\b", re.I
)
_LABEL = re.compile(
    r"\b(?:note|ps|p\.s|fyi|btw|way|update|correction|edit|remember|important|also|facts?|reminder|clear|thing|me"
    r"|context|background|up|mind|know|warning|truth|honest|short|again|details|preferences?|memory|this)\W*$",
    re.I,
)
_REMIND = re.compile(r"\b(?:i|remember|note|forget)\b", re.I)
_COLON = re.compile(r":(?=\s)")


def own_words(message: str) -> tuple[str, int]:
    """Give what opens a message, and where it begins; the text is as long as it is there, letter for letter.

    Only the first paragraph was typed for certain, and only where no later one is about it.
    """
    text = _blanked(_QUOTED_LINE, _blanked(_FENCED, message.replace("’", "'").replace("\r", " ")))
    if _POINTS_BACK.search(text) or _LETTER.search(text) or _JOKE.search(text):
        return "", 0
    for piece, start in _paragraphs(text):
        if _GREETING.match(piece):
            continue
        if _BULLET.search(piece) or _CODE_LINE.search(piece) or _ABOUT_IT.search(text, start + len(piece)):
            break
        return _before_quotation(piece), start
    return "", 0


def _paragraphs(text: str) -> Iterator[tuple[str, int]]:
    start = 0
    for gap in (*_BLANK.finditer(text), None):
        end = len(text) if gap is None else gap.start()
        if text[start:end].strip():
            yield _joined(text[start:end]), start
        start = end if gap is None else gap.end()


def _joined(paragraph: str) -> str:
    """Put a sentence together that goes on in the next line."""
    return re.sub(r"(?<=[^\s.!?:;])[ \t]*\n(?=[ \t]*[a-zà-ÿ])", lambda gap: " " * len(gap[0]), paragraph)


def _before_quotation(paragraph: str) -> str:
    """Give what stands before a line or a colon that announces somebody's words."""
    for colon in _COLON.finditer(paragraph):
        before = paragraph[max(0, colon.start() - 30) : colon.start()]
        if not _LABEL.search(before) or (_TELLS.search(before) and not _REMIND.search(before)):
            return paragraph[: colon.start()]
    place = 0
    for line in paragraph.split("\n")[:-1]:
        announces = _TELLS.search(line) or not _OF_SELF.search(line)
        if line.strip()[-1:] not in (*".!?…,", "") and announces and not _GREETING.match(line):
            return paragraph[:place]
        place += len(line) + 1
    return paragraph


def _blanked(pattern: re.Pattern[str], text: str) -> str:
    """Put blanks for what is found, line for line."""
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
