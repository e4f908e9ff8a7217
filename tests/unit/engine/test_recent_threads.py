"""A resent conversation joins a recent thread only where nothing but that thread explains what was sent."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from contextinfinity.domain.ids import new_id, now
from contextinfinity.domain.message import Message, TextBlock, ToolResultBlock, say
from contextinfinity.domain.session import NewSession, Owner, Session
from contextinfinity.domain.turn import COMPACTION, SIDE, Phase, Turn
from contextinfinity.engine.sent_conversation import (
    RecentThread,
    continued_from,
    holding_all_answers,
    is_quoted,
    read_recent,
    with_edited_answer,
)
from contextinfinity.storage.sqlite.store import SqliteStore
from contextinfinity_testing.builders import answer_turn, failed_turn, new_branch

OWNER = Owner(user_id="ann")
LONG = "The shed has four walls, one door and a roof that leaks in the north-east corner since the last storm."
TALK = (
    (f"Paint the shed. {LONG}", f"The north wall is painted. {LONG}"),
    (f"And now the door. {LONG}", f"The door is painted in green. {LONG}"),
)


def thread(*exchanges: tuple[str, str], first: int = 1, provider: str = "vendor", summary: str = "") -> RecentThread:
    """Return a thread with these exchanges."""
    moment, session_id, branch_id = now(), new_id(), new_id()
    turns = [
        Turn(
            id=new_id(),
            session_id=session_id,
            branch_id=branch_id,
            turn_seq=number,
            phase=Phase.DONE,
            state_before=new_id(),
            user_message=say("user", asked),
            answer=say("assistant", answer),
            provider=provider,
            created_at=moment,
            updated_at=moment,
        )
        for number, (asked, answer) in enumerate(exchanges, start=first)
    ]
    session = Session(
        id=session_id,
        owner=OWNER,
        kind="thread",
        active_branch=branch_id,
        created_at=moment,
        updated_at=moment,
        metadata={COMPACTION: summary} if summary else {},
    )
    return RecentThread(session=session, turns=tuple(turns))


def sent(*exchanges: tuple[str, str]) -> list[tuple[Message, Message]]:
    """Return exchanges as a client sends them."""
    return [(say("user", asked), say("assistant", answer)) for asked, answer in exchanges]


@pytest.mark.req("API-13")
def test_a_thread_is_recognised_when_all_its_answers_were_resent() -> None:
    inserted = ("These are the files.", "Ok.")
    known = thread(*TALK)
    assert holding_all_answers(sent(TALK[0], inserted, TALK[1]), [known, thread(inserted)]) is known
    stripped = thread((f"{TALK[0][0]}\n\n# Rules", TALK[0][1]), TALK[1])
    assert holding_all_answers(sent(*TALK), [stripped]) is stripped


@pytest.mark.req("API-13")
def test_tool_results_may_be_cleared_but_not_all_of_what_the_client_said_may_differ() -> None:
    def looped(*results: str) -> RecentThread:
        known = thread(("Paint the shed.", f"I look. {LONG}"), *((text, f"Seen. {LONG}") for text in results))
        messages = [
            Message(role="user", blocks=(ToolResultBlock(tool_use_id="c", content=(TextBlock(text=text),)),))
            for text in results
        ]
        turns = [replace(turn, user_message=one) for turn, one in zip(known.turns[1:], messages, strict=True)]
        return replace(known, turns=(known.turns[0], *turns))

    def resent(*results: str) -> list[tuple[Message, Message]]:
        return [(turn.user_message, turn.answer) for turn in looped(*results).turns if turn.answer is not None]

    known = looped(f"one {LONG}", f"two {LONG}{LONG}")
    assert holding_all_answers(resent("[cleared]", f"two {LONG}{LONG}"), [known]) is known
    assert holding_all_answers(resent("[cleared]", "[cleared]"), [known]) is None
    assert holding_all_answers(resent(f"other {LONG}", f"another {LONG}{LONG}"), [known]) is None


@pytest.mark.req("API-13")
@pytest.mark.parametrize(
    ("resent", "known"),
    [
        (TALK[:1], TALK),
        (TALK[::-1], TALK),
        ((TALK[0], ("Another question", TALK[1][1])), TALK),
        ([(3 * LONG, LONG)], [(3 * LONG, LONG)]),
        ([(asked[:50], answer) for asked, answer in TALK], [(asked[:50], answer) for asked, answer in TALK]),
        ([(asked, "Ok.") for asked, _ in TALK], [(asked, "Ok.") for asked, _ in TALK]),
        (TALK, ()),
    ],
    ids=["an answer is missing", "order", "another question", "one", "few of the user", "short answers", "empty"],
)
def test_a_thread_that_does_not_explain_all_is_not_joined(
    resent: tuple[tuple[str, str], ...], known: tuple[tuple[str, str], ...]
) -> None:
    assert holding_all_answers(sent(*resent), [thread(*known)]) is None


@pytest.mark.req("API-13")
def test_two_threads_that_fit_and_a_thread_that_went_on_are_not_joined() -> None:
    assert holding_all_answers(sent(*TALK), [thread(*TALK), thread(*TALK)]) is None
    known = thread(*TALK, ("And the roof?", "Not yet."))
    waiting = replace(known, turns=(*known.turns[:2], replace(known.turns[2], answer=None)))
    assert holding_all_answers(sent(*TALK), [waiting]) is None
    assert holding_all_answers(sent(*TALK), [thread(*TALK, provider="")]) is None, "no answer was given here"


@pytest.mark.req("API-13")
def test_an_edited_answer_is_found_from_the_beginning_of_one_thread_only() -> None:
    edited = (TALK[1][0], TALK[1][1].replace("green", "blue"))
    known = thread(*TALK)
    place = with_edited_answer(sent(TALK[0], edited), [known])
    assert place is not None
    assert (place.thread, place.follows, place.exchanges, place.turn) == (known, 1, 1, known.turns[1])
    assert with_edited_answer(sent(TALK[0], edited), [thread(*TALK), thread(*TALK)]) is None
    assert with_edited_answer(sent(TALK[0], edited), [thread(*TALK, first=2)]) is None
    assert with_edited_answer(sent(TALK[0], edited), [thread(*TALK, provider="")]) is None
    assert with_edited_answer(sent(TALK[0], (TALK[1][0], "No.")), [known]) is None, "another answer"
    assert with_edited_answer(sent(("Paint it", edited[1])), [thread(("Paint it", TALK[1][1]))]) is None, "too short"
    assert with_edited_answer(sent(("Other", TALK[0][1]), edited), [known]) is None


@pytest.mark.req("API-13")
def test_short_messages_are_no_quotation() -> None:
    assert is_quoted(f"Give this a title: {TALK[0][0].strip()}", thread(*TALK))
    assert is_quoted(f"Give this a title: {TALK[1][1].strip()}", thread(*TALK))
    assert not is_quoted("Yes, and thanks!", thread(("Yes", "Ok")))


@pytest.mark.req("API-13")
async def test_a_summary_made_here_leads_to_its_thread_if_nearly_all_of_it_was_sent(ledger: SqliteStore) -> None:
    branch = await new_branch(ledger, NewSession(owner=OWNER))
    summary = f"The user paints a shed.\nThe door is green.\n{LONG}"
    made = await answer_turn(ledger, branch.id, "Summarise", f"<analysis>Hm.</analysis><summary>{summary}</summary>")
    short = await answer_turn(ledger, branch.id, "Summarise", "The door is green.")
    known = thread(*TALK, summary=made.id)
    for text, found in ((f"Go on from here: {summary}", (known, made.id)), ("The door is green.", None)):
        place = await continued_from(ledger, [say("user", text)], [thread(*TALK), known])
        assert (place and (place[0], place[1].id)) == found
    briefly = thread(*TALK, summary=short.id)
    assert await continued_from(ledger, [say("user", "The door is green.")], [briefly]) is None
    gone = thread(*TALK, summary=new_id())
    assert await continued_from(ledger, [say("user", summary)], [gone]) is None


@pytest.mark.req("API-13", "API-14")
async def test_only_threads_of_the_owner_that_are_no_side_requests_are_compared(ledger: SqliteStore) -> None:
    mine = await new_branch(ledger, NewSession(owner=OWNER))
    await new_branch(ledger, NewSession(owner=OWNER, metadata={SIDE: "title"}))
    await new_branch(ledger, NewSession(owner=OWNER, kind="chat"))
    await new_branch(ledger, NewSession(owner=Owner(user_id="ann", org_id="acme")))
    turn = await answer_turn(ledger, mine.id, "Hi", "Hello")
    await failed_turn(ledger, mine.id, "And?")
    (found,) = await read_recent(ledger, OWNER)
    assert (found.session.id, [each.id for each in found.turns]) == (mine.session_id, [turn.id])
