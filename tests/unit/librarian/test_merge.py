"""Who may take the place of whom, and what takes something back."""

from __future__ import annotations

import pytest

from contextinfinity.domain.message import Role
from contextinfinity.librarian.digest import Entry, Kind, entry
from contextinfinity.librarian.merge import merged


def made(kind: Kind, turn_seq: int, who: Role, text: str) -> Entry:
    one = entry(kind, text, turn_seq, who)
    assert one is not None
    return one


async def left(*entries: Entry) -> list[tuple[str, str | None]]:
    return [(each.text, each.who) for each in await merged(entries)]


@pytest.mark.req("LIBRARIAN-3")
@pytest.mark.parametrize("who", ["assistant", "tool", "system"])
@pytest.mark.parametrize("echo", ["deadline is 3 May", "Got it, deadline is 3 May"])
async def test_an_echo_leaves_the_entry_to_the_one_who_said_it(who: Role, echo: str) -> None:
    said = made("constraint", 1, "user", "deadline is 3 May")
    assert await merged([said, made("constraint", 4, who, echo)]) == [said]


@pytest.mark.req("LIBRARIAN-3")
@pytest.mark.parametrize("who", ["assistant", "tool", "system"])
async def test_what_a_person_stated_gives_way_to_a_person_only(who: Role) -> None:
    said = made("fact", 1, "user", "port is 8080")
    assert ("port is 8080", "user") in await left(said, made("fact", 2, who, "port is 5432"))
    assert await left(said, made("fact", 2, "user", "port is 5432")) == [("port is 5432", "user")]
    chosen = made("decision", 1, "user", "use Redis for sessions")
    taken_back = made("decision", 2, who, "no longer use Redis for sessions")
    assert ("use Redis for sessions", "user") in await left(chosen, taken_back)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Deploys must go through Ingrid", "Deploys must now also go through release checklist"),
        ("limit is 5 users", "limit is 3 projects"),
        ("upload limit is 20 MB", "upload limit is 100 files"),
        ("We must not store card numbers", "We now store card tokens, and card numbers must be masked in logs"),
        ("use Redis for caching", "use Redis for queues now"),
    ],
)
async def test_what_does_not_exclude_the_first_leaves_it(first: str, second: str) -> None:
    both = await left(made("constraint", 1, "user", first), made("constraint", 2, "user", second))
    assert both == [(first, "user"), (second, "user")]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("limit is 5 users", "limit is 8 users"),
        ("budget is 4,200 €", "budget is now 5000"),
        ("use Redis for sessions", "use Valkey instead of Redis for sessions"),
        ("deploy billing on Friday", "never deploy billing on Friday"),
        ("host in Frankfurt", "we no longer host in Frankfurt"),
    ],
)
async def test_what_excludes_the_first_takes_its_place(first: str, second: str) -> None:
    both = await left(made("constraint", 1, "user", first), made("constraint", 2, "user", second))
    assert both == [(second, "user")]
