"""Import conversations from other programs, and export them.

``records`` splits a file into records in bounded memory, ``openai_messages`` parses a record as a message, and
``importer`` writes messages to the ledger, each once. ``exporter`` writes conversations in three formats.
"""
