"""Which entries still hold: identical ones merge, replaced and settled ones are retired with the turn that did it."""

from __future__ import annotations

import pytest

from contextinfinity.domain.message import Role
from contextinfinity.librarian.contract import no_pause
from contextinfinity.librarian.digest import Kind, SummaryEntry, entry
from contextinfinity.librarian.settle import retire_replaced


def made(kind: Kind, turn_seq: int, who: Role, text: str) -> SummaryEntry:
    one = entry(kind, text, turn_seq, who)
    assert one is not None
    return one


async def left(*entries: SummaryEntry) -> list[tuple[str, int | None]]:
    """Return each text that is left, with the turn that retired it."""
    return [(each.text, each.until) for each in await retire_replaced(entries, (), no_pause)]


@pytest.mark.req("LIBRARIAN-5")
async def test_entries_that_differ_in_a_name_or_number_never_merge() -> None:
    codes = [made("decision", n, "user", f"We decided that the code word for item{n} is w{n}rd.") for n in range(1, 31)]
    assert await left(*codes) == [(each.text, None) for each in codes]
    seats = [made("fact", n, "user", f"Room {n} has 12 seats.") for n in range(1, 9)]
    assert await left(*seats) == [(each.text, None) for each in seats]
    parcels = [
        made(
            "fact",
            turn,
            "user",
            f"Give {name} grey coats, blue scarves, leather gloves, warm socks, winter hats, 12 kg.",
        )
        for turn, name in ((1, "Odile"), (5, "Rafael"), (9, "Ines"))
    ]
    assert await left(*parcels) == [(each.text, None) for each in parcels]


@pytest.mark.req("LIBRARIAN-5")
async def test_identical_entries_merge_and_keep_the_newest_turn() -> None:
    one, again = (made("decision", turn, "user", "We use PostgreSQL 16 for the ledger.") for turn in (3, 60))
    assert await retire_replaced([one, again], (), no_pause) == [again]


@pytest.mark.req("LIBRARIAN-5")
async def test_quoted_dots_are_no_name() -> None:
    first, second = "Builds take `..` as their root.", "Tests of the parser take `..` as their root too."
    entries = made("decision", 3, "user", first), made("decision", 6, "user", second)
    assert await left(*entries) == [(first, None), (second, None)]


@pytest.mark.req("LIBRARIAN-5")
async def test_a_negation_is_another_entry_and_the_later_one_holds() -> None:
    one, other = "Deploy the billing service on Friday.", "Never deploy the billing service on Friday."
    assert await left(made("constraint", 1, "user", one), made("constraint", 4, "user", other)) == [
        (one, 4),
        (other, None),
    ]


@pytest.mark.req("LIBRARIAN-3")
@pytest.mark.parametrize("who", ["assistant", "tool", "system"])
async def test_what_a_person_stated_gives_way_to_a_person_only(who: Role) -> None:
    said = made("fact", 1, "user", "The port is 8080.")
    assert (said.text, None) in await left(said, made("fact", 2, who, "The port is 5432."))
    assert (said.text, 2) in await left(said, made("fact", 2, "user", "The port is 5432."))
    echo = made("fact", 2, who, "The port is 8080.")
    assert await retire_replaced([said, echo], (), no_pause) == [said]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Deploys must go through Ingrid", "Deploys must now also go through the release checklist"),
        ("The limit is 5 users", "The limit is 3 projects"),
        ("upload limit is 20 MB", "upload limit is 100 files"),
        ("use Redis for caching", "use Redis for queues now"),
        ("The budget for the web shop is 4,200 €.", "The budget for the warehouse is 9,100 €."),
    ],
)
async def test_what_does_not_exclude_the_first_leaves_it(first: str, second: str) -> None:
    both = await left(made("constraint", 1, "user", first), made("constraint", 2, "user", second))
    assert both == [(first, None), (second, None)]


@pytest.mark.req("LIBRARIAN-5")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("The limit is 5 users", "The limit is 8 users"),
        ("The budget is 4,200 €", "The budget is now 5000 €"),
        ("The deadline is 3 May.", "The deadline is now 10 May."),
        ("Let's use Redis for sessions", "Let's use Valkey instead of Redis for sessions"),
        ("We host in Frankfurt", "We no longer host in Frankfurt"),
        ("Use PostgreSQL for the ledger.", "Let's go with SQLite instead."),
        ("I prefer tables for the weekly report.", "Actually I prefer charts for the weekly report."),
    ],
)
async def test_a_later_value_or_a_change_retires_the_first(first: str, second: str) -> None:
    both = await left(made("decision", 1, "user", first), made("decision", 7, "user", second))
    assert both == [(first, 7), (second, None)]


@pytest.mark.req("LIBRARIAN-5")
@pytest.mark.parametrize(
    ("problem", "solved"),
    [
        ("test_login is flaky since Tuesday.", "I fixed test_login, it waited for the wrong port."),
        ("The export job fails on Windows.", "The fix for the export job on Windows is merged."),
        ("Der Import bricht mit einem Fehler ab.", "Der Fehler im Import ist behoben."),
    ],
)
async def test_a_problem_that_was_solved_is_retired_also_by_the_assistant(problem: str, solved: str) -> None:
    both = await left(made("fact", 3, "user", problem), made("fact", 9, "assistant", solved))
    assert both == [(problem, 9), (solved, None)]


@pytest.mark.req("LIBRARIAN-5")
async def test_an_answer_settles_the_open_question() -> None:
    asked = made("question", 1, "user", "Which message queue do we take is still open.")
    answer = made("decision", 5, "user", "We decided to take RabbitMQ as message queue.")
    assert await left(asked, answer) == [(asked.text, 5), (answer.text, None)]


