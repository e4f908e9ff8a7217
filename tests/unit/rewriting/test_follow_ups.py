"""Follow-ups as people write them, each with what stands under it as its explicit form.

The first tables were looked at while rules were written. ``UNSEEN`` and ``UNSEEN_DOUBTS`` were written beforehand and
looked at last; what was wrong then was mended, too.
"""

from __future__ import annotations

import pytest

from contextinfinity.rewriting import FollowUp, Offline, Rewritten
from contextinfinity.threads import Turn

Case = tuple[tuple[str, ...], str, str]

PRESIDENTS = ("Who is Joe Biden?", "A politician.", "Who is Donald Trump?", "Another politician.")
CHILDREN = (*PRESIDENTS, "who are his children", "Donald Jr., Ivanka, Eric, Tiffany and Barron.")
HILTON = ("My meeting is on Monday at the Hilton in Berlin.", "Noted.")
SERVICES = (
    "We have two services, billing and auth. Which is older?",
    "The billing service is from 2016, the auth service from 2019.",
)
FILES = ("Open src/app.py and src/db.py please.", "Both are open.")
BUDGET = ("I spoke with Anna and Maria about the budget.", "Good. What did they say?")
JAWS = ("Who directed Jaws?", "Steven Spielberg directed Jaws in 1975.")
SAP = ("What does SAP do?", "SAP makes business software.")
VIENNA = ("What is the population of Vienna?", "About 2 million people.")
DINNERS = ("Give me three dinner ideas.", "1. Lentil curry with rice\n2. Mushroom risotto\n3. Fish tacos")
CAMERAS = ("Should I buy the Canon R6 or the Nikon Z6?", "Both are good. The Nikon is cheaper.")
ACME = ("The meeting with Acme is on Tuesday. Bring the contract and the slides.", "Done, I put it in the list.")
WIFE = ("I need a gift for my wife. She likes tea.", "How about a teapot from Bodum?")
SHOES = ("I bought running shoes from Adidas last week.", "You can return them within 30 days.")
PANCAKES = ("How do I make pancakes?", "Mix flour, milk and eggs, then fry thin layers in butter.")
PRAGUE = ("Plan a 3-day trip to Prague for me.", "Day 1: Old Town. Day 2: Prague Castle. Day 3: Charles Bridge.")

NAMED: list[Case] = [
    (PRESIDENTS, "who are his children", "who are Donald Trump's children"),
    (CHILDREN, "And Joe's?", "who are Joe Biden's children"),
    (HILTON, "How do I get there?", "How do I get to the Hilton in Berlin?"),
    (HILTON, "Is there parking there?", "Is there parking at the Hilton in Berlin?"),
    (SERVICES, "what language is the former written in?", "what language is billing written in?"),
    (BUDGET, "They want to cut travel.", "Anna and Maria want to cut travel."),
    (JAWS, "How old was he then?", "How old was Steven Spielberg in 1975?"),
    (JAWS, "And E.T.?", "Who directed E.T.?"),
    (SAP, "How many people work there?", "How many people work at SAP?"),
    (SAP, "and Oracle?", "What does Oracle do?"),
    (VIENNA, "and in 1900?", "What is the population of Vienna in 1900?"),
    ((*VIENNA, "and Graz?", "About 300,000."), "And in 1900?", "What is the population of Graz in 1900?"),
    (DINNERS, "How do I make the second one?", "How do I make Mushroom risotto?"),
    (
        DINNERS,
        "Which of them is vegan?",
        "Which of Lentil curry with rice, Mushroom risotto and Fish tacos is vegan?",
    ),
    (DINNERS, "Number 3 sounds good", "Fish tacos sounds good"),
    (CAMERAS, "How much is the former?", "How much is the Canon R6?"),
    (ACME, "Move it to Wednesday", "Move the meeting with Acme to Wednesday"),
    (ACME, "Send them to Paul", "Send the contract and the slides to Paul"),
    (WIFE, "Does she need it?", "Does my wife need it?"),
    (PANCAKES, "Can I freeze them?", "Can I freeze pancakes?"),
    (PANCAKES, "how long?", "how long (How do I make pancakes)?"),
    (PRAGUE, "what can I eat there?", "what can I eat in Prague?"),
    (("Tell me about Norway.", "It lies in the north."), "who is its king?", "who is Norway's king?"),
    (("What is 15% of 240?", "36"), "and 20%?", "What is 20% of 240?"),
    (("Is it going to rain in Zurich tomorrow?", "Yes."), "and on Friday?", "Is it going to rain in Zurich on Friday?"),
    (
        ("Explain what useEffect does in React.", "It runs effects."),
        "is it called twice?",
        "is useEffect called twice?",
    ),
]
LEFT_ALONE: list[Case] = [
    (said, message, message)
    for said, message in [
        (PRESIDENTS, "who are her children"),
        (PRESIDENTS, "And Joe's?"),
        (("Tell me about Angela Merkel.", "She was chancellor of Germany."), "Is he married?"),
        (SHOES, "Is it free?"),
        (CAMERAS, "and the Nikon?"),
        (("I want to book a table for tonight.", "For how many people?"), "Never mind"),
        (("I get a KeyError in load_user().", "Use session.get()."), "Thanks, that fixed it"),
        (("Add a dark mode to settings.html and style.css.", "Done."), "undo it"),
        (("Hi, I'm Lena.", "Hi Lena! How can I help?"), "make it longer"),
    ]
]
DOUBTS: list[Case] = [
    (FILES, "Delete it", "src/app.py or src/db.py"),
    (SERVICES, "restart it", "billing or auth"),
    (BUDGET, "She wants to cut travel.", "Anna or Maria"),
    (("I live in Madrid and my brother lives in Porto.", "Nice."), "What's the weather there?", "Madrid or Porto"),
]

