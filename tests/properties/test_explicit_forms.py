"""What holds for the explicit form of any message after any conversation."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from contextinfinity.rewriting import FollowUp, OfflineRewriter
from contextinfinity.threads import Turn

GLUE = {"in", "to", "and"}
WORDS = re.compile(r"\w+")

SAYINGS = """
he she they it him her his their its this that these those there then else other others another more one the a
who what when where why how did was were is are any and or in of to from about first second former latter book band
company city file year Anna Peter Jones Larry Page Berlin London Google Dune "Dune" src/app.py parse_args() 1998
May 3, 12 Monday on at Hilton two services my our My wife flight leaves by iPhone 15 useEffect number Delete them
make pancakes recommend he's latter's about into tomorrow
(band) James' O'Brian A.B. The I . ? ! , : ; - ( ) " ' 1. 2. * er sie wurde il elle est él qué
"""
PIECES = [*SAYINGS.split(), "\n"]
ROLES = st.sampled_from(["user", "assistant", "system", "tool"])
SPOKEN = st.lists(st.sampled_from(PIECES), max_size=25).map(" ".join)
TEXTS = SPOKEN | st.text(max_size=60)
TURNS = st.lists(st.builds(Turn, ROLES, TEXTS), max_size=8).map(tuple)


@given(message=TEXTS, turns=TURNS, snippet=st.none() | TEXTS)
async def test_nothing_appears_that_is_neither_in_the_message_nor_in_its_context(
    message: str, turns: tuple[Turn, ...], snippet: str | None
) -> None:
    follow_up = FollowUp(latest_user_message=message, recent_history=turns, memory_snippet=snippet)
    rewritten = await OfflineRewriter().rewrite(follow_up)
    known = {
        word for text in (message, snippet or "", *(turn.content for turn in turns)) for word in WORDS.findall(text)
    }
    assert {*WORDS.findall(rewritten.query)} <= known | GLUE | {"s"}
    assert (rewritten.disambiguation_data is not None) == rewritten.is_ambiguous
    assert await OfflineRewriter().rewrite(follow_up) == rewritten


@given(message=TEXTS)
async def test_without_a_context_every_message_stays_as_it_is(message: str) -> None:
    assert (await OfflineRewriter().rewrite(FollowUp(latest_user_message=message))).query == message
