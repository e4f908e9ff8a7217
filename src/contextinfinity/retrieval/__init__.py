"""Retrieval: split messages into chunks, rank search results, and pack them into a prompt. Pure functions."""
