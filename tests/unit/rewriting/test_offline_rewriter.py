from __future__ import annotations

import time

import pytest

from contextinfinity.rewriting import FollowUp, OfflineRewriter, Rewritten
from contextinfinity.threads import Turn

TRUMP = ("Who is Donald Trump?", "Donald Trump is an American politician.")
GOOGLE = ("Who founded Google?", "Google was founded by Larry Page and Sergey Brin in 1998.")
CURIE = ("Who is Marie Curie?", "Marie Curie was a physicist born in Warsaw in 1867.")
HAMLET = ("Who wrote Hamlet?", "William Shakespeare wrote Hamlet around 1600.")
TWO = ("Compare Apple and Microsoft for me.", "Apple sells devices, Microsoft sells software.")


async def told(said: tuple[str, ...], message: str, snippet: str | None = None) -> Rewritten:
    turns = tuple(Turn("assistant" if index % 2 else "user", text) for index, text in enumerate(said))
    return await OfflineRewriter().rewrite(
        FollowUp(latest_user_message=message, recent_history=turns, memory_snippet=snippet, thread_id="a")
    )


@pytest.mark.req("REWRITE-3", "REWRITE-7", "CTX-6")
@pytest.mark.parametrize(
    ("said", "message", "explicit"),
    [
        (TRUMP, "who are his children", "who are Donald Trump's children"),
        (TRUMP, "Why do people like him?", "Why do people like Donald Trump?"),
        (CURIE, "When did she die?", "When did Marie Curie die?"),
        (("Who is Biden?", "A politician.", "Who is Putin?", "Another."), "How old is he?", "How old is Putin?"),
        (("Frank Zappa\nDisbandment",), "When was he born?", "When was Frank Zappa born?"),
        (("Frank Zappa, Disbandment",), "When was he born?", "When was Frank Zappa born?"),
    ],
)
async def test_a_pronoun_becomes_a_persons_name(said: tuple[str, ...], message: str, explicit: str) -> None:
    assert (await told(said, message)).query == explicit


@pytest.mark.req("REWRITE-7")
async def test_the_only_person_is_not_shown_if_hardly_mentioned() -> None:
    said = ("How do I bake bread?", "Knead the dough for ten minutes and let it rest, as Julia does.")
    rewritten = await told(said, "Where does she live?")
    assert (rewritten.query, "Julia" in rewritten.terms) == ("Where does she live?", True)


@pytest.mark.req("REWRITE-3", "REWRITE-8")
@pytest.mark.parametrize(
    ("said", "message", "words"),
    [
        (HAMLET, "why?", "Hamlet"),
        (HAMLET, "any others?", "William Shakespeare Hamlet"),
        (GOOGLE, "When was it founded?", "Google"),
        (TWO, "Tell me about the second one", "Apple Microsoft"),
        (("What is the weather tomorrow?", "Which city?"), "Paris", "weather tomorrow"),
        (("Hey Jude\nRehearsals",), "Were there any problems?", "Jude Rehearsals"),
    ],
)
async def test_what_is_left_out_is_searched_for(said: tuple[str, ...], message: str, words: str) -> None:
    rewritten = await told(said, message)
    assert rewritten.query == message
    assert {*words.split()} <= {*rewritten.terms}


@pytest.mark.req("REWRITE-6")
@pytest.mark.parametrize(
    "message",
    [
        "Who is Marie Curie?",
        "What is the capital of Peru?",
        "How do I boil an egg?",
        "What is primatology?",
        "Where did Marie Curie spend her childhood?",
        "Write a short poem about autumn",
        "thanks a lot",
        "Is it possible to export a chat?",
        "Is there a train to Hamburg?",
        "I had a good day with my sister, we went to the zoo.",
        "```python\nprint(it)\n```",
        "   ",
        "",
        "Please improve this paragraph. " + "He said that it was there then. " * 40,
    ],
)
async def test_an_explicit_message_is_left_as_it_is(message: str) -> None:
    assert (await told(TRUMP, message)).query == message


@pytest.mark.req("REWRITE-6", "REWRITE-8")
@pytest.mark.parametrize(
    ("said", "message", "name"),
    [
        (("Wer ist Angela Merkel?", "Angela Merkel war Kanzlerin."), "Wann wurde sie geboren?", "Angela Merkel"),
        (("Wer ist Angela Merkel?", "Sie war Kanzlerin."), "Was hat sie in der Politik gemacht?", "Angela Merkel"),
        (("Qui est Emmanuel Macron ?", "Le président."), "Où est-ce qu'il habite ?", "Emmanuel Macron"),
        (("¿Quién es Frida Kahlo?", "Una pintora."), "¿Cuándo nació ella y quién es su padre?", "Frida Kahlo"),
    ],
)
async def test_a_sentence_of_another_language_stays_as_it_is(said: tuple[str, ...], message: str, name: str) -> None:
    rewritten = await told(said, message)
    assert rewritten.query == message
    assert {*name.split()} <= {*rewritten.terms}


@pytest.mark.req("REWRITE-1")
async def test_whom_only_the_memories_name_can_be_meant() -> None:
    assert (await told((), "When is her birthday?", "The user's wife is Anna.")).query == "When is Anna's birthday?"


@pytest.mark.req("REWRITE-3", "CTX-5")
async def test_the_things_spoken_of_are_told_with_their_kinds() -> None:
    said = ("Ask Anna about src/app.py in Berlin.", "Anna called parse_args() 12 times on 3 March.")
    kinds = {str(one["name"]): one["kind"] for one in (await told(said, "ok")).entities if isinstance(one, dict)}
    assert kinds == {
        "Anna": "person",
        "src/app.py": "file",
        "Berlin": "place",
        "parse_args()": "function",
        "12": "number",
        "3 March": "date",
    }


@pytest.mark.req("REWRITE-6")
async def test_megabytes_take_no_longer_than_pages() -> None:
    long = "Peter met Anna in Berlin. It was there that he said so. " * 20_000
    began = time.process_time()
    await told((long,) * 40, "Where did he go?")
    await told(("a" * 1_000_000, "(" * 1_000_000, "A." * 500_000, "\n" * 1_000_000), "why?")
    await told(("Who is he?", "x_" * 500_000, "“" * 500_000), "it " * 500_000)
    assert time.process_time() - began < 2
