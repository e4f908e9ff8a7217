"""The order of a workspace's prompt, with and without tiers."""

from __future__ import annotations

from typing import Any

import pytest

from contextinfinity.workspace.assembly import ChatMessage, PromptParts, TierContent, assemble_flat, assemble_tiered

HISTORY = [{"role": "user", "content": "earlier"}, {"role": "assistant", "content": "said"}]
OLD = [{"role": "user", "content": "long ago"}, {"role": "assistant", "content": "told"}]


def text(message: ChatMessage) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def marked(messages: list[ChatMessage]) -> list[int]:
    return [
        place
        for place, message in enumerate(messages)
        if not isinstance(message["content"], str) and any("cache_control" in part for part in message["content"])
    ]


def place_of(messages: list[ChatMessage], words: str) -> int:
    (place,) = (place for place, message in enumerate(messages) if words in text(message))
    return place


def parts(**how: Any) -> PromptParts:
    return PromptParts(**{"system": "Be brief.", "message": "now", **how})


@pytest.mark.req("FILES-3", "FILES-4")
def test_the_flat_order() -> None:
    messages = assemble_flat(parts(symbols="map", tree="a.py", urls="page", files="open", history=HISTORY))
    assert [(message["role"], text(message).split("\n")[0]) for message in messages] == [
        ("system", "Be brief."),
        ("user", "# Repository Files"),
        ("assistant", text(messages[2])),
        ("user", "# URL Context"),
        ("assistant", text(messages[4])),
        ("user", "# Working Files"),
        ("assistant", text(messages[6])),
        ("user", "earlier"),
        ("assistant", "said"),
        ("user", "now"),
    ]
    assert messages[0]["content"] == "Be brief.\n\n# Repository Structure\n\nmap"
    assert marked(messages) == []


@pytest.mark.req("FILES-3")
def test_what_is_empty_makes_no_message() -> None:
    assert [message["role"] for message in assemble_flat(parts())] == ["system", "user"]
    assert [message["role"] for message in assemble_tiered(parts())] == ["system", "user"]


@pytest.mark.req("FILES-3")
@pytest.mark.parametrize("assemble", [assemble_flat, assemble_tiered])
def test_images_make_a_list_of_parts_and_no_images_a_text(assemble: Any) -> None:
    assert assemble(parts())[-1]["content"] == "now"
    shown = assemble(parts(images=["data:image/png;base64,AA=="]))[-1]["content"]
    assert [part["type"] for part in shown] == ["text", "image_url"]


@pytest.mark.req("FILES-3")
def test_the_system_message_carries_the_marker_of_l0_unless_l0_has_history() -> None:
    tier = TierContent(symbols="stable map", files="stable file")
    messages = assemble_tiered(parts(tiers={"L0": tier}))
    assert text(messages[0]) == (
        "Be brief.\n\n# Repository Structure\n\nstable map\n\n# Reference Files (Stable)\n\nstable file"
    )
    assert marked(messages) == [0]
    messages = assemble_tiered(parts(tiers={"L0": TierContent(symbols="map", history=OLD)}))
    assert marked(messages) == [place_of(messages, "told")] == [2]


@pytest.mark.req("FILES-3")
def test_tiers_stand_in_order_each_with_its_header_its_history_and_one_marker() -> None:
    messages = assemble_tiered(
        parts(
            tiers={
                "L0": TierContent(symbols="zero"),
                "L1": TierContent(symbols="one", files="file one"),
                "L2": TierContent(files="file two"),
                "L3": TierContent(symbols="three", files="file three", history=OLD),
            },
            tree="tree",
            urls="page",
            files="working",
            history=HISTORY,
        )
    )
    order = ["zero", "one", "file two", "three", "long ago", "tree", "page", "working", "earlier"]
    places = [place_of(messages, f"{words}") for words in order[:1]]
    places += [next(p for p, m in enumerate(messages) if text(m).endswith(words)) for words in order[2:]]
    assert places == sorted(places)
    assert place_of(messages, "# Reference Files\n") == 1
    assert place_of(messages, "# Reference Files (L2)") == 3
    assert "# Repository Structure (continued)\n\nthree\n\n# Reference Files (L3)" in text(messages[5])
    assert text(messages[-1]) == "now"
    assert marked(messages) == [0, 2, 4, place_of(messages, "told")]
    assert [message["role"] for message in messages[1:]] == ["user", "assistant"] * 8 + ["user"]


@pytest.mark.req("FILES-3")
def test_a_prefix_under_the_models_minimum_has_no_marker_and_there_are_at_most_four() -> None:
    tiers = {name: TierContent(symbols="x" * 400, history=OLD) for name in ("L0", "L1", "L2", "L3")}
    assert len(marked(assemble_tiered(parts(tiers=tiers)))) == 4
    assert len(marked(assemble_tiered(parts(tiers=tiers), count=len, min_cache_tokens=1300))) == 2
    assert marked(assemble_tiered(parts(tiers=tiers), count=len, min_cache_tokens=90_000)) == []


@pytest.mark.req("FILES-3")
def test_a_marker_that_no_tier_needs_is_set_before_the_current_message() -> None:
    tiers = {"L0": TierContent(symbols="zero"), "L3": TierContent(files="three", history=OLD)}
    messages = assemble_tiered(parts(tiers=tiers, tree="tree", files="open", history=HISTORY))
    assert marked(messages) == [0, place_of(messages, "told"), place_of(messages, "said")]
    assert place_of(messages, "said") == len(messages) - 2
    assert marked(assemble_tiered(parts(history=HISTORY), min_cache_tokens=90_000)) == []
    four = {**tiers, "L1": TierContent(symbols="one"), "L2": TierContent(symbols="two")}
    assert len(marked(assemble_tiered(parts(tiers=four, history=HISTORY)))) == 4
    messages = assemble_tiered(parts(tiers=four, history=HISTORY), min_cache_tokens=50)
    assert marked(messages) == [2, 4, place_of(messages, "told"), place_of(messages, "said")], "L0 alone is too short"


@pytest.mark.req("FILES-3")
def test_no_text_is_empty_and_a_marker_stands_on_the_last_text_of_a_list() -> None:
    said = [{"role": "user", "content": [{"type": "text", "text": "see"}, {"type": "image_url"}]}]
    messages = assemble_tiered(
        parts(tiers={"L0": TierContent(history=said)}, history=[*HISTORY[:1], {**HISTORY[1], "content": ""}])
    )
    assert "cache_control" in messages[1]["content"][0]
    assert "cache_control" not in said[0]["content"][0], "what was given stays as it was"
    assert all(text(message) for message in messages)
