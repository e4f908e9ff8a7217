"""What a text names, and of which kind: people, organisations, places, works, files, functions, dates, numbers.

Names are found by their capitals and by quotation marks, all other things by the shape of single words. The kind is a
guess from the words of the name and the words beside it; what is not known stays a ``thing``. Only the front and the
end of a long text are looked at, so the time is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct, structs

from contextinfinity.rewriting.lexicon import (
    EITHER,
    GROUPS,
    KIN,
    MEN,
    NO_NAMES,
    NOUNS,
    PLACES,
    SITES,
    TITLES,
    TWO_WORD_PLACES,
    WOMEN,
    WORKING,
    Gender,
    Kind,
    listed,
)
from contextinfinity.text.entities import entities

_SHORT = 24
"""A text so short is an answer: its first word may well be a name."""
FRONT, END = 500, 250
"""Characters of a long text that are looked at."""
_WITH_ARTICLE = 0.2
"""The same of a name behind "the"."""
_TWO_WORDS = 0.6
"""How likely two words with capitals are a person."""
MOST_READ = 256
"""How many texts it is known of what they name."""
GLANCE = 240
"""Characters of a text from longer ago."""


class Mention(Struct, frozen=True, kw_only=True):
    """Something named: what it is called, where it stands, and what it seems to be."""

    name: str
    start: int
    end: int
    kind: Kind = "thing"
    human: float = 0.0
    """How likely it is a person."""
    gender: Gender = ""
    plural: bool | None = None
    leads: bool = False
    """It opens a sentence."""
    noun: str = ""
    """The word beside it that says what it is: "the album Thriller"."""
    article: str = ""
    """The word "the" in front of it, where it belongs to the name: "the Hilton"."""


CAP = "[A-ZÀ-ÖØ-ÞĀĂĄĆČĎĐĒĘĚĞĪİŁŃŇŌŐŒŘŚŞŠŢŤŪŮŰŸŹŻŽΑ-ΩА-Я]"
PART = rf"(?:{CAP}\.(?:{CAP}\.)*|(?:Mr|Mrs|Ms|Dr|St|Jr|Sr|Prof)\.|{CAP}[\w’'&-]*)"
_OF = r"(?: (?:of(?: the| a)?|vs\.?|de la|de|del|der|den|von|van der|van|du|da|di|la|le|el|the|&)(?= ))"
_IN = _OF.replace("(?:of(", "(?:(?:of|for|in|on|with|at|from|to)(").replace("|&)", "|a|&)")
_NAME, _TITLE = (
    re.compile(rf"(?<![\w’'@/.-])(?:\d{{1,4}} )?{PART}(?:{join}{{0,1}} {PART}| \d{{1,3}}(?!\w)){{0,7}}")
    for join in (_OF, _IN)
)
"""In a title the words of a name may be joined by more than "of": "Landing on Water"."""
_QUOTED = re.compile(r"[\"“«„]([^\"“”»„\n]{2,60})[\"”»“]")
_SPECIAL = re.compile(
    r"(?<![\w/.-])(?:[\w~.\\-]{0,80}[/_][\w./\\-]{1,120}|[\w-]{1,60}\.[a-z]\w{0,5}|[\w.]{1,60}\(\))(?:\(\))?(?!\w)"
)
_HUMP = re.compile(r"[a-z][A-Z]")
_HUMPED = re.compile(
    r"(?<![\w.])(?:([a-z]{3,20}[A-Z][A-Za-z]{1,40})(?![\w(.])"
    rf"|[a-z]{{1,2}}[A-Z]\w{{1,30}}(?: (?:{CAP}\w{{0,30}}|\d{{1,3}}(?!\w))){{0,4}})"
)
_DOTTED = re.compile(r"\w\.[a-z]")
_MONTHS = "January|February|March|April|June|July|August|September|October|November|December"
_YEARS = re.compile(
    rf"(?<!\w)(?=[JFMASONDTW\d])(?:(?:(?:{_MONTHS}|May) (?:\d{{1,2}}(?:st|nd|rd|th)?,? )?)?"
    r"(?<![\d,.$€£-])(?:1[0-9]|20)\d\d(?:s|\s?[-–]\s?\d{2,4})?(?!\w|,\d)"
    rf"|(?:\d{{1,2}} )?(?:{_MONTHS})(?: \d{{1,2}})?(?! ?\d|\w)"
    r"|(?:(?<=\bon )|(?<=\bOn )|(?<=\bby )|(?<=\bnext )|(?<=\bthis )|(?<=\buntil ))"
    r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day(?! [A-Z]|\w))"
)
_NUMBERS = re.compile(
    r"(?<![\w.,-])[$€£]?\d{1,3}(?:[,.]\d{1,3}){0,4}%?(?![\w-])(?! (?:January|February|March|April|May|June|July))"
)
_DOES = re.compile(
    r"['’]s\b|,|\W*$| (?:is|was|has|had|and|or|vs|will|would|did|does|can|of|by|to|wrote|made|won|told|met|beat|said"
    r"|\w+e?[sd])\b|[\"”]"
)
"""What stands behind a name that opens a sentence."""
_POSSESSIVE = re.compile(r"(?:['’]s|['’])$")
_SENTENCE = re.compile(r"[.!?:;…]\s*[\"“'(]?$|\n\s*[-*•\d.)]*\s*$|^\s*[\"“'(*-]?\s*$")
_ORDERED = re.compile(r" (?:it|them|him|her|me|us|this|that|these|those|the|an?|all|both|my|our|your|its|his|their)\b")
"""What stands behind a verb that opens an order: "Delete it"."""
_WHERE = re.compile(
    r"\b(?:lives?|lived|living|born|stay(?:s|ed|ing)?|mov(?:e|ed|ing)|travel(?:s|led|ling)?|trip|fly|flying|flew|flight"
    r"|driv(?:e|ing)|arrived?|land(?:s|ed|ing)?|based|located|hotels?|offices?|restaurants?|holidays?|weekend)"
    r"(?: [a-z]+)?(?: (?:in|at|to|near|from|around)) (?:the )?$"
    r"|\b(?:[Cc]apital|Hauptstadt|capitale)(?: (?:of|von|de) [\w'’ ]{2,24})? (?:is|ist|est|es) $"
)
"""What stands before a name that is a place's."""
_AT = re.compile(r"\bat (?:the )?$")
_VERBS_AND_LINKS = re.compile(
    r"\W*$|[,.;:?!)]| (?:is|was|has|had|are|were|in|on|at|to|of|and|or|from|with|by|for|that|which|can|will|would|does"
    r"|did|but|than|when|while|where|made|won|costs?|built|held|found|sold"
    r"|fell|fall|end|open|start|work|look|take|need|weigh|\w{2,12}ed)\b"
)
"""What stands behind a whole name; in "the Apple store" the article is the store's."""
_THE = ("the", "The", "a", "an")
"""What stands before a name that goes with "the" from then on."""
_KIN_BEFORE = re.compile(r"\b(?:my|our|his|her|their|your)(?: [a-z]+)? [a-z]+,? $", re.I)
_COUNTING = ("two ", "three ", "four ", "both ", "these ", "following ")
_ENUMERATED = re.compile(
    r"\b(?:two|three|four|both|these|following) (?:[a-z]{2,20} ){0,2}?([a-z]{3,20})s"
    r"(?:,|:| \(| called| named| -)? ((?:[a-z][\w-]{1,30}, ){0,3}[a-z][\w-]{1,30},? (?:and|or) [a-z][\w-]{1,30})"
    r"(?=[.,;:?!)]|\s*$)"
)
"""Things called by small words: "two services, billing and auth"."""
_QUANTITY = re.compile(r"\d{1,4} (?:[KMGT]i?B|[KMG]?Hz|k?Wh?|[KM]bps)\b")
_LIES = re.compile(r", ([A-Z][a-z]+)(?!\w| [A-Z])")
_COUNTED = re.compile(r"(?:Day|Step|Week|Chapter|Part|Option|Figure|Table|Section|Number|Version|Line) \d{1,3}")
_LISTED = re.compile(r"[\w-]+")
_CAMEL = re.compile(r"(?!Mc|Mac|De|Di|La|Le|O)[A-Z]\w*[a-z][A-Z]\w*")
_BESIDE = re.compile(
    r"([\w-]+),? (?:is |was |were |would be |will be )?(?:called |named |titled |entitled )?(?:the )?[\"“'(]?$"
)
_AFTER = re.compile(r"[\"”']?,? (?:is |was )?(?:a |an |the )?(?:[a-z-]+ ){0,2}?([a-z-]+)\b")
_ORIGIN = re.compile(r"[\w-]{2,40}(?:can|ian|ish|ese|ean)|French|German|Dutch|Swiss|Greek|Roman|Asian")
"""Words for where somebody comes from; before a noun they name nothing."""
_SMALL = re.compile(r" [a-z]")
_KNOWN = MEN | WOMEN | PLACES
_ARTICLES = listed("i i'm i've i'd i'll a an this that these those my our your his her its their he she it they we you")


