"""Summaries: what leaves the word-for-word part of the prompt, told in few words."""
