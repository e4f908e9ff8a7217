"""Where topics change: the scores, and each piece of evidence for itself."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pytest

from benchmarks.topics import Chat, assistant_chats
from contextinfinity.embedders.static import built_in
from contextinfinity.text import cues
from contextinfinity.text.topics import LONGEST, shift_scores
from tests.cases import each

COOKING = [
    ("user", "What's a good recipe for a vegetarian lasagne?"),
    (
        "assistant",
        "Layer pasta sheets with roasted aubergine and courgette, a tomato sauce and a bechamel. Bake it for 40",
    ),
    ("user", "Can I leave out the bechamel?"),
    ("assistant", "Yes. Ricotta mixed with an egg works instead of the bechamel, or mozzarella between the layers."),
]
TAXES = [
    ("user", "How do freelancers file taxes in Germany?"),
    ("assistant", "Register with the tax office, get a tax number, and submit an income tax return once a year."),
]
BAKING = [
    ("user", "How long can the lasagne rest after baking?"),
    ("assistant", "Ten to fifteen minutes; then the layers of pasta and sauce hold together when you cut the lasagne."),
]
DAY = 86_400.0


def scored(
    said: Sequence[tuple[str, str]], *, peers: bool = False, times: Sequence[float | None] | None = None
) -> list[float]:
    texts = [text for _, text in said]
    roles = None if peers else [role for role, _ in said]
    found: list[float] = shift_scores(texts, built_in().encode(texts), roles=roles, times=times).tolist()
    return found


def test_another_subject_scores_high_and_the_same_one_low() -> None:
    assert scored([*COOKING, *TAXES])[4] > 0.7
    assert scored([*COOKING, *BAKING])[4] < 0.3


def test_there_is_a_score_for_every_message_and_none_for_the_first() -> None:
    scores = scored([*COOKING, *TAXES])
    assert len(scores) == 6
    assert scores[0] == 0.0
    assert all(0.0 <= score <= 1.0 for score in scores)


def test_an_assistant_opens_no_topic() -> None:
    scores = scored([*COOKING, *TAXES])
    assert [scores[place] for place in (1, 3, 5)] == [0.0, 0.0, 0.0]


def test_among_people_anyone_may_open_a_topic() -> None:
    scores = scored([*COOKING, *TAXES], peers=True)
    assert all(score > 0 for score in scores[1:])


def test_company_that_chats_may_open_a_topic_too() -> None:
    chat = [
        ("user", "i love my two cats , they sleep all day"),
        ("assistant", "i have a cat too ! my cat is called minka"),
        ("user", "cute name . my cats are sisters"),
        ("assistant", "nice . i work in a bank in boston . what do you do for a living ?"),
    ]
    assert scored(chat)[3] > 0.5


def test_among_people_a_question_about_the_other_opens_a_topic() -> None:
    cats = [("user", text) for text in ("i love my two cats , they sleep all day", "my cat is called minka")]
    told = scored([*cats, ("user", "i like green tea")], peers=True)[2]
    asked = scored([*cats, ("user", "do you like green tea ?")], peers=True)[2]
    assert told < 0.75
    assert asked > 0.9


def test_an_assistant_that_uses_tools_is_at_work_however_it_chats() -> None:
    chat = [
        ("user", "i love my two cats"),
        ("assistant", "i have a cat too !"),
        ("tool", "found nothing"),
        ("assistant", "i work in a bank in boston . what do you do for a living ?"),
    ]
    assert scored(chat) == [0.0] * 4


def test_system_and_empty_messages_count_for_nothing() -> None:
    plain = scored([*COOKING, *TAXES])
    mixed = scored([("system", "You speak about taxes."), *COOKING, ("user", "  "), *TAXES, ("tool", "")])
    assert [mixed[place] for place in (0, 5, 8)] == [0.0, 0.0, 0.0]
    assert [mixed[place] for place in (1, 2, 3, 4, 6, 7)] == pytest.approx(plain)


def test_results_of_tools_belong_to_the_question_they_answer() -> None:
    said = [*COOKING, ("tool", "The weather in Oslo: rain, 4 degrees."), *TAXES]
    assert scored(said)[4] == 0.0


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_messages_have_no_shift(count: int) -> None:
    assert scored(COOKING[:count]) == [0.0] * count


def test_a_long_pause_speaks_for_a_new_topic_and_a_short_one_for_nothing() -> None:
    said = [*COOKING, ("user", "Is mozzarella fine?"), ("assistant", "Yes, it is.")]
    at = [0.0, 10.0, 60.0, 70.0]
    quick, minutes, days = (scored(said, times=[*at, 70 + pause, 80 + pause])[4] for pause in (5.0, 1_500.0, 3 * DAY))
    assert quick == minutes == scored(said)[4]
    assert days > minutes


def test_times_that_are_missing_or_run_backwards_do_no_harm() -> None:
    plain = scored([*COOKING, *TAXES])
    assert scored([*COOKING, *TAXES], times=[None] * 6) == plain
    assert scored([*COOKING, *TAXES], times=[9 * DAY, None, 7 * DAY, 3 * DAY, 2 * DAY, 0.0]) == plain


def test_what_stands_past_the_beginning_of_a_long_message_is_not_looked_at() -> None:
    front = ("The lasagne again. " * LONGEST)[:LONGEST]
    texts = [*(text for _, text in COOKING), front]
    longer = [*texts[:-1], front + " How do freelancers file taxes?" * 50]
    vectors = built_in().encode(texts)
    assert shift_scores(longer, vectors).tolist() == shift_scores(texts, vectors).tolist()


@pytest.mark.req("COMPACT-5")
@pytest.mark.parametrize("chat", assistant_chats(), ids=lambda chat: chat.texts[0][:40])
def test_shifts_in_work_with_an_assistant_are_found(chat: Chat) -> None:
    scores = shift_scores(chat.texts, built_in().encode(chat.texts), roles=chat.roles)
    assert [bool(score >= 0.5) for score in scores[1:]] == chat.shifts


def test_the_scores_need_nothing_but_vectors_of_the_texts() -> None:
    texts = ["one", "two", "three"]
    assert shift_scores(texts, np.zeros((3, 8), dtype=np.float32)).shape == (3,)
    assert shift_scores(texts, np.eye(3, dtype=np.float32)).shape == (3,)


# --- Cues -------------------------------------------------------------------------------------------


@each(
    "text",
    [
        "Now let's work on the login page.",
        "ok, now let’s look at the parser",
        "Switching gears: the pods restart",
        "New topic: holidays",
        "Different question, how tall is he?",
        "Great. Next: the changelog",
        "Let's move on.",
        "Forget that, let's try something else",
        "On another note, who won?",
        "Let's refactor the parser instead",
        "Anderes Thema: Wetter",
        "Changeons de sujet.",
        "Por favor, cambiemos de tema",
        "Mudando de assunto, e o jogo?",
        "换个话题吧",
        "別の質問があります",
        "Забудь, перейдём к тестам",
    ],
)
def test_a_phrase_that_leaves_the_topic_is_seen(text: str) -> None:
    assert cues.leaves_topic(text)


@pytest.mark.parametrize(
    "text",
    [
        "Don't forget that the cache is shared",
        "switch to the main branch and rebase",
        "how do I change the subject of the email?",
        "Is there another task queue?",
        "what's the next issue in the tracker?",
        "I want to start from scratch with the index",
        "Let's use a dict instead",
        "Can you move on the next line?",
        "it prints something else there",
        "now let's add error handling to it",
        "",
    ],
)
def test_ordinary_talk_leaves_no_topic(text: str) -> None:
    assert cues.leaves_topic(text) is None


def test_a_phrase_deep_inside_a_message_is_no_cue() -> None:
    assert cues.leaves_topic("x " * cues.OPENING + "New topic: holidays") is None


def test_content_is_what_is_left_without_empty_words_and_endings() -> None:
    assert cues.content(cues.words("What's the invoice? The INVOICES aren't here.")) == {"invoic"}


@each("piece", ["now let's ", "let's do ", "forget ", "(((( ", "ok ", "ok, ", "¿¡", "a/", "?", " ", "hm", "x_y "])
def test_no_text_makes_the_cues_slow(piece: str) -> None:
    text = piece * 300_000
    began = time.process_time()
    cues.leaves_topic(text), cues.starts_like_follow_up(text), cues.ends_asking(text)
    cues.asks_about_you(text[:LONGEST]), cues.content(cues.words(text[:LONGEST]))
    assert time.process_time() - began < 1.0