def window(text: str, *, is_old: bool = False) -> str:
    """Give the part of a text that is looked at; words stay whole."""
    if is_old and len(text) > GLANCE:
        return _front(text, GLANCE)
    if len(text) <= FRONT + END:
        return text
    end = text[-END:]
    return f"{_front(text, FRONT)}\n{end[max(0, end.find(' ')) :]}"


def _front(text: str, length: int) -> str:
    front = text[:length]
    return front[: max(front.rfind(" "), front.rfind("\n"))] if " " in front or "\n" in front else front


@lru_cache(maxsize=MOST_READ)
def mentions(text: str, *, titled: bool = False) -> tuple[Mention, ...]:
    """Find what is named, in the order in which it stands there; nothing overlaps. In a title every word has weight.

    What was read is remembered: each message of a conversation has nearly the same turns before it.
    """
    dates = [*_dates(text)]
    rest = text  # a name does not reach into a date: "Kenya in July"
    for date in dates:
        rest = f"{rest[: date.start]}{chr(0) * (date.end - date.start)}{rest[date.end :]}"
    found: list[Mention] = []
    taken = bytearray(len(text))
    for mention in (
        *_special(text),
        *_humped(text),
        *_quoted(text),
        *dates,
        *_names(rest, titled),
        *_numbers(rest),
        *_enumerated(rest),
    ):
        if not any(taken[mention.start : mention.end]):
            taken[mention.start : mention.end] = b"\1" * (mention.end - mention.start)
            found.append(mention)
    return tuple(_with_sites(text, sorted(found, key=lambda mention: mention.start)))


