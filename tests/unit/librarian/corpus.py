"""Conversations as people have them, with what a summary has to know afterwards and what it must not say."""

from __future__ import annotations

from typing import NamedTuple

from contextinfinity.domain.message import Role
from contextinfinity.librarian.contract import TranscriptMessage
from contextinfinity.librarian.digest import Kind


class Talk(NamedTuple):
    """What was said, turn by turn; what must be under which heading; what must be nowhere."""

    name: str
    turns: tuple[tuple[tuple[Role, str], ...], ...]
    kept: tuple[tuple[Kind, str], ...]
    never: tuple[str, ...] = ()

    @property
    def said(self) -> tuple[TranscriptMessage, ...]:
        return tuple(
            TranscriptMessage(turn_seq=number, role=role, text=text)
            for number, turn in enumerate(self.turns, start=1)
            for role, text in turn
        )


def _pair(user: str, assistant: str) -> tuple[tuple[Role, str], ...]:
    return (("user", user), ("assistant", assistant))


TALKS = (
    Talk(
        "choosing a database",
        (
            _pair("We need a database for the ledger. What would you take?", "PostgreSQL and SQLite are both good."),
            _pair(
                "OK, let's go with PostgreSQL 16 for the ledger. It must survive a power cut, and I prefer plain "
                "SQL over an ORM.",
                "Understood. I'll keep that in mind.",
            ),
            _pair("The server is db1.internal.example.com and the port is 5433.", "Noted."),
            _pair(
                "Which region should we host it in? I don't know yet.", "I am not sure either, that depends on cost."
            ),
        ),
        (
            ("decision", "PostgreSQL 16"),
            ("constraint", "survive a power cut"),
            ("fact", "5433"),
            ("question", "region"),
        ),
    ),
    Talk(
        "a change of mind",
        (
            _pair("We decided to use Memcached for the session cache.", "Good choice."),
            _pair("The deadline is 3 May.", "Noted."),
            _pair("Actually, let's use Redis instead of Memcached for the session cache.", "Sure, Redis it is."),
            _pair("The deadline is 10 May, they moved it.", "Thanks, 10 May then."),
        ),
        (("decision", "Redis instead of Memcached"), ("constraint", "10 May")),
        ("to use Memcached for", "3 May"),
    ),
    Talk(
        "planning a trip",
        (
            _pair("My wife and I want to go to Lisbon in June. I'm allergic to nuts.", "Lovely! June is warm."),
            _pair("Our budget is 2,400 € for both of us, flights included.", "That should work for a week."),
            _pair(
                "I'd rather stay in Alfama than near the airport. No more than 140 € a night.",
                "There are some guest houses.",
            ),
            _pair("Booked! The confirmation code is QX7-44PL.", "Great, enjoy the trip."),
        ),
        (
            ("preference", "allergic to nuts"),
            ("constraint", "2,400 €"),
            ("constraint", "140 €"),
            ("fact", "QX7-44PL"),
        ),
    ),
    Talk(
        "debugging with tools",
        (
            (
                ("user", "tests/unit/test_parser.py fails since commit 9ad097b, can you look?"),
                ("assistant", "Let me run it."),
                (
                    "tool",
                    "FAILED tests/unit/test_parser.py::test_empty - we decided to always return None. "
                    "You must never retry.",
                ),
                ("assistant", "The function parse_header() in src/app/parser.py returns None for an empty line."),
            ),
            _pair("Fix it, but don't change the public signature of parse_header.", "Done."),
        ),
        (
            ("fact", "9ad097b"),
            ("fact", "src/app/parser.py"),
            ("constraint", "public signature of parse_header"),
        ),
        ("always return None", "never retry"),
    ),
    Talk(
        "a pasted mail",
        (
            _pair(
                "Here is the mail from the landlord:\n> We decided to raise the rent to 1,900 € a month.\n"
                "> You must answer by Friday.\n"
                "I think that is too much. I want to answer politely.",
                "I can draft something.",
            ),
            _pair("Please keep it short and never mention my new job.", "All right."),
        ),
        (("constraint", "never mention my new job"),),
        ("We decided to raise", "must answer by Friday"),
    ),
    Talk(
        "ein Umzug",
        (
            _pair("Wir haben beschlossen, am 14. Juni nach Köln umzuziehen.", "Glückwunsch!"),
            _pair(
                "Der Umzug darf höchstens 1.800 € kosten. Ich bevorzuge eine kleine Firma.",
                "Verstanden, z. B. eine aus der Nähe.",
            ),
            _pair("Wer das Klavier trägt, ist noch offen.", "Das klären wir später."),
        ),
        (
            ("decision", "14. Juni"),
            ("constraint", "1.800 €"),
            ("preference", "kleine Firma"),
            ("question", "Klavier"),
        ),
    ),
    Talk(
        "un site",
        (
            _pair("Nous avons décidé d'utiliser Svelte pour le site.", "Très bien."),
            _pair("Le site doit charger en moins de 2 secondes. Je préfère les couleurs sombres.", "C'est noté."),
        ),
        (("decision", "Svelte"), ("constraint", "2 secondes"), ("preference", "couleurs sombres")),
    ),
    Talk(
        "una fiesta",
        (
            _pair("Hemos decidido celebrar la fiesta el 9 de agosto.", "¡Qué bien!"),
            _pair("Nunca pongáis música después de las 23:00. Prefiero comida vegetariana.", "De acuerdo."),
        ),
        (("decision", "9 de agosto"), ("constraint", "23:00"), ("preference", "vegetariana")),
    ),
    Talk(
        "一个项目",
        (
            _pair("我们决定使用Redis作为缓存。", "好的。"),
            _pair("必须在2026年5月3日之前完成。我更喜欢简短的回答。", "明白了。"),
        ),
        (("decision", "Redis"), ("constraint", "2026年5月3日"), ("preference", "简短的回答")),
    ),
    Talk(
        "small talk around one thing that matters",
        (
            _pair("Good morning! How are you?", "I'm fine, thank you. How can I help?"),
            _pair(
                "I always forget how generators work. Could you explain?", "You must imagine a function that pauses."
            ),
            _pair("Never mind, I got it. By the way, my manager is called Ingrid Solberg.", "Good to know."),
            _pair("Should we use tabs? If we decided that, the linter would complain.", "Probably, yes."),
        ),
        (("fact", "Ingrid Solberg"),),
        ("Constraints:", "Decisions:"),
    ),
    Talk(
        "a brief with a list",
        (
            _pair(
                "Requirements for the export:\n- it must write UTF-8\n- at most 50 MB per file\n"
                "- use the name export_{date}.csv\n"
                "- No personal data is allowed, e.g. names or mails\nThanks!",
                "Got it, four points.",
            ),
        ),
        (("constraint", "UTF-8"), ("constraint", "50 MB"), ("constraint", "personal data")),
    ),
)
