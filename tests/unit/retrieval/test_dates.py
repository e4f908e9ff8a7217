"""Times named in a question or a message: which span of the calendar is meant, and what names none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from contextinfinity.retrieval.dates import LONGEST, MOST, TimeSpan, dates_mentioned, nearness, spans_in
from tests.cases import each

NOW = datetime(2023, 6, 14, 15, 30, tzinfo=UTC)
"""A Wednesday."""

NAMED = {
    # dates
    "What did we say on 7 May 2023?": ("2023-05-07", "2023-05-08"),
    "the 7th of May, 2023": ("2023-05-07", "2023-05-08"),
    "May 7th, 2023": ("2023-05-07", "2023-05-08"),
    "May 7,2023": ("2023-05-07", "2023-05-08"),
    "May the 7th": ("2023-05-07", "2023-05-08"),
    "2023-05-07": ("2023-05-07", "2023-05-08"),
    "the log of 2023-05-07T10:15:00Z": ("2023-05-07", "2023-05-08"),
    "2023/05/07": ("2023-05-07", "2023-05-08"),
    "am 7.5.2023": ("2023-05-07", "2023-05-08"),
    "on 7.5.23": ("2023-05-07", "2023-05-08"),
    "25/07/2022": ("2022-07-25", "2022-07-26"),
    "07/25/2022": ("2022-07-25", "2022-07-26"),
    "Friday, 12 May 2023": ("2023-05-12", "2023-05-13"),
    "Friday the 9th": ("2023-06-09", "2023-06-10"),
    "on Sept. 5": ("2022-09-05", "2022-09-06"),
    "5 Sep 2022": ("2022-09-05", "2022-09-06"),
    "on June 14": ("2023-06-14", "2023-06-15"),
    "on June 15": ("2022-06-15", "2022-06-16"),
    "on May 5, 2000 people marched": ("2023-05-05", "2023-05-06"),
    "Feb 29": ("2020-02-29", "2020-03-01"),
    "29 February 2024": ("2024-02-29", "2024-03-01"),
    "31 February 2023": ("2023-02-01", "2023-03-01"),
    "31 December 2022": ("2022-12-31", "2023-01-01"),
    "May 3-8, 2023": ("2023-05-03", "2023-05-09"),
    "on the 9th": ("2023-06-09", "2023-06-10"),
    "on the 31st we left": ("2023-05-31", "2023-06-01"),
    # months, years and parts of them
    "in May 2023": ("2023-05-01", "2023-06-01"),
    "what happened in May?": ("2023-05-01", "2023-06-01"),
    "what did we say in may about rent": ("2023-05-01", "2023-06-01"),
    "in June": ("2023-06-01", "2023-07-01"),
    "in July": ("2022-07-01", "2022-08-01"),
    "in December": ("2022-12-01", "2023-01-01"),
    "the October meeting": ("2022-10-01", "2022-11-01"),
    "2023-05 report": ("2023-05-01", "2023-06-01"),
    "05/2023": ("2023-05-01", "2023-06-01"),
    "in 2022": ("2022-01-01", "2023-01-01"),
    "2019-2021": ("2019-01-01", "2022-01-01"),
    "music of the 1990s": ("1990-01-01", "2000-01-01"),
    "summer of 2022": ("2022-06-01", "2022-09-01"),
    "in the winter of 2021": ("2021-12-01", "2022-03-01"),
    "early June": ("2023-06-01", "2023-06-11"),
    "mid-October": ("2022-10-11", "2022-10-21"),
    "late 2022": ("2022-09-01", "2023-01-01"),
    "the end of May": ("2023-05-21", "2023-06-01"),
    "the end of last month": ("2023-05-21", "2023-06-01"),
    "Q3 2024": ("2024-07-01", "2024-10-01"),
    "2022 Q4": ("2022-10-01", "2023-01-01"),
    "in Q1": ("2023-01-01", "2023-04-01"),
    "the third quarter of 2022": ("2022-07-01", "2022-10-01"),
    "Christmas 2022": ("2022-12-24", "2022-12-27"),
    "last Christmas": ("2022-12-24", "2022-12-27"),
    "on Christmas Eve": ("2022-12-24", "2022-12-25"),
    "New Year's Eve 2022": ("2022-12-31", "2023-01-01"),
    "Thanksgiving 2022": ("2022-11-24", "2022-11-25"),
    "on Halloween": ("2022-10-31", "2022-11-01"),
    "the first week of June 2023": ("2023-06-01", "2023-06-08"),
    "the last week of May": ("2023-05-25", "2023-06-01"),
    "march 2023": ("2023-03-01", "2023-04-01"),
    # told from now
    "today": ("2023-06-14", "2023-06-15"),
    "yesterday": ("2023-06-13", "2023-06-14"),
    "tomorrow": ("2023-06-15", "2023-06-16"),
    "the day before yesterday": ("2023-06-12", "2023-06-13"),
    "this morning": ("2023-06-14T05", "2023-06-14T12"),
    "last night": ("2023-06-13T18", "2023-06-14T06"),
    "yesterday evening": ("2023-06-13T17", "2023-06-14"),
    "last Tuesday": ("2023-06-13", "2023-06-14"),
    "last Fri": ("2023-06-09", "2023-06-10"),
    "on Friday": ("2023-06-09", "2023-06-10"),
    "on Wednesday": ("2023-06-07", "2023-06-08"),
    "this Friday": ("2023-06-16", "2023-06-17"),
    "next Wednesday": ("2023-06-21", "2023-06-22"),
    "last week": ("2023-06-05", "2023-06-12"),
    "this week": ("2023-06-12", "2023-06-19"),
    "next week": ("2023-06-19", "2023-06-26"),
    "the week before last": ("2023-05-29", "2023-06-05"),
    "last weekend": ("2023-06-10", "2023-06-12"),
    "this past weekend": ("2023-06-10", "2023-06-12"),
    "over the weekend": ("2023-06-10", "2023-06-12"),
    "last month": ("2023-05-01", "2023-06-01"),
    "last quarter": ("2023-01-01", "2023-04-01"),
    "last year's trip": ("2022-01-01", "2023-01-01"),
    "last May": ("2023-05-01", "2023-06-01"),
    "last summer": ("2022-06-01", "2022-09-01"),
    "this summer": ("2023-06-01", "2023-09-01"),
    "two days ago": ("2023-06-12", "2023-06-13"),
    "two weeks ago": ("2023-05-28", "2023-06-04"),
    "3 hours ago": ("2023-06-14T12", "2023-06-14T13"),
    "a few weeks ago": ("2023-05-07", "2023-05-28"),
    "a month ago": ("2023-04-29", "2023-05-30"),
    "2 yrs ago": ("2020-12-14", "2021-12-14"),
    "a year ago": ("2021-12-14", "2022-12-14"),
    "half a year ago": ("2022-11-29", "2022-12-30"),
    "the past few days": ("2023-06-10", "2023-06-15"),
    "in the last 3 months": ("2023-03-14", "2023-06-15"),
    "the other day": ("2023-06-07", "2023-06-15"),
    "since May": ("2023-05-01", "2023-06-15"),
    # told from a date, and stretches
    "the week before 9 June 2023": ("2023-06-02", "2023-06-09"),
    "the week after 9 June 2023": ("2023-06-10", "2023-06-17"),
    "two days after May 8, 2023": ("2023-05-10", "2023-05-11"),
    "two weeks before August 11, 2022": ("2022-07-25", "2022-08-01"),
    "the Friday before 15 July 2022": ("2022-07-08", "2022-07-09"),
    "the weekend before April 10, 2023": ("2023-04-08", "2023-04-10"),
    "the day after Christmas 2022": ("2022-12-27", "2022-12-28"),
    "the month before May 2023": ("2023-04-01", "2023-05-01"),
    "the week of May 8": ("2023-05-08", "2023-05-15"),
    "the week of May 10": ("2023-05-08", "2023-05-15"),
    "from May 3 to May 8": ("2023-05-03", "2023-05-09"),
    "between June and August 2022": ("2022-06-01", "2022-09-01"),
    "from May to July": ("2022-05-01", "2022-08-01"),
    "from November to February": ("2022-11-01", "2023-03-01"),
    "from 2019 to 2021": ("2019-01-01", "2022-01-01"),
    # other languages
    "Was war am 7. Mai 2023?": ("2023-05-07", "2023-05-08"),
    "im Mai": ("2023-05-01", "2023-06-01"),
    "Anfang März 2023": ("2023-03-01", "2023-03-11"),
    "gestern": ("2023-06-13", "2023-06-14"),
    "vorgestern": ("2023-06-12", "2023-06-13"),
    "letzte Woche": ("2023-06-05", "2023-06-12"),
    "letzten Dienstag": ("2023-06-13", "2023-06-14"),
    "am Freitag": ("2023-06-09", "2023-06-10"),
    "vor zwei Wochen": ("2023-05-28", "2023-06-04"),
    "le 7 mai 2023": ("2023-05-07", "2023-05-08"),
    "en mars 2023": ("2023-03-01", "2023-04-01"),
    "Qu'est-ce que tu as dit hier ?": ("2023-06-13", "2023-06-14"),
    "avant-hier": ("2023-06-12", "2023-06-13"),
    "la semaine dernière": ("2023-06-05", "2023-06-12"),
    "mardi dernier": ("2023-06-13", "2023-06-14"),
    "il y a deux semaines": ("2023-05-28", "2023-06-04"),
    "il y a un an": ("2021-12-14", "2022-12-14"),
    "l'été dernier": ("2022-06-01", "2022-09-01"),
    "el 7 de mayo de 2023": ("2023-05-07", "2023-05-08"),
    "en enero": ("2023-01-01", "2023-02-01"),
    "anoche": ("2023-06-13T17", "2023-06-14"),
    "ayer": ("2023-06-13", "2023-06-14"),
    "la semana pasada": ("2023-06-05", "2023-06-12"),
    "el martes pasado": ("2023-06-13", "2023-06-14"),
    "hace dos semanas": ("2023-05-28", "2023-06-04"),
    "el año pasado": ("2022-01-01", "2023-01-01"),
}

NOTHING = """
on the 3rd floor|the next day
may I ask|it may rain|May I ask you something?|you may 5 times|6 may work|My friend May came|They march on
a march through town|march 10 miles|wait a second|second place|the sun is out|he sat down|mon ami
on the sat nav|version 2.3.1|version 2023-05-07|release 7.5.2023|1.2.23|v2023.1|Python 3.11|$2023|costs 2023 dollars
2000 users|in 2000 steps|at 5 pm|12:30|7|5 apples|five|the 5th|3.14|192.168.1.1|Windows 2000|port 2023|RFC 2119|GPT-4
April said hi|June is nice|for 3 years|the one-year-old child|last message|the last 5 messages|next step|this function
in the past|fall down|the fall of Rome|Spring Boot 3|every Friday|Fridays|half past five|24/7|5/7|1/2 cup|page 2012
a limit of 2048|2048 tokens|from 2000 to 3000|Mars is red|mayo on bread|ich bin hier und warte|guten Morgen
j'ai été malade|555-2023|the end of the file|the start of the function|Jan told me|two weeks|how many days|vor dem Haus
il y a un problème|hace calor|a quarter of it|in a minute|2023-13-45|99/99/2023|room 2019|#2021|2021%
http://example.org/2023/05/07/a|file_2023-05-07.txt|abc-2023|in the coming weeks|new model|black cat|current version
"""


def bounds(span: TimeSpan) -> tuple[datetime, datetime]:
    return span.start, span.end


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.req("RETRIEVE-5")
@each(("text", "expected"), NAMED.items())
def test_a_time_that_is_named_is_found(text: str, expected: tuple[str, str]) -> None:
    found = spans_in(text, NOW)
    assert [bounds(span) for span in found] == [(moment(expected[0]), moment(expected[1]))]
    assert 0 < found[0].certainty <= 1
    assert found[0].words in text


@pytest.mark.req("RETRIEVE-5")
@each("text", NOTHING.strip().replace("\n", "|").split("|"))
def test_what_only_looks_like_a_time_names_none(text: str) -> None:
    assert spans_in(text, NOW) == ()


def test_a_date_that_can_be_read_two_ways_is_given_both_ways_with_less_certainty() -> None:
    first, second = spans_in("05/07/2023", NOW)
    assert (first.start, second.start) == (moment("2023-05-07"), moment("2023-07-05"))
    assert second.certainty < first.certainty < spans_in("May 7, 2023", NOW)[0].certainty


def test_a_guess_is_less_certain_than_what_was_said() -> None:
    order = ["in May 2023", "in May", "in the summer", "the other day"]
    sure = [spans_in(text, NOW)[0].certainty for text in order]
    assert sure == sorted(sure, reverse=True)
    assert len(set(sure)) == len(sure)


def test_several_times_stand_in_the_order_in_which_they_are_named_and_each_once() -> None:
    found = spans_in("Yesterday, or was it in March 2022? No, yesterday, 13 June 2023.", NOW)
    assert [span.words for span in found] == ["Yesterday", "March 2022"]


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=-9)), ZoneInfo("Europe/Berlin")])
def test_a_day_is_the_day_of_who_asks(zone: timezone | ZoneInfo) -> None:
    asked = datetime(2023, 6, 14, 0, 30, tzinfo=zone)
    assert bounds(spans_in("yesterday", asked)[0]) == (
        datetime(2023, 6, 13, tzinfo=zone),
        datetime(2023, 6, 14, tzinfo=zone),
    )


@each(
    ("asked", "text", "start", "end"),
    [
        ("2023-01-01", "yesterday", "2022-12-31", "2023-01-01"),
        ("2023-01-01", "last week", "2022-12-19", "2022-12-26"),
        ("2023-01-02", "last week", "2022-12-26", "2023-01-02"),
        ("2023-01-02", "last month", "2022-12-01", "2023-01-01"),
        ("2023-01-15", "last winter", "2021-12-01", "2022-03-01"),
        ("2023-01-15", "this winter", "2022-12-01", "2023-03-01"),
        ("2024-03-01", "yesterday", "2024-02-29", "2024-03-01"),
        ("2024-02-29", "a year ago", "2022-08-30", "2023-08-30"),
        ("2024-02-29", "on February 29", "2024-02-29", "2024-03-01"),
        ("2023-06-17", "last weekend", "2023-06-10", "2023-06-12"),
        ("2023-06-18", "last weekend", "2023-06-10", "2023-06-12"),
        ("2023-06-19", "last weekend", "2023-06-17", "2023-06-19"),
        ("2023-06-19", "this week", "2023-06-19", "2023-06-26"),
        ("2023-06-18", "this week", "2023-06-12", "2023-06-19"),
        ("2023-05-31", "a month ago", "2023-04-15", "2023-05-16"),
    ],
)
def test_years_end_and_weeks_begin_where_the_calendar_says(asked: str, text: str, start: str, end: str) -> None:
    assert bounds(spans_in(text, moment(asked))[0]) == (moment(start), moment(end))


@pytest.mark.req("RETRIEVE-5")
def test_a_message_tells_of_times_reckoned_from_when_it_was_said() -> None:
    said = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert bounds(dates_mentioned("I went there yesterday and loved it.", said)[0]) == (
        moment("2023-05-07"),
        moment("2023-05-08"),
    )
    assert dates_mentioned("Nothing new here, version 2.3 runs well.", said) == ()


@each("text", NAMED)
def test_a_message_and_a_question_are_read_alike(text: str) -> None:
    assert dates_mentioned(text, NOW) == spans_in(text, NOW)


def test_nearness_is_whole_inside_and_falls_softly_outside() -> None:
    day, month = spans_in("7 May 2023", NOW)[0], spans_in("May 2023", NOW)[0]
    assert nearness(day, moment("2023-05-07T12")) == nearness(day, day.start) == 1
    assert 0.3 < nearness(day, moment("2023-05-09")) < 0.5
    assert 0.1 < nearness(day, moment("2023-05-10")) < 0.2
    assert nearness(day, moment("2023-05-20")) < 0.001
    assert nearness(day, moment("2023-05-06")) == nearness(day, moment("2023-05-09"))
    assert 0.2 < nearness(month, moment("2023-06-08")) < 0.4
    assert nearness(month, moment("2023-08-01")) < 0.001


def test_a_list_of_dates_gives_a_bounded_number_of_spans() -> None:
    text = "\n".join(f"{1900 + number // 12}-{number % 12 + 1:02}-01 done" for number in range(500))
    assert len(spans_in(text, NOW)) == MOST


def test_a_question_below_a_long_paste_is_read() -> None:
    found = spans_in("On 7 May 2023:\n" + "word " * LONGEST + "\nWhat of this did we say yesterday?", NOW)
    assert [span.words for span in found] == ["7 May 2023", "yesterday"]