def _with_sites(text: str, found: list[Mention]) -> Iterator[Mention]:
    """Put a house and its town together: "at the Hilton in Berlin" is one place."""
    last: Mention | None = None
    for mention in found:
        if last is not None and _is_site(text, last, mention):
            name = f"{last.article} {text[last.start : mention.end]}".lstrip()
            last = Mention(name=name, start=last.start, end=mention.end, kind="place", human=0.02, plural=False)
            continue
        if last is not None:
            yield last
        last = mention
    if last is not None:
        yield last


def _is_site(text: str, house: Mention, town: Mention) -> bool:
    return (
        text[house.end : town.start] == " in "
        and town.kind in ("place", "thing")
        and house.kind in ("place", "thing", "organisation")
        and _AT.search(text[max(0, house.start - 8) : house.start]) is not None
    )


def _humped(text: str) -> Iterator[Mention]:
    """Find names with a capital inside: the iPhone 15 Pro, and functions such as useEffect."""
    if _HUMP.search(text) is None:
        return
    for match in _HUMPED.finditer(text):
        kind: Kind = "function" if match[1] else "thing"
        mention = Mention(name=match[0], start=match.start(), end=match.end(), kind=kind, plural=False)
        yield _beside(mention, text[max(0, match.start() - 40) : match.start()], text[match.end() : match.end() + 20])


