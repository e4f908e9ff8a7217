"""Settings of a machine of its own, and things to say."""

from __future__ import annotations

from pathlib import Path

from contextinfinity.settings import General, Settings

MODEL = "gpt-4o"
SMALL = {"compaction_trigger_tokens": 400, "verbatim_window_tokens": 100, "summary_budget_tokens": 120}


def machine(folder: Path) -> Settings:
    """Settings whose ledger is in that folder."""
    return Settings(general=General(data_dir=str(folder)))


def question(number: int) -> str:
    return f"Question {number}: how do we keep the {number}th report readable for people who come late to it?"


def answer(number: int) -> str:
    return f"After report {number} we decided to write chapter {number} first and to leave the figures for the end."
