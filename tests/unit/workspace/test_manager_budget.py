from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from contextinfinity.errors import InvalidInput, SettingsError
from contextinfinity.settings import BudgetSettings, Compaction, ModelSettings
from contextinfinity.text.tokens import counter_of
from contextinfinity.workspace.context_manager import ContextManager
from tests.unit.workspace.rooms import MODEL, SMALL, answer, machine, question


def fill(context: ContextManager, count: int, *, first: int = 0) -> None:
    for number in range(first, first + count):
        context.add_exchange(question(number), answer(number))


@pytest.mark.req("MANAGER-1", "BUDGET-4")
@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4", "anthropic/claude-opus-5"])
def test_tokens_are_counted_as_the_model_counts_them(tmp_path: Path, model: str) -> None:
    with ContextManager(model, settings=machine(tmp_path)) as context:
        assert context.history_token_count() == 0
        context.add_exchange("Grüße aus Köln, was kostet das?", "Nichts. " * 50)
        counted = counter_of("openai_chat", model).count(context.get_history())
        assert context.history_token_count() == counted > 50


@pytest.mark.req("BUDGET-5")
def test_the_budget_has_documented_keys_and_adds_up(tmp_path: Path) -> None:
    with ContextManager(MODEL, settings=machine(tmp_path)) as context:
        fill(context, 3)
        history = context.history_token_count()
        assert context.get_token_budget() == {
            "history_tokens": history,
            "max_history_tokens": 128_000 // 16,
            "max_input_tokens": 128_000,
            "max_output_tokens": 16_384,
            "remaining": 128_000 - history - 4000 - 1500,
            "needs_summary": False,
        }


@pytest.mark.req("BUDGET-5")
def test_the_room_that_remains_is_never_below_zero(tmp_path: Path) -> None:
    with ContextManager("gpt-4", settings=machine(tmp_path)) as context:
        context.add_message("user", "word " * 20_000)
        assert context.get_token_budget()["remaining"] == 0


@pytest.mark.req("BUDGET-5", "MANAGER-1")
def test_a_model_of_the_settings_has_the_window_they_say(tmp_path: Path) -> None:
    models = {"mine": ModelSettings(provider="openai_chat", model_id="some-llama", context_limit=32_768)}
    settings = replace(machine(tmp_path), models=models, budget=BudgetSettings(safety_margin_tokens=7))
    with ContextManager("mine", settings=settings) as context:
        budget = context.get_token_budget()
        assert (budget["max_input_tokens"], budget["remaining"]) == (32_768, 32_768 - 4000 - 7)


@pytest.mark.req("MANAGER-1", "COMPACT-1")
def test_compaction_is_due_above_the_trigger_and_not_at_it(tmp_path: Path) -> None:
    with ContextManager(MODEL, settings=machine(tmp_path)) as context:
        fill(context, 3)
        trigger = context.history_token_count()
    with ContextManager(
        MODEL, settings=machine(tmp_path), compaction_config={"compaction_trigger_tokens": trigger}
    ) as context:
        fill(context, 3)
        assert not context.should_compact()
        assert not context.get_token_budget()["needs_summary"]
        assert context.get_compaction_status() == {"enabled": True, "trigger": trigger, "percent": 100}
        assert context.compact_history_if_needed() is None
        context.add_message("user", "One more.")
        assert context.should_compact()
        assert context.get_token_budget()["needs_summary"]
        assert context.get_compaction_status()["percent"] > 100


@pytest.mark.req("MANAGER-1", "COMPACT-1")
@pytest.mark.parametrize("config", [None, {**SMALL, "enabled": False}])
def test_compaction_that_is_off_is_never_due(tmp_path: Path, config: dict[str, object] | None) -> None:
    with ContextManager(MODEL, settings=machine(tmp_path), compaction_config=config) as context:
        fill(context, 20)
        before = context.get_history()
        assert not context.should_compact()
        assert not context.get_token_budget()["needs_summary"]
        assert context.compact_history_if_needed() is None
        assert context.get_history() == before
        status = context.get_compaction_status()
        assert (status["enabled"], status["trigger"]) == (False, 400 if config else 24_000)
        assert status["percent"] > 0