def _special(text: str) -> Iterator[Mention]:
    if not ("/" in text or "_" in text or "()" in text or _DOTTED.search(text)):
        return
    for match in _SPECIAL.finditer(text):
        for entity in entities(match[0].strip(".")):
            kind: Kind | None = {"path": "file", "symbol": "function"}.get(entity.kind)  # type: ignore[assignment]
            if kind:
                start = match.start() + entity.start
                yield Mention(name=entity.text, start=start, end=start + len(entity.text), kind=kind, plural=False)


def _quoted(text: str) -> Iterator[Mention]:
    for match in _QUOTED.finditer(text):
        said = match[1].strip(" ,.")
        if said and said[0].isupper() and len(said.split()) <= 8:
            yield Mention(
                name=said,
                start=match.start(),
                end=match.end(),
                kind="work",
                plural=False,
                noun=_noun(text, match.start(), match.end()),
            )


def _dates(text: str) -> Iterator[Mention]:
    for match in _YEARS.finditer(text):
        yield Mention(name=match[0].strip(), start=match.start(), end=match.end(), kind="date")


def _numbers(text: str) -> Iterator[Mention]:
    for match in _NUMBERS.finditer(text):
        yield Mention(name=match[0], start=match.start(), end=match.end(), kind="number")


def _enumerated(text: str) -> Iterator[Mention]:
    if not any(word in text for word in _COUNTING):  # much quicker than the search
        return
    for match in _ENUMERATED.finditer(text):
        for word in _LISTED.finditer(match[2]):
            if word[0] not in ("and", "or"):
                start = match.start(2) + word.start()
                yield Mention(
                    name=word[0], start=start, end=start + len(word[0]), human=0.05, plural=False, noun=match[1]
                )


def _names(text: str, titled: bool) -> Iterator[Mention]:
    for match in (_TITLE if titled else _NAME).finditer(text):
        start, said = match.start(), match[0]
        leads = not titled and _SENTENCE.search(text[max(0, start - 4) : start]) is not None
        start, said, dropped = _without_openers(start, said, NO_NAMES if leads else _ARTICLES)
        said = _POSSESSIVE.sub("", said.rstrip(" -'’&"))
        if not said or said.lower() in NO_NAMES or (len(said) == 1):
            continue
        end = start + len(said)
        if _ORIGIN.fullmatch(said) and said.lower() not in _KNOWN and _SMALL.match(text, end):
            continue  # "an American politician"
        if (
            leads
            and not dropped
            and _is_plain(said, text[match.end() : match.end() + 20], is_short=len(text) <= _SHORT)
        ):
            continue
        if _COUNTED.fullmatch(said):
            continue  # "Day 1"
        if NOUNS.get(said.lower()) == "person" and said.isupper():
            continue  # "the CEO"
        mention = judged(said, start, end, leads=leads, noun=_noun(text, start, end))
        before = text[max(0, start - 40) : start]
        yield mention if titled else _beside(mention, before, text[end : end + 20])


def _beside(mention: Mention, before: str, after: str) -> Mention:
    """Add what the words beside a name tell: that it is a place or somebody, and that it has an article."""
    last = before.rpartition(" ")[0].rpartition(" ")[2].rstrip(",") if before.endswith(" ") else ""
    if last in KIN and _KIN_BEFORE.search(before):
        gender = KIN[last] or mention.gender
        return structs.replace(mention, kind="person", human=0.95, gender=gender, plural=False)
    if mention.kind == "thing" and mention.human < _TWO_WORDS and (_WHERE.search(before) or _lies_in(after)):
        mention = structs.replace(mention, kind="place", human=0.02, plural=False)
    if last in ("the", "The") and mention.kind == "thing" and mention.human > _WITH_ARTICLE:
        mention = structs.replace(mention, human=_WITH_ARTICLE)
    if last in _THE and _VERBS_AND_LINKS.match(after):
        mention = structs.replace(mention, article="the")
    return mention


def _lies_in(after: str) -> bool:
    """Tell whether a name is followed by where it lies: ", Ohio"."""
    match = _LIES.match(after)
    return match is not None and match[1].lower() in PLACES


