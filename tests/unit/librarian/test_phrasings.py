"""What people say in their own way is kept; idle talk that only looks like it is not taken for something agreed."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from contextinfinity.librarian.contract import Task, TranscriptMessage
from contextinfinity.librarian.digest import AGREED, parse
from contextinfinity.librarian.entry_kinds import kind_of
from contextinfinity.librarian.offline_librarian import OfflineLibrarian
from contextinfinity.librarian.scoring import score, words_of
from contextinfinity.text.tokens import counter_of

count = counter_of("scripted", "x").count


class Phrasing(NamedTuple):
    kind: str
    words: str
    text: str


LINES = Path(__file__).with_name("phrasings.tsv").read_text(encoding="utf-8").splitlines()
PHRASINGS = [Phrasing(*line.split("\t")) for line in LINES]
TALK = (
    ("Interesting, I had no idea.", "Many find that surprising."),
    ("What happens if it goes wrong?", "Then one starts again, which takes about 40 minutes."),
    ("That film was hilarious.", "It won 3 prizes that year, and must be seen on a large screen."),
    ("Could you say that in simpler words?", "In short: the slow way gives the better result."),
)


async def folded(*users: str, summary: str = "", first: int = 1, answers: tuple[str, ...] = ()) -> str:
    said = []
    for turn_seq, text in enumerate(users, start=first):
        talk = answers[turn_seq - first] if answers else TALK[turn_seq % len(TALK)][1]
        said += [TranscriptMessage(turn_seq=turn_seq, role="user", text=text)]
        said += [TranscriptMessage(turn_seq=turn_seq, role="assistant", text=talk)]
    return (await OfflineLibrarian().summarise(Task(summary=summary, said=tuple(said)), count)).text


def kept(text: str, words: str) -> bool:
    return any(words.casefold() in each.text.casefold() for each in parse(text).entries if each.kind != "last")


@pytest.mark.req("LIBRARIAN-3", "LIBRARIAN-7")
async def test_what_somebody_says_in_their_own_way_is_kept() -> None:
    talk = [TALK[number % len(TALK)][0] for number in range(20)]
    lost = [each for each in PHRASINGS if not kept(await folded(*talk[:8], each.text, *talk[8:]), each.words)]
    assert len(lost) <= len(PHRASINGS) // 20, lost


@pytest.mark.req("LIBRARIAN-3")
async def test_fifteen_things_are_still_there_after_two_hundred_more_turns() -> None:
    chosen = PHRASINGS[::5][:15]
    talk = [TALK[number % len(TALK)][0] for number in range(50)]
    text = await folded(*[each.text for each in chosen], *talk[:35])
    for fold in range(1, 5):
        text = await folded(*talk, summary=text, first=50 * fold + 1)
    assert [each.text for each in chosen if not kept(text, each.words)] == []


@pytest.mark.parametrize(
    "idle",
    [
        "I won't lie, that was funny.",
        "I picked up 46 apples on the way.",
        "They decided in episode 4 to blow up the ship.",
        "The king chose his youngest daughter.",
        "She has to be kidding me.",
        "It must have rained for days.",
        "He said it more than 3 times.",
        "We picked up 5 friends going with us.",
        "I love how the dog barks.",
    ],
)
def test_idle_talk_binds_to_nothing(idle: str) -> None:
    assert kind_of(idle, frozenset(words_of(idle))) not in AGREED


async def test_idle_talk_does_not_push_out_what_was_said_in_earnest() -> None:
    text = await folded(
        "We must keep invoices for seven years.", "my booking ref is QX7T2P", "I'd rather sit on the aisle"
    )
    for fold in range(1, 6):
        idle = [
            f"{words} {number}"
            for number in range(fold * 50, fold * 50 + 10)
            for words in (
                "I picked up apples, number",
                "It was cold outside, minus",
                "The king chose daughter",
                "He ate",
                "We saw",
            )
        ]
        text = await folded(*idle, summary=text, first=50 * fold)
    for words in ("seven years", "QX7T2P", "aisle"):
        assert kept(text, words)


def test_rare_words_names_and_dates_raise_the_score_and_greetings_lower_it() -> None:
    told, vague, polite = (
        "My sister Odile moved to Ghent in June.",
        "She is there now too.",
        "Thanks, that sounds great!",
    )
    scores = [score(text, words_of(text)) for text in (told, vague, polite)]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.req("LIBRARIAN-3")
@pytest.mark.parametrize(
    ("asked", "answer", "entry"),
    [
        ("Should we use tabs or spaces?", "spaces", "#2 user: Should we use tabs or spaces? – spaces"),
        ("Deploy it on Friday or on Monday?", "Monday please", "Deploy it on Friday or on Monday? – Monday please"),
        ("What is the name of the branch?", "otter", "#2 user: What is the name of the branch? – otter"),
    ],
)  # fmt: skip
async def test_a_short_answer_stands_with_its_question(asked: str, answer: str, entry: str) -> None:
    text = await folded("Let us start.", answer, "Thanks!", answers=(asked, "Fine.", "You are welcome."))
    assert entry in text.partition("Last exchange:")[0]
    assert "Open questions:" not in text


@pytest.mark.req("LIBRARIAN-3")
@pytest.mark.parametrize("accepts", ["great, do that", "Sounds good, let's do it.", "ok go ahead", "einverstanden"])
async def test_a_proposal_that_is_accepted_is_agreed_and_stays_the_assistants(accepts: str) -> None:
    proposal = "I suggest PostgreSQL for the ledger."
    text = await folded("Which one fits?", accepts, "Thanks!", answers=(proposal, "Done.", "You are welcome."))
    made = parse(text).of("decision")
    assert [(each.text, each.turn_seq, each.who) for each in made] == [
        ("Agreed: I suggest PostgreSQL for the ledger.", 1, "assistant")
    ]


@pytest.mark.parametrize("says", ["ok thanks!", "Sounds good, go on.", "haha yes", "hmm", "I see.", "Why?"])
async def test_politeness_accepts_nothing(says: str) -> None:
    text = await folded("Which one fits?", says, "Bye!", answers=("I would recommend the first.", "Fine.", "Bye!"))
    assert not parse(text).of("decision")


async def test_what_is_stated_before_a_question_is_kept() -> None:
    text = await folded("I'm allergic to walnuts, what can I bake?", "Thanks!")
    assert kept(text, "allergic to walnuts")