KAHLO = ("Who was Frida Kahlo?", "Frida Kahlo was a Mexican painter. She was married to Diego Rivera.")
LAPTOPS = ("Can you recommend a laptop?", "1. ThinkPad X1\n2. MacBook Air\n3. Dell XPS 13")
PARENTS = ("My mother is called Ingrid and my father is called Lars.", "Thank you for telling me.")
CUP = ("Who won the World Cup in 2014?", "Germany won it in Brazil.")
ADLON = ("I'm staying at the Hotel Adlon in Berlin from 3 May to 6 May.", "Enjoy your stay!")
BUTTER = ("Which is healthier, butter or margarine?", "It depends; margarine has less saturated fat.")
TESLA = ("Tell me about Nikola Tesla and Thomas Edison.", "Both were inventors.")
TOWER = ("How tall is the Burj Khalifa?", "828 metres.")

UNSEEN: list[Case] = [
    (KAHLO, "What did he paint?", "What did Diego Rivera paint?"),
    (KAHLO, "Where is her house?", "Where is Frida Kahlo's house?"),
    (("Who is taller, Nora or Emily?", "Nora is taller by 3 cm."), "Is she older, too?", "Is Nora older, too?"),
    (("I have two cats, Luna and Simba.", "Lovely names!"), "What do they eat?", "What do Luna and Simba eat?"),
    (
        ("We moved from Hamburg to Vienna.", "How nice."),
        "How high is the rent there?",
        "How high is the rent in Vienna?",
    ),
    (("What does flush_cache() do?", "It writes."), "write a docstring for it", "write a docstring for flush_cache()"),
    (("What is the capital of Norway?", "Oslo."), "and of Sweden?", "What is the capital of Sweden?"),
    (("How old is Keanu Reeves?", "He is 62."), "What was his first film?", "What was Keanu Reeves' first film?"),
    (("Who is Peter's wife?", "Peter's wife is Karin."), "And Paul's?", "Who is Paul's wife?"),
    (("How do I bake bread?", "You need flour and water."), "Which flour is best?", "Which flour is best?"),
    (LAPTOPS, "Does the second one have HDMI?", "Does MacBook Air have HDMI?"),
    (("Remind me to call Julia tomorrow.", "I will remind you."), "What is her number?", "What is Julia's number?"),
    (("Remind me to call Julia tomorrow.", "I will remind you."), "Make it Thursday", "Make it Thursday"),
    (("Wer hat den Faust geschrieben?", "Goethe."), "Wann ist er gestorben?", "Wann ist er gestorben (Goethe)?"),
    (CUP, "and in 2010?", "Who won the World Cup in 2010?"),
    (PARENTS, "When is his birthday?", "When is Lars' birthday?"),
    (("My son is allergic to peanuts.", "Thanks."), "Can he eat almonds?", "Can my son eat almonds?"),
    (BUTTER, "is the latter vegan?", "is margarine vegan?"),
    (ADLON, "How do I get there by train?", "How do I get to the Hotel Adlon in Berlin by train?"),
    (TOWER, "and the Shanghai Tower?", "How tall is the Shanghai Tower?"),
    (TESLA, "Were they rivals?", "Were Nikola Tesla and Thomas Edison rivals?"),
    (("Is Tom's flight delayed?", "Yes, by 40 minutes."), "And Laura's?", "Is Laura's flight delayed?"),
    (("¿Cuál es la capital de Chile?", "Santiago."), "¿Y de Perú?", "¿Y de Perú?"),
]
UNSEEN_DOUBTS: list[Case] = [
    (("Edit config/app.yaml and config/db.yaml.", "Sure."), "Show it to me", "config/app.yaml or config/db.yaml"),
    (TESLA, "When was he born?", "Nikola Tesla or Thomas Edison"),
    (("I work at Siemens and my wife at Bosch.", "I see."), "How many people work there?", "Siemens or Bosch"),
]


async def told(said: tuple[str, ...], message: str) -> Rewritten:
    turns = tuple(Turn("assistant" if index % 2 else "user", text) for index, text in enumerate(said))
    return await Offline().rewrite(FollowUp(latest_user_message=message, recent_history=turns))


@pytest.mark.req("REWRITE-3", "REWRITE-6", "CTX-6")
@pytest.mark.parametrize(("said", "message", "explicit"), [*NAMED, *LEFT_ALONE, *UNSEEN])
async def test_a_follow_up_reads_as_a_person_would_put_it(said: tuple[str, ...], message: str, explicit: str) -> None:
    rewritten = await told(said, message)
    assert rewritten.query == explicit
    assert not rewritten.is_ambiguous


@pytest.mark.req("REWRITE-4")
@pytest.mark.parametrize(("said", "message", "choices"), [*DOUBTS, *UNSEEN_DOUBTS])
async def test_what_may_mean_two_things_is_asked_about(said: tuple[str, ...], message: str, choices: str) -> None:
    rewritten = await told(said, message)
    assert rewritten.is_ambiguous
    assert choices in str(rewritten.disambiguation_data)
    assert f"({choices})" in rewritten.query