def _is_plain(word: str, after: str, *, is_short: bool) -> bool:
    """Tell whether a word that opens a sentence is rather no name: nothing follows that a name would do or have."""
    if " " in word or not word[1:].islower() or word.lower() in _KNOWN:
        return False
    if _ORDERED.match(after):
        return True
    if is_short:
        return False
    return word.endswith(("ly", "ing", "ed", "tion")) or _DOES.match(after) is None


def _without_openers(start: int, said: str, openers: frozenset[str]) -> tuple[int, str, bool]:
    """Drop words in front that are no part of a name."""
    dropped = False
    while said:
        word, blank, rest = said.partition(" ")
        low = word.lower().rstrip(".,")
        if low not in openers and _POSSESSIVE.sub("", low) not in openers:
            break
        opens = word == "The" or (dropped and word in ("Le", "La", "Les", "El", "Los"))
        if opens and rest[:1].isupper() and rest.split(" ")[0].lower() not in openers:
            break
        start, said, dropped = start + len(word) + len(blank), rest, True
    return start, said, dropped


def _noun(text: str, start: int, end: int) -> str:
    """Give the word beside a name that says what it is."""
    if match := _BESIDE.search(text[max(0, start - 40) : start]):
        before = match[1].lower()
        if before in NOUNS or before in WORKING:
            return before if before in NOUNS else "work"
    if match := _AFTER.match(text[end : end + 60]):
        return match[1] if match[1] in NOUNS else ""
    return ""


def judged(name: str, start: int = 0, end: int = 0, *, leads: bool = False, noun: str = "") -> Mention:
    """Guess what a name stands for."""
    words = [word.strip(".,'’").lower() for word in name.split()]
    kind, human, gender, plural = _kind(name, words, noun)
    return Mention(
        name=name, start=start, end=end, kind=kind, human=human, gender=gender, plural=plural, leads=leads, noun=noun
    )


def _kind(name: str, words: list[str], noun: str) -> tuple[Kind, float, Gender, bool | None]:
    if _QUANTITY.match(name):
        return "number", 0.0, "", False
    if "'s " in name or "’s " in name:
        return "thing", 0.05, "", False
    if noun == "work":
        return "work", 0.05, "", False
    if words[0] in TITLES and len(words) > 1 and words[1] not in ("of", "the"):
        return "person", 1.0, TITLES[words[0]], False
    if words[0] in EITHER and words[-1] not in GROUPS and words[0] not in PLACES:
        return "person", 0.95 if len(words) > 1 else 0.9, "", False
    if words[0] in MEN and words[-1] not in GROUPS:
        return "person", 0.95 if len(words) > 1 else 0.9, "m", False
    if words[0] in WOMEN and words[-1] not in GROUPS and not (words[0] in PLACES and len(words) == 1):
        return "person", 0.95 if len(words) > 1 else 0.9, "f", False
    if noun in NOUNS and NOUNS[noun] in ("work", "organisation", "place"):
        return NOUNS[noun], 0.05, "", NOUNS[noun] == "organisation" or False
    if not GROUPS.isdisjoint(words) or "&" in name or (words[0] == "the" and words[-1].endswith("s")):
        return "organisation", 0.05, "", True
    if words[-1] in PLACES or not SITES.isdisjoint(words) or "_".join(words) in TWO_WORD_PLACES:
        return "place", 0.02, "", False
    if words[0] == "the" or any(word in ("of", "in", "on", "the", "a", "and", "for", "to") for word in words):
        return "thing", 0.1, "", None
    if _CAMEL.fullmatch(name):
        return "thing", 0.0, "", None
    if name.isupper() and len(name) < 6:
        return "organisation", 0.1, "", None
    if len(words) > 1 and words[-1].endswith("s") and not words[-1].endswith(("ss", "us", "is")):
        return "thing", 0.45, "", None
    if 1 < len(words) <= 3 and all(word[:1].isalpha() for word in words):
        return "thing", _TWO_WORDS, "", None
    return "thing", 0.35, "", None
