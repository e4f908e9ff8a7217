"""Conversations from elsewhere, and to elsewhere.

``records`` cuts a file into records without holding it, ``openai`` reads one record as a message, ``importing`` puts
messages into the ledger, each once.
"""