@pytest.mark.req("MANAGER-1", "BUDGET-9")
def test_what_a_config_leaves_out_is_as_the_settings_say_within_the_window(tmp_path: Path) -> None:
    settings = replace(machine(tmp_path), compaction=Compaction(compaction_trigger_tokens=9000))
    with ContextManager(MODEL, settings=settings, compaction_config={}) as context:
        assert context.get_compaction_status() == {"enabled": True, "trigger": 9000, "percent": 0}
    with ContextManager("gpt-4", settings=settings, compaction_config={}) as context:
        assert 1000 < context.get_compaction_status()["trigger"] < 8192 * 3 // 4


@pytest.mark.req("MANAGER-1")
@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("24000", "type str"),
        ([], "type list"),
        ({"trigger": 5}, "'trigger'.*compaction_trigger_tokens.*detection_model"),
        ({5: 5}, "a key 5"),
        ({"compaction_trigger_tokens": 0}, r"compaction_trigger_tokens.* is 0; it must be an integer from 1"),
        ({"compaction_trigger_tokens": "many"}, "compaction_trigger_tokens"),
        ({"verbatim_window_tokens": -1}, "verbatim_window_tokens"),
        ({"summary_budget_tokens": 2.5}, "summary_budget_tokens"),
        ({"min_verbatim_exchanges": True}, "min_verbatim_exchanges"),
        ({"enabled": "yes"}, "enabled.*true or false"),
        ({"detection_model": None}, "detection_model"),
        ({"detection_model": "small"}, "'small'; the settings know: none"),
        ({"detection_model": "offline", "detector_model": "offline"}, "Name one"),
    ],
)
def test_a_config_that_cannot_be_followed_is_refused_in_words(tmp_path: Path, config: Any, says: str) -> None:
    before = threading.active_count()
    with pytest.raises(InvalidInput, match=says):
        ContextManager(MODEL, settings=machine(tmp_path), compaction_config=config)
    assert threading.active_count() == before


@pytest.mark.req("MANAGER-1")
def test_a_detection_model_is_one_of_the_settings(tmp_path: Path) -> None:
    settings = replace(machine(tmp_path), models={"small": ModelSettings(provider="scripted")})
    with ContextManager(MODEL, tmp_path, settings=settings, compaction_config={"detection_model": "small"}) as context:
        assert context.get_compaction_status()["enabled"]
    with pytest.raises(InvalidInput, match=r"'tiny'; the settings know: small"):
        ContextManager(MODEL, tmp_path, settings=settings, compaction_config={"detection_model": "tiny"})


@pytest.mark.req("MANAGER-1")
@pytest.mark.parametrize("name", ["", " ", None, 7])
def test_a_manager_needs_a_model(tmp_path: Path, name: Any) -> None:
    with pytest.raises(InvalidInput, match="model_name"):
        ContextManager(name, settings=machine(tmp_path))


@pytest.mark.req("MANAGER-1")
def test_a_model_that_cannot_be_run_is_refused(tmp_path: Path) -> None:
    settings = replace(machine(tmp_path), models={"mine": ModelSettings(provider="local")})
    before = threading.active_count()
    with pytest.raises(SettingsError, match="mine"):
        ContextManager("mine", tmp_path, settings=settings)
    assert threading.active_count() == before


@pytest.mark.req("MANAGER-1")
def test_the_cache_target_is_a_number_of_tokens_or_none(tmp_path: Path) -> None:
    with ContextManager(MODEL, None, 1024, settings=machine(tmp_path)) as context:
        assert context.cache_target_tokens == 1024
    for wrong in (-1, "1024", True, 1.5):
        with pytest.raises(InvalidInput, match="cache_target_tokens"):
            ContextManager(MODEL, None, wrong, settings=machine(tmp_path))  # type: ignore[arg-type]


@pytest.mark.req("MANAGER-1")
def test_a_repository_has_to_be_a_folder(tmp_path: Path) -> None:
    for wrong in (tmp_path / "nowhere", __file__):
        with pytest.raises(InvalidInput, match="is not a folder"):
            ContextManager(MODEL, wrong, settings=machine(tmp_path))


@pytest.mark.req("MANAGER-1", "COMPACT-1")
@pytest.mark.parametrize("kept", [True, False])
def test_the_last_exchanges_stay_word_for_word_as_many_as_the_config_says(tmp_path: Path, *, kept: bool) -> None:
    config = {"compaction_trigger_tokens": 2000, "verbatim_window_tokens": 50, "min_verbatim_exchanges": 10}
    root = tmp_path if kept else None
    with ContextManager(MODEL, root, settings=machine(tmp_path / "data"), compaction_config=config) as context:
        fill(context, 60)
        assert context.compact_history_if_needed() is not None
        assert len(context.get_history()) == 2 + 20
