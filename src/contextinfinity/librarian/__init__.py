"""Summaries of the turns that leave the verbatim part of the prompt."""
