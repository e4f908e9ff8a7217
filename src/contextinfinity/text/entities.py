"""Find the entities of a text: paths, URLs, identifiers, symbols, dates, numbers, names.

Each word is classified by its own characters and its neighbours, so time is linear in the length of the text. A word
also ends between a script without spaces and any other script. The entities are what a summary, a search or a memory
must preserve; doubtful words are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

Kind: TypeAlias = Literal["url", "email", "path", "id", "symbol", "date", "number", "name"]

HARD: frozenset[Kind] = frozenset({"url", "email", "path", "id", "symbol", "date", "number"})
"""Kinds that must be preserved character by character; a name can be paraphrased."""


class Entity(Struct, frozen=True):
    """An entity with its position and text."""

    kind: Kind
    text: str
    start: int
    end: int


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


_WORD = re.compile(r"[^\s\u3000-\u303f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uff00-\uffef]+")
_OUTSIDE_LEFT = "\"'`([{<*“”‘’«»„¿¡,;:!?…|="
_OUTSIDE_RIGHT = "\"'`)]}>*“”‘’«»,;:!?….|="
_LONGEST = 300
"""A longer word is pasted data, unless it is a URL."""

_EXTENSIONS = _listed(
    "py pyi ipynb js mjs cjs ts tsx jsx css scss html htm md rst txt toml json jsonl yaml yml ini cfg conf env lock "
    "sql db sqlite csv tsv xlsx xls docx doc pptx pdf png jpg jpeg gif svg mp3 mp4 wav zip tar gz tgz whl rs go java "
    "kt swift c h cc cpp hpp cs rb php sh bash zsh ps1 bat xml proto tf log pem key crt parquet tex ods odt"
)
MONTHS = _listed(
    "january february march april may june july august september october november december "
    "jan feb mar apr jun jul aug sep sept oct nov dec "
    "januar februar märz mai juni juli oktober dezember "
    "janvier février mars avril juin juillet août septembre octobre novembre décembre "
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre"
)
_DAYS = _listed(
    "monday tuesday wednesday thursday friday saturday sunday "
    "montag dienstag mittwoch donnerstag freitag samstag sonntag "
    "lundi mardi mercredi jeudi vendredi samedi dimanche "
    "lunes martes miércoles jueves viernes sábado domingo"
)
_UNITS = _listed(
    "€ $ £ ¥ % ‰ eur usd gbp chf euro euros dollar dollars pounds francs percent prozent kb mb gb tb kib mib gib "
    "bytes ms s sec seconds minutes min hours hour days day weeks week months month years year km m cm mm kg g mg "
    "l ml °c °f tokens users people requests req/s rps qps turns lines rows seats pages items euros/month k million "
    "billion mio tage wochen stunden jahre jours semaines heures días semanas horas watts w kw kwh v mhz ghz "
    "am pm uhr o'clock"
)

_OPENERS = _listed(
    "the a an this that these those my our your his her its their and but so if when while for in on at to from with "
    "by as is are was were do does did can could should would will please call ask tell use see meet let what who "
    "which why how where yes no ok okay hi hello dear thanks since because after before then also not only "
    "der die das ein eine und aber wenn mit für von zu auf im am bitte le la les un une et mais avec pour el los las "
    "una y pero con para"
)
"""Words that start a sentence and are not part of the name that follows."""

_ISO_DATE = re.compile(r"\d{4}-\d\d(?:-\d\d)?(?:[T_]\d\d:?\d\d(?::?\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?\Z")
_SHORT_DATE = re.compile(r"\d{1,2}([./-])\d{1,2}\1\d{2,4}\Z")
_TIME = re.compile(r"\d{1,2}[:h]\d\d(?::\d\d)?(?:am|pm)?\Z", re.IGNORECASE)
_NUMBER = re.compile(
    r"[€$£¥]?[+-]?\d{1,15}(?:[.,'’]\d{1,9}){0,6}(?:[€$£¥%‰]|[x×]|°[CF]?|[kKMG]?i?[bB]|[a-zA-Z]{1,3})?\Z"
)
_ORDINAL = re.compile(r"\d{1,2}(?:st|nd|rd|th|\.|er|º|ª)?\Z", re.IGNORECASE)
_YEAR = re.compile(r"(?:19|20)\d\d\Z")
_HEX = re.compile(r"(?=.{0,63}\d)(?=.{0,63}[a-f])[0-9a-f]{7,64}\Z")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", re.IGNORECASE)
_DASHED = re.compile(
    r"[A-Za-z]{1,20}(?:[-_][A-Za-z0-9]{1,40}){0,6}[-_]?\d[A-Za-z0-9]{0,40}(?:[-_.][A-Za-z0-9]{1,40}){0,6}\Z"
)
_ISSUE = re.compile(r"(?:[A-Za-z][\w./-]{0,60})?#\d{1,12}\Z")
_HANDLE = re.compile(r"@[A-Za-z][\w.-]{1,60}\Z")
_EMAIL = re.compile(r"[\w.+%-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}\Z")
_FLAG = re.compile(r"--?[a-z][a-z0-9]*(?:-[a-z0-9]+){0,8}(?:=\S+)?\Z")
_SYMBOL = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|->|#)[A-Za-z_$][\w$]*)*(?:\(\))?\Z")
_SETTING = re.compile(r"[A-Za-z][\w.-]{1,60}=[^\s=]{1,100}\Z")
_CAMEL = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]")
_PATH = re.compile(r"(?:[A-Za-z]:)?[\w.@+~%$:\\/*{}\[\]-]+\Z")
_DOTTED_QUAD = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\Z")
_EASTERN_DATE = re.compile(r"\d{4}[年년]\s?(?:\d{1,2}[月월]\s?)?(?:\d{1,2}[日号일])?|\d{1,2}[月월]\s?\d{1,2}[日号일]")


def entities(text: str) -> tuple[Entity, ...]:
    """Return the entities of a text in order of appearance, without overlaps."""
    found = [*_joined(text, [*_words(text)])]
    if any(sign in text for sign in "年月년월"):
        found = _with_eastern_dates(text, found)
    return tuple(found)


class _Word(Struct):
    """A word without surrounding punctuation; ``kind`` is empty for an ordinary one."""

    text: str
    start: int
    kind: Kind | Literal["", "capital"]
    opens: bool
    """It starts a sentence, so a capital letter means nothing."""
    closes: bool
    """Punctuation follows: it is not joined to the next word."""

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def _words(text: str) -> Iterator[_Word]:
    opens = True
    for match in _WORD.finditer(text):
        raw, start = match[0], match.start()
        if raw.islower() and raw.isalpha():
            if raw in MONTHS or raw in _DAYS or raw in _UNITS:
                yield _Word(raw, start, "", opens, False)
            opens = False
            continue
        left, bare = _without_punctuation(raw)
        closes = len(bare) < len(left)
        if bare:
            yield _Word(bare, start + len(raw) - len(left), _kind(bare), opens, closes)
        opens = raw[-1] in ".!?…:" or (not bare and opens) or "\n" in text[match.end() : match.end() + 2]


def _without_punctuation(raw: str) -> tuple[str, str]:
    """Return a word without the punctuation before it, and without the punctuation on both sides."""
    left = raw.lstrip(_OUTSIDE_LEFT)
    bare = left.rstrip(_OUTSIDE_RIGHT)
    if raw.rstrip(".,;:!?").endswith("()") and bare:
        bare = left[: len(bare.rstrip("(")) + 2]
    return left, bare


def _kind(word: str) -> Kind | Literal["", "capital"]:
    if len(word) > _LONGEST and "://" not in word:
        return ""
    if word.isalpha():
        if _CAMEL.search(word):
            return "symbol" if word[0].islower() else "name"
        return "capital" if word[0].isupper() and len(word) > 1 else ""
    if "://" in word or word.startswith("www."):
        return "url"
    if "@" in word:
        return "email" if _EMAIL.match(word) else "id" if _HANDLE.match(word) else _pathlike(word)
    return _numeric(word) if any(map(str.isdigit, word)) else _pathlike(word) or _symbolic(word)


def _numeric(word: str) -> Kind | Literal["", "capital"]:
    if _ISO_DATE.match(word) or _SHORT_DATE.match(word) or _TIME.match(word):
        return "date"
    if _NUMBER.match(word):
        return "number"
    if _UUID.match(word) or _ISSUE.match(word) or _DOTTED_QUAD.match(word):
        return "id"
    if path := _pathlike(word):
        return path
    if _HEX.match(word) or _DASHED.match(word):
        return "id"
    if word[0].isdigit() and word.replace(".", "").replace("-", "").replace("+", "").isalnum():
        return "number" if "." in word else "id"
    return _symbolic(word)


def _pathlike(word: str) -> Kind | Literal[""]:
    if ("/" in word or "\\" in word) and _PATH.match(word):
        parts = [part for part in re.split(r"[/\\]", word) if part]
        rooted = word[0] in "/~." or word[1:3] == ":\\"
        if parts and (rooted or len(parts) > 2 or _extension(parts[-1]) or word.endswith("/")):
            return "path"
        return ""
    return "path" if _extension(word) and _PATH.match(word) else ""


def _extension(part: str) -> bool:
    stem, dot, extension = part.rpartition(".")
    return bool(dot) and (extension.lower() in _EXTENSIONS) and (bool(stem) or part.startswith("."))


def _symbolic(word: str) -> Kind | Literal["", "capital"]:
    if (_FLAG.match(word) and word.startswith("--")) or _SETTING.match(word):
        return "symbol"
    if _SYMBOL.match(word) and (word.endswith("()") or "_" in word.strip("_") or "::" in word or "->" in word):
        return "symbol"
    if "." in word and _SYMBOL.match(word) and all(len(part) > 1 for part in word.split(".")):
        return "symbol"
    plain = word.replace("-", "").replace("’", "").replace("'", "").replace("&", "")
    return "capital" if word[0].isupper() and plain.isalpha() and len(plain) > 1 else ""


def _joined(text: str, words: list[_Word]) -> Iterator[Entity]:
    """Join words that form one entity: a day and its month, a number and its unit, the parts of a name."""
    place = 0
    while place < len(words):
        length, kind = _together(text, words, place)
        first, last = words[place], words[place + length - 1]
        if kind:
            yield Entity(kind, text[first.start : last.end], first.start, last.end)
        place += length


def _together(text: str, words: list[_Word], place: int) -> tuple[int, Kind | None]:
    word = words[place]
    near = _neighbours(text, words, place)
    low = [each.text.lower() for each in near]
    if word.kind == "number":
        if len(low) > 1 and _ORDINAL.match(low[0]) and low[1] in MONTHS:
            return (3 if len(low) > 2 and _YEAR.match(low[2]) else 2), "date"
        return (2 if len(low) > 1 and low[1] in _UNITS else 1), "number"
    if low[0] in MONTHS and len(low) > 1 and (_ORDINAL.match(low[1]) or _YEAR.match(low[1])):
        return (3 if len(low) > 2 and _YEAR.match(low[2]) else 2), "date"
    if low[0] in _DAYS:
        return 1, "date"
    if word.kind == "capital":
        return (1, None) if word.opens and low[0] in _OPENERS else _name(near)
    return 1, word.kind or None


def _neighbours(text: str, words: list[_Word], place: int) -> list[_Word]:
    """Return the word and up to five that follow with only a space (or as in "3. May", "May 3, 2026") between."""
    near = [words[place]]
    for following in words[place + 1 : place + 6]:
        between = text[near[-1].end : following.start]
        if between != " " and not (between in (". ", ", ") and near[-1].text[0].isdigit()):
            break
        near.append(following)
    return near


def _name(near: list[_Word]) -> tuple[int, Kind | None]:
    length = 1
    while length < len(near) and near[length].kind in ("capital", "name") and not near[length - 1].closes:
        length += 1
    alone = length == 1 and near[0].opens
    return length, None if alone else "name"


def _with_eastern_dates(text: str, found: list[Entity]) -> list[Entity]:
    dates = [Entity("date", match[0], *match.span()) for match in _EASTERN_DATE.finditer(text)]
    covered = {place for date in dates for place in range(date.start, date.end)}
    others = [entity for entity in found if covered.isdisjoint(range(entity.start, entity.end))]
    return sorted([*others, *dates], key=lambda entity: entity.start)
