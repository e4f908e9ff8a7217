"""The words with which people name times, in English, German, French and Spanish, and a text as words.

A word that also means something else (may, march, sun, hier) is listed here like any other; whoever reads it looks at
the words beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_TOKEN = re.compile(r"[qQ][1-4](?![\w])|[^\W\d_]+|\d\w*(?:[.,:/–-]\d\w*)*+")
_SOFT = frozenset(("", ",", "-", "–", "'", "’", "/"))
_BEFORE = frozenset("$€£¥#@=_/\\.:&?+~*^<>")
_BEHIND = frozenset("%€$£¥_°\\=")


def listed(words: str) -> frozenset[str]:
    """Give the words of a list as a set."""
    return frozenset(words.split())


def _numbered(*rows: str) -> dict[str, int]:
    """Give each word of a row the row's place, from 1."""
    return {word: place for place, row in enumerate(rows, 1) for word in row.split()}


def _named(**rows: str) -> dict[str, str]:
    return {word: name for name, row in rows.items() for word in row.split()}


MONTHS = _numbered(
    "january januar jänner janvier enero",
    "february februar février fevrier febrero",
    "march märz maerz mars marzo",
    "april avril abril",
    "may mai mayo",
    "june juni juin junio",
    "july juli juillet julio",
    "august août aout agosto",
    "september septembre septiembre setiembre",
    "october oktober octobre octubre",
    "november novembre noviembre",
    "december dezember décembre decembre diciembre",
)
SHORT_MONTHS = _numbered(
    "jan", "feb", "mar mär", "apr", "", "jun", "jul", "aug", "sep sept", "oct okt", "nov", "dec dez"
)
"""They name a month only beside a day or a year."""
NAMES_TOO = listed("march april may june august mai mars mayo juli julio")
"""Months that are other words or people's names as well."""
WEEKDAYS = _numbered(
    "monday montag lundi lunes",
    "tuesday dienstag mardi martes",
    "wednesday mittwoch mercredi miércoles miercoles",
    "thursday donnerstag jeudi jueves",
    "friday freitag vendredi viernes",
    "saturday samstag sonnabend samedi sábado sabado",
    "sunday sonntag dimanche domingo",
)
SHORT_WEEKDAYS = _numbered("mon", "tue tues", "wed", "thu thur thurs", "fri", "sat", "sun")
UNITS = _named(
    minute="minute minutes min mins minuten minuto minutos",
    hour="hour hours hrs stunde stunden heure heures hora horas",
    day="day days night nights tag tage tagen jour jours día dia días dias",
    week="week weeks wks woche wochen semaine semaines semana semanas",
    fortnight="fortnight fortnights",
    weekend="weekend weekends wochenende",
    month="month months monat monate monaten monats mois mes meses",
    quarter="quarter quarters quartal quartale trimestre",
    year="year years yrs jahr jahre jahren jahres année annee années annees año años",
    decade="decade decades jahrzehnt décennie década",
)
ONLY_AFTER_AGO = {"an": "year", "ans": "year"}
"""Years in French; elsewhere they are other words."""
SEASONS = _named(
    spring="spring springtime frühling frühjahr printemps primavera",
    summer="summer summertime sommer été verano",
    autumn="autumn fall herbst automne otoño",
    winter="winter wintertime hiver invierno",
)
DAYS_OFF = {
    "today": 0, "heute": 0, "aujourd": 0, "hoy": 0, "yesterday": -1, "gestern": -1, "hier": -1, "ayer": -1,
    "vorgestern": -2, "anteayer": -2, "antier": -2, "tomorrow": 1, "morgen": 1, "demain": 1, "mañana": 1,
    "übermorgen": 2, "tonight": 0, "anoche": -1,
}  # fmt: skip
PARTS = _named(
    morning="morning vormittag matin mañana früh morgen",
    afternoon="afternoon nachmittag après tarde",
    evening="evening abend soir night nacht nuit noche",
)
THIRDS = _named(
    early="early anfang début debut beginning start principios comienzos",
    mid="mid middle mitte mi mediados",
    late="late end ende fin finales fines",
)
NUMBERS = {
    word: amount
    for amount, row in {
        0.5: "half", 1: "a one ein eine einem einer einen un una une", 2: "two couple zwei deux dos pair",
        3: "three drei trois tres", 4: "four few vier quatre cuatro paar", 5: "five several fünf cinq cinco einigen",
        6: "six sechs seis", 7: "seven sieben siete", 8: "eight acht huit ocho", 9: "nine neun neuf nueve",
        10: "ten zehn dix diez", 11: "eleven elf", 12: "twelve zwölf douze doce", 20: "twenty zwanzig",
    }.items()
    for word in row.split()
} | {"an": 1}  # fmt: skip
VAGUE = listed("couple few several paar einigen quelques unos unas pair")
ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "1st": 1, "2nd": 2, "3rd": 3, "4th": 4}
LAST = listed(
    "last past previous letzte letzten letzter letztes letztem vergangene vergangenen vergangener vergangenes vorige "
    "vorigen voriger voriges último última últimos últimas"
)
LAST_BEHIND = listed("dernier dernière derniere derniers dernières passé passée passe pasado pasada pasados pasadas")
THIS = listed("this current diese diesen dieser dieses diesem ce cet cette este esta")
NEXT = listed("next coming upcoming nächste nächsten nächster nächstes kommende kommenden próximo próxima")
NEXT_BEHIND = listed("prochain prochaine próximo próxima")
HOLIDAYS = _named(
    christmas="christmas xmas weihnachten noël noel navidad",
    easter="easter ostern pâques pascua",
    halloween="halloween",
    thanksgiving="thanksgiving",
    valentine="valentine valentines",
    silvester="silvester nochevieja",
)
IN = listed("in during since until till throughout early mid late im seit bis en durante depuis desde pendant around")
"""Words after which a month or a year is meant."""
SINCE = listed("since seit depuis desde")
COUNTED = listed(
    "people users user lines line dollars dollar euros euro bucks km miles mile meters metres kg tokens token rows "
    "words bytes kb mb gb ms px files times steps points calories items records requests messages characters chars men "
    "women students votes copies degrees percent mah watts rpm hz pages men kids children items hours minutes seconds "
    "days weeks months years players copies cars boxes cookies apples laps reps feet foot inches cents pounds grams "
    "liters litres items apples am pm uhr o oclock"
)
"""What is counted: a number before it is no day and no year."""
NUMBERED = listed(
    "windows office studio server excel unity autocad matlab iso rfc cve es sql port error code line page room version "
    "ver v build release issue pr ticket number no nr id step chapter section model route highway flight gate seed "
    "size width height limit timeout over under nearly almost roughly approximately than least most only costs cost "
    "pay paid price python node java ubuntu gpt figure table item order invoice phone zip pin status http exit"
)
"""What carries a number of its own: a number behind it is no year."""