@pytest.mark.req("LIBRARIAN-5")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("The retry limit for webhooks is 5.", "I bumped the webhook retry limit to 12."),
        ("The invoice total is 1,940 dollars.", "They corrected the invoice, the total is 1,725 dollars."),
        (
            "The feature flag for the new checkout is checkout_v2.",
            "We renamed the flag for the new checkout to cart_next.",
        ),
        (
            "The contract with Telvio runs until June 2027.",
            "We extended the contract with Telvio, it runs until December 2028.",
        ),
        ("Marta is the project lead.", "Marta left the company, Idris is the project lead now."),
        ("We deploy from the release/2.x branch.", "We stopped using release/2.x, deploys come from main."),
        ("Mi número de cliente es 44821.", "Me dieron un nuevo número de cliente, es 90335."),
        ("The price per seat is 12 euros.", "Sales lowered the price per seat to 9 euros."),
    ],
)
async def test_a_note_in_other_words_retires_the_value_that_it_changes(first: str, second: str) -> None:
    both = await left(made("fact", 1, "user", first), made("fact", 50, "user", second))
    assert both == [(first, 50), (second, None)]


@pytest.mark.req("LIBRARIAN-5")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("I went to a pottery workshop in Ghent last Friday.", "I went to a pottery workshop in Bruges last Friday."),
        ("Room 4 has 12 seats.", "Room 5 has 12 seats."),
        (
            "I need to implement the analytics features by 19 April.",
            "I've also completed tests for the analytics features.",
        ),
        (
            "I've been using Flask 2.3.1 and I want my code to follow best practices.",
            "The sign-in, which has now reached 165 users, should follow best practices for passwords and tokens.",
        ),
    ],
)
async def test_events_other_things_and_additions_retire_nothing(first: str, second: str) -> None:
    both = await left(made("fact", 1, "user", first), made("fact", 50, "user", second))
    assert both == [(first, None), (second, None)]


@pytest.mark.req("LIBRARIAN-5")
async def test_a_long_sentence_of_which_a_part_changed_retires_no_other_long_sentence() -> None:
    first = (
        "I'm trying to calculate the area of a triangle with sides 7 cm, 24 cm and 25 cm by Heron's formula, as the"
        " base and the altitude are not given in this exercise."
    )
    second = (
        "I'm trying to verify the altitude of a triangle with sides 5, 12 and 13 cm, and found that the result was"
        " 4.5 cm, but it was corrected to 4.6 cm with Heron's formula and the area."
    )
    both = await left(made("fact", 1, "user", first), made("fact", 7, "user", second))
    assert both == [(first, None), (second, None)]


BETWEEN = ("My aunt keeps bees", "The film was far too long", "Our train had no heating", "I bought a green lamp")


def with_others(*said: tuple[int, Role, str]) -> list[SummaryEntry]:
    others = [made("fact", 3 + at, "user", text) for at, text in enumerate(BETWEEN)]
    return sorted([*others, *(made("fact", *one) for one in said)], key=lambda each: each.turn_seq or 0)


@pytest.mark.req("LIBRARIAN-5")
@pytest.mark.parametrize("by_user", [True, False])
async def test_an_exchange_retires_the_value_that_it_changes_in_other_words(by_user: bool) -> None:
    first, echo = "The choir rehearses in the school gym at Lindhof", "Gym at Lindhof, written down."
    who: Role = "user" if by_user else "assistant"
    news: tuple[int, Role, str] = (30, who, "That gym is being painted, so the choir has to sing elsewhere")
    reply: tuple[int, Role, str] = (30, "assistant", "The calendar now shows the chapel in Marstal for the choir.")
    kept = await left(*with_others((2, "user", first), (2, "assistant", echo), news, reply))
    until = {text: turn for text, turn in kept if turn is not None}
    assert until == ({first: 30, echo: 30} if by_user else {echo: 30})


@pytest.mark.req("LIBRARIAN-5")
@pytest.mark.parametrize(
    ("said", "reply"),
    [
        ("On Sundays the singers of Marstal use a chapel", "Noted: chapel and choir on Sundays."),  # nothing changed
        ("We now have a second room in Marstal", "So the choir rehearses there and in the Lindhof gym."),
    ],
)
async def test_an_exchange_that_changes_nothing_retires_nothing(said: str, reply: str) -> None:
    first = "The choir rehearses in the school gym at Lindhof"
    kept = await left(*with_others((2, "user", first), (30, "user", said), (30, "assistant", reply)))
    assert all(until is None for _, until in kept)


@pytest.mark.req("LIBRARIAN-5")
async def test_a_subject_that_is_discussed_again_and_again_does_not_change_each_time() -> None:
    first = "The choir rehearses in the school gym at Lindhof"
    again = (18, "user", "Where in the school gym at Lindhof does the choir put its chairs when it rehearses?")
    news = (30, "user", "That gym is being painted, so the choir has to sing elsewhere now")
    reply = (30, "assistant", "The calendar now shows the chapel in Marstal for the choir.")
    kept = await left(*with_others((2, "user", first), again, news, reply))  # type: ignore[arg-type]
    assert (first, None) in kept


@pytest.mark.req("LIBRARIAN-3")
async def test_an_exchange_retires_what_binds_only_by_a_persons_words() -> None:
    first = "The choir must rehearse in the school gym at Lindhof"
    others = with_others((30, "user", "Where does the choir rehearse this week, in the gym?"))
    reply = made("fact", 30, "assistant", "The choir now sings in the chapel of Marstal, the gym is closed.")
    binding = made("constraint", 2, "user", first)
    assert (first, None) in await left(binding, *others, reply)
    told = made("fact", 30, "user", "The choir now sings in the chapel of Marstal, the gym is closed")
    assert (first, 30) in await left(binding, *others, told)