class Words:
    """A text as words, each in small letters; what stands between two words tells whether they belong together."""

    __slots__ = ("low", "places", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.places = [found.span() for found in _TOKEN.finditer(text)]
        self.low = [text[start:end].lower() for start, end in self.places]

    def at(self, index: int) -> str:
        """Give the word, or nothing where the text has none."""
        return self.low[index] if 0 <= index < len(self.low) else ""

    def joined(self, index: int) -> bool:
        """Tell whether the word belongs together with the one before it."""
        if not 0 < index < len(self.low):
            return False
        between = self.text[self.places[index - 1][1] : self.places[index][0]]
        if between == " ":
            return True
        if len(between) > 4 or "\n\n" in between:
            return False
        mark = between.strip()
        return mark in _SOFT or (mark == "." and self._shortened(index - 1))

    def _shortened(self, index: int) -> bool:
        word = self.low[index]
        return word in SHORT_MONTHS or word in SHORT_WEEKDAYS or (word.isdigit() and len(word) <= 2)

    def after(self, index: int) -> str:
        """Give the word that follows and belongs to it."""
        return self.low[index + 1] if self.joined(index + 1) else ""

    def before(self, index: int) -> str:
        """Give the word in front that it belongs to."""
        return self.low[index - 1] if self.joined(index) else ""

    def capital(self, index: int) -> bool:
        """Tell whether it was written with a capital."""
        return self.text[self.places[index][0]].isupper()

    def comma(self, index: int) -> bool:
        """Tell whether a comma stands before it."""
        return "," in self.text[self.places[index - 1][1] : self.places[index][0]]

    def bare(self, index: int) -> bool:
        """Tell whether a number stands alone: no price, no version, no part of a path."""
        start, end = self.places[index]
        if start and (self.text[start - 1] in _BEFORE or self.text[start - 1].isalnum()):
            return False
        if start > 1 and self.text[start - 1] == "-" and self.text[start - 2].isdigit():
            return False
        return not (end < len(self.text) and self.text[end] in _BEHIND)

    def skip(self, index: int, words: Iterable[str]) -> int:
        """Go over one word if it is one of these and the next belongs to it."""
        return index + 1 if self.at(index) in words and self.joined(index + 1) else index


WAKING = frozenset(("ans", "an", "q1", "q2", "q3", "q4")).union(
    MONTHS, SHORT_MONTHS, WEEKDAYS, SHORT_WEEKDAYS, UNITS, SEASONS, DAYS_OFF, PARTS, HOLIDAYS
)
"""One of them, or a number like that of a year or a day, is in every phrase that names a time."""
_TIMELY = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)|\d[./-]\d\d(?!\d)|\d(?:st|nd|rd|th|er|º|ª)\b", re.I)


def may_name_a_time(text: str) -> bool:
    """Tell quickly that no time is named, as in most messages."""
    return not WAKING.isdisjoint(_TOKEN.findall(text.lower())) or _TIMELY.search(text) is not None
